"""Batches that several devices share: each computes its own part, without the others."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import PyTree

DATA = "data"  # the axis of a mesh


def device_bytes() -> int:
    """The memory of the first device, or that of the machine where the device does not tell."""
    stats = jax.local_devices()[0].memory_stats() or {}
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return stats.get("bytes_limit", physical)


def split_calls(function: Callable[..., Any], mesh: Mesh | None) -> Callable[..., Any]:
    """Makes each device call a function with its own share of a batch.

    Args:
      function: `function(shared, batch)`. All arrays of `batch` and of its result have the batch on
        their leading axis; some of `batch` may be empty. Its loops run as long as the device's
        share needs.
      mesh: the devices; None: the function is returned as it is.

    Returns:
      A function of the same arguments. It raises `ValueError` if the devices cannot share the batch
      evenly.
    """
    if mesh is None:
        return function
    split = jax.shard_map(
        function, mesh=mesh, in_specs=(P(), P(DATA)), out_specs=P(DATA), check_vma=False
    )

    def run(shared: PyTree, batch: PyTree) -> PyTree:
        for size in dict.fromkeys(len(x) for x in jax.tree.leaves(batch) if len(x)):
            check_even({"batch": size}, mesh)
        return split(shared, batch)

    return run


def check_even(sizes: Mapping[str, int], mesh: Mesh | None) -> None:
    """Checks that the devices of a mesh can share sizes evenly.

    Args:
      sizes: by name.
      mesh: the devices; None: nothing is checked.

    Raises:
      ValueError: names the size.
    """
    for name, size in sizes.items():
        if mesh is not None and (size < 1 or size % mesh.size):
            raise ValueError(f"{name}={size} must be a multiple of the {mesh.size} devices")


def on_each_device(arrays: PyTree, mesh: Mesh | None) -> PyTree:
    """Arrays that every device has whole, put there once instead of at each call of a function.

    Args:
      arrays: a pytree; an array that occurs in it several times is put there once.
      mesh: the devices; None: the arrays are returned as they are.
    """
    if mesh is None:
        return arrays
    leaves, structure = jax.tree.flatten(arrays)
    whole = NamedSharding(mesh, P())
    placed = {id(leaf): jax.device_put(leaf, whole) for leaf in leaves}
    return structure.unflatten([placed[id(leaf)] for leaf in leaves])
