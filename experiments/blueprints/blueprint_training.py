"""Linear CFR and CFR-BR over boards that are drawn, as experiments on limit hold'em train them."""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Key

from experiments.blueprints.measured_training import train_and_measure
from experiments.harness.progress import say, steps
from experiments.harness.runs import Run
from jaxgames.holdem.card_abstraction import (
    BucketTables,
    CardAbstraction,
    bucket_tables,
    table_bytes,
)
from jaxgames.holdem.cards import NUM_CARDS
from jaxgames.holdem.rules import Poker
from solvers.blueprint import board_sampled_cfr, cfr_br
from solvers.blueprint.blueprint import Blueprint, bucket_game
from solvers.blueprint.board_sampled_cfr import BlueprintState
from solvers.blueprint.bucket_game import BucketGame
from solvers.blueprint.deals import make_deals, random_boards
from solvers.device_batches import device_bytes

_ROOMS = 512, 640, 704, 1176  # for groups of hands; each is compiled when a block first needs it
_BLOCK = 32  # iterations whose boards are drawn at once, and have the same room


@dataclasses.dataclass(frozen=True)
class Solver:
    """How blueprints learn from boards."""

    name: str
    init: Callable[[BucketGame], Any]
    iterate_on_many: Callable[..., Any]
    learned: Callable[[Any], BlueprintState]  # the tables of the blueprint in a state
    more_bytes: Callable[[BucketGame], int]  # that a state takes beside them
    by_hand: bool  # whether each hand is a group of its own


LINEAR_CFR = Solver(
    name="linear CFR",
    init=board_sampled_cfr.init,
    iterate_on_many=board_sampled_cfr.iterate_on_many,
    learned=lambda state: state,
    more_bytes=lambda game: 0,
    by_hand=False,
)
CFR_BR = Solver(
    name="CFR-BR",
    init=cfr_br.init_cfr_br,
    iterate_on_many=cfr_br.iterate_on_many,
    learned=lambda state: state.blueprint,
    more_bytes=cfr_br.trunk_bytes,
    by_hand=True,
)
SOLVERS = {solver.name: solver for solver in (LINEAR_CFR, CFR_BR)}


def cfr_br_deviations(poker: Poker) -> list[str]:
    """How CFR-BR differs from the paper's in a game, in words."""
    if len(poker.board) <= 2:
        return []
    return [
        "CFR-BR's opponent responds as is best on the last street, and plays by regret matching in"
        " the same buckets before, from the flop on; the paper's responds from the flop on"
    ]


