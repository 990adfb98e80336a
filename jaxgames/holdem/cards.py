"""Playing cards as numbers and as players write them.

Card `4 * rank + suit` of 52: ranks from 0 (the two) to 12 (the ace), suits in the order "cdhs", as
in the ACPC protocol. "Td9d6h" is the ten and nine of diamonds and the six of hearts.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

RANKS = "23456789TJQKA"
SUITS = "cdhs"
NUM_CARDS = 52


def parse_cards(text: str) -> tuple[int, ...]:
    """Reads cards such as "Td9d6h Qc".

    Args:
      text: names of cards; spaces and commas may stand between them.

    Returns:
      The cards in the order of the text.

    Raises:
      ValueError: a part of the text is not a card, or a card occurs twice.
    """
    cards: list[int] = []
    for word in text.replace(",", " ").split():
        if len(word) % 2:
            raise ValueError(f"{word!r} in {text!r} must be cards of two letters each")
        for begin in range(0, len(word), 2):
            card = _parse_card(word[begin : begin + 2], text)
            if card in cards:
                raise ValueError(f"{card_name(card)} occurs twice in {text!r}")
            cards.append(card)
    return tuple(cards)


def _parse_card(word: str, text: str) -> int:
    rank, suit = word[0].upper(), word[1].lower()
    if rank not in RANKS:
        raise ValueError(f"{word!r} in {text!r} is not a card: rank {word[0]!r} is none of {RANKS}")
    if suit not in SUITS:
        raise ValueError(f"{word!r} in {text!r} is not a card: suit {word[1]!r} is none of {SUITS}")
    return 4 * RANKS.index(rank) + SUITS.index(suit)


def card_name(card: int) -> str:
    """The name of a card, such as "Td".

    Raises:
      ValueError: `card` is not from 0 to 51.
    """
    if not 0 <= card < NUM_CARDS:
        raise ValueError(f"card={card} must be from 0 to {NUM_CARDS - 1}")
    return RANKS[card // 4] + SUITS[card % 4]


def cards_name(cards: Int[np.ndarray, " n"] | tuple[int, ...]) -> str:
    """The names of several cards.

    Args:
      cards: numbers of cards.

    Returns:
      Their names side by side, such as "Td9d6h".
    """
    return "".join(card_name(int(card)) for card in cards)
