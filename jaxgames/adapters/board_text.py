"""Boards as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from jaxtyping import Int

_STONES = ".XO"  # by 0, 1 and -1


def lines(
    board: Int[np.ndarray, "R C"],
    *,
    columns: str,
    rows: Iterable[int] | None,
    slant: bool = False,
) -> str:
    """A board of stones.

    Args:
      board: 1 where the player who began has a stone (`X`), -1 where the other has one (`O`), else
        0; rows from the top.
      columns: their names, a letter each.
      rows: their numbers from the top; None: rows have no names.
      slant: each row begins a step further to the right than the one above.
    """
    pieces = ["".join(_STONES[stone] for stone in row) for row in board.tolist()]
    return labelled(pieces, columns=columns, rows=rows, slant=slant)


def labelled(
    pieces: Sequence[str], *, columns: str, rows: Iterable[int] | None, slant: bool = False
) -> str:
    """A board of any pieces, a letter each; the other arguments are those of `lines`."""
    names = [""] * len(pieces) if rows is None else [f"{number} " for number in rows]
    width = max(map(len, names))
    text = [
        " " * (slant * place) + name.rjust(width) + " ".join(row)
        for place, (name, row) in enumerate(zip(names, pieces, strict=True))
    ]
    return "\n".join([*text, " " * (slant * len(text) + width) + " ".join(columns)])
