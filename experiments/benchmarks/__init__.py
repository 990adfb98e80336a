"""Benchmarks: our solvers side by side with the programs of others that are installed.

`run` carries out one of `BENCHMARKS`, each of which is a module here that holds it as `BENCHMARK`.
Every measurement is made in a process of its own (`processes`), so that memory, threads, settings
and crashes stay with the program they belong to.
"""

from __future__ import annotations

import importlib
import pathlib
from typing import Any

BENCHMARKS = {  # by name, what they measure in one line; nothing is imported before one is run
    "cfr": "Iterations per second of CFR+ on four games, with build and compile times and memory.",
    "search": (
        "Searches per second of growing-tree CFR, where their time goes, and the network's floor."
    ),
    "sampling": "Traversals per second of MCCFR, self-play search and information-set MCTS.",
    "holdem": (
        "Milliseconds per iteration on hold'em spots, and per river of many; hands per second."
    ),
    "startup": "Seconds of whole commands, with and without compiled programs of an earlier run.",
    "scaling": "Searches per second, alone and in training, by the number of cores and of devices.",
    "accelerator": (
        "Speed of the main programs on an accelerator, by how many solves are side by side."
    ),
    "pimbot": "Simulations and bare playouts per second of PimBot in Scotland Yard, on one core.",
    "districts": "Seconds of exact solutions of Scotland Yard on districts of London, on one core.",
    "alphazero_training": (
        "Positions per second of AlphaZero's training, beside the recipe of pgx's example."
    ),
    "networks": (
        "Evaluations and gradients of networks by the precision of their factors, on one core."
    ),
    "board_steps": "Steps per second of chess and Go beside pgx's own, on one core.",
}


def run(name: str, out: pathlib.Path, **options: Any) -> None:
    """Runs a benchmark and writes its results into a folder.

    Args:
      name: a key of `BENCHMARKS`.
      out: the folder, made if it does not exist.
      **options: as of `benchmark.Benchmark.run`: `preset`, `resume`, `overwrite`, `command`
        (the command line to put on record), and fields of the preset's config to replace.

    Raises:
      ValueError: the benchmark is unknown, and as of `Benchmark.run`.
      ImportError: as of `Benchmark.run`.
      OSError: the results cannot be written.
    """
    if name not in BENCHMARKS:
        from jaxgames.registry import unknown  # imports JAX, which not all processes need

        raise ValueError(unknown("benchmark", name, BENCHMARKS))
    module = importlib.import_module(f"{__name__}.{name}")
    module.BENCHMARK.run(pathlib.Path(out), **options)
