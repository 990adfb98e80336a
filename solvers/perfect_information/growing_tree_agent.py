"""A player of games of perfect information that searches by growing-tree CFR (Student of Games)."""

from __future__ import annotations

from typing import Any

import flax.struct
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import record
from solvers.perfect_information.positions import legal_actions, require_perfect_information
from solvers.search import continual_resolving, growing_tree_cfr, readouts
from solvers.search.search_state import GrowingTreeCfr


@record
class GrowingTreeAgent:
    """A player that plays the likeliest action of the average policies of its searches."""

    params: Any = None  # of the evaluator
    settings: GrowingTreeCfr = flax.struct.field(pytree_node=False)


def act(
    game: BeliefGame, agent: GrowingTreeAgent, key: Key[Array, ""], state: PublicState
) -> Int[Array, ""]:
    """Chooses the agent's move.

    Args:
      game: a game of perfect information.
      agent: who moves.
      key: consumed.
      state: a position that is not terminal.

    Returns:
      The action.

    Raises:
      ValueError: the game has several rows.
    """
    require_perfect_information(game)
    problem = continual_resolving.first_problem(game, max_path=agent.settings.max_path)
    search = growing_tree_cfr.search(
        game, agent.params, key, problem=problem.replace(state=state), settings=agent.settings
    )
    policies = readouts.average_policy(search)
    likelihood = sum(
        jnp.pad(policy[:, 0], (0, max(game.num_actions) - len(policy))) for policy in policies
    )
    likelihood = jnp.where(legal_actions(game, state), likelihood, -1)
    return jnp.argmax(likelihood).astype(jnp.int32)
