"""How exploitable an agent is, by exact, local and learned best responses, in one table.

In games that enumerate, agents of any kind; in hold'em, agents that do not look at their cards,
to which exact best responses and the value of local best response can be computed.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table

from experiments.best_response import abr_uniform, holdem_responses
from experiments.best_response.holdem_responses import Cell
from experiments.best_response.learned_responses import (
    Learning,
    Point,
    arena,
    by_games,
    last,
    points,
    row,
    search_alone,
)
from experiments.best_response.model_free_responses import model_free
from experiments.harness import results
from experiments.harness.runs import Run, RunArguments
from jaxgames.holdem.cards import NUM_CARDS
from jaxgames.holdem.rules import Poker
from jaxgames.registry import make, unknown
from solvers.approximate_best_response.holdem_chumps import chumps

_DEFAULT = Learning(measured_at=(0, 400))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    game: str
    agent: str
    learning: Learning
    without_search: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Learn best responses to an agent of an enumerable two-player zero-sum game, or of hold'em.

    Prints what an exact best response, local best response (in hold'em) and ISMCTS-BR win against
    it, and writes the learning curve as curve.csv (and curve.png, in games that enumerate), and
    result.json, into --out. Ctrl-C leaves a checkpoint there, from which --resume continues to the
    same numbers.
    """

    game: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="GAME")]
    """A name of `list`, such as leduc_poker or limit_holdem."""
    agent: str = "uniform"
    """uniform, SOLVER:ITERATIONS (such as cfr_plus:10), a file policy.npz of `solve`,
    FOLDER:SIMULATIONS of a trained search agent; in Leduc and hold'em also always_fold,
    always_call, always_raise; in hold'em call_or_raise."""
    steps: int | None = None
    """Of training (else 400; in hold'em 2,000)."""
    simulations: int | None = None
    """Of each search in training (else 32; in hold'em 16)."""
    measured_simulations: int | None = None
    """Of each search when the responder is measured (else 1,000; in hold'em 1)."""
    without_search: tuple[Literal["dqn", "a2c"], ...] = ()
    """Let these learn, too: responders that do not search, in games that enumerate."""
    seed: int = 0
    """Of everything that is drawn at random."""

    @property
    def preset(self) -> str:
        """What the result is filed under."""
        return "custom"


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the command.

    Raises:
      ValueError: bad input.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; what was finished has been kept.
    """
    config = _config(arguments)
    if _in_holdem(config.game):
        _respond_in_holdem(arguments, config, command)
        return
    arena(config.game)  # bad names are refused before anything is written
    run = Run(arguments, config, experiment="approximate_best_response", command=command)
    alone = search_alone(config.game, config.agent, config.learning)
    curve = points(run, config.game, config.agent, config.learning)
    results.write_csv(run.out / "curve.csv", list(map(row, curve)))
    abr_uniform.draw(run.out / "curve.png", {f"{config.agent} in {config.game}": curve})
    name = f"{config.agent.replace(':', ' ')} in {config.game}"
    found = list(abr_uniform.numbers(name, curve))
    others = {f"search alone ({config.learning.measured_simulations} simulations)": alone}
    for algorithm in config.without_search:
        learn = functools.partial(
            model_free, config.game, config.agent, algorithm, seed=arguments.seed
        )
        (others[algorithm.upper()],) = run.kept(algorithm, Point, lambda learn=learn: [learn()])
    found += [
        results.Number(name=f"{other}:{name}", value=sum(point.won), unit="NashConv")
        for other, point in others.items()
    ]
    run.finish(found, measure=abr_uniform.MEASURE)
    _print(config, others, last(curve))


def _config(arguments: Arguments) -> Config:
    usual = holdem_responses.LEARNING if _in_holdem(arguments.game) else _DEFAULT
    steps = usual.measured_at[-1] if arguments.steps is None else arguments.steps
    if steps < 1:
        raise ValueError(f"steps={steps} must be at least 1")
    given = {name: getattr(arguments, name) for name in ("simulations", "measured_simulations")}
    learning = dataclasses.replace(
        usual,
        measured_at=tuple(sorted({0, steps // 4, steps // 2, steps})),
        seed=arguments.seed,
        **{name: number for name, number in given.items() if number is not None},
    )
    return Config(
        game=arguments.game,
        agent=arguments.agent,
        learning=learning,
        without_search=arguments.without_search,
    )


def _in_holdem(name: str) -> bool:
    """Whether the game is poker with cards that are too many to enumerate."""
    game = make(name)
    return isinstance(game, Poker) and game.ranks * game.suits == NUM_CARDS


def _respond_in_holdem(arguments: Arguments, config: Config, command: str) -> None:
    agents = {name.replace(" ", "_").replace("-", "_"): name for name in chumps(make(config.game))}
    if config.agent not in agents:
        raise ValueError(unknown(f"agent of {config.game}", config.agent, agents))
    if config.without_search:
        raise ValueError(
            f"without_search={config.without_search}: these learn in games that enumerate, which"
            f" {config.game} does not"
        )
    chump = agents[config.agent]
    run = Run(arguments, config, experiment="approximate_best_response", command=command)
    cells: list[Cell] = run.kept(
        "computed", Cell, lambda: holdem_responses.computed(config.game, chump)
    )
    steps = config.learning.measured_at
    easier = [name for name in holdem_responses.EASIER if name != chump]
    lessons = dict.fromkeys(easier, (-(-steps[-1] // 10),)) | {chump: steps}

    def learn():
        return holdem_responses.learned(run, config.game, lessons, config.learning)

    cells += [cell for cell in run.kept("learned", Cell, learn) if cell.chump == chump]
    results.write_csv(run.out / "curve.csv", list(map(holdem_responses.row, cells)))
    run.finish(
        [number for cell in cells for number in holdem_responses.numbers(cells, cell)],
        measure=holdem_responses.MEASURE,
        deviations=holdem_responses.DEVIATIONS,
    )
    heading = f"best responses to {config.agent} in {config.game}: mb/h"
    holdem_responses.print_table(heading, config.game, cells)


def _print(config: Config, others: dict[str, Point], end: Point) -> None:
    table = Table(title=f"best responses to {config.agent} in {config.game}")
    table.add_column("")
    for heading in ("player 0", "player 1", "sum (NashConv)", "% of exact"):
        table.add_column(heading, justify="right")

    def add(name, seats):
        total = sum(seats)
        share = 100 * total / sum(end.exact)
        table.add_row(name, *map(results.text, (*seats, total, share)))

    add("exact best response", end.exact)
    for name, point in others.items():
        add(name, point.won)
    add(f"ISMCTS-BR after {end.step} steps", end.won)
    add(f"ISMCTS-BR, {config.learning.games} games in each seat", end.mean)
    console = Console()
    console.print(table)
    _, low, high = by_games(end)
    console.print(f"NashConv by games, 95 % confidence: {low:.4g} to {high:.4g}")
