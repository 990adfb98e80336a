"""Policies as text: information states described by the moves that led to them.

A person wants to read what an information state is. It is described here, for any game, by its
moves: `deal K | deal {J,Q} | pass` says that the player saw the king dealt, cannot tell whether the
other player holds the jack or the queen, and that the other player passed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import Game
from jaxgames.game_tree import GameTree, states_at


def policy_rows(
    game: Game, tree: GameTree, policy: Sequence[Float[np.ndarray | Array, "_ A"]]
) -> list[dict[str, object]]:
    """Describes a policy, one row for each legal action of each information state.

    Args:
      game: the game, which names its moves.
      tree: the game's tree, of H histories.
      policy: probabilities by player p, `[D_p, A]`.

    Returns:
      Rows with the keys `player`, `information_state` (its number), `history` (its description),
      `action` (its name) and `probability` (with six digits).
    """
    moves = _Moves(game, tree)
    rows = []
    for player, table in enumerate(policy):
        representative = tree.representative(player)
        legal = tree.legal_actions(player)
        for state, history in enumerate(moves.descriptions(player)):
            for action in np.flatnonzero(legal[state]).tolist():
                rows.append(
                    {
                        "player": player,
                        "information_state": state,
                        "history": history,
                        "action": moves.name(int(representative[state]), action),
                        "probability": f"{table[state, action]:.6f}",
                    }
                )
    return rows


class _Moves:
    """The names of all moves of a game.

    Edges of the tree that no player can tell apart are one kind of move and share a name.
    """

    def __init__(self, game: Game, tree: GameTree):
        self.tree = tree
        parent, action = tree.parent[1:], tree.parent_action[1:]
        actor = tree.actor[parent]
        known = np.where(  # what the name of a move may depend on
            actor >= 0,
            tree.information_state[parent, np.maximum(actor, 0)],
            tree.public_state[parent],
        )
        keys = np.stack([actor, known, action], axis=1)
        kinds, first, kind = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        states = states_at(game, tree, parent[first])
        actions = kinds[:, 2].tolist()
        self.names = [game.action_name(*pair) for pair in zip(states, actions, strict=True)]
        self.kind = np.concatenate([[-1], kind.ravel()])  # [H] of the move that leads there

    def name(self, history: int, action: int) -> str:
        """The name of a legal action at a history."""
        children = slice(*np.searchsorted(self.tree.parent[1:], [history, history + 1]) + 1)
        child = np.flatnonzero(self.tree.parent_action[children] == action)[0]
        return self.names[self.kind[children][child]]

    def descriptions(self, player: int) -> list[str]:
        """The moves that led to each information state of `player`."""
        tree = self.tree
        count = tree.num_decisions[player]
        acting = np.flatnonzero(tree.actor == player)
        order = acting[np.argsort(tree.information_state[acting, player], kind="stable")]
        bounds = np.searchsorted(tree.information_state[order, player], np.arange(count + 1))
        moves = self._moves(order)
        return [
            " | ".join(filter(None, map(self._either, moves[begin:end].T)))
            for begin, end in itertools.pairwise(bounds)
        ]

    def _moves(self, histories: Int[np.ndarray, " n"]) -> Int[np.ndarray, "n d"]:
        """Kinds of the moves on the way to each history, -1 beyond its depth."""
        depth = self.tree.depth[histories]
        kinds = np.full((len(histories), depth.max(initial=0)), -1)
        at = histories
        for _ in range(kinds.shape[1]):
            on_the_way = np.flatnonzero(at > 0)
            kinds[on_the_way, self.tree.depth[at[on_the_way]] - 1] = self.kind[at[on_the_way]]
            at = np.where(at > 0, self.tree.parent[at], 0)
        return kinds

    def _either(self, kinds: Int[np.ndarray, " n"]) -> str:
        """The one move, or all those that it may have been: `deal {J,Q}`."""
        names = list(dict.fromkeys(self.names[kind] for kind in np.unique(kinds) if kind >= 0))
        if len(names) <= 1:
            return "".join(names)
        verbs, objects = zip(*(name.rpartition(" ")[::2] for name in names), strict=True)
        if len(set(verbs)) > 1 or not verbs[0]:
            return f"{{{','.join(names)}}}"
        return f"{verbs[0]} {{{','.join(objects)}}}"
