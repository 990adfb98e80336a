"""Checkpoints: written atomically by Orbax, refused if they belong to something else.

`save` and `restore` are for solves; `write` and `read` for any state with an identity.
"""

from __future__ import annotations

import errno
import functools
import os
import shutil
import zlib
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
from jaxtyping import PyTree

from solvers import cfr
from solvers.cfr import CfrState, Solver
from solvers.sequence_form import SequenceForm

_SPARE_BYTES = 2**20  # for what Orbax writes besides the state


def save(path: Path | str, state: CfrState, *, tree: SequenceForm, solver: Solver) -> None:
    """Writes `state` under the folder `path`; see `write`."""
    write(path, state, identity=_identity(tree, solver, state.storage))


def restore(
    path: Path | str, *, tree: SequenceForm, solver: Solver, storage: str = "full"
) -> CfrState:
    """The latest state saved under `path`; see `read`.

    Raises:
      FileNotFoundError: there is no checkpoint.
      ValueError: it is corrupt, or of another game, solver, precision or storage.
    """
    template = jax.eval_shape(functools.partial(cfr.init, storage=storage), tree)
    return read(path, template, identity=_identity(tree, solver, storage))


def write(path: Path | str, state: PyTree, *, identity: dict[str, Any]) -> None:
    """Writes arrays under the folder `path`, replacing what was saved there before, of whatever
    identity, only when the new ones are complete.

    Raises:
      OSError: the folder cannot be written, or the disk is full.
    """
    path = Path(path).absolute()
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    disk = next(folder for folder in (path, *path.parents) if folder.exists())
    if shutil.disk_usage(disk).free < 2 * size + _SPARE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    items = ocp.args.Composite(
        state=ocp.args.StandardSave(state), solve=ocp.args.JsonSave(identity)
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
    """The latest state written under `path`; `template` has its shapes (`jax.eval_shape`).

    Raises:
      FileNotFoundError: there is no checkpoint.
      ValueError: it is corrupt, or of another identity.
    """
    if not Path(path).is_dir():
        raise FileNotFoundError(f"no checkpoint at {path}")
    with _manager(path) as manager:
        step = manager.latest_step()
        if step is None:
            raise FileNotFoundError(f"no checkpoint at {path}")
        found = _read(manager, step, path, solve=ocp.args.JsonRestore())["solve"]
        for key, value in identity.items():
            if found.get(key) != value:
                raise ValueError(
                    f"the checkpoint at {path} has {key}={found.get(key)!r}, not {value!r}"
                )
        return _read(manager, step, path, state=ocp.args.StandardRestore(template))["state"]


def _identity(tree: SequenceForm, solver: Solver, storage: str) -> dict[str, object]:
    return {
        "game": tree.game,
        "solver": repr(solver),
        "dtype": str(tree.dtype) if storage == "full" else f"{tree.dtype} in {storage}",
        "num_sequences": [player.num_sequences for player in tree.treeplexes],
        "num_roots": [player.num_roots for player in tree.treeplexes],
        "fingerprint": _fingerprint(tree),
    }


def _fingerprint(tree: SequenceForm) -> int:
    """Tells apart subgames of one shape, payoffs, and layouts of other versions of this code."""
    checksum = 0
    ends, histories = tree.terminals, tree.histories
    if histories is not None:
        ends = histories.payoffs, histories.payoff_sequences
    for leaf in jax.tree.leaves((tree.treeplexes, ends)):
        checksum = zlib.crc32(np.ascontiguousarray(leaf), checksum)
    return checksum


def _manager(path):
    options = ocp.CheckpointManagerOptions(max_to_keep=1, enable_async_checkpointing=False)
    return ocp.CheckpointManager(Path(path).absolute(), options=options)


def _read(manager, step, path, **items):
    try:
        return manager.restore(step, args=ocp.args.Composite(**items))
    except Exception as error:  # Orbax raises many kinds for damaged files
        raise ValueError(f"the checkpoint at {path} is damaged: {_reason(error)}") from error


def _reason(error):
    return (str(error) or type(error).__name__).splitlines()[0][:200]
