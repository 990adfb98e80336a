"""Continual re-solving: what a search hands on to the next one (Student of Games, "Modified
continual re-solving"; Burch, Johanson, Bowling 2014 for the gadget).

One chain of searches belongs to one agent, the re-solver of all of them. Of a search it keeps its
own policy, by which its own reach goes on, and the opponent's average counterfactual values, which
are what the opponent may opt out for in the next search. Those values contain the re-solver's own
reach, which therefore is never scaled anew. Where the next state is not in the tree, the next
search starts at its closest ancestor that is.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgames.arrays import at
from jaxgames.beliefs.contract import BeliefGame, PublicState
from solvers.search.growing_tree_cfr import NO_RESOLVER, NO_STEP, Problem, Search, average_policy
from solvers.search.search_tree import LEAF, choose, columns, reach_below, with_columns


def first_problem(game: BeliefGame, *, max_path: int, dtype: str = "float32") -> Problem:
    """The search at the root of the game: no gadget, everything is reached."""
    state = game.root()
    return fixed_problem(state, game.rows(state).astype(dtype), max_path=max_path)


def fixed_problem(state: PublicState, reach: Float[Array, "2 N"], *, max_path: int) -> Problem:
    """The search at a state where both players' own reaches are given: no gadget."""
    return Problem(
        state=state,
        path=jnp.full(max_path, NO_STEP, jnp.int32),
        reach=reach,
        resolver=jnp.int32(NO_RESOLVER),
        opt_out=jnp.zeros_like(reach[0]),
    )


def next_problem(
    game: BeliefGame,
    search: Search,
    played: Float[Array, "2 N"],
    path: Int[Array, " L"],
    *,
    resolver: Int[Array, ""],
    by_policies: bool = False,
) -> tuple[Problem, Float[Array, "2 N"]]:
    """The search after this one, `path` below the state this one acted at.

    `path` are numbers of children, padded with NO_STEP. `played` are the players' own reaches where
    this search acted, by the policies that searches made; those where the next one acts are
    returned too. A `resolver` of NO_RESOLVER makes the next search trust them for both players,
    without a gadget (which is not safe).

    The opponent's range, which the next gadget's is mixed with, is what it was on average in this
    search, the gadget's work included; or, `by_policies`, what this search began with, times the
    opponent's average policies.
    """
    policy = average_policy(search)
    before = _reach_by_policies(game, search) if by_policies else None
    state = at(search.tree.state, search.target)
    node, problem = search.target, None
    for step in range(path.shape[0]):
        there, child = path[step] != NO_STEP, jnp.maximum(path[step], 0)
        played, state = _advance(game, state, played, policy if step == 0 else None, child, there)
        rest = jnp.concatenate([path[step + 1 :], jnp.full(step + 1, NO_STEP, jnp.int32)])
        slot = jnp.maximum(node, 0) * game.num_children + child
        found = _problem_at(game, search, slot, state, rest, played, resolver, before)
        known = there & (node != LEAF)
        problem = found if problem is None else choose(known, found, problem)
        node = jnp.where(known, search.tree.node[slot], LEAF)
    return problem, played


def reach_within(game: BeliefGame, search: Search) -> Float[Array, "2 N"]:
    """Both players' own reaches where a search acted, as they were on average in its tree.

    Those of a re-solver's opponent are the gadget's.
    """
    weight = search.total - search.tree.since[search.target]
    total = columns(search.tree.reach_total, search.target, 1, game.num_rows)
    return total / jnp.where(weight > 0, weight, 1)


def _problem_at(game, search, slot, state, path, played, resolver, before):
    """The problem whose tree starts at a slot of this search's tree; `before` are the reaches of
    its nodes by policies, or None."""
    tree, trusted = search.tree, resolver == NO_RESOLVER
    weight = search.total - tree.since[slot // game.num_children]
    scale = 1 / jnp.where(weight > 0, weight, 1)
    own = jnp.arange(2, dtype=jnp.int32)[:, None] == resolver
    values = columns(tree.slot_total, slot, 1, game.num_rows)
    nodes, share = (tree.reach_total, scale) if before is None else (before, 1)
    return Problem(
        state=state,
        path=path,
        reach=jnp.where(own | trusted, played, share * reach_below(game, tree, slot, nodes)),
        resolver=jnp.asarray(resolver, jnp.int32),
        opt_out=scale * values[1 - jnp.maximum(resolver, 0)],
    )


def _reach_by_policies(game, search):
    """Own reaches of all nodes `[2, E * N]`: those of the problem, times average policies."""
    tree = search.tree
    begin = with_columns(tree.reach, search.problem.reach, 0, game.num_rows)

    def down(e, reach):
        return with_columns(reach, reach_below(game, tree, tree.parent[e], reach), e, game.num_rows)

    return jax.lax.fori_loop(1, tree.count, down, begin)


def _advance(game, state, played, policy, child, there):
    """Both players' own reaches in a child, and the child.

    After the first step only players act whose policies are not kept: their reach goes through
    uncounted.
    """
    chosen = jnp.ones_like(game.legal(state), played.dtype) if policy is None else policy
    reach = game.down(state, child, played, chosen)
    after = at(game.children(state), child)
    return jnp.where(there, reach, played), choose(there, after, state)
