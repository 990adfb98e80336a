"""Outcome-sampling MCCFR (Lanctot, Waugh, Zinkevich, Bowling 2009, section 3.1).

Every episode samples one action at each decision, from a mixture of the current policy and the
uniform one, and updates the information states on its way. The values of actions that were not
sampled are estimated by a baseline if there is one (Schmid et al. 2019, "Variance reduction in
Monte Carlo counterfactual regret minimization (VR-MCCFR)"), and by 0 otherwise.

A learner is one set of tables; many learn side by side under `jax.vmap`.

Example:

    >>> import jax
    >>> import jaxgames
    >>> from solvers.sampling import outcome_sampling
    >>> from solvers.sampling.decision_tree import build_decision_tree
    >>> tree = build_decision_tree(jaxgames.make("kuhn_poker"))
    >>> settings = outcome_sampling.OutcomeSampling()
    >>> learner = outcome_sampling.init(tree, settings)
    >>> learner = outcome_sampling.run(
    ...     tree, learner, jax.random.key(0), settings=settings, num_episodes=1000
    ... )
    >>> policy = outcome_sampling.average_policy(tree, learner)
    >>> [rows.shape for rows in policy]
    [(6, 2), (6, 2)]
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from jaxgames.arrays import select_entry, sum_actions
from jaxgames.core import TERMINAL, record
from jaxgames.registry import unknown
from solvers.regret import RegretState, match
from solvers.sampling import episodes
from solvers.sampling.decision_tree import DecisionTree, proportional_policy
from solvers.sampling.episodes import Trajectory
from solvers.sampling.mccfr_settings import Mccfr
from solvers.sequence_form import Policy

AVERAGINGS = "weighted", "optimistic"


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutcomeSampling(Mccfr):
    """Settings of outcome sampling. Static under `jit`."""

    exploration: float = 0.6  # epsilon: the share of the uniform policy in what is sampled
    alternating: bool = False  # whether only one player, in turn, learns and explores
    baseline_rate: float | None = None  # step size of learned baselines; None: no baselines
    averaging: str = "weighted"
    """How policies of sampled states enter the average: by their player's own reach, divided by the
    probability of sampling the state ("weighted": unbiased); or times the number of episodes since
    the state was last averaged ("optimistic", as if its policy had stood for them all; Lanctot et
    al. 2009)."""

    def __post_init__(self):
        super().__post_init__()
        if not 0 < self.exploration <= 1:
            raise ValueError(f"exploration={self.exploration} must be above 0 and at most 1")
        if self.baseline_rate is not None and not 0 < self.baseline_rate <= 1:
            raise ValueError(f"baseline_rate={self.baseline_rate} must be above 0 and at most 1")
        if self.averaging not in AVERAGINGS:
            raise ValueError(unknown("averaging", self.averaging, AVERAGINGS))


@record
class OutcomeSamplingLearner:
    """What is learned; row N of the tables belongs to no information state."""

    step: Array  # [] int32 episodes done
    regret: Array  # [N + 1, A]
    average: Array  # [N + 1, A] weighted sums of policies
    lost: Array  # [N + 1, A] rounding errors of these sums, to be added later (Kahan 1965)
    baseline: Array | None  # [N + 1, A, P] estimated value of each action to each player
    averaged: Array | None  # [N + 1] int32 episode of the last update, if optimistic


def init(tree: DecisionTree, settings: OutcomeSampling) -> OutcomeSamplingLearner:
    """Returns a learner before its first episode."""
    baseline = jnp.zeros((*tree.uniform.shape, tree.num_players), tree.uniform.dtype)
    return OutcomeSamplingLearner(
        step=jnp.int32(0),
        regret=jnp.zeros_like(tree.uniform),
        average=jnp.zeros_like(tree.uniform),
        lost=jnp.zeros_like(tree.uniform),
        baseline=None if settings.baseline_rate is None else baseline,
        averaged=jnp.zeros(tree.num_states + 1, jnp.int32)
        if settings.averaging == "optimistic"
        else None,
    )


def average_policy(tree: DecisionTree, learner: OutcomeSamplingLearner) -> Policy:
    """Returns the average policies by player `[D_p, A]`, uniform where nothing was sampled."""
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
    """Runs episodes in one compiled loop.

    Args:
      tree: the compiled game.
      learner: the learner so far.
      key: the key of the whole run: a run that continues with the same key gives the same result as
        one without interruption.
      settings: how to learn.
      num_episodes: how many episodes to add.

    Returns:
      The learner after these episodes.
    """
    next_episode = functools.partial(episode, tree, settings=settings)
    return episodes.repeat_episodes(next_episode, learner, key, num_episodes)


def episode(
    tree: DecisionTree,
    learner: OutcomeSamplingLearner,
    key: Key[Array, ""],
    *,
    settings: OutcomeSampling,
) -> OutcomeSamplingLearner:
    """Plays one episode and updates the tables.

    Args:
      tree: the compiled game.
      learner: the learner so far.
      key: consumed.
      settings: how to learn.

    Returns:
      The learner after the episode.
    """
    trajectory = play_trajectory(tree, learner, key, settings=settings)
    chances = trajectory_probabilities(tree, learner, trajectory, settings=settings)
    instant, baseline = instant_regrets(tree, learner, trajectory, chances, settings=settings)
    step = (learner.step + 1).astype(instant.dtype)
    acts = trajectory.actor != TERMINAL  # the rest is padding
    explores = _explores(tree, learner, settings, trajectory.actor)
    learns, averages = (explores, ~explores) if settings.alternating else (acts, acts)
    # Regrets: add the sampled counterfactual regrets of this episode.
    regret, uniform = learner.regret[trajectory.state].T, tree.uniform[trajectory.state].T
    before = RegretState(regret=regret, policy=uniform)
    instant = jnp.where((learns & acts)[:, None], instant, 0).T
    after = settings.minimizer.update(before, instant, before.policy, step)
    # Average: add the policy, weighted by its player's own reach.
    averages, averaged = averages & acts, learner.averaged
    if averaged is None:
        weight = chances.own / chances.sampling_reach
    else:
        last = averaged[trajectory.state]
        weight = chances.own * (learner.step + 1 - last).astype(instant.dtype)
        now = jnp.where(averages, learner.step + 1, last)
        averaged = episodes.put_rows(averaged, trajectory.state, now)
    weight = jnp.where(averages, weight * step**settings.averaging_power, 0)
    total, lost = learner.average[trajectory.state], learner.lost[trajectory.state]
    change = weight[:, None] * trajectory.recorded + lost
    average = total + change
    return OutcomeSamplingLearner(
        step=learner.step + 1,
        regret=episodes.put_rows(learner.regret, trajectory.state, after.regret.T),
        average=episodes.put_rows(learner.average, trajectory.state, average),
        lost=episodes.put_rows(learner.lost, trajectory.state, change - (average - total)),
        baseline=baseline,
        averaged=averaged,
    )


def play_trajectory(
    tree: DecisionTree,
    learner: OutcomeSamplingLearner,
    key: Key[Array, ""],
    *,
    settings: OutcomeSampling,
) -> Trajectory:
    """Plays one episode by the sampling policy, and records the current policies `[T, A]`. `key` is
    consumed.
    """

    def choose(carry, node, noise):
        uniform = node.uniform
        policy = match(learner.regret[node.state], uniform)
        share = _exploration(tree, learner, settings, node.actor)
        return carry, episodes.pick_action(share * uniform + (1 - share) * policy, noise[0]), policy

    return episodes.play(tree, key, choose, None)


@record
class TrajectoryProbabilities:
    """Probabilities along an episode of T decisions; 1 after the last one. pi is the product of the
    current policies along the way, q that of the sampling policies; chance is in neither.
    """

    action: Array  # [T] sigma(a): of the action in the current policy
    sampled: Array  # [T] of the action in the sampling policy
    own: Array  # [T] pi_i(h): the actor's own reach before the decision
    others: Array  # [T] pi_-i(h): the reach of the other players
    sampling_reach: Array  # [T] q(h): the probability that the decision was sampled


def trajectory_probabilities(
    tree: DecisionTree,
    learner: OutcomeSamplingLearner,
    trajectory: Trajectory,
    *,
    settings: OutcomeSampling,
) -> TrajectoryProbabilities:
    """Computes the probabilities along an episode, decision by decision."""
    acts = trajectory.actor != TERMINAL
    share = _exploration(tree, learner, settings, trajectory.actor)
    action = select_entry(trajectory.recorded.T, trajectory.action)
    uniform = select_entry(tree.uniform[trajectory.state].T, trajectory.action)
    sampled = share * uniform + (1 - share) * action
    action, sampled = jnp.where(acts, action, 1), jnp.where(acts, sampled, 1)
    own = others = jnp.ones_like(action)
    for player in range(tree.num_players):
        mine = trajectory.actor == player
        reach = _products_before(jnp.where(mine, action, 1))
        own, others = jnp.where(mine, reach, own), jnp.where(mine, others, others * reach)
    return TrajectoryProbabilities(
        action=action,
        sampled=sampled,
        own=own,
        others=others,
        sampling_reach=_products_before(sampled),
    )


def instant_regrets(
    tree: DecisionTree,
    learner: OutcomeSamplingLearner,
    trajectory: Trajectory,
    chances: TrajectoryProbabilities,
    *,
    settings: OutcomeSampling,
) -> tuple[Float[Array, "T A"], Float[Array, "N A P"] | None]:
    """Estimates the counterfactual regrets of the actors along an episode.

    The expectation over episodes is the exact counterfactual regret, with the reach of chance and
    of the other players.

    Args:
      tree: the compiled game.
      learner: the learner so far, for the baselines.
      trajectory: the episode.
      chances: its probabilities.
      settings: how to learn.

    Returns:
      The regrets of all actions at each decision, 0 for illegal ones; and the new baselines
      `[N + 1, A, P]`, None without baselines.
    """
    payoffs = trajectory.payoffs.astype(tree.uniform.dtype)
    legal = tree.uniform[trajectory.state] > 0
    taken = jax.nn.one_hot(trajectory.action, tree.num_actions, dtype=bool)
    actor = jnp.maximum(trajectory.actor, 0)
    if settings.baseline_rate is None:
        # r(I, a) = w (1[a taken] - sigma(a)), w = u_i(z) pi_-i(h) pi(ha, z) / q(z): here without
        # pi_-i(h) / q(h), which is multiplied below.
        later = _products_before((chances.action / chances.sampled)[::-1])[::-1]
        onto = later * select_entry(payoffs, actor) / chances.sampled
        mine = jnp.where(taken, onto[:, None], 0) - (chances.action * onto)[:, None]
        baseline = None
    else:
        # VR-MCCFR: the value of an action is its baseline, corrected if the action was sampled.
        known, value, steps = learner.baseline[trajectory.state], payoffs, []  # [T, A, P], [P]
        for step in reversed(range(len(actor))):
            corrected = (value[None] - known[step]) / chances.sampled[step]
            values = known[step] + jnp.where(taken[step][:, None], corrected, 0)
            here = sum_actions(trajectory.recorded[step][:, None] * values)
            steps.append((values - here[None], value))
            value = jnp.where(trajectory.actor[step] == TERMINAL, value, here)
        mine, after = (jnp.stack(x) for x in zip(*steps[::-1], strict=True))  # [T, A, P], [T, P]
        mine = select_entry(jnp.moveaxis(mine, 2, 0), actor[:, None])
        change = jnp.where(taken[..., None], after[:, None] - known, 0)
        moved = known + settings.baseline_rate * change
        baseline = episodes.put_rows(learner.baseline, trajectory.state, moved)
    instant = (chances.others / chances.sampling_reach)[:, None] * mine
    return jnp.where(legal, instant, 0), baseline


def _products_before(factors):
    """Products of all earlier factors `[T]`, 1 for the first."""
    products = [jnp.ones_like(factors[0])]
    for factor in factors[:-1]:
        products.append(products[-1] * factor)
    return jnp.stack(products)


def _exploration(tree, learner, settings, actor):
    """The share of the uniform policy in what is sampled for an actor."""
    explores = _explores(tree, learner, settings, actor)
    return jnp.where(explores, jnp.float32(settings.exploration), 0)


def _explores(tree, learner, settings, actor):
    """Whether an actor explores in this episode (with alternating updates, only one does)."""
    if not settings.alternating:
        return jnp.ones(actor.shape, bool)
    return actor == learner.step % tree.num_players
