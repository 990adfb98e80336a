"""Which hands are met, and which are beaten at showdown, by products of matrices.

What accelerators do fastest; `ranks` is the same with far less arithmetic. Cards that both players
would hold are taken out.
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

from jaxgames.core import record
from jaxgames.holdem.cards import NUM_CARDS
from jaxgames.holdem.hand_evaluator import strength_of_sets, suit_sets
from solvers.sequence_form import sparse_sum

_BATCH = 64  # boards of which one kernel adds up the winners


@record
class Products:
    """Sums over the other's G hands for each of H hands, board by board."""

    holds: Array  # [G, 52] 1 where a hand of the other's has a card
    apart: Array  # [52, H] how often hands with a card are met: summed over cards, all that are
    same: Array | None  # [H] the other's hand that is the same; G: none; None: all are
    matrix: Array | None  # [B, G, H] 1 where H wins, -1 where G does; None: no showdowns
    num_cards: int = flax.struct.field(pytree_node=False)  # of a hand

    def arranged(self, rows: Int[np.ndarray, "C B"]) -> Int[np.ndarray, "C B"]:
        """Rows of blocks, as they are to be given."""
        return rows

    def __call__(
        self,
        reach: Float[Array, "R G X"],
        rows: Int[Array, "C B"],
        *,
        num_folds: int,
        num_showdowns: int,
    ) -> tuple[Array, Array | None]:
        """Hands met by the first C blocks `[B, F, H, X]`; hands beaten less those lost to, by the
        last ones `[B, S, H, X]`."""
        # looked up flat: with a short last axis the compiler would give them another layout
        found = sparse_sum.take(reach.reshape(len(reach), -1), rows)
        reach = found.reshape(*rows.shape, *reach.shape[1:])
        won, first = None, len(reach) - num_showdowns
        if num_showdowns:
            # the matrix first: in the other order it would be transposed each time
            won = jnp.einsum("bgh,cbgx->bchx", self.matrix, reach[first:], precision="highest")
        reach = reach[:num_folds]
        by_card = jnp.einsum("gk,cbgx->cbkx", self.holds, reach, precision="highest")
        met = jnp.einsum("kh,cbkx->bchx", self.apart, by_card, precision="highest")
        if self.num_cards == 2:  # the same hand shares both cards: it was taken out twice
            met = met + same_hand(jnp.swapaxes(reach, 0, 1), self.same, axis=2)
        return met, won


def same_hand(reach: Array, same: Array | None, *, axis: int) -> Array:
    """The other's reach with the hand that each hand is itself."""
    if same is None:
        return reach
    return jnp.take(reach, same, axis=axis, mode="fill", fill_value=0)


def products(
    hands: Int[np.ndarray, "H k"],
    others: Int[np.ndarray, "G k"],
    matrix: Float[Array, "B G H"] | None,
    *,
    dtype: str,
) -> Products:
    """The operator of a street."""
    cards = np.arange(NUM_CARDS)
    holds, mine = ((h[:, :, None] == cards).any(axis=1) for h in (others, hands))
    return Products(
        holds=jnp.asarray(holds, dtype),
        apart=jnp.asarray(1 / hands.shape[1] - mine.T, dtype),
        same=same_hands(hands, others),
        matrix=matrix,
        num_cards=hands.shape[1],
    )


def same_hands(hands: Int[np.ndarray, "H k"], others: Int[np.ndarray, "G k"]) -> Array | None:
    """The other's hand that is the same as each; G if there is none; None if the lists are."""
    if np.array_equal(hands, others):
        return None
    number = {tuple(hand): place for place, hand in enumerate(others.tolist())}
    return jnp.array([number.get(tuple(hand), len(others)) for hand in hands.tolist()], jnp.int32)


@functools.partial(jax.jit, static_argnames="dtype")
def winners(
    hands: Int[Array, "H k"],
    others: Int[Array, "G k"],
    boards: Int[Array, "B n"],
    *,
    dtype: str,
) -> Float[Array, "B G H"]:
    """1 where H wins, -1 where G does, 0 at ties, and where cards are there twice."""
    apart = (hands[None, :, :, None] != others[:, None, None, :]).all(axis=(2, 3))

    def one(board):
        mine, theirs = strengths(hands, board), strengths(others, board)
        possible = _possible(others, board)[:, None] & _possible(hands, board)[None] & apart
        return jnp.where(possible, jnp.sign(mine[None] - theirs[:, None]), 0).astype(dtype)

    return jax.lax.map(one, boards, batch_size=_BATCH)


def expected_winners(
    hands: Int[np.ndarray, "H k"],
    others: Int[np.ndarray, "G k"],
    boards: Int[np.ndarray, "B n"],
    *,
    deck: tuple[int, ...],
    deals: tuple[int, ...],
    dtype: str,
) -> Float[Array, "B G H"]:
    """The same on average over the cards to come, street by street, given both hands."""
    hands, others = jnp.asarray(hands, jnp.int32), jnp.asarray(others, jnp.int32)
    if not deals:
        return winners(hands, others, jnp.asarray(boards, jnp.int32), dtype=dtype)
    left = len(deck) - boards.shape[1] - 2 * hands.shape[1]
    ways = math.comb(left, sum(deals))
    found = []
    for board in boards:
        free = [card for card in deck if card not in board]
        whole = np.array([[*board, *more] for more in itertools.combinations(free, sum(deals))])
        more = -len(whole) % _BATCH  # boards that share cards with themselves are nobody's win
        whole = np.concatenate([whole, np.broadcast_to(whole[:1], (more, whole.shape[1]))])
        counts = np.arange(len(whole)) < len(whole) - more
        total = _summed(hands, others, jnp.asarray(whole, jnp.int32), jnp.asarray(counts), dtype)
        found.append(total / ways)
    return jnp.stack(found)


@functools.partial(jax.jit, static_argnums=4)
def _summed(hands, others, boards, counts, dtype):
    """Winners, added up over the boards that count."""

    def add(total, some):
        boards, counts = some
        found = winners(hands, others, boards, dtype=dtype)
        return total + jnp.einsum("b,bgh->gh", counts.astype(dtype), found), None

    shape = (len(others), len(hands))
    batches = boards.reshape(-1, _BATCH, boards.shape[1]), counts.reshape(-1, _BATCH)
    return jax.lax.scan(add, jnp.zeros(shape, dtype), batches)[0]


def strengths(hands: Int[Array, "H k"], board: Int[Array, " n"]) -> Int[Array, " H"]:
    """Of all hands on a board; of no meaning for those that share a card with it."""
    sets = suit_sets(hands) | suit_sets(board)[:, None]
    return strength_of_sets(sets, num_cards=hands.shape[1] + len(board)).astype(jnp.int32)


def _possible(hands, board):
    return (hands[:, :, None] != board[None, None, :]).all(axis=(1, 2))
