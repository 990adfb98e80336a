"""Walks down a betting tree with two hands by bucket, many hands of poker side by side.

An information state is a decision of the betting tree with a bucket of its street, so that players
forget the buckets of earlier streets (imperfect recall). Policies are tables with a row for each
state; those of the two players are different rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.arrays import written
from jaxgames.core import CHANCE, record
from jaxgames.holdem.betting_tree import FOLD, NO_NODE, SHOWDOWN, BettingTree
from solvers.blueprint.bucket_game import BucketGame, Tables
from solvers.blueprint.two_hands import TwoHands
from solvers.sampling.episodes import uniform_numbers

# the columns of a node: the states of the first bucket, the street and actor, the number of
# actions, what player 0 wins if hands are not shown and if it has the stronger one; then children
_FIRST, _PLACE, _ACTIONS, _FOLDED, _SHOWN, _CHILDREN = range(6)


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
class Spot:
    """Where players act, in D episodes."""

    state: Array  # [D]
    actor: Array  # [D]
    legal: tuple[Array, ...]  # [D] by action
    stake: Array  # [D]


# (carry, spot, noise by its number [D]) -> (carry, actions [D], what to record of the decisions)
Choose = Callable[
    [PyTree, Spot, tuple[Float[Array, " D"], ...]], tuple[PyTree, Int[Array, " D"], PyTree]
]


def walk_down(
    walk: BettingWalk,
    deals: TwoHands,
    key: Key[Array, ""],
    choose: Choose,
    carry: PyTree,
    *,
    width: int,
) -> tuple[Int[Array, " D"], PyTree]:
    """Walks down the tree with D deals side by side, from the root to the end.

    Args:
      walk: the game.
      deals: D of them.
      key: consumed.
      choose: the actions of all players. Where hands are over it is asked, too, without effect.
      carry: the first value of the carry.
      width: how many random numbers `choose` gets for each decision.

    Returns:
      What player 0 wins, in chips; and what was recorded, `[T, D]` for at most T decisions.
    """
    shape = walk.max_decisions, len(deals.winner)
    noise = tuple(uniform_numbers(k, shape) for k in jax.random.split(key, width))
    buckets = deals.bucket.reshape(-1, len(deals.winner))

    # winnings are computed on the way: at the end XLA would draw the deals anew for each decision
    def step(before, noise):
        node, row, _, carry = before
        num_actions, place = row[:, _ACTIONS], row[:, _PLACE]
        bucket = jnp.where(num_actions > 0, _selected(buckets, place), 0)
        spot = Spot(
            state=written(row[:, _FIRST] + bucket),
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


def _selected(columns, index):
    """The entries `columns[index[d]][d]` of a few columns, without a gather."""
    chosen = columns[0]
    for number in range(1, len(columns)):
        chosen = jnp.where(index == number, columns[number], chosen)
    return chosen


def picked(weights: Sequence[Float[Array, " D"]], noise: Float[Array, " D"]) -> Int[Array, " D"]:
    """Actions drawn in proportion to weights, as `episodes.pick_action` draws one."""
    bounds = list(itertools.accumulate(weights))
    aim = noise * bounds[-1]
    passed = [((aim >= bound) & (bounds[-1] > 0)).astype(jnp.int32) for bound in bounds[:-1]]
    return written(sum(passed, jnp.zeros_like(noise, jnp.int32)))


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
        action = picked([row[:, number] for number in range(walk.num_actions)], noise[0])
        return carry, action, spot.state < walk.num_states

    winnings, decided = walk_down(walk, deals, key, choose, (), width=1)
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
