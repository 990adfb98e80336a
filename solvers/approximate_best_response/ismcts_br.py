"""ISMCTS-BR: search for a best response to a fixed opponent (Timbers et al. 2020, Algorithms 1, 2).

    settings = IsmctsBr(simulations=1000, scale=13.0)  # payoffs in Leduc are up to 13
    found = search(response, None, key, standing, settings=settings)
    action = jnp.argmax(found.visits)

Every simulation draws a history from the exact belief about what the responder knows, and walks
down: the responder by PUCB over its own information states, the opponent by its policy, chance by
its own. The first information state outside of the tree joins it, with the value and the prior that
`evaluate` gives it. One function of one game; batches by `jax.vmap`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.core import TERMINAL, record
from jaxgames.debug import checked
from solvers.approximate_best_response.response_game import ResponseGame, ResponseState
from solvers.sampling import episodes
from solvers.sampling.information_set_mcts import IsmctsResult
from solvers.sequence_form.sweeps import sum_actions
from solvers.value_checks import check_response_search

# evaluate(params, node) -> value of the responder's information state there, in units of the
# settings' `scale`, and logits of its actions [A]
Evaluate = Callable[[PyTree, Any], tuple[Float[Array, ""], Float[Array, " A"]]]


def zero_evaluator(params: PyTree, node: Any) -> tuple[Float[Array, ""], Float[Array, " A"]]:
    """Stands in for a network: every state is worth 0, all actions are alike."""
    return jnp.zeros(()), jnp.zeros_like(node.uniform)


@dataclasses.dataclass(frozen=True, kw_only=True)
class IsmctsBr:
    """How to search. Static under `jit`."""

    evaluate: Evaluate = zero_evaluator
    simulations: int = 100
    exploration: float = 1.25  # c of PUCB
    scale: float = 1.0  # of payoffs: the largest there is, or what is usual
    noise: float = 0.0  # share of the root's prior that is drawn at random, uniform on the simplex

    def __post_init__(self):
        if self.simulations < 1:
            raise ValueError(f"simulations={self.simulations} must be at least 1")
        if not 0 <= self.exploration < math.inf:
            raise ValueError(f"exploration={self.exploration} must be at least 0 and finite")
        if not 0 < self.scale < math.inf:
            raise ValueError(f"scale={self.scale} must be positive and finite")
        if not 0 <= self.noise <= 1:
            raise ValueError(f"noise={self.noise} must be from 0 to 1")


_NEAR = 8  # rows that a state may be in


@record
class ResponseTree:
    """Information states of the responder in a table by hash of M rows; payoffs are by `scale`."""

    state: Array  # [M] int32 their numbers, -1 where there is none yet
    value: Array  # [M] as evaluated
    prior: Array  # [M, A]
    visits: Array  # [M, A] float, of integers
    total: Array  # [M, A] sum of what followed


@checked(check_response_search)
def search(
    response: ResponseGame,
    params: PyTree,
    key: Key[Array, ""],
    standing: ResponseState,
    *,
    settings: IsmctsBr,
) -> IsmctsResult:
    """What `settings.simulations` simulations find where the responder is to act.

    Of `standing` it uses what the responder knows. Where the game is over, it finds nothing: no
    visits. `key` is consumed.
    """
    noise_key, key = jax.random.split(key)
    root = response.game.at(standing.place)
    value, weights = evaluate_node(params, root, settings)
    if settings.noise:
        lots = -jnp.log1p(-episodes.uniform_numbers(noise_key, weights.shape))
        lots = jnp.where(root.uniform > 0, lots, 0)
        lots = lots / jnp.maximum(sum_actions(lots), jnp.finfo(lots.dtype).tiny)
        weights = (1 - settings.noise) * weights + settings.noise * lots
    tree = _empty(min(settings.simulations, response.game.num_states), weights)
    tree = _inserted(tree, root.state, value, weights)

    def one(number, tree):
        luck = jax.random.fold_in(key, number)
        return _simulated(response, params, luck, standing, root, tree, settings)

    tree = jax.lax.fori_loop(0, settings.simulations, one, tree)
    row, _ = _row(tree, root.state)
    visits, total = tree.visits[row], tree.total[row]
    values = settings.scale * total / jnp.maximum(visits, 1)
    return IsmctsResult(visits=visits.astype(jnp.int32), values=values)


def evaluate_node(
    params: PyTree, node: Any, settings: IsmctsBr
) -> tuple[Float[Array, ""], Float[Array, " A"]]:
    """Value of the responder's information state at a node, and prior of its legal actions."""
    value, logits = settings.evaluate(params, node)
    legal = node.uniform > 0
    highest = jnp.max(jnp.where(legal, logits, -jnp.inf))
    shifted = jnp.where(legal, logits - jnp.where(jnp.isfinite(highest), highest, 0), 0)
    weights = jnp.where(legal, jnp.exp(shifted), 0)
    return value, weights / jnp.maximum(sum_actions(weights), 1e-9)


