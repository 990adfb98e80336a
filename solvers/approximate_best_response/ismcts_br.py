"""ISMCTS-BR: search for a best response to a fixed opponent (Timbers et al. 2020, algorithms 1, 2).

Every simulation draws a history from the exact belief at the responder's information state, and
walks down from it: the responder by PUCB over its own information states, the opponent by its
policy, chance by its probabilities. The first information state of the responder outside of the
tree joins it, with the value and prior of `evaluate`. One call searches in one game; use `jax.vmap`
for batches.

Example:

    >>> import jax
    >>> import numpy as np
    >>> import jaxgames
    >>> from solvers.approximate_best_response import ismcts_br, response_game
    >>> from solvers.approximate_best_response.posterior import build_response_game
    >>> from solvers.sampling.decision_tree import build_decision_tree
    >>> source = jaxgames.enumerate_game(jaxgames.make("kuhn_poker"))
    >>> uniform = [np.full((count, 2), 0.5) for count in source.num_decisions]
    >>> response = build_response_game(source, build_decision_tree(source), uniform, responder=0)
    >>> begin_key, search_key = jax.random.split(jax.random.key(0))
    >>> state = response_game.begin(response, begin_key)
    >>> settings = ismcts_br.IsmctsBr(simulations=100, scale=2.0)
    >>> result = ismcts_br.search(response, None, search_key, state, settings=settings)
    >>> int(result.visits.sum())
    100
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.arrays import sum_actions
from jaxgames.checks import at_least
from jaxgames.core import TERMINAL, record
from jaxgames.debug import checked
from solvers.approximate_best_response.response_game import ResponseGame, ResponseState
from solvers.sampling import episodes
from solvers.sampling.information_set_mcts import IsmctsResult
from solvers.value_checks import check_response_search

# (params, node) -> value of the responder's information state there, in units of the settings'
# `scale`, and logits of its actions [A]
Evaluate = Callable[[PyTree, Any], tuple[Float[Array, ""], Float[Array, " A"]]]


def zero_evaluator(params: PyTree, node: Any) -> tuple[Float[Array, ""], Float[Array, " A"]]:
    """An evaluator without a network: every state has value 0 and a uniform prior."""
    return jnp.zeros(()), jnp.zeros_like(node.uniform)


@dataclasses.dataclass(frozen=True, kw_only=True)
class IsmctsBr:
    """Settings of a search. Static under `jit`."""

    evaluate: Evaluate = zero_evaluator
    simulations: int = 100
    exploration: float = 1.25  # c of PUCB
    scale: float = 1.0  # payoffs are divided by it: the largest or a typical payoff
    noise: float = 0.0  # share of the root's prior that is drawn uniformly from the simplex

    def __post_init__(self):
        at_least(1, simulations=self.simulations)
        if not 0 <= self.exploration < math.inf:
            raise ValueError(f"exploration={self.exploration} must be at least 0 and finite")
        if not 0 < self.scale < math.inf:
            raise ValueError(f"scale={self.scale} must be positive and finite")
        if not 0 <= self.noise <= 1:
            raise ValueError(f"noise={self.noise} must be from 0 to 1")


_NEAR = 8  # adjacent rows of the hash table in which a state may be stored


@record
class ResponseTree:
    """The responder's information states in a hash table of M rows; payoffs are scaled."""

    state: Array  # [M] int32 number of the information state, -1 in free rows
    value: Array  # [M] value by the evaluator
    prior: Array  # [M, A] prior by the evaluator
    visits: Array  # [M, A] float with integer values
    total: Array  # [M, A] sum of the values that followed each action


@checked(check_response_search)
def search(
    response: ResponseGame,
    params: PyTree,
    key: Key[Array, ""],
    state: ResponseState,
    *,
    settings: IsmctsBr,
) -> IsmctsResult:
    """Searches for the responder's best action.

    Args:
      response: the game.
      params: arrays for `settings.evaluate`.
      key: consumed.
      state: where the game is; only what the responder knows of it is used.
      settings: how to search.

    Returns:
      Visits and mean payoffs of the responder's actions; no visits where the game is over.
    """
    noise_key, key = jax.random.split(key)
    root = response.game.at(state.place)
    value, weights = evaluate_node(params, root, settings)
    if settings.noise:
        # exponential variables, normalised: uniform on the simplex
        noise = -jnp.log1p(-episodes.uniform_numbers(noise_key, weights.shape))
        noise = jnp.where(root.uniform > 0, noise, 0)
        noise = noise / jnp.maximum(sum_actions(noise), jnp.finfo(noise.dtype).tiny)
        weights = (1 - settings.noise) * weights + settings.noise * noise
    tree = _empty(min(settings.simulations, response.game.num_states), weights)
    tree = _insert(tree, root.state, value, weights)

    def simulate(number, tree):
        simulation_key = jax.random.fold_in(key, number)
        return _simulate(response, params, simulation_key, state, root, tree, settings)

    tree = jax.lax.fori_loop(0, settings.simulations, simulate, tree)
    row, _ = _row(tree, root.state)
    visits, total = tree.visits[row], tree.total[row]
    values = settings.scale * total / jnp.maximum(visits, 1)
    return IsmctsResult(visits=visits.astype(jnp.int32), values=values)


