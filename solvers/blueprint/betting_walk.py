"""Walks through the betting with a bucket for each hand, many hands of poker side by side.

An information state is a decision, after one history of bets, with a bucket of its street, so that
players forget the buckets of earlier streets (imperfect recall). Policies are tables with a row for
each state; those of different players are different rows.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.arrays import select_entry, written
from jaxgames.core import record
from jaxgames.holdem.betting_graph import END, BettingGraph, graph_of_tree
from jaxgames.holdem.betting_tree import NO_NODE
from solvers.blueprint.bucket_game import BucketGame, Tables
from solvers.blueprint.dealt_hands import DealtHands
from solvers.sampling.episodes import uniform_numbers

# The columns of an action. Where it leads to: the first information state, the number of buckets,
# street and actor, the number of actions, the row of the first of them, what players may still add
# at the beginning of a round (else -1), and who is still in (bits). What it does: the change of the
# number of a history, and the chips it costs.
_FIRST, _BUCKETS, _PLACE, _ACTIONS, _NEXT, _REMAINING, _STILL_IN, _OFFSET, _ADDED = range(9)


@record
class BettingWalk:
    """A betting graph for episodes: X nodes, P players, N information states, A actions. Tables
    over states have a last row N, of no state, for episodes that are over.

    Winnings are whole numbers of *parts* of a chip, so that pots can be shared. Two players need no
    parts, three need halves: if all share a pot, everybody gets back what it has paid.
    """

    rows: Array  # [E, 9] int32: the root, and all actions of all nodes
    start: Array  # [P] int32 chips in the pot at the root
    states: Array  # [X + 1] int32 information states of each node; 1 for no state
    widths: Array  # [X + 1] int32 actions of each node; 0 for no state
    num_states: int = flax.struct.field(pytree_node=False)  # N
    num_actions: int = flax.struct.field(pytree_node=False)  # A
    max_decisions: int = flax.struct.field(pytree_node=False)  # of an episode
    max_chips: int = flax.struct.field(pytree_node=False)  # that a player may win or lose, in parts
    potential: float | None = flax.struct.field(pytree_node=False)  # as of `betting_walk`

    @property
    def num_players(self) -> int:
        """P."""
        return len(self.start)

    @property
    def parts(self) -> int:
        """How many parts a chip has."""
        return math.lcm(*range(1, self.num_players))

    @property
    def uniform(self) -> Float[Array, "rows A"]:
        """The uniform policy `[N + 1, A]`, 0 in row N."""
        count = self.widths[:-1, None]
        legal = jnp.arange(self.num_actions, dtype=jnp.int32)[None] < count
        even = legal.astype(jnp.float32) / jnp.maximum(count, 1).astype(jnp.float32)
        return in_all_states(self, even)

    @property
    def table_bytes(self) -> int:
        """Bytes of a learner's table."""
        return 4 * 3 * (self.num_states + 1) * self.num_actions

    @property
    def policy_bytes(self) -> int:
        """Bytes of a policy in all states."""
        return 4 * (self.num_states + 1) * self.num_actions


def betting_walk(game: BucketGame, *, potential: float | None = 0.5) -> BettingWalk:
    """Lays out a game of two players for episodes; states are in the order of its betting tree.

    Args:
      game: the tree and its buckets.
      potential: k of equation 3: at the beginning of each round the exploration constant is at most
        the pot plus k times what the players may still add to it. None: it is a constant.

    Raises:
      ValueError: half the pot at the root is not whole.
    """
    return walk_of_graph(graph_of_tree(game.rounds.tree), game.num_buckets, potential=potential)


