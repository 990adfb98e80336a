"""How fast the main programs could be on a GPU: estimates from counts, until somebody measures.

Every program is compiled for the CPU, in the layouts that accelerators get, and run there with few
solves side by side. Its kernels follow one another, however many solves there are; its bytes and
floating-point operations grow with their number. A run on the GPU then takes at least

    max(kernels x seconds per launch, bytes / bandwidth, operations / rate)

The GPU's compiler fuses otherwise than the CPU's, and loops whose end is found on the GPU wait for
the host: the numbers say which of the three limits matters, not how fast a GPU is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp

from experiments.benchmarks.benchmark import Benchmark
from experiments.benchmarks.configs import check_names
from experiments.benchmarks.growing_tree_search import searcher
from experiments.benchmarks.program_costs import Costs, compile_to_count, costs_of_a_run
from experiments.benchmarks.reports import markdown_table, rounded
from experiments.benchmarks.search_tasks import LONDON, Task, build
from experiments.harness import results
from experiments.subgame_solving.holdem_spots import SPOTS
from jaxgames.registry import make
from solvers import cfr
from solvers.holdem.subgame_tree import holdem_tree
from solvers.sequence_form import build_sequence_form

# An H100 (SXM): bytes/s of its memory, and float32 operations/s without tensor cores, both from the
# data sheet. A launch of a kernel is an assumption: the lesser one holds inside a CUDA graph.
BANDWIDTH = 3.35e12
RATE = 67e12
LAUNCH_SECONDS = 5e-6
GRAPH_SECONDS = 2.5e-6


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """What is estimated: `batch` solves side by side, of which `counted` are run on the CPU."""

    unit: str  # of work, for the whole batch: "iteration" or "search"
    costs: Callable[[int], Costs]  # of a unit, with so many solves side by side
    batch: int = 1
    counted: int = 1


def _tabular(game: str) -> Callable[[int], Costs]:
    """An iteration of CFR+."""

    def costs(batch):
        form = build_sequence_form(make(game))
        return _iteration(form, cfr.cfr_plus(), cfr.init(form).root_reach, batch)

    return costs


def _spot(name: str) -> Callable[[int], Costs]:
    """An iteration of discounted CFR on a hold'em spot."""

    def costs(batch):
        spot = SPOTS[name]
        tree = holdem_tree(spot.cards, spot.ranges, spot.betting)
        return _iteration(tree.sequence_form, cfr.dcfr(gamma=3.0), tree.root_reach, batch)

    return costs


def _iteration(form, solver, root_reach, batch) -> Costs:
    def begin(reach):
        return cfr.init(form, root_reach=reach)

    def go_on(form, states, count):
        def run(state):
            return cfr.run(form, state, solver=solver, num_iterations=count)

        return jax.vmap(run)(states) if batch > 1 else run(states)

    if batch > 1:
        root_reach = tuple(jnp.broadcast_to(x, (batch, *x.shape)) for x in root_reach)
        begin = jax.vmap(begin)
    arguments = form, begin(root_reach)
    compiled = compile_to_count(go_on, *arguments, jnp.int32(0))
    # what is done before and after the loop is not an iteration's
    return costs_of_a_run(compiled, *arguments, jnp.int32(2)) - costs_of_a_run(
        compiled, *arguments, jnp.int32(1)
    )


