"""Lists what can be named on the command line: `jaxgames list`."""

from __future__ import annotations

import dataclasses
import inspect

from rich.console import Console
from rich.table import Column, Table

from experiments import benchmarks
from experiments.harness.experiment import Command
from jaxgames.registry import described, registered
from solvers.registry import SOLVERS

_FROM_ELSEWHERE = {
    "openspiel:NAME": "any game of OpenSpiel with information states",
    "efg:FILE": "a Gambit file",
    "pgx:NAME": "a game of pgx with perfect information and a small tree",
}


@dataclasses.dataclass(frozen=True)
class Arguments:
    """List the games, solvers and benchmarks that the other commands know."""


def main(arguments: Arguments, *, command: str) -> None:
    """Prints a table for each kind of thing that has a name."""
    games = _table("Games", "game, with its parameters")
    for name in registered():
        games.add_row(*described(name))
    for name, text in _FROM_ELSEWHERE.items():
        games.add_row(name, text)
    solvers = _table("Solvers", "solver, with its parameters")
    for name, solver in SOLVERS.items():
        parameters = inspect.signature(solver).parameters.values()
        defaults = ",".join(f"{p.name}={str(p.default).lower()}" for p in parameters)
        solvers.add_row(f"{name}({defaults})", inspect.getdoc(solver).partition("\n")[0])
    others = _table("Benchmarks", "benchmark")
    for name, text in benchmarks.BENCHMARKS.items():
        others.add_row(name, text)
    for table in (games, solvers, others):
        Console().print(table)


def _table(title: str, kind: str) -> Table:
    return Table(Column(kind, overflow="fold"), "what it is", title=title)


COMMAND = Command(Arguments, main)
