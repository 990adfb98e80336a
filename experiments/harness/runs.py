"""A run of an experiment: the folder that it writes to, its checkpoint and its result.

No folder is overwritten by accident. What a run has finished is kept in a checkpoint in its folder
until the result is written, so that an interrupted run resumes to the same numbers. A piece is
kept with a copy; if both are damaged, it is computed again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
import re
import shutil
import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from jax.sharding import Mesh

from experiments.harness import kept_file, results
from experiments.harness.devices import DeviceArguments, by_first, is_first
from experiments.harness.folder_lock import FolderLock
from experiments.harness.usage_meter import UsageMeter

CHECKPOINT = "checkpoint"  # in a run's folder: what it needs to resume
CONFIG = "config.json"  # in the checkpoint
USAGE = "usage.json"  # in the checkpoint: of the parts of the run so far
Piece = TypeVar("Piece")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunArguments(DeviceArguments):
    """The options of every experiment."""

    out: pathlib.Path
    """Folder for the results, which is made if it does not exist."""
    resume: bool = False
    """Continue from the checkpoint in --out, if there is one; refused where a run is finished."""
    overwrite: bool = False
    """Start again, and delete an earlier run in --out."""


class Run:
    """One run of an experiment, which writes `files` and result.json into the folder `out`.

    Args:
      arguments: `RunArguments` with a `preset`.
      config: a frozen dataclass.
      experiment: the name on record.
      command: the command line on record.
      files: names of the files and folders that the run writes beside result.json.
      mesh: the devices that share batches, of all processes (`devices.start`); None: one device.
        Of several processes the first writes; `writes` says whether this is it.

    Raises:
      ValueError: the folder holds another run, or one that is finished, or another process uses it.
      OSError: the folder cannot be written.
    """

    def __init__(
        self,
        arguments: Any,
        config: Any,
        *,
        experiment: str,
        command: str,
        files: tuple[str, ...] = ("curve.csv", "curve.png"),
        mesh: Mesh | None = None,
        extendable: tuple[str, ...] = (),
    ):
        self.mesh, self.writes = mesh, is_first()
        self.meter = UsageMeter()
        self.arguments, self.config = arguments, config
        self.out, self.checkpoint = arguments.out, arguments.out / CHECKPOINT
        self._stamps = dict(experiment=experiment, preset=arguments.preset, command=command)
        self._lock: FolderLock | None = None  # of the first process
        self._extendable = extendable  # fields of the config that a resumed run may change
        by_first(lambda: self._begin((results.RESULT_FILE, *files)))

    def _begin(self, files):
        """Prepares the folder."""
        again = dict(resume=self.arguments.resume, overwrite=self.arguments.overwrite)
        self._lock = prepare(self.out, files=files, **again)
        if self.arguments.resume and is_finished(self.out):
            raise ValueError(
                f"{self.out} holds a run that is finished: use another --out, or --overwrite to"
                " start again"
            )
        _check_same_config(self.checkpoint, self.config, self._extendable)
        self.meter.keep_in(self.checkpoint / USAGE)

    def kept(
        self, name: str, kind: type[Piece], compute: Callable[[], Iterable[Piece]]
    ) -> list[Piece]:
        """Computes a piece of the run, or reads it if an interrupted run has computed it.

        If the file and its copy are damaged, a warning says so, and the piece is computed again.

        Args:
          name: of the piece within the run.
          kind: a dataclass whose fields JSON can hold.
          compute: computes the records of this kind that make up the piece.
        """
        path = self.path(name)
        records = self.kept_json(path, lambda: [dataclasses.asdict(each) for each in compute()])
        return [kind(**fields) for fields in records]

    def find_kept(self, name: str, kind: type[Piece]) -> list[Piece] | None:
        """A piece that `kept` has kept; None: there is none, or it is damaged, of which it warns.

        Args:
          name: of the piece within the run.
          kind: a dataclass whose fields JSON can hold.
        """
        records = by_first(lambda: _read_kept(self.path(name)))
        return [kind(**fields) for fields in records[0]] if records else None

    def path(self, name: str) -> pathlib.Path:
        """The file of the checkpoint that keeps a piece, by the piece's name."""
        return self.checkpoint / (re.sub(r"[^\w.]+", "_", name) + ".json")

    def kept_json(self, path: pathlib.Path, compute: Callable[[], Any]) -> Any:
        """As `kept`, of anything that JSON can hold, in a file of the checkpoint."""

        def write():
            kept_file.write_once(path, computed)
            self.keep_usage()
            return kept_file.read(path)

        if kept := by_first(lambda: _read_kept(path)):
            return kept[0]
        computed = compute()
        return by_first(write)

    def keep_usage(self) -> None:
        """Keeps the usage so far; to be called with each checkpoint."""
        if self.writes:
            self.meter.keep()

    def result(
        self,
        numbers: Iterable[results.Number],
        *,
        measure: str,
        deviations: Iterable[str] = (),
        error_bars: str | None = None,
        **more: Any,
    ) -> results.Result:
        """The result, which is not written yet.

        Args:
          numbers: the measured numbers.
          measure: what they measure, in words; recorded in the result's config.
          deviations: from the published setting, in words.
          error_bars: what low and high of the numbers are, in words.
          more: further entries of the result's config.
        """
        return results.make_result(
            config=dataclasses.asdict(self.config) | more | {"measure": measure},
            usage=self.meter.usage(),
            numbers=numbers,
            deviations=deviations,
            error_bars=error_bars,
            **self._stamps,
        )

    def finish(self, numbers: Iterable[results.Number], **more: Any) -> results.Result:
        """Makes the result as `result` does, and writes it as `end` does."""
        result = self.result(numbers, **more)
        self.end(result)
        return result

    def end(self, result: results.Result) -> None:
        """Writes the result and deletes the checkpoint, which is not needed any longer."""
        results.write_result(self.out, result)
        shutil.rmtree(self.checkpoint)
        self._lock.release()


