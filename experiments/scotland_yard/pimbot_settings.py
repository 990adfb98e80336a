"""The strongest settings of PimBot in self-play: C of UCT and r of coalition reduction.

Nijssen and Winands 2012 publish their settings for their own program. Here each setting plays Mr X
and the detectives against every other one, at the same number of simulations. Mr X's searches have
no coalition reduction, so there are fewer kinds of Mr X than of detectives. Every pair plays deals
of its own, so all games are independent, as intervals take them. Only those of both roles together
are a little too wide: games of a setting against itself count there for it and against it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Callable, Iterator, Sequence

import jax
from jaxtyping import Array
from rich.table import Table

from experiments.harness import devices, plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.progress import counter, progress
from experiments.harness.runs import Run
from experiments.harness.win_shares import NEWCOMBE, WILSON, Share, error_bars, interval_of_sum
from experiments.scotland_yard.agent_games import won_by_mr_x
from jaxgames.registry import make
from solvers.scotland_yard import matches
from solvers.scotland_yard.match_batches import compiled_play
from solvers.scotland_yard.pimbot import PimBot

PAPER_EXPLORATION = 0.5  # the published C, of another program
_APART = 0.006  # of the plot's lines


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The settings and their games."""

    game: str = "scotland_yard(map=london)"
    simulations: int = 1000
    explorations: tuple[float, ...] = (0.2, 0.5, 2.0)  # C
    reductions: tuple[float, ...] = (0.1, 0.25, 0.375, 0.5)  # r
    games: int  # of each pair of Mr X and detectives
    batch: int  # games side by side
    seed: int = 0

    def __post_init__(self):
        if self.games < 1 or self.games % self.batch:
            raise ValueError(f"games={self.games} must be a multiple of batch={self.batch}")


