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
import itertools
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import jax
from rich.table import Table

from experiments.harness import plots, published, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.progress import progress, status
from experiments.harness.runs import Run
from experiments.tabular import measured_solve
from jaxgames.registry import make
from solvers import cfr
from solvers.registry import prepare_cfr
from solvers.sequence_form import SequenceForm, build_sequence_form

_LINE = "line.json"  # a finished line, in its folder of the checkpoint


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The games and the solvers."""

    games: dict[str, str]  # by the title of their panels
    iterations: int
    compared_at: int  # iterations after which result.json has the exploitability
    dtype: Literal["float32", "float64"]
    timing_seconds: float = 0.2  # how long the speed is measured
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
class Line:
    """The convergence of a solver on a game."""

    solver: str
    title: str  # of the game's panel
    spec: str  # the name of the game in the config
    game: str  # the full name of the game
    points: list[measured_solve.Point]
    iterations_per_second: float

    def seconds(self) -> list[float]:
        """The time to each point at steady state, without compilation and evaluation."""
        return [point.iteration / self.iterations_per_second for point in self.points]

    def exploitability(self, iteration: int) -> float:
        """Exploitability after `iteration` iterations, at which there must be a point."""
        return next(p.exploitability for p in self.points if p.iteration == iteration)


def compute(run: Run) -> list[Line]:
    """All lines, game by game; those that an interrupted run has finished are read."""
    config, lines = run.config, []
    with jax.enable_x64(True) if config.dtype == "float64" else contextlib.nullcontext():
        for (title, spec), solver in itertools.product(config.games.items(), config.solvers):
            folder = run.checkpoint / re.sub(r"\W+", "_", f"{spec}-{solver}")
            line = run.kept_json(
                folder / _LINE,
                functools.partial(_compute_line, title, spec, solver, run, folder),
            )
            points = [measured_solve.Point(**point) for point in line["points"]]
            lines.append(Line(**line | {"points": points}))
    return lines


def draw(path: pathlib.Path, config: Config, lines: Sequence[Line]) -> None:
    """A column per game: exploitability against iterations above, against seconds below."""
    titles = list(dict.fromkeys(line.title for line in lines))
    size = (2.9 * len(titles) + 0.4, 5.6)
    with plots.figure(path, rows=2, columns=len(titles), size=size) as axes:
        for column, title in enumerate(titles):
            panel = [line for line in lines if line.title == title]
            plots.convergence(axes[0, column], map(_by_iterations, panel), x_label="iterations")
            plots.convergence(axes[1, column], map(_by_seconds, panel), x_label="seconds")
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


def _compute_line(
    title: str, spec: str, name: str, run: Run, folder: pathlib.Path
) -> dict[str, Any]:
    """Runs the solver `name`, from its own checkpoint in `folder` on; the fields of its line."""
    solver, config = cfr.make_solver(name), run.config
    schedule = measured_solve.Schedule(iterations=config.iterations)
    with status(f"building the tree of {spec}"):
        tree = _tree(spec, config.dtype)
    prepared = prepare_cfr(solver, tree)
    with progress(f"{spec.partition('(')[0]}, {name}", config.iterations) as report:
        solve = measured_solve.run(
            prepared,
            schedule,
            folder=folder,
            resume=True,
            report=report,
            saved=run.meter.keep,
        )
    line = Line(
        solver=name,
        title=title,
        spec=spec,
        game=tree.game,
        points=solve.points,
        iterations_per_second=measured_solve.iterations_per_second(
            prepared, solve.state, seconds=config.timing_seconds
        ),
    )
    return dataclasses.asdict(line)


@functools.lru_cache(maxsize=1)
def _tree(spec: str, dtype: str) -> SequenceForm:
    return build_sequence_form(make(spec), dtype=dtype)


def rows(config: Config, lines: Sequence[Line]) -> Iterator[dict[str, object]]:
    """A row for every point of every line."""
    for line in lines:
        for point, seconds in zip(line.points, line.seconds(), strict=True):
            yield {
                "game": line.game,
                "solver": line.solver,
                "iteration": point.iteration,
                "seconds": f"{seconds:.6g}",
                "exploitability": f"{point.exploitability:.9g}",
            }


def numbers(config: Config, lines: Sequence[Line]) -> Iterator[results.Number]:
    """The exploitability of every line where it is compared."""
    for line in lines:
        yield results.Number(
            name=f"{line.solver}:{line.spec}",
            value=line.exploitability(config.compared_at),
            unit="utility",
            paper=published.exploitability(line.game, line.solver).get(config.compared_at),
        )


def measure(config: Config) -> str:
    """What the numbers are."""
    return f"exploitability (NashConv / 2) after {config.compared_at:,} iterations"


def deviations(config: Config) -> list[str]:
    """What differs from the papers, in words."""
    return [
        "the numbers beside ours (`paper`) are OpenSpiel's, computed for this comparison; the"
        " papers plot curves of other games (subgames of hold'em, larger Goofspiel)",
        "predictive CFR+ has quadratic averages, discounted CFR the exponents 1.5, 0 and 2; all"
        " players in turn",
    ]


def tables(config: Config, lines: Sequence[Line]) -> Iterator[Table]:
    """The numbers beside OpenSpiel's, and the speed."""
    texts = [
        (
            line.spec,
            line.solver,
            results.text(number.value),
            "" if number.paper is None else results.text(number.paper),
            results.text(line.iterations_per_second),
        )
        for line, number in zip(lines, numbers(config, lines), strict=True)
    ]
    headings = ("game", "solver", "exploitability", published.SOURCE, "iterations/s")
    yield text_table(f"cfr_convergence: {measure(config)}", headings, texts, labels=2)


COMMAND = Experiment(
    name="cfr_convergence",
    shown="exploitability against iterations and against seconds",
    presets=PRESETS,
    preset_docs={
        "smoke": "seconds",
        "cpu": "minutes on two cores",
        "paper": "larger games, for an accelerator",
    },
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    measure=measure,
    deviations=deviations,
)
