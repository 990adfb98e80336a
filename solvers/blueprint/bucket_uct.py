"""UCT and Smooth UCT in hold'em with buckets (Heinrich and Silver 2015, section 4.2).

One table has the visits and the winnings of all actions of all information states
(`solvers.blueprint.betting_walk`).

Episodes are played in batches. All episodes of a batch read the table as it is before the batch,
walk through the betting side by side, and then add what they won. With batches of one this is the
paper's algorithm 1: the first state without visits on a player's way is added to its tree; there
and from there on the player acts uniformly (the roll-out), and only that first state is updated.
In larger batches several episodes may add a state at once, and each of them is counted there.

Visits and winnings are whole numbers, so that means are exact, in whatever order they are added. A
sum of winnings has two words, low + 65536 high; episodes add to the low one alone, which is carried
to the high one before it can overflow.

Policies are read from the table state by state, where they are played (`average` and `greedy`): the
tables of large games leave no room for others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from jaxgames.arrays import select_entry
from jaxgames.core import record
from solvers.blueprint.betting_walk import BettingWalk, Spot, picked, walk_down
from solvers.blueprint.dealt_hands import DealtHands, deal_hands
from solvers.device_batches import device_bytes
from solvers.sampling.uct import Reading, Uct

_LOW_BITS = 16
_VISITS, _LOW, _HIGH = range(3)  # the words of an action in the table

Draw = Callable[..., DealtHands]  # of a source, a key, and the numbers of deals and of players


@record
class BucketUctLearner:
    """What is learned. Visits of a state must stay below 2^31."""

    table: Array  # [N + 1, A, 3] int32 visits, and low and high words of what the actor won
    batches: Array  # [] int32 how many there were
    uncarried: Array  # [] int32 episodes since low words were carried


def init(walk: BettingWalk, *, max_bytes: int | None = None) -> BucketUctLearner:
    """Returns a learner before its first episode.

    Args:
      walk: the game.
      max_bytes: that the table may take; None: the memory of the device.

    Raises:
      ValueError: the table takes more.
    """
    allowed = device_bytes() if max_bytes is None else max_bytes
    if walk.table_bytes > allowed:
        raise ValueError(
            f"the table of {walk.num_states:,} information states takes {walk.table_bytes:,} bytes;"
            f" max_bytes={allowed:,} are allowed: fewer buckets make it smaller"
        )
    return BucketUctLearner(
        table=jnp.zeros((walk.num_states + 1, walk.num_actions, 3), jnp.int32),
        batches=jnp.int32(0),
        uncarried=jnp.int32(0),
    )


def visits(learner: BucketUctLearner) -> Int[Array, "rows A"]:
    """How often each action was taken, `[N + 1, A]`; row N is of no state."""
    return learner.table[..., _VISITS]


def _mean(words):
    """Means `[...]` of winnings in parts of a chip, from the words of actions `[..., 3]`."""
    count, low, high = (words[..., word].astype(jnp.float32) for word in (_VISITS, _LOW, _HIGH))
    return (high * 2.0**_LOW_BITS + low) / jnp.maximum(count, 1)


@jax.jit
def share_visited(learner: BucketUctLearner) -> Float[Array, ""]:
    """The share of the information states that were visited."""
    visited = jnp.any(visits(learner)[:-1] > 0, axis=1)
    return jnp.sum(visited, dtype=jnp.int32) / jnp.int32(len(visited))


@record
class ReadOut:
    """A policy that is read from a learner's table where it is asked for: a function of a `Spot`.

    It is uniform outside of the trees.
    """

    table: Array  # of the learner
    greedy: bool = flax.struct.field(pytree_node=False)

    def __call__(self, spot: Spot) -> list[Float[Array, " D"]]:
        """The weights of the actions."""
        return self._weights(spot.state, spot.legal)

    def rows(self, walk: BettingWalk, states: Int[Array, " n"]) -> Float[Array, "n A"]:
        """The probabilities of the actions in some information states, 0 in state N."""
        node = jnp.searchsorted(jnp.cumsum(walk.states), states, side="right")
        legal = [action < walk.widths[node] for action in range(walk.num_actions)]
        weights = jnp.stack(self._weights(states, legal), axis=1)
        return weights / jnp.maximum(jnp.sum(weights, axis=1, keepdims=True), 1)

    def _weights(self, states, legal):
        words = self.table[states]
        tried = [words[:, action, _VISITS] for action in range(len(legal))]
        weights = tried
        if self.greedy:
            means = [_mean(words[:, action]) for action in range(len(legal))]
            known = [jnp.where(n > 0, mean, -jnp.inf) for n, mean in zip(tried, means, strict=True)]
            weights = _is_first_of_best(known)
        seen = sum(tried) > 0
        return [
            jnp.where(own & seen, weight.astype(jnp.float32), own.astype(jnp.float32))
            for weight, own in zip(weights, legal, strict=True)
        ]


def _is_first_of_best(values):
    """Whether each value is the first of the highest ones."""
    best, chosen = functools.reduce(jnp.maximum, values), []
    missing = jnp.ones_like(best, bool)
    for value in values:
        chosen.append(missing & (value == best))
        missing = missing & (value != best)
    return chosen


def average(learner: BucketUctLearner) -> ReadOut:
    """The policy of the frequencies of the actions."""
    return ReadOut(table=learner.table, greedy=False)


def greedy(learner: BucketUctLearner) -> ReadOut:
    """The policy that takes the action of the highest mean among those that were tried."""
    return ReadOut(table=learner.table, greedy=True)


@jax.jit
def policy_rows(walk: BettingWalk, policy: ReadOut) -> Float[Array, "rows A"]:
    """A policy in all states `[N + 1, A]`, 0 in row N."""
    return policy.rows(walk, jnp.arange(walk.num_states + 1, dtype=jnp.int32))


def average_policy(walk: BettingWalk, learner: BucketUctLearner) -> Float[Array, "rows A"]:
    """The policy `average` in all states `[N + 1, A]`."""
    return policy_rows(walk, average(learner))


def greedy_policy(walk: BettingWalk, learner: BucketUctLearner) -> Float[Array, "rows A"]:
    """The policy `greedy` in all states `[N + 1, A]`."""
    return policy_rows(walk, greedy(learner))


@functools.partial(
    jax.jit, static_argnames=("settings", "batch", "draw"), donate_argnames="learner"
)
def run(
    walk: BettingWalk,
    learner: BucketUctLearner,
    source: PyTree,
    key: Key[Array, ""],
    *,
    settings: Uct,
    batch: int,
    num_batches: int | Int[Array, ""],
    draw: Draw = deal_hands,
) -> BucketUctLearner:
    """Plays batches of episodes of fresh deals in one compiled loop.

    Args:
      walk: the game.
      learner: the learner so far; its arrays are used up.
      source: what deals are drawn from: the `BucketTables` of the game.
      key: of the whole run: a run that continues with the same key gives the same result as one
        without interruption.
      settings: how to choose actions; the exploration constant is in chips. Static.
      batch: episodes of a batch. Static.
      num_batches: how many batches to add.
      draw: makes deals of the source, a key, their number and `num_players`. Static.

    Returns:
      The learner after these episodes.

    Raises:
      ValueError: `batch` is not positive, or so large that sums may overflow; the settings ask for
        a reading of the paper that is not the default.
    """
    most = (2**31 - 2 ** (_LOW_BITS + 1)) // max(walk.max_chips, 1)
    if not 1 <= batch <= most:
        raise ValueError(f"batch={batch} must be from 1 to {most:,}")
    if settings.reading != Reading():
        raise ValueError(f"reading={settings.reading} must be {Reading()}, here the only one")

    def body(_, learner):
        deal_key, play_key = jax.random.split(jax.random.fold_in(key, learner.batches))
        due = learner.uncarried > most - batch
        # a loop, as a conditional would copy the table
        table = jax.lax.fori_loop(0, due.astype(jnp.int32), lambda _, x: _carried(x), learner.table)
        learner = learner.replace(table=table, uncarried=jnp.where(due, 0, learner.uncarried))
        deals = draw(source, deal_key, batch, num_players=walk.num_players)
        return play_batch(walk, learner, deals, play_key, settings=settings)

    return jax.lax.fori_loop(0, num_batches, body, learner)


def _carried(table):
    """The table with low words from 0 to 65535."""
    low = table[..., _LOW]
    table = table.at[..., _HIGH].add(low >> _LOW_BITS)
    return table.at[..., _LOW].set(low & (2**_LOW_BITS - 1))


def play_batch(
    walk: BettingWalk,
    learner: BucketUctLearner,
    deals: DealtHands,
    key: Key[Array, ""],
    *,
    settings: Uct,
) -> BucketUctLearner:
    """Plays one episode of each deal, and returns the learner after all; `key` is consumed."""

    def choose(inside, spot, noise):
        words = learner.table[spot.state]
        tried = [words[:, action, _VISITS] for action in range(walk.num_actions)]
        means = [_mean(words[:, action]) for action in range(walk.num_actions)]
        bit = 1 << spot.actor
        counts = inside & bit != 0  # only states in the tree are updated
        rolls_out = ~counts | (sum(tried) == 0)
        constant = jnp.minimum(settings.exploration, spot.exploration_limit) * walk.parts
        tree = tree_weights(tried, means, spot.legal, constant, noise[0], settings=settings)
        weights = [
            jnp.where(rolls_out, legal.astype(weight.dtype), weight)
            for legal, weight in zip(spot.legal, tree, strict=True)
        ]
        action = picked(weights, noise[1])
        state = jnp.where(counts, spot.state, walk.num_states)
        return jnp.where(rolls_out, inside & ~bit, inside), action, (state, action, spot.actor)

    # a bit for each player who has not left its tree
    all_inside = jnp.full_like(deals.strength[0], 2**walk.num_players - 1)
    winnings, (state, action, actor) = walk_down(walk, deals, key, choose, all_inside, width=2)
    own = select_entry([won[None] for won in winnings], actor)
    more = jnp.stack([jnp.ones_like(state), own], axis=-1)
    numbers = jax.lax.ScatterDimensionNumbers(
        update_window_dims=(2,), inserted_window_dims=(0, 1), scatter_dims_to_operand_dims=(0, 1)
    )
    table = jax.lax.scatter_add(
        learner.table,
        jnp.stack([state, action], axis=-1),
        more,
        numbers,
        mode="promise_in_bounds",
    )
    return BucketUctLearner(
        table=table, batches=learner.batches + 1, uncarried=learner.uncarried + len(winnings[0])
    )


def tree_weights(
    visits: Sequence[Int[Array, " D"]],
    means: Sequence[Float[Array, " D"]],
    legal: Sequence[Bool[Array, " D"]],
    exploration: Float[Array, " D"],
    noise: Float[Array, " D"],
    *,
    settings: Uct,
) -> list[Float[Array, " D"]]:
    """The weights by which the A actions of D states in the tree are drawn, those of UCB or of the
    average policy; as `solvers.sampling.uct` has them, action by action, which a CPU computes
    several times faster than rows of actions.

    Args:
      visits: of each action.
      means: what was won on average.
      legal: where there is this action.
      exploration: c of UCB.
      noise: uniform in [0, 1), decides between UCB and the average policy.
      settings: how often it is UCB.
    """
    count = [each.astype(noise.dtype) for each in visits]
    total = sum(count)
    log_total, bounds = jnp.log(jnp.maximum(total, 1)), []
    for action, mean in enumerate(means):
        width = exploration * jnp.sqrt(log_total / jnp.maximum(count[action], 1))
        bound = jnp.where(visits[action] > 0, mean + width, jnp.inf)
        bounds.append(jnp.where(legal[action], bound, -jnp.inf))
    best = functools.reduce(jnp.maximum, bounds)
    share = settings.start / (1 + settings.decay * jnp.sqrt(total))
    explores = noise < jnp.maximum(settings.least, share)
    return [
        jnp.where(explores, (legal[a] & (bound == best)).astype(noise.dtype), count[a])
        for a, bound in enumerate(bounds)
    ]
