"""The experiments on blueprints, at their smallest, and the arithmetic of what they measure."""

import dataclasses

import jax
import numpy as np
import pytest
from blueprint_cases import ONE_RAISE, game_of, random_tables
from experiment_cases import smoke_run
from test_blueprint_matches import blueprint_of

from experiments import cli
from experiments.blueprints import (
    blueprint_limit,
    blueprint_training,
    limit_lines,
    real_values,
)
from experiments.blueprints.first_actions import TOP_TEN, FirstActions, first_actions
from experiments.harness import results
from experiments.harness.runs import Run
from jaxgames.holdem.canonical_boards import canonical_boards, num_deals
from jaxgames.holdem.hand_strength import expected_strength
from jaxgames.holdem.ranges import CLASSES, class_numbers
from jaxgames.holdem.rules import Poker
from solvers.blueprint import best_response
from solvers.blueprint.blueprint import fixed_blueprint, read_blueprint

POKER = Poker(board=(0, 3), first=(1, 0), raise_sizes=(10, 10), max_raises=(1, 1))


@pytest.mark.slow
def test_blueprint_two_rounds_smoke(tmp_path):
    result = smoke_run("blueprint_two_rounds", tmp_path)
    assert {n.name for n in result.numbers} >= {"CFR:169/percentile:20", "CFR-BR:169/percentile:20"}


@pytest.mark.slow(minutes=3)
def test_blueprint_limit_smoke(tmp_path, monkeypatch):
    """Also when it is interrupted between measurements, and goes on."""
    result = smoke_run("blueprint_limit", tmp_path / "one")
    value, best, from_turn, change, local, *first = result.numbers
    assert 0 <= change.value < from_turn.value
    assert value.low < value.value < value.high
    assert best.value > 0
    assert from_turn.low < best.high
    assert local.low < best.high, "the local best response wins more than the best one"
    assert all(0 <= share.value <= 100 for share in first)
    name = "169-percentile-20-percentile-10"
    blueprint, poker = read_blueprint(tmp_path / "one" / "blueprints" / name)
    assert poker == blueprint_limit.PRESETS["smoke"].game
    assert blueprint.buckets.num_buckets == (169, 20, 10)
    assert (tmp_path / "one" / "grids" / f"dealer-{name}.png").exists()
    lines = (tmp_path / "one" / "curve.csv").read_text().splitlines()
    assert len(lines) == 1 + 3
    respond, calls = best_response.flop_values, []

    def stopping(*given, **named):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return respond(*given, **named)

    words = ["blueprint_limit", "--preset", "smoke", "--out", str(tmp_path / "two")]
    with monkeypatch.context() as patch:
        patch.setattr(best_response, "flop_values", stopping)
        assert cli.main(words) == 130
    assert cli.main([*words, "--resume"]) == 0
    again = results.read_result(tmp_path / "two" / "result.json")
    assert [n.value for n in again.numbers] == [n.value for n in result.numbers]


def test_options_of_blueprint_limit(tmp_path, capsys):
    preset = blueprint_limit.PRESETS["cpu"]
    options = blueprint_limit.Options(out=tmp_path, abstraction="169/all:1", boards=4_000, flops=9)
    config = blueprint_limit.configure(preset, options)
    assert config.abstractions == ("169/all:1",)
    assert config.at == (1_000, 2_000, 4_000)
    assert config.best_responses_at == (4_000,)
    assert config.flops == 9
    for words, message in (
        (("--boards", "3"), "boards=3 must be a multiple of 2"),
        (("--flops", "1000"), "flops=1000 must be from 2 to 920"),
        (("--abstraction", "169/emd:5"), "unknown kind of buckets 'emd'"),
    ):
        assert cli.main(["blueprint_limit", *words, "--out", str(tmp_path / "bad")]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("solver", [blueprint_training.LINEAR_CFR, blueprint_training.CFR_BR])
def test_pieces_of_training_do_not_change_it(solver, monkeypatch):
    """To the bit, with 40 iterations at once or in pieces that end within blocks of 32. The first
    seven have up to 523 groups, later ones up to 535; with another room sums are rounded in another
    way."""
    monkeypatch.setattr(blueprint_training, "_ROOMS", (528, 640))
    game, tables = game_of(ONE_RAISE, (20, 30)), random_tables((20, 30), (0, 3))
    advance = blueprint_training.advancer(
        game, tables, jax.random.key(0), boards_per_iteration=1, solver=solver
    )
    whole = advance(solver.init(game), 40)
    parts = solver.init(game)
    for count in (7, 32, 1):
        parts = advance(parts, count)
    assert int(solver.learned(parts).iteration) == 40
    for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(parts), strict=True):
        np.testing.assert_array_equal(one, other)


