"""Runs an iterative solver while measuring it: curve, speed, checkpoints, Ctrl-C, resuming.

The schedule of evaluations depends on iterations only, never on time, and a solver gives the same
state whether its iterations are made at once or in pieces: a run that was interrupted and resumed
ends with exactly the numbers of one that was not.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import time
import zlib
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import PyTree

from experiments.harness.checkpoint_times import CheckpointTimes
from experiments.harness.interrupts import interrupt_waits
from experiments.harness.progress import Report
from experiments.harness.runs import CHECKPOINT
from jaxgames.checks import at_least
from solvers import evaluation
from solvers.registry import PreparedSolver

_CHECKPOINT_SECONDS = 5.0  # between checkpoints
_PIECE_SECONDS = 0.25  # iterations run at once take about so long: Ctrl-C waits for their end
_RENARD = (1, 1.25, 1.6, 2, 2.5, 3.15, 4, 5, 6.3, 8, 10)  # evenly spaced on a log axis (ISO 3)


@dataclasses.dataclass(frozen=True)
class Point:
    """One point of a curve: the average policy after `iteration` iterations."""

    iteration: int
    seconds: float  # spent in the solver's compiled loop so far
    exploitability: float  # NashConv / P
    nash_conv: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """When to evaluate and when to stop."""

    iterations: int
    every: int | None = None  # iterations between evaluations; None: ten times per decade
    target: float | None = None  # stop when exploitability is below

    def __post_init__(self):
        at_least(1, iterations=self.iterations)
        if self.every is not None and self.every < 1:
            raise ValueError(f"every={self.every} must be at least 1")
        if self.target is not None and not 0 < self.target < math.inf:
            raise ValueError(f"target={self.target} must be positive")

    def next_evaluation(self, iteration: int) -> int:
        """The first iteration to evaluate after `iteration`."""
        if self.every is not None:
            following = (iteration // self.every + 1) * self.every
        else:
            following = next_log_spaced(iteration)
        return min(following, self.iterations)

    def done(self, iteration: int, points: list[Point]) -> bool:
        """Whether all iterations are made, or the target is reached."""
        return iteration >= self.iterations or self.reached(points)

    def reached(self, points: list[Point]) -> bool:
        """Whether there is a target and the last point is below it."""
        return self.target is not None and bool(points) and points[-1].exploitability < self.target


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeasuredSolve:
    """A finished run."""

    state: PyTree  # of the solver
    points: list[Point]
    values: tuple[float, ...]  # every player's expected payoff under the average policies
    compile_seconds: float


def next_log_spaced(iteration: int) -> int:
    """The first of 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 25, 32, 40, 50, ... after `iteration`."""
    decade = 10 ** int(math.log10(max(iteration, 1)))
    return next(n for step in _RENARD if (n := round(decade * step)) > iteration)


def run(
    prepared: PreparedSolver,
    schedule: Schedule,
    *,
    folder: pathlib.Path,
    resume: bool,
    report: Report,
    weight: float = 1.0,
    saved: Callable[[], None] = lambda: None,
) -> MeasuredSolve:
    """Solves on schedule, with checkpoints.

    Args:
      prepared: an iterative solver, prepared for a game.
      schedule: when to evaluate and when to stop.
      folder: where checkpoints are kept.
      resume: whether to continue from the checkpoint in `folder`, if there is one.
      report: called with the iterations made, the last exploitability, and iterations per second.
      weight: exploitability is divided by it; in a subgame, the probability of its root.
      saved: called whenever a checkpoint has been written.

    Returns:
      The solver's last state, and the curve.

    Raises:
      KeyboardInterrupt: Ctrl-C; a checkpoint has been left in `folder`.
      ValueError: the checkpoint is damaged, of another solve or of more iterations;
        exploitability is not finite.
      OSError: the checkpoint cannot be written.
    """
    start = prepared.initial_state, [], 0.0
    state, points, seconds = restore(folder, prepared) if resume else start
    if int(state.step) > schedule.iterations:
        raise ValueError(
            f"iterations={schedule.iterations} is less than the {int(state.step)} iterations of"
            f" the checkpoint in {folder}"
        )
    compile_seconds = _compile(prepared, state)
    store = _Store(folder, prepared, made=int(state.step), saved=saved)
    pace = 1
    report(int(state.step), latest(points), 0.0)
    with interrupt_waits() as pressed:
        while not schedule.done(iteration := int(state.step), points):
            stop = schedule.next_evaluation(iteration)
            count = min(pace, stop - iteration)
            state, elapsed = _advance(prepared, state, count)
            seconds += elapsed
            pace = _new_pace(pace, elapsed, stop - iteration)
            if int(state.step) == stop:
                points.append(_evaluate(prepared, state, seconds, weight))
            report(int(state.step), latest(points), count / elapsed)
            if pressed() or store.times.due():
                store.save(state, points, seconds)
            if pressed():
                raise KeyboardInterrupt(f"stopped after {int(state.step):,} iterations")
    store.save(state, points, seconds)
    values, _ = _measured(prepared, state, weight)
    return MeasuredSolve(state=state, points=points, values=values, compile_seconds=compile_seconds)


def latest(points: list[Point]) -> float | None:
    """The last exploitability, None before the first evaluation."""
    return points[-1].exploitability if points else None


def iterations_per_second(
    prepared: PreparedSolver, state: PyTree, *, seconds: float = 0.02
) -> float:
    """Steady-state speed of the compiled loop, run three times for `seconds` or more: the best."""
    count = 1
    while (elapsed := _advance(prepared, state, count)[1]) < seconds:
        count *= 2 if elapsed > seconds / 4 else 4
    again = (_advance(prepared, state, count)[1] for _ in range(2))
    return count / min(elapsed, *again)


def restore(folder: pathlib.Path, prepared: PreparedSolver) -> tuple[PyTree, list[Point], float]:
    """State and curve of the checkpoint in `folder`, and the seconds that the state took; those of
    the start if there is none.

    Raises:
      ValueError: the checkpoint is damaged, or of another solve.
    """
    from solvers import checkpoint  # imports Orbax

    template = jax.eval_shape(lambda: prepared.initial_state)
    path = _state_folder(folder)
    try:
        state, notes = checkpoint.read_with_notes(path, template, identity=_identity(prepared))
    except FileNotFoundError:
        return prepared.initial_state, [], 0.0
    if not isinstance(notes, dict):
        raise ValueError(f"the checkpoint at {path} has no seconds: it is of an older version")
    return state, [Point(**point) for point in notes["points"]], notes["seconds"]


def _identity(prepared):
    from solvers import checkpoint  # imports Orbax

    identity = checkpoint.solve_identity(prepared.sequence_form, prepared.solver, prepared.storage)
    if prepared.root_reach is not None:  # the ranges, which are not in the game's payoffs
        ranges = b"".join(np.ascontiguousarray(reach).tobytes() for reach in prepared.root_reach)
        identity["fingerprint_of_ranges"] = zlib.crc32(ranges)
    return identity if prepared.seed is None else identity | {"seed": prepared.seed}


def _state_folder(folder):
    return folder / CHECKPOINT / "state"


class _Store:
    """Writes checkpoints, as often as `times` says."""

    def __init__(self, folder, prepared, *, made, saved):
        self.folder, self.prepared = folder, prepared
        self.made, self.saved, self.times = made, saved, CheckpointTimes(_CHECKPOINT_SECONDS)

    def save(self, state, points, seconds) -> None:
        with self.times.writing():
            if int(state.step) == self.made:
                return
            from solvers import checkpoint  # imports Orbax

            checkpoint.write(
                _state_folder(self.folder),
                state,
                identity=_identity(self.prepared),
                notes={"seconds": seconds, "points": [*map(dataclasses.asdict, points)]},
            )
            self.made = int(state.step)
            self.saved()


def _compile(prepared, state) -> float:
    """Seconds to compile the loop and the evaluation."""
    begin = time.perf_counter()
    jax.block_until_ready(prepared.run(state, 0))
    _measured(prepared, state, 1.0)
    return time.perf_counter() - begin


def _advance(prepared, state, count) -> tuple[PyTree, float]:
    """The state after `count` more iterations, and the seconds that they took."""
    begin = time.perf_counter()
    state = jax.block_until_ready(prepared.run(state, count))
    return state, time.perf_counter() - begin


def _new_pace(pace, elapsed, wanted) -> int:
    """Iterations to run at once, so that one piece takes about `_PIECE_SECONDS`."""
    if elapsed > _PIECE_SECONDS:
        return max(1, pace // 2)
    return pace * 2 if pace < wanted else pace


def _evaluate(prepared, state, seconds, weight) -> Point:
    """The point of the curve after the state's iterations."""
    form, iteration = prepared.sequence_form, int(state.step)
    _, value = _measured(prepared, state, weight)
    if not math.isfinite(value):
        raise ValueError(f"{form.game}: NashConv is {value} after {iteration} iterations")
    return Point(
        iteration=iteration,
        seconds=seconds,
        exploitability=value / form.num_players,
        nash_conv=value,
    )


def _measured(prepared, state, weight) -> tuple[tuple[float, ...], float]:
    """The players' expected payoffs and NashConv of the average policies."""
    values, nash_conv = evaluation.values_and_nash_conv(
        prepared.sequence_form, prepared.average_policy(state), prepared.root_reach
    )
    return tuple((np.asarray(values) / weight).tolist()), float(nash_conv) / weight
