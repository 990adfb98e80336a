"""Strategies for the rest of the hand among which players choose at the leaves of a depth-limited
street, and the leaf values that they give (Brown, Sandholm, Amos 2018, section 4).

`self_generated_values` lets strategies generate themselves; `pairwise_leaf_values` takes any, such
as those of `biased_policies`. `solvers.subgames.continuations` is the same for explicit trees.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxgames.arrays import safe_divide
from solvers import cfr, evaluation
from solvers.cfr import Solver
from solvers.holdem.depth_limited_street import DepthLimitedStreet
from solvers.holdem.hand_classes import pair_sums
from solvers.holdem.street_boards import disjoint_hands
from solvers.holdem.street_leaf_values import BelowLeaves, leaf_values
from solvers.holdem.subgame_tree import HoldemTree
from solvers.sequence_form import Policy, pack, sweeps, uniform, unpack
from solvers.subgames.continuations import bias_set


def self_generated_values(
    cut: DepthLimitedStreet,
    below: BelowLeaves,
    blueprint: Policy,
    *,
    solver: Solver,
    num_iterations: int,
    weaken: bool = False,
    tremble: float = 1e-3,
    report: Callable[[int], None] = lambda count: None,
) -> Float[Array, "L n0 n1 C0 C1"]:
    """Leaf values under self-generated strategies, as many of each player as it has choices
    (section 4, "self-generative").

    The first strategy is the blueprint. Each further one is a best response, in the whole tree, to
    the opponent's solution of the depth-limited street with the strategies so far, continued by the
    blueprint.

    Args:
      cut: the depth-limited street.
      below: what follows its leaves.
      blueprint: a policy of the whole tree.
      solver: of the depth-limited games.
      num_iterations: of each solve.
      weaken: whether to solve with `weakened_leaf_values`; the values returned are not weakened.
      tremble: the probability with which the solution plays uniformly, so that responses are
        defined where the solution never goes.
      report: called with the number of strategies so far, before each step and at the end.

    Returns:
      Payoffs to player 0 by leaf, both players' strategies, and pair of classes.
    """
    tree = cut.tree.sequence_form
    values = jnp.broadcast_to(
        leaf_values(below, tree, blueprint)[:, None, None],
        (len(cut.leaves), *cut.choices, *cut.num_classes),
    )
    strategies = [[rows] for rows in blueprint]  # grows if the other player has choices, too
    for k in range(1, max(cut.choices)):
        report(k)
        # solve with the strategies so far
        game = cut.with_values(weakened_leaf_values(cut, values, blueprint) if weaken else values)
        state = cfr.run(game, cfr.init(game), solver=solver, num_iterations=num_iterations)
        solution = cfr.average_policy(game, state)
        # respond to the trembling solution, continued by the blueprint
        mixed = tuple(
            (1 - tremble) * rows + tremble * even
            for rows, even in zip(solution, unpack(game, uniform(game)), strict=True)
        )
        responses = evaluation.best_response(tree, cut.embed(mixed, blueprint))
        # the values of the responses against all strategies of the other player
        for player, response in enumerate(responses):
            if k >= cut.choices[player]:
                continue
            for j, other in enumerate(strategies[1 - player]):
                pair, at = (response, other), (k, j)
                if player == 1:
                    pair, at = pair[::-1], at[::-1]
                values = values.at[:, *at].set(leaf_values(below, tree, pair))
            if min(cut.choices) > 1:
                strategies[player].append(response)
        values = first_values(values, (k + 1, k + 1))
    report(max(cut.choices))
    return values


def pairwise_leaf_values(
    cut: DepthLimitedStreet,
    below: BelowLeaves,
    strategies: tuple[Float[Array, "n0 D0 A"], Float[Array, "n1 D1 A"]],
) -> Float[Array, "L n0 n1 C0 C1"]:
    """Leaf values under every pair of strategies.

    Args:
      cut: the depth-limited street.
      below: what follows its leaves.
      strategies: the strategies of each player for the whole tree.

    Returns:
      Payoffs to player 0 by leaf, both players' strategies, and pair of classes.
    """
    tree = cut.tree.sequence_form

    def of_pair(first):
        return lambda second: leaf_values(below, tree, (first, second))

    values = jax.lax.map(lambda first: jax.lax.map(of_pair(first), strategies[1]), strategies[0])
    return jnp.moveaxis(values, 2, 0)


def weakened_leaf_values(
    cut: DepthLimitedStreet, values: Float[Array, "L n0 n1 C0 C1"], blueprint: Policy
) -> Float[Array, "L n0 n1 C0 C1"]:
    """Leaf values under which no strategy beats a player's first one against the blueprint.

    Where strategy k of a player has a higher value than its first strategy for a hand at a leaf,
    against the opponent's range under the blueprint and its first strategy, all values of strategy
    k for that hand are lowered by the difference (section 4).

    Args:
      cut: the depth-limited street.
      values: payoffs to player 0 by leaf, both players' strategies, and pair of classes; the first
        strategies are the blueprint.
      blueprint: a policy of the whole tree.
    """
    tree = cut.tree
    met = jnp.asarray(
        pair_sums(disjoint_hands(*tree.hands).astype(float), cut.classes), tree.sequence_form.dtype
    )
    for player in range(2):
        if cut.choices[player] == 1:
            continue
        other, sign = 1 - player, 1 if player == 0 else -1
        # the opponent's mean reach of each leaf by class, [L, C]
        states, layout = tree.sequence_form.treeplexes[other], tree.layouts[other]
        ones = jnp.ones(states.num_roots, tree.sequence_form.dtype)
        reach = sweeps.reach(states, pack(tree.sequence_form, blueprint)[other], ones)
        rows = np.array(layout.row)[layout.block[cut.leaves]]
        of_class = cut.of_classes(reach[rows], other) / cut.sizes[other][None]
        # the values of each strategy against the opponent's first one, per unit of its reach
        pairs = met if player == 0 else met.T
        own = values[:, :, 0] if player == 0 else -values[:, 0].swapaxes(2, 3)  # [L, n, C, C']
        value = jnp.einsum("lkcd,ld->lkc", own, of_class, precision="highest")
        mass = jnp.einsum("cd,ld->lc", pairs, of_class, precision="highest")[:, None]
        excess = safe_divide(jnp.maximum(value - value[:, :1], 0), mass)
        less = jnp.where(mass > 0, excess, 0)[..., None] * pairs[None, None]
        less = less[:, :, None] if player == 0 else less.swapaxes(2, 3)[:, None]
        values = values - sign * less
    return values


def first_values(
    values: Float[Array, "L n0 n1 C0 C1"], counts: tuple[int, int]
) -> Float[Array, "L n0 n1 C0 C1"]:
    """Leaf values with the first `counts` strategies of each player; the others are replaced by the
    first one."""
    for axis, count in enumerate(counts, start=1):
        every = np.arange(values.shape[axis])
        values = jnp.take(values, np.where(every < count, every, 0), axis=axis)
    return values


def biased_policies(
    tree: HoldemTree, policy: Policy, *, player: int, factor: float = 10.0
) -> Float[Array, "4 D A"]:
    """A player's policy, and the same biased to fold, to check or call, and to bet or raise (the
    four strategies of section 4).

    Args:
      tree: the whole tree.
      policy: of the whole tree.
      player: 0 or 1.
      factor: by which the probabilities of the preferred actions are multiplied.

    Returns:
      The four policies, by action.
    """
    preferred = np.zeros((3, *policy[player].shape), bool)
    layout, hands = tree.layouts[player], len(tree.hands[player])
    for node in layout.nodes:
        count = len(tree.streets[tree.betting.street[node]].boards) * hands
        first = layout.first_decision[node] * hands
        for action, name in enumerate(tree.betting.actions[node]):
            kind = 0 if name == "fold" else 1 if name in ("call", "check") else 2
            preferred[kind, first : first + count, action] = True
    return bias_set(policy[player], preferred, factors=(factor,))
