"""A replay buffer: the latest examples, each used in a limited number of gradient updates.

The functions are pure and work on one record of arrays, so they may be used in `jit`, `scan` and
`vmap`. Examples are records of any kind with the fields `value_weight` and `policy_weight`.
"""

from __future__ import annotations

import fractions
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from jaxgames.core import record

_FINEST = 1000  # largest denominator of a number of uses
_MOST = 1_000_000


@record
class Replay:
    """A ring of `capacity` slots, filled from slot 0 on."""

    examples: Any  # fields [capacity, ...]
    uses: Array  # [capacity] int32 how often each example was drawn since it was added
    size: Array  # [] int32 number of slots that are filled
    next: Array  # [] int32 the slot that is written next; when all are filled, the oldest


def new_replay(example_like: Any, capacity: int) -> Replay:
    """An empty buffer.

    Args:
      example_like: an unbatched example with the right shapes, or `jax.eval_shape` of one.
      capacity: number of slots.

    Raises:
      ValueError: `capacity` is below 1.
    """
    if capacity < 1:
        raise ValueError(f"capacity={capacity} must be at least 1")
    return Replay(
        examples=jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), example_like),
        uses=jnp.zeros(capacity, jnp.int32),
        size=jnp.int32(0),
        next=jnp.int32(0),
    )


def add(replay: Replay, batch: Any, mask: Bool[Array, " B"]) -> Replay:
    """The buffer with some examples added in place of the oldest.

    Args:
      replay: the buffer.
      batch: examples (fields `[B, ...]`).
      mask: which of them to add `[B]`. They are added one after the other, so that of more than the
        capacity the last ones stay.
    """
    capacity = replay.uses.shape[0]
    count = jnp.sum(mask, dtype=jnp.int32)
    number = jnp.cumsum(mask, dtype=jnp.int32) - 1
    kept = mask & (number >= count - capacity)
    slot = jnp.where(kept, (replay.next + number) % capacity, capacity)  # out of bounds: dropped
    return Replay(
        examples=jax.tree.map(
            lambda old, new: old.at[slot].set(new, mode="drop"), replay.examples, batch
        ),
        uses=replay.uses.at[slot].set(0, mode="drop"),
        size=jnp.minimum(replay.size + count, capacity),
        next=(replay.next + count) % capacity,
    )


def sample(
    replay: Replay, key: Key[Array, ""], batch_size: int, max_uses: int | float
) -> tuple[Replay, Any, Float[Array, " B"]]:
    """Draws different examples, uniformly among those that were used fewer than `max_uses` times.

    The time grows with the capacity, not only with `batch_size`.

    Args:
      replay: the buffer.
      key: consumed.
      batch_size: B, how many to draw.
      max_uses: how often an example may be used, on average over the slots: with 0.2, one slot in
        five may be used once.

    Returns:
      The buffer with these uses counted, the examples (fields `[B, ...]`), and weights `[B]`: 1, or
      0 where no example was left. The examples' own weights are 0 there too, so that the loss does
      not count them.

    Raises:
      ValueError: `batch_size` is not from 1 to the capacity, or `max_uses` not from 0.001 to 1e6.
    """
    capacity = replay.uses.shape[0]
    if not 1 <= batch_size <= capacity:
        raise ValueError(f"batch_size={batch_size} must be from 1 to the capacity {capacity}")
    slot = jnp.arange(capacity, dtype=jnp.int32)
    free = (slot < replay.size) & (replay.uses < allowed_uses(slot, max_uses))
    lot, index = jax.lax.top_k(jnp.where(free, _lots(key, capacity), 0), batch_size)
    drawn = lot > 0
    batch = jax.tree.map(lambda x: x[index], replay.examples)
    weights = drawn.astype(batch.value_weight.dtype)
    batch = batch.replace(
        value_weight=jnp.where(drawn, batch.value_weight, 0),
        policy_weight=jnp.where(drawn, batch.policy_weight, 0),
    )
    return replay.replace(uses=replay.uses.at[index].add(drawn.astype(jnp.int32))), batch, weights


def _lots(key, count):
    """Positive random numbers `[count]`, of 30 random bits each, so that ties are rare.

    They are float32, though not uniformly distributed, because XLA:CPU selects the largest integers
    80 times more slowly.
    """
    bits = jax.random.bits(key, (count,), jnp.uint32) >> 2
    smallest = jnp.uint32(0x00800000)  # normal number
    return jax.lax.bitcast_convert_type(bits + smallest, jnp.float32)


def allowed_uses(slot: Int[Array, " C"], max_uses: int | float) -> Int[Array, " C"]:
    """Whole numbers of uses by slot `[C]`, which are `max_uses` on average and spread evenly."""
    share = uses_share(max_uses)
    below = share.denominator
    whole, rest = divmod(share.numerator, below)
    return whole + (slot % below * rest % below + rest) // below


def uses_share(max_uses: int | float) -> fractions.Fraction:
    """`max_uses` as a fraction.

    Raises:
      ValueError: `max_uses` is not from 0.001 to 1e6.
    """
    if not 1 / _FINEST <= max_uses <= _MOST:
        raise ValueError(f"max_uses={max_uses} must be from {1 / _FINEST} to {_MOST}")
    return fractions.Fraction(max_uses).limit_denominator(_FINEST)
