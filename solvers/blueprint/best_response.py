"""The best response to a blueprint in the real game: what a player who sees its own cards wins.

The opponent plays by buckets; the player answers with each hand on each board as is best, and need
not know any abstraction. All boards are enumerated: flops up to the names of suits, and the turns
and rivers of each.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Float, Int, Num

from jaxgames.holdem.betting_tree import NO_NODE
from jaxgames.holdem.canonical_boards import canonical_boards
from jaxgames.holdem.cards import NUM_CARDS
from jaxgames.holdem.ranges import CLASSES, NUM_HANDS, class_numbers
from solvers.blueprint.betting_rounds import END, FOLDED, NODE
from solvers.blueprint.blueprint import Blueprint
from solvers.blueprint.bucket_game import in_chunks
from solvers.blueprint.deals import hand_numbers, make_deal
from solvers.blueprint.rounds_played import of_groups, played_in_round, reaches_at_rounds
from solvers.blueprint.showdowns import folds, showdowns
from solvers.device_batches import DATA


def flop_values(
    blueprint: Blueprint,
    flops: Int[np.ndarray, " n"],
    *,
    player: int,
    mesh: Mesh | None = None,
    report: Callable[[int], None] | None = None,
) -> Float[np.ndarray, "n 169 M"]:
    """The responder's counterfactual values at the rounds of some flops.

    Args:
      blueprint: of the opponent: of limit hold'em, or of another game whose hands are shown down on
        the last street only.
      flops: numbers of canonical boards of three cards.
      player: who responds, 0 or 1.
      mesh: devices with one axis, `device_batches.DATA`, which share the flops; None: one device.
      report: is told how many flops are done.

    Returns:
      Sums over all hands of a class, and over all turns and rivers.

    Raises:
      ValueError: some hands are shown down earlier, or the second street is no flop.
    """
    game, buckets = blueprint.game, blueprint.buckets
    early = [family for families in game.rounds.streets[:-1] for family in families]
    if any((family.next_family == NO_NODE).any() for family in early):
        raise ValueError("hands must be shown down on the last street only")
    if buckets.num_cards[:2] != (0, 3):
        raise ValueError(f"boards of {buckets.num_cards} cards must begin with 0 and 3")
    boards, found = canonical_boards(3)[3].cards[flops].astype(np.int32), []
    size = 1 if mesh is None else mesh.size
    for begin in range(0, len(boards), size):
        now = boards[begin : begin + size]
        given = now[np.minimum(np.arange(size), len(now) - 1)]  # the last one again, if need be
        values = _values_of_flops(blueprint, jnp.asarray(given), player=player, mesh=mesh)
        found.append(_summed_by_class(np.asarray(values)[: len(now)]))
        if report is not None:
            report(begin + len(now))
    return np.concatenate(found)


def best_response_value(
    blueprint: Blueprint,
    values: Float[np.ndarray, "n 169 M"],
    weights: Num[np.ndarray, " n"],
    *,
    player: int,
) -> float:
    """What a player wins who responds as is best, in chips per hand.

    Args:
      blueprint: of the opponent.
      values: `flop_values` of all canonical flops, or of some, which estimate it from above.
      weights: how often these flops are dealt, as `num_deals` gives it.
      player: who responds, 0 or 1.

    Returns:
      The value of the game to the responder.
    """
    mean = np.average(values, axis=0, weights=weights)
    return float(response_values(blueprint, mean, mean[None], player=player)[0])


def response_values(
    blueprint: Blueprint,
    expected: Float[np.ndarray, "169 M"],
    values: Float[np.ndarray, "n 169 M"],
    *,
    player: int,
) -> Float[np.ndarray, " n"]:
    """What a player wins who responds as is best from the flop on, and before the flop as is best
    for expected values of flops, in chips per hand.

    With expected values from other flops this is a lower bound of what the best response wins.

    Args:
      blueprint: of the opponent.
      expected: mean of the `flop_values` that the responder's play before the flop is for.
      values: `flop_values`.
      player: who responds, 0 or 1.

    Returns:
      The value of the game to the responder by flop, if each were the only one.
    """
    size = np.bincount(class_numbers(), minlength=len(CLASSES))[:, None]
    deals = math.comb(NUM_CARDS, 3)
    by_hand = lambda x: jnp.asarray((x * deals / size)[class_numbers()], jnp.float32)  # noqa: E731
    pairs = NUM_HANDS * math.comb(NUM_CARDS - 2, 2)
    scale = pairs * _runouts(blueprint.buckets, 0)
    won = []
    for each in values:
        root = _before_flop(blueprint, (by_hand(expected), by_hand(each)), player=player)
        won.append(np.asarray(root, np.float64).sum() / scale)
    return np.array(won)


def _summed_by_class(values):
    """Sums `[n, 169, M]` of values `[n, 1326, M]` over the hands of each class."""
    order = np.argsort(class_numbers(), kind="stable")
    first = np.searchsorted(class_numbers()[order], np.arange(len(CLASSES)))
    return np.add.reduceat(np.asarray(values, np.float64)[:, order], first, axis=1)


def _runouts(tables, num_cards):
    """How many ways there are to deal the board from `num_cards` cards on: flops are sets, later
    cards come one by one."""
    left, total = NUM_CARDS - 4 - num_cards, tables.num_cards[-1] - num_cards
    if num_cards == 0 and total:
        return math.comb(left, 3) * math.perm(left - 3, total - 3)
    return math.perm(left, total)


@functools.partial(jax.jit, static_argnames="player")
def _before_flop(blueprint, below, *, player):
    """The responder's values `[1326]` at the root if flops have the second values `[1326, M]`, and
    it plays as is best for the first ones."""
    families = blueprint.game.rounds.streets[0]
    ends = [_at_ends(families, values) for values in below]
    return _best(blueprint, jnp.zeros(0, jnp.int32), ends, player=player)[:, 0]


@functools.partial(jax.jit, static_argnames=("player", "mesh"))
def _values_of_flops(blueprint, boards, *, player, mesh):
    """The responder's values `[n, 1326, M]` at the rounds of flops, one on each device."""

    def on_device(blueprint, boards):
        return _values(blueprint, boards[0], player=player)[None]

    if mesh is None:
        return on_device(blueprint, boards)
    specs = dict(in_specs=(P(), P(DATA)), out_specs=P(DATA), check_vma=False)
    return jax.shard_map(on_device, mesh=mesh, **specs)(blueprint, boards)


