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
from solvers.public_tree import Policy
from solvers.regret import RegretMatching, RegretMatchingPlus, RegretState, match
from solvers.sampling import episodes
from solvers.sampling.decision_tree import DecisionTree, policies
from solvers.sampling.episodes import Line
from solvers.sweeps import sum_actions


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutcomeSampling:
    """How to learn. Static under `jit`."""

    exploration: float = 0.6  # share of uniform in what is sampled [epsilon]
    alternating: bool = False  # one player in turn learns and explores; or all at once
    minimizer: RegretMatching | RegretMatchingPlus = dataclasses.field(
        default_factory=RegretMatching
    )
    averaging_power: float = 0.0  # episode t counts t**power in the average
    baseline_rate: float | None = None  # of the running averages that are baselines; None: 0

    def __post_init__(self):
        if not 0 < self.exploration <= 1:
            raise ValueError(f"exploration={self.exploration} must be over 0 and at most 1")
        if not self.averaging_power >= 0:
            raise ValueError(f"averaging_power={self.averaging_power} must be at least 0")
        if self.baseline_rate is not None and not 0 < self.baseline_rate <= 1:
            raise ValueError(f"baseline_rate={self.baseline_rate} must be over 0 and at most 1")


@record
class Learner:
    """What is learned; row N of the tables is nobody's."""

    episodes: Array  # [] int32 done
    regret: Array  # [N + 1, A]
    average: Array  # [N + 1, A] weighted sums of policies
    baseline: Array | None  # [N + 1, A, P] of what actions are worth


@record
class _Told:
    """Of one decision."""

    policy: Array  # [A]
    probability: Array  # [] of the action in the policy
    sampled: Array  # [] and in what was sampled
    own: Array  # [] reach: what the actor's earlier probabilities come to
    others: Array  # [] and all others'
    line: Array  # [] and all earlier ones as sampled


def init(tree: DecisionTree, settings: OutcomeSampling) -> Learner:
    """A learner before its first episode."""
    baseline = jnp.zeros((*tree.uniform.shape, tree.num_players), tree.uniform.dtype)
    return Learner(
        episodes=jnp.int32(0),
        regret=jnp.zeros_like(tree.uniform),
        average=jnp.zeros_like(tree.uniform),
        baseline=None if settings.baseline_rate is None else baseline,
    )


def average_policy(tree: DecisionTree, learner: Learner) -> Policy:
    """Average policies by player `[D_p, A]`; uniform where there is nothing to average."""
    return policies(tree, match(learner.average.T, tree.uniform.T).T)


@functools.partial(jax.jit, static_argnames="settings")
def run(
    tree: DecisionTree,
    learner: Learner,
    key: Key[Array, ""],
    *,
    settings: OutcomeSampling,
    num_episodes: int | Int[Array, ""],
) -> Learner:
    """The learner after so many more episodes, in one compiled loop; `key` is the whole run's."""

    def one(_, learner):
        luck = jax.random.fold_in(key, learner.episodes)
        return episode(tree, learner, luck, settings=settings)

    return jax.lax.fori_loop(0, num_episodes, one, learner)


def episode(
    tree: DecisionTree, learner: Learner, key: Key[Array, ""], *, settings: OutcomeSampling
) -> Learner:
    """The learner after one more episode; `key` is consumed."""
    line = played(tree, learner, key, settings=settings)
    instant, baseline = instant_regrets(tree, learner, line, settings=settings)
    step = (learner.episodes + 1).astype(instant.dtype)
    there = line.actor != TERMINAL
    explores = _explores(tree, learner, settings, line.actor)
    learns, averages = (explores, ~explores) if settings.alternating else (there, there)
    before = RegretState(regret=learner.regret[line.state].T, policy=tree.uniform[line.state].T)
    instant = jnp.where(learns & there, instant.T, 0)
    after = settings.minimizer.update(before, instant, before.policy, step)
    weight = line.told.own / line.told.line * step**settings.averaging_power
    weight = jnp.where(averages & there, weight, 0)
    average = learner.average[line.state] + weight[:, None] * line.told.policy
    return Learner(
        episodes=learner.episodes + 1,
        regret=_put(learner.regret, line.state, after.regret.T),
        average=_put(learner.average, line.state, average),
        baseline=baseline,
    )


def played(
    tree: DecisionTree, learner: Learner, key: Key[Array, ""], *, settings: OutcomeSampling
) -> Line:
    """One line of play, and at every decision what was known of it. `key` is consumed."""

    def choose(carry, actor, state, luck):
        reach, line = carry  # [P], []
        uniform = tree.uniform[state]
        policy = match(learner.regret[state], uniform)
        share = jnp.where(_explores(tree, learner, settings, actor), settings.exploration, 0)
        mixed = share * uniform + (1 - share) * policy
        action = episodes.pick(mixed, luck[0])
        there = actor != TERMINAL
        probability = jnp.where(there, policy[action], 1)
        sampled = jnp.where(there, mixed[action], 1)
        acts = jnp.arange(tree.num_players, dtype=jnp.int32) == actor
        told = _Told(
            policy=policy,
            probability=probability,
            sampled=sampled,
            own=jnp.prod(jnp.where(acts, reach, 1)),
            others=jnp.prod(jnp.where(acts, 1, reach)),
            line=line,
        )
        return (jnp.where(acts, reach * probability, reach), line * sampled), action, told

    carry = jnp.ones(tree.num_players, tree.uniform.dtype), jnp.ones((), tree.uniform.dtype)
    return episodes.play(tree, key, choose, carry)


def instant_regrets(
    tree: DecisionTree, learner: Learner, line: Line, *, settings: OutcomeSampling
) -> tuple[Float[Array, "T A"], Float[Array, "N A P"] | None]:
    """Sampled counterfactual regrets of the actors along a line, and the baselines after it.

    Their expectation is the exact one's, chance's and the others' reach included.
    """
    actions = jnp.arange(tree.num_actions, dtype=jnp.int32)
    with_baseline = settings.baseline_rate is not None
    known = learner.baseline[line.state] if with_baseline else None  # [T, A, P]

    def back(value, step):
        actor, action, told, known = step
        taken = (actions == action)[:, None]
        if with_baseline:
            values = known + jnp.where(taken, value[None] - known, 0) / told.sampled
            here = sum_actions(told.policy[:, None] * values)
        else:
            onto = value / told.sampled
            values, here = jnp.where(taken, onto[None], 0), told.probability * onto
        who = jnp.maximum(actor, 0)
        instant = told.others / told.line * (values[:, who] - here[who])
        return jnp.where(actor == TERMINAL, value, here), (instant, value)

    steps = line.actor, line.action, line.told, known
    payoffs = line.payoffs.astype(tree.uniform.dtype)
    _, (instant, values) = jax.lax.scan(back, payoffs, steps, reverse=True, unroll=True)
    instant = jnp.where(tree.uniform[line.state] > 0, instant, 0)
    if not with_baseline:
        return instant, None
    taken = jax.nn.one_hot(line.action, tree.num_actions, dtype=bool)[..., None]
    moved = known + settings.baseline_rate * jnp.where(taken, values[:, None] - known, 0)
    return instant, _put(learner.baseline, line.state, moved)


def _explores(tree, learner, settings, actor):
    if not settings.alternating:
        return jnp.ones(actor.shape, bool)
    return actor == learner.episodes % tree.num_players


def _put(table, rows, new):
    """The table with rows replaced: different ones, but for row N, whose content is of no use."""
    return table.at[rows].set(new, unique_indices=True, mode="promise_in_bounds")
