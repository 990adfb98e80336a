"""Iterations of blueprints with measurements on schedule, checkpoints and Ctrl-C."""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import SingleDeviceSharding
from jaxtyping import PyTree

from experiments.harness.checkpoint_times import CheckpointTimes
from experiments.harness.interrupts import interrupt_waits
from experiments.harness.progress import progress
from solvers import checkpoint

_PIECE_SECONDS = 1.0  # aim for the iterations made in one piece, whose end Ctrl-C waits for


def train_and_measure(
    advance: Callable[[PyTree, int], PyTree],
    state: PyTree | Callable[[], PyTree],
    *,
    done: Callable[[PyTree], int],
    at: Sequence[int],
    measure: Callable[[PyTree], Any],
    title: str,
    folder: pathlib.Path,
    identity: Mapping[str, Any],
    keep: Callable[[], None],
    exploitability: Callable[[Any], float] | None = None,
    scale: int = 1,
) -> tuple[PyTree, list[Any]]:
    """Makes iterations and measures their results, from a checkpoint on if there is one.

    Args:
      advance: makes this many more iterations; the state it is given is used up.
      state: before the first iteration; or a function that makes it on the first device of this
        process, which leaves its memory to a checkpoint that is read instead.
      done: how many iterations a state has had.
      at: the numbers of iterations after which is measured, in their order.
      measure: returns anything that JSON can hold.
      title: of the progress bar.
      folder: of the checkpoint.
      identity: of the checkpoint: another one is refused.
      keep: is called with each checkpoint.
      exploitability: of what `measure` returned, to be shown with the progress.
      scale: what an iteration counts as progress.

    Returns:
      The last state, and what was measured.

    Raises:
      ValueError: the folder holds a checkpoint of another identity.
      OSError: a checkpoint cannot be written.
      KeyboardInterrupt: Ctrl-C was pressed; a checkpoint has been written.
    """
    found: list[Any] = []
    with contextlib.suppress(FileNotFoundError):
        template = _shapes(state) if callable(state) else state
        state, found = checkpoint.read_with_notes(folder, template, identity=dict(identity))
        state = jax.tree.map(jnp.asarray, state)
    if callable(state):
        state = state()
    pace, times, shown = 8, CheckpointTimes(), None
    with progress(title, at[-1] * scale) as report, interrupt_waits() as pressed:
        report(done(state) * scale, None, 0.0)
        while len(found) < len(at):
            count, begin = min(pace, at[len(found)] - done(state)), time.monotonic()
            if count:
                state = jax.block_until_ready(advance(state, count))
                seconds = max(time.monotonic() - begin, 1e-3)
                pace = max(1, min(4 * pace, round(count * _PIECE_SECONDS / seconds)))
                report(done(state) * scale, shown, count * scale / seconds)
            reached = done(state) == at[len(found)]
            if reached:
                found = [*found, measure(state)]
                shown = exploitability and float(exploitability(found[-1]))
                report(done(state) * scale, shown, 0.0)
            stop = pressed()
            if reached or stop or times.due():
                with times.writing():
                    checkpoint.write(folder, state, identity=dict(identity), notes=found)
                    keep()
            if stop:
                raise KeyboardInterrupt
    return state, found


def _shapes(make):
    """What a function makes, as shapes on the first device."""
    place = SingleDeviceSharding(jax.local_devices()[0])
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place), jax.eval_shape(make)
    )
