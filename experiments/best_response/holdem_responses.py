"""Best responses to simple players of hold'em: exact, by the rule of local best response, learned.

Chumps do not look at their cards, so exact values can be computed, and that of local best response
too (`solvers.approximate_best_response.holdem_chumps`). ISMCTS-BR learns in both seats, by the
rules of the game.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from experiments.best_response.learned_responses import Learning, training_settings
from experiments.harness import results
from experiments.harness.progress import status
from experiments.harness.runs import Run
from experiments.student_of_games.training_run import Trainee
from jaxgames.holdem.rules import Poker
from jaxgames.registry import make
from solvers.approximate_best_response import (
    holdem_opponents,
    local_best_response,
    response_matches,
)
from solvers.approximate_best_response.holdem_chumps import (
    ResponsePlan,
    chump_responses,
    chumps,
    local_value,
)
from solvers.approximate_best_response.local_best_response import LocalBestResponse
from train.best_response_training import (
    ResponseEvaluator,
    init,
    new_network,
    train_step,
)
from train.rl.environment import Environment

LIMIT, NO_LIMIT = "limit_holdem", "hunl(bets=1/allin)"
EXACT, LEARNED, PLAYED = "exact", "ISMCTS-BR", "LBR, played"
# what local best response may choose among in each round
FCPA, FC = (0, 1, 2, 3), (0, 1)
PLANS = {
    LIMIT: {EXACT: ResponsePlan(), "LBR": ResponsePlan(rule=local_value)},
    NO_LIMIT: {
        EXACT: ResponsePlan(),
        "LBR": ResponsePlan(rule=local_value),
        "LBR, bets from the turn on": ResponsePlan(rule=local_value, allowed=(FC, FC, FCPA, FCPA)),
        "LBR, no bets": ResponsePlan(rule=local_value, allowed=(FC, FC, FC, FC)),
    },
}


# Exact values by Johanson et al. (2011), LBR's by Lisy and Bowling (2016); mb/h
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
    " by ISMCTS-BR (low and high: two standard errors)"
)
DEVIATIONS = (
    "ISMCTS-BR sees a hand's strength instead of its cards, and gets the mean over the opponent's"
    " hands at showdown",
    "the paper trains a larger network for 100,000 steps; its percentages were not available",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HoldemLearning(Learning):
    """How responders learn and search in hold'em."""

    scale: float = 2.0  # of payoffs in searches and networks, in big blinds
    no_limit_scale: float = 100.0  # without limits, but against who folds: only blinds can be won
    greedy: float = 0.95  # of the moves in training


