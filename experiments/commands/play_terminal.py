"""Games of a person in the terminal, whatever is played against whom."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Array, Key
from rich.console import Console

from jaxgames.core import Game, State


def play_games(
    name: str,
    play_game: Callable[[Key[Array, ""], int], float],
    *,
    games: int | None,
    seat: int | None,
    seed: int | None,
) -> None:
    """Plays with the person, until they leave or the input ends.

    Args:
      name: of the game.
      play_game: plays a game with the person in a seat, whose payoff it returns.
      games: how many to play; None: any number.
      seat: the person's; None: both in turn.
      seed: of everything random; None: a new one.
    """
    key = jax.random.key(secrets.randbits(31) if seed is None else seed)
    won, played = 0.0, 0
    try:
        for number in itertools.count() if games is None else range(games):
            person = number % 2 if seat is None else seat
            say(f"\nGame {number + 1} of {name}: you are player {person}", style="bold")
            won += play_game(jax.random.fold_in(key, number), person)
            played += 1
    except (EOFError, KeyboardInterrupt):
        say("")
    say(f"{played} game{'' if played == 1 else 's'} played to the end, you won {won:+g}")


def ask(game: Game, state: State) -> int:
    """Asks the person for a legal action.

    Raises:
      EOFError: the person leaves.
    """
    names = {int(a): game.action_name(state, int(a)) for a in np.flatnonzero(state.legal)}
    choice = "  ".join(f"{action} {name}" for action, name in names.items())
    while True:
        text = input(f"your move ({choice}  q leaves): ").strip().lower()
        if text == "q":
            raise EOFError
        same = [a for a, name in names.items() if text in (str(a), name.lower())]
        begun = [a for a, name in names.items() if text and name.lower().startswith(text)]
        for matching in (same, begun):
            if len(matching) == 1:
                return matching[0]
        say(f"{text!r} is not one of them")


def say(text: str, *, style: str = "") -> None:
    """Prints a text as it is."""
    Console(highlight=False).print(text, style=style, markup=False, soft_wrap=True)
