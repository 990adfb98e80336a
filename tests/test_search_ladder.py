"""The experiment `search_ladder`: its matches, its numbers, and a run that is interrupted."""

import csv
import dataclasses
from unittest import mock

import pytest
from experiment_cases import smoke_run
from flax import nnx

from experiments import cli
from experiments.harness import kept_file, results
from experiments.harness.runs import Run, RunArguments
from experiments.perfect_information import (
    published_elo,
    search_ladder,
    search_matches,
    trained_players,
)
from experiments.perfect_information.paired_matches import Pair
from experiments.perfect_information.student_search import simulation_pace
from experiments.perfect_information.trained_players import last_network, trained_networks
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from nets import cvpn, parameters, value_prior
from solvers.perfect_information import matches
from solvers.perfect_information.alphazero_search import AlphaZeroAgent

CPU, SMOKE = search_ladder.PRESETS["cpu"], search_ladder.PRESETS["smoke"]


def test_players_meet_their_neighbours_and_rivals():
    met = search_matches.schedule(CPU)
    names = [search_matches.name_of(*player) for player in search_matches.players(CPU)]
    shown = {(names[first], names[second]) for first, second in met}
    assert len(met) == len(shown) == 5 + 5 + 6
    assert {("AlphaZero(32)", "AlphaZero(100)"), ("SoG(100,1)", "SoG(320,10)")} < shown
    assert ("AlphaZero(3200)", "SoG(3200,10)") in shown
    everybody = search_matches.schedule(dataclasses.replace(CPU, everybody=True))
    assert len({*everybody}) == 12 * 11 / 2


def test_ten_simulations_make_an_iteration_of_cfr_from_320_on():
    assert [simulation_pace(count) for count in (1, 319, 320, 16_000)] == [1, 1, 10, 10]


def made_up(results_of):
    """Pairs of games in Go from (first, second, what the first wins in both games)."""
    config = dataclasses.replace(SMOKE, game="go_19x19", simulations=(320, 800, 2000))
    pairs = [
        Pair(first=first, second=second, opening=n, begun=won, answered=won)
        for first, second, both in results_of
        for n, won in enumerate(both)
    ]
    return config, pairs


def test_a_resumed_run_plays_with_the_networks_that_it_began_with(tmp_path, monkeypatch):
    """Though their training has gone on."""
    trained = tmp_path / "trained" / "networks"
    trained.mkdir(parents=True)
    monkeypatch.setattr(trained_players.runs, "read_config", lambda folder: {})
    named = lambda agent, path, game: trained_players.Network(params=path.stem)  # noqa: E731
    monkeypatch.setattr(trained_players, "read_network_file", named)
    config = dataclasses.replace(search_ladder.PRESETS["smoke"], alphazero=str(trained.parent))
    arguments = mock.Mock(spec=RunArguments, out=tmp_path / "ladder", preset="smoke")
    arguments.overwrite = False

    def found(resume):
        arguments.resume = resume
        run = Run(arguments, config, experiment="search_ladder", command="none")
        (found,) = trained_players.read_last_networks(run, pgx_beliefs("tic_tac_toe"), [0])
        return {agent: network.params for agent, network in found.items()}

    for resume, step in ((False, 5), (True, 20)):
        results.write_file(trained / f"{step}.npz", b"a network")
        assert found(resume) == {trained_players.ALPHAZERO: "5", trained_players.STUDENT: None}
    results.write_file(trained / "5.npz", b"of another training")
    with pytest.raises(ValueError, match=r"5\.npz is another network than the one that this run"):
        found(resume=True)


def test_numbers_are_those_of_the_games():
    """Each player wins 3 of 4 pairs from the next lower one, and AlphaZero as many from SoG."""
    most = (1.0, 1.0, 1.0, -1.0)
    steps = [(1, 0, most), (2, 1, most), (4, 3, most), (5, 4, most)]
    config, pairs = made_up([*steps, (0, 3, most), (1, 4, most), (2, 5, most)])
    numbers = {number.name: number for number in search_ladder.numbers(config, pairs)}
    step = 400 * 0.47712125472  # log10(3): every match says the same
    assert numbers["SoG(800,10)"].value == 0
    assert numbers["SoG(2000,10)"].value == pytest.approx(step, abs=1e-3)
    assert numbers["AlphaZero(320)"].value == pytest.approx(0, abs=1e-3)
    gap = numbers["SoG(2000,10) less AlphaZero(2000)"]
    assert (gap.value, gap.paper) == (pytest.approx(-step, abs=1e-3), 1672 - 2451)
    assert gap.low < gap.value < gap.high
    assert numbers["SoG(320,10) less AlphaZero(320)"].paper is None
    assert numbers["SoG: Elo grows"].value == 1
    assert numbers["SoG: Elo grows at every step"].value < 1
    # AlphaZero(800) is weaker than the one with 320, and has won everything from SoG
    config, pairs = made_up([(0, 1, most), (2, 1, most), *steps[2:], (1, 4, (1.0,) * 10)])
    numbers = {number.name: number for number in search_ladder.numbers(config, pairs)}
    assert numbers["AlphaZero(800), at least"].value == pytest.approx(183, abs=0.5)
    assert numbers["SoG(800,10) less AlphaZero(800), at most"].value == pytest.approx(-183, abs=0.5)
    assert numbers["AlphaZero: Elo grows"].value == 0.5
    assert published_elo.GAPS["go_19x19"][16_000] == -1169
    assert published_elo.gaps(published_elo.TABLE_S4)[16_000] == 2025 - 3431


