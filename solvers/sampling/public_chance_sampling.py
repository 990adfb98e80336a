"""Public-chance-sampling MCCFR (Johanson, Bard, Lanctot, Gibson, Bowling 2012).

An iteration walks down the public states of a game: where chance shows something it samples one
outcome, and it follows all actions of both players, with all their information states as vectors.
Both players learn from one walk. Without public chance it is CFR with simultaneous updates.

A learner is one set of tables; many learn side by side under `jax.vmap`.

Example:

    >>> import jax
    >>> import jaxgames
    >>> from jaxgames.beliefs import belief_table
    >>> from solvers.sampling import public_chance_sampling
    >>> table = belief_table(jaxgames.enumerate_game(jaxgames.make("kuhn_poker")))
    >>> tree = public_chance_sampling.build_chance_tree(table)
    >>> settings = public_chance_sampling.PublicChanceSampling()
    >>> learner = public_chance_sampling.init(tree)
    >>> learner = public_chance_sampling.run(
    ...     tree, learner, jax.random.key(0), settings=settings, num_iterations=100
    ... )
    >>> policy = public_chance_sampling.average_policy(tree, learner)
    >>> [rows.shape for rows in policy]
    [(6, 2), (6, 2)]
"""

from __future__ import annotations

import dataclasses
import functools

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from jaxgames.arrays import at
from jaxgames.beliefs.table import NOWHERE, BeliefTable
from jaxgames.core import CHANCE, TERMINAL, record
from solvers.belief_sweeps import values_above
from solvers.regret import RegretState, match
from solvers.sampling import episodes
from solvers.sampling.mccfr_settings import Mccfr
from solvers.sequence_form import Policy


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublicChanceSampling(Mccfr):
    """Settings of public chance sampling. Static under `jit`."""


@record
class ChanceTree:
    """A game's S public states, with the probabilities of what chance shows at some of them.

    Tables of the actor are `[A, N]`, the actions and rows of the player who has more, and 0 beyond
    those that the actor has.
    """

    game: BeliefTable
    uniform: Array  # [S, A, N] uniform policy of the actor, 0 elsewhere
    chance: Array  # [S, K] probability of each child where chance acts, 0 elsewhere
    nowhere: int = flax.struct.field(pytree_node=False)  # a terminal public state, for padding
    # at depth 0, 1, 2, ...: the largest number of public states that a walk can meet
    widths: tuple[int, ...] = flax.struct.field(pytree_node=False)
    num_decisions: tuple[int, int] = flax.struct.field(pytree_node=False)  # information states


@record
class PublicChanceSamplingLearner:
    """What is learned: by public state, action, and information state (row) of the actor."""

    step: Array  # [] int32 iterations done
    regret: Array  # [S, A, N]
    average: Array  # [S, A, N] weighted sums of policies times own reach


@record
class SampledLevel:
    """Up to W public states that a walk meets at one depth; the rest is padding."""

    state: Array  # [W] int32 public states; `nowhere` for padding
    reach: tuple[Array, Array]  # [W, N] both players' own reaches
    policy: Array  # [W, A, N] the actor's current policy
    below: Array  # [W, K] int32 place of each child in the next level; beyond its end: not sampled
    scale: Array  # [W] where chance acts, 1 / the probability of the sampled child; else 1


def build_chance_tree(game: BeliefTable) -> ChanceTree:
    """Prepares a belief-level game for walks.

    Args:
      game: the table of the game. Each child of a public chance state is sampled with the
        probability that chance gives it, whatever the players hold.

    Returns:
      The game with its sampling probabilities and the widths of its walks.
    """
    actors, children = np.asarray(game.actors), np.asarray(game.successors)
    legal = np.zeros((len(actors), max(game.num_actions), max(game.num_rows)), bool)
    for own in game.legal_actions:
        legal[:, : own.shape[1], : own.shape[2]] |= np.asarray(own)
    mass = np.asarray(game.weights).sum(axis=(1, 2))
    chance = np.where((children != NOWHERE) & (actors == CHANCE)[:, None], mass[children], 0)
    numbers = [
        np.where((actors == player)[:, None], own, NOWHERE)
        for player, own in enumerate(game.information_states)
    ]
    total = np.maximum(chance.sum(axis=1, keepdims=True), np.finfo(chance.dtype).tiny)
    return ChanceTree(
        game=game,
        uniform=jnp.asarray(legal / np.maximum(legal.sum(axis=1, keepdims=True), 1), mass.dtype),
        chance=jnp.asarray(chance / total),
        nowhere=int(np.flatnonzero(actors == TERMINAL)[0]),
        widths=_widths(actors, children, int(game.first)),
        num_decisions=tuple(int(own.max()) + 1 for own in numbers),
    )


