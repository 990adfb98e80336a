"""Growing-tree CFR (Student of Games, "Growing-tree CFR"; Schmid et al. 2023).

A search alternates between CFR on the public tree it has, with leaves valued by an evaluator at
the beliefs of the current policies, and simulations that walk down from the state it searches at
and add a leaf's children to the tree. Everything here is one search, pure and unbatched; searches
run side by side under `jax.vmap`, which leaves the loops over nodes as they are.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.core import CHANCE, TERMINAL, record
from jaxgames.public_game import PublicGame, PublicState
from solvers.regret import RegretMatchingPlus, RegretMinimizer, sum_actions
from solvers.search.search_tree import (
    CHUNK,
    LEAF,
    SearchTree,
    add_child,
    columns,
    expand,
    new_tree,
    with_columns,
)
from solvers.sparse_sum import stored

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
    expand: int | None = None  # k best children by prior that a new node starts with; None: all
    virtual_loss: float = 1.0  # payoff lost in simulations since the last iteration, to later ones

    def __post_init__(self):
        if self.simulations < 1:
            raise ValueError(f"simulations={self.simulations} must be at least 1")
        if not 0 < self.pace < math.inf:
            raise ValueError(f"pace={self.pace} must be positive and finite")
        if self.max_nodes is not None and self.max_nodes <= self.max_path:
            raise ValueError(f"max_nodes={self.max_nodes} must be over max_path={self.max_path}")
        if self.expand is not None and self.expand < 1:
            raise ValueError(f"expand={self.expand} must be at least 1, or None for all children")
        if not 0 <= self.virtual_loss < math.inf:
            raise ValueError(f"virtual_loss={self.virtual_loss} must be at least 0 and finite")
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
        """Nodes that a search has room for; memory grows with it."""
        needed = 1 + self.max_path + self.simulations
        needed = needed if self.max_nodes is None else min(needed, self.max_nodes)
        return -(-needed // CHUNK) * CHUNK


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
    total: Array  # [] sum of the iterations' weights


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
      ValueError: `problem.path` is longer than `settings.max_path`, or `settings.expand` is not
        for this game.
    """
    state = start(game, params, problem=problem, settings=settings)
    phases = settings.simulations // settings.expansions_per_phase

    def phase(i, state):
        state = jax.lax.fori_loop(
            0,
            settings.iterations_per_phase,
            lambda _, state: iterate(game, params, state, settings=settings),
            state,
        )
        return expansion(i, state)

    def expansion(i, state):
        count = settings.expansions_per_phase
        if count == 1:
            noise = jax.random.fold_in(key, i)
            return simulate(game, params, noise, state, settings=settings)
        settled = state.tree.visits

        def one(j, state):
            noise = jax.random.fold_in(key, i * count + j)
            return simulate(game, params, noise, state, settings=settings, settled=settled)

        return jax.lax.fori_loop(0, count, one, state)

    return jax.lax.fori_loop(0, phases, phase, state)


def start(
    game: PublicGame, params: PyTree, *, problem: Problem, settings: GrowingTreeCfr
) -> Search:
    """The search before its first iteration: the path to where it acts, and leaves beside it."""
    length = problem.path.shape[0]
    if length > settings.max_path:
        raise ValueError(f"path has {length} steps, more than max_path={settings.max_path}")
    if settings.expand is not None:
        _check_expandable(game, settings.expand)
    dtype, partial = problem.reach.dtype, settings.expand is not None
    tree = new_tree(game, problem.state, capacity=settings.capacity, dtype=dtype, partial=partial)
    none = jnp.zeros((), dtype)
    for step in range(length):
        slot = step * game.num_children + jnp.maximum(problem.path[step], 0)
        there = problem.path[step] != NO_STEP
        prior = jnp.zeros((game.num_actions, game.num_rows), dtype)
        tree = expand(game, tree, slot, prior, none, there)
    if game.num_rows == 1:  # nothing is hidden: reach would only scale all values
        problem = problem.replace(reach=jnp.ones_like(problem.reach))
        slots = jnp.arange((length + 1) * game.num_children, dtype=jnp.int32)
        tree = _asked(game, params, tree, slots, settings.evaluate)
    target = tree.count - 1
    _, prior = settings.evaluate(params, game, _at(tree.state, target), problem.reach)
    return Search(
        problem=problem,
        tree=tree.replace(prior=with_columns(tree.prior, prior, target, game.num_rows)),
        gadget=Gadget(
            regret=jnp.zeros((2, game.num_rows), dtype),
            follow=jnp.full(game.num_rows, 0.5, dtype),
        ),
        target=target,
        iterations=jnp.int32(0),
        total=none,
    )


