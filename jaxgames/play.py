"""Playing games: sampled chance, random playouts, and steps that are checked, from Python."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from jaxgames.core import CHANCE, TERMINAL, Game, State, record


@record
class Playout:
    """One episode of T = `max_depth` steps; its terminal state repeats until the end."""

    states: State  # leaves [T + 1, ...], the root first
    moves: Array  # [T] int32 actions and chance outcomes, 0 after the end


def sample_chance(key: Key[Array, ""], state: State) -> Int[Array, ""]:
    """Draws a chance outcome by its probability.

    Args:
      key: consumed.
      state: a state without batch axes.

    Returns:
      The outcome; 0 unless chance acts.
    """
    return jax.random.categorical(key, jnp.log(state.chance_probs)).astype(jnp.int32)


def random_action(key: Key[Array, ""], state: State) -> Int[Array, ""]:
    """Draws a legal action, all equally likely.

    Args:
      key: consumed.
      state: a state without batch axes.

    Returns:
      The action; 0 unless a player acts.
    """
    logits = jnp.where(state.legal, 0.0, -jnp.inf).astype(float)
    return jax.random.categorical(key, logits).astype(jnp.int32)


def random_playout(game: Game, key: Key[Array, ""]) -> Playout:
    """Plays an episode with sampled chance and random actions; `key` is consumed."""

    def step(carry, _):
        state, key = carry
        key, chance_key, action_key = jax.random.split(key, 3)
        by_chance, by_player = sample_chance(chance_key, state), random_action(action_key, state)
        move = jnp.where(state.actor == CHANCE, by_chance, by_player)
        return (game.step(state, move), key), (state, move)

    start = (game.init(), key)
    (last, _), (states, moves) = jax.lax.scan(step, start, None, length=game.max_depth)
    join = functools.partial(jax.tree.map, lambda rows, row: jnp.concatenate([rows, row[None]]))
    return Playout(states=join(states, last), moves=moves)


@functools.partial(jax.jit, static_argnames=("game", "num_playouts"))
def random_playouts(game: Game, key: Key[Array, ""], *, num_playouts: int) -> Playout:
    """Plays a batch of random episodes.

    Args:
      game: the game.
      key: consumed.
      num_playouts: how many episodes.

    Returns:
      The episodes, with leaves `[num_playouts, T, ...]` (states `[num_playouts, T + 1, ...]`).
    """
    keys = jax.random.split(key, num_playouts)
    return jax.vmap(functools.partial(random_playout, game))(keys)


def checked_step(game: Game, state: State, action: int) -> State:
    """Steps a concrete state, from Python, and refuses illegal moves.

    Args:
      game: the game.
      state: a state without batch axes.
      action: an action of the actor, or the index of a chance outcome.

    Returns:
      The next state.

    Raises:
      ValueError: the game is over, or `action` is not legal (or not a possible outcome) here.
    """
    actor = int(state.actor)
    if actor == TERMINAL:
        raise ValueError(f"{game}: action {action} is illegal: the game is over")
    possible = np.flatnonzero(state.chance_probs if actor == CHANCE else state.legal)
    if action not in possible:
        what = "outcome of chance" if actor == CHANCE else f"action for player {actor}"
        legal = ", ".join(f"{move} ({game.action_name(state, int(move))})" for move in possible)
        raise ValueError(f"{game}: {action} is not a legal {what} (legal: {legal})")
    return _step(game, state, jnp.int32(action))


_step = jax.jit(lambda game, state, action: game.step(state, action), static_argnums=0)