def init(tree: ChanceTree) -> PublicChanceSamplingLearner:
    """Returns a learner before its first iteration."""
    table = jnp.zeros_like(tree.uniform)
    return PublicChanceSamplingLearner(step=jnp.int32(0), regret=table, average=table)


def average_policy(tree: ChanceTree, learner: PublicChanceSamplingLearner) -> Policy:
    """Returns the average policies by player `[D_p, A]`, uniform where nothing was sampled.

    Information states have the numbers of the game tree from which the table was built.
    """
    rows = match(learner.average.swapaxes(0, 1), tree.uniform.swapaxes(0, 1))  # [A, S, N]
    policies = []
    for player, count in enumerate(tree.num_decisions):
        numbers = tree.game.information_states[player]
        mine = (tree.game.actors == player)[:, None] & (numbers != NOWHERE)
        policy = jnp.zeros((count + 1, len(rows)), rows.dtype)
        place = jnp.where(mine, numbers, count)
        own = jnp.moveaxis(rows[:, :, : numbers.shape[1]], 0, -1)
        policies.append(policy.at[place].set(own)[:-1])
    return tuple(policies)


@functools.partial(jax.jit, static_argnames="settings")
def run(
    tree: ChanceTree,
    learner: PublicChanceSamplingLearner,
    key: Key[Array, ""],
    *,
    settings: PublicChanceSampling,
    num_iterations: int | Int[Array, ""],
) -> PublicChanceSamplingLearner:
    """Runs iterations in one compiled loop.

    Args:
      tree: the prepared game.
      learner: the learner so far.
      key: the key of the whole run: a run that continues with the same key gives the same result as
        one without interruption.
      settings: how to learn.
      num_iterations: how many iterations (walks) to add.

    Returns:
      The learner after these iterations.
    """
    next_iteration = functools.partial(iteration, tree, settings=settings)
    return episodes.repeat_episodes(next_iteration, learner, key, num_iterations)


def iteration(
    tree: ChanceTree,
    learner: PublicChanceSamplingLearner,
    key: Key[Array, ""],
    *,
    settings: PublicChanceSampling,
) -> PublicChanceSamplingLearner:
    """Makes one walk and updates both players' tables.

    Args:
      tree: the prepared game.
      learner: the learner so far.
      key: consumed.
      settings: how to learn.

    Returns:
      The learner after the walk.
    """
    levels = walk(tree, learner, key)
    instant = jnp.concatenate(instant_regrets(tree, levels))
    met = jax.tree.map(lambda *each: jnp.concatenate(each), *levels)
    step = (learner.step + 1).astype(instant.dtype)
    first = lambda table: table.swapaxes(0, 1)  # noqa: E731  puts actions first
    # Regrets: add the sampled counterfactual regrets of this walk.
    before = RegretState(
        regret=first(learner.regret[met.state]), policy=first(tree.uniform[met.state])
    )
    after = settings.minimizer.update(before, first(instant), before.policy, step)
    # Averages: add the policies, weighted by the actor's own reach.
    own = _of_actor(tree, met.state, met.reach, tree.uniform.shape[2:])
    average = learner.average[met.state]
    average = average + step**settings.averaging_power * own[:, None] * met.policy
    return PublicChanceSamplingLearner(
        step=learner.step + 1,
        regret=episodes.put_rows(learner.regret, met.state, first(after.regret)),
        average=episodes.put_rows(learner.average, met.state, average),
    )


