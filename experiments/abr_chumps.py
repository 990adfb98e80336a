"""Best responses to simple players of hold'em, exact, local and learned (Timbers et al. 2020,
Tables 2 and 3): always fold, always call, always raise, calls or raises at random, all at random.

Chumps do not look at their cards, so exact values can be computed, and that of local best response
too (`solvers.response.chumps`); what it wins in hands that are played, each deal in both seats, is
measured besides. ISMCTS-BR learns in both seats.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from experiments import plots, results
from experiments.best_responses import Learning, training_settings
from experiments.progress import status
from experiments.runs import Run, RunArguments
from experiments.training import Trainee
from jaxgames.holdem.rules import Poker
from jaxgames.registry import make
from solvers.response import games, holdem, local_best_response
from solvers.response.chumps import Plan, chumps, local, most_decisions, responses
from solvers.response.local_best_response import LocalBestResponse
from solvers.response.response_game import ResponseGame
from train.best_response import NetworkEvaluator, new_network, new_training, train_step
from train.rl.environment import Environment

LIMIT, NO_LIMIT = "limit_holdem", "hunl(bets=1/allin)"
EXACT, LEARNED, PLAYED = "exact", "ISMCTS-BR", "LBR, played"
# what local best response may choose among in each round
FCPA, FC = (0, 1, 2, 3), (0, 1)
PLANS = {
    LIMIT: {EXACT: Plan(), "LBR": Plan(rule=local)},
    NO_LIMIT: {
        EXACT: Plan(),
        "LBR": Plan(rule=local),
        "LBR, bets from the turn on": Plan(rule=local, allowed=(FC, FC, FCPA, FCPA)),
        "LBR, no bets": Plan(rule=local, allowed=(FC, FC, FC, FC)),
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    games: tuple[str, ...] = (LIMIT, NO_LIMIT)
    played: tuple[str, ...] = ("call or raise",)  # by local best response, in the first game
    deals: int
    learned: dict[str, tuple[str, ...]]  # by ISMCTS-BR, by game
    learning: Learning
    scale: float = 2.0  # of payoffs in searches and networks, in big blinds
    greedy: float = 0.9  # of the moves in training


_ONE_CARD = "poker(board=0/1,first=1/0,raise_sizes=10/20,max_raises=1/1)"
_LEARNING = Learning(
    measured_at=(0, 500, 1000),
    simulations=16,
    measured_simulations=16,
    exploration=0.5,
    noise=0.1,
    width=64,
    learning_rate=3e-3,
    batch_size=512,
    capacity=2**16,
    games=10_000,
)
PRESETS = {
    "smoke": Config(
        games=(_ONE_CARD,),
        played=("always call",),
        deals=32,
        learned={_ONE_CARD: ("always call",)},
        learning=dataclasses.replace(
            _LEARNING,
            measured_at=(0, 4),
            simulations=4,
            measured_simulations=4,
            episodes=8,
            width=8,
            depth=1,
            batch_size=16,
            capacity=256,
            games=64,
        ),
    ),
    "cpu": Config(deals=2000, learned={LIMIT: ("always call", "always raise")}, learning=_LEARNING),
    "paper": Config(
        deals=100_000,
        learned={
            game: tuple(name for name in chumps(make(game)) if name != "always fold")
            for game in (LIMIT, NO_LIMIT)
        },
        learning=dataclasses.replace(
            _LEARNING,
            measured_at=(0, 10_000, 100_000),
            simulations=100,
            measured_simulations=400,
            episodes=2048,
            width=512,
            depth=4,
            learning_rate=2e-4,
            batch_size=2048,
            capacity=2_000_000,
            games=1_000_000,
        ),
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Compute and learn best responses to simple players of hold'em.

    Writes what responders win as curve.csv and curve.png, and result.json, into --out. Ctrl-C keeps
    what is finished there, from which --resume continues to the same numbers.
    """

    preset: Literal["smoke", "cpu", "paper"] = "cpu"
    """smoke: a game with a board of one card; cpu: most of an hour; paper: for an accelerator."""


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


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the experiment.

    Raises:
      ValueError: `out` holds another run.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; what was finished has been kept.
      FloatingPointError: a number in training is not finite.
    """
    config = PRESETS[arguments.preset]
    run = Run(arguments, config, experiment="abr_chumps", command=command)
    cells: list[Cell] = []
    for game in config.games:
        for name in chumps(make(game)):
            compute = functools.partial(_computed, game, name)
            cells += run.kept(f"computed-{game}-{name}", Cell, compute)
    for name in config.played:
        compute = functools.partial(_played, config, config.games[0], name)
        cells += run.kept(f"played-{name}", Cell, compute)
    for game, names in config.learned.items():
        for name in names:
            learn = functools.partial(_learned, config, run, game, name)
            cells += run.kept(f"learned-{game}-{name}", Cell, learn)
    results.write_csv(run.out / "curve.csv", list(map(_row, cells)))
    draw(run.out / "curve.png", config, cells)
    run.finish(
        [number for cell in cells for number in _numbers(cells, cell)],
        measure="what best responses win on average over both seats, in mb/h, thousandths of a big"
        " blind per hand (half of NashConv): exact, by the rule of LBR (exact too), by LBR in"
        " duplicate deals and by ISMCTS-BR (low and high: two standard errors)",
        deviations=_DEVIATIONS,
    )
    _print(config, cells)


_DEVIATIONS = (
    "ISMCTS-BR sees a hand's strength instead of its cards, and gets the mean over the opponent's"
    " hands at showdown",
    "the paper trains a larger network for 100,000 steps; its percentages were not available",
)


def _computed(game: str, name: str) -> Iterator[Cell]:
    rules, plans = make(game), PLANS.get(game, PLANS[LIMIT])
    with status(f"responses to {name} in {game}"):
        found = responses(rules, chumps(rules)[name], tuple(plans.values()))
    for responder, response in zip(plans, found, strict=True):
        seats = [_milli(rules) * value for value in response.values]
        yield Cell(game=game, chump=name, responder=responder, seats=seats)


def _milli(game: Poker) -> float:
    """How many thousandths of a big blind are a chip."""
    return 1000 / max(game.blinds)


def _played(config: Config, game: str, name: str) -> Iterator[Cell]:
    rules = make(game)
    policy = functools.partial(holdem.by_chump, rules, chumps(rules)[name])
    key = jax.random.key(config.learning.seed)
    with status(f"local best response to {name} in {game}"):
        won = local_best_response.duplicate_deals(
            LocalBestResponse(rules), policy, key, num_deals=config.deals
        )
    won = _milli(rules) * np.asarray(won, np.float64)
    both = won.mean(axis=1)
    yield Cell(
        game=game,
        chump=name,
        responder=PLAYED,
        seats=won.mean(axis=0).tolist(),
        error=float(both.std(ddof=1) / len(both) ** 0.5),
        gain=float(won.var(axis=0).sum() / 4 / both.var()),
    )


def _learned(config: Config, run: Run, game: str, name: str) -> Iterator[Cell]:
    rules = make(game)
    poker = holdem.StrengthPoker(**rules.parameters())
    trainees = [_Responder(config, run, poker, f"{game}-{name}", name, seat) for seat in range(2)]
    for step in config.learning.measured_at:
        won = [trainee.won(step) for trainee in trainees]
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

    def __init__(self, config: Config, run: Run, poker, label: str, chump: str, seat: int):
        learning = config.learning
        self.learning, self.poker, self.seat = learning, poker, seat
        game = holdem.chump_game(poker, responder=seat, longest=most_decisions(poker))
        policy = functools.partial(holdem.by_chump, poker, chumps(poker)[chump])
        responder = jnp.int32(seat)
        self.response = ResponseGame(
            game=game,
            opponent=holdem.ByHand(game=poker, policy_of_hands=policy),
            belief=holdem.RangeBelief(game=poker, policy_of_hands=None, responder=responder),
            responder=responder,
        )
        self.environment = Environment(game=game, features=None, legal=None)
        key = jax.random.key(learning.seed)
        graph, params = new_network(
            self.environment, key, width=learning.width, depth=learning.depth
        )
        scale = config.scale * max(poker.blinds)
        self.settings = dataclasses.replace(
            training_settings(learning, NetworkEvaluator(graph), scale), greedy=config.greedy
        )
        state = new_training(
            self.environment,
            self.response,
            params,
            jax.random.fold_in(key, 1 + seat),
            settings=self.settings,
        )

        def step(state):
            return train_step(self.environment, self.response, graph, state, settings=self.settings)

        self.trainee = Trainee(state, step, run, name=f"{label}-{seat}")

    def won(self, step: int) -> np.ndarray:
        """Of every game after so many steps of training."""
        self.trainee.train(step)
        search = dataclasses.replace(
            self.settings.search, simulations=self.learning.measured_simulations, noise=0.0
        )
        with status(f"{self.learning.games:,} games after {step} steps"):
            found = games.play(
                self.response,
                (self.environment, self.trainee.params),
                jax.random.fold_in(jax.random.key(self.learning.seed), 10 + self.seat),
                settings=search,
                num_games=self.learning.games,
            )
        return _milli(self.poker) * found


def _last(cells: Sequence[Cell]) -> list[Cell]:
    """Without what was measured before the end of training."""
    end = {(cell.game, cell.chump, cell.responder): cell for cell in cells}
    return list(end.values())


def _exact(cells: Sequence[Cell], cell: Cell) -> Cell:
    return next(
        other
        for other in cells
        if (other.game, other.chump, other.responder) == (cell.game, cell.chump, EXACT)
    )


def draw(path: pathlib.Path, config: Config, cells: Sequence[Cell]) -> None:
    """A panel per game, a row per chump, a bar per responder."""
    columns = len(config.games)
    with plots.figure(path, rows=1, columns=columns, size=(5.2 * columns, 4.2)) as axes:
        for place, game in zip(axes[0], config.games, strict=True):
            here = [cell for cell in _last(cells) if cell.game == game]
            names = list(dict.fromkeys(cell.chump for cell in here))
            kinds = list(dict.fromkeys(cell.responder for cell in here))
            colours = dict(zip(kinds, plots.COLOURS.values(), strict=False))
            height, known = 0.8 / len(kinds), []
            for cell in here:
                row = names.index(cell.chump) + height * (kinds.index(cell.responder) + 0.5) - 0.4
                place.barh(
                    row,
                    cell.value,
                    height,
                    xerr=2 * cell.error or None,
                    color=colours[cell.responder],
                    error_kw={"linewidth": 0.8},
                )
                if (paper := PUBLISHED.get((game, cell.chump, cell.responder))) is not None:
                    known.append((paper, row))
            for kind in kinds:
                place.barh(0, 0, color=colours[kind], label=kind)
            if known:
                x, y = zip(*known, strict=True)
                place.plot(x, y, color="black", label="published", **plots.HOLLOW)
            place.set_yticks(range(len(names)), names)
            place.invert_yaxis()
            place.set_axisbelow(True)
            place.set(xlabel="won, mb/h (mean over seats)", title=_title(game))
            place.legend(frameon=False, fontsize=7, loc="lower right")


def _title(game: str) -> str:
    return {LIMIT: "limit hold'em", NO_LIMIT: "no-limit, bets of the pot and all-in"}.get(
        game, "hold'em with a board of one card"
    )


def _row(cell: Cell) -> dict[str, object]:
    first, second = (f"{value:.7g}" for value in cell.seats)
    where = dict(game=cell.game, chump=cell.chump, responder=cell.responder, step=cell.step)
    return where | dict(player_0=first, player_1=second, error=f"{cell.error:.4g}")


def _numbers(cells: Sequence[Cell], cell: Cell) -> Iterator[results.Number]:
    if cell not in _last(cells):
        return
    kind = {LIMIT: "limit", NO_LIMIT: "no limit"}.get(cell.game, "one card")
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
    exact = _exact(cells, cell)
    if cell is not exact:
        scale = 100 / exact.value
        span = {name: scale * value for name, value in span.items()}
        yield results.Number(name=row, value=scale * cell.value, unit="% of exact", **span)
    if cell.gain is not None:
        yield results.Number(
            name=f"one seat / both:{cell.chump}, {kind}",
            value=cell.gain,
            unit="variance of as many hands",
        )


def _print(config: Config, cells: Sequence[Cell]) -> None:
    for game in config.games:
        table = Table(title=f"best responses in {_title(game)}: mb/h")
        for heading in ("against", "responder", "player 0", "player 1", "mean", "+-", "% of exact"):
            table.add_column(heading)
        for cell in _last(cells):
            if cell.game == game:
                share = 100 * cell.value / _exact(cells, cell).value
                numbers = (*cell.seats, cell.value, 2 * cell.error)
                texts = (f"{number:,.2f}" for number in numbers)
                table.add_row(cell.chump, cell.responder, *texts, f"{share:.1f}")
        Console().print(table)
