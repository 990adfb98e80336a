"""The record of an experiment, and how one is run.

An experiment reproduces a figure or a table of a paper. Its file says what differs from the others:
the presets, how a result is computed from a config, and how it is shown. What all have in common is
written here once: the options of the command, the folder that is written to, resuming, the files of
the result and the table on the terminal.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, TypeVar

import tyro
from rich.console import Console
from rich.table import Table

from experiments.harness import devices, results
from experiments.harness.runs import Run, RunArguments
from experiments.registry import EXPERIMENTS

CURVE, PLOT = "curve.csv", "curve.png"
Config = TypeVar("Config")  # a frozen dataclass
Outcome = TypeVar("Outcome")  # what an experiment computes, as a rule a list of records


@dataclasses.dataclass(frozen=True)
class Command:
    """A command of the command line: the record of its options, and what carries it out.

    `main(arguments, command=text)` gets the options and the text of the command line, and returns
    the exit code, where None is 0.
    """

    arguments: type
    main: Callable[..., int | None]


def preset_of(config: Config, arguments: RunArguments) -> Config:
    """The preset as it is: what `Experiment.configure` does unless there are further options."""
    return config


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Experiment(Generic[Config, Outcome]):
    """What an experiment computes, and how that is written, drawn and printed.

    It is a `Command`: it has `arguments` and a `main`. Functions that take a config and an outcome
    take the config that was run and what `compute` returned.
    """

    name: str
    """As in `experiments.registry`, which describes it, and on record in result.json."""
    shown: str
    """What is in curve.csv and curve.png: completes the sentence "Writes ..."."""
    presets: Mapping[str, Config]
    """The configs that can be asked for, by name."""
    preset_docs: Mapping[str, str]
    """What each preset is or how long it takes, in a few words."""
    default_preset: str = "cpu"
    options: type[RunArguments] = RunArguments
    """Options beside the preset: a dataclass that extends `RunArguments`."""
    configure: Callable[[Config, Any], Config] = preset_of
    """What the options make of a preset; refuses bad options with a ValueError."""
    batches: Callable[[Config], Mapping[str, int]] | None = None
    """The sizes that devices share, by name, as `devices.start` takes them; None: the experiment
    computes on one device. Else it computes on `Run.mesh`."""
    compute: Callable[[Run], Outcome]
    """Computes everything, `Run.kept` keeping the pieces for an interrupted run to resume from."""
    several_processes: bool = True
    """Whether the devices of `batches` may be those of several processes."""
    extendable: tuple[str, ...] = ()
    """Fields of the config that only say which pieces there are: a run may be resumed with others,
    and what it has computed stays."""
    rows: Callable[[Config, Outcome], Iterable[dict[str, object]]]
    """The rows of curve.csv, all with the same columns."""
    draw: Callable[[pathlib.Path, Config, Outcome], None]
    """Writes the plot."""
    numbers: Callable[[Config, Outcome], Iterable[results.Number]]
    """The numbers of result.json."""
    tables: Callable[[Config, Outcome], Iterable[Table | str]]
    """What is printed in the end."""
    measure: str | Callable[[Config], str]
    """What the numbers measure, in words."""
    deviations: Sequence[str] | Callable[[Config], Sequence[str]] = ()
    """Deviations from the published setting, in words."""
    error_bars: str | None = None
    """What `low` and `high` of the numbers are, in words; None: no number has them."""
    extras: Mapping[str, Callable[[Config, Outcome], Any]] = dataclasses.field(default_factory=dict)
    """What is on record beside the config: names in result.json's config, and their values."""
    more_files: tuple[str, ...] = ()
    """Names of the files and folders that are written beside the curve, the plot and the result."""
    write_more: Callable[[Run, Outcome], None] = lambda run, outcome: None
    """Writes those of `more_files` that `compute` has not written."""

    def __post_init__(self):
        if self.presets.keys() != self.preset_docs.keys():
            raise ValueError(
                f"{self.name}: preset_docs={[*self.preset_docs]} must describe the presets"
                f" {[*self.presets]}"
            )
        if self.default_preset not in self.presets:
            raise ValueError(
                f"{self.name}: default_preset={self.default_preset!r} must be one of"
                f" {[*self.presets]}"
            )

    @functools.cached_property
    def arguments(self) -> type[RunArguments]:
        """The record of the command's options, with its help texts."""
        docs = "; ".join(f"{name}: {doc}" for name, doc in self.preset_docs.items()) + "."
        preset = Annotated[Literal[tuple(self.presets)], tyro.conf.arg(help=docs)]
        *others, last = *self.more_files, results.RESULT_FILE
        files = f"{', '.join(others)} and {last}" if others else last
        writes = (
            f"Writes {self.shown} as {CURVE} and {PLOT}, and {files}, into --out. Ctrl-C keeps"
            " what is finished there, from which --resume continues to exactly the same numbers."
        )
        return dataclasses.make_dataclass(
            "Arguments",
            [("preset", preset, self.default_preset)],
            bases=(self.options,),
            namespace={
                "__doc__": f"{EXPERIMENTS[self.name].summary}\n\n{writes}",
                "__module__": __name__,
            },
            frozen=True,
            kw_only=True,
        )

    def words(self, config: Config) -> dict[str, Any]:
        """What is said about a run: arguments of `Run.finish`."""
        return {
            "measure": _of_config(self.measure, config),
            "deviations": tuple(_of_config(self.deviations, config)),
            "error_bars": self.error_bars,
        }

    def main(self, arguments: Any, *, command: str) -> None:
        """Runs the experiment.

        Args:
          arguments: an instance of `self.arguments`.
          command: the command line, for the record.

        Raises:
          ValueError: `arguments.out` holds another run, or an option is refused.
          FloatingPointError: a number in training is not finite.
          OSError: the results cannot be written.
          KeyboardInterrupt: stopped by Ctrl-C; what is finished has been kept.
        """
        preset = self.presets[arguments.preset]
        mesh = devices.start(
            arguments,
            self.batches and self.batches(preset),
            several_processes=self.several_processes,
        )
        config = self.configure(preset, arguments)
        files = (CURVE, PLOT, *self.more_files)
        stamps = dict(experiment=self.name, command=command, files=files)
        run = Run(arguments, config, mesh=mesh, extendable=self.extendable, **stamps)
        outcome = self.compute(run)
        if not run.writes:
            return
        results.write_csv(run.out / CURVE, [*self.rows(config, outcome)])
        self.write_more(run, outcome)
        self.draw(run.out / PLOT, config, outcome)
        run.finish(
            [*self.numbers(config, outcome)],
            **self.words(config),
            **{name: value(config, outcome) for name, value in self.extras.items()},
        )
        for table in self.tables(config, outcome):
            _print(table)


def text_table(
    title: str, headings: Iterable[str], rows: Iterable[Iterable[str]], *, labels: int = 1
) -> Table:
    """A table for the terminal.

    Args:
      title: the line above the table.
      headings: of the columns.
      rows: the texts of every row, one for each column.
      labels: how many columns on the left hold words, which are aligned to the left and may be
        folded; those after them hold numbers, which are aligned to the right.
    """
    table = Table(title=title)
    for column, heading in enumerate(headings):
        words = column < labels
        table.add_column(
            heading, justify="left" if words else "right", overflow="fold" if words else "ellipsis"
        )
    for row in rows:
        table.add_row(*row)
    return table


def _print(table: Table | str) -> None:
    """Prints on the terminal; a title is a line of its own, as it may be wider than its table."""
    console = Console()
    if isinstance(table, Table) and table.title:
        console.print(table.title, style="italic", highlight=False)
        table.title = None
    console.print(table)


def _of_config(value: Any, config: Any) -> Any:
    """A value, or what a function makes of the config."""
    return value(config) if callable(value) else value
