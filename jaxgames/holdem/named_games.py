"""Hold'em games by name: limit, no-limit and no-limit flop hold'em as the literature plays them."""

from __future__ import annotations

from jaxgames.holdem.rules import UNLIMITED, Poker
from jaxgames.registry import register


@register("limit_holdem")
def limit_holdem(players: int = 2) -> Poker:
    """Limit hold'em of the ACPC for two or three players: blinds 5 and 10, bets 10 and 20.

    Args:
      players: 2 or 3.

    Returns:
      The rules.

    Raises:
      ValueError: `players` is neither 2 nor 3.
    """
    if players == 2:
        return Poker()
    if players == 3:
        return Poker(players=3, blinds=(5, 10, 0), first=(2, 0, 0, 0))
    raise ValueError(f"limit_holdem: players={players} must be 2 or 3")


@register("hunl")
def hunl(bets: tuple[str, ...] = ()) -> Poker:
    """Heads-up no-limit hold'em of the ACPC: blinds 50 and 100, stacks of 20,000.

    Args:
      bets: as of `Poker`: empty for all raises.

    Returns:
      The rules.
    """
    return _no_limit(first=(1, 0, 0, 0), board=(0, 3, 1, 1), bets=bets)


@register("nlfh")
def nlfh(bets: tuple[str, ...] = ()) -> Poker:
    """No-limit flop hold'em (Brown, Sandholm, Amos 2018): `hunl` that ends after the flop.

    Args:
      bets: as of `Poker`: empty for all raises.

    Returns:
      The rules.
    """
    return _no_limit(first=(1, 0), board=(0, 3), bets=bets)


def _no_limit(**rules):
    return Poker(
        limit=False,
        blinds=(100, 50),
        stack=20_000,
        raise_sizes=(),
        max_raises=(UNLIMITED,) * len(rules["board"]),
        **rules,
    )