def test_cfr_br_has_its_own_words():
    preset = blueprint_limit.PRESETS["cfr_br"]
    (words,) = [text for text in blueprint_limit.deviations(preset) if "opponent responds" in text]
    assert "the paper's responds from the flop on" in words
    two_streets = dataclasses.replace(preset, game=ONE_RAISE)
    for config in (two_streets, blueprint_limit.PRESETS["cpu"]):
        assert not any("opponent responds" in text for text in blueprint_limit.deviations(config))
    estimate, share = real_values.Estimate(1.0, 0.5), FirstActions(1.0, 2.0, 3.0, 4.0)
    point = limit_lines.Point(
        boards=5_000, value=estimate, from_turn=estimate, best=estimate, local=estimate
    )
    line = limit_lines.Line(points=[point], change=estimate, first=share)
    for config, paper in ((preset, 64.8), (blueprint_limit.PRESETS["cpu"], 358.0)):
        numbers = blueprint_limit.numbers(config, {limit_lines.PERCENTILES: line})
        (found,) = [n for n in numbers if n.name.endswith(": exploitability")]
        assert found.paper == paper
    (first, *_), *_ = [
        list(table.columns[0].cells)
        for table in blueprint_limit.tables(preset, {limit_lines.PERCENTILES: line})
    ]
    assert first == "CFR-BR, percentiles 169/1000/500/200"


def test_boards_are_those_of_whole_iterations(tmp_path):
    with pytest.raises(ValueError, match=r"at=\[4, 5\] must be multiples of 2"):
        blueprint_training.train(
            ForgetfulRun(tmp_path),
            ONE_RAISE,
            "169/percentile:20",
            jax.random.key(0),
            at=[4, 5],
            boards_per_iteration=2,
            folder=tmp_path,
            title="",
        )


def test_too_little_memory_is_told_before_buckets_are_made(monkeypatch, tmp_path, capsys):
    def bucket_tables(*_, **__):
        raise AssertionError("buckets are made")

    monkeypatch.setattr(blueprint_training, "bucket_tables", bucket_tables)
    monkeypatch.setattr(blueprint_training, "device_bytes", lambda: 3 * 2**20)
    words = ["blueprint_limit", "--preset", "smoke", "--out", str(tmp_path / "run")]
    assert cli.main(words) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "169/percentile:20/percentile:10: 3,592 information states, which take" in told
    assert "buckets 23, an iteration" in told
    assert "the device has 3: fewer buckets or boards per iteration take less" in told


def test_flops_are_drawn_once_and_as_often_as_they_are_dealt():
    deals = num_deals(3)
    drawn = np.stack([real_values.draw_flops(20, seed=seed) for seed in range(500)])
    assert all(len(set(flops)) == 20 for flops in drawn)
    for number in (4, 12, 24):
        share = deals[deals == number].sum() / deals.sum()
        found = (deals[drawn] == number).mean()
        assert abs(found - share) < 4 * (share * (1 - share) / drawn.size) ** 0.5
    assert len(set(real_values.draw_flops(920, seed=0))) == 920
    np.testing.assert_array_equal(real_values.draw_flops(1_755, seed=0), np.arange(1_755))
    for count in (1, 921):
        with pytest.raises(ValueError, match=f"flops={count} must be from 2 to 920, or 1,755"):
            real_values.draw_flops(count, seed=0)


