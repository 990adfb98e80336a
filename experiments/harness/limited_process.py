"""A process of its own for a command that must not take longer than it may.

When its time is over the command gets what Ctrl-C sends, and a while to come to its end. After that
it is killed, with all processes that it has started.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

_POLL_SECONDS = 0.1


class Ending(NamedTuple):
    """How a process came to its end."""

    exit_code: int
    """Negative: the number of the signal that ended it."""
    seconds: float
    asked: bool
    """Whether it was asked to stop before."""


def run(
    command: Sequence[str],
    *,
    folder: pathlib.Path,
    log: pathlib.Path,
    seconds: float,
    grace: float,
    environment: Mapping[str, str],
    stop: Callable[[], bool] = lambda: False,
    report: Callable[[float], None] = lambda seconds: None,
    inherited: Sequence[int] = (),
) -> Ending:
    """Runs a command to its end, or until its time is over.

    Args:
      command: the program and its arguments.
      folder: where it runs.
      log: the file that its output is appended to.
      seconds: after which it is asked to stop.
      grace: the seconds after which it is killed if it has not stopped.
      environment: variables beside those of this process.
      stop: whether it shall be asked to stop now.
      report: called several times a second, with the seconds so far.
      inherited: open files that it holds as long as it lives.

    Raises:
      OSError: the command cannot be started, or the log cannot be written.
    """
    begin, asked = time.monotonic(), None
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C in the terminal reaches it through `stop` only
            pass_fds=inherited,
        )
    try:
        while not _has_ended(process):
            elapsed = time.monotonic() - begin
            report(elapsed)
            if asked is None and (elapsed >= seconds or stop()):
                asked = elapsed
                _send(process, signal.SIGINT)
            elif asked is not None and elapsed >= asked + grace:
                _send(process, signal.SIGKILL)
    finally:
        _send(process, signal.SIGKILL)  # to what it has left behind, too
        process.wait()
    return Ending(process.returncode, time.monotonic() - begin, asked is not None)


def _has_ended(process):
    """Waits for a moment."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_POLL_SECONDS)
    return process.returncode is not None


def _send(process, number):
    """Sends a signal to a process and all that it has started; there may be none any more."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
