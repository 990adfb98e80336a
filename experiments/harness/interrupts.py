"""Ctrl-C that waits until a loop has come to a point from which it can go on later."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence


@contextlib.contextmanager
def ctrl_c_waits(
    signals: Sequence[signal.Signals] = (signal.SIGINT,),
) -> Iterator[Callable[[], bool]]:
    """Inside, the first Ctrl-C only sets the flag that is yielded; the second interrupts.

    Args:
      signals: which count as Ctrl-C.
    """
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():  # no signals to be had there
        yield pressed.is_set
        return

    def restore():
        for number, handler in before.items():
            signal.signal(number, handler)

    def handle(number, frame):
        pressed.set()
        restore()

    before = {number: signal.getsignal(number) for number in signals}
    for number in signals:
        signal.signal(number, handle)
    try:
        yield pressed.is_set
    finally:
        restore()
