"""A lock on the folder of a run, so that two processes do not write into it at once."""

from __future__ import annotations

import os
import pathlib
from typing import ClassVar

_FILE = ".lock"


class FolderLock:
    """Keeps other processes out of a folder that exists, until it is released or goes away.

    One process may hold several locks of a folder: the last one opens it. A process that was
    started with the `descriptor` inherits the lock, and keeps it if this process is killed.

    Args:
      folder: that this process writes to.

    Raises:
      ValueError: another process has locked the folder.
      OSError: the folder cannot be written.
    """

    _held: ClassVar[dict[pathlib.Path, list[int]]] = {}  # [descriptor, locks] by folder

    def __init__(self, folder: pathlib.Path):
        self._folder = folder.resolve()
        if self._folder not in self._held:
            self._held[self._folder] = [_locked(self._folder / _FILE, folder), 0]
        self._held[self._folder][1] += 1
        self._holds = True

    @property
    def descriptor(self) -> int:
        """Of the file that is locked."""
        return self._held[self._folder][0]

    def release(self) -> None:
        """Lets others in, if this process has no other lock of the folder."""
        if not self._holds:
            return
        self._holds, held = False, self._held[self._folder]
        held[1] -= 1
        if not held[1]:
            del self._held[self._folder]
            (self._folder / _FILE).unlink(missing_ok=True)
            os.close(held[0])

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def __del__(self):
        if getattr(self, "_holds", False):
            self.release()


def _locked(path, folder):
    """The descriptor of a file that is locked, as far as the file system has locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return os.open(path, os.O_RDWR | os.O_CREAT)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise ValueError(
                f"{folder} is in use by another process, perhaps by one that was left by a command"
                " that was killed: wait for its end, or use another --out"
            ) from None
        except OSError:
            return descriptor  # a file system without locks
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # its holder has just deleted it
