"""Solves one game by any tabular solver and measures the solution: `python -m experiments solve`.

Writes `result.json`, the average policy, and, of solvers that iterate, the convergence as
`curve.csv` and `curve.png`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import shlex
import time
from typing import Annotated, Literal

import jax
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from experiments.harness import devices, plots, policy_file, published, results
from experiments.harness.experiment import Command
from experiments.harness.progress import progress, status
from experiments.harness.runs import CHECKPOINT, USAGE, RunArguments, prepare
from experiments.harness.usage_meter import UsageMeter
from experiments.tabular import measured_solve
from jaxgames.game_tree import MAX_HISTORIES, GameTree
from solvers import evaluation
from solvers.registry import (
    LinearProgram,
    PreparedSolver,
    TabularSolver,
    prepare_solver,
    solver_by_name,
)
from solvers.sampling.mccfr_settings import Mccfr
from solvers.sequence_form import Policy, SequenceForm
from solvers.solution import DEFAULT_ITERATIONS, compile_game

_FILES = (results.RESULT_FILE, "curve.csv", "curve.png", "policy.npz", "policy.csv")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Solve a game to a measured equilibrium.

    Computes the average policy of a solver, its exploitability and the value of the game, and
    writes result.json, curve.csv, curve.png and the policy (policy.npz, policy.csv) into --out.
    Ctrl-C leaves a checkpoint there, from which --resume continues to exactly the same numbers.
    linear_program does not iterate: it has no curve and no checkpoint. Exit codes: 0 solved,
    1 --target not reached, 2 bad input, 130 interrupted.
    """

    game: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="GAME")]
    """A name of `list`, such as "leduc_poker(players=3)", or openspiel:NAME, efg:FILE, pgx:NAME."""
    solver: str = "cfr_plus"
    """A name of `list`, perhaps with parameters: "dcfr(alpha=1.5,beta=0,gamma=2)"."""
    iterations: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Iterations, the most if there is a target; None: 1000. Of the CFR family an iteration
    updates every player, of fictitious_play it is a best response of every player, of
    outcome_sampling an episode, of external_sampling a traversal for every player, of
    public_chance_sampling a walk over public states."""
    seed: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Of solvers that sample; None: 0."""
    target: Annotated[float | None, tyro.conf.arg(metavar="FLOAT")] = None
    """Stop when exploitability (NashConv / players), in the game's unit, is below."""
    every: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Iterations between evaluations; None: ten times per decade."""
    dtype: Literal["float32", "float64"] = "float32"
    """Precision."""
    max_histories: int = MAX_HISTORIES
    """Refuse games with a larger tree."""


def main(arguments: Arguments, *, command: str) -> int:
    """Runs `solve`; returns the exit code. `command` is the command line, for the record.

    Raises:
      ValueError: bad input.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; a checkpoint has been left if a state was reached.
    """
    devices.start(arguments, None)
    with jax.enable_x64(True) if arguments.dtype == "float64" else contextlib.nullcontext():
        result, reached = _solve(arguments, command)
    _print(result, arguments.out)
    if not reached:
        Console(stderr=True).print(f"exploitability is not below the target of {arguments.target}")
    return 0 if reached else 1


def _solve(arguments: Arguments, command: str) -> tuple[results.Result, bool]:
    meter, begin = UsageMeter(), time.perf_counter()
    solver = solver_by_name(arguments.solver)
    arguments = _completed(arguments, solver)
    schedule = None
    if arguments.iterations is not None:
        schedule = measured_solve.Schedule(
            iterations=arguments.iterations, every=arguments.every, target=arguments.target
        )
    with status(f"building the tree of {arguments.game}"):
        compiled = compile_game(
            arguments.game, dtype=arguments.dtype, max_histories=arguments.max_histories
        )
        prepared = prepare_solver(solver, compiled, seed=arguments.seed or 0)
    build_seconds = time.perf_counter() - begin
    lock = prepare(
        arguments.out, files=_FILES, resume=arguments.resume, overwrite=arguments.overwrite
    )
    meter.keep_in(arguments.out / CHECKPOINT / USAGE)
    policy, run, speeds = _run(arguments, prepared, schedule, meter)
    points = run.points if run else []
    # an earlier result no longer fits the files below
    (arguments.out / results.RESULT_FILE).unlink(missing_ok=True)
    if points:
        _write_curve(arguments, prepared.sequence_form.game, points)
    policy_file.write_policy(
        arguments.out, compiled.game, compiled.tree, tuple(map(np.asarray, policy))
    )
    result = results.make_result(
        experiment="solve",
        preset="custom",
        config=_recorded(arguments),
        command=command,
        usage=meter.usage(),
        numbers=[
            *_solution(prepared.sequence_form, policy, arguments.solver, run),
            *_sizes(compiled.tree, prepared.sequence_form),
            *speeds,
            results.Number(name="build_seconds", value=build_seconds, unit="s"),
        ],
    )
    results.write_result(arguments.out, result)
    lock.release()
    return result, arguments.target is None or schedule.reached(points)


def _completed(arguments: Arguments, solver: TabularSolver) -> Arguments:
    """The arguments with the defaults of their kind of solver.

    Raises:
      ValueError: an option does not apply to the solver.
    """
    if isinstance(solver, LinearProgram):
        for name in ("iterations", "target", "every", "resume"):
            if getattr(arguments, name):
                raise ValueError(
                    f"{name}={getattr(arguments, name)} does not apply to {arguments.solver}, which"
                    " does not iterate; leave it out"
                )
    elif arguments.iterations is None:
        arguments = dataclasses.replace(arguments, iterations=DEFAULT_ITERATIONS)
    if isinstance(solver, Mccfr):
        return arguments if arguments.seed is not None else dataclasses.replace(arguments, seed=0)
    if arguments.seed is not None:
        raise ValueError(
            f"seed={arguments.seed} does not apply to {arguments.solver}, which draws nothing;"
            " leave it out"
        )
    return arguments


def _run(
    arguments: Arguments,
    prepared: PreparedSolver,
    schedule: measured_solve.Schedule | None,
    meter: UsageMeter,
) -> tuple[Policy, measured_solve.MeasuredSolve | None, list[results.Number]]:
    """The policy, the run and its speeds; without iterations there is neither."""
    if schedule is None:
        return prepared.average_policy(prepared.run(prepared.initial_state, 0)), None, []
    with progress(arguments.game, arguments.iterations) as report:
        run = measured_solve.run(
            prepared,
            schedule,
            folder=arguments.out,
            resume=arguments.resume,
            report=report,
            saved=meter.keep,
        )
    speed = measured_solve.iterations_per_second(prepared, run.state)
    speeds = [
        results.Number(name="iterations_per_second", value=speed, unit="iterations/s"),
        results.Number(name="compile_seconds", value=run.compile_seconds, unit="s"),
    ]
    return prepared.average_policy(run.state), run, speeds


def _solution(
    tree: SequenceForm, policy: Policy, solver: str, run: measured_solve.MeasuredSolve | None
) -> list[results.Number]:
    """How good the policy is, and how many iterations made it if the solver iterates."""
    unit = published.unit(tree.game)
    theirs, iterations = None, []
    if run is None:
        values, nash_conv = evaluation.values_and_nash_conv(tree, policy)
        value, nash_conv = float(np.asarray(values)[0]), float(nash_conv)
    else:
        value, last = run.values[0], run.points[-1]
        nash_conv, count = last.nash_conv, float(last.iteration)
        theirs = published.exploitability(tree.game, solver).get(last.iteration)
        iterations = [results.Number(name="iterations", value=count, unit="iterations")]
    both = None if theirs is None else theirs * tree.num_players
    known = published.value(tree.game)
    mean = nash_conv / tree.num_players
    return [
        results.Number(name="exploitability", value=mean, unit=unit, paper=theirs),
        results.Number(name="nash_conv", value=nash_conv, unit=unit, paper=both),
        results.Number(name="value", value=value, unit=unit, paper=known),
        *iterations,
    ]


def _sizes(game_tree: GameTree, tree: SequenceForm) -> list[results.Number]:
    sizes = {
        "num_public_states": tree.histories.public_states.actor.shape[0],
        "num_information_states": sum(game_tree.num_decisions),
        "num_histories": game_tree.num_histories,
    }
    return [
        results.Number(name=name, value=float(size), unit="states") for name, size in sizes.items()
    ]


def _recorded(arguments: Arguments) -> dict[str, object]:
    kept = dataclasses.asdict(arguments)
    for field in dataclasses.fields(RunArguments):  # not about the numbers
        del kept[field.name]
    return kept


def _write_curve(arguments: Arguments, game: str, points: list[measured_solve.Point]) -> None:
    results.write_csv(arguments.out / "curve.csv", [dataclasses.asdict(point) for point in points])
    curve = plots.Curve(
        solver=arguments.solver,
        x=[point.iteration for point in points],
        exploitability=[point.exploitability for point in points],
        published=published.exploitability(game, arguments.solver),
    )
    with plots.figure(arguments.out / "curve.png", rows=1, columns=1, size=(4.6, 3.2)) as axes:
        plots.convergence(axes[0, 0], [curve], x_label="iterations")
        if arguments.target is not None:
            plots.level(axes[0, 0], arguments.target, "target")
        axes[0, 0].set(title=arguments.game, ylabel=f"exploitability ({published.unit(game)})")


def _print(result: results.Result, out: pathlib.Path) -> None:
    table = Table(title=f"{result.config['game']} solved by {result.config['solver']}")
    table.add_column("number")
    table.add_column("value", justify="right")
    table.add_column("unit")
    table.add_column("known", justify="right")
    for number in result.numbers:
        known = "" if number.paper is None else results.text(number.paper)
        table.add_row(number.name, results.text(number.value), number.unit, known)
    console = Console()
    console.print(table)
    exploitability = result.number("exploitability")
    if exploitability.unit == "chips":
        console.print(f"exploitability: {1000 * exploitability.value:.3g} mbb/h")
    console.print(f"written to {shlex.quote(str(out))}", soft_wrap=True)


COMMAND = Command(Arguments, main)
