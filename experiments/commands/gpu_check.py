"""Runs what waits for a GPU, for as many minutes as there are: `jaxgames gpu_check`.

GPUs are often lent for half an hour. Another call goes on where the last one ended.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Column, Table

from experiments.commands.gpu_items import ITEMS
from experiments.harness import item_queue, results
from experiments.harness.experiment import Command
from experiments.harness.item_queue import Device, Item, Record

_DEVICE = (  # in a process of its own: a process that has used a GPU keeps memory on it
    "import jax, json; from experiments.harness import results;"
    " print(json.dumps([jax.default_backend(), results.device()]))"
)
_DEVICE_SECONDS = 300.0  # after which it is given up


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments:
    """Run the checks and published settings that wait for a GPU, for some minutes.

    Items run in order, each in a process of its own, if their minutes fit into those that are left.
    Another call goes on: what is done or failed is not run again, and an experiment that was
    stopped resumes. How an item ended is in NAME.json in --out, what it printed is in NAME.log, and
    its results are in the folder NAME. Exit codes: 0 nothing failed, 1 an item failed, 2 bad input,
    130 interrupted.
    """

    out: pathlib.Path = pathlib.Path("out", "gpu_check")
    """Folder for the results, which is made if it does not exist."""
    minutes: Annotated[float, tyro.conf.arg(metavar="FLOAT")] = 25.0
    """When everything must have ended."""
    items: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME ...")] = ()
    """Only these."""
    retry: bool = False
    """Run items again that failed."""
    list: bool = False
    """Run nothing; list the items, their minutes and their states."""


def main(arguments: Arguments, *, command: str) -> int:
    """Runs the command; returns the exit code.

    Raises:
      ValueError: an option is refused, `arguments.out` is in use or has the records of another kind
        of device, or JAX does not start.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; the item that ran then is on record.
    """
    deadline = time.monotonic() + 60 * arguments.minutes
    items = item_queue.selected(ITEMS, arguments.items)
    if not arguments.minutes > 0:
        raise ValueError(f"minutes={arguments.minutes:g} must be positive")
    records = item_queue.read_records(items, arguments.out)
    if arguments.list:
        Console().print(_table(items, records))
        return 0
    device = find_device()
    _say(f"device: {device.name}" + (" (no accelerator)" if device.platform == "cpu" else ""))
    ended = item_queue.work_off(
        items, arguments.out, deadline=deadline, device=device, retry=arguments.retry
    )
    _say(_summary(items, item_queue.read_records(items, arguments.out)))
    return 1 if any(record.state == "failed" for record in ended) else 0


def find_device() -> Device:
    """What JAX computes on in a new process.

    Raises:
      ValueError: JAX does not start there.
    """
    command = [sys.executable, "-c", _DEVICE]
    try:
        done = subprocess.run(
            command, cwd=results.ROOT, capture_output=True, text=True, timeout=_DEVICE_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"JAX has not started in {_DEVICE_SECONDS:g} s") from None
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        raise ValueError(f"JAX does not start: {''.join(last) or done.returncode}")
    return Device(*json.loads(done.stdout.splitlines()[-1]))


def _table(items: Sequence[Item], records: Mapping[str, Record]) -> Table:
    table = Table(
        Column("item", no_wrap=True),
        "state",
        Column("minutes", justify="right", no_wrap=True),
        Column("spent", justify="right"),
        "what it runs",
    )
    for item in items:
        record = records.get(item.name)
        state, spent = ("waiting", "") if record is None else _how_it_ended(record)
        table.add_row(item.name, state, minutes(item), spent, item.what.replace("`", ""))
    return table


def _how_it_ended(record: Record) -> tuple[str, str]:
    why = f": {record.reason}" if record.reason else ""
    return f"{record.state}{why}", f"{record.wall_seconds / 60:.1f}"


def minutes(item: Item) -> str:
    """The minutes of an item as people read them: one that resumes takes all that are left."""
    return f"{item.minutes:g}" + (" or more" if item.resumable else "")


def markdown_table() -> str:
    """The table of all items in docs/gpu_queue.md."""
    rows = (f"| `{item.name}` | {minutes(item)} | {item.what} |" for item in ITEMS)
    return "\n".join(["| item | minutes | what it runs |", "|---|---:|---|", *rows])


def _summary(items: Sequence[Item], records: Mapping[str, Record]) -> str:
    """How many items have ended in which way, and which one is next."""
    states = collections.Counter(record.state for record in records.values())
    parts = [f"{states['done']} of {len(items)} items done"]
    parts += [f"{states[state]} {state}" for state in ("stopped", "failed") if states[state]]
    left = item_queue.waiting(items, records)
    if left:
        parts.append(f"next: {left[0].name}, {minutes(left[0])} minutes")
    return "; ".join(parts)


def _say(text: str) -> None:
    Console(stderr=True).print(text, markup=False, highlight=False, soft_wrap=True)


COMMAND = Command(Arguments, main)
