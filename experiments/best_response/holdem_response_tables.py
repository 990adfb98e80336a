"""How experiments show best responses to chumps of hold'em, beside published numbers.

Exact values are by Johanson et al. (2011), those of ISMCTS-BR by Timbers et al. (2020), those of
local best response by Lisy and Bowling (2016) and, against the chump that always folds, by Moravcik
et al. (2017).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from experiments.best_response.holdem_responses import (
    EXACT,
    FC_ALL,
    FC_LATE,
    FCPA_ALL,
    FCPA_LATE,
    LEARNED,
    LIMIT,
    NO_LIMIT,
    WITHOUT_SEARCH,
    Cell,
)
from experiments.harness import results
from experiments.harness.experiment import text_table

# In mb/h, by responder. The papers' chump that calls or raises "with equal probability" is read in
# three ways, and each has the same published values beside it.
_CALL_OR_RAISE = {
    FCPA_ALL: 23_100.0,
    FCPA_LATE: 24_400.0,
    FC_ALL: 7_100.0,
    FC_LATE: 16_200.0,
    LEARNED: 47_900.0,
}
READINGS = ("call or raise", "call or pot", "call or all-in")
_NO_LIMIT = {
    "always fold": {FCPA_LATE: 750.0, FC_ALL: 250.0},
    "always call": {
        FCPA_ALL: 34_000.0,
        FCPA_LATE: 49_000.0,
        FC_ALL: 0.0,
        FC_LATE: 0.0,
        LEARNED: 49_700.0,
    },
    **dict.fromkeys(READINGS, _CALL_OR_RAISE),
    "uniform": {FCPA_ALL: 39_100.0, FCPA_LATE: 80_700.0, FC_ALL: 15_700.0, FC_LATE: 2_200.0},
}
# In mb/h, by game, chump and responder.
PUBLISHED = {
    (LIMIT, "always fold", EXACT): 750.0,
    (LIMIT, "always call", EXACT): 1163.48,
    (LIMIT, "always raise", EXACT): 3697.69,
} | {
    (NO_LIMIT, chump, responder): value
    for chump, values in _NO_LIMIT.items()
    for responder, value in values.items()
}
MEASURE = (
    "what best responses win on average over both seats, in mb/h, thousandths of a big blind per"
    " hand (half of NashConv): exact, by the rule of LBR (exact too; from the turn on: it calls"
    " before), by LBR in duplicate deals and by ISMCTS-BR"
)
DEVIATIONS = (
    "ISMCTS-BR sees a hand's strength instead of its cards, and gets the mean over the opponent's"
    " hands at showdown",
    WITHOUT_SEARCH,
    "ISMCTS-BR learns against one chump after another, from easier to harder ones; the paper trains"
    " a larger network for 100,000 steps against each; the numbers in its Tables 2 and 3 are not"
    " known here, only those in its text",
    "the settings of ISMCTS-BR were chosen in some twenty trials by the share of the exact value"
    " that it wins from always raise in limit; the unit of payoffs in no-limit was chosen from two,"
    " and so were the order of the opponents in limit and to show the network the bet to be called"
    " as a share of the pot; all with the one seed that is reported",
    "no-limit: the papers' chump that calls or raises with equal probability is read in three ways:"
    " (fold, call, pot, all-in) = (0, 1/2, 1/4, 1/4), 'call or raise'; (0, 1/2, 1/2, 0), 'call or"
    " pot'; (0, 1/2, 0, 1/2), 'call or all-in'; where a raise is not legal, the other actions keep"
    " their proportions. Only 'call or pot' fits the 47,900 mb/h of the paper's ISMCTS-BR: nobody"
    " can win as much from the other two. The published values of LBR (standard errors of 300 to"
    " 600) fit none of the three: for each, at least three of the four are off by more than 3,000",
    "no-limit: the published values of LBR against random play do not fit the chump that draws"
    " fold, call, pot and all-in with equal probability: two of the four are more than anybody can"
    " win from it",
)


def last_cells(cells: Sequence[Cell]) -> list[Cell]:
    """The cells without those that were measured before the end of training."""
    end = {(cell.game, cell.chump, cell.responder): cell for cell in cells}
    return list(end.values())


def exact_cell(cells: Sequence[Cell], cell: Cell) -> Cell | None:
    """The cell of the exact best response to the same opponent, if it was computed."""
    same = (
        other
        for other in cells
        if (other.game, other.chump, other.responder) == (cell.game, cell.chump, EXACT)
    )
    return next(same, None)


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
    """What responders win after training, in mb/h and as a share of the exact value, if known."""
    for cell in last_cells(cells):
        yield from _numbers(exact_cell(cells, cell), cell)


def _numbers(best: Cell | None, cell: Cell) -> Iterator[results.Number]:
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
    if best not in (None, cell):
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
    lines, headings = [], ["against", "responder", "player 0", "player 1", "mean", "+-"]
    for cell in last_cells(cells):
        if cell.game == game:
            texts = (f"{x:,.2f}" for x in (*cell.seats, cell.value, 2 * cell.error))
            lines.append([cell.chump, cell.responder, *texts])
            if (best := exact_cell(cells, cell)) is not None:
                lines[-1].append(f"{100 * cell.value / best.value:.1f}")
    if any(cell.responder == EXACT for cell in cells):
        headings.append("% of exact")
    return text_table(heading, headings, lines, labels=2)
