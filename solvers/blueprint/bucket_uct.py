"""UCT and Smooth UCT in two-player hold'em with buckets (Heinrich and Silver 2015, section 4.2).

An information state is a decision of the betting tree with a bucket of its street, so that players
forget the buckets of earlier streets (imperfect recall). One table has the visits and the winnings
of all actions of all states; those of the two players are different rows.

Episodes are played in batches. All episodes of a batch read the table as it is before the batch,
walk down the betting tree side by side, and then add what they won. With batches of one this is the
paper's algorithm 1: the first state without visits on a player's way is added to its tree; there
and from there on the player acts uniformly (the roll-out), and only that first state is updated.
In larger batches several episodes may add a state at once, and each of them is counted there.

Visits and winnings are whole numbers, so that means are exact, in whatever order they are added. A
sum of winnings has two words, low + 65536 high; episodes add to the low one alone, which is carried
to the high one before it can overflow.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from jaxgames.core import CHANCE, record
from jaxgames.holdem.betting_tree import FOLD, NO_NODE, SHOWDOWN, BettingTree
from solvers.blueprint.board_sampled_cfr import BucketGame, Tables
from solvers.blueprint.two_hands import TwoHands, deal_two_hands
from solvers.regret import match
from solvers.sampling.episodes import uniform_numbers
from solvers.sampling.uct import Uct

MAX_BYTES = 2**33
_LOW_BITS = 16
_VISITS, _LOW, _HIGH = range(3)  # the words of an action in the table
# the columns of a node: the states of the first bucket, the street and actor, the number of
# actions, what player 0 wins if hands are not shown and if it has the stronger one; then children
_FIRST, _PLACE, _ACTIONS, _FOLDED, _SHOWN, _CHILDREN = range(6)

Draw = Callable[[PyTree, Key[Array, ""], int], TwoHands]


@record
class BettingWalk:
    """A betting tree for episodes: X nodes without those of chance, N information states, A
    actions. Tables over states have a last row N, of no state, for episodes that are over.
    """

    rows: Array  # [X, 5 + A] int32; ends have no actions and are followed by themselves
    stake: Array  # [X] the exploration constant is at most this, in chips
    owner: Array  # [N + 1] int32 the player who acts in each state
    uniform: Array  # [N + 1, A] the uniform policy, 0 in row N
    max_decisions: int = flax.struct.field(pytree_node=False)  # of an episode
    max_chips: int = flax.struct.field(pytree_node=False)  # that a player may lose

    @property
    def num_states(self) -> int:
        """N."""
        return len(self.uniform) - 1

    @property
    def num_actions(self) -> int:
        """A."""
        return self.uniform.shape[1]

    @property
    def table_bytes(self) -> int:
        """What a learner's table takes."""
        return 4 * 3 * (self.num_states + 1) * self.num_actions


def betting_walk(game: BucketGame, *, potential: float | None = 0.5) -> BettingWalk:
    """Lays out a betting tree for episodes.

    Args:
      game: the tree and its buckets.
      potential: k of equation 3: at the beginning of each round the exploration constant is at most
        the pot plus k times what the players may still add to it. None: it is a constant.

    Raises:
      ValueError: half the pot at the root is not whole.
    """
    tree = game.rounds.tree
    if tree.pot % 2:
        raise ValueError(f"pot={tree.pot} at the root of the betting tree must be even")
    decides, num_actions = tree.actor >= 0, (tree.child != NO_NODE).sum(axis=1)
    own = _buckets_of_nodes(game)
    first = np.cumsum(own) - own
    kept = np.flatnonzero(tree.actor != CHANCE)
    number = np.zeros(len(tree.actor), int)
    number[kept] = np.arange(len(kept))
    child = np.where(tree.child == NO_NODE, 0, number[_past_chance(tree)])
    child = np.where(decides[:, None], child, number[:, None])
    chips = tree.paid.min(axis=1) + tree.pot // 2
    columns = [
        np.where(decides, first, own.sum()),
        np.where(decides, 2 * tree.street + tree.actor, 0),
        np.where(decides, num_actions, 0),
        np.where(tree.actor == FOLD, np.where(tree.winner == 0, chips, -chips), 0),
        np.where(tree.actor == SHOWDOWN, chips, 0),
    ]
    stake = np.full(len(kept), np.inf) if potential is None else _stakes(tree, potential)[kept]
    even = (tree.child != NO_NODE) / np.maximum(num_actions, 1)[:, None]
    return BettingWalk(
        rows=jnp.asarray(np.column_stack([*columns, child])[kept], jnp.int32),
        stake=jnp.asarray(stake, jnp.float32),
        owner=jnp.asarray(np.append(np.repeat(tree.actor, own), 0), jnp.int32),
        uniform=jnp.asarray(in_all_buckets(game, even), jnp.float32),
        max_decisions=_max_decisions(tree),
        max_chips=int(chips.max()),
    )


