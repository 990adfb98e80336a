"""Hold'em poker: cards, their strength, what players may hold, and the rules."""

from jaxgames.holdem import rules  # noqa: F401 (registers its games)
