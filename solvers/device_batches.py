"""Batches that several devices share: each computes its own part, without the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

DATA = "data"  # the axis of a mesh


def split_calls(function: Callable[..., Any], mesh: Mesh | None) -> Callable[..., Any]:
    """Makes each device call a function with its own share of a batch.

    Args:
      function: `function(shared, batch)`. All arrays of `batch` and of its result have the batch on
        their leading axis. Its loops run as long as the device's share needs.
      mesh: the devices; None: the function is returned as it is.

    Returns:
      A function of the same arguments.
    """
    if mesh is None:
        return function
    return jax.shard_map(
        function, mesh=mesh, in_specs=(P(), P(DATA)), out_specs=P(DATA), check_vma=False
    )
