"""Games in Gambit's extensive-form files (.efg; Savani and Turocy, Gambit)."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np

from jaxgames.adapters.common_knowledge import UNKNOWN, complete_tree
from jaxgames.adapters.efg_parser import EfgNode, EfgParser
from jaxgames.adapters.tabular_game import TabularGame
from jaxgames.core import TERMINAL
from jaxgames.game_tree import MAX_HISTORIES, NO_PARENT, GameTree


@dataclasses.dataclass(frozen=True, eq=False)
class GambitGame(TabularGame):
    """A game that was read from a file, with its title and the names of players and actions."""

    title: str
    players: tuple[str, ...]  # [P]
    actions: tuple[tuple[str, ...], ...]  # [H] names of the actions or chance outcomes

    def _action_name(self, row: int, action: int) -> str:
        names = self.actions[row]
        # names may be empty or repeated
        return names[action] if names.count(names[action]) == 1 else f"{action} {names[action]}"


def from_efg(path: str | pathlib.Path, *, max_histories: int = MAX_HISTORIES) -> GambitGame:
    """Reads the game in a Gambit file.

    Actions and chance outcomes are numbered by their position in the file; see `parse_efg`.

    Args:
      path: the file.
      max_histories: the limit on the number of nodes.

    Returns:
      The game.

    Raises:
      TreeTooLargeError: the file has more than `max_histories` nodes.
      ValueError: the file cannot be read, is not valid, or recall is imperfect.
    """
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(f"efg file {str(path)!r}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"efg file {str(path)!r} is not UTF-8: {error.reason}") from None
    return parse_efg(text, name=f"efg:{path}", max_histories=max_histories)


def parse_efg(text: str, *, name: str, max_histories: int = MAX_HISTORIES) -> GambitGame:
    """Reads the game in the text of a Gambit file.

    Payoffs at inner nodes are added to those further down, and branches of probability 0 are left
    out. The format tells only what the player to act knows; `complete_information_states` adds the
    rest.

    Args:
      text: the text.
      name: the name of the game, for messages.
      max_histories: the limit on the number of nodes.

    Returns:
      The game.

    Raises:
      TreeTooLargeError: more than `max_histories` nodes.
      ValueError: the text is not valid (the message names the line), or recall is imperfect.
    """
    parser = EfgParser(text, name, max_histories)
    title, players = parser.header()
    nodes = _breadth_first(parser.body(len(players)))
    tree = _tree(nodes, len(players), name)
    return GambitGame(
        tree=tree, title=title, players=players, actions=tuple(node.actions for node in nodes)
    )


def _breadth_first(nodes):
    """The nodes that can be reached, in breadth-first order, with parents renumbered."""
    reached = []
    for node in nodes:  # parents before children
        above = nodes[node.parent] if node.depth else None
        never = above and above.probabilities and above.probabilities[node.action] == 0
        reached.append(above is None or (reached[node.parent] and not never))
    kept = [place for place in range(len(nodes)) if reached[place]]
    order = sorted(kept, key=lambda place: nodes[place].depth)  # stable: siblings stay together
    rank = {place: row for row, place in enumerate(order)} | {NO_PARENT: NO_PARENT}
    return [dataclasses.replace(nodes[p], parent=rank[nodes[p].parent]) for p in order]


def _tree(nodes: list[EfgNode], num_players: int, name: str) -> GameTree:
    """The game tree of the nodes."""
    actor = np.array([node.actor for node in nodes])
    sizes = np.array([len(node.actions) if node.actor >= 0 else 0 for node in nodes])
    labels = np.full((len(nodes), num_players), UNKNOWN)
    acting = np.nonzero(actor >= 0)[0]
    labels[acting, actor[acting]] = [nodes[row].information_set for row in acting]
    chance_prob = [1.0]
    for node in nodes[1:]:
        above = nodes[node.parent].probabilities
        chance_prob.append(float(above[node.action]) if above else 1.0)
    nothing = [0.0] * num_players
    returns = [[*map(float, n.payoffs)] if n.actor == TERMINAL else nothing for n in nodes]
    return complete_tree(
        parent=np.array([node.parent for node in nodes]),
        parent_action=np.array([node.action for node in nodes]),
        depth=np.array([node.depth for node in nodes]),
        actor=actor,
        legal=np.arange(max(1, sizes.max())) < sizes[:, None],
        chance_prob=np.array(chance_prob),
        returns=np.array(returns),
        labels=labels,
        game=name,
    )
