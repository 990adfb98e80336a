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

from jaxgames.arrays import choose_rows
from jaxgames.checks import at_least
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
    at_least(1, simulations=settings.simulations)
    return PimBotAgent(tables=yard_tables(game), settings=settings)


@record
class Match:
    """B games between two agents, as far as they have been played; leaves are `[B, ...]`."""

    keys: Array  # [B] of all moves
    states: MatchStates
    memories: tuple[Memory, Memory]  # of Mr X's agent and of the detectives'
    legal: Array  # [B] bool whether all actions so far were legal

    @property
    def running(self) -> Array:
        """[B] bool whether the games go on."""
        return self.states.state.actor >= 0

    @property
    def result(self) -> MatchResult:
        """The ends of the games that have ended."""
        state = self.states.state
        return MatchResult(mr_x_won=state.result == WON, moves=state.board.moves, legal=self.legal)


@functools.partial(jax.jit, static_argnames="game")
def play(
    game: ScotlandYard, keys: Key[Array, " B"], mr_x: MatchAgent, detectives: MatchAgent
) -> MatchResult:
    """Plays B games to their ends; each has the result that it has alone.

    Agents think in all games until the last one has ended; where that is slow, the games of
    `match_batches.compiled_play` have the same results.

    Args:
      game: the rules. Static.
      keys: consumed, one for each game.
      mr_x: the agent who plays Mr X.
      detectives: the agent who plays all detectives.
    """
    match = begin(game, keys, mr_x, detectives)
    return go_on(game, match, mr_x, detectives).result


def begin(
    game: ScotlandYard, keys: Key[Array, " B"], mr_x: MatchAgent, detectives: MatchAgent
) -> Match:
    """B games after the deal; takes the arguments of `play`."""
    states, move_keys, begin_keys = deal_games(game, keys)
    memories = tuple(
        agent.begin(begin_keys[side], states, side=side)
        for side, agent in enumerate((mr_x, detectives))
    )
    return Match(keys=move_keys, states=states, memories=memories, legal=jnp.ones(len(keys), bool))


def deal_games(
    game: ScotlandYard, keys: Key[Array, " B"]
) -> tuple[MatchStates, Key[Array, " B"], tuple[Key[Array, " B"], Key[Array, " B"]]]:
    """B games after the deal, the keys of all their moves, and those of `MatchAgent.begin` for
    either side; `keys` are consumed."""
    deal_keys, move_keys, *begin_keys = jax.vmap(lambda key: tuple(jax.random.split(key, 4)))(keys)
    return jax.vmap(functools.partial(deal, game))(deal_keys), move_keys, tuple(begin_keys)


def go_on(game: ScotlandYard, match: Match, mr_x: MatchAgent, detectives: MatchAgent) -> Match:
    """Plays on until all games have ended; games that have ended stay as they are.

    Args:
      game: the rules. Static.
      match: games that these agents have begun.
      mr_x: the agent who plays Mr X.
      detectives: the agent who plays all detectives.
    """
    agents = mr_x, detectives

    def turn(player, side, match):
        return jax.lax.cond(
            jnp.any(to_move(match.states, player)),
            lambda match: _turn(game, agents, player, side, match),
            lambda match: match,
            match,
        )

    def play_round(match):
        match = turn(jnp.int32(0), MR_X, match)
        return jax.lax.fori_loop(
            1, 1 + game.detectives, lambda d, match: turn(d, DETECTIVES, match), match
        )

    return jax.lax.while_loop(lambda match: jnp.any(match.running), play_round, match)


def after_actions(
    game: ScotlandYard, states: MatchStates, actions: Int[Array, " B"]
) -> MatchStates:
    """The games after an action in each of them."""
    after = jax.vmap(game.step)(states.state, actions)
    possible = jax.vmap(functools.partial(possible_stations.after_action, game))(
        states.possible, states.state, actions, after
    )
    return MatchStates(state=after, possible=possible)


def to_move(states: MatchStates, player: Int[Array, ""]) -> Bool[Array, " B"]:
    """Whether it is a player's turn: Mr X is 0, and the detectives are 1 to D."""
    return (states.state.actor >= 0) & (states.state.board.turn == player)


def think(
    agent: MatchAgent,
    player: Int[Array, ""],
    keys: Key[Array, " B"],
    memory: Memory,
    states: MatchStates,
    *,
    side: int,
) -> tuple[Memory, Int[Array, " B"]]:
    """The memory of a side's agent after its thoughts for one player, and that player's actions.

    Args:
      agent: of the side.
      player: Mr X is 0, and the detectives are 1 to D. Where it is not this player's turn, the
        memory stays as it is and the action is unspecified.
      keys: of all moves of a game; its key with the number of the move is consumed.
      memory: of the games so far.
      states: of the games.
      side: MR_X or DETECTIVES. Static.
    """
    drawn = jax.vmap(jax.random.fold_in)(keys, states.state.num_steps)
    thought, actions = agent.act(drawn, memory, states, side=side)
    return choose_rows(to_move(states, player), thought, memory), actions


def referee(
    game: ScotlandYard, player: Int[Array, ""], states: MatchStates, actions: Int[Array, " B"]
) -> tuple[MatchStates, Bool[Array, " B"], Bool[Array, " B"]]:
    """The games after one player's actions, where it was to move, and whether it kept the rules.

    Args:
      game: the rules. Static.
      player: as in `think`.
      states: of the games.
      actions: in all games; whether one was illegal is only reported.
    """
    acts = to_move(states, player)
    exists = (actions >= 0) & (actions < game.num_actions)
    chosen = jnp.where(exists, actions, 0)[:, None]
    allowed = exists & jnp.take_along_axis(states.state.legal, chosen, axis=1)[:, 0]
    return choose_rows(acts, after_actions(game, states, actions), states), acts, allowed | ~acts


def _turn(game, agents, player, side, match):
    """One player's turn in all games where it is its turn."""
    states, memories = match.states, list(match.memories)
    memories[side], actions = think(
        agents[side], player, match.keys, memories[side], states, side=side
    )
    after, acts, legal = referee(game, player, states, actions)
    memories = tuple(
        agent.observe(memory, states, actions, after, acts)
        for agent, memory in zip(agents, memories, strict=True)
    )
    return match.replace(states=after, memories=memories, legal=match.legal & legal)


def deal(game: ScotlandYard, key: Key[Array, ""]) -> MatchStates:
    """A game after the deal; `key` is consumed."""
    state = game.init()
    for number in range(game.num_deals):
        card = sample_chance(jax.random.fold_in(key, number), state)
        state = game.step(state, card)
    return MatchStates(state=state, possible=possible_stations.first_stations(game, state))
