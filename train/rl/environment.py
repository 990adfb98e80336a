"""A game as an environment for learners, who see only what the players know.

Every player is a learner of its own; the other players' actions are part of its environment, unless
their policies are fixed. Steps are decisions, of all players together.

Example:

    >>> import jaxgames
    >>> from train.rl.environment import build_environment, rules_environment
    >>> compiled = build_environment(jaxgames.make("kuhn_poker"))  # lists all information states
    >>> compiled.features.shape
    (13, 9)
    >>> any_size = rules_environment(jaxgames.make("limit_holdem"))  # played by its rules
    >>> any_size.features is None
    True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from jaxgames.core import TERMINAL, Game, State, record
from jaxgames.game_tree import MAX_HISTORIES, enumerate_game, states_at
from solvers.sampling import episodes
from solvers.sampling.decision_tree import build_decision_tree
from solvers.sampling.episodes import Playable, Trajectory
from solvers.sampling.indexed_game import Index, indexed_game


@record
class Environment:
    """A game for learners.

    Learners store *observations* of the actor. Where all information states are listed, an
    observation is the number of one of them; else it is a record of its features and legal actions.
    """

    game: Playable
    features: Array | None  # [N + 1, F] by information state, 0 in row N; None: not listed
    legal: Array | None  # [N + 1, A] bool

    @property
    def num_features(self) -> int:
        """F."""
        if self.features is not None:
            return self.features.shape[1]
        root = jax.eval_shape(self.game.start, jnp.zeros(self.game.noise_width))
        return len(jax.eval_shape(self._features, root))

    def observe(self, node: Any) -> PyTree:
        """Returns the observation of the actor at a node of `game`."""
        if self.features is not None:
            return node.state
        return Observation(features=self._features(node.place), legal=node.uniform > 0)

    def nothing(self) -> PyTree:
        """Returns an observation of zeros, to fill tables that are not written yet."""
        root = jax.eval_shape(self.game.start, jnp.zeros(self.game.noise_width))
        seen = jax.eval_shape(lambda place: self.observe(self.game.at(place)), root)
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), seen)

    def encoded(self, observation: PyTree) -> tuple[Float[Array, "... F"], Bool[Array, "... A"]]:
        """Returns features and legal actions of observations, which may have batch axes."""
        if self.features is not None:
            return self.features[observation], self.legal[observation]
        return observation.features, observation.legal

    def _features(self, state: State) -> Float[Array, " F"]:
        return self.game.game.features_of_actor(state).astype(jnp.float32)


@record
class Observation:
    """What the actor knows, in a game that is played by its rules."""

    features: Array  # [F]
    legal: Array  # [A] bool


def build_environment(game: Game, *, max_histories: int = MAX_HISTORIES) -> Environment:
    """Compiles a game and lists its information states.

    Args:
      game: the game.
      max_histories: the largest tree that is enumerated.

    Returns:
      The environment, with features of every information state.

    Raises:
      TreeTooLargeError: the game has more than `max_histories` histories; the message estimates how
        many.
      ValueError: no player ever acts.
    """
    tree = enumerate_game(game, max_histories=max_histories)
    tables = []
    for player in range(tree.num_players):
        histories = tree.representative(player)[: tree.num_decisions[player]]
        states = jax.tree.map(lambda *leaves: np.stack(leaves), *states_at(game, tree, histories))
        tables.append(jax.jit(jax.vmap(lambda s, p=player: game.features(s, p)))(states))
    features = jnp.concatenate(tables)
    features = jnp.concatenate([features, jnp.zeros_like(features[:1])]).astype(jnp.float32)
    decisions = build_decision_tree(tree)
    return Environment(game=decisions, features=features, legal=decisions.uniform > 0)


def rules_environment(
    game: Game,
    index: Index | None = None,
    *,
    num_states: int = 2**16,
    max_decisions: int | None = None,
) -> Environment:
    """Prepares a game of any size, which is played by its rules.

    Args:
      game: the game.
      index: maps (state, player) to the row of an information state; used by tabular learners and
        fixed policies only. By default a hash.
      num_states: the number of rows of `index`.
      max_decisions: an upper bound on the decisions of an episode.

    Returns:
      The environment.

    Raises:
      ValueError: as `indexed_game`.
    """
    playable = indexed_game(game, index, num_states=num_states, max_decisions=max_decisions)
    return Environment(game=playable, features=None, legal=None)


def play(
    environment: Environment,
    key: Key[Array, ""],
    policy: Callable[[Any], Float[Array, " A"]],
    *,
    fixed: Float[Array, "N1 A"] | None,
) -> Trajectory:
    """Plays an episode in which all players follow `policy`.

    Args:
      environment: the game.
      key: consumed.
      policy: maps a node to the probabilities of the actor's actions.
      fixed: policies that are played instead at information states where the row is not 0.

    Returns:
      The episode, with the observations recorded.
    """

    def choose(carry, node, noise):
        weights = policy(node)
        if fixed is not None:
            given = fixed[node.state]
            weights = jnp.where(jnp.sum(given) > 0, given, weights)
        return carry, episodes.pick_action(weights, noise[0]), environment.observe(node)

    return episodes.play(environment.game, key, choose, None)


def next_own_decision(trajectory: Trajectory, *, num_players: int) -> Int[Array, " T"]:
    """Returns, for each of T decisions, the number of its actor's next decision; T if it was the
    last.
    """
    end = jnp.int32(len(trajectory.actor))
    players = jnp.arange(num_players, dtype=jnp.int32)

    def back(following, decision):
        actor, number = decision
        next_number = jnp.max(jnp.where(players == actor, following, 0))
        return jnp.where(players == actor, number, following), next_number

    numbers = jnp.arange(len(trajectory.actor), dtype=jnp.int32)
    last = jnp.full(num_players, end)
    return jax.lax.scan(back, last, (trajectory.actor, numbers), reverse=True)[1]


def payoff_of_actor(trajectory: Trajectory) -> Float[Array, " T"]:
    """Returns the payoff of each decision's actor at the end of the game; 0 for padding."""
    got = trajectory.payoffs[jnp.maximum(trajectory.actor, 0)]
    return jnp.where(trajectory.actor == TERMINAL, 0, got)


def listed_states(environment: Environment) -> Int[np.ndarray, " N"]:
    """Returns the numbers of all information states.

    Raises:
      ValueError: the environment does not list them.
    """
    if environment.features is None:
        raise ValueError(
            f"{environment.game.game} is played by its rules, so its information states are not"
            " listed: use policy_at, or compile a small game with build_environment"
        )
    return np.arange(environment.game.num_states)
