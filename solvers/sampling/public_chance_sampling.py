"""Public-chance-sampling MCCFR (Johanson, Bard, Lanctot, Gibson, Bowling 2012).

    tree, settings = build_chance_tree(belief_table(make("leduc_poker"))), PublicChanceSampling()
    learner = run(tree, init(tree), key, settings=settings, num_iterations=100_000)
    policy = average_policy(tree, learner)

Where chance shows something, one of its outcomes is followed; all actions of both players are, and
all that they may hold, as vectors. An iteration is one such walk, from which both players learn.
Where chance shows nothing it is CFR with simultaneous updates. A learner is one set of tables; many
learn side by side under `jax.vmap`.
"""

from __future__ import annotations

import dataclasses
import functools

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from jaxgames.beliefs.table import NOWHERE, BeliefTable
from jaxgames.core import CHANCE, TERMINAL, record
from solvers.regret import RegretState, match
from solvers.sampling import episodes
from solvers.sampling.mccfr import Mccfr
from solvers.search.regret_phase import values_above
from solvers.sequence_form import Policy


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublicChanceSampling(Mccfr):
    """How to learn. Static under `jit`."""


@record
class ChanceTree:
    """A game's S public states, with what chance shows at some of them."""

    game: BeliefTable
    uniform: Array  # [S, A, N] uniform policy of who acts, 0 elsewhere
    chance: Array  # [S, K] of the children, where chance acts; 0 elsewhere
    nowhere: int = flax.struct.field(pytree_node=False)  # a terminal public state
    # how many public states there can be after 0, 1, 2, ... others, if chance takes one child
    widths: tuple[int, ...] = flax.struct.field(pytree_node=False)
    num_decisions: tuple[int, int] = flax.struct.field(pytree_node=False)  # information states


@record
class PublicChanceSamplingLearner:
    """What is learned, by public state and row of who acts there."""

    step: Array  # [] int32 iterations done
    regret: Array  # [S, A, N]
    average: Array  # [S, A, N] weighted sums of policies times own reach


@record
class SampledLevel:
    """The W public states that a walk meets after equally many others; some are not there."""

    state: Array  # [W] int32; `nowhere` if not there
    reach: Array  # [W, 2, N] own reaches
    policy: Array  # [W, A, N]
    below: Array  # [W, K] int32 which of the next level each child is; beyond the last: none
    scale: Array  # [W] 1 / the probability that chance's child was taken with


def build_chance_tree(game: BeliefTable) -> ChanceTree:
    """Prepares a game for walks.

    Chance's children are taken as often as chance comes to them, whoever holds what.
    """
    actors, children = np.asarray(game.actors), np.asarray(game.successors)
    legal = np.asarray(game.legal_actions).swapaxes(1, 2)
    mass = np.asarray(game.weights).sum(axis=(1, 2))
    chance = np.where((children != NOWHERE) & (actors == CHANCE)[:, None], mass[children], 0)
    decides = actors[:, None] == np.arange(2)
    numbers = np.where(decides[:, :, None], np.asarray(game.information_states), NOWHERE)
    total = np.maximum(chance.sum(axis=1, keepdims=True), np.finfo(chance.dtype).tiny)
    return ChanceTree(
        game=game,
        uniform=jnp.asarray(legal / np.maximum(legal.sum(axis=1, keepdims=True), 1), mass.dtype),
        chance=jnp.asarray(chance / total),
        nowhere=int(np.flatnonzero(actors == TERMINAL)[0]),
        widths=_widths(actors, children, int(game.first)),
        num_decisions=tuple(int(numbers[:, player].max()) + 1 for player in range(2)),
    )


def init(tree: ChanceTree) -> PublicChanceSamplingLearner:
    """A learner before its first iteration."""
    table = jnp.zeros_like(tree.uniform)
    return PublicChanceSamplingLearner(step=jnp.int32(0), regret=table, average=table)


def average_policy(tree: ChanceTree, learner: PublicChanceSamplingLearner) -> Policy:
    """Average policies by player `[D_p, A]`; uniform where there is nothing to average.

    Information states have the numbers of the game tree that the table was made of.
    """
    rows = match(learner.average.swapaxes(0, 1), tree.uniform.swapaxes(0, 1))  # [A, S, N]
    found = []
    for player, count in enumerate(tree.num_decisions):
        numbers = tree.game.information_states[:, player]
        mine = (tree.game.actors == player)[:, None] & (numbers != NOWHERE)
        policy = jnp.zeros((count + 1, tree.game.num_actions), rows.dtype)
        place = jnp.where(mine, numbers, count)
        found.append(policy.at[place].set(jnp.moveaxis(rows, 0, -1))[:-1])
    return tuple(found)


@functools.partial(jax.jit, static_argnames="settings")
def run(
    tree: ChanceTree,
    learner: PublicChanceSamplingLearner,
    key: Key[Array, ""],
    *,
    settings: PublicChanceSampling,
    num_iterations: int | Int[Array, ""],
) -> PublicChanceSamplingLearner:
    """The learner after so many more iterations, in one compiled loop; `key` is the whole run's."""
    one = functools.partial(iteration, tree, settings=settings)
    return episodes.repeat_episodes(one, learner, key, num_iterations)


