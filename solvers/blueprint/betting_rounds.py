"""The betting rounds of a tree, by street and by shape.

A *round* is all that two players may do on one street after the same bets before it. Rounds of one
street whose trees have the same shape are a *family*: they are computed together, as M entries of
one *template*, and differ in the chips at stake only. In limit hold'em each street has one family,
of 1, 7, 63 and 567 rounds.

Each round ends with folds and with *ends*, after which the hand goes on or is shown down.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from jaxgames.core import CHANCE
from jaxgames.holdem.betting_tree import FOLD, NO_NODE, SHOWDOWN, BettingTree

NODE, FOLDED, END = "node", "fold", "end"


class Edge(NamedTuple):
    """Where an action of a template leads: to a node, a fold or an end, by its number there."""

    kind: str
    target: int


@dataclasses.dataclass(frozen=True)
class Template:
    """The shape of a round: J decisions, parents before children. Hashable."""

    actor: tuple[int, ...]  # [J]
    actions: tuple[tuple[Edge, ...], ...]  # [J]
    loser: tuple[int, ...]  # by fold: who folds
    shown: tuple[bool, ...]  # by end: whether hands are shown down there

    @property
    def first_column(self) -> tuple[int, ...]:
        """Where the actions of each decision begin among the C actions of all."""
        counts = [0, *map(len, self.actions)]
        return tuple(np.cumsum(counts)[:-1].tolist())

    @property
    def columns(self) -> int:
        """C, the number of actions of all decisions."""
        return sum(map(len, self.actions))

    @property
    def num_ends(self) -> int:
        """How many ends there are."""
        return len(self.shown)


@dataclasses.dataclass(frozen=True)
class Family:
    """M rounds of one shape on one street; chips are what the loser of a pot pays."""

    template: Template
    nodes: Int[np.ndarray, "J M"]  # the decisions in the betting tree
    fold_chips: Float[np.ndarray, "F M"]
    end_chips: Float[np.ndarray, "K M"]  # at showdowns
    # of ends after which the hand goes on: the family of the next street and the entry there;
    # NO_NODE at showdowns
    next_family: Int[np.ndarray, "K M"]
    next_entry: Int[np.ndarray, "K M"]

    @property
    def entries(self) -> int:
        """M."""
        return self.nodes.shape[1]


@dataclasses.dataclass(frozen=True)
class BettingRounds:
    """All rounds of a betting tree: its families by street."""

    tree: BettingTree
    streets: tuple[tuple[Family, ...], ...]

    @property
    def num_decisions(self) -> tuple[int, ...]:
        """The number of decisions on each street."""
        return tuple(sum(f.nodes.size for f in families) for families in self.streets)


def betting_rounds(tree: BettingTree) -> BettingRounds:
    """Finds the rounds of a betting tree and puts those of one shape together.

    Rounds of a family are in the order of the ends before them: those after end 0 of all rounds of
    the street before, then those after end 1, and so on, if that street has one family.

    Args:
      tree: of a whole game, with a decision at its root.

    Raises:
      ValueError: a street begins with an end, so that there are no rounds.
    """
    if tree.actor[0] < 0:
        raise ValueError(
            f"tree.actor[0]={tree.actor[0]} must be 0 or 1: a player decides at the root"
        )
    streets, roots = [], [0]
    for _ in range(tree.num_streets):
        rounds = [_read(tree, root) for root in roots]
        shapes = list(dict.fromkeys(template for template, *_ in rounds))
        members = [[r for r in rounds if r[0] == shape] for shape in shapes]
        # 1. Where the hand goes on, in the order of ends, then of rounds.
        after = []
        for group in members:
            for end in range(group[0][0].num_ends):
                after += [goes_on for *_, ends in group if (goes_on := _next(tree, ends[end])) >= 0]
        # 2. The number of each of these rounds in its family on the next street.
        shape_of = {root: _read(tree, root)[0] for root in after}
        order = list(dict.fromkeys(shape_of.values()))
        place, counts = {NO_NODE: (NO_NODE, NO_NODE)}, [0] * len(order)
        for root in after:
            family = order.index(shape_of[root])
            place[root] = (family, counts[family])
            counts[family] += 1
        streets.append(tuple(_family(tree, group, place) for group in members))
        roots = after
    return BettingRounds(tree=tree, streets=tuple(streets))


def _read(tree, root):
    """A round's template, and its decisions, folds and ends in the betting tree."""
    nodes, folds, ends, actions, loser = [root], [], [], [], []
    for node in nodes:  # grows on the way
        edges = []
        for child in tree.child[node]:
            if child == NO_NODE:
                continue
            if tree.actor[child] == FOLD:
                edges.append(Edge(FOLDED, len(folds)))
                folds.append(child)
                loser.append(int(tree.actor[node]))
            elif tree.actor[child] in (SHOWDOWN, CHANCE):
                edges.append(Edge(END, len(ends)))
                ends.append(child)
            else:
                edges.append(Edge(NODE, len(nodes)))
                nodes.append(child)
        actions.append(tuple(edges))
    template = Template(
        actor=tuple(int(tree.actor[node]) for node in nodes),
        actions=tuple(actions),
        loser=tuple(loser),
        shown=tuple(_next(tree, end) == NO_NODE for end in ends),
    )
    return template, nodes, folds, ends


def _next(tree, end):
    """The next decision after the end of a round; NO_NODE if there is none."""
    while tree.actor[end] == CHANCE:
        end = tree.child[end, 0]
    return int(end) if tree.actor[end] >= 0 else NO_NODE


def _family(tree, group, place):
    after = np.array([[place[_next(tree, end)] for end in ends] for *_, ends in group], int)
    after = after.reshape(len(group), -1, 2)
    chips = tree.paid.min(axis=1) + tree.pot / 2
    each = lambda which: np.array([r[which] for r in group], int).reshape(len(group), -1).T  # noqa: E731
    return Family(
        template=group[0][0],
        nodes=each(1),
        fold_chips=chips[each(2)],
        end_chips=chips[each(3)],
        next_family=after[..., 0].T,
        next_entry=after[..., 1].T,
    )
