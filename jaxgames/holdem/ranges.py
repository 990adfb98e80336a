"""What a player may hold, as players write it: "66+, A8s+, A5s-A2s, AJo+:0.5, AhKh".

A range is a weight for each of the 1,326 hands of two cards. Hands are numbered by their higher
card, then by their lower one: hand `h * (h - 1) / 2 + l` is cards `l < h`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float, Int

from jaxgames.holdem.cards import NUM_CARDS, RANKS, SUITS, parse_cards

NUM_HANDS = 1326
HANDS: Int[np.ndarray, "1326 2"] = np.array(
    [(low, high) for high in range(NUM_CARDS) for low in range(high)], np.int32
)
CLASSES = tuple(
    RANKS[max(i, j)] + RANKS[min(i, j)] + ("" if i == j else "s" if i > j else "o")
    for i, j in itertools.product(reversed(range(13)), repeat=2)
)  # the 13 x 13 grid, row by row: suited above the diagonal of pairs
_TWO_CARDS = re.compile(f"([{RANKS}][{SUITS}]){{2}}", re.IGNORECASE)
_CLASS = re.compile(f"([{RANKS}])([{RANKS}])([so]?)", re.IGNORECASE)


def hand_number(low: int, high: int) -> int:
    """The number of the hand of two different cards, in any order."""
    low, high = sorted((low, high))
    return high * (high - 1) // 2 + low


def hand_numbers(hands: Int[np.ndarray, "n 2"]) -> Int[np.ndarray, " n"]:
    """The numbers of hands, cards in any order."""
    high, low = hands.max(axis=1), hands.min(axis=1)
    return high * (high - 1) // 2 + low


def whole_range(
    hands: Int[np.ndarray, "n 2"], weights: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "1326"]:
    """Weights of all hands, from those of some; 0 for the others."""
    found = np.zeros(NUM_HANDS)
    found[hand_numbers(hands)] = weights
    return found


def parse_range(text: str) -> Float[np.ndarray, "1326"]:
    """Weights of all hands, from the notation of players; 0 where nothing is said.

    Between commas stand: a class ("QQ", "AKs", "AKo"; "AK" is both), two cards ("AhKh"), "random"
    for all hands; a class with all better ones of its kind ("66+"; "A8s+" up to "AKs"), or two with
    all between them ("99-66", "A5s-A2s", "T9s-54s"). ":0.5" behind gives a weight from 0 to 1,
    otherwise 1. What is said later replaces what was said before.

    Raises:
      ValueError: something is not a part of a range, and where; or no hand is left.
    """
    weights, begin = np.zeros(NUM_HANDS), 0
    for part in text.split(","):
        place, begin = begin + len(part) - len(part.lstrip()), begin + len(part) + 1
        token = part.strip()
        if not token:
            if text.strip():
                raise _error(text, place, token, "a class of hands is missing")
            continue
        hands, _, weight = token.partition(":")
        try:
            weights[_hands(hands.strip())] = _weight(weight) if ":" in token else 1
        except ValueError as error:
            raise _error(text, place, token, str(error)) from None
    if not weights.any():
        raise ValueError(f"range {text!r} has no hands")
    return weights


def without_cards(
    weights: Float[np.ndarray, "1326"], cards: tuple[int, ...]
) -> Float[np.ndarray, "1326"]:
    """A range without the hands that hold any of these cards, which lie on the board."""
    return np.where(blocked(cards), 0, weights)


def blocked(cards: tuple[int, ...]) -> Bool[np.ndarray, "1326"]:
    """Which hands hold any of these cards."""
    return np.isin(HANDS, cards).any(axis=1)


def class_numbers() -> Int[np.ndarray, "1326"]:
    """The class of every hand, as an index of `CLASSES`."""
    ranks, suits = HANDS // 4, HANDS % 4
    low, high = 12 - ranks.min(axis=1), 12 - ranks.max(axis=1)  # counted from the ace
    suited = suits[:, 0] == suits[:, 1]
    return np.where(suited, high * 13 + low, low * 13 + high)


def _error(text, place, token, reason):
    arrow = " " * place + "^" * max(len(token), 1)
    return ValueError(f"range, at {token!r}: {reason}\n  {text}\n  {arrow}")


def _weight(text):
    try:
        weight = float(text)
    except ValueError:
        raise ValueError(f"weight {text.strip()!r} is not a number") from None
    if not 0 <= weight <= 1:
        raise ValueError(f"weight {text.strip()} must be from 0 to 1")
    return weight


def _hands(text) -> Bool[np.ndarray, "1326"]:
    if text.lower() == "random":
        return np.ones(NUM_HANDS, bool)
    if _TWO_CARDS.fullmatch(text):
        first, second = parse_cards(text)
        return np.arange(NUM_HANDS) == hand_number(first, second)
    found = np.zeros(NUM_HANDS, bool)
    for high, low, kind in _classes(text):
        found |= _members(high, low, kind)
    return found


def _classes(text) -> Iterator[tuple[int, int, str]]:
    """The classes that a token without weight stands for: ranks, and "s", "o" or ""."""
    first, dash, last = (part.strip() for part in text.partition("-"))
    if dash:
        yield from _between(_class(first), _class(last))
    elif first.endswith("+"):
        high, low, kind = _class(first[:-1])
        if high == low:
            yield from ((rank, rank, kind) for rank in range(low, 13))
        else:
            yield from ((high, rank, kind) for rank in range(low, high))
    else:
        yield _class(first)


def _between(first, last):
    (high, low, kind), (other_high, other_low, other_kind) = sorted((first, last), reverse=True)
    if kind != other_kind:
        raise ValueError("both ends must be suited, offsuit, or neither")
    if (high == low) != (other_high == other_low):
        raise ValueError("a pair and two different ranks have nothing between them")
    if high == other_high:
        yield from ((high, rank, kind) for rank in range(other_low, low + 1))
    elif high - low == other_high - other_low:
        yield from ((rank, rank - (high - low), kind) for rank in range(other_high, high + 1))
    else:
        raise ValueError("both ends must share the higher rank, or have ranks equally far apart")


def _class(text):
    match = _CLASS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no class of hands, such as QQ, AKs, AKo, AK, nor two cards")
    ranks, kind = [RANKS.index(rank.upper()) for rank in match.groups()[:2]], match[3].lower()
    if ranks[0] == ranks[1] and kind:
        raise ValueError(f"{text!r}: a pair is neither suited nor offsuit")
    return max(ranks), min(ranks), kind


def _members(high, low, kind):
    ranks, suits = HANDS // 4, HANDS % 4
    alike = (ranks.max(axis=1) == high) & (ranks.min(axis=1) == low)
    suited = suits[:, 0] == suits[:, 1]
    return alike & {"": True, "s": suited, "o": ~suited}[kind]
