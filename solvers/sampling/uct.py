"""UCT and Smooth UCT in self-play, for games of imperfect information (Heinrich and Silver 2015).

Every player has a tree of its own information states. Each episode adds the first state outside of
the tree on its way; from there on that player acts uniformly (the rollout). In the tables a state
without visits is outside of the tree.

A learner is one set of tables; many learn side by side under `jax.vmap`. Games too large for a
`DecisionTree` are played by their rules, with numbered information states (`IndexedGame`).

Example:

    >>> import jax
    >>> import jaxgames
    >>> from solvers.sampling import uct
    >>> from solvers.sampling.decision_tree import build_decision_tree
    >>> tree = build_decision_tree(jaxgames.make("kuhn_poker"))
    >>> settings = uct.smooth_uct(2.0, decay=0.002)
    >>> learner = uct.run(
    ...     tree, uct.init(tree), jax.random.key(0), settings=settings, num_episodes=1000
    ... )
    >>> policy = uct.average_policy(tree, learner)
    >>> [rows.shape for rows in policy]
    [(6, 2), (6, 2)]
"""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from jaxgames.arrays import max_actions, sum_actions
from jaxgames.core import record
from jaxgames.registry import unknown
from solvers.sampling import episodes
from solvers.sampling.decision_tree import DecisionTree, proportional_policy, split_by_player
from solvers.sampling.episodes import Playable
from solvers.sequence_form import Policy

AVERAGES, SCHEDULES, TIES = ("visits", "ucb"), ("state", "episodes"), ("random", "first")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reading:
    """How the paper is read where it might be read in two ways. Static under `jit`.

    The defaults are its algorithms 1 and 2 as they are written. What the others do is measured by
    the experiment `smooth_uct_leduc_readings`.
    """

    average: str = "visits"
    """What the average policy that players mix in counts: "visits", or only those of them in which
    the action was chosen by "ucb"."""
    schedule: str = "state"
    """By what eta falls: the visits of the "state", or the number of "episodes"."""
    ties: str = "random"
    """Which action is taken of those with the highest bound: a "random" one, or the "first"."""
    whole_trees: bool = False
    """Whether all states are in the trees from the start, so that all visits count."""
    alternating: bool = False
    """Whether only one player, in turn, learns from an episode."""

    def __post_init__(self):
        for name, all_of in (("average", AVERAGES), ("schedule", SCHEDULES), ("ties", TIES)):
            if getattr(self, name) not in all_of:
                raise ValueError(unknown(name, getattr(self, name), all_of))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Uct:
    """Settings of UCT and Smooth UCT; see `uct` and `smooth_uct`. Static under `jit`.

    At a state with n visits a player acts by UCB with probability eta(n) = max(least, start / (1 +
    decay sqrt(n))), and otherwise by its average policy, in proportion to the visits.
    """

    exploration: float  # c of UCB
    start: float = 1.0  # eta: the probability of UCB at states without visits
    least: float = 0.0  # gamma: the least probability of UCB
    reading: Reading = Reading()
    decay: float = 0.0  # d: how fast the probability falls with the visits

    def __post_init__(self):
        for name in ("exploration", "decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 0 and finite")
        for name in ("start", "least"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)} must be from 0 to 1")


def uct(exploration: float) -> Uct:
    """Returns the settings of UCT: UCB at every decision, with exploration constant c."""
    return Uct(exploration=exploration)


def smooth_uct(
    exploration: float, *, start: float = 0.9, least: float = 0.1, decay: float = 0.001
) -> Uct:
    """Returns the settings of Smooth UCT (Heinrich and Silver 2015, algorithm 1).

    Args:
      exploration: c of UCB.
      start: eta, the probability of UCB at a state without visits.
      least: gamma, the least probability of UCB.
      decay: d, how fast the probability falls with the square root of the visits.
    """
    return Uct(exploration=exploration, start=start, least=least, decay=decay)


