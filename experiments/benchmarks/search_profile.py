"""What a batch of searches does on the device: calls and time of every operation in its trace.

`python -m experiments.benchmarks.search_profile TASK FOLDER` writes profile.csv and profile.json;
the trace itself, which has an event for every call, is not kept.
"""

from __future__ import annotations

import collections
import json
import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import jax

from experiments.benchmarks.config_checks import check_names
from experiments.benchmarks.growing_tree_search import searcher
from experiments.benchmarks.measurements import Clock
from experiments.benchmarks.search_tasks import TASKS, build
from experiments.harness import results

_ROWS = 200  # operations in profile.csv: those that take most time
_PYTHON = "python"  # the line of Python's calls, which are not operations
# how names begin: planes of devices, lines of their kernels, the second events of operations
_DEVICE, _STREAM, _END = "/device:", "Stream", "end: "


def main(task: str, out: pathlib.Path) -> None:
    """Profiles a task, and writes the files.

    Args:
      task: a key of `search_tasks.TASKS`.
      out: the folder, made if it does not exist.

    Raises:
      ValueError: the task is unknown.
      OSError: the files cannot be written.
    """
    check_names("task", [task], TASKS)
    out.mkdir(parents=True, exist_ok=True)
    summary, rows = profile(_batch_of_searches(task))
    stamps = {
        "task": task,
        "device": results.device(),
        "versions": results.versions(),
        "commit": results.commit(),
    }
    results.write_csv(out / "profile.csv", rows)
    results.write_file(out / "profile.json", json.dumps(stamps | summary, indent=2) + "\n")
    print(json.dumps(summary, indent=2))


def _batch_of_searches(task: str) -> Callable[[], Any]:
    """A compiled function that makes the searches of a task, side by side."""
    setting = build(TASKS[task])
    keys = jax.random.split(jax.random.key(0), TASKS[task].batch)
    problem = setting.problem.replace(state=setting.game.root())
    shared = (setting.game, setting.params, problem)
    run = jax.jit(searcher(setting)).lower(shared, keys).compile()
    return lambda: run(shared, keys)


def profile(run: Callable[[], Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Calls a compiled function three times: to warm up, to time it, and with the profiler.

    Returns:
      The seconds of the second and the third call and, of an accelerator, how many kernels ran in
      the third and for how long in all; and a row for each of the operations that took most time.
      Time in a loop is also that of the operations in it, which stand in rows of their own.
    """
    jax.block_until_ready(run())
    clock = Clock()
    jax.block_until_ready(run())
    seconds = clock.seconds()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            clock = Clock()
            jax.block_until_ready(run())
            traced = clock.seconds()
        operations = _operations(pathlib.Path(folder))
    kernels = [
        spent
        for (plane, line, _), spent in operations.items()
        if plane.startswith(_DEVICE) and line.startswith(_STREAM)
    ]
    summary = {
        "seconds": round(seconds, 4),
        "seconds_traced": round(traced, 4),
        "kernels": sum(calls for calls, _ in kernels),
        "kernel_seconds": round(sum(time for _, time in kernels), 4),
    }
    return summary, list(_rows(operations))


def _operations(folder: pathlib.Path) -> dict[tuple[str, str, str], tuple[int, float]]:
    """Calls and seconds by plane, line and operation of the trace in a folder."""
    counted: dict[tuple[str, str, str], list] = collections.defaultdict(lambda: [0, 0.0])
    for path in folder.rglob("*.xplane.pb"):
        for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
            for line in plane.lines:
                if line.name == _PYTHON:
                    continue
                for event in line.events:
                    if event.name.startswith(_END):
                        continue
                    spent = counted[plane.name, line.name.partition("/")[0], event.name]
                    spent[0] += 1
                    spent[1] += event.duration_ns / 1e9
    return {key: (calls, time) for key, (calls, time) in counted.items()}


def _rows(operations) -> Iterator[dict[str, Any]]:
    longest = sorted(operations.items(), key=lambda each: -each[1][1])
    for (plane, line, name), (calls, time) in longest[:_ROWS]:
        yield {
            "plane": plane,
            "line": line,
            "operation": name,
            "calls": calls,
            "seconds": round(time, 6),
        }


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
