"""Matches: many games of Scotland Yard side by side, one agent as Mr X against another.

The game's own rules are the referee. In every turn all games in which it is the same player's turn
move at once.
"""

from __future__ import annotations

import abc
import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key, PyTree

from jaxgames.core import record
from jaxgames.play import sample_chance
from jaxgames.scotland_yard.board import WON
from jaxgames.scotland_yard.rules import ScotlandYard, ScotlandYardState
from solvers.scotland_yard import pimbot, possible_stations
from solvers.scotland_yard.position import from_state
from solvers.scotland_yard.tables import YardTables, yard_tables

MR_X, DETECTIVES = 0, 1
Memory = PyTree  # what an agent keeps of B games: arrays [B, ...]


@record
class MatchStates:
    """B games; leaves are `[B, ...]`."""

    state: ScotlandYardState
    possible: Array  # [B, N] bool where Mr X may be for all that the detectives know


class MatchAgent(abc.ABC):
    """A player of one side. Agents are records (`jaxgames.core.record`), so that one compiled match
    serves all agents of a kind.

    An agent must not look at what its side cannot see: detectives not at Mr X's station.
    """

    def begin(self, keys: Key[Array, " B"], states: MatchStates, *, side: int) -> Memory:
        """What the agent keeps of games after the deal; by default nothing.

        Args:
          keys: consumed, one for each game.
          states: of the games.
          side: MR_X or DETECTIVES.
        """
        return ()

    @abc.abstractmethod
    def act(
        self, keys: Key[Array, " B"], memory: Memory, states: MatchStates, *, side: int
    ) -> tuple[Memory, Int[Array, " B"]]:
        """The memory after thinking, and actions in all games.

        Games where it is another player's turn keep their memory, and the actions there are
        ignored.

        Args:
          keys: consumed, one for each game.
          memory: of the games so far.
          states: of the games.
          side: MR_X or DETECTIVES.
        """

    def observe(
        self,
        memory: Memory,
        states: MatchStates,
        actions: Int[Array, " B"],
        after: MatchStates,
        acted: Bool[Array, " B"],
    ) -> Memory:
        """The memory after an action of either side, in the games where `acted` holds."""
        return memory


@record
class PimBotAgent(MatchAgent):
    """PimBot on either side; it keeps nothing between its searches."""

    tables: YardTables
    settings: pimbot.PimBot

    def act(
        self, keys: Key[Array, " B"], memory: Memory, states: MatchStates, *, side: int
    ) -> tuple[Memory, Int[Array, " B"]]:
        return memory, self.search(keys, states, side=side).action

    def search(self, keys: Key[Array, " B"], states: MatchStates, *, side: int) -> pimbot.Found:
        """The searches in which it finds its moves; takes the arguments of `act`."""
        return pimbot.search(
            self.tables,
            from_state(states.state),
            states.possible.T,
            keys,
            settings=self.settings,
            mr_x_searches=side == MR_X,
        )


@record
class UniformAgent(MatchAgent):
    """Plays legal actions at random."""

    def act(
        self, keys: Key[Array, " B"], memory: Memory, states: MatchStates, *, side: int
    ) -> tuple[Memory, Int[Array, " B"]]:
        logits = jnp.where(states.state.legal, 0.0, -jnp.inf)
        return memory, jax.vmap(jax.random.categorical)(keys, logits).astype(jnp.int32)


@record
class MatchResult:
    """Ends of B games."""

    mr_x_won: Array  # [B] bool
    moves: Array  # [B] int32 that Mr X has made
    legal: Array  # [B] bool whether all actions were legal


def make_pimbot(game: ScotlandYard, settings: pimbot.PimBot) -> PimBotAgent:
    """PimBot as an agent of matches.

    Raises:
      ValueError: there are no simulations, or the game does not fit `yard_tables`.
    """
    if settings.simulations < 1:
        raise ValueError(f"simulations={settings.simulations} must be at least 1")
    return PimBotAgent(tables=yard_tables(game), settings=settings)


@functools.partial(jax.jit, static_argnames="game")
def play(
    game: ScotlandYard, keys: Key[Array, " B"], mr_x: MatchAgent, detectives: MatchAgent
) -> MatchResult:
    """Plays B games to their ends; each has the result that it has alone.

    Args:
      game: the rules. Static.
      keys: consumed, one for each game.
      mr_x: the agent who plays Mr X.
      detectives: the agent who plays all detectives.
    """
    deal_keys, move_keys, *begin_keys = jax.vmap(lambda key: tuple(jax.random.split(key, 4)))(keys)
    states = jax.vmap(functools.partial(deal, game))(deal_keys)
    agents = mr_x, detectives
    memories = tuple(
        agent.begin(begin_keys[side], states, side=side) for side, agent in enumerate(agents)
    )

    def turn(player, side, carry):
        return jax.lax.cond(
            jnp.any(_acts(carry[1], player)),
            lambda carry: _turn(game, agents, player, side, carry),
            lambda carry: carry,
            carry,
        )

    def play_round(carry):
        carry = turn(jnp.int32(0), MR_X, carry)
        return jax.lax.fori_loop(
            1, 1 + game.detectives, lambda d, carry: turn(d, DETECTIVES, carry), carry
        )

    def goes_on(carry):
        return jnp.any(carry[1].state.actor >= 0)

    legal = jnp.ones(len(keys), bool)
    carry = move_keys, states, memories, legal
    _, states, _, legal = jax.lax.while_loop(goes_on, play_round, carry)
    return MatchResult(
        mr_x_won=states.state.result == WON, moves=states.state.board.moves, legal=legal
    )


def _acts(states, player):
    return (states.state.actor >= 0) & (states.state.board.turn == player)


def _turn(game, agents, player, side, carry):
    """One player's turn in all games where it is its turn."""
    keys, states, memories, legal = carry
    acts = _acts(states, player)
    drawn = jax.vmap(jax.random.fold_in)(keys, states.state.num_steps)
    thought, actions = agents[side].act(drawn, memories[side], states, side=side)
    exists = (actions >= 0) & (actions < game.num_actions)
    chosen = jnp.where(exists, actions, 0)[:, None]
    allowed = exists & jnp.take_along_axis(states.state.legal, chosen, axis=1)[:, 0]
    legal &= allowed | ~acts
    after = jax.vmap(game.step)(states.state, actions)
    possible = jax.vmap(functools.partial(possible_stations.after_action, game))(
        states.possible, states.state, actions, after
    )
    after = MatchStates(state=after, possible=possible)
    after = _where(acts, after, states)
    memories = list(memories)
    memories[side] = _where(acts, thought, memories[side])
    memories = tuple(
        agent.observe(memory, states, actions, after, acts)
        for agent, memory in zip(agents, memories, strict=True)
    )
    return keys, after, memories, legal


def _where(mask, new, old):
    """Records `[B, ...]` with the games of the mask from the first."""
    pick = lambda x, y: jnp.where(mask.reshape(-1, *[1] * (x.ndim - 1)), x, y)  # noqa: E731
    return jax.tree.map(pick, new, old)


def deal(game: ScotlandYard, key: Key[Array, ""]) -> MatchStates:
    """A game after the deal; `key` is consumed."""
    state = game.init()
    for number in range(game.num_deals):
        card = sample_chance(jax.random.fold_in(key, number), state)
        state = game.step(state, card)
    return MatchStates(state=state, possible=possible_stations.first_stations(game, state))
