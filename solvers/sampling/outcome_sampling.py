"""Outcome-sampling MCCFR (Lanctot, Waugh, Zinkevich, Bowling 2009): one line of play per episode.

    tree, settings = build_decision_tree(make("leduc_poker")), OutcomeSampling()
    learner = run(tree, init(tree, settings), key, settings=settings, episodes=1_000_000)
    policy = average_policy(tree, learner)

A learner is one set of tables; many learn side by side under `jax.vmap`. Actions that were not
taken are worth their baseline, if there is one (Schmid et al. 2019, "Variance reduction in Monte
Carlo counterfactual regret minimization (VR-MCCFR)"), else 0.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from jaxgames.core import TERMINAL, record
from solvers.regret import RegretState, match
from solvers.sampling import episodes
from solvers.sampling.decision_tree import DecisionTree, proportional_policy, select_entry
from solvers.sampling.episodes import Trajectory
from solvers.sampling.mccfr import Mccfr
from solvers.sequence_form import Policy
from solvers.sequence_form.sweeps import sum_actions


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutcomeSampling(Mccfr):
    """How to learn. Static under `jit`."""

    exploration: float = 0.6  # share of uniform in what is sampled [epsilon]
    alternating: bool = False  # one player in turn learns and explores; or all at once
    baseline_rate: float | None = None  # of the running averages that are baselines; None: 0

    def __post_init__(self):
        super().__post_init__()
        if not 0 < self.exploration <= 1:
            raise ValueError(f"exploration={self.exploration} must be over 0 and at most 1")
        if self.baseline_rate is not None and not 0 < self.baseline_rate <= 1:
            raise ValueError(f"baseline_rate={self.baseline_rate} must be over 0 and at most 1")


@record
class OutcomeSamplingLearner:
    """What is learned; row N of the tables is nobody's."""

    step: Array  # [] int32 episodes done
    regret: Array  # [N + 1, A]
    average: Array  # [N + 1, A] weighted sums of policies
    lost: Array  # [N + 1, A] what rounding took from them (Kahan 1965): late terms are small
    baseline: Array | None  # [N + 1, A, P] of what actions are worth


def init(tree: DecisionTree, settings: OutcomeSampling) -> OutcomeSamplingLearner:
    """A learner before its first episode."""
    baseline = jnp.zeros((*tree.uniform.shape, tree.num_players), tree.uniform.dtype)
    return OutcomeSamplingLearner(
        step=jnp.int32(0),
        regret=jnp.zeros_like(tree.uniform),
        average=jnp.zeros_like(tree.uniform),
        lost=jnp.zeros_like(tree.uniform),
        baseline=None if settings.baseline_rate is None else baseline,
    )


def average_policy(tree: DecisionTree, learner: OutcomeSamplingLearner) -> Policy:
    """Average policies by player `[D_p, A]`; uniform where there is nothing to average."""
    return proportional_policy(tree, learner.average)


@functools.partial(jax.jit, static_argnames="settings")
def run(
    tree: DecisionTree,
    learner: OutcomeSamplingLearner,
    key: Key[Array, ""],
    *,
    settings: OutcomeSampling,
    num_episodes: int | Int[Array, ""],
) -> OutcomeSamplingLearner:
    """The learner after so many more episodes, in one compiled loop; `key` is the whole run's."""
    one = functools.partial(episode, tree, settings=settings)
    return episodes.repeat_episodes(one, learner, key, num_episodes)


def episode(
    tree: DecisionTree,
    learner: OutcomeSamplingLearner,
    key: Key[Array, ""],
    *,
    settings: OutcomeSampling,
) -> OutcomeSamplingLearner:
    """The learner after one more episode; `key` is consumed."""
    line = play_trajectory(tree, learner, key, settings=settings)
    chances = trajectory_probabilities(tree, learner, line, settings=settings)
    instant, baseline = instant_regrets(tree, learner, line, chances, settings=settings)
    step = (learner.step + 1).astype(instant.dtype)
    there = line.actor != TERMINAL
    explores = _explores(tree, learner, settings, line.actor)
    learns, averages = (explores, ~explores) if settings.alternating else (there, there)
    before = RegretState(regret=learner.regret[line.state].T, policy=tree.uniform[line.state].T)
    instant = jnp.where((learns & there)[:, None], instant, 0).T
    after = settings.minimizer.update(before, instant, before.policy, step)
    weight = chances.own / chances.line * step**settings.averaging_power
    weight = jnp.where(averages & there, weight, 0)
    total, lost = learner.average[line.state], learner.lost[line.state]
    change = weight[:, None] * line.told + lost
    average = total + change
    return OutcomeSamplingLearner(
        step=learner.step + 1,
        regret=episodes.put_rows(learner.regret, line.state, after.regret.T),
        average=episodes.put_rows(learner.average, line.state, average),
        lost=episodes.put_rows(learner.lost, line.state, change - (average - total)),
        baseline=baseline,
    )


