"""Policies on disk: `policy.npz` with all digits, and `policy.csv` for people.

In `policy.csv` an information state of any game is described by the moves that led to it, as far as
its player can tell them: `deal K | deal {J,Q} | pass` says that the player was dealt the king and
the opponent the jack or the queen, and that the opponent passed.
"""

from __future__ import annotations

import io
import itertools
import pathlib
import zipfile

import numpy as np
from jaxtyping import Float, Int

from experiments.harness import results
from jaxgames.core import Game
from jaxgames.game_tree import GameTree
from jaxgames.histories import states_at

MAX_DESCRIBED = 10_000  # information states; of more only `policy.npz` is written

TabularPolicy = tuple[Float[np.ndarray, "_ A"], ...]


def write_policy(
    folder: pathlib.Path, game: Game, tree: GameTree, policy: TabularPolicy
) -> tuple[str, ...]:
    """Writes a policy into a folder, as `policy.npz` and, unless it is too large, `policy.csv`.

    Args:
      folder: exists.
      game: names the moves.
      tree: the histories of the game.
      policy: of every player p, the probabilities of actions `[D_p, A]`.

    Returns:
      The names of the files.
    """
    content = io.BytesIO()
    np.savez_compressed(content, **{f"player_{p}": table for p, table in enumerate(policy)})
    results.write_file(folder / "policy.npz", content.getvalue())
    if sum(tree.num_decisions) > MAX_DESCRIBED:
        return ("policy.npz",)
    results.write_csv(folder / "policy.csv", policy_rows(game, tree, policy))
    return ("policy.npz", "policy.csv")


def read_policy(path: pathlib.Path) -> TabularPolicy:
    """Reads a file `policy.npz`.

    Returns:
      Of every player p, the probabilities of actions `[D_p, A]` in float64.

    Raises:
      ValueError: the file holds no policy.
      OSError: the file cannot be read.
    """
    try:
        with np.load(path) as arrays:
            tables = [arrays[f"player_{player}"] for player in range(len(arrays.files))]
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} holds no policy: {error}") from None
    return tuple(np.asarray(table, np.float64) for table in tables)


def policy_rows(game: Game, tree: GameTree, policy: TabularPolicy) -> list[dict[str, object]]:
    """Rows of a CSV: one for each legal action of each information state where a player acts."""
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

    A *kind* of move is an action in an information state of its player, or an outcome of chance in
    a public state: edges of the tree that are of one kind have the same name.
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
        self.kind = np.concatenate([[-1], kind.ravel()])  # [H] of the move into each history

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
        node = histories
        for _ in range(kinds.shape[1]):  # from every history up to the root
            below = np.flatnonzero(node > 0)
            kinds[below, self.tree.depth[node[below]] - 1] = self.kind[node[below]]
            node = np.where(node > 0, self.tree.parent[node], 0)
        return kinds

    def _either(self, kinds: Int[np.ndarray, " n"]) -> str:
        """The name of a move that is of one of these kinds (-1: no move), as in `deal {J,Q}`."""
        names = list(dict.fromkeys(self.names[kind] for kind in np.unique(kinds) if kind >= 0))
        if len(names) <= 1:
            return "".join(names)
        verbs, objects = zip(*(name.rpartition(" ")[::2] for name in names), strict=True)
        if len(set(verbs)) > 1 or not verbs[0]:
            return f"{{{','.join(names)}}}"
        return f"{verbs[0]} {{{','.join(objects)}}}"
