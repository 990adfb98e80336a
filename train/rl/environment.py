"""A game as an environment for learners that know only what players know.

Every player is a learner of its own; what the others do is a part of its environment, unless
opponents are fixed. Steps are decisions, of all players together.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from jaxgames.core import TERMINAL, Game, record
from jaxgames.game_tree import MAX_HISTORIES, enumerate_game
from jaxgames.histories import states_at
from solvers.sampling import episodes
from solvers.sampling.decision_tree import DecisionTree, Node, build_decision_tree
from solvers.sampling.episodes import Line


@record
class Environment:
    """A game compiled for learners."""

    tree: DecisionTree
    features: Array  # [N + 1, F] what players know at each information state; 0 in row N


def build_environment(game: Game, *, max_histories: int = MAX_HISTORIES) -> Environment:
    """Compiles a game.

    Raises:
      TreeTooLargeError: more than `max_histories` histories, with an estimate of how many.
      ValueError: no player ever acts.
    """
    tree = enumerate_game(game, max_histories=max_histories)
    found = []
    for player in range(tree.num_players):
        histories = tree.representative(player)[: tree.num_decisions[player]]
        states = jax.tree.map(lambda *leaves: np.stack(leaves), *states_at(game, tree, histories))
        found.append(jax.jit(jax.vmap(lambda s, p=player: game.features(s, p)))(states))
    features = jnp.concatenate(found)
    features = jnp.concatenate([features, jnp.zeros_like(features[:1])]).astype(jnp.float32)
    return Environment(tree=build_decision_tree(tree), features=features)


def play(
    environment: Environment,
    key: Key[Array, ""],
    policy: Callable[[Node], Float[Array, " A"]],
    *,
    fixed: Float[Array, "N1 A"] | None,
) -> Line:
    """An episode in which all players follow `policy`; but `fixed`, where its rows are not 0.

    `key` is consumed.
    """

    def choose(carry, node, luck):
        weights = policy(node)
        if fixed is not None:
            given = fixed[node.state]
            weights = jnp.where(jnp.sum(given) > 0, given, weights)
        return carry, episodes.pick(weights, luck[0]), None

    return episodes.play(environment.tree, key, choose, None)


def next_own(line: Line, *, num_players: int) -> Int[Array, " T"]:
    """For each of T decisions the number of its actor's next one; T if that was the last."""
    end = jnp.int32(len(line.actor))
    players = jnp.arange(num_players, dtype=jnp.int32)

    def back(following, decision):
        actor, number = decision
        found = jnp.max(jnp.where(players == actor, following, 0))
        return jnp.where(players == actor, number, following), found

    numbers = jnp.arange(len(line.actor), dtype=jnp.int32)
    last = jnp.full(num_players, end)
    return jax.lax.scan(back, last, (line.actor, numbers), reverse=True)[1]


def payoff_of_actor(line: Line) -> Float[Array, " T"]:
    """What the actor of each decision got in the end; 0 where nobody acts."""
    got = line.payoffs[jnp.maximum(line.actor, 0)]
    return jnp.where(line.actor == TERMINAL, 0, got)
