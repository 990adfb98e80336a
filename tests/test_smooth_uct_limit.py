"""The experiment `smooth_uct_limit`."""

import contextlib
import dataclasses
import functools
import itertools

import numpy as np
import pytest
from blueprint_cases import TWO_STREETS, game_of, random_tables

from experiments import cli
from experiments.blueprints import (
    blueprint_training,
    cross_table,
    measured_training,
    self_play,
    smooth_uct_limit,
)
from experiments.harness import results
from jaxgames.holdem.betting_graph import graph_of_tree
from jaxgames.registry import make
from solvers.blueprint import betting_walk, blueprint
from solvers.blueprint.duplicate_match import play_match


@pytest.fixture
def quick(monkeypatch):
    """Random buckets, and fewer hands."""

    @functools.cache
    def tables(abstraction, *, board, **_):
        return random_tables(abstraction.num_buckets, board)

    for module in (smooth_uct_limit, blueprint_training, blueprint):
        monkeypatch.setattr(module, "bucket_tables", tables)
    smoke = dataclasses.replace(smooth_uct_limit.PRESETS["smoke"], hands=500)
    monkeypatch.setitem(smooth_uct_limit.PRESETS, "smoke", smoke)
    return smoke


@pytest.mark.slow(minutes=2)
def test_a_run_and_the_same_after_ctrl_c(quick, tmp_path, monkeypatch):
    def run(name, *more):
        words = ["smooth_uct_limit", "--preset", "smoke", "--out", str(tmp_path / name), *more]
        return cli.main(words)

    assert run("whole") == 0
    assert (tmp_path / "whole" / "curve.png").read_bytes().startswith(b"\x89PNG")
    result = results.read_result(tmp_path / "whole" / "result.json")
    value = {number.name: number.value for number in result.numbers}
    for kind in ("average", "greedy"):
        assert value[f"UCT against uniform, {kind}"] > 0
        number = result.number(f"Smooth UCT against UCT, {kind}")
        assert number.low < number.value < number.high
        assert number.paper is None
        here = result.number(f"UCT against linear CFR, {kind}")  # the same game, hand by hand
        there = result.number(f"cross table: UCT, {kind} against linear CFR, 169/percentile:20")
        assert here.value == pytest.approx(there.value, abs=here.high - here.low)
    assert 2 < value["decisions of UCT"] < 9
    assert 0 < value["states that UCT has visited"] <= 1

    won = result.number("cross table: Smooth UCT, greedy against always raise")
    assert won.low < won.value < won.high
    table = (tmp_path / "whole" / "cross_table.csv").read_text().splitlines()
    # two methods, each in two ways, linear CFR, CFR-BR, chumps, and local best response
    assert len(table) == 1 + 4 + 1 + 1 + 3 + 1

    folders = sorted(path.name for path in (tmp_path / "whole" / "blueprints").iterdir())
    assert folders == ["Smooth-UCT-average", "Smooth-UCT-greedy", "UCT-average", "UCT-greedy"]

    with monkeypatch.context() as patch:
        pressed = contextlib.nullcontext(lambda: True)
        patch.setattr(measured_training, "interrupt_waits", lambda: pressed)
        assert run("parts") != 0
    assert run("parts", "--resume") == 0
    for file in ("curve.csv", "cross_table.csv"):
        texts = [(tmp_path / name / file).read_text() for name in ("whole", "parts")]
        assert texts[0] == texts[1]


def test_published_numbers_stand_beside_matches_that_exist():
    preset = smooth_uct_limit.PRESETS["paper"]
    names = [f"{name}, {kind}" for name in preset.methods for kind in self_play.READ_OUTS]
    pairs = [cross_table.name(*pair) for pair in itertools.combinations(names, 2)]
    on_cards, in_buckets = (
        [name for name in smooth_uct_limit.PAPER if (name in pairs) == there]
        for there in (True, False)
    )
    assert on_cards == ["cross table: UCT, greedy against Smooth UCT, greedy"]
    assert in_buckets == ["Smooth UCT against UCT, greedy"]
    matches = [
        cross_table.Match(one="UCT, greedy", other="Smooth UCT, greedy", value=-19.3, error=2.0)
    ]
    (number,) = cross_table.numbers(matches, smooth_uct_limit.PAPER)
    assert (number.low, number.high, number.paper) == (-23.3, -15.3, -5.28)


