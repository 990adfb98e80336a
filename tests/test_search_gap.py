"""The experiment `search_gap`: networks and searches apart."""

import argparse
import csv
import dataclasses
import pathlib
import shutil

import numpy as np
import pytest
from experiment_cases import smoke_run
from flax import nnx

from experiments import cli
from experiments.harness import kept_file, results
from experiments.harness.runs import Run
from experiments.perfect_information import (
    network_and_search,
    paired_matches,
    search_gap,
    search_ladder,
)
from experiments.perfect_information.connect_four_positions import read_positions
from experiments.perfect_information.network_and_search import Moves, Outcome, Player
from experiments.perfect_information.paired_matches import Pair
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from nets import cvpn, parameters, value_prior
from solvers.perfect_information.alphazero_search import AlphaZeroAgent
from solvers.search import lazy_layout, leaf_evaluators
from solvers.search.search_state import GrowingTreeCfr

_RESULTS = pathlib.Path(__file__).parent.parent / "experiments/results"
SMOKE, CPU, PAPER = (search_gap.PRESETS[name] for name in ("smoke", "cpu", "paper"))
STEP = 400 * 0.47712125472  # Elo of winning three points of four: log10(3)


def test_both_networks_have_both_searches_and_one_has_further_ones():
    names = [player.name for player in network_and_search.players(CPU)]
    assert names[:4] == [
        "AlphaZero's network, AlphaZero(100)",
        "AlphaZero's network, SoG(100,1)",
        "SoG's network, AlphaZero(100)",
        "SoG's network, SoG(100,1)",
    ]
    further = [player.search_name for player in network_and_search.players(PAPER)[4:]]
    assert further == [
        "SoG(800,0.2)",
        "SoG(800,1)",
        "SoG(800,2)",
        "SoG(800,50)",
        "SoG(800,10) with k = 2",
        "SoG(800,10) with k = 7",
    ]
    assert len({*names}) == len(names) == 10


def test_who_meets_whom():
    met = network_and_search.schedule(PAPER)
    assert len({*met}) == len(met) == 6 + 6
    assert {first for first, second in met if second >= 4} == {2}  # the same network


@pytest.mark.parametrize("expand", [1, 2, 7])
def test_evaluations_of_a_search_fill_its_tree(expand):
    """Each place of a tree is evaluated once."""
    settings = GrowingTreeCfr(leaf_evaluators.zero, simulations=50, expand=expand, max_path=1)
    room = lazy_layout.lazy_layout(pgx_beliefs("connect_four"), settings, 1).room
    player = Player(network="SoG", search="SoG", simulations=50, expand=expand)
    assert player.evaluations(pgx_beliefs("connect_four")) == room


def made_up(config, wins, moves=()):
    """Games of two networks from (first, second, what the first wins of both games by pair)."""
    count = len(network_and_search.players(config))
    pairs = [
        Pair(first=seed * count + i, second=seed * count + j, opening=n, begun=won, answered=won)
        for seed in range(2)
        for i, j, both in wins
        for n, won in enumerate(both)
    ]
    return Outcome(players=count, moves=moves, pairs=pairs)


def test_the_gap_is_the_sum_of_those_of_network_and_search():
    """AlphaZero's search and its network both win three pairs of four, together nine of ten."""
    won, drawn, all_but_one = (1.0, 1.0, 1.0, -1.0), (1.0, -1.0), (1.0,) * 9 + (-1.0,)
    wins = [(0, 1, won), (0, 2, won), (0, 3, all_but_one), (1, 2, drawn), (1, 3, won), (2, 3, won)]
    config = dataclasses.replace(SMOKE, networks=2)
    outcome = made_up(
        config, [*wins, (2, 4, drawn), (2, 5, all_but_one)], perfect_and_worst(config)
    )
    found = {number.name: number for number in search_gap.numbers(config, outcome)}
    search = [f"SoG(4,1) less AlphaZero(4), with {name}'s network" for name in ("AlphaZero", "SoG")]
    network = [
        f"SoG's network less AlphaZero's, with {name}" for name in ("AlphaZero(4)", "SoG(4,1)")
    ]
    for name in (*search, *network):
        assert found[name].value == pytest.approx(-STEP, abs=0.01)
        assert found[name].low < -STEP < found[name].high
    whole = "SoG's network with SoG(4,1) less AlphaZero's with AlphaZero(4)"
    assert found[whole].value == pytest.approx(-2 * STEP, abs=0.01)
    less = "less AlphaZero(4), with SoG's network"
    assert found[f"SoG(4,2) {less}"].value == pytest.approx(0, abs=0.01)
    assert found[f"SoG(4,1) with k = 2 {less}"].value == pytest.approx(-2 * STEP, abs=0.01)
    assert found[whole].seeds == 2
    moves = found[f"{whole}: keeps it where that matters"]  # its worst moves do not, of one seed
    assert (moves.low, moves.value, moves.high) == (-0.5, -0.5, -0.5)
    alike = found[f"{network[0]}: best move"]
    assert (alike.low, alike.value, alike.high) == (0, 0, 0)


