"""Student of Games against PimBot in Scotland Yard, by PimBot's simulations (Schmid et al. 2023,
Fig. 5).

The agent was trained by `sog_london`. It searches at its own decisions. Beside the trained network
stand the untrained one and one of a tenth of the training. Settings, presets and options are in
`figure_5_settings`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Iterator, Sequence

import jax
from rich.table import Table

from experiments.harness import devices, plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.runs import Run
from experiments.harness.win_shares import WILSON, Counted, Share, error_bars, shares_by
from experiments.scotland_yard.agent_games import (
    ROLES,
    Games,
    play_games,
    room_in_words,
)
from experiments.scotland_yard.figure_5_settings import (
    PAPER_GAME,
    PRESETS,
    Config,
    Match,
    Options,
    configure,
    steps,
)
from experiments.scotland_yard.trained_students import read_student, trained_elsewhere
from jaxgames.registry import make
from solvers.scotland_yard.match_batches import compiled_play
from solvers.scotland_yard.matches import make_pimbot
from solvers.scotland_yard.pimbot import PimBot

# Win rates of SoG(400,1) by PimBot's simulations, read off Figure 5; 2,000 games each.
PAPER = {
    10: 0.99,
    100: 0.972,
    1_000: 0.837,
    10_000: 0.657,
    100_000: 0.57,
    1_000_000: 0.548,
    10_000_000: 0.55,
}
_PAPER_SIMULATIONS, _PAPER_GAMES = 400, 2_000
_EARLIER = ", untrained and after a tenth of the training,"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Networks:
    """Which networks play, also after an interruption in which training has gone on."""

    compared: list[int]  # steps of training, the last one at the end


@dataclasses.dataclass(frozen=True, kw_only=True)
class Point(Counted):
    """Games of one agent against PimBot in one role."""

    step: int  # of training, after which the network was kept
    simulations: int
    opponent: int  # simulations of PimBot
    role: str


def compute(run: Run) -> list[Point]:
    """All games; each batch is kept for an interrupted run."""
    config, trained = run.config, read_student(pathlib.Path(run.config.agent))
    against = compiled_play(trained.rules, devices.local(run.mesh))

    def play(step: int, match: Match, opponent: int, role: str, part: int) -> Iterator[Point]:
        key = jax.random.fold_in(jax.random.key(config.seed), ROLES.index(role))
        games = Games(
            title=f"SoG({match.simulations},1) as {role}, PimBot({opponent:,}), batch {part + 1}",
            number=match.side_by_side,
            batch=match.side_by_side,
            key=jax.random.fold_in(key, part),
        )
        player = trained.player(
            step,
            match.simulations,
            children=config.children,
            decision_shares=config.decision_shares,
        ).replace(threshold=config.threshold)
        pimbot = PimBot(
            simulations=opponent, exploration=config.exploration, reduction=config.reduction
        )
        other = make_pimbot(trained.rules, pimbot)
        won = play_games(against, player, other, role=role, games=games)
        yield Point(
            step=step,
            simulations=match.simulations,
            opponent=opponent,
            role=role,
            games=won.games,
            won=won.wins,
        )

    (networks,) = run.kept("networks", Networks, lambda: [Networks(compared=[*trained.compared])])
    parts = []
    for match in config.matches:
        # the agent's programs stay while its role does, and PimBot's while it searches as much
        for role, opponent, step, part in itertools.product(
            ROLES, match.opponents, steps(match, networks.compared), range(match.parts)
        ):
            name = "-".join(map(str, (step, match.simulations, opponent, role, part)))
            piece = functools.partial(play, step, match, opponent, role, part)
            kept = run.kept(name, Point, piece)
            if (games := sum(point.games for point in kept)) != match.side_by_side:
                raise ValueError(
                    f"{run.out}: {name} was played with {games} games, not {match.side_by_side}:"
                    " use another --out"
                )
            parts += kept
    return together(parts)


def together(parts: Sequence[Point]) -> list[Point]:
    """Games of the same agents in the same roles as one point each."""
    found: dict[Point, list[Point]] = {}
    for part in parts:
        found.setdefault(dataclasses.replace(part, games=0, won=0), []).append(part)
    return [
        dataclasses.replace(
            which, games=sum(part.games for part in own), won=sum(part.won for part in own)
        )
        for which, own in found.items()
    ]


def rows(config: Config, points: Sequence[Point]) -> Iterator[dict[str, object]]:
    """A row for each agent, opponent and role."""
    for point in points:
        yield point.row()


def both_roles(points: Sequence[Point]) -> dict[tuple[int, int, int], Share]:
    """Games won in both roles together, by step, simulations and opponent."""
    return shares_by(points, "step", "simulations", "opponent")


def _threshold(config):
    """What the agent's name says of a threshold, if it has one."""
    return f" from {100 * config.threshold:g}% on" if config.threshold else ""


