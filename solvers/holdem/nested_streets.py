"""Nested depth-limited solving in hold'em (Brown, Sandholm, Amos 2018): strategies for leaves that
generate themselves, the rest of a street solved safely up to its leaves, and what is below a leaf.

    values = generated(cut, below, blueprint, solver=solver, num_iterations=1000)
    values = transferred(answer, cut, values, starts)
    policy = solve_street(answer, values, opt_out, ...)
    promises, reaches = promised(answer, values, policy, opt_out=opt_out, ...)  # of every leaf
    policy = solve_below(part_of(answer.tree, leaf), promise, reach, ...)

The *resolver* solves. Opt-out values are counterfactual, of its opponent's hands: what it is
promised elsewhere (see `solvers.subgames.safe_resolving`).
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxgames.holdem.betting_tree import NO_NODE
from solvers import cfr, evaluation
from solvers.cfr import Solver
from solvers.holdem import street_leaf_values
from solvers.holdem.boards import apart
from solvers.holdem.depth_limited_street import Cut, Part, pair_sums
from solvers.holdem.street_leaf_values import Below
from solvers.holdem.subgame_tree import HoldemTree
from solvers.sequence_form import Policy, pack, sweeps, uniform, unpack
from solvers.subgames.continuations import bias_set
from solvers.subgames.safe_resolving import with_gadget, without_gadget


def generated(
    cut: Cut,
    below: Below,
    blueprint: Policy,
    *,
    solver: Solver,
    num_iterations: int,
    weaken: bool = False,
    tremble: float = 1e-3,
    report: Callable[[int], None] = lambda count: None,
) -> Float[Array, "L n0 n1 C0 C1"]:
    """Values of as many self-generated strategies of each player as the cut has choices (section 4,
    "self-generative").

    The first strategy is the blueprint. Each next one is a best response, in the whole tree, to the
    other player's solution of the cut with those so far, continued by the blueprint. The solution
    trembles: it plays uniformly with this probability, lest a response be arbitrary where the
    solution never goes. `weaken` solves with `weakened` values; what is returned is not weakened.
    `report` takes how many strategies are found, each time.
    """
    tree = cut.tree.public
    values = jnp.broadcast_to(
        street_leaf_values.values(below, tree, blueprint)[:, None, None],
        (len(cut.leaves), *cut.choices, *cut.num_classes),
    )
    strategies = [[rows] for rows in blueprint]  # kept if the other player, too, gets more
    for k in range(1, max(cut.choices)):
        report(k)
        game = cut.with_values(weakened(cut, values, blueprint) if weaken else values)
        solution = _solved(game, solver=solver, num_iterations=num_iterations)
        mixed = tuple(
            (1 - tremble) * rows + tremble * even
            for rows, even in zip(solution, unpack(game, uniform(game)), strict=True)
        )
        responses = evaluation.best_response(tree, cut.embed(mixed, blueprint))
        for player, response in enumerate(responses):
            if k >= cut.choices[player]:
                continue
            for j, other in enumerate(strategies[1 - player]):
                pair, at = (response, other), (k, j)
                if player == 1:
                    pair, at = pair[::-1], at[::-1]
                values = values.at[:, *at].set(street_leaf_values.values(below, tree, pair))
            if min(cut.choices) > 1:
                strategies[player].append(response)
        values = first_values(values, (k + 1, k + 1))
    report(max(cut.choices))
    return values


def values_of(
    cut: Cut, below: Below, strategies: tuple[Float[Array, "n0 D0 A"], Float[Array, "n1 D1 A"]]
) -> Float[Array, "L n0 n1 C0 C1"]:
    """Values of leaves under every pair of strategies."""
    tree = cut.tree.public

    def of_pair(first):
        return lambda second: street_leaf_values.values(below, tree, (first, second))

    found = jax.lax.map(lambda first: jax.lax.map(of_pair(first), strategies[1]), strategies[0])
    return jnp.moveaxis(found, 2, 0)


def weakened(
    cut: Cut, values: Float[Array, "L n0 n1 C0 C1"], blueprint: Policy
) -> Float[Array, "L n0 n1 C0 C1"]:
    """Values under which no strategy beats the first one against the other player's blueprint.

    Where a player's strategy k is worth more than its first to a hand at a leaf, the other one
    having come there by the blueprint and following its first strategy, all values of k with it are
    lowered by the difference (section 4).
    """
    tree = cut.tree
    met = jnp.asarray(pair_sums(apart(*tree.hands).astype(float), cut.classes), tree.public.dtype)
    for player in range(2):
        if cut.choices[player] == 1:
            continue
        other, sign = 1 - player, 1 if player == 0 else -1
        states, layout = tree.public.treeplexes[other], tree.layouts[other]
        ones = jnp.ones(states.num_roots, tree.public.dtype)
        reach = sweeps.reach(states, pack(tree.public, blueprint)[other], ones)
        rows = np.array(layout.row)[layout.block[cut.leaves]]
        of_class = cut.of_classes(reach[rows], other) / cut.sizes[other][None]  # [L, C]
        pairs = met if player == 0 else met.T
        own = values[:, :, 0] if player == 0 else -values[:, 0].swapaxes(2, 3)  # [L, n, C, C']
        worth = jnp.einsum("lkcd,ld->lkc", own, of_class, precision="highest")
        mass = jnp.einsum("cd,ld->lc", pairs, of_class, precision="highest")[:, None]
        excess = jnp.maximum(worth - worth[:, :1], 0) / jnp.where(mass > 0, mass, 1)
        less = jnp.where(mass > 0, excess, 0)[..., None] * pairs[None, None]
        less = less[:, :, None] if player == 0 else less.swapaxes(2, 3)[:, None]
        values = values - sign * less
    return values


def first_values(
    values: Float[Array, "L n0 n1 C0 C1"], counts: tuple[int, int]
) -> Float[Array, "L n0 n1 C0 C1"]:
    """With so many strategies of each player only: the others are the first one again."""
    for axis, count in enumerate(counts, start=1):
        every = np.arange(values.shape[axis])
        values = jnp.take(values, np.where(every < count, every, 0), axis=axis)
    return values


def solve_street(
    cut: Cut,
    values: Float[Array, "L n0 n1 C0 C1"],
    opt_out: Float[Array, " N"],
    *,
    resolver: int,
    solver: Solver,
    num_iterations: int,
) -> Policy:
    """Policies of a cut with these values, safe for the resolver: its opponent may opt out, with
    each hand, for `opt_out`."""
    game = cut.with_values(values)
    safe = with_gadget(game, cut.of_classes(opt_out, 1 - resolver), resolver=resolver)
    policy = _solved(safe, solver=solver, num_iterations=num_iterations)
    return without_gadget(game, policy, resolver=resolver)


def promised(
    cut: Cut,
    values: Float[Array, "L n0 n1 C0 C1"],
    policy: Policy,
    *,
    resolver: int,
    opt_out: Float[Array, " N"] | None = None,
    gifts: bool = False,
) -> tuple[Float[Array, "L N"], Float[Array, "L M"]]:
    """What the opponent's hands are worth at every leaf if it chooses best there, and the
    resolver's own reach of it with each hand.

    With the `opt_out` of `solve_street`, hands that are worth more in the cut than what they could
    have had instead are promised less: if all leaves keep what they promise, and lower promises do
    not make it end the hand before them, it gains nothing, whatever it does on the street. Values
    for which the resolver plays on as before may be too much for it to allow. With `gifts`, too,
    hands that are worth less are promised more (Brown and Sandholm 2017, "Safe and nested subgame
    solving", section 5), so that they lose nothing.

    Raises:
      ValueError: there are gifts, but no `opt_out`.
    """
    if gifts and opt_out is None:
        raise ValueError("gifts=True needs opt_out: what hands could have had instead")
    game, opponent = cut.with_values(values), 1 - resolver
    player = game.treeplexes[resolver]
    ones = jnp.ones(player.num_roots, game.dtype)
    reach = sweeps.reach(player, pack(game, policy)[resolver], ones)
    chosen = reach[cut.leaf_rows(resolver)]  # [L, n, C]
    if resolver == 1:
        worth = jnp.einsum("lkjcd,ljd->lkc", values, chosen, precision="highest")
    else:
        worth = -jnp.einsum("ljkcd,ljc->lkd", values, chosen, precision="highest")
    worth = cut.of_hands(worth.max(axis=1), opponent)
    if opt_out is not None:
        owed = _owed(cut, game, policy, reach, opt_out, resolver)
        worth = worth - (owed if gifts else jnp.maximum(owed, 0))
    return worth, chosen.sum(axis=1)[:, cut.classes[resolver]]


def _owed(cut, game, policy, reach, opt_out, resolver):
    """[L, N] how much less than they are worth leaves must give to the opponent's hands, lest these
    get more than `opt_out`; less than nothing, if they would get less.

    It is handed down: where the opponent acts, an action owes less by what is lost with it; where
    the resolver acts, actions that lead to leaves share it by the chance that they are taken.
    """
    opponent, betting = 1 - resolver, cut.tree.betting
    response = evaluation.best_response(game, policy)[opponent]
    pair = tuple(response if p == opponent else policy[p] for p in range(2))
    actions, states = (found[opponent] for found in evaluation.counterfactual_values(game, pair))
    lost = states[:, None] - actions
    met = jnp.asarray(apart(*cut.tree.hands), game.dtype)
    met = met.T if opponent == 1 else met
    mine, others = cut.layouts[resolver], cut.layouts[opponent]
    count = cut.num_classes[opponent]

    def lost_by(place, action):
        first = others.first_decision[place] * count
        return cut.of_hands(lost[first : first + count, action], opponent)

    def chance(node):
        row = mine.row[mine.block[np.searchsorted(cut.nodes, node)]]
        return met @ reach[row][cut.classes[resolver]]

    above = set()  # leaves, and all nodes before them
    for node in cut.leaves.tolist():
        while node != NO_NODE:
            above.add(node)
            node = int(betting.parent[node])
    root = evaluation.root_best_response_values(game, policy)[opponent]
    owed = {0: cut.of_hands(root, opponent) - opt_out}
    for place, node in enumerate(cut.nodes.tolist()):
        if node not in above or node in cut.leaves:
            continue
        children = [
            (action, child)
            for action, child in enumerate(betting.child[node].tolist())
            if child in above
        ]
        if betting.actor[node] == opponent:
            owed |= {child: owed[node] - lost_by(place, action) for action, child in children}
        else:
            chances = jnp.stack([chance(child) for _, child in children])
            total = chances.sum(axis=0, keepdims=True)
            shares = jnp.where(total > 0, chances / jnp.where(total > 0, total, 1), 0)
            owed |= {
                child: owed[node] * share
                for (_, child), share in zip(children, shares, strict=True)
            }
    return jnp.stack([owed[leaf] for leaf in cut.leaves.tolist()])


def solve_below(
    part: Part,
    opt_out: Float[Array, " N"],
    reach: Float[Array, " M"],
    *,
    resolver: int,
    solver: Solver,
    num_iterations: int,
) -> Policy:
    """Policies of all that is below a leaf, on all boards at once, safe for the resolver: its
    opponent may opt out before the deal.

    `opt_out` and the resolver's `reach` are those of `promised` at that leaf.
    """
    tree = part.tree.public
    safe = with_gadget(tree, opt_out, resolver=resolver)
    reaches = tuple(reach if p == resolver else jnp.ones_like(opt_out) for p in range(2))
    policy = _solved(safe, reaches, solver=solver, num_iterations=num_iterations)
    return without_gadget(tree, policy, resolver=resolver)


def _solved(game, root_reach=None, *, solver, num_iterations):
    state = cfr.init(game, root_reach=root_reach)
    state = cfr.run(game, state, solver=solver, num_iterations=num_iterations)
    return cfr.average_policy(game, state)


def inclined(
    tree: HoldemTree, policy: Policy, *, player: int, factor: float = 10.0
) -> Float[Array, "4 D A"]:
    """A player's policy, and the same inclined to fold, to check or call, and to bet or raise: with
    probabilities of that kind times `factor` (the paper's four strategies, section 4)."""
    found = np.zeros((3, *policy[player].shape), bool)
    layout, hands = tree.layouts[player], len(tree.hands[player])
    for node in layout.nodes:
        count = len(tree.streets[tree.betting.street[node]].boards) * hands
        first = layout.first_decision[node] * hands
        for action, name in enumerate(tree.betting.actions[node]):
            kind = 0 if name == "fold" else 1 if name in ("call", "check") else 2
            found[kind, first : first + count, action] = True
    return bias_set(policy[player], found, factors=(factor,))
