"""Growing-tree CFR (Student of Games, "Growing-tree CFR"; Schmid et al. 2023).

A search alternates between CFR on the public tree it has, with leaves valued by an evaluator at
the beliefs of the current policies, and simulations that walk down from the state it searches at
and add a leaf's children to the tree. Everything here is one search, pure and unbatched; searches
run side by side under `jax.vmap`, which leaves the loops over nodes as they are.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.core import CHANCE, TERMINAL, record
from jaxgames.public_game import PublicGame, PublicState
from solvers.regret import RegretMatchingPlus, RegretMinimizer
from solvers.search.search_tree import LEAF, SearchTree, expand, new_tree, uniform
from solvers.sparse_sum import materialize

# evaluate(params, game, state, reach [2, N]) -> counterfactual values [2, N], prior [A, N]
Evaluator = Callable[
    [PyTree, PublicGame, PublicState, Float[Array, "2 N"]],
    tuple[Float[Array, "2 N"], Float[Array, "A N"]],
]
NO_RESOLVER = -1  # searches from the root of the game have no gadget
NO_STEP = -1  # padding of a path


@dataclasses.dataclass(frozen=True)
class GrowingTreeCfr:
    """How to search: the paper's SoG(s, c) is `GrowingTreeCfr(evaluate, simulations=s, pace=c)`."""

    evaluate: Evaluator
    simulations: int  # s
    pace: float = 1.0  # c simulations per iteration of CFR
    exploration: float = 1.0  # of PUCT
    cfr_share: float = 0.5  # of simulations' actions from CFR's average policy, the rest from PUCT
    follow_share: float = 0.5  # alpha: of the gadget's in the opponent's range, the rest as before
    minimizer: RegretMinimizer = dataclasses.field(default_factory=RegretMatchingPlus)
    averaging_power: float = 1.0  # iteration t counts t**power
    max_path: int = 4  # public states between a re-solved state and the one searched at
    max_nodes: int | None = None  # that the tree may have: no more than the game has to expand

    def __post_init__(self):
        if self.simulations < 1:
            raise ValueError(f"simulations={self.simulations} must be at least 1")
        if not 0 < self.pace < math.inf:
            raise ValueError(f"pace={self.pace} must be positive and finite")
        if self.max_nodes is not None and self.max_nodes <= self.max_path:
            raise ValueError(f"max_nodes={self.max_nodes} must be over max_path={self.max_path}")
        for name in ("cfr_share", "follow_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)} must be from 0 to 1")

    @property
    def iterations_per_phase(self) -> int:
        """Iterations of CFR between expansions."""
        return math.ceil(1 / self.pace)

    @property
    def expansions_per_phase(self) -> int:
        """Simulations between iterations of CFR."""
        return math.ceil(self.pace)

    @property
    def capacity(self) -> int:
        """Nodes that a search can need; memory grows with it."""
        needed = 1 + self.max_path + self.simulations
        return needed if self.max_nodes is None else min(needed, self.max_nodes)


@record
class Problem:
    """What a search is asked; see `resolving` for where the numbers come from."""

    state: PublicState  # where the tree starts
    path: Array  # [L] int32 children from there to where the search acts, then NO_STEP
    reach: Array  # [2, N] own reaches at `state`; the opponent's as the search before had it
    resolver: Array  # [] int32 whose policy is re-solved, or NO_RESOLVER
    opt_out: Array  # [N] what the opponent's rows can get without entering the subgame


@record
class Gadget:
    """The opponent's choice to follow into the subgame or to terminate; see `resolving`."""

    regret: Array  # [2, N] of following, of terminating
    follow: Array  # [N] probability


@record
class Search:
    """A search in progress or done."""

    problem: Problem
    tree: SearchTree
    gadget: Gadget
    target: Array  # [] int32 the node that the search acts at
    iterations: Array  # [] int32
    root_values: Array  # [2, N] weighted sum of the values of the root, like those of slots


def search(
    game: PublicGame,
    params: PyTree,
    key: Key[Array, ""],
    *,
    problem: Problem,
    settings: GrowingTreeCfr,
) -> Search:
    """Searches with `settings`; `key` is consumed.

    Raises:
      ValueError: `problem.path` is longer than `settings.max_path`.
    """
    state = start(game, params, problem=problem, settings=settings)
    phases = settings.simulations // settings.expansions_per_phase
    grown = 1 + problem.path.shape[0]  # nodes before the first simulation, at most

    def phase(i, state):
        bound = jnp.minimum(grown + i * settings.expansions_per_phase, settings.capacity)
        state = jax.lax.fori_loop(
            0,
            settings.iterations_per_phase,
            lambda _, state: iterate(game, params, state, settings=settings, bound=bound),
            state,
        )
        for j in range(settings.expansions_per_phase):
            number = i * settings.expansions_per_phase + j
            noise = jax.random.fold_in(key, number)
            state = simulate(game, params, noise, state, settings=settings)
        return state

    return jax.lax.fori_loop(0, phases, phase, state)


