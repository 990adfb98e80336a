"""Growing-tree CFR as the benchmark measures it: speed, network calls, where the time goes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from experiments.benchmarks.measurements import (
    Clock,
    mesh_of_cores,
    sample_searches,
    seconds_per_turn,
)
from experiments.benchmarks.network_time import layers, matrix_rate, operations
from experiments.benchmarks.program_steps import compile_to_count, steps_of_a_run
from experiments.benchmarks.search_tasks import TASKS, Setting, before_mate, build
from jaxgames.beliefs.contract import BeliefGame
from jaxgames.core import TERMINAL
from solvers.device_batches import split_calls
from solvers.search import growing_tree_cfr, readouts
from solvers.search.lazy_search import root_chunk
from solvers.search.search_state import GrowingTreeCfr, Search, Searches


def measure(job: dict[str, Any], report: Callable[..., None]) -> None:
    """Reports compile time, samples of searches per second, the average policies, and with
    `pieces` the network calls and the time of each part.

    On several devices each searches for its share of the batch; on an accelerator, where cores are
    no devices, only their number is reported then.

    Args:
      job: `task`, a key of `TASKS`; `devices`; `pieces`; `repeats`, `sampling_seconds` and
        `seconds`, as in `search.Config`.
      report: takes the numbers as keywords.
    """
    mesh = mesh_of_cores(job["devices"])
    report(devices=1 if mesh is None else mesh.size)
    if mesh is None and job["devices"] > 1:
        return
    task = TASKS[job["task"]]
    setting = build(task)

    def arguments_of(game, number):
        problem = setting.problem.replace(state=game.root())
        keys = jax.random.split(jax.random.key(number), task.batch)
        return (game, setting.params, problem), keys

    clock = Clock()
    run = jax.jit(searcher(setting, mesh))
    run = run.lower(*arguments_of(setting.game, 0)).compile()
    report(compile_seconds=round(clock.seconds(), 3))
    if mesh is None:
        sizes = run.memory_analysis()
        room = sizes.temp_size_in_bytes + sizes.output_size_in_bytes
        report(bytes_per_search=room / task.batch)
    searches, samples = sample_searches(
        lambda number: run(*arguments_of(setting.game, number)), task.batch, job
    )
    report(
        samples=samples,
        answer=_answer(searches).tolist(),
    )
    if task.mate is not None:
        position = before_mate(task, setting.game)
        first, second = jax.vmap(readouts.average_policy)(run(*arguments_of(position, 0)))
        report(move=int(jnp.argmax(jnp.sum(first + second, axis=(0, 2)))))
    if job["pieces"]:
        report(**network_calls(setting, searches))
        quick = task.batch / samples[0]["rate"] < job["sampling_seconds"]
        report(**part_seconds(setting, searches, seconds=job["seconds"], check=quick))


def searcher(setting: Setting, mesh: Mesh | None = None) -> Callable[..., Search]:
    """A function of `(game, params, problem)` and keys `[B]` that makes B searches side by side."""

    def run(shared, keys):
        game, params, problem = shared
        search = functools.partial(growing_tree_cfr.search, game, params, problem=problem)
        return jax.vmap(lambda key: search(key, settings=setting.settings))(keys)

    return split_calls(run, mesh)


def network_calls(setting: Setting, searches: Search) -> dict[str, float]:
    """Network calls per search, the mean over a batch of searches.

    Returns:
      `simulations`; `nodes`; `calls` that a search asks for; `computed_calls`, which are more,
      because leaves, or children of a root, are evaluated many at a time; `operations`, the
      floating-point operations of the calls asked for.
    """
    params = setting.params
    batch, settings = len(searches.iterations), setting.settings
    others = settings.simulations + 1  # priors of new nodes and of the root
    visits = jax.vmap(lambda tree, target: tree.visits_at(target))(searches.tree, searches.target)
    visits = sum(np.asarray(own).sum(axis=(1, 2)) for own in visits)
    counted = {
        "simulations": float(visits.mean()),
        "nodes": float(np.mean(searches.tree.count)),
    }
    if settings.expand is not None:  # every place is evaluated once, with its prior
        ends = searches.tree.actor == TERMINAL
        used = np.arange(ends.shape[1]) < np.asarray(searches.tree.count)[:, None]
        asked = (used & ~np.asarray(ends)).sum() / batch
        chunk = root_chunk(setting.game.num_children)  # of the root's children
        chunks = math.ceil(np.max(searches.tree.children[:, 0]) / chunk)
        padded = others + chunks * chunk
        cost = asked * operations(_layers(setting)) if params else 0.0
    else:
        asked, computed = leaves_by_iteration(setting, batch)
        leaves, padded = asked.sum() / batch, computed.sum() / batch + others
        value, prior = head_operations(setting) if params else (0, 0)
        cost = leaves * value + others * prior
        asked = leaves + others
    counted |= {"calls": float(asked), "computed_calls": float(padded)}
    return counted | {"operations": float(cost)}


def leaves_by_iteration(setting: Setting, batch: int) -> tuple[np.ndarray, np.ndarray]:
    """How many leaves a batch of searches has in each of T iterations `[T]`, and how many leaves
    are evaluated because places are evaluated in chunks `[T]`."""

    @functools.partial(jax.jit, static_argnames="settings")
    def run(game, params, problem, settings):
        states = _initial_searches(game, params, problem, batch=batch, settings=settings)
        chunk, together = states.layout.chunk, settings.expansions_per_phase

        def phase(states, number):
            states = _phase(game, params, states, number, 1, together, settings)
            forest = states.forest
            chunks = -(-forest.num_leaves // chunk)
            return states, (forest.num_leaves - forest.num_free, chunks * chunk)

        first = states.forest
        counts = jax.lax.scan(phase, states, jnp.arange(0, settings.simulations, together))[1]
        start = first.num_leaves, -(-first.num_leaves // chunk) * chunk
        return [jnp.append(x, y)[:-1] for x, y in zip(start, counts, strict=True)]

    asked, computed = run(setting.game, setting.params, setting.problem, setting.settings)
    return np.asarray(asked), np.asarray(computed)


def head_operations(setting: Setting) -> tuple[int, int]:
    """Operations of a network call that asks for values only, and of one for a prior only."""
    torso, *heads = (operations(_layers(setting, part)) for part in ("torso", "values", "policy"))
    return torso + heads[0], torso + heads[1]


def _layers(setting, part=None):
    """The layers of the network, or of one part of it."""
    params = setting.params if part is None else setting.params[part]
    return layers(params, getattr(setting.game, "board", None))


def part_seconds(
    setting: Setting, searches: Search, *, seconds: float, check: bool = True
) -> dict[str, Any]:
    """Where the time of a batch of searches goes: its parts, timed apart half-way through it.

    The cost of the parts grows about linearly in the course of a search, so half-way is the mean.

    Args:
      setting: what is searched, and how.
      searches: a batch of finished searches, to compare with.
      seconds: how long each part is timed for.
      check: whether to compare the policy of the parts put together with that of `searches`.

    Returns:
      `iterate_seconds` and `simulate_seconds` of an iteration of CFR and of a simulation, and what
      of these is the network's: `network_seconds` and `simulate_network_seconds`; and the numbers
      of `sequential_steps`.

    Raises:
      ValueError: `check` is true, and the parts put together find another policy than the search.
    """
    settings, batch = setting.settings, len(searches.iterations)
    parts = functools.partial(_parts, setting.game, setting.params, settings=settings)
    begin = _initial_searches(
        setting.game, setting.params, setting.problem, batch=batch, settings=settings
    )
    together = settings.expansions_per_phase
    phases = settings.simulations // together
    half, one, none, each = map(jnp.int32, (phases // 2 * together, 1, 0, together))
    middle = parts(begin, half // each, none, one, each)
    if check:
        whole = parts(middle, jnp.int32(phases) - half // each, half, one, each)
        _check_equal(jax.jit(growing_tree_cfr.finish)(whole), searches)
    iterate = seconds_per_turn(lambda n: parts(middle, one, half, n, none), seconds=seconds)
    expand = seconds_per_turn(
        lambda n: parts(middle, one, half, none, n),
        seconds=seconds,
        most=settings.simulations // 2,  # the tree has room for no more
    )
    reported = {"iterate_seconds": iterate, "simulate_seconds": expand}
    reported |= sequential_steps(setting, middle)
    if setting.params is None:
        return reported | {"network_seconds": 0.0, "simulate_network_seconds": 0.0}
    return reported | _network(setting, middle, seconds=seconds)


def sequential_steps(setting: Setting, states: Searches) -> dict[str, int]:
    """The turns of loops that follow one another, however many searches are side by side.

    Args:
      setting: what is searched, and how.
      states: a batch of searches in progress.

    Returns:
      `iterate_steps` of an iteration of CFR and `simulate_steps` of a simulation; nothing on
      accelerators, whose profiles do not name the operations of a program.
    """
    if jax.default_backend() != "cpu":
        return {}
    settings = setting.settings
    noise = _noise(states, settings)[:, settings.simulations // 2]
    several = settings.expansions_per_phase > 1

    def iterate(game, params, states):
        return growing_tree_cfr.iterate(game, params, states, settings=settings)

    def simulate(game, params, states):
        settled = growing_tree_cfr.visits_so_far(states) if several else None
        return growing_tree_cfr.simulate(
            game, params, noise, states, settings=settings, settled=settled
        )

    arguments = setting.game, setting.params, states
    return {
        f"{part.__name__}_steps": steps_of_a_run(compile_to_count(part, *arguments), *arguments)
        for part in (iterate, simulate)
    }


def _network(setting, middle, *, seconds):
    """Seconds of the network's calls in an iteration and in a simulation, and the matrix rate."""
    game, settings, batch = setting.game, setting.settings, middle.layout.batch
    evaluated = functools.partial(_evaluated, game, setting.params, evaluate=settings.evaluate)
    found = _layers(setting)
    if settings.expand is not None:
        numbers = {"matrix_rate": matrix_rate(found, rows=batch, seconds=seconds)}
        run = functools.partial(evaluated, heads=(0, 1), shape=(batch, settings.expand))
        spent = seconds_per_turn(run, seconds=seconds)
        return numbers | {"network_seconds": 0.0, "simulate_network_seconds": spent}
    numbers = {"matrix_rate": matrix_rate(found, rows=middle.layout.chunk, seconds=seconds)}
    chunks = -(-int(middle.forest.num_leaves) // middle.layout.chunk)
    leaves = functools.partial(evaluated, heads=(0,), shape=(1, middle.layout.chunk))
    prior = functools.partial(evaluated, heads=(1,), shape=(batch, 1))
    return numbers | {
        "network_seconds": chunks * seconds_per_turn(leaves, seconds=seconds),
        "simulate_network_seconds": seconds_per_turn(prior, seconds=seconds),
    }


def _answer(searches):
    """Average policies `[B, ...]` of both players at the targets of searches."""
    policies = jax.vmap(readouts.average_policy)(searches)
    return np.concatenate([np.asarray(own).reshape(len(own), -1) for own in policies], axis=1)


def _check_equal(*searches):
    policy, expected = map(_answer, searches)
    if not np.allclose(policy, expected, rtol=1e-3, atol=1e-4):
        worst = np.abs(policy - expected).max()
        raise ValueError(f"the parts of the search give other policies than the search: {worst:g}")


@functools.partial(jax.jit, static_argnames=("batch", "settings"))
def _initial_searches(game: BeliefGame, params, problem, *, batch, settings: GrowingTreeCfr):
    """A batch of equal searches without any simulation yet."""
    problems = jax.tree.map(lambda x: jnp.broadcast_to(x, (batch, *x.shape)), problem)
    return growing_tree_cfr.start(game, params, problems=problems, settings=settings)


@functools.partial(jax.jit, static_argnames="settings")
def _parts(game, params, states, phases, number, iterations, simulations, *, settings):
    """A batch of searches continued by `phases`, each of which makes `iterations` of CFR and then
    `simulations`; the first simulation of all is number `number`."""

    def phase(i, states):
        first = number + i * simulations
        return _phase(game, params, states, first, iterations, simulations, settings)

    return jax.lax.fori_loop(0, phases, phase, states)


def _phase(game, params, states, number, iterations, simulations, settings):
    """Iterations of CFR and then simulations, with the random numbers of the searches timed."""
    noise = _noise(states, settings)

    def iterate(_, states):
        return growing_tree_cfr.iterate(game, params, states, settings=settings)

    states = jax.lax.fori_loop(0, iterations, iterate, states)
    several = settings.expansions_per_phase > 1
    settled = growing_tree_cfr.visits_so_far(states) if several else None

    def simulate(j, states):
        now = noise[:, jnp.minimum(number + j, settings.simulations - 1)]
        return growing_tree_cfr.simulate(
            game, params, now, states, settings=settings, settled=settled
        )

    return jax.lax.fori_loop(0, simulations, simulate, states)


def _noise(states, settings):
    keys = jax.random.split(jax.random.key(0), states.layout.batch)
    return growing_tree_cfr.noise_of_walks(keys, states, settings)


@functools.partial(jax.jit, static_argnames=("evaluate", "heads", "shape"))
def _evaluated(game, params, count, *, evaluate, heads, shape):
    """A batch of network calls made `count` times, of which only the outputs `heads` are used."""
    state = game.root()
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (*shape, *jnp.shape(x))), state)
    ones = tuple(jnp.ones((*shape, rows)) for rows in game.num_rows)

    def again(_, reach):
        outputs = jax.vmap(jax.vmap(lambda s, r: evaluate(params, game, s, r)))(states, reach)
        total = sum(jnp.sum(own) for head in heads for own in outputs[head])
        return jax.tree.map(
            lambda x: x + 0 * total, reach
        )  # the total may be infinite, so the compiler must compute it

    return jax.lax.fori_loop(0, count, again, ones)
