"""Our search as the benchmark measures it: its speed, its network calls, where its time goes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.benchmarks import Clock, arguments
from experiments.benchmarks.network_floor import (
    layers,
    matrix_rate,
    operations,
    seconds_per_turn,
)
from experiments.benchmarks.search_tasks import TASKS, Setting, before_mate, build
from jaxgames.beliefs.contract import BeliefGame
from solvers.search import expansion_phase, growing_tree_cfr, readouts, regret_phase
from solvers.search.search_state import GrowingTreeCfr, Search
from solvers.search.search_tree import CHUNK
from train.data_sharding import data_mesh, split_calls


def main() -> None:
    """What a process of its own does: the measurement that its arguments name."""
    job, report = arguments()
    if job["program"] == "growth":
        from experiments.benchmarks.tree_growth import measure as measure_growth

        measure_growth(job, report)
    elif job["program"] == "alphazero":
        from experiments.benchmarks.mctx_search import measure as measure_alphazero

        measure_alphazero(job, report)
    elif job["program"] == "response":
        from experiments.benchmarks.response_search import measure as measure_response

        measure_response(job, report)
    else:
        jax.config.update("jax_num_cpu_devices", job["devices"])
        measure(job, report)


def measure(job: dict[str, Any], report: Callable[..., None]) -> None:
    """Reports compile time, samples of searches per second, and with `pieces` all the rest.

    On several devices each searches for its share of the batch.
    """
    task = TASKS[job["task"]]
    setting = build(task)

    def arguments_of(game, number):
        problem = setting.problem.replace(state=game.root())
        keys = jax.random.split(jax.random.key(number), task.batch)
        return (game, setting.params, problem), keys

    clock = Clock()
    run = jax.jit(searcher(setting, job["devices"]))
    run = run.lower(*arguments_of(setting.game, 0)).compile()
    report(compile_seconds=round(clock.seconds(), 3))
    found, samples = sampled(
        lambda number: run(*arguments_of(setting.game, number)), task.batch, job
    )
    report(
        samples=samples,
        answer=np.asarray(jax.vmap(readouts.average_policy)(found)).tolist(),
    )
    if task.mate is not None:
        there = before_mate(task, setting.game)
        policies = jax.vmap(readouts.average_policy)(run(*arguments_of(there, 0)))
        report(move=int(jnp.argmax(jnp.sum(policies, axis=(0, 2)))))
    if job["pieces"]:
        report(**calls(setting, found))
        quick = task.batch / samples[0]["rate"] < job["sampling_seconds"]
        report(**pieces(setting, found, seconds=job["seconds"], check=quick))


def sampled(
    search: Callable[[int], Any], batch: int, job: dict[str, Any]
) -> tuple[Any, list[dict[str, float]]]:
    """What `search(0)` finds, and samples of `search(0)`, `search(1)`, ...: `batch` searches each.

    There are as many as told, or fewer, but two, once they have taken long enough.
    """
    samples: list[dict[str, float]] = []
    begin = Clock()

    def sample(number):
        clock = Clock()
        found = jax.block_until_ready(search(number))
        samples.append(clock.sample(batch))
        return found

    first = sample(0)
    while len(samples) < job["repeats"]:
        if len(samples) >= 2 and begin.seconds() > job["sampling_seconds"]:
            break
        sample(len(samples))
    return first, samples


def searcher(setting: Setting, devices: int = 1) -> Callable[..., Search]:
    """A function of `(game, params, problem)` and keys `[B]`: searches side by side."""

    def run(shared, keys):
        game, params, problem = shared
        one = functools.partial(growing_tree_cfr.search, game, params, problem=problem)
        return jax.vmap(lambda key: one(key, settings=setting.settings))(keys)

    return split_calls(run, data_mesh() if devices > 1 else None)


def calls(setting: Setting, found: Search) -> dict[str, float]:
    """Network calls of one search on average, of a batch: those it asks for, and those computed.

    Leaves are evaluated CHUNK at a time, and all searches of a batch take as many as the largest.
    `operations` are those of the calls asked for.
    """
    game, params = setting.game, setting.params
    batch, settings = len(found.iterations), setting.settings
    others = settings.simulations + 1  # priors of new nodes and of the root
    leaves = leaves_by_iteration(found)
    visits = np.asarray(_visits(found)).mean()
    counted = {"simulations": float(visits), "nodes": float(np.mean(found.tree.count))}
    if game.num_rows == 1:  # every slot is evaluated once, with its prior
        new = game.num_children if settings.expand is None else settings.expand
        asked = 1 + np.mean(np.asarray(found.tree.leaves.count) + np.asarray(found.tree.count) - 1)
        padded = (1 + settings.max_path) * game.num_children + settings.simulations * new + 1
        cost = asked * operations(layers(params)) if params else 0.0
    else:
        asked = leaves.sum() / batch + others
        padded = (-(-leaves.max(axis=0) // CHUNK) * CHUNK).sum() + others
        value, prior = heads(params) if params else (0, 0)
        cost = leaves.sum() / batch * value + others * prior
    counted |= {"calls": float(asked), "computed_calls": float(padded)}
    return counted | {"operations": float(cost)}


def _visits(found):
    """Simulations through the state searched at, by search of a batch."""
    tree = found.tree
    rows = tree.first.shape[1] // tree.parent.shape[1]
    visits = tree.visits.reshape(*tree.visits.shape[:2], -1, rows)
    return visits[np.arange(len(visits)), :, found.target].sum(axis=(1, 2))


def heads(params: Any) -> tuple[int, int]:
    """Operations of a call that asks for values alone, and of one for a prior alone."""
    torso = operations(layers(params["torso"]))
    return tuple(torso + operations(layers(params[head])) for head in ("values", "policy"))


def leaves_by_iteration(found: Search) -> np.ndarray:
    """How many leaves each search `[B]` of a batch had in every iteration: `[B, T]`.

    Told from when nodes joined: weights are 1, 2, 3, ... (linear averaging).
    """
    iterations = int(found.iterations.max())
    tree = jax.tree.map(np.asarray, found.tree)
    counts = np.zeros((len(tree.count), iterations + 1), np.int64)
    for b, count in enumerate(tree.count):
        joined = np.round((np.sqrt(8 * tree.since[b].astype(np.float64) + 1) - 1) / 2).astype(int)
        slots = tree.node.shape[1] // tree.parent.shape[1]
        left, grown = tree.leaves.slot[b, : tree.leaves.count[b]], tree.parent[b, 1:count]
        np.add.at(counts[b], joined[np.concatenate([left, grown]) // slots], 1)
        np.add.at(counts[b], joined[1:count], -1)
    return np.cumsum(counts, axis=1)[:, :iterations]


def pieces(
    setting: Setting, found: Search, *, seconds: float, check: bool = True
) -> dict[str, Any]:
    """Where the time of a batch of searches goes, by its parts timed apart half-way through it.

    What they cost grows about linearly in the course of a search, so that half-way is the mean.

    Raises:
      ValueError: `check` is true, and the parts put together find another policy than the search.
    """
    settings, batch = setting.settings, len(found.iterations)
    keys = jax.random.split(jax.random.key(0), batch)
    parts = functools.partial(_parts, setting.game, setting.params, keys, settings=settings)
    begin = _started(setting.game, setting.params, setting.problem, batch=batch, settings=settings)
    half, one, none = jnp.int32(settings.simulations // 2), jnp.int32(1), jnp.int32(0)
    middle = parts(begin, half, none, one, one)
    if check:
        whole = parts(middle, jnp.int32(settings.simulations) - half, half, one, one)
        _check_equal(whole, found)
    iterate = seconds_per_turn(lambda n: parts(middle, one, half, n, none), seconds=seconds)
    expand = seconds_per_turn(
        lambda n: parts(middle, one, half, none, n),
        seconds=seconds,
        most=settings.simulations // 2,  # so many have room
    )
    reported = {"iterate_seconds": iterate, "simulate_seconds": expand}
    if setting.params is None:
        return reported | {"network_seconds": 0.0, "simulate_network_seconds": 0.0}
    return reported | _network(setting, middle, seconds=seconds)


def _network(setting, middle, *, seconds):
    """Seconds that the network takes in an iteration and in a simulation, and the matrix rate."""
    game, settings, batch = setting.game, setting.settings, len(middle.iterations)
    evaluated = functools.partial(_evaluated, game, setting.params, evaluate=settings.evaluate)
    shapes = layers(setting.params)
    found = {"matrix_rate": matrix_rate(shapes, rows=batch * CHUNK, seconds=seconds)}
    if game.num_rows == 1:
        new = game.num_children if settings.expand is None else settings.expand
        run = functools.partial(evaluated, heads=(0, 1), shape=(batch, new))
        spent = seconds_per_turn(run, seconds=seconds)
        return found | {"network_seconds": 0.0, "simulate_network_seconds": spent}
    chunks = -(-int(middle.tree.leaves.count.max()) // CHUNK)
    leaves = functools.partial(evaluated, heads=(0,), shape=(batch, CHUNK))
    prior = functools.partial(evaluated, heads=(1,), shape=(batch, 1))
    return found | {
        "network_seconds": chunks * seconds_per_turn(leaves, seconds=seconds),
        "simulate_network_seconds": seconds_per_turn(prior, seconds=seconds),
    }


def _check_equal(*searches):
    found, expected = (jax.vmap(readouts.average_policy)(search) for search in searches)
    if not np.allclose(found, expected, rtol=1e-3, atol=1e-4):
        worst = np.abs(np.asarray(found) - np.asarray(expected)).max()
        raise ValueError(f"the parts of the search give other policies than the search: {worst:g}")


@functools.partial(jax.jit, static_argnames=("batch", "settings"))
def _started(game: BeliefGame, params, problem, *, batch, settings: GrowingTreeCfr):
    state = growing_tree_cfr.start(game, params, problem=problem, settings=settings)
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *x.shape)), state)


@functools.partial(jax.jit, static_argnames="settings")
def _parts(game, params, keys, states, phases, number, iterations, simulations, *, settings):
    """So many phases of a search, from `number` on, with so many iterations and simulations."""

    def iterate(_, states):
        one = lambda state: regret_phase.iterate(game, params, state, settings=settings)  # noqa: E731
        return jax.vmap(one)(states)

    def phase(i, states):
        def simulate(j, states):
            def one(key, state):
                noise = jax.random.fold_in(key, number + i + j)
                return expansion_phase.simulate(game, params, noise, state, settings=settings)

            return jax.vmap(one)(keys, states)

        states = jax.lax.fori_loop(0, iterations, iterate, states)
        return jax.lax.fori_loop(0, simulations, simulate, states)

    return jax.lax.fori_loop(0, phases, phase, states)


@functools.partial(jax.jit, static_argnames=("evaluate", "heads", "shape"))
def _evaluated(game, params, count, *, evaluate, heads, shape):
    """A batch of network calls `count` times, of which only some outputs are wanted."""
    state = game.root()
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (*shape, *jnp.shape(x))), state)
    reach = jnp.ones((*shape, 2, game.num_rows))

    def again(_, reach):
        found = jax.vmap(jax.vmap(lambda s, r: evaluate(params, game, s, r)))(states, reach)
        total = sum(jnp.sum(found[head]) for head in heads)
        return reach + 0 * total  # a float that is not known to be finite: it is not left out

    return jax.lax.fori_loop(0, count, again, reach)
