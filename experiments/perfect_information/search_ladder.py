"""Elo of AlphaZero and of Student of Games by simulations (Schmid et al. 2023).

This is Figure 4, with Tables S3 and S4. Both have been trained by other experiments, in the same
game. The trained networks stay as they are, and the searches grow. Players meet in pairs of games
from random openings.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator, Sequence

from rich.table import Table

from experiments.harness import ladder_ratings, plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.ladder_ratings import Ladder, Rating, matches_of
from experiments.harness.runs import Run, RunArguments
from experiments.perfect_information import paired_matches, published_elo
from experiments.perfect_information.paired_matches import Pair
from experiments.perfect_information.search_matches import (
    AGENTS,
    Config,
    name_of,
    play_matches,
    players,
)
from experiments.perfect_information.student import SEARCHES_ANEW
from experiments.perfect_information.trained_players import (
    ALPHAZERO,
    STUDENT,
    in_folders,
    last_network,
    without_networks,
)
from jaxgames.checks import at_least

GAMES_FILE = "pairs.csv"
_ANCHOR = 800  # simulations of the Student of Games whose Elo is 0, as in Figure 4
_SHOWN_GAPS = {
    "Go": published_elo.GAPS["go_19x19"],
    "Go, recursive queries": published_elo.gaps(published_elo.TABLE_S4),
    "chess": published_elo.GAPS["chess"],
}
_SIMULATIONS = (32, 100, 320, 800, 1600, 3200)
PRESETS = {
    "smoke": Config(
        game="tic_tac_toe", simulations=(2, 8), everybody=True, pairs=4, opening_moves=2, batch=2
    ),
    "cpu": Config(simulations=_SIMULATIONS, everybody=False, pairs=24, batch=24),
    "paper": Config(simulations=_SIMULATIONS, everybody=True, pairs=104, batch=104),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(RunArguments):
    """The options beside the preset."""

    game: str | None = None
    """A game of pgx, in which both were trained; None: that of the preset."""
    alphazero: pathlib.Path | None = None
    """Folder of a run that trained AlphaZero, such as alphazero_connect_four. None: it searches
    without a network."""
    student_of_games: pathlib.Path | None = None
    """The same for Student of Games, such as sog_connect_four."""
    pairs: int | None = None
    """Openings of each match, from each of which two games are played; None: the preset's."""
    network: int = 0
    """The seed of the networks, in runs that train several. They play as they are after the last
    step."""


def ladder_of(config: Config, pairs: Sequence[Pair]) -> Ladder:
    """The ladder of all players."""
    met = ((pair.first, pair.second, pair.share) for pair in pairs)
    return Ladder(matches_of(met), len(players(config)))


def anchor(config: Config) -> int:
    """The player whose Elo is 0: Student of Games with 800 simulations, or with the fewest."""
    count = _ANCHOR if _ANCHOR in config.simulations else config.simulations[0]
    return players(config).index((STUDENT, count))


def gaps(config: Config, ladder: Ladder) -> dict[int, Rating]:
    """What Student of Games is stronger than AlphaZero, by simulations."""
    count = len(config.simulations)
    return {
        simulations: ladder.difference(count + number, number)
        for number, simulations in enumerate(config.simulations)
    }


def rows(config: Config, pairs: Sequence[Pair]) -> Iterator[dict[str, object]]:
    """A row for every player."""
    ladder = ladder_of(config, pairs)
    ratings = ladder.ratings(anchor(config))
    for number, ((agent, simulations), rating) in enumerate(
        zip(players(config), ratings, strict=True)
    ):
        points, lost = ladder.points[number].sum(), ladder.points[:, number].sum()
        yield dict(agent=agent, simulations=simulations, points=points, games=points + lost) | {
            name: getattr(rating, name) for name in ("bound", "value", "low", "high")
        }


def write_more(run: Run, pairs: Sequence[Pair]) -> None:
    """Writes the results of all games."""
    names = [name_of(*player) for player in players(run.config)]
    results.write_csv(run.out / GAMES_FILE, paired_matches.rows(pairs, names.__getitem__))


def numbers(config: Config, pairs: Sequence[Pair]) -> Iterator[results.Number]:
    """Elo of all players, the gaps between the ladders, and whether they grow."""
    ladder = ladder_of(config, pairs)
    paper = published_elo.GAPS.get(config.game, {})
    found = [
        rating.number(name_of(*player))
        for player, rating in zip(players(config), ladder.ratings(anchor(config)), strict=True)
    ]
    for simulations, gap in gaps(config, ladder).items():
        names = [name_of(agent, simulations) for agent in AGENTS[::-1]]
        found.append(gap.number(" less ".join(names), paper=paper.get(simulations)))
    yield from (number for number in found if number is not None)
    for number, agent in enumerate(AGENTS):
        count = len(config.simulations)
        own = range(number * count, (number + 1) * count)
        steps, samples = ladder.growth(own)
        yield results.Number(name=f"{agent}: Elo grows", value=steps, unit="share of steps")
        yield results.Number(
            name=f"{agent}: Elo grows at every step", value=samples, unit="share of samples"
        )


