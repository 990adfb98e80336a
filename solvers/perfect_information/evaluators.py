"""One network for both searches: AlphaZero's evaluators for growing-tree CFR, and the other way.

AlphaZero's search asks for the value of a position to the player who acts and for logits of its
prior; growing-tree CFR asks for both players' counterfactual values and for probabilities. In a
game of perfect information they are the same knowledge.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from jaxgames.arrays import masked_softmax
from jaxgames.beliefs.contract import BeliefGame, Policy, PublicState, Reach, Values
from solvers.perfect_information.alphazero_search import Evaluate
from solvers.perfect_information.positions import num_actions, require_perfect_information
from solvers.search.search_state import Evaluator


@dataclasses.dataclass(frozen=True)
class BeliefEvaluator:
    """The evaluator of growing-tree CFR that asks one of AlphaZero's search."""

    evaluate: Evaluate

    def __call__(
        self, params: PyTree, game: BeliefGame, state: PublicState, reach: Reach
    ) -> tuple[Values, Policy]:
        """Evaluates one position.

        Args:
          params: of the evaluator.
          game: a game of perfect information.
          state: one of its positions.
          reach: both players' own reaches there.

        Returns:
          Counterfactual values, and the prior, 0 at illegal actions and for who does not act.

        Raises:
          ValueError: the game has several rows.
        """
        require_perfect_information(game)
        value, logits = self.evaluate(params, game, state)
        won = jnp.where(game.actor(state) == 0, value, -value).astype(reach[0].dtype)  # by player 0
        others = [game.compatible(state, player, reach[1 - player]) for player in range(2)]
        first, second = (
            masked_softmax(logits[: len(legal), None], legal) for legal in game.legal(state)
        )
        return (won * others[0], -won * others[1]), (first, second)


@dataclasses.dataclass(frozen=True)
class PositionEvaluator:
    """The evaluator of AlphaZero's search that asks one of growing-tree CFR."""

    evaluate: Evaluator

    def __call__(
        self, params: PyTree, game: BeliefGame, state: PublicState
    ) -> tuple[Float[Array, ""], Float[Array, " A"]]:
        """Evaluates one position.

        Args:
          params: of the evaluator.
          game: a game of perfect information.
          state: one of its positions.

        Returns:
          The value to the player who acts, and logits of the prior, very low at illegal actions.

        Raises:
          ValueError: the game has several rows.
        """
        require_perfect_information(game)
        both = (jnp.ones(1, jnp.float32),) * 2
        values, policies = self.evaluate(params, game, state, both)
        value = jnp.where(game.actor(state) == 0, values[0][0], values[1][0])
        first, second = (
            jnp.pad(policy[:, 0], (0, num_actions(game) - len(policy))) for policy in policies
        )
        prior = first + second  # one of them is 0
        return value, jnp.log(jnp.maximum(prior, jnp.finfo(prior.dtype).tiny))
