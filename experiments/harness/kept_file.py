"""JSON files of a checkpoint, which can tell whether they are damaged: each has a checksum.

When a file is written again, what it held is kept beside it. If the file is damaged, a warning says
so, and the one before is read.
"""

from __future__ import annotations

import json
import os
import pathlib
import warnings
import zlib
from typing import Any

from experiments.harness import results

_BEFORE = ".before"  # at the end of the name of the file before


def write(path: pathlib.Path, content: Any) -> None:
    """Writes a file, and makes its folder.

    Args:
      path: of the file; what was kept there is kept as the one before.
      content: anything that JSON can hold.

    Raises:
      OSError: the file cannot be written.
    """
    text = json.dumps(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        os.replace(path, _before(path))
    results.write_file(path, f"{text}\n{_checksum(text)}\n")


def write_once(path: pathlib.Path, content: Any) -> None:
    """Writes a file that will not change any more, with a copy of it as the one before."""
    for _ in range(2):
        write(path, content)


def read(path: pathlib.Path) -> Any:
    """What `write` wrote last, or, with a warning, the time before if that is damaged.

    Raises:
      FileNotFoundError: there is no such file.
      ValueError: it is damaged, and so is the one before if there is one.
    """
    damaged = []
    for version in (path, _before(path)):
        if not version.exists():
            continue
        try:
            content = _read(version)
        except ValueError as error:
            damaged.append(f"{version} is damaged: {error}")
            continue
        if damaged:
            warnings.warn(f"{damaged[0]}; going back to the one before, {version}", stacklevel=2)
        return content
    if damaged:
        raise ValueError("; ".join(damaged))
    raise FileNotFoundError(f"no file at {path}")


def _read(path):
    text, _, checksum = path.read_bytes().decode().removesuffix("\n").partition("\n")
    if checksum != _checksum(text):
        raise ValueError("its checksum differs")
    return json.loads(text)


def _checksum(text):
    return f"{zlib.crc32(text.encode()):08x}"


def _before(path):
    return path.with_name(path.name + _BEFORE)
