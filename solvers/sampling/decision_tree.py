"""A game compiled for sampling: its decisions, and the lotteries of chance between them.

Places are the histories in which a player acts and the terminal ones; chance is not a place. What
follows an action, and the start of the game, is a lottery over neighbouring places, drawn from in
constant time (Walker 1977). All that a step of an episode needs of a place is one row of one table,
so thousands of episodes go side by side under `jax.vmap`, each at a place of its own.
"""

from __future__ import annotations

from typing import ClassVar

import flax.struct
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from jaxgames.core import TERMINAL, Game, record
from jaxgames.game_tree import MAX_HISTORIES, GameTree, enumerate_game, levels
from solvers.regret import match
from solvers.sampling.episodes import Playable
from solvers.sequence_form import Policy
from solvers.sequence_form.sweeps import sum_actions


@record
class Lotteries:
    """L lotteries with O tickets in all."""

    first: Array  # [L] int32 first ticket
    count: Array  # [L] int32 number of tickets
    share: Array  # [O] of a ticket that is its own; the rest is another's
    other: Array  # [O] int32 that other ticket
    place: Array  # [O] int32 what a ticket stands for


@record
class DecisionTree(Playable):
    """X places, N information states (of all players, one player after the other), P players,
    A actions.

    Tables of information states have one row more than there are, N: of nobody, where an episode is
    over. The columns of `table` are the actor, the information state, the first place after each
    action, and the number of places after each action: 0 if it is illegal. An episode starts at one
    of the first `num_starts` places.
    """

    table: Array  # [X, 2 + 2 A] int32
    history: Array  # [X] int32 row of each place in the explicit tree
    payoffs: Array  # [X, P], 0 at decisions
    uniform: Array  # [N + 1, A] uniform policy over legal actions, 0 in row N
    share: Array | None  # [X] of a place in its lottery, if that is unfair; the rest is another's
    other: Array | None  # [X] int32 that other place; None: all lotteries are fair
    worlds: Lotteries  # by information state: where it may be, by what chance alone makes likely
    nowhere: int = flax.struct.field(pytree_node=False)  # one of the terminals
    num_starts: int = flax.struct.field(pytree_node=False)
    num_decisions: tuple[int, ...] = flax.struct.field(pytree_node=False)  # [P] states of each
    longest: int = flax.struct.field(pytree_node=False)  # decisions of an episode, at most
    game: str = flax.struct.field(pytree_node=False)
    luck_of_chance: ClassVar[int] = 1

    @property
    def num_players(self) -> int:
        """P."""
        return self.payoffs.shape[1]

    @property
    def num_actions(self) -> int:
        """A."""
        return self.uniform.shape[1]

    @property
    def num_states(self) -> int:
        """N."""
        return sum(self.num_decisions)

    @property
    def actor(self) -> Int[Array | np.ndarray, " X"]:
        """Who acts at each place; TERMINAL where the game is over."""
        return self.table[:, 0]

    @property
    def state(self) -> Int[Array | np.ndarray, " X"]:
        """The actor's information state at each place, N at terminals."""
        return self.table[:, 1]

    def start(self, luck: Float[Array, "1"]) -> Int[Array, ""]:
        """The first place of an episode."""
        return self._drawn(jnp.int32(0), jnp.int32(self.num_starts), luck[0])

    def at(self, place: Int[Array, ""]) -> DecisionNode:
        """What is known of a place."""
        row, actions = self.table[place], self.num_actions
        return DecisionNode(
            actor=row[0], state=row[1], first=row[2 : 2 + actions], count=row[2 + actions :]
        )

    def after(
        self, node: DecisionNode, action: Int[Array, ""], luck: Float[Array, "1"]
    ) -> Int[Array, ""]:
        """The place after an action, by what is known; a terminal stays where it is."""
        return self._drawn(
            select_entry(node.first, action), select_entry(node.count, action), luck[0]
        )

    def payoffs_at(self, place: Int[Array, ""]) -> Float[Array, " P"]:
        """What the players get if the game is over there, else 0."""
        return self.payoffs[place]

    def _drawn(self, first, count, luck):
        place, over = _ticket(first, count, luck)
        if self.share is None:
            return place
        return jnp.where(over < self.share[place], place, self.other[place])


