"""Checkpoints: Orbax writes them atomically, and they are refused where they do not belong.

The last two are kept. If the latest is damaged, a warning says so, and the one before is read.
`save` and `restore` are for solves by `solvers.cfr`; `write` and `read` for any pytree of arrays,
such as the state of a training run. Importing this module imports Orbax.
"""

from __future__ import annotations

import errno
import functools
import os
import shutil
import warnings
import zlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jaxtyping import PyTree

from solvers import cfr
from solvers.cfr import CfrState, Solver
from solvers.sequence_form import SequenceForm

_SPARE_BYTES = 2**20  # for what Orbax writes beside the state
_NOTES = "notes"  # beside the entries of the identity


class DamagedCheckpointError(ValueError):
    """What was saved cannot be read."""


def save(path: Path | str, state: CfrState, *, form: SequenceForm, solver: Solver) -> None:
    """Writes the state of a solve.

    Args:
      path: a folder of its own; what was saved there before the last save is deleted.
      state: as `cfr.run` returned it.
      form: the game that is solved.
      solver: the solver that solves it.

    Raises:
      OSError: the folder cannot be written, or the disk is full.
    """
    write(path, state, identity=solve_identity(form, solver, state.storage))


def restore(
    path: Path | str, *, form: SequenceForm, solver: Solver, storage: str = "full"
) -> CfrState:
    """The latest state that `save` wrote, or, with a warning, the one before if that is damaged.

    Args:
      path: the folder.
      form: the game that is solved.
      solver: the solver that solves it.
      storage: that of the state (see `cfr.init`).

    Raises:
      FileNotFoundError: there is no checkpoint.
      DamagedCheckpointError: all that were kept are damaged.
      ValueError: it is of another game, solver, precision or storage.
    """
    template = jax.eval_shape(functools.partial(cfr.init, storage=storage), form)
    return read(path, template, identity=solve_identity(form, solver, storage))


def write(path: Path | str, state: PyTree, *, identity: dict[str, Any], notes: Any = None) -> None:
    """Writes a pytree of arrays, and of random keys.

    When the new state is complete, what was saved before, of whatever identity, is kept as the one
    to go back to, and all that was saved before that is deleted.

    Args:
      path: a folder of its own.
      state: the arrays.
      identity: what the state belongs to, as JSON; `read` asks for the same.
      notes: anything that JSON can hold, such as the measurements so far.

    Raises:
      OSError: the folder cannot be written, or the disk is full.
    """
    path, state = Path(path).absolute(), jax.tree.map(_without_key, state)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    disk = next(folder for folder in (path, *path.parents) if folder.exists())
    if shutil.disk_usage(disk).free < 2 * size + _SPARE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    items = ocp.args.Composite(
        state=ocp.args.StandardSave(state), solve=ocp.args.JsonSave(identity | {_NOTES: notes})
    )
    try:
        with _manager(path) as manager:
            latest = manager.latest_step()  # counts saves, not iterations: a save may go back
            manager.save(0 if latest is None else latest + 1, args=items, force=True)
    except Exception as error:  # Orbax raises many kinds, and leaves what it had begun
        for unfinished in path.glob("*.orbax-checkpoint-tmp"):
            shutil.rmtree(unfinished, ignore_errors=True)
        raise OSError(f"the checkpoint at {path} cannot be written: {_reason(error)}") from error


def read(path: Path | str, template: PyTree, *, identity: dict[str, Any]) -> PyTree:
    """The state of `read_with_notes`."""
    return read_with_notes(path, template, identity=identity)[0]


def read_with_notes(
    path: Path | str, template: PyTree, *, identity: dict[str, Any]
) -> tuple[PyTree, Any]:
    """The latest state that `write` wrote, or, with a warning, the one before if that is damaged.

    Args:
      path: the folder.
      template: a pytree like the state, of arrays or of their shapes (`jax.eval_shape`); arrays
        are laid out over devices as they are there.
      identity: every entry must be as it was written.

    Returns:
      The state and its notes.

    Raises:
      FileNotFoundError: there is no checkpoint.
      DamagedCheckpointError: all that were kept are damaged.
      ValueError: it is of another identity.
    """
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(f"no checkpoint at {path}")
    with _manager(path) as manager:
        steps = sorted(manager.all_steps(), reverse=True)
        if not steps:
            raise FileNotFoundError(f"no checkpoint at {path}")
        damaged: list[DamagedCheckpointError] = []
        for step in steps:
            try:
                state, notes = _read_step(manager, step, path, template, identity)
                break
            except DamagedCheckpointError as error:
                damaged.append(error)
        else:
            raise DamagedCheckpointError("; ".join(map(str, damaged))) from damaged[0]
    for error in damaged:
        warnings.warn(f"{error}; going back to the one before, {path / str(step)}", stacklevel=2)
    state = jax.tree.map(
        lambda x, like: jax.random.wrap_key_data(x) if _is_key(like) else x, state, template
    )
    return state, notes


def _read_step(manager, step, path, template, identity):
    saved = _restore(manager, step, path, solve=ocp.args.JsonRestore())["solve"]
    for key, value in identity.items():
        if saved.get(key) != value:
            raise ValueError(
                f"the checkpoint at {path} has {key}={saved.get(key)!r}, not {value!r}"
            )
    shapes = ocp.args.StandardRestore(jax.tree.map(_shape_without_key, template))
    return _restore(manager, step, path, state=shapes)["state"], saved.get(_NOTES)


def solve_identity(form: SequenceForm, solver: Any, storage: str = "full") -> dict[str, object]:
    """What a checkpoint of a solve must agree with to be continued.

    Args:
      form: the game that is solved.
      solver: its settings, of any kind, whose `repr` tells all of them.
      storage: of the state between iterations (see `cfr.init`).

    Returns:
      The `identity` for `write` and `read`.
    """
    return {
        "game": form.game,
        "solver": repr(solver),
        "dtype": str(form.dtype) if storage == "full" else f"{form.dtype} in {storage}",
        "num_sequences": [player.num_sequences for player in form.treeplexes],
        "num_roots": [player.num_roots for player in form.treeplexes],
        "fingerprint": _fingerprint(form),
    }


def _fingerprint(form: SequenceForm) -> int:
    """A checksum that differs between subgames of one shape, between payoffs, and between layouts
    of different versions of this code."""
    checksum = 0
    payoffs, histories = form.terminals, form.histories
    if histories is not None:
        payoffs = histories.payoffs, histories.payoff_sequences
    for leaf in jax.tree.leaves((form.treeplexes, payoffs)):
        checksum = zlib.crc32(np.ascontiguousarray(leaf), checksum)
    return checksum


def _is_key(leaf):
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _without_key(leaf):
    """The leaf, or the numbers of a random key, which is what Orbax takes."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _shape_without_key(leaf):
    """What Orbax takes for a template of `_without_key(leaf)`: of arrays the shape and layout."""
    if not isinstance(leaf, jax.Array):
        return jax.eval_shape(jax.random.key_data, leaf) if _is_key(leaf) else leaf
    leaf = _without_key(leaf)
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding)


def _manager(path):
    options = ocp.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=False)
    return ocp.CheckpointManager(Path(path).absolute(), options=options)


def _restore(manager, step, path, **items):
    try:
        return manager.restore(step, args=ocp.args.Composite(**items))
    except Exception as error:  # Orbax raises many kinds for damaged files
        raise DamagedCheckpointError(
            f"the checkpoint at {path / str(step)} is damaged: {_reason(error)}"
        ) from error


def _reason(error):
    return (str(error) or type(error).__name__).splitlines()[0][:200]
