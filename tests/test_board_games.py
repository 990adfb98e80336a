"""The experiments that learn board games: duels, Elo, presets, and engines with their networks."""

import csv
import dataclasses
import functools
import json
import types
from unittest import mock

import jax.numpy as jnp
import numpy as np
import pytest
from experiment_cases import smoke_run
from flax import nnx

from experiments import cli, registry
from experiments.engines.gtp_server import GtpServer
from experiments.engines.referee import load
from experiments.engines.uci_server import UciServer
from experiments.harness import elo, results
from experiments.harness.runs import Run
from experiments.perfect_information import (
    alphazero_board_games,
    board_duels,
    board_training,
    sog_board_games,
    sog_student,
)
from experiments.perfect_information.board_duels import UNIFORM, Duel
from experiments.perfect_information.board_training import GAMES, Outcome, Reached
from experiments.perfect_information.student import Speed, Student
from experiments.student_of_games import training_run
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from nets.cvpn import CvpnEvaluator
from solvers.search.search_state import GrowingTreeCfr
from train import alphazero_training, student_of_games_training
from train.paper_settings import PAPER_LEARNER, PAPER_QUERIES, PAPER_SELF_PLAY

NAMES = ("alphazero_board_games", "sog_board_games")
MEASURED_AT = (0, 30, 100, 200, 300)
public = functools.cache(pgx_beliefs)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (0, (UNIFORM,)),
        (30, (UNIFORM, 0)),
        (100, (UNIFORM, 0, 30)),
        (200, (UNIFORM, 0, 30, 100)),
        (300, (UNIFORM, 0, 30, 200)),
    ],
)
def test_networks_meet_those_before(step, expected):
    assert board_duels.opponents(MEASURED_AT, step) == expected


def test_shares_and_their_intervals():
    duel = Duel(step=1, opponent=0, payoffs=[1.0, -1.0, 1.0, 0.0])
    assert (duel.share, duel.count(1.0), duel.count(0.0), duel.count(-1.0)) == (0.625, 2, 1, 1)
    # two pairs, with 1/2 and 3/4: a part of 1 - 0.05^(1/2) may be unlike both
    assert duel.interval == pytest.approx((0.625 * 0.05**0.5, 1 - 0.375 * 0.05**0.5))
    assert duel.pairs.tolist() == [0.5, 0.75]
    swept = Duel(step=1, opponent=0, payoffs=[1.0] * 20)
    assert swept.interval == pytest.approx((0.05**0.1, 1.0))  # an exact test of ten pairs


def test_elo_by_hand():
    """Three wins and a loss: odds of 3 to 1. Who has won ten pairs has a bound."""
    found = [Duel(step=0, opponent=UNIFORM, payoffs=[1.0, -1.0, 1.0, 1.0] * 20)]
    found.append(Duel(step=5, opponent=0, payoffs=[0.0] * 80))
    found.append(Duel(step=9, opponent=5, payoffs=[1.0] * 20))
    ratings = board_duels.ratings((0, 5, 9), found)
    assert ratings[UNIFORM].value == 0
    expected = 400 * np.log10(3)
    for step in (0, 5):
        assert ratings[step].value == pytest.approx(expected)
        assert ratings[step].low < expected - 10 < expected + 10 < ratings[step].high
    assert ratings[9].bound == ">="
    least = elo.difference(0.05**0.1)  # the exact bound of the share of pairs that are won
    assert ratings[9].value == pytest.approx(expected + least)