@record
class DecisionNode:
    """What is known of one place."""

    actor: Array  # [] int32
    state: Array  # [] int32
    first: Array  # [A] int32
    count: Array  # [A] int32

    @property
    def uniform(self) -> Float[Array, " A"]:
        """The uniform policy over legal actions; 0 where the game is over."""
        legal = self.count > 0
        total = sum_actions(legal.astype(jnp.float32))
        return legal.astype(jnp.float32) / jnp.maximum(total, 1)


def build_decision_tree(
    game: Game | GameTree, *, max_histories: int = MAX_HISTORIES
) -> DecisionTree:
    """Compiles a game, or its explicit tree.

    Raises:
      TreeTooLargeError: more than `max_histories` histories, with an estimate of how many.
      ValueError: no player ever acts.
    """
    tree = game if isinstance(game, GameTree) else enumerate_game(game, max_histories=max_histories)
    if not (tree.actor >= 0).any():
        raise ValueError(f"{tree.game}: no player ever acts")
    lottery, weight = _lotteries(tree)
    places = np.flatnonzero(((tree.actor >= 0) | (tree.actor == TERMINAL)) & (weight > 0))
    places = places[np.argsort(lottery[places], kind="stable")]  # the start's come first
    share, other = _aliases(lottery[places], weight[places])
    fair = bool((share == 1).all())
    actor = tree.actor[places]
    acts, begin = actor >= 0, np.concatenate([[0], np.cumsum(tree.num_decisions)])
    own = tree.information_state[places, np.maximum(actor, 0)] + begin[np.maximum(actor, 0)]
    state = np.where(acts, own, begin[-1])
    first, count = _children(tree, places, lottery[places])
    legal = np.concatenate([tree.legal_actions(p) for p in range(tree.num_players)])
    uniform = np.concatenate([legal / legal.sum(axis=1, keepdims=True), np.zeros_like(legal[:1])])
    return DecisionTree(
        table=jnp.asarray(np.column_stack([actor, state, first, count]), jnp.int32),
        history=jnp.asarray(places, jnp.int32),
        payoffs=jnp.asarray(tree.returns[places] * ~acts[:, None], jnp.float32),
        uniform=jnp.asarray(uniform, jnp.float32),
        share=None if fair else jnp.asarray(share, jnp.float32),
        other=None if fair else jnp.asarray(other, jnp.int32),
        worlds=build_lotteries(
            tree.chance_reach()[places[acts]], state[acts], np.flatnonzero(acts)
        ),
        nowhere=int(np.flatnonzero(~acts)[0]),
        num_starts=int((lottery[places] == 0).sum()),
        num_decisions=tree.num_decisions,
        longest=int(_decisions_before(tree).max()),
        game=tree.game,
    )


def select_entry(values: Shaped[Array, "A ..."], number: Int[Array, "..."]) -> Shaped[Array, "..."]:
    """`values[number]`, by comparisons: on CPU to look up one of few costs more."""
    found = jnp.broadcast_to(values[0], jnp.broadcast_shapes(values[0].shape, number.shape))
    for index in range(1, len(values)):
        found = jnp.where(number == index, values[index], found)
    return found


def build_lotteries(
    weight: Float[np.ndarray, " n"], lottery: Int[np.ndarray, " n"], place: Int[np.ndarray, " n"]
) -> Lotteries:
    """What draws places in proportion to their weights, by lottery; each has some place, all in
    order of their number."""
    order = np.argsort(lottery, kind="stable")
    weight, lottery, place = weight[order], lottery[order], place[order]
    _, first, count = np.unique(lottery, return_index=True, return_counts=True)
    share, other = _aliases(lottery, weight)
    return Lotteries(
        first=jnp.asarray(first, jnp.int32),
        count=jnp.asarray(count, jnp.int32),
        share=jnp.asarray(share, jnp.float32),
        other=jnp.asarray(other, jnp.int32),
        place=jnp.asarray(place, jnp.int32),
    )


