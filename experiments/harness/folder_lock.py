"""A lock on the folder of a run, so that two processes do not write into it at once."""

from __future__ import annotations

import os
import pathlib
import weakref
from typing import ClassVar


class FolderLock:
    """Keeps other processes out of a folder, as long as the lock is there.

    Args:
      folder: that this process writes to; it may hold several locks of it.

    Raises:
      ValueError: another process has locked the folder.
    """

    _of_this_process: ClassVar[weakref.WeakValueDictionary] = weakref.WeakValueDictionary()

    def __init__(self, folder: pathlib.Path):
        self._folder, self._descriptor = folder.resolve(), None
        self._earlier = self._of_this_process.get(self._folder)
        if self._earlier is None:
            self._descriptor = _locked(self._folder)
            self._of_this_process[self._folder] = self

    def release(self) -> None:
        """Lets others in; so does the end of the lock's life, or of the process."""
        self._earlier, descriptor, self._descriptor = None, self._descriptor, None
        if self._of_this_process.get(self._folder) is self:
            del self._of_this_process[self._folder]
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self):
        if self._descriptor is not None:
            os.close(self._descriptor)


def _locked(folder):
    """The descriptor of a locked folder; None: its file system, or Windows, has no such locks."""
    try:
        import fcntl
    except ImportError:
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ValueError(f"{folder} is in use by another process: use another --out") from None
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