def _check_expandable(game, count):
    if game.num_rows != 1 or game.num_children != game.num_actions:
        raise ValueError(
            f"expand={count} is for games of perfect information in which child k is where action k"
            f" leads; {game.name} has num_rows={game.num_rows}, num_actions={game.num_actions},"
            f" num_children={game.num_children}; allowed: None"
        )


def _asked(game, params, tree, slots, evaluate):
    """The tree with what the evaluator says of some slots; of no slot X, nothing.

    With one row, values are so much per unit of opponent reach, whatever that is.
    """
    last = len(tree.node) - 1
    reach = jnp.ones((2, 1), tree.reach.dtype)
    values, prior = jax.vmap(
        lambda slot: evaluate(params, game, _child(tree, jnp.minimum(slot, last)), reach)
    )(slots)
    return tree.replace(
        known_values=tree.known_values.at[:, slots].set(values[..., 0].T, mode="drop"),
        known_prior=tree.known_prior.at[:, slots].set(prior[..., 0].T, mode="drop"),
    )


def average_policy(state: Search) -> Float[Array, "A N"]:
    """What the search found for the actor at the state it acts at."""
    return node_policy(state.tree, state.target)


def average_values(state: Search) -> Float[Array, "2 N"]:
    """Both players' average counterfactual values at the root of the tree."""
    rows = state.problem.opt_out.shape[0]
    total = columns(state.tree.slot_total, state.tree.parent[0], 1, rows)
    return total / jnp.where(state.total > 0, state.total, 1)


def node_policy(tree: SearchTree, node: Int[Array, ""]) -> Float[Array, "A N"]:
    """The average policy at a node; where its actor never was, the present one."""
    rows = tree.first.shape[0] // tree.parent.shape[0]
    total = columns(tree.average, node, 1, rows)
    return _average(total, columns(tree.minimizer.policy, node, 1, rows))


def slot_reach(game: PublicGame, tree: SearchTree, slot: Int[Array, ""]) -> Float[Array, "2 N"]:
    """Own reaches in a slot: their weighted sum since its node joined."""
    node, child = slot // game.num_children, slot % game.num_children
    total = columns(tree.reach_total, node, 1, game.num_rows)
    return game.down(_at(tree.state, node), child, total, node_policy(tree, node))


def iterate(game: PublicGame, params: PyTree, state: Search, *, settings: GrowingTreeCfr) -> Search:
    """One iteration of CFR, simultaneous."""
    tree, step = state.tree, state.iterations + 1
    weight = step.astype(tree.average.dtype) ** settings.averaging_power
    nodes = widest(tree.count)
    root = root_reach(game, state, settings=settings)
    tree = tree.replace(reach=_reaches(game, tree, root, nodes))
    values = _values_outside(game, params, tree, settings.evaluate)
    tree = tree.replace(slot_values=_values_inside(game, tree, values, nodes))
    tree = _learn(game, tree, weight, settings.minimizer, step, nodes)
    values = columns(tree.slot_values, tree.parent[0], 1, game.num_rows)
    gadget = _answer(game, state, values, settings)
    return state.replace(tree=tree, gadget=gadget, iterations=step, total=state.total + weight)


@jax.custom_batching.custom_vmap
def widest(count: Int[Array, ""]) -> Int[Array, ""]:
    """The largest count of all searches in the batch: one bound of a loop for all of them."""
    return count


