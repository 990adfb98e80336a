"""What the hold'em benchmark measures of blueprints in a process of its own: iterations of
board-sampled CFR on one core, ours or in NumPy."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmarks import numpy_board_sampled_cfr
from experiments.benchmarks.measurements import Clock, long_enough
from experiments.harness import devices
from jaxgames.holdem import betting_of_rules, limit_holdem
from jaxgames.holdem.card_abstraction import CardAbstraction, bucket_tables
from jaxgames.holdem.rules import Poker
from solvers.blueprint import board_sampled_cfr
from solvers.blueprint.betting_rounds import betting_rounds
from solvers.blueprint.bucket_game import BucketGame, in_chunks
from solvers.blueprint.deals import Deal, make_deal, random_board

OURS, NUMPY = "ours", "NumPy"
PROGRAMS = (OURS, NUMPY)


class Blueprint(NamedTuple):
    """A game in buckets, and the room for groups of hands that its boards are given."""

    game: Poker
    abstraction: str
    groups: int


BLUEPRINTS = {
    "blueprint of limit hold'em, 169/1000/500/200": Blueprint(
        game=limit_holdem(), abstraction="169/ehs2:1000/ehs2:500/ehs2:200", groups=640
    ),
    "blueprint of preflop and flop, 169/50": Blueprint(
        game=Poker(raise_sizes=(10, 10), board=(0, 3), first=(1, 0), max_raises=(3, 4)),
        abstraction="169/percentile:50",
        groups=1176,
    ),
}


def measure(job: dict[str, Any], report: Callable[..., None]) -> None:
    """Times iterations on boards that have room for their groups.

    Args:
      job: `blueprint`, a key of `BLUEPRINTS`; `program`, one of `PROGRAMS`; `boards`, how many
        different ones; `seconds` that iterations are timed for, at least; `folder` of the tables of
        buckets; `answers`, a file for the tables after one iteration from random ones.
      report: takes the numbers as keywords.
    """
    devices.set_core_flags()  # compiled as for several cores, as the commands do
    blueprint = BLUEPRINTS[job["blueprint"]]
    abstraction = CardAbstraction.parse(blueprint.abstraction)
    tables = bucket_tables(
        abstraction, board=blueprint.game.board, folder=pathlib.Path(job["folder"])
    )
    game = BucketGame(betting_rounds(betting_of_rules(blueprint.game)), abstraction.num_buckets)
    deals, counts = [], []
    for number in range(100 * job["boards"]):
        board = random_board(jax.random.key(number), tables.num_cards[-1])
        deal, count = make_deal(tables, board, groups=blueprint.groups)
        if int(count) <= blueprint.groups:
            deals.append(deal)
            counts.append(int(count))
        if len(deals) == job["boards"]:
            break
    report(groups=float(np.mean(counts)), sequences=game.num_information_states)
    program = _InNumPy if job["program"] == NUMPY else _Ours
    run = program(game, deals, _random_tables(game))
    clock = Clock()
    run.advance(1)
    report(compile_seconds=clock.seconds())
    np.savez(job["answers"], *run.tables())

    def measured(count):
        clock = Clock()
        run.advance(count)
        return clock.seconds()

    count, elapsed = long_enough(measured, job["seconds"], first=len(deals))
    report(seconds=elapsed / count)


def _random_tables(game) -> list[np.ndarray]:
    """Regrets, then average policies, `[B, C, M]` by street and family."""
    generator, shapes = np.random.default_rng(0), []
    for _, family, (_, columns, buckets, _) in game.shapes():
        shapes.append((buckets, columns, family.entries))
    regrets = [generator.normal(size=shape).astype(np.float32) for shape in shapes]
    return regrets + [np.zeros(shape, np.float32) for shape in shapes]


class _Ours:
    """Iterations of `solvers.blueprint`, many in one call."""

    def __init__(self, game: BucketGame, deals: Sequence[Deal], tables: list[np.ndarray]):
        self._game = game
        self._deals = jax.tree.map(lambda *x: jnp.stack(x), *deals)
        self._state = board_sampled_cfr.init(game)
        leaves, places = jax.tree.flatten((self._state.regret, self._state.average))
        new = [_in_chunks(table, leaf) for table, leaf in zip(tables, leaves, strict=True)]
        regret, average = jax.tree.unflatten(places, new)
        self._state = self._state.replace(regret=regret, average=average)

        @functools.partial(jax.jit, donate_argnums=0)
        def run(state, deals, count):
            def step(_, state):
                deal = jax.tree.map(lambda x: x[state.iteration % len(x)], deals)
                return board_sampled_cfr.iterate(state, deal, game=game)

            return jax.lax.fori_loop(0, count, step, state)

        self._run = run

    def advance(self, count: int) -> None:
        """Makes `count` more iterations."""
        self._state = jax.block_until_ready(self._run(self._state, self._deals, jnp.int32(count)))

    def tables(self) -> list[np.ndarray]:
        """As `_random_tables`."""
        leaves = jax.tree.leaves((self._state.regret, self._state.average))
        families = [family for _, family, _ in self._game.shapes()] * 2
        return [_whole(leaf, f.entries) for leaf, f in zip(leaves, families, strict=True)]


class _InNumPy:
    """The same in NumPy."""

    def __init__(self, game: BucketGame, deals: Sequence[Deal], tables: list[np.ndarray]):
        self._rounds, self._tables, self._done = game.rounds, tables, 0
        self._deals = [numpy_board_sampled_cfr.prepare(deal) for deal in deals]

    def advance(self, count: int) -> None:
        """Makes `count` more iterations."""
        half = iter(self._tables)
        regret, average = ([[next(half) for _ in s] for s in self._rounds.streets] for _ in "12")
        for _ in range(count):
            deal = self._deals[self._done % len(self._deals)]
            self._done += 1
            numpy_board_sampled_cfr.iterate(self._rounds, regret, average, deal, self._done)

    def tables(self) -> list[np.ndarray]:
        """As `_random_tables`."""
        return self._tables


def _in_chunks(table, like):
    """A table `[B, C, M]` as ours, `[N, C, B, E]`."""
    return in_chunks(jnp.asarray(table.swapaxes(0, 1)), like)


def _whole(table, entries):
    """The other way round."""
    return np.concatenate(list(np.asarray(table)), axis=-1)[..., :entries].swapaxes(0, 1)
