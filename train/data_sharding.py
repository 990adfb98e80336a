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

from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import PyTree

from solvers.device_batches import DATA as DATA
from solvers.device_batches import check_even as check_even
from solvers.device_batches import split_calls as split_calls


def data_mesh(devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh of these devices, or of all devices."""
    return Mesh(np.asarray(jax.devices() if devices is None else devices), (DATA,))


def split(batch: PyTree, mesh: Mesh | None) -> PyTree:
    """Arrays cut along their leading axis over the mesh, under `jit`."""
    return constrain(batch, P(DATA), mesh)


def constrain(arrays: PyTree, specs: PyTree, mesh: Mesh | None) -> PyTree:
    """Arrays laid out over the mesh by `PartitionSpec`s, under `jit`."""
    if mesh is None:
        return arrays
    return jax.lax.with_sharding_constraint(arrays, named(specs, mesh))


def named(specs: PyTree, mesh: Mesh) -> PyTree:
    """`PartitionSpec`s as shardings on a mesh."""
    is_spec = lambda x: isinstance(x, P)  # noqa: E731
    return jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs, is_leaf=is_spec)
