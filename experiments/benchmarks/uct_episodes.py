"""What the hold'em benchmark measures of Smooth UCT in a process of its own: episodes of self-play
in limit hold'em, of one learner on each core."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp

from experiments.benchmarks.measurements import Clock, long_enough, mesh_of_cores
from jaxgames.holdem import limit_holdem
from jaxgames.holdem.card_abstraction import CardAbstraction, bucket_tables
from jaxgames.holdem.rules import Poker
from solvers.blueprint import betting_walk, bucket_uct
from solvers.blueprint.blueprint import bucket_game
from solvers.sampling.uct import smooth_uct

# by name: the game, its buckets, C in chips, episodes of a batch
LEARNERS: dict[str, tuple[Poker, str, float, int]] = {
    "Smooth UCT, 169/1000/500/200": (
        limit_holdem(),
        "169/ehs2:1000/ehs2:500/ehs2:200",
        240.0,
        1024,
    ),
    "Smooth UCT of preflop and flop, 169/50": (
        Poker(raise_sizes=(10, 10), board=(0, 3), first=(1, 0), max_raises=(3, 4)),
        "169/percentile:50",
        240.0,
        256,
    ),
}
_WARM = 1_000  # batches before the measurement, which fill the tree


def measure(job: dict[str, Any], report: Callable[..., None]) -> None:
    """Reports episodes per second, of all learners together.

    Args:
      job: `learner`, a key of `LEARNERS`; `cores`, each of which has a learner; `seconds`
        that episodes are timed for, at least; `folder` of the tables of buckets.
      report: takes the numbers as keywords.
    """
    poker, text, exploration, batch = LEARNERS[job["learner"]]
    mesh_of_cores(job["cores"])
    devices = jax.local_devices()[: job["cores"]]
    abstraction = CardAbstraction.parse(text)
    tables = bucket_tables(abstraction, board=poker.board, folder=pathlib.Path(job["folder"]))
    walk = betting_walk.betting_walk(bucket_game(poker, abstraction))
    given = (walk, bucket_uct.init(walk), tables, jax.random.key(0))
    state = {device: jax.device_put(given, device) for device in devices}
    report(devices=len(devices), information_states=walk.num_states)

    def play(device, count):
        walk, learner, tables, key = state[device]
        learner = bucket_uct.run(
            walk,
            learner,
            tables,
            key,
            settings=smooth_uct(exploration, decay=1 / 20_000),
            batch=batch,
            num_batches=jnp.int32(count),
        )
        state[device] = walk, jax.block_until_ready(learner), tables, key

    with ThreadPoolExecutor(len(devices)) as threads:

        def seconds(count):
            clock = Clock()
            list(threads.map(lambda device: play(device, count), devices))
            return clock.seconds()

        report(compile_seconds=seconds(1))
        count, elapsed = long_enough(seconds, job["seconds"], first=_WARM)
    report(episodes_per_second=len(devices) * count * batch / elapsed)
