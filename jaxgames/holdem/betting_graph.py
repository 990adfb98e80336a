"""Betting graphs: all that players may bet in a hand, with equal futures drawn once.

A node stands for all *histories* of bets after which the same players may do the same. Histories
are counted, not kept: those that lead to a node are numbered from 0, first those that come through
the first action that leads there, then those through the second one, and so on. So history h of a
node is history `offset + h` of the node that an action leads to, and a graph of a few hundred nodes
knows the millions of histories of limit hold'em for three players:

    >>> from jaxgames.holdem import limit_holdem
    >>> from jaxgames.holdem.betting_graph import graph_of_rules
    >>> graph = graph_of_rules(limit_holdem(players=3))
    >>> graph.num_decisions
    (90, 4412, 205962, 9501342)

Players must have equal stacks, so that those who show their hands have all paid the same.
"""

from __future__ import annotations

import dataclasses
import functools
import graphlib

import jax
import numpy as np
from jaxtyping import Bool, Int

from jaxgames.core import CHANCE
from jaxgames.holdem.betting_from_rules import state_after
from jaxgames.holdem.betting_tree import FOLD, MAX_NODES, NO_NODE, BettingTree
from jaxgames.holdem.rules import Poker, PokerState

END = -1  # the actor of nodes where the hand is over


@dataclasses.dataclass(frozen=True, eq=False)
class BettingGraph:
    """X nodes, parents before children; A actions at most; P players."""

    actor: Int[np.ndarray, " X"]  # a player, or END
    street: Int[np.ndarray, " X"]  # from 0
    begins: Bool[np.ndarray, " X"]  # whether this is the first decision of a street
    still_in: Bool[np.ndarray, "X P"]  # who has not folded
    child: Int[np.ndarray, "X A"]  # NO_NODE beyond the last action
    added: Int[np.ndarray, "X A"]  # chips that the actor pays for each action
    start: Int[np.ndarray, " P"]  # chips of the players in the pot at the root
    actions: tuple[tuple[str, ...], ...]  # [X] names, in the order of the children

    @property
    def num_players(self) -> int:
        """P."""
        return len(self.start)

    @property
    def histories(self) -> Int[np.ndarray, " X"]:
        """How many histories lead to each node."""
        return self._numbering[0]

    @property
    def offset(self) -> Int[np.ndarray, "X A"]:
        """What an action adds to the number of a history."""
        return self._numbering[1]

    @property
    def num_decisions(self) -> tuple[int, ...]:
        """The number of decisions on each street, those after different bets counted apart."""
        counts = np.zeros(self.street.max() + 1, int)
        decides = self.actor != END
        np.add.at(counts, self.street[decides], self.histories[decides])
        return tuple(counts.tolist())

    @functools.cached_property
    def _numbering(self):
        histories = np.zeros(len(self.actor), np.int64)
        histories[0], offset = 1, np.zeros(self.child.shape, np.int64)
        for node, children in enumerate(self.child.tolist()):
            for action, child in enumerate(children):
                if child != NO_NODE:
                    offset[node, action] = histories[child]
                    histories[child] += histories[node]
        return histories, offset

    @functools.cached_property
    def max_added(self) -> Int[np.ndarray, " X"]:
        """The most chips that all players together may still pay after each node."""
        return self._longest(self.added)

    @functools.cached_property
    def max_decisions(self) -> int:
        """The most decisions of a hand."""
        return int(self._longest(np.ones_like(self.added))[0])

    def _longest(self, length):
        """The largest sum of lengths of actions `[X, A]` on a way from each node to an end."""
        longest = np.zeros(len(self.actor), int)
        for node in range(len(longest) - 1, -1, -1):
            ways = length[node] + longest[self.child[node]]
            longest[node] = max(ways[self.child[node] != NO_NODE], default=0)
        return longest