def draw_place(
    lotteries: Lotteries, lottery: Int[Array, ""], luck: Float[Array, ""]
) -> Int[Array, ""]:
    """A place by one of the lotteries."""
    ticket, over = _ticket(lotteries.first[lottery], lotteries.count[lottery], luck)
    ticket = jnp.where(over < lotteries.share[ticket], ticket, lotteries.other[ticket])
    return lotteries.place[ticket]


def _ticket(first, count, luck):
    """One of `count` neighbours, and luck that is left over."""
    scaled = luck * count.astype(luck.dtype)
    number = jnp.floor(scaled)
    # rounding up may lead beyond the last
    ticket = first + jnp.minimum(number.astype(jnp.int32), jnp.maximum(count - 1, 0))
    return ticket, scaled - number


def split_by_player(tree: DecisionTree, table: Float[Array, "n A"]) -> Policy:
    """A table over all information states as policies by player `[D_p, A]`."""
    ends = np.cumsum(tree.num_decisions)
    return tuple(table[end - n : end] for n, end in zip(tree.num_decisions, ends, strict=True))


def proportional_policy(tree: DecisionTree, table: Float[Array, "n A"]) -> Policy:
    """Policies by player `[D_p, A]` in proportion to a table `[N + 1, A]`; uniform where that is
    0."""
    return split_by_player(tree, match(table.T, tree.uniform.T).T)


def _lotteries(tree):
    """The number of the lottery that leads to each history, and its weight there.

    Lottery 0 is the start of the game, lottery 1 + history * A + action what follows an action.
    """
    lottery, weight = np.zeros(tree.num_histories, np.int64), np.ones(tree.num_histories)
    for rows in levels(tree.parent):
        above = tree.parent[rows]
        acted = tree.actor[above] >= 0
        mine = 1 + above.astype(np.int64) * tree.num_actions + tree.parent_action[rows]
        lottery[rows] = np.where(acted, mine, lottery[above])
        weight[rows] = np.where(acted, 1.0, weight[above] * tree.chance_prob[rows])
    return lottery, weight


def _children(tree, places, lottery):
    """First place and number of places after every action; a terminal is followed by itself."""
    numbers, first, count = np.unique(lottery, return_index=True, return_counts=True)
    wanted = 1 + places[:, None] * tree.num_actions + np.arange(tree.num_actions)
    found = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    there = numbers[found] == wanted
    itself = np.arange(len(places))[:, None]
    return np.where(there, first[found], itself), np.where(there, count[found], 0)


def _aliases(number, weight):
    """Walker's tables for neighbouring tickets of lotteries by number: drawn uniformly, ticket k
    keeps its own place with `share[k]`."""
    share, other = np.ones(len(number)), np.arange(len(number))
    _, first, count = np.unique(number, return_index=True, return_counts=True)
    for begin, size in zip(first[count > 1], count[count > 1], strict=True):
        rows = slice(begin, begin + size)
        if np.ptp(weight[rows]) > 1e-9 * weight[begin]:
            share[rows], other[rows] = _alias(weight[rows])
            other[rows] += begin
    return share, other


def _alias(weights):
    share, other = weights / weights.sum() * len(weights), np.arange(len(weights))
    small, large = list(np.flatnonzero(share < 1)), list(np.flatnonzero(share >= 1))
    while small and large:
        less, more = small.pop(), large[-1]
        other[less] = more
        share[more] -= 1 - share[less]
        if share[more] < 1:
            small.append(large.pop())
    share[small + large] = 1  # up to rounding
    return share, other


def _decisions_before(tree):
    """Decisions on the way to each history, its own included."""
    found = (tree.actor >= 0).astype(np.int64)
    for rows in levels(tree.parent):
        found[rows] += found[tree.parent[rows]]
    return found
