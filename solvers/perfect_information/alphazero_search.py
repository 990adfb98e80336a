"""AlphaZero's search in games of perfect information (Silver et al. 2018), and ISMCTS-BR there.

    agent = Agent(params=params, settings=AlphaZero(evaluate, simulations=100))
    found = search(game, agent, key, state)
    action = jnp.argmax(found.visits)

Simulations walk down a tree of positions by PUCT, and add one each; mctx (Babuschkin et al. 2020)
keeps the tree. With an `opponent` that is all that perfect information leaves of ISMCTS-BR (Timbers
et al. 2020, Algorithms 1 and 2): where the opponent acts, a move is drawn from its prior, and the
posterior over histories is the position itself.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import mctx
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.adapters.pgx import lenient
from jaxgames.adapters.pgx_beliefs import PgxBeliefs, PgxPosition
from jaxgames.core import TERMINAL, record

Evaluate = Callable[[PyTree, PgxBeliefs, PgxPosition], tuple[Float[Array, ""], Float[Array, " A"]]]


def zero(
    params: PyTree, game: PgxBeliefs, state: PgxPosition
) -> tuple[Float[Array, ""], Float[Array, " A"]]:
    """Stands in for a network: nothing is worth anything, all actions are alike."""
    return jnp.float32(0), jnp.zeros(game.num_actions, jnp.float32)


@dataclasses.dataclass(frozen=True)
class AlphaZero:
    """How to search and to play. Static under `jit`.

    `evaluate(params, game, state)` tells the value `[]` of a position to who acts there, and logits
    `[A]` of its actions.
    """

    evaluate: Evaluate
    simulations: int
    exploration: float = 1.25  # c_init of PUCT
    exploration_base: float = 19652.0  # c_base
    noise: float = 0.0  # share of Dirichlet noise in the prior of the root
    concentration: float = 1.0  # of the noise
    sampled_moves: int = (
        0  # first moves of a game, drawn by visits; later ones are the most visited
    )

    def __post_init__(self):
        if self.simulations < 1:
            raise ValueError(f"simulations={self.simulations} must be at least 1")
        if not 0 <= self.noise <= 1:
            raise ValueError(f"noise={self.noise} must be from 0 to 1")
        for name in ("exploration", "exploration_base", "concentration"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)} must be positive")
        if self.sampled_moves < 0:
            raise ValueError(f"sampled_moves={self.sampled_moves} must be at least 0")


@record
class Agent:
    """Somebody who plays."""

    params: Any = None  # of the evaluator
    settings: AlphaZero | None = flax.struct.field(pytree_node=False, default=None)
    """None: draws from all legal actions alike."""
    simulations: Any = None  # [] int32 how many of the settings' are made; None: all
    opponent: Agent | None = None  # whose prior acts for the other player in simulations, if given


@record
class Found:
    """What a search knows of its root."""

    visits: Array  # [A] float32, in sum the simulations that were made
    value: Array  # [] float32 to the root's actor: the mean of all simulations


@record
class _Node:
    """A position in the tree."""

    state: PgxPosition
    actor: Array  # [] int32
    seat: Array  # [] int32 who acts at the root


def search(game: PgxBeliefs, agent: Agent, key: Key[Array, ""], state: PgxPosition) -> Found:
    """Searches one position in which somebody acts; `key` is consumed."""
    settings, opponent = agent.settings, agent.opponent
    seat = game.actor(state)
    noise_key, search_key = jax.random.split(key)

    def look(state):
        """The position's node, its value to who acts and logarithms of its prior."""
        actor, legal = game.actor(state), game.child_mask(state)
        value, logits = settings.evaluate(agent.params, game, state)
        if opponent is not None:
            _, others = opponent.settings.evaluate(opponent.params, game, state)
            logits = jnp.where(actor == seat, logits, others)
        node = _Node(state=state, actor=actor, seat=seat)
        return node, value, _masked(logits, legal)

    def step(_, key, action, nodes):
        before = jax.tree.map(lambda x: x[0], nodes)
        node, value, logits = look(game.child(before.state, action[0]))
        over = node.actor == TERMINAL
        payoff = game.terminal_values(node.state, before.actor, jnp.ones(1, jnp.float32))[0]
        output = mctx.RecurrentFnOutput(
            reward=jnp.where(over, payoff, 0.0),
            discount=jnp.where(over, 0.0, jnp.where(node.actor == before.actor, 1.0, -1.0)),
            prior_logits=logits,
            value=jnp.where(over, 0.0, value),
        )
        return _batch_of_one(output), _batch_of_one(node)

    def select(key, tree, node, depth):
        best = _puct(tree, node, settings)
        if opponent is None:
            return best
        drawn = _drawn(key, tree.children_prior_logits[node])
        return jnp.where(tree.embeddings.actor[node] == seat, best, drawn)

    with lenient():  # mctx promotes ranks
        node, value, logits = look(state)
        if settings.noise:
            logits = _noisy(noise_key, logits, settings)
        tree = mctx.search(
            None,
            jax.random.key_data(search_key),  # mctx's loops select among keys that were used
            root=mctx.RootFnOutput(
                prior_logits=logits[None], value=value[None], embedding=_batch_of_one(node)
            ),
            recurrent_fn=step,
            root_action_selection_fn=lambda key, tree, node: select(key, tree, node, 0),
            interior_action_selection_fn=select,
            num_simulations=settings.simulations,
            loop_fn=functools.partial(_first, agent.simulations),
        )
        summary = tree.summary()
    return Found(visits=summary.visit_counts[0], value=summary.value[0])


