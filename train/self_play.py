"""Sound self-play (Student of Games, Algorithm 2): one game of one searching agent.

An episode follows a world state, the rows of both players, through a game, and one agent, the
re-solver of all its searches. That agent's searches move for both players and carry the beliefs.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from jaxgames.arrays import at
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import TERMINAL, record
from solvers.search import continual_resolving, growing_tree_cfr
from solvers.search.growing_tree_cfr import NO_STEP, Problem, Search
from solvers.search.search_tree import choose, columns, uniform
from train.examples import Example, blank_example, make_example


@dataclasses.dataclass(frozen=True, kw_only=True)
class SelfPlaySettings:
    """How episodes go; in brackets the names of the paper. Static under `jit`."""

    exploration: float = 0.1  # share of uniform moves [epsilon]
    outcome_targets: float = 0.0  # share of examples with the outcome as value target [p_td1]
    resign_below: float | None = None  # payoff of the player to move [resign_threshold]
    never_resign: float = 0.2  # share of games that go on nevertheless [p_no_resign]
    greedy_after: int | None = None  # moves; from then on the likeliest [moves_greedy_after]
    max_moves: int | None = None  # longer games are cut off and count as drawn [moves_max]

    def __post_init__(self):
        for name in ("exploration", "outcome_targets", "never_resign"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)} must be from 0 to 1")
        for name, least in (("greedy_after", 0), ("max_moves", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name}={value} must be at least {least}")

    def longest(self, game: BeliefGame) -> int:
        """Moves of the longest episode."""
        return game.max_depth if self.max_moves is None else min(game.max_depth, self.max_moves)


@record
class Episode:
    """Where a game stands."""

    problem: Problem  # of the next search
    played: Array  # [2, N] own reaches where it acts, by the policies searched so far
    resolver: Array  # [] int32 whose agent is followed
    rows: Array  # [2] int32 the world state where it acts: both players' information states
    moves: Array  # [] int32 made so far
    may_resign: Array  # [] bool
    waiting: Example | None  # [T, ...] of the moves so far, if any may learn from the outcome


def new_episode(
    game: BeliefGame, key: Key[Array, ""], *, max_path: int, settings: SelfPlaySettings
) -> Episode:
    """A game at its root, followed by one of the two agents; `key` is consumed."""
    agent_key, rows_key, resign_key = jax.random.split(key, 3)
    problem = continual_resolving.first_problem(game, max_path=max_path)
    return Episode(
        problem=problem,
        played=problem.reach,
        resolver=jax.random.bernoulli(agent_key).astype(jnp.int32),
        rows=growing_tree_cfr.sample_pair(game, rows_key, problem.state, problem.reach),
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
    found: Search,
    *,
    settings: SelfPlaySettings,
    range_by_policies: bool = False,
) -> tuple[Episode, Example, Bool[Array, " T"]]:
    """Moves on after `found`, the search of `episode.problem`; starts anew after the end.
    `range_by_policies` is that of the searches' settings.

    Returns the examples that are ready too (fields [T, ...]), and which of them are there. They
    have the searches' policies, and some the outcome of the game as value target: then they come
    when it has ended, otherwise (T = 1) at once. `key` is consumed.
    """
    move_key, coin_key, new_key = jax.random.split(key, 3)
    max_path = episode.problem.path.shape[0]
    move = _move(game, move_key, found, episode, settings, max_path)
    waiting, examples, there = _recorded(game, coin_key, found, episode, move, settings)
    problem, played = continual_resolving.next_problem(
        game,
        found,
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
    return choose(move.ended, fresh, later), examples, there


@record
class _Move:
    path: Array  # [L] int32 children from the searched state to where somebody acts again
    state: PublicState  # there
    rows: Array  # [2] int32 there
    resigned: Array  # [] bool
    ended: Array  # [] bool


def _move(game, key, found, episode, settings, max_path):
    """An action at the searched state, and what chance does then."""
    shape = max_path + 1, game.num_actions + game.num_children
    noise = jax.random.gumbel(key, shape, found.tree.reach.dtype)
    state, rows = at(found.tree.state, found.target), episode.rows
    action = _action(game, noise[0, : game.num_actions], found, episode, settings)
    path = []
    for step in range(max_path):
        moves = (step == 0) | (game.actor(state) < 0) & (game.actor(state) != TERMINAL)
        pairs = game.follow(state, rows, action)
        children = game.children(state)
        possible = game.child_mask(state) & jnp.all(pairs >= 0, axis=1)
        weights = jax.vmap(game.weight)(children, jnp.maximum(pairs, 0))
        child = growing_tree_cfr.sample(
            noise[step + 1, game.num_actions :], jnp.where(possible, weights, 0)
        )
        path.append(jnp.where(moves, child, NO_STEP))
        state = choose(moves, at(children, child), state)
        rows = jnp.where(moves, pairs[child], rows)
    resigned = _resigns(game, found, episode, settings)
    over = (game.actor(state) == TERMINAL) | (episode.moves + 1 >= settings.longest(game))
    path = jnp.stack(path)
    return _Move(path=path, state=state, rows=rows, resigned=resigned, ended=over | resigned)


def _action(game, noise, found, episode, settings):
    """The search's policy in the world state's row, partly uniform; late in a game its mode."""
    state, policy = at(found.tree.state, found.target), growing_tree_cfr.average_policy(found)
    share = settings.exploration
    policy = (1 - share) * policy + share * uniform(game, state, policy.dtype)
    weights = policy[:, episode.rows[jnp.maximum(game.actor(state), 0)]]
    action = growing_tree_cfr.sample(noise, weights)
    if settings.greedy_after is None:
        return action
    likeliest = jnp.argmax(weights).astype(jnp.int32)
    return jnp.where(episode.moves >= settings.greedy_after, likeliest, action)


def _resigns(game, found, episode, settings):
    """Whether the player to move expects too little in the world state's row."""
    if settings.resign_below is None:
        return jnp.bool_(False)
    expects = expected_payoff(game, found, episode.rows)
    return episode.may_resign & (expects < settings.resign_below)


