"""External-sampling MCCFR (Lanctot, Waugh, Zinkevich, Bowling 2009).

    tree, settings = build_decision_tree(make("leduc_poker")), ExternalSampling()
    learner = run(tree, init(tree), key, settings=settings, num_iterations=100_000)
    policy = average_policy(tree, learner)

A traversal follows all actions of one player and one of chance and of the others, everywhere anew.
The decisions that it meets go side by side, as many as there can be after so many decisions
(`widths`). An iteration is a traversal for every player, one after the other. The average is the
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
from solvers.sampling.decision_tree import DecisionTree, after, policies, start
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

    iterations: Array  # [] int32 done
    regret: Array  # [N + 1, A]
    average: Array  # [N + 1, A] weighted sums of policies


@record
class Front:
    """The decisions of a traversal after so many others: W of them, some of nobody."""

    actor: Array  # [W] int32
    state: Array  # [W] int32
    policy: Array  # [W, A]
    taken: Array  # [W, A] bool: all legal actions of the traverser, one of the others
    payoff: Array  # [W, A] of the traverser where the game ends, 0 elsewhere
    below: Array  # [W, A] int32 number in the next front, or its length where there is none


def init(tree: DecisionTree) -> Learner:
    """A learner before its first iteration."""
    table = jnp.zeros_like(tree.uniform)
    return Learner(iterations=jnp.int32(0), regret=table, average=table)


def average_policy(tree: DecisionTree, learner: Learner) -> Policy:
    """Average policies by player `[D_p, A]`; uniform where there is nothing to average."""
    return policies(tree, match(learner.average.T, tree.uniform.T).T)


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

    def one(_, learner):
        luck = jax.random.fold_in(key, learner.iterations)
        return iteration(tree, learner, luck, settings=settings)

    return jax.lax.fori_loop(0, num_iterations, one, learner)


def iteration(
    tree: DecisionTree, learner: Learner, key: Key[Array, ""], *, settings: ExternalSampling
) -> Learner:
    """The learner after a traversal for every player; `key` is consumed."""
    keys = jax.random.split(key, tree.num_players)
    step = (learner.iterations + 1).astype(learner.regret.dtype)
    for player in range(tree.num_players):
        fronts = traverse(tree, learner, keys[player], player=player)
        instant = instant_regrets(fronts, player=player)
        state = jnp.concatenate([front.state for front in fronts])
        actor = jnp.concatenate([front.actor for front in fronts])
        policy = jnp.concatenate([front.policy for front in fronts])
        before = RegretState(regret=learner.regret[state].T, policy=tree.uniform[state].T)
        after = settings.minimizer.update(before, instant.T, before.policy, step)
        mine, next_one = actor == player, actor == (player + 1) % tree.num_players
        nobody = jnp.int32(tree.num_states)
        change = jnp.where(next_one[:, None], step**settings.averaging_power * policy, 0)
        learner = learner.replace(
            regret=learner.regret.at[jnp.where(mine, state, nobody)].set(
                after.regret.T, mode="promise_in_bounds"
            ),
            # a state may be met more than once, by actions that its player does not see
            average=learner.average.at[state].add(change, mode="promise_in_bounds"),
        )
    return learner.replace(iterations=learner.iterations + 1)


def traverse(
    tree: DecisionTree, learner: Learner, key: Key[Array, ""], *, player: int
) -> list[Front]:
    """The decisions that a traversal for `player` meets, by how many come before. `key` is
    consumed."""
    sizes, actions = tree.widths[player], tree.num_actions
    luck = episodes.numbers(key, (sum(sizes) + 1, actions + 1))
    places, fronts, begin = start(tree, luck[-1, 0])[None], [], 0
    nowhere = jnp.int32(len(tree.actor) - 1)  # a terminal
    for size, following in zip(sizes, (*sizes[1:], 0), strict=True):
        rows = luck[begin : begin + size]
        begin += size
        actor, state = tree.actor[places], tree.state[places]
        policy = match(learner.regret[state].T, tree.uniform[state].T).T
        sampled = jax.vmap(episodes.pick)(policy, rows[:, -1])
        number = jnp.arange(actions, dtype=jnp.int32)[None]
        all_of_them = (actor == player)[:, None]
        taken = jnp.where(all_of_them, tree.uniform[state] > 0, number == sampled[:, None])
        taken = taken & (actor != TERMINAL)[:, None]
        lead = jax.vmap(jax.vmap(functools.partial(after, tree), (None, 0, 0)), (0, None, 0))
        to = jnp.where(taken, lead(places, number[0], rows[:, :-1]), nowhere)
        go_on = taken & (tree.actor[to] != TERMINAL)
        below = jnp.cumsum(go_on.reshape(-1), dtype=jnp.int32).reshape(go_on.shape) - 1
        below = jnp.where(go_on, below, following)
        payoff = jnp.where(taken, tree.payoffs[to, player], 0).astype(policy.dtype)
        fronts.append(
            Front(actor=actor, state=state, policy=policy, taken=taken, payoff=payoff, below=below)
        )
        places = jnp.full(following, nowhere).at[below].set(to, mode="drop")
    return fronts


def instant_regrets(fronts: list[Front], *, player: int) -> Float[Array, "S A"]:
    """Sampled counterfactual regrets of the traverser at all decisions of all fronts, 0 at the
    others'.

    Their expectation is the exact one's, chance's and the others' reach included.
    """
    found, below = [], jnp.zeros(0, fronts[0].payoff.dtype)
    for front in reversed(fronts):
        values = front.payoff + jnp.append(below, 0)[front.below]
        mine = front.actor == player
        weights = jnp.where(mine[:, None], front.policy, front.taken.astype(values.dtype))
        below = sum_actions((weights * values).T)
        found.append(jnp.where(mine[:, None] & front.taken, values - below[:, None], 0))
    return jnp.concatenate(found[::-1])