def walk_of_graph(
    graph: BettingGraph, num_buckets: Sequence[int], *, potential: float | None = 0.5
) -> BettingWalk:
    """Lays out a betting graph for episodes.

    Args:
      graph: of any number of players.
      num_buckets: by street.
      potential: as of `betting_walk`.

    Raises:
      ValueError: the buckets are of another number of streets, or there are 2^31 information states
        or more.
    """
    decides = graph.actor != END
    if len(num_buckets) != graph.street.max() + 1:
        raise ValueError(f"num_buckets={num_buckets} must be of {graph.street.max() + 1} streets")
    buckets = np.where(decides, np.array(num_buckets)[graph.street], 0)
    own = graph.histories * buckets
    if own.sum() >= 2**31:
        raise ValueError(
            f"num_buckets={num_buckets} make {own.sum():,} information states; fewer than"
            f" {2**31:,} are allowed"
        )
    players, actions = graph.num_players, graph.child != NO_NODE
    width, to = actions.sum(axis=1), _destinations(graph)
    nodes = [
        np.where(decides, np.cumsum(own) - own, own.sum()),
        buckets,
        np.where(decides, players * graph.street + graph.actor, 0),
        width,
        1 + np.cumsum(width) - width,
        np.where(decides & graph.begins, graph.max_added, -1),
        graph.still_in @ 2 ** np.arange(players),
    ]
    moves = [np.append(0, each[actions]) for each in (graph.offset, graph.added)]
    largest = int(graph.start.sum() + graph.max_added[0])  # the winner pays as much as any other
    return BettingWalk(
        rows=jnp.asarray(np.column_stack([*np.column_stack(nodes)[to].T, *moves]), jnp.int32),
        start=jnp.asarray(graph.start, jnp.int32),
        states=jnp.asarray(np.append(own, 1), jnp.int32),
        widths=jnp.asarray(np.append(width, 0), jnp.int32),
        num_states=int(own.sum()),
        num_actions=graph.child.shape[1],
        max_decisions=graph.max_decisions,
        max_chips=math.lcm(*range(1, players)) * largest * (players - 1) // players,
        potential=potential,
    )


def _destinations(graph):
    """The nodes `[E]` to which the rows of a walk lead."""
    return np.append(0, graph.child[graph.child != NO_NODE])


def places_of_actions(graph: BettingGraph, names: Sequence[str]) -> Int[Array, "E R1"]:
    """The number of the action with each of R names at each row of a walk, -1 if there is none.

    The last column is -1: no action.
    """
    places = np.full((len(graph.actor), len(names) + 1), -1)
    for node, actions in enumerate(graph.actions):
        places[node, [names.index(name) for name in actions]] = np.arange(len(actions))
    return jnp.asarray(places[_destinations(graph)], jnp.int32)


def follow(
    walk: BettingWalk, places: Int[Array, "E R1"], history: Int[Array, " T"]
) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """Where a history of actions leads to.

    Args:
      walk: the game.
      places: of the actions, as of `places_of_actions`.
      history: actions by the numbers of their names, then -1.

    Returns:
      The walk's row, and the information state there of the first bucket.
    """

    def act(before, action):
        row, number = before
        place = places[row, action]
        after = jnp.where(place < 0, row, walk.rows[row, _NEXT] + place)
        return (after, number + jnp.where(place < 0, 0, walk.rows[after, _OFFSET])), None

    # not unrolled: XLA would fuse the steps, and compile each several times for the next one
    (row, number), _ = jax.lax.scan(act, (jnp.int32(0), jnp.int32(0)), history)
    return row, walk.rows[row, _FIRST] + number * walk.rows[row, _BUCKETS]


def in_all_states(walk: BettingWalk, policy: Float[Array, "X A"]) -> Float[Array, "rows A"]:
    """Policies of information states `[N + 1, A]` from those of the walk's nodes, whatever the
    history and the bucket; 0 in the last row.
    """
    rows = jnp.append(policy, jnp.zeros_like(policy[:1]), axis=0)
    return jnp.repeat(rows, walk.states, axis=0, total_repeat_length=walk.num_states + 1)


def in_all_buckets(
    game: BucketGame, policy: Float[np.ndarray, "X A"]
) -> Float[np.ndarray, "rows A"]:
    """Policies of information states `[N + 1, A]` from those of the tree's nodes, whatever the
    bucket; 0 in the last row.
    """
    rows = np.repeat(policy, _buckets_of_nodes(game), axis=0)
    return np.append(rows, np.zeros_like(policy[:1]), axis=0)


def _buckets_of_nodes(game):
    """How many states each node of the betting tree has."""
    tree = game.rounds.tree
    return np.where(tree.actor >= 0, np.array(game.num_buckets)[tree.street], 0)


@record
class Spot:
    """Where players act, in D episodes."""

    row: Array  # [D] of the walk's rows, the one that led here
    state: Array  # [D]
    actor: Array  # [D]
    legal: tuple[Array, ...]  # [D] by action
    exploration_limit: Array  # [D] the exploration constant is at most this, in chips


