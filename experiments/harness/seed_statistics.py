"""Numbers that are measured with several seeds: in a CSV, in a result and on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.harness import published, results


def rows(
    columns: Mapping[str, object],
    samples: Iterable[Any],
    *,
    name: str = "exploitability",
    more: Mapping[str, object] | None = None,
    first_seed: int = 0,
) -> list[dict[str, object]]:
    """Rows of a CSV for a number, one for each seed.

    Args:
      columns: the columns before the seed's, the same in all rows.
      samples: the number by seed.
      name: of the number's column.
      more: the columns after it, the same in all rows.
      first_seed: of the samples; the others follow it.
    """
    return [
        {**columns, "seed": seed, name: f"{value:.6g}", **(more or {})}
        for seed, value in enumerate(samples, first_seed)
    ]


def number(
    name: str, game: str, exploitability: Sequence[float], *, paper: float | None = None
) -> results.Number:
    """Exploitability as a number of a result: the mean, the least and the most of all seeds.

    Args:
      name: of the number.
      game: that it was measured in.
      exploitability: by seed, in the game's payoffs.
      paper: the published one, in the game's payoffs; None if there is none.
    """
    unit, scale = published.measured_in(game)
    values = scale * np.asarray(exploitability)
    return results.Number(
        name=name,
        value=float(values.mean()),
        unit=unit,
        low=float(values.min()),
        high=float(values.max()),
        paper=None if paper is None else scale * paper,
        seeds=len(values),
    )


def measure(game: str, seeds: int) -> str:
    """What the numbers of `number` measure, in words."""
    unit, _ = published.measured_in(game)
    return f"exploitability (NashConv / 2) in {game}, in {unit}: mean of {seeds} seeds of search"


def text(game: str, exploitability: Sequence[float]) -> str:
    """The mean of exploitability over seeds, in the unit that is reported, for people."""
    return f"{published.measured_in(game)[1] * np.mean(exploitability):.3g}"
