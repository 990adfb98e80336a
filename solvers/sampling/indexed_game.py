"""A game too large for tables of its places, played by its rules for sampling.

Learners keep one row per information state, or per class of information states that a function
`index` merges: an abstraction. Without such a function the rows are hash values of the information
states, and states that happen to share a row are learned as one. Where two decisions of one episode
share a row, only one of both is learned from.

Example:

    >>> import jax
    >>> from jaxgames import make
    >>> from solvers.sampling import uct
    >>> from solvers.sampling.indexed_game import hash_index, indexed_game
    >>> rules = make("leduc_poker")
    >>> index = hash_index(rules, num_states=2000)
    >>> game = indexed_game(rules, index, num_states=2000)
    >>> learner = uct.run(
    ...     game, uct.init(game), jax.random.key(0), settings=uct.uct(20.0), num_episodes=100
    ... )
    >>> int(learner.step), learner.visits.shape
    (100, (2001, 3))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.checks import at_least
from jaxgames.core import CHANCE, TERMINAL, Game, State, record
from jaxgames.play import random_playouts
from solvers.sampling.episodes import Playable, mix_bits, uniform_number

# (state, player to act) -> row of the player's information state, from 0 to N - 1
Index = Callable[[State, Int[Array, ""]], Int[Array, ""]]


@record
class IndexedNode:
    """What is known at one place of an `IndexedGame`."""

    actor: Array  # [] int32
    state: Array  # [] int32 row of the actor's information state, N where the game is over
    uniform: Array  # [A]
    place: State


@record
class IndexedGame(Playable):
    """A game with numbered information states; its places are the game's own states."""

    game: Game = flax.struct.field(pytree_node=False)
    index: Index = flax.struct.field(pytree_node=False)
    num_states: int = flax.struct.field(pytree_node=False)  # N
    max_decisions: int = flax.struct.field(pytree_node=False)
    noise_width: ClassVar[int] = 2  # 46 bits: more than a deal has outcomes

    @property
    def num_players(self) -> int:
        """P."""
        return self.game.num_players

    @property
    def num_actions(self) -> int:
        """A."""
        return self.game.num_actions

    def start(self, noise: Float[Array, "2"]) -> State:
        """Draws the first state in which a player acts."""
        return self._deal(self.game.init(), noise)

    def at(self, place: State) -> IndexedNode:
        """Returns the node at a state of the game."""
        over = place.actor == TERMINAL
        row = self.index(place, jnp.maximum(place.actor, 0)).astype(jnp.int32)
        legal = place.legal.astype(jnp.float32)
        return IndexedNode(
            actor=place.actor,
            state=jnp.where(over, self.num_states, jnp.clip(row, 0, self.num_states - 1)),
            uniform=legal / jnp.maximum(jnp.sum(legal), 1),
            place=place,
        )

    def after(self, node: IndexedNode, action: Int[Array, ""], noise: Float[Array, "2"]) -> State:
        """Draws the next state in which a player acts; a terminal state stays as it is."""
        return self._deal(self.game.step(node.place, action), noise)

    def payoffs_at(self, place: State) -> Float[Array, " P"]:
        """Returns the players' payoffs at a terminal state, 0 elsewhere."""
        return place.returns

    def _deal(self, state, noise):
        """Plays all moves of chance until a player acts or the game is over."""
        words = (noise * 2**23).astype(jnp.uint32)

        def deal(carry):
            state, count = carry
            chance = state.chance_probs
            bounds, outcomes = jnp.cumsum(chance), jnp.arange(len(chance), dtype=jnp.int32)
            aim = uniform_number(words, count).astype(bounds.dtype) * bounds[-1]
            drawn = jnp.sum((bounds <= aim).astype(jnp.int32))
            last = jnp.max(jnp.where(chance > 0, outcomes, 0))  # `drawn` may exceed it by rounding
            return self.game.step(state, jnp.minimum(drawn, last)), count + 1

        chance_acts = lambda carry: carry[0].actor == CHANCE  # noqa: E731
        return jax.lax.while_loop(chance_acts, deal, (state, jnp.uint32(0)))[0]


def hash_index(game: Game, *, num_states: int) -> Index:
    """Numbers the information states of any game by hashing them.

    Args:
      game: the game.
      num_states: N, the number of rows.

    Returns:
      A function that maps (state, player) to a row from 0 to N - 1.
    """

    def index(state: State, player: Int[Array, ""]) -> Int[Array, ""]:
        keys = [game.information_state(state, each) for each in range(game.num_players)]
        words = jnp.stack(keys)[player].astype(jnp.uint32)
        start = mix_bits(player.astype(jnp.uint32) + 1)
        row = jax.lax.fori_loop(0, len(words), lambda i, h: mix_bits(h * 31 + words[i]), start)
        return (row % num_states).astype(jnp.int32)

    return index


def indexed_game(
    game: Game, index: Index | None = None, *, num_states: int, max_decisions: int | None = None
) -> IndexedGame:
    """Prepares a game that is played by its rules for sampling.

    Args:
      game: the game.
      index: maps (state, player) to the row, from 0 to N - 1, of the information state of `player`,
        who is to act; `hash_index` if not given.
      num_states: N.
      max_decisions: an upper bound on the decisions of an episode; `game.max_depth` if not given.

    Returns:
      The game, for `episodes.play` and the learners that are built on it.

    Raises:
      ValueError: `num_states` or `max_decisions` is below 1; or one of 256 random episodes has a
        row outside 0 to N - 1 or more decisions than `max_decisions`.
    """
    max_decisions = game.max_depth if max_decisions is None else max_decisions
    at_least(1, num_states=num_states, max_decisions=max_decisions)
    index = hash_index(game, num_states=num_states) if index is None else index
    states = random_playouts(game, jax.random.key(0), num_playouts=256).states
    decides = np.asarray(states.actor) >= 0
    rows = jax.vmap(jax.vmap(lambda state: index(state, jnp.maximum(state.actor, 0))))(states)
    bad = np.asarray(rows)[decides & ((rows < 0) | (rows >= num_states))]
    if len(bad):
        raise ValueError(
            f"index gives row {bad[0]} in {game}; rows must be from 0 to {num_states - 1}"
        )
    if (most := int(decides.sum(axis=1).max())) > max_decisions:
        raise ValueError(
            f"max_decisions={max_decisions} is below the {most} decisions of an episode of {game}"
        )
    return IndexedGame(game=game, index=index, num_states=num_states, max_decisions=max_decisions)
