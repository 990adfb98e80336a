"""Runs a benchmark: `jaxgames benchmark NAME`."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Annotated, Literal

import tyro

from experiments import benchmarks
from experiments.harness.experiment import Command


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments:
    """Run a benchmark, side by side with the peers that are installed."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """A benchmark of `list`."""
    out: pathlib.Path
    """Folder for the results; made if need be."""
    preset: Literal["smoke", "cpu"] = "cpu"
    """smoke: seconds; cpu: minutes."""
    overwrite: bool = False
    """Start again although --out holds an earlier run, which is deleted."""


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the command; see `benchmarks.run` for the errors."""
    options = dataclasses.asdict(arguments)
    benchmarks.run(options.pop("name"), options.pop("out"), command=command, **options)


COMMAND = Command(Arguments, main)