@widest.def_vmap
def _widest_of_batch(axis_size, in_batched, count):
    return widest(jnp.max(count)), False


def _reaches(game, tree, root, nodes):
    """Own reaches of all nodes `[2, E * N]`."""
    rows, last = game.num_rows, len(tree.parent) - 1

    def down(e, reach):
        slot = tree.parent[e]
        node = jnp.minimum(slot // game.num_children, last)
        policy = columns(tree.minimizer.policy, node, 1, rows)
        here = columns(reach, node, 1, rows)
        below = game.down(_at(tree.state, node), slot % game.num_children, here, policy)
        return with_columns(reach, below, e, rows)

    return jax.lax.fori_loop(1, nodes, down, with_columns(tree.reach, root, 0, rows))


def _values_outside(game, params, tree, evaluate):
    """The values of slots `[2, (X + 1) * N]`, those of terminals and leaves as they are now."""

    def end(slot, reach):
        state = _child(tree, slot)
        return jnp.stack([game.terminal_values(state, p, reach[1 - p]) for p in range(2)])

    def leaf(slot, reach):
        if game.num_rows == 1:
            return tree.known_values[:, slot, None] * reach[::-1]
        return evaluate(params, game, _child(tree, slot), reach)[0]

    values = tree.slot_values
    for slots, value in ((tree.terminals, end), (tree.leaves, leaf)):
        values = _valued(game, tree, values, slots, value)
    return values


def _valued(game, tree, values, slots, value):
    """`values` with `value(slot, reach)` at a list of slots."""
    rows, last = game.num_rows, len(tree.node) - 1

    def one(slot):
        slot = jnp.minimum(slot, last)
        node, child = slot // game.num_children, slot % game.num_children
        policy = columns(tree.minimizer.policy, node, 1, rows)
        here = columns(tree.reach, node, 1, rows)
        return value(slot, game.down(_at(tree.state, node), child, here, policy))

    def chunk(i, values):
        slot = jax.lax.dynamic_slice_in_dim(slots.slot, i * CHUNK, CHUNK)
        found = jax.vmap(one)(slot).swapaxes(0, 1)
        return values.reshape(2, -1, rows).at[:, slot].set(found).reshape(2, -1)

    return jax.lax.fori_loop(0, _chunks(widest(slots.count)), chunk, values)


def _values_inside(game, tree, values, nodes):
    """The values of slots `[2, (X + 1) * N]`, with those of the nodes in them."""
    rows, slots = game.num_rows, game.num_children

    def up(i, values):
        e = nodes - 1 - i
        # the only one to read `values`: with two, all of them would be copied before the writing
        below = columns(values, e * slots, slots, rows).reshape(2, slots, rows)
        policy = columns(tree.minimizer.policy, e, 1, rows)
        here, _ = values_above(game, _at(tree.state, e), below, policy)
        return with_columns(values, here, tree.parent[e], rows)

    return jax.lax.fori_loop(0, nodes, up, values)


def _learn(game, tree, weight, minimizer, step, nodes):
    """All nodes after an iteration: regrets, policies, sums for averages."""
    rows, slots, dtype = game.num_rows, game.num_children, tree.average.dtype
    one = jnp.minimum(nodes, 1)  # unknown to the compiler

    def acted(states, below):
        found, _ = jax.vmap(game.up, (0, 1))(states, below.reshape(2, CHUNK, slots, rows))
        return found.swapaxes(0, 1).reshape(-1, CHUNK * rows)

    def chunk(i, carry):
        memory, average, actions, reach_total, slot_total = carry
        take = lambda table, of=1: columns(table, i * CHUNK * of, CHUNK * of, rows)  # noqa: E731
        put = lambda table, new, of=1: with_columns(table, new, i * CHUNK * of, rows)  # noqa: E731
        before = jax.tree.map(take, memory)
        uniform, reach = take(tree.uniform), take(tree.reach)
        below = take(tree.slot_values, slots)
        states = jax.tree.map(
            lambda x: jax.lax.dynamic_slice_in_dim(x, i * CHUNK, CHUNK), tree.state
        )
        found = stored(acted, one, states, below)
        own = jnp.where(take(tree.first[None]), reach[:1], reach[1:])
        value = sum_actions(before.policy * found)
        instant = jnp.where(uniform > 0, found - value[None], 0)
        after = minimizer.update(before, instant, uniform, step.astype(dtype))
        return (
            jax.tree.map(put, memory, after),
            put(average, take(average) + weight * own * before.policy),
            put(actions, found),
            put(reach_total, take(reach_total) + weight * reach),
            put(
                slot_total, take(slot_total, slots) + weight * take(tree.slot_values, slots), slots
            ),
        )

    carry = (tree.minimizer, tree.average, tree.action_values, tree.reach_total, tree.slot_total)
    memory, average, actions, reach_total, slot_total = jax.lax.fori_loop(
        0, _chunks(nodes), chunk, carry
    )
    root = tree.parent[0]
    values = weight * columns(tree.slot_values, root, 1, rows)
    slot_total = with_columns(slot_total, columns(slot_total, root, 1, rows) + values, root, rows)
    return tree.replace(
        minimizer=memory,
        average=average,
        action_values=actions,
        reach_total=reach_total,
        slot_total=slot_total,
    )


def _chunks(count):
    return (count + CHUNK - 1) // CHUNK


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


def _child(tree, slot):
    """The public state in a slot."""
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[slot], tree.children)