def expected_payoff(game: BeliefGame, found: Search, rows: Int[Array, "2"]) -> Float[Array, ""]:
    """What a search expects the player to move to win, in the world state of these rows; 0 where
    it holds that state impossible."""
    tree, state = found.tree, at(found.tree.state, found.target)
    actor = jnp.maximum(game.actor(state), 0)
    values = columns(tree.slot_total, tree.parent[found.target], 1, game.num_rows)
    reach = columns(tree.reach_total, found.target, 1, game.num_rows)  # of the same iterations
    mass = game.compatible(state, actor, reach[1 - actor])[rows[actor]]
    return jnp.where(mass > 0, values[actor, rows[actor]] / jnp.where(mass > 0, mass, 1), 0)


def _recorded(game, key, found, episode, move, settings):
    """The examples that wait for the outcome after this move, those that are ready, and which of
    those are there."""
    state, reach = at(found.tree.state, found.target), _searched_reach(game, found)
    policy = growing_tree_cfr.average_policy(found)
    example = make_example(game, state, reach, jnp.zeros_like(reach), policy, value_weight=0.0)
    if episode.waiting is None:
        return None, jax.tree.map(lambda x: x[None], example), jnp.ones(1, bool)
    example = example.replace(
        mass=jax.nn.one_hot(episode.rows, game.num_rows, dtype=reach.dtype),
        value_weight=jax.random.bernoulli(key, settings.outcome_targets).astype(reach.dtype),
    )
    waiting = jax.tree.map(lambda x, new: x.at[episode.moves].set(new), episode.waiting, example)
    won = outcome(game, move.state, move.rows)
    examples = waiting.replace(
        values=waiting.mass * won[None, :, None],
        value_weight=jnp.where(move.resigned, 0, waiting.value_weight),
    )
    number = jnp.arange(settings.longest(game), dtype=jnp.int32)
    return waiting, examples, move.ended & (number <= episode.moves)


def outcome(game: BeliefGame, state: PublicState, rows: Int[Array, "2"]) -> Float[Array, "2"]:
    """What the players have won in the world state of these rows; 0 before the end."""
    weight = game.weight(state, rows)
    known = jax.nn.one_hot(rows, game.num_rows, dtype=weight.dtype)
    worth = [game.terminal_values(state, p, known[1 - p])[rows[p]] for p in range(2)]
    ended = (game.actor(state) == TERMINAL) & (weight > 0)
    return jnp.where(ended, jnp.stack(worth) / jnp.where(ended, weight, 1), 0)


def _searched_reach(game, found):
    return columns(found.tree.reach, found.target, 1, game.num_rows)
