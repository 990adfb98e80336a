"""External-sampling MCCFR (Lanctot, Waugh, Zinkevich, Bowling 2009, section 3.2).

A traversal follows all actions of one player, the traverser, and samples one action of each other
player and of chance. An iteration is one traversal for every player in turn. A player's policy is
added to its average during the traversal of the player before it: the player's actions are sampled
there, so that in expectation its policies are weighted by its own reach. (With three players those
of the third are sampled there, too: the weight is then the product of both reaches.)

A learner is one set of tables; many learn side by side under `jax.vmap`. Each walks the tree depth
first with a stack of its own, one place per step of a compiled loop, and none waits for another
before the last one has finished its iterations.

Example:

    >>> import jax
    >>> import jaxgames
    >>> from solvers.sampling import external_sampling
    >>> from solvers.sampling.decision_tree import build_decision_tree
    >>> tree = build_decision_tree(jaxgames.make("kuhn_poker"))
    >>> settings = external_sampling.ExternalSampling()
    >>> learner = external_sampling.init(tree)
    >>> learner = external_sampling.run(
    ...     tree, learner, jax.random.key(0), settings=settings, num_iterations=100
    ... )
    >>> policy = external_sampling.average_policy(tree, learner)
    >>> [rows.shape for rows in policy]
    [(6, 2), (6, 2)]
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from jaxgames.arrays import choose, sum_actions
from jaxgames.core import TERMINAL, record
from solvers.batching import widest
from solvers.regret import RegretState, match
from solvers.sampling import episodes
from solvers.sampling.decision_tree import DecisionTree, proportional_policy
from solvers.sampling.mccfr_settings import Mccfr
from solvers.sequence_form import Policy


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExternalSampling(Mccfr):
    """Settings of external sampling. Static under `jit`."""


@record
class ExternalSamplingLearner:
    """What is learned; row N of the tables belongs to no information state."""

    step: Array  # [] int32 iterations done
    regret: Array  # [N + 1, A]
    average: Array  # [N + 1, A] weighted sums of policies


@record
class TraversalState:
    """A learner in the middle of a traversal.

    The stack holds the traverser's decisions on the path from the root to the current place; entry
    0 is unused.
    """

    learner: ExternalSamplingLearner
    traversal: Array  # [] int32 its number, counted over all players and iterations
    step: Array  # [] int32 steps of this traversal
    place: Array  # [] int32 the place to visit next, unless the walk returns
    returns: Array  # [] bool: the walk goes back to the last decision on the stack
    value: Array  # [] the traverser's value that it returns with
    height: Array  # [] int32 decisions on the stack, at entries 1 to `height`
    places: Array  # [D + 1] int32
    actions: Array  # [D + 1] int32 the action that is being followed
    values: Array  # [D + 1, A] values of the actions that were followed already
    regrets: Array  # [D + 1, A] the regrets before the traversal


def init(tree: DecisionTree) -> ExternalSamplingLearner:
    """Returns a learner before its first iteration."""
    table = jnp.zeros_like(tree.uniform)
    return ExternalSamplingLearner(step=jnp.int32(0), regret=table, average=table)


def average_policy(tree: DecisionTree, learner: ExternalSamplingLearner) -> Policy:
    """Returns the average policies by player `[D_p, A]`, uniform where nothing was sampled."""
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
    """Runs iterations in one compiled loop.

    Args:
      tree: the compiled game.
      learner: the learner so far.
      key: the key of the whole run: a run that continues with the same key gives the same result as
        one without interruption.
      settings: how to learn.
      num_iterations: how many iterations to add, each a traversal for every player.

    Returns:
      The learner after these iterations.
    """
    players = tree.num_players
    first, last = learner.step * players, (learner.step + num_iterations) * players
    learner = _run_traversals(tree, learner, key, first, last, settings)
    return learner.replace(step=learner.step + num_iterations)


def _run_traversals(tree, learner, key, first, last, settings):
    """The learner after the traversals with numbers from `first` to `last - 1`."""
    walk = begin_walk(tree, learner, key, first)
    step = lambda walk: step_walk(tree, walk, key, last=last, settings=settings)  # noqa: E731
    unfinished = lambda walk: widest(last - walk.traversal) > 0  # noqa: E731
    learner = jax.lax.while_loop(unfinished, step, walk).learner
    # row N holds what learners wrote while they waited for others
    blank = lambda table: table.at[tree.num_states].set(0)  # noqa: E731
    return learner.replace(regret=blank(learner.regret), average=blank(learner.average))


def begin_walk(
    tree: DecisionTree,
    learner: ExternalSamplingLearner,
    key: Key[Array, ""],
    first: int | Int[Array, ""],
) -> TraversalState:
    """Returns the learner at the first place of traversal number `first`.

    Args:
      tree: the compiled game.
      learner: the learner so far.
      key: the key of the whole run.
      first: the number of the traversal, counted over all players and iterations.
    """
    first, stack = jnp.int32(first), tree.max_decisions + 1
    return TraversalState(
        learner=learner,
        traversal=first,
        step=jnp.int32(0),
        place=tree.start(_noise(_words(key), first, jnp.int32(0))[None]),
        returns=jnp.bool_(False),
        value=jnp.zeros((), tree.payoffs.dtype),
        height=jnp.int32(0),
        places=jnp.zeros(stack, jnp.int32),
        actions=jnp.zeros(stack, jnp.int32),
        values=jnp.zeros((stack, tree.num_actions), tree.payoffs.dtype),
        regrets=jnp.zeros((stack, tree.num_actions), learner.regret.dtype),
    )


def _words(key):
    """The two words of a key that numbers are hashed from."""
    return jax.random.key_data(key).astype(jnp.uint32)[-2:]


def _noise(words, traversal, number):
    """The random number of index `number` of a traversal."""
    mine = jnp.stack([episodes.mix_bits(words[0] + traversal.astype(jnp.uint32)), words[1]])
    return episodes.uniform_number(mine, number.astype(jnp.uint32))


def step_walk(
    tree: DecisionTree,
    walk: TraversalState,
    key: Key[Array, ""],
    *,
    last: int | Int[Array, ""],
    settings: ExternalSampling,
) -> TraversalState:
    """Goes on to the next place, or back to the traverser's last decision.

    A learner that has done its traversals goes on walking while it waits for others, but writes
    only into row N.

    Args:
      tree: the compiled game.
      walk: where the learner is; its place is visited now unless `walk.returns`.
      key: the key of the whole run.
      last: the number of the first traversal that is not to be made.
      settings: how to learn.

    Returns:
      Where the learner is next.
    """
    words = _words(key)
    player, counts = walk.traversal % tree.num_players, walk.traversal < last
    iteration = (walk.traversal // tree.num_players + 1).astype(walk.value.dtype)
    node = tree.at(walk.place)
    # the barrier keeps XLA from repeating the look-ups for every use of the rows
    node, regret = jax.lax.optimization_barrier((node, walk.learner.regret[node.state]))
    mine = ~walk.returns & (node.actor == player)
    over = ~walk.returns & (node.actor == TERMINAL)
    others = ~(walk.returns | mine | over)
    # Regret matching: the policy at this place. The next player's is added to its average.
    policy = match(regret, node.uniform)
    averages = counts & others & (node.actor == (player + 1) % tree.num_players)
    weight = iteration**settings.averaging_power
    average = _add(
        walk.learner.average, jnp.where(averages, node.state, tree.num_states), weight * policy
    )

    # A decision of the traverser is pushed on the stack; a value is entered at the top of it.
    top = walk.height + mine.astype(jnp.int32)
    frame = walk.places[top], walk.actions[top], walk.values[top], walk.regrets[top]
    place, action, values, before = jax.lax.optimization_barrier(frame)
    place, action = jnp.where(mine, walk.place, place), jnp.where(mine, -1, action)
    before = jnp.where(mine, regret, before)
    number = jnp.arange(tree.num_actions, dtype=jnp.int32)
    value = jnp.where(over, tree.payoffs[walk.place, player], walk.value)
    values = jnp.where((over | walk.returns) & (number == action), value, values)
    waiting = jax.lax.optimization_barrier(tree.at(place))
    legal, none = waiting.count > 0, tree.num_actions
    following = jnp.where(legal & (number > action), number, none)  # the next action to follow
    following = functools.reduce(jnp.minimum, [following[a] for a in range(none)])

    # Once all actions are followed, r(I, a) = u(a) - sum_a' sigma(I, a') u(a') is added to the
    # regrets: the reach of the others and of chance cancels with the sampling probability.
    ends = ~others & (top == 0)  # the traversal is over
    leaves = ~others & (top > 0) & (following == none)
    mean = sum_actions(match(before, waiting.uniform) * values)
    state = RegretState(regret=before, policy=waiting.uniform)
    instant = jnp.where(legal, values - mean, 0)
    after = settings.minimizer.update(state, instant, waiting.uniform, iteration)
    row = jnp.where(counts & leaves, waiting.state, tree.num_states)

    # The other players' actions are sampled from their policies; chance from its own.
    sampled = episodes.pick_action(policy, _noise(words, walk.traversal, 2 * walk.step + 1))
    chosen = jnp.where(others, sampled, jnp.minimum(following, none - 1))
    on = choose(others, node, waiting)
    traversal, step = walk.traversal + ends.astype(jnp.int32), jnp.where(ends, 0, walk.step + 1)
    noise = _noise(words, traversal, 2 * step)[None]
    return TraversalState(
        learner=walk.learner.replace(
            regret=_put(walk.learner.regret, row, after.regret), average=average
        ),
        traversal=traversal,
        step=step,
        place=jnp.where(ends, tree.start(noise), tree.after(on, chosen, noise)),
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
