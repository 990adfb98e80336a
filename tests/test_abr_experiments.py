"""The command `approximate_best_response`, and the experiments `abr_uniform` and `abr_cfr`."""

from unittest import mock

import pytest
from experiment_cases import smoke_run
from written_agent import write_agent

from experiments import cli
from experiments.best_response import abr_cfr, abr_search_agents, abr_uniform
from experiments.commands import approximate_best_response
from experiments.harness import results
from experiments.harness.runs import Run
from experiments.student_of_games import training_run


@pytest.mark.slow  # its parts are tested in `test_response` and `test_best_response_training`
def test_a_run_against_uniform_play(tmp_path, capsys):
    result = smoke_run("abr_uniform", tmp_path)
    numbers = {(number.name, number.unit): number for number in result.numbers}
    exact = {
        "kuhn_poker": 11 / 12,
        "goofspiel(cards=3,points=descending)": 4 / 3,
        "scotland_yard(map=district,rounds=3)": 19 / 24 + 18 / 24,
    }
    config = abr_uniform.PRESETS["smoke"]
    for game in config.games:
        assert numbers[f"exact:{game}", "NashConv"].value == pytest.approx(exact[game], abs=1e-5)
        share = numbers[f"ISMCTS-BR:{game}", "% of exact"]
        assert 90 < share.value < 100.001
        games = numbers[f"by games:{game}", "% of exact"]
        assert games.low < share.value + 5
        assert games.high > share.value - 5
    rows = (tmp_path / "curve.csv").read_text().splitlines()
    assert len(rows) == 1 + len(config.games) * len(config.learning.measured_at)
    assert "% of exact" in capsys.readouterr().out


@pytest.mark.slow
def test_an_interrupted_run_learns_the_same_curve(tmp_path, monkeypatch, capfd):
    """What an earlier step has measured is kept, since training does not go back to it."""
    command = ["approximate_best_response", "kuhn_poker", "--steps", "4", "--out"]
    command[2:2] = ["--measured_simulations", "20", "--seed", "1"]

    def stopping(report, number):
        if number == 3:
            raise KeyboardInterrupt

    assert cli.main([*command, str(tmp_path / "whole")]) == 0
    with monkeypatch.context() as patch:
        patch.setattr(training_run, "require_finite_losses", stopping)
        assert cli.main([*command, str(tmp_path / "parts")]) == 130
    assert cli.main([*command, str(tmp_path / "parts"), "--resume"]) == 0
    whole, parts = ((tmp_path / name / "curve.csv").read_text() for name in ("whole", "parts"))
    assert parts == whole
    assert len(whole.splitlines()) > 3


@pytest.mark.slow
def test_a_run_against_cfr(tmp_path):
    result = smoke_run("abr_cfr", tmp_path)
    numbers = {(number.name, number.unit): number for number in result.numbers}
    # Twice OpenSpiel's exploitability of CFR+ after ten iterations.
    assert numbers["exact:kuhn_poker", "NashConv"].value == pytest.approx(2 * 0.0326871, abs=1e-5)
    config = abr_cfr.PRESETS["smoke"]
    for agent in config.curve_agents:
        name = f"ISMCTS-BR:{agent.replace(':', ' ')} in {config.curve_game}"
        assert 60 < numbers[name, "% of exact"].value < 100.001


@pytest.mark.slow
def test_responses_to_a_policy_that_was_solved(tmp_path, capsys):
    """The agent is a file that `solve` wrote."""
    solved = ["solve", "kuhn_poker", "--iterations", "10", "--out", str(tmp_path / "solved")]
    assert cli.main(solved) == 0
    agent = str(tmp_path / "solved" / "policy.npz")
    more = ["--agent", agent, "--steps", "4", "--measured_simulations", "100"]
    out = ["--out", str(tmp_path / "response")]
    assert cli.main(["approximate_best_response", "kuhn_poker", *more, *out]) == 0
    assert "exact best response" in capsys.readouterr().out
    result = results.read_result(tmp_path / "response" / "result.json")
    exact = next(number for number in result.numbers if number.name.startswith("exact:"))
    assert exact.value == pytest.approx(2 * 0.0326871, abs=1e-4)


@pytest.mark.parametrize("experiment", [abr_uniform, abr_cfr])
def test_stand_ins_for_maps_of_the_paper_are_named(experiment):
    said = {name: " ".join(experiment.deviations(x)) for name, x in experiment.PRESETS.items()}
    assert all(game in said["districts"] for game in abr_uniform.DISTRICTS)
    assert "War Museum, Queen Mary's Garden, Kennington Double" in said["districts"]
    assert "Kennington" not in said["cpu"] + said["paper"]


def test_two_agents_of_a_game_have_two_curves(tmp_path, monkeypatch):
    monkeypatch.setattr(abr_search_agents, "points", lambda run, game, agent, learning: [])
    folders = [str(write_agent(tmp_path / name)) for name in "ab"]
    options = abr_search_agents.Options(agents=tuple(folders), out=tmp_path / "out")
    run = mock.create_autospec(Run, instance=True)
    run.config = abr_search_agents.configure(abr_search_agents.PRESETS["cpu"], options)
    assert [*abr_search_agents.compute(run)] == [
        f"SoG({count},1) in kuhn_poker of {folder}"
        for folder in folders
        for count in run.config.simulations
    ]
    assert run.config.contents[0] == run.config.contents[1]


def test_an_agent_is_known_by_its_files(tmp_path):
    """So that a run is not resumed with another one of the same name."""

    def content(agent):
        arguments = approximate_best_response.Arguments(game="kuhn_poker", agent=agent, out=out)
        return approximate_best_response._config(arguments).content

    out, file = tmp_path / "out", tmp_path / "policy.npz"
    file.write_bytes(b"one")
    (tmp_path / "result.json").write_bytes(b"two")
    first = content(str(file)), content(str(tmp_path)), content(f"{tmp_path}:10")
    assert first[1] == first[2] != first[0]
    file.write_bytes(b"another")
    again = content(str(file)), content(str(tmp_path)), content(f"{tmp_path}:10")
    assert not {*first} & {*again}
    assert content("cfr_plus:10") == content("uniform") == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--agent", "nobody"], "unknown agent 'nobody'"),
        (["--agent", "cfr_plus:many"], "agent cfr_plus:many must end with a number"),
        (["--agent", "always_fold"], "are for leduc_poker, not kuhn_poker"),
        (["--agent", "missing.npz"], "No such file"),
        (["--steps", "0"], "steps=0 must be at least 1"),
        (["--games", "1"], "games=1 must be at least 2"),
    ],
)
def test_bad_agents(tmp_path, capsys, arguments, message):
    out = ["--out", str(tmp_path / "out")]
    assert cli.main(["approximate_best_response", "kuhn_poker", *arguments, *out]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
