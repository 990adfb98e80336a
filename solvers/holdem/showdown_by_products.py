"""Folds and showdowns by products of matrices, with card removal.

This is the fastest way on accelerators; `showdown_by_ranks` computes the same with far less
arithmetic.
"""

from __future__ import annotations

import functools
import itertools
import math

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.arrays import on_device
from jaxgames.core import record
from jaxgames.holdem.cards import NUM_CARDS
from jaxgames.holdem.hand_evaluator import strength_of_sets, suit_sets
from solvers.sequence_form import sparse_sum

_BATCH = 64  # boards of which one kernel adds up the winners


@record
class ProductShowdowns:
    """Sums over the opponent's G hands for each of H hands, board by board."""

    holds: Array  # [G, 52] 1 where a hand of the opponent has a card
    disjoint: Array  # [52, H] 1/k - [the hand has the card], for hands of k cards
    same: Array | None  # [H] the opponent's hand that is the same; G: none; None: all are
    matrix: Array | None  # [B, G, H] 1 where H wins, -1 where G does; None: no showdowns
    num_cards: int = flax.struct.field(pytree_node=False)  # of a hand

    def arranged(self, rows: Int[np.ndarray, "C B"]) -> Int[np.ndarray, "C B"]:
        """The opponent's rows of C blocks on B boards, in the form that `__call__` takes."""
        return rows

    def __call__(
        self,
        reach: Float[Array, "R G X"],
        rows: Int[Array, "C B"],
        *,
        num_folds: int,
        num_showdowns: int,
    ) -> tuple[Array, Array | None]:
        """The weights of folds and showdowns.

        Args:
          reach: the opponent's own reach of its R rows.
          rows: the opponent's C blocks, those with folds first and those with showdowns last.
          num_folds: F, how many of the first blocks have folds.
          num_showdowns: S, how many of the last blocks have showdowns.

        Returns:
          For each hand the reach of the hands that share no card with it, `[B, F, H, X]`; and the
          reach of those that it beats less that of those that beat it, `[B, S, H, X]`, or None.
        """
        # looked up flat: with a short last axis the compiler would choose another layout
        taken = sparse_sum.take(reach.reshape(len(reach), -1), rows)
        reach = taken.reshape(*rows.shape, *reach.shape[1:])
        won, first = None, len(reach) - num_showdowns
        if num_showdowns:
            # the matrix first: in the other order it would be transposed each time
            won = jnp.einsum("bgh,cbgx->bchx", self.matrix, reach[first:], precision="highest")
        reach = reach[:num_folds]
        by_card = jnp.einsum("gk,cbgx->cbkx", self.holds, reach, precision="highest")
        met = jnp.einsum("kh,cbkx->bchx", self.disjoint, by_card, precision="highest")
        if self.num_cards == 2:  # the same hand shares both cards: it was subtracted twice
            met = met + same_hand(jnp.swapaxes(reach, 0, 1), self.same, axis=2)
        return met, won


def same_hand(reach: Array, same: Array | None, *, axis: int) -> Array:
    """The opponent's reach with the same hand as each hand, along `axis`; 0 where it has none."""
    if same is None:
        return reach
    return jnp.take(reach, same, axis=axis, mode="fill", fill_value=0)


def product_showdowns(
    hands: Int[np.ndarray, "H k"],
    others: Int[np.ndarray, "G k"],
    matrix: Float[Array, "B G H"] | None,
    *,
    dtype: str,
) -> ProductShowdowns:
    """Builds the operator of a street.

    Args:
      hands: the player's hands of k cards.
      others: the opponent's hands.
      matrix: 1 where the player's hand wins, -1 where the opponent's does, or the mean of this over
        the cards to come; None if the street has no showdowns.
      dtype: of reaches and payoffs.
    """
    cards = np.arange(NUM_CARDS)
    holds, mine = ((h[:, :, None] == cards).any(axis=1) for h in (others, hands))
    return ProductShowdowns(
        holds=on_device(holds, dtype),
        disjoint=on_device(1 / hands.shape[1] - mine.T, dtype),
        same=same_hands(hands, others),
        matrix=matrix,
        num_cards=hands.shape[1],
    )


