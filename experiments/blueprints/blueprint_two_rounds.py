"""How exploitable abstractions of hold'em are in the real game, in two rounds of limit hold'em.

[2-4] hold'em is the first two rounds of limit hold'em with the whole deck: preflop and flop, four
bets each. It is small enough for exact best responses of players who see their cards (Johanson,
Bard, Burch and Bowling 2012, "Finding optimal abstract strategies in extensive-form games", Figures
4 and 5): CFR in the abstract game, which lowers exploitability there and not in the real one, and
CFR-BR, which finds the least exploitable policy of the same buckets.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
import re
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from rich.table import Table

from experiments.blueprints import blueprint_training
from experiments.blueprints.measured_training import train_and_measure
from experiments.harness import plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.progress import status
from experiments.harness.runs import Run
from experiments.tabular.learning_curves import log_spaced
from jaxgames.holdem.canonical_boards import num_deals
from jaxgames.holdem.card_abstraction import BucketTables, CardAbstraction, bucket_tables
from jaxgames.holdem.rules import Poker
from solvers.blueprint import best_response, board_sampled_cfr
from solvers.blueprint.blueprint import Blueprint, bucket_game
from solvers.blueprint.bucket_game import BucketGame
from solvers.blueprint.deals import make_deals, random_board

BOARD = (0, 3)
GAME = Poker(raise_sizes=(10, 10), board=BOARD, first=(1, 0), max_raises=(3, 4))
HANDS = 1176  # on a flop
PERFECT = "percentile:5/percentile:5, perfect recall"
IMPERFECT = "169/percentile:570"
ON_THE_RIVER = ", strength on the river"  # instead of on the flop, where this game ends
CFR, CFR_BR = "CFR", "CFR-BR"
_SOLVERS = {CFR: blueprint_training.LINEAR_CFR, CFR_BR: blueprint_training.CFR_BR}
# mb/g, after convergence
PAPER = {
    (CFR, PERFECT): 143.9,
    (CFR_BR, PERFECT): 81.3,
    (CFR, PERFECT + ON_THE_RIVER): 143.9,
    (CFR_BR, PERFECT + ON_THE_RIVER): 81.3,
    (CFR, IMPERFECT): 102.9,
    (CFR_BR, IMPERFECT): 25.4,
}
_SHORT = {
    PERFECT: "5 buckets, perfect recall",
    PERFECT + ON_THE_RIVER: "the same, by strength on the river",
    IMPERFECT: "570 buckets on the flop",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is solved, and when it is measured."""

    abstractions: tuple[str, ...]
    solvers: tuple[str, ...]
    iterations: dict[str, int]  # boards, by solver
    first: int  # boards before the first measurement
    flops: int  # canonical ones that best responses go through; 1,755 are all
    seed: int = 0


