"""What iterations over drawn boards share: a street's tables chunk by chunk, and many deals at
once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float

from jaxgames.arrays import at, written
from solvers.blueprint.betting_rounds import Family
from solvers.blueprint.bucket_game import in_chunks
from solvers.blueprint.bucket_rows import copied
from solvers.blueprint.deals import Deal
from solvers.blueprint.rounds_played import take_columns
from solvers.device_batches import DATA, check_even

_DEALS = "deals"  # of one device in one iteration


def over_chunks(
    family: Family,
    tables: Sequence[Float[Array, "N _ _ E"]],
    reach: tuple[Float[Array, "G M"], Float[Array, "G M"]],
    below: Sequence[tuple[Float[Array, "G _"], Float[Array, "G _"]]] | None,
    update: Callable[..., tuple],
) -> tuple:
    """The tables of a family after an iteration, and both players' values `[G, M]` of its rounds.

    They are computed one chunk after the other, so that what is computed stays in a CPU's caches,
    and tables change in place.

    Args:
      family: of M rounds.
      tables: of the family.
      reach: of both players at the beginning of the rounds.
      below: both players' values of the rounds of the next street, by family; None: there are none.
      update: called with the tables of a chunk, the reaches `[G, E]`, the values below the ends
        `[G, K, E]` or None, and the chips of folds and ends `[n, E]`; returns the new tables, and
        both players' values `[G, E]` as a pair.
    """
    table, groups = tables[0], len(reach[0])
    chips = [jnp.asarray(x, table.dtype) for x in (family.fold_chips, family.end_chips)]
    given = reach, _ends_below(family, below), *chips
    given = written(jax.tree.map(lambda x: in_chunks(x, table), given))

    def one(k, carry):
        tables, worth = carry
        old = [copied(x, k) for x in tables]
        here = at(given, k)
        *new, values = written(update(*old, *here))
        put = lambda whole, part: whole.at[k].set(part)  # noqa: E731
        return jax.tree.map(put, (tables, worth), (tuple(new), values))

    nothing = jnp.zeros((len(table), groups, table.shape[-1]), table.dtype)
    tables, worth = jax.lax.fori_loop(
        np.int32(0), np.int32(len(table)), one, (tuple(tables), (nothing, nothing))
    )
    whole = [jnp.moveaxis(x, 0, 1).reshape(groups, -1)[:, : family.entries] for x in worth]
    return *tables, tuple(whole)


def _ends_below(family, below):
    """Both players' values `[G, K, M]` of the rounds after the ends of a family; None if there are
    none. At showdowns they are not read."""
    if all(family.template.shown):
        return None
    begins = np.cumsum([0] + [values[0].shape[1] for values in below])[:-1]
    column = begins[np.maximum(family.next_family, 0)] + np.maximum(family.next_entry, 0)
    whole = [jnp.concatenate([values[p] for values in below], axis=1) for p in range(2)]
    return tuple(take_columns(x, column.reshape(-1)).reshape(len(x), *column.shape) for x in whole)


def over_deals(
    iterated: Callable[[Any, Deal, tuple[str, ...]], Any],
    state: Any,
    deals: Deal,
    *,
    mesh: Mesh | None,
) -> Any:
    """The state after one iteration on D deals at once.

    Args:
      iterated: maps a state, a deal and the axes of all deals to the state after the iteration;
        sums over these axes what it adds to the tables.
      state: before it, the same on all devices.
      deals: with a leading axis D, a multiple of the number of devices.
      mesh: devices with one axis, `device_batches.DATA`, which share the deals; None: one device.

    Raises:
      ValueError: D is no multiple of the number of devices.
    """
    count = deals.size.shape[0]
    check_even({"deals": count}, mesh)
    axes = () if mesh is None else (DATA,)
    alone = count == (1 if mesh is None else mesh.size)

    def on_device(state, deals):
        if alone:
            return iterated(state, at(deals, 0), axes)
        one = lambda state, deal: iterated(state, deal, (_DEALS, *axes))  # noqa: E731
        return jax.vmap(one, (None, 0), None, axis_name=_DEALS)(state, deals)

    if mesh is None:
        return on_device(state, deals)
    specs = dict(in_specs=(P(), P(DATA)), out_specs=P(), check_vma=False)
    return jax.shard_map(on_device, mesh=mesh, **specs)(state, deals)


def summed_over_deals(sums: Array, axes: tuple[str, ...]) -> Array:
    """Sums over all deals of an iteration; those of one deal are complete."""
    return jax.lax.psum(sums, axes) if axes else sums
