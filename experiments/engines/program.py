"""Other programs: where they are, and a running one as lines in and out, with time limits."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import select
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import IO

MAX_LINE = 65_536  # bytes
PLACES = "/usr/games"  # beside PATH: where Debian puts games
MOST_SECONDS = 1_000_000  # that a program may be waited for
_GRACE_SECONDS = 2.0  # for a program that was told to quit
# Errors at the start of a process that are this machine's, and not the program's.
_NO_ROOM = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC)


class ProgramError(Exception):
    """What a program did wrong, in words that a sentence with its name goes on with."""


class RulesError(ProgramError):
    """What a program did that is wrong only by the rules of pgx."""


def find(program: str, *, package: str | None = None) -> str:
    """The path of a program.

    Args:
      program: its name, or a path.
      package: of Debian that has it.

    Raises:
      ValueError: it is not installed.
    """
    path = shutil.which(program) or shutil.which(program, path=PLACES)
    if path is None:
        hint = f": apt install {package}" if package else ""
        raise ValueError(f"the program {program!r} is not installed{hint}")
    return path


def check_seconds(name: str, value: float) -> None:
    """A ValueError if a program cannot be waited for so long; it names the option."""
    if not 0 < value <= MOST_SECONDS:
        raise ValueError(f"{name}={value} must be above 0, and at most {MOST_SECONDS:,}")


def _is_ready(pipe: IO[bytes], event: int, seconds: float) -> bool:
    """Whether a pipe is ready, or broken, within some seconds."""
    poll = select.poll()  # `select.select` takes no descriptors from 1,024 on
    poll.register(pipe, event)
    return bool(poll.poll(1000 * seconds))


class Program:
    """A running program that reads and writes lines.

    Args:
      command: the program and its arguments.
      errors: the file that its stderr is appended to; None: nowhere.

    Raises:
      ProgramError: it cannot be started.
      OSError: the file cannot be written, or this machine has no room for one more process.
    """

    def __init__(self, command: Sequence[str], errors: pathlib.Path | None = None):
        with (errors or pathlib.Path(os.devnull)).open("ab") as stderr:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    start_new_session=True,  # Ctrl-C in the terminal is not for it
                )
            except OSError as error:
                if error.errno in _NO_ROOM:
                    raise
                why = error.strerror or error
                raise ProgramError(f"cannot be started ({shlex.join(command)}): {why}") from None
        self._received = b""

    def send(self, line: str) -> None:
        """Sends a line, given without its end.

        Raises:
          ProgramError: the program does not read it.
        """
        try:
            if not _is_ready(self._process.stdin, select.POLLOUT, _GRACE_SECONDS):
                raise ProgramError("does not read what it is sent")
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._died() from None

    def receive(self, end: float, asked: str) -> str:
        """Waits for a line.

        Args:
          end: until when, by `time.monotonic`.
          asked: what was asked, for the words of the error.

        Returns:
          The line without its end.

        Raises:
          ProgramError: the program died, hangs, or sends a line that is too long.
        """
        while b"\n" not in self._received:
            if len(self._received) > MAX_LINE:
                raise ProgramError(f"sent a line of more than {MAX_LINE} bytes")
            left = end - time.monotonic()
            if left <= 0 or not _is_ready(self._process.stdout, select.POLLIN, left):
                raise ProgramError(f"did not answer {asked!r} in time")
            if not (more := os.read(self._process.stdout.fileno(), MAX_LINE)):
                raise self._died()
            self._received += more
        if time.monotonic() > end:  # it writes without end
            raise ProgramError(f"did not answer {asked!r} in time")
        line, _, self._received = self._received.partition(b"\n")
        return line.decode(errors="replace").strip()

    def close(self) -> None:
        """Ends the program, and whatever it has started, after a while of grace."""
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_SECONDS)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _died(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_SECONDS)
        code = self._process.returncode
        return ProgramError("closed its output" if code is None else f"died with exit code {code}")


def short(line: str, length: int = 60) -> str:
    """A line as an error message has it."""
    return repr(line if len(line) <= length else line[:length] + "...")