def tables(config: Config, pairs: Sequence[Pair]) -> Iterator[Table]:
    """Elo by simulations, and the gaps beside the paper's."""
    ladder, count = ladder_of(config, pairs), len(config.simulations)
    ratings, between = ladder.ratings(anchor(config)), gaps(config, ladder)
    lines = [
        (f"{simulations:,}", str(ratings[n]), str(ratings[count + n]), str(between[simulations]))
        for n, simulations in enumerate(config.simulations)
    ]
    headings = ("simulations", *AGENTS, f"{STUDENT} less {ALPHAZERO}")
    yield text_table(f"search_ladder: Elo in {config.game}", headings, lines, labels=0)
    lines = [
        (game, f"{simulations:,}", f"{gap:+,.0f}")
        for game, known in _SHOWN_GAPS.items()
        for simulations, gap in known.items()
    ]
    headings = ("published", "simulations", f"{STUDENT} less {ALPHAZERO}")
    yield text_table("Elo of Tables 1, S3 and S4", headings, lines)


def draw(path: pathlib.Path, config: Config, pairs: Sequence[Pair]) -> None:
    """Elo by simulations as in Figure 4, and the gap, with the paper's points."""
    ladder, count = ladder_of(config, pairs), len(config.simulations)
    ratings, zero = ladder.ratings(anchor(config)), published_elo.TABLE_S3[STUDENT][_ANCHOR]
    with plots.figure(path, rows=1, columns=2, size=(8.4, 3.4)) as ((left, right),):
        for number, agent in enumerate(AGENTS):
            own = dict(zip(config.simulations, ratings[number * count :], strict=False))
            ladder_ratings.draw(left, own, number, agent)
            known = {x: elo - zero for x, elo in published_elo.TABLE_S3[agent].items()}
            plots.points(left, known, number)
        left.plot([], [], markeredgecolor="black", label="Go (paper)", **plots.HOLLOW)
        left.set(xscale="log", xlabel="simulations", ylabel="relative Elo")
        left.set_title(config.game)
        ladder_ratings.draw(right, gaps(config, ladder), 2, f"{STUDENT} less {ALPHAZERO}")
        for (game, known), shape in zip(_SHOWN_GAPS.items(), "oDs", strict=True):
            style = plots.HOLLOW | {"marker": shape, "markeredgecolor": "black"}
            right.plot([*known], [*known.values()], label=f"{game} (paper)", **style)
        right.set(xscale="log", xlabel="simulations", ylabel="difference in Elo")


def configure(config: Config, options: Options) -> Config:
    """The preset with the options.

    Raises:
      ValueError: an option cannot be, or a folder has no run of training with this network.
    """
    at_least(0, network=options.network)
    if options.pairs is not None:
        at_least(1, pairs=options.pairs)
    in_folders(options, lambda folder: last_network(folder, options.network))  # refused here
    return dataclasses.replace(
        config,
        game=options.game or config.game,
        alphazero=str(options.alphazero or ""),
        student_of_games=str(options.student_of_games or ""),
        network=options.network,
        pairs=options.pairs or config.pairs,
    )


def measure(config: Config) -> str:
    """What the numbers are."""
    shown = name_of(*players(config)[anchor(config)])
    return (
        f"Elo in {config.game} by simulations, 0 for {shown}, from {2 * config.pairs} games of each"
        " match; 'A less B' is the difference in Elo; published: Go (Table S3) and chess (Table 1)"
    )


def deviations(config: Config) -> Iterator[str]:
    """From the paper's setting, in words."""
    if config.game not in published_elo.GAPS:
        yield f"{config.game} instead of chess and Go"
    yield from without_networks(config)
    yield SEARCHES_ANEW
    yield f"games begin with {config.opening_moves} random moves, as the agents draw next to none"
    yield (
        "c = 10 from 320 simulations on, and 1 below (the paper, which has 800 and more: c = 10 in"
        " chess; in Go 1 with 800 simulations, 10 from 2,000 on, and 16 with 16,000 in Figure 4)"
    )
    if not config.everybody:
        yield "players meet only the next on their ladder and the rival with as many simulations"


COMMAND = Experiment(
    name="search_ladder",
    shown="Elo by simulations",
    presets=PRESETS,
    preset_docs={
        "smoke": "seconds, in tic-tac-toe without networks",
        "cpu": "two hours on one core in Gardner chess",
        "paper": "208 games of everybody with everybody, for an accelerator",
    },
    options=Options,
    configure=configure,
    batches=lambda config: {"batch": config.batch},
    compute=play_matches,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    measure=measure,
    deviations=deviations,
    error_bars=ladder_ratings.ERROR_BARS + paired_matches.OF_THESE_NETWORKS,
    more_files=(GAMES_FILE,),
    write_more=write_more,
)
