"""Files of solved hold'em subgames: `solution.npz` with the subgame and the policies.

Version 2: the arrays `betting_*`, `all_hands`, and by player `hands_p`, `range_p` and `policy_p`;
and `text`, a JSON object with the version, the board, the deals, action names and bet sizes.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys

import jax.numpy as jnp
import numpy as np

from jaxgames.files import DAMAGED_ARRAYS, write_arrays
from jaxgames.holdem.bet_sizes import BetSize, BetSizes
from jaxgames.holdem.betting_tree import BettingAbstraction, BettingTree
from solvers.holdem.subgame_spec import ranges_of_all_hands
from solvers.holdem.subgame_tree import HoldemTree, build_holdem_tree
from solvers.sequence_form import Policy

_VERSION = 2
_BETTING = ("actor", "street", "parent", "child", "paid")  # arrays of the betting tree


def save_solution(path: pathlib.Path | str, tree: HoldemTree, policy: Policy) -> None:
    """Writes a subgame and its policies into a file, which replaces an older one at once.

    Args:
      path: of the file.
      tree: the subgame.
      policy: both players' policies `[D_p, A]`.

    Raises:
      OSError: the file cannot be written.
    """
    path = pathlib.Path(path)
    arrays = {f"betting_{name}": getattr(tree.betting, name) for name in _BETTING}
    arrays["all_hands"] = tree.all_hands
    for player in range(2):
        arrays[f"hands_{player}"] = tree.hands[player]
        arrays[f"range_{player}"] = tree.ranges[player]
        arrays[f"policy_{player}"] = np.asarray(policy[player])
    abstraction = tree.betting.abstraction
    text = {
        "version": _VERSION,
        "board": list(tree.board),
        "deck": list(tree.deck),
        "deals": list(tree.deals),
        "isomorphism": tree.isomorphism,
        "pot": tree.betting.pot,
        "num_streets": tree.betting.num_streets,
        "actions": tree.betting.actions,
        "abstraction": None if abstraction is None else dataclasses.asdict(abstraction),
        "dtype": str(tree.sequence_form.dtype),
    }
    write_arrays(path, text=np.array(json.dumps(text)), **arrays)


def load_solution(path: pathlib.Path | str) -> tuple[HoldemTree, Policy]:
    """Reads what `save_solution` wrote, and builds the tree again.

    Returns:
      The subgame, and both players' policies.

    Raises:
      OSError: the file cannot be read.
      ValueError: the file is not a solution of this version.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            text = json.loads(str(file["text"]))
            if text["version"] != _VERSION:
                raise ValueError(f"version {text['version']} is not {_VERSION}")
            arrays = {name: file[name] for name in file.files if name != "text"}
        tree = _tree(text, arrays)
        policy = tuple(jnp.asarray(arrays[f"policy_{player}"]) for player in range(2))
        for player, treeplex in enumerate(tree.sequence_form.treeplexes):
            if len(policy[player]) != treeplex.num_decisions:
                raise TypeError(
                    f"player {player} has {treeplex.num_decisions:,} decisions, and policies in"
                    f" {len(policy[player]):,}"
                )
    except (TypeError, *DAMAGED_ARRAYS) as error:
        raise ValueError(f"{path} is not a solution of this version: {error}") from None
    return tree, policy


def _tree(text, arrays):
    """The tree of a file's text and arrays."""
    betting = BettingTree(
        **{name: arrays[f"betting_{name}"] for name in _BETTING},
        pot=text["pot"],
        num_streets=text["num_streets"],
        actions=tuple(map(tuple, text["actions"])),
        abstraction=_abstraction(text["abstraction"]),
    )
    hands = arrays["all_hands"]
    held, weights = (
        tuple(arrays[f"{name}_{player}"] for player in range(2)) for name in ("hands", "range")
    )
    return build_holdem_tree(
        tuple(text["board"]),
        hands,
        ranges_of_all_hands(hands, held, weights),
        betting,
        deals=tuple(text["deals"]),
        deck=tuple(text["deck"]),
        dtype=text["dtype"],
        isomorphism=text["isomorphism"],
        max_bytes=sys.maxsize,  # what solving takes does not count: nothing is solved
    )


def _abstraction(written):
    """The abstraction of a betting tree, from its JSON object or None."""
    if written is None:
        return None
    by_street = tuple(tuple(map(_bet_sizes, players)) for players in written["sizes"])
    first, max_raises = tuple(written["first"]), tuple(written["max_raises"])
    changed = {"sizes": by_street, "first": first, "max_raises": max_raises}
    return BettingAbstraction(**written | changed)


def _bet_sizes(written):
    return BetSizes(
        **{kind: tuple(BetSize(**size) for size in sizes) for kind, sizes in written.items()}
    )
