"""An ordered list of work that is done in parts, each of which has a number of minutes.

Every item runs in a process of its own and is on record, in a file of its own, as soon as it has
ended. The next part goes on from the records: what is done or failed is not run again, and what was
stopped goes on, or starts again if it cannot. A part that is killed loses the item that runs.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shlex
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from experiments.harness import limited_process, results
from experiments.harness.folder_lock import FolderLock
from experiments.harness.interrupts import interrupt_waits
from experiments.harness.runs import is_finished

OUT = "{out}"  # in commands: the item's folder
OTHERS = "{others}"  # in commands: the folder with those of all items
GRACE = 60.0  # seconds in which an item that is asked to stop must do so
State = Literal["done", "failed", "stopped"]
_PATIENCE = 2  # how often the estimated minutes an item may take that cannot go on later
_STOPPED = (130, -signal.SIGINT, -signal.SIGKILL)  # exit codes of a resumable item that was asked
_TAIL_LINES, _TAIL_BYTES = 20, 8192  # of the output, on record


@dataclasses.dataclass(frozen=True, kw_only=True)
class Item:
    """A piece of work: a command of Python's."""

    name: str
    what: str
    """What it runs, in a few words."""
    command: tuple[str, ...]
    """The words after `python`, run in the root of this checkout; `OUT` and `OTHERS` stand for
    folders."""
    minutes: float
    """How long it takes, an estimate; of a resumable item, what is worth starting it for."""
    resumable: bool = False
    """Whether the same command goes on where it was stopped: then it may take all minutes that are
    left, and else twice as many as estimated."""
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Variables of the environment that it needs."""


class Device(NamedTuple):
    """What JAX computes on: "cpu", "gpu" or "tpu", and its name."""

    platform: str
    name: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """How an item ended."""

    name: str
    state: State
    reason: str
    """Why it is not done, in words; empty if it is."""
    output: tuple[str, ...]
    """The last lines of its output, if it is not done."""
    exit_code: int
    wall_seconds: float
    """Of all parts."""
    platform: str
    device: str
    commit: str
    command: str


def selected(items: Sequence[Item], names: Sequence[str]) -> tuple[Item, ...]:
    """The items of these names, in the order of the list; all items if there are no names.

    Raises:
      ValueError: a name is unknown.
    """
    known = [item.name for item in items]
    for name in names:
        if name not in known:
            raise ValueError(f"items={name!r} is unknown; allowed: {', '.join(known)}")
    return tuple(item for item in items if item.name in names or not names)


def read_records(items: Iterable[Item], out: pathlib.Path) -> dict[str, Record]:
    """The records of those of the items that have one, by name.

    Raises:
      ValueError: a file does not hold a record.
      OSError: a file cannot be read.
    """
    paths = {item.name: _record_path(out, item) for item in items}
    return {name: _read(path) for name, path in paths.items() if path.exists()}


def log_path(out: pathlib.Path, item: Item) -> pathlib.Path:
    """The file with all output of an item."""
    return out / f"{item.name}.log"


def waiting(
    items: Iterable[Item], records: Mapping[str, Record], *, retry: bool = False
) -> list[Item]:
    """The items to run: those without a record and the stopped ones; with `retry`, failed ones."""
    states = ("stopped", "failed") if retry else ("stopped",)
    return [
        item for item in items if item.name not in records or records[item.name].state in states
    ]


def work_off(
    items: Sequence[Item],
    out: pathlib.Path,
    *,
    deadline: float,
    device: Device,
    retry: bool = False,
    grace: float = GRACE,
) -> list[Record]:
    """Runs the items that fit into the time that is left, in order.

    Args:
      items: with different names.
      out: the folder with an item's record, its output and its own folder, all by its name.
      deadline: when everything must have ended, on the clock of `time.monotonic`.
      device: on record.
      retry: whether items that failed are run again.
      grace: the seconds that an item has to stop; as many are kept free before the deadline.

    Returns:
      The new records, in order.

    Raises:
      ValueError: another process uses the folder, or it has records of another kind of device.
      OSError: the folder cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; the item that ran then is on record.
    """
    ended = []
    out.mkdir(parents=True, exist_ok=True)
    with (
        FolderLock(out) as lock,
        interrupt_waits() as pressed,
        _Bar(deadline) as bar,
    ):
        records = read_records(items, out)
        _check_platform(records.values(), out, device)
        for item in waiting(items, records, retry=retry):
            left = deadline - time.monotonic() - grace
            if pressed():
                break
            if 60 * item.minutes > left:
                continue
            patience = left if item.resumable else min(left, _PATIENCE * 60 * item.minutes)
            bar.show(item)
            if item.resumable and is_finished(out / item.name):
                ending = limited_process.Ending(0, 0.0, asked=False)  # after a kill of this process
            else:
                ending = limited_process.run(
                    _command(item, out),
                    folder=results.ROOT,
                    log=log_path(out, item),
                    seconds=patience,
                    grace=grace,
                    environment=item.environment,
                    stop=pressed,
                    report=lambda seconds: bar.move(),
                    inherited=(lock.descriptor,),  # items hold it: one may outlive a killed part
                )
            out_of_patience = patience < left and not pressed()
            record = _record(item, out, ending, records, device, out_of_patience)
            results.write_file(_record_path(out, item), _text(record))
            bar.print(record)
            ended.append(record)
    if pressed():
        raise KeyboardInterrupt("the same command goes on from here")
    return ended


def _check_platform(records: Iterable[Record], out: pathlib.Path, device: Device) -> None:
    for record in records:
        if record.platform != device.platform:
            raise ValueError(
                f"out={str(out)!r} has the record of {record.name} on {record.device}"
                f" ({record.platform}), and this is {device.name} ({device.platform}): use another"
                " --out"
            )


def _command(item: Item, out: pathlib.Path) -> list[str]:
    """The whole command, with the item's folder as it is seen from the root of the checkout."""
    folder = (out / item.name).resolve()
    if folder.is_relative_to(results.ROOT):
        folder = folder.relative_to(results.ROOT)
    others = str(folder.parent)
    words = (word.replace(OUT, str(folder)).replace(OTHERS, others) for word in item.command)
    return [sys.executable, *words]