@record
class UctLearner:
    """What is learned; row N of the tables belongs to no information state."""

    step: Array  # [] int32 episodes done
    visits: Array  # [N + 1, A] int32
    values: Array  # [N + 1, A] mean payoff of the actor
    lost: Array  # [N + 1, A] rounding errors of these means, to be added later (Kahan 1965)
    by_ucb: Array | None  # [N + 1, A] int32 visits without those by the average policy


def init(game: Playable, *, count_ucb: bool = False) -> UctLearner:
    """Returns a learner before its first episode.

    Args:
      game: a `DecisionTree` or `IndexedGame`.
      count_ucb: whether UCB's choices are also counted by themselves, as `ucb_policy` and the
        reading `average="ucb"` need them.
    """
    shape = game.num_states + 1, game.num_actions
    return UctLearner(
        step=jnp.int32(0),
        visits=jnp.zeros(shape, jnp.int32),
        values=jnp.zeros(shape),
        lost=jnp.zeros(shape),
        by_ucb=jnp.zeros(shape, jnp.int32) if count_ucb else None,
    )


def average_policy(tree: DecisionTree, learner: UctLearner) -> Policy:
    """Returns the frequencies of the actions by player `[D_p, A]`, uniform outside of the trees."""
    return proportional_policy(tree, learner.visits.astype(tree.uniform.dtype))


def ucb_policy(tree: DecisionTree, learner: UctLearner) -> Policy:
    """Returns the frequencies of the actions that UCB chose, and not the average policy, by player
    `[D_p, A]`; uniform outside of the trees.

    Raises:
      ValueError: the learner does not count them.
    """
    return proportional_policy(tree, _choices_of_ucb(learner).astype(tree.uniform.dtype))


def _choices_of_ucb(learner):
    if learner.by_ucb is None:
        raise ValueError("the learner does not count UCB's choices, as with init(count_ucb=True)")
    return learner.by_ucb


def greedy_policy(tree: DecisionTree, learner: UctLearner) -> Policy:
    """Returns policies by player `[D_p, A]` that play the action of the highest mean payoff among
    those that were tried; uniform outside of the trees.
    """
    best = jnp.argmax(jnp.where(learner.visits > 0, learner.values, -jnp.inf), axis=1)
    chosen = jax.nn.one_hot(best, tree.num_actions, dtype=tree.uniform.dtype)
    some = jnp.any(learner.visits > 0, axis=1, keepdims=True)
    return split_by_player(tree, jnp.where(some, chosen, tree.uniform))


@functools.partial(jax.jit, static_argnames="settings")
def run(
    game: Playable,
    learner: UctLearner,
    key: Key[Array, ""],
    *,
    settings: Uct,
    num_episodes: int | Int[Array, ""],
) -> UctLearner:
    """Runs episodes in one compiled loop.

    Args:
      game: a `DecisionTree` or `IndexedGame`.
      learner: the learner so far.
      key: the key of the whole run: a run that continues with the same key gives the same result as
        one without interruption.
      settings: how to choose actions.
      num_episodes: how many episodes to add.

    Returns:
      The learner after these episodes.
    """
    next_episode = functools.partial(episode, game, settings=settings)
    return episodes.repeat_episodes(next_episode, learner, key, num_episodes)


