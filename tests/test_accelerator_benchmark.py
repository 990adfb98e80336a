"""The benchmark of accelerators: turns at the device, and who has none."""

import dataclasses
import sys
import threading

import pytest

from experiments import benchmarks
from experiments.benchmarks import accelerator
from experiments.benchmarks.accelerator import PRESETS, Case
from experiments.benchmarks.accelerator_programs import PROGRAMS
from experiments.benchmarks.processes import MeasuringProcess
from experiments.harness import results

NAMES = ("Kuhn, CFR+", "Leduc, CFR+", "hold'em river", "hold'em turn")


class Process(MeasuringProcess):
    """Compiles at once, or fails, or never ends; then each sample is twice the last."""

    stopped = threading.Event()

    def __init__(self, module, job, *, time_limit, environment):
        self.program, self.rate = job["program"], 0

    def measure(self):
        if self.program == "hold'em turn":
            self.stopped.wait()
            raise ValueError("stopped")
        if self.program == "hold'em river":
            raise ValueError("failed: no room")
        self.rate = 2 * self.rate or 1
        return {"compile_seconds": 3.0} if self.rate == 1 else {"rate": float(self.rate)}

    def __exit__(self, *_):
        self.stopped.set()


def test_who_has_not_compiled_or_fails_has_no_turn(monkeypatch):
    monkeypatch.setattr(accelerator, "MeasuringProcess", Process)
    config = dataclasses.replace(
        PRESETS["smoke"],
        cases=tuple(Case(program=name, batch=1) for name in NAMES),
        compiling_minutes=0.02,
        together=4,
    )
    kept = []
    rows = accelerator.measure_all(config, lambda rows: kept.append(len(rows)))
    assert kept == [1, 2, 3, 4]
    assert [row.rates for row in rows] == [[2.0, 4.0], [2.0, 4.0], [], []]
    failures = ["", "", "failed: no room", "had not compiled when the turns began"]
    assert [row.failure for row in rows] == failures
    assert rows[0].median("compile_seconds") == 3.0


def test_a_program_whose_tables_cannot_be_made_is_left_out(monkeypatch):
    monkeypatch.setattr(accelerator, "MeasuringProcess", Process)
    monkeypatch.setattr(sys, "executable", "false")
    name = next(name for name, program in PROGRAMS.items() if program.abstraction)
    config = dataclasses.replace(PRESETS["smoke"], cases=(Case(program=name, batch=1),))
    (row,) = accelerator.measure_all(config, lambda rows: None)
    assert row.rates == []
    assert row.failure.startswith("the tables of ")


def test_no_turn_begins_when_the_minutes_are_over(monkeypatch):
    monkeypatch.setattr(accelerator, "MeasuringProcess", Process)
    config = dataclasses.replace(
        PRESETS["smoke"], cases=(Case(program=NAMES[0], batch=1),), minutes=0.0
    )
    (row,) = accelerator.measure_all(config, lambda rows: None)
    assert row.rates == []
    assert "no time" in row.failure or "had not compiled" in row.failure


@pytest.mark.parametrize("preset", PRESETS)
def test_cases_are_different_and_known(preset):
    cases = PRESETS[preset].cases
    assert len(set(cases)) == len(cases)
    assert {case.program for case in cases} <= set(PROGRAMS)


def test_unknown_programs_are_refused(tmp_path):
    with pytest.raises(ValueError, match="unknown program 'chess'"):
        benchmarks.run(
            "accelerator",
            tmp_path / "out",
            preset="smoke",
            cases=(Case(program="chess", batch=1),),
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.slow(minutes=2)
def test_a_run(tmp_path):
    benchmarks.run("accelerator", tmp_path / "out", preset="smoke")
    result = results.read_result(tmp_path / "out" / results.RESULT_FILE)
    assert [number.unit for number in result.numbers] == ["iterations/s"] * 2 + ["searches/s"]
    assert all(0 < number.low <= number.value <= number.high for number in result.numbers)
    assert not result.deviations
