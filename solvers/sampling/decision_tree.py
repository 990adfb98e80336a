"""A game compiled for sampling: the places where players act, and lotteries of chance between them.

Places are the histories in which a player acts and the terminal histories; the histories where
chance acts are left out. The start of the game, and every action, leads to a *lottery*: a range of
adjacent places, of which chance draws one in constant time by the alias method (Walker 1977). All
that a step of an episode needs of a place is one row of one table, so thousands of episodes run
side by side under `jax.vmap`, each at a place of its own.

Example:

    >>> import jaxgames
    >>> from solvers.sampling.decision_tree import build_decision_tree
    >>> tree = build_decision_tree(jaxgames.make("kuhn_poker"))
    >>> tree.num_states, tree.num_decisions, tree.max_decisions
    (12, (6, 6), 3)
"""

from __future__ import annotations

from typing import ClassVar

import flax.struct
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.arrays import on_device, select_entry, sum_actions
from jaxgames.core import TERMINAL, Game, record
from jaxgames.game_tree import MAX_HISTORIES, GameTree, enumerate_game, levels
from solvers.regret import match
from solvers.sampling.episodes import Playable
from solvers.sequence_form import Policy


@record
class Lotteries:
    """L lotteries with O tickets in all. A lottery draws one of its tickets uniformly, and the
    ticket stands for one of two places (the alias method).
    """

    first: Array  # [L] int32 first ticket
    count: Array  # [L] int32 number of tickets
    share: Array  # [O] probability that a ticket stands for its own place
    other: Array  # [O] int32 the ticket for whose place it stands otherwise
    place: Array  # [O] int32 the ticket's own place


@record
class DecisionTree(Playable):
    """A compiled game: X places, N information states of all P players, A actions.

    The information states of player 0 come first, then those of player 1, and so on. Tables over
    information states have a last row N that belongs to no state: padding is written there. The
    columns of `table` are the actor, the information state, the first place after each action
    `[A]`, and the number of places after each action `[A]`, 0 if it is illegal. An episode starts
    at one of the first `num_starts` places.
    """

    table: Array  # [X, 2 + 2 A] int32
    history: Array  # [X] int32 the history of each place in the explicit tree
    payoffs: Array  # [X, P], 0 at decisions
    uniform: Array  # [N + 1, A] uniform policy over legal actions, 0 in row N
    share: Array | None  # [X] as in `Lotteries`; None if every lottery is uniform
    other: Array | None  # [X] int32 as in `Lotteries`
    worlds: Lotteries  # by information state: its places, by the reach of chance alone
    nowhere: int = flax.struct.field(pytree_node=False)  # a terminal place, for padding
    num_starts: int = flax.struct.field(pytree_node=False)
    num_decisions: tuple[int, ...] = flax.struct.field(pytree_node=False)  # [P] by player
    max_decisions: int = flax.struct.field(pytree_node=False)  # of an episode
    game: str = flax.struct.field(pytree_node=False)
    noise_width: ClassVar[int] = 1

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
        """The player who acts at each place; TERMINAL where the game is over."""
        return self.table[:, 0]

    @property
    def state(self) -> Int[Array | np.ndarray, " X"]:
        """The actor's information state at each place, N at terminals."""
        return self.table[:, 1]

    def start(self, noise: Float[Array, "1"]) -> Int[Array, ""]:
        """Draws the first place of an episode."""
        return self._draw(jnp.int32(0), jnp.int32(self.num_starts), noise[0])

    def at(self, place: Int[Array, ""]) -> DecisionNode:
        """Returns the node at a place."""
        row, actions = self.table[place], self.num_actions
        return DecisionNode(
            actor=row[0], state=row[1], first=row[2 : 2 + actions], count=row[2 + actions :]
        )

    def after(
        self, node: DecisionNode, action: Int[Array, ""], noise: Float[Array, "1"]
    ) -> Int[Array, ""]:
        """Draws the place after an action at `node`; a terminal place is followed by itself."""
        return self._draw(
            select_entry(node.first, action), select_entry(node.count, action), noise[0]
        )

    def payoffs_at(self, place: Int[Array, ""]) -> Float[Array, " P"]:
        """Returns the players' payoffs at a terminal place, 0 elsewhere."""
        return self.payoffs[place]

    def _draw(self, first, count, noise):
        """Draws from the lottery over `count` places from number `first` on."""
        place, rest = _ticket(first, count, noise)
        if self.share is None:
            return place
        return jnp.where(rest < self.share[place], place, self.other[place])


@record
class DecisionNode:
    """What is known at one place: a row of `DecisionTree.table`."""

    actor: Array  # [] int32
    state: Array  # [] int32
    first: Array  # [A] int32
    count: Array  # [A] int32

    @property
    def uniform(self) -> Float[Array, " A"]:
        """The uniform policy over the legal actions; 0 where the game is over."""
        legal = self.count > 0
        total = sum_actions(legal.astype(jnp.float32))
        return legal.astype(jnp.float32) / jnp.maximum(total, 1)


