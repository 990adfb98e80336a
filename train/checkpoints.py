"""Checkpoints of everything that a training run remembers. Importing this imports Orbax."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax

from solvers import checkpoint


def save(path: Path | str, state: Any, *, identity: dict[str, Any]) -> None:
    """Writes a run, a record with a `key`, under the folder `path`; see
    `solvers.checkpoint.write`."""
    checkpoint.write(path, _plain(state), identity=identity)


def restore(path: Path | str, like: Any, *, identity: dict[str, Any]) -> Any:
    """The latest run saved under `path`, laid out over devices as `like` is.

    Raises:
      FileNotFoundError: there is no checkpoint.
      ValueError: it is corrupt, or of another identity.
    """
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), _plain(like)
    )
    state = checkpoint.read(path, shapes, identity=identity)
    return state.replace(key=jax.random.wrap_key_data(state.key))


def _plain(state):
    """The run with its key as numbers, which is what Orbax takes."""
    return state.replace(key=jax.random.key_data(state.key))
