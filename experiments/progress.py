"""Progress on the terminal: a bar with iterations/s, current exploitability and remaining time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

Report = Callable[[int, float | None], None]  # iterations done, latest exploitability


@contextlib.contextmanager
def progress(description: str, total: int) -> Iterator[Report]:
    """A bar on stderr while the context lasts; yields the function that moves it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=12),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f}"),
        _Speed(),
        TextColumn("exploitability {task.fields[exploitability]}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total, exploitability="-")

        def report(iteration: int, exploitability: float | None) -> None:
            text = "-" if exploitability is None else f"{exploitability:.3g}"
            bar.update(task, completed=iteration, exploitability=text)

        yield report


@contextlib.contextmanager
def status(message: str) -> Iterator[None]:
    """A spinner on stderr beside `message` while the context lasts."""
    with Console(stderr=True).status(message):
        yield


class _Speed(ProgressColumn):
    """Iterations per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("- it/s" if speed is None else f"{speed:,.0f} it/s")
