"""How fast the CFR family converges: exploitability against iterations and against seconds.

CFR, linear CFR, CFR+, DCFR and predictive CFR+ on Kuhn poker, Leduc hold'em, liar's dice and
Goofspiel, as in Brown and Sandholm 2019 ("Solving imperfect-information games via discounted
regret minimization") and Farina, Kroer and Sandholm 2021 ("Faster game solving via predictive
Blackwell approachability"). Points are exploitabilities computed with OpenSpiel.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Literal

import jax
from rich.console import Console
from rich.table import Table

from experiments.harness import plots, published, results
from experiments.harness.progress import progress, status
from experiments.harness.runs import Run, RunArguments
from experiments.tabular import measured_solve
from jaxgames.registry import make
from solvers import cfr
from solvers.sequence_form import SequenceForm, build_sequence_form

_LINE = "line.json"  # a finished line, in its folder of the checkpoint


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed; `result.json` tells the exploitabilities after `compared_at` iterations."""

    games: dict[str, str]  # title of the panel: the game
    iterations: int
    compared_at: int
    dtype: Literal["float32", "float64"]
    timing_seconds: float = 0.2  # that speed is measured for
    solvers: tuple[str, ...] = ("cfr", "linear_cfr", "cfr_plus", "dcfr", "pcfr_plus")