def in_all_buckets(
    game: BucketGame, policy: Float[np.ndarray, "X A"]
) -> Float[np.ndarray, "rows A"]:
    """Policies of information states `[N + 1, A]` from those of the tree's nodes, whatever the
    bucket; 0 in the last row.
    """
    rows = np.repeat(policy, _buckets_of_nodes(game), axis=0)
    return np.append(rows, np.zeros_like(policy[:1]), axis=0)


def _buckets_of_nodes(game):
    """How many states each node has."""
    tree = game.rounds.tree
    return np.where(tree.actor >= 0, np.array(game.num_buckets)[tree.street], 0)


def _past_chance(tree: BettingTree) -> Int[np.ndarray, "X A"]:
    """The next decision or end after each action."""
    child = tree.child
    while (deals := tree.actor[child] == CHANCE).any():
        child = np.where(deals, tree.child[child, 0], child)
    return child


def _stakes(tree, potential):
    """The pot at the beginning of each node's round, and a part of what may be added to it."""
    pot = tree.paid.sum(axis=1) + tree.pot
    most, stake = pot.copy(), np.zeros(len(pot))
    for node in range(len(pot) - 1, 0, -1):
        most[tree.parent[node]] = max(most[tree.parent[node]], most[node])
    for node, above in enumerate(tree.parent):
        begins = above == NO_NODE or tree.actor[above] == CHANCE
        stake[node] = pot[node] + potential * (most[node] - pot[node]) if begins else stake[above]
    return stake


def _max_decisions(tree):
    depth = np.zeros(len(tree.actor), int)
    for node in range(1, len(depth)):
        depth[node] = depth[tree.parent[node]] + (tree.actor[tree.parent[node]] >= 0)
    return int(depth.max())


@record
class BucketUctLearner:
    """What is learned. Visits of a state must stay below 2^31."""

    table: Array  # [N + 1, A, 3] int32 visits, and low and high words of the actor's winnings
    batches: Array  # [] int32 how many there were
    uncarried: Array  # [] int32 episodes since low words were carried


def init(walk: BettingWalk, *, max_bytes: int = MAX_BYTES) -> BucketUctLearner:
    """Returns a learner before its first episode.

    Args:
      walk: the game.
      max_bytes: that the table may take.

    Raises:
      ValueError: the table takes more.
    """
    if walk.table_bytes > max_bytes:
        raise ValueError(
            f"the table of {walk.num_states:,} information states takes {walk.table_bytes:,} bytes;"
            f" max_bytes={max_bytes:,} are allowed: fewer buckets make it smaller"
        )
    return BucketUctLearner(
        table=jnp.zeros((walk.num_states + 1, walk.num_actions, 3), jnp.int32),
        batches=jnp.int32(0),
        uncarried=jnp.int32(0),
    )


def visits(learner: BucketUctLearner) -> Int[Array, "rows A"]:
    """How often each action was taken, `[N + 1, A]`; row N is of no state."""
    return learner.table[..., _VISITS]


def mean_winnings(learner: BucketUctLearner) -> Float[Array, "rows A"]:
    """What the actor won on average after each action `[N + 1, A]`, in chips; 0 without visits."""
    return _mean(learner.table)


def _mean(words):
    """Means `[...]` of winnings, from the words of actions `[..., 3]`."""
    count, low, high = (words[..., word].astype(jnp.float32) for word in (_VISITS, _LOW, _HIGH))
    return (high * 2.0**_LOW_BITS + low) / jnp.maximum(count, 1)


