"""Writes the tables of all committed results: `jaxgames tables`."""

from __future__ import annotations

import dataclasses

from experiments.harness import tables
from experiments.harness.experiment import Command


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments:
    """Write the tables of docs/results.md from all experiments/results/**/result.json."""

    check: bool = False
    """Write nothing; fail if docs/results.md is not what would be written."""


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the command; see `tables.main` for the errors."""
    tables.main(check=arguments.check)


COMMAND = Command(Arguments, main)