def _search(
    *, simulations: int, run: int | None = None, pace: float = 1.0, **task: Any
) -> Callable[[int], Costs]:
    """All of a search at the root of a game; `pace` is simulations per iteration of CFR.

    If no more than `run` simulations are to be run, half of these are run, too, and both counts are
    continued as a multiple of the simulations and one of their square: trees grow in a search.
    """

    def counted(simulations, batch):
        setting = build(Task(simulations=simulations, batch=batch, **task))
        settings = dataclasses.replace(setting.settings, pace=pace)
        setting = dataclasses.replace(setting, settings=settings)
        arguments = (
            (setting.game, setting.params, setting.problem),
            jax.random.split(jax.random.key(0), batch),
        )
        compiled = compile_to_count(searcher(setting), *arguments)
        return costs_of_a_run(compiled, *arguments)

    def costs(batch):
        if run is None:
            return counted(simulations, batch)
        half, whole = (dataclasses.astuple(counted(n, batch)) for n in (run // 2, run))
        more = [_continued(x, y, simulations / run) for x, y in zip(half, whole, strict=True)]
        return Costs(kernels=more[0], bytes=more[1], operations=more[2])

    return costs


def _continued(half: int, whole: int, times: float) -> int:
    """f(times) of the f(x) = a x + b x^2 that has these values at 1/2 and at 1."""
    b = 2 * whole - 4 * half
    return round((whole - b) * times + b * times**2)


PROGRAMS = {
    "Kuhn, CFR+": Program(unit="iteration", costs=_tabular("kuhn_poker"), batch=64, counted=2),
    "Leduc, CFR+": Program(unit="iteration", costs=_tabular("leduc_poker")),
    "Leduc, CFR+, 4,096 games": Program(
        unit="iteration", costs=_tabular("leduc_poker"), batch=4096, counted=64
    ),
    "hold'em turn": Program(unit="iteration", costs=_spot("turn")),
    "hold'em flop": Program(unit="iteration", costs=_spot("flop")),
    "Leduc (100,1), 3x128": Program(
        unit="search",
        costs=_search(game="leduc_poker", simulations=100, width=128),
        batch=1024,
        counted=16,
    ),
    "London (400,1), 6x512": Program(
        unit="search",
        costs=_search(game=LONDON, simulations=400, run=100, width=512, depth=6),
        batch=8,
    ),
    "Connect Four (800,10), 6x512": Program(
        unit="search",
        costs=_search(
            pace=10.0, game="pgx:connect_four", simulations=800, width=512, depth=6, expand=1
        ),
        batch=16,
        counted=4,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is estimated."""

    programs: tuple[str, ...]


PRESETS = {
    "smoke": Config(programs=("Kuhn, CFR+",)),
    "cpu": Config(programs=tuple(name for name in PROGRAMS if name != "Kuhn, CFR+")),
}


def _checked(config):
    check_names("program", config.programs, PROGRAMS)
    return config


def estimate(name: str) -> dict[str, Any]:
    """The counts of one program and the least milliseconds that each of them asks for.

    Args:
      name: a key of `PROGRAMS`.

    Returns:
      A row of the CSV: of a unit of work of the whole batch, and `most_per_second` units of single
      solves, with kernels in a graph.
    """
    program = PROGRAMS[name]
    with mock.patch.object(jax, "default_backend", return_value="gpu"):
        costs = program.costs(program.counted)
    scale = program.batch / program.counted
    kernels, moved, operations = costs.kernels, costs.bytes * scale, costs.operations * scale
    milliseconds = {
        "launches": 1e3 * kernels * LAUNCH_SECONDS,
        "graph": 1e3 * kernels * GRAPH_SECONDS,
        "memory": 1e3 * moved / BANDWIDTH,
        "arithmetic": 1e3 * operations / RATE,
    }
    least = max(milliseconds[part] for part in ("graph", "memory", "arithmetic"))
    return {
        "program": name,
        "batch": program.batch,
        "unit": program.unit,
        "kernels": kernels,
        "megabytes": moved / 1e6,
        "gigaflop": operations / 1e9,
        **milliseconds,
        "most_per_second": 1e3 * program.batch / least,
    }


def _table(config, rows, result) -> str:
    """The table for people."""
    head = ["program", "side by side", "unit", "kernels", "MB", "GFLOP"]
    head += ["launches, ms", "in a graph, ms", "memory, ms", "arithmetic, ms", "units/s at most"]
    return markdown_table(head, [list(row.values()) for row in rows]) + "\n"


def _numbers(config, rows) -> Iterator[results.Number]:
    """All numbers of `result.json`."""
    units = {"kernels": "", "megabytes": "MB", "gigaflop": "GFLOP", "most_per_second": "1/s"}
    units |= dict.fromkeys(("launches", "graph", "memory", "arithmetic"), "ms")
    for row in rows:
        for key, unit in units.items():
            yield results.Number(name=f"{key}:{row['program']}", value=float(row[key]), unit=unit)


BENCHMARK = Benchmark(
    name="expected",
    presets=PRESETS,
    check=_checked,
    measure_all=lambda config, keep: [estimate(name) for name in config.programs],
    lines=lambda config, rows: map(rounded, rows),
    numbers=_numbers,
    measure="least milliseconds of a unit of work on an H100; estimated",
    conditions=lambda config, rows: {
        "bandwidth": BANDWIDTH,
        "rate": RATE,
        "launch_seconds": LAUNCH_SECONDS,
        "graph_seconds": GRAPH_SECONDS,
    },
    deviations=lambda config, rows: [
        "estimates from counts on a CPU, to be replaced by measurements on a GPU"
    ],
    table=_table,
)