def _average(total, present):
    mass = sum_actions(total)[None]
    return jnp.where(mass > 0, total / jnp.where(mass > 0, mass, 1), present)


def values_above(
    game: PublicGame,
    state: PublicState,
    below: Float[Array, "2 K N"],
    policy: Float[Array, "A N"],
) -> tuple[Float[Array, "2 N"], Float[Array, "A N"]]:
    """Values of both players, and of the actor's actions, from those in the children."""
    actions, seen = game.up(state, below)
    own = sum_actions(policy * actions)
    acts = jnp.arange(2, dtype=jnp.int32)[:, None] == game.actor(state)
    return jnp.where(acts, own[None], seen), actions


@record
class _Walk:
    node: Array  # [] int32
    pair: Array  # [2] int32 rows of both players
    steps: Array  # [] int32
    visited: Array  # [D, 2] int32 action, column
    slot: Array  # [] int32 where the walk left the tree, or LEAF


def simulate(
    game: PublicGame,
    params: PyTree,
    key: Key[Array, ""],
    state: Search,
    *,
    settings: GrowingTreeCfr,
    settled: Float[Array, "A EN"] | None = None,
) -> Search:
    """One simulation: a walk from the searched state to a leaf, which then joins the tree.

    `settled` are the visits at the last iteration, if there were simulations since.
    """
    tree, rows = state.tree, game.num_rows
    pair_key, walk_key = jax.random.split(key)
    here = _at(tree.state, state.target)
    # drawn at once: on CPU a draw costs as much as several steps
    length, options = game.max_depth + 1, game.num_actions + game.num_children
    noise = jax.random.gumbel(walk_key, (length, options), tree.reach.dtype)
    walk = _Walk(
        node=state.target,
        pair=sample_pair(game, pair_key, here, columns(tree.reach, state.target, 1, rows)),
        steps=jnp.int32(0),
        visited=jnp.full((length, 2), LEAF, jnp.int32),
        slot=jnp.int32(LEAF),
    )
    walk = jax.lax.while_loop(
        lambda walk: walk.slot == LEAF,
        lambda walk: _step(game, noise[walk.steps], tree, walk, settings, settled),
        walk,
    )
    action, column = walk.visited.T
    column = jnp.where(action >= 0, column, tree.visits.shape[1])
    visits = tree.visits.at[jnp.maximum(action, 0), column].add(1, mode="drop")
    tree = _grown(game, params, tree.replace(visits=visits), walk.slot, state.total, settings)
    return state.replace(tree=tree)


