"""Subgames of hold'em before their trees are built: boards, hands, and an estimate of memory."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float, Int

from jaxgames.game_tree import TreeTooLargeError
from jaxgames.holdem.betting_tree import NO_NODE, BettingTree
from jaxgames.holdem.cards import NUM_CARDS
from solvers.device_batches import device_bytes
from solvers.holdem.street_boards import (
    StreetBoards,
    disjoint_hands,
    enumerate_streets,
    unblocked_hands,
)
from solvers.sequence_form.sequence_form import checked_dtype

DECK = tuple(range(NUM_CARDS))
_DEALS = {3: (1, 1), 4: (1,), 5: ()}  # cards of each later street, by those on the board
# how many arrays of the size of all sequences exist at once
_STATE_ARRAYS = 4  # that a solve keeps between iterations, in the precision of its storage
_WORK_ARRAYS = 21  # besides, while it solves and while the solution is measured


@dataclasses.dataclass(frozen=True, kw_only=True)
class SubgameSpec:
    """A subgame whose tree is not built yet; fields as in `HoldemTree`."""

    betting: BettingTree
    streets: tuple[StreetBoards, ...]
    board: tuple[int, ...]
    deck: tuple[int, ...]
    deals: tuple[int, ...]
    isomorphism: bool
    dtype: str
    all_hands: Int[np.ndarray, "N k"]
    hands: tuple[Int[np.ndarray, "_ k"], Int[np.ndarray, "_ k"]]
    ranges: tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]]


def ranges_of_all_hands(
    all_hands: Int[np.ndarray, "N k"],
    hands: tuple[Int[np.ndarray, "_ k"], Int[np.ndarray, "_ k"]],
    ranges: tuple[Float[np.ndarray, " _"], Float[np.ndarray, " _"]],
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """Both players' weights of all hands, by those of the hands that they may hold; 0 of others."""
    first, second = (
        (all_hands[:, None] == own[None]).all(axis=2) @ weights
        for own, weights in zip(hands, ranges, strict=True)
    )
    return first, second


def deals_after(board: tuple[int, ...]) -> tuple[int, ...]:
    """How many cards are dealt before each street after this board.

    Raises:
      ValueError: the board does not have three to five different cards.
    """
    if len(set(board)) != len(board) or len(board) not in _DEALS:
        raise ValueError(f"board={board} must have 3 to 5 different cards")
    return _DEALS[len(board)]


def subgame_spec(
    board: tuple[int, ...],
    hands: Int[np.ndarray, "N k"],
    ranges: tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]],
    betting: BettingTree,
    *,
    deals: tuple[int, ...],
    deck: tuple[int, ...],
    dtype: str,
    isomorphism: bool,
) -> SubgameSpec:
    """Enumerates the boards that may come, and the hands that either player may hold.

    The arguments are those of `build_holdem_tree`.

    Raises:
      ValueError: a range is empty on the board, or has a weight that is negative or not finite; no
        hand of one goes with a hand of the other; a card of the board is not in the deck; the
        number of streets with betting is not one more than the number of deals; or `dtype` is none
        of a sequence form.
    """
    checked_dtype(dtype)
    if betting.num_streets != 1 + len(deals):
        raise ValueError(
            f"the betting tree has {betting.num_streets} streets; from a board of {len(board)}"
            f" cards there are {1 + len(deals)}"
        )
    deck = tuple(sorted(deck))
    if not set(board) <= set(deck):
        raise ValueError(f"board={board} must be of cards of the deck, {deck}")
    possible = unblocked_hands(hands, np.array(board, int).reshape(1, -1))[0]
    # in the precision of the tree, by which weights are equal, or 0
    ranges = tuple(np.where(possible, weights, 0).astype(dtype) for weights in ranges)
    for player, weights in enumerate(ranges):
        if not (np.isfinite(weights) & (weights >= 0)).all():
            raise ValueError(f"weights of player {player}'s range must be finite and at least 0")
        if not weights.any():
            raise ValueError(f"player {player}'s range is empty on this board")
    if not disjoint_hands(*(hands[weights > 0] for weights in ranges)).any():
        raise ValueError("every hand of player 0's range shares a card with each of player 1's")
    streets = enumerate_streets(
        board,
        deals,
        deck=deck,
        hands=hands[possible],
        ranges=tuple(weights[possible] for weights in ranges),
        isomorphism=isomorphism,
    )
    return SubgameSpec(
        betting=betting,
        streets=streets,
        board=tuple(board),
        deck=deck,
        deals=deals,
        isomorphism=isomorphism,
        dtype=dtype,
        all_hands=hands,
        hands=tuple(hands[weights > 0] for weights in ranges),
        ranges=tuple(weights[weights > 0] for weights in ranges),
    )


def estimated_bytes(
    betting: BettingTree,
    streets: tuple[StreetBoards, ...],
    num_hands: tuple[int, int],
    *,
    dtype: str = "float32",
    showdowns: str = "ranks",
    storage: str = "full",
) -> int:
    """Estimates the memory that it takes to solve a subgame and to measure the solution.

    Args:
      betting: the betting tree.
      streets: the boards of each street.
      num_hands: how many hands either player may hold.
      dtype: of payoffs.
      showdowns: "ranks" or "products".
      storage: of the solver's state, as in `cfr.init`.

    Returns:
      A number of bytes.
    """
    size, total = np.dtype(dtype).itemsize, 0
    kept = size if storage == "full" else np.dtype(storage).itemsize
    per_sequence = _WORK_ARRAYS * size + _STATE_ARRAYS * kept
    for street, at in enumerate(streets):
        for player in range(2):
            nodes = (betting.actor == player) & (betting.street == street)
            blocks = int((betting.child[nodes] != NO_NODE).sum())
            total += blocks * len(at.boards) * num_hands[player] * per_sequence
        if showdowns == "products" or street < len(streets) - 1:
            total += 2 * len(at.boards) * num_hands[0] * num_hands[1] * size
    return total


def check_size(spec: SubgameSpec, *, showdowns: str, storage: str, max_bytes: int | None) -> None:
    """Refuses a subgame that takes more than `max_bytes` (None: the memory of the device).

    Raises:
      TreeTooLargeError: with an estimate of the memory that it takes.
    """
    betting, streets, hands = spec.betting, spec.streets, spec.hands
    needed = estimated_bytes(
        betting,
        streets,
        tuple(map(len, hands)),
        dtype=spec.dtype,
        showdowns=showdowns,
        storage=storage,
    )
    allowed = device_bytes() if max_bytes is None else max_bytes
    if needed > allowed:
        boards = "/".join(f"{len(at.boards):,}" for at in streets)
        raise TreeTooLargeError(
            f"this subgame needs about {needed / 1e9:.2g} GB, more than {allowed / 1e9:.2g} GB:"
            f" {len(betting.actor):,} betting nodes, {boards} boards by street,"
            f" {len(hands[0]):,} and {len(hands[1]):,} hands; fewer bet sizes or hands make it"
            " smaller"
        )
