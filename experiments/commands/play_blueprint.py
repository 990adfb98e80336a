"""Hands of hold'em in the terminal, against a blueprint."""

from __future__ import annotations

import functools
import pathlib

import jax
import numpy as np
from jaxtyping import Array, Key

from experiments.commands.play_terminal import ask, play_games, say
from experiments.harness.progress import status
from jaxgames.core import CHANCE, TERMINAL
from jaxgames.holdem.cards import cards_name
from jaxgames.holdem.rules import Poker, PokerState
from jaxgames.play import checked_step, sample_chance
from jaxgames.registry import make
from solvers.approximate_best_response.hand_policies import HandPolicy, draw_action
from solvers.blueprint.hand_policy import read_hand_policy


def play_person(
    folder: pathlib.Path, game: str, *, games: int | None, seat: int | None, seed: int | None
) -> None:
    """Plays with the person at the terminal, until they leave or the input ends.

    Args:
      folder: of the blueprint.
      game: the name of its game.
      games: how many hands; None: any number.
      seat: the person's; None: both in turn.
      seed: of everything random; None: a new one.

    Raises:
      ValueError: the folder holds no blueprint of this game.
    """
    poker = make(game)
    with status("reading the blueprint"):
        policy = read_hand_policy(folder, poker)
    play_games(
        game,
        functools.partial(_play_hand, poker, policy),
        games=games,
        seat=seat,
        seed=seed,
    )


def _play_hand(game: Poker, policy: HandPolicy, key: Key[Array, ""], person: int) -> float:
    """Plays a hand with the person, whose payoff is returned."""
    state = game.init()
    while (actor := int(state.actor)) != TERMINAL:
        noise = jax.random.fold_in(key, state.num_dealt + state.num_taken)
        if actor == CHANCE:
            move = int(sample_chance(noise, state))
        elif actor == person:
            # cards are unique, so that the other hand's stand nowhere else
            hidden = cards_name(np.asarray(state.hole[1 - person]))
            say(game.render(state).replace(hidden, "?"))
            move = ask(game, state)
        else:
            move = int(_draw(game, policy, state, noise))
            say(f"agent: {game.action_name(state, move)}")
        state = checked_step(game, state, move)
    won = float(state.returns[person])
    say(f"{game.render(state)}\nYou win {won:+g}", style="bold")
    return won


@functools.partial(jax.jit, static_argnames="game")
def _draw(game, policy, state: PokerState, key):
    return draw_action(game, policy, state, state.hole[state.actor], key)
