"""A search agent of beliefs as a player of matches in Scotland Yard."""

from __future__ import annotations

import functools

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key, PyTree

from jaxgames.core import record
from jaxgames.scotland_yard.beliefs import ScotlandYardBeliefs
from solvers.scotland_yard.matches import MR_X, MatchAgent, MatchStates
from solvers.search import search_agent
from solvers.search.search_agent import SearchAgentState
from solvers.search.search_state import GrowingTreeCfr

_MOST_SHOWN = 2  # public states that follow a move at which Mr X shows himself


@record
class SearchMatchAgent(MatchAgent):
    """Student of Games, which searches at its own decisions only.

    `room_for_paths` says how long the paths of its searches must be.
    """

    beliefs: ScotlandYardBeliefs
    params: PyTree  # of the evaluator in the settings
    settings: GrowingTreeCfr = flax.struct.field(pytree_node=False)
    threshold: float = flax.struct.field(pytree_node=False, default=0.0)  # of `search_agent.act`

    def begin(self, keys: Key[Array, " B"], states: MatchStates, *, side: int) -> SearchAgentState:
        """The states of agents at the roots of games; the detectives' first search is there."""
        roots = jax.vmap(self.beliefs.root_of)(states.state.board.detectives)
        start = functools.partial(
            search_agent.init, self.beliefs, jnp.int32(side), settings=self.settings
        )
        memory = jax.vmap(lambda root: start(root=root))(roots)
        if side == MR_X:
            return memory
        return jax.vmap(self._think)(keys, memory)[0]

    def act(
        self,
        keys: Key[Array, " B"],
        memory: SearchAgentState,
        states: MatchStates,
        *,
        side: int,
    ) -> tuple[SearchAgentState, Int[Array, " B"]]:
        rows = jnp.where(side == MR_X, states.state.mr_x, 0)
        act = functools.partial(
            search_agent.act,
            self.beliefs,
            self.params,
            settings=self.settings,
            threshold=self.threshold,
        )
        memory, actions, _ = jax.vmap(act)(keys, memory, rows)
        return memory, actions

    def observe(
        self,
        memory: SearchAgentState,
        states: MatchStates,
        actions: Int[Array, " B"],
        after: MatchStates,
        acted: Bool[Array, " B"],
    ) -> SearchAgentState:
        return jax.vmap(functools.partial(_observe, self.beliefs))(
            memory, states.state.mr_x, actions, acted
        )

    def _think(self, key, memory):
        return search_agent.think(self.beliefs, self.params, key, memory, settings=self.settings)


def room_for_paths(beliefs: ScotlandYardBeliefs) -> int:
    """The most public states from one own decision to the next: all detectives' moves, or a double
    move of Mr X, who may show himself after both."""
    his = 1 + _MOST_SHOWN
    return max(his + beliefs.game.detectives, 1 + 1 + 2 * his)


def _observe(beliefs, memory, mr_x, action, acted):
    """The agent's state after an action, and after Mr X has shown himself where he does."""

    def step_on(step, carry):
        memory, pair = carry
        moves = acted & ((step == 0) | (memory.public.showing > 0))
        pairs = beliefs.follow(memory.public, pair, action)
        possible = jnp.all(pairs >= 0, axis=1)
        child = jnp.argmax(possible).astype(jnp.int32)
        memory = search_agent.observe(beliefs, memory, jnp.where(moves, child, -1))
        return memory, jnp.where(moves, pairs[child], pair)

    begin = memory, jnp.stack([mr_x, jnp.int32(0)])
    return jax.lax.fori_loop(0, 1 + _MOST_SHOWN, step_on, begin)[0]
