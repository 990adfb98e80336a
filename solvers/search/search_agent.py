"""A search agent as a pure state machine, by continual re-solving (Schmid et al. 2023).

An agent is the re-solver in a chain of searches of its own (see `continual_resolving`). Its first
search is at the root of the game, whoever acts there. Then it observes each public child that play
comes to, and searches wherever a player acts: at its own decisions and, to follow the opponent's
beliefs, also at the opponent's. It never learns the opponent's row. It uses its own row only to
draw an action from the policy that it computed for all rows.

All functions take one agent; `jax.vmap` runs agents side by side. The long ones are jitted.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.arrays import choose
from jaxgames.beliefs.contract import BeliefGame, Policy, PublicState
from jaxgames.core import CHANCE, TERMINAL, record
from solvers.search import (
    continual_resolving,
    expansion_phase,
    growing_tree_cfr,
    readouts,
)
from solvers.search.search_state import NO_STEP, GrowingTreeCfr, Search


@record
class SearchAgentState:
    """What an agent remembers during a game."""

    player: Array  # [] int32 the agent's seat: the re-solver of all its searches
    public: PublicState  # the present public state
    path: Array  # [L] int32 children from the last searched state to the present one, then NO_STEP
    search: Search  # the last search; empty before the first
    searched: Array  # [] bool whether there was a search, at the root
    # [N] own reaches of both players at the last searched state, by the policies of searches
    played: tuple[Array, Array]


@functools.partial(jax.jit, static_argnames=("settings", "dtype"))
def init(
    game: BeliefGame,
    player: Int[Array, ""] | int,
    *,
    settings: GrowingTreeCfr,
    dtype: str = "float32",
    root: PublicState | None = None,
) -> SearchAgentState:
    """An agent at the root of the game.

    Args:
      game: any belief-level game.
      player: the agent's seat, 0 or 1.
      settings: of its searches. Static.
      dtype: of the game's reaches and values. Static.
      root: a root of the game; None: `game.root()`.

    Returns:
      The agent, which has to `think` first.
    """
    sizes = dict(max_path=settings.max_path, dtype=dtype)
    problem = continual_resolving.first_problem(game, root=root, **sizes)
    return SearchAgentState(
        player=jnp.asarray(player, jnp.int32),
        public=problem.state,
        path=problem.path,
        search=growing_tree_cfr.begin(game, problem=problem, settings=_without_log(settings)),
        searched=jnp.bool_(False),
        played=problem.reach,
    )


@jax.jit
def observe(game: BeliefGame, state: SearchAgentState, child: Int[Array, ""]) -> SearchAgentState:
    """The agent after play came to a public child.

    Args:
      game: any belief-level game.
      state: of the agent.
      child: the number of the child.

    Returns:
      The agent there. If there is no such child, or the agent cannot observe it (see
      `checked_observe`, which raises an error), the agent as it was.
    """
    known = (child >= 0) & (child < game.num_children) & state.searched
    exists = known & game.child_mask(state.public)[child]
    steps, room = _steps(state), len(state.path)
    after = state.replace(
        public=game.child(state.public, jnp.clip(child, 0, game.num_children - 1)),
        path=state.path.at[jnp.minimum(steps, room - 1)].set(child),
    )
    return choose(exists & (steps < room), after, state)


def checked_observe(game: BeliefGame, state: SearchAgentState, child: int) -> SearchAgentState:
    """`observe` for one agent outside of `jit`, with errors for what cannot be.

    Raises:
      ValueError: there is no such child, or the agent has not thought at the root of the game, or
        more public states were entered since it last thought than its paths have room for.
    """
    if not state.searched:
        raise ValueError(f"{game.name}: an agent must think at the root of the game first")
    allowed = np.flatnonzero(game.child_mask(state.public))
    if child not in allowed:
        children = ", ".join(map(str, allowed)) or "none, the game is over"
        raise ValueError(f"{game.name}: child={child} does not exist here; allowed: {children}")
    if int(_steps(state)) == len(state.path):
        raise ValueError(
            f"{game.name}: max_path={len(state.path)} public states were entered since the agent"
            " last thought; it must think before the next"
        )
    return observe(game, state, jnp.int32(child))


def check_decision(game: BeliefGame, state: SearchAgentState, row: int) -> None:
    """Refuses, outside of `jit`, what `act` cannot play.

    Args:
      game: any belief-level game.
      state: of one agent.
      row: the agent's own information state.

    Raises:
      ValueError: another player acts, or nobody, or there is no such information state here.
    """
    actor, player = int(game.actor(state.public)), int(state.player)
    if actor != player:
        who = {CHANCE: "chance acts", TERMINAL: "the game is over"}.get(
            actor, f"player {actor} acts"
        )
        raise ValueError(f"{game.name}: player {player} cannot act, {who}; allowed: observe")
    allowed = np.flatnonzero(game.rows(state.public)[player])
    if row not in allowed:
        rows = ", ".join(map(str, allowed))
        raise ValueError(f"{game.name}: row={row} does not exist here; allowed: {rows}")


@functools.partial(jax.jit, static_argnames="settings")
def think(
    game: BeliefGame,
    params: PyTree,
    key: Key[Array, ""],
    state: SearchAgentState,
    *,
    settings: GrowingTreeCfr,
) -> tuple[SearchAgentState, Policy]:
    """Searches at the present public state, at which a player must act.

    Args:
      game: any belief-level game.
      params: of the evaluator.
      key: consumed by the search. With `fold_in(seed, number of the public state in a listing)`
        the policy is that of `agent_exploitability.composed_policy` for that seed.
      state: of the agent.
      settings: of the search. Static.

    Returns:
      The agent after the search, and the policies in every row, 0 for who does not act. Thinking
      again at the same public state gives the same.
    """
    again = state.searched & (_steps(state) == 0)
    first = continual_resolving.first_problem(
        game, max_path=len(state.path), dtype=state.played[0].dtype.name, root=state.public
    )
    later = continual_resolving.next_problem(
        game,
        state.search,
        state.played,
        state.path,
        resolver=state.player,
        by_policies=settings.range_by_policies,
    )
    # to think again makes a search that is not used: of a problem that the game has in any case
    problem, played = choose(state.searched & ~again, later, (first, first.reach))
    search = growing_tree_cfr.search(
        game, params, key, problem=problem, settings=_without_log(settings)
    )
    search = choose(again, state.search, search)
    after = state.replace(
        path=jnp.full_like(state.path, NO_STEP),
        search=search,
        searched=jnp.bool_(True),
        played=choose(again, state.played, played),
    )
    return after, readouts.average_policy(search)


def act(
    game: BeliefGame,
    params: PyTree,
    key: Key[Array, ""],
    state: SearchAgentState,
    row: Int[Array, ""],
    *,
    settings: GrowingTreeCfr,
    threshold: float = 0.0,
) -> tuple[SearchAgentState, Int[Array, ""], Float[Array, " A"]]:
    """Thinks at the agent's own decision and draws an action.

    Args:
      game: any belief-level game.
      params: of the evaluator.
      key: consumed; the first of its two halves by `jax.random.split` is for thinking.
      state: of the agent.
      row: the agent's own information state.
      settings: of the search. Static.
      threshold: actions that the search's policy plays with less than this are not drawn
        (`readouts.without_rare`), which is not Student of Games. Beliefs are by the policy as it
        is. From 0 to 1. Static.

    Returns:
      The agent, the action, and the policy `[A]` that it was drawn from, with as many actions as
      the player who has more.

    Raises:
      ValueError: the threshold is below 0 or above 1.
    """
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold={threshold} must be from 0 to 1")
    search_key, move_key = jax.random.split(key)
    after, policy = think(game, params, search_key, state, settings=settings)
    return after, *_draw(move_key, policy, state.player, row, threshold)


@functools.partial(jax.jit, static_argnames="threshold")
def _draw(key, policy, player, row, threshold):
    policy = readouts.without_rare(readouts.policy_in_row(policy, player, row), threshold)
    return expansion_phase.draw_index(policy, jax.random.uniform(key, (), policy.dtype)), policy


def _without_log(settings):
    """The settings without a log of queries, which an agent does not read."""
    return dataclasses.replace(settings, logged_queries=0)


def _steps(state):
    """The number of public states that play came to since the last search."""
    return jnp.sum(state.path != NO_STEP, dtype=jnp.int32)
