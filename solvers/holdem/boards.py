"""The boards that may come, up to the names of suits.

Suits that can be exchanged without anyone noticing (neither the board so far nor a range changes)
make boards that are solved once for all. What a hand is worth over all that may be dealt is then a
sum over the boards kept, each counted once for every exchange of suits that makes a different board
of it: for the hand as it is there, which is the hand with the suits exchanged here.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
from jaxtyping import Bool, Float, Int

from jaxgames.holdem.cards import SUITS

Suits = tuple[int, ...]  # what each suit becomes
_ALL_SUITS = tuple(itertools.permutations(range(len(SUITS))))
SAME = _ALL_SUITS[0]


@dataclasses.dataclass(frozen=True)
class Street:
    """B boards."""

    boards: Int[np.ndarray, "B n"]
    parent: Int[np.ndarray, " B"]  # board of the street before
    # the boards that also stand for those with suits so exchanged; `SAME`: all
    images: dict[Suits, Int[np.ndarray, " _"]]
    probability: float  # of each way to deal the cards of this street, given two hands
    alike: tuple[tuple[Suits, ...], ...]  # of each board, the exchanges that nobody would notice
    dealt: Bool[np.ndarray, " B"]  # False: only there so that parts have the same number of boards


def streets(
    board: tuple[int, ...],
    deals: tuple[int, ...],
    *,
    deck: tuple[int, ...],
    hands: Int[np.ndarray, "N k"],
    ranges: tuple[Float[np.ndarray, " N"], ...],
    isomorphism: bool = True,
) -> tuple[Street, ...]:
    """The street of a board, and those after it with so many cards dealt before each.

    `ranges` are weights of `hands`, whose suits are exchanged with the board's.
    """
    alike = tuple(
        suits
        for suits in (_ALL_SUITS if isomorphism else (SAME,))
        if set(exchanged(np.array(deck), suits).tolist()) == set(deck)
        and set(exchanged(np.array(board, int), suits).tolist()) == set(board)
        and all(np.array_equal(r, r[exchanged_hands(hands, suits)]) for r in ranges)
    )
    boards = np.array([board], np.int64).reshape(1, -1)
    first = np.zeros(1, np.int64)
    found = [Street(boards, first, {SAME: first}, 1.0, (alike,), np.ones(1, bool))]
    for count in deals:
        found.append(_next_street(found[-1], count, deck, 2 * hands.shape[1]))
    return tuple(found)


def _next_street(before: Street, count: int, deck: tuple[int, ...], num_private: int) -> Street:
    boards, parent, alike = [], [], []
    images: dict[Suits, list[int]] = {SAME: []}
    for number, board in enumerate(before.boards):
        left = [card for card in deck if card not in board]
        group = before.alike[number]
        covered: set[tuple[int, ...]] = set()
        for dealt in itertools.combinations(left, count):
            if dealt in covered:
                continue
            here, stays = len(boards), []
            for suits in group:
                image = tuple(sorted(exchanged(np.array(dealt), suits).tolist()))
                if image == dealt:
                    stays.append(suits)
                if image not in covered:
                    covered.add(image)
                    images.setdefault(suits, []).append(here)
            boards.append([*board, *dealt])
            parent.append(number)
            alike.append(tuple(stays))
    unknown = len(deck) - before.boards.shape[1] - num_private
    return Street(
        boards=np.array(boards),
        parent=np.array(parent),
        images={suits: np.array(which) for suits, which in images.items()},
        probability=1 / math.comb(unknown, count),
        alike=tuple(alike),
        dealt=np.ones(len(boards), bool),
    )


def exchanged(cards: Int[np.ndarray, "..."], suits: Suits) -> Int[np.ndarray, "..."]:
    """Cards with their suits exchanged."""
    return cards // 4 * 4 + np.array(suits)[cards % 4]


def exchanged_hands(hands: Int[np.ndarray, "H k"], suits: Suits) -> Int[np.ndarray, " H"]:
    """The number of each hand with its suits exchanged; -1 if it is not in the list."""
    found = np.sort(exchanged(hands, suits), axis=1)
    place = {tuple(hand): number for number, hand in enumerate(hands.tolist())}
    return np.array([place.get(tuple(hand), -1) for hand in found.tolist()])


def apart(first: Int[np.ndarray, "n k"], second: Int[np.ndarray, "m k"]) -> Bool[np.ndarray, "n m"]:
    """Whether hands share no card."""
    return (first[:, None, :, None] != second[None, :, None, :]).all(axis=(2, 3))


def possible(
    hands: Int[np.ndarray, "H k"], boards: Int[np.ndarray, "B n"]
) -> Bool[np.ndarray, "B H"]:
    """Whether a hand shares no card with a board."""
    shared = hands[None, :, :, None] == boards[:, None, None, :]
    return ~shared.any(axis=(2, 3))
