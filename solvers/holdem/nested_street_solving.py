"""Safe nested subgame solving in hold'em (Brown, Sandholm, Amos 2018): the rest of a street up to
its leaves, and what follows a leaf.

    values = transferred_leaf_values(answer, cut, values, starts)
    policy = solve_street(answer, values, opt_out, ...)
    promises, reaches = promised_leaf_values(answer, values, policy, opt_out=opt_out, ...)
    policy = solve_below(subgame_part(answer.tree, leaf), promise, reach, ...)  # at one leaf

The *resolver* is the player who solves. Opt-out values are counterfactual values of its opponent's
hands: what the opponent is promised elsewhere (see `solvers.subgames.safe_resolving`).
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxgames.arrays import safe_divide
from jaxgames.holdem.betting_tree import NO_NODE
from solvers import cfr, evaluation
from solvers.cfr import Solver
from solvers.holdem.depth_limited_street import DepthLimitedStreet
from solvers.holdem.street_boards import disjoint_hands
from solvers.holdem.subgame_below import SubgamePart
from solvers.sequence_form import Policy, pack, sweeps
from solvers.subgames.safe_resolving import with_gadget, without_gadget


def solve_street(
    cut: DepthLimitedStreet,
    values: Float[Array, "L n0 n1 C0 C1"],
    opt_out: Float[Array, " N"],
    *,
    resolver: int,
    solver: Solver,
    num_iterations: int,
) -> Policy:
    """Solves a depth-limited street safely: the opponent may opt out with each hand.

    Args:
      cut: the street.
      values: those of its leaves.
      opt_out: counterfactual values of opting out, by hand of the opponent.
      resolver: the player who solves, 0 or 1.
      solver: of the game with the gadget.
      num_iterations: of the solve.

    Returns:
      Policies of `cut.sequence_form`.
    """
    game = cut.with_values(values)
    safe = with_gadget(game, cut.of_classes(opt_out, 1 - resolver), resolver=resolver)
    policy = _average_policy(safe, solver=solver, num_iterations=num_iterations)
    return without_gadget(game, policy, resolver=resolver)


def promised_leaf_values(
    cut: DepthLimitedStreet,
    values: Float[Array, "L n0 n1 C0 C1"],
    policy: Policy,
    *,
    resolver: int,
    opt_out: Float[Array, " N"] | None = None,
    gifts: bool = False,
) -> tuple[Float[Array, "L N"], Float[Array, "L M"]]:
    """The opponent's opt-out values for solving below each leaf.

    By default a hand is promised its value at the leaf if the opponent chooses its best strategy
    there. With `opt_out`, hands whose value in the solved street exceeds their opt-out value are
    promised less: if all leaves keep their promises, and lower promises do not make the opponent
    end the hand before the leaf, it gains nothing, whatever it does on the street. Values for which
    the resolver plays on as before may be too much for it to allow. With `gifts`, hands whose value
    falls short of their opt-out value are also promised more, so that they lose nothing (Brown and
    Sandholm 2017, "Safe and nested subgame solving", section 5).

    Args:
      cut: the street that was solved.
      values: those of its leaves.
      policy: the solution.
      resolver: the player who solves, 0 or 1.
      opt_out: the opt-out values of `solve_street`, by hand of the opponent.
      gifts: whether hands may be promised more than their value at the leaf.

    Returns:
      The promised counterfactual values of the opponent's N hands at each leaf, and the resolver's
      own reach of each leaf with its M hands.

    Raises:
      ValueError: `gifts` without `opt_out`.
    """
    if gifts and opt_out is None:
        raise ValueError("gifts=True needs opt_out, the opt-out values of solve_street")
    game, opponent = cut.with_values(values), 1 - resolver
    treeplex = game.treeplexes[resolver]
    ones = jnp.ones(treeplex.num_roots, game.dtype)
    reach = sweeps.reach(treeplex, pack(game, policy)[resolver], ones)
    chosen = reach[cut.leaf_rows(resolver)]  # [L, n, C]
    if resolver == 1:
        choice_values = jnp.einsum("lkjcd,ljd->lkc", values, chosen, precision="highest")
    else:
        choice_values = -jnp.einsum("ljkcd,ljc->lkd", values, chosen, precision="highest")
    promises = cut.of_hands(choice_values.max(axis=1), opponent)
    if opt_out is not None:
        excess = _excess_at_leaves(cut, game, policy, reach, opt_out, resolver)
        promises = promises - (excess if gifts else jnp.maximum(excess, 0))
    return promises, chosen.sum(axis=1)[:, cut.classes[resolver]]


def _excess_at_leaves(cut, game, policy, reach, opt_out, resolver):
    """By how much the opponent's values at the leaves must fall so that the opponent's value at the
    root, with each hand, is its opt-out value: `[L, N]`; negative where they must rise.

    The excess at the root, the value of a best response less `opt_out`, is handed down the tree.
    Where the opponent acts, the excess of an action is smaller by what that action loses against
    the best one. Where the resolver acts, the actions that lead to leaves share the excess in
    proportion to the probability that they are taken, given the opponent's hand.

    Args:
      cut: the street.
      game: it with the values of its leaves.
      policy: the solution.
      reach: the resolver's own reach of its rows.
      opt_out: opt-out values by hand of the opponent.
      resolver: the player who solves.
    """
    opponent, betting = 1 - resolver, cut.tree.betting
    loss = _action_losses(game, policy, opponent)
    met = jnp.asarray(disjoint_hands(*cut.tree.hands), game.dtype)
    met = met.T if opponent == 1 else met
    mine, others = cut.layouts[resolver], cut.layouts[opponent]
    count = cut.num_classes[opponent]

    def loss_of(place, action):
        first = others.first_decision[place] * count
        return cut.of_hands(loss[first : first + count, action], opponent)

    def opponents_reach(node):
        """The resolver's reach of a node, summed over the hands that each hand meets."""
        row = mine.row[mine.block[np.searchsorted(cut.nodes, node)]]
        return met @ reach[row][cut.classes[resolver]]

    before_leaves = _ancestors(cut)
    root = evaluation.root_best_response_values(game, policy)[opponent]
    excess = {0: cut.of_hands(root, opponent) - opt_out}
    for place, node in enumerate(cut.nodes.tolist()):
        if node not in before_leaves or node in cut.leaves:
            continue
        children = [
            (action, child)
            for action, child in enumerate(betting.child[node].tolist())
            if child in before_leaves
        ]
        if betting.actor[node] == opponent:
            for action, child in children:
                excess[child] = excess[node] - loss_of(place, action)
            continue
        weights = jnp.stack([opponents_reach(child) for _, child in children])
        total = weights.sum(axis=0, keepdims=True)
        shares = jnp.where(total > 0, safe_divide(weights, total), 0)
        for (_, child), share in zip(children, shares, strict=True):
            excess[child] = excess[node] * share
    return jnp.stack([excess[leaf] for leaf in cut.leaves.tolist()])