def evaluate_node(
    params: PyTree, node: Any, settings: IsmctsBr
) -> tuple[Float[Array, ""], Float[Array, " A"]]:
    """Evaluates the responder's information state at a node.

    Returns:
      Its value, and the prior of its legal actions (softmax of the logits, 0 for illegal actions).
    """
    value, logits = settings.evaluate(params, node)
    legal = node.uniform > 0
    highest = jnp.max(jnp.where(legal, logits, -jnp.inf))
    shifted = jnp.where(legal, logits - jnp.where(jnp.isfinite(highest), highest, 0), 0)
    weights = jnp.where(legal, jnp.exp(shifted), 0)
    return value, weights / jnp.maximum(sum_actions(weights), 1e-9)


def _empty(count, weights) -> ResponseTree:
    """An empty tree with room for `count` information states."""
    size = 2 ** (2 * count).bit_length() + _NEAR  # at most half full
    table = jnp.zeros((size, *weights.shape), weights.dtype)
    return ResponseTree(
        state=jnp.full(size, -1, jnp.int32),
        value=jnp.zeros(size, weights.dtype),
        prior=table,
        visits=table,
        total=table,
    )


def _row(tree: ResponseTree, state):
    """Looks an information state up in the hash table.

    Returns:
      Its row, or the free row where it would be put, or M if there is no room for it; and whether
      it is in the table.
    """
    size = len(tree.state) - _NEAR
    first = (episodes.mix_bits(state.astype(jnp.uint32)) % size).astype(jnp.int32)
    near = jax.lax.dynamic_slice(tree.state, (first,), (_NEAR,))
    same, free = near == state, near == -1
    row = first + jnp.argmax(same | free).astype(jnp.int32)
    known = jnp.any(same)
    return jnp.where(known | jnp.any(free), row, len(tree.state)), known


def _insert(tree: ResponseTree, state, value, weights, new=True) -> ResponseTree:
    """The tree with one more information state, if it is `new` and there is room."""
    row = jnp.where(new, _row(tree, state)[0], len(tree.state))
    return tree.replace(
        state=tree.state.at[row].set(state, mode="drop"),
        value=tree.value.at[row].set(value, mode="drop"),
        prior=tree.prior.at[row].set(weights, mode="drop"),
    )


@record
class _Simulation:
    """A simulation in progress."""

    place: PyTree
    node: Any
    steps: Array  # [] int32 decisions so far, of all players
    own: Array  # [] int32 decisions so far of the responder
    rows: Array  # [T] int32 the rows of its states in the tree, M after the last
    actions: Array  # [T] int32 its actions


def _simulate(response, params, key, state, root, tree: ResponseTree, settings) -> ResponseTree:
    """Makes one simulation and returns the tree after it."""
    game, responder = response.game, response.responder
    # Draw a history from the belief.
    noise = episodes.uniform_numbers(key, (game.max_decisions + 1, 1 + game.noise_width))
    place = response.belief.sample(state.memory, state.place, root, noise[-1, 0])

    def inside(walk):
        mine = walk.node.actor == responder
        _, known = _row(tree, walk.node.state)
        going = (walk.node.actor != TERMINAL) & (walk.steps < game.max_decisions)
        return going & (known | ~mine)

    def step(walk):
        node, noise_here = walk.node, noise[walk.steps]
        mine = node.actor == responder
        row, _ = _row(tree, node.state)
        theirs = episodes.pick_action(response.opponent.policy(node), noise_here[0])
        action = jnp.where(mine, _choose(tree, row, node.uniform > 0, settings), theirs)
        place = game.after(node, action, noise_here[1:])
        return _Simulation(
            place=place,
            node=game.at(place),
            steps=walk.steps + 1,
            own=walk.own + mine.astype(jnp.int32),
            rows=walk.rows.at[walk.own].set(jnp.where(mine, row, len(tree.state)), mode="drop"),
            actions=walk.actions.at[walk.own].set(action, mode="drop"),
        )

    max_decisions = game.max_decisions
    walk = _Simulation(
        place=place,
        node=game.at(place),
        steps=jnp.int32(0),
        own=jnp.int32(0),
        rows=jnp.full(max_decisions, len(tree.state), jnp.int32),
        actions=jnp.zeros(max_decisions, jnp.int32),
    )
    walk = jax.lax.while_loop(inside, step, walk)
    # Evaluate the first state outside of the tree, and back its value up along the walk.
    value, weights = evaluate_node(params, walk.node, settings)
    over = walk.node.actor == TERMINAL
    payoff = game.payoffs_at(walk.place)[responder].astype(value.dtype) / settings.scale
    value = jnp.where(over, payoff, value)
    where = (walk.rows, walk.actions)
    tree = tree.replace(
        visits=tree.visits.at[where].add(1, mode="drop"),
        total=tree.total.at[where].add(value, mode="drop"),
    )
    return _insert(tree, walk.node.state, value, weights, new=~over)


def _choose(tree: ResponseTree, row, legal, settings) -> Int[Array, ""]:
    """The action of the highest PUCB. Actions without visits have the mean value of the state."""
    visits, total = tree.visits[row], tree.total[row]
    count = sum_actions(visits)
    mean = (tree.value[row] + sum_actions(total)) / (1 + count)
    values = jnp.where(visits > 0, total / jnp.maximum(visits, 1), mean)
    bonus = settings.exploration * tree.prior[row] * jnp.sqrt(1 + count) / (1 + visits)
    return jnp.argmax(jnp.where(legal, values + bonus, -jnp.inf)).astype(jnp.int32)