def _name(config, step, simulations, last):
    agent, steps = f"SoG({simulations},1){_threshold(config)}", step + config.start_steps
    return agent if step == last else f"{agent}, {f'{steps:,} steps' if steps else 'untrained'}"


def _published(config):
    """Win rates by PimBot's simulations, if the game is the paper's."""
    return PAPER if make(config.game) == make(PAPER_GAME) else {}


def _paper(config, step, simulations, opponent, last):
    """The paper's number, which is of its own agent, trained to the end."""
    if (step, simulations) != (last, _PAPER_SIMULATIONS):
        return None
    return _published(config).get(opponent)


def numbers(config: Config, points: Sequence[Point]) -> Iterator[results.Number]:
    """Shares of games won in both roles together, and in each."""
    last = max(point.step for point in points)
    for (step, simulations, opponent), share in both_roles(points).items():
        low, high = share.interval
        yield results.Number(
            name=f"{_name(config, step, simulations, last)}:PimBot({opponent})",
            value=share.value,
            unit="share of games",
            low=low,
            high=high,
            paper=_paper(config, step, simulations, opponent, last),
        )
    for point in points:
        low, high = point.share.interval
        name = f"{_name(config, point.step, point.simulations, last)}:PimBot({point.opponent})"
        yield results.Number(
            name=f"{name}:as {point.role}",
            value=point.share.value,
            unit="share of games",
            low=low,
            high=high,
        )


def draw(path: pathlib.Path, config: Config, points: Sequence[Point]) -> None:
    """Shares of games by PimBot's simulations, as in Figure 5; those of one network against one
    PimBot by the simulations of its own searches."""
    last = max(point.step for point in points)
    shares = both_roles(points)
    with plots.figure(path, rows=1, columns=1, size=(5.6, 3.6)) as axes:
        panel = axes[0, 0]
        if _by_own_simulations(shares):
            _draw_by_own_simulations(panel, config, shares, last)
            return
        for number, agent in enumerate(dict.fromkeys(which[:2] for which in shares)):
            mine = {which[2]: share for which, share in shares.items() if which[:2] == agent}
            panel.errorbar(
                [*mine],
                [share.value for share in mine.values()],
                error_bars([*mine.values()]),
                label=_name(config, *agent, last),
                color=plots.colour(number),
                marker=plots.marker(number),
                capsize=2,
            )
        if published := _published(config):
            label = f"SoG({_PAPER_SIMULATIONS},1) of the paper, after 17 million steps"
            line = [*published], [*published.values()]
            panel.plot(*line, markeredgecolor="black", label=label, **plots.HOLLOW)
        panel.set(
            xscale="log",
            xlabel="PimBot's simulations",
            ylabel="share of games won by Student of Games",
            ylim=(0, 1),
        )


def _by_own_simulations(shares):
    """Whether nothing differs between the points but the simulations of the agent."""
    steps, simulations, opponents = (len(set(each)) for each in zip(*shares, strict=True))
    return steps == opponents == 1 < simulations


def _draw_by_own_simulations(panel, config, shares, last):
    """One line, and the paper's number of the same match."""
    (opponent,) = {which[2] for which in shares}
    mine = {which[1]: shares[which] for which in sorted(shares)}
    panel.errorbar(
        [*mine],
        [share.value for share in mine.values()],
        error_bars([*mine.values()]),
        label=f"SoG{_threshold(config)}, after {last + config.start_steps:,} steps",
        color=plots.colour(0),
        marker=plots.marker(0),
        capsize=2,
    )
    if published := _published(config).get(opponent):
        label = "SoG of the paper, after 17 million steps"
        point = [_PAPER_SIMULATIONS], [published]
        panel.plot(*point, markeredgecolor="black", label=label, **plots.HOLLOW)
    panel.set(
        xscale="log",
        xlabel="simulations of Student of Games",
        ylabel=f"share of games won against PimBot({opponent:,})",
        ylim=(0, 1),
    )


