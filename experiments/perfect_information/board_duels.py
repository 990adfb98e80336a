"""Duels of networks along a training, from random openings with swapped colours, and their Elo."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, Key

from experiments.engines import match
from experiments.harness import elo
from experiments.perfect_information.student import Choose
from jaxgames.beliefs.contract import BeliefGame
from jaxgames.core import TERMINAL
from solvers.device_batches import split_calls
from solvers.perfect_information import duels
from solvers.perfect_information.positions import legal_actions, position_after

UNIFORM = -1  # the opponent that draws all legal moves equally often, where else a step stands
ERROR_BARS = (
    "95 %: of shares by the bootstrap over pairs of games, or, where one player has won all games,"
    " what an exact test of the pairs does not refuse at 5 %; of Elo two standard errors"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Duel:
    """The games of a network in training against an opponent."""

    step: int  # of training
    opponent: int  # the step of an earlier network, or UNIFORM
    payoffs: list[float]  # of the network; the games of a pair follow each other

    @property
    def points(self) -> Float[np.ndarray, " G"]:
        """Of each game: 1 for a win, 1/2 for a draw."""
        return (1 + np.asarray(self.payoffs)) / 2

    @property
    def share(self) -> float:
        """Of the points."""
        return float(self.points.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """Of the share, of 95 % confidence."""
        _, low, high = match.share_interval(self.points.reshape(-1, 2).mean(axis=1))
        return low, high

    def count(self, payoff: float) -> int:
        """The games that ended so."""
        return self.payoffs.count(payoff)


def opponents(measured_at: Sequence[int], step: int) -> tuple[int, ...]:
    """Whom the network of a step meets.

    Args:
      measured_at: steps of training, ascending.
      step: one of them.

    Returns:
      UNIFORM, and the steps of those networks that came before: the untrained one, the one after
      about a tenth of the training, and the last one.
    """
    tenth = min(measured_at, key=lambda other: abs(other - measured_at[-1] / 10))
    before = [other for other in measured_at if other < step]
    return UNIFORM, *sorted({*before[:1], *before[-1:], tenth} & {*before})


def ratings(measured_at: Sequence[int], found: Sequence[Duel]) -> dict[int, tuple[float, float]]:
    """Elo of the networks by the step of training, and its standard errors.

    Args:
      measured_at: the steps, each of which has met UNIFORM, whose Elo is 0.
      found: all duels.
    """
    players = (UNIFORM, *measured_at)
    points = np.zeros((len(players), len(players)))
    for duel in found:
        here = players.index(duel.step), players.index(duel.opponent)
        points[here] += duel.points.sum()
        points[here[::-1]] += (1 - duel.points).sum()
    strengths, errors = elo.ratings(points)
    both = zip(strengths.tolist(), errors.tolist(), strict=True)
    return dict(zip(players, both, strict=True))


def draw_openings(
    game: BeliefGame, key: Key[Array, ""], *, pairs: int, moves: int
) -> Int[Array, "P L"]:
    """Random legal moves from the start.

    Args:
      game: a game of perfect information.
      key: consumed.
      pairs: P, how many openings.
      moves: L, of each opening; those after the end of a game are unspecified.
    """

    def move(state, key):
        action = _drawn(game, key, state)
        after, over = position_after(game, state, action), game.actor(state) == TERMINAL
        return jax.tree.map(lambda old, new: jnp.where(over, old, new), state, after), action

    def turn(states, key):
        return jax.vmap(move)(states, jax.random.split(key, pairs))

    states = jax.tree.map(lambda x: jnp.broadcast_to(x, (pairs, *x.shape)), game.root())
    return jax.lax.scan(turn, states, jax.random.split(key, moves))[1].T


def _drawn(game, key, state):
    """A legal action, all with the same probability."""
    logits = jnp.where(legal_actions(game, state), 0.0, -jnp.inf)
    return jax.random.categorical(key, logits).astype(jnp.int32)


def compiled_games(
    game: BeliefGame, choose: Choose, mesh: Mesh | None
) -> Callable[..., Float[Array, " G"]]:
    """The games of two players, or of one against uniformly random moves: one compiled program.

    Args:
      game: what they play.
      choose: the moves of a player with some parameters.
      mesh: the devices that share the games; None: one.

    Returns:
      A function `(params, others, key, openings [G / 2, L]) -> payoffs [G]` of the player with
      `params`, who begins the games of even number. `others` are the parameters of the opponent,
      or None, and it draws all legal moves equally often. The first moves of the games are given,
      the same in both games of a pair.
    """

    def play(shared, batch):
        params, others, draws = shared
        keys, seats, openings = batch

        def reply(keys, states):
            drawn = lambda: jax.vmap(functools.partial(_drawn, game))(keys, states)  # noqa: E731
            return jax.lax.cond(draws, drawn, lambda: _moves(choose, others, keys, states))

        players = [
            _opened(lambda keys, states: _moves(choose, params, keys, states), openings),
            _opened(reply, openings),
        ]
        games = duels.play(game, keys, seats, players)
        return jnp.where(seats == 0, games.payoffs, -games.payoffs)

    split = split_calls(play, mesh)

    @jax.jit
    def payoffs(shared, key, openings):
        seats = jnp.arange(2 * len(openings), dtype=jnp.int32) % 2
        both = jnp.repeat(openings, 2, axis=0)
        return split(shared, (jax.random.split(key, len(seats)), seats, both))

    def run(params, others, key, openings):
        draws = others is None
        return payoffs((params, params if draws else others, draws), key, openings)

    return run


def _moves(choose, params, keys, states):
    return choose(params, keys, states).astype(jnp.int32)


def _opened(choose: Callable[..., Any], openings: Int[Array, "G L"]) -> duels.Player:
    """A player whose first moves are given, without notes."""
    length = openings.shape[1]

    def player(keys, states, num_moves):
        chosen = choose(keys, states)
        if not length:
            return chosen, ()
        places = jnp.minimum(num_moves, length - 1)[:, None]
        given = jnp.take_along_axis(openings, places, axis=1)[:, 0]
        return jnp.where(num_moves < length, given, chosen), ()

    return player
