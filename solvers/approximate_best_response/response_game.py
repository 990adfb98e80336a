"""A game against a fixed opponent: a game of chance for the player who responds."""

from __future__ import annotations

import abc
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.core import record
from solvers.sampling import episodes
from solvers.sampling.episodes import Playable


class Opponent(abc.ABC):
    """The player against the responder. A pytree: its policy is an argument of jitted code."""

    @abc.abstractmethod
    def policy(self, node: Any) -> Float[Array, " A"]:
        """Returns the probabilities of its actions at a node where it acts, for searches and
        beliefs.
        """

    def act(self, node: Any, key: Key[Array, ""]) -> Int[Array, ""]:
        """Chooses its action in a game; by default drawn from `policy`. `key` is consumed.

        An opponent that acts by a slow search may override this method; `policy` is then the policy
        that guides its search.
        """
        return episodes.pick_action(self.policy(node), episodes.uniform_numbers(key, (1,))[0])


class Belief(abc.ABC):
    """The distribution Pr(h | s) of the history, given what the responder knows. A pytree.

    Its memory accompanies a game and is told of every decision. Nothing that the responder cannot
    observe may enter it.
    """

    def start(self) -> PyTree:
        """Returns the memory at the start of a game."""
        return ()

    def after(self, memory: PyTree, node: Any, action: Int[Array, ""]) -> PyTree:
        """Returns the memory after a decision of either player."""
        return memory

    @abc.abstractmethod
    def sample(self, memory: PyTree, place: PyTree, node: Any, noise: Float[Array, ""]) -> PyTree:
        """Draws a place from the belief.

        Args:
          memory: the belief's memory.
          place: the game's true place, where the responder acts. Only what the responder knows of
            it may be used.
          node: the node at `place`.
          noise: a number uniform in [0, 1).

        Returns:
          A place that the responder cannot distinguish from `place`.
        """


@record
class ResponseGame:
    """A game, the opponent, and the player who responds to it; several responders by `jax.vmap`."""

    game: Playable
    opponent: Opponent
    belief: Belief
    responder: Array  # [] int32


@record
class ResponseState:
    """A game in progress, where the responder is to act or the game is over."""

    place: PyTree
    memory: PyTree  # of the belief


def begin(response: ResponseGame, key: Key[Array, ""]) -> ResponseState:
    """Starts a game and plays until the responder is to act; `key` is consumed."""
    start_key, key = jax.random.split(key)
    noise = episodes.uniform_numbers(start_key, (response.game.noise_width,))
    place, memory = response.game.start(noise), response.belief.start()
    return _until_own_turn(response, place, memory, key)


def advance(
    response: ResponseGame, state: ResponseState, action: Int[Array, ""], key: Key[Array, ""]
) -> ResponseState:
    """Plays the responder's action, and goes on until it is to act again.

    Args:
      response: the game.
      state: where the game is.
      action: the responder's action.
      key: consumed.

    Returns:
      The next state of the game.
    """
    noise_key, key = jax.random.split(key)
    node = response.game.at(state.place)
    noise = episodes.uniform_numbers(noise_key, (response.game.noise_width,))
    place = response.game.after(node, action, noise)
    memory = response.belief.after(state.memory, node, action)
    return _until_own_turn(response, place, memory, key)


def _until_own_turn(response, place, memory, key):
    """Lets the opponent and chance act until the responder is to act or the game is over."""
    game = response.game

    def others(carry):
        _, node, _, _ = carry
        return (node.actor >= 0) & (node.actor != response.responder)

    def act(carry):
        _, node, memory, count = carry
        act_key, noise_key = jax.random.split(jax.random.fold_in(key, count))
        action = response.opponent.act(node, act_key)
        place = game.after(node, action, episodes.uniform_numbers(noise_key, (game.noise_width,)))
        memory = response.belief.after(memory, node, action)
        return place, game.at(place), memory, count + 1

    start = place, game.at(place), memory, jnp.int32(0)
    place, _, memory, _ = jax.lax.while_loop(others, act, start)
    return ResponseState(place=place, memory=memory)