def _grown(game, params, tree, slot, since, settings):
    """The tree after a walk that left it at a slot: a leaf is expanded; what was no leaf is one."""
    leaf = _child(tree, slot)
    grows = game.actor(leaf) != TERMINAL
    if game.num_rows > 1:
        _, prior = settings.evaluate(params, game, leaf, slot_reach(game, tree, slot))
        return expand(game, tree, slot, prior, since, grows)
    known, number = jnp.bool_(True), tree.count
    prior, among = tree.known_prior[:, slot, None], None
    new = jnp.arange(game.num_children, dtype=jnp.int32)
    if settings.expand is not None:
        known = tree.added[slot]
        new = _best(game, leaf, prior[:, 0], settings.expand)
        among = jnp.zeros(game.num_children, bool).at[new].set(True)
    tree = expand(game, tree, slot, prior, since, grows & known, among)
    new = jnp.where(tree.count > number, number * game.num_children + new, len(tree.node))
    if settings.expand is not None:
        tree = add_child(game, tree, slot, ~known)
        new = new.at[0].set(jnp.where(known, new[0], slot))
    return _asked(game, params, tree, new, settings.evaluate)


def _best(game, state, prior, count):
    """The children with the highest prior, `[k]`."""
    score = jnp.where(game.child_mask(state), prior, -1)
    return jax.lax.top_k(score, min(count, len(score)))[1].astype(jnp.int32)


def _step(game, noise, tree, walk, settings, settled):
    """One more step of a walk; leaves the tree where a slot has no node."""
    state = _at(tree.state, walk.node)
    actor = game.actor(state)
    row = walk.pair[jnp.maximum(actor, 0)]
    selection = _selection(game, tree, state, walk.node, row, settings, settled)
    action = sample(noise[: game.num_actions], selection)
    pairs = game.follow(state, walk.pair, action)
    possible = game.child_mask(state) & jnp.all(pairs >= 0, axis=1)
    weights = jax.vmap(game.weight)(_at(tree.children, walk.node), jnp.maximum(pairs, 0))
    child = sample(noise[game.num_actions :], jnp.where(possible, weights, 0))
    slot = walk.node * game.num_children + child
    below, column = tree.node[slot], walk.node * game.num_rows + row
    visit = jnp.where(actor == CHANCE, LEAF, jnp.stack([action, column]))
    return _Walk(
        node=jnp.maximum(below, 0),
        pair=pairs[child],
        steps=walk.steps + 1,
        visited=walk.visited.at[walk.steps].set(visit),
        slot=jnp.where(below == LEAF, slot, LEAF),
    )


def _selection(game, tree, state, node, row, settings, settled):
    """What a simulation plays in a row: half PUCT, half CFR's average policy, `[A]`."""
    actor = jnp.maximum(game.actor(state), 0)
    column = node * game.num_rows + row
    reach = columns(tree.reach, node, 1, game.num_rows)[1 - actor]
    mass = game.compatible(state, actor, reach)[row]
    values = tree.action_values[:, column] / jnp.where(mass > 0, mass, 1)
    visits, legal = tree.visits[:, column], tree.uniform[:, column] > 0
    total = jnp.sum(visits)
    if settings.expand is not None:
        legal = game.legal(state)[row]
        total = total + 1  # the simulation that added the node: priors count from the first on
    if settled is not None:
        under_way = visits - settled[:, column]
        weight = 1 + settled[:, column]
        values = (weight * values - settings.virtual_loss * under_way) / (weight + under_way)
    bonus = tree.prior[:, column] * jnp.sqrt(total) / (1 + visits)
    score = jnp.where(legal, values + settings.exploration * bonus, -jnp.inf)
    puct = jax.nn.one_hot(jnp.argmax(score), len(score), dtype=values.dtype)
    average = _average(tree.average[:, column, None], tree.minimizer.policy[:, column, None])
    share = settings.cfr_share
    return share * average[:, 0] + (1 - share) * puct


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
