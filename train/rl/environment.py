"""A game as an environment for learners that know only what players know.

    environment = build_environment(make("leduc_poker"))  # compiled: every information state
    environment = rules_environment(make("limit_holdem"))  # by its rules: games of any size

Every player is a learner of its own; what the others do is a part of its environment, unless
opponents are fixed. Steps are decisions, of all players together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from jaxgames.core import TERMINAL, Game, State, record
from jaxgames.game_tree import MAX_HISTORIES, enumerate_game
from jaxgames.histories import states_at
from solvers.sampling import episodes
from solvers.sampling.decision_tree import build_decision_tree
from solvers.sampling.episodes import Playable, Trajectory
from solvers.sampling.indexed_game import Index, indexed_game


@record
class Environment:
    """A game for learners.

    What the actor of a node sees is an *observation*: that is what learners store. Where all
    information states are listed it is the number of one of them; else its features and legal
    actions.
    """

    game: Playable
    features: Array | None  # [N + 1, F] at each information state, 0 in row N; None: by the rules
    legal: Array | None  # [N + 1, A] bool

    @property
    def num_features(self) -> int:
        """F."""
        if self.features is not None:
            return self.features.shape[1]
        root = jax.eval_shape(self.game.start, jnp.zeros(self.game.luck_of_chance))
        return len(jax.eval_shape(self._features, root))

    def observe(self, node: Any) -> PyTree:
        """What the actor of a node of `game` sees."""
        if self.features is not None:
            return node.state
        return Observation(features=self._features(node.place), legal=node.uniform > 0)

    def nothing(self) -> PyTree:
        """What nobody sees, as the row of a table that is not yet written."""
        root = jax.eval_shape(self.game.start, jnp.zeros(self.game.luck_of_chance))
        seen = jax.eval_shape(lambda place: self.observe(self.game.at(place)), root)
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), seen)

    def encoded(self, observation: PyTree) -> tuple[Float[Array, "... F"], Bool[Array, "... A"]]:
        """Features, and the legal actions, of observations of any batch shape."""
        if self.features is not None:
            return self.features[observation], self.legal[observation]
        return observation.features, observation.legal

    def _features(self, state: State) -> Float[Array, " F"]:
        return self.game.game.features_of_actor(state).astype(jnp.float32)


@record
class Observation:
    """What the actor knows, and may do."""

    features: Array  # [F]
    legal: Array  # [A] bool


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
    decisions = build_decision_tree(tree)
    return Environment(game=decisions, features=features, legal=decisions.uniform > 0)


def rules_environment(
    game: Game,
    index: Index | None = None,
    *,
    num_states: int = 2**16,
    longest: int | None = None,
) -> Environment:
    """A game of any size, played by its rules; arguments are those of `indexed_game`.

    Only what is tabular takes notice of `index`: Q-learning, and the opponents that are fixed.

    Raises:
      ValueError: as `indexed_game`.
    """
    playable = indexed_game(game, index, num_states=num_states, longest=longest)
    return Environment(game=playable, features=None, legal=None)


def play(
    environment: Environment,
    key: Key[Array, ""],
    policy: Callable[[Any], Float[Array, " A"]],
    *,
    fixed: Float[Array, "N1 A"] | None,
) -> Trajectory:
    """An episode in which all players follow `policy`; but `fixed`, where its rows are not 0.

    It tells the observations. `key` is consumed.
    """

    def choose(carry, node, luck):
        weights = policy(node)
        if fixed is not None:
            given = fixed[node.state]
            weights = jnp.where(jnp.sum(given) > 0, given, weights)
        return carry, episodes.pick_action(weights, luck[0]), environment.observe(node)

    return episodes.play(environment.game, key, choose, None)


def next_own_decision(line: Trajectory, *, num_players: int) -> Int[Array, " T"]:
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


def payoff_of_actor(line: Trajectory) -> Float[Array, " T"]:
    """What the actor of each decision got in the end; 0 where nobody acts."""
    got = line.payoffs[jnp.maximum(line.actor, 0)]
    return jnp.where(line.actor == TERMINAL, 0, got)


def listed_states(environment: Environment) -> Int[np.ndarray, " N"]:
    """The numbers of all information states.

    Raises:
      ValueError: the environment does not list them.
    """
    if environment.features is None:
        raise ValueError(
            f"{environment.game.game} is played by its rules, so its information states are not "
            f"listed; ask policy_at for one, or compile a small game with build_environment"
        )
    return np.arange(environment.game.num_states)
