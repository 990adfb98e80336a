"""The command `approximate_best_response`: exact, local and learned best responses to an agent.

In enumerable games, agents may be of any kind. In hold'em they are blueprints, or chumps, which do
not look at their cards, so that the exact values of a best response and of local best response can
be computed.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from typing import Annotated, Literal

import tyro
from jax.sharding import Mesh
from rich.console import Console

from experiments.best_response import (
    blueprint_responses,
    holdem_response_tables,
    holdem_responses,
    response_curves,
)
from experiments.best_response.enumerable_responses import (
    Point,
    enumerated_game,
    games_interval,
    last_point,
    points,
    search_alone,
)
from experiments.best_response.holdem_responses import Cell, deviations_of
from experiments.best_response.model_free_responses import model_free_response
from experiments.best_response.named_agents import agent_policies
from experiments.best_response.response_learning import Learning
from experiments.harness import devices, results
from experiments.harness.experiment import CURVE, PLOT, Command, text_table
from experiments.harness.progress import status
from experiments.harness.runs import Run, RunArguments, agent_checksum, checksum
from experiments.student_of_games.training_run import LOG
from jaxgames.holdem.cards import NUM_CARDS
from jaxgames.holdem.rules import Poker
from jaxgames.registry import make, unknown
from solvers.approximate_best_response.exact_chump_responses import chumps
from solvers.blueprint.hand_policy import read_hand_policy

_DEFAULT = Learning(measured_at=(0, 400))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    game: str
    agent: str
    content: str = ""
    """Of the agent's files, as SHA-256; empty for an agent without any."""
    learning: Learning
    without_search: tuple[str, ...] = ()
    deals: int | None = None  # that local best response plays


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Learn best responses to an agent of an enumerable two-player zero-sum game, or of hold'em.

    Prints what an exact best response, local best response (in hold'em) and ISMCTS-BR win against
    it, and writes the learning curve as curve.csv (in enumerable games curve.png, too), and
    result.json, into --out. Ctrl-C leaves a checkpoint there, from which --resume continues to the
    same numbers.
    """

    game: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="GAME")]
    """A name of `list`, such as leduc_poker or limit_holdem."""
    agent: str = "uniform"
    """uniform, SOLVER:ITERATIONS (such as cfr_plus:10), a file policy.npz of `solve`,
    FOLDER:SIMULATIONS of a trained search agent; in Leduc and hold'em also always_fold,
    always_call, always_raise; in hold'em call_or_raise, or the folder of a blueprint, as
    blueprint_limit leaves it in blueprints/."""
    steps: int | None = None
    """Steps of training (default 400; in hold'em 2,000); against a blueprint also 0, without
    ISMCTS-BR."""
    simulations: int | None = None
    """Simulations of a search in training (default 32; in hold'em 16)."""
    measured_simulations: int | None = None
    """Simulations of a search when the responder is measured (default 1,000; in hold'em 1)."""
    games: int | None = None
    """Games that measure the responder in each seat (default 100,000; in hold'em 50,000)."""
    without_search: tuple[Literal["dqn", "a2c"], ...] = ()
    """Measure these learners without search, too, in enumerable games."""
    deals: int | None = None
    """Deals that local best response plays against a blueprint, in both seats (default 10,000); or
    0."""
    seed: int = 0
    """Seed of everything that is random."""

    @property
    def preset(self) -> str:
        """The name of the preset on record."""
        return "custom"


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the command.

    Raises:
      ValueError: bad input.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; what was finished has been kept.
    """
    config = _config(arguments)
    sizes = config.learning.shared_sizes()
    if config.deals:
        sizes["deals of a piece"] = blueprint_responses.piece_size(config.deals)
    mesh = devices.start(arguments, sizes)
    if _in_holdem(config.game):
        _respond_in_holdem(arguments, config, command, mesh)
        return
    # refuses bad names before anything is written
    enumerated = enumerated_game(config.game)
    agent_policies(config.agent, enumerated.tree, enumerated.sequence_form)
    run = _run(arguments, config, command, mesh)
    alone = search_alone(config.game, config.agent, config.learning)
    curve = points(run, config.game, config.agent, config.learning)
    name = f"{config.agent} in {config.game}"
    curves = {name: curve}
    others = {f"search alone ({config.learning.measured_simulations} simulations)": alone}
    for algorithm in config.without_search:
        learn = functools.partial(
            model_free_response, config.game, config.agent, algorithm, seed=arguments.seed
        )
        (others[algorithm.upper()],) = run.kept(algorithm, Point, lambda learn=learn: [learn()])
    if not run.writes:
        return
    results.write_csv(run.out / CURVE, list(response_curves.rows(config, curves)))
    response_curves.draw(run.out / PLOT, config, curves)
    numbers = list(response_curves.numbers(config, curves))
    numbers += [
        results.Number(
            name=f"{other}:{name.replace(':', ' ')}", value=sum(point.won), unit="NashConv"
        )
        for other, point in others.items()
    ]
    run.finish(numbers, measure=response_curves.MEASURE, error_bars=response_curves.ERROR_BARS)
    _print(config, others, last_point(curve))


def _config(arguments: Arguments) -> Config:
    """The config that the options ask for."""
    default = holdem_responses.LEARNING if _in_holdem(arguments.game) else _DEFAULT
    steps = default.measured_at[-1] if arguments.steps is None else arguments.steps
    against_blueprint = _in_holdem(arguments.game) and pathlib.Path(arguments.agent).is_dir()
    deals = _deals(arguments, steps) if against_blueprint else None
    if steps < (0 if against_blueprint else 1):
        raise ValueError(f"steps={steps} must be at least 1")
    if arguments.deals is not None and not against_blueprint:
        raise ValueError(f"deals={arguments.deals} are for the folder of a blueprint of hold'em")
    if arguments.games is not None and arguments.games < 2:
        raise ValueError(f"games={arguments.games} must be at least 2")
    names = "simulations", "measured_simulations", "games"
    given = {name: getattr(arguments, name) for name in names}
    learning = dataclasses.replace(
        default,
        measured_at=tuple(sorted({0, steps // 4, steps // 2, steps})),
        seed=arguments.seed,
        **{name: number for name, number in given.items() if number is not None},
    )
    return Config(
        game=arguments.game,
        agent=arguments.agent,
        content=_content(arguments.agent),
        learning=learning,
        without_search=arguments.without_search,
        deals=deals,
    )


def _content(agent: str) -> str:
    """What tells whether the files of an agent are those of before."""
    for path in map(pathlib.Path, (agent, agent.rpartition(":")[0] or agent)):
        if path.is_file():
            return checksum([path])
        if path.is_dir():
            return agent_checksum(path)
    return ""


def _deals(arguments: Arguments, steps: int) -> int:
    """How many deals local best response plays against a blueprint."""
    deals = blueprint_responses.DEALS if arguments.deals is None else arguments.deals
    if deals < 0 or deals == 1:
        raise ValueError(f"deals={deals} must be at least 2, or 0 for none")
    if deals == steps == 0:
        raise ValueError("deals=0 and steps=0: nothing is measured")
    return deals


def _in_holdem(name: str) -> bool:
    """Whether the game is poker with a full deck, which is too large to enumerate."""
    game = make(name)
    return isinstance(game, Poker) and game.ranks * game.suits == NUM_CARDS


def _run(arguments: Arguments, config: Config, command: str, mesh: Mesh | None) -> Run:
    """The run that writes into the folder."""
    name = "approximate_best_response"
    files = (CURVE, PLOT, LOG)
    return Run(arguments, config, experiment=name, command=command, mesh=mesh, files=files)


def _respond_in_holdem(
    arguments: Arguments, config: Config, command: str, mesh: Mesh | None
) -> None:
    """Runs the command for an agent of hold'em."""
    if config.without_search:
        raise ValueError(
            f"without_search={config.without_search} must be empty in {config.game}: only games"
            " that enumerate have learners without search"
        )
    if config.deals is not None:
        _respond_to_blueprint(arguments, config, command, mesh)
        return
    agents = {name.replace(" ", "_").replace("-", "_"): name for name in chumps(make(config.game))}
    if config.agent not in agents:
        raise ValueError(unknown(f"agent of {config.game}", config.agent, [*agents, "FOLDER"]))
    chump = agents[config.agent]
    run = _run(arguments, config, command, mesh)
    cells: list[Cell] = run.kept(
        "computed", Cell, lambda: holdem_responses.exact_cells(config.game, chump)
    )
    steps = config.learning.measured_at
    easier = [name for name in holdem_responses.EASIER if name != chump]
    lessons = dict.fromkeys(easier, (-(-steps[-1] // 10),)) | {chump: steps}

    def learn():
        return holdem_responses.learned_cells(run, config.game, lessons, config.learning)

    cells += [cell for cell in run.kept("learned", Cell, learn) if cell.chump == chump]
    _finish_in_holdem(
        run,
        config,
        cells,
        measure=holdem_response_tables.MEASURE,
        deviations=holdem_response_tables.DEVIATIONS,
    )


def _respond_to_blueprint(
    arguments: Arguments, config: Config, command: str, mesh: Mesh | None
) -> None:
    """Runs the command for a blueprint of hold'em."""
    folder = pathlib.Path(config.agent)
    with status("reading the blueprint"):
        policy = read_hand_policy(folder, make(config.game))
    run = _run(arguments, config, command, mesh)
    cells = blueprint_responses.responses(
        run,
        config.game,
        folder.resolve().name,
        policy,
        deals=config.deals,
        learning=config.learning if config.learning.measured_at[-1] else None,
        seed=arguments.seed,
    )
    _finish_in_holdem(
        run,
        config,
        cells,
        measure=blueprint_responses.MEASURE,
        deviations=blueprint_responses.DEVIATIONS,
    )


def _finish_in_holdem(
    run: Run, config: Config, cells: list[Cell], *, measure: str, deviations: tuple[str, ...]
) -> None:
    """Writes what responders win in hold'em, and prints it."""
    if not run.writes:
        return
    results.write_csv(run.out / CURVE, list(holdem_response_tables.rows(config, cells)))
    run.finish(
        holdem_response_tables.numbers(config, cells),
        error_bars=results.TWO_STANDARD_ERRORS,
        measure=measure,
        deviations=deviations_of(config.learning, deviations),
    )
    heading = f"best responses to {config.agent} in {config.game}: mb/h"
    Console().print(holdem_response_tables.table(heading, config.game, cells))


def _print(config: Config, others: dict[str, Point], end: Point) -> None:
    """Prints what every responder wins, by seat and in all."""
    winnings = {
        "exact best response": end.exact,
        **{name: point.won for name, point in others.items()},
        f"ISMCTS-BR after {end.step} steps": end.won,
        f"ISMCTS-BR, {config.learning.games} games in each seat": end.mean,
    }
    lines = [
        (name, *map(results.text, (*seats, sum(seats), 100 * sum(seats) / sum(end.exact))))
        for name, seats in winnings.items()
    ]
    title = f"best responses to {config.agent} in {config.game}"
    headings = ("", "player 0", "player 1", "sum (NashConv)", "% of exact")
    console = Console()
    console.print(text_table(title, headings, lines))
    _, low, high = games_interval(end)
    console.print(f"NashConv by games, 95 % confidence: {low:.4g} to {high:.4g}")


COMMAND = Command(Arguments, main)