def start(
    game: PublicGame, params: PyTree, *, problem: Problem, settings: GrowingTreeCfr
) -> Search:
    """The search before its first iteration: the path to where it acts, and leaves beside it."""
    length = problem.path.shape[0]
    if length > settings.max_path:
        raise ValueError(f"path has {length} steps, more than max_path={settings.max_path}")
    dtype = problem.reach.dtype
    tree = new_tree(game, problem.state, capacity=settings.capacity, dtype=dtype)
    for step in range(length):
        slot = step * game.num_children + jnp.maximum(problem.path[step], 0)
        there = problem.path[step] != NO_STEP
        tree = expand(game, tree, slot, jnp.zeros_like(tree.prior[0]), there)
    target = tree.count - 1
    _, prior = settings.evaluate(params, game, _at(tree.state, target), problem.reach)
    return Search(
        problem=problem,
        tree=tree.replace(prior=tree.prior.at[target].set(prior)),
        gadget=Gadget(
            regret=jnp.zeros((2, game.num_rows), dtype),
            follow=jnp.full(game.num_rows, 0.5, dtype),
        ),
        target=target,
        iterations=jnp.int32(0),
        root_values=jnp.zeros_like(problem.reach),
    )


def average_policy(game: PublicGame, state: Search) -> Float[Array, "A N"]:
    """What the search found for the actor at the state it acts at."""
    return node_policy(game, state.tree, state.target)


def average_values(state: Search) -> Float[Array, "2 N"]:
    """Both players' average counterfactual values at the root of the tree."""
    weight = state.tree.slot_weight[0]  # the root is there from the first iteration on
    return state.root_values / jnp.where(weight > 0, weight, 1)


def node_policy(game: PublicGame, tree: SearchTree, node: Int[Array, ""]) -> Float[Array, "A N"]:
    """The average policy at a node; where its actor never was, the present one."""
    total = jnp.sum(tree.average[node], axis=0)
    present = tree.minimizer.policy[node]
    return jnp.where(
        (total > 0)[None], tree.average[node] / jnp.where(total > 0, total, 1)[None], present
    )


def iterate(
    game: PublicGame,
    params: PyTree,
    state: Search,
    *,
    settings: GrowingTreeCfr,
    bound: Int[Array, ""] | int,
) -> Search:
    """One iteration of CFR, simultaneous; at most `bound` nodes are in use."""
    tree, step = state.tree, state.iterations + 1
    weight = step.astype(tree.average.dtype) ** settings.averaging_power
    root = root_reach(game, state, settings=settings)
    one = jnp.minimum(tree.count, 1)  # unknown to the compiler
    once = functools.partial(materialize, one=one)
    leaf_values = jnp.zeros_like(tree.slot_values)
    slots = jnp.zeros_like(tree.slot_reach)

    def down(e, carry):
        reaches, slots, leaf_values = carry
        above = once(slots.reshape(-1, *slots.shape[2:])[tree.parent[e]])
        reach = jnp.where(e == 0, root, above)
        policy = tree.minimizer.policy[e]
        below = once(reach_below(game, _at(tree.state, e), reach, policy))
        values = _leaf_values(game, params, _at(tree.children, e), below, settings.evaluate)
        return reaches.at[e].set(reach), slots.at[e].set(below), leaf_values.at[e].set(values)

    reaches, slots, leaf_values = jax.lax.fori_loop(
        0, bound, down, (tree.reach, slots, leaf_values)
    )
    tree = tree.replace(reach=reaches)
    before = tree.minimizer  # read from here while the new one is written: no copies in the loop

    def up(i, carry):
        tree, values = carry
        e = bound - 1 - i
        child = tree.node[e]
        expanded = (child != LEAF)[:, None, None]
        below = once(jnp.where(expanded, values[jnp.maximum(child, 0)], leaf_values[e]))
        memory = _at(before, e)
        here, actions = map(once, values_above(game, _at(tree.state, e), below, memory.policy))
        used = jnp.where(e < tree.count, weight, 0)  # nothing may be learnt at nodes to come
        slot = below, slots[e]
        tree = _learn(game, tree, e, memory, slot, here, actions, used, settings.minimizer, step)
        return tree, values.at[e].set(here)

    tree, values = jax.lax.fori_loop(0, bound, up, (tree, jnp.zeros_like(tree.reach)))
    gadget = _answer(game, state, values[0], settings)
    return state.replace(
        tree=tree,
        gadget=gadget,
        iterations=step,
        root_values=state.root_values + weight * values[0],
    )