def average_policy(walk: BettingWalk, learner: BucketUctLearner) -> Float[Array, "rows A"]:
    """The frequencies of the actions in each state `[N + 1, A]`, uniform outside of the trees."""
    return match(visits(learner).T.astype(jnp.float32), walk.uniform.T).T


def greedy_policy(walk: BettingWalk, learner: BucketUctLearner) -> Float[Array, "rows A"]:
    """Policies `[N + 1, A]` that take the action of the highest mean among those that were tried;
    uniform outside of the trees.
    """
    tried = visits(learner) > 0
    best = jnp.argmax(jnp.where(tried, mean_winnings(learner), -jnp.inf), axis=1)
    chosen = jax.nn.one_hot(best, walk.num_actions, dtype=walk.uniform.dtype)
    return jnp.where(jnp.any(tried, axis=1, keepdims=True), chosen, walk.uniform)


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
    draw: Draw = deal_two_hands,
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
      draw: makes deals of the source, a key and their number. Static.

    Returns:
      The learner after these episodes.

    Raises:
      ValueError: `batch` is not positive, or so large that sums may overflow.
    """
    most = (2**31 - 2 ** (_LOW_BITS + 1)) // max(walk.max_chips, 1)
    if not 1 <= batch <= most:
        raise ValueError(f"batch={batch} must be from 1 to {most:,}")

    def body(_, learner):
        deal_key, play_key = jax.random.split(jax.random.fold_in(key, learner.batches))
        due = learner.uncarried > most - batch
        # a loop, as a conditional would copy the table
        table = jax.lax.fori_loop(0, due.astype(jnp.int32), lambda _, x: _carried(x), learner.table)
        learner = learner.replace(table=table, uncarried=jnp.where(due, 0, learner.uncarried))
        return play_batch(walk, learner, draw(source, deal_key, batch), play_key, settings=settings)

    return jax.lax.fori_loop(0, num_batches, body, learner)


def _carried(table):
    """The table with low words from 0 to 65535."""
    low = table[..., _LOW]
    table = table.at[..., _HIGH].add(low >> _LOW_BITS)
    return table.at[..., _LOW].set(low & (2**_LOW_BITS - 1))


def play_batch(
    walk: BettingWalk,
    learner: BucketUctLearner,
    deals: TwoHands,
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
        constant = jnp.minimum(settings.exploration, spot.stake)
        tree = tree_weights(tried, means, spot.legal, constant, noise[0], settings=settings)
        weights = [
            jnp.where(rolls_out, legal.astype(weight.dtype), weight)
            for legal, weight in zip(spot.legal, tree, strict=True)
        ]
        action = _picked(weights, noise[1])
        state = jnp.where(counts, spot.state, walk.num_states)
        return jnp.where(rolls_out, inside & ~bit, inside), action, (state, action, spot.actor)

    both_inside = jnp.full_like(deals.winner, 3)  # a bit for each player who has not left its tree
    winnings, (state, action, actor) = _play(walk, deals, key, choose, both_inside, width=2)
    own = jnp.where(actor == 0, winnings[None], -winnings[None])
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
        table=table, batches=learner.batches + 1, uncarried=learner.uncarried + len(winnings)
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


@record
class _Spot:
    """Where players act, in D episodes."""

    state: Array  # [D]
    actor: Array  # [D]
    legal: tuple[Array, ...]  # [D] by action
    stake: Array  # [D]


def _play(walk, deals, key, choose, carry, *, width):
    """Walks down the tree with all deals side by side: what player 0 wins `[D]`, and what `choose`
    has recorded `[T, D]`."""
    shape = walk.max_decisions, len(deals.winner)
    noise = tuple(uniform_numbers(k, shape) for k in jax.random.split(key, width))
    buckets = deals.bucket.reshape(-1, len(deals.winner))

    # winnings are computed on the way: at the end XLA would draw the deals anew for each decision
    def step(before, noise):
        node, row, _, carry = before
        num_actions, place = row[:, _ACTIONS], row[:, _PLACE]
        bucket = jnp.where(num_actions > 0, _selected(buckets, place), 0)
        spot = _Spot(
            state=_written(row[:, _FIRST] + bucket),
            actor=place % 2,
            legal=tuple(action < num_actions for action in range(walk.num_actions)),
            stake=walk.stake[node],
        )
        carry, action, recorded = choose(carry, spot, noise)
        children = [row[:, _CHILDREN + number] for number in range(walk.num_actions)]
        node = _selected(children, action)
        row = walk.rows[node]
        winnings = row[:, _FOLDED] + row[:, _SHOWN] * deals.winner
        return (node, row, winnings, carry), recorded

    nothing = jnp.zeros_like(deals.winner)
    (_, _, winnings, _), recorded = jax.lax.scan(
        step, (nothing, walk.rows[nothing], nothing, carry), noise
    )
    return winnings, recorded


def _written(array):
    """The array, computed once and kept: XLA would compute it anew for each reader."""
    return jax.lax.optimization_barrier(array)


def _selected(columns, index):
    """The entries `columns[index[d]][d]` of a few columns, without a gather."""
    chosen = columns[0]
    for number in range(1, len(columns)):
        chosen = jnp.where(index == number, columns[number], chosen)
    return chosen


def _picked(weights, noise):
    """Actions drawn in proportion to weights, as `episodes.pick_action` draws one."""
    bounds = list(itertools.accumulate(weights))
    aim = noise * bounds[-1]
    passed = [((aim >= bound) & (bounds[-1] > 0)).astype(jnp.int32) for bound in bounds[:-1]]
    return _written(sum(passed, jnp.zeros_like(noise, jnp.int32)))


def play(
    walk: BettingWalk, policy: Float[Array, "rows A"], deals: TwoHands, key: Key[Array, ""]
) -> tuple[Int[Array, " D"], Int[Array, " D"]]:
    """Plays a hand of each deal with fixed policies.

    Args:
      walk: the game.
      policy: of the actor in each state `[N + 1, A]`; `seated` puts two players together.
      deals: D of them.
      key: consumed.

    Returns:
      What player 0 wins of each deal, in chips; and the number of decisions.
    """

    def choose(carry, spot, noise):
        row = policy[spot.state]
        action = _picked([row[:, number] for number in range(walk.num_actions)], noise[0])
        return carry, action, spot.state < walk.num_states

    winnings, decided = _play(walk, deals, key, choose, (), width=1)
    return winnings, jnp.sum(decided, axis=0, dtype=jnp.int32)


def seated(
    walk: BettingWalk, first: Float[Array, "rows A"], second: Float[Array, "rows A"]
) -> Float[Array, "rows A"]:
    """The policy of `first` in the states of player 0, and of `second` in those of player 1."""
    return jnp.where(walk.owner[:, None] == 0, first, second)


def policy_tables(game: BucketGame, policy: Float[Array, "rows A"]) -> Tables:
    """A policy `[N + 1, A]` in the layout of blueprints, `[N, C, B, E]` by street and family.

    Rounds that do not exist, at the end of a last chunk, have zeros.

    Args:
      game: whose states these are.
      policy: or any other numbers of actions.
    """
    own = _buckets_of_nodes(game)
    first, width = np.cumsum(own) - own, policy.shape[1]
    flat, tables = policy.reshape(-1), [[] for _ in game.rounds.streets]
    for street, family, (chunks, columns, buckets, size) in game.shapes():
        actions = [
            (node, action)
            for node, edges in enumerate(family.template.actions)
            for action in range(len(edges))
        ]
        nodes = family.nodes[[node for node, _ in actions]]  # [C, M]
        state = first[nodes][:, None] + np.arange(buckets)[:, None]  # [C, B, M]
        place = state * width + np.array([action for _, action in actions])[:, None, None]
        place = np.pad(
            place,
            ((0, 0), (0, 0), (0, chunks * size - family.entries)),
            constant_values=own.sum() * width,
        )
        place = place.reshape(columns, buckets, chunks, size).transpose(2, 0, 1, 3)
        tables[street].append(flat[place])
    return tuple(map(tuple, tables))
