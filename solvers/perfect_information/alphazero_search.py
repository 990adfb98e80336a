"""AlphaZero's search in games of perfect information (Silver et al. 2018), and ISMCTS-BR there.

    >>> import jax
    >>> from jaxgames.adapters.pgx_beliefs import pgx_beliefs
    >>> from solvers.perfect_information import alphazero_search
    >>> game = pgx_beliefs("tic_tac_toe")
    >>> settings = alphazero_search.AlphaZero(alphazero_search.zero, simulations=50)
    >>> agent = alphazero_search.AlphaZeroAgent(settings=settings)
    >>> result = alphazero_search.search(game, agent, jax.random.key(0), game.root())
    >>> float(result.visits.sum())
    50.0

A simulation walks down the tree of positions by PUCT and adds one position; mctx (Babuschkin et al.
2020) keeps the tree. With an `opponent` the search is ISMCTS-BR (Timbers et al. 2020, Algorithms 1
and 2): where the opponent acts, a move is drawn from its prior. In a game of perfect information
the posterior over histories, which ISMCTS-BR samples from, is the position itself.

A game is any belief-level game with one row per player and no chance moves.
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
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import TERMINAL, record
from solvers.perfect_information.positions import (
    legal_actions,
    num_actions,
    payoff,
    position_after,
    require_perfect_information,
)

Evaluate = Callable[[PyTree, BeliefGame, PublicState], tuple[Float[Array, ""], Float[Array, " A"]]]


def zero(
    params: PyTree, game: BeliefGame, state: PublicState
) -> tuple[Float[Array, ""], Float[Array, " A"]]:
    """An evaluator without knowledge: every value is 0, and the prior is uniform."""
    return jnp.float32(0), jnp.zeros(num_actions(game), jnp.float32)


@dataclasses.dataclass(frozen=True)
class AlphaZero:
    """How to search and to play. Static under `jit`."""

    evaluate: Evaluate  # value [] of a position to the player who acts there, logits [A] of actions
    simulations: int
    exploration: float = 1.25  # c_init of PUCT
    exploration_base: float = 19652.0  # c_base
    noise: float = 0.0  # share of Dirichlet noise in the prior of the root
    concentration: float = 1.0  # of the noise
    # so many first moves of a game are drawn in proportion to visits; later ones are most visited
    sampled_moves: int = 0

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
class AlphaZeroAgent:
    """A player that searches, or one that plays at random."""

    params: Any = None  # of the evaluator
    # None: the agent draws uniformly from the legal actions
    settings: AlphaZero | None = flax.struct.field(pytree_node=False, default=None)
    simulations: Any = None  # [] int32 how many of the settings' are made; None: all
    # whose prior acts for the other player in simulations, if given
    opponent: AlphaZeroAgent | None = None


@record
class SearchStatistics:
    """What a search knows of its root."""

    visits: Array  # [A] float32 of the actions; their sum is the number of simulations
    value: Array  # [] float32 to the root's actor: the mean of all simulations


@record
class _Node:
    """A position in the tree."""

    state: PublicState
    actor: Array  # [] int32
    seat: Array  # [] int32 who acts at the root


def search(
    game: BeliefGame, agent: AlphaZeroAgent, key: Key[Array, ""], state: PublicState
) -> SearchStatistics:
    """Searches one position.

    Args:
      game: a game of perfect information.
      agent: who searches; its `settings` must be given.
      key: consumed.
      state: a position that is not terminal.

    Returns:
      Visits of the actions and the value of the position.

    Raises:
      ValueError: the game has several rows.
    """
    return statistics(_searched(game, agent, key, state, functools.partial(_to_end, agent)))


def plant(
    game: BeliefGame, agent: AlphaZeroAgent, key: Key[Array, ""], state: PublicState
) -> mctx.Tree:
    """Begins a search that `grow` continues, piece by piece.

    Args:
      game: a game of perfect information.
      agent: who searches; the tree has room for all simulations of its `settings`.
      key: consumed.
      state: a position that is not terminal.

    Returns:
      A tree of the position alone, a batch of one.

    Raises:
      ValueError: the game has several rows.
    """
    return _searched(game, agent, key, state, lambda begin, end, step, start: start)


def grow(
    game: BeliefGame, agent: AlphaZeroAgent, key: Key[Array, ""], tree: mctx.Tree
) -> mctx.Tree:
    """Continues a search until `agent.simulations` are made in all.

    Without an opponent, the tree is the same in whatever pieces it grew.

    Args:
      game: a game of perfect information.
      agent: who searches, with the settings that `plant` had.
      key: consumed.
      tree: of `plant`, or of this function.

    Returns:
      The tree.

    Raises:
      ValueError: the game has several rows.
    """
    made = tree.node_visits[0, 0] - 1  # the root is visited before all simulations

    def continued(begin, end, step, start):
        return _to_end(agent, made, end, step, (start[0], tree))

    state = jax.tree.map(lambda x: x[0, 0], tree.embeddings.state)
    return _searched(game, agent, key, state, continued)


def _searched(game, agent, key, state, loop):
    """The tree that a loop over simulations makes."""
    require_perfect_information(game)
    settings, opponent = agent.settings, agent.opponent
    seat = game.actor(state)
    noise_key, search_key = jax.random.split(key)

    def evaluated(state):
        """The node of a position, its value to the actor, and logarithms of its prior."""
        actor, legal = game.actor(state), legal_actions(game, state)
        value, logits = settings.evaluate(agent.params, game, state)
        if opponent is not None:
            _, others = opponent.settings.evaluate(opponent.params, game, state)
            logits = jnp.where(actor == seat, logits, others)
        node = _Node(state=state, actor=actor, seat=seat)
        return node, value, _masked(logits, legal)

    def step(_, key, action, nodes):
        before = jax.tree.map(lambda x: x[0], nodes)
        node, value, logits = evaluated(position_after(game, before.state, action[0]))
        over = node.actor == TERMINAL
        output = mctx.RecurrentFnOutput(
            reward=jnp.where(over, payoff(game, node.state, before.actor), 0.0),
            discount=jnp.where(over, 0.0, jnp.where(node.actor == before.actor, 1.0, -1.0)),
            prior_logits=logits,
            value=jnp.where(over, 0.0, value),
        )
        return _batch_of_one(output), _batch_of_one(node)

    def select(key, tree, node, depth):
        actor, best = tree.embeddings.actor[node], _puct(tree, node, settings)
        if opponent is not None:
            drawn = _drawn(key, tree.children_prior_logits[node])
            best = jnp.where(actor == seat, best, drawn)
        # mctx walks on where the game is over, and adds a copy of the end below it. Copies side by
        # side are found in a few steps, those in a line in as many as there are.
        rarest = jnp.argmin(tree.children_visits[node]).astype(jnp.int32)
        return jnp.where(actor == TERMINAL, rarest, best)

    with lenient():  # mctx promotes ranks
        node, value, logits = evaluated(state)
        if settings.noise:
            logits = _noisy(noise_key, logits, settings)
        return mctx.search(
            None,
            jax.random.key_data(search_key),  # mctx's loops select among keys that were used
            root=mctx.RootFnOutput(
                prior_logits=logits[None], value=value[None], embedding=_batch_of_one(node)
            ),
            recurrent_fn=step,
            root_action_selection_fn=lambda key, tree, node: select(key, tree, node, 0),
            interior_action_selection_fn=select,
            num_simulations=settings.simulations,
            loop_fn=loop,
        )


def statistics(tree: mctx.Tree) -> SearchStatistics:
    """What a tree says of its root."""
    with lenient():
        summary = tree.summary()
    return SearchStatistics(visits=summary.visit_counts[0], value=summary.value[0])


def most_visited_line(tree: mctx.Tree, length: int) -> Int[Array, " L"]:
    """The most visited actions from the root of a tree on.

    Args:
      tree: of the search.
      length: L, of the line at most. Static under `jit`.

    Returns:
      The actions, and -1 where the tree ends.
    """

    def step(node, _):
        visits = tree.children_visits[0, node]
        action = jnp.argmax(visits).astype(jnp.int32)
        known = (node >= 0) & (visits[action] > 0)
        child = jnp.where(known, tree.children_index[0, node, action], -1)
        return child, jnp.where(known, action, -1)

    return jax.lax.scan(step, jnp.int32(0), length=length)[1]


def act(
    game: BeliefGame,
    agent: AlphaZeroAgent,
    key: Key[Array, ""],
    state: PublicState,
    num_moves: Int[Array, ""],
) -> tuple[Int[Array, ""], SearchStatistics]:
    """Chooses the agent's move.

    Args:
      game: a game of perfect information.
      agent: who moves.
      key: consumed.
      state: a position that is not terminal.
      num_moves: how many moves were made in the game so far.

    Returns:
      The action, and the statistics of the search, which are 0 if the agent does not search.

    Raises:
      ValueError: the game has several rows.
    """
    require_perfect_information(game)
    legal = legal_actions(game, state)
    if agent.settings is None:
        action = _drawn(key, jnp.where(legal, 0.0, -jnp.inf))
        visits = jnp.zeros(legal.shape, jnp.float32)
        return action, SearchStatistics(visits=visits, value=jnp.float32(0))
    search_key, choice_key = jax.random.split(key)
    result = search(game, agent, search_key, state)
    most_visited = jnp.argmax(result.visits).astype(jnp.int32)
    early = num_moves < agent.settings.sampled_moves
    return jnp.where(early, _drawn(choice_key, jnp.log(result.visits)), most_visited), result


def _to_end(agent, begin, end, step, start):
    """A loop of mctx that ends after `agent.simulations`, if that is given.

    The same compiled program then makes any number of simulations.
    """
    count = agent.simulations
    end = end if count is None else jnp.minimum(count, end)
    return jax.lax.fori_loop(begin, end, step, start)


def _drawn(key, logits):
    return jax.random.categorical(key, logits).astype(jnp.int32)


def _puct(tree, node, settings):
    """The action with the highest sum of mean value and bonus (PUCT, Silver et al. 2018).

    An action that was not visited yet is given the value of its position.
    """
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
    """Logarithms of the prior; the lowest finite number at illegal actions, as mctx needs it."""
    masked = jnp.where(legal, logits, -jnp.inf)
    masked = jnp.where(jnp.any(legal), jax.nn.log_softmax(masked), masked)
    return jnp.maximum(masked, _lowest(logits))


def _lowest(array):
    return jnp.finfo(array.dtype).min


def _batch_of_one(tree):
    return jax.tree.map(lambda x: jnp.asarray(x)[None], tree)
