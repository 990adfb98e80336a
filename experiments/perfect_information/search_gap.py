"""Where Student of Games' gap to AlphaZero comes from: network or search.

Each of two trained networks plays with both searches. Growing-tree CFR also searches with other
numbers of simulations for an iteration of CFR (c), and of children that a new node starts with (k).
All are measured in pairs of games, and in Connect Four by their moves in positions whose moves are
all scored, too.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float
from rich.table import Table

from experiments.harness import ladder_ratings, plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.runs import Run, RunArguments, interrupted_config
from experiments.perfect_information import paired_matches, published_elo
from experiments.perfect_information.connect_four_positions import COLUMNS
from experiments.perfect_information.connect_four_training import KEEPS, SHARES
from experiments.perfect_information.network_and_search import (
    Config,
    Outcome,
    compute,
    gaps,
    players,
    positions_of,
)
from experiments.perfect_information.student import SEARCHES_ANEW
from experiments.perfect_information.trained_players import (
    STUDENT,
    in_folders,
    trained_networks,
    without_networks,
)
from jaxgames.adapters.pgx_beliefs import pgx_beliefs

_GAMES_FILE = "pairs.csv"

PRESETS = {
    "smoke": Config(
        networks=1, simulations=4, paces=(2.0,), expands=(2,), every=120, pairs=2, batch=8
    ),
    "cpu": Config(
        simulations=100, paces=(0.2, 2.0, 10.0, 50.0), expands=(2, COLUMNS), pairs=24, batch=24
    ),
    "paper": Config(
        simulations=800, paces=(0.2, 1.0, 2.0, 50.0), expands=(2, COLUMNS), pairs=104, batch=104
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(RunArguments):
    """The options beside the preset."""

    game: str | None = None
    """A game of pgx, in which both were trained; None: that of the preset. Moves are scored in
    connect_four only."""
    alphazero: pathlib.Path | None = None
    """Folder of a run that trained AlphaZero, such as alphazero_connect_four. None: there is no
    network, all values are 0 and all priors uniform."""
    student_of_games: pathlib.Path | None = None
    """The same for Student of Games, such as sog_connect_four."""


def good_moves(config: Config, outcome: Outcome, player: int) -> dict[str, Float[np.ndarray, " _"]]:
    """Whether a player's moves are good, by the name of the number, as the mean of the seeds in
    each position; nothing in games without scored positions."""
    positions = positions_of(config)
    if positions is None:
        return {}
    own = [
        positions.judged(np.asarray(each.moves)) for each in outcome.moves if each.player == player
    ]
    return {
        name: np.mean([judged[field] for judged in own], axis=0) for name, field in SHARES.items()
    }


def rows(config: Config, outcome: Outcome) -> Iterator[dict[str, object]]:
    """A row for each player, with the shares of its good moves and its Elo."""
    ratings, game = outcome.ladder.ratings(0), pgx_beliefs(config.game)
    for number, player in enumerate(players(config)):
        row: dict[str, object] = {"network": player.network, "search": player.search_name}
        row |= {"simulations": player.simulations, "evaluations": player.evaluations(game)}
        for name, good in good_moves(config, outcome, number).items():
            field, (low, high) = SHARES[name], results.interval(good.tolist())
            row |= {field: float(good.mean()), f"{field}_low": low, f"{field}_high": high}
        rating = ratings[number]
        yield row | {
            "elo_bound": rating.bound,
            "elo": rating.value,
            "elo_low": rating.low,
            "elo_high": rating.high,
        }


def write_more(run: Run, outcome: Outcome) -> None:
    """Writes the results of all games."""
    every = players(run.config)
    named = paired_matches.rows(outcome.pairs, lambda number: every[number % len(every)].name)
    lines = [
        {"seed": pair.first // len(every)} | row
        for pair, row in zip(outcome.pairs, named, strict=True)
    ]
    results.write_csv(run.out / _GAMES_FILE, lines)


def numbers(config: Config, outcome: Outcome) -> Iterator[results.Number]:
    """Shares of good moves of all players, and what search and network make of them and of Elo."""
    good = [good_moves(config, outcome, n) for n in range(len(players(config)))]
    for player, own in zip(players(config), good, strict=True):
        for measure, shares in own.items():
            yield _share(config, f"{player.name}: {measure}", shares)
    ladder = outcome.ladder
    for name, (first, second) in gaps(config).items():
        for measure, shares in good[first].items():
            yield _share(config, f"{name}: {measure}", shares - good[second][measure])
        found = ladder.difference(first, second).number(name)
        if found is not None:
            yield dataclasses.replace(found, seeds=config.networks)


def _share(config, name, samples) -> results.Number:
    """A share of positions, or a difference of two."""
    low, high = results.interval(samples.tolist())
    return results.Number(
        name=name,
        value=float(samples.mean()),
        low=low,
        high=high,
        unit="share of positions",
        seeds=config.networks,
    )


def tables(config: Config, outcome: Outcome) -> Iterator[Table]:
    """Shares and Elo of all players; the gaps."""
    ladder, every = outcome.ladder, players(config)
    good = [good_moves(config, outcome, number) for number in range(len(every))]
    lines = [
        (
            player.network,
            player.search_name,
            *(f"{shares.mean():.3f}" for shares in own.values()),
            str(rating),
        )
        for player, own, rating in zip(every, good, ladder.ratings(0), strict=True)
    ]
    headings = ("network", "search", *good[0], "Elo")
    yield text_table(f"search_gap: strength in {config.game}", headings, lines, labels=2)
    lines = [
        (
            name,
            *(f"{(good[i][each] - good[j][each]).mean():+.3f}" for each in good[i]),
            str(ladder.difference(i, j)),
        )
        for name, (i, j) in gaps(config).items()
    ]
    yield text_table("search_gap: differences", ("", *good[0], "Elo"), lines)


def draw(path: pathlib.Path, config: Config, outcome: Outcome) -> None:
    """Elo of all players, and shares of their moves that keep the result."""
    every, ratings = players(config), outcome.ladder.ratings(0)
    names, scored = [player.name for player in every], positions_of(config) is not None
    size = (9.6 if scored else 6.6, 1.0 + 0.26 * len(every))
    with plots.figure(path, rows=1, columns=1 + scored, size=size) as (panels,):
        for number, (player, rating) in enumerate(zip(every, ratings, strict=True)):
            colour = plots.colour(2 * (player.network == STUDENT))
            shape = {">=": ">", "<=": "<"}.get(rating.bound, "o")
            if rating.low is not None:
                panels[0].plot([rating.low, rating.high], [number] * 2, color=colour)
            if rating.value is not None:
                panels[0].plot([rating.value], [number], color=colour, marker=shape)
            if scored:
                kept = good_moves(config, outcome, number)[KEEPS]
                panels[1].plot(results.interval(kept.tolist()), [number] * 2, color=colour)
                panels[1].plot([kept.mean()], [number], color=colour, marker="o")
        panels[0].set(xlabel=f"Elo, 0 for {names[0]}")
        panels[0].set_yticks(range(len(names)), names)
        if scored:
            panels[1].set(xlabel="share of moves that keep the result")
            panels[1].set_yticks(range(len(names)), [""] * len(names))
        for panel in panels:
            panel.invert_yaxis()


def configure(config: Config, options: Options) -> Config:
    """The preset with the folders, and no more networks than each of their runs has trained.

    Without folders there is one of each kind, since all would be the same. A run that is resumed
    keeps the number that it began with, though more may have been trained since.

    Raises:
      ValueError: a folder has no run of training.
    """
    trained = in_folders(options, trained_networks).values()
    networks = min([config.networks, *trained]) if trained else 1
    return dataclasses.replace(
        config,
        game=options.game or config.game,
        alphazero=str(options.alphazero or ""),
        student_of_games=str(options.student_of_games or ""),
        networks=interrupted_config(options).get("networks", networks),
    )


def measure(config: Config) -> str:
    """What the numbers are."""
    networks = "one network" if config.networks == 1 else f"{config.networks} networks"
    scored = (
        "share of scored positions in which a player's move keeps the result, or has the best"
        " score, and "
    )
    return (
        f"{scored * (positions_of(config) is not None)}Elo in {config.game}, with {networks} of"
        f" each kind, from {2 * config.pairs} games of each match and network; SoG(s,c) makes c"
        " simulations for an iteration of CFR, and its new nodes start with k = 1 child;"
        " 'A less B' is the difference"
    )


def deviations(config: Config) -> Iterator[str]:
    """From the published setting, in words."""
    if config.game not in published_elo.GAPS:
        yield f"{config.game} instead of chess and Go"
    yield from without_networks(config)
    yield SEARCHES_ANEW
    yield f"games begin with {config.opening_moves} random moves, as the agents draw next to none"


COMMAND = Experiment(
    name="search_gap",
    shown="shares of good moves and Elo by network and search",
    presets=PRESETS,
    preset_docs={
        "smoke": "minutes",
        "cpu": (
            "on one core a quarter of an hour for each seed in Connect Four, half an hour in"
            " Gardner chess or 9x9 Go"
        ),
        "paper": "800 simulations and 208 games of each match, for an accelerator",
    },
    options=Options,
    configure=configure,
    batches=lambda config: {"batch": config.batch},
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    measure=measure,
    deviations=deviations,
    error_bars="of shares of positions: two standard errors, over positions; of Elo: "
    + ladder_ratings.ERROR_BARS
    + paired_matches.OF_THESE_NETWORKS,
    more_files=(_GAMES_FILE,),
    write_more=write_more,
)