def root_reach(game: PublicGame, state: Search, *, settings: GrowingTreeCfr) -> Float[Array, "2 N"]:
    """Own reaches at the root: in a re-solved subgame the opponent's is what the gadget follows
    with, mixed with what the search before had, both to one sum."""
    problem = state.problem
    opponent = 1 - jnp.maximum(problem.resolver, 0)
    before = _normalised(problem.reach[opponent])
    rows = game.rows(problem.state)[opponent]
    follow = jnp.where(rows, state.gadget.follow, 0)
    share = jnp.where(jnp.sum(follow) > 0, settings.follow_share, 0).astype(before.dtype)
    mixed = share * _normalised(follow) + (1 - share) * before
    resolved = problem.reach.at[opponent].set(mixed)
    return jnp.where(problem.resolver == NO_RESOLVER, problem.reach, resolved)


def _normalised(reach):
    total = jnp.sum(reach)
    return reach / jnp.where(total > 0, total, 1)


def _answer(game, state, values, settings):
    """Regret matching+ of the opponent's choice between following and terminating."""
    gadget, problem = state.gadget, state.problem
    opponent = 1 - jnp.maximum(problem.resolver, 0)
    options = jnp.stack([values[opponent], problem.opt_out])
    value = gadget.follow * options[0] + (1 - gadget.follow) * options[1]
    regret = jnp.maximum(gadget.regret + options - value[None], 0)
    total = jnp.sum(regret, axis=0)
    follow = jnp.where(total > 0, regret[0] / jnp.where(total > 0, total, 1), 0.5)
    return Gadget(regret=regret, follow=follow.astype(value.dtype))


def _at(states, index):
    return jax.tree.map(lambda x: x[index], states)


def reach_below(
    game: PublicGame,
    state: PublicState,
    reach: Float[Array, "2 N"],
    policy: Float[Array, "A N"],
) -> Float[Array, "K 2 N"]:
    """Own reaches in the children of a public state whose actor plays `policy`."""
    actor = game.actor(state)
    acted = game.act_down(state, reach[jnp.maximum(actor, 0)][:, None] * policy.T)
    both = [jnp.where(actor == p, acted, game.see_down(state, p, reach[p])) for p in range(2)]
    there = game.child_mask(state)[:, None, None]
    return jnp.where(there, jnp.stack(both, axis=1), 0)


def _leaf_values(game, params, children, reach, evaluate):
    """Values `[K, 2, N]` of a node's children as if they were leaves."""

    def one(state, reach):
        guess, _ = evaluate(params, game, state, reach)
        final = jnp.stack([game.terminal_values(state, p, reach[1 - p]) for p in range(2)])
        return jnp.where(game.actor(state) == TERMINAL, final, guess)

    return jax.vmap(one)(children, reach)


def values_above(
    game: PublicGame,
    state: PublicState,
    below: Float[Array, "K 2 N"],
    policy: Float[Array, "A N"],
) -> tuple[Float[Array, "2 N"], Float[Array, "A N"]]:
    """Values of both players, and of the actor's actions, from those in the children."""
    actor = game.actor(state)
    below = jnp.where(game.child_mask(state)[:, None, None], below, 0)
    actions = game.act_up(state, jnp.where(actor == 1, below[:, 1], below[:, 0])).T
    own = jnp.sum(policy * actions, axis=0)
    both = [jnp.where(actor == p, own, game.see_up(state, p, below[:, p])) for p in range(2)]
    return jnp.stack(both), actions


def _learn(game, tree, e, memory, slot, values, actions, weight, minimizer, step):
    """A node after an iteration: regrets, policy, averages. `slot`: its slots' values and reach."""
    state = _at(tree.state, e)
    actor = jnp.maximum(game.actor(state), 0)
    legal, dtype = game.legal(state).T, tree.average.dtype
    instant = jnp.where(legal, actions - values[actor][None], 0)
    after = minimizer.update(memory, instant, uniform(game, state, dtype), step.astype(dtype))
    own = tree.reach[e, actor][None] * memory.policy
    return tree.replace(
        minimizer=jax.tree.map(lambda x, new: x.at[e].set(new), tree.minimizer, after),
        average=tree.average.at[e].add(weight * own),
        action_values=tree.action_values.at[e].set(actions),
        slot_values=tree.slot_values.at[e].add(weight * slot[0]),
        slot_reach=tree.slot_reach.at[e].add(weight * slot[1]),
        slot_weight=tree.slot_weight.at[e].add(weight),
    )


@record
class _Walk:
    node: Array  # [] int32
    pair: Array  # [2] int32 rows of both players
    steps: Array  # [] int32
    visited: Array  # [D, 3] int32 node, action, row
    slot: Array  # [] int32 where the walk left the tree, or LEAF


