"""The record of a benchmark, and how one is run.

The file of a benchmark says what differs from the others: the presets, what is measured, and how it
is shown. What all have in common is written here once: presets with some fields replaced, the
folder that is written to, the files of the result, and the table on the terminal.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from rich.console import Console
from rich.table import Table

from experiments.benchmarks.config_checks import check_names
from experiments.benchmarks.reports import lines_report
from experiments.harness import results
from experiments.harness.runs import Run, RunArguments

CSV, TABLE, PLOT = "benchmark.csv", "table.md", "benchmark.png"
Config = TypeVar("Config")  # a frozen dataclass
Measured = TypeVar("Measured")  # as a rule a list of `reports.Row`
Line = dict[str, Any]  # of a CSV


class Kept(NamedTuple):
    """How a benchmark keeps what it has measured so far, in case that it is interrupted."""

    write: Callable[[Any], None]
    """Writes the lines of all that was measured so far."""
    once: Callable[[str, Callable[[], dict[str, Any]]], dict[str, Any]]
    """Makes a measurement, which JSON must be able to hold, or reads it if an interrupted run has
    made it; the first argument is its name."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Arguments(RunArguments):
    preset: str
    resume: bool | None  # None: the benchmark cannot


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Benchmark(Generic[Config, Measured]):
    """What a benchmark measures, and how that is written, drawn and printed.

    Functions that take a config and what was measured take what `measure_all` returned.
    """

    name: str
    """As in `benchmarks.BENCHMARKS`, which describes it."""
    presets: Mapping[str, Config]
    """The configs that can be asked for, by name."""
    default_preset: str = "cpu"
    check: Callable[[Config], None]
    """Raises `ValueError` for a config that cannot be measured, and `ImportError` if a program that
    is needed is not installed."""
    measure_all: Callable[[Config, Kept], Measured]
    """Makes all measurements."""
    resumable: bool = False
    """Whether `measure_all` makes each measurement by `Kept.once`."""
    lines: Callable[[Config, Measured], Iterable[Line]]
    """The lines of benchmark.csv, all with the same names."""
    more_lines: Mapping[str, Callable[[Config, Measured], Iterable[Line]]] = dataclasses.field(
        default_factory=dict
    )
    """Further CSVs by the name of the file."""
    numbers: Callable[[Config, Measured], Iterable[results.Number]]
    """The numbers of result.json."""
    measure: str | Callable[[Config], str]
    """What the numbers measure, in words."""
    conditions: Callable[[Config, Measured], Mapping[str, Any]] = lambda config, measured: {}
    """What is on record beside the config: names in result.json's config, and their values."""
    deviations: Callable[[Config, Measured], Iterable[str]] = lambda config, measured: ()
    """What readers of the numbers must know, in words."""
    error_bars: str = results.LEAST_AND_MOST_SAMPLE
    """What `low` and `high` of the numbers are, in words."""
    table: Callable[[Config, Measured, results.Result], str] | None = None
    """The text of table.md; None: the lines of benchmark.csv, and the deviations."""
    draw: Callable[[pathlib.Path, Config, Measured], None] | None = None
    """Writes benchmark.png; None: there is none."""
    shown: Callable[[Config, Measured], Table] | None = None
    """What is printed in the end; None: the text of table.md."""

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files that a run writes."""
        return (results.RESULT_FILE, CSV, *self.more_lines, TABLE, *[PLOT] * bool(self.draw))

    def run(
        self,
        out: pathlib.Path,
        *,
        preset: str | None = None,
        resume: bool = False,
        overwrite: bool = False,
        command: str | None = None,
        **changes: Any,
    ) -> None:
        """Measures, and writes `files`; result.json is the last one.

        Args:
          out: the folder for the results, which is made if it does not exist.
          preset: a key of `presets`; None: the default one.
          resume: whether to go on with an interrupted run in `out`, if there is one.
          overwrite: whether to delete an earlier run in `out`.
          command: the command line to put on record.
          **changes: fields of the preset's config to replace.

        Raises:
          ValueError: the preset or a name in the config is unknown, `out` holds an earlier run, the
            benchmark cannot be resumed, a measurement fails, or two programs that should do the
            same work or give the same answer do not.
          ImportError: a program that is needed is not installed.
          OSError: the results cannot be written.
        """
        preset = preset or self.default_preset
        check_names("preset", [preset], self.presets)
        if resume and not self.resumable:
            raise ValueError(
                f"benchmark {self.name} keeps no measurements, so that it cannot be resumed: use"
                " another --out, or --overwrite to start again"
            )
        config = dataclasses.replace(self.presets[preset], **changes)
        self.check(config)
        run = Run(
            _Arguments(
                out=out,
                preset=preset,
                resume=resume if self.resumable else None,
                overwrite=overwrite,
            ),
            config,
            experiment=f"benchmark_{self.name}",
            command=command or f"python -m experiments benchmark {self.name}",
            files=self.files[1:],
        )
        kept = Kept(
            write=lambda measured: results.write_csv(out / CSV, [*self.lines(config, measured)]),
            once=lambda name, measure: run.kept_json(run.path(name), measure),
        )
        measured = self.measure_all(config, kept)
        result = run.result(
            self.numbers(config, measured),
            measure=self.measure(config) if callable(self.measure) else self.measure,
            deviations=self.deviations(config, measured),
            error_bars=self.error_bars,
            **self.conditions(config, measured),
        )
        lines = [*self.lines(config, measured)]
        results.write_csv(out / CSV, lines)
        for name, more in self.more_lines.items():
            results.write_csv(out / name, [*more(config, measured)])
        table = self.table(config, measured, result) if self.table else lines_report(lines, result)
        results.write_file(out / TABLE, table)
        if self.draw:
            self.draw(out / PLOT, config, measured)
        run.end(result)
        Console().print(self.shown(config, measured) if self.shown else table)