def test_games_and_numbers():
    config = dataclasses.replace(registry.load(NAMES[0]).presets["smoke"], measured_at=(0, 5))
    outcome = Outcome(
        reached=[Reached(step=0, games=0), Reached(step=5, games=60)],
        duels=[
            Duel(step=0, opponent=UNIFORM, payoffs=[1.0, -1.0]),
            Duel(step=5, opponent=UNIFORM, payoffs=[1.0, 1.0]),
            Duel(step=5, opponent=0, payoffs=[1.0, 0.0]),
        ],
        speed=Speed(seconds=2.0),
    )
    numbers = {each.name: each for each in board_training.numbers(config, outcome)}
    assert numbers["games/h"].value == pytest.approx(60 / (5 * 2.0) * 3600)
    assert numbers["steps/s"].value == 0.5
    assert numbers["against the untrained network"].value == 0.75
    rating = numbers["Elo after 5 steps"]
    assert rating.low < numbers["Elo after 0 steps"].value < rating.value < rating.high
    swept = Outcome(outcome.reached, outcome.duels[:2], outcome.speed)
    bound = board_training.numbers(config, swept)
    assert [each.low for each in bound if each.name == "Elo after 5 steps, at least"] == [None]
    assert [*board_training.rows(config, swept)][1]["elo_bound"] == ">="
    rows = [*board_training.rows(config, outcome)]
    assert [row["games_of_training"] for row in rows] == [0, 60, 60]
    assert {key: rows[2][key] for key in ("wins", "draws", "losses", "opponent")} == {
        "wins": 1,
        "draws": 1,
        "losses": 0,
        "opponent": "the untrained network",
    }


@pytest.mark.parametrize("name", NAMES)
def test_all_games_have_presets(name):
    module = registry.load(name)
    presets = {NAMES[0]: alphazero_board_games.PRESETS, NAMES[1]: sog_board_games.PRESETS}[name]
    for preset, configs in presets.items():
        # devices are chosen before the game is known, so all games can be computed on them
        sizes = module.batches(module.presets[preset])
        assert all(size % (8 if preset == "paper" else 4) == 0 for size in sizes.values())
        assert configs.keys() == {*GAMES}
        assert configs["gardner_chess"] == module.presets[preset]
        for game, config in configs.items():
            assert config.game == game
            assert config.measured_at[0] == 0
            assert list(config.measured_at) == sorted(config.measured_at)
            assert sizes[f"batch in {game}"] == config.batch
            assert sizes[f"episodes in {game}"] == config.episodes
            json.dumps(dataclasses.asdict(config))


