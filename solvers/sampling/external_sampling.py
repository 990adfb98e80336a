"""External-sampling MCCFR (Lanctot, Waugh, Zinkevich, Bowling 2009).

    tree, settings = build_decision_tree(make("leduc_poker")), ExternalSampling()
    learner = run(tree, init(tree), key, settings=settings, num_iterations=100_000)
    policy = average_policy(tree, learner)

A traversal follows all actions of one player and one of chance and of the others, everywhere anew.
An iteration is a traversal for every player, one after the other. The average is the simple one: a
player's policies where the player before it traverses.

A learner is one set of tables; many learn side by side under `jax.vmap`. Each walks its own tree
depth first, a step at a time, and none waits for another before the last has done its iterations.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from jaxgames.core import TERMINAL, record
from solvers.batching import widest
from solvers.regret import RegretState, match
from solvers.sampling import episodes
from solvers.sampling.decision_tree import DecisionTree, proportional_policy
from solvers.sampling.mccfr import Mccfr
from solvers.sequence_form import Policy
from solvers.sequence_form.sweeps import sum_actions


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExternalSampling(Mccfr):
    """How to learn. Static under `jit`."""


@record
class ExternalSamplingLearner:
    """What is learned; row N of the tables is nobody's."""

    step: Array  # [] int32 iterations done
    regret: Array  # [N + 1, A]
    average: Array  # [N + 1, A] weighted sums of policies


@record
class TraversalState:
    """A learner on its way.

    The decisions of the player who traverses, from the first one to where the walk is, are a stack.
    """

    learner: ExternalSamplingLearner
    traversal: Array  # [] int32 its number, counted over all players and from the first iteration
    step: Array  # [] int32 of this traversal
    place: Array  # [] int32 where it comes to next
    returns: Array  # [] bool: it does not, but goes back to the last decision on the stack
    value: Array  # [] with what it returns
    height: Array  # [] int32 decisions on the stack, from 1 on
    places: Array  # [D + 1] int32
    actions: Array  # [D + 1] int32 which one is followed
    values: Array  # [D + 1, A] what those already followed are worth
    regrets: Array  # [D + 1, A] before the traversal


def init(tree: DecisionTree) -> ExternalSamplingLearner:
    """A learner before its first iteration."""
    table = jnp.zeros_like(tree.uniform)
    return ExternalSamplingLearner(step=jnp.int32(0), regret=table, average=table)


def average_policy(tree: DecisionTree, learner: ExternalSamplingLearner) -> Policy:
    """Average policies by player `[D_p, A]`; uniform where there is nothing to average."""
    return proportional_policy(tree, learner.average)


@functools.partial(jax.jit, static_argnames="settings")
def run(
    tree: DecisionTree,
    learner: ExternalSamplingLearner,
    key: Key[Array, ""],
    *,
    settings: ExternalSampling,
    num_iterations: int | Int[Array, ""],
) -> ExternalSamplingLearner:
    """The learner after so many more iterations, in one compiled loop; `key` is the whole run's."""
    players = tree.num_players
    first, last = learner.step * players, (learner.step + num_iterations) * players
    learner = _walked(tree, learner, key, first, last, settings)
    return learner.replace(step=learner.step + num_iterations)


def traverse(
    tree: DecisionTree,
    learner: ExternalSamplingLearner,
    key: Key[Array, ""],
    *,
    player: int,
    settings: ExternalSampling,
) -> ExternalSamplingLearner:
    """The learner after one traversal, its `step` unchanged; `key` is the whole run's."""
    first = learner.step * tree.num_players + player
    return _walked(tree, learner, key, first, first + 1, settings)


def _walked(tree, learner, key, first, last, settings):
    """The learner after the traversals from number `first` to before `last`."""
    words = jax.random.key_data(key).astype(jnp.uint32)[-2:]
    stack = tree.longest + 1
    walk = TraversalState(
        learner=learner,
        traversal=first,
        step=jnp.int32(0),
        place=tree.start(_luck(words, first, jnp.int32(0))[None]),
        returns=jnp.bool_(False),
        value=jnp.zeros((), tree.payoffs.dtype),
        height=jnp.int32(0),
        places=jnp.zeros(stack, jnp.int32),
        actions=jnp.zeros(stack, jnp.int32),
        values=jnp.zeros((stack, tree.num_actions), tree.payoffs.dtype),
        regrets=jnp.zeros((stack, tree.num_actions), learner.regret.dtype),
    )
    one = functools.partial(_step, tree, words, last, settings)
    going = lambda walk: widest(last - walk.traversal) > 0  # noqa: E731
    learner = jax.lax.while_loop(going, one, walk).learner
    # nobody's row has what learners wrote while they waited
    blank = lambda table: table.at[tree.num_states].set(0)  # noqa: E731
    return learner.replace(regret=blank(learner.regret), average=blank(learner.average))


