"""Action translation of whole policies between hold'em trees.

Nodes of a betting tree are translated to nodes of a known one (see
`jaxgames.holdem.action_translation`). If the root may be translated to several nodes, each player
draws one of them before play, unseen by the opponent. `solvers.holdem.small_poker_translation`
translates bets at random, as they are made, for small games.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxgames.holdem.action_translation import action_matrix, counterparts
from solvers.holdem.subgame_tree import HoldemTree
from solvers.sequence_form import (
    Policy,
    SequenceForm,
    checked_root_reach,
    pack,
    sweeps,
    unpack,
)
from solvers.sequence_form.average_policies import behaviour


def translated_tree_policy(
    tree: HoldemTree,
    known: HoldemTree,
    policy: tuple[Float[Array | np.ndarray, "_ B"], ...],
    starts: Mapping[int, float],
) -> Policy:
    """Policies of a tree that play like the policies of a known tree.

    Args:
      tree: the tree that needs a policy.
      known: a tree with the same hands and boards.
      policy: of the known tree.
      starts: nodes of the known betting tree that the root of `tree` is translated to, with their
        probabilities.

    Returns:
      Both players' policies `[D_p, A]` of `tree`.

    Raises:
      ValueError: the trees have other hands or boards, or the probabilities do not sum to 1.
    """
    if abs(sum(starts.values()) - 1) > 1e-6:
        raise ValueError(f"starts={dict(starts)} must be probabilities that sum to 1")
    for name in ("board", "deck", "deals"):
        mine, theirs = getattr(tree, name), getattr(known, name)
        if mine != theirs:
            raise ValueError(
                f"known.{name}={theirs} differs from tree.{name}={mine}; allowed: the same hands"
                " and boards"
            )
    for player, (mine, theirs) in enumerate(zip(tree.hands, known.hands, strict=True)):
        if not np.array_equal(mine, theirs):
            raise ValueError(
                f"known.hands[{player}] with {len(theirs)} hands differ from tree.hands[{player}]"
                f" with {len(mine)}; allowed: the same hands and boards"
            )
    for street, (mine, theirs) in enumerate(zip(tree.streets, known.streets, strict=True)):
        if not np.array_equal(mine.boards, theirs.boards):
            raise ValueError(
                f"known.streets[{street}].boards differ from tree.streets[{street}].boards;"
                " allowed: the same boards, merged by the same symmetries of suits"
            )
    policies = [
        tuple(_from_start(tree, known, np.asarray(policy[p]), start, p) for p in range(2))
        for start in starts
    ]
    stacked = tuple(map(jnp.stack, zip(*policies, strict=True)))
    probabilities = jnp.array(list(starts.values()), tree.sequence_form.dtype)
    return mixture_policy(tree.sequence_form, stacked, probabilities)


@jax.jit
def mixture_policy(
    tree: SequenceForm,
    policies: tuple[Float[Array, "n _ A"], ...],
    probabilities: Float[Array, " n"],
) -> Policy:
    """Behaviour policies that are equivalent to drawing one of n policies before play (Kuhn 1953).

    Args:
      tree: the game.
      policies: n policies of each player, `[n, D_p, A]`.
      probabilities: with which each player draws them, independently.

    Returns:
      Policies `[D_p, A]`; uniform where a player's own reach is 0.
    """
    roots = checked_root_reach(tree, None)
    reaches = jax.lax.map(
        lambda policy: tuple(map(sweeps.reach, tree.treeplexes, pack(tree, policy), roots)),
        policies,
    )
    mean = [jnp.tensordot(probabilities, reach, 1) for reach in reaches]
    return unpack(tree, tuple(map(behaviour, tree.treeplexes, mean)))


def _from_start(tree, known, policy, start, player):
    """One player's policy `[D, A]` if the root is translated to the node `start`."""
    counterpart = counterparts(tree.betting, known.betting, start)
    mine, theirs = tree.layouts[player], known.layouts[player]
    hands = len(tree.hands[player])
    form = tree.sequence_form
    table = np.zeros((form.treeplexes[player].num_decisions, form.num_actions))
    for node in mine.nodes:
        other, width = int(counterpart[node]), len(tree.betting.actions[node])
        count = len(tree.streets[tree.betting.street[node]].boards) * hands
        rows = slice(mine.first_decision[node] * hands, mine.first_decision[node] * hands + count)
        if known.betting.actor[other] != player:  # the known street is over: no more bets
            table[rows, :width] = [name in ("call", "check") for name in tree.betting.actions[node]]
            continue
        first = theirs.first_decision[other] * hands
        moves = action_matrix(known.betting, other, tree.betting, node)
        table[rows, :width] = policy[first : first + count, : len(moves)] @ moves
    return jnp.asarray(table, form.dtype)
