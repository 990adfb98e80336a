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

A simulation walks down the tree of positions by PUCT and adds one position (`puct_tree`). With an
`opponent` the search is ISMCTS-BR (Timbers et al. 2020, Algorithms 1 and 2): where the opponent
acts, a move is drawn from its prior. In a game of perfect information the posterior over histories,
which ISMCTS-BR samples from, is the position itself.

A game is any belief-level game with one row per player and no chance moves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.checks import at_least
from jaxgames.core import TERMINAL, record
from solvers.perfect_information import puct_tree
from solvers.perfect_information.positions import (
    legal_actions,
    num_actions,
    payoff,
    position_after,
    require_perfect_information,
)
from solvers.perfect_information.puct_tree import Position, PuctTree

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
    # this many first moves of a game are drawn in proportion to visits; later ones are most visited
    sampled_moves: int = 0

    def __post_init__(self):
        if not 1 <= self.simulations < puct_tree.MOST_PLACES:
            most = puct_tree.MOST_PLACES - 1
            raise ValueError(
                f"simulations={self.simulations} must be at least 1 and at most {most:,}"
            )
        if not 0 <= self.noise <= 1:
            raise ValueError(f"noise={self.noise} must be from 0 to 1")
        for name in ("exploration", "exploration_base", "concentration"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)} must be positive")
        at_least(0, sampled_moves=self.sampled_moves)


@record
class AlphaZeroAgent:
    """A player that searches, or one that plays at random."""

    params: Any = None  # of the evaluator
    # None: the agent draws uniformly from the legal actions
    settings: AlphaZero | None = flax.struct.field(pytree_node=False, default=None)
    simulations: Any = None  # [] int32 how many of the settings' are made, 1 or more; None: all
    # whose prior acts for the other player in simulations, if given
    opponent: AlphaZeroAgent | None = None


@record
class SearchStatistics:
    """What a search knows of its root."""

    visits: Array  # [A] float32 of the actions; their sum is the number of simulations
    # [] float32 to the root's actor: the mean of all simulations and of the root's own evaluation
    value: Array


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
    noise_key, own_key = jax.random.split(key)
    tree = _planted(game, agent, noise_key, state)
    made = agent.simulations
    end = agent.settings.simulations if made is None else _at_most(tree, made)
    return statistics(_grown(game, agent, own_key, tree, 0, end))


def plant(
    game: BeliefGame, agent: AlphaZeroAgent, key: Key[Array, ""], state: PublicState
) -> PuctTree:
    """Begins a search that `grow` continues, piece by piece.

    Args:
      game: a game of perfect information.
      agent: who searches; the tree has room for all simulations of its `settings`.
      key: consumed.
      state: a position that is not terminal.

    Returns:
      A tree of the position alone.

    Raises:
      ValueError: the game has several rows.
    """
    noise_key, _ = jax.random.split(key)  # the same noise as in `search`
    return _planted(game, agent, noise_key, state)


def _planted(game, agent, key, state):
    require_perfect_information(game)
    settings = agent.settings
    root = _looked_at(game, agent, game.actor(state), state)
    tree = puct_tree.plant(root, room=settings.simulations + 1, most_legal=game.most_legal)
    if not settings.noise:
        return tree
    # Draws are slow: only those of actions that may be legal.
    noisy = _noisy(key, tree.prior[0], settings)
    return tree.replace(prior=tree.prior.at[0].set(noisy))


def grow(game: BeliefGame, agent: AlphaZeroAgent, key: Key[Array, ""], tree: PuctTree) -> PuctTree:
    """Continues a search until `agent.simulations` are made in all, or its tree is full.

    The tree is the same in whatever pieces it grew; with an opponent, if all had the same key.
    Under `vmap` all trees must have as many simulations, before and after: else they are copied in
    each of them.

    Args:
      game: a game of perfect information.
      agent: who searches, with the settings that `plant` had.
      key: consumed; of the opponent's moves.
      tree: of `plant`, or of this function.

    Returns:
      The tree.

    Raises:
      ValueError: the game has several rows.
    """
    made = jnp.int32(puct_tree.MOST_PLACES) if agent.simulations is None else agent.simulations
    return _grown(game, agent, key, tree, tree.simulations, _at_most(tree, made))


def _at_most(tree, simulations):
    """`simulations`, or as many as a tree has room for."""
    return jnp.minimum(jnp.int32(len(tree.actor) - 1), simulations)


def _grown(game, agent, key, tree, begin, end):
    """The tree after simulations with these numbers."""
    require_perfect_information(game)
    settings, seat = agent.settings, tree.actor[0]

    def choose(tree, place, depth):
        best = puct_tree.puct(
            tree,
            place,
            exploration=settings.exploration,
            exploration_base=settings.exploration_base,
        )
        if agent.opponent is None:
            return best
        own = jax.random.fold_in(jax.random.fold_in(key, tree.simulations), depth)
        drawn = _drawn(own, jnp.log(jnp.maximum(tree.prior[place], 0)))
        return jnp.where(tree.actor[place] == seat, best, drawn)

    def look(state, action):
        return _looked_at(game, agent, seat, position_after(game, state, action))

    def simulate(_, tree):
        return puct_tree.simulate(tree, choose=choose, look=look)

    return jax.lax.fori_loop(begin, end, simulate, tree)


def _looked_at(game, agent, seat, state) -> Position:
    """A position with its value and the prior of who acts; `seat` is the agent's."""
    actor, legal = game.actor(state), legal_actions(game, state)
    value, logits = agent.settings.evaluate(agent.params, game, state)
    if agent.opponent is not None:
        others = agent.opponent
        drawn = jnp.zeros_like(logits)  # an agent without settings plays at random
        if others.settings is not None:
            _, drawn = others.settings.evaluate(others.params, game, state)
        logits = jnp.where(actor == seat, logits, drawn)
    to_first = jnp.where(actor == 0, value, -value)
    end = payoff(game, state, 0)
    prior = jax.nn.softmax(jnp.where(legal, logits, jnp.finfo(logits.dtype).min))
    return Position(
        state=state,
        actor=actor,
        value=jnp.where(actor == TERMINAL, end, to_first).astype(jnp.float32),
        prior=jnp.where(legal, prior, puct_tree.ILLEGAL).astype(jnp.float32),
    )


def statistics(tree: PuctTree) -> SearchStatistics:
    """What a tree says of its root."""
    visits, value = puct_tree.root_visits(tree), tree.value[0]
    return SearchStatistics(visits=visits, value=jnp.where(tree.actor[0] == 0, value, -value))


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


def _drawn(key, logits):
    return jax.random.categorical(key, logits).astype(jnp.int32)


def _noisy(key, prior, settings):
    """The root's prior with noise on its legal actions."""
    legal = prior >= 0
    drawn = jax.random.loggamma(key, settings.concentration, prior.shape, prior.dtype)
    noise = jax.nn.softmax(jnp.where(legal, drawn, -jnp.inf))
    mixed = (1 - settings.noise) * prior + settings.noise * noise
    return jnp.where(legal, mixed, puct_tree.ILLEGAL)
