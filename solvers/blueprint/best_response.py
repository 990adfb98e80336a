"""The best response to a blueprint in the real game: what a player who sees its own cards wins.

The opponent plays by buckets; the player answers with each hand on each board as is best, and need
not know any abstraction. All boards are enumerated: flops up to the names of suits, and the turns
and rivers of each.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from jaxgames.holdem.betting_tree import NO_NODE
from jaxgames.holdem.canonical_boards import canonical_boards, num_deals
from jaxgames.holdem.card_abstraction import BucketTables
from jaxgames.holdem.cards import NUM_CARDS
from jaxgames.holdem.ranges import CLASSES, NUM_HANDS, class_numbers
from solvers.blueprint.betting_rounds import END, FOLDED, NODE
from solvers.blueprint.board_sampled_cfr import (
    BucketGame,
    Tables,
    in_chunks,
    of_groups,
    played_in_round,
    reaches_at_rounds,
)
from solvers.blueprint.deals import hand_numbers, make_deal
from solvers.blueprint.showdowns import folds, showdowns


def flops_values(
    policy: Tables,
    tables: BucketTables,
    flops: Int[np.ndarray, " n"],
    *,
    game: BucketGame,
    player: int,
) -> Float[np.ndarray, "169 M"]:
    """The responder's counterfactual values at the rounds of some flops, summed.

    Args:
      policy: of the opponent, as `board_sampled_cfr.average_policy` makes it.
      tables: the opponent's buckets.
      flops: numbers of canonical boards of three cards.
      game: limit hold'em, or another game whose hands are shown down on the last street only.
      player: who responds, 0 or 1.

    Returns:
      Sums over all hands of a class, all turns and rivers, and all flops that differ in the names
      of suits only.

    Raises:
      ValueError: some hands are shown down earlier, or the second street is no flop.
    """
    early = [family for families in game.rounds.streets[:-1] for family in families]
    if any((family.next_family == NO_NODE).any() for family in early):
        raise ValueError("hands must be shown down on the last street only")
    if tables.num_cards[:2] != (0, 3):
        raise ValueError(f"boards of {tables.num_cards} cards must begin with 0 and 3")
    boards = jnp.asarray(canonical_boards(3)[3].cards[flops], jnp.int32)
    by_class = 0.0
    for board, deals in zip(boards, num_deals(3)[flops], strict=True):
        values = _values(policy, tables, board, game=game, player=player)
        by_class = by_class + int(deals) * np.asarray(values, np.float64)
    order = np.argsort(class_numbers(), kind="stable")
    first = np.searchsorted(class_numbers()[order], np.arange(len(CLASSES)))
    return np.add.reduceat(by_class[order], first)


def best_response_value(
    policy: Tables,
    tables: BucketTables,
    values: Float[np.ndarray, "169 M"],
    *,
    game: BucketGame,
    player: int,
    num_flops: int = math.comb(NUM_CARDS, 3),
) -> float:
    """What a player wins who responds as is best, in chips per hand.

    Args:
      policy: of the opponent.
      tables: the opponent's buckets.
      values: `flops_values`.
      game: as there.
      player: who responds, 0 or 1.
      num_flops: how many flops these were, those that differ in the names of suits counted too;
        fewer than all estimate the value.

    Returns:
      The value of the game to the responder.
    """
    size = np.bincount(class_numbers(), minlength=len(CLASSES))
    scale = math.comb(NUM_CARDS, 3) / num_flops / size[:, None]
    below = jnp.asarray((values * scale)[class_numbers()], jnp.float32)
    root = _before_flop(policy, tables, below, game=game, player=player)
    pairs = NUM_HANDS * math.comb(NUM_CARDS - 2, 2)
    return float(np.asarray(root, np.float64).sum() / pairs / _runouts(tables, 0))


def _runouts(tables, num_cards):
    """How many ways there are to deal the board from `num_cards` cards on: flops are sets, later
    cards come one by one."""
    left, total = NUM_CARDS - 4 - num_cards, tables.num_cards[-1] - num_cards
    if num_cards == 0 and total:
        return math.comb(left, 3) * math.perm(left - 3, total - 3)
    return math.perm(left, total)


@functools.partial(jax.jit, static_argnames=("game", "player"))
def _before_flop(policy, tables, below, *, game, player):
    """The responder's values `[1326]` at the root, from those `[1326, M]` at rounds on flops."""
    ends = _at_ends(game.rounds.streets[0], below)
    return _best(policy, tables, jnp.zeros(0, jnp.int32), ends, game=game, player=player)[:, 0]


