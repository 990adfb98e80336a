"""Learning curves: learners side by side, several methods at once, measured on a schedule.

All that a run has is written to its checkpoint now and then, and at Ctrl-C. Learners draw their
luck by the episode, so a run that was interrupted and resumed ends with exactly the numbers of one
that was not.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from experiments.harness import results
from experiments.harness.progress import progress
from experiments.tabular.measured_solve import ctrl_c_waits, next_log_spaced

SAVE_SECONDS = 60.0  # between checkpoints
_PIECE_SECONDS = 0.5  # episodes run at once take about so long: Ctrl-C waits for their end


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
    """Learners side by side, how one of them learns, and what is measured of it."""

    start: PyTree  # leaves [L, ...]: learners before their first episode
    keys: Key[Array, " L"]
    run: Callable[[PyTree, Key[Array, ""], Int[Array, ""]], PyTree]  # so many episodes later
    measure: Callable[[PyTree], Float[Array, ""]]


def of_seeds(learner: PyTree, seeds: int) -> dict[str, PyTree]:
    """`start` and `keys` of as many learners that begin alike."""
    start = jax.tree.map(lambda x: jnp.broadcast_to(x, (seeds, *x.shape)), learner)
    return {"start": start, "keys": jax.random.split(jax.random.key(0), seeds)}


def log_spaced(first: int, last: int) -> tuple[int, ...]:
    """Numbers of episodes from `first` to `last`, ten per decade."""
    found = [first]
    while found[-1] < last:
        found.append(min(next_log_spaced(found[-1]), last))
    return tuple(found)


def told(at: Sequence[int]) -> list[int]:
    """Which of these points a result tells: 1 and 5 of every decade, and the last."""
    return [n for n, at_n in enumerate(at) if f"{at_n}".strip("0") in ("1", "5") or at_n == at[-1]]


def numbers(
    at: Sequence[int], found: Mapping[str, Float[np.ndarray, "points _"]], *, unit: str
) -> list[results.Number]:
    """The told points of every curve: means, and two standard errors about them."""
    made = []
    for name, curve in found.items():
        for number in told(at):
            low, high = results.interval(curve[number].tolist())
            made.append(
                results.Number(
                    name=f"{at[number]:,} episodes:{name}",
                    value=float(curve[number].mean()),
                    unit=unit,
                    low=low,
                    high=high,
                    seeds=curve.shape[1],
                )
            )
    return made


def learned(
    folder: pathlib.Path, methods: Mapping[str, Method], *, at: Sequence[int]
) -> dict[str, Float[np.ndarray, "points _"]]:
    """What is measured of every method's learners after `at` so many episodes, ascending.

    The methods go side by side, each in a thread. What a run has is kept in `folder`.

    Raises:
      KeyboardInterrupt: Ctrl-C; a checkpoint has been left.
      ValueError: what is measured is not finite; the checkpoint is damaged.
      OSError: the checkpoint cannot be written.
    """
    from solvers import checkpoint  # imports Orbax

    identity = {"at": [*at], "methods": [*methods]}
    state = _before(methods, points=len(at))
    with contextlib.suppress(FileNotFoundError):
        state = jax.tree.map(np.array, checkpoint.read(folder, state, identity=identity))
    advance = {name: jax.jit(jax.vmap(each.run, (0, 0, None))) for name, each in methods.items()}
    measure = {name: jax.jit(jax.vmap(each.measure)) for name, each in methods.items()}
    done, pace, saved = int(state["done"]), 64, time.monotonic()
    with (
        progress(folder.name, at[-1]) as report,
        ctrl_c_waits() as pressed,
        ThreadPoolExecutor(os.cpu_count()) as threads,
    ):
        report(done, None, 0.0)
        while done < at[-1]:
            number = next(number for number, point in enumerate(at) if point > done)
            count, begin = min(pace, at[number] - done), time.monotonic()

            def further(name, state=state, count=count):
                learners = advance[name](
                    state["learners"][name], methods[name].keys, jnp.int32(count)
                )
                return name, jax.block_until_ready(learners)

            state["learners"] = dict(threads.map(further, methods))
            done += count
            state["done"] = np.array(done, np.int32)
            seconds = time.monotonic() - begin
            pace = _new_pace(pace, seconds, whole=count == pace)
            report(done, None, count / seconds)
            if done == at[number]:
                for name in methods:
                    found = np.asarray(measure[name](state["learners"][name]))
                    if not np.isfinite(found).all():
                        raise ValueError(f"{name}: measured {found} after {done:,} episodes")
                    state["found"][name][number] = found
            if pressed() or done == at[-1] or time.monotonic() > saved + SAVE_SECONDS:
                checkpoint.write(folder, state, identity=identity)
                saved = time.monotonic()
            if pressed():
                raise KeyboardInterrupt(f"stopped after {done:,} episodes")
    return {name: state["found"][name] for name in methods}


def _before(methods, *, points):
    """What a run has before its first episode."""
    return {
        "done": np.array(0, np.int32),
        "learners": {name: method.start for name, method in methods.items()},
        "found": {
            name: np.full((points, len(method.keys)), np.nan, np.float32)
            for name, method in methods.items()
        },
    }


def _new_pace(pace, seconds, *, whole):
    """Episodes to run at once, so that a piece takes about `_PIECE_SECONDS`."""
    if seconds > 2 * _PIECE_SECONDS:
        return max(1, pace // 2)
    return 2 * pace if whole and seconds < _PIECE_SECONDS else pace
