"""Exact beliefs: the history of a game, given what the responder knows and the opponent's policy.

By Bayes, Pr(h | s) is proportional to chance's probability of h times the other players' own reach
of h (Timbers et al. 2020, section 3.2). The responder's own reach is the same for all histories of
one of its information states, by perfect recall, and cancels.
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
    """The belief in games without hidden information: the game is where it is."""

    def sample(self, memory: PyTree, place: PyTree, node: Any, noise: Float[Array, ""]) -> PyTree:
        """Returns `place` itself."""
        return place


@record
class Posterior(Belief):
    """The belief in a compiled game: a lottery over places for each information state."""

    worlds: Lotteries

    def sample(self, memory: PyTree, place: PyTree, node: Any, noise: Float[Array, ""]) -> Array:
        """Draws a place of the node's information state."""
        return draw_place(self.worlds, node.state, noise)


def posterior(
    source: GameTree, tree: DecisionTree, policies: Sequence[Float[np.ndarray | Array, "_ _"]]
) -> Posterior:
    """Computes the beliefs of every player when the others play by `policies`.

    Args:
      source: the game tree.
      tree: the compiled game.
      policies: one policy `[D_p, A]` for every player p.

    Returns:
      The beliefs. At information states that the others' policies never reach, places are drawn by
      the reach of chance alone.

    Raises:
      ValueError: `policies` are not policies of this game.
    """
    place, state, weight = _weights(source, tree, policies)
    total = np.bincount(state, weight, tree.num_states)
    chance = source.chance_reach()[np.asarray(tree.history)[place]]
    return Posterior(
        worlds=build_lotteries(np.where(total[state] > 0, weight, chance), state, place)
    )


def history_probabilities(
    source: GameTree,
    tree: DecisionTree,
    policies: Sequence[Float[np.ndarray | Array, "_ _"]],
    state: int,
) -> dict[int, float]:
    """Computes Pr(h | s) for the histories of one information state.

    Args:
      source: the game tree.
      tree: the compiled game.
      policies: one policy `[D_p, A]` for every player p.
      state: the number of the information state, counted over all players.

    Returns:
      The probability of each history, by its row in `source`.

    Raises:
      ValueError: there is no such state, the other players' policies never reach it, or `policies`
        are not policies of this game.
    """
    if not 0 <= state < tree.num_states:
        raise ValueError(f"state={state} must be from 0 to {tree.num_states - 1} in {tree.game}")
    place, states, weight = _weights(source, tree, policies)
    here, weight = place[states == state], weight[states == state]
    if not weight.sum() > 0:
        raise ValueError(
            f"{tree.game}: the other players' policies never reach information state {state}, so"
            " the belief there is undefined"
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
    """Builds a compiled game against opponents with known policies, and exact beliefs.

    Args:
      source: the game tree.
      tree: the compiled game.
      policies: one policy `[D_p, A]` for every player p; the responder's own is not played.
      responder: the player who responds.

    Returns:
      The game for the responder.

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
    """Places of decisions, their information states, and the reach of chance and others there."""
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
