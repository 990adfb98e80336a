"""How fast the main programs are on an accelerator, by how many solves are side by side.

Each program is measured in a process of its own. All processes compile at the same time, on the
cores that there are, and then take turns at the device, so that a few minutes of a device suffice.
What has not compiled, or had no turn, when the minutes are over is left out, and the result says
so. Searches stand beside those of mctx with the same network and as many simulations.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import Any

from rich.console import Console

from experiments.benchmarks import accelerator_programs, mctx_search
from experiments.benchmarks.accelerator_programs import PROGRAMS, RIVAL
from experiments.benchmarks.benchmark import Benchmark
from experiments.benchmarks.config_checks import check_names
from experiments.benchmarks.processes import MeasuringProcess
from experiments.benchmarks.reports import Row, rounded
from experiments.harness import results
from experiments.harness.devices import cores
from jaxgames.files import cache_folder
from jaxgames.holdem.card_abstraction import CACHE

GRAPHS = "--xla_gpu_enable_command_buffer=+WHILE,+CONDITIONAL"
_ONE_AT_A_TIME = threading.Lock()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    """A program with a number of games or boards side by side."""

    program: str
    batch: int
    graphs: bool = False  # whether XLA puts loops and branches into CUDA graphs

    @property
    def name(self) -> str:
        """In words."""
        side_by_side = f"{self.program}, {self.batch:,} at once"
        return side_by_side + (", loops in CUDA graphs" if self.graphs else "")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is measured."""

    cases: tuple[Case, ...]  # in this order, so that the last ones are left out
    seconds: float  # about how long a sample takes
    repeats: int  # samples of each
    sampling_seconds: float  # after which a case takes no further sample
    compiling_minutes: float  # after which the turns begin; what compiles still is left out
    minutes: float  # after which no more turn begins
    together: int  # processes that compile at the same time


def _cases(program: str, *batches: int, graphs: Sequence[int] = ()) -> Iterator[Case]:
    for batch in batches:
        yield Case(program=program, batch=batch)
        if batch in graphs:
            yield Case(program=program, batch=batch, graphs=True)


PRESETS = {
    "smoke": Config(
        cases=(*_cases("Kuhn, CFR+", 1, 4), *_cases("Kuhn (8,1), 1x8", 4)),
        seconds=0.05,
        repeats=2,
        sampling_seconds=6.0,
        compiling_minutes=5.0,
        minutes=8.0,
        together=2,
    ),
    "gpu": Config(
        cases=(
            *_cases("Leduc (100,1), 3x128", 1024, 64, 8192, graphs=(1024,)),
            *_cases("Connect Four (32,1), 5x64 blocks", 1024, graphs=(1024,)),
            *_cases("AlphaZero: Connect Four (32,1), 5x64 blocks", 1024, graphs=(1024,)),
            *_cases("mctx: Connect Four (32,1), 5x64 blocks", 1024, graphs=(1024,)),
            *_cases("Connect Four (800,10), 6x512", 256, 16, graphs=(256,)),
            *_cases("mctx: Connect Four (800,10), 6x512", 256, 16, graphs=(256,)),
            *_cases("9x9 Go (100,1), 5x64 blocks", 256),
            *_cases("mctx: 9x9 Go (100,1), 5x64 blocks", 256),
            *_cases("chess (100,1), 6x512", 64),
            *_cases("AlphaZero: chess (100,1), 6x512", 64),
            *_cases("mctx: chess (100,1), 6x512", 64),
            *_cases("London (400,1), 6x512", 8),
            *_cases("London (32,1), 6x512", 256),
            *_cases("glasses (100,1), 3x128", 1024),
            *_cases("training, Leduc (100,1), 3x128", 1024),
            *_cases("blueprint of limit hold'em, 169/1000/500/200", 16, 64),
            *_cases("Smooth UCT, 169/1000/500/200", 16_384, 131_072),
            *_cases("Leduc, CFR+", 1, 4096, graphs=(1,)),
            *_cases("liar's dice, CFR+", 1, 256),
            *_cases("hold'em turn", 1),
            *_cases("hold'em flop", 1),
            *_cases("hold'em river", 1024),
            *_cases("outcome sampling, Leduc", 65_536),
            *_cases("Smooth UCT, Leduc", 65_536),
        ),
        seconds=1.0,
        repeats=3,
        sampling_seconds=4.0,
        compiling_minutes=2.5,
        minutes=4.8,
        together=cores(),
    ),
}


def _check(config) -> None:
    check_names("program", (case.program for case in config.cases), PROGRAMS)
    if any(case.program.startswith(RIVAL) for case in config.cases):
        mctx_search.require()


