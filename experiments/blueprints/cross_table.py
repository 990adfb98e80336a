"""Cross tables: every player of hold'em against every other, and local best response against all.

The same boards are drawn for all matches. On each of them all pairs of hands are played in both
seats (`solvers.blueprint.enumerated_match`), so that the errors are those of the boards alone.
Local best response plays duplicate deals.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence

import jax
import numpy as np
from rich.table import Table

from experiments.best_response.blueprint_responses import local_best_response
from experiments.harness import plots, results
from experiments.harness.experiment import text_table
from experiments.harness.progress import progress
from experiments.harness.runs import Run
from jaxgames.holdem.rules import Poker
from solvers.blueprint.blueprint import Blueprint
from solvers.blueprint.deals import random_boards
from solvers.blueprint.enumerated_match import winnings
from solvers.blueprint.hand_policy import hand_policy

LBR = "local best response"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Match:
    """What one player wins of another, in thousandths of a big blind per hand."""

    one: str
    other: str
    value: float  # mean of both seats
    error: float  # standard error


def play_all(
    run: Run, poker: Poker, players: Mapping[str, Blueprint], *, boards: int, seed: int
) -> list[Match]:
    """Plays all matches, each of which is kept for an interrupted run to resume from.

    Args:
      run: whose devices share the boards.
      poker: the game that all players play.
      players: at least two, by name.
      boards: that are drawn, at least two.
      seed: of the boards.
    """
    drawn = random_boards(jax.random.key(seed), boards, num_cards=sum(poker.board))
    pairs, matches = [*itertools.combinations(players, 2)], []
    with progress("cross table", len(pairs)) as report:
        for number, (one, other) in enumerate(pairs):

            def play(one=one, other=other) -> list[Match]:
                won = winnings(players[one], players[other], drawn, mesh=run.mesh)
                return [_match(one, other, poker, np.asarray(won, np.float64))]

            matches += run.kept(f"{one} against {other}", Match, play)
            report(number + 1, None, 0.0)
    return matches


def respond_to_all(
    run: Run, poker: Poker, players: Mapping[str, Blueprint], *, deals: int, seed: int
) -> list[Match]:
    """What local best response wins of each player in duplicate deals, piece by piece.

    Args:
      run: whose devices share the deals.
      poker: the game that all players play.
      players: by name.
      deals: each played in both seats, at least two.
      seed: of the deals.
    """
    matches = []
    for name, player in players.items():
        policy = hand_policy(player, poker)
        chips = local_best_response(run, poker, name, policy, deals=deals, seed=seed)
        matches.append(_match(LBR, name, poker, chips))
    return matches


def _match(one, other, poker, chips):
    """A match from chips `[n, 2]` of boards or deals that are played in both seats."""
    won = 1000 / max(poker.blinds) * chips.mean(axis=1)
    error = float(won.std(ddof=1) / len(won) ** 0.5)
    return Match(one=one, other=other, value=float(won.mean()), error=error)


def name(one: str, other: str) -> str:
    """Of what one player wins of another in result.json."""
    return f"cross table: {one} against {other}"


def numbers(matches: Sequence[Match], paper: Mapping[str, float]) -> Iterator[results.Number]:
    """The matches for result.json, beside those of a paper."""
    for match in matches:
        yield results.Number(
            name=(own := name(match.one, match.other)),
            value=match.value,
            low=match.value - 2 * match.error,
            high=match.value + 2 * match.error,
            unit="mb/h",
            paper=paper.get(own),
        )


def _cells(matches):
    """All players in order, and what the row wins of the column, with its standard error."""
    names = [*dict.fromkeys(name for match in matches for name in (match.one, match.other))]
    cells = {}
    for match in matches:
        cells[match.one, match.other] = match.value, match.error
        cells[match.other, match.one] = -match.value, match.error
    return names, cells


def rows(matches: Sequence[Match]) -> Iterator[dict[str, object]]:
    """A row for each player, with its winnings from all others."""
    names, cells = _cells(matches)
    for one in names:
        won = (cells.get((one, other)) for other in names)
        yield {"": one} | {
            other: f"{cell[0]:.1f} +- {cell[1]:.1f}" if cell else ""
            for other, cell in zip(names, won, strict=True)
        }


def table(matches: Sequence[Match], *, title: str) -> Table:
    """What the row wins of the column, in whole thousandths of a big blind."""
    names, cells = _cells(matches)
    lines = [
        [_short(one), *(_signed(cells[one, other][0]) if one != other else "" for other in names)]
        for one in names
    ]
    return text_table(title, ["", *map(_short, names)], lines)


def _short(name):
    """A player's name with less of its abstraction, such as 169/p:1000 for 169/percentile:1000."""
    return name.replace("percentile", "p")


def _signed(value):
    return f"{round(value):+d}" if round(value) else "0"


def draw(path: pathlib.Path, matches: Sequence[Match]) -> None:
    """The cross table as coloured squares; colours end at 300 thousandths of a big blind."""
    names, cells = _cells(matches)
    won = np.array([[cells.get((one, other), (np.nan, 0))[0] for other in names] for one in names])
    size = 1.6 + 0.72 * len(names)
    with plots.figure(path, rows=1, columns=1, size=(size + 0.8, size)) as axes:
        panel = axes[0, 0]
        panel.imshow(np.clip(won, -300, 300), cmap="PuOr", vmin=-300, vmax=300)
        for row, column in itertools.permutations(range(len(names)), 2):
            value, error = cells[names[row], names[column]]
            dark = abs(value) > 200
            panel.text(
                column,
                row,
                f"{_signed(value)}\n± {2 * error:.0f}",
                ha="center",
                va="center",
                fontsize=7,
                color="white" if dark else "black",
            )
        panel.grid(visible=False)
        shown = [*map(_short, names)]
        panel.set_xticks(range(len(names)), shown, rotation=35, ha="right")
        panel.set_yticks(range(len(names)), shown)
        panel.set_title("The row wins of the column, mb/h")
