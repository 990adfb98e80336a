"""Iterations of blueprints with measurements on schedule, checkpoints and Ctrl-C."""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, PyTree

from experiments.harness.interrupts import ctrl_c_waits
from experiments.harness.progress import progress
from solvers import checkpoint

_PIECE_SECONDS = 1.0  # aim for the iterations made in one piece, whose end Ctrl-C waits for
_KEPT_SECONDS = 120.0  # from one checkpoint to the next


def train_and_measure(
    advance: Callable[[PyTree, int], PyTree],
    state: PyTree,
    *,
    done: Callable[[PyTree], int],
    at: Sequence[int],
    measure: Callable[[PyTree], Sequence[float]],
    width: int,
    exploitability: Callable[[Float[np.ndarray, " width"]], float] | None = None,
    title: str,
    folder: pathlib.Path,
    identity: Mapping[str, Any],
    keep: Callable[[], None],
) -> tuple[PyTree, Float[np.ndarray, "n width"]]:
    """Makes iterations and measures their results, from a checkpoint on if there is one.

    Args:
      advance: makes so many more iterations; the state it is given is used up.
      state: before the first iteration.
      done: how many iterations a state has had.
      at: the numbers of iterations after which is measured, in their order.
      measure: returns `width` numbers, the first of which is shown as progress.
      width: see `measure`.
      exploitability: of what `measure` returned, to be shown with the progress.
      title: of the progress bar.
      folder: of the checkpoint.
      identity: of the checkpoint: another one is refused.
      keep: is called with each checkpoint.

    Returns:
      The last state, and what was measured.

    Raises:
      ValueError: the folder holds a checkpoint of another identity.
      OSError: a checkpoint cannot be written.
      KeyboardInterrupt: Ctrl-C was pressed; a checkpoint has been written.
    """
    saved = {"state": state, "found": np.full((len(at), width), np.nan)}
    with contextlib.suppress(FileNotFoundError):
        saved = checkpoint.read(folder, saved, identity=identity)
    state, found = jax.tree.map(jax.numpy.asarray, saved["state"]), np.array(saved["found"])

    pace, kept, shown = 8, time.monotonic(), None
    with progress(title, at[-1]) as report, ctrl_c_waits() as pressed:
        report(done(state), None, 0.0)
        while np.isnan(found).any():
            point = int(np.flatnonzero(np.isnan(found).any(axis=1))[0])
            count, begin = min(pace, at[point] - done(state)), time.monotonic()
            if count:
                state = jax.block_until_ready(advance(state, count))
                seconds = max(time.monotonic() - begin, 1e-3)
                pace = max(1, min(4 * pace, round(pace * _PIECE_SECONDS / seconds)))
                report(done(state), shown, count / seconds)
            reached = done(state) == at[point]
            if reached:
                found[point] = measure(state)
                shown = exploitability and exploitability(found[point])
                report(done(state), shown, 0.0)
            stop = pressed()
            if reached or stop or time.monotonic() > kept + _KEPT_SECONDS:
                checkpoint.write(folder, {"state": state, "found": found}, identity=identity)
                keep()
                kept = time.monotonic()
            if stop:
                raise KeyboardInterrupt
    return state, found