PRESETS = {
    "smoke": Config(
        abstractions=("169/percentile:20",),
        solvers=(CFR, CFR_BR),
        iterations={CFR: 20, CFR_BR: 10},
        first=10,
        flops=3,
    ),
    "cpu": Config(
        abstractions=(PERFECT, PERFECT + ON_THE_RIVER, IMPERFECT),
        solvers=(CFR, CFR_BR),
        iterations={CFR: 200_000, CFR_BR: 50_000},
        first=1_000,
        flops=1_755,
    ),
    # More iterations would add to averages less than float32 can tell: weights grow with them.
    "paper": Config(
        abstractions=(PERFECT, PERFECT + ON_THE_RIVER, IMPERFECT),
        solvers=(CFR, CFR_BR),
        iterations={CFR: 1_000_000, CFR_BR: 1_000_000},
        first=1_000,
        flops=1_755,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Point:
    """What the average policies lose to best responses of players who see their cards."""

    boards: int
    seats: list[float]  # what the responder wins as player 0 and 1, in mb/g

    @property
    def exploitability(self) -> float:
        """The mean of both seats, in mb/g."""
        return sum(self.seats) / 2


Lines = dict[tuple[str, str], list[Point]]  # by solver and abstraction


def compute(run: Run) -> Lines:
    """All lines, one after the other; finished ones of an interrupted run are read."""
    lines = {}
    for abstraction, solver in itertools.product(run.config.abstractions, run.config.solvers):
        name = f"{solver} {abstraction}"
        line = functools.partial(_line, run, solver, abstraction)
        lines[solver, abstraction] = run.kept(name, Point, line)
    return lines


def game_and_tables(abstraction: str) -> tuple[BucketGame, BucketTables]:
    """The game in the buckets of an abstraction, and these buckets."""
    parsed = CardAbstraction.parse(abstraction.removesuffix(ON_THE_RIVER))
    cards = 5 if abstraction.endswith(ON_THE_RIVER) else None
    with status(f"making the buckets {abstraction}"):
        tables = bucket_tables(parsed, board=BOARD, strength_cards=cards)
    return bucket_game(GAME, parsed), tables


def _line(run: Run, solver: str, abstraction: str) -> list[Point]:
    """Solves from the line's own checkpoint on, and measures on schedule."""
    config = run.config
    game, tables = game_and_tables(abstraction)
    last = config.iterations[solver]
    schedule = log_spaced(min(config.first, last), last)
    at = [n for n in schedule if n == last or schedule.index(n) % 5 == 0]
    kind = _SOLVERS[solver]
    advance = _advance(kind, game, tables, config.seed)

    def blueprint(state):
        average = board_sampled_cfr.average_policy(game, kind.learned(state).average)
        return Blueprint(policy=average, buckets=tables, game=game)

    _, found = train_and_measure(
        lambda state, count: advance(state, jnp.int32(count)),
        kind.init(game),
        done=lambda state: int(kind.learned(state).iteration),
        at=at,
        measure=lambda state: _responses(blueprint(state), config.flops),
        exploitability=np.mean,
        title=f"{solver}, {abstraction}",
        folder=run.checkpoint / re.sub("[/:, ]+", "-", f"{solver} {abstraction}"),
        identity={"solver": kind.name, "abstraction": abstraction, "seed": config.seed},
        keep=run.meter.keep,
    )
    return [Point(boards=boards, seats=seats) for boards, seats in zip(at, found, strict=True)]


def _advance(solver, game, tables, seed):
    """A function that makes a given number of iterations, on a flop each."""
    buckets = game.num_buckets
    sequences = buckets[-1] if tables.perfect_recall else buckets[0] * buckets[1]
    groups = HANDS if solver.by_hand else min(HANDS, sequences)

    @functools.partial(jax.jit, donate_argnums=0)
    def advance(state, count):
        def step(_, state):
            key = jax.random.fold_in(jax.random.key(seed), solver.learned(state).iteration)
            deals, _ = make_deals(tables, random_board(key, 3)[None], groups=groups)
            return solver.iterate_on_many(state, deals, game=game)

        return jax.lax.fori_loop(0, count, step, state)

    return advance


def _responses(blueprint, flops):
    """What best responses win as either player, in mb/g."""
    number = np.arange(min(flops, len(num_deals(3))))
    found = []
    for player in range(2):
        values = best_response.flop_values(blueprint, number, player=player)
        won = best_response.best_response_value(
            blueprint, values, num_deals(3)[number], player=player
        )
        found.append(won / max(GAME.blinds) * 1000)
    return found


def rows(config: Config, lines: Lines) -> Iterator[dict[str, object]]:
    """A row for every point."""
    for (solver, abstraction), points in lines.items():
        for point in points:
            yield {
                "solver": solver,
                "abstraction": abstraction,
                "boards": point.boards,
                "exploitability": f"{point.exploitability:.6g}",
                "player_0": f"{point.seats[0]:.6g}",
                "player_1": f"{point.seats[1]:.6g}",
            }


def numbers(config: Config, lines: Lines) -> Iterator[results.Number]:
    """The last point of every line, and the least of it."""
    for key, points in lines.items():
        name, paper = "{}:{}".format(*key), PAPER.get(key)
        least = min(points, key=lambda point: point.exploitability)
        for words, point in (("", points[-1]), (", least", least)):
            yield results.Number(
                name=f"{name}{words}", value=point.exploitability, unit="mb/g", paper=paper
            )


def draw(path: pathlib.Path, config: Config, lines: Lines) -> None:
    """Real exploitability against boards; the paper's converged values as levels."""
    with plots.figure(
        path, rows=1, columns=len(config.abstractions), size=(4.2 * len(config.abstractions), 3.6)
    ) as axes:
        for panel, abstraction in zip(axes[0], config.abstractions, strict=True):
            shown = [
                plots.Band(
                    name=solver,
                    x=[p.boards for p in lines[solver, abstraction]],
                    samples=[[p.exploitability] for p in lines[solver, abstraction]],
                )
                for solver in config.solvers
            ]
            plots.bands(panel, shown, published={}, x_label="boards")
            for solver in config.solvers:
                if (solver, abstraction) in PAPER:
                    plots.level(panel, PAPER[solver, abstraction], f"{solver} (paper)")
            panel.set_title(_SHORT.get(abstraction, abstraction))
        axes[0, 0].set_ylabel("best response in the real game, mb/g")


def tables(config: Config, lines: Lines) -> Iterator[Table]:
    """Every line's last point, beside the paper's."""
    texts = [
        (
            *key,
            f"{points[-1].boards:,}",
            results.text(points[-1].exploitability),
            "" if key not in PAPER else results.text(PAPER[key]),
        )
        for key, points in lines.items()
    ]
    headings = ("solver", "abstraction", "boards", "mb/g", "Johanson et al. 2012")
    yield text_table("blueprint_two_rounds: real exploitability", headings, texts, labels=2)


def deviations(config: Config) -> Sequence[str]:
    """What differs from the paper, in words."""
    texts = [
        "buckets are percentiles of E[HS^2]; the paper does not say on which board HS is taken, nor"
        " how buckets with perfect recall are made. Here each street has percentiles of its own,"
        " and HS is taken on the flop, the last board of this game; and, added when the first"
        " results were lower than the paper's, on the river, as in hold'em",
        "570 buckets of imperfect recall: the 169 classes before the flop, 570 percentiles on it",
        "linear CFR over flops that are drawn, and linear averages, in both solvers",
        "the paper's values are those of its figures after convergence, ours after"
        f" {max(config.iterations.values()):,} flops or fewer",
    ]
    if config.flops < 1_755:
        texts.append(f"best responses on the first {config.flops} canonical flops only")
    return texts


COMMAND = Experiment(
    name="blueprint_two_rounds",
    shown="real exploitability by boards",
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "an hour on two cores",
        "paper": "converged, for an accelerator",
    },
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    measure=(
        "what best responses of players who see their cards win from the average policies in [2-4]"
        " hold'em, mean of both seats, exactly: thousandths of a big blind per game"
    ),
    deviations=deviations,
)
