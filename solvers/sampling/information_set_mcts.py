"""Information-set Monte Carlo tree search (Cowling, Powley and Whitehouse 2012), one observer.

    tree, settings = build_decision_tree(make("leduc_poker")), InformationSetMcts(exploration=13.0)
    found = search_everywhere(tree, key, settings=settings)
    policy = max_visits(tree, found)

A search at an information state draws a world that it may be (by what chance makes likely) for
every simulation, and walks down by UCB on what the players to act know, as far as its tree goes:
the first state outside joins the tree and is worth what uniform play from there earns. As in
OpenSpiel's `ismcts`, that play counts for the states above, not for the new one.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from jaxgames.core import TERMINAL, record
from solvers.sampling import episodes
from solvers.sampling.decision_tree import DecisionTree, draw_place, split_by_player
from solvers.sampling.uct import back_up, init, upper_bounds
from solvers.sequence_form import Policy


@dataclasses.dataclass(frozen=True, kw_only=True)
class InformationSetMcts:
    """How to search. Static under `jit`."""

    exploration: float  # C of UCB
    simulations: int = 1000

    def __post_init__(self):
        if not 0 <= self.exploration < math.inf:
            raise ValueError(f"exploration={self.exploration} must be at least 0 and finite")
        if self.simulations < 1:
            raise ValueError(f"simulations={self.simulations} must be at least 1")


@record
class IsmctsResult:
    """What searches found of the actions where they were made; batches have leading axes."""

    visits: Array  # [A] int32
    values: Array  # [A] mean payoff, 0 without visits


def search(
    tree: DecisionTree, state: Int[Array, ""], key: Key[Array, ""], *, settings: InformationSetMcts
) -> IsmctsResult:
    """A search at information state `state` (counted over all players); `key` is consumed."""

    def one(number, carry):
        learner, known = carry
        luck = jax.random.fold_in(key, number)
        return _simulated(tree, state, learner, known, luck, settings)

    known = jnp.zeros(tree.num_states + 1, bool).at[state].set(True)
    learner, _ = jax.lax.fori_loop(0, settings.simulations, one, (init(tree), known))
    return IsmctsResult(visits=learner.visits[state], values=learner.values[state])


@functools.partial(jax.jit, static_argnames=("settings", "batch"))
def search_everywhere(
    tree: DecisionTree, key: Key[Array, ""], *, settings: InformationSetMcts, batch: int = 1024
) -> IsmctsResult:
    """A search of its own at every information state (fields [N, A]), `batch` of them at a time.

    `key` is consumed.
    """
    states = jnp.arange(tree.num_states, dtype=jnp.int32)
    keys = jax.random.split(key, tree.num_states)
    one = functools.partial(search, tree, settings=settings)
    return jax.lax.map(lambda each: one(*each), (states, keys), batch_size=batch)


def visit_distribution(tree: DecisionTree, found: IsmctsResult) -> Policy:
    """Actions as often as they were visited, by player `[D_p, A]`."""
    visits = found.visits.astype(tree.uniform.dtype)
    return _policies(tree, visits)


def max_visits(tree: DecisionTree, found: IsmctsResult) -> Policy:
    """The most visited action, or any of them, by player `[D_p, A]`."""
    most = jnp.max(found.visits, axis=1, keepdims=True)
    return _policies(tree, (found.visits == most).astype(tree.uniform.dtype))


def max_value(tree: DecisionTree, found: IsmctsResult) -> Policy:
    """The action of the highest mean payoff, of those tried, by player `[D_p, A]`."""
    values = jnp.where(found.visits > 0, found.values, -jnp.inf)
    best = values == jnp.max(values, axis=1, keepdims=True)
    return _policies(tree, best.astype(tree.uniform.dtype))


def _policies(tree, weights):
    weights = jnp.where(tree.uniform[:-1] > 0, weights, 0)
    return split_by_player(tree, weights / jnp.sum(weights, axis=1, keepdims=True))


def _simulated(tree, root, learner, known, key, settings):
    """The learner, and which states are in its tree, after one more simulation."""
    world_key, line_key = jax.random.split(key)
    place = draw_place(tree.worlds, root, episodes.uniform_numbers(world_key, (1,))[0])

    def choose(inside, node, luck):
        inside = inside & (node.actor != TERMINAL)
        counted = inside & known[node.state]
        weights = upper_bounds(
            learner.visits[node.state],
            learner.values[node.state],
            node.count > 0,
            exploration=settings.exploration,
        )
        action = episodes.pick_action(jnp.where(counted, weights, node.uniform), luck[0])
        return counted, action, (counted, inside)

    line = episodes.play(tree, line_key, choose, jnp.bool_(True), place=place)
    counted, met = line.told
    joined = jnp.where(met, line.state, tree.num_states)
    return back_up(learner, line.replace(told=counted)), known.at[joined].set(True)