def play_trajectory(
    tree: DecisionTree,
    learner: OutcomeSamplingLearner,
    key: Key[Array, ""],
    *,
    settings: OutcomeSampling,
) -> Trajectory:
    """One line of play, which tells the actors' policies `[T, A]`. `key` is consumed."""

    def choose(carry, node, luck):
        uniform = node.uniform
        policy = match(learner.regret[node.state], uniform)
        share = _share(tree, learner, settings, node.actor)
        return carry, episodes.pick_action(share * uniform + (1 - share) * policy, luck[0]), policy

    return episodes.play(tree, key, choose, None)


@record
class TrajectoryProbabilities:
    """Of T decisions: 1 where nobody acts."""

    action: Array  # [T] probability of the action in the policy
    sampled: Array  # [T] and in what was sampled
    own: Array  # [T] reach: what the actor's earlier probabilities come to
    others: Array  # [T] and all others'
    line: Array  # [T] and all earlier ones as sampled


def trajectory_probabilities(
    tree: DecisionTree,
    learner: OutcomeSamplingLearner,
    line: Trajectory,
    *,
    settings: OutcomeSampling,
) -> TrajectoryProbabilities:
    """How likely the decisions of a line were, one by one and all before them."""
    there = line.actor != TERMINAL
    share = _share(tree, learner, settings, line.actor)
    action = select_entry(line.told.T, line.action)
    sampled = share * select_entry(tree.uniform[line.state].T, line.action) + (1 - share) * action
    action, sampled = jnp.where(there, action, 1), jnp.where(there, sampled, 1)
    own = others = jnp.ones_like(action)
    for player in range(tree.num_players):
        acts = line.actor == player
        reach = _before(jnp.where(acts, action, 1))
        own, others = jnp.where(acts, reach, own), jnp.where(acts, others, others * reach)
    return TrajectoryProbabilities(
        action=action, sampled=sampled, own=own, others=others, line=_before(sampled)
    )


def instant_regrets(
    tree: DecisionTree,
    learner: OutcomeSamplingLearner,
    line: Trajectory,
    chances: TrajectoryProbabilities,
    *,
    settings: OutcomeSampling,
) -> tuple[Float[Array, "T A"], Float[Array, "N A P"] | None]:
    """Sampled counterfactual regrets of the actors along a line, and the baselines after it.

    Their expectation is the exact one's, chance's and the others' reach included.
    """
    payoffs, legal = line.payoffs.astype(tree.uniform.dtype), tree.uniform[line.state] > 0
    taken = jax.nn.one_hot(line.action, tree.num_actions, dtype=bool)
    actor = jnp.maximum(line.actor, 0)
    if settings.baseline_rate is None:
        later = _before((chances.action / chances.sampled)[::-1])[::-1]
        onto = later * select_entry(payoffs, actor) / chances.sampled
        mine = jnp.where(taken, onto[:, None], 0) - (chances.action * onto)[:, None]
        baseline = None
    else:
        known, value, found = learner.baseline[line.state], payoffs, []  # [T, A, P], [P]
        for step in reversed(range(len(actor))):
            corrected = (value[None] - known[step]) / chances.sampled[step]
            values = known[step] + jnp.where(taken[step][:, None], corrected, 0)
            here = sum_actions(line.told[step][:, None] * values)
            found.append((values - here[None], value))
            value = jnp.where(line.actor[step] == TERMINAL, value, here)
        mine, after = (jnp.stack(x) for x in zip(*found[::-1], strict=True))  # [T, A, P], [T, P]
        mine = select_entry(jnp.moveaxis(mine, 2, 0), actor[:, None])
        change = jnp.where(taken[..., None], after[:, None] - known, 0)
        moved = known + settings.baseline_rate * change
        baseline = episodes.put_rows(learner.baseline, line.state, moved)
    instant = (chances.others / chances.line)[:, None] * mine
    return jnp.where(legal, instant, 0), baseline


def _before(factors):
    """Products of all earlier factors `[T]`."""
    products = [jnp.ones_like(factors[0])]
    for factor in factors[:-1]:
        products.append(products[-1] * factor)
    return jnp.stack(products)


def _share(tree, learner, settings, actor):
    """Of uniform in what is sampled for an actor."""
    explores = _explores(tree, learner, settings, actor)
    return jnp.where(explores, jnp.float32(settings.exploration), 0)


def _explores(tree, learner, settings, actor):
    if not settings.alternating:
        return jnp.ones(actor.shape, bool)
    return actor == learner.step % tree.num_players
