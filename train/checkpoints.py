"""Checkpoints of training runs. Importing this module imports Orbax."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax

from solvers import checkpoint


def save(path: Path | str, state: Any, *, identity: dict[str, Any]) -> None:
    """Writes the state of a run.

    Args:
      path: the folder of the run's checkpoints.
      state: a record with a field `key`.
      identity: what must be the same when the run is restored; see `solvers.checkpoint.write`.
    """
    checkpoint.write(path, _plain(state), identity=identity)


def restore(path: Path | str, like: Any, *, identity: dict[str, Any]) -> Any:
    """Reads the latest state that was saved.

    Args:
      path: the folder of the run's checkpoints.
      like: a state with the right shapes, laid out over devices as the restored one shall be.
      identity: with which it was saved.

    Returns:
      The state.

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
    """The state with its key as integers, as Orbax needs it."""
    return state.replace(key=jax.random.key_data(state.key))
