"""Sound self-play (Student of Games, Algorithm 2): one game of one searching agent.

An episode follows one agent, the re-solver of all its searches, through a game. What happens is
drawn from the beliefs of its searches.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key, PyTree

from jaxgames.core import TERMINAL, record
from jaxgames.public_game import PublicGame
from solvers.search import gt_cfr, resolving
from solvers.search.gt_cfr import NO_STEP, GrowingTreeCfr, Problem, Search
from solvers.search.search_tree import columns, uniform
from train.examples import Example, make_example


@record
class Episode:
    """Where a game stands."""

    problem: Problem  # of the next search
    played: Array  # [2, N] own reaches where it acts, by the policies searched so far
    resolver: Array  # [] int32 whose agent is followed


def new_episode(game: PublicGame, key: Key[Array, ""], *, max_path: int) -> Episode:
    """A game at its root, followed by one of the two agents; `key` is consumed."""
    problem = resolving.first_problem(game, max_path=max_path)
    resolver = jax.random.bernoulli(key).astype(jnp.int32)
    return Episode(problem=problem, played=problem.reach, resolver=resolver)


def play(
    game: PublicGame,
    params: PyTree,
    key: Key[Array, ""],
    episode: Episode,
    *,
    settings: GrowingTreeCfr,
    exploration: float,
) -> tuple[Episode, Search, Example]:
    """Searches and moves on: the episode at its next search, or a new one after the end.

    Of the moves a share of `exploration` is uniform. The example has the search's policy and no
    value. `key` is consumed.
    """
    search_key, move_key, new_key = jax.random.split(key, 3)
    found = gt_cfr.search(game, params, search_key, problem=episode.problem, settings=settings)
    path, ended = _draw(game, move_key, found, exploration, settings.max_path)
    problem, played = resolving.next_problem(
        game, found, episode.played, path, resolver=episode.resolver
    )
    later = Episode(problem=problem, played=played, resolver=episode.resolver)
    fresh = new_episode(game, new_key, max_path=settings.max_path)
    after = jax.tree.map(lambda new, old: jnp.where(ended, new, old), fresh, later)
    return after, found, _root_example(game, found)


def _root_example(game, found):
    tree = found.tree
    state = jax.tree.map(lambda x: x[found.target], tree.state)
    reach = columns(tree.reach, found.target, 1, game.num_rows)
    policy = gt_cfr.average_policy(found)
    return make_example(game, state, reach, jnp.zeros_like(reach), policy, value_weight=0.0)


def _draw(game, key, found, exploration, max_path):
    """The children from the searched state to the next where somebody acts, and whether the game
    ended instead."""
    pair_key, noise_key = jax.random.split(key)
    tree = found.tree
    state = jax.tree.map(lambda x: x[found.target], tree.state)
    pair = gt_cfr.sample_pair(
        game, pair_key, state, columns(tree.reach, found.target, 1, game.num_rows)
    )
    noise = jax.random.gumbel(noise_key, (max_path + 1, game.num_actions + game.num_children))
    policy = gt_cfr.average_policy(found)
    policy = (1 - exploration) * policy + exploration * uniform(game, state, policy.dtype)
    row = pair[jnp.maximum(game.actor(state), 0)]
    action = gt_cfr.sample(noise[0, : game.num_actions], policy[:, row])
    path = []
    for step in range(max_path):
        moves = (step == 0) | (game.actor(state) < 0) & (game.actor(state) != TERMINAL)
        pairs = game.follow(state, pair, action)
        children = game.children(state)
        possible = game.child_mask(state) & jnp.all(pairs >= 0, axis=1)
        weights = jax.vmap(game.weight)(children, jnp.maximum(pairs, 0))
        child = gt_cfr.sample(noise[step + 1, game.num_actions :], jnp.where(possible, weights, 0))
        path.append(jnp.where(moves, child, NO_STEP))
        after = jax.tree.map(lambda x, child=child: x[child], children)
        state = jax.tree.map(lambda new, old, moves=moves: jnp.where(moves, new, old), after, state)
        pair = jnp.where(moves, pairs[child], pair)
    return jnp.stack(path), game.actor(state) == TERMINAL
