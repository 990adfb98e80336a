"""Ranges in the notation of players, such as "66+, A8s+, A5s-A2s, AJo+:0.5, AhKh".

A range is a weight for each of the 1,326 hands of two cards. Hands are numbered by their higher
card, then by their lower one: hand `h * (h - 1) / 2 + l` is the cards `l < h`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import numpy as np
from jaxtyping import Array, Bool, Float, Int

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


def ordered_hand_number(
    low: int | Int[np.ndarray | Array, "..."], high: int | Int[np.ndarray | Array, "..."]
) -> int | Int[np.ndarray | Array, "..."]:
    """The numbers of hands by their lower and their higher cards."""
    return high * (high - 1) // 2 + low


def hand_number(low: int, high: int) -> int:
    """The number of the hand of two different cards, which may be in any order."""
    return ordered_hand_number(*sorted((low, high)))


def hand_numbers(hands: Int[np.ndarray, "n 2"]) -> Int[np.ndarray, " n"]:
    """The numbers of hands `[n, 2]`, whose cards may be in any order."""
    return ordered_hand_number(hands.min(axis=1), hands.max(axis=1))


def whole_range(
    hands: Int[np.ndarray, "n 2"], weights: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "1326"]:
    """The range that has these weights for these hands `[n, 2]`, and 0 for all others."""
    result = np.zeros(NUM_HANDS)
    result[hand_numbers(hands)] = weights
    return result


def parse_range(text: str) -> Float[np.ndarray, "1326"]:
    """Reads a range.

    Args:
      text: parts with commas between them. A part is a class of hands ("QQ", "AKs", "AKo"; "AK" is
        both), two cards ("AhKh"), or "random" for all hands; a class with all better ones of its
        kind ("66+"; "A8s+" up to "AKs"), or two classes with all between them ("99-66", "A5s-A2s",
        "T9s-54s"). A part may end in a weight from 0 to 1 (":0.5"), which is 1 otherwise. Later
        parts replace earlier ones.

    Returns:
      The weights of all hands; 0 for hands that no part names.

    Raises:
      ValueError: a part is not understood (the message marks where), or all weights are 0.
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
    """A range without the hands that hold any of some cards.

    Args:
      weights: the range.
      cards: the cards, such as those of a board.

    Returns:
      The range with the weight 0 for these hands.
    """
    return np.where(blocked(cards), 0, weights)


def blocked(cards: tuple[int, ...]) -> Bool[np.ndarray, "1326"]:
    """Which hands hold any of these cards."""
    return np.isin(HANDS, cards).any(axis=1)


def class_numbers() -> Int[np.ndarray, "1326"]:
    """The class of each hand, as an index of `CLASSES`."""
    ranks, suits = HANDS // 4, HANDS % 4
    low, high = 12 - ranks.min(axis=1), 12 - ranks.max(axis=1)  # counted from the ace
    suited = suits[:, 0] == suits[:, 1]
    return np.where(suited, high * 13 + low, low * 13 + high)


def _error(text, place, token, reason):
    """An error that marks the token at `place` in the text."""
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
    """Which hands a part without its weight stands for."""
    if text.lower() == "random":
        return np.ones(NUM_HANDS, bool)
    if _TWO_CARDS.fullmatch(text):
        first, second = parse_cards(text)
        return np.arange(NUM_HANDS) == hand_number(first, second)
    chosen = np.zeros(NUM_HANDS, bool)
    for high, low, kind in _classes(text):
        chosen |= _members(high, low, kind)
    return chosen


def _classes(text) -> Iterator[tuple[int, int, str]]:
    """The classes that a part without its weight stands for: two ranks, and "s", "o" or ""."""
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
    """The classes from one to another of the same kind, in either order."""
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
    """The higher rank, the lower rank and the kind ("s", "o" or "") of a class."""
    match = _CLASS.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no class of hands, such as QQ, AKs, AKo, AK, nor two cards")
    ranks, kind = [RANKS.index(rank.upper()) for rank in match.groups()[:2]], match[3].lower()
    if ranks[0] == ranks[1] and kind:
        raise ValueError(f"{text!r}: a pair is neither suited nor offsuit")
    return max(ranks), min(ranks), kind


def _members(high, low, kind):
    """Which hands are of a class, `[1326]`."""
    ranks, suits = HANDS // 4, HANDS % 4
    alike = (ranks.max(axis=1) == high) & (ranks.min(axis=1) == low)
    suited = suits[:, 0] == suits[:, 1]
    return alike & {"": True, "s": suited, "o": ~suited}[kind]
