"""Matches of two agents: pairs of games that begin with the same opening, with colours swapped.

All games of a match are under way at once. Whoever has to move in more of them moves in as many as
a batch holds, first in those that have had the fewest moves. So all searches of a batch are of one
agent, none is of a game that is over, and when few long games are left the batches are smaller.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, Key

from jaxgames.arrays import at
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import TERMINAL
from solvers.device_batches import split_calls
from solvers.perfect_information import alphazero_search, growing_tree_agent
from solvers.perfect_information.alphazero_search import AlphaZeroAgent
from solvers.perfect_information.growing_tree_agent import GrowingTreeAgent
from solvers.perfect_information.positions import (
    legal_actions,
    num_actions,
    payoff,
    position_after,
    require_perfect_information,
)

Agent = AlphaZeroAgent | GrowingTreeAgent
# choose(keys [B], positions [B, ...], numbers of moves so far [B]) -> actions [B]
Choose = Callable[[Key[Array, " B"], PublicState, Int[Any, " B"]], Int[Any, " B"]]

_OVER = -1  # in place of who has to move
_SHRINK = 4  # how many times smaller a batch is than the next larger one
_DRAWN = 256  # openings that are drawn at once
_TRIES = 8  # draws in a row without a new opening, before giving up


def chooser(game: BeliefGame, agent: Agent, mesh: Mesh | None = None) -> Choose:
    """What an agent plays in a batch of positions.

    Args:
      game: a game of perfect information.
      agent: who moves.
      mesh: the devices that share a batch; None: there is one.

    Returns:
      A function of keys `[B]`, positions `[B, ...]` and the numbers of moves so far `[B]`, which
      gives actions `[B]`.
    """
    choose = _chooser(mesh)
    return lambda keys, states, num_moves: choose((game, agent), (keys, states, num_moves))


@functools.cache
def _chooser(mesh):
    """One compiled function for all agents of a kind."""

    def act(game, agent, key, state, num_moves):
        if isinstance(agent, GrowingTreeAgent):
            return growing_tree_agent.act(game, agent, key, state)
        return alphazero_search.act(game, agent, key, state, num_moves)[0]

    def actions(shared, batch):
        return jax.vmap(functools.partial(act, *shared))(*batch)

    return jax.jit(split_calls(actions, mesh))


def play_pairs(
    game: BeliefGame,
    keys: Key[Array, " P"],
    players: Sequence[Choose],
    openings: Int[np.ndarray, "P L"],
    *,
    batch: int,
    devices: int = 1,
) -> Float[np.ndarray, "P 2"]:
    """Plays two games from each of P openings.

    A game depends on its key, its opening and its players, not on the games beside it.

    Args:
      game: a game of perfect information.
      keys: consumed, one for each pair. Both games of a pair have the same, so that they are the
        same game if the two players are the same.
      players: the two.
      openings: the actions of the first L moves, see `draw_openings`.
      batch: positions that a player is asked for at a time; fewer towards the end of the match.
      devices: that share a batch, which is a multiple of their number.

    Returns:
      What the first player wins in the game that it begins, and in the other one.

    Raises:
      ValueError: the game has several rows, `batch` is no multiple of `devices`, or an opening has
        an illegal move or ends the game.
    """
    require_perfect_information(game)
    if batch < 1 or batch % devices:
        raise ValueError(f"batch={batch} must be a multiple of devices={devices}, at least 1")
    states, fine = _opened(game, jnp.asarray(openings, jnp.int32))
    if not (fine := np.asarray(fine)).all():
        raise ValueError(
            f"openings[{int(np.argmin(fine))}] has an illegal move, or the game is over after it"
        )
    number, length = openings.shape
    games, colours = 2 * number, np.tile([0, 1], number)  # the first player's
    states = jax.tree.map(lambda x: jnp.repeat(x, 2, axis=0), states)
    keys = jnp.repeat(keys, 2)
    turn, moves = _whose(game, states, colours), np.full(games, length, np.int32)
    while (turn != _OVER).any():
        mover = int(np.argmax([np.sum(turn == player) for player in range(2)]))
        here = np.flatnonzero(turn == mover)
        here = here[np.argsort(moves[here], kind="stable")][:batch].astype(np.int32)
        room = _room(len(here), batch, devices)
        padded = np.concatenate([here, np.full(room - len(here), games, np.int32)])
        own_keys, own, own_moves = _asked(keys, states, moves, padded)
        actions = players[mover](own_keys, own, own_moves)
        states = _moved(game, states, padded, actions)
        moves[here] += 1
        turn = _whose(game, states, colours)
    won = np.asarray(_payoffs(game, states)).reshape(number, 2)
    return won * np.array([1, -1], won.dtype)


def draw_openings(
    game: BeliefGame, *, number: int, length: int, seed: int
) -> Int[np.ndarray, "P L"]:
    """Openings of random legal moves, which lead to different positions.

    Args:
      game: a game of perfect information.
      number: P, how many.
      length: L, moves of each. 0: every game begins at the root.
      seed: of the moves; the first openings do not depend on how many are drawn.

    Returns:
      The actions.

    Raises:
      ValueError: a number is out of range, or there are too few openings of this length.
    """
    require_perfect_information(game)
    if number < 1 or length < 0:
        raise ValueError(f"number={number} must be at least 1 and length={length} at least 0")
    if not length:
        return np.zeros((number, 0), np.int32)
    found: dict[bytes, np.ndarray] = {}
    generator, tries = np.random.default_rng(seed), 0
    while len(found) < number:
        if tries == _TRIES:
            raise ValueError(
                f"length={length} must be another: only {len(found)} of number={number} different"
                " openings that do not end the game were found"
            )
        before = len(found)
        noise = generator.uniform(size=(_DRAWN, length, num_actions(game)))
        drawn = _drawn(game, noise.astype(np.float32))
        for actions, position, goes_on in zip(*map(np.asarray, drawn), strict=True):
            if goes_on:
                found.setdefault(position.tobytes(), actions)
        tries = tries + 1 if len(found) == before else 0
    return np.stack([*found.values()][:number])


def _room(number: int, batch: int, devices: int) -> int:
    """The smallest batch for `number` games; there are few sizes, as each is compiled."""
    while batch % (_SHRINK * devices) == 0 and batch // _SHRINK >= number:
        batch //= _SHRINK
    return batch


def _whose(game, states, colours):
    """Who has to move in each game, 0 or 1 by `players`; _OVER if nobody has."""
    actors = np.asarray(_actors(game, states))
    return np.where(actors == TERMINAL, _OVER, actors ^ colours)


@jax.jit
def _actors(game, states):
    return jax.vmap(game.actor)(states)


@jax.jit
def _payoffs(game, states):
    return jax.vmap(lambda state: payoff(game, state, 0))(states)


@jax.jit
def _asked(keys, states, moves, numbers):
    """Fresh keys, positions and numbers of moves of some games; those of any for numbers beyond."""
    numbers = jnp.minimum(numbers, len(moves) - 1)
    keys, states, moves = at((keys, states, moves), numbers)
    return jax.vmap(jax.random.fold_in)(keys, moves), states, moves


@jax.jit
def _moved(game, states, numbers, actions):
    """All positions, after actions in some of them; numbers beyond are left out."""
    before = jax.tree.map(lambda x: x[jnp.minimum(numbers, len(x) - 1)], states)
    after = jax.vmap(position_after, (None, 0, 0))(game, before, actions)
    return jax.tree.map(lambda x, new: x.at[numbers].set(new, mode="drop"), states, after)


@jax.jit
def _opened(game, openings):
    """The positions after openings, and whether all moves are legal and the game goes on."""

    def follow(opening):
        def step(carry, action):
            state, fine = carry
            return (position_after(game, state, action), fine & _is_legal(game, state, action)), ()

        (state, fine), _ = jax.lax.scan(step, (game.root(), jnp.bool_(True)), opening)
        return state, fine & (game.actor(state) != TERMINAL)

    return jax.vmap(follow)(openings)


def _is_legal(game, state, action):
    legal = legal_actions(game, state)
    inside = (action >= 0) & (action < len(legal))
    return inside & legal[jnp.clip(action, 0, len(legal) - 1)]


@jax.jit
def _drawn(game, noise):
    """Actions by noise, the positions after them as players see them, and whether they go on."""

    def follow(noise):
        def step(state, noise):
            action = jnp.argmax(jnp.where(legal_actions(game, state), noise, -1)).astype(jnp.int32)
            return position_after(game, state, action), action

        state, actions = jax.lax.scan(step, game.root(), noise)
        return actions, game.encode(state), game.actor(state) != TERMINAL

    return jax.vmap(follow)(noise)
