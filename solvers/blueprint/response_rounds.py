"""One step of a best response to a blueprint: values of all hands in the rounds of one board."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.holdem.card_abstraction import BucketTables
from jaxgames.holdem.cards import NUM_CARDS
from jaxgames.holdem.ranges import NUM_HANDS
from solvers.blueprint.betting_rounds import END, FOLDED, NODE, Family
from solvers.blueprint.blueprint import Blueprint
from solvers.blueprint.bucket_game import in_chunks
from solvers.blueprint.deals import make_deal, numbers_of_deal
from solvers.blueprint.rounds_played import of_groups, played_in_round, reaches_at_rounds
from solvers.blueprint.showdowns import folds, showdowns


def values_at_ends(
    families: Sequence[Family], below: Float[Array, "1326 N"]
) -> list[Float[Array, "1326 _ _"]]:
    """Values `[1326, K, M]` at the ends of each family, from those of all rounds after them."""
    found = []
    begins = _begins(families)
    for family in families:
        column = begins[family.next_family] + family.next_entry
        found.append(jnp.take(below, column.reshape(-1), axis=1).reshape(len(below), *column.shape))
    return found


def _begins(families):
    """Where each family of the next street begins among all its rounds."""
    count = max(int(family.next_family.max()) for family in families) + 1
    sizes = [
        max(int(f.next_entry[f.next_family == number].max(initial=-1)) + 1 for f in families)
        for number in range(count)
    ]
    return np.cumsum([0, *sizes])[:-1]


def values_at_rounds(
    blueprint: Blueprint,
    board: Int[Array, " n"],
    ends: Sequence[Sequence[Float[Array, "1326 _ _"]]] | None,
    *,
    player: int,
    best: bool,
) -> Float[Array, "1326 M"]:
    """The responder's values `[1326, M]` at the rounds of a street.

    Args:
      blueprint: of the opponent.
      board: of this street.
      ends: values `[1326, K, M]` at the ends of rounds by family, in one version or more: actions
        are chosen by the first and valued by the last. None: hands are
        shown down there.
      player: the responder.
      best: whether it plays a best response on this street; else it follows the blueprint.
    """
    game, buckets = blueprint.game, blueprint.buckets
    street = buckets.num_cards.index(len(board))
    deal, _ = make_deal(buckets, board, groups=math.comb(NUM_CARDS - len(board), 2))
    hands = numbers_of_deal(deal)
    read = lambda _, table: list(table)  # noqa: E731
    reaches = reaches_at_rounds(game, blueprint.policy, deal, read=read)[street]
    # values of ends are summed over all ways to deal the rest; those of folds are the same in each
    times = num_runouts(buckets, len(board))
    found = []
    for number, family in enumerate(game.rounds.streets[street]):
        below = None if ends is None else [version[number][hands] for version in ends]
        values = _of_family(
            family,
            blueprint.policy[street][number],
            deal,
            deal.bucket[street],
            reaches[number][1 - player],
            below,
            times,
            player,
            best,
        )
        found.append(jnp.zeros((NUM_HANDS, family.entries), values.dtype).at[hands].set(values))
    return jnp.concatenate(found, axis=1)


def _of_family(family, table, deal, bucket, reach, below, times, player, best):
    """The responder's values `[H, M]`, chunk by chunk."""
    split = lambda x: in_chunks(x, table)  # noqa: E731
    chips = [jnp.asarray(x, jnp.float32) for x in (family.fold_chips, family.end_chips)]
    versions = 1 if below is None else len(below)
    given = (table, split(reach), *map(split, chips), below and list(map(split, below)))

    def one(given):
        table, reach, fold_chips, end_chips, below = given
        played = played_in_round(family.template, list(table))

        def against(rule, kind):
            met = of_groups(played[kind], 1 - player, bucket) * reach[:, None]
            return rule(deal, met.reshape(len(met), -1)).reshape(met.shape)

        # 1. At folds and ends, by place, a value for each version.
        places = lambda x: [[x[:, n]] * versions for n in range(x.shape[1])]  # noqa: E731
        worth = {NODE: [None] * len(family.template.actor)}
        if below is None:
            worth[END] = places(against(showdowns, END) * end_chips[None])
        else:
            worth[END] = [[x[:, n] for x in below] for n in range(family.template.num_ends)]
        if played[FOLDED]:
            loses = np.array(family.template.loser) == player
            sign = jnp.asarray(np.where(loses, -times, times), jnp.float32)
            worth[FOLDED] = places(against(folds, FOLDED) * (sign[:, None] * fold_chips)[None])
        # 2. At decisions from the last to the first.
        for node in reversed(range(len(family.template.actor))):
            actions = [worth[e.kind][e.target] for e in family.template.actions[node]]
            own = family.template.actor[node] == player
            if own and not best:
                first = family.template.first_column[node]
                policy = [table[first + action][bucket] for action in range(len(actions))]
                actions = [[p * x for x in each] for p, each in zip(policy, actions, strict=True)]
            worth[NODE][node] = functools.reduce(_better if own and best else _sum, actions)
        return worth[NODE][0][-1]

    values = jax.lax.map(one, given)  # [N, H, E]
    return jnp.moveaxis(values, 0, 1).reshape(len(reach), -1)[:, : family.entries]


def _better(one, other):
    """All versions of the values whose first version is larger."""
    if len(one) == 1:
        return [jnp.maximum(one[0], other[0])]
    better = one[0] >= other[0]
    return [jnp.where(better, x, y) for x, y in zip(one, other, strict=True)]


def _sum(one, other):
    return [x + y for x, y in zip(one, other, strict=True)]


def num_runouts(tables: BucketTables, num_cards: int) -> int:
    """How many ways there are to deal the board from `num_cards` cards on: flops are sets, later
    cards come one by one."""
    left, total = NUM_CARDS - 4 - num_cards, tables.num_cards[-1] - num_cards
    if num_cards == 0 and total:
        return math.comb(left, 3) * math.perm(left - 3, total - 3)
    return math.perm(left, total)
