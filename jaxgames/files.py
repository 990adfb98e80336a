"""Files that are whole or not there, and the user's cache folder."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import zipfile
import zlib

import numpy as np
from jaxtyping import ArrayLike, Shaped

# what `numpy.load` raises for an .npz file that is damaged or none
DAMAGED_ARRAYS = ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error


def write_file(path: pathlib.Path, content: str | bytes | memoryview) -> None:
    """Writes a file so that, whatever happens, it has either the old content or the new.

    Raises:
      OSError: the file cannot be written; the error names it.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    content = content.encode() if isinstance(content, str) else content
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):  # the error of a full disk does not name the file
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def write_arrays(
    path: pathlib.Path,
    /,
    *arrays: Shaped[ArrayLike, "..."],
    compressed: bool = True,
    **named: Shaped[ArrayLike, "..."],
) -> None:
    """Writes an .npz file of arrays, as `write_file` does.

    Args:
      path: of the file.
      arrays: have the names `arr_0`, `arr_1`, ...
      compressed: whether the file is.
      named: further arrays.

    Raises:
      OSError: the file cannot be written; the error names it.
    """
    content = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(content, *arrays, **named)
    write_file(path, content.getbuffer())


def cache_folder(name: str) -> pathlib.Path:
    """The folder `jaxgames/name` in `XDG_CACHE_HOME`, or in `~/.cache`; it need not exist."""
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home, "jaxgames", name)