# Found by trials against always raise, where responders folded too much before the flop. It may be
# that, as long as they do not play the later rounds well, it is right to fold, and then the later
# rounds are not learned. Against easier chumps they learn to play them first; much noise, and a
# large constant of PUCB, keep searches looking behind calls.
EASIER = ("always call", "call or raise")
LEARNING = HoldemLearning(
    measured_at=(0, 1000, 2000),
    simulations=16,
    measured_simulations=1,
    exploration=3.0,
    noise=0.3,
    episodes=512,
    updates=16,
    width=128,
    learning_rate=2e-3,
    decay=0.05,
    batch_size=1024,
    capacity=2**17,
    max_uses=100,
    games=50_000,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """What a responder wins, in thousandths of a big blind per hand."""

    game: str
    chump: str
    responder: str
    step: int = 0  # of training
    seats: list[float]
    error: float = 0.0  # standard error of the mean over seats; 0: exact
    gain: float | None = None  # variance of deals in one seat each, over that of duplicate deals

    @property
    def value(self) -> float:
        """The mean over both seats."""
        return float(np.mean(self.seats))


def computed(game: str, name: str) -> Iterator[Cell]:
    """What an exact best response to a chump wins, and the rule of local best response.

    Raises:
      ValueError: the game has no such chump, or is not hold'em of two players.
    """
    rules, plans = make(game), PLANS.get(game, PLANS[LIMIT])
    with status(f"responses to {name} in {game}"):
        found = chump_responses(rules, chumps(rules)[name], tuple(plans.values()))
    for responder, response in zip(plans, found, strict=True):
        seats = [milli(rules) * value for value in response.values]
        yield Cell(game=game, chump=name, responder=responder, seats=seats)


def milli(game: Poker) -> float:
    """How many thousandths of a big blind are a chip."""
    return 1000 / max(game.blinds)


def played(game: str, name: str, *, deals: int, seed: int) -> Iterator[Cell]:
    """What local best response wins in hands that are played, each deal in both seats."""
    rules = make(game)
    policy = functools.partial(holdem_opponents.by_chump, rules, chumps(rules)[name])
    key = jax.random.key(seed)
    with status(f"local best response to {name} in {game}"):
        won = local_best_response.duplicate_deals(
            LocalBestResponse(rules), policy, key, num_deals=deals
        )
    won = milli(rules) * np.asarray(won, np.float64)
    both = won.mean(axis=1)
    yield Cell(
        game=game,
        chump=name,
        responder=PLAYED,
        seats=won.mean(axis=0).tolist(),
        error=float(both.std(ddof=1) / len(both) ** 0.5),
        gain=float(won.var(axis=0).sum() / 4 / both.var()),
    )


def learned(
    run: Run, game: str, lessons: Mapping[str, Sequence[int]], learning: HoldemLearning
) -> Iterator[Cell]:
    """What ISMCTS-BR wins from one chump after another: `lessons` are the steps of training against
    each after which it is measured.

    Against each it goes on with what it learned against the one before.

    Raises:
      FloatingPointError: a number in training is not finite.
    """
    rules = make(game)
    poker = holdem_opponents.StrengthPoker(**rules.parameters())
    longest = max(lessons.values(), key=lambda steps: steps[-1])
    learning = dataclasses.replace(learning, measured_at=tuple(longest))  # one rate for all lessons
    label = re.sub(r"[^\w.]+", "_", game)
    seats = [_Responder(run, learning, poker, label, seat) for seat in range(2)]
    for name, steps in lessons.items():
        for responder in seats:
            responder.face(name)
        for step in steps:
            won = [responder.won(step) for responder in seats]
            errors = [rows.std(ddof=1) / len(rows) ** 0.5 for rows in won]
            yield Cell(
                game=game,
                chump=name,
                responder=LEARNED,
                step=step,
                seats=[float(rows.mean()) for rows in won],
                error=float(np.linalg.norm(errors) / 2),
            )


class _Responder:
    """ISMCTS-BR in one seat."""

    def __init__(self, run: Run, learning: HoldemLearning, poker, label: str, seat: int):
        self.run, self.learning, self.poker = run, learning, poker
        self.label, self.seat = label, seat
        self.environment = Environment(
            game=self._against(EASIER[0]).game, features=None, legal=None
        )
        key = jax.random.key(learning.seed)
        self.graph, self.params = new_network(
            self.environment, key, width=learning.width, depth=learning.depth
        )

    def _against(self, chump):
        return holdem_opponents.build_chump_game(
            self.poker, chumps(self.poker)[chump], responder=self.seat
        )

    def face(self, chump: str) -> None:
        """Begins to learn against another one."""
        learning, poker = self.learning, self.poker
        large = not poker.limit and chump != "always fold"
        scale = (learning.no_limit_scale if large else learning.scale) * max(poker.blinds)
        self.settings = dataclasses.replace(
            training_settings(learning, ResponseEvaluator(self.graph), scale),
            greedy=learning.greedy,
            acts_by="prior",
        )
        self.response = self._against(chump)
        key = jax.random.fold_in(jax.random.key(learning.seed), 1 + self.seat)
        state = init(self.environment, self.response, self.params, key, settings=self.settings)

        def step(state):
            return train_step(
                self.environment, self.response, self.graph, state, settings=self.settings
            )

        self.trainee = Trainee(state, step, self.run, name=f"{self.label}-{chump}-{self.seat}")

    def won(self, step: int) -> np.ndarray:
        """Of every game after so many steps of training."""
        self.trainee.train(step)
        self.params = self.trainee.params
        search = dataclasses.replace(
            self.settings.search, simulations=self.learning.measured_simulations, noise=0.0
        )
        with status(f"{self.learning.games:,} games after {step} steps"):
            found = response_matches.play(
                self.response,
                (self.environment, self.params),
                jax.random.fold_in(jax.random.key(self.learning.seed), 10 + self.seat),
                settings=search,
                num_games=self.learning.games,
            )
        return milli(self.poker) * found


def last(cells: Sequence[Cell]) -> list[Cell]:
    """Without what was measured before the end of training."""
    end = {(cell.game, cell.chump, cell.responder): cell for cell in cells}
    return list(end.values())


def exact(cells: Sequence[Cell], cell: Cell) -> Cell:
    """That of the exact best response to the same chump."""
    return next(
        other
        for other in cells
        if (other.game, other.chump, other.responder) == (cell.game, cell.chump, EXACT)
    )


def title(game: str) -> str:
    """What a game is called in plots."""
    return {LIMIT: "limit hold'em", NO_LIMIT: "no-limit, bets of the pot and all-in"}.get(
        game, game
    )


def row(cell: Cell) -> dict[str, object]:
    """A line of a CSV."""
    first, second = (f"{value:.7g}" for value in cell.seats)
    where = dict(game=cell.game, chump=cell.chump, responder=cell.responder, step=cell.step)
    return where | dict(player_0=first, player_1=second, error=f"{cell.error:.4g}")


def numbers(cells: Sequence[Cell], cell: Cell) -> Iterator[results.Number]:
    """Lines of the tables, of one of the cells; none of what was measured in training."""
    if cell not in last(cells):
        return
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
    best = exact(cells, cell)
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


def print_table(heading: str, game: str, cells: Sequence[Cell]) -> None:
    """What was found in a game, on the terminal."""
    table = Table(title=heading)
    for name in ("against", "responder", "player 0", "player 1", "mean", "+-", "% of exact"):
        table.add_column(name)
    for cell in last(cells):
        if cell.game == game:
            share = 100 * cell.value / exact(cells, cell).value
            texts = (f"{x:,.2f}" for x in (*cell.seats, cell.value, 2 * cell.error))
            table.add_row(cell.chump, cell.responder, *texts, f"{share:.1f}")
    Console().print(table)