@record
class PolicyByNode:
    """What is done at each node of the betting, whatever the history and the bucket: a function of
    a `Spot`."""

    rows: Array  # [E, A] by row of the walk

    def __call__(self, spot: Spot) -> list[Float[Array, " D"]]:
        """The weights of the actions."""
        return _columns(self.rows, spot.row)


def policy_by_node(graph: BettingGraph, policy: Float[np.ndarray, "X A"]) -> PolicyByNode:
    """A policy for walks of a graph, from those of its nodes."""
    return PolicyByNode(rows=jnp.asarray(policy[_destinations(graph)], jnp.float32))


# of a spot, the weights by which the actions are drawn; a pytree, if it has arrays
Policy = Callable[[Spot], Sequence[Float[Array, " D"]]]
# (carry, spot, noise by its number [D]) -> (carry, actions [D], what to record of the decisions)
Choose = Callable[
    [PyTree, Spot, tuple[Float[Array, " D"], ...]], tuple[PyTree, Int[Array, " D"], PyTree]
]


def walk_down(
    walk: BettingWalk,
    deals: DealtHands,
    key: Key[Array, ""],
    choose: Choose,
    carry: PyTree,
    *,
    width: int,
) -> tuple[tuple[Int[Array, " D"], ...], PyTree]:
    """Walks through the betting with D deals side by side, from the root to the end.

    Args:
      walk: the game.
      deals: D of them.
      key: consumed.
      choose: the actions of all players. Where hands are over it is asked, too, without effect.
      carry: the first value of the carry.
      width: how many random numbers `choose` gets for each decision.

    Returns:
      What each player wins, in parts of a chip, P arrays `[D]`; and what was recorded, `[T, D]` for
      at most T decisions.
    """
    shape = walk.max_decisions, deals.strength.shape[1]
    noise = tuple(uniform_numbers(k, shape) for k in jax.random.split(key, width))
    buckets = deals.bucket.reshape(-1, shape[1])

    def state_of(row, history):
        bucket = jnp.where(row[:, _ACTIONS] > 0, select_entry(buckets, row[:, _PLACE]), 0)
        return row[:, _FIRST] + history * row[:, _BUCKETS] + bucket

    # winnings are computed on the way: at the end XLA would draw the deals anew for each decision;
    # and states and the numbers of rows are carried: in a gather it would compute them many times
    def step(before, noise):
        at, row, history, state, paid, limit, _, carry = before
        num_actions, actor = row[:, _ACTIONS], row[:, _PLACE] % walk.num_players
        limit = _exploration_limit(walk, row[:, _REMAINING], paid, limit)
        legal = tuple(action < num_actions for action in range(walk.num_actions))
        spot = Spot(row=at, state=state, actor=actor, legal=legal, exploration_limit=limit)
        carry, action, recorded = choose(carry, spot, noise)
        at = jnp.where(num_actions > 0, row[:, _NEXT] + action, at)
        row = _rows(walk.rows, at)
        added, offset = (
            jnp.where(num_actions > 0, row[:, column], 0) for column in (_ADDED, _OFFSET)
        )
        history = history + offset
        paid = [chips + jnp.where(actor == player, added, 0) for player, chips in enumerate(paid)]
        winnings = _winnings(walk, row[:, _STILL_IN], paid, deals.strength)
        return (at, row, history, state_of(row, history), paid, limit, winnings, carry), recorded

    nothing = jnp.zeros_like(deals.strength[0])
    row = _rows(walk.rows, nothing)
    paid = [jnp.broadcast_to(chips, nothing.shape) for chips in walk.start]
    limit = jnp.full_like(nothing, jnp.inf, jnp.float32)
    start = nothing, row, nothing, state_of(row, nothing), paid, limit, [nothing] * len(paid), carry
    (*_, winnings, _), recorded = jax.lax.scan(step, start, noise)
    return tuple(winnings), recorded


def _rows(table, index):
    """Rows of a table, whose numbers exist."""
    return table.at[index].get(mode="promise_in_bounds")


def _columns(table, index):
    """The columns of some rows of a table."""
    rows = _rows(table, index)
    return [rows[:, column] for column in range(table.shape[1])]