def test_turns_of_a_flop_are_different_cards():
    flops = np.array([7, 600, 1_234])
    turns = real_values.draw_turns(flops, 5, seed=1)
    for flop, cards in zip(flops, turns, strict=True):
        assert len({*cards, *canonical_boards(3)[3].cards[flop]}) == 8
    np.testing.assert_array_equal(real_values.draw_turns(flops[1:], 5, seed=1), turns[1:])


def test_estimates_have_a_standard_error():
    chips, weights = np.array([1.0, 4.0, 4.0, 1.0, 1.0]), [3, 1, 1, 3, 2]
    found = real_values.estimate(POKER, chips)
    assert found.value == pytest.approx(1000 / 10 * chips.mean())
    assert found.error == pytest.approx(1000 / 10 * chips.std(ddof=1) / 5**0.5)
    assert real_values.estimate(POKER, chips, weights).value == pytest.approx(160)


class ForgetfulRun(Run):
    """Keeps nothing."""

    def __init__(self, folder):
        self.checkpoint, self.mesh = folder, None

    def kept_json(self, path, compute):
        return compute()


@pytest.mark.slow
def test_play_before_the_flop_is_chosen_on_the_other_half(tmp_path, monkeypatch):
    """On all flops it is chosen on all of them, and there is no error."""
    blueprint, _ = blueprint_of(1)
    flops = np.array([3, 1_234, 600])
    respond = lambda: real_values.best_responses(  # noqa: E731
        ForgetfulRun(tmp_path), "name", blueprint, POKER, flops=flops
    )
    values = [best_response.flop_values(blueprint, flops, player=p) for p in range(2)]
    won = np.zeros(3)
    for player, each in enumerate(values):
        for flop, others in ((0, [2]), (1, [2]), (2, [0, 1])):
            expected = each[others].mean(axis=0)
            found = best_response.response_values(blueprint, expected, each[[flop]], player=player)
            won[flop] += found[0] / 2
    found = respond()
    assert found == pytest.approx(real_values.estimate(POKER, won))
    monkeypatch.setattr(real_values, "ALL_FLOPS", 3)
    whole = [
        best_response.best_response_value(blueprint, each, num_deals(3)[flops], player=player)
        for player, each in enumerate(values)
    ]
    assert respond() == pytest.approx((1000 / 10 * np.mean(whole), 0))


def test_what_the_dealer_does_first():
    """With all hands alike, and with aces that are folded."""
    blueprint = fixed_blueprint(POKER, {"call": 1.0, "raise": 3.0})
    assert first_actions(blueprint) == pytest.approx((25, 0, 25, 0))
    (first,), *later = blueprint.policy
    folds = first.at[:, :3, :, 0].set(np.array([1.0, 0.0, 0.0], np.float32)[None, :, None])
    by_class = np.concatenate([first, folds], axis=2)  # two buckets
    aces = (class_numbers() == CLASSES.index("AA")).astype(np.uint16)
    buckets = blueprint.buckets.replace(tables=(aces[None], *blueprint.buckets.tables[1:]))
    found = first_actions(blueprint.replace(policy=((by_class,), *later), buckets=buckets))
    hands, top = 6 / 1_326, 6 / (8 * 6 + 2 * 4)
    expected = (25 * (1 - hands), 100 * hands, 25 * (1 - top), 100 * top)
    assert found == pytest.approx(expected)


@pytest.mark.slow(minutes=2)
def test_the_ten_best_classes_win_most_of_a_random_hand():
    (strength,) = expected_strength(1, 0)
    by_class = [strength[class_numbers() == number].mean() for number in range(169)]
    assert [CLASSES[number] for number in np.argsort(by_class)[::-1][:10]] == list(TOP_TEN)