def _empty(count, weights) -> ResponseTree:
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
    """The row of an information state, or where it would be, and whether it is there.

    M if it is not there and there is no room for it: then it stays outside.
    """
    size = len(tree.state) - _NEAR
    first = (episodes.mix_bits(state.astype(jnp.uint32)) % size).astype(jnp.int32)
    near = jax.lax.dynamic_slice(tree.state, (first,), (_NEAR,))
    there, free = near == state, near == -1
    found = first + jnp.argmax(there | free).astype(jnp.int32)
    known = jnp.any(there)
    return jnp.where(known | jnp.any(free), found, len(tree.state)), known


def _inserted(tree: ResponseTree, state, value, weights, new=True) -> ResponseTree:
    """The tree with one state more, if it is `new` and there is room."""
    row = jnp.where(new, _row(tree, state)[0], len(tree.state))
    return tree.replace(
        state=tree.state.at[row].set(state, mode="drop"),
        value=tree.value.at[row].set(value, mode="drop"),
        prior=tree.prior.at[row].set(weights, mode="drop"),
    )


@record
class _Simulation:
    """One simulation on its way."""

    place: PyTree
    node: Any
    steps: Array  # [] int32 decisions so far, of all players
    own: Array  # [] int32 of the responder
    rows: Array  # [T] int32 its states in the tree, M where there is none
    actions: Array  # [T] int32


def _simulated(response, params, key, standing, root, tree: ResponseTree, settings) -> ResponseTree:
    game, responder = response.game, response.responder
    luck = episodes.uniform_numbers(key, (game.longest + 1, 1 + game.luck_of_chance))
    place = response.belief.sample(standing.memory, standing.place, root, luck[-1, 0])

    def inside(walk):
        mine = walk.node.actor == responder
        _, known = _row(tree, walk.node.state)
        going = (walk.node.actor != TERMINAL) & (walk.steps < game.longest)
        return going & (known | ~mine)

    def step(walk):
        node, luck_here = walk.node, luck[walk.steps]
        mine = node.actor == responder
        row, _ = _row(tree, node.state)
        theirs = episodes.pick_action(response.opponent.policy(node), luck_here[0])
        action = jnp.where(mine, _chosen(tree, row, node.uniform > 0, settings), theirs)
        place = game.after(node, action, luck_here[1:])
        return _Simulation(
            place=place,
            node=game.at(place),
            steps=walk.steps + 1,
            own=walk.own + mine.astype(jnp.int32),
            rows=walk.rows.at[walk.own].set(jnp.where(mine, row, len(tree.state)), mode="drop"),
            actions=walk.actions.at[walk.own].set(action, mode="drop"),
        )

    longest = game.longest
    walk = _Simulation(
        place=place,
        node=game.at(place),
        steps=jnp.int32(0),
        own=jnp.int32(0),
        rows=jnp.full(longest, len(tree.state), jnp.int32),
        actions=jnp.zeros(longest, jnp.int32),
    )
    walk = jax.lax.while_loop(inside, step, walk)
    value, weights = evaluate_node(params, walk.node, settings)
    over = walk.node.actor == TERMINAL
    payoff = game.payoffs_at(walk.place)[responder].astype(value.dtype) / settings.scale
    value = jnp.where(over, payoff, value)
    where = (walk.rows, walk.actions)
    tree = tree.replace(
        visits=tree.visits.at[where].add(1, mode="drop"),
        total=tree.total.at[where].add(value, mode="drop"),
    )
    return _inserted(tree, walk.node.state, value, weights, new=~over)


def _chosen(tree: ResponseTree, row, legal, settings) -> Int[Array, ""]:
    """The action of the highest PUCB; what was not tried is worth what the state is."""
    visits, total = tree.visits[row], tree.total[row]
    count = sum_actions(visits)
    mean = (tree.value[row] + sum_actions(total)) / (1 + count)
    values = jnp.where(visits > 0, total / jnp.maximum(visits, 1), mean)
    bonus = settings.exploration * tree.prior[row] * jnp.sqrt(1 + count) / (1 + visits)
    return jnp.argmax(jnp.where(legal, values + bonus, -jnp.inf)).astype(jnp.int32)
