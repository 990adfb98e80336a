"""What a run uses: time, memory, the load that others put on the machine meanwhile, and which
commits of the code.

An interrupted run has several parts, which are added up. A part that was killed counts up to the
last piece that it kept, like its numbers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import resource
import sys
import time

from experiments.harness import kept_file
from experiments.harness.results import Usage, commit

_GIB = 2**30
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes in getrusage's unit of memory


class UsageMeter:
    """Measures the usage of a run from the time when it is made."""

    def __init__(self):
        self._begin, self._load = time.perf_counter(), _load()
        self._commit = commit()  # now, as the checkout may change while the run goes on
        self._earlier, self._path = Usage(), None

    def keep_in(self, path: pathlib.Path) -> None:
        """Adds the parts of an interrupted run, which are kept in a file, to this part.

        Args:
          path: of the file, in which `keep` keeps them all; it may be missing.

        Raises:
          ValueError: the file is damaged.
        """
        self._path = path
        with contextlib.suppress(FileNotFoundError):
            self._earlier = _usage(**kept_file.read(path))

    def keep(self) -> None:
        """Writes the usage so far into the file of `keep_in`; to be called with each checkpoint.

        Raises:
          OSError: the file cannot be written.
        """
        kept_file.write(self._path, dataclasses.asdict(self.usage()))

    def usage(self) -> Usage:
        """The usage of all parts so far."""
        own = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        peak = max(used.ru_maxrss for used in own) * _RSS_UNIT / _GIB
        seconds = time.perf_counter() - self._begin
        return Usage(
            wall_seconds=round(self._earlier.wall_seconds + seconds, 3),
            peak_memory_gib=max(self._earlier.peak_memory_gib, round(peak, 2)),
            load_average=(*self._earlier.load_average, (self._load, _load())),
            commits=(*self._earlier.commits, self._commit),
        )


def _usage(**fields):
    """A usage as JSON has it; commits were not always kept."""
    load = tuple(map(tuple, fields["load_average"]))
    commits = tuple(fields.get("commits", ["unknown"] * len(load)))
    return Usage(**fields | {"load_average": load, "commits": commits})


def _load():
    return round(os.getloadavg()[0], 2)
