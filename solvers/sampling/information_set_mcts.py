"""Information-set Monte Carlo tree search with one observer (Cowling, Powley, Whitehouse 2012).

A search at an information state makes a number of simulations. Each draws a world (a history of the
information state) in proportion to chance's reach, and walks down by UCB on the information states
of the players to act, as far as the search's tree goes. The first state outside joins the tree, and
uniform play from there on gives the payoff. As in OpenSpiel's `ismcts`, that payoff updates the
states above, but not the new one.

Example:

    >>> import jax
    >>> import jaxgames
    >>> from solvers.sampling import information_set_mcts
    >>> from solvers.sampling.decision_tree import build_decision_tree
    >>> tree = build_decision_tree(jaxgames.make("kuhn_poker"))
    >>> settings = information_set_mcts.InformationSetMcts(exploration=2.0, simulations=100)
    >>> result = information_set_mcts.search_everywhere(tree, jax.random.key(0), settings=settings)
    >>> policy = information_set_mcts.max_visits(tree, result)
    >>> [rows.shape for rows in policy]
    [(6, 2), (6, 2)]
"""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from jaxgames.checks import at_least
from jaxgames.core import TERMINAL, record
from solvers.sampling import episodes
from solvers.sampling.decision_tree import DecisionTree, draw_place, split_by_player
from solvers.sampling.uct import back_up, init, upper_bounds
from solvers.sequence_form import Policy


@dataclasses.dataclass(frozen=True, kw_only=True)
class InformationSetMcts:
    """Settings of a search. Static under `jit`."""

    exploration: float  # C of UCB
    simulations: int = 1000

    def __post_init__(self):
        if not 0 <= self.exploration < math.inf:
            raise ValueError(f"exploration={self.exploration} must be at least 0 and finite")
        at_least(1, simulations=self.simulations)


@record
class IsmctsResult:
    """What a search learned of the actions at its root; batches have leading axes."""

    visits: Array  # [A] int32
    values: Array  # [A] mean payoff, 0 without visits


def search(
    tree: DecisionTree, state: Int[Array, ""], key: Key[Array, ""], *, settings: InformationSetMcts
) -> IsmctsResult:
    """Searches at one information state.

    Args:
      tree: the compiled game.
      state: the number of the information state, counted over all players.
      key: consumed.
      settings: how to search.

    Returns:
      Visits and mean payoffs of the actions there.
    """

    def simulate(number, carry):
        learner, known = carry
        simulation_key = jax.random.fold_in(key, number)
        return _simulate(tree, state, learner, known, simulation_key, settings)

    known = jnp.zeros(tree.num_states + 1, bool).at[state].set(True)
    learner, _ = jax.lax.fori_loop(0, settings.simulations, simulate, (init(tree), known))
    return IsmctsResult(visits=learner.visits[state], values=learner.values[state])


@functools.partial(jax.jit, static_argnames=("settings", "batch"))
def search_everywhere(
    tree: DecisionTree, key: Key[Array, ""], *, settings: InformationSetMcts, batch: int = 1024
) -> IsmctsResult:
    """Makes a separate search at every information state.

    Args:
      tree: the compiled game.
      key: consumed.
      settings: how to search.
      batch: how many searches run side by side.

    Returns:
      The results, with fields `[N, A]`.
    """
    states = jnp.arange(tree.num_states, dtype=jnp.int32)
    keys = jax.random.split(key, tree.num_states)
    search_state = functools.partial(search, tree, settings=settings)
    return jax.lax.map(lambda each: search_state(*each), (states, keys), batch_size=batch)


def visit_distribution(tree: DecisionTree, result: IsmctsResult) -> Policy:
    """Returns policies by player `[D_p, A]` in proportion to the visits."""
    visits = result.visits.astype(tree.uniform.dtype)
    return _normalised(tree, visits)


def max_visits(tree: DecisionTree, result: IsmctsResult) -> Policy:
    """Returns policies by player `[D_p, A]` that play the most visited actions, ties equally."""
    most = jnp.max(result.visits, axis=1, keepdims=True)
    return _normalised(tree, (result.visits == most).astype(tree.uniform.dtype))


def max_value(tree: DecisionTree, result: IsmctsResult) -> Policy:
    """Returns policies by player `[D_p, A]` that play the tried actions of highest mean payoff."""
    values = jnp.where(result.visits > 0, result.values, -jnp.inf)
    best = values == jnp.max(values, axis=1, keepdims=True)
    return _normalised(tree, best.astype(tree.uniform.dtype))


def _normalised(tree, weights):
    """Weights of legal actions `[N, A]` as policies by player."""
    weights = jnp.where(tree.uniform[:-1] > 0, weights, 0)
    return split_by_player(tree, weights / jnp.sum(weights, axis=1, keepdims=True))


def _simulate(tree, root, learner, known, key, settings):
    """Makes one simulation; returns the learner and which states are in the tree `[N + 1]`."""
    # Draw a world, then play: by UCB inside the tree, uniformly from the first state outside.
    world_key, line_key = jax.random.split(key)
    place = draw_place(tree.worlds, root, episodes.uniform_numbers(world_key, (1,))[0])

    def choose(inside, node, noise):
        inside = inside & (node.actor != TERMINAL)
        counted = inside & known[node.state]
        weights = upper_bounds(
            learner.visits[node.state],
            learner.values[node.state],
            node.count > 0,
            exploration=settings.exploration,
        )
        action = episodes.pick_action(jnp.where(counted, weights, node.uniform), noise[0])
        return counted, action, (counted, inside)

    trajectory = episodes.play(tree, line_key, choose, jnp.bool_(True), place=place)
    counted, met = trajectory.recorded
    joined = jnp.where(met, trajectory.state, tree.num_states)
    return back_up(learner, trajectory.replace(recorded=counted)), known.at[joined].set(True)
