"""What a player of matches is: another program, or an agent of ours in this process."""

from __future__ import annotations

import dataclasses
from typing import Protocol, runtime_checkable

from jaxgames.adapters.pgx_beliefs import PgxPosition


@dataclasses.dataclass(frozen=True, kw_only=True)
class Turn:
    """What a player who has to move is told."""

    moves: tuple[str, ...]
    """Of both players since the start of the game, in the words of UCI or GTP."""
    position: PgxPosition
    """After them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Loss:
    """Given in place of a move: the player loses, for what its name and `reason` say."""

    reason: str
    fault: bool = True
    """Whether something went wrong: it died, hung or wrote garbage. Resigning is no fault."""
    disagrees: bool = False
    """Whether its rules are others than pgx's. That is no fault."""


@runtime_checkable
class Player(Protocol):
    """Somebody who plays games, one after the other."""

    name: str

    def begin(self, seed: int) -> None:
        """Begins a game, with a seed for everything random."""
        ...

    def choose(self, turn: Turn) -> str | Loss:
        """A move, or why the player loses."""
        ...

    def object_to(self, end: Turn, score: str | None) -> str | None:
        """What the player's own rules say otherwise of a game that is over; None: nothing.

        Args:
          end: all moves, and the last position.
          score: the result by pgx, as `Referee.final_score` has it.
        """
        ...

    def close(self) -> None:
        """Ends what was started. The player may begin another game all the same."""
        ...


def move_seed(seed: int, num_moves: int) -> int:
    """A seed for each move of a game, by the number of moves before it."""
    return (seed * 1_000_003 + num_moves) % 2**31