def build_decision_tree(
    game: Game | GameTree, *, max_histories: int = MAX_HISTORIES
) -> DecisionTree:
    """Compiles a game for sampling.

    Args:
      game: a game, or its explicit tree.
      max_histories: the largest tree that is enumerated.

    Returns:
      The compiled game.

    Raises:
      TreeTooLargeError: the game has more than `max_histories` histories; the message estimates how
        many.
      ValueError: no player ever acts.
    """
    tree = game if isinstance(game, GameTree) else enumerate_game(game, max_histories=max_histories)
    if not (tree.actor >= 0).any():
        raise ValueError(f"{tree.game}: no player ever acts")
    lottery, weight = _lotteries_of_histories(tree)
    places = np.flatnonzero(((tree.actor >= 0) | (tree.actor == TERMINAL)) & (weight > 0))
    places = places[np.argsort(lottery[places], kind="stable")]  # lottery 0, the start, comes first
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
        table=on_device(np.column_stack([actor, state, first, count]), np.int32),
        history=on_device(places, np.int32),
        payoffs=on_device(tree.returns[places] * ~acts[:, None], np.float32),
        uniform=on_device(uniform, np.float32),
        share=None if fair else on_device(share, np.float32),
        other=None if fair else on_device(other, np.int32),
        worlds=build_lotteries(
            tree.chance_reach()[places[acts]], state[acts], np.flatnonzero(acts)
        ),
        nowhere=int(np.flatnonzero(~acts)[0]),
        num_starts=int((lottery[places] == 0).sum()),
        num_decisions=tree.num_decisions,
        max_decisions=int(_decisions_before(tree).max()),
        game=tree.game,
    )


def build_lotteries(
    weight: Float[np.ndarray, " n"], lottery: Int[np.ndarray, " n"], place: Int[np.ndarray, " n"]
) -> Lotteries:
    """Builds lotteries that draw places in proportion to their weights.

    Args:
      weight: the weight of each entry, positive.
      lottery: the number of the lottery that each entry belongs to; every number from 0 on occurs.
      place: what is drawn with each entry.

    Returns:
      The lotteries, in order of their number.
    """
    order = np.argsort(lottery, kind="stable")
    weight, lottery, place = weight[order], lottery[order], place[order]
    _, first, count = np.unique(lottery, return_index=True, return_counts=True)
    share, other = _aliases(lottery, weight)
    return Lotteries(
        first=on_device(first, np.int32),
        count=on_device(count, np.int32),
        share=on_device(share, np.float32),
        other=on_device(other, np.int32),
        place=on_device(place, np.int32),
    )


def draw_place(
    lotteries: Lotteries, lottery: Int[Array, ""], noise: Float[Array, ""]
) -> Int[Array, ""]:
    """Draws a place from the lottery of number `lottery`."""
    ticket, rest = _ticket(lotteries.first[lottery], lotteries.count[lottery], noise)
    ticket = jnp.where(rest < lotteries.share[ticket], ticket, lotteries.other[ticket])
    return lotteries.place[ticket]


def _ticket(first, count, noise):
    """Picks one of `count` adjacent tickets; also returns the part of the noise that is left over,
    again uniform in [0, 1).
    """
    scaled = noise * count.astype(noise.dtype)
    number = jnp.floor(scaled)
    # by rounding, the product may reach `count`
    ticket = first + jnp.minimum(number.astype(jnp.int32), jnp.maximum(count - 1, 0))
    return ticket, scaled - number


def split_by_player(tree: DecisionTree, table: Float[Array, "n A"]) -> Policy:
    """Splits a table over the N information states into one policy `[D_p, A]` per player."""
    ends = np.cumsum(tree.num_decisions)
    return tuple(table[end - n : end] for n, end in zip(tree.num_decisions, ends, strict=True))


def proportional_policy(tree: DecisionTree, table: Float[Array, "n A"]) -> Policy:
    """Normalises a table of weights into one policy `[D_p, A]` per player.

    Args:
      tree: the compiled game.
      table: `[N + 1, A]`, not negative; the last row is ignored.

    Returns:
      Policies in proportion to the weights, uniform where all weights are 0.
    """
    return split_by_player(tree, match(table.T, tree.uniform.T).T)


def _lotteries_of_histories(tree):
    """For each history, the number of the lottery that leads to it and its weight there.

    Lottery 0 is the start of the game; lottery 1 + history * A + action follows an action.
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
    position = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    exists = numbers[position] == wanted
    itself = np.arange(len(places))[:, None]
    return np.where(exists, first[position], itself), np.where(exists, count[position], 0)


def _aliases(number, weight):
    """Alias tables (Walker 1977) of lotteries over adjacent tickets.

    Args:
      number: the lottery of each ticket, sorted.
      weight: the weight of each ticket.

    Returns:
      For each ticket, the probability that it keeps its own place once it is picked, and the ticket
      whose place it stands for otherwise.
    """
    share, other = np.ones(len(number)), np.arange(len(number))
    _, first, count = np.unique(number, return_index=True, return_counts=True)
    for begin, size in zip(first[count > 1], count[count > 1], strict=True):
        rows = slice(begin, begin + size)
        if np.ptp(weight[rows]) > 1e-9 * weight[begin]:
            share[rows], other[rows] = _alias(weight[rows])
            other[rows] += begin
    return share, other


def _alias(weights):
    """Walker's alias table of one lottery, by the usual two stacks."""
    share, other = weights / weights.sum() * len(weights), np.arange(len(weights))
    small, large = list(np.flatnonzero(share < 1)), list(np.flatnonzero(share >= 1))
    while small and large:
        less, more = small.pop(), large[-1]
        other[less] = more
        share[more] -= 1 - share[less]
        if share[more] < 1:
            small.append(large.pop())
    share[small + large] = 1  # 1 up to rounding
    return share, other


def _decisions_before(tree):
    """The number of decisions on the way to each history, its own included."""
    count = (tree.actor >= 0).astype(np.int64)
    for rows in levels(tree.parent):
        count[rows] += count[tree.parent[rows]]
    return count
