"""A game against an opponent that is fixed: for the one who responds, a game of chance."""

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
    """Who plays against the responder. A pytree, so that policies are arguments of jitted code."""

    @abc.abstractmethod
    def policy(self, node: Any) -> Float[Array, " A"]:
        """Chances of its actions where it is to act, as searches and beliefs have them."""

    def act(self, node: Any, key: Key[Array, ""]) -> Int[Array, ""]:
        """What it does in games: drawn by `policy`, unless told otherwise. `key` is consumed.

        An opponent that is slow may act by a search here, and by what guides it in `policy`.
        """
        return episodes.pick_action(self.policy(node), episodes.uniform_numbers(key, (1,))[0])


class Belief(abc.ABC):
    """Where a game may be, by what the responder knows and what the opponent does: Pr(h | s).

    A pytree. Its memory goes along with a game and is told of every decision; nothing that the
    responder cannot see may enter it.
    """

    def start(self) -> PyTree:
        """The memory when a game begins."""
        return ()

    def after(self, memory: PyTree, node: Any, action: Int[Array, ""]) -> PyTree:
        """The memory after a decision of either player."""
        return memory

    @abc.abstractmethod
    def sample(self, memory: PyTree, place: PyTree, node: Any, luck: Float[Array, ""]) -> PyTree:
        """A place where the game may be while it is at `place`, where the responder acts.

        `node` is what is known of `place`; both tell nothing that the responder does not know.
        """


@record
class ResponseGame:
    """A game, an opponent, and the player who responds to it; several responders by `jax.vmap`."""

    game: Playable
    opponent: Opponent
    belief: Belief
    responder: Array  # [] int32


@record
class ResponseState:
    """A game where the responder is to act, or that is over."""

    place: PyTree
    memory: PyTree  # of the belief


def begin(response: ResponseGame, key: Key[Array, ""]) -> ResponseState:
    """A new game; `key` is consumed."""
    start_key, key = jax.random.split(key)
    luck = episodes.uniform_numbers(start_key, (response.game.luck_of_chance,))
    place, memory = response.game.start(luck), response.belief.start()
    return _until_own_turn(response, place, memory, key)


def advance(
    response: ResponseGame, standing: ResponseState, action: Int[Array, ""], key: Key[Array, ""]
) -> ResponseState:
    """The game after an action of the responder and what the others do then; `key` is consumed."""
    luck_key, key = jax.random.split(key)
    node = response.game.at(standing.place)
    luck = episodes.uniform_numbers(luck_key, (response.game.luck_of_chance,))
    place = response.game.after(node, action, luck)
    memory = response.belief.after(standing.memory, node, action)
    return _until_own_turn(response, place, memory, key)


def _until_own_turn(response, place, memory, key):
    game = response.game

    def others(carry):
        _, node, _, _ = carry
        return (node.actor >= 0) & (node.actor != response.responder)

    def act(carry):
        _, node, memory, count = carry
        act_key, luck_key = jax.random.split(jax.random.fold_in(key, count))
        action = response.opponent.act(node, act_key)
        place = game.after(node, action, episodes.uniform_numbers(luck_key, (game.luck_of_chance,)))
        memory = response.belief.after(memory, node, action)
        return place, game.at(place), memory, count + 1

    start = place, game.at(place), memory, jnp.int32(0)
    place, _, memory, _ = jax.lax.while_loop(others, act, start)
    return ResponseState(place=place, memory=memory)
