"""The experiments on blueprints, at their smallest."""

import jax
import numpy as np
import pytest
from experiment_cases import smoke_run
from test_blueprint import game_of, random_tables

from experiments import cli
from experiments.blueprints import blueprint_limit, linear_cfr_training
from jaxgames.holdem.rules import Poker
from solvers.blueprint import board_sampled_cfr
from solvers.blueprint.blueprint import read_blueprint

ONE_RAISE = Poker(raise_sizes=(10, 10), board=(0, 3), first=(1, 0), max_raises=(1, 1))


@pytest.mark.slow
def test_blueprint_two_rounds_smoke(tmp_path):
    result = smoke_run("blueprint_two_rounds", tmp_path)
    assert {n.name for n in result.numbers} >= {"CFR:169/percentile:20", "CFR-BR:169/percentile:20"}


@pytest.mark.slow
def test_blueprint_limit_smoke(tmp_path):
    result = smoke_run("blueprint_limit", tmp_path / "one")
    value, exploitability, local = result.numbers
    assert value.low < value.value < value.high
    assert exploitability.value > 0
    assert local.low < exploitability.value, "the local best response wins more than the best one"
    name = "169-percentile-20"
    blueprint, poker = read_blueprint(tmp_path / "one" / "blueprints" / name)
    assert poker == blueprint_limit.PRESETS["smoke"].game
    assert blueprint.buckets.num_buckets == (169, 20)
    assert (tmp_path / "one" / "grids" / f"dealer-{name}.png").exists()


def test_options_of_blueprint_limit(tmp_path, capsys):
    preset = blueprint_limit.PRESETS["cpu"]
    options = blueprint_limit.Options(out=tmp_path, abstraction="169/all:1", boards=4_000)
    config = blueprint_limit.configure(preset, options)
    assert config.abstractions == ("169/all:1",)
    assert config.at == (1_000, 2_000, 4_000)
    for words, message in (
        (("--boards", "3"), "boards=3 must be a multiple of 2"),
        (("--abstraction", "169/emd:5"), "kind 'emd' of buckets must be one of"),
    ):
        assert cli.main(["blueprint_limit", *words, "--out", str(tmp_path / "bad")]) == 2
        assert message in capsys.readouterr().err


def test_pieces_of_training_do_not_change_it(monkeypatch):
    """To the bit, with 40 iterations at once or in pieces that end within blocks of 32. The first
    seven have up to 523 groups, later ones up to 535; with another room sums are rounded in another
    way."""
    monkeypatch.setattr(linear_cfr_training, "_ROOMS", (528, 640))
    game, tables = game_of(ONE_RAISE, (20, 30)), random_tables((20, 30), (0, 3))
    advance = linear_cfr_training.advancer(game, tables, jax.random.key(0), boards_per_iteration=1)
    whole = advance(board_sampled_cfr.init(game), 40)
    parts = board_sampled_cfr.init(game)
    for count in (7, 32, 1):
        parts = advance(parts, count)
    assert int(parts.iteration) == 40
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(parts), strict=True):
        np.testing.assert_array_equal(one, other)


def test_too_little_memory_is_told_before_buckets_are_made(monkeypatch, tmp_path, capsys):
    def bucket_tables(*_, **__):
        raise AssertionError("buckets are made")

    monkeypatch.setattr(linear_cfr_training, "bucket_tables", bucket_tables)
    monkeypatch.setattr(linear_cfr_training, "device_bytes", lambda: 3 * 2**20)
    words = ["blueprint_limit", "--preset", "smoke", "--out", str(tmp_path / "run")]
    assert cli.main(words) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "169/percentile:20: 2,752 information states, which take up to" in told
    assert "buckets 2, an iteration" in told
    assert "the device has 3: fewer buckets or boards per iteration take less" in told
