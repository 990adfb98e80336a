"""A replay buffer: the latest examples, each used in a limited number of gradient updates.

The functions are pure and work on one record of arrays, so they may be used in `jit`, `scan` and
`vmap`. Examples are records of any kind with the fields `value_weight`, `policy_weight`, `policy`
and `legal`. The last two may be pairs, of what both players have; then `actor` says whose counts.

Policies are most of an example, so the buffer keeps those of who acts only, rounded to bfloat16, in
a ring for each player; players whose policies have the same shape share one. With A actions in N
rows a policy takes 2 A N bytes, which also say what is legal, and 12 bytes keep account of an
example. In London a policy of Mr X takes 10.7 KB and one of a detective 28 bytes, beside the
6.7 KB of all other fields.

A ring of bfloat16 holds the bits of its numbers as integers: XLA:CPU writes into an array of
bfloat16 by way of float32, and would convert the whole ring, there and back, for every batch.
"""

from __future__ import annotations

import fractions
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int, Key

from jaxgames.checks import at_least
from jaxgames.core import record
from solvers.device_batches import DATA
from train import data_sharding

ILLEGAL = -1  # in stored policies, instead of the probability
_FINEST = 1000  # largest denominator of a number of uses
_MOST = 1_000_000


@record
class Replay:
    """A ring of `capacity` slots, filled from slot 0 on, and rings of their policies.

    If an example's policy was overwritten, `policy_slots` at its place names another slot.
    """

    examples: Any  # fields [capacity, ...] but `policy` and `legal`, which are None
    uses: Array  # [capacity] int32 how often each example was drawn since it was added
    size: Array  # [] int32 number of slots that are filled
    next: Array  # [] int32 the slot that is written next; when all are filled, the oldest
    # rings of P policies of one shape: by player, or one of all
    policies: tuple[Array, ...]  # [P, A, N], ILLEGAL at illegal actions; bfloat16 as its bits
    policy_slots: tuple[Array, ...]  # [P] int32 the slot of each policy's example
    place: Array  # [capacity] int32 where in its ring each example's policy was written
    next_place: Array  # [rings] int32 the place that is written next, the oldest policy's


# The axes along which a buffer is cut on a mesh (`train.data_sharding`). Every device knows which
# examples there are, and where, so that all of them draw the same.
LAYOUT = Replay(
    examples=P(DATA),
    uses=P(),
    size=P(),
    next=P(),
    policies=P(DATA),
    policy_slots=P(),
    place=P(),
    next_place=P(),
)


def new_replay(
    example_like: Any,
    capacity: int,
    *,
    policy_dtype: str = "bfloat16",
    policy_shares: tuple[float, float] = (1.0, 1.0),
) -> Replay:
    """An empty buffer.

    Args:
      example_like: an unbatched example with the right shapes, or `jax.eval_shape` of one.
      capacity: number of slots.
      policy_dtype: of the policies while they are stored.
      policy_shares: the rings' places as shares of `capacity`, by who acts (their sum, if players
        share a ring). When a ring is full, a policy takes the place of the oldest in it, whose
        example then teaches values only.

    Raises:
      ValueError: `capacity` is below 1.
    """
    at_least(1, capacity=capacity)
    shapes = [*dict.fromkeys(leaf.shape for leaf in jax.tree.leaves(example_like.policy))]
    sizes = policy_capacities(capacity, policy_shares)
    if len(shapes) == 1:
        sizes = (min(capacity, sum(sizes)),)
    rest = _without_policy(example_like)
    return Replay(
        examples=jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), rest),
        uses=jnp.zeros(capacity, jnp.int32),
        size=jnp.int32(0),
        next=jnp.int32(0),
        policies=tuple(
            jnp.zeros((size, *shape), jnp.uint16 if policy_dtype == "bfloat16" else policy_dtype)
            for size, shape in zip(sizes, shapes, strict=True)
        ),
        policy_slots=tuple(jnp.zeros(size, jnp.int32) for size in sizes),
        place=jnp.zeros(capacity, jnp.int32),
        next_place=jnp.zeros(len(shapes), jnp.int32),
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
    slot, following = _places(mask, replay.next, capacity)
    place, policies, policy_slots, next_place = jnp.zeros_like(slot), [], [], []
    for ring, (policy, own) in enumerate(_by_ring(batch)):
        own = own & (slot < capacity)
        old, slots = replay.policies[ring], replay.policy_slots[ring]
        here, after = _places(own, replay.next_place[ring], len(slots))
        policies.append(_written(old, here, _stored(policy, old.dtype)))
        policy_slots.append(_written(slots, here, slot))
        next_place.append(after)
        place = jnp.where(own, here, place)
    return Replay(
        examples=_written(replay.examples, slot, _without_policy(batch)),
        uses=replay.uses.at[slot].set(0, mode="drop"),
        size=jnp.minimum(replay.size + jnp.sum(mask, dtype=jnp.int32), capacity),
        next=following,
        policies=tuple(policies),
        policy_slots=tuple(policy_slots),
        place=_written(replay.place, slot, place),
        next_place=jnp.stack(next_place),
    )