def _values(blueprint, board, *, player):
    """The responder's values `[1326, M]` at the rounds of the street of a board, summed over all
    ways to deal the rest."""
    num_cards = blueprint.buckets.num_cards
    street = num_cards.index(len(board))
    if street == len(num_cards) - 1:
        return _best(blueprint, board, None, player=player)
    rest = jnp.ones(NUM_CARDS, bool).at[board].set(False)
    cards = jnp.flatnonzero(rest, size=NUM_CARDS - len(board)).astype(jnp.int32)

    def add(total, card):
        more = jnp.concatenate([board, card[None]])
        return total + _values(blueprint, more, player=player), None

    streets = blueprint.game.rounds.streets
    count = sum(family.entries for family in streets[street + 1])
    below, _ = jax.lax.scan(add, jnp.zeros((NUM_HANDS, count)), cards)
    return _best(blueprint, board, [_at_ends(streets[street], below)], player=player)


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


def _best(blueprint, board, ends, *, player):
    """The responder's values `[1326, M]` at the rounds of a street.

    Args:
      blueprint: of the opponent.
      board: of this street.
      ends: values `[1326, K, M]` at the ends of rounds by family, in one version or more: actions
        are the best ones for the first, what they are worth is that of the last. None: hands are
        shown down there.
      player: the responder.
    """
    game, buckets = blueprint.game, blueprint.buckets
    street = buckets.num_cards.index(len(board))
    left = NUM_CARDS - len(board)
    deal, _ = make_deal(buckets, board, groups=left * (left - 1) // 2)
    hands = hand_numbers(deal)
    read = lambda _, table: list(table)  # noqa: E731
    reaches = reaches_at_rounds(game, blueprint.policy, deal, read=read)[street]
    # values of ends are summed over all ways to deal the rest; those of folds are the same in each
    times = _runouts(buckets, len(board))
    found = []
    for number, family in enumerate(game.rounds.streets[street]):
        below = None if ends is None else [version[number][hands] for version in ends]
        values = _best_of_family(
            family,
            blueprint.policy[street][number],
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
        at = {NODE: [None] * len(family.template.actor)}
        if below is None:
            at[END] = places(against(showdowns, END) * end_chips[None])
        else:
            at[END] = [[x[:, n] for x in below] for n in range(family.template.num_ends)]
        if played[FOLDED]:
            loses = np.array(family.template.loser) == player
            sign = jnp.asarray(np.where(loses, -times, times), jnp.float32)
            at[FOLDED] = places(against(folds, FOLDED) * (sign[:, None] * fold_chips)[None])
        # 2. At decisions from the last to the first.
        for node in reversed(range(len(family.template.actor))):
            actions = [at[e.kind][e.target] for e in family.template.actions[node]]
            join = _better if family.template.actor[node] == player else _sum
            at[NODE][node] = functools.reduce(join, actions)
        return at[NODE][0][-1]

    values = jax.lax.map(one, given)  # [N, H, E]
    return jnp.moveaxis(values, 0, 1).reshape(len(reach), -1)[:, : family.entries]


def _better(one, other):
    """All versions of the one whose first is better."""
    if len(one) == 1:
        return [jnp.maximum(one[0], other[0])]
    better = one[0] >= other[0]
    return [jnp.where(better, x, y) for x, y in zip(one, other, strict=True)]


def _sum(one, other):
    return [x + y for x, y in zip(one, other, strict=True)]