@pytest.mark.slow
def test_a_run_resumes_to_the_same_games(tmp_path, monkeypatch):
    """With agents that play at random; Ctrl-C after two pieces changes nothing."""
    monkeypatch.setattr(trained_players.Network, "player", lambda *_: AlphaZeroAgent())
    whole = smoke_run("search_ladder", tmp_path / "whole")
    played = games(tmp_path / "whole")
    assert len(played) == 6 * SMOKE.pairs
    assert {game["opening"] for game in played} == {"0", "1", "2", "3"}
    assert played[0]["first"] == "AlphaZero(2)"
    play_pairs, calls = matches.play_pairs, []

    def interrupted(*args, **kwargs):
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return play_pairs(*args, **kwargs)

    monkeypatch.setattr(matches, "play_pairs", interrupted)
    words = ["search_ladder", "--preset", "smoke", "--out", str(tmp_path / "parts")]
    assert cli.main(words) == 130
    assert cli.main([*words, "--resume"]) == 0
    assert len(calls) == 6 * SMOKE.pairs / SMOKE.batch + 1
    assert games(tmp_path / "parts") == played
    again = results.read_result(tmp_path / "parts" / "result.json")
    assert again.numbers == whole.numbers


def games(folder):
    with (folder / "pairs.csv").open(newline="") as file:
        return [*csv.DictReader(file)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--student_of_games", "/nowhere"],
            "student_of_games: /nowhere must be a folder of a run of training",
        ),
        (["--network", "-1"], "network=-1 must be at least 0"),
        (["--pairs", "0"], "pairs=0 must be at least 1"),
        (["--game", "tic_tac"], "unknown pgx game 'tic_tac'"),
    ],
)
def test_bad_options_are_refused(words, message, tmp_path, capsys):
    command = ["search_ladder", "--preset", "smoke", "--out", str(tmp_path), *words]
    assert cli.main(command) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("finished", [False, True])
def test_networks_are_the_last_of_a_seed_or_of_the_only_one(tmp_path, finished):
    for name, config, networks, expected in (
        ("connect_four", {"seeds": 3}, ["1-20", "1", "0", "0-400"], "1"),
        ("board_games", {"torso": "mlp"}, ["0", "9", "10"], "10"),
    ):
        folder = tmp_path / name
        (folder / "networks").mkdir(parents=True)
        for network in networks:
            results.write_file(folder / "networks" / f"{network}.npz", b"")
        if finished:
            fields = dict(experiment="training", preset="smoke", command="none", numbers=())
            made = results.make_result(config=config, usage=results.Usage(), **fields)
            results.write_result(folder, made)
        else:
            kept_file.write(folder / "checkpoint" / "config.json", config)
        assert last_network(str(folder), 1) == folder / "networks" / f"{expected}.npz"
    with pytest.raises(ValueError, match=r"connect_four must be a folder .*, with .*/2\.npz"):
        last_network(str(tmp_path / "connect_four"), 2)
    with pytest.raises(ValueError, match="must be a folder of a run of training, with networks"):
        last_network(str(tmp_path), 0)


def test_a_run_whose_first_seed_is_in_training_has_no_network_yet(tmp_path):
    kept_file.write(tmp_path / "checkpoint" / "config.json", {"seeds": 3})
    (tmp_path / "networks").mkdir()
    results.write_file(tmp_path / "networks" / "0-25.npz", b"")
    with pytest.raises(ValueError, match="there is no network of seed 0 whose training has ended"):
        trained_networks(str(tmp_path))
    results.write_file(tmp_path / "networks" / "0.npz", b"")
    assert trained_networks(str(tmp_path)) == 1


@pytest.mark.slow
def test_networks_of_runs_play(tmp_path):
    """Untrained ones, in the smallest setting."""
    game = pgx_beliefs("tic_tac_toe")
    sizes = {"width": 8, "depth": 1, "torso": "mlp", "dtype": "float32"}
    options = []
    for option, new in (
        ("--alphazero", value_prior.new_value_prior),
        ("--student_of_games", cvpn.new_cvpn),
    ):
        folder = tmp_path / option.strip("-")
        (folder / "networks").mkdir(parents=True)
        _, params = nnx.split(new(game, seed=1, **sizes))
        results.write_file(folder / "networks" / "1.npz", parameters.to_bytes(params))
        fields = dict(experiment="training", preset="smoke", command="none", numbers=())
        usage = results.Usage()
        results.write_result(folder, results.make_result(config=sizes, usage=usage, **fields))
        options += [option, str(folder)]
    words = ["search_ladder", "--preset", "smoke", "--network", "1", *options]
    assert cli.main([*words, "--out", str(tmp_path / "out")]) == 0
    result = results.read_result(tmp_path / "out" / "result.json")
    assert not any("without a network" in text for text in result.deviations)
    assert len(games(tmp_path / "out")) == 6 * SMOKE.pairs
