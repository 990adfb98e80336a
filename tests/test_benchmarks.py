"""The benchmark of CFR+: answers must agree, results follow the schema, failures are told."""

import csv
import dataclasses
import importlib
import inspect
import os
import threading
from unittest import mock

import jax
import numpy as np
import pyspiel
import pytest

from experiments import benchmarks
from experiments.benchmarks import cfr as benchmark
from experiments.benchmarks.benchmark import Benchmark
from experiments.benchmarks.cfr_ours import bytes_per_iteration
from experiments.benchmarks.cfr_peers import PEERS
from experiments.benchmarks.cfr_program import GAMES
from experiments.benchmarks.measurements import bandwidth, long_enough
from experiments.benchmarks.numpy_sequence_form import SequenceFormCfrPlus
from experiments.benchmarks.processes import MeasuringProcess, measure_in_process
from experiments.harness import results
from jaxgames.registry import make
from solvers import cfr
from solvers.sequence_form import build_sequence_form

TINY = {
    "games": ("kuhn_poker",),
    "solvers": ("ours", "numpy_sequence_form", "openspiel_cpp", "liteefg"),
    "repeats": 2,
    "seconds": 0.02,
    "checkpoints": (100,),
}
MEASURED = {"ours_float64", "ours", "numpy_sequence_form", "openspiel_cpp"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny run, in which one of the peers is not installed."""
    out = tmp_path_factory.mktemp("benchmark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PEERS["liteefg"], "modules", ("no_such_package",))
        benchmarks.run("cfr", out, preset="smoke", command="the command", **TINY)
    return out


def read_rows(folder):
    with (folder / "benchmark.csv").open() as file:
        return {row["solver"]: row for row in csv.DictReader(file)}


@pytest.mark.slow
def test_result_follows_the_schema(folder):
    result = results.read_result(folder / "result.json")
    assert (result.experiment, result.preset) == ("benchmark_cfr", "smoke")
    assert result.command == "the command"
    batched = result.number("ours, 64 solves at once:kuhn_poker")
    assert batched.unit == "iterations/s"
    assert batched.value > 0
    speeds = [number for number in result.numbers if number.unit == "iterations/s"]
    speeds.remove(batched)
    assert {number.name for number in speeds} == {f"{name}:kuhn_poker" for name in MEASURED}
    assert all(0 < number.low <= number.value <= number.high for number in speeds)
    assert len({number.name for number in result.numbers}) == len(result.numbers)
    assert all(number.name.count(":") == 1 for number in result.numbers)
    assert result.config["versions_of_peers"].keys() == {"numpy", "open_spiel"}


@pytest.mark.slow
def test_a_package_that_is_not_installed_is_reported(folder):
    assert "liteefg is not installed" in results.read_result(folder / "result.json").deviations
    assert "liteefg is not installed" in (folder / "table.md").read_text()


@pytest.mark.slow
def test_nash_conv_is_that_of_openspiel(folder):
    game = pyspiel.load_game("kuhn_poker")
    solver = pyspiel.CFRPlusSolver(game)
    for _ in range(100):
        solver.evaluate_and_update_policy()
    expected = pyspiel.nash_conv(game, solver.average_policy())
    rows = read_rows(folder)
    assert rows.keys() == MEASURED
    for name, row in rows.items():
        close = 1e-4 if row["precision"] == "float32" else 1e-5  # six digits are written
        assert row["nash_conv_iterations"] == "100"
        assert float(row["nash_conv"]) == pytest.approx(expected, rel=close), name


@pytest.mark.slow
def test_costs_of_our_layout_are_reported(folder):
    result = results.read_result(folder / "result.json")
    tree = build_sequence_form(make("kuhn_poker"))
    states = len(tree.histories.public_states.parent)
    tree_bytes = sum(array.nbytes for array in jax.tree.leaves(tree))
    assert result.number("tree:kuhn_poker").value == pytest.approx(tree_bytes / states)
    moved = result.number("moved:kuhn_poker").value
    assert moved == bytes_per_iteration(tree)
    reached = moved * result.number("ours:kuhn_poker").value / 1e9
    assert result.number("reached:kuhn_poker").value == pytest.approx(reached)
    share = reached / result.number("near bandwidth:kuhn_poker").value
    assert result.number("reached / near:kuhn_poker").value == pytest.approx(share)


@pytest.mark.slow
def test_plot_is_a_picture(folder):
    assert (folder / "benchmark.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_an_earlier_run_is_not_overwritten(folder):
    before = (folder / "result.json").read_text()
    with pytest.raises(ValueError, match="earlier run"):
        benchmarks.run("cfr", folder, preset="smoke", **TINY)
    assert (folder / "result.json").read_text() == before


@dataclasses.dataclass(frozen=True)
class Counted:
    pieces: int = 3


def counted(measure, **fields):
    """A benchmark of pieces, each of which is measured by a function of its number."""

    def measure_all(config, kept):
        numbers = range(config.pieces)
        return [kept.once(f"piece {i}", lambda i=i: {"speed": measure(i)}) for i in numbers]

    return Benchmark(
        name="counted",
        presets={"cpu": Counted()},
        check=lambda config: None,
        measure_all=measure_all,
        lines=lambda config, measured: measured,
        numbers=lambda config, measured: [
            results.Number(name="sum", value=sum(run["speed"] for run in measured), unit="1/s")
        ],
        measure="a count",
        **fields,
    )


def test_an_interrupted_benchmark_is_resumed(tmp_path):
    """What it had measured is read; the piece that was interrupted is measured again."""
    calls = []

    def interrupted(number):
        calls.append(number)
        if number == 1 and calls.count(1) == 1:
            raise KeyboardInterrupt
        return number / 3

    record = counted(interrupted, resumable=True)
    with pytest.raises(KeyboardInterrupt):
        record.run(tmp_path)
    with pytest.raises(ValueError, match="add --resume to continue it or --overwrite"):
        record.run(tmp_path)
    with pytest.raises(ValueError, match="differs in pieces"):
        record.run(tmp_path, resume=True, pieces=2)
    record.run(tmp_path, resume=True)
    assert calls == [0, 1, 1, 2]
    result = results.read_result(tmp_path / "result.json")
    assert result.number("sum").value == 1.0
    assert len(result.commits) == 2
    with pytest.raises(ValueError, match="finished"):
        record.run(tmp_path, resume=True)


def test_a_benchmark_that_keeps_nothing_is_not_resumed(tmp_path):
    record = counted(float)
    with pytest.raises(ValueError, match="benchmark counted keeps no measurements, so that it"):
        record.run(tmp_path / "out", resume=True)
    assert not (tmp_path / "out").exists()
    record.run(tmp_path / "out")
    with pytest.raises(ValueError, match=r"an earlier run .*: add --overwrite to start again"):
        record.run(tmp_path / "out")


@pytest.mark.parametrize("name", benchmarks.BENCHMARKS)
def test_functions_of_records_take_what_they_are_given(name):
    """Those that are called after minutes of measurements, too."""
    record = importlib.import_module(f"experiments.benchmarks.{name}").BENCHMARK
    assert record.name == name
    given = {"check": 1, "measure_all": 2, "lines": 2, "numbers": 2, "conditions": 2}
    given |= {"deviations": 2, "table": 3, "draw": 3, "shown": 2}
    for field, count in given.items():
        if (function := getattr(record, field)) is not None:
            inspect.signature(function).bind(*range(count))
    for function in record.more_lines.values():
        inspect.signature(function).bind(1, 2)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("cfrr", {}, "unknown benchmark 'cfrr'; did you mean 'cfr'"),
        ("cfr", {"preset": "paper"}, "unknown preset 'paper'"),
        ("cfr", {"games": ("leduc",)}, "unknown game 'leduc'; did you mean 'leduc_poker'"),
        ("cfr", {"solvers": ("liteefgg",)}, "did you mean 'liteefg'"),
    ],
)
def test_unknown_names_are_refused(name, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        benchmarks.run(name, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("game", "iterations", "solver", "factor", "equal"),
    [
        ("kuhn_poker", 10, "openspiel_cpp", 1 + 1e-10, True),
        ("kuhn_poker", 10, "openspiel_cpp", 1 + 1e-8, False),
        ("kuhn_poker", 10, "ours", 1 + 1e-6, True),
        ("kuhn_poker", 10, "ours", 1 + 1e-4, False),
        ("kuhn_poker", 1000, "ours", 1.05, False),
        ("goofspiel(cards=5,points=descending)", 1000, "gpugt", 0.6, True),
        ("goofspiel(cards=5,points=descending)", 1000, "gpugt", 0.4, False),
        ("leduc_poker", 1000, "ours", float("nan"), False),
    ],
)
def test_unequal_answers_are_refused(game, iterations, solver, factor, equal):
    reference = {"nash_conv": [[2, 1.0], [10, 0.5], [1000, 0.1]]}
    value = dict(reference["nash_conv"])[iterations]
    run = {"nash_conv": [[iterations, value * factor]]}
    if equal:
        benchmark.check_equal(game, solver, run, reference)
    else:
        with pytest.raises(ValueError, match=f"after {iterations} iterations NashConv of {solver}"):
            benchmark.check_equal(game, solver, run, reference)


def test_a_solver_that_averages_otherwise_is_refused():
    """Uniform instead of linear averaging is seen at the first checkpoint of every game."""
    for game, compared in GAMES.items():
        if game.startswith("liars_dice"):  # a larger game shows nothing more
            continue
        spiel, values = pyspiel.load_game(compared.openspiel), []
        for power in (1, 0):
            solver = SequenceFormCfrPlus(spiel)
            for _ in range(compared.exact_iterations):
                solver.step(1)
                if power == 0:
                    solver.iteration = 0  # so that each counts as the first
            nash_conv = pyspiel.nash_conv(spiel, solver.average_policy())
            values.append([[compared.exact_iterations, nash_conv]])
        with pytest.raises(ValueError, match="NashConv of gpugt"):
            benchmark.check_equal(game, "gpugt", {"nash_conv": values[1]}, {"nash_conv": values[0]})


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_poker"])
def test_numpy_sequence_form_plays_as_openspiel(name):
    game = pyspiel.load_game(name)
    expected, solver = pyspiel.CFRPlusSolver(game), SequenceFormCfrPlus(game)
    for _ in range(5):
        expected.evaluate_and_update_policy()
        solver.step(1)
    policy, known = solver.average_policy(), expected.tabular_average_policy().policy_table()
    assert policy.keys() == known.keys()
    for key, row in policy.items():
        np.testing.assert_allclose(row, known[key], atol=1e-12)


def test_bytes_per_iteration_are_no_more_than_the_compiler_counts():
    """XLA counts what its kernels read and write, copies included."""
    tree = build_sequence_form(make("leduc_poker"))
    loop = cfr.run.lower(tree, cfr.init(tree), solver=cfr.cfr_plus(), num_iterations=0).compile()
    counted = loop.cost_analysis()["bytes accessed"]
    assert counted / 3 < bytes_per_iteration(tree) < counted


def measure(body, job, *, time_limit, folder, monkeypatch, cores=None):
    """What a module with this body of `measure(job, report)` reports."""
    (folder / "measured_module.py").write_text(f"def measure(job, report):\n{body}")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return measure_in_process("measured_module", job, time_limit=time_limit, cores=cores)


def test_a_measurement_that_takes_too_long_is_stopped(tmp_path, monkeypatch):
    body = "    report(got=job['given'])\n    report(more=[2])\n    __import__('time').sleep(600)\n"
    run = measure(body, {"given": 1}, time_limit=5.0, folder=tmp_path, monkeypatch=monkeypatch)
    assert run == {"failure": "capped: over 5 s", "got": 1, "more": [2]}


def test_a_measurement_that_crashes_reports_why(tmp_path, monkeypatch):
    body = "    raise ValueError('no luck')\n"
    run = measure(body, {}, time_limit=60.0, folder=tmp_path, monkeypatch=monkeypatch)
    assert run == {"failure": "failed: ValueError: no luck"}


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system cannot limit cores")
def test_a_measurement_may_use_as_many_cores_as_it_is_given(tmp_path, monkeypatch):
    body = "    import os\n    report(cores=len(os.sched_getaffinity(0)))\n"
    run = measure(body, {}, time_limit=60.0, folder=tmp_path, monkeypatch=monkeypatch, cores=1)
    assert run == {"failure": None, "cores": 1}


def measuring(body, job, *, time_limit, folder, monkeypatch):
    """A process that measures what a module with this body of `measurements(job)` yields."""
    (folder / "measured_module.py").write_text(f"def measurements(job):\n{body}")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return MeasuringProcess("measured_module", job, time_limit=time_limit)


def test_processes_take_turns(tmp_path, monkeypatch):
    log = tmp_path / "log"
    body = (
        "    for number in range(2):\n"
        f"        print(job['name'], number, file=open({str(log)!r}, 'a'))\n"
        "        yield {'number': number}\n"
    )
    options = {"time_limit": 60.0, "folder": tmp_path, "monkeypatch": monkeypatch}
    with (
        measuring(body, {"name": "a"}, **options) as first,
        measuring(body, {"name": "b"}, **options) as second,
    ):
        for number in range(2):
            assert [first.measure(), second.measure()] == [{"number": number}] * 2
        with pytest.raises(ValueError, match="failed: exit code 0"):  # there is no third one
            first.measure()
    assert log.read_text().split("\n")[:-1] == ["a 0", "b 0", "a 1", "b 1"]


def test_a_turn_that_crashes_or_takes_too_long_says_so(tmp_path, monkeypatch):
    options = {"folder": tmp_path, "monkeypatch": monkeypatch}
    body = "    yield {}\n    raise ValueError('no luck')\n"
    with measuring(body, {}, time_limit=60.0, **options) as process:
        assert process.measure() == {}
        with pytest.raises(ValueError, match="failed: ValueError: no luck"):
            process.measure()
    body = "    yield {}\n    __import__('time').sleep(600)\n    yield {}\n"
    with measuring(body, {}, time_limit=5.0, **options) as process:
        assert process.measure() == {}
        with pytest.raises(ValueError, match="capped: over 5 s"):
            process.measure()


def test_turns_are_doubled_until_they_take_long_enough():
    assert long_enough(lambda count: count / 8, 1.0) == (8, 1.0)
    assert long_enough(lambda count: count / 8, 1.0, first=6) == (12, 1.5)


def test_an_interrupted_turn_leaves_no_timer(tmp_path, monkeypatch):
    """A timer that goes on would keep Python from ending."""
    options = {"time_limit": 600.0, "folder": tmp_path, "monkeypatch": monkeypatch}
    with measuring("    yield {}\n", {}, **options) as process:
        monkeypatch.setattr(process._process, "stdout", mock.Mock())
        process._process.stdout.readline.side_effect = KeyboardInterrupt
        with pytest.raises(KeyboardInterrupt):
            process.measure()
        monkeypatch.undo()
    for timer in (each for each in threading.enumerate() if isinstance(each, threading.Timer)):
        timer.join(5)
        assert not timer.is_alive()


def test_bandwidth_is_measured():
    assert 1e6 < bandwidth(2**20, seconds=0.01) < 1e14


@pytest.mark.slow
def test_all_installed_peers_agree(tmp_path):
    benchmarks.run("cfr", tmp_path, preset="smoke")
    rows = list(csv.DictReader((tmp_path / "benchmark.csv").open()))
    assert len(rows) == 2 * sum(solver.is_installed() for solver in benchmark.SOLVERS.values())
    assert all(row["nash_conv"] for row in rows)