def _luck(words, traversal, number):
    """A number of a traversal."""
    mine = jnp.stack([episodes.mix_bits(words[0] + traversal.astype(jnp.uint32)), words[1]])
    return episodes.uniform_number(mine, number.astype(jnp.uint32))


def _step(tree, words, last, settings, walk):
    """To the next place, or back by one decision of the player who traverses.

    A learner that is through goes on walking while it waits for others, and learns nothing.
    """
    player, counts = walk.traversal % tree.num_players, walk.traversal < last
    iteration = (walk.traversal // tree.num_players + 1).astype(walk.value.dtype)
    node = tree.at(walk.place)
    # else XLA looks rows up again for everything that is made of them
    node, regret = jax.lax.optimization_barrier((node, walk.learner.regret[node.state]))
    mine = ~walk.returns & (node.actor == player)
    over = ~walk.returns & (node.actor == TERMINAL)
    others = ~(walk.returns | mine | over)
    policy = match(regret, node.uniform)
    averages = counts & others & (node.actor == (player + 1) % tree.num_players)
    weight = iteration**settings.averaging_power
    average = _add(
        walk.learner.average, jnp.where(averages, node.state, tree.num_states), weight * policy
    )

    top = walk.height + mine.astype(jnp.int32)
    frame = walk.places[top], walk.actions[top], walk.values[top], walk.regrets[top]
    place, action, values, before = jax.lax.optimization_barrier(frame)
    place, action = jnp.where(mine, walk.place, place), jnp.where(mine, -1, action)
    before = jnp.where(mine, regret, before)
    number = jnp.arange(tree.num_actions, dtype=jnp.int32)
    value = jnp.where(over, tree.payoffs[walk.place, player], walk.value)
    values = jnp.where((over | walk.returns) & (number == action), value, values)
    waits = jax.lax.optimization_barrier(tree.at(place))
    legal, none = waits.count > 0, tree.num_actions
    following = jnp.where(legal & (number > action), number, none)
    following = functools.reduce(jnp.minimum, [following[a] for a in range(none)])

    ends = ~others & (top == 0)  # the traversal
    leaves = ~others & (top > 0) & (following == none)
    mean = sum_actions(match(before, waits.uniform) * values)
    state = RegretState(regret=before, policy=waits.uniform)
    instant = jnp.where(legal, values - mean, 0)
    after = settings.minimizer.update(state, instant, waits.uniform, iteration)
    row = jnp.where(counts & leaves, waits.state, tree.num_states)

    sampled = episodes.pick_action(policy, _luck(words, walk.traversal, 2 * walk.step + 1))
    chosen = jnp.where(others, sampled, jnp.minimum(following, none - 1))
    on = jax.tree.map(lambda x, y: jnp.where(others, x, y), node, waits)
    traversal, step = walk.traversal + ends.astype(jnp.int32), jnp.where(ends, 0, walk.step + 1)
    luck = _luck(words, traversal, 2 * step)[None]
    return TraversalState(
        learner=walk.learner.replace(
            regret=_put(walk.learner.regret, row, after.regret), average=average
        ),
        traversal=traversal,
        step=step,
        place=jnp.where(ends, tree.start(luck), tree.after(on, chosen, luck)),
        returns=leaves,
        value=mean,
        height=top - leaves.astype(jnp.int32),
        places=_put(walk.places, top, place),
        actions=_put(walk.actions, top, jnp.where(others, action, following)),
        values=_put(walk.values, top, values),
        regrets=_put(walk.regrets, top, before),
    )


def _put(table, row, new):
    return table.at[row].set(new, mode="promise_in_bounds")


def _add(table, row, more):
    return table.at[row].add(more, mode="promise_in_bounds")