def tables(config: Config, points: Sequence[Point]) -> Iterator[Table]:
    """Shares of games by agent and opponent."""
    last, shares = max(point.step for point in points), both_roles(points)
    lines = [
        (
            _name(config, step, simulations, last),
            f"{opponent:,}",
            f"{share.wins} of {share.games}",
            results.text(share.value),
            "" if known is None else results.text(known),
        )
        for (step, simulations, opponent), share in shares.items()
        for known in [_paper(config, step, simulations, opponent, last)]
    ]
    headings = ("agent", "PimBot's simulations", "won", "share", "paper")
    yield text_table("sog_pimbot: games won in both roles", headings, lines, labels=1)


def deviations(config: Config) -> list[str]:
    """What differs from the paper."""
    return [
        "PimBot is a re-implementation: its binary cannot be had",
        "the agent was trained by `sog_london`, whose record at the commit of these games says how,"
        " for so many steps as here `trained_steps` says"
        f"{trained_elsewhere(config.start_games)}; its networks are read from files with 16 bits a"
        " parameter",
        *["its network is ours, in which all stations of the map share their weights"]
        * (config.network == "stations"),
        *[
            f"the agent does not play actions that its policy plays with less than"
            f" {100 * config.threshold:g}%; where all are rarer, it plays the most probable one:"
            " thresholding (Ganzfried, Sandholm and Waugh 2012), which the paper does not do. The"
            " number was chosen, from two, in 64 games of Mr X against PimBot(100)"
        ]
        * bool(config.threshold),
        *(
            f"SoG({match.simulations},1){_EARLIER if match.networks == 'earlier' else ''} plays"
            f" {match.games:,} games a point against PimBot with"
            f" {', '.join(f'{number:,}' for number in match.opponents)} simulations (the paper:"
            f" SoG({_PAPER_SIMULATIONS},1), {_PAPER_GAMES:,} games, {min(PAPER)} to"
            f" {max(PAPER):,} simulations)"
            for match in config.matches
        ),
        *[
            "SoG(400,1) plays 32 games in place of the 48 that were planned: for lack of time the"
            " number was lowered when 8 of the first run had been played, as Mr X, of which 5 were"
            " won"
        ]
        * (config.matches == PRESETS["cpu_simulations"].matches),
        room_in_words(config.children, config.decision_shares),
        "the paper's numbers are read off Figure 5"
        if _published(config)
        else f"{config.game} is not the paper's game, the map of London: no published numbers"
        " stand beside",
    ]


def _batches(config):
    """The sizes that devices share."""
    return {
        f"batch of match {number}": match.side_by_side
        for number, match in enumerate(config.matches)
    }


COMMAND = Experiment(
    name="sog_pimbot",
    shown="games won against PimBot by its or the agent's simulations",
    options=Options,
    configure=configure,
    presets=PRESETS,
    preset_docs={
        "smoke": "minutes",
        "cpu": "three and a half hours on two cores: 200 games a point",
        "cpu_threshold": (
            "an hour and a half on two cores (an estimate): ours, where rare actions are not played"
        ),
        "cpu_training": (
            "an hour on two cores: the networks of three steps of training, 40 games a point"
        ),
        "cpu_simulations": (
            "two hours on two cores: SoG(10,1), SoG(32,1) and SoG(400,1) against PimBot(100)"
        ),
        "cpu_400": (
            "eight hours on one core: SoG(400,1), 16 games a point, but for PimBot(100), which"
            " `cpu_simulations` has"
        ),
        "large": "2,000 games a point, for accelerators",
    },
    batches=_batches,
    compute=compute,
    extendable=("matches",),
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    error_bars=WILSON,
    measure=lambda config: (
        f"share of games in {config.game} that Student of Games wins, half of them in each role; it"
        " searches at its own decisions"
    ),
    deviations=deviations,
    extras={
        "trained_steps": lambda config, points: (
            config.start_steps + max(point.step for point in points)
        )
    },
)