def perfect_and_worst(config):
    """Player 3 plays best moves with one network of two and worst ones with the other; the rest
    play best moves."""
    scores = read_positions().every(config.every).scores
    best, worst = np.nanargmax(scores, axis=1).tolist(), np.nanargmin(scores, axis=1).tolist()
    return [
        Moves(player=player, seed=seed, moves=worst if (player, seed) == (3, 1) else best)
        for seed in range(2)
        for player in range(len(network_and_search.players(config)))
    ]


def test_shares_of_good_moves_are_means_of_the_networks():
    config = dataclasses.replace(SMOKE, networks=2)
    outcome = made_up(config, [], perfect_and_worst(config))
    positions = read_positions().every(config.every)
    one = search_gap.good_moves(config, outcome, 0)
    assert [share.mean() for share in one.values()] == [1, 1, 1]
    mixed = search_gap.good_moves(config, outcome, 3)
    assert mixed["keeps it where that matters"].tolist() == [0.5] * positions.matters.sum()
    assert mixed["keeps the result"].mean() == pytest.approx(1 - positions.matters.mean() / 2)
    assert {*mixed["best move"].tolist()} <= {0.5, 1.0}  # 1 where all moves are alike


@pytest.mark.slow
def test_equal_players_are_equal(tmp_path, monkeypatch):
    """A whole run whose players all draw their moves: they play the same."""
    monkeypatch.setattr(Player, "agent", lambda player, network: AlphaZeroAgent())
    result = smoke_run("search_gap", tmp_path)
    gaps = [number for number in result.numbers if " less " in number.name]
    assert len(gaps) == (5 + 2) * 4
    assert [gap.value for gap in gaps] == pytest.approx([0] * len(gaps), abs=1e-6)
    with (tmp_path / "pairs.csv").open(newline="") as file:
        games = [*csv.DictReader(file)]
    assert len(games) == len(network_and_search.schedule(SMOKE)) * SMOKE.pairs
    assert all(float(game["begun"]) == -float(game["answered"]) for game in games)
    with (tmp_path / "curve.csv").open(newline="") as file:
        curve = [*csv.DictReader(file)]
    assert [float(row["elo"]) for row in curve] == pytest.approx([0] * 6, abs=1e-6)
    assert [row["evaluations"] for row in curve] == ["5", "12", "5", "12", "12", "16"]


@pytest.mark.slow
def test_in_other_games_there_are_games_alone(tmp_path, monkeypatch):
    """Nobody has scored the positions of tic-tac-toe for us."""
    monkeypatch.setattr(Player, "agent", lambda player, network: AlphaZeroAgent())
    result = smoke_run("search_gap", tmp_path, "--game", "tic_tac_toe")
    assert {number.unit for number in result.numbers} == {"Elo"}
    assert "tic_tac_toe instead of chess and Go" in result.deviations
    assert "scored" not in result.config["measure"]
    with (tmp_path / "curve.csv").open(newline="") as file:
        assert not [name for name in next(csv.reader(file)) if "keeps" in name]


