"""Measurements in processes of their own: `python -m experiments.benchmarks.processes` is one.

`measure_in_process` runs one from start to end. `MeasuringProcess` takes a measurement only when it
is asked for the next one, so that several processes can take turns: what slows a machine down for a
while then slows all of them down.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
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
        command = [*_command(module, job, cores), str(reported)]
        run: dict[str, Any] = {"failure": _execute(command, folder, time_limit)}
        for line in reported.read_text().split("\n")[:-1]:  # what follows is incomplete
            run |= json.loads(line)
    return run


class MeasuringProcess(contextlib.AbstractContextManager):
    """A process that takes the next step of the generator `measurements(job)` when it is asked.

    Args:
      module: the full name of the generator's module.
      job: what to measure; must be possible to write as JSON.
      time_limit: seconds that one measurement may take.
      cores: how many the process may use, where the system can limit them; None: all.
      environment: variables that it has besides those of this process.
    """

    def __init__(
        self,
        module: str,
        job: dict[str, Any],
        *,
        time_limit: float,
        cores: int | None = None,
        environment: Mapping[str, str] | None = None,
    ):
        self._time_limit = time_limit
        self._home = tempfile.TemporaryDirectory()
        self._errors = pathlib.Path(self._home.name, "errors")
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                _command(module, job, cores),
                env=_environment(self._home.name) | dict(environment or {}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )

    def measure(self) -> dict[str, Any]:
        """What the generator yields next.

        Raises:
          ValueError: the process fails, or the measurement takes too long.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        too_late = threading.Event()

        def stop():
            too_late.set()
            self._process.kill()

        limit = threading.Timer(self._time_limit, stop)
        limit.start()
        try:
            with contextlib.suppress(BrokenPipeError):  # a process that failed is seen below
                self._process.stdin.write(b"\n")
                self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:  # also after Ctrl-C, which would wait for the timer otherwise
            limit.cancel()
        if line.endswith(b"\n"):
            return json.loads(line)
        code = self._process.wait()
        if too_late.is_set():
            raise ValueError(_capped(self._time_limit))
        raise ValueError(_failed(self._errors, code))

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._home.cleanup()


def main() -> None:
    """Inside the new process: calls what the command line names.

    With a file to report to, that is `measure` of the module; without, its `measurements`, one for
    each line of the standard input.
    """
    module, job, cores, *reported = sys.argv[1:]
    if cores and hasattr(os, "sched_setaffinity"):  # before libraries count the cores
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores)])

    def report(**numbers: Any) -> None:
        with pathlib.Path(reported[0]).open("a") as file:
            file.write(json.dumps(numbers) + "\n")

    measured = importlib.import_module(module)
    if reported:
        measured.measure(json.loads(job), report)
    else:
        for _, numbers in zip(sys.stdin, measured.measurements(json.loads(job)), strict=False):
            print(json.dumps(numbers), flush=True)


def _command(module, job, cores) -> list[str]:
    """Starts `main` in a new process."""
    return [sys.executable, "-m", __name__, module, json.dumps(job), str(cores or "")]


def _environment(home) -> dict[str, str]:
    """The variables of a new process with `home` as its home folder."""
    paths = [str(results.ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"HOME": home, "PYTHONPATH": os.pathsep.join(paths)}
    environment["JAX_ENABLE_X64"] = "0"  # programs in float64 set it themselves
    environment["JAX_TRACEBACK_FILTERING"] = "off"  # the error is the last line
    return environment


def _capped(time_limit) -> str:
    """That a process was stopped."""
    return f"capped: over {time_limit:g} s"


def _failed(errors, code) -> str:
    """Why a process failed: its last line, or its exit code."""
    lines = errors.read_text(errors="replace").strip().splitlines()
    return f"failed: {lines[-1] if lines else f'exit code {code}'}"


def _execute(command, folder, time_limit) -> str | None:
    """Runs a command with `folder` as its home folder; returns why it failed, if it did."""
    errors = pathlib.Path(folder, "errors")
    with errors.open("wb") as stream:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": stream}
        try:
            done = subprocess.run(command, env=_environment(folder), timeout=time_limit, **streams)
        except subprocess.TimeoutExpired:
            return _capped(time_limit)
    return None if done.returncode == 0 else _failed(errors, done.returncode)


if __name__ == "__main__":
    main()
