"""The benchmark of sampling: results follow the schema, and unequal answers are refused."""

import pytest

from experiments import benchmarks
from experiments.benchmarks import sampling
from experiments.benchmarks.sampling_programs import TASKS, program
from experiments.harness import results


@pytest.mark.slow
def test_result_follows_the_schema(tmp_path):
    benchmarks.run("sampling", tmp_path, preset="smoke", command="the command")
    result = results.read_result(tmp_path / "result.json")
    assert (result.experiment, result.preset) == ("benchmark_sampling", "smoke")
    tasks = sampling.PRESETS["smoke"].tasks
    for task in tasks:
        speeds = [result.number(f"{name}:{task}") for name in ("ours", "OpenSpiel C++")]
        assert all(0 < number.low <= number.value <= number.high for number in speeds)
        ratio = result.number(f"ours / OpenSpiel C++:{task}").value
        assert ratio == pytest.approx(speeds[0].value / speeds[1].value)
    assert (tmp_path / "benchmark.png").read_bytes().startswith(b"\x89PNG")
    assert all(task in (tmp_path / "table.md").read_text() for task in tasks)


@pytest.mark.parametrize("name", ["ours, one learner", "OpenSpiel C++"])
@pytest.mark.parametrize("task", ["external sampling, Kuhn", "IS-MCTS, Kuhn"])
def test_a_program_does_the_work_it_is_asked_for(task, name):
    measured = program(name, TASKS[task], 1)
    done = measured.work(2001)
    assert 2001 <= done <= 3000  # whole iterations, whole searches


def test_other_answers_are_refused():
    ours, peers = {"answer": [0.5, 0.5]}, {"answer": [0.75, 0.25]}
    with pytest.raises(ValueError, match=r"Kuhn: the answer of ours is .* 33% apart"):
        sampling.check_equal("Kuhn", ours, peers, 0.3)
    sampling.check_equal("Kuhn", ours, peers, 0.34)
    sampling.check_equal("Kuhn", {}, peers, 0.1)  # nothing to compare


def test_bad_input(tmp_path):
    with pytest.raises(ValueError, match="unknown task 'poker'"):
        benchmarks.run("sampling", tmp_path, tasks=("poker",))
    with pytest.raises(ValueError, match="unknown preset 'paper'"):
        benchmarks.run("sampling", tmp_path, preset="paper")
