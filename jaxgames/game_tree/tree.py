"""Explicit game trees: every history of a game as one row of a table, in breadth-first order.

Trees are built from a game by `enumerate_game`, and from other libraries by their adapters. They
live on the host as NumPy arrays; solvers compile them into a sequence form
(`solvers.sequence_form`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float, Int

from jaxgames.core import CHANCE, record

NO_PARENT = -1


@record
class GameTree:
    """A tree of H histories, P players and A actions, in breadth-first order.

    Row 0 is the root; parents come before children, and the children of a history are adjacent. The
    information states of player p are numbered from 0, and those in which p acts come first:
    `num_decisions[p]` of them. A policy of p is an array `[num_decisions[p], A]`.
    """

    parent: np.ndarray  # [H] int32, NO_PARENT at the root
    parent_action: np.ndarray  # [H] int32 action or chance outcome leading here, -1 at the root
    depth: np.ndarray  # [H] int32
    actor: np.ndarray  # [H] int32: 0..P-1, CHANCE or TERMINAL
    legal: np.ndarray  # [H, A] bool: legal actions of the acting player
    chance_prob: np.ndarray  # [H] float64 probability that chance leads here; 1 below players
    returns: np.ndarray  # [H, P] float64 payoffs, 0 off the terminals
    information_state: np.ndarray  # [H, P] int32
    public_state: np.ndarray  # [H] int32, numbered in breadth-first order
    num_decisions: tuple[int, ...]  # [P] number of information states in which p acts
    num_information_states: tuple[int, ...]  # [P] number of all information states of p
    game: str  # name of the game

    @property
    def num_histories(self) -> int:
        """H."""
        return len(self.actor)

    @property
    def num_players(self) -> int:
        """P."""
        return self.returns.shape[1]

    @property
    def num_actions(self) -> int:
        """A."""
        return self.legal.shape[1]

    def representative(self, player: int) -> Int[np.ndarray, " I"]:
        """Returns the first history of each information state of `player`."""
        first = np.full(self.num_information_states[player], -1, np.int64)
        rows = np.arange(self.num_histories - 1, -1, -1)
        first[self.information_state[rows, player]] = rows
        return first

    def chance_reach(self) -> Float[np.ndarray, " H"]:
        """Returns chance's probability of each history: the product of its own moves'
        probabilities.
        """
        reach = self.chance_prob.copy()
        for rows in levels(self.parent):
            reach[rows] *= reach[self.parent[rows]]
        return reach

    def legal_actions(self, player: int) -> Bool[np.ndarray, "D A"]:
        """Returns the legal actions in each information state in which `player` acts."""
        return self.legal[self.representative(player)[: self.num_decisions[player]]]


def make_game_tree(
    *,
    parent: Int[np.ndarray, " H"],
    parent_action: Int[np.ndarray, " H"],
    actor: Int[np.ndarray, " H"],
    legal: Bool[np.ndarray, "H A"],
    chance_prob: Float[np.ndarray, " H"],
    returns: Float[np.ndarray, "H P"],
    information_state: Int[np.ndarray, "H P"],
    public_state: Int[np.ndarray, " H"],
    game: str,
) -> GameTree:
    """Checks a table of histories and numbers its information states.

    Args:
      parent: the row of the parent, NO_PARENT at the root. Histories are in breadth-first order,
        the children of a history adjacent.
      parent_action: the action or chance outcome that leads here, -1 at the root.
      actor: a player, CHANCE or TERMINAL.
      legal: legal actions of the acting player.
      chance_prob: the probability of chance's outcome that leads here; 1 below players and at the
        root.
      returns: payoffs, 0 off the terminals.
      information_state: any numbers, equal for the histories that a player cannot distinguish.
      public_state: any numbers, equal for the histories of one public state.
      game: the name of the game, for messages.

    Returns:
      The tree.

    Raises:
      ValueError: a payoff or probability is not finite, chance does not sum to 1, the histories of
        an information state differ in actor or legal actions, or recall is imperfect.
    """
    depth = np.zeros(len(parent), np.int32)
    for row in levels(parent):
        depth[row] = depth[parent[row]] + 1
    columns, num_decisions, num_states = [], [], []
    for player in range(returns.shape[1]):
        column, decisions, count = _decisions_first(information_state[:, player], actor == player)
        columns.append(column)
        num_decisions.append(decisions)
        num_states.append(count)
    _, first, public = np.unique(public_state, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    tree = GameTree(
        parent=parent.astype(np.int32),
        parent_action=parent_action.astype(np.int32),
        depth=depth,
        actor=actor.astype(np.int32),
        legal=legal,
        chance_prob=chance_prob.astype(np.float64),
        returns=returns.astype(np.float64),
        information_state=np.stack(columns, axis=1).astype(np.int32),
        public_state=rank[public].astype(np.int32),
        num_decisions=tuple(num_decisions),
        num_information_states=tuple(num_states),
        game=game,
    )
    _check(tree)
    return tree


def levels(parent: Int[np.ndarray, " H"]) -> Iterator[slice]:
    """Yields the rows of each depth below the root, as slices."""
    begin, count = 1, len(parent)
    while begin < count:
        end = int(np.searchsorted(parent, begin))  # parents are sorted in breadth-first order
        yield slice(begin, end)
        begin = end


def own_sequence(tree: GameTree, player: int) -> Int[np.ndarray, " H"]:
    """Returns a player's last own decision and action at each history.

    They are encoded as information state * A + action; -1 where the player has not acted yet.
    """
    sequence = np.full(tree.num_histories, -1, np.int64)
    own = tree.information_state[:, player].astype(np.int64) * tree.num_actions
    for rows in levels(tree.parent):
        above = tree.parent[rows]
        acted = tree.actor[above] == player
        sequence[rows] = np.where(acted, own[above] + tree.parent_action[rows], sequence[above])
    return sequence


def _decisions_first(states, acting):
    """Renumbers one player's information states so that those in which it acts come first.

    Returns:
      The new numbers by history, how many information states the player acts in, and how many it
      has.
    """
    _, first, dense = np.unique(states, return_index=True, return_inverse=True)
    decides = np.zeros(len(first), bool)
    decides[dense[acting]] = True
    rank = np.argsort(np.lexsort((first, ~decides)))
    return rank[dense], int(decides.sum()), len(first)


def _check(tree: GameTree) -> None:
    """Checks payoffs, chance, legal actions and perfect recall of a tree."""
    if not np.isfinite(tree.returns).all():
        row = int(np.argmin(np.isfinite(tree.returns).all(axis=1)))
        raise ValueError(f"{tree.game}: returns of history {row} are {tree.returns[row]}")
    by_chance = np.concatenate([[False], tree.actor[tree.parent[1:]] == CHANCE])
    total = np.bincount(tree.parent[by_chance], tree.chance_prob[by_chance], tree.num_histories)
    bad = (tree.actor == CHANCE) & ~(np.abs(total - 1) < 1e-6)
    if bad.any() or not (tree.chance_prob >= 0).all():
        row = int(np.argmax(bad))
        raise ValueError(f"{tree.game}: chance at history {row} has total probability {total[row]}")
    if np.any((tree.actor >= 0) & ~tree.legal.any(axis=1)):
        raise ValueError(f"{tree.game}: a player to act has no legal action")
    for player in range(tree.num_players):
        states = tree.information_state[:, player]
        representative = tree.representative(player)[states]
        acts = tree.actor == player
        _same(tree, acts, acts[representative], "turn", player)
        differs = (tree.legal != tree.legal[representative]).any(axis=1) & acts
        _same(tree, differs, np.zeros_like(differs), "legal actions", player)
        # Perfect recall: the player's last own decision and action are a function of the state.
        sequence = own_sequence(tree, player)
        _same(tree, sequence, sequence[representative], "own past (imperfect recall)", player)


def _same(tree, values, expected, what, player):
    """Requires that a value at each history equals the expected one, which its information state
    determines.
    """
    if (values != expected).any():
        row = int(np.argmax(values != expected))
        raise ValueError(
            f"{tree.game}: histories of one information state of player {player} differ in {what}"
            f" (history {row}, information state {tree.information_state[row, player]})"
        )
