"""UCT and Smooth UCT in self-play, for games of imperfect information (Heinrich and Silver 2015).

    tree, settings = build_decision_tree(make("leduc_poker")), smooth_uct(18.0, decay=0.002)
    learner = run(tree, init(tree), key, settings=settings, num_episodes=1_000_000)
    policy = average_policy(tree, learner)

Every player has a tree of its own information states, which each of its episodes makes one larger:
from there on that player rolls out, uniformly. A learner is one set of tables, in which a state
without visits is not in the tree; many learn side by side under `jax.vmap`. Games too large for a
`DecisionTree` are played by their rules, with an index of information states (`IndexedGame`).
"""

from __future__ import annotations

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from jaxgames.core import record
from solvers.sampling import episodes
from solvers.sampling.decision_tree import DecisionTree, proportional_policy, split_by_player
from solvers.sampling.episodes import Playable
from solvers.sequence_form import Policy
from solvers.sequence_form.sweeps import max_actions, sum_actions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Uct:
    """How to choose; see `uct` and `smooth_uct`. Static under `jit`."""

    exploration: float  # c of UCB
    start: float = 1.0  # eta: share of UCB in states without visits, the rest follows the average
    least: float = 0.0  # gamma: share of UCB in the end
    decay: float = 0.0  # d: how fast it falls with the root of the visits

    def __post_init__(self):
        for name in ("exploration", "decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 0 and finite")
        for name in ("start", "least"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)} must be from 0 to 1")


def uct(exploration: float) -> Uct:
    """UCB at every decision."""
    return Uct(exploration=exploration)


def smooth_uct(
    exploration: float, *, start: float = 0.9, least: float = 0.1, decay: float = 0.001
) -> Uct:
    """UCB with probability max(least, start / (1 + decay sqrt(visits))), else as on average."""
    return Uct(exploration=exploration, start=start, least=least, decay=decay)


@record
class UctLearner:
    """What is learned; row N of the tables is nobody's."""

    step: Array  # [] int32 episodes done
    visits: Array  # [N + 1, A] int32
    values: Array  # [N + 1, A] mean payoff of the actor
    lost: Array  # [N + 1, A] what rounding took from it (Kahan 1965): late changes are small


def init(game: Playable) -> UctLearner:
    """A learner before its first episode."""
    shape = game.num_states + 1, game.num_actions
    return UctLearner(
        step=jnp.int32(0),
        visits=jnp.zeros(shape, jnp.int32),
        values=jnp.zeros(shape),
        lost=jnp.zeros(shape),
    )


def average_policy(tree: DecisionTree, learner: UctLearner) -> Policy:
    """How often each action was taken, by player `[D_p, A]`; uniform outside of the trees."""
    return proportional_policy(tree, learner.visits.astype(tree.uniform.dtype))


def greedy_policy(tree: DecisionTree, learner: UctLearner) -> Policy:
    """The action of the highest mean payoff, of those tried; uniform outside of the trees."""
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
    """The learner after so many more episodes, in one compiled loop; `key` is the whole run's."""
    one = functools.partial(episode, game, settings=settings)
    return episodes.repeat_episodes(one, learner, key, num_episodes)


def episode(
    game: Playable, learner: UctLearner, key: Key[Array, ""], *, settings: Uct
) -> UctLearner:
    """The learner after one more episode; `key` is consumed."""
    players = jnp.arange(game.num_players, dtype=jnp.int32)

    def choose(inside, node, luck):
        visits, uniform = learner.visits[node.state], node.uniform
        acts = players == node.actor
        counted = jnp.any(inside & acts)
        rolls_out = ~counted | (sum_actions(visits) == 0)
        weights = _weights(visits, learner.values[node.state], uniform, luck[0], settings)
        action = episodes.pick_action(jnp.where(rolls_out, uniform, weights), luck[1])
        return inside & ~(acts & rolls_out), action, counted

    line = episodes.play(game, key, choose, jnp.ones(game.num_players, bool), width=2)
    return back_up(learner, line)


def back_up(learner: UctLearner, line: episodes.Trajectory) -> UctLearner:
    """The learner with a line's payoffs, where `line.told` says that they count."""
    visits, values, lost = (
        table[line.state] for table in (learner.visits, learner.values, learner.lost)
    )
    taken = jax.nn.one_hot(line.action, visits.shape[1], dtype=bool) & line.told[:, None]
    visits = visits + taken.astype(jnp.int32)
    payoff = line.payoffs[jnp.maximum(line.actor, 0)].astype(values.dtype)[:, None]
    share = jnp.where(taken, 1 / jnp.maximum(visits, 1).astype(values.dtype), 0)
    change = share * (payoff - values) + lost
    after = values + change
    return UctLearner(
        step=learner.step + 1,
        visits=episodes.put_rows(learner.visits, line.state, visits),
        values=episodes.put_rows(learner.values, line.state, after),
        lost=episodes.put_rows(learner.lost, line.state, change - (after - values)),
    )


def _weights(visits, values, uniform, luck, settings):
    """What an action is drawn by in a state of the tree."""
    count = visits.astype(values.dtype)
    total = sum_actions(count)
    ucb = upper_bounds(visits, values, uniform > 0, exploration=settings.exploration)
    share = settings.start / (1 + settings.decay * jnp.sqrt(total))
    return jnp.where(luck < jnp.maximum(settings.least, share), ucb, count)


def upper_bounds(
    visits: Int[Array, " A"],
    values: Float[Array, " A"],
    legal: Bool[Array, " A"],
    *,
    exploration: float,
) -> Float[Array, " A"]:
    """1 at the legal actions of the highest upper confidence bound, untried ones first; else 0."""
    count = visits.astype(values.dtype)
    log_total = jnp.log(jnp.maximum(sum_actions(count), 1))
    bound = values + exploration * jnp.sqrt(log_total / jnp.maximum(count, 1))
    bound = jnp.where(legal, jnp.where(visits > 0, bound, jnp.inf), -jnp.inf)
    return (legal & (bound == max_actions(bound))).astype(values.dtype)
