"""When a long computation writes its next checkpoint."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

_WRITES = 10  # a large checkpoint waits for this many times what the last one took


class CheckpointTimes:
    """A checkpoint is due some time after the last one has been written, and later if checkpoints
    are large: writing them takes at most a tenth of the time.

    Args:
      seconds: from one checkpoint to the next, at least.
    """

    def __init__(self, seconds: float = 60.0):
        self._seconds = seconds
        self._next = time.monotonic() + seconds

    def due(self) -> bool:
        """Whether it is time to write."""
        return time.monotonic() >= self._next

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Inside, a checkpoint is written, from whose end the time to the next one counts."""
        begin = time.monotonic()
        try:
            yield
        finally:
            end = time.monotonic()
            self._next = end + max(self._seconds, _WRITES * (end - begin))