def _exploration_limit(walk, remaining, paid, before):
    """Equation 3: the pot at the beginning of this round, plus k times what may be added to it."""
    if walk.potential is None:
        return before
    limit = sum(paid).astype(jnp.float32) + walk.potential * remaining.astype(jnp.float32)
    return jnp.where(remaining >= 0, limit, before)


def _winnings(walk, still_in, paid, strength):
    """What each player wins if the hand is over: those with the strongest hand of those who are
    still in share the pot."""
    stands = [(still_in >> player) & 1 for player in range(walk.num_players)]
    shown = [jnp.where(stand > 0, hand, -1) for stand, hand in zip(stands, strength, strict=True)]
    best = functools.reduce(jnp.maximum, shown)
    wins = [(hand == best).astype(jnp.int32) for hand in shown]
    winners, pot = sum(wins), sum(paid)
    shares = [pot * (walk.parts // number) for number in range(1, walk.num_players)]
    share = select_entry(shares, winners - 1)
    return [
        jnp.where(winners == walk.num_players, 0, win * share - walk.parts * chips)
        for win, chips in zip(wins, paid, strict=True)
    ]


def picked(weights: Sequence[Float[Array, " D"]], noise: Float[Array, " D"]) -> Int[Array, " D"]:
    """Actions drawn in proportion to weights, as `episodes.pick_action` draws one."""
    bounds = list(itertools.accumulate(weights))
    aim = noise * bounds[-1]
    passed = [((aim >= bound) & (bounds[-1] > 0)).astype(jnp.int32) for bound in bounds[:-1]]
    return written(sum(passed, jnp.zeros_like(noise, jnp.int32)))


def play(
    walk: BettingWalk,
    policies: Sequence[Float[Array, "rows A"] | Policy],
    deals: DealtHands,
    key: Key[Array, ""],
    *,
    seats: Int[Array, " P"],
) -> tuple[Int[Array, "P D"], Int[Array, " D"]]:
    """Plays a hand of each deal with fixed policies.

    Args:
      walk: the game.
      policies: in all states `[N + 1, A]`, or functions of spots.
      deals: D of them.
      key: consumed.
      seats: the number of each player's policy.

    Returns:
      What each player wins of each deal, in parts of a chip; and the number of decisions.
    """

    def choose(carry, spot, noise):
        given = [
            policy(spot) if callable(policy) else _columns(policy, spot.state)
            for policy in policies
        ]
        number = seats[spot.actor]
        weights = [select_entry(columns, number) for columns in zip(*given, strict=True)]
        return carry, picked(weights, noise[0]), spot.state < walk.num_states

    winnings, decided = walk_down(walk, deals, key, choose, (), width=1)
    return jnp.stack(winnings), jnp.sum(decided, axis=0, dtype=jnp.int32)


def policy_tables(game: BucketGame, policy: Float[Array, "rows A"]) -> Tables:
    """A policy `[N + 1, A]` in the layout of blueprints, `[N, C, B, E]` by street and family.

    Rounds that do not exist, at the end of a last chunk, have zeros.

    Args:
      game: whose states these are.
      policy: or any other numbers of actions.
    """
    flat, tables = policy.reshape(-1), [[] for _ in game.rounds.streets]
    for street, place in _places(game, policy.shape[1]):
        tables[street].append(flat[place])
    return tuple(map(tuple, tables))


def state_rows(game: BucketGame, tables: Tables) -> Float[Array, "rows A"]:
    """A policy in all states `[N + 1, A]`, 0 in the last row, from the layout of blueprints."""
    states, width = _buckets_of_nodes(game).sum(), game.rounds.tree.child.shape[1]
    flat = jnp.zeros((states + 1) * width, jnp.float32)
    for table, (_, place) in zip(itertools.chain(*tables), _places(game, width), strict=True):
        flat = flat.at[place].set(table)
    return flat.reshape(-1, width).at[-1].set(0)


def _places(game, width):
    """Street by street and family by family, where in rows of actions `[(N + 1) A]` the entries of
    a table `[N, C, B, E]` are; in row N those of rounds that do not exist."""
    own = _buckets_of_nodes(game)
    first = np.cumsum(own) - own
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
        yield street, place.reshape(columns, buckets, chunks, size).transpose(2, 0, 1, 3)
