"""Learning curves: several methods with many learners each, measured on a schedule.

The learners and their measurements are written to a checkpoint every minute, and at Ctrl-C. A
learner derives its random numbers from the number of the episode, so a run that was interrupted and
resumed ends with exactly the numbers of one that was not.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from experiments.harness import results
from experiments.harness.checkpoint_times import CheckpointTimes
from experiments.harness.interrupts import interrupt_waits
from experiments.harness.progress import progress
from experiments.tabular.measured_solve import next_log_spaced

_PIECE_SECONDS = 0.5  # aim for the episodes run in one piece, whose end Ctrl-C waits for
_MEASURED = "found"  # the measurements' name in checkpoints


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
    """L learners that run side by side, how one of them learns, and what is measured of it."""

    start: PyTree  # leaves [L, ...]: the learners before their first episode
    keys: Key[Array, " L"]
    run: Callable[[PyTree, Key[Array, ""], Int[Array, ""]], PyTree]  # a learner, its key, episodes
    measure: Callable[[PyTree], Float[Array, ""]]  # of a learner


def of_seeds(learner: PyTree, seeds: int) -> dict[str, PyTree]:
    """The fields `start` and `keys` of a method with `seeds` copies of a learner."""
    start = jax.tree.map(lambda x: jnp.broadcast_to(x, (seeds, *x.shape)), learner)
    return {"start": start, "keys": jax.random.split(jax.random.key(0), seeds)}


def log_spaced(first: int, last: int) -> tuple[int, ...]:
    """Numbers of episodes from `first` to `last`, ten per decade."""
    points = [first]
    while points[-1] < last:
        points.append(min(next_log_spaced(points[-1]), last))
    return tuple(points)


def reported(at: Sequence[int]) -> list[int]:
    """Indices of the points that a result reports: 1 and 5 of every decade, and the last."""
    return [n for n, at_n in enumerate(at) if f"{at_n}".strip("0") in ("1", "5") or at_n == at[-1]]


def numbers(
    at: Sequence[int], curves: Mapping[str, Float[np.ndarray, "points _"]], *, unit: str
) -> Iterator[results.Number]:
    """The reported points of every curve: means, with two standard errors to either side."""
    for name, curve in curves.items():
        for point in reported(at):
            low, high = results.interval(curve[point].tolist())
            yield results.Number(
                name=f"{at[point]:,} episodes:{name}",
                value=float(curve[point].mean()),
                unit=unit,
                low=low,
                high=high,
                seeds=curve.shape[1],
            )


def learn(
    folder: pathlib.Path,
    methods: Mapping[str, Method],
    *,
    at: Sequence[int],
    saved: Callable[[], None] = lambda: None,
) -> dict[str, Float[np.ndarray, "points _"]]:
    """Lets the learners of all methods learn, each method in a thread, and measures them.

    Args:
      folder: of the checkpoint, from which an interrupted run is continued.
      methods: by name.
      at: the numbers of episodes after which learners are measured, ascending.
      saved: called whenever a checkpoint has been written.

    Returns:
      By method, a measurement per point of `at` and learner.

    Raises:
      KeyboardInterrupt: Ctrl-C; a checkpoint has been left.
      ValueError: a measurement is not finite; the checkpoint is damaged.
      OSError: the checkpoint cannot be written.
    """
    from solvers import checkpoint  # imports Orbax

    identity = {"at": [*at], "methods": [*methods]}
    state = _initial_state(methods, points=len(at))
    with contextlib.suppress(FileNotFoundError):
        state = jax.tree.map(np.array, checkpoint.read(folder, state, identity=identity))
    advance = {
        name: jax.jit(jax.vmap(method.run, (0, 0, None))) for name, method in methods.items()
    }
    measure = {name: jax.jit(jax.vmap(method.measure)) for name, method in methods.items()}
    done, pace, times = int(state["done"]), 64, CheckpointTimes()
    with (
        progress(folder.name, at[-1]) as report,
        interrupt_waits() as pressed,
        ThreadPoolExecutor(os.cpu_count()) as threads,
    ):
        report(done, None, 0.0)
        while done < at[-1]:
            point = next(index for index, episodes in enumerate(at) if episodes > done)
            count, begin = min(pace, at[point] - done), time.monotonic()

            def advanced(name, state=state, count=count):
                learners = advance[name](
                    state["learners"][name], methods[name].keys, jnp.int32(count)
                )
                return name, jax.block_until_ready(learners)

            state["learners"] = dict(threads.map(advanced, methods))
            done += count
            state["done"] = np.array(done, np.int32)
            seconds = time.monotonic() - begin
            pace = _new_pace(pace, seconds, whole=count == pace)
            report(done, None, count / seconds)
            if done == at[point]:
                for name in methods:
                    values = np.asarray(measure[name](state["learners"][name]))
                    if not np.isfinite(values).all():
                        raise ValueError(
                            f"{name}: measured {values} after {done:,} episodes, which must be"
                            " finite"
                        )
                    state[_MEASURED][name][point] = values
            if pressed() or done == at[-1] or times.due():
                with times.writing():
                    checkpoint.write(folder, state, identity=identity)
                    saved()
            if pressed():
                raise KeyboardInterrupt(f"stopped after {done:,} episodes")
    return {name: state[_MEASURED][name] for name in methods}


def _initial_state(methods, *, points):
    """The content of the checkpoint before the first episode."""
    return {
        "done": np.array(0, np.int32),
        "learners": {name: method.start for name, method in methods.items()},
        _MEASURED: {
            name: np.full((points, len(method.keys)), np.nan, np.float32)
            for name, method in methods.items()
        },
    }


def _new_pace(pace, seconds, *, whole):
    """The number of episodes to run in one piece, so that it takes about `_PIECE_SECONDS`."""
    if seconds > 2 * _PIECE_SECONDS:
        return max(1, pace // 2)
    return 2 * pace if whole and seconds < _PIECE_SECONDS else pace
