"""Trained agents beside other programs."""

import csv

import pytest
from experiment_cases import smoke_run

from experiments import cli
from experiments.perfect_information import program_ladder
from experiments.perfect_information.program_ladder import PRESETS, UNIFORM, Options
from experiments.perfect_information.search_ladder import PAPER_GAPS


def test_our_agents_alone(tmp_path):
    result = smoke_run("program_ladder", tmp_path)
    assert any("without a network" in text for text in result.deviations)
    with (tmp_path / "curve.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [row["player"] for row in rows] == [UNIFORM, "AlphaZero(2)", "SoG(2)"]
    assert {row["games"] for row in rows} == {"4.0"}
    assert sum(float(row["points"]) for row in rows) == 6
    with (tmp_path / "games.csv").open(newline="") as file:
        assert len([*csv.DictReader(file)]) == 6


@pytest.mark.slow
def test_trained_networks_play(tmp_path):
    """The last one of a run."""
    trained = tmp_path / "trained"
    words = ["alphazero_board_games", "--preset", "smoke", "--game", "go_9x9"]
    assert cli.main([*words, "--out", str(trained)]) == 0
    options = Options(out=tmp_path, game="go_9x9", alphazero=trained)
    config = program_ladder.configure(PRESETS["smoke"], options)
    known = program_ladder.players(config)
    assert known["AlphaZero(2)"] == f"alphazero(simulations=2,network={trained}/networks/2.npz)"
    smoke_run("program_ladder", tmp_path / "ladder", "--alphazero", str(trained))


@pytest.mark.parametrize("game", program_ladder.PROGRAMS)
def test_programs_of_each_game(game, tmp_path):
    """The first one is Elo's zero; the paper's players are those of the full game."""
    config = program_ladder.configure(PRESETS["cpu"], Options(out=tmp_path, game=game))
    assert next(iter(program_ladder.players(config))) == program_ladder.PROGRAMS[game][0]
    published = program_ladder.published(config)
    assert len(published) == 7
    assert [*published.values()][-1] == 0


def test_published_gaps_are_those_of_figure_4():
    """Table 1 stands in two experiments."""
    chess, go = program_ladder.PAPER_CHESS, program_ladder.PAPER_GO
    for thousands, key in ((8, "SoG(8k, c=10)"), (60, "SoG(60k, c=10)")):
        gap = chess[key] - chess[f"AlphaZero({thousands}k)"]
        assert gap == PAPER_GAPS["chess"][1_000 * thousands]
    for thousands in (8, 16):
        gap = go[f"SoG({thousands}k, c=10)"] - go[f"AlphaZero({thousands}k)"]
        assert gap == PAPER_GAPS["go_19x19"][1_000 * thousands]


def test_bad_options(tmp_path, capsys):
    words = ["program_ladder", "--preset", "smoke", "--out", str(tmp_path)]
    assert cli.main([*words, "--workers", "0"]) == 2
    assert "workers=0 must be at least 1" in capsys.readouterr().err
    assert cli.main([*words, "--alphazero", str(tmp_path / "none")]) == 2
    assert "must be a folder of a run of training" in capsys.readouterr().err
