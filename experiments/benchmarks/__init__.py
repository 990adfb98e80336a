"""Benchmarks: our solvers side by side with the programs of others that are installed.

`run` carries out one of `BENCHMARKS`. Every measurement is made in a process of its own
(`processes`), so that memory, threads, settings and crashes stay with the program they belong to.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any


def _cfr(out: pathlib.Path, **options: Any) -> None:
    """Iterations per second of CFR+ on four games, with build and compile times and memory."""
    from experiments.benchmarks import cfr  # imports JAX

    cfr.benchmark(out, **options)


def _search(out: pathlib.Path, **options: Any) -> None:
    """Searches per second of growing-tree CFR, where their time goes, and the network's floor."""
    from experiments.benchmarks import search  # imports JAX

    search.benchmark(out, **options)


def _sampling(out: pathlib.Path, **options: Any) -> None:
    """Traversals per second of MCCFR, self-play search and information-set MCTS."""
    from experiments.benchmarks import sampling  # imports JAX

    sampling.benchmark(out, **options)


def _holdem(out: pathlib.Path, **options: Any) -> None:
    """Milliseconds per iteration on hold'em spots, and per river of many; hands per second."""
    from experiments.benchmarks import holdem  # imports JAX

    holdem.benchmark(out, **options)


def _startup(out: pathlib.Path, **options: Any) -> None:
    """Seconds of whole commands, with and without compiled programs of an earlier run."""
    from experiments.benchmarks import startup

    startup.benchmark(out, **options)


def _expected(out: pathlib.Path, **options: Any) -> None:
    """Least times on an H100, estimated from kernels, bytes and operations counted on a CPU."""
    from experiments.benchmarks import expected  # imports JAX

    expected.benchmark(out, **options)


def _accelerator(out: pathlib.Path, **options: Any) -> None:
    """Speed of the main programs on an accelerator, by how many solves are side by side."""
    from experiments.benchmarks import accelerator  # imports JAX

    accelerator.benchmark(out, **options)


def _scaling(out: pathlib.Path, **options: Any) -> None:
    """Searches per second, alone and in training, by the number of cores and of devices."""
    from experiments.benchmarks import scaling  # imports JAX

    scaling.benchmark(out, **options)


def _pimbot(out: pathlib.Path, **options: Any) -> None:
    """Simulations and bare playouts per second of PimBot in Scotland Yard, on one core."""
    from experiments.benchmarks import pimbot  # imports JAX

    pimbot.benchmark(out, **options)


def _districts(out: pathlib.Path, **options: Any) -> None:
    """Seconds of exact solutions of Scotland Yard on districts of London, on one core."""
    from experiments.benchmarks import districts  # imports JAX

    districts.benchmark(out, **options)


def _alphazero_training(out: pathlib.Path, **options: Any) -> None:
    """Positions per second of AlphaZero's training, beside the recipe of pgx's example."""
    from experiments.benchmarks import alphazero_training  # imports JAX

    alphazero_training.benchmark(out, **options)


def _networks(out: pathlib.Path, **options: Any) -> None:
    """Evaluations and gradients of networks by the precision of their factors, on one core."""
    from experiments.benchmarks import networks  # imports JAX

    networks.benchmark(out, **options)


def _board_steps(out: pathlib.Path, **options: Any) -> None:
    """Steps per second of chess and Go beside pgx's own, on one core."""
    from experiments.benchmarks import board_steps  # imports JAX

    board_steps.benchmark(out, **options)


BENCHMARKS: dict[str, Callable[..., None]] = {
    "cfr": _cfr,
    "search": _search,
    "sampling": _sampling,
    "holdem": _holdem,
    "startup": _startup,
    "expected": _expected,
    "scaling": _scaling,
    "accelerator": _accelerator,
    "pimbot": _pimbot,
    "districts": _districts,
    "alphazero_training": _alphazero_training,
    "networks": _networks,
    "board_steps": _board_steps,
}


def run(name: str, out: pathlib.Path, **options: Any) -> None:
    """Runs a benchmark and writes its results into a folder.

    Args:
      name: a key of `BENCHMARKS`.
      out: the folder, made if it does not exist.
      **options: the benchmark's own options; all benchmarks know `preset` ("smoke" or "cpu"),
        `overwrite` and `command` (the command line to put on record).

    Raises:
      ValueError: the benchmark or the preset is unknown, `out` holds an earlier run, or two
        programs that should give the same answer do not.
      OSError: the results cannot be written.
    """
    if name not in BENCHMARKS:
        from jaxgames.registry import unknown  # imports JAX, which not all processes need

        raise ValueError(unknown("benchmark", name, BENCHMARKS))
    BENCHMARKS[name](pathlib.Path(out), **options)
