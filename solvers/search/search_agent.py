"""A search agent as a pure state machine: what one player of a game thinks as it goes on.

Modified continual re-solving (Student of Games): an agent is the re-solver in one chain of searches
of its own (see `resolving`). It thinks at the root of the game first, whoever acts there. Then it
hears which public child was entered, and thinks where somebody is to act: at its own decisions and,
to keep up with the opponent's beliefs, at the opponent's. It never learns the opponent's row, and
its own only to pick an action from what it thought for all.

All functions take one agent; agents play side by side under `jax.vmap`. What is long is jitted.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.arrays import at
from jaxgames.beliefs.contract import BeliefGame, Player, PublicState
from jaxgames.core import record
from solvers.search import continual_resolving, growing_tree_cfr, leaf_evaluators
from solvers.search.growing_tree_cfr import NO_STEP, GrowingTreeCfr, Search
from solvers.search.search_tree import choose


@record
class AgentState:
    """What an agent remembers of a game."""

    player: Array  # [] int32 whose agent it is: the re-solver of all its searches
    public: PublicState  # where the game stands
    path: Array  # [L] int32 children from the last searched state to there, then NO_STEP
    search: Search  # the last one; empty before the first
    searched: Array  # [] bool: whether there was one, at the root
    played: Array  # [2, N] own reaches where it acted, by the policies searched before


@functools.partial(jax.jit, static_argnames=("settings", "dtype"))
def init(
    game: BeliefGame, player: Player, *, settings: GrowingTreeCfr, dtype: str = "float32"
) -> AgentState:
    """The agent of `player` at the root of the game; `dtype` is that of the game's tables."""
    problem = continual_resolving.first_problem(game, max_path=settings.max_path, dtype=dtype)
    unlearnt = dataclasses.replace(settings, evaluate=leaf_evaluators.zero)
    return AgentState(
        player=jnp.asarray(player, jnp.int32),
        public=problem.state,
        path=problem.path,
        search=growing_tree_cfr.start(game, None, problem=problem, settings=unlearnt),
        searched=jnp.bool_(False),
        played=problem.reach,
    )


@jax.jit
def observe(game: BeliefGame, state: AgentState, child: Int[Array, ""]) -> AgentState:
    """The agent after public child number `child` was entered.

    Where that cannot be (see `checked_observe`, which says so), the agent stays as it is.
    """
    known = (child >= 0) & (child < game.num_children) & state.searched
    there = known & game.child_mask(state.public)[child]
    steps, room = _steps(state), len(state.path)
    after = state.replace(
        public=at(game.children(state.public), child),
        path=state.path.at[jnp.minimum(steps, room - 1)].set(child),
    )
    return choose(there & (steps < room), after, state)


def checked_observe(game: BeliefGame, state: AgentState, child: int) -> AgentState:
    """`observe` for one agent, from Python.

    Raises:
      ValueError: there is no such child, or the agent has not thought at the root of the game, or
        for longer than its searches can bridge.
    """
    if not state.searched:
        raise ValueError(f"{game.name}: an agent must think at the root of the game first")
    there = np.flatnonzero(game.child_mask(state.public))
    if child not in there:
        children = ", ".join(map(str, there)) or "none, the game is over"
        raise ValueError(f"{game.name}: there is no public child {child} here (there: {children})")
    if int(_steps(state)) == len(state.path):
        raise ValueError(
            f"{game.name}: max_path={len(state.path)} public states were entered since the agent"
            " last thought; it must think before the next"
        )
    return observe(game, state, jnp.int32(child))


@functools.partial(jax.jit, static_argnames="settings")
def think(
    game: BeliefGame,
    params: PyTree,
    key: Key[Array, ""],
    state: AgentState,
    *,
    settings: GrowingTreeCfr,
) -> tuple[AgentState, Float[Array, "A N"]]:
    """Searches where the game stands; the policy there, for every row of the actor.

    Somebody must be to act. Thinking again at the same public state finds the same. `key` is
    consumed, by the search alone: with `fold_in(seed, number of the public state in a listing)`,
    the policy is `exploitability.composed_policy`'s for that seed.
    """
    again = state.searched & (_steps(state) == 0)
    first = continual_resolving.first_problem(
        game, max_path=len(state.path), dtype=state.played.dtype.name
    )
    later = continual_resolving.next_problem(
        game,
        state.search,
        state.played,
        state.path,
        resolver=state.player,
        by_policies=settings.range_by_policies,
    )
    problem, played = choose(state.searched, later, (first, first.reach))
    found = growing_tree_cfr.search(game, params, key, problem=problem, settings=settings)
    found = choose(again, state.search, found)
    after = state.replace(
        path=jnp.full_like(state.path, NO_STEP),
        search=found,
        searched=jnp.bool_(True),
        played=played,
    )
    return after, growing_tree_cfr.average_policy(found)


def act(
    game: BeliefGame,
    params: PyTree,
    key: Key[Array, ""],
    state: AgentState,
    row: Int[Array, ""],
    *,
    settings: GrowingTreeCfr,
) -> tuple[AgentState, Int[Array, ""], Float[Array, " A"]]:
    """Thinks, and draws an action in `row` from the policy there, which is returned too.

    It must be the agent's own decision. `key` is consumed: of its two halves by
    `jax.random.split`, the first thinks and the second draws.
    """
    search_key, move_key = jax.random.split(key)
    after, policy = think(game, params, search_key, state, settings=settings)
    return after, *_draw(move_key, policy, row)


@jax.jit
def _draw(key, policy, row):
    policy = policy[:, row]
    noise = jax.random.gumbel(key, policy.shape, policy.dtype)
    return growing_tree_cfr.sample(noise, policy), policy


def _steps(state):
    """Public states entered since the last search."""
    return jnp.sum(state.path != NO_STEP, dtype=jnp.int32)
