"""Our CFR+ as the benchmark measures it, with the bytes that its layout moves, and in batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from experiments.benchmarks.cfr_program import CfrProgram, measure_program, openspiel_policy
from experiments.benchmarks.measurements import Clock, bandwidth, long_enough
from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from solvers import cfr
from solvers.sequence_form import SequenceForm, build_sequence_form
from solvers.sequence_form.sparse_sum import Block, SparseSum, Tiles

REFERENCE = "ours_float64"  # the others' NashConv must equal its own
NUM_SOLVES = 64  # at once, in the measurement of batches


def measure(job: dict[str, Any], report: Callable[..., None]) -> None:
    """Measures the program that the job's `solver` names (see `measure_program`)."""
    measure_program(OURS[job["solver"]], job, report)


class Ours(CfrProgram):
    """`solvers.cfr` on the sequence form of our own game."""

    distribution = "jaxgames"
    modules = ("pyspiel", "open_spiel.python.policy", "jaxgames.adapters.openspiel_policies")
    precision = "float32"

    @classmethod
    def prepare_process(cls) -> None:
        super().prepare_process()
        jax.config.update("jax_enable_x64", cls.precision == "float64")
        jax.block_until_ready(jnp.zeros(1))  # starts the device

    def __init__(self, game: str, spiel: Any):
        self.spiel, self.histories = spiel, enumerate_game(make(game))
        self.tree = build_sequence_form(self.histories, dtype=self.precision)

    def compile(self) -> None:
        self.state = cfr.init(self.tree)
        super().compile()

    def step(self, num_iterations: int) -> None:
        solver = cfr.cfr_plus()
        state = cfr.run(self.tree, self.state, solver=solver, num_iterations=num_iterations)
        self.state = jax.block_until_ready(state)

    def average_policy(self) -> Any:
        from jaxgames.adapters.openspiel_policies import to_openspiel_policy

        policy = cfr.average_policy(self.tree, self.state)
        return openspiel_policy(to_openspiel_policy(self.histories, policy, self.spiel))

    def details(self) -> dict[str, float]:
        tree_bytes = _num_bytes(self.tree)
        return {
            "public_states": len(self.tree.histories.public_states.parent),
            "tree_bytes": tree_bytes,
            "bytes_per_iteration": bytes_per_iteration(self.tree),
            "near_bandwidth": bandwidth(tree_bytes + _num_bytes(self.state)),
            "far_bandwidth": bandwidth(2**29),
            "batched_rate": batched_rate(self.tree),
        }


class OursFloat64(Ours):
    """The same in the precision of most peers."""

    precision = "float64"


OURS: dict[str, type[CfrProgram]] = {"ours": Ours, REFERENCE: OursFloat64}


def batched_rate(tree: SequenceForm) -> float:
    """Iterations per second, summed over `NUM_SOLVES` solves in one `vmap`, each with ranges of its
    own: the best of three measurements of about half a second."""

    @jax.jit
    def run(ranges, count):
        def solve(scale):
            root_reach = tuple(scale * jnp.ones(p.num_roots, tree.dtype) for p in tree.treeplexes)
            state = cfr.init(tree, root_reach=root_reach)
            return cfr.run(tree, state, solver=cfr.cfr_plus(), num_iterations=count).reach

        return jax.vmap(solve)(ranges)

    def measured(count):
        clock = Clock()
        jax.block_until_ready(run(ranges, count))
        return clock.seconds()

    ranges = jnp.linspace(0.5, 1.0, NUM_SOLVES, dtype=tree.dtype)
    measured(0)  # compiles
    count, _ = long_enough(measured, 0.25)
    return NUM_SOLVES * count / min(measured(count) for _ in range(3))


def bytes_per_iteration(tree: SequenceForm) -> int:
    """Bytes that one iteration of CFR+ moves if every pass moves each of its arrays once.

    For a player with Q sequences and D decisions (padding included), numbers of f bytes and
    indices of 4 bytes, the passes are

        terminal values   sum(terminals)
        values, upwards   sum(children) + f (2 Q + D)    in: terminal values, policy; out: values
        regret matching   f (5 Q + D)                    in: values, regret, uniform policy, values
                                                         of decisions; out: regret, policy
        reach, downwards  f (2 Q + D) + 4 D              in: policy, reach and number of parents;
                                                         out: reach
        average           f 3 Q                          in: reach, average; out: average

    A sparse sum moves, for every block of R rows with K entries and F factors,

        sum(block)        K R (F (4 + f) + w) + f R      in: indices, factors, weights (w = f, or 0
                                                         where there are none); out: the sums

    and for T dense tiles of R rows and C columns,

        products          C T (F (4 + f) + f)            in: indices, factors; out: their products
        sums              C T f (1 + R) + f R T          in: products, weights; out: the sums
    """
    size = jnp.dtype(tree.dtype).itemsize
    moved = sum(_sum_bytes(terminal.sums, size) for terminal in tree.terminals)
    for player in tree.treeplexes:
        decisions = sum(group.num_decisions for group in player.groups)
        moved += sum(_sum_bytes(level.children.sums, size) for level in player.levels)
        moved += size * (12 * player.num_sequences + 3 * decisions) + 4 * decisions
    return moved


def _sum_bytes(plan: SparseSum, size: int) -> int:
    blocks = [block for stage in plan.stages for block in stage]
    return sum((_tile_bytes if isinstance(b, Tiles) else _block_bytes)(b, size) for b in blocks)


def _block_bytes(block: Block, size: int) -> int:
    entries = sum(column.size for column in block.columns[0])
    weight = size if block.weights is not None else 0
    sums = size * block.columns[0][0].size
    return entries * (len(block.columns) * (4 + size) + weight) + sums


def _tile_bytes(tiles: Tiles, size: int) -> int:
    products = tiles.columns[0].size
    gathered = products * (len(tiles.columns) * (4 + size) + size)
    weights = sum(weight.size for weight in tiles.weights)
    return gathered + size * (products + weights + tiles.weights[0].size)


def _num_bytes(records: Any) -> int:
    """Bytes of all arrays of a record."""
    return sum(array.nbytes for array in jax.tree.leaves(records))