def _places(mask, first, size):
    """The places `[B]` in a ring that the items of a mask take one after the other, and the next.

    The place is `size`, out of bounds, for other items and for those that later ones replace.
    """
    number, count = jnp.cumsum(mask, dtype=jnp.int32) - 1, jnp.sum(mask, dtype=jnp.int32)
    kept = mask & (number >= count - size)
    return jnp.where(kept, (first + number) % size, size), (first + count) % size


def _stored(policy, dtype):
    """A policy as a ring of this type holds it: rounded, and bfloat16 as its bits."""
    if dtype == jnp.uint16:
        return policy.astype(jnp.bfloat16).view(jnp.uint16)
    return policy.astype(dtype)


def _numbers(stored):
    """The numbers of a policy that a ring holds."""
    return stored.view(jnp.bfloat16) if stored.dtype == jnp.uint16 else stored


def _written(ring, places, batch):
    """Arrays with a batch at some places; what is out of bounds is dropped."""
    return jax.tree.map(lambda old, new: old.at[places].set(new, mode="drop"), ring, batch)


def draw(
    replay: Replay,
    priorities: Float[Array, "U capacity"],
    batch_size: int,
    max_uses: int | float,
    *,
    mesh: Mesh | None = None,
) -> tuple[Replay, Int[Array, "U B"], Bool[Array, "U B"]]:
    """Draws the slots of several batches, one batch after the other.

    Those of a batch are different, and uniformly drawn among those that were used fewer than
    `max_uses` times. The time grows with the capacity, not only with `batch_size`.

    Args:
      replay: the buffer.
      priorities: of `random_priorities`, for each of U batches.
      batch_size: B, how many to draw for each batch.
      max_uses: how often an example may be used, on average over the slots: with 0.2, one slot in
        five may be used once.
      mesh: the devices over which the buffer is cut; None: one.

    Returns:
      The buffer with these uses counted, the slots, and which of them were drawn: not those where
      no example was left.

    Raises:
      ValueError: `batch_size` is not from 1 to the capacity, or `max_uses` not from 0.001 to 1e6.
    """
    capacity = replay.uses.shape[0]
    if not 1 <= batch_size <= capacity:
        raise ValueError(f"batch_size={batch_size} must be from 1 to the capacity {capacity}")

    def draw_all(priorities, size, uses):
        slot = jnp.arange(capacity, dtype=jnp.int32)

        def draw_one(uses, priorities):
            free = (slot < size) & (uses < allowed_uses(slot, max_uses))
            priority, index = jax.lax.top_k(jnp.where(free, priorities, 0), batch_size)
            drawn = priority > 0
            return uses.at[index].add(drawn.astype(jnp.int32)), (index, drawn)

        return jax.lax.scan(draw_one, uses, priorities)

    draw_all = data_sharding.on_every_device(draw_all, mesh)
    uses, (index, drawn) = draw_all(priorities, replay.size, replay.uses)
    return replay.replace(uses=uses), index, drawn


