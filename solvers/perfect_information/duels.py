"""Many games of perfect information side by side: self-play, and duels of two players.

In every turn each game makes one move. A player is a function of a batch of positions. A single
player plays both seats, as in self-play; of two players, the first has a given seat in each game.
`play` plays games to their ends, the last of which all others wait for. In `play_on` a new game
follows at once where one has ended.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.arrays import choose_rows
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import TERMINAL, record
from solvers.device_batches import split_calls
from solvers.perfect_information import alphazero_search
from solvers.perfect_information.alphazero_search import AlphaZeroAgent
from solvers.perfect_information.positions import (
    payoff,
    position_after,
    require_perfect_information,
)

# player(keys [B], states [B, ...], num_moves [B]) -> actions [B], notes: a tree of arrays [B, ...]
Player = Callable[
    [Key[Array, " B"], PublicState, Int[Array, " B"]], tuple[Int[Array, " B"], PyTree]
]


@record
class Games:
    """B games of T turns at most."""

    payoffs: Array  # [B] float32 of player 0
    moved: Array  # [B, T] bool whether a player moved in that turn
    notes: PyTree  # [B, T, ...] of the players who moved; 0 elsewhere


def play(
    game: BeliefGame,
    keys: Key[Array, " B"],
    seats: Int[Array, " B"],
    players: Sequence[Player],
) -> Games:
    """Plays B games to their ends.

    Args:
      game: a game of perfect information. With two players they move in turn, as in all games of
        `pgx_beliefs`; a game in which one of them moves twice in a row may not come to its end.
      keys: consumed, one for each game.
      seats: of the first of two players; ignored if there is one player.
      players: one player for both seats, or two, whose notes must have the same shapes. Of two,
        the second moves in even turns; in games that the first begins, nobody moves in turn 0.

    Returns:
      Payoffs and the players' notes of all turns.

    Raises:
      ValueError: the game has several rows.
    """
    require_perfect_information(game)
    two = len(players) == 2
    turns = (game.max_depth + 2) // 2 * 2 if two else game.max_depth
    states = _roots(game, len(keys))
    actors = jax.vmap(game.actor)

    def move(number, player, carry):
        turn, states, moved, notes = carry
        active = actors(states) != TERMINAL
        if two:
            active &= actors(states) == (seats if number == 1 else 1 - seats)
        drawn = jax.vmap(jax.random.fold_in, (0, None))(keys, turn)
        actions, noted = player(drawn, states, jnp.sum(moved, axis=1, dtype=jnp.int32))
        after = jax.vmap(position_after, (None, 0, 0))(game, states, actions)
        states = choose_rows(active, after, states)
        moved = moved.at[:, turn].set(active)
        noted = choose_rows(active, noted, jax.tree.map(jnp.zeros_like, noted))
        notes = jax.tree.map(lambda old, new: old.at[:, turn].set(new), notes, noted)
        return turn + 1, states, moved, notes

    def step(carry):
        for number, player in enumerate(reversed(players)):
            carry = move(number, player, carry)
        return carry

    def goes_on(carry):
        turn, states, _, _ = carry
        return jnp.any(actors(states) != TERMINAL) & (turn < turns)

    noted = jax.eval_shape(players[0], keys, states, jnp.zeros(len(keys), jnp.int32))[1]
    notes = jax.tree.map(lambda x: jnp.zeros((len(keys), turns, *x.shape[1:]), x.dtype), noted)
    carry = jnp.int32(0), states, jnp.zeros((len(keys), turns), bool), notes
    _, states, moved, notes = jax.lax.while_loop(goes_on, step, carry)
    payoffs = jax.vmap(lambda state: payoff(game, state, 0))(states)
    return Games(payoffs=payoffs, moved=moved, notes=notes)


@record
class GamesUnderWay:
    """B games, none of which is over."""

    states: PublicState  # [B, ...]
    num_moves: Array  # [B] int32 made in each so far


@record
class Turns:
    """T turns of B games, in each of which all of them make a move."""

    notes: PyTree  # [B, T, ...] of the player
    ended: Array  # [B, T] bool whether the move ended a game
    payoffs: Array  # [B, T] float32 of player 0 in the game that ended; 0 elsewhere


def begin(game: BeliefGame, num_games: int) -> GamesUnderWay:
    """B games before their first moves.

    Args:
      game: a game of perfect information.
      num_games: B.

    Raises:
      ValueError: the game has several rows.
    """
    require_perfect_information(game)
    return GamesUnderWay(states=_roots(game, num_games), num_moves=jnp.zeros(num_games, jnp.int32))


def play_on(
    game: BeliefGame,
    keys: Key[Array, " B"],
    under_way: GamesUnderWay,
    player: Player,
    *,
    turns: int,
) -> tuple[GamesUnderWay, Turns]:
    """Goes on with B games of self-play; a new one follows where one has ended.

    Args:
      game: a game of perfect information.
      keys: consumed, one for each game.
      under_way: the games.
      player: plays both seats.
      turns: T. Static.

    Returns:
      The games after T moves in each, and what happened in them.
    """
    roots = _roots(game, len(keys))

    def turn(under_way, number):
        drawn = jax.vmap(jax.random.fold_in, (0, None))(keys, number)
        actions, notes = player(drawn, under_way.states, under_way.num_moves)
        after = jax.vmap(position_after, (None, 0, 0))(game, under_way.states, actions)
        ended = jax.vmap(game.actor)(after) == TERMINAL
        payoffs = jnp.where(ended, jax.vmap(lambda state: payoff(game, state, 0))(after), 0)
        following = GamesUnderWay(
            states=choose_rows(ended, roots, after),
            num_moves=jnp.where(ended, 0, under_way.num_moves + 1),
        )
        return following, Turns(notes=notes, ended=ended, payoffs=payoffs)

    numbers = jnp.arange(turns, dtype=jnp.int32)
    under_way, happened = jax.lax.scan(turn, under_way, numbers)
    return under_way, jax.tree.map(lambda x: x.swapaxes(0, 1), happened)


def player(game: BeliefGame, agent: AlphaZeroAgent) -> Player:
    """An agent as a player whose notes are the statistics of its searches."""
    return functools.partial(_act, game, agent)


@functools.partial(jax.jit, static_argnames=("num_games", "mesh"))
def duel(
    game: BeliefGame,
    first: AlphaZeroAgent,
    second: AlphaZeroAgent,
    key: Key[Array, ""],
    *,
    num_games: int,
    mesh: Mesh | None = None,
) -> Float[Array, " G"]:
    """Plays one agent against another.

    Args:
      game: a game of perfect information.
      first: begins the games of even number.
      second: begins the others.
      key: consumed.
      num_games: G. Static.
      mesh: the devices that share the games; None: there is one. Static.

    Returns:
      What the first agent wins in each game.

    Raises:
      ValueError: the game has several rows, or the devices cannot share the games evenly.
    """
    seats = jnp.arange(num_games, dtype=jnp.int32) % 2
    keys = jax.random.split(key, num_games)
    payoffs = split_calls(_payoffs, mesh)((game, first, second), (keys, seats))
    return jnp.where(seats == 0, payoffs, -payoffs)


def _payoffs(shared, batch):
    """What player 0 wins in games of two agents."""
    game, *agents = shared
    return play(game, *batch, [_silent(player(game, agent)) for agent in agents]).payoffs


_act = jax.jit(jax.vmap(alphazero_search.act, (None, None, 0, 0, 0)))  # traced once


def _silent(player):
    """The same player without notes."""
    return lambda keys, states, num_moves: (player(keys, states, num_moves)[0], ())


def _roots(game, number):
    """`number` first positions."""
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (number, *x.shape)), game.root())
