"""The public trees of a batch of searches as one forest, laid out by levels, with static shapes.

A *node* is a public state that was expanded; its children are nodes, *leaves* or *terminals*. All
of them are *places*: rows of tables that hold both players' values there. The nodes of one depth at
which the same player acts are a class, and a class is a linked list of pages. So one loop over
levels carries reaches down the whole forest, another one carries values up, and every step reads
and writes whole pages, whichever searches their nodes belong to. Nodes never move. A leaf that is
expanded becomes a node at another place, and its own place is given to a new leaf.

Reaches come down by one rule. Where children are *straight* (rows keep their numbers), the reach of
a place is that of its parent, times the policy of the action that leads there, in the actor's half.
Elsewhere (*mapped*), a node writes the reaches of all its children, and the places copy theirs.

Tables of decisions (regrets, policies, averages) are kept by player, in the order of expansion.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from jaxgames.arrays import LONG
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.core import CHANCE, record
from solvers.search.pages import Pages, new_pages
from solvers.search.search_state import Evaluator

NO_NODE = -1
CHANCE_KIND = 2  # kinds of nodes: player 0 acts, player 1 acts, chance moves
KINDS = 3
# columns of `links`: where the reach of a place comes from, and where the place belongs
SOURCE, FACTOR_0, FACTOR_1, PARENT, CHILD, DEPTH, NUMBER, MAPPED = range(8)
LINKS = 8


@dataclasses.dataclass(frozen=True)
class Layout:
    """The sizes of a forest. Static under `jit`."""

    batch: int  # B searches
    nodes: int  # E nodes of a search at most
    decisions: tuple[int, int]  # D of them at most at which either player acts
    slots: int  # children of all of them at most
    rows: tuple[int, int]  # N of either player
    actions: tuple[int, int]  # A of either player
    children: int  # K, the numbers that children may have
    straight: tuple[bool, bool, bool]  # by kind of node: whether rows keep their numbers
    action_of_child: tuple[int, ...]  # where a straight decision's children come from
    levels: int  # depths of nodes
    page: int  # C places
    chunk: int  # leaves that are evaluated at once
    terminal_kinds: int
    most_terminals: int  # of a search
    most_leaves: int  # of a search
    listed: bool  # whether the leaves of each search are listed, for a log of queries
    keeps: bool  # whether leaves keep their values while beliefs hardly move
    # whether a step of a sweep takes a page of each kind, and other steps whole tables, because
    # steps cost more than room
    together: bool = False

    @property
    def single_row(self) -> bool:
        """Whether information is perfect: then leaves are valued once, at reach 1."""
        return self.rows == (1, 1)

    @property
    def numbered(self) -> bool:
        """Whether child k of a straight decision is where action k leads."""
        most = max(self.actions)
        return not any(self.straight[:2]) or self.action_of_child[:most] == (*range(most),)

    def actions_by_child(self, none: int = 0) -> Int[np.ndarray, " K"]:
        """The action that leads to each child of a straight decision; `none` where none does."""
        known = self.action_of_child
        return np.array([*known, *[none] * (self.children - len(known))], np.int32)

    @property
    def inner_pages(self) -> int:
        """Pages of nodes: every class has at most one that is not full."""
        classes = min(self.batch * self.nodes, KINDS * self.levels)
        return -(-self.batch * self.nodes // self.page) + classes + 1  # the last is not used

    @property
    def terminal_pages(self) -> int:
        """Pages of terminals."""
        return -(-self.batch * self.most_terminals // self.page) + self.terminal_kinds

    def terminal_page(self, number: Array | int) -> Array | int:
        """The first place of a page of terminals; pages are taken from the last places on."""
        return self.nowhere - (number + 1) * self.page

    @property
    def inner(self) -> int:
        """I, the places of nodes, which come first."""
        return self.inner_pages * self.page

    @property
    def leaves(self) -> int:
        """The places that leaves may have; they follow those of nodes."""
        return _rounded(self.batch * self.most_leaves, self.chunk)

    @property
    def outer(self) -> int:
        """The places of leaves and terminals: leaves fill them from the first one on, and pages of
        terminals from the last one on. The last chunk of leaves and the last page of each kind of
        terminals may not be full."""
        most = min(self.slots, self.most_leaves + self.most_terminals)
        return (
            _rounded(self.batch * most + self.terminal_kinds * self.page, self.chunk) + self.chunk
        )

    @property
    def nowhere(self) -> int:
        """The last place of all, at which values are 0: a child that does not exist."""
        return self.inner + self.outer

    @property
    def mapped_nodes(self) -> int:
        """M, the nodes that may write the reaches of their children."""
        sizes = zip((*self.decisions, self.nodes), self.straight, strict=True)
        return self.batch * min(self.nodes, sum(0 if straight else n for n, straight in sizes))

    @property
    def first_root(self) -> int:
        """Where the reaches at the roots of the searches begin, in the tables of reaches."""
        return self.inner + self.mapped_nodes * self.children

    @property
    def room(self) -> tuple[int, int]:
        """T', the lengths of both players' tables of decisions: the last ones are for writing B at
        a time, and the very last is 1 everywhere in the tables of policies."""
        spare = _rounded(self.batch + 1, self.page)
        first, second = self.most_decisions
        return first + spare, second + spare

    @property
    def most_decisions(self) -> tuple[int, int]:
        """The decisions of either player that there may be, all searches together, in blocks."""
        first, second = (_rounded(self.batch * most, self.page) for most in self.decisions)
        return first, second

    @property
    def no_decision(self) -> int:
        """The number of a decision that neither player has: it lies behind both tables."""
        return max(self.room)

    def policy_row(self, player: int, number: Array, action: Array | int) -> Array:
        """The row of a player's action at a decision in a table `[A, T', N]` seen as
        `[A * T', N]`; rows of ones if there is no such decision."""
        return action * self.room[player] + jnp.minimum(number, self.room[player] - 1)


def _rounded(count, multiple):
    return -(-count // multiple) * multiple


@record
class Decisions:
    """The tables of one player's decisions; beyond the first `count` they are 0."""

    count: Array  # [] int32
    place: Array  # [T'] int32 of the node
    uniform: Array  # [A, T', N] over legal actions
    prior: Array  # [A, T', N]
    regret: Array  # [A, T', N]
    policy: Array  # [A, T', N] of the next iteration; the last of all decisions is 1 everywhere
    average: Array  # [A, T', N] sum of weight times own reach times policy
    visits: Array  # [A, T', N] simulations that took an action
    action_values: Array | None  # [T', A, N] in the last iteration, where children are mapped


@record
class OpenLeaves:
    """The leaves of each search in any order."""

    place: Array  # [B, L] int32, of which the first `count` are in use
    count: Array  # [B] int32
    spot: Array  # [leaves] int32 where a leaf is in the list of its search


@record
class KnownLeaves:
    """The evaluator's values and priors of leaves, where they never change (N = 1)."""

    values: tuple[Array, Array]  # [leaves, 1] at reach 1
    prior: Array  # [leaves, A] of who acts; A of the player who has more


@record
class KeptLeaves:
    """Values of leaves that serve until beliefs move; see `solvers.search.kept_leaves`."""

    values: tuple[Array, Array]  # [leaves, N] per unit of the opponent's reach
    beliefs: tuple[Array, Array]  # [leaves, N] at which they were valued: reaches that sum to 1
    valued: Array  # [leaves] bool; False: new


@record
class Forest:
    """The trees of B searches; I places of nodes come first, then leaves; terminals come last."""

    pages: Pages  # of nodes, by depth and kind
    terminals: Pages  # of terminals, by kind
    num_leaves: Array  # [] int32 places of leaves that were ever taken
    free: Array  # [L] int32 places of leaves that were given back
    num_free: Array  # [] int32
    deepest: Array  # [] int32 depth of the deepest node
    mapped: Array  # [] int32 mapped nodes so far
    links: Array  # [I + O, LINKS] int32
    masks: tuple[Array, Array]  # [I + O, N] bool of either player: rows that exist
    state: PublicState  # [I + O, ...]
    pointers: Array  # [I, K] int32 places of children
    since: Array  # [I] sum of the iterations' weights when the node was added
    decisions: tuple[Decisions, Decisions]
    reach: tuple[Array, Array]  # [I + M * K + B, N] nodes, children of mapped ones, roots
    reach_total: tuple[Array, Array]  # [I, N]
    values: tuple[Array, Array]  # [I + O + 1, N] in the last iteration
    values_total: tuple[Array, Array]  # [I + O + 1, N] their weighted sum
    count: Array  # [B] int32 nodes of each search
    decided: Array  # [B, 2] int32 of them at which either player acts
    slots: Array  # [B] int32 children of its nodes
    nodes: Array  # [B, E] int32 places of each search's nodes, in the order of expansion
    index: Array  # [I] int32 a node's number in its search
    leaves: OpenLeaves | None
    known: KnownLeaves | None
    kept: KeptLeaves | None
    prepared: PyTree  # [leaves, ...] what the evaluator computed of leaves ahead, or None


def new_forest(
    game: BeliefGame, params: PyTree, layout: Layout, dtype: jnp.dtype, *, evaluate: Evaluator
) -> Forest:
    """A forest without nodes."""
    places = layout.inner + layout.outer
    state = jax.eval_shape(game.root)
    zeros = lambda *shape: tuple(jnp.zeros((*shape, n), dtype) for n in layout.rows)  # noqa: E731
    links = np.zeros((1, LINKS), np.int32)
    links[0, [FACTOR_0, FACTOR_1]] = [room - 1 for room in layout.room]
    links[0, NUMBER] = layout.no_decision
    links[0, [SOURCE, MAPPED]] = layout.inner - 1, layout.mapped_nodes
    return Forest(
        pages=new_pages(KINDS * layout.levels, layout.inner_pages, owned=layout.together),
        terminals=new_pages(layout.terminal_kinds, layout.terminal_pages, owned=layout.together),
        num_leaves=jnp.int32(0),
        free=jnp.zeros(layout.leaves, jnp.int32),
        num_free=jnp.int32(0),
        deepest=jnp.int32(0),
        mapped=jnp.int32(0),
        links=jnp.broadcast_to(links, (places, LINKS)),
        masks=tuple(jnp.zeros((places, n), bool) for n in layout.rows),
        state=jax.tree.map(lambda x: jnp.zeros((places, *x.shape), x.dtype), state),
        pointers=jnp.full((layout.inner, layout.children), layout.nowhere, jnp.int32),
        since=jnp.zeros(layout.inner, dtype),
        decisions=tuple(_no_decisions(layout, p, dtype) for p in range(2)),
        reach=zeros(layout.first_root + layout.batch),
        reach_total=zeros(layout.inner),
        values=zeros(places + 1),
        values_total=zeros(places + 1),
        count=jnp.zeros(layout.batch, jnp.int32),
        decided=jnp.zeros((layout.batch, 2), jnp.int32),
        slots=jnp.zeros(layout.batch, jnp.int32),
        nodes=jnp.full((layout.batch, layout.nodes), layout.inner, jnp.int32),
        index=jnp.zeros(layout.inner, jnp.int32),
        leaves=_no_leaves(layout) if layout.listed else None,
        known=_nothing_known(layout, dtype) if layout.single_row else None,
        kept=_nothing_kept(layout, dtype) if layout.keeps else None,
        prepared=_nothing_prepared(game, params, layout, evaluate),
    )


def prepares(layout: Layout, evaluate: Evaluator) -> bool:
    """Whether an evaluator prepares leaves: where it can, and is asked again and again."""
    return hasattr(evaluate, "prepare") and not layout.single_row


def _nothing_prepared(game, params, layout, evaluate):
    if not prepares(layout, evaluate):
        return None
    one = jax.eval_shape(lambda: evaluate.prepare(params, game, game.root()))
    return jax.tree.map(lambda x: jnp.zeros((layout.leaves, *x.shape), x.dtype), one)


def _no_leaves(layout):
    return OpenLeaves(
        place=jnp.zeros((layout.batch, layout.most_leaves), jnp.int32),
        count=jnp.zeros(layout.batch, jnp.int32),
        spot=jnp.zeros(layout.leaves, jnp.int32),
    )


def _nothing_known(layout, dtype):
    worth = jnp.zeros((layout.leaves, 1), dtype)
    return KnownLeaves(
        values=(worth, worth), prior=jnp.zeros((layout.leaves, max(layout.actions)), dtype)
    )


def _nothing_kept(layout, dtype):
    tables = tuple(jnp.zeros((layout.leaves, rows), dtype) for rows in layout.rows)
    return KeptLeaves(values=tables, beliefs=tables, valued=jnp.zeros(layout.leaves, bool))


def _no_decisions(layout, player, dtype):
    room, actions, rows = (x[player] for x in (layout.room, layout.actions, layout.rows))
    table = jnp.zeros((actions, room, rows), dtype)
    mapped = None if layout.straight[player] else jnp.zeros((room, actions, rows), dtype)
    return Decisions(
        count=jnp.int32(0),
        place=jnp.full(room, layout.inner - 1, jnp.int32),
        uniform=table,
        prior=table,
        regret=table,
        policy=table.at[:, -1].set(1),
        average=table,
        visits=table,
        action_values=mapped,
    )


# Reading


def kind_of(actor: Int[Array, "*B"]) -> Int[Array, "*B"]:
    """The kinds of nodes at which these act; terminals have that of player 0."""
    return jnp.where(actor == CHANCE, CHANCE_KIND, jnp.maximum(actor, 0))


def actor_of(kind: int) -> int:
    """0, 1 or CHANCE: who acts at nodes of a kind."""
    return CHANCE if kind == CHANCE_KIND else kind


def decision_rows(table: Array, number: Int[Array, " n"]) -> Array:
    """The rows `[n, A, N]` of some decisions in a table `[A, T', N]`."""
    return jnp.moveaxis(table[:, number], 0, 1)


def average_policies(decisions: Decisions, number: Int[Array, " n"]) -> Array:
    """The average policies `[n, A, N]` at some decisions; present ones in rows never reached."""
    total = decision_rows(decisions.average, number)
    present = decision_rows(decisions.policy, number)
    mass = jnp.sum(total, axis=1, keepdims=True)
    return jnp.where(mass > 0, total / jnp.where(mass > 0, mass, 1), present)


def reach_at(
    forest: Forest, place: Int[Array, "*B"], reach: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Both players' own reaches `[*B, N]` at some places, by the present policies.

    Args:
      forest: the forest.
      place: any places.
      reach: of all nodes, as `Forest.reach`.
    """
    return reach_along(
        forest, take(forest.links, place), [take(x, place) for x in forest.masks], reach
    )


def reach_along(
    forest: Forest, links: Array, masks: Sequence[Array], reach: tuple[Array, Array]
) -> tuple[Array, Array]:
    """The same, from the links and the masks of the places."""
    first, second = (
        jnp.where(
            masks[p],
            take(reach[p], links[..., SOURCE])
            * take(factor_rows(forest.decisions[p]), links[..., FACTOR_0 + p]),
            0,
        )
        for p in range(2)
    )
    return first, second


def take(table: Array, index: Array) -> Array:
    """Rows of a table by numbers that are in range."""
    return table.at[index].get(mode="promise_in_bounds")


def factor_rows(decisions: Decisions) -> Array:
    """The present policies as rows `[A * T', N]`."""
    return decisions.policy.reshape(-1, decisions.policy.shape[2])


def action_values_at(
    forest: Forest, layout: Layout, player: int, pointers: Int[Array, "n K"], row: Array | None
) -> Float[Array, "A ..."]:
    """A player's values of its actions at straight decisions, from those of the children.

    Args:
      forest: the forest.
      layout: of the forest.
      player: 0 or 1.
      pointers: places of the children.
      row: of each decision; None: all rows.
    """
    table, child = forest.values[player], layout.action_of_child
    index = () if row is None else (row,)
    if layout.children > LONG and layout.numbered:
        return table[(pointers[:, : layout.actions[player]].T, *index)]
    by_action = [[] for _ in range(layout.actions[player])]
    for k, action in enumerate(child):
        if action < len(by_action):
            by_action[action].append(table[(pointers[:, k], *index)])
    none = jnp.zeros_like(table[(pointers[:, 0], *index)])
    return jnp.stack([sum(values[1:], values[0]) if values else none for values in by_action])
