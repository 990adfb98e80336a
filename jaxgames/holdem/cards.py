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
    """Cards from text, spaces and commas between them allowed: "Td9d6h Qc".

    Raises:
      ValueError: something in it is not a card, or a card is there twice.
    """
    cards: list[int] = []
    for word in text.replace(",", " ").split():
        if len(word) % 2:
            raise ValueError(f"{word!r} in {text!r} is not a row of cards: two letters for each")
        for begin in range(0, len(word), 2):
            card = _parse_card(word[begin : begin + 2], text)
            if card in cards:
                raise ValueError(f"{card_name(card)} is in {text!r} twice")
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
    """How players write a card: "Td".

    Raises:
      ValueError: there is no such card.
    """
    if not 0 <= card < NUM_CARDS:
        raise ValueError(f"card={card} must be from 0 to {NUM_CARDS - 1}")
    return RANKS[card // 4] + SUITS[card % 4]


def cards_name(cards: Int[np.ndarray, " n"] | tuple[int, ...]) -> str:
    """How players write several cards: "Td9d6h"."""
    return "".join(card_name(int(card)) for card in cards)