def measure_all(config: Config, write: Callable[[list[Row]], None]) -> list[Row]:
    """Makes all measurements.

    Args:
      config: what is measured.
      write: is given all rows so far after each of them.

    Returns:
      A row for each case.
    """
    begin = time.monotonic()
    deadline = begin + 60 * config.minutes
    compiled_by = min(begin + 60 * config.compiling_minutes, deadline)
    processes: dict[Case, MeasuringProcess] = {}
    rows: list[Row] = []
    pool = ThreadPoolExecutor(config.together)
    try:
        first = sorted(config.cases, key=lambda case: PROGRAMS[case.program].abstraction is None)
        under_way = {case: pool.submit(_compiled, config, case, processes) for case in first}
        waiting = [under_way[case] for case in config.cases]
        _wait_for(waiting, compiled_by)
        late = [case for case, each in zip(config.cases, waiting, strict=True) if not each.done()]
        pool.shutdown(wait=False, cancel_futures=True)
        for case in late:  # the device is for those who have their turn
            if case in processes:
                processes[case].__exit__()
        for case, future in zip(config.cases, waiting, strict=True):
            if case in late:
                run: dict[str, Any] = {"failure": "had not compiled when the turns began"}
            else:
                run = _measured(config, future, deadline)
            rows.append(Row(task=case.name, program=case.program, runs=[run]))
            Console(stderr=True).print(case.name, _shown(rows[-1]), soft_wrap=True)
            write(rows)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes.values():
            process.__exit__()
        pool.shutdown()
    return rows


def _make_tables(text, board) -> None:
    """Puts the tables of an abstraction into the cache, which may take a minute, and leaves nothing
    on the device."""
    program = (
        "from jaxgames.holdem.card_abstraction import CardAbstraction, bucket_tables;"
        f"bucket_tables(CardAbstraction.parse({text!r}), board={board!r})"
    )
    with _ONE_AT_A_TIME:  # programs with the same tables find them in the cache
        made = subprocess.run([sys.executable, "-c", program], cwd=results.ROOT, check=False)
    if made.returncode:
        raise ValueError(f"the tables of {text} could not be made: exit status {made.returncode}")


def _compiled(config, case, processes) -> tuple[MeasuringProcess, dict[str, Any]]:
    """A process that has compiled, and what it reported then."""
    if PROGRAMS[case.program].abstraction:
        _make_tables(*PROGRAMS[case.program].abstraction)
    environment = {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # the processes share the device's memory
        "XDG_CACHE_HOME": str(cache_folder(CACHE).parents[1]),  # each has a home of its own
    }
    if case.graphs:
        environment["XLA_FLAGS"] = GRAPHS
    process = MeasuringProcess(
        accelerator_programs.__name__,
        {"program": case.program, "batch": case.batch, "seconds": config.seconds},
        time_limit=60 * config.minutes,
        environment=environment,
    )
    processes[case] = process
    return process, process.measure()


def _wait_for(waiting: Sequence[Future], until: float) -> None:
    """Waits until all have ended, well or not, or it is `until`."""
    for future in waiting:
        try:
            future.exception(timeout=max(until - time.monotonic(), 0.0))
        except NotYet:
            return


def _measured(config, future, deadline) -> dict[str, Any]:
    """What a compiled process measures."""
    run: dict[str, Any] = {"failure": None, "samples": []}
    try:
        process, compiled = future.result()
        run |= compiled
        enough = min(time.monotonic() + config.sampling_seconds, deadline)
        while time.monotonic() < enough and len(run["samples"]) < config.repeats:
            run["samples"].append(process.measure())
        process.__exit__()  # gives its memory on the device back
    except ValueError as error:
        run["failure"] = str(error)
    if not run["samples"]:
        run["failure"] = run["failure"] or "there was no time left for it"
    return run


def numbers(config: Config, rows: Sequence[Row]) -> Iterator[results.Number]:
    """The speeds that were measured."""
    for row in rows:
        if row.rates:
            yield results.Number(
                name=row.task,
                value=row.rate,
                low=min(row.rates),
                high=max(row.rates),
                unit=f"{PROGRAMS[row.program].unit}/s",
            )


def _lines(config, rows) -> list[dict[str, Any]]:
    """The lines of the CSV, those of the rows so far."""
    return [_details(case, row) for case, row in zip(config.cases, rows, strict=False)]


def _details(case, row) -> dict[str, Any]:
    """One line of the CSV; empty where nothing was measured."""
    rates = row.rates
    peak = max(
        (sample.get("peak_bytes", 0) for sample in row.runs[0].get("samples", ())), default=0
    )
    return rounded(
        {
            "program": case.program,
            "side by side": case.batch,
            "loops in CUDA graphs": "yes" if case.graphs else "no",
            "unit": PROGRAMS[case.program].unit,
            "per second": row.rate if rates else None,
            "low": min(rates, default=None),
            "high": max(rates, default=None),
            "compile seconds": row.median("compile_seconds"),
            "memory on the device, MB": peak / 1e6 if peak else None,
            "remark": row.failure,
        }
    )


def _shown(row) -> str:
    if not row.rates:
        return row.failure
    return f"{results.text(row.rate)} {PROGRAMS[row.program].unit}/s"


BENCHMARK = Benchmark(
    name="accelerator",
    presets=PRESETS,
    default_preset="gpu",
    check=_check,
    measure_all=lambda config, kept: measure_all(config, kept.write),
    lines=_lines,
    numbers=numbers,
    measure="units of work per second, all that are side by side together",
    deviations=lambda config, rows: [f"{row.task}: {row.failure}" for row in rows if row.failure],
)
