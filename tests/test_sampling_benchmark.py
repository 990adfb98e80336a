"""The benchmark of sampling: results follow the schema; unequal work and answers are refused."""

import numpy as np
import pyspiel
import pytest

from experiments import benchmarks
from experiments.benchmarks import sampling, sampling_work
from experiments.benchmarks.sampling_programs import TASKS, program
from experiments.harness import results
from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from solvers.sampling.decision_tree import build_decision_tree

ONE, ONE_PEER = "ours, one learner", "OpenSpiel C++, one learner"


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
    ends = [
        result.number(f"{name}, ends:{tasks[0]}").value
        for name in ("ours", "OpenSpiel C++, one learner")
    ]
    assert ends == [1, 1]
    assert len(result.load_average) == 1  # one part, from its start to its end
    assert any("the same information state" in text for text in result.deviations)
    assert (tmp_path / "benchmark.png").read_bytes().startswith(b"\x89PNG")
    assert all(task in (tmp_path / "table.md").read_text() for task in tasks)


@pytest.mark.parametrize("name", [ONE, ONE_PEER])
@pytest.mark.parametrize("task", ["external sampling, Kuhn", "IS-MCTS, Kuhn"])
def test_a_program_does_the_work_it_is_asked_for(task, name):
    measured = program(name, TASKS[task], 1)
    done = measured.work(2001)
    assert 2001 <= done <= 3000  # whole iterations, whole searches


@pytest.mark.slow  # starts processes
def test_openspiel_works_on_all_cores():
    measured = program("OpenSpiel C++", TASKS["outcome sampling, Kuhn"], 1)
    assert 2000 <= measured.work(2000) < 2000 + 4 * len(measured.processes())


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["outcome sampling", "external sampling", "IS-MCTS"])
def test_both_programs_do_the_same_work(algorithm):
    """Two cards are dealt in Kuhn, and a line of play has one end; a search 1,000 simulations."""
    task = f"{algorithm}, Kuhn"
    ours, peers = (program(name, TASKS[task], 1).moves() for name in (ONE, ONE_PEER))
    sampling.check_same_work(task, {"moves": ours}, {"moves": peers}, 0.1)
    for moves in (ours, peers):
        match algorithm:
            case "outcome sampling":
                assert (moves["moves of chance"], moves["ends"]) == (2, 1)
                assert 2 <= moves["actions"] <= 3
            case "external sampling":
                assert moves["moves of chance"] == 2
                # two ends at least: the traverser's, who has two actions
                assert 2 <= moves["ends"] <= moves["actions"]
            case _:
                assert moves == {"simulations of a search": 1000}


def test_twice_the_work_is_refused():
    once, twice = ({"moves": {"ends": count}} for count in (1.0, 2.0))
    with pytest.raises(
        ValueError, match=r"Kuhn: ends in a traversal: ours 1.0, OpenSpiel C\+\+ 2.0"
    ):
        sampling.check_same_work("Kuhn", once, twice, 0.1)
    with pytest.raises(ValueError, match="ends"):
        sampling.check_same_work("Kuhn", once, {"moves": {}}, 0.1)
    sampling.check_same_work("Kuhn", once, {"moves": {"ends": 1.05}}, 0.1)


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_poker"])
def test_both_search_the_same_information_state(name, monkeypatch):
    source, game = enumerate_game(make(name)), pyspiel.load_game(name)
    tree = build_decision_tree(source)
    sampling_work.check_same_root(tree, source, game)
    monkeypatch.setattr(sampling_work, "ROOT", 1)
    with pytest.raises(ValueError, match="our search knows"):
        sampling_work.check_same_root(tree, source, game)
    monkeypatch.undo()
    worlds, first = tree.worlds, int(tree.worlds.first[0])
    share, other = worlds.share.at[first].set(0.5), worlds.other.at[first].set(first + 1)
    biased = tree.replace(worlds=worlds.replace(share=share, other=other))
    with pytest.raises(ValueError, match="has probability"):
        sampling_work.check_same_root(biased, source, game)


def test_visits_are_found_from_their_shares():
    shares = np.array([[2, 4], [3, 3], [1, 5]]) / 6
    policies = [list(enumerate(row)) for row in shares.tolist()]
    assert sampling_work.visits_at_root(policies[:2], 1000) == 6
    assert sampling_work.visits_at_root(policies[1:2], 1000) == 2  # too few searches to tell


def test_other_answers_are_refused():
    ours, peers = {"shares": [0.5, 0.5]}, {"shares": [0.75, 0.25]}
    with pytest.raises(ValueError, match=r"Kuhn: the answer of ours is .* 33% apart"):
        sampling.check_answers("Kuhn", ours, peers, 0.3)
    sampling.check_answers("Kuhn", ours, peers, 0.34)
    sampling.check_answers("Kuhn", {}, peers, 0.1)  # nothing to compare


def test_a_learner_that_learns_less_is_refused():
    slow, fast = {"nash_conv": 0.3}, {"nash_conv": 0.2}
    with pytest.raises(ValueError, match=r"Kuhn: .* NashConv of ours is 0.3, of OpenSpiel"):
        sampling.check_answers("Kuhn", slow, fast, 0.2)
    sampling.check_answers("Kuhn", slow, fast, 0.6)
    sampling.check_answers("Kuhn", fast, slow, 0.2)


def test_bad_input(tmp_path):
    with pytest.raises(ValueError, match="unknown task 'poker'"):
        benchmarks.run("sampling", tmp_path, tasks=("poker",))
    with pytest.raises(ValueError, match="unknown preset 'paper'"):
        benchmarks.run("sampling", tmp_path, preset="paper")