def _record(item, out, ending, records, device, out_of_patience) -> Record:
    state, reason = _state(item, ending, out_of_patience)
    earlier = records[item.name].wall_seconds if item.name in records else 0.0
    return Record(
        name=item.name,
        state=state,
        reason=reason,
        output=() if state == "done" else _last_lines(log_path(out, item)),
        exit_code=ending.exit_code,
        wall_seconds=round(earlier + ending.seconds, 1),
        platform=device.platform,
        device=device.name,
        commit=results.commit(),
        command=shlex.join(["python", *_command(item, out)[1:]]),
    )


def _state(item, ending, out_of_patience) -> tuple[State, str]:
    """The state, and why an item is not done."""
    if ending.exit_code == 0:
        return "done", ""
    if item.resumable and ending.exit_code in (_STOPPED if ending.asked else _STOPPED[:1]):
        return "stopped", "resumes where it was stopped"
    if not ending.asked or item.resumable:
        return "failed", f"exit code {ending.exit_code}"
    if out_of_patience:
        return "failed", f"took more than {_PATIENCE * item.minutes:g} minutes"
    return "stopped", "starts again"


def _last_lines(log: pathlib.Path) -> tuple[str, ...]:
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return tuple(file.read().decode(errors="replace").splitlines()[-_TAIL_LINES:])


def _record_path(out: pathlib.Path, item: Item) -> pathlib.Path:
    return out / f"{item.name}.json"


def _text(record: Record) -> str:
    return json.dumps(dataclasses.asdict(record), indent=2) + "\n"


def _read(path: pathlib.Path) -> Record:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        record = Record(**fields | {"output": tuple(fields["output"])})
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is not a record of an item: {error}") from None
    if record.state not in get_args(State):
        raise ValueError(f"{path}: state={record.state!r} must be one of {get_args(State)}")
    return record


class _Bar:
    """Shows on stderr the item that runs, the minutes used of all, and how items have ended."""

    def __init__(self, deadline: float):
        self._begin = time.monotonic()
        minutes = max(deadline - self._begin, 0.0) / 60
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.completed:.1f}/{task.total:.1f} min"),
            console=Console(stderr=True),
            expand=True,
        )
        self._task = self._progress.add_task("", total=minutes)

    def __enter__(self):
        self._progress.__enter__()
        return self

    def __exit__(self, *error):
        self._progress.__exit__(*error)

    def show(self, item: Item) -> None:
        self._progress.update(self._task, description=item.name)

    def move(self) -> None:
        minutes = (time.monotonic() - self._begin) / 60
        self._progress.update(self._task, completed=minutes)

    def print(self, record: Record) -> None:
        why = f" ({record.reason})" if record.reason else ""
        minutes = f"{record.wall_seconds / 60:.1f} minutes"
        self._progress.console.print(
            f"{record.name}: {record.state}{why}, {minutes}", markup=False, highlight=False
        )
