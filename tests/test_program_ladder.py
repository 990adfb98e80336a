"""Trained agents beside other programs."""

import csv
import dataclasses

import pytest
from experiment_cases import smoke_run

from experiments import cli
from experiments.harness import kept_file, results
from experiments.perfect_information import program_ladder
from experiments.perfect_information.program_ladder import PRESETS, UNIFORM, Options

GO = {3139, 2875, 1970, 1902, 869, 231, 0}  # Table 1


@pytest.mark.slow
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


def test_a_resumed_ladder_keeps_the_networks_that_it_began_with(tmp_path):
    """Though their training has gone on; it is another ladder if a file has changed."""
    trained = tmp_path / "trained"
    kept_file.write(trained / "checkpoint" / "config.json", {"torso": "mlp"})
    (trained / "networks").mkdir()
    options = Options(out=tmp_path / "ladder", alphazero=trained)

    def configured(step, *, resume):
        results.write_file(trained / "networks" / f"{step}.npz", f"network {step}".encode())
        own = dataclasses.replace(options, resume=resume)
        return program_ladder.configure(PRESETS["smoke"], own)

    begun = configured(5, resume=False)
    assert begun.alphazero == f"{trained}/networks/5.npz"
    kept_file.write(tmp_path / "ladder" / "checkpoint" / "config.json", dataclasses.asdict(begun))
    assert configured(20, resume=True) == begun
    assert configured(20, resume=False).alphazero == f"{trained}/networks/20.npz"
    results.write_file(trained / "networks" / "5.npz", b"of another training")
    assert configured(20, resume=True).networks_checksum != begun.networks_checksum


@pytest.mark.parametrize("game", program_ladder.PROGRAMS)
def test_programs_of_each_game(game, tmp_path):
    """The first one is Elo's zero; the paper's players are those of the full game."""
    config = program_ladder.configure(PRESETS["cpu"], Options(out=tmp_path, game=game))
    assert config == dataclasses.replace(PRESETS["cpu"], game=game, programs=config.programs)
    more = program_ladder.configure(PRESETS["cpu"], Options(out=tmp_path, game=game, pairs=100))
    assert more == dataclasses.replace(config, pairs=100)
    slow = program_ladder.configure(
        PRESETS["cpu"], Options(out=tmp_path, game=game, move_seconds=600.0)
    )
    assert slow == dataclasses.replace(config, move_seconds=600.0)
    assert next(iter(program_ladder.players(config))) == program_ladder.PROGRAMS[game][0]
    published = program_ladder.published(config)
    expected = {592, 530, 455, 420, 382, 268, 0} if "chess" in game else GO
    assert {*published.values()} == expected


def test_the_large_preset_plays_as_many_games_as_the_paper(tmp_path):
    large = program_ladder.configure(PRESETS["large"], Options(out=tmp_path))
    assert (large.simulations[-1], large.pairs) == (8_000, 100)
    assert not any("games of each two" in text for text in program_ladder.deviations(large))
    cpu = program_ladder.configure(PRESETS["cpu"], Options(out=tmp_path))
    assert "40 games of each two players (the paper: 200)" in program_ladder.deviations(cpu)


def test_bad_options(tmp_path, capsys):
    words = ["program_ladder", "--preset", "smoke", "--out", str(tmp_path)]
    assert cli.main([*words, "--workers", "0"]) == 2
    assert "workers=0 must be at least 1" in capsys.readouterr().err
    assert cli.main([*words, "--pairs", "0"]) == 2
    assert "pairs=0 must be at least 1" in capsys.readouterr().err
    assert cli.main([*words, "--move_seconds", "0"]) == 2
    assert "move_seconds=0.0 must be above 0" in capsys.readouterr().err
    assert cli.main([*words, "--alphazero", str(tmp_path / "none")]) == 2
    assert f"alphazero: {tmp_path}/none must be a folder of a run" in capsys.readouterr().err
    assert cli.main([*words, "--alphazero", str(tmp_path / "a,b")]) == 2
    assert "a,b must not have a comma" in capsys.readouterr().err
