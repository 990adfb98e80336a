"""What hands earn where the betting ends: linear in the other's reach, with card removal.

For every block of a player at most one fold and one showdown follow without another own action, and
what a hand gets there is chips times a number that depends on a block of the other's alone: how
many of its hands are met, or how many are beaten less how many are lost to. These are computed once
for each of the other's blocks that need them, all boards of a street together.
"""

from __future__ import annotations

import itertools
import math

import flax.struct
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxgames.core import record
from jaxgames.holdem.betting_tree import FOLD, SHOWDOWN
from solvers.holdem.betting_layout import Layout
from solvers.holdem.showdown_by_products import Products
from solvers.holdem.showdown_by_ranks import Ranks
from solvers.sequence_form import sparse_sum
from solvers.sequence_form.sequence_form import expand


@record
class StreetTerminals:
    """What ends on one street, and the other's blocks that it depends on.

    First come blocks of folds only, then of folds and showdowns, then of showdowns only.
    """

    operator: Products | Ranks
    possible: Array  # [B, H] 1 or 0
    rows: Array  # [C, B] int32 rows of those blocks, as the operator wants them arranged
    num_folds: int = flax.struct.field(pytree_node=False)
    num_showdowns: int = flax.struct.field(pytree_node=False)


@record
class Payoffs:
    """What a group's blocks get, or the root's: chips, times a fold's or showdown's number."""

    fold_chips: Array | None  # [K]; None: there are no folds
    fold: Array  # [K, B] int32 row among the street's [B, F]
    showdown_chips: Array | None  # [K]
    showdown: Array  # [K, B] int32 row among the street's [B, S]
    street: int = flax.struct.field(pytree_node=False)
    num_actions: int = flax.struct.field(pytree_node=False)  # of the group


@record
class Terminals:
    """The operator of a player with H hands, against another with G."""

    streets: tuple[StreetTerminals, ...]
    payoffs: tuple[Payoffs, ...]  # of the root, then group by group

    def __call__(self, reach: Float[Array, "Q G ..."]) -> tuple[Float[Array, "_ _ H ..."], ...]:
        """Counterfactual payoffs of all sequences, from the other's reach of its own.

        Of the root [1, H, ...], and by group [A_g, n_g, H, ...].
        """
        rows = reach.reshape(*reach.shape[:2], -1)
        numbers = [_numbers(street, rows) for street in self.streets]
        found = []
        for payoffs in self.payoffs:
            street = self.streets[payoffs.street]
            total = _earned(payoffs, street, *numbers[payoffs.street], rows.dtype, rows.shape[2])
            shape = payoffs.num_actions, -1, total.shape[2], *reach.shape[2:]
            found.append(total.reshape(shape))
        return (found[0][0], *found[1:])


def _numbers(street: StreetTerminals, rows):
    """Of a street's folds [B, F, H, X] and showdowns [B, S, H, X]; None where there are none."""
    if not street.rows.size:
        return None, None
    return street.operator(
        rows, street.rows, num_folds=street.num_folds, num_showdowns=street.num_showdowns
    )


def _earned(payoffs, street, folds, showdowns, dtype, width):
    """[K, B, H, X]"""
    boards, hands = street.possible.shape
    total = jnp.zeros((len(payoffs.fold), boards, hands, width), dtype)
    for chips, which, numbers in (
        (payoffs.fold_chips, payoffs.fold, folds),
        (payoffs.showdown_chips, payoffs.showdown, showdowns),
    ):
        if numbers is not None and chips is not None:
            rows = numbers.reshape(-1, *numbers.shape[2:])
            total = total + expand(chips, total) * sparse_sum.take(rows, which)
    return total * expand(street.possible[None], total)


def terminals(
    mine: Layout,
    others: Layout,
    *,
    player: int,
    operators: tuple[Products | Ranks, ...],
    dtype: str,
) -> Terminals:
    """The operator of `player`; `operators` are those of each street."""
    betting = mine.betting
    chips, other = np.zeros((2, len(mine.row))), np.full((2, len(mine.row)), -1)
    for node in np.flatnonzero((betting.actor == FOLD) | (betting.actor == SHOWDOWN)):
        kind, street = int(betting.actor[node] == SHOWDOWN), betting.street[node]
        block, theirs = mine.block[node], others.block[node]
        if other[kind, block] >= 0 or {mine.street[block], others.street[theirs]} != {street}:
            raise ValueError("an end of the betting follows no action of its street, or not alone")
        chips[kind, block] = chips_won(betting, node, player) * _chance(mine.streets, street)
        other[kind, block] = theirs
    streets, number = [], np.zeros_like(other)
    for street, operator in enumerate(operators):
        found, place = _street(mine, others, street, other, operator, dtype)
        streets.append(found)
        number = np.where(place >= 0, place, number)

    def payoffs(first, behind, num_actions):
        street = mine.street[first]
        boards = np.arange(len(mine.streets[street].boards))[None]

        def part(kind):
            here = chips[kind, first:behind]
            return jnp.asarray(here, dtype) if here.any() else None

        def rows(kind, count):
            which = number[kind, first:behind, None]
            return jnp.asarray(boards * count + np.maximum(which, 0), jnp.int32)

        return Payoffs(
            fold_chips=part(0),
            fold=rows(0, streets[street].num_folds),
            showdown_chips=part(1),
            showdown=rows(1, streets[street].num_showdowns),
            street=street,
            num_actions=num_actions,
        )

    actions = [group.num_actions for group in mine.player.groups]
    groups = [(*blocks, width) for blocks, width in zip(mine.group_blocks, actions, strict=True)]

    return Terminals(
        streets=tuple(streets),
        payoffs=tuple(itertools.starmap(payoffs, [(0, 1, 1), *groups])),
    )


def chips_won(betting, node, player):
    """What `player` wins at an end of the betting if the hand is won."""
    if betting.actor[node] == SHOWDOWN:
        return betting.pot / 2 + betting.paid[node, 0]
    winner = betting.winner[node]
    chips = betting.pot / 2 + betting.paid[node, 1 - winner]
    return chips if winner == player else -chips


def _chance(streets, street):
    """Of each board of a street, given both hands."""
    return math.prod(at.probability for at in streets[: street + 1])


def _street(mine, others, street, other, operator, dtype):
    """The ends of a street; and of the player's blocks [2, N], folds and showdowns, their places
    among what the operator finds, or -1."""
    folds, showdowns = (
        np.unique(which[(which >= 0) & (np.array(mine.street) == street)]) for which in other
    )
    both = np.intersect1d(folds, showdowns)
    ordered = np.concatenate([np.setdiff1d(folds, both), both, np.setdiff1d(showdowns, both)])
    place = np.full(len(others.row) + 1, -1)  # the last is for none
    place[ordered] = np.arange(len(ordered))
    first = len(ordered) - len(showdowns)
    here = np.array(mine.street) == street
    boards = np.arange(len(others.streets[street].boards))
    places = np.where(here, place[other], -1)
    places[1] = np.where(places[1] >= 0, places[1] - first, -1)
    rows = np.array(others.row)[ordered][:, None] + boards[None]
    found = StreetTerminals(
        operator=operator,
        possible=jnp.asarray(mine.possible[street], dtype),
        num_folds=len(folds),
        num_showdowns=len(showdowns),
        rows=jnp.asarray(operator.arranged(rows), jnp.int32),
    )
    return found, places
