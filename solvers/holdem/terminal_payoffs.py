"""Payoffs where the betting ends: linear in the opponent's reach, with card removal.

After each block of a player's rows, at most one fold and one showdown follow without another action
of that player. A hand's payoff there is chips times a weight that depends on one block of the
opponent alone: the reach of the opponent's hands that share no card with it (folds), or the reach
of those that it beats less the reach of those that beat it (showdowns). These weights are computed
once for each block of the opponent that needs them, for all boards of a street together.
"""

from __future__ import annotations

import itertools
import math

import flax.struct
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxgames.arrays import append_axes, on_device
from jaxgames.core import record
from jaxgames.holdem.betting_tree import FOLD, SHOWDOWN, BettingTree
from solvers.holdem.sequence_layout import HoldemLayout
from solvers.holdem.showdown_by_products import ProductShowdowns
from solvers.holdem.showdown_by_ranks import RankShowdowns
from solvers.sequence_form import sparse_sum


@record
class StreetTerminals:
    """The ends of the betting on one street, and the opponent's C blocks that they depend on.

    Blocks with folds only come first, then those with folds and showdowns, then those with
    showdowns only: F blocks with folds and S with showdowns in all.
    """

    operator: ProductShowdowns | RankShowdowns
    possible: Array  # [B, H] 1 or 0
    rows: Array  # [C, B] int32 rows of those blocks, as arranged by the operator
    num_folds: int = flax.struct.field(pytree_node=False)  # F
    num_showdowns: int = flax.struct.field(pytree_node=False)  # S


@record
class BlockPayoffs:
    """The payoffs of a group's K blocks, or of the root's: chips times the operator's weights."""

    fold_chips: Array | None  # [K]; None: no folds
    fold: Array  # [K, B] int32 row among the street's [B, F]
    showdown_chips: Array | None  # [K]; None: no showdowns
    showdown: Array  # [K, B] int32 row among the street's [B, S]
    street: int = flax.struct.field(pytree_node=False)
    num_actions: int = flax.struct.field(pytree_node=False)  # of the group


@record
class HoldemTerminals:
    """The terminal payoffs of a player with H hands against an opponent with G hands; see
    `solvers.sequence_form.Terminals`."""

    streets: tuple[StreetTerminals, ...]
    payoffs: tuple[BlockPayoffs, ...]  # of the root, then group by group

    def __call__(self, reach: Float[Array, "Q G ..."]) -> tuple[Float[Array, "_ _ H ..."], ...]:
        """Counterfactual payoffs of the ends right below each of the player's sequences.

        Args:
          reach: the opponent's own reach of its rows.

        Returns:
          Those of the root `[1, H, ...]`, then those of each group `[A_g, n_g, H, ...]`.
        """
        rows = reach.reshape(*reach.shape[:2], -1)
        weights = [_weights(street, rows) for street in self.streets]
        groups = []
        for payoffs in self.payoffs:
            street = self.streets[payoffs.street]
            total = _chips(payoffs, street, *weights[payoffs.street], rows.dtype, rows.shape[2])
            shape = payoffs.num_actions, -1, total.shape[2], *reach.shape[2:]
            groups.append(total.reshape(shape))
        return (groups[0][0], *groups[1:])


def _weights(street: StreetTerminals, rows):
    """The weights of a street's folds `[B, F, H, X]` and showdowns `[B, S, H, X]`, or None."""
    if not street.rows.size:
        return None, None
    return street.operator(
        rows, street.rows, num_folds=street.num_folds, num_showdowns=street.num_showdowns
    )


def _chips(payoffs, street, folds, showdowns, dtype, width):
    """The payoffs of a group's blocks, `[K, B, H, X]`, from the weights of its street."""
    boards, hands = street.possible.shape
    total = jnp.zeros((len(payoffs.fold), boards, hands, width), dtype)
    for chips, which, weights in (
        (payoffs.fold_chips, payoffs.fold, folds),
        (payoffs.showdown_chips, payoffs.showdown, showdowns),
    ):
        if weights is not None and chips is not None:
            rows = weights.reshape(-1, *weights.shape[2:])
            total = total + append_axes(chips, total) * sparse_sum.take(rows, which)
    return total * append_axes(street.possible[None], total)


