"""Nested depth-limited solving in hold'em (Brown, Sandholm, Amos 2018): strategies for leaves that
generate themselves, the rest of a street solved safely up to its leaves, and what is below a leaf.

    values = generated(cut, below, blueprint, count=10, solver=solver, num_iterations=1000)
    policy = solve_street(answer, transferred(answer, cut, values, starts), opt_out, ...)
    opt_out, reach = promised(answer, values, policy, leaf)
    policy = solve_below(part_of(answer.tree, leaf), opt_out, reach, ...)

The *resolver* solves; its opponent is the cut's `chooser`. Opt-out values are counterfactual, of
the opponent's hands: what it is promised elsewhere (see `solvers.gadget`).
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from solvers import cfr, evaluation, sweeps
from solvers.cfr import Solver
from solvers.depth_limited.continuations import bias_set
from solvers.gadget import with_gadget, without_gadget
from solvers.holdem import leaf_values
from solvers.holdem.boards import apart
from solvers.holdem.depth_limited import Cut, Part, pair_sums
from solvers.holdem.leaf_values import Below
from solvers.holdem.tree import HoldemTree
from solvers.public_tree import Policy, pack, uniform, unpack


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
) -> Float[Array, "L n C0 C1"]:
    """Values of as many self-generated strategies of the chooser as the cut has choices (section 4,
    "self-generative"); the resolver follows the blueprint.

    The first strategy is the blueprint. Each next one is a best response, in the whole tree, to the
    resolver's solution of the cut with those so far, continued by the blueprint. The solution
    trembles: it plays uniformly with this probability, lest a response be arbitrary where the
    solution never goes. `weaken` solves with `weakened` values; what is returned is not weakened.
    `report` takes how many strategies are found, each time.
    """
    tree, chooser = cut.tree.public, cut.chooser
    values = leaf_values.values(below, tree, blueprint)
    values = jnp.repeat(values[:, None], cut.choices, axis=1)
    for k in range(1, cut.choices):
        report(k)
        game = cut.with_values(weakened(cut, values, blueprint) if weaken else values)
        solution = _solved(game, solver=solver, num_iterations=num_iterations)
        mixed = tuple(
            (1 - tremble) * rows + tremble * even
            for rows, even in zip(solution, unpack(game, uniform(game)), strict=True)
        )
        response = evaluation.best_response(tree, cut.embed(mixed, blueprint))
        found = values_of(cut, below, blueprint, response[chooser][None])
        values = values.at[:, k].set(found[:, 0])
    report(cut.choices)
    return values


def values_of(
    cut: Cut, below: Below, blueprint: Policy, strategies: Float[Array, "n D A"]
) -> Float[Array, "L n C0 C1"]:
    """Values of leaves under these strategies of the chooser; the resolver follows the
    blueprint."""

    def of_one(strategy):
        pair = tuple(strategy if p == cut.chooser else blueprint[p] for p in range(2))
        return leaf_values.values(below, cut.tree.public, pair)

    return jax.lax.map(of_one, strategies).swapaxes(0, 1)


def weakened(
    cut: Cut, values: Float[Array, "L n C0 C1"], blueprint: Policy
) -> Float[Array, "L n C0 C1"]:
    """Values under which no strategy of the chooser beats its first one against the blueprint.

    Where strategy k is worth more than the first to a hand of the chooser at a leaf, the other
    player having come there by the blueprint, all values of k with it are lowered by the difference
    (section 4).
    """
    tree, resolver = cut.tree, 1 - cut.chooser
    player, layout = tree.public.players[resolver], tree.layouts[resolver]
    ones = jnp.ones(player.num_roots, tree.public.dtype)
    reach = sweeps.reach(player, pack(tree.public, blueprint)[resolver], ones)
    rows = np.array(layout.row)[layout.block[cut.leaves]]
    of_class = jax.vmap(lambda held: cut.of_classes(held, resolver))(reach[rows])
    of_class = of_class / jnp.asarray(cut.sizes[resolver], reach.dtype)[None]  # [L, C]
    met = jnp.asarray(pair_sums(apart(*tree.hands).astype(float), cut.classes), reach.dtype)
    if resolver == 0:  # as if the chooser were player 0
        values, met = -values.swapaxes(2, 3), met.T
    worth = jnp.einsum("lkcd,ld->lkc", values, of_class, precision="highest")
    mass = jnp.einsum("cd,ld->lc", met, of_class, precision="highest")[:, None]
    excess = jnp.maximum(worth - worth[:, :1], 0) / jnp.where(mass > 0, mass, 1)
    values = values - jnp.where(mass > 0, excess, 0)[..., None] * met[None, None]
    return -values.swapaxes(2, 3) if resolver == 0 else values


def first_values(values: Float[Array, "L n C0 C1"], count: int) -> Float[Array, "L n C0 C1"]:
    """With the first `count` strategies only: the others are the first one again."""
    return values[:, np.where(np.arange(values.shape[1]) < count, np.arange(values.shape[1]), 0)]


def solve_street(
    cut: Cut,
    values: Float[Array, "L n C0 C1"],
    opt_out: Float[Array, " N"],
    *,
    solver: Solver,
    num_iterations: int,
) -> Policy:
    """Policies of a cut with these values, safe for the resolver: its opponent may opt out, with
    each hand, for `opt_out`."""
    game, resolver = cut.with_values(values), 1 - cut.chooser
    safe = with_gadget(game, cut.of_classes(opt_out, cut.chooser), resolver=resolver)
    policy = _solved(safe, solver=solver, num_iterations=num_iterations)
    return without_gadget(game, policy, resolver=resolver)


def promised(
    cut: Cut,
    values: Float[Array, "L n C0 C1"],
    policy: Policy,
    leaf: int,
    *,
    opt_out: Float[Array, " N"] | None = None,
    gifts: bool = False,
) -> tuple[Float[Array, " N"], Float[Array, " M"]]:
    """What the chooser's hands are worth at a leaf, a node of the tree's betting, if it chooses
    best; and the resolver's own reach of it with each hand.

    With the `opt_out` of `solve_street`, hands that are worth more in the cut than what they could
    have had instead are promised less, so much that they gain nothing if all leaves keep what they
    promise: values for which the resolver plays on as before may be too much for it to allow. With
    `gifts`, too, hands that are worth less are promised more (Brown and Sandholm 2017, "Safe and
    nested subgame solving", section 5), so that they lose nothing. Either is spread over the leaves
    by the chance that the resolver and the deal lead there.
    """
    game, resolver = cut.with_values(values), 1 - cut.chooser
    player, layout = game.players[resolver], cut.layouts[resolver]
    ones = jnp.ones(player.num_roots, game.dtype)
    reach = sweeps.reach(player, pack(game, policy)[resolver], ones)
    row = layout.row[layout.block[np.flatnonzero(cut.node == leaf)[0]]]
    table = values[np.searchsorted(cut.leaves, leaf)]  # [n, C_0, C_1]
    if resolver == 1:
        worth = jnp.einsum("kcd,d->kc", table, reach[row], precision="highest")
    else:
        worth = -jnp.einsum("kcd,c->kd", table, reach[row], precision="highest")
    worth = cut.of_hands(worth.max(axis=0), cut.chooser)
    own = reach[row][cut.classes[resolver]]
    if opt_out is not None:
        found = evaluation.root_best_response_values(game, policy)[cut.chooser]
        lost = opt_out - cut.of_hands(found, cut.chooser)
        met = jnp.asarray(apart(*cut.tree.hands), game.dtype)
        met = met if resolver == 1 else met.T
        worth = worth + (met @ own) / met.sum(axis=1) * (lost if gifts else jnp.minimum(lost, 0))
    return worth, own


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

    `opt_out` and the resolver's `reach` are those of `promised`.
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