PRESETS = {
    "smoke": Config(
        game="scotland_yard(map=london,rounds=2,detectives=2)",
        simulations=4,
        explorations=(0.5, 2.0),
        reductions=(0.1, 0.5),
        games=4,
        batch=2,
    ),
    "cpu": Config(games=64, batch=64),
    "paper": Config(games=4096, batch=1024),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """Games of one kind of Mr X against one kind of detectives."""

    mr_x_exploration: float
    exploration: float
    reduction: float
    games: int
    mr_x_wins: int


def compute(run: Run) -> list[Cell]:
    """All pairs of Mr X and detectives."""
    config = run.config
    game = make(config.game)
    agent = matches.make_pimbot(game, PimBot(simulations=config.simulations))
    play = compiled_play(game, devices.local(run.mesh))
    pairs = [*itertools.product(config.explorations, config.explorations, config.reductions)]
    cells = []
    with progress("pimbot_settings, games", len(pairs) * config.games) as report:
        count = counter(report)
        for number, pair in enumerate(pairs):
            name = "-".join(map(str, (number, *pair)))
            key = jax.random.fold_in(jax.random.key(config.seed), number)
            cells += run.kept(name, Cell, functools.partial(_play, play, agent, config, pair, key))
            count(config.games)
    return cells


def _play(
    play: Callable, agent: matches.PimBotAgent, config: Config, pair: tuple[float, ...], key: Array
) -> Iterator[Cell]:
    """The games of one pair, from its own random numbers."""
    mr_x_exploration, exploration, reduction = pair
    agents = tuple(
        agent.replace(settings=agent.settings.replace(**changes))
        for changes in (
            dict(exploration=mr_x_exploration, reduction=0.0),
            dict(exploration=exploration, reduction=reduction),
        )
    )
    keys = jax.random.split(key, config.games)
    wins = won_by_mr_x(play, agents, keys, batch=config.batch)
    yield Cell(
        mr_x_exploration=mr_x_exploration,
        exploration=exploration,
        reduction=reduction,
        games=config.games,
        mr_x_wins=wins,
    )


def mr_x_shares(config: Config, cells: Sequence[Cell]) -> dict[float, Share]:
    """What Mr X wins by C, against all detectives together."""
    return {
        exploration: _share([cell for cell in cells if cell.mr_x_exploration == exploration], True)
        for exploration in config.explorations
    }


def detectives_shares(config: Config, cells: Sequence[Cell]) -> dict[tuple[float, float], Share]:
    """What detectives win by C and r, against every Mr X together."""
    return {
        pair: _share([cell for cell in cells if (cell.exploration, cell.reduction) == pair], False)
        for pair in itertools.product(config.explorations, config.reductions)
    }


def both_roles(config: Config, cells: Sequence[Cell]) -> dict[tuple[float, float], float]:
    """Mean of both roles by C and r: the share of games won in a round robin of all settings."""
    return {
        pair: (his.value + theirs.value) / 2
        for pair, (his, theirs) in _roles(config, cells).items()
    }


def both_roles_intervals(
    config: Config, cells: Sequence[Cell]
) -> dict[tuple[float, float], tuple[float, float]]:
    """The intervals of `both_roles`."""
    roles = _roles(config, cells)
    return {pair: interval_of_sum([(0.5, share) for share in both]) for pair, both in roles.items()}


def strongest(config: Config, cells: Sequence[Cell]) -> tuple[float, float]:
    """C and r of the setting that wins most in both roles together."""
    shares = both_roles(config, cells)
    return max(shares, key=lambda pair: shares[pair])


def perhaps_as_strong(config: Config, cells: Sequence[Cell]) -> list[tuple[float, float]]:
    """The other settings that cannot be told from the strongest: the interval of the difference
    in both roles holds 0."""
    best, roles = strongest(config, cells), _roles(config, cells)
    found = []
    for pair, shares in roles.items():
        # Mr X is the same one where C is
        terms = [
            (weight / 2, share)
            for mine, other in zip(roles[best], shares, strict=True)
            for weight, share in ((1, mine), (-1, other))
            if mine is not other
        ]
        if pair != best and interval_of_sum(terms)[0] <= 0:
            found.append(pair)
    return found


def _roles(config, cells):
    """The shares of Mr X and of the detectives by C and r."""
    mr_x = mr_x_shares(config, cells)
    return {
        pair: (mr_x[pair[0]], share) for pair, share in detectives_shares(config, cells).items()
    }


def _share(cells, mr_x):
    games, his = sum(cell.games for cell in cells), sum(cell.mr_x_wins for cell in cells)
    return Share(wins=his if mr_x else games - his, games=games)


def draw(path: pathlib.Path, config: Config, cells: Sequence[Cell]) -> None:
    """What detectives and what both roles win by r, a line for each C."""
    theirs, both = detectives_shares(config, cells), both_roles(config, cells)
    intervals = both_roles_intervals(config, cells)
    with plots.figure(path, rows=1, columns=2, size=(8.4, 3.6)) as axes:
        for number, exploration in enumerate(config.explorations):
            shares = [theirs[exploration, reduction] for reduction in config.reductions]
            values, bars = [share.value for share in shares], error_bars(shares)
            label = f"C = {exploration:g}"
            # side by side, so that no bar hides another
            places = [reduction + _APART * (number - 1) for reduction in config.reductions]
            style = dict(marker=plots.marker(number), label=label, capsize=2)
            axes[0, 0].errorbar(places, values, yerr=bars, **style)
            pairs = [(exploration, reduction) for reduction in config.reductions]
            bars = (
                [both[pair] - intervals[pair][0] for pair in pairs],
                [intervals[pair][1] - both[pair] for pair in pairs],
            )
            line = [both[pair] for pair in pairs]
            axes[0, 1].errorbar(places, line, yerr=bars, **style)
        for panel, title in zip(axes[0], ("as detectives", "in both roles"), strict=True):
            panel.set(title=title, xlabel="r of coalition reduction", ylabel="share of games won")


def rows(config: Config, cells: Sequence[Cell]) -> Iterator[dict[str, object]]:
    """A row for every pair."""
    for cell in cells:
        yield {
            "Mr X: C": cell.mr_x_exploration,
            "detectives: C": cell.exploration,
            "detectives: r": cell.reduction,
            "games": cell.games,
            "won by Mr X": cell.mr_x_wins,
        }


def numbers(config: Config, cells: Sequence[Cell]) -> Iterator[results.Number]:
    """Shares by role and setting, and the strongest setting."""
    for exploration, share in mr_x_shares(config, cells).items():
        yield _number(f"Mr X:C={exploration:g}", share)
    for pair, share in detectives_shares(config, cells).items():
        yield _number(f"detectives:{_text(pair)}", share)
    intervals = both_roles_intervals(config, cells)
    for pair, share in both_roles(config, cells).items():
        low, high = intervals[pair]
        name = f"both roles:{_text(pair)}"
        yield results.Number(name=name, value=share, unit="share of games won", low=low, high=high)
    exploration, reduction = strongest(config, cells)
    yield results.Number(name="strongest:C", value=exploration, unit="C", paper=PAPER_EXPLORATION)
    yield results.Number(name="strongest:r", value=reduction, unit="r")
    others = float(len(perhaps_as_strong(config, cells)))
    yield results.Number(name="perhaps as strong", value=others, unit="settings")


def _text(pair):
    exploration, reduction = pair
    return f"C={exploration:g}, r={reduction:g}"


def _number(name, share):
    low, high = share.interval
    return results.Number(
        name=name, value=share.value, unit="share of games won", low=low, high=high
    )


def tables(config: Config, cells: Sequence[Cell]) -> Iterator[Table | str]:
    """Shares of games won by setting."""
    mr_x, theirs = mr_x_shares(config, cells), detectives_shares(config, cells)
    intervals = both_roles_intervals(config, cells)
    lines = [
        [
            f"{exploration:g}",
            f"{reduction:g}",
            f"{mr_x[exploration].value:.3f}",
            f"{theirs[exploration, reduction].value:.3f}",
            f"{share:.3f}",
            " to ".join(f"{end:.3f}" for end in intervals[exploration, reduction]),
        ]
        for (exploration, reduction), share in both_roles(config, cells).items()
    ]
    headings = ("C", "r", "as Mr X", "as detectives", "in both roles", "interval")
    title = f"pimbot_settings, {config.simulations:,} simulations: share of games won"
    yield text_table(title, headings, lines, labels=0)
    yield f"The strongest setting: {_text(strongest(config, cells))}."
    others = "; ".join(map(_text, perhaps_as_strong(config, cells)))
    yield f"Cannot be told from it: {others or 'none'}."


COMMAND = Experiment(
    name="pimbot_settings",
    shown="what every setting wins in both roles",
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "48 minutes on two cores",
        "paper": "more games, for an accelerator",
    },
    batches=lambda config: {"batch": config.batch},
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    error_bars=f"{WILSON}; of both roles {NEWCOMBE}",
    measure=lambda config: (
        f"share of games won in {config.game} by PimBot with {config.simulations:,} simulations,"
        " in one role against all settings in the other"
    ),
    deviations=(
        "PimBot is a re-implementation: its binary cannot be had",
        "published sweeps were of other programs and opponents: only their"
        f" C = {PAPER_EXPLORATION:g} stands beside ours",
    ),
)
