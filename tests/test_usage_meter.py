"""What a run has used: of all its parts, also of one that was killed."""

import dataclasses
import json
import subprocess
import sys

import pytest

from experiments.harness import kept_file, results, tables, usage_meter
from experiments.harness.runs import Run, RunArguments


@dataclasses.dataclass(frozen=True)
class Piece:
    number: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    preset: str = "cpu"


@pytest.fixture
def machine(monkeypatch):
    """The clock, the load and the commit, which only the test moves."""
    state = {"seconds": 100.0, "load": 0.5, "commit": "a" * 40}
    monkeypatch.setattr(usage_meter, "commit", lambda: state["commit"])
    monkeypatch.setattr(usage_meter.time, "perf_counter", lambda: state["seconds"])
    monkeypatch.setattr(usage_meter.os, "getloadavg", lambda: (state["load"], 9.0, 9.0))
    return state


def part(folder, machine, *, numbers, resume):
    """A part of a run whose pieces take ten seconds each."""

    def compute(number):
        machine["seconds"] += 10
        machine["load"] = 3.0 + number
        yield Piece(number)

    run = Run(Arguments(out=folder, resume=resume), Piece(7), experiment="some", command="")
    pieces = [run.kept(f"piece {n}", Piece, lambda n=n: compute(n)) for n in numbers]
    assert pieces == [[Piece(number)] for number in numbers]
    return run


def test_all_parts_count_up_to_the_last_piece_that_was_kept(tmp_path, machine):
    part(tmp_path, machine, numbers=range(2), resume=False)
    machine["seconds"] += 7  # killed here: this work is lost
    machine |= {"load": 1.5, "commit": "b" * 40 + "-dirty"}
    run = part(tmp_path, machine, numbers=range(4), resume=True)
    machine["seconds"] += 1
    result = run.finish([], measure="nothing")
    assert result.wall_seconds == 20 + 20 + 1
    assert result.load_average == ((0.5, 4.0), (1.5, 6.0))
    assert result.commits == ("a" * 40, "b" * 40 + "-dirty")
    assert result.commit == result.commits[-1]
    assert "; parts at commits aaaaaaa, bbbbbbb-dirty;" in tables.render(tmp_path, tmp_path)
    assert results.read_result(tmp_path / "result.json") == result


def test_parts_from_before_commits_were_kept_have_unknown_ones(tmp_path, machine):
    part(tmp_path, machine, numbers=range(1), resume=False)
    path = tmp_path / "checkpoint" / "usage.json"
    fields = kept_file.read(path)
    del fields["commits"]
    kept_file.write(path, fields)
    run = part(tmp_path, machine, numbers=range(2), resume=True)
    assert run.finish([], measure="nothing").commits == ("unknown", "a" * 40)


MEMORY = """
import subprocess, sys
from experiments.harness.usage_meter import UsageMeter
meter = UsageMeter()
before = meter.usage().peak_memory_gib
subprocess.run([sys.executable, "-c", "b'x' * 2**29"], check=True)  # half a GiB, in a child
child = meter.usage().peak_memory_gib
own = len(b"x" * 2**30) and meter.usage().peak_memory_gib
print(before, child, own)
"""


def test_memory_is_that_of_the_largest_process():
    command = [sys.executable, "-c", MEMORY]
    run = subprocess.run(command, check=True, cwd=results.ROOT, capture_output=True, text=True)
    before, child, own = map(float, run.stdout.split())
    assert 0 < before <= child <= own  # Linux begins with the peak of the process that forks
    assert child >= 0.5
    assert 1 <= own < max(before, 1) + 0.5


def test_results_from_before_memory_and_load_were_recorded_are_read(tmp_path, machine):
    run = part(tmp_path, machine, numbers=range(1), resume=False)
    run.finish([], measure="nothing")
    path = tmp_path / "result.json"
    fields = json.loads(path.read_text())
    for name in ("peak_memory_gib", "load_average", "cores", "commits"):
        assert fields.pop(name) is not None
    path.write_text(json.dumps(fields))
    result = results.read_result(path)
    assert result.wall_seconds == 10
    assert result.peak_memory_gib is result.load_average is result.cores is result.commits is None


@pytest.mark.parametrize(
    ("loads", "words"),
    [
        (((0.1, 2.2),), "20 min; 1.5 GiB; the machine was quiet (load average of 0.1"),
        (((0.1, 2.2), (3.0, 2.0)), "20 min in 2 parts; 1.5 GiB; the machine was loaded (load "),
        (
            ((0.1, 8.0),),
            "20 min; 1.5 GiB; the machine was loaded (load average of 0.1",
        ),
        (None, "20 min or more; ["),
    ],
)
def test_the_page_of_results_says_what_was_used(loads, words, tmp_path, machine):
    run = part(tmp_path, machine, numbers=range(1), resume=False)
    result = run.finish([], measure="nothing")
    usage = {"peak_memory_gib": 1.5, "load_average": loads, "cores": 2}
    if loads is None:
        usage = dict.fromkeys(usage)
    result = dataclasses.replace(result, wall_seconds=1200.0, **usage)
    results.write_result(tmp_path, result)
    assert words in tables.render(tmp_path, tmp_path)
