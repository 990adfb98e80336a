"""The experiment `equal_budgets`: what agents are worth at equal costs of training."""

import csv
import dataclasses
import itertools
import pathlib

import pytest
from flax import nnx

from experiments import cli
from experiments.harness import results
from experiments.perfect_information import equal_budgets, trained_runs
from experiments.perfect_information.connect_four_training import Cell
from experiments.perfect_information.equal_budgets import Outcome
from experiments.perfect_information.paired_matches import Pair
from experiments.perfect_information.student import ALONE
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from nets import cvpn, parameters, value_prior
from solvers.perfect_information import matches
from solvers.perfect_information.alphazero_search import AlphaZeroAgent

SMOKE = equal_budgets.PRESETS["smoke"]
KEEPS = {0: 0.5, 10: 0.7, 20: 0.8}  # by step, with seed 0
ALPHAZERO, QUERIES, OUTCOMES = "alphazero", "queries", "outcomes"
# Seconds of a step with the first seed, half of those with the second one; evaluations of a step.
STEP = {ALPHAZERO: (5.0, 700), QUERIES: (2.0, 400), OUTCOMES: (1.0, 200)}


def made_up_cells(run):
    for seed, step, simulations in itertools.product(range(2), KEEPS, (ALONE, 32)):
        share = KEEPS[step] + 0.05 * seed
        yield Cell(
            seed=seed,
            step=step,
            simulations=simulations,
            seconds=STEP[run][0] * step * (1 + seed),
            evaluations=STEP[run][1] * step,
            games=step,
            positions=100,
            keeps=share,
            decides=share - 0.1,
            best=share - 0.2,
            first=3,
        )


@pytest.fixture
def folders(tmp_path):
    """Folders of finished runs, whose files of networks are empty."""
    found = {}
    for run in STEP:
        folder = found[run] = tmp_path / run
        folder.mkdir()
        results.write_csv(folder / "curve.csv", [*map(dataclasses.asdict, made_up_cells(run))])
        (folder / "networks").mkdir()
        for seed, step in itertools.product(range(2), KEEPS):
            (folder / "networks" / f"{seed}-{step}.npz").touch()
        name = "alphazero_connect_four" if run == ALPHAZERO else "sog_connect_four"
        config = {"width": 8, "depth": 1, "torso": "mlp", "dtype": "float32"}
        config |= {} if run == ALPHAZERO else {"values": run}
        fields = dict(experiment=name, preset="smoke", command="none", numbers=())
        result = results.make_result(config=config, usage=results.Usage(), **fields)
        results.write_result(folder, result)
    return found


def outcome_of(folders, **fields):
    return Outcome(runs=[trained_runs.read_run(folders[run]) for run in STEP], **fields)


def test_runs_are_read_as_they_were_written(folders):
    for run, read in zip(STEP, outcome_of(folders).runs, strict=True):
        written = [*made_up_cells(run)]
        pace = STEP[run][0] * 1.5  # the mean of both seeds
        assert [cell.seconds for cell in read.cells] == [cell.step * pace for cell in written]
        for own, cell in zip(read.cells, written, strict=True):
            assert dataclasses.replace(own, seconds=cell.seconds) == cell
    assert [run.name for run in outcome_of(folders).runs] == [
        "AlphaZero",
        "SoG by queries",
        "SoG by outcomes",
    ]


def test_shares_at_equal_budgets_are_those_of_the_lines_between_the_steps(folders):
    """All have trained for 30 seconds and 4,000 evaluations, which is as far as outcomes got."""
    outcome = outcome_of(folders)
    assert (outcome.budget("seconds"), outcome.budget("evaluations")) == (30, 4_000)
    found = {number.name: number for number in equal_budgets.numbers(SMOKE, with_games(outcome))}
    # After 30 seconds AlphaZero is at step 4, by queries at step 10 and by outcomes at step 20;
    # after 4,000 evaluations at steps 5.7, 10 and 20.
    for run, seconds, evaluations in (
        ("AlphaZero", 0.58, 0.5 + 0.2 * 4 / 7),
        ("SoG by queries", 0.7, 0.7),
        ("SoG by outcomes", 0.8, 0.8),
    ):
        for cost, share in (("seconds", seconds), ("evaluations", evaluations)):
            keeps = found[f"equal {cost}: {run}, network alone: keeps the result"]
            assert (keeps.low, keeps.high) == pytest.approx((share, share + 0.05))
            assert keeps.value == pytest.approx((keeps.low + keeps.high) / 2)
            best = found[f"equal {cost}: {run}, 32 simulations: best move"]
            assert (best.low, best.high) == pytest.approx((share - 0.2, share - 0.15))


def with_games(outcome):
    """The first of any two networks of seed 0 wins three games of four; others draw."""
    met = [
        both
        for cost in trained_runs.COSTS
        for rivals in outcome.rivals
        for both in outcome.met(cost, *rivals)
    ]
    pairs = [
        Pair(first=first, second=second, opening=n, begun=won, answered=won * answered)
        for first, second in dict.fromkeys(met)
        for won in [1.0 - outcome.networks[first][1]]
        for n, answered in enumerate((1.0, -1.0))
    ]
    return dataclasses.replace(outcome, pairs=pairs)


