"""Strategies of one betting tree played in another: action translation of whole strategies.

    >>> from jaxgames.holdem.bet_sizes import Sizes
    >>> from jaxgames.holdem.betting import build_betting_tree
    >>> from jaxgames.holdem.cards import parse_cards
    >>> from jaxgames.holdem.ranges import parse_range
    >>> from solvers.holdem.subgame_tree import holdem_tree
    >>> from solvers.holdem.translated_betting import translated
    >>> from solvers.sequence_form import uniform, unpack
    >>> board, ranges = parse_cards("Td9d6hQc2s"), (parse_range("QQ"), parse_range("AQ"))
    >>> known, tree = (
    ...     holdem_tree(
    ...         board,
    ...         ranges,
    ...         build_betting_tree(pot=200, stack=900, streets=1, sizes=Sizes.parse(bets, "")),
    ...     )
    ...     for bets in ("50%, 100%", "75%")
    ... )
    >>> known_policy = unpack(known.public, uniform(known.public))
    >>> policy = translated(tree, known, known_policy, {0: 1.0})  # both begin at the root

What happens in a tree is taken for what a known tree has (see
`jaxgames.holdem.action_translation`); if its root may be taken for
several nodes, each player draws one and keeps to it, unseen by the other.
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
from solvers.sequence_form.averaging import behaviour


def translated(
    tree: HoldemTree,
    known: HoldemTree,
    policy: tuple[Float[Array | np.ndarray, "_ B"], ...],
    starts: Mapping[int, float],
) -> Policy:
    """Policies in `tree` that play like `policy` in `known`.

    `starts` are the nodes of the known betting tree that the root of the other is taken for, with
    their probabilities. The trees have the same hands and boards.

    Raises:
      ValueError: hands or boards differ, or probabilities do not sum to 1.
    """
    if abs(sum(starts.values()) - 1) > 1e-6:
        raise ValueError(f"starts={dict(starts)} must be probabilities that sum to 1")
    same = all(map(np.array_equal, tree.hands, known.hands)) and tree.deals == known.deals
    if not same or tree.board != known.board or tree.deck != known.deck:
        raise ValueError("the trees must have the same hands and boards")
    policies = [
        tuple(_from(tree, known, np.asarray(policy[p]), start, p) for p in range(2))
        for start in starts
    ]
    stacked = tuple(map(jnp.stack, zip(*policies, strict=True)))
    return mixed(tree.public, stacked, jnp.array(list(starts.values()), tree.public.dtype))


@jax.jit
def mixed(
    tree: SequenceForm,
    policies: tuple[Float[Array, "n _ A"], ...],
    probabilities: Float[Array, " n"],
) -> Policy:
    """Policies that play like one of n `[n, D_p, A]`, drawn by each player beforehand (Kuhn 1953).

    Uniform where a player does not come itself.
    """
    roots = checked_root_reach(tree, None)
    reaches = jax.lax.map(
        lambda policy: tuple(map(sweeps.reach, tree.treeplexes, pack(tree, policy), roots)),
        policies,
    )
    mean = [jnp.tensordot(probabilities, reach, 1) for reach in reaches]
    return unpack(tree, tuple(map(behaviour, tree.treeplexes, mean)))


def _from(tree, known, policy, start, player):
    """[D, A] of one player, if the root is taken for `start`."""
    taken = counterparts(tree.betting, known.betting, start)
    mine, theirs = tree.layouts[player], known.layouts[player]
    hands = len(tree.hands[player])
    found = np.zeros((tree.public.treeplexes[player].num_decisions, tree.public.num_actions))
    for node in mine.nodes:
        there, width = int(taken[node]), len(tree.betting.actions[node])
        count = len(tree.streets[tree.betting.street[node]].boards) * hands
        rows = slice(mine.first_decision[node] * hands, mine.first_decision[node] * hands + count)
        if known.betting.actor[there] != player:  # it has come to an end: no more bets
            call = [name in ("call", "check") for name in tree.betting.actions[node]]
            found[rows, :width] = call
            continue
        first = theirs.first_decision[there] * hands
        moves = action_matrix(known.betting, there, tree.betting, node)
        found[rows, :width] = policy[first : first + count, : len(moves)] @ moves
    return jnp.asarray(found, tree.public.dtype)