def holdem_terminals(
    mine: HoldemLayout,
    others: HoldemLayout,
    *,
    player: int,
    operators: tuple[ProductShowdowns | RankShowdowns, ...],
    dtype: str,
) -> HoldemTerminals:
    """Builds the operator of one player's terminal payoffs.

    Args:
      mine: the player's layout.
      others: the opponent's layout.
      player: 0 or 1.
      operators: of the player's folds and showdowns, by street.
      dtype: of payoffs.

    Raises:
      ValueError: an end of the betting does not follow an action of its own street, or one action
        leads to two folds or two showdowns.
    """
    chips, other = _ends_by_block(mine, others, player)
    # each street's blocks of the opponent, and where the operator's results for them are
    streets, place = [], np.zeros_like(other)
    for street, operator in enumerate(operators):
        of_street, places = _street_terminals(mine, others, street, other, operator, dtype)
        streets.append(of_street)
        place = np.where(places >= 0, places, place)

    def payoffs(first, behind, num_actions):
        """The payoffs of the player's blocks from `first` to `behind`."""
        street = mine.street[first]
        boards = np.arange(len(mine.streets[street].boards))[None]

        def chips_of(kind):
            of_blocks = chips[kind, first:behind]
            return on_device(of_blocks, dtype) if of_blocks.any() else None

        def rows_of(kind, count):
            which = place[kind, first:behind, None]
            return on_device(boards * count + np.maximum(which, 0), np.int32)

        return BlockPayoffs(
            fold_chips=chips_of(0),
            fold=rows_of(0, streets[street].num_folds),
            showdown_chips=chips_of(1),
            showdown=rows_of(1, streets[street].num_showdowns),
            street=street,
            num_actions=num_actions,
        )

    actions = [group.num_actions for group in mine.treeplex.groups]
    groups = [(*blocks, width) for blocks, width in zip(mine.group_blocks, actions, strict=True)]
    return HoldemTerminals(
        streets=tuple(streets),
        payoffs=tuple(itertools.starmap(payoffs, [(0, 1, 1), *groups])),
    )


def _ends_by_block(mine, others, player):
    """For folds and showdowns, and each block of the player: the chips that are won times chance's
    probability of a board, `[2, N]`, and the opponent's block (or -1), `[2, N]`."""
    betting = mine.betting
    chips, other = np.zeros((2, len(mine.row))), np.full((2, len(mine.row)), -1)
    ends = np.flatnonzero((betting.actor == FOLD) | (betting.actor == SHOWDOWN))
    for node in ends.tolist():
        kind, street = int(betting.actor[node] == SHOWDOWN), betting.street[node]
        block, theirs = mine.block[node], others.block[node]
        if other[kind, block] >= 0 or {mine.street[block], others.street[theirs]} != {street}:
            raise ValueError(
                f"node={node}: an end of the betting must follow an action of its own street, which"
                " leads to at most one fold and one showdown"
            )
        chips[kind, block] = chips_won(betting, node, player) * _chance(mine.streets, street)
        other[kind, block] = theirs
    return chips, other


def chips_won(betting: BettingTree, node: int, player: int) -> float:
    """The chips that `player` wins at a fold, or at a showdown that it wins; half of the pot at the
    root counts as paid by each player."""
    if betting.actor[node] == SHOWDOWN:
        return betting.pot / 2 + betting.paid[node, 0]
    winner = betting.winner[node]
    chips = betting.pot / 2 + betting.paid[node, 1 - winner]
    return chips if winner == player else -chips


def _chance(streets, street):
    """Chance's probability of each board of a street, given both hands."""
    return math.prod(at.probability for at in streets[: street + 1])


def _street_terminals(mine, others, street, other, operator, dtype):
    """The ends on a street.

    Args:
      mine: the player's layout.
      others: the opponent's layout.
      street: the street.
      other: `[2, N]` the opponent's block for each of the player's, as in `_ends_by_block`.
      operator: of the street.
      dtype: of payoffs.

    Returns:
      The ends; and for folds and showdowns, the place of each of the player's blocks among the
      operator's results, or -1, `[2, N]`.
    """
    folds, showdowns = (
        np.unique(which[(which >= 0) & (np.array(mine.street) == street)]) for which in other
    )
    both = np.intersect1d(folds, showdowns)
    ordered = np.concatenate([np.setdiff1d(folds, both), both, np.setdiff1d(showdowns, both)])
    place = np.full(len(others.row) + 1, -1)  # the last entry is for block -1
    place[ordered] = np.arange(len(ordered))
    first_showdown = len(ordered) - len(showdowns)
    on_street = np.array(mine.street) == street
    boards = np.arange(len(others.streets[street].boards))
    places = np.where(on_street, place[other], -1)
    places[1] = np.where(places[1] >= 0, places[1] - first_showdown, -1)
    rows = np.array(others.row)[ordered][:, None] + boards[None]
    of_street = StreetTerminals(
        operator=operator,
        possible=on_device(mine.possible[street], dtype),
        num_folds=len(folds),
        num_showdowns=len(showdowns),
        rows=on_device(operator.arranged(rows), np.int32),
    )
    return of_street, places
