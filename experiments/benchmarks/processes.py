"""Measurements in processes of their own: `python -m experiments.benchmarks.processes` is one."""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

from experiments.harness import results


def measure_in_process(
    module: str, job: dict[str, Any], *, time_limit: float, cores: int | None = None
) -> dict[str, Any]:
    """What the function `measure(job, report)` of a module reports when a new process calls it.

    Args:
      module: the module's full name, such as "experiments.benchmarks.tree_growth".
      job: what to measure; must be possible to write as JSON.
      time_limit: seconds after which the process is stopped.
      cores: how many the process may use, where the system can limit them; None: all.

    Returns:
      All that `measure` passed to `report`, by name, and `failure`: None, or why the process did
      not come to its end. What it had reported until then is kept.
    """
    with tempfile.TemporaryDirectory() as folder:
        reported = pathlib.Path(folder, "reported")
        reported.touch()
        command = [sys.executable, "-m", __name__, module, json.dumps(job), str(reported)]
        command.append(str(cores or ""))
        run: dict[str, Any] = {"failure": _execute(command, folder, time_limit)}
        for line in reported.read_text().split("\n")[:-1]:  # what follows is incomplete
            run |= json.loads(line)
    return run


def main() -> None:
    """Inside the new process: calls `measure` of the module that the command line names."""
    module, job, reported, cores = sys.argv[1:]
    if cores and hasattr(os, "sched_setaffinity"):  # before libraries count the cores
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores)])

    def report(**numbers: Any) -> None:
        with pathlib.Path(reported).open("a") as file:
            file.write(json.dumps(numbers) + "\n")

    importlib.import_module(module).measure(json.loads(job), report)


def _execute(command, folder, time_limit) -> str | None:
    """Runs a command with `folder` as its home folder; returns why it failed, if it did."""
    paths = [str(results.ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"HOME": folder, "PYTHONPATH": os.pathsep.join(paths)}
    environment["JAX_ENABLE_X64"] = "0"  # programs in float64 set it themselves
    environment["JAX_TRACEBACK_FILTERING"] = "off"  # the error is the last line
    errors = pathlib.Path(folder, "errors")
    with errors.open("wb") as stream:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": stream}
        try:
            done = subprocess.run(command, env=environment, timeout=time_limit, **streams)
        except subprocess.TimeoutExpired:
            return f"capped: over {time_limit:g} s"
    if done.returncode == 0:
        return None
    lines = errors.read_text(errors="replace").strip().splitlines()
    return f"failed: {lines[-1] if lines else f'exit code {done.returncode}'}"


if __name__ == "__main__":
    main()