def _action_losses(game, policy, opponent):
    """What each action of the opponent `[D, A]` loses against its best response to `policy`."""
    response = evaluation.best_response(game, policy)[opponent]
    pair = tuple(response if p == opponent else policy[p] for p in range(2))
    action_values, state_values = (
        of_players[opponent] for of_players in evaluation.counterfactual_values(game, pair)
    )
    return state_values[:, None] - action_values


def _ancestors(cut):
    """The betting nodes from which leaves can be reached, leaves included."""
    ancestors = set()
    for node in cut.leaves.tolist():
        while node != NO_NODE:
            ancestors.add(node)
            node = int(cut.tree.betting.parent[node])
    return ancestors


def solve_below(
    part: SubgamePart,
    opt_out: Float[Array, " N"],
    reach: Float[Array, " M"],
    *,
    resolver: int,
    solver: Solver,
    num_iterations: int,
) -> Policy:
    """Solves what follows a leaf safely, on all boards at once: the opponent may opt out before the
    deal with each hand.

    Args:
      part: what follows the leaf.
      opt_out: the opponent's promised values at the leaf (see `promised_leaf_values`).
      reach: the resolver's own reach of the leaf, by hand.
      resolver: the player who solves, 0 or 1.
      solver: of the game with the gadget.
      num_iterations: of the solve.

    Returns:
      Policies of `part.tree.sequence_form`.
    """
    tree = part.tree.sequence_form
    safe = with_gadget(tree, opt_out, resolver=resolver)
    reaches = tuple(reach if p == resolver else jnp.ones_like(opt_out) for p in range(2))
    policy = _average_policy(safe, reaches, solver=solver, num_iterations=num_iterations)
    return without_gadget(tree, policy, resolver=resolver)


def _average_policy(game, root_reach=None, *, solver, num_iterations):
    state = cfr.init(game, root_reach=root_reach)
    state = cfr.run(game, state, solver=solver, num_iterations=num_iterations)
    return cfr.average_policy(game, state)
