"""A small training run in a process of its own, which several tests compare.

python training_run.py --steps 3 --out numbers.npz [--devices | --process 0 --port 1234]
python training_run.py --folder run   # endless, with checkpoints and metrics, until killed
python training_run.py --folder run --steps 5 --out numbers.npz --whole whole
    # 5 steps more, and as many as that makes without a break in the folder `whole`

With WITHOUT_QUERIES in the environment, values are learned from the outcomes of games.
"""

import argparse
import functools
import os
import pathlib
import re

import jax
import numpy as np
from flax import nnx
from uneven_game import uneven_game

from jaxgames.beliefs import belief_table
from nets import cvpn
from solvers.search.search_state import GrowingTreeCfr
from train import data_sharding, student_of_games_training
from train.learner import LearnerSettings, require_finite_losses
from train.self_play import SelfPlaySettings

IDENTITY = {"training": "a small run"}
CAPACITY = 88  # of the replay buffer: a number that no other axis has
WITHOUT_QUERIES = {"solves": 0, "queries_per_search": 0.0, "queries_per_solve": 0.0}
POLICIES = 56  # of player 0 in the replay buffer, another such number
SAVE_EVERY = 3


@functools.cache
def setup():
    """A game, a network and settings that eight devices can share.

    The players' policies differ in size, so that each has a ring in the replay buffer.
    """
    sizes = dict(episodes=8, updates=2, queue_capacity=16)
    sizes |= dict(solves=16)  # another number than of episodes: all travel between devices together
    if "WITHOUT_QUERIES" in os.environ:
        sizes |= WITHOUT_QUERIES | {"self_play": SelfPlaySettings(outcome_targets=1.0)}
    table = belief_table(uneven_game().tree)
    graph, params = nnx.split(cvpn.new_cvpn(table, seed=0, width=16, depth=1))
    settings = student_of_games_training.StudentOfGamesSettings(
        search=GrowingTreeCfr(cvpn.CvpnEvaluator(graph), simulations=3, max_path=1),
        learner=LearnerSettings(
            batch_size=8,
            capacity=CAPACITY,
            learning_rate=1e-2,
            policy_shares=(POLICIES / CAPACITY, 1.0),
        ),
        **sizes,
    )
    return table, graph, params, settings


def start(mesh=None):
    table, _, params, settings = setup()
    return student_of_games_training.init(
        table, params, jax.random.key(0), settings=settings, mesh=mesh
    )


def compiled_step(mesh=None):
    """The run at its start, `step(state)`, and the program that is."""
    table, graph, _, settings = setup()
    state = start(mesh)
    step = student_of_games_training.train_step.lower(
        table, graph, state, settings=settings, mesh=mesh
    ).compile()
    return state, functools.partial(step, table), step.as_text()


def spread(steps, mesh):
    """Numbers after some steps on a mesh, or without, and how it is spread."""
    state, step, program = compiled_step(mesh)
    for _ in range(steps):
        state, found = step(state)
    parts = {
        "replay": (state.replay.examples, state.replay.policies),
        "queue": state.queue.queries,
        "games": state.episodes,
    }
    devices = [len({str(s.index) for s in x.addressable_shards}) for x in jax.tree.leaves(parts)]
    whole = re.findall(rf"\w+\[(?:{CAPACITY}|{POLICIES}),[\d,]+\]", program)
    return numbers(state, found) | {"devices": np.array(devices), "whole": np.array(len(whole))}


def numbers(state, metrics):
    """What a run has come to, by name: parameters, sizes, metrics."""
    sizes = {"queue": state.queue.size, "replay": state.replay.size, "step": state.step}
    kept = {"learner": state.learner, "sizes": sizes, "metrics": metrics}
    leaves = jax.tree_util.tree_leaves_with_path(kept)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def with_checkpoints(step, folder, last):
    """Goes on from the checkpoint in `folder`, if there is one, up to step `last(first)`; says so
    after every step."""
    from solvers import checkpoint  # imports Orbax
    from train import metrics

    state = start()
    if (folder / "state").exists():
        state = checkpoint.read(folder / "state", state, identity=IDENTITY)
    first, report = int(state.step), None
    with metrics.MetricsWriter(folder, step=first) as writer:
        while int(state.step) < last(first):
            number = int(state.step)
            state, report = step(state)
            require_finite_losses(report, number)
            writer.write(number, report)
            if (number + 1) % SAVE_EVERY == 0:
                checkpoint.write(folder / "state", state, identity=IDENTITY)
            print(number, flush=True)
    return numbers(state, report)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--devices", action="store_true", help="use all there are")
    parser.add_argument("--process", type=int, help="number of this one, of two")
    parser.add_argument("--port", type=int)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--whole", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.process is not None:
        address = f"localhost:{arguments.port}"
        jax.distributed.initialize(address, num_processes=2, process_id=arguments.process)
    if arguments.folder is None:
        on_mesh = arguments.devices or arguments.process is not None
        numbers = spread(arguments.steps, data_sharding.data_mesh() if on_mesh else None)
        np.savez(arguments.out, **numbers)
        return
    _, step, _ = compiled_step()
    more = float("inf") if arguments.steps is None else arguments.steps
    numbers = with_checkpoints(step, arguments.folder, lambda first: first + more)
    whole = with_checkpoints(step, arguments.whole, lambda first: numbers["['sizes']['step']"])
    np.savez(arguments.out, **numbers)
    np.savez(arguments.whole / "numbers.npz", **whole)


if __name__ == "__main__":
    main()