def act(
    game: PgxBeliefs, agent: Agent, key: Key[Array, ""], state: PgxPosition
) -> tuple[Int[Array, ""], Found]:
    """The agent's move, and what it found, which is blank if it does not search.

    `key` is consumed.
    """
    legal = game.child_mask(state)
    if agent.settings is None:
        action = _drawn(key, jnp.where(legal, 0.0, -jnp.inf))
        return action, Found(visits=jnp.zeros(legal.shape, jnp.float32), value=jnp.float32(0))
    search_key, choice_key = jax.random.split(key)
    found = search(game, agent, search_key, state)
    likeliest = jnp.argmax(found.visits).astype(jnp.int32)
    early = state.num_steps < agent.settings.sampled_moves
    return jnp.where(early, _drawn(choice_key, jnp.log(found.visits)), likeliest), found


def _first(count, begin, end, step, start):
    """A loop of mctx that ends after `count` simulations, if that is given: the same program does
    for any number of them."""
    end = end if count is None else jnp.minimum(count, end)
    return jax.lax.fori_loop(begin, end, step, start)


def _drawn(key, logits):
    return jax.random.categorical(key, logits).astype(jnp.int32)


def _puct(tree, node, settings):
    """The action of the highest mean value and bonus; one not yet visited is worth what its
    position is."""
    visits, logits = tree.children_visits[node], tree.children_prior_logits[node]
    total = jnp.sum(visits).astype(jnp.float32)
    base = settings.exploration_base
    rate = settings.exploration + jnp.log((total + base + 1) / base)
    bonus = rate * jnp.exp(logits) * jnp.sqrt(jnp.maximum(total, 1)) / (1 + visits)
    worth = jnp.where(visits > 0, tree.qvalues(node), tree.node_values[node])
    score = jnp.where(logits > _lowest(logits), worth + bonus, -jnp.inf)
    return jnp.argmax(score).astype(jnp.int32)


def _noisy(key, logits, settings):
    """The root's prior with noise on its legal actions."""
    legal = logits > _lowest(logits)
    drawn = jax.random.loggamma(key, settings.concentration, logits.shape)
    noise = jax.nn.softmax(jnp.where(legal, drawn, -jnp.inf))
    mixed = (1 - settings.noise) * jnp.exp(logits) + settings.noise * noise
    return _masked(jnp.log(jnp.where(mixed > 0, mixed, 1)), mixed > 0)


def _masked(logits, legal):
    """Logarithms of the prior; at illegal actions the lowest number that mctx computes with."""
    masked = jnp.where(legal, logits, -jnp.inf)
    masked = jnp.where(jnp.any(legal), jax.nn.log_softmax(masked), masked)
    return jnp.maximum(masked, _lowest(logits))


def _lowest(array):
    return jnp.finfo(array.dtype).min


def _batch_of_one(tree):
    return jax.tree.map(lambda x: jnp.asarray(x)[None], tree)