def test_measurements_are_at_whole_batches():
    config = dataclasses.replace(smooth_uct_limit.PRESETS["cpu"], episodes=2_500_000)
    assert self_play.points(config) == tuple(
        -(-n // 1024) * 1024 for n in (100_000, 315_000, 1_000_000, 2_500_000)
    )


def test_the_game_of_two_rounds_is_that_of_its_name():
    assert make(smooth_uct_limit.TWO_ROUNDS) == TWO_STREETS


@pytest.mark.slow
def test_fixed_players():
    """Of two who call, all hands end with a showdown of one big blind; all actions are alike to one
    who is uniform."""
    game, tables = game_of(TWO_STREETS, (169, 20)), random_tables((169, 20), (0, 3))
    walk = betting_walk.betting_walk(game)
    fixed = self_play.fixed_players(graph_of_tree(game.rounds.tree))
    match = functools.partial(play_match, walk, tables=tables, players=(0, 0), hands=300, seed=0)
    called = match([fixed[self_play.CALLER]])
    assert (called.won, called.error, called.decisions) == (0, 0, 4)
    found, expected = match([fixed[self_play.UNIFORM]]), match([walk.uniform])
    np.testing.assert_array_equal(found.by_seat, expected.by_seat)
    assert found.decisions == expected.decisions


def test_memory_is_told_before_anything_is_made(quick, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(self_play, "device_bytes", lambda: 10_000)
    monkeypatch.setattr(smooth_uct_limit, "bucket_tables", lambda *_, **__: pytest.fail("made"))
    words = ["smooth_uct_limit", "--preset", "smoke", "--out", str(tmp_path / "run")]
    assert cli.main(words) == 2
    error = capsys.readouterr().err
    assert "more than the memory of 0 MiB: fewer buckets make them smaller" in error


def test_the_abstraction_is_an_option(tmp_path, capsys):
    """Linear CFR is trained in the same one."""
    preset, text = smooth_uct_limit.PRESETS["cpu"], "169/ehs2:7/ehs2:5/ehs2:3"
    changed = smooth_uct_limit.configure(preset, self_play.Options(out=tmp_path, abstraction=text))
    assert changed.abstraction == text
    assert [*changed.references] == [text, smooth_uct_limit.PERCENTILES]
    assert [*changed.references.values()] == [*preset.references.values()]
    assert smooth_uct_limit.configure(preset, self_play.Options(out=tmp_path)) == preset
    said = smooth_uct_limit.deviations(changed)
    assert f"buckets {text} instead of {smooth_uct_limit.PAPER_GRID}" in said
    for preset in smooth_uct_limit.PRESETS.values():
        assert next(iter(preset.references)) == preset.abstraction
    words = ["--abstraction", "169/some:1", "--out", str(tmp_path / "bad")]
    for command in ("smooth_uct_limit", "smooth_uct_three_players"):
        assert cli.main([command, *words]) == 2
        assert "some" in capsys.readouterr().err


def test_the_number_of_episodes_is_an_option(tmp_path, capsys):
    preset = smooth_uct_limit.PRESETS["large"]
    options = self_play.Options(out=tmp_path, episodes=2_048)
    assert self_play.configure(preset, options).episodes == 2_048
    words = ["--episodes", "1000", "--out", str(tmp_path / "bad")]
    assert cli.main(["smooth_uct_limit", *words]) == 2
    assert "episodes=1000 must be at least 1024" in capsys.readouterr().err
