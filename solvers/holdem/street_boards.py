"""The boards of each street, one for each class of boards under suit symmetries.

A permutation of suits is a symmetry if it leaves the board so far and both ranges unchanged. Boards
that a symmetry maps to each other are solved once. The value of a hand over all boards that may be
dealt is then a sum over the boards kept. A board counts once for every symmetry that maps it to a
different board: there the hand has the value of its image under the symmetry.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
from jaxtyping import Bool, Float, Int

from jaxgames.holdem.cards import SUITS

SuitPermutation = tuple[int, ...]  # suit s becomes suit [s]
_PERMUTATIONS = tuple(itertools.permutations(range(len(SUITS))))
IDENTITY = _PERMUTATIONS[0]


@dataclasses.dataclass(frozen=True)
class StreetBoards:
    """The B boards of a street that are kept, each with n cards."""

    boards: Int[np.ndarray, "B n"]
    parent: Int[np.ndarray, " B"]  # board of the street before
    # by symmetry, the boards that also stand for their image under it; `IDENTITY`: all boards
    images: dict[SuitPermutation, Int[np.ndarray, " _"]]
    probability: float  # of each way to deal the cards of this street, given two hands
    symmetries: tuple[tuple[SuitPermutation, ...], ...]  # of each board and both ranges
    dealt: Bool[np.ndarray, " B"]  # False for padding, which is never dealt (see `board_sharding`)


def enumerate_streets(
    board: tuple[int, ...],
    deals: tuple[int, ...],
    *,
    deck: tuple[int, ...],
    hands: Int[np.ndarray, "N k"],
    ranges: tuple[Float[np.ndarray, " N"], ...],
    isomorphism: bool = True,
) -> tuple[StreetBoards, ...]:
    """The boards of the present street and of all later ones.

    Args:
      board: the cards on the board now.
      deals: how many cards are dealt before each later street.
      deck: all cards of the game.
      hands: the N hands of k cards that players may hold.
      ranges: weights of these hands, by player.
      isomorphism: whether boards that are the same under a symmetry are merged.

    Returns:
      One record for each street, the first with the one board `board`.
    """
    symmetries = tuple(
        suits
        for suits in (_PERMUTATIONS if isomorphism else (IDENTITY,))
        if set(permute_suits(np.array(deck), suits).tolist()) == set(deck)
        and set(permute_suits(np.array(board, int), suits).tolist()) == set(board)
        and all(np.array_equal(r, r[permuted_hands(hands, suits)]) for r in ranges)
    )
    boards = np.array([board], np.int64).reshape(1, -1)
    first = np.zeros(1, np.int64)
    streets = [StreetBoards(boards, first, {IDENTITY: first}, 1.0, (symmetries,), np.ones(1, bool))]
    for count in deals:
        streets.append(_next_street(streets[-1], count, deck, 2 * hands.shape[1]))
    return tuple(streets)


def _next_street(
    before: StreetBoards, count: int, deck: tuple[int, ...], num_private: int
) -> StreetBoards:
    """The boards after `count` more cards; `num_private` are the cards that both players hold."""
    boards, parent, symmetries = [], [], []
    images: dict[SuitPermutation, list[int]] = {IDENTITY: []}
    for number, board in enumerate(before.boards):
        remaining = [card for card in deck if card not in board]
        covered: set[tuple[int, ...]] = set()
        for dealt in itertools.combinations(remaining, count):
            if dealt in covered:
                continue
            # a new board, which stands for its images under the symmetries of the board before
            kept, stabilizer = len(boards), []
            for suits in before.symmetries[number]:
                image = tuple(sorted(permute_suits(np.array(dealt), suits).tolist()))
                if image == dealt:
                    stabilizer.append(suits)
                if image not in covered:
                    covered.add(image)
                    images.setdefault(suits, []).append(kept)
            boards.append([*board, *dealt])
            parent.append(number)
            symmetries.append(tuple(stabilizer))
    unknown = len(deck) - before.boards.shape[1] - num_private
    return StreetBoards(
        boards=np.array(boards),
        parent=np.array(parent),
        images={suits: np.array(which) for suits, which in images.items()},
        probability=1 / math.comb(unknown, count),
        symmetries=tuple(symmetries),
        dealt=np.ones(len(boards), bool),
    )


def permute_suits(cards: Int[np.ndarray, "..."], suits: SuitPermutation) -> Int[np.ndarray, "..."]:
    """Cards `[...]` after a permutation of suits."""
    return cards // 4 * 4 + np.array(suits)[cards % 4]


def permuted_hands(hands: Int[np.ndarray, "H k"], suits: SuitPermutation) -> Int[np.ndarray, " H"]:
    """The number, in the same list, of each hand after a permutation of suits; -1 if the list does
    not have it."""
    images = np.sort(permute_suits(hands, suits), axis=1)
    number = {tuple(hand): place for place, hand in enumerate(hands.tolist())}
    return np.array([number.get(tuple(hand), -1) for hand in images.tolist()])


def disjoint_hands(
    first: Int[np.ndarray, "n k"], second: Int[np.ndarray, "m k"]
) -> Bool[np.ndarray, "n m"]:
    """Whether each hand of one list shares no card with each hand of another."""
    return (first[:, None, :, None] != second[None, :, None, :]).all(axis=(2, 3))


def unblocked_hands(
    hands: Int[np.ndarray, "H k"], boards: Int[np.ndarray, "B n"]
) -> Bool[np.ndarray, "B H"]:
    """Whether each hand shares no card with each board."""
    shared = hands[None, :, :, None] == boards[:, None, None, :]
    return ~shared.any(axis=(2, 3))
