"""Keeps compiled programs between runs of the commands, in the user's cache folder.

Only the commands do this; a program that imports these packages decides for itself. JAX's own
variables are the switch: `JAX_ENABLE_COMPILATION_CACHE=0` for no cache, and
`JAX_COMPILATION_CACHE_DIR` for another folder, which is then used as JAX's other variables say.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import sys

MAX_BYTES = 2**30  # the programs that were stored first are deleted beyond


def folder() -> pathlib.Path:
    """The folder of the cache: `jaxgames/compiled` in `XDG_CACHE_HOME`, or in `~/.cache`."""
    from jaxgames.files import cache_folder

    return cache_folder("compiled")


def turn_on() -> None:
    """Lets JAX read and write compiled programs in `folder()`.

    Nothing changes if the user has set another folder or no cache. If the folder cannot be written,
    a line on stderr says so.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    import jax

    if not jax.config.jax_enable_compilation_cache:
        return
    path = folder()
    try:
        path.mkdir(parents=True, exist_ok=True)
        (path / f"try-{os.getpid()}").touch()
        (path / f"try-{os.getpid()}").unlink()
        prune(path, MAX_BYTES)
    except OSError as error:
        print(f"compiled programs are not kept: {error}", file=sys.stderr)
        return
    jax.config.update("jax_compilation_cache_dir", str(path))
    # all are worth keeping: to compile even the smallest takes longer than to read it
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def prune(path: pathlib.Path, max_bytes: int) -> None:
    """Deletes the files of a folder that were written first, until it has at most `max_bytes`.

    Raises:
      OSError: the folder cannot be read.
    """
    files = []
    for file in path.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process has deleted it
            if not file.is_file():  # XLA keeps what it has tuned on a GPU in a folder here
                continue
            files.append((file.stat().st_mtime, file.stat().st_size, file))
    total = sum(size for _, size, _ in files)
    for _, size, file in sorted(files):
        if total <= max_bytes:
            return
        file.unlink(missing_ok=True)
        total -= size