def test_networks_of_each_seed_have_their_own_openings(tmp_path, monkeypatch):
    met = []
    monkeypatch.setattr(network_and_search, "_all_moves", lambda *_: [])
    monkeypatch.setattr(paired_matches, "play_matches", lambda *args: met.extend(args[-1]) or [])
    config = dataclasses.replace(SMOKE, networks=2)
    arguments = argparse.Namespace(out=tmp_path, preset="", resume=False, overwrite=False)
    network_and_search.compute(Run(arguments, config, experiment="search_gap", command=""))
    count = len(network_and_search.players(config))
    assert {(first // count, second // count, seed) for first, second, seed in met} == {
        (0, 0, 0),
        (1, 1, 1),
    }


@pytest.mark.slow(minutes=2)
def test_networks_play_with_either_search(tmp_path):
    """Untrained ones."""
    game = pgx_beliefs("connect_four")
    sizes = {"width": 8, "depth": 1, "torso": "mlp", "dtype": "float32"}
    options = []
    for option, new in (
        ("alphazero", value_prior.new_value_prior),
        ("student_of_games", cvpn.new_cvpn),
    ):
        folder = tmp_path / option
        (folder / "networks").mkdir(parents=True)
        _, params = nnx.split(new(game, seed=1, **sizes))
        results.write_file(folder / "networks" / "0.npz", parameters.to_bytes(params))
        fields = dict(experiment="training", preset="smoke", command="none", numbers=())
        usage = results.Usage()
        results.write_result(folder, results.make_result(config=sizes, usage=usage, **fields))
        options += [f"--{option}", str(folder)]
    words = ["search_gap", "--preset", "smoke", *options, "--out", str(tmp_path / "with")]
    assert cli.main(words) == 0
    result = results.read_result(tmp_path / "with" / "result.json")
    assert not any("without a network" in text for text in result.deviations)


def test_no_more_networks_play_than_were_trained(tmp_path):
    trained = _RESULTS / "sog_connect_four/gpu"  # one network
    options = search_gap.Options(out=pathlib.Path("out"), student_of_games=trained)
    config = search_gap.configure(CPU, options)
    assert (CPU.networks, config.networks) == (3, 1)
    assert "with one network of each kind" in search_gap.measure(config)
    unfinished = tmp_path / "networks"
    unfinished.mkdir()
    shutil.copy(trained / "networks" / "0.npz", unfinished)
    usage, fields = results.Usage(), dict(experiment="training", preset="cpu", command="none")
    result = results.make_result(config={"seeds": 3}, usage=usage, numbers=(), **fields)
    results.write_result(tmp_path, result)
    options = dataclasses.replace(options, alphazero=tmp_path)
    assert search_gap.configure(CPU, options).networks == 1
    results.write_file(unfinished / "1.npz", b"of the next seed")
    assert search_gap.configure(CPU, options).networks == 1  # of the other agent
    options = dataclasses.replace(options, student_of_games=None)
    assert search_gap.configure(CPU, options).networks == 2
    kept_file.write(tmp_path / "gap" / "checkpoint" / "config.json", {"networks": 1})
    resumed = dataclasses.replace(options, out=tmp_path / "gap", resume=True)
    assert search_gap.configure(CPU, resumed).networks == 1  # as when the run began
    without = search_gap.configure(CPU, search_gap.Options(out=pathlib.Path("out")))
    assert without == dataclasses.replace(CPU, networks=1)  # none is trained: all are the same


@pytest.mark.parametrize("experiment", [search_gap, search_ladder])
def test_games_of_the_paper_are_no_deviation(experiment):
    def words(game):
        preset = experiment.PRESETS["cpu"]
        return [*experiment.deviations(dataclasses.replace(preset, game=game))]

    assert "hex instead of chess and Go" in words("hex")
    for game in ("chess", "go_19x19"):
        assert not [text for text in words(game) if "instead" in text]


def test_a_folder_without_networks_is_refused(tmp_path, capfd):
    words = ["search_gap", "--preset", "smoke", "--alphazero", "/nowhere"]
    assert cli.main([*words, "--out", str(tmp_path)]) == 2
    assert (
        "alphazero: /nowhere must be a folder of a run of training, with " in capfd.readouterr().err
    )