def simulate(
    game: PublicGame,
    params: PyTree,
    key: Key[Array, ""],
    state: Search,
    *,
    settings: GrowingTreeCfr,
) -> Search:
    """One simulation: a walk from the searched state to a leaf, which then joins the tree."""
    tree = state.tree
    pair_key, walk_key = jax.random.split(key)
    here = _at(tree.state, state.target)
    # drawn at once: on CPU a draw costs as much as several steps
    length, options = game.max_depth + 1, game.num_actions + game.num_children
    noise = jax.random.gumbel(walk_key, (length, options), tree.reach.dtype)
    walk = _Walk(
        node=state.target,
        pair=sample_pair(game, pair_key, here, tree.reach[state.target]),
        steps=jnp.int32(0),
        visited=jnp.full((length, 3), LEAF, jnp.int32),
        slot=jnp.int32(LEAF),
    )
    walk = jax.lax.while_loop(
        lambda walk: walk.slot == LEAF,
        lambda walk: _step(game, noise[walk.steps], tree, walk, settings),
        walk,
    )
    leaf = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[walk.slot], tree.children)
    reach = tree.slot_reach.reshape(-1, *tree.slot_reach.shape[2:])[walk.slot]
    _, prior = settings.evaluate(params, game, leaf, reach)
    node, action, row = walk.visited.T
    acted = jnp.where(action >= 0, 1, 0).astype(tree.visits.dtype)
    visits = tree.visits.at[jnp.maximum(node, 0), jnp.maximum(action, 0), row].add(acted)
    grows = game.actor(leaf) != TERMINAL
    return state.replace(tree=expand(game, tree.replace(visits=visits), walk.slot, prior, grows))


def _step(game, noise, tree, walk, settings):
    """One more step of a walk; leaves the tree where a slot has no node."""
    state = _at(tree.state, walk.node)
    actor = game.actor(state)
    row = walk.pair[jnp.maximum(actor, 0)]
    action = sample(
        noise[: game.num_actions], _selection(game, tree, state, walk.node, row, settings)
    )
    pairs = game.follow(state, walk.pair, action)
    possible = game.child_mask(state) & jnp.all(pairs >= 0, axis=1)
    weights = jax.vmap(game.weight)(_at(tree.children, walk.node), jnp.maximum(pairs, 0))
    child = sample(noise[game.num_actions :], jnp.where(possible, weights, 0))
    below = tree.node[walk.node, child]
    visit = jnp.where(actor == CHANCE, LEAF, jnp.stack([walk.node, action, row]))
    return _Walk(
        node=jnp.maximum(below, 0),
        pair=pairs[child],
        steps=walk.steps + 1,
        visited=walk.visited.at[walk.steps].set(visit),
        slot=jnp.where(below == LEAF, walk.node * game.num_children + child, LEAF),
    )


def _selection(game, tree, state, node, row, settings):
    """What a simulation plays in a row: half PUCT, half CFR's average policy, `[A]`."""
    actor = jnp.maximum(game.actor(state), 0)
    legal = game.legal(state)[row]
    mass = game.compatible(state, actor, tree.reach[node, 1 - actor])[row]
    values = tree.action_values[node, :, row] / jnp.where(mass > 0, mass, 1)
    visits = tree.visits[node, :, row]
    bonus = tree.prior[node, :, row] * jnp.sqrt(jnp.sum(visits)) / (1 + visits)
    score = jnp.where(legal, values + settings.exploration * bonus, -jnp.inf)
    puct = jax.nn.one_hot(jnp.argmax(score), len(score), dtype=values.dtype)
    share = settings.cfr_share
    return share * node_policy(game, tree, node)[:, row] + (1 - share) * puct


def sample(noise: Float[Array, " X"], weights: Float[Array, " X"]) -> Int[Array, ""]:
    """An index in proportion to its weight, by the Gumbel trick; of weight 0 only if all are."""
    logits = jnp.where(weights > 0, jnp.log(jnp.where(weights > 0, weights, 1)), -jnp.inf)
    return jnp.argmax(logits + noise).astype(jnp.int32)


def sample_pair(
    game: PublicGame, key: Key[Array, ""], state: PublicState, reach: Float[Array, "2 N"]
) -> Int[Array, "2"]:
    """A pair of rows in proportion to both own reaches and chance; `key` is consumed."""
    noise = jax.random.gumbel(key, (2, game.num_rows), reach.dtype)
    first = sample(noise[0], reach[0] * game.compatible(state, 0, reach[1]))
    one_hot = jax.nn.one_hot(first, game.num_rows, dtype=reach.dtype)
    second = sample(noise[1], reach[1] * game.compatible(state, 1, one_hot))
    return jnp.stack([first, second])