@functools.partial(jax.jit, static_argnames=("game", "player"))
def _values(policy, tables, board, *, game, player):
    """The responder's values `[1326, M]` at the rounds of the street of a board, summed over all
    ways to deal the rest."""
    street = tables.num_cards.index(len(board))
    if street == len(tables.num_cards) - 1:
        return _best(policy, tables, board, None, game=game, player=player)
    rest = jnp.ones(NUM_CARDS, bool).at[board].set(False)
    cards = jnp.flatnonzero(rest, size=NUM_CARDS - len(board)).astype(jnp.int32)

    def add(total, card):
        more = jnp.concatenate([board, card[None]])
        return total + _values(policy, tables, more, game=game, player=player), None

    count = sum(family.entries for family in game.rounds.streets[street + 1])
    below, _ = jax.lax.scan(add, jnp.zeros((NUM_HANDS, count)), cards)
    ends = _at_ends(game.rounds.streets[street], below)
    return _best(policy, tables, board, ends, game=game, player=player)


def _at_ends(families, below):
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


def _best(policy, tables, board, ends, *, game, player):
    """The responder's values `[1326, M]` at the rounds of a street, from those `[1326, K, M]` at
    their ends, by family; None: hands are shown down there."""
    street = tables.num_cards.index(len(board))
    left = NUM_CARDS - len(board)
    deal, _ = make_deal(tables, board, groups=left * (left - 1) // 2)
    hands = hand_numbers(deal)
    reaches = reaches_at_rounds(game, policy, deal, read=lambda _, table: list(table))[street]
    # values of ends are summed over all ways to deal the rest; those of folds are the same in each
    times = _runouts(tables, len(board))
    found = []
    for number, family in enumerate(game.rounds.streets[street]):
        below = None if ends is None else ends[number][hands]
        values = _best_of_family(
            family,
            policy[street][number],
            deal,
            deal.bucket[street],
            reaches[number][1 - player],
            below,
            times,
            player,
        )
        found.append(jnp.zeros((NUM_HANDS, family.entries), values.dtype).at[hands].set(values))
    return jnp.concatenate(found, axis=1)


def _best_of_family(family, table, deal, bucket, reach, below, times, player):
    """The responder's values `[H, M]`, chunk by chunk."""
    split = lambda x: in_chunks(x, table)  # noqa: E731
    chips = [jnp.asarray(x, jnp.float32) for x in (family.fold_chips, family.end_chips)]
    given = (table, split(reach), *map(split, chips), None if below is None else split(below))

    def one(given):
        table, reach, fold_chips, end_chips, below = given
        played = played_in_round(family.template, list(table))

        def against(rule, kind):
            met = of_groups(played[kind], 1 - player, bucket) * reach[:, None]
            return rule(deal, met.reshape(len(met), -1)).reshape(met.shape)

        at = {NODE: [None] * len(family.template.actor)}
        if below is None:
            at[END] = jnp.moveaxis(against(showdowns, END) * end_chips[None], 1, 0)
        else:
            at[END] = jnp.moveaxis(below, 1, 0)
        if played[FOLDED]:
            loses = np.array(family.template.loser) == player
            sign = jnp.asarray(np.where(loses, -times, times), jnp.float32)
            at[FOLDED] = jnp.moveaxis(
                against(folds, FOLDED) * (sign[:, None] * fold_chips)[None], 1, 0
            )
        for node in reversed(range(len(family.template.actor))):
            actions = [at[e.kind][e.target] for e in family.template.actions[node]]
            choose = jnp.maximum if family.template.actor[node] == player else jnp.add
            at[NODE][node] = functools.reduce(choose, actions)
        return at[NODE][0]

    values = jax.lax.map(one, given)  # [N, H, E]
    return jnp.moveaxis(values, 0, 1).reshape(len(reach), -1)[:, : family.entries]
