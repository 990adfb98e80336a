"""Policies on disk: `policy.npz` with all digits, and `policy.csv` for people."""

from __future__ import annotations

import pathlib

import numpy as np
from jaxtyping import Float

from experiments.harness import results
from jaxgames.core import Game
from jaxgames.files import DAMAGED_ARRAYS, write_arrays
from jaxgames.game_tree import GameTree
from jaxgames.policy_text import policy_rows

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
    tables = {f"player_{p}": table for p, table in enumerate(policy)}
    write_arrays(folder / "policy.npz", **tables)
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
    except DAMAGED_ARRAYS as error:
        raise ValueError(f"{path} holds no policy: {error}") from None
    return tuple(np.asarray(table, np.float64) for table in tables)
