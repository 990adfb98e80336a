"""`benchmark scaling`: what is measured where, and what is compared."""

import csv
import dataclasses

import pytest

from experiments import benchmarks
from experiments.benchmarks import scaling
from experiments.benchmarks.reports import Row
from experiments.harness import devices, results

CPU = dataclasses.replace(scaling.PRESETS["cpu"], cores=2, forced=8)


def test_work_grows_with_the_cores_and_not_with_the_devices():
    found = [(each.name, each.batch) for each in scaling.places(CPU)]
    assert found == [
        ("1 device on 1 core", 16),
        ("2 devices on 2 cores", 32),
        ("1 device on 2 cores", 32),
        ("8 devices on 2 cores", 32),
    ]


def test_speeds_are_compared_within_each_round():
    # the machine is half as fast in the second round and twice as fast in the third
    speeds = [(2.0, 1.0, 4.0), (4.0, 2.0, 7.0), (3.0, 1.5, 6.0), (2.0, 1.0, 5.0)]
    rows = []
    for program, times in (("searches", 1), ("training", 2)):
        for place, rates in zip(scaling.places(CPU), speeds, strict=True):
            found = [{"rate": times * rate} for rate in rates]
            rows.append(Row(task=program, program=place.name, runs=[{"samples": found}]))
    found = {each.name: each for each in scaling.numbers(CPU, rows)}
    assert len(found) == 2 * (4 + 3 + 2)
    for program, times in (("searches", 1), ("training", 2)):
        assert found[f"2 devices on 2 cores:{program}"].value == 4 * times
        each_core = found[f"2 devices on 2 cores / 1 device on 1 core:{program}"]
        assert each_core.value == 2
        assert each_core.low == (7 / 4 + 2) / 2  # of 7/4, 2 and 2
        assert found[f"1 device on 2 cores / 1 device on 1 core:{program}"].value == 1.5
        over = found[f"8 devices on 2 cores / 2 devices on 2 cores:{program}"]
        assert over.value == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "Kuhn"}, "unknown task 'Kuhn'"),
        ({"programs": ("train",)}, "unknown program 'train'"),
        ({"cores": 10**6}, "cores=1000000 must be at most the"),
        ({"cores": 1, "batch": 6}, "devices=8 must divide batch=3 of half of 8 devices on 1 core"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(changes, message, tmp_path):
    options = {"preset": "smoke", "cores": 1} | changes
    with pytest.raises(ValueError, match=message):
        benchmarks.run("scaling", tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow(minutes=2)
@pytest.mark.skipif(devices.cores() < 2, reason="needs two cores")
def test_training_and_searches_are_measured(tmp_path):
    benchmarks.run("scaling", tmp_path, preset="smoke", programs=("searches", "training"))
    result = results.read_result(tmp_path / "result.json")
    assert result.experiment == "benchmark_scaling"
    with (tmp_path / "benchmark.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["program"] for line in lines] == ["searches"] * 4 + ["training"] * 4
    for line in lines:
        speed = result.number(f"{line['on']}:{line['program']}")
        assert 0 < speed.low <= speed.value <= speed.high
        assert float(line["busy cores"]) < int(line["on"].split()[-2]) + 0.2
    assert "8 devices on 2 cores" in (tmp_path / "table.md").read_text()
