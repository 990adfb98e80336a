"""External-sampling MCCFR (Lanctot, Waugh, Zinkevich, Bowling 2009).

    tree, settings = build_decision_tree(make("leduc_poker")), ExternalSampling()
    learner = run(tree, init(tree), key, settings=settings, num_iterations=100_000)
    policy = average_policy(tree, learner)

A traversal follows all actions of one player and one of chance and of the others, everywhere anew.
The decisions that it meets after equally many others go side by side (`widths`: how many there
can be). An iteration is a traversal for every player, one after the other. The average is the
simple one: a player's policies where the player before it traverses. A learner is one set of
tables; many learn side by side under `jax.vmap`.
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
from solvers.sampling.decision_tree import DecisionTree, after, at, proportional, start
from solvers.sweeps import sum_actions


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExternalSampling:
    """How to learn. Static under `jit`."""

    minimizer: RegretMatching | RegretMatchingPlus = dataclasses.field(
        default_factory=RegretMatching
    )
    averaging_power: float = 0.0  # iteration t counts t**power in the average

    def __post_init__(self):
        if not self.averaging_power >= 0:
            raise ValueError(f"averaging_power={self.averaging_power} must be at least 0")


@record
class Learner:
    """What is learned; row N of the tables is nobody's."""

    step: Array  # [] int32 iterations done
    regret: Array  # [N + 1, A]
    average: Array  # [N + 1, A] weighted sums of policies


@record
class Traversal:
    """The decisions that a traversal meets, W side by side after 0, 1, ... T - 1 others; some are
    nobody's."""

    actor: Array  # [T, W] int32
    state: Array  # [T, W] int32
    policy: Array  # [T, W, A]
    taken: Array  # [T, W, A] bool: all legal actions of the traverser, one of the others
    payoff: Array  # [T, W, A] of the traverser where the game ends, 0 elsewhere
    below: Array  # [T, W, A] int32 which of the next W decisions follows; W: none


def init(tree: DecisionTree) -> Learner:
    """A learner before its first iteration."""
    table = jnp.zeros_like(tree.uniform)
    return Learner(step=jnp.int32(0), regret=table, average=table)


def average_policy(tree: DecisionTree, learner: Learner) -> Policy:
    """Average policies by player `[D_p, A]`; uniform where there is nothing to average."""
    return proportional(tree, learner.average)


@functools.partial(jax.jit, static_argnames="settings")
def run(
    tree: DecisionTree,
    learner: Learner,
    key: Key[Array, ""],
    *,
    settings: ExternalSampling,
    num_iterations: int | Int[Array, ""],
) -> Learner:
    """The learner after so many more iterations, in one compiled loop; `key` is the whole run's."""
    one = functools.partial(iteration, tree, settings=settings)
    return episodes.repeated(one, learner, key, num_iterations)


def iteration(
    tree: DecisionTree, learner: Learner, key: Key[Array, ""], *, settings: ExternalSampling
) -> Learner:
    """The learner after a traversal for every player; `key` is consumed."""
    keys = jax.random.split(key, tree.num_players)
    step = (learner.step + 1).astype(learner.regret.dtype)
    for player in range(tree.num_players):
        found = traverse(tree, learner, keys[player], player=player)
        instant = instant_regrets(found, player=player)
        found, instant = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (found, instant))
        before = RegretState(
            regret=learner.regret[found.state].T, policy=tree.uniform[found.state].T
        )
        after = settings.minimizer.update(before, instant.T, before.policy, step)
        mine, next_one = found.actor == player, found.actor == (player + 1) % tree.num_players
        row = jnp.where(mine, found.state, tree.num_states)
        weight = jnp.where(next_one, step**settings.averaging_power, 0)
        # a state may be met more than once, by actions that its player does not see
        average = learner.average.at[found.state].add(
            weight[:, None] * found.policy, mode="promise_in_bounds"
        )
        regret = learner.regret.at[row].set(after.regret.T, mode="promise_in_bounds")
        learner = learner.replace(regret=regret, average=average)
    return learner.replace(step=learner.step + 1)


def traverse(
    tree: DecisionTree, learner: Learner, key: Key[Array, ""], *, player: int
) -> Traversal:
    """One traversal for `player`. `key` is consumed."""
    width, actions = tree.widths[player], tree.num_actions
    luck = episodes.numbers(key, (tree.longest, width, actions + 1))
    begin_key = jax.random.fold_in(key, 1)
    number = jnp.arange(actions, dtype=jnp.int32)
    first = start(tree, episodes.numbers(begin_key, (1,))[0])
    places = jnp.full(width, tree.nowhere).at[0].set(first)

    def one(place, luck):
        """What follows a decision, as far as the traversal goes: places `[A]`."""
        node = at(tree, place)
        legal, mine = node.count > 0, node.actor == player
        policy = match(learner.regret[node.state], node.uniform)
        sampled = episodes.pick(policy, luck[-1])
        taken = legal & (mine | (number == sampled))
        to = jax.vmap(functools.partial(after, tree, node))(number, luck[:-1])
        return node, policy, taken, jnp.where(taken, to, tree.nowhere)

    def step(places, luck):
        node, policy, taken, to = jax.vmap(one)(places, luck)
        go_on = tree.table[to, 0] != TERMINAL
        below = jnp.cumsum(go_on.reshape(-1), dtype=jnp.int32).reshape(go_on.shape) - 1
        below = jnp.where(go_on, below, width)
        payoff = jnp.where(taken, tree.payoffs[to, player], 0)
        told = Traversal(
            actor=node.actor,
            state=node.state,
            policy=policy,
            taken=taken,
            payoff=payoff,
            below=below,
        )
        return jnp.full(width, tree.nowhere).at[below].set(to, mode="drop"), told

    return jax.lax.scan(step, places, luck)[1]


def instant_regrets(found: Traversal, *, player: int) -> Float[Array, "T W A"]:
    """Sampled counterfactual regrets of the traverser at all decisions, 0 at the others'.

    Their expectation is the exact one's, chance's and the others' reach included.
    """

    def back(below, level):
        values = level.payoff + jnp.append(below, 0)[level.below]
        mine = (level.actor == player)[:, None]
        weights = jnp.where(mine, level.policy, level.taken.astype(values.dtype))
        here = sum_actions((weights * values).T)
        return here, jnp.where(mine & level.taken, values - here[:, None], 0)

    nothing = jnp.zeros(found.actor.shape[1], found.payoff.dtype)
    return jax.lax.scan(back, nothing, found, reverse=True)[1]
