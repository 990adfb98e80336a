"""External-sampling MCCFR (Lanctot, Waugh, Zinkevich, Bowling 2009).

    tree, settings = build_decision_tree(make("leduc_poker")), ExternalSampling()
    learner = run(tree, init(tree), key, settings=settings, num_iterations=100_000)
    policy = average_policy(tree, learner)

A traversal follows all actions of one player and one of chance and of the others, everywhere anew.
The decisions that it meets after equally many others go side by side, as many as there can be
(`DecisionTree.widths`). An iteration is a traversal for every player, one after the other. The
average is the simple one: a player's policies where the player before it traverses. A learner is
one set of tables; many learn side by side under `jax.vmap`.
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
from solvers.sampling.decision_tree import DecisionTree, proportional
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
class Level:
    """The W decisions that a traversal meets after equally many others; some are nobody's."""

    actor: Array  # [W] int32
    state: Array  # [W] int32
    policy: Array  # [W, A]
    taken: Array  # [W, A] bool: all legal actions of the traverser, one of the others
    payoff: Array  # [W, A] of the traverser where the game ends, 0 elsewhere
    below: Array  # [W, A] int32 which decision of the next level follows; beyond the last: none


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
        levels = traverse(tree, learner, keys[player], player=player)
        instant = jnp.concatenate(instant_regrets(levels, player=player))
        found = jax.tree.map(lambda *each: jnp.concatenate(each), *levels)
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
) -> tuple[Level, ...]:
    """One traversal for `player`, from its first decision down. `key` is consumed."""
    actions, widths = tree.num_actions, tree.widths[player]
    luck = episodes.numbers(key, (sum(widths) * (actions + 1) + 1,))
    number = jnp.arange(actions, dtype=jnp.int32)

    def one(place, luck):
        """What follows a decision, as far as the traversal goes: places `[A]`."""
        node = tree.at(place)
        # else XLA looks both up again for everything that is made of them
        node, regret = jax.lax.optimization_barrier((node, learner.regret[node.state]))
        legal, mine = node.count > 0, node.actor == player
        policy = match(regret, node.uniform)
        sampled = episodes.pick(policy, luck[-1])
        taken = legal & (mine | (number == sampled))
        to = jnp.where(taken, tree.after_each(node, luck[:-1]), tree.nowhere)
        return node, policy, taken, to

    places, levels = tree.start(luck[-1:])[None], []
    for depth, width in enumerate(widths):
        here = luck[: width * (actions + 1)].reshape(width, actions + 1)
        luck = luck[width * (actions + 1) :]
        node, policy, taken, to = jax.vmap(one)(places, here)
        go_on = tree.table[to, 0] != TERMINAL
        following = widths[depth + 1] if depth + 1 < len(widths) else 0
        below = jax.lax.associative_scan(jnp.add, go_on.reshape(-1).astype(jnp.int32))
        below = below.reshape(go_on.shape) - 1
        below = jnp.where(go_on, below, following)
        payoff = jnp.where(taken, tree.payoffs[to, player], 0)
        levels.append(
            Level(
                actor=node.actor,
                state=node.state,
                policy=policy,
                taken=taken,
                payoff=payoff,
                below=below,
            )
        )
        places = jnp.full(following, tree.nowhere).at[below].set(to, mode="drop")
    return tuple(levels)


def instant_regrets(levels: tuple[Level, ...], *, player: int) -> tuple[Float[Array, "_ A"], ...]:
    """Sampled counterfactual regrets of the traverser at all decisions, 0 at the others'.

    Their expectation is the exact one's, chance's and the others' reach included.
    """
    below, found = jnp.zeros(0, levels[0].payoff.dtype), []
    for level in reversed(levels):
        values = level.payoff + jnp.append(below, 0)[level.below]
        mine = (level.actor == player)[:, None]
        weights = jnp.where(mine, level.policy, level.taken.astype(values.dtype))
        below = sum_actions((weights * values).T)
        found.insert(0, jnp.where(mine & level.taken, values - below[:, None], 0))
    return tuple(found)
