"""Training of a value-and-policy network by sound self-play, as one jitted step.

`init` starts a run, and `train_step` makes one step of it; `train.student_of_games` does both for a
game by name. A step plays one move in every episode, solves some queries, and makes some gradient
updates (Schmid et al. 2023, Algorithm 2). With a mesh (`train.data_sharding`) the same program runs
on several devices.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Key, PyTree

from jaxgames.arrays import merge_axes
from jaxgames.beliefs.contract import BeliefGame
from jaxgames.checks import at_least
from jaxgames.core import record
from jaxgames.debug import checked
from solvers import device_batches
from solvers.device_batches import DATA
from solvers.search import continual_resolving, growing_tree_cfr
from solvers.search.search_state import GrowingTreeCfr
from train import data_sharding, queries, replay, self_play
from train.examples import Example, blank_example
from train.learner import Learner, LearnerSettings, learn, new_buffer, new_learner
from train.self_play import SelfPlaySettings
from train.value_checks import check_training

_DEFAULT = SelfPlaySettings()


@dataclasses.dataclass(frozen=True, kw_only=True)
class StudentOfGamesSettings:
    """How to train. Static under `jit`."""

    search: GrowingTreeCfr  # of self-play and of the query solver; evaluates with the network
    learner: LearnerSettings
    self_play: SelfPlaySettings = _DEFAULT
    episodes: int  # games side by side
    solves: int  # the most queries that are solved in a step; 0 only if searches ask none
    updates: int  # gradient updates in a step
    queries_per_search: float = 0.9  # put into the queue for each move [q_search]
    queries_per_solve: float = 0.1  # put into the queue for each solved query [q_recursive]
    queue_capacity: int = 4096  # queries

    def __post_init__(self):
        for name in ("queries_per_search", "queries_per_solve"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 0 and finite")
        if self.search.max_path < 1:
            raise ValueError(
                f"search.max_path={self.search.max_path} must be at least 1, as moves lead to other"
                " public states"
            )
        at_least(1, episodes=self.episodes)
        at_least(1 if self.queries_per_search else 0, solves=self.solves)
        at_least(1, updates=self.updates)
        for name in ("episodes", "solves"):
            added = getattr(self, name) * self.most_queries
            if self.queue_capacity < added:
                raise ValueError(
                    f"queue_capacity={self.queue_capacity} must be at least {added}, the queries"
                    f" that {name}={getattr(self, name)} can add at once"
                )

    @property
    def most_queries(self) -> int:
        """The most queries that one search puts into the queue."""
        return max(1, math.ceil(self.queries_per_search), math.ceil(self.queries_per_solve))


@record
class StudentOfGamesTraining:
    """The state of a run."""

    learner: Learner
    replay: replay.Replay
    queue: queries.Queue
    episodes: self_play.Episode  # [B, ...]
    key: Array
    step: Array  # [] int32
    games: Array  # [] int32 of self-play that have ended


def init(
    game: BeliefGame,
    params: PyTree,
    key: Key[Array, ""],
    *,
    settings: StudentOfGamesSettings,
    mesh: Mesh | None = None,
) -> StudentOfGamesTraining:
    """A run before its first step.

    Args:
      game: any belief-level game.
      params: of the network, from `nnx.split`; they are copied.
      key: consumed.
      settings: how to train.
      mesh: the devices to train on (`train.data_sharding`); None: one.

    Returns:
      The state that `train_step` takes.

    Raises:
      ValueError: the devices of `mesh` cannot share a size evenly.
    """
    names = ("episodes", *["solves"] * bool(settings.solves), "queue_capacity")
    sizes = {name: getattr(settings, name) for name in names}
    learner = {name: getattr(settings.learner, name) for name in ("batch_size", "capacity")}
    device_batches.check_even(sizes | learner | policy_sizes(settings.learner), mesh)
    layout = None if mesh is None else data_sharding.named(_LAYOUT, mesh)
    first = functools.partial(_first_state, settings=settings)
    return jax.jit(first, out_shardings=layout)(game, params, key)


def policy_sizes(settings: LearnerSettings) -> dict[str, int]:
    """The number of policies of each player that the replay buffer has room for, by name; devices
    share these sizes, too."""
    shares = replay.policy_capacities(settings.capacity, settings.policy_shares)
    return {f"capacity * policy_shares[{player}]": size for player, size in enumerate(shares)}


# The axes along which a run is cut on a mesh.
_LAYOUT = StudentOfGamesTraining(
    learner=P(),
    replay=replay.LAYOUT,
    queue=queries.Queue(queries=P(DATA), first=P(), size=P()),
    episodes=P(DATA),
    key=P(),
    step=P(),
    games=P(),
)


def _first_state(game, params, key, *, settings):
    key, episode_key = jax.random.split(key)
    start = functools.partial(
        self_play.new_episode,
        game,
        max_path=settings.search.max_path,
        settings=settings.self_play,
    )
    reach = tuple(rows.astype(jnp.float32) for rows in game.rows(game.root()))
    root = queries.Query(state=game.root(), reach=reach)
    return StudentOfGamesTraining(
        learner=new_learner(jax.tree.map(jnp.copy, params), settings.learner),
        replay=new_buffer(blank_example(game), settings.learner),
        queue=queries.new_queue(root, settings.queue_capacity),
        episodes=jax.vmap(start)(jax.random.split(episode_key, settings.episodes)),
        key=key,
        step=jnp.int32(0),
        games=jnp.int32(0),
    )


@checked(check_training)
@functools.partial(jax.jit, static_argnames=("graph", "settings", "mesh"), donate_argnames="state")
def train_step(
    game: BeliefGame,
    graph: nnx.GraphDef,
    state: StudentOfGamesTraining,
    *,
    settings: StudentOfGamesSettings,
    mesh: Mesh | None = None,
) -> tuple[StudentOfGamesTraining, dict[str, Array]]:
    """Plays, solves queries and learns.

    Args:
      game: any belief-level game.
      graph: of the network, from `nnx.split`. Static.
      state: of the run; donated, so that it cannot be used again.
      settings: how to train. Static.
      mesh: the devices to train on. Static.

    Returns:
      The state after the step, and its metrics: the losses of the last update (or of the first that
      was refused because they were not finite, at which
      `learner.require_finite_losses(metrics, step)` stops a run), the queries in the queue
      ("queue") and solved in this step ("solved"), the games that ended in it ("games"), the
      searches whose trees were full ("full"), and the examples in the replay buffer ("replay").
    """
    key, play_key, move_key, solve_key, learn_key = jax.random.split(state.key, 5)
    # 1. One search for every episode and every query that is taken from the queue.
    queue, asked, present = queries.pop(state.queue, settings.solves, mesh=mesh)
    search = functools.partial(_search, settings=settings)
    played, solved = device_batches.split_calls(search, mesh)(
        (game, state.learner.params),
        (
            (
                jax.random.split(play_key, settings.episodes),
                jax.random.split(move_key, settings.episodes),
                state.episodes,
            ),
            (jax.random.split(solve_key, settings.solves), asked),
        ),
    )
    # 2. Some of their queries join the queue, their examples the replay buffer.
    episodes = played.episodes
    played, solved = data_sharding.everywhere((played.replace(episodes=None), solved), mesh)
    queue = queries.push(queue, *merge_axes((played.query, played.kept)))
    kept = solved.kept & present[:, None]
    queue = queries.push(queue, *merge_axes((solved.query, kept)))
    buffer = replay.add(state.replay, *merge_axes((played.examples, played.ready)))
    buffer = replay.add(buffer, solved.example, present)
    # 3. Gradient updates.
    learner, buffer, losses = learn(
        graph,
        learn_key,
        state.learner,
        buffer,
        settings=settings.learner,
        updates=settings.updates,
        mesh=mesh,
    )
    games = jnp.sum(played.ended, dtype=jnp.int32)
    after = StudentOfGamesTraining(
        learner=learner,
        replay=buffer,
        queue=queue,
        episodes=episodes,
        key=key,
        step=state.step + 1,
        games=state.games + games,
    )
    counts = {
        "queue": queue.size,
        "solved": jnp.sum(present),
        "games": games,
        "full": jnp.sum(played.full) + jnp.sum(solved.full & present),
        "replay": buffer.size,
    }
    return data_sharding.constrain(after, _LAYOUT, mesh), losses | counts


@record
class _Played:
    episodes: self_play.Episode  # [B, ...]
    examples: Example  # [B, T, ...]
    ready: Array  # [B, T] bool examples that exist
    ended: Array  # [B] bool games that ended
    full: Array  # [B] bool searches whose trees were full
    query: queries.Query  # [B, C, ...] some queries of the searches
    kept: Array  # [B, C] bool queries that join the queue


@record
class _Solved:
    example: Example  # [S, ...]
    full: Array  # [S] bool searches whose trees were full
    query: queries.Query  # [S, C, ...]
    kept: Array  # [S, C] bool


def _search(shared, batch, *, settings):
    """One search for every episode and every query, side by side, with moves and examples."""
    game, params = shared
    (play_keys, move_keys, episodes), (solve_keys, asked) = batch
    fixed = functools.partial(continual_resolving.fixed_problem, max_path=settings.search.max_path)
    problems = _joined(episodes.problem, jax.vmap(fixed)(asked.state, asked.reach))
    counts = jnp.array([len(play_keys), len(solve_keys)])
    most = settings.most_queries
    share = jnp.array([settings.queries_per_search, settings.queries_per_solve]) / most
    share = jnp.repeat(share, counts, total_repeat_length=len(play_keys) + len(solve_keys))

    logging = dataclasses.replace(settings.search, logged_queries=most)

    def search_one(key, problem, share):
        search_key, coin_key = jax.random.split(key)
        search = growing_tree_cfr.search(
            game, params, search_key, problem=problem, settings=logging
        )
        query, exists = queries.searched_queries(game, search)
        return search, query, exists & jax.random.bernoulli(coin_key, share, (most,))

    every = jax.vmap(search_one)(jnp.concatenate([play_keys, solve_keys]), problems, share)
    full = every[0].tree.is_full
    searches, query, kept = jax.tree.map(lambda x: x[: len(play_keys)], every)
    go_on = functools.partial(
        self_play.go_on,
        game,
        settings=settings.self_play,
        range_by_policies=settings.search.range_by_policies,
    )
    episodes, examples, ready = jax.vmap(go_on)(move_keys, episodes, searches)
    ended = episodes.moves == 0  # a new game has begun
    played = _Played(
        episodes=episodes,
        examples=examples,
        ready=ready,
        ended=ended,
        full=full[: len(play_keys)],
        query=query,
        kept=kept,
    )
    searches, query, kept = jax.tree.map(lambda x: x[len(play_keys) :], every)
    example = jax.vmap(functools.partial(queries.solved_example, game))(asked, searches)
    solved = _Solved(example=example, full=full[len(play_keys) :], query=query, kept=kept)
    return played, solved


def _joined(first, second):
    return jax.tree.map(lambda x, y: jnp.concatenate([x, y]), first, second)
