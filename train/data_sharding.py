"""Training on several devices: a mesh with one axis, `data`.

Every device searches in its own share of the episodes and queries, without communication. The
replay buffer and the queue are one ring each, cut into pieces. Batches of examples are cut too, and
gradients are averaged. Random keys belong to episodes, queries and draws, never to devices, so that
the numbers are those of one device up to rounding.

Several processes (one per machine) make one mesh of all their devices:

    >>> from train import data_sharding
    >>> mesh = data_sharding.data_mesh()  # for `mesh=` of the functions that train
    >>> mesh.axis_names
    ('data',)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Int, PyTree

from jaxgames.arrays import at
from solvers.device_batches import DATA


def data_mesh(devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh of these devices, or of all devices."""
    return Mesh(np.asarray(jax.devices() if devices is None else devices), (DATA,))


def everywhere(batch: PyTree, mesh: Mesh | None) -> PyTree:
    """A batch that is cut along its leading axis, whole on every device, under `jit`.

    All arrays travel together, as bytes: devices that wait for each other once lose less time than
    once for each array.

    Args:
      batch: arrays `[B, ...]`, of one B or of several, all of which the devices can share evenly.
      mesh: the devices; None: the batch is returned as it is.
    """
    if mesh is None:
        return batch
    return _from_rows(constrain(_rows(batch, mesh.size), P(), mesh), batch)


def read(tables: Sequence[tuple[PyTree, Int[Array, " B"]]], mesh: Mesh | None) -> list[PyTree]:
    """Entries of tables that are cut over the mesh, as a batch that is cut, under `jit`.

    Each device sends what it has of the entries that the others need, all arrays at once.

    Args:
      tables: pairs of arrays `[n, ...]` and the numbers `[B]` of some entries.
      mesh: the devices, which can share B and each n evenly; None: one device has all tables.
    """
    if mesh is None:
        return [at(table, index) for table, index in tables]
    arrays, indices = zip(*tables, strict=True)

    def own_share(arrays, indices):
        found = []
        for table, index in zip(arrays, indices, strict=True):
            size = len(jax.tree.leaves(table)[0])
            here = index - jax.lax.axis_index(DATA).astype(index.dtype) * size
            mine = (here >= 0) & (here < size)
            here = jnp.where(mine, here, 0)
            found.append((at(table, here), mine))
        rows = [jnp.where(mine[:, None], _rows(x, len(mine)), 0) for x, mine in found]
        # one device has each entry, so that a sum of bytes is its own
        share = jax.lax.psum_scatter(jnp.concatenate(rows, axis=1), DATA, tiled=True)
        like = [jax.tree.map(lambda x: x[: len(share)], x) for x, _ in found]
        return _from_rows(share, like)

    split_over = jax.shard_map(
        own_share, mesh=mesh, in_specs=(P(DATA), P()), out_specs=P(DATA), check_vma=False
    )
    return split_over(list(arrays), list(indices))


def on_every_device(function: Callable[..., PyTree], mesh: Mesh | None) -> Callable[..., PyTree]:
    """A function of arrays that every device has whole, so that each computes all of it alone.

    Args:
      function: of arrays; its result is whole on every device, too.
      mesh: the devices; None: the function is returned as it is.
    """
    if mesh is None:
        return function
    return jax.shard_map(function, mesh=mesh, in_specs=P(), out_specs=P(), check_vma=False)


def _rows(batch, number):
    """The bytes of a batch in `number` rows, each of which has an equal part of every array."""
    return jnp.concatenate([_bytes(x).reshape(number, -1) for x in jax.tree.leaves(batch)], axis=1)


def _from_rows(rows, like):
    """The batch of `_rows`, with the shapes and types of another one."""
    leaves, structure = jax.tree.flatten(like)
    sizes = [x.dtype.itemsize * x.size // len(rows) for x in leaves]
    parts = jnp.split(rows, list(itertools.accumulate(sizes))[:-1], axis=1)
    return structure.unflatten(map(_from_bytes, parts, leaves))


def _bytes(x):
    """The bytes of each entry of an array `[B, ...]`, `[B, n]`."""
    x = x.astype(jnp.uint8) if x.dtype == bool else jax.lax.bitcast_convert_type(x, jnp.uint8)
    return x.reshape(len(x), math.prod(x.shape[1:]))


def _from_bytes(rows, like):
    """The array of `_bytes`, with the shape and type of another one."""
    if like.dtype == bool:
        return rows.reshape(like.shape).astype(bool)
    size = like.dtype.itemsize
    rows = rows.reshape(*like.shape, *[size] * (size > 1))
    return jax.lax.bitcast_convert_type(rows, like.dtype)


def constrain(arrays: PyTree, specs: PyTree, mesh: Mesh | None) -> PyTree:
    """Arrays laid out over the mesh by `PartitionSpec`s, under `jit`."""
    if mesh is None:
        return arrays
    return jax.lax.with_sharding_constraint(arrays, named(specs, mesh))


def named(specs: PyTree, mesh: Mesh) -> PyTree:
    """`PartitionSpec`s as shardings on a mesh."""
    is_spec = lambda x: isinstance(x, P)  # noqa: E731
    return jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs, is_leaf=is_spec)
