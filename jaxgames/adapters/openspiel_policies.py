"""Policies of game trees as tabular policies of OpenSpiel, and back.

Both trees are walked in step, matched by the numbers of actions and chance outcomes: the tree may
come from `from_openspiel`, or from a native game that numbers its moves as OpenSpiel does.
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
    """The `open_spiel.python.policy.TabularPolicy` that plays `policies[p]` for every player p.

    `policies[p]` is `[num_decisions[p], A]`, rows sum to 1. `pyspiel_game` is a game or its name;
    of a simultaneous game, the policy is one for its turn-based form.

    Raises:
      ValueError: a policy has the wrong shape or is none, or the games differ (and where).
    """
    from open_spiel.python.policy import TabularPolicy

    policies = [np.asarray(policy) for policy in policies]
    check_policies(tree, policies)
    spiel = _game(pyspiel_game)
    found = TabularPolicy(spiel)
    sets = {}  # OpenSpiel's information states: ours
    for row, state in _walk(tree, spiel):
        player = int(tree.actor[row])
        ours = int(tree.information_state[row, player])
        key = state.information_state_string(player)
        if sets.setdefault(key, (player, ours)) != (player, ours):
            raise ValueError(
                f"{tree.game}: OpenSpiel's information state {key!r} is several of the tree"
            )
        legal = np.flatnonzero(tree.legal[row])
        found.policy_for_key(key)[legal] = policies[player][ours, legal]
    return found


def from_openspiel_policy(
    tree: GameTree, openspiel_policy: Any, pyspiel_game: Any
) -> tuple[Float[np.ndarray, "_ A"], ...]:
    """What a policy of OpenSpiel plays in the tree, `[num_decisions[p], A]` for every player p.

    `openspiel_policy` is anything with `action_probabilities(state)`.

    Raises:
      ValueError: the games differ (and where), or the policy plays differently at two histories of
        one information state of the tree, or its probabilities do not sum to 1.
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
    """Decision histories of the tree with OpenSpiel's states, depth first."""
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
    """Actor, moves, their probabilities and returns agree."""
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
    return (
        f"{tree.game} and OpenSpiel's {state.get_game()} differ after moves {state.history()}:"
        f" {ours} here, {theirs} there"
    )


def _game(game):
    return sequential(load_spiel(game) if isinstance(game, str) else game)
