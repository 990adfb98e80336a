"""Writes the tables of all committed results: `jaxgames tables`."""

from __future__ import annotations

import dataclasses

from experiments.harness import tables
from experiments.harness.experiment import Command


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments:
    """Write the tables of docs/results.md from all experiments/results/**/result.json.

    First what these say in words (what was measured, deviations from the papers) is brought up to
    date with the experiments. Numbers are never changed.
    """

    check: bool = False
    """Write nothing; fail if anything would be written that is not there already."""


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the command; see `tables.main` for the errors."""
    tables.main(check=arguments.check)


COMMAND = Command(Arguments, main)
