"""Exact beliefs: where a game is, given what the responder knows and how the opponent plays.

    Pr(h | s) is in proportion to chance's probability of h and the others' own reach of it

(Bayes; Timbers et al. 2020, Section 3.2). The responder's own reach is the same for all histories
of one of its information states, by perfect recall.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from jaxgames.core import record
from jaxgames.game_tree import GameTree, check_policies, levels
from solvers.approximate_best_response.opponents import tabular_opponent
from solvers.approximate_best_response.response_game import Belief, ResponseGame
from solvers.sampling.decision_tree import DecisionTree, Lotteries, build_lotteries, draw_place


@record
class PerfectInformation(Belief):
    """Of games that hide nothing: the game is where it is."""

    def sample(self, memory: PyTree, place: PyTree, node: Any, luck: Float[Array, ""]) -> PyTree:
        """`place` itself."""
        return place


@record
class Posterior(Belief):
    """Of a compiled game: for each information state the places where it may be."""

    worlds: Lotteries

    def sample(self, memory: PyTree, place: PyTree, node: Any, luck: Float[Array, ""]) -> Array:
        """A place of the node's information state."""
        return draw_place(self.worlds, node.state, luck)


def posterior(
    source: GameTree, tree: DecisionTree, policies: Sequence[Float[np.ndarray | Array, "_ _"]]
) -> Posterior:
    """Beliefs of every player when the others play `policies`, `[D_p, A]` for each player p.

    Where they never let a player come, it believes what chance alone makes likely.

    Raises:
      ValueError: `policies` are not policies of this game.
    """
    place, state, weight = _weights(source, tree, policies)
    total = np.bincount(state, weight, tree.num_states)
    chance = source.chance_reach()[np.asarray(tree.history)[place]]
    return Posterior(
        worlds=build_lotteries(np.where(total[state] > 0, weight, chance), state, place)
    )


def chance_posterior(tree: DecisionTree) -> Posterior:
    """Beliefs by what chance alone makes likely, as in plain information-set MCTS.

    Searches that use them do not converge to a best response.
    """
    return Posterior(worlds=tree.worlds)


def others_reach(
    source: GameTree, tree: DecisionTree, policies: Sequence[Float[np.ndarray | Array, "_ _"]]
) -> Float[np.ndarray, " N"]:
    """Chance's and the others' reach of every information state, of all players in turn.

    Raises:
      ValueError: `policies` are not policies of this game.
    """
    _, state, weight = _weights(source, tree, policies)
    return np.bincount(state, weight, tree.num_states)


def history_probabilities(
    source: GameTree,
    tree: DecisionTree,
    policies: Sequence[Float[np.ndarray | Array, "_ _"]],
    state: int,
) -> dict[int, float]:
    """Pr(h | s) of the histories of one information state, counted over all players.

    Raises:
      ValueError: there is no such state, the others give it probability 0, or `policies` are not
        policies of this game.
    """
    if not 0 <= state < tree.num_states:
        raise ValueError(f"state={state} must be from 0 to {tree.num_states - 1} in {tree.game}")
    place, states, weight = _weights(source, tree, policies)
    here, weight = place[states == state], weight[states == state]
    if not weight.sum() > 0:
        raise ValueError(
            f"{tree.game}: the opponent gives probability 0 to what it played before information"
            f" state {state}, so there is nothing to believe there"
        )
    history = np.asarray(tree.history)[here].tolist()
    return dict(zip(history, (weight / weight.sum()).tolist(), strict=True))


def build_response_game(
    source: GameTree,
    tree: DecisionTree,
    policies: Sequence[Float[np.ndarray | Array, "_ _"]],
    *,
    responder: int,
) -> ResponseGame:
    """A compiled game against opponents that play `policies`, with exact beliefs.

    Raises:
      ValueError: `policies` are not policies of this game, or there is no player `responder`.
    """
    if not 0 <= responder < source.num_players:
        raise ValueError(
            f"responder={responder} must be a player of {tree.game}, 0 to {source.num_players - 1}"
        )
    return ResponseGame(
        game=tree,
        opponent=tabular_opponent(source, policies),
        belief=posterior(source, tree, policies),
        responder=jnp.int32(responder),
    )


def _weights(source, tree, policies):
    """Places of decisions, their information states, and chance's and the others' reach of them."""
    policies = [np.asarray(policy, np.float64) for policy in policies]
    check_policies(source, policies)
    reach = np.ones((source.num_histories, source.num_players))
    for rows in levels(source.parent):
        above, action = source.parent[rows], source.parent_action[rows]
        reach[rows] = reach[above]
        for player, policy in enumerate(policies):
            acted = source.actor[above] == player
            state = source.information_state[above[acted], player]
            reach[rows, player][acted] *= policy[state, action[acted]]
    place = np.flatnonzero(np.asarray(tree.actor) >= 0)
    history = np.asarray(tree.history)[place]
    others = np.where(
        np.arange(source.num_players) == source.actor[history][:, None], 1, reach[history]
    )
    state = np.asarray(tree.state)[place]
    return place, state, source.chance_reach()[history] * others.prod(axis=1)
