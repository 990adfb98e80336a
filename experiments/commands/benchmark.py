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
    """Folder for the results, which is made if it does not exist."""
    preset: Literal["smoke", "cpu", "gpu"] | None = None
    """smoke: seconds; cpu: minutes to two hours; gpu: minutes of one, of `accelerator` and
    `board_steps` alone. None: cpu, of `accelerator` gpu."""
    resume: bool = False
    """Continue an interrupted run in --out; of `search` alone."""
    overwrite: bool = False
    """Start again, and delete an earlier run in --out."""


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the command; see `benchmarks.run` for the errors."""
    options = dataclasses.asdict(arguments)
    benchmarks.run(options.pop("name"), options.pop("out"), command=command, **options)


COMMAND = Command(Arguments, main)
