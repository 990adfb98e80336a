"""Hold'em poker: cards, their strength, and what players may hold."""