_TINY = {
    "Kuhn poker": "kuhn_poker",
    "Leduc hold'em, 2 ranks": "leduc_poker(ranks=2,max_raises=1)",
    "Liar's dice, 2 sides": "liars_dice(sides=2)",
    "Goofspiel, 3 cards": "goofspiel(cards=3,points=descending)",
}
_SMALL = {
    "Kuhn poker": "kuhn_poker",
    "Leduc hold'em": "leduc_poker",
    "Liar's dice, 4 sides": "liars_dice(sides=4)",
    "Goofspiel, 4 cards": "goofspiel(cards=4,points=descending)",
}
_LARGE = {
    "Kuhn poker": "kuhn_poker",
    "Leduc hold'em": "leduc_poker",
    "Liar's dice, 6 sides": "liars_dice(sides=6)",
    "Goofspiel, 5 cards": "goofspiel(cards=5,points=descending)",
}
PRESETS = {
    "smoke": Config(
        games=_TINY,
        solvers=("cfr", "cfr_plus"),
        iterations=100,
        compared_at=100,
        dtype="float32",
        timing_seconds=0.01,
    ),
    "cpu": Config(games=_SMALL, iterations=10_000, compared_at=1000, dtype="float64"),
    "paper": Config(games=_LARGE, iterations=100_000, compared_at=1000, dtype="float64"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Compare the CFR family on four games.

    Writes exploitability against iterations and against seconds as curve.csv and curve.png, and
    result.json, into --out. Ctrl-C leaves a checkpoint there, from which --resume continues to
    exactly the same exploitabilities.
    """

    preset: Literal["smoke", "cpu", "paper"] = "cpu"
    """smoke: seconds; cpu: minutes on two cores; paper: larger games, for an accelerator."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """One solver on one game."""

    solver: str
    title: str  # of the game's panel
    spec: str  # the game, as in the config
    game: str  # the game, by its full name
    points: list[measured_solve.Point]
    iterations_per_second: float

    def seconds(self) -> list[float]:
        """Time to each point at steady state: compilation and evaluation apart."""
        return [point.iteration / self.iterations_per_second for point in self.points]

    def exploitability(self, iteration: int) -> float:
        """Exploitability after `iteration` iterations, one of those evaluated."""
        return next(p.exploitability for p in self.points if p.iteration == iteration)


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the experiment.

    Raises:
      ValueError: `out` holds another run.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; a checkpoint has been left.
    """
    config = PRESETS[arguments.preset]
    run = Run(arguments, config, experiment="cfr_convergence", command=command)
    with jax.enable_x64(True) if config.dtype == "float64" else contextlib.nullcontext():
        lines = list(compute(config, run.checkpoint))
    results.write_csv(run.out / "curve.csv", [row for line in lines for row in _rows(line)])
    draw(run.out / "curve.png", lines)
    numbers = [_number(line, config.compared_at) for line in lines]
    _print(run.finish(numbers, measure=_measure(config)), lines)


def compute(config: Config, folder: pathlib.Path) -> Iterator[Line]:
    """All lines, game by game; those finished in `folder` are read from there."""
    for title, spec in config.games.items():
        for solver in config.solvers:
            place = folder / re.sub(r"\W+", "_", f"{spec}-{solver}")
            if not (place / _LINE).exists():
                _compute_line(title, spec, solver, config, place)
            yield _read_line(place / _LINE)


def draw(path: pathlib.Path, lines: Sequence[Line]) -> None:
    """One column per game: exploitability against iterations above, against seconds below."""
    titles = list(dict.fromkeys(line.title for line in lines))
    size = (2.9 * len(titles) + 0.4, 5.6)
    with plots.figure(path, rows=2, columns=len(titles), size=size) as axes:
        for column, title in enumerate(titles):
            here = [line for line in lines if line.title == title]
            plots.convergence(axes[0, column], map(_by_iterations, here), x_label="iterations")
            plots.convergence(axes[1, column], map(_by_seconds, here), x_label="seconds")
            axes[0, column].set_title(title)
        for row in axes:
            row[0].set_ylabel("exploitability (NashConv / 2)")


def _by_iterations(line: Line) -> plots.Curve:
    return plots.Curve(
        solver=line.solver,
        x=[point.iteration for point in line.points],
        exploitability=[point.exploitability for point in line.points],
        published=published.exploitability(line.game, line.solver),
    )


def _by_seconds(line: Line) -> plots.Curve:
    return dataclasses.replace(_by_iterations(line), x=line.seconds(), published={})


def _compute_line(title, spec, solver, config, place) -> None:
    made, schedule = cfr.make_solver(solver), measured_solve.Schedule(iterations=config.iterations)
    with status(f"building the tree of {spec}"):
        tree = _tree(spec, config.dtype)
    name = spec.partition("(")[0]
    with progress(f"{name}, {solver}", config.iterations) as report:
        run = measured_solve.run(tree, made, schedule, folder=place, resume=True, report=report)
    line = Line(
        solver=solver,
        title=title,
        spec=spec,
        game=tree.game,
        points=run.points,
        iterations_per_second=measured_solve.iterations_per_second(
            tree, run.state, made, seconds=config.timing_seconds
        ),
    )
    results.write_file(place / _LINE, json.dumps(dataclasses.asdict(line)))


@functools.lru_cache(maxsize=1)
def _tree(spec: str, dtype: str) -> SequenceForm:
    return build_sequence_form(make(spec), dtype=dtype)


def _read_line(path: pathlib.Path) -> Line:
    fields = json.loads(path.read_text(encoding="utf-8"))
    return Line(
        **fields | {"points": [measured_solve.Point(**point) for point in fields["points"]]}
    )


def _rows(line: Line) -> list[dict[str, object]]:
    return [
        {
            "game": line.game,
            "solver": line.solver,
            "iteration": point.iteration,
            "seconds": f"{seconds:.6g}",
            "exploitability": f"{point.exploitability:.9g}",
        }
        for point, seconds in zip(line.points, line.seconds(), strict=True)
    ]


def _measure(config: Config) -> str:
    return f"exploitability (NashConv / 2) after {config.compared_at:,} iterations"


def _number(line: Line, iteration: int) -> results.Number:
    return results.Number(
        name=f"{line.solver}:{line.spec}",
        value=line.exploitability(iteration),
        unit="utility",
        paper=published.exploitability(line.game, line.solver).get(iteration),
    )


def _print(result: results.Result, lines: Sequence[Line]) -> None:
    table = Table(title=f"{result.experiment}: {result.config['measure']}")
    for heading in ("game", "solver", "exploitability", published.SOURCE, "iterations/s"):
        table.add_column(heading, justify="left" if heading in ("game", "solver") else "right")
    for line, number in zip(lines, result.numbers, strict=True):
        known = "" if number.paper is None else results.text(number.paper)
        speed = results.text(line.iterations_per_second)
        table.add_row(line.spec, line.solver, results.text(number.value), known, speed)
    Console().print(table)