def episode(
    game: Playable, learner: UctLearner, key: Key[Array, ""], *, settings: Uct
) -> UctLearner:
    """Plays one episode and returns the learner after it; `key` is consumed."""
    players, reading = jnp.arange(game.num_players, dtype=jnp.int32), settings.reading
    average = learner.visits if reading.average == "visits" else _choices_of_ucb(learner)
    learns = players == learner.step % game.num_players if reading.alternating else True

    def choose(inside, node, noise):
        visits, uniform = learner.visits[node.state], node.uniform
        acts = players == node.actor
        rolls_out = ~jnp.any(inside & acts) | (sum_actions(visits) == 0)
        by_average = ~rolls_out & (noise[0] >= _share_of_ucb(learner, visits, settings))
        # a row that several states share may have seen actions that are illegal here
        chances = jnp.where(uniform > 0, average[node.state], 0).astype(learner.values.dtype)
        by_average &= sum_actions(chances) > 0
        ucb = _best(visits, learner.values[node.state], uniform > 0, settings)
        weights = jnp.where(by_average, chances, ucb)
        action = episodes.pick_action(jnp.where(rolls_out, uniform, weights), noise[1])
        counted = jnp.any(inside & acts & learns)  # only states in the tree are updated
        after = inside if reading.whole_trees else inside & ~(acts & rolls_out)
        return after, action, (counted, None if learner.by_ucb is None else counted & ~by_average)

    trajectory = episodes.play(game, key, choose, jnp.ones(game.num_players, bool), width=2)
    counted, by_ucb = trajectory.recorded
    return back_up(learner, trajectory.replace(recorded=counted), by_ucb=by_ucb)


def back_up(
    learner: UctLearner, trajectory: episodes.Trajectory, *, by_ucb: Bool[Array, " T"] | None = None
) -> UctLearner:
    """Updates visits and mean payoffs with an episode.

    Args:
      learner: the learner so far.
      trajectory: the episode; `trajectory.recorded` `[T]` is True where a decision counts.
      by_ucb: where it also counts as UCB's choice; for learners that count these.

    Returns:
      The learner after the episode.
    """
    visits, values, lost = (
        table[trajectory.state] for table in (learner.visits, learner.values, learner.lost)
    )
    action = jax.nn.one_hot(trajectory.action, visits.shape[1], dtype=bool)
    taken = action & trajectory.recorded[:, None]
    visits = visits + taken.astype(jnp.int32)
    payoff = trajectory.payoffs[jnp.maximum(trajectory.actor, 0)].astype(values.dtype)[:, None]
    share = jnp.where(taken, 1 / jnp.maximum(visits, 1).astype(values.dtype), 0)
    change = share * (payoff - values) + lost
    after = values + change
    choices = learner.by_ucb
    if choices is not None:
        more = (action & by_ucb[:, None]).astype(jnp.int32)
        choices = episodes.put_rows(choices, trajectory.state, choices[trajectory.state] + more)
    return UctLearner(
        step=learner.step + 1,
        visits=episodes.put_rows(learner.visits, trajectory.state, visits),
        values=episodes.put_rows(learner.values, trajectory.state, after),
        lost=episodes.put_rows(learner.lost, trajectory.state, change - (after - values)),
        by_ucb=choices,
    )


def _share_of_ucb(learner, visits, settings):
    """The probability eta that UCB chooses at a state with these visits."""
    number = sum_actions(visits) if settings.reading.schedule == "state" else learner.step
    number = jnp.sqrt(number.astype(learner.values.dtype))
    share = settings.start / (1 + settings.decay * number)
    return jnp.maximum(settings.least, share)


def _best(visits, values, legal, settings):
    """The weights by which UCB draws an action of a state."""
    best = upper_bounds(visits, values, legal, exploration=settings.exploration)
    if settings.reading.ties == "first":
        return jax.nn.one_hot(jnp.argmax(best), len(best), dtype=best.dtype)
    return best


def upper_bounds(
    visits: Int[Array, " A"],
    values: Float[Array, " A"],
    legal: Bool[Array, " A"],
    *,
    exploration: float,
) -> Float[Array, " A"]:
    """Marks the legal actions of the highest upper confidence bound with 1, all others with 0.

    The bound of action a is Q(a) + exploration sqrt(log n / n(a)), infinite for actions without
    visits.
    """
    count = visits.astype(values.dtype)
    log_total = jnp.log(jnp.maximum(sum_actions(count), 1))
    bound = values + exploration * jnp.sqrt(log_total / jnp.maximum(count, 1))
    bound = jnp.where(legal, jnp.where(visits > 0, bound, jnp.inf), -jnp.inf)
    return (legal & (bound == max_actions(bound))).astype(values.dtype)
