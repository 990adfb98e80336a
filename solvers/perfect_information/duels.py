"""Games of perfect information side by side, a move of each at a time.

Players are functions of many positions at once. One player may play both seats, as in self-play, or
two play each other, the first in a seat of its own in every game.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.adapters.pgx_beliefs import PgxBeliefs, PgxPosition
from jaxgames.core import TERMINAL, record
from solvers.perfect_information import alphazero_search
from solvers.perfect_information.alphazero_search import Agent

# player(keys [B], states [B, ...]) -> actions [B], notes: a tree of arrays [B, ...]
Player = Callable[[Key[Array, " B"], PgxPosition], tuple[Int[Array, " B"], PyTree]]


@record
class Games:
    """B games of T turns at most."""

    payoffs: Array  # [B] float32 player 0's in the end
    there: Array  # [B, T] bool whether somebody moved in that turn
    notes: PyTree  # [B, T, ...] of those who moved; 0 elsewhere


def play(
    game: PgxBeliefs,
    keys: Key[Array, " B"],
    seats: Int[Array, " B"],
    players: Sequence[Player],
) -> Games:
    """Plays B games to their ends; `keys` are consumed, one a game.

    `seats` are those of the first of two players, who must note alike; a single player has both.
    Of two, the second has the even turns: where the first begins, nobody moves in turn 0.
    """
    two = len(players) == 2
    turns = (game.max_depth + 2) // 2 * 2 if two else game.max_depth
    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(keys), *x.shape)), game.root())
    actors = jax.vmap(game.actor)

    def move(number, player, carry):
        turn, states, there, notes = carry
        active = actors(states) != TERMINAL
        if two:
            active &= actors(states) == (seats if number == 1 else 1 - seats)
        drawn = jax.vmap(jax.random.fold_in, (0, None))(keys, turn)
        actions, noted = player(drawn, states)
        after = jax.vmap(game.after)(states, actions)
        states = _where(active, after, states)
        there = there.at[:, turn].set(active)
        noted = _where(active, noted, jax.tree.map(jnp.zeros_like, noted))
        notes = jax.tree.map(lambda old, new: old.at[:, turn].set(new), notes, noted)
        return turn + 1, states, there, notes

    def step(carry):
        for number, player in enumerate(reversed(players)):
            carry = move(number, player, carry)
        return carry

    def goes_on(carry):
        turn, states, _, _ = carry
        return jnp.any(actors(states) != TERMINAL) & (turn < turns)

    noted = jax.eval_shape(players[0], keys, states)[1]
    notes = jax.tree.map(lambda x: jnp.zeros((len(keys), turns, *x.shape[1:]), x.dtype), noted)
    carry = jnp.int32(0), states, jnp.zeros((len(keys), turns), bool), notes
    _, states, there, notes = jax.lax.while_loop(goes_on, step, carry)
    ones = jnp.ones(1, jnp.float32)
    payoffs = jax.vmap(lambda state: game.terminal_values(state, 0, ones)[0])(states)
    return Games(payoffs=payoffs, there=there, notes=notes)


def player(game: PgxBeliefs, agent: Agent) -> Player:
    """An agent as a player that notes what it found."""
    return functools.partial(_act, game, agent)


@functools.partial(jax.jit, static_argnames="num_games")
def duel(
    game: PgxBeliefs, first: Agent, second: Agent, key: Key[Array, ""], *, num_games: int
) -> Float[Array, " G"]:
    """What the first agent wins in so many games, of which it begins every other one.

    `key` is consumed.
    """
    seats = jnp.arange(num_games, dtype=jnp.int32) % 2
    players = [_silent(player(game, agent)) for agent in (first, second)]
    games = play(game, jax.random.split(key, num_games), seats, players)
    return jnp.where(seats == 0, games.payoffs, -games.payoffs)


_act = jax.jit(jax.vmap(alphazero_search.act, (None, None, 0, 0)))  # traced once


def _silent(player):
    """The same player, who notes nothing."""
    return lambda keys, states: (player(keys, states)[0], ())


def _where(mask, new, old):
    def one(x, y):
        return jnp.where(mask.reshape(-1, *[1] * (x.ndim - 1)), x, y)

    return jax.tree.map(one, new, old)