@pytest.mark.parametrize("preset", ["cpu", "paper"])
@pytest.mark.parametrize("game", GAMES)
def test_values_are_learned_from_queries_or_from_outcomes(game, preset):
    """With as many searches in all, but for rounding; and the paper's way is the default."""
    configs = {}
    for values in (None, "queries", "outcomes"):
        wanted = dict(preset=preset, game=game, seed=3, values=values, outcome_share=None)
        options = mock.Mock(spec=sog_board_games.Options, **wanted)
        config = sog_board_games.COMMAND.configure(sog_board_games.PRESETS[preset][game], options)
        assert config.seed == 3
        configs[values] = dataclasses.replace(config, seed=0)
    queries, outcomes = configs["queries"], configs["outcomes"]
    assert configs[None] == sog_board_games.PRESETS[preset][game] in (queries, outcomes)
    assert (queries.table, outcomes.table) == ("chess", "go")
    assert queries.solves >= queries.episodes
    assert outcomes.solves == 0
    assert outcomes.measured_at[-1] == 2 * queries.measured_at[-1]
    assert outcomes.updates == max(queries.updates // 2, 1)


def plain_settings(config):
    """The settings of training with any network."""
    evaluate = CvpnEvaluator(nnx.graphdef(nnx.Linear(1, 1, rngs=nnx.Rngs(0))))
    return sog_board_games.training_settings(config, GrowingTreeCfr(evaluate, simulations=4))


@pytest.mark.parametrize("game", GAMES)
def test_student_of_games_trains_by_table_s2(game):
    """Everything but the learner's sizes, and those are named."""
    config = sog_board_games.PRESETS["paper"][game]
    settings = plain_settings(config)
    column = "go" if game.startswith("go") or game in ("hex", "othello") else "chess"
    assert settings.self_play == PAPER_SELF_PLAY[column]
    assert (settings.queries_per_search, settings.queries_per_solve) == PAPER_QUERIES[column]
    assert settings.search.evaluate.temperature == 1.5
    weights = "value_weight", "policy_weight"
    for name in weights:
        assert getattr(settings.learner, name) == getattr(PAPER_LEARNER[column], name)
    said = " ".join(sog_board_games.deviations(config))
    for field in dataclasses.fields(settings.learner):
        own = getattr(settings.learner, field.name)
        assert (own != getattr(PAPER_LEARNER[column], field.name)) == (
            f"{field.name.replace('_', ' ')} " in said
        )
    assert ("Table S2 in another game" in said) == (game not in ("chess", "go_19x19"))


def test_training_searches_have_one_simulation_for_an_iteration(monkeypatch):
    """With any number of them, as in the paper; play has ten from 320 simulations on."""
    trainee = mock.Mock(spec=training_run.Trainee)
    monkeypatch.setattr(sog_student, "student", mock.Mock(return_value=trainee))
    config = dataclasses.replace(
        sog_board_games.PRESETS["smoke"]["hex"], training_simulations=400, torso="mlp"
    )
    seen = []

    def settings_of(search):
        seen.append(search)
        return sog_board_games.training_settings(config, search)

    game, run = pgx_beliefs("hex"), mock.Mock(spec=Run, config=config)
    student = sog_student.sog_student(game, run, settings_of=settings_of, seed=0)
    assert [(search.simulations, search.pace) for search in seen] == [(400, 1.0)]
    assert student.agent({}, 400).settings.pace == 10.0


def test_more_values_may_be_outcomes():
    """That is ours, and said; nothing else changes."""
    preset = sog_board_games.PRESETS["cpu"]["go_9x9"]
    wanted = dict(preset="cpu", game="go_9x9", seed=0, values=None, outcome_share=1.0)
    options = mock.Mock(spec=sog_board_games.Options, **wanted)
    config = sog_board_games.COMMAND.configure(preset, options)
    assert config == dataclasses.replace(preset, outcome_share=1.0)
    settings = plain_settings(config)
    plain = plain_settings(preset).self_play
    assert settings.self_play == dataclasses.replace(plain, outcome_targets=1.0)
    (said,) = {*sog_board_games.deviations(config)} - {*sog_board_games.deviations(preset)}
    assert "outcomes of 100% of the positions of self-play (the paper: 20%)" in said
    options.outcome_share = 1.5
    with pytest.raises(ValueError, match=r"outcome_share=1\.5 must be from 0 to 1"):
        sog_board_games.COMMAND.configure(preset, options)
    options.outcome_share = 0.0
    with pytest.raises(ValueError, match="outcome_share=0 must be above 0 where no query"):
        sog_board_games.COMMAND.configure(preset, options)
    options.values = "queries"
    assert sog_board_games.COMMAND.configure(preset, options).outcome_share == 0


@pytest.mark.parametrize("game", GAMES)
def test_short_trainings_have_no_resignation(game):
    """And few moves are drawn on a small board; both are said."""
    config = sog_board_games.PRESETS["cpu"][game]
    settings = plain_settings(config)
    drawn = 7 if game == "go_9x9" else 30
    paper = PAPER_SELF_PLAY[config.table]
    assert settings.self_play == dataclasses.replace(paper, resign_below=None, greedy_after=drawn)
    said = " ".join(sog_board_games.deviations(config))
    assert "no game of self-play is resigned (the paper: four fifths may be, below -0.9)" in said
    assert ("after 7 moves of self-play" in said) == (game == "go_9x9")


@pytest.mark.parametrize(("changes", "message"), [({"batch": 3}, "even"), ({"games": 5}, "multi")])
def test_duels_are_pairs(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(registry.load(NAMES[0]).presets["smoke"], **changes)


def test_duels_are_between_the_networks_of_the_files(tmp_path):
    """As they are in a run that has been resumed, also in the one that has trained them."""
    trainee = types.SimpleNamespace(params={"weight": jnp.array([0.1])}, train=lambda step: None)
    run, student = mock.Mock(spec=Run, out=tmp_path), mock.Mock(spec=Student, trainee=trainee)
    student.games = 1
    before, resumed = (board_training._Networks(run, student) for _ in range(2))
    list(before.reach(30))
    for networks in (before, resumed):
        assert float(networks.after(30)["weight"][0]) == float(np.float16(0.1))


def read_rows(folder):
    with (folder / "curve.csv").open(newline="") as file:
        return [*csv.DictReader(file)]


def without_speed(numbers):
    return [number for number in numbers if number.unit not in ("steps/s", "games/h")]


ENGINES = {"alphazero_board_games": "alphazero", "sog_board_games": "student_of_games"}


@pytest.mark.slow(minutes=4)
@pytest.mark.parametrize("name", NAMES)
def test_a_trained_network_plays_as_an_engine(name, tmp_path):
    """In Gardner chess: by UCI, and in a match."""
    result = smoke_run(name, tmp_path / "run")
    last = result.config["measured_at"][-1]
    names = [number.name for number in result.numbers]
    assert names[:2] == ["against uniformly random moves", "against the untrained network"]
    rated = [name.partition(", at ")[0] for name in names[2:-3]]  # a bound says so
    assert rated == ["Elo after 0 steps", f"Elo after {last} steps"]
    assert result.number("steps/s").value > 0
    assert [row["opponent"] for row in read_rows(tmp_path / "run")][-1] == "the untrained network"
    network = tmp_path / "run" / "networks" / f"{last}.npz"
    said = []
    options = {"agent": ENGINES[name], "network": str(network), "write": said.append}
    server = UciServer("gardner_chess", **options)
    server.run(["position startpos moves a2a3", "go nodes 4", "quit"])
    assert said[-1].startswith("bestmove ")
    referee = load("gardner_chess")
    legal = referee.moves(referee.played(["a2a3"], referee.start))
    assert said[-1].split()[1] in legal
    player = f"{ENGINES[name]}(simulations=4,network={network})"
    words = ["engine_match", "gardner_chess", player, "uniform", "--pairs", "1"]
    assert cli.main([*words, "--out", str(tmp_path / "match")]) == 0
    match = results.read_result(tmp_path / "match" / "result.json")
    assert all(each.value == 0 for each in match.numbers if each.name.startswith("faults"))


@pytest.mark.slow(minutes=4)
@pytest.mark.parametrize("name", NAMES)
def test_an_interrupted_training_of_go_resumes_to_the_same_numbers(name, tmp_path, monkeypatch):
    """It stops in the middle of training; then the network plays by GTP."""
    trainings = {NAMES[0]: alphazero_training, NAMES[1]: student_of_games_training}
    module = trainings[name]
    words = [name, "--preset", "smoke", "--game", "go_9x9", "--out"]
    assert cli.main([*words, str(tmp_path / "whole")]) == 0
    whole = results.read_result(tmp_path / "whole" / "result.json")
    step, made = module.train_step, []

    def interrupted(*args, **kwargs):
        made.append(1)
        if len(made) == 2:
            raise KeyboardInterrupt
        return step(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(module, "train_step", interrupted)
        # so that games under way are kept
        patch.setattr(training_run.CheckpointTimes, "due", lambda self: True)
        assert cli.main([*words, str(tmp_path / "part")]) == 130
    assert (tmp_path / "part" / "networks" / "0.npz").exists()
    assert cli.main([*words, str(tmp_path / "part"), "--resume"]) == 0
    part = results.read_result(tmp_path / "part" / "result.json")
    assert without_speed(part.numbers) == without_speed(whole.numbers)
    assert read_rows(tmp_path / "part") == read_rows(tmp_path / "whole")
    last = part.config["measured_at"][-1]
    files = [tmp_path / run / "networks" / f"{last}.npz" for run in ("whole", "part")]
    arrays = [dict(np.load(file)) for file in files]
    for key, array in arrays[0].items():
        np.testing.assert_array_equal(array, arrays[1][key])
    said = []
    options = {"agent": ENGINES[name], "network": str(files[1]), "simulations": 4}
    GtpServer(load("go_9x9"), write=said.append, **options).run(["genmove b", "quit"])
    assert said[0].removeprefix("= ").strip() in load("go_9x9").moves(load("go_9x9").start)
