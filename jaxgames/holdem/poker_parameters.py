"""Checks of the parameters of poker."""

from __future__ import annotations

from fractions import Fraction

from jaxgames.core import Game
from jaxgames.holdem.cards import RANKS, SUITS

UNLIMITED = 0  # as `max_raises`, and as the stack of limit games
MAX_STACK = 2**30  # chips
_MAX_CHIPS = 2**31  # of all players together, and in all that is computed of them: int32


def check_parameters(game: Game) -> None:
    """Refuses parameters that no game of poker has.

    Args:
      game: the `Poker` to check.

    Raises:
      ValueError: a parameter is out of range, or parameters do not go together.
    """
    _check_players(game)
    _check_rounds(game)
    _check_bets(game)
    if not (1 <= game.ranks <= len(RANKS) and 1 <= game.suits <= len(SUITS)):
        raise ValueError(
            f"poker: ranks={game.ranks} and suits={game.suits} must be from 1 to {len(RANKS)}"
            f" and to {len(SUITS)}"
        )
    needed = game.players * game.hole + sum(game.board)
    if needed > game.ranks * game.suits:
        raise ValueError(
            f"poker: {needed} cards are dealt, but ranks={game.ranks} times suits={game.suits}"
            f" are {game.ranks * game.suits}"
        )
    if not (game.hole >= 1 and game.hole + sum(game.board) <= 7):
        raise ValueError(
            f"poker: hole={game.hole} and board={game.board} must be 1 to 7 cards together"
        )


def _check_players(game):
    if not 2 <= game.players <= 10:
        raise ValueError(f"poker: players={game.players} must be between 2 and 10")
    if len(game.blinds) != game.players or min(game.blinds) < 0:
        raise ValueError(
            f"poker: blinds={game.blinds} must be chips for each of players={game.players}"
        )
    if game.stack == 0 and not game.limit:
        raise ValueError("poker: stack=0 (any number of chips) is for limit games")
    if game.stack and not max(game.blinds) < game.stack <= MAX_STACK:
        raise ValueError(
            f"poker: stack={game.stack} must be more than blinds={game.blinds}, and at most"
            f" {MAX_STACK}"
        )
    if game.players * game.stack >= _MAX_CHIPS:
        raise ValueError(
            f"poker: stack={game.stack} of players={game.players} are {_MAX_CHIPS:,} chips or more;"
            " allowed: fewer"
        )


def _check_rounds(game):
    if not game.board or min(game.board) < 0:
        raise ValueError(f"poker: board={game.board} must be numbers of cards by round")
    for name in ("first", "max_raises", *(["raise_sizes"] if game.limit else [])):
        values = getattr(game, name)
        if len(values) != len(game.board) or min(values) < 0:
            raise ValueError(
                f"poker: {name}={values} must have a number for each of the"
                f" {len(game.board)} rounds of board={game.board}"
            )
    if max(game.first) >= game.players:
        raise ValueError(f"poker: first={game.first} must be players below {game.players}")
    if game.limit and (min(game.raise_sizes) < 1 or UNLIMITED in game.max_raises):
        raise ValueError("poker: limit games need raise_sizes and max_raises of at least 1")


def _check_bets(game):
    if game.bets and game.limit:
        raise ValueError(f"poker: bets={game.bets} is for no-limit games")
    sizes = [bet if bet in ("allin", "random") else _fraction(bet) for bet in game.bets]
    for bet, size in zip(game.bets, sizes, strict=True):
        if size is None:
            raise ValueError(
                f"poker: {bet!r} of bets must be a positive fraction of the pot, 'random' or"
                " 'allin', as text"
            )
        if isinstance(size, str):
            continue
        over, under = size.numerator, size.denominator
        if max(size * game.players * game.stack, over * under) >= _MAX_CHIPS:
            raise ValueError(
                f"poker: {bet!r} of bets with stack={game.stack} may need numbers of"
                f" {_MAX_CHIPS:,} chips; allowed: fewer"
            )
    if len(set(sizes)) < len(sizes):
        raise ValueError(f"poker: bets={game.bets} must be different")


def _fraction(text):
    """The fraction of a pot, as the rules compute it; None if the text is none."""
    try:
        fraction = Fraction(text).limit_denominator(10_000) if isinstance(text, str) else 0
    except (ValueError, ZeroDivisionError):
        return None
    return fraction if fraction > 0 else None