def graph_of_tree(tree: BettingTree) -> BettingGraph:
    """The nodes of a betting tree without those of chance; each has one history.

    Raises:
      ValueError: half the pot at the root is not whole.
    """
    if tree.pot % 2:
        raise ValueError(f"pot={tree.pot} at the root of the betting tree must be even")
    kept = np.flatnonzero(tree.actor != CHANCE)
    number = np.zeros(len(tree.actor), int)
    number[kept] = np.arange(len(kept))
    after = _past_chance(tree)
    actor, player = tree.actor[kept], np.maximum(tree.actor, 0)
    added = tree.paid[after, player[:, None]] - tree.paid[np.arange(len(player)), player][:, None]
    last, parent = tree.child[kept] == NO_NODE, tree.parent[kept]
    winner = tree.winner[kept, None]
    return BettingGraph(
        actor=np.where(actor >= 0, actor, END),
        street=tree.street[kept],
        begins=(parent == NO_NODE) | (tree.actor[parent] == CHANCE),
        still_in=(actor != FOLD)[:, None] | (winner == np.arange(2)),
        child=np.where(last, NO_NODE, number[after][kept]),
        added=np.where(last, 0, added[kept]),
        start=tree.paid[0] + tree.pot // 2,
        actions=tuple(tree.actions[node] for node in kept.tolist()),
    )


def _past_chance(tree):
    """The next decision or end after each action `[X, A]`."""
    child = tree.child
    while (deals := tree.actor[child] == CHANCE).any():
        child = np.where(deals, tree.child[child, 0], child)
    return child


def graph_of_rules(game: Poker, *, max_nodes: int = MAX_NODES) -> BettingGraph:
    """The betting graph of a whole game for any number of players.

    Args:
      game: the rules.
      max_nodes: the largest number of nodes that is allowed.

    Raises:
      ValueError: the game draws the size of bets, or the graph has more than `max_nodes` nodes.
    """
    if game.draws_size:
        raise ValueError(f"bets of {game} must not be random: a betting graph has known sizes")
    step = functools.partial(state_after, game)
    root = jax.device_get(step(game.init(), np.int32(0)))  # the cards are dealt
    states, rows, number = [root], [], {_future(game, root, begins=True): 0}
    first = [True]
    for state in states:  # grows on the way
        row = []
        for action in [] if state.over else np.flatnonzero(state.legal).tolist():
            after = jax.device_get(step(state, np.int32(action)))
            begins = bool(after.round > state.round)
            child = number.setdefault(_future(game, after, begins=begins), len(states))
            if child == len(states):
                states.append(after)
                first.append(begins)
            added = (after.spent - state.spent)[state.actor]
            row.append((child, int(added), game.action_name(state, action)))
        rows.append(row)
        if len(states) > max_nodes:
            raise ValueError(
                f"the betting graph of {game} has more than max_nodes={max_nodes:,} nodes"
            )
    return _in_order(states, first, rows)


def _future(game: Poker, state: PokerState, *, begins: bool):
    """All that the rest of a hand depends on, besides the cards and the pot that is won."""
    folded = tuple(state.folded.tolist())
    if state.over:
        return folded
    stakes = int(state.spent.max())
    owed = np.where(state.folded, 0, stakes - state.spent).tolist()
    counters = begins, int(state.actor), int(state.round), int(state.num_raises)
    # raises of fixed sizes are the same at all stakes
    chips = () if game.limit and not game.stack else (stakes, int(state.least_raise))
    if game.bets and {*game.bets} != {"allin"}:
        # shares of the pot, to which those have paid, too, who have folded
        chips += (int(state.spent.sum()),)
    return counters, folded, tuple(state.called.tolist()), tuple(owed), chips


def _in_order(states, first, rows):
    """The graph of states, numbered so that parents come first."""
    sorter = graphlib.TopologicalSorter(
        {node: [child for child, *_ in row] for node, row in enumerate(rows)}
    )
    order = [*sorter.static_order()][::-1]
    place, width = np.argsort(order), max(map(len, rows))
    child = np.full((len(order), width), NO_NODE)
    added = np.zeros((len(order), width), int)
    for node, row in enumerate(rows):
        for action, (below, chips, _) in enumerate(row):
            child[place[node], action], added[place[node], action] = place[below], chips
    ordered = [states[node] for node in order]
    return BettingGraph(
        actor=np.array([END if state.over else int(state.actor) for state in ordered]),
        street=np.array([int(state.round) for state in ordered]),
        begins=np.array([first[node] for node in order]),
        still_in=np.array([~state.folded for state in ordered]),
        child=child,
        added=added,
        start=np.array(states[0].spent, int),
        actions=tuple(tuple(name for *_, name in rows[node]) for node in order),
    )
