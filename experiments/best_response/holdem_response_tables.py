"""How experiments show best responses to chumps of hold'em, beside published numbers.

Exact values are by Johanson et al. (2011), those of local best response by Lisy and Bowling (2016).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from experiments.best_response.holdem_responses import EXACT, LIMIT, NO_LIMIT, Cell
from experiments.harness import results
from experiments.harness.experiment import text_table

# In mb/h, by game, chump and responder.
PUBLISHED = {
    (LIMIT, "always fold", EXACT): 750.0,
    (LIMIT, "always call", EXACT): 1163.48,
    (LIMIT, "always raise", EXACT): 3697.69,
    (NO_LIMIT, "always call", "LBR"): 34_000.0,
    (NO_LIMIT, "always call", "LBR, bets from the turn on"): 49_000.0,
    (NO_LIMIT, "always call", "LBR, no bets"): 0.0,
}
MEASURE = (
    "what best responses win on average over both seats, in mb/h, thousandths of a big blind per"
    " hand (half of NashConv): exact, by the rule of LBR (exact too), by LBR in duplicate deals and"
    " by ISMCTS-BR"
)
DEVIATIONS = (
    "ISMCTS-BR sees a hand's strength instead of its cards, and gets the mean over the opponent's"
    " hands at showdown",
    "the paper trains a larger network for 100,000 steps; its percentages were not available",
)


def last_cells(cells: Sequence[Cell]) -> list[Cell]:
    """The cells without those that were measured before the end of training."""
    end = {(cell.game, cell.chump, cell.responder): cell for cell in cells}
    return list(end.values())


def exact_cell(cells: Sequence[Cell], cell: Cell) -> Cell:
    """The cell of the exact best response to the same chump."""
    return next(
        other
        for other in cells
        if (other.game, other.chump, other.responder) == (cell.game, cell.chump, EXACT)
    )


def title(game: str) -> str:
    """The name of a game in plots."""
    return {LIMIT: "limit hold'em", NO_LIMIT: "no-limit, bets of the pot and all-in"}.get(
        game, game
    )


def rows(config: Any, cells: Sequence[Cell]) -> Iterator[dict[str, object]]:
    """A row for every cell."""
    return map(_row, cells)


def _row(cell: Cell) -> dict[str, object]:
    first, second = (f"{value:.7g}" for value in cell.seats)
    where = dict(game=cell.game, chump=cell.chump, responder=cell.responder, step=cell.step)
    return where | dict(player_0=first, player_1=second, error=f"{cell.error:.4g}")


def numbers(config: Any, cells: Sequence[Cell]) -> Iterator[results.Number]:
    """What responders win after training, in mb/h and as a share of the exact value."""
    for cell in last_cells(cells):
        yield from _numbers(exact_cell(cells, cell), cell)


def _numbers(best: Cell, cell: Cell) -> Iterator[results.Number]:
    kind = {LIMIT: "limit", NO_LIMIT: "no limit"}.get(cell.game, cell.game)
    row = f"{cell.responder}:{cell.chump}, {kind}"
    span = {}
    if cell.error:
        span = dict(low=cell.value - 2 * cell.error, high=cell.value + 2 * cell.error)
    yield results.Number(
        name=row,
        value=cell.value,
        unit="mb/h, mean over seats",
        paper=PUBLISHED.get((cell.game, cell.chump, cell.responder)),
        **span,
    )
    if cell is not best:
        scale = 100 / best.value
        span = {name: scale * value for name, value in span.items()}
        yield results.Number(name=row, value=scale * cell.value, unit="% of exact", **span)
    if cell.gain is not None:
        yield results.Number(
            name=f"one seat / both:{cell.chump}, {kind}",
            value=cell.gain,
            unit="variance of as many hands",
        )


def table(heading: str, game: str, cells: Sequence[Cell]) -> Table:
    """What responders win in a game after training, for the terminal."""
    lines = []
    for cell in last_cells(cells):
        if cell.game == game:
            share = 100 * cell.value / exact_cell(cells, cell).value
            texts = (f"{x:,.2f}" for x in (*cell.seats, cell.value, 2 * cell.error))
            lines.append((cell.chump, cell.responder, *texts, f"{share:.1f}"))
    headings = ("against", "responder", "player 0", "player 1", "mean", "+-", "% of exact")
    return text_table(heading, headings, lines, labels=2)