def iteration(
    tree: ChanceTree,
    learner: PublicChanceSamplingLearner,
    key: Key[Array, ""],
    *,
    settings: PublicChanceSampling,
) -> PublicChanceSamplingLearner:
    """The learner after one more walk; `key` is consumed."""
    levels = walk(tree, learner, key)
    instant = jnp.concatenate(instant_regrets(tree, levels))
    found = jax.tree.map(lambda *each: jnp.concatenate(each), *levels)
    step = (learner.step + 1).astype(instant.dtype)
    first = lambda table: table.swapaxes(0, 1)  # noqa: E731  actions come first
    before = RegretState(
        regret=first(learner.regret[found.state]), policy=first(tree.uniform[found.state])
    )
    after = settings.minimizer.update(before, first(instant), before.policy, step)
    own = jnp.where((tree.game.actors[found.state] == 1)[:, None], *_swapped(found.reach))
    average = learner.average[found.state]
    average = average + step**settings.averaging_power * own[:, None] * found.policy
    return PublicChanceSamplingLearner(
        step=learner.step + 1,
        regret=episodes.put_rows(learner.regret, found.state, first(after.regret)),
        average=episodes.put_rows(learner.average, found.state, average),
    )


def walk(
    tree: ChanceTree, learner: PublicChanceSamplingLearner, key: Key[Array, ""]
) -> tuple[SampledLevel, ...]:
    """The public states of one walk, from the first down. `key` is consumed."""
    game, luck = tree.game, episodes.uniform_numbers(key, (sum(tree.widths),))
    state = game.root()[None]
    reach = game.rows(game.root()).astype(tree.uniform.dtype)[None]
    number, levels = jnp.arange(game.num_children, dtype=jnp.int32), []
    for depth, width in enumerate(tree.widths):
        chance, children = tree.chance[state], game.successors[state]
        policy = jax.vmap(match)(learner.regret[state], tree.uniform[state])
        outcome = jax.vmap(episodes.pick_action)(chance, luck[:width])
        luck = luck[width:]
        drawn = (game.actors[state] == CHANCE)[:, None]
        taken = (children != NOWHERE) & (~drawn | (number[None] == outcome[:, None]))
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
            down = jax.vmap(game.down)(state[above], slot, reach[above], policy[above])
            there = source >= 0
            reach = jnp.where(there[:, None, None], down, 0)
            state = jnp.where(there, children[above, slot], tree.nowhere)
    return tuple(levels)


def instant_regrets(
    tree: ChanceTree, levels: tuple[SampledLevel, ...]
) -> tuple[Float[Array, "_ A N"], ...]:
    """Sampled counterfactual regrets of who acts, by level; 0 for rows that are not there.

    Wherever a walk comes, the expectation of what it finds is the exact one's. (It is not divided
    by how often walks come there: that is always the same, and regret matching does not see it.)
    """
    game, found = tree.game, []
    values = jnp.zeros((0, *levels[0].reach.shape[1:]), levels[0].reach.dtype)
    for level in reversed(levels):
        none = jnp.zeros((1, *values.shape[1:]), values.dtype)
        below = jnp.concatenate([values, none])[level.below]  # [W, K, 2, N]
        below = below.swapaxes(1, 2) * level.scale[:, None, None, None]
        here, actions = jax.vmap(values_above, (None, 0, 0, 0))(
            game, level.state, below, level.policy
        )
        actor = game.actors[level.state]
        own = jnp.where((actor == 1)[:, None], *_swapped(here))
        legal = tree.uniform[level.state] > 0
        found.insert(0, jnp.where(legal, actions - own[:, None], 0))
        final = [
            jax.vmap(game.terminal_values, (0, None, 0))(level.state, p, level.reach[:, 1 - p])
            for p in range(2)
        ]
        ended = (actor == TERMINAL)[:, None, None]
        values = jnp.where(ended, jnp.stack(final, axis=1), here)
    return tuple(found)


def _swapped(both):
    """Player 1's and player 0's, for `jnp.where(player 1 acts, ...)`."""
    return both[:, 1], both[:, 0]


def _widths(actors, children, first):
    """See `ChanceTree.widths`."""
    levels = [np.array([first])]
    while len(levels[-1]):
        below = children[levels[-1]]
        levels.append(below[below != NOWHERE])
    count = np.zeros((len(actors), len(levels)), np.int64)
    for states in reversed(levels):
        there = (children[states] != NOWHERE)[:, :, None]
        below = np.where(there, count[children[states]], 0)
        all_of_them, widest = below.sum(axis=1), below.max(axis=1, initial=0)
        after = np.where((actors[states] == CHANCE)[:, None], widest, all_of_them)
        count[states] = np.concatenate([np.ones_like(after[:, :1]), after[:, :-1]], axis=1)
    return tuple(int(width) for width in count[first] if width)
