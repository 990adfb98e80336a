"""Continual re-solving: the problem of each search, from the search before it.

After Schmid et al. 2023 ("Modified continual re-solving"), with the gadget of Burch, Johanson and
Bowling (2014).

A chain of searches belongs to one agent, the re-solver of all of them. It keeps two things of a
search: its own policy, which determines its own reach in the next problem, and the opponent's
average counterfactual values, for which the opponent may opt out of the next problem. These values
contain the re-solver's own reach, so both are rescaled together: a product of a hundred
probabilities would leave the range of float32. If the next state is not in the tree, or no
iteration has seen its parent, the next search starts at the closest ancestor where both hold.

An opponent with one row in all public states, such as the detectives in Scotland Yard, either plays
to a state or does not: its range there has no other meaning, and the gadget no effect. Then nothing
of the search before counts but the re-solver's own reach, and the next search starts where it acts.
So it does not matter whether the agent searches at the opponent's decisions, too. On a path to
there from an ancestor, the opponent's policy in the tree could avoid the state that was played to,
so that the search would not learn what to do there.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from jaxgames.arrays import at, choose
from jaxgames.beliefs.contract import BeliefGame, PublicState, Reach
from solvers.batching import widest
from solvers.search.lazy_search import end_of_path
from solvers.search.readouts import average_policy
from solvers.search.search_state import NO_RESOLVER, NO_STEP, Problem, Search
from solvers.search.search_tree import LEAF, LazyTree, SearchTree


def first_problem(
    game: BeliefGame,
    *,
    max_path: int,
    dtype: str = "float32",
    root: PublicState | None = None,
) -> Problem:
    """The problem at the root of the game, where every row has reach 1 and there is no gadget.

    Args:
      game: any belief-level game.
      max_path: L, the room for paths in later problems: that of `GrowingTreeCfr`.
      dtype: of reaches.
      root: a root of the game; None: `game.root()`.

    Returns:
      The problem.
    """
    state = game.root() if root is None else root
    first, second = (jnp.asarray(rows, dtype) for rows in game.rows(state))
    return fixed_problem(state, (first, second), max_path=max_path)


def fixed_problem(state: PublicState, reach: Reach, *, max_path: int) -> Problem:
    """The problem at a state where both players' own reaches are given, without a gadget.

    Args:
      state: where the search starts and acts.
      reach: own reaches of both players there.
      max_path: L, the room for paths.

    Returns:
      The problem.
    """
    return Problem(
        state=state,
        path=jnp.full(max_path, NO_STEP, jnp.int32),
        reach=reach,
        resolver=jnp.int32(NO_RESOLVER),
        opt_out=jax.tree.map(jnp.zeros_like, reach),
    )


def next_problem(
    game: BeliefGame,
    search: Search,
    played: Reach,
    path: Int[Array, " L"],
    *,
    resolver: Int[Array, ""],
    by_policies: bool = False,
) -> tuple[Problem, Reach]:
    """The problem of the search after this one.

    Args:
      game: of the searches.
      search: a finished search.
      played: both players' own reaches at its target, by the policies that were played.
      path: numbers of the children `[L]` from its target to where the next search acts, padded
        with NO_STEP.
      resolver: the player whose policy is re-solved. With NO_RESOLVER the next search has no gadget
        and trusts `played` for both players, which is not safe.
      by_policies: take the opponent's range, which is mixed with the gadget's in the next search,
        from the reaches of this problem times the opponent's average policies. By default it is the
        opponent's average reach in this search, which the gadget influenced.

    Returns:
      The problem, and both players' own reaches where the next search acts, scaled to be from 1 to
      2 in the likeliest row (with a resolver, the opponent's are as they were). Actions that this
      search did not choose do not reduce them.
    """
    if isinstance(search.tree, LazyTree):
        # With perfect information nothing of the search before counts, and both reaches are 1.
        state = end_of_path(game, at(search.tree.state, search.target), path)
        ones = jax.tree.map(jnp.ones_like, search.reach)
        return _afresh(state, ones, resolver, max_path=len(path)), ones
    policy = average_policy(search)
    before = _reach_by_policies(game, search) if by_policies else None
    length = path.shape[0]

    def go_on(step, carry):
        state, played, node, problem = carry
        on_path, child = path[step] != NO_STEP, jnp.maximum(path[step], 0)
        # only the first action is this search's; later ones count as certain
        by = jax.tree.map(lambda own: jnp.where(step == 0, own, jnp.ones_like(own)), policy)
        played, state = _advance(game, state, played, by, child, on_path)
        rest = jnp.where(jnp.arange(length) < length - 1 - step, jnp.roll(path, -1 - step), NO_STEP)
        above = jnp.maximum(node, 0)
        deeper = _problem_at(game, search, above, child, state, rest, played, resolver, before)
        # a node of the last simulations has seen no iteration: nothing is known of what is below
        seen = search.total > search.tree.since[above]
        known = on_path & (node != LEAF) & seen
        problem = choose(known | (step == 0), deeper, problem)
        return state, played, jnp.where(known, search.tree.node_below(above, child), LEAF), problem

    state = at(search.tree.state, search.target)
    begin = state, played, search.target, fixed_problem(state, played, max_path=length)
    # a loop: the program is as long for any length of the path
    state, played, _, problem = jax.lax.fori_loop(0, length, go_on, begin)
    for player in range(2):
        if game.num_rows[1 - player] == 1:
            # the opponent has one row, so a new problem at this state says as much as the old tree
            reach = [jnp.ones_like(own) for own in played]
            reach[player] = played[player]
            here = _afresh(state, tuple(reach), resolver, max_path=length)
            problem = choose(resolver == player, here, problem)
    return _rescaled(problem, played, resolver)


def _afresh(state, reach, resolver, *, max_path):
    """The problem of a search that starts where it acts, whatever the search before has found."""
    problem = fixed_problem(state, reach, max_path=max_path)
    return problem.replace(resolver=jnp.asarray(resolver, jnp.int32))


def _rescaled(problem, played, resolver):
    """The problem and `played` with the re-solver's own reach, or both of trusted players, times a
    power of two, and the opponent's values with it. No other bit changes."""
    shifts = [_shift_to_one(own) for own in played]
    ours = [(resolver == p) | (resolver == NO_RESOLVER) for p in range(2)]
    scaled = lambda x, p: jnp.where(ours[p], jnp.ldexp(x, shifts[p]), x)  # noqa: E731
    reach, opt_out = problem.reach, problem.opt_out
    problem = problem.replace(
        reach=(scaled(reach[0], 0), scaled(reach[1], 1)),
        opt_out=(scaled(opt_out[0], 1), scaled(opt_out[1], 0)),
    )
    return problem, (scaled(played[0], 0), scaled(played[1], 1))


def _shift_to_one(reach):
    """The exponent of the power of two that brings the largest entry to 1 or between 1 and 2."""
    largest = jnp.max(reach)
    return jnp.where(largest > 0, 1 - jnp.frexp(largest)[1], 0)


def _problem_at(game, search, node, child, state, path, played, resolver, before):
    """The problem whose root is a child of a node of this search's tree.

    `before` are the reaches of the tree's nodes by policies, or None.
    """
    tree, trusted = search.tree, resolver == NO_RESOLVER
    weight = search.total - tree.since[node]
    scale = 1 / jnp.where(weight > 0, weight, 1)
    nodes, share = (tree.reach_total, scale) if before is None else (before, 1)
    below = _reach_below(game, tree, node, child, nodes)
    return Problem(
        state=state,
        path=path,
        reach=tuple(
            jnp.where((p == resolver) | trusted, played[p], share * below[p]) for p in range(2)
        ),
        resolver=jnp.asarray(resolver, jnp.int32),
        opt_out=tuple(scale * values for values in tree.values_below(node, child)),
    )


def _reach_below(game, tree: SearchTree, node, child, reach):
    """Both players' own reaches in a child, by the average policies."""
    return game.down(at(tree.state, node), child, at(reach, node), tree.policy_at(node))


def _reach_by_policies(game, search):
    """Own reaches `[E, N]` of all nodes: those of the problem times average policies."""
    tree = search.tree
    put = lambda e, table, new: jax.tree.map(lambda x, y: x.at[e].set(y), table, new)  # noqa: E731
    begin = put(0, jax.tree.map(jnp.zeros_like, tree.reach_total), search.problem.reach)

    def down(e, reach):
        return put(e, reach, _reach_below(game, tree, tree.parent[e], tree.child[e], reach))

    return jax.lax.fori_loop(1, widest(tree.count), down, begin)


def _advance(game, state, played, policy, child, on_path):
    """Both players' own reaches in a child, and the child; no change unless `on_path`."""
    reach = game.down(state, child, played, policy)
    after = game.child(state, child)
    return choose(on_path, reach, played), choose(on_path, after, state)
