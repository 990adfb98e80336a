"""Progress on the terminal: a bar with iterations/s, exploitability and remaining time."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from experiments.harness.devices import is_first

_WIDTH = 24  # of a description, in characters
# takes the iterations so far, exploitability (None before the first evaluation), iterations/s
Report = Callable[[int | float, float | None, float], None]


@contextlib.contextmanager
def progress(description: str, total: int) -> Iterator[Report]:
    """Shows a bar on stderr while the context lasts; yields the function that moves it.

    Of several processes only the first shows anything.
    """
    whole = Column(no_wrap=True)  # the bar takes the width that the texts leave
    columns = (
        TextColumn("{task.description}", table_column=whole),
        BarColumn(bar_width=None, table_column=Column(ratio=1)),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}", table_column=whole),
        TextColumn("{task.fields[speed]} it/s", table_column=whole),
        TextColumn("{task.fields[note]}", table_column=whole),
        TimeRemainingColumn(compact=True, table_column=whole),
    )
    with Progress(*columns, console=_console(), expand=True) as bar:
        task = bar.add_task(_shortened(description), total=total, note="", speed="-")

        def report(iteration: int | float, exploitability: float | None, speed: float) -> None:
            bar.update(
                task,
                completed=iteration,
                note="" if exploitability is None else f"exploitability {exploitability:.3g}",
                speed=f"{speed:,.0f}",
            )

        yield report
        bar.update(task, total=bar.tasks[task].completed)  # a run may stop before `total`


@contextlib.contextmanager
def steps(total: int) -> Iterator[Callable[[str], None]]:
    """Shows a bar of a few long steps on stderr while the context lasts; yields the function that
    is told of each step as it begins.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None, table_column=Column(ratio=1)),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=_console(), expand=True, transient=True) as bar:
        task, begun = bar.add_task("", total=total), itertools.count()

        def begin(step: str) -> None:
            bar.update(task, description=step, completed=next(begun))

        yield begin


def counter(report: Report) -> Callable[[int], None]:
    """A function that moves the bar by a number of iterations, which were made since its last
    call."""
    begin, done = time.perf_counter(), 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        report(done, None, done / (time.perf_counter() - begin))

    return count


@contextlib.contextmanager
def status(message: str) -> Iterator[None]:
    """Shows a spinner on stderr beside `message` while the context lasts."""
    with _console().status(message):
        yield


def say(message: str) -> None:
    """Prints a line on stderr; of several processes only the first does."""
    _console().print(message, highlight=False, markup=False)


def _console() -> Console:
    return Console(stderr=True, quiet=not is_first())


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
