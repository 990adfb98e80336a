"""Solving a large hold'em tree: on several devices, with checkpoints and a progress bar."""

from __future__ import annotations

import contextlib
import functools
import pathlib
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from solvers import cfr
from solvers.cfr import Solver
from solvers.holdem.board_sharding import BOARDS, shard_tree
from solvers.holdem.subgame_tree import HoldemTree
from solvers.sequence_form import Policy

_CHUNK = 25  # iterations between two reports


def large_solve(
    tree: HoldemTree,
    folder: pathlib.Path,
    *,
    solver: Solver,
    num_iterations: int,
    since: pathlib.Path | None = None,
    storage: str = "full",
    mesh: Mesh | None = None,
    save_seconds: float = 300.0,
    report: Callable[[int], None] = lambda more: None,
    saved: Callable[[], None] = lambda: None,
) -> Policy:
    """Average policies after iterations of CFR, with the boards spread over devices.

    Args:
      tree: the tree to solve.
      folder: where the state is written to every `save_seconds` and at the end, and from where the
        solve continues if there is one.
      solver: the variant of CFR.
      num_iterations: iterations in all, with those of an earlier run.
      since: the folder of a solve with fewer iterations, to continue from if `folder` holds none.
      storage: see `cfr.init`.
      mesh: the devices; None: one.
      save_seconds: time between two checkpoints.
      report: takes the number of iterations since its last call.
      saved: called whenever the state has been written.

    Returns:
      The average policies of both players.

    Raises:
      ValueError: the last two states in a folder are damaged, or the last is of other devices.
      OSError: the state cannot be written.
    """
    from solvers import checkpoint  # imports Orbax

    advance = _advancing(solver)
    call, devices, placed = functools.partial(_alone, tree.sequence_form), (), lambda state: state
    if mesh is not None:
        mesh = Mesh(mesh.devices, (BOARDS,))
        parts = shard_tree(tree, mesh=mesh, storage=storage)
        call, devices = parts.call, (mesh.size,)
        placed = functools.partial(jax.device_put, device=NamedSharding(mesh, P(BOARDS)))
    start = functools.partial(cfr.init, storage=storage)
    known = {"devices": devices[0] if devices else 1}
    template, state = jax.eval_shape(lambda: call(start)), None
    for path in (folder, since):
        if state is None and path is not None:
            with contextlib.suppress(FileNotFoundError):
                state = placed(checkpoint.read(path, template, identity=known))
    if state is None:
        state = call(start)
    last = time.monotonic()
    while (done := int(state.step.ravel()[0])) < num_iterations:
        more = min(_CHUNK, num_iterations - done)
        state = jax.block_until_ready(call(advance, state, jnp.full(devices, more)))
        report(more)
        if done + more == num_iterations or time.monotonic() > last + save_seconds:
            checkpoint.write(folder, state, identity=known)
            saved()
            last = time.monotonic()
    policy = call(cfr.average_policy, state)
    return tuple(map(jnp.asarray, parts.gathered(policy, tree))) if devices else policy


def _alone(tree, function, *arguments):
    """Calls a function of the tree on a single device."""
    return function(tree, *arguments)


@functools.cache  # compiled once
def _advancing(solver):
    """A function that iterates with this solver, the same object for every call."""

    def advance(tree, state, count):
        return cfr.run(tree, state, solver=solver, num_iterations=count)

    return advance
