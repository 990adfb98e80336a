"""`benchmark alphazero_training`: pgx's recipe is what it says, and work is equal."""

import csv
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from experiments import benchmarks
from experiments.benchmarks import (
    alphazero_programs,
    alphazero_training,
    mctx_search,
    pgx_alphazero,
)
from experiments.benchmarks.alphazero_programs import OURS, PEER, TASKS, WHOLE
from experiments.benchmarks.reports import Row
from experiments.harness import devices, results
from jaxgames.adapters.pgx import lenient, make_env
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from nets.value_prior import new_value_prior

TASK = "tic-tac-toe, 1x4 blocks"
SMOKE = alphazero_training.PRESETS["smoke"]


def test_payoffs_are_handed_back_from_the_ends_of_games():
    """A game of three moves that the first player wins, one of two that is drawn, and one that
    the turns leave unfinished; against the definition."""
    ended = np.array([[0, 0, 1, 0, 1, 0, 0]], bool)
    reward = np.array([[0, 0, 1, 0, 0, 0, 0]], np.float32)
    discount = np.where(ended, 0, -1).astype(np.float32)
    values, known = pgx_alphazero.value_targets(*map(jnp.asarray, (reward, discount, ended)))
    assert values[0, :5].tolist() == [1, -1, 1, 0, 0]
    assert known[0].tolist() == [True] * 5 + [False] * 2


def test_without_mctx_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(mctx_search, "is_installed", lambda: False)
    with pytest.raises(ImportError, match=r"mctx is not installed: pip install 'jaxgames\[test\]'"):
        benchmarks.run("alphazero_training", tmp_path, preset="smoke")


def sample(**changes):
    """Of a step that does all the work of the task, in two seconds."""
    task = TASKS[TASK]
    work = {name: float(getattr(task, name)) for name in ("positions", "simulations", "updates")}
    counts = {"games": 6.0, "valued": 40.0, "seconds": 2.0, "cores": 1.0, "others": 0.0}
    return work | counts | {"rate": task.positions / 2.0} | changes


def row(program, *samples):
    return Row(task=TASK, program=program, runs=[{"failure": None, "samples": samples}])


def test_speeds_and_comparisons():
    rows = [
        row(OURS, sample(rate=30.0), sample(rate=20.0)),
        row(PEER, sample(rate=10.0, games=3.0), sample(rate=10.0, games=3.0)),
        row(WHOLE, sample(rate=99.0)),
        row(f"{OURS}, 2 devices", sample(rate=40.0)),
        row(f"{PEER}, 2 devices", sample(rate=5.0)),
        row(f"{WHOLE}, 2 devices", sample(rate=99.0)),
    ]
    found = {each.name: each for each in alphazero_training.numbers(SMOKE, rows)}
    assert found[f"{OURS}:{TASK}"].value == 25
    assert found[f"{OURS}, games/h:{TASK}"].value == 3 * 3600
    assert found[f"{OURS}, steps/s:{TASK}"].value == 0.5
    assert found[f"{OURS}, valued:{TASK}"].value == pytest.approx(40 / 48)
    ratio = found[f"{OURS} / {PEER}:{TASK}"]
    assert (ratio.low, ratio.value, ratio.high) == (2, 2.5, 3)
    assert found[f"{OURS} / {PEER}, games:{TASK}"].value == 2
    assert found[f"{OURS}, 2 devices / {PEER}, 2 devices:{TASK}"].value == 8
    best = found[f"fastest by fastest, {OURS}, 2 devices / {PEER}:{TASK}"]
    assert best.value == 4
    assert not any(f"{WHOLE} /" in name for name in found)


@pytest.mark.parametrize("name", ["positions", "simulations", "updates"])
def test_unequal_work_is_refused(name):
    alphazero_training.check_work(row(PEER, sample(), sample()))
    expected = getattr(TASKS[TASK], name)
    message = f"{name} of {PEER} are {expected + 1}, must be {expected}"
    with pytest.raises(ValueError, match=message):
        alphazero_training.check_work(row(PEER, sample(), sample(**{name: expected + 1.0})))


def test_all_positions_of_a_step_are_used():
    for task in TASKS.values():
        assert task.positions == task.updates * task.batch_size


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"preset": "paper"}, "unknown preset 'paper'"),
        ({"tasks": ("chess",)}, "unknown task 'chess'"),
        ({"whole": ("chess",)}, "unknown task 'chess'"),
        ({"devices": 3}, f"devices=3 must divide batch=4 of games of {TASK}"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(changes, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        benchmarks.run("alphazero_training", tmp_path / "out", **{"preset": "smoke"} | changes)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_the_recipe_plays_by_the_rules():
    """Each board follows from the one before, or begins a game where one has ended."""
    env, game = make_env("tic_tac_toe"), pgx_beliefs("tic_tac_toe")
    graph, params = nnx.split(new_value_prior(game, seed=0, width=4, depth=1))
    settings = pgx_alphazero.PgxSettings(simulations=4, games=3, moves=30, batch_size=30)
    play = functools.partial(pgx_alphazero._self_play, env, graph, settings, 3)
    with lenient(), jax.debug_key_reuse(False):  # mctx and pgx
        turns = jax.jit(play)(params, jax.random.split(jax.random.key(0), 1))
    boards = np.asarray(turns.features)[..., :18].reshape(3, 30, 9, 2)  # own, the opponent's
    ended = np.asarray(turns.ended)
    assert (np.asarray(turns.visits) == 4).all()
    assert (ended.sum(axis=1) >= 3).all()
    for game_boards, over in zip(boards, ended, strict=True):
        for number in range(29):
            before, after = game_boards[number], game_boards[number + 1]
            if over[number]:
                assert not after.any()
            else:
                np.testing.assert_array_equal(after[:, 0], before[:, 1])
                assert (after[:, 1] - before[:, 0]).sum() == 1
                assert (after[:, 1] >= before[:, 0]).all()


@pytest.mark.slow(minutes=4)
@pytest.mark.skipif(devices.cores() < 2, reason="needs two cores")
def test_training_is_measured(tmp_path):
    benchmarks.run("alphazero_training", tmp_path, preset="smoke")
    result = results.read_result(tmp_path / "result.json")
    assert result.experiment == "benchmark_alphazero_training"
    with (tmp_path / "benchmark.csv").open() as file:
        lines = list(csv.DictReader(file))
    programs = [OURS, PEER, WHOLE]
    several = [f"{program}, 2 devices" for program in programs]
    assert [line["program"] for line in lines] == programs + several
    for line in lines:
        speed = result.number(f"{line['program']}:{TASK}")
        assert 0 < speed.low <= speed.value <= speed.high
        assert float(line["games/h"]) > 0
    assert all(number.name.count(":") == 1 for number in result.numbers)
    assert len({number.name for number in result.numbers}) == len(result.numbers)
    assert "Haiku" in (tmp_path / "table.md").read_text()


def test_programs_are_those_of_the_benchmark():
    assert set(alphazero_programs.PROGRAMS) == {OURS, PEER, WHOLE}
