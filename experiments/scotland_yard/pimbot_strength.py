"""How much stronger PimBot is with more simulations, in games against itself.

`sog_pimbot` counts the opponent's strength in simulations. Here PimBot plays itself with other
numbers of them, in both roles.
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
from experiments.scotland_yard.agent_games import ROLES, Games, play_games
from jaxgames.registry import make
from solvers.scotland_yard.match_batches import compiled_play
from solvers.scotland_yard.matches import make_pimbot
from solvers.scotland_yard.pimbot import PimBot


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The players and their games."""

    game: str = "scotland_yard(map=london)"
    simulations: tuple[int, ...] = (10, 100, 1_000)  # rising
    games: int  # of each pair of players, in each role
    batch: int  # games side by side
    exploration: float = PimBot.exploration  # C
    reduction: float = PimBot.reduction  # r
    seed: int = 0


PRESETS = {
    "smoke": Config(
        game="scotland_yard(map=london,rounds=2,detectives=2)",
        simulations=(2, 8),
        games=4,
        batch=2,
    ),
    "cpu": Config(games=128, batch=64),
    "paper": Config(simulations=(10, 100, 1_000, 10_000), games=1_000, batch=200),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Match(Counted):
    """Games of a stronger player in one role against a weaker one."""

    simulations: int
    opponent: int  # fewer simulations
    role: str  # of the stronger one


def compute(run: Run) -> list[Match]:
    """All pairs in both roles; each match is kept for an interrupted run."""
    config = run.config
    game = make(config.game)
    play = compiled_play(game, devices.local(run.mesh))

    def player(simulations):
        settings = dict(exploration=config.exploration, reduction=config.reduction)
        return make_pimbot(game, PimBot(simulations=simulations, **settings))

    def match(number: int, opponent: int, simulations: int, role: str) -> Iterator[Match]:
        games = Games(
            title=f"PimBot({simulations:,}) as {role}, PimBot({opponent:,})",
            number=config.games,
            batch=config.batch,
            key=jax.random.fold_in(jax.random.key(config.seed), number),
        )
        won = play_games(play, player(simulations), player(opponent), role=role, games=games)
        yield Match(
            simulations=simulations, opponent=opponent, role=role, games=won.games, won=won.wins
        )

    pairs = itertools.combinations(config.simulations, 2)
    found = []
    for number, (pair, role) in enumerate(itertools.product(pairs, ROLES)):
        name = "-".join(map(str, (*pair, role)))
        found += run.kept(name, Match, functools.partial(match, number, *pair, role))
    return found


def both_roles(matches: Sequence[Match]) -> dict[tuple[int, int], Share]:
    """Games won by who has more simulations, by these and the opponent's."""
    return shares_by(matches, "simulations", "opponent")


def rows(config: Config, matches: Sequence[Match]) -> Iterator[dict[str, object]]:
    """A row for each pair and role."""
    for each in matches:
        yield each.row()


def numbers(config: Config, matches: Sequence[Match]) -> Iterator[results.Number]:
    """Shares of games that the stronger one won: in both roles together, and in each."""
    shares = {
        f"PimBot({mine}):PimBot({other})": share
        for (mine, other), share in both_roles(matches).items()
    } | {
        f"PimBot({each.simulations}):PimBot({each.opponent}):as {each.role}": each.share
        for each in matches
    }
    for name, share in shares.items():
        low, high = share.interval
        yield results.Number(
            name=name, value=share.value, unit="share of games", low=low, high=high
        )


def draw(path: pathlib.Path, config: Config, matches: Sequence[Match]) -> None:
    """Shares of games by the stronger one's simulations, a line for each opponent."""
    shares = both_roles(matches)
    with plots.figure(path, rows=1, columns=1, size=(5.6, 3.6)) as axes:
        panel = axes[0, 0]
        for number, opponent in enumerate(config.simulations[:-1]):
            mine = {pair[0]: share for pair, share in shares.items() if pair[1] == opponent}
            panel.errorbar(
                [*mine],
                [share.value for share in mine.values()],
                error_bars([*mine.values()]),
                label=f"against PimBot({opponent:,})",
                color=plots.colour(number),
                marker=plots.marker(number),
                capsize=2,
            )
        panel.axhline(0.5, color="#333333", linewidth=0.8)
        panel.set(xscale="log", xlabel="simulations", ylabel="share of games won", ylim=(0, 1))


def tables(config: Config, matches: Sequence[Match]) -> Iterator[Table]:
    """Games won by pair of players."""
    lines = [
        (
            f"{mine:,}",
            f"{other:,}",
            f"{share.wins} of {share.games}",
            *(
                results.text(each.share.value)
                for role in ROLES
                for each in matches
                if (each.simulations, each.opponent, each.role) == (mine, other, role)
            ),
        )
        for (mine, other), share in both_roles(matches).items()
    ]
    headings = ("simulations", "opponent's", "won", *(f"as {role}" for role in ROLES))
    yield text_table("pimbot_strength: games won by more simulations", headings, lines, labels=0)


COMMAND = Experiment(
    name="pimbot_strength",
    shown="games won by PimBot with more simulations against itself with fewer",
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "up to 1,000 simulations: eight minutes on two cores",
        "paper": "up to 10,000 simulations, for an accelerator",
    },
    batches=lambda config: {"batch": config.batch},
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    error_bars=WILSON,
    measure=lambda config: (
        f"share of games in {config.game} that PimBot with more simulations wins against itself"
        " with fewer, half of them in each role"
    ),
    deviations=("PimBot is a re-implementation: its binary cannot be had",),
)
