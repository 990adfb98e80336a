"""A game for sampling that is too large for tables of its places: played by its rules.

All that is kept is a row for each information state, or for each class of them that `index` takes
together: an abstraction. Where nothing better is known of a game, rows are hash values of what
players know; states that happen to share one are learned as one.

    game = indexed_game(make("leduc_poker"), index=index, num_states=2000)
    learner = uct.run(game, uct.init(game), key, settings=uct.uct(20.0), num_episodes=100_000)
    visits = learner.visits[index(state, player)]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import CHANCE, TERMINAL, Game, State, record
from jaxgames.play import random_playouts
from solvers.sampling.episodes import Playable, mix_bits, uniform_number

# index(state, player): the row, from 0 to N - 1, of what `player`, who is to act, knows
Index = Callable[[State, Int[Array, ""]], Int[Array, ""]]


@record
class IndexedNode:
    """What is known of one place."""

    actor: Array  # [] int32
    state: Array  # [] int32 row of the actor's information state, N where the game is over
    uniform: Array  # [A]
    place: State


@record
class IndexedGame(Playable):
    """A game with numbered information states; places are the game's own states."""

    game: Game = flax.struct.field(pytree_node=False)
    index: Index = flax.struct.field(pytree_node=False)
    num_states: int = flax.struct.field(pytree_node=False)  # N
    longest: int = flax.struct.field(pytree_node=False)
    luck_of_chance: ClassVar[int] = 2  # a deal can have more outcomes than one number tells apart

    @property
    def num_players(self) -> int:
        """P."""
        return self.game.num_players

    @property
    def num_actions(self) -> int:
        """A."""
        return self.game.num_actions

    def start(self, luck: Float[Array, "2"]) -> State:
        """The first place of an episode."""
        return self._dealt(self.game.init(), luck)

    def at(self, place: State) -> IndexedNode:
        """What is known of a place."""
        over = place.actor == TERMINAL
        row = self.index(place, jnp.maximum(place.actor, 0)).astype(jnp.int32)
        legal = place.legal.astype(jnp.float32)
        return IndexedNode(
            actor=place.actor,
            state=jnp.where(over, self.num_states, jnp.clip(row, 0, self.num_states - 1)),
            uniform=legal / jnp.maximum(jnp.sum(legal), 1),
            place=place,
        )

    def after(self, node: IndexedNode, action: Int[Array, ""], luck: Float[Array, "2"]) -> State:
        """The place after an action, by what is known; a terminal stays where it is."""
        return self._dealt(self.game.step(node.place, action), luck)

    def payoffs_at(self, place: State) -> Float[Array, " P"]:
        """What the players get if the game is over there, else 0."""
        return place.returns

    def _dealt(self, state, luck):
        """The state after all that chance does next."""
        words = (luck * 2**23).astype(jnp.uint32)

        def deal(carry):
            state, count = carry
            chance = state.chance_probs
            bounds, outcomes = jnp.cumsum(chance), jnp.arange(len(chance), dtype=jnp.int32)
            aim = uniform_number(words, count).astype(bounds.dtype) * bounds[-1]
            drawn = jnp.sum((bounds <= aim).astype(jnp.int32))
            last = jnp.max(jnp.where(chance > 0, outcomes, 0))  # rounding up may lead beyond
            return self.game.step(state, jnp.minimum(drawn, last)), count + 1

        going = lambda carry: carry[0].actor == CHANCE  # noqa: E731
        return jax.lax.while_loop(going, deal, (state, jnp.uint32(0)))[0]


def hash_index(game: Game, *, num_states: int) -> Index:
    """An index of any game: its information states, mixed into rows from 0 to N - 1."""

    def index(state: State, player: Int[Array, ""]) -> Int[Array, ""]:
        keys = [game.information_state(state, each) for each in range(game.num_players)]
        words = jnp.stack(keys)[player].astype(jnp.uint32)
        start = mix_bits(player.astype(jnp.uint32) + 1)
        row = jax.lax.fori_loop(0, len(words), lambda i, h: mix_bits(h * 31 + words[i]), start)
        return (row % num_states).astype(jnp.int32)

    return index


def indexed_game(
    game: Game, index: Index | None = None, *, num_states: int, longest: int | None = None
) -> IndexedGame:
    """A game with an index of its information states: `hashed`, unless one is given.

    `longest` is how many decisions an episode can have at most; the game's `max_depth`, unless it
    is known to be less.

    Raises:
      ValueError: `num_states` or `longest` is not positive; or in some of 256 random games a row is
        not from 0 to N - 1, or there are more decisions than `longest`.
    """
    longest = game.max_depth if longest is None else longest
    for name, value in (("num_states", num_states), ("longest", longest)):
        if value < 1:
            raise ValueError(f"{name}={value} must be at least 1")
    index = hash_index(game, num_states=num_states) if index is None else index
    states = random_playouts(game, jax.random.key(0), num_playouts=256).states
    decides = np.asarray(states.actor) >= 0
    rows = jax.vmap(jax.vmap(lambda state: index(state, jnp.maximum(state.actor, 0))))(states)
    bad = np.asarray(rows)[decides & ((rows < 0) | (rows >= num_states))]
    if len(bad):
        raise ValueError(f"index gives row {bad[0]} in {game}; must be from 0 to {num_states - 1}")
    if (most := int(decides.sum(axis=1).max())) > longest:
        raise ValueError(f"longest={longest} is less than the {most} decisions of a game of {game}")
    return IndexedGame(game=game, index=index, num_states=num_states, longest=longest)