def walk(
    tree: ChanceTree, learner: PublicChanceSamplingLearner, key: Key[Array, ""]
) -> tuple[SampledLevel, ...]:
    """Samples the public states of one walk, level by level from the root. `key` is consumed."""
    game, noise = tree.game, episodes.uniform_numbers(key, (sum(tree.widths),))
    state = game.root()[None]
    reach = tuple(rows.astype(tree.uniform.dtype)[None] for rows in game.rows(game.root()))
    number, levels = jnp.arange(game.num_children, dtype=jnp.int32), []
    for depth, width in enumerate(tree.widths):
        # The policies by regret matching, and one outcome of chance at each of its states.
        chance, children = tree.chance[state], game.successors[state]
        policy = jax.vmap(match)(learner.regret[state], tree.uniform[state])
        outcome = jax.vmap(episodes.pick_action)(chance, noise[:width])
        noise = noise[width:]
        drawn = (game.actors[state] == CHANCE)[:, None]
        taken = (children != NOWHERE) & (~drawn | (number[None] == outcome[:, None]))
        # The children that are followed get adjacent places in the next level.
        following = tree.widths[depth + 1] if depth + 1 < len(tree.widths) else 0
        below = jax.lax.associative_scan(jnp.add, taken.reshape(-1).astype(jnp.int32)) - 1
        below = jnp.where(taken, below.reshape(taken.shape), following)
        likely = jnp.take_along_axis(chance, outcome[:, None], axis=1)[:, 0]
        scale = jnp.where(drawn[:, 0], 1 / jnp.where(likely > 0, likely, 1), 1)
        levels.append(
            SampledLevel(state=state, reach=reach, policy=policy, below=below, scale=scale)
        )
        if following:
            places = jnp.arange(taken.size, dtype=jnp.int32).reshape(taken.shape)
            source = jnp.full(following, -1, jnp.int32).at[below].set(places, mode="drop")
            above, slot = source // game.num_children, source % game.num_children
            exists, parent = source >= 0, at((reach, _of_both(game, policy)), above)
            down = jax.vmap(game.down)(state[above], slot, *parent)
            reach = tuple(jnp.where(exists[:, None], own, 0) for own in down)
            state = jnp.where(exists, children[above, slot], tree.nowhere)
    return tuple(levels)


def instant_regrets(
    tree: ChanceTree, levels: tuple[SampledLevel, ...]
) -> tuple[Float[Array, "_ A N"], ...]:
    """Estimates the counterfactual regrets of the actors on a walk.

    Given that a walk reaches a public state, the expectation is the exact counterfactual regret
    there. The estimate is not divided by the probability that walks reach the state: it is the same
    for all actions, and regret matching does not depend on it.

    Args:
      tree: the prepared game.
      levels: the walk.

    Returns:
      Regrets by level, 0 in rows of padding.
    """
    game, regrets = tree.game, []
    values = tuple(own[:0] for own in levels[0].reach)
    for level in reversed(levels):
        # Values of the children that were followed, divided by their sampling probability, ...
        below = tuple(
            jnp.pad(own, ((0, 1), (0, 0)))[level.below] * level.scale[:, None, None]
            for own in values
        )
        # ... give the values of this level's states and of the actor's actions; the difference is
        # the regret. Terminal states are valued by the other player's reach.
        here, actions = jax.vmap(values_above, (None, 0, 0, 0))(
            game, level.state, below, _of_both(game, level.policy)
        )
        own = _of_actor(tree, level.state, here, tree.uniform.shape[2:])
        actions = _of_actor(tree, level.state, actions, tree.uniform.shape[1:])
        legal = tree.uniform[level.state] > 0
        regrets.insert(0, jnp.where(legal, actions - own[:, None], 0))
        ended, after = (game.actors[level.state] == TERMINAL)[:, None], []
        for p in range(2):
            final = jax.vmap(game.terminal_values, (0, None, 0))(level.state, p, level.reach[1 - p])
            after.append(jnp.where(ended, final, here[p]))
        values = tuple(after)
    return tuple(regrets)


def _of_both(game, policy):
    """Policies of both players, from one `[W, A, N]` of the actors; only theirs count."""
    sizes = zip(game.num_actions, game.num_rows, strict=True)
    return tuple(policy[:, :actions, :rows] for actions, rows in sizes)


def _of_actor(tree, state, pair, shape):
    """What the actors at the states `[W]` have, of a pair `[W, ...]`, padded to a common shape."""
    first, second = (
        jnp.pad(own, ((0, 0), *((0, m - n) for m, n in zip(shape, own.shape[1:], strict=True))))
        for own in pair
    )
    acts = (tree.game.actors[state] == 1).reshape(-1, *(1 for _ in shape))
    return jnp.where(acts, second, first)


def _widths(actors, children, first):
    """Computes `ChanceTree.widths`: the largest number of public states that a walk meets, by
    depth.
    """
    levels = [np.array([first])]
    while len(levels[-1]):
        below = children[levels[-1]]
        levels.append(below[below != NOWHERE])
    count = np.zeros((len(actors), len(levels)), np.int64)
    for states in reversed(levels):
        exists = (children[states] != NOWHERE)[:, :, None]
        below = np.where(exists, count[children[states]], 0)
        in_total, widest = below.sum(axis=1), below.max(axis=1, initial=0)
        after = np.where((actors[states] == CHANCE)[:, None], widest, in_total)
        count[states] = np.concatenate([np.ones_like(after[:, :1]), after[:, :-1]], axis=1)
    return tuple(int(width) for width in count[first] if width)
