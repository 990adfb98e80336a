"""Policies of a game tree as tabular policies of OpenSpiel, and back.

The tree and OpenSpiel's game are walked in step, matched by the numbers of actions and chance
outcomes. So the tree may come from `from_openspiel`, or from a native game that numbers its moves
as OpenSpiel does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from jaxgames.adapters.openspiel import actor_of, load_spiel, moves_of, sequential
from jaxgames.core import TERMINAL
from jaxgames.game_tree import GameTree, check_policies


def to_openspiel_policy(
    tree: GameTree, policies: Sequence[Float[np.ndarray | Array, "_ _"]], pyspiel_game: Any
) -> Any:
    """Converts policies of a tree into OpenSpiel's.

    Args:
      tree: the game tree.
      policies: for each player p an array `[D_p, A]`, rows summing to 1.
      pyspiel_game: the game or its name; for a simultaneous game, its turn-based form is used.

    Returns:
      The `open_spiel.python.policy.TabularPolicy` that plays `policies[p]` for every player p.

    Raises:
      ValueError: the policies are not policies of the tree, or the games differ (the message says
        where).
    """
    from open_spiel.python.policy import TabularPolicy

    policies = [np.asarray(policy) for policy in policies]
    check_policies(tree, policies)
    spiel = _game(pyspiel_game)
    result = TabularPolicy(spiel)
    sets = {}  # OpenSpiel's information state -> ours
    for row, state in _walk(tree, spiel):
        player = int(tree.actor[row])
        ours = int(tree.information_state[row, player])
        key = state.information_state_string(player)
        if sets.setdefault(key, (player, ours)) != (player, ours):
            raise ValueError(
                f"{tree.game}: OpenSpiel's information state {key!r} is more than one of the tree"
            )
        legal = np.flatnonzero(tree.legal[row])
        result.policy_for_key(key)[legal] = policies[player][ours, legal]
    return result


def from_openspiel_policy(
    tree: GameTree, openspiel_policy: Any, pyspiel_game: Any
) -> tuple[Float[np.ndarray, "_ A"], ...]:
    """Converts a policy of OpenSpiel into policies of a tree.

    Args:
      tree: the game tree.
      openspiel_policy: anything with the method `action_probabilities(state)`.
      pyspiel_game: the game or its name.

    Returns:
      Policies `[D_p, A]` for every player p.

    Raises:
      ValueError: the games differ (the message says where), the policy differs between two
        histories of one information state of the tree, or its probabilities do not sum to 1.
    """
    policies = tuple(np.zeros((count, tree.num_actions)) for count in tree.num_decisions)
    seen = [np.zeros(count, bool) for count in tree.num_decisions]
    for row, state in _walk(tree, _game(pyspiel_game)):
        player = int(tree.actor[row])
        ours = int(tree.information_state[row, player])
        probabilities = openspiel_policy.action_probabilities(state)
        played = np.zeros(tree.num_actions)
        for action in state.legal_actions():
            played[action] = probabilities.get(action, 0.0)
        if seen[player][ours] and not np.allclose(played, policies[player][ours], atol=1e-9):
            raise ValueError(
                f"{tree.game}: the policy differs within information state {ours} of player"
                f" {player} (history {state.history()})"
            )
        seen[player][ours], policies[player][ours] = True, played
    check_policies(tree, policies)
    return policies


def _walk(tree: GameTree, spiel: Any) -> Iterator[tuple[int, Any]]:
    """Yields the decision histories of the tree with OpenSpiel's states, depth first."""
    first = np.searchsorted(tree.parent, np.arange(tree.num_histories + 1))
    pending = [(0, spiel.new_initial_state())]
    while pending:
        row, state = pending.pop()
        children = np.arange(first[row], first[row + 1])
        _check_same(tree, row, children, state)
        if tree.actor[row] >= 0:
            yield row, state
        for child in children.tolist():
            pending.append((child, state.child(int(tree.parent_action[child]))))


def _check_same(tree, row, children, state) -> None:
    """Requires that actor, moves, their probabilities and returns agree."""
    actor = actor_of(state)
    if actor != tree.actor[row]:
        raise ValueError(_differ(tree, state, f"actor {tree.actor[row]}", actor))
    if actor == TERMINAL and not np.allclose(state.returns(), tree.returns[row]):
        raise ValueError(_differ(tree, state, f"returns {tree.returns[row]}", state.returns()))
    theirs = dict(moves_of(state, actor))
    ours = dict(
        zip(tree.parent_action[children].tolist(), tree.chance_prob[children].tolist(), strict=True)
    )
    same = ours.keys() == theirs.keys()
    if not (same and all(np.isclose(ours[move], theirs[move]) for move in ours)):
        raise ValueError(_differ(tree, state, f"moves {[*ours]}", [*theirs]))


def _differ(tree, state, ours, theirs):
    """The message for a difference between the games."""
    return (
        f"{tree.game} and OpenSpiel's {state.get_game()} differ after moves {state.history()}:"
        f" {ours} here, {theirs} there"
    )


def _game(game):
    return sequential(load_spiel(game) if isinstance(game, str) else game)
