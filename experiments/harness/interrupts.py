"""Ctrl-C and SIGTERM: a command is interrupted, perhaps only where it can go on later."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SECONDS = 0.1  # until a lost interrupt comes again


@contextlib.contextmanager
def termination_interrupts() -> Iterator[None]:
    """Inside, SIGTERM raises `KeyboardInterrupt`: clusters send it before a job's time is over.

    It stays as it is where the process that started this one had it ignored. An interrupt that
    comes where Python can only print it, such as in a callback of the collector, comes again.
    """
    if not _is_main_thread():
        yield
        return
    print_lost, ours = sys.unraisablehook, signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

    def again(lost):
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            print_lost(lost)
            return
        for number in _SIGNALS:
            if signal.getsignal(number) is signal.default_int_handler:
                later = threading.Timer(_SECONDS, signal.raise_signal, [number])
                later.daemon = True
                later.start()
                return

    sys.unraisablehook = again
    if ours:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        sys.unraisablehook = print_lost
        if ours:
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