def test_networks_are_those_of_the_nearest_step(folders):
    outcome = with_games(outcome_of(folders))
    seconds = [outcome.network(run, seed, "seconds") for run in range(3) for seed in range(2)]
    assert [step for _, _, step in seconds] == [0, 0, 10, 10, 20, 20]
    # step 10 of AlphaZero has cost 7,000 evaluations, more than the budget
    calls = [outcome.network(run, seed, "evaluations") for run in range(3) for seed in range(2)]
    assert [step for _, _, step in calls] == [10, 10, 10, 10, 20, 20]
    # Those of Student of Games meet at both budgets, but only once.
    assert len(outcome.networks) == 4 + 2 + 2
    assert outcome.met("seconds", 1, 2) == outcome.met("evaluations", 1, 2)
    assert len({(pair.first, pair.second) for pair in outcome.pairs}) == len(outcome.pairs) / 2
    found = {number.name: number for number in equal_budgets.numbers(SMOKE, outcome)}
    points = found["equal evaluations: SoG by queries against SoG by outcomes"]
    assert (points.value, points.unit, points.seeds) == ((0.75 + 0.5) / 2, "points/game", 2)
    # of only four pairs a part of 1 - 0.05^(1/4) may be unlike those that were played
    assert points.low == pytest.approx(0.625 * 0.05**0.25)
    assert points.value < points.high <= 1


@pytest.mark.slow
def test_equal_players_share_the_points(folders, tmp_path, monkeypatch):
    """A whole run whose players all draw their moves: both games of a pair are the same game.

    The networks of each seed have their own openings.
    """
    monkeypatch.setattr(equal_budgets, "_agent", lambda *_: AlphaZeroAgent())
    draw_openings, drawn = matches.draw_openings, []

    def draw(game, *, number, length, seed):
        drawn.append(seed)
        return draw_openings(game, number=number, length=length, seed=seed)

    monkeypatch.setattr(matches, "draw_openings", draw)
    result, games = finished(folders, tmp_path / "out", *STEP)
    found = {number.name: number.value for number in result.numbers}
    points = [value for name, value in found.items() if "against" in name]
    assert points == [0.5] * 6
    assert {game["begun"] for game in games} >= {"1.0", "-1.0"}
    assert games[0]["first"] == "AlphaZero, seed 0, step 0"
    assert drawn == [0, 1_000]
    assert "of these trained networks" in result.error_bars


def finished(folders, out, *runs):
    words = ["equal_budgets", "--preset", "smoke", "--out", str(out)]
    assert cli.main([*words, "--runs", *(str(folders[run]) for run in runs)]) == 0
    with (out / "curve.csv").open(newline="") as file:
        assert len([*csv.DictReader(file)]) == 2 * len(runs) * 2 * 2
    assert (out / "curve.png").read_bytes().startswith(b"\x89PNG")
    with (out / "pairs.csv").open(newline="") as file:
        return results.read_result(out / "result.json"), [*csv.DictReader(file)]


@pytest.mark.slow
def test_networks_of_runs_play(folders, tmp_path):
    """Untrained ones."""
    game = pgx_beliefs("connect_four")
    sizes = {"width": 8, "depth": 1, "torso": "mlp", "dtype": "float32"}
    for run, new in ((ALPHAZERO, value_prior.new_value_prior), (QUERIES, cvpn.new_cvpn)):
        for seed, step in itertools.product(range(2), KEEPS):
            _, params = nnx.split(new(game, seed=seed, **sizes))
            path = folders[run] / "networks" / f"{seed}-{step}.npz"
            path.write_bytes(parameters.to_bytes(params))
    _, games = finished(folders, tmp_path / "out", ALPHAZERO, QUERIES)
    assert {game["second"] for game in games} == {
        "SoG by queries, seed 0, step 20",
        "SoG by queries, seed 1, step 20",
    }


def test_a_run_whose_networks_have_changed_is_another_one(folders, tmp_path):
    options = equal_budgets.Options(
        out=tmp_path / "out", runs=(folders[ALPHAZERO], folders[QUERIES])
    )
    before = equal_budgets.configure(SMOKE, options)
    (folders[QUERIES] / "networks" / "0-10.npz").write_text("plays at neither budget")
    assert equal_budgets.configure(SMOKE, options) == before
    (folders[QUERIES] / "networks" / "0-20.npz").write_text("plays")
    assert equal_budgets.configure(SMOKE, options) != before


def test_bad_runs_are_refused(folders, tmp_path, capfd):
    def refused(*paths):
        words = ["equal_budgets", "--preset", "smoke", "--out", str(tmp_path / "out")]
        assert cli.main([*words, "--runs", *map(str, paths)]) == 2
        return capfd.readouterr().err

    first, second = folders[ALPHAZERO], folders[QUERIES]
    assert "runs has 1 folders; there must be at least 2" in refused(first)
    assert "/nowhere must be the folder of a finished run" in refused(first, "/nowhere")
    assert "runs are of AlphaZero, AlphaZero; there must be one of each" in refused(first, first)
    network = second / "networks" / "1-20.npz"
    network.unlink()
    assert f"runs: {second} must be a folder of a run of training, with {network}" in refused(
        first, second
    )
    assert not (tmp_path / "out").exists()
    network.touch()
    path = pathlib.Path(second) / "result.json"
    result = dataclasses.replace(results.read_result(path), device="an abacus")
    results.write_result(second, result)
    assert "an abacus; must be of one device" in refused(first, second)
    results.write_result(second, dataclasses.replace(result, superseded="shared heads"))
    assert "queries is of earlier code: shared heads" in refused(first, second)
    fewer = [dataclasses.replace(cell, positions=50) for cell in made_up_cells(OUTCOMES)]
    third = folders[OUTCOMES]
    results.write_csv(third / "curve.csv", [*map(dataclasses.asdict, fewer)])
    assert "measured in 50 and 100 positions; must be the same" in refused(first, third)
