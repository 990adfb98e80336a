"""The command line: `python -m experiments list | solve | benchmark | tables | EXPERIMENT`.

Errors of ours are one line on stderr and exit code 2; Ctrl-C is exit code 130, with the command
that resumes.
"""

from __future__ import annotations

import dataclasses
import inspect
import pathlib
import shlex
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Column, Table

from experiments.best_response import (
    abr_alphazero,
    abr_cfr,
    abr_chumps,
    abr_search_agents,
    abr_uniform,
    aivat_leduc,
    approximate_best_response,
)
from experiments.commands import play_agent, solve, solve_holdem
from experiments.harness.runs import RunArguments
from experiments.student_of_games import (
    sog_glasses,
    sog_leduc,
    sog_search,
    sog_soundness,
    sog_tictactoe,
    sog_variants,
)
from experiments.subgame_solving import (
    depth_limited_leduc,
    depth_limited_nlfh,
    leaf_values_dnn,
    resolving_leduc,
    rps_plus,
    translation_no_limit_leduc,
)
from experiments.tabular import (
    cfr_convergence,
    ismcts_leduc,
    rl_baselines,
    smooth_uct_kuhn,
    smooth_uct_leduc,
)
from jaxgames.registry import described, registered, unknown
from solvers.cfr import SOLVERS

_PACKAGES = ("experiments", "train", "nets", "solvers", "jaxgames")


@dataclasses.dataclass(frozen=True)
class List:
    """List the games, solvers and benchmarks that the other commands know."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Run a benchmark, side by side with the peers that are installed."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """A benchmark of `list`."""
    out: pathlib.Path
    """Folder for the results; made if need be."""
    preset: Literal["smoke", "cpu"] = "cpu"
    """smoke: seconds; cpu: minutes."""
    overwrite: bool = False
    """Start again although --out holds an earlier run, which is deleted."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tables:
    """Write the tables of docs/results.md from all experiments/results/**/result.json."""

    check: bool = False
    """Write nothing; fail if docs/results.md is not what would be written."""


EXPERIMENTS = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        cfr_convergence,
        ismcts_leduc,
        smooth_uct_kuhn,
        smooth_uct_leduc,
        rl_baselines,
        sog_search,
        sog_soundness,
        sog_leduc,
        sog_glasses,
        sog_tictactoe,
        sog_variants,
        rps_plus,
        depth_limited_leduc,
        depth_limited_nlfh,
        leaf_values_dnn,
        resolving_leduc,
        translation_no_limit_leduc,
        approximate_best_response,
        abr_uniform,
        abr_cfr,
        abr_chumps,
        aivat_leduc,
        abr_search_agents,
        abr_alphazero,
    )
}
COMMANDS = {
    "list": List,
    "solve": solve.Config,
    "solve_holdem": solve_holdem.Config,
    **{name: module.Arguments for name, module in EXPERIMENTS.items()},
    "play": play_agent.Arguments,
    "benchmark": Benchmark,
    "tables": Tables,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    argv = [*(sys.argv[1:] if argv is None else argv)]
    command = shlex.join(["python", "-m", "experiments", *argv])
    arguments = None
    try:
        arguments = parse(argv)
        return run(arguments, command=command)
    except KeyboardInterrupt as stop:
        print(f"interrupted: {stop}" if str(stop) else "interrupted", file=sys.stderr)
        if hasattr(arguments, "resume"):
            print(f"resume with: {resuming(argv)}", file=sys.stderr)
        return 130
    except (ValueError, OSError, ImportError, FloatingPointError) as error:
        if not _is_ours(error):
            raise
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 2


def parse(argv: Sequence[str]) -> object:
    """The command that the arguments name, as a record of its options.

    Raises:
      ValueError: unknown command.
      SystemExit: help was asked for (code 0), or the arguments do not fit the command (code 2).
    """
    if argv and not argv[0].startswith("-") and argv[0] not in COMMANDS:
        raise ValueError(unknown("command", argv[0], COMMANDS))
    return tyro.extras.subcommand_cli_from_dict(
        COMMANDS,
        prog="python -m experiments",
        description="Experiments with games and their solvers.",
        args=argv,
        use_underscores=True,
        config=(tyro.conf.FlagCreatePairsOff,),
    )


def run(arguments: object, *, command: str) -> int:
    """Carries out a parsed command."""
    match arguments:
        case List():
            print_list()
        case solve.Config():
            return solve.main(arguments, command=command)
        case solve_holdem.Config():
            return solve_holdem.main(arguments, command=command)
        case RunArguments():
            module = next(m for m in EXPERIMENTS.values() if m.Arguments is type(arguments))
            module.main(arguments, command=command)
        case play_agent.Arguments():
            play_agent.main(arguments)
        case Benchmark():
            from experiments import benchmarks

            options = dataclasses.asdict(arguments)
            benchmarks.run(options.pop("name"), options.pop("out"), command=command, **options)
        case Tables():
            from experiments.harness import tables

            tables.main(check=arguments.check)
    return 0


def resuming(argv: Sequence[str]) -> str:
    """The command that continues an interrupted one."""
    kept = [word for word in argv if word not in ("--overwrite", "--resume")]
    return shlex.join(["python", "-m", "experiments", *kept, "--resume"])


def one_line(error: Exception) -> str:
    """An error's message without line breaks."""
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{where}"
    return " ".join(str(error).split())


def print_list() -> None:
    """Prints what can be named on the command line."""
    from experiments import benchmarks

    games = Table(Column("game, with its parameters", overflow="fold"), "what it is", title="Games")
    for name in registered():
        games.add_row(*described(name))
    games.add_row("openspiel:NAME", "any game of OpenSpiel with information states")
    games.add_row("efg:FILE", "a Gambit file")
    games.add_row("pgx:NAME", "a game of pgx with perfect information and a small tree")
    solvers = Table(
        Column("solver, with its parameters", overflow="fold"), "what it is", title="Solvers"
    )
    for name, solver in SOLVERS.items():
        parameters = inspect.signature(solver).parameters.values()
        inside = ",".join(f"{p.name}={str(p.default).lower()}" for p in parameters)
        solvers.add_row(f"{name}({inside})", inspect.getdoc(solver).splitlines()[0])
    others = Table("benchmark", "what it is", title="Benchmarks")
    for name, benchmark in benchmarks.BENCHMARKS.items():
        others.add_row(name, (inspect.getdoc(benchmark) or "").partition("\n")[0])
    for table in (games, solvers, others):
        Console().print(table)


def _is_ours(error: Exception) -> bool:
    """Whether the error is told by our code about its input; anything else is a defect."""
    if isinstance(error, OSError):
        return True
    frames = list(traceback.walk_tb(error.__traceback__))
    raised_in = frames[-1][0].f_globals.get("__name__", "")
    return raised_in.partition(".")[0] in _PACKAGES
