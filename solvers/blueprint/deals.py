"""Deals of whole boards: which hands there are, in which buckets, and which of two wins.

Hands with equal buckets on all streets have equal policies, and so equal reaches: they are one
*group*. All that a hand's cards decide, which are folds and showdowns, is summed over the hands of
groups.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jax.typing import DTypeLike
from jaxtyping import Array, Int, Key

from jaxgames.core import record
from jaxgames.holdem.card_abstraction import BucketTables, buckets_of_deal
from jaxgames.holdem.cards import NUM_CARDS
from jaxgames.holdem.equity import hand_strengths
from jaxgames.holdem.ranges import HANDS, NUM_HANDS, ordered_hand_number
from solvers.device_batches import DATA


@record
class Deal:
    """A board with G groups of hands, some of which may be empty, and its H possible hands, from
    the weakest to the strongest."""

    bucket: Array  # [S, G] int32 of each group, by street that has been dealt
    size: Array  # [G] hands in each group
    with_card: Array  # [G, 52] hands of each group that hold each card
    group: Array  # [H] int32 of each hand
    cards: Array  # [H, 2] int32
    strength: Array  # [H] int32


def random_board(key: Key[Array, ""], num_cards: int) -> Int[Array, " n"]:
    """Draws different cards, in the order of a deal.

    Args:
      key: consumed.
      num_cards: how many there are.
    """
    return jax.random.permutation(key, NUM_CARDS)[:num_cards].astype(jnp.int32)


def random_boards(key: Key[Array, ""], count: int, *, num_cards: int) -> Int[Array, "count n"]:
    """`count` boards of `num_cards` cards; `key` is consumed."""
    return jax.vmap(lambda key: random_board(key, num_cards))(jax.random.split(key, count))


@functools.partial(jax.jit, static_argnames=("groups", "dtype"))
def make_deal(
    tables: BucketTables, board: Int[Array, " n"], *, groups: int, dtype: DTypeLike = jnp.float32
) -> tuple[Deal, Int[Array, ""]]:
    """The hands of a board in groups.

    Args:
      tables: the buckets of all hands.
      board: the cards so far, in the order of the deal.
      groups: G, the room for groups; with as many as there are hands each is a group of its own.
      dtype: of counts.

    Returns:
      The deal, and how many groups its hands make: the deal is valid if this is at most G.
    """
    num_hands = math.comb(NUM_CARDS - len(board), 2)
    strength = hand_strengths(board)
    order = jnp.argsort(strength, stable=True)[NUM_HANDS - num_hands :].astype(jnp.int32)
    cards = jnp.asarray(HANDS, jnp.int32)[order]
    bucket = buckets_of_deal(tables, board)[:, order]
    if groups >= num_hands:
        group, count = jnp.arange(num_hands, dtype=jnp.int32), jnp.int32(num_hands)
    else:
        group, count = _grouped(bucket)
    inside = jnp.zeros((groups, NUM_CARDS), dtype)
    inside = inside.at[group[:, None], cards].add(1, mode="drop")
    shared = jnp.zeros((len(bucket), groups), jnp.int32).at[:, group].set(bucket, mode="drop")
    return Deal(
        bucket=shared,
        size=jnp.zeros(groups, dtype).at[group].add(1, mode="drop"),
        with_card=inside,
        group=group,
        cards=cards,
        strength=strength[order],
    ), count


def make_deals(
    tables: BucketTables,
    boards: Int[Array, "D n"],
    *,
    groups: int,
    dtype: DTypeLike = jnp.float32,
    mesh: Mesh | None = None,
) -> tuple[Deal, Int[Array, " D"]]:
    """`make_deal` of several boards, as `iterate_on_many` takes them; pure JAX.

    Args:
      tables: the buckets of all hands.
      boards: one in each row.
      groups: G, the room for groups of each.
      dtype: of counts.
      mesh: devices with one axis, `device_batches.DATA`, which share the boards; None: one device.

    Returns:
      The deals, with a leading axis D; and how many groups there are on each board.
    """

    def on_device(tables, boards):
        return jax.vmap(lambda board: make_deal(tables, board, groups=groups, dtype=dtype))(boards)

    if mesh is None:
        return on_device(tables, boards)
    specs = dict(in_specs=(P(), P(DATA)), out_specs=P(DATA), check_vma=False)
    return jax.shard_map(on_device, mesh=mesh, **specs)(tables, boards)


def _grouped(bucket):
    """A number for each sequence of buckets `[S, H]`, in lexicographic order of the last street's
    bucket first; and how many there are."""
    order = jnp.lexsort(bucket)
    ordered = bucket[:, order]
    new = jnp.any(ordered[:, 1:] != ordered[:, :-1], axis=0)
    number = jnp.cumsum(jnp.concatenate([jnp.zeros(1, bool), new]), dtype=jnp.int32)
    group = jnp.zeros_like(number).at[order].set(number)
    return group, number[-1] + 1


def numbers_of_deal(deal: Deal) -> Int[Array, " H"]:
    """The numbers of a deal's hands among all 1,326 (`jaxgames.holdem.ranges`)."""
    return ordered_hand_number(deal.cards[:, 0], deal.cards[:, 1])