def prepare(
    out: pathlib.Path, *, files: tuple[str, ...], resume: bool | None, overwrite: bool
) -> FolderLock:
    """Makes the folder of a run, and checks that it holds no earlier run unless that is wanted.

    Args:
      out: the folder.
      files: names of the files and folders that a run writes there beside its checkpoint.
      resume: whether an earlier run may be continued; None: the command cannot.
      overwrite: whether an earlier run may be deleted, which is done here.

    Returns:
      What keeps other processes out of the folder, to be held until all is written.

    Raises:
      ValueError: `out` holds a run and neither `resume` nor `overwrite` is given, or both are, or
        another process uses it.
      OSError: `out` cannot be written.
    """
    if resume and overwrite:
        raise ValueError("--resume and --overwrite exclude each other")
    out.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(out)
    earlier = [path for path in (out / name for name in (*files, CHECKPOINT)) if path.exists()]
    if earlier and not (resume or overwrite):
        ways = "--overwrite to start again"
        if resume is not None:
            ways = f"--resume to continue it or {ways}"
        raise ValueError(f"{out} holds an earlier run ({earlier[0].name}): add {ways}")
    results.write_file(out / ".writable", "")  # fails now rather than after hours
    (out / ".writable").unlink()
    if overwrite:
        for path in earlier:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return lock


def read_config(folder: pathlib.Path, *, experiment: str | None = None) -> dict[str, Any]:
    """The config of a run, which need not be finished.

    Args:
      folder: of the run.
      experiment: that a finished run must be of; None: of any. A checkpoint does not say it.

    Raises:
      ValueError: the folder has neither a result nor a checkpoint, or a damaged one, or the result
        is of another experiment.
    """
    if (path := folder / results.RESULT_FILE).exists():
        result = results.read_result(path)
        if experiment not in (None, result.experiment):
            raise ValueError(f"{results.RESULT_FILE} is of another experiment")
        return result.config
    try:
        return kept_file.read(folder / CHECKPOINT / CONFIG)
    except FileNotFoundError:
        raise ValueError(
            f"{folder} has neither {results.RESULT_FILE} nor a checkpoint of a run"
        ) from None


def interrupted_config(arguments: RunArguments) -> dict[str, Any]:
    """The config of the run that is to be resumed; empty if there is none.

    Raises:
      ValueError: it is damaged.
    """
    begun = arguments.resume and (arguments.out / CHECKPOINT / CONFIG).exists()
    return kept_file.read(arguments.out / CHECKPOINT / CONFIG) if begun else {}


def is_finished(folder: pathlib.Path) -> bool:
    """Whether a folder holds a run of an experiment that has come to its end."""
    return (folder / results.RESULT_FILE).exists() and not (folder / CHECKPOINT).exists()


def checksum(files: Iterable[pathlib.Path]) -> str:
    """The SHA-256 of what files hold, one after the other.

    Raises:
      OSError: a file cannot be read.
    """
    found = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            while block := file.read(2**20):
                found.update(block)
    return found.hexdigest()


def agent_checksum(folder: pathlib.Path) -> str:
    """The checksum of the records and networks in a folder, which tells whether its agent is still
    the same.

    Raises:
      OSError: a file cannot be read.
    """
    return checksum(sorted([*folder.glob("*.json"), *folder.glob("*.npz")]))


def _read_kept(path):
    """A list with what a file holds, or an empty one."""
    try:
        return [kept_file.read(path)]
    except FileNotFoundError:
        return []
    except ValueError as error:
        warnings.warn(f"{error}; it is computed again", stacklevel=5)
        return []


def _check_same_config(folder, config, extendable):
    """Writes the config into the checkpoint, or refuses it if another one is there."""
    path, fields = folder / CONFIG, _as_json(dataclasses.asdict(config))
    try:
        earlier = kept_file.read(path)
    except FileNotFoundError:
        kept_file.write_once(path, fields)
        return
    names = {field.name: field for field in dataclasses.fields(config)}
    differ = [name for name in earlier if name not in names]
    differ += [name for name, field in names.items() if not same_field(earlier, config, field)]
    if refused := [name for name in differ if name not in extendable]:
        raise ValueError(
            f"{folder.parent} holds a run of another preset or with other options, which differs in"
            f" {', '.join(refused)}: use another --out"
        )
    if earlier != fields:
        kept_file.write(path, fields)


def agrees(recorded: Any, today: Any) -> bool:
    """Whether a value on record is today's.

    Args:
      recorded: the value, as JSON has it; fields of configs that it does not have are new since
        then, and were as their defaults are.
      today: the value in a config, or a config.
    """
    if not dataclasses.is_dataclass(today):
        return recorded == _as_json(today)
    return all(same_field(recorded, today, field) for field in dataclasses.fields(today))


def same_field(recorded: dict[str, Any], today: Any, field: dataclasses.Field) -> bool:
    """Whether a field of a config is on record as it is today: see `agrees`.

    Args:
      recorded: the config on record.
      today: the config.
      field: of `dataclasses.fields(today)`.
    """
    value = getattr(today, field.name)
    if field.name in recorded:
        own = recorded[field.name]
        if dataclasses.is_dataclass(value) and not own.keys() <= vars(value).keys():
            return False  # there are no such fields any more
        return agrees(own, value)
    made = field.default_factory is not dataclasses.MISSING
    return value == (field.default_factory() if made else field.default)


def _as_json(value):
    """What JSON makes of a value."""
    return json.loads(json.dumps(value, default=dataclasses.asdict))