def same_hands(hands: Int[np.ndarray, "H k"], others: Int[np.ndarray, "G k"]) -> Array | None:
    """For each hand the opponent's hand that is the same, or G if it has none; None if both lists
    are the same."""
    if np.array_equal(hands, others):
        return None
    number = {tuple(hand): place for place, hand in enumerate(others.tolist())}
    same = [number.get(tuple(hand), len(others)) for hand in hands.tolist()]
    return on_device(np.array(same), np.int32)


@functools.partial(jax.jit, static_argnames="dtype")
def winners(
    hands: Int[Array, "H k"],
    others: Int[Array, "G k"],
    boards: Int[Array, "B n"],
    *,
    dtype: str,
) -> Float[Array, "B G H"]:
    """Who wins at showdown on complete boards.

    Args:
      hands: H hands.
      others: the opponent's G hands.
      boards: B boards.
      dtype: of the result.

    Returns:
      1 where the hand of `hands` wins, -1 where that of `others` does; 0 at ties, and where a card
      would be held twice.
    """
    disjoint = (hands[None, :, :, None] != others[:, None, None, :]).all(axis=(2, 3))

    def on_board(board):
        mine, theirs = strengths(hands, board), strengths(others, board)
        possible = _unblocked(others, board)[:, None] & _unblocked(hands, board)[None] & disjoint
        return jnp.where(possible, jnp.sign(mine[None] - theirs[:, None]), 0).astype(dtype)

    return jax.lax.map(on_board, boards, batch_size=_BATCH)


def expected_winners(
    hands: Int[np.ndarray, "H k"],
    others: Int[np.ndarray, "G k"],
    boards: Int[np.ndarray, "B n"],
    *,
    deck: tuple[int, ...],
    deals: tuple[int, ...],
    dtype: str,
) -> Float[Array, "B G H"]:
    """`winners` on average over the cards to come, given both hands.

    Args:
      hands: H hands.
      others: the opponent's G hands.
      boards: B boards, which need not be complete.
      deck: all cards of the game.
      deals: how many cards are dealt before each later street.
      dtype: of the result.
    """
    hands, others = on_device(hands, np.int32), on_device(others, np.int32)
    if not deals:
        return winners(hands, others, on_device(boards, np.int32), dtype=dtype)
    unknown = len(deck) - boards.shape[1] - 2 * hands.shape[1]
    ways = math.comb(unknown, sum(deals))
    by_board = []
    for board in boards:
        free = [card for card in deck if card not in board]
        whole = np.array([[*board, *more] for more in itertools.combinations(free, sum(deals))])
        padding = -len(whole) % _BATCH
        whole = np.concatenate([whole, np.broadcast_to(whole[:1], (padding, whole.shape[1]))])
        valid = np.arange(len(whole)) < len(whole) - padding
        total = _summed(hands, others, on_device(whole, np.int32), on_device(valid), dtype)
        by_board.append(total / ways)
    return jnp.stack(by_board)


@functools.partial(jax.jit, static_argnums=4)
def _summed(hands, others, boards, valid, dtype):
    """`winners`, summed over the valid boards: `[G, H]`."""

    def add(total, batch):
        boards, valid = batch
        won = winners(hands, others, boards, dtype=dtype)
        return total + jnp.einsum("b,bgh->gh", valid.astype(dtype), won), None

    shape = (len(others), len(hands))
    batches = boards.reshape(-1, _BATCH, boards.shape[1]), valid.reshape(-1, _BATCH)
    return jax.lax.scan(add, jnp.zeros(shape, dtype), batches)[0]


def strengths(hands: Int[Array, "H k"], board: Int[Array, " n"]) -> Int[Array, " H"]:
    """Strengths of hands on a board; unspecified for hands that share a card with it."""
    sets = suit_sets(hands) | suit_sets(board)[:, None]
    return strength_of_sets(sets, num_cards=hands.shape[1] + len(board)).astype(jnp.int32)


def _unblocked(hands, board):
    """Whether each hand shares no card with a board."""
    return (hands[:, :, None] != board[None, None, :]).all(axis=(1, 2))
