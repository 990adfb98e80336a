"""The folder that an experiment writes to: nothing there is overwritten by accident."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shutil
from typing import Any

from experiments import results

CHECKPOINT = "checkpoint"  # what a run needs to resume, in its folder


def prepare(out: pathlib.Path, *, files: tuple[str, ...], resume: bool, overwrite: bool) -> None:
    """Makes the folder `out`, which may hold an earlier run only if told to resume or overwrite it.

    `files` are the names of the files of a run. To overwrite deletes them, and its checkpoint.

    Raises:
      ValueError: `out` holds a run and neither `resume` nor `overwrite` is given, or both are.
      OSError: `out` cannot be written.
    """
    if resume and overwrite:
        raise ValueError("--resume and --overwrite exclude each other")
    earlier = [path for path in (out / name for name in (*files, CHECKPOINT)) if path.exists()]
    if earlier and not (resume or overwrite):
        raise ValueError(
            f"{out} holds an earlier run ({earlier[0].name}): add --resume to continue it or"
            " --overwrite to start again"
        )
    out.mkdir(parents=True, exist_ok=True)
    results.write_file(out / ".writable", "")  # better refused now than after hours
    (out / ".writable").unlink()
    if overwrite:
        for path in earlier:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def check_same_config(folder: pathlib.Path, config: Any) -> None:
    """Notes a dataclass in the checkpoint of a run, which must not be resumed with another.

    Raises:
      ValueError: the checkpoint is of another config.
    """
    path, text = folder / "config.json", json.dumps(dataclasses.asdict(config))
    if not path.exists():
        folder.mkdir(exist_ok=True)
        results.write_file(path, text)
    elif path.read_text(encoding="utf-8") != text:
        raise ValueError(f"{folder.parent} holds a run of another preset: use another --out")