def drawn_examples(
    replay: Replay, slot: Int[Array, " B"], drawn: Bool[Array, " B"], *, mesh: Mesh | None = None
) -> Any:
    """The examples in some slots (see `examples_at`), without weight where they are not drawn."""
    batch = examples_at(replay, slot, mesh=mesh)
    return batch.replace(
        value_weight=jnp.where(drawn, batch.value_weight, 0),
        policy_weight=jnp.where(drawn, batch.policy_weight, 0),
    )


def examples_at(replay: Replay, slot: Int[Array, " B"], *, mesh: Mesh | None = None) -> Any:
    """The examples in some slots.

    Args:
      replay: the buffer.
      slot: B numbers of slots that are filled.
      mesh: the devices over which the buffer is cut, and then the batch; None: one.

    Returns:
      The examples (fields `[B, ...]`) as they were added, but for policies: those are rounded, with
      the precision of the weights, and those that are no longer stored have weight 0.
    """
    # The example, and what each ring has at the place of its policy, which is one ring's.
    place = replay.place[slot]
    places = [jnp.minimum(place, len(ring) - 1) for ring in replay.policies]
    kept = [x[here] == slot for x, here in zip(replay.policy_slots, places, strict=True)]
    tables = [(replay.examples, slot), *zip(replay.policies, places, strict=True)]
    examples, *stored = data_sharding.read(tables, mesh)
    stored = [*map(_numbers, stored)]
    weight = examples.policy_weight

    def policy_in(ring, acts):
        exists = acts & kept[ring]
        legal = _like(stored[ring], exists) & (stored[ring] != ILLEGAL)  # True for NaN, to be seen
        return legal, jnp.where(legal, stored[ring], 0).astype(weight.dtype), exists

    if hasattr(examples, "actor"):
        both = [policy_in(-ring, examples.actor == ring) for ring in range(2)]
        legal, policy, exist = zip(*both, strict=True)
        exists = exist[0] | exist[1]
    else:
        legal, policy, exists = policy_in(0, jnp.ones(len(slot), bool))
    weight = jnp.where(exists, weight, 0)
    return examples.replace(legal=legal, policy=policy, policy_weight=weight)


def policy_capacities(capacity: int, shares: tuple[float, float]) -> tuple[int, int]:
    """The number of policies of each player that there is room for, if their shapes differ."""
    first, second = (max(1, round(share * capacity)) for share in shares)
    return first, second


def _without_policy(examples):
    return examples.replace(policy=None, legal=None)


def _by_ring(batch):
    """For each ring the policies of all B examples, as it stores them, and a mask `[B]` of those
    that are its own."""
    marked = jax.tree.map(
        lambda legal, policy: jnp.where(legal, policy, ILLEGAL), batch.legal, batch.policy
    )
    if not hasattr(batch, "actor"):
        return [(marked, jnp.ones(len(marked), bool))]
    (first, second), acts = marked, [batch.actor == player for player in range(2)]
    if first.shape != second.shape:
        return [(first, acts[0]), (second, acts[1])]
    return [(jnp.where(_like(first, acts[0]), first, second), acts[0] | acts[1])]


def _like(x, mask):
    """A mask `[B]` with as many axes as `x`."""
    return mask.reshape(len(mask), *[1] * (x.ndim - 1))


def random_priorities(replay: Replay, key: Key[Array, ""]) -> Float[Array, " capacity"]:
    """A positive random number for each slot, of 30 random bits each, so that ties are rare.

    They are float32, though not uniformly distributed, because XLA:CPU selects the largest integers
    80 times more slowly.
    """
    bits = jax.random.bits(key, replay.uses.shape, jnp.uint32) >> 2
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
