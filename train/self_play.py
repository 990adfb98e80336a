"""Sound self-play (Schmid et al. 2023, Algorithm 2): one game of one searching agent.

An episode follows a world state (a row of either player) through a game, and the chain of searches
of one agent, their re-solver. These searches choose the moves of both players and provide the
beliefs.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from jaxgames.arrays import at, choose
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import TERMINAL, record
from solvers.search import continual_resolving
from solvers.search.expansion_phase import draw_index, sample_pair
from solvers.search.readouts import (
    average_policy,
    expected_payoff,
    last_reach,
    policy_in_row,
    target_state,
)
from solvers.search.search_state import NO_STEP, Problem, Search
from solvers.search.search_tree import uniform
from train.examples import Example, blank_example, make_example


@dataclasses.dataclass(frozen=True, kw_only=True)
class SelfPlaySettings:
    """How episodes are played; in brackets the names of the paper. Static under `jit`."""

    exploration: float = 0.1  # share of uniformly random moves [epsilon]
    outcome_targets: float = 0.0  # share of examples with the outcome as value target [p_td1]
    # the actor resigns when it expects a lower payoff [resign_threshold]
    resign_below: float | None = None
    never_resign: float = 0.2  # share of games without resignation [p_no_resign]
    # after this many moves the most probable action is played [moves_greedy_after]
    greedy_after: int | None = None
    max_moves: int | None = None  # longer games are stopped and count as drawn [moves_max]

    def __post_init__(self):
        for name in ("exploration", "outcome_targets", "never_resign"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)} must be from 0 to 1")
        for name, least in (("greedy_after", 0), ("max_moves", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name}={value} must be at least {least}")

    def longest(self, game: BeliefGame) -> int:
        """The number of moves of the longest episode."""
        return game.max_depth if self.max_moves is None else min(game.max_depth, self.max_moves)


@record
class Episode:
    """The state of one game of self-play."""

    problem: Problem  # of the next search
    # [N] own reaches of both players where it acts, by the policies of the searches so far
    played: tuple[Array, Array]
    resolver: Array  # [] int32 the player whose agent searches
    rows: Array  # [2] int32 the world state where it acts
    moves: Array  # [] int32 made so far
    may_resign: Array  # [] bool
    waiting: Example | None  # [T, ...] of the moves so far, if some targets are outcomes


def new_episode(
    game: BeliefGame, key: Key[Array, ""], *, max_path: int, settings: SelfPlaySettings
) -> Episode:
    """A game at a root (`BeliefGame.random_root`), with a random world state and re-solver.

    Args:
      game: any belief-level game.
      key: consumed.
      max_path: of the searches.
      settings: of self-play.

    Returns:
      The episode; its problem is the first to be searched.
    """
    agent_key, rows_key, resign_key, root_key = jax.random.split(key, 4)
    root = game.random_root(root_key)
    problem = continual_resolving.first_problem(game, max_path=max_path, root=root)
    return Episode(
        problem=problem,
        played=problem.reach,
        resolver=jax.random.bernoulli(agent_key).astype(jnp.int32),
        rows=sample_pair(
            game,
            jax.random.uniform(rows_key, 2, problem.reach[0].dtype),
            problem.state,
            problem.reach,
        ),
        moves=jnp.int32(0),
        may_resign=~jax.random.bernoulli(resign_key, settings.never_resign),
        waiting=_no_examples(game, settings) if settings.outcome_targets else None,
    )


def _no_examples(game, settings):
    length = settings.longest(game)
    return jax.tree.map(lambda x: jnp.zeros((length, *x.shape), x.dtype), blank_example(game))


def go_on(
    game: BeliefGame,
    key: Key[Array, ""],
    episode: Episode,
    search: Search,
    *,
    settings: SelfPlaySettings,
    range_by_policies: bool = False,
) -> tuple[Episode, Example, Bool[Array, " T"]]:
    """Makes a move by a search; after the end of a game a new one begins.

    Args:
      game: any belief-level game.
      key: consumed.
      episode: before the move.
      search: of `episode.problem`.
      settings: of self-play.
      range_by_policies: that of the searches' settings.

    Returns:
      The episode after the move, the examples that are ready (fields `[T, ...]`), and a mask `[T]`
      of those that exist. Their policy targets are the searches'. If some value targets are
      outcomes, the examples of a game are ready when it has ended; otherwise (T = 1) at once.
    """
    move_key, coin_key, new_key = jax.random.split(key, 3)
    max_path = episode.problem.path.shape[0]
    move = _move(game, move_key, search, episode, settings, max_path)
    waiting, examples, exists = _recorded(game, coin_key, search, episode, move, settings)
    problem, played = continual_resolving.next_problem(
        game,
        search,
        episode.played,
        move.path,
        resolver=episode.resolver,
        by_policies=range_by_policies,
    )
    later = episode.replace(
        problem=problem,
        played=played,
        rows=move.rows,
        moves=episode.moves + 1,
        waiting=waiting,
    )
    fresh = new_episode(game, new_key, max_path=max_path, settings=settings)
    return choose(move.ended, fresh, later), examples, exists


@record
class _Move:
    path: Array  # [L] int32 children from the searched state to the next one where a player acts
    state: PublicState  # where the path ends
    rows: Array  # [2] int32 the world state there
    resigned: Array  # [] bool
    ended: Array  # [] bool


def _move(game, key, search, episode, settings, max_path):
    """An action at the searched state, and the chance moves after it."""
    noise = jax.random.uniform(key, max_path + 1, search.reach[0].dtype)
    state, rows = target_state(search), episode.rows
    action = _action(game, noise[0], search, episode, settings)
    path = []
    for step in range(max_path):
        moves = (step == 0) | (game.actor(state) < 0) & (game.actor(state) != TERMINAL)
        child, *after = _drawn_child(game, noise[step + 1], state, rows, action)
        path.append(jnp.where(moves, child, NO_STEP))
        state, rows = choose(moves, tuple(after), (state, rows))
    ended = game.actor(state) == TERMINAL
    resigned = _resigns(game, search, episode, settings) & ~ended  # ended games have an outcome
    over = ended | (episode.moves + 1 >= settings.longest(game))
    path = jnp.stack(path)
    return _Move(path=path, state=state, rows=rows, resigned=resigned, ended=over | resigned)


def _drawn_child(game, noise, state, rows, action):
    """A child where an action leads, drawn by its weight: its number, state and rows."""
    if game.has_perfect_information:  # makes one child of thousands
        return action, game.child(state, action), rows
    pairs = game.follow(state, rows, action)
    children = game.children(state)
    possible = game.child_mask(state) & jnp.all(pairs >= 0, axis=1)
    weights = jax.vmap(game.weight)(children, jnp.maximum(pairs, 0))
    child = draw_index(jnp.where(possible, weights, 0), noise)
    return child, at(children, child), pairs[child]


def _action(game, noise, search, episode, settings):
    """An action by the search's policy in the world state's row, mixed with the uniform policy;
    late in a game the most probable one."""
    state, policy = target_state(search), average_policy(search)
    share, actor = settings.exploration, jnp.maximum(game.actor(state), 0)
    both = (policy, uniform(game, state, policy[0].dtype))
    by_search, evenly = (policy_in_row(each, actor, episode.rows[actor]) for each in both)
    weights = (1 - share) * by_search + share * evenly
    action = draw_index(weights, noise)
    if settings.greedy_after is None:
        return action
    most_probable = jnp.argmax(weights).astype(jnp.int32)
    return jnp.where(episode.moves >= settings.greedy_after, most_probable, action)


def _resigns(game, search, episode, settings):
    """Whether the player to move resigns."""
    if settings.resign_below is None:
        return jnp.bool_(False)
    expected = expected_payoff(game, search, episode.rows)
    return episode.may_resign & (expected < settings.resign_below)


def _recorded(game, key, search, episode, move, settings):
    """The examples that wait for the outcome after this move, those that are ready, and a mask of
    the ready ones that exist."""
    state, reach = target_state(search), last_reach(search)
    policy = average_policy(search)
    unknown = jax.tree.map(jnp.zeros_like, reach)
    example = make_example(game, state, reach, unknown, policy, value_weight=0.0)
    if episode.waiting is None:
        return None, jax.tree.map(lambda x: x[None], example), jnp.ones(1, bool)
    example = example.replace(
        mass=_known(game, episode.rows, reach[0].dtype),
        value_weight=jax.random.bernoulli(key, settings.outcome_targets).astype(reach[0].dtype),
    )
    waiting = jax.tree.map(lambda x, new: x.at[episode.moves].set(new), episode.waiting, example)
    won = outcome(game, move.state, move.rows)
    examples = waiting.replace(
        values=tuple(mass * won[p] for p, mass in enumerate(waiting.mass)),
        value_weight=jnp.where(move.resigned, 0, waiting.value_weight),
    )
    number = jnp.arange(settings.longest(game), dtype=jnp.int32)
    return waiting, examples, move.ended & (number <= episode.moves)


def _known(game, rows, dtype):
    """A reach of 1 in one row of either player."""
    first, second = (
        jax.nn.one_hot(rows[p], count, dtype=dtype) for p, count in enumerate(game.num_rows)
    )
    return first, second


def outcome(game: BeliefGame, state: PublicState, rows: Int[Array, "2"]) -> Float[Array, "2"]:
    """The payoffs `[2]` of both players in the world state of these rows; 0 before the end."""
    weight = game.weight(state, rows)
    known = _known(game, rows, weight.dtype)
    worth = [game.terminal_values(state, p, known[1 - p])[rows[p]] for p in range(2)]
    ended = (game.actor(state) == TERMINAL) & (weight > 0)
    return jnp.where(ended, jnp.stack(worth) / jnp.where(ended, weight, 1), 0)