def train(
    run: Run,
    poker: Poker,
    abstraction: str,
    key: Key[Array, ""],
    *,
    at: Sequence[int],
    boards_per_iteration: int,
    folder: pathlib.Path,
    title: str,
    measure: Callable[[Blueprint], Any] = lambda blueprint: None,
    solver: Solver = LINEAR_CFR,
) -> tuple[Blueprint, list[Any]]:
    """Trains a blueprint and measures it on the way, from a checkpoint on if there is one.

    Args:
      run: whose devices share the boards of an iteration.
      poker: the game.
      abstraction: of its cards, as text.
      key: of the boards.
      at: the numbers of boards after which is measured, in their order; the last one ends.
      boards_per_iteration: divides all of `at`.
      folder: of the checkpoint.
      title: of the progress bar.
      measure: returns anything that JSON can hold, of the average policy.
      solver: how it learns.

    Returns:
      The last average policy, and what was measured.

    Raises:
      ValueError: the abstraction is no abstraction of this game, numbers of boards are no multiples
        of those of an iteration, the training takes more memory than there is, or the folder holds
        the checkpoint of another training.
      OSError: a checkpoint cannot be written.
      KeyboardInterrupt: Ctrl-C was pressed; a checkpoint has been written.
    """
    if any(boards % boards_per_iteration for boards in at):
        raise ValueError(f"at={list(at)} must be multiples of {boards_per_iteration}")
    mesh, kind = run.mesh, CardAbstraction.parse(abstraction)
    game = bucket_game(poker, kind)
    _tell_memory(game, kind, poker.board, boards_per_iteration, mesh, solver)
    state = solver.init(game)
    with steps(len(poker.board)) as report:  # minutes, once
        buckets = bucket_tables(kind, board=poker.board, report=report)
    if mesh is not None:
        state = jax.device_put(state, NamedSharding(mesh, P()))
    advance = advancer(
        game, buckets, key, boards_per_iteration=boards_per_iteration, mesh=mesh, solver=solver
    )

    def blueprint_of(state):
        policy = board_sampled_cfr.average_policy(game, solver.learned(state).average)
        return Blueprint(policy=policy, buckets=buckets, game=game)

    state, found = train_and_measure(
        advance,
        state,
        done=lambda state: int(solver.learned(state).iteration),
        at=[boards // boards_per_iteration for boards in at],
        measure=lambda state: measure(blueprint_of(state)),
        title=title,
        folder=folder,
        identity={
            "solver": solver.name,
            "abstraction": abstraction,
            "boards": boards_per_iteration,
            "key": np.asarray(jax.random.key_data(key)).tolist(),
        },
        keep=run.keep_usage,
    )
    return blueprint_of(state), found


def _tell_memory(game, abstraction, board, boards_per_iteration, mesh, solver):
    """Says what a device needs, or all cores, which share one memory; before anything is made.

    Raises:
      ValueError: it has less.
    """
    devices = 1 if mesh is None else mesh.size
    cores = len(mesh.local_devices) if devices > 1 and jax.default_backend() == "cpu" else 1
    deals = boards_per_iteration // devices
    needed = {
        "regrets and averages": game.table_bytes + solver.more_bytes(game),
        "the average policy": game.table_bytes // 2,  # while it is measured
        "buckets": table_bytes(abstraction, board=board),
        "an iteration": game.iteration_bytes(groups=_rooms(sum(board), solver)[-1], deals=deals),
    }
    total, allowed = cores * sum(needed.values()), device_bytes()
    parts = ", ".join(f"{name} {size / 2**20:,.0f}" for name, size in needed.items())
    text = (
        f"{abstraction}: {game.num_information_states:,} information states, which take up to"
        f" {total / 2**20:,.0f} MiB ({parts}{f', on {cores} cores each' if cores > 1 else ''})"
    )
    if total > allowed:
        raise ValueError(
            f"{text}; the device has {allowed / 2**20:,.0f}: fewer buckets or boards per iteration"
            " take less"
        )
    say(text)


def _rooms(num_cards, solver):
    """For how many groups of hands there may be room on a board of `num_cards` cards."""
    return (math.comb(NUM_CARDS - num_cards, 2),) if solver.by_hand else _ROOMS


def advancer(
    game: BucketGame,
    buckets: BucketTables,
    key: Key[Array, ""],
    *,
    boards_per_iteration: int,
    mesh: Mesh | None = None,
    solver: Solver = LINEAR_CFR,
) -> Callable[[Any, int], Any]:
    """A function that makes a given number of further iterations.

    Boards, and the room for their groups of hands, follow from the number of the iteration alone.
    So the same iterations give the same tables to the bit in whatever pieces they are made.

    Args:
      game: of the tables.
      buckets: of all hands.
      key: of the boards.
      boards_per_iteration: a multiple of the number of devices.
      mesh: devices that share the boards; None: one device.
      solver: how it learns.

    Returns:
      `advance(state, count)`, which uses up the arrays of the state.
    """

    rooms = _rooms(buckets.num_cards[-1], solver)

    @functools.lru_cache(maxsize=1)
    def drawn(block):
        boards, most = _draw(buckets, key, jnp.int32(block * _BLOCK), boards_per_iteration, mesh)
        return boards, next(room for room in rooms if int(most) <= room)

    def advance(state, count):
        done = int(solver.learned(state).iteration)
        end = done + count
        while done < end:
            block, first = divmod(done, _BLOCK)
            boards, room = drawn(block)
            last = min(first + end - done, _BLOCK)
            state = _iterate(state, buckets, boards, first, last, game, room, mesh, solver)
            done += last - first
        return state

    return advance


@functools.partial(
    jax.jit, static_argnames=("game", "groups", "mesh", "solver"), donate_argnames="state"
)
def _iterate(state, buckets, boards, first, last, game, groups, mesh, solver):
    """The iterations of a block from one number to before another."""

    def step(n, state):
        deals, _ = make_deals(buckets, boards[n], groups=groups, mesh=mesh)
        return solver.iterate_on_many(state, deals, game=game, mesh=mesh)

    return jax.lax.fori_loop(jnp.int32(first), jnp.int32(last), step, state)


@functools.partial(jax.jit, static_argnames=("count", "mesh"))
def _draw(buckets, key, iteration, count, mesh):
    """The boards of a block that begins with an iteration `[32, count, n]`, and the most groups
    that any of them has."""
    keys = jax.vmap(lambda n: jax.random.fold_in(key, n))(iteration + jnp.arange(_BLOCK))
    boards = jax.vmap(lambda key: random_boards(key, count, num_cards=buckets.num_cards[-1]))(keys)
    groups = lambda boards: make_deals(buckets, boards, groups=1, mesh=mesh)[1]  # noqa: E731
    return boards, jnp.max(jax.lax.map(groups, boards))
