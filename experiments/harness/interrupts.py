"""Ctrl-C and SIGTERM: a command is interrupted, perhaps only where it can go on later."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def termination_interrupts() -> Iterator[None]:
    """Inside, SIGTERM raises `KeyboardInterrupt`: clusters send it before a job's time is over.

    It stays as it is where the process that started this one had it ignored.
    """
    if not _is_main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def interrupt_waits() -> Iterator[Callable[[], bool]]:
    """Inside, the first Ctrl-C or SIGTERM only sets the flag that is yielded; the second
    interrupts."""
    pressed = threading.Event()
    if not _is_main_thread():
        yield pressed.is_set
        return

    def restore():
        for number, handler in before.items():
            signal.signal(number, handler)

    def handle(number, frame):
        pressed.set()
        restore()

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        signal.signal(number, handle)
    try:
        yield pressed.is_set
    finally:
        restore()


def _is_main_thread():
    """Only there Python lets handle signals."""
    return threading.current_thread() is threading.main_thread()
