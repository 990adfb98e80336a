"""The experiment `smooth_uct_leduc_readings`."""

import dataclasses

import numpy as np
import pytest
from sampling_cases import compiled, random_table

from experiments import cli
from experiments.harness import results
from experiments.tabular import smooth_uct_leduc
from experiments.tabular import smooth_uct_leduc_readings as readings
from experiments.tabular.learning_curves import learn
from experiments.tabular.smooth_uct_leduc import points
from jaxgames.game_tree import states_at
from jaxgames.registry import make
from solvers import evaluation
from solvers.sampling.decision_tree import split_by_player
from solvers.sampling.uct import Reading


@pytest.mark.slow
def test_a_run_of_some_readings(tmp_path):
    words = ["smooth_uct_leduc_readings", "--preset", "smoke", "--out", str(tmp_path)]
    assert cli.main(words) == 0
    result = results.read_result(tmp_path / "result.json")
    config = readings.PRESETS["smoke"]
    for name in config.variants:
        assert 0 < result.number(f"2,000 episodes:{name}").value < 8
    assert "with the results in sight" in " ".join(result.deviations)
    rows = (tmp_path / "curve.csv").read_text().splitlines()
    assert len(rows) == 1 + len(config.variants) * 2 * len(points(config.methods)) + 2 * len(
        points(config.longer)
    )
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_every_variant_is_in_one_panel_and_changes_one_thing():
    panels = [name for panel in readings.PANELS.values() for name in panel]
    assert len({*panels, *readings.METHODS}) == len(panels) + len(readings.METHODS)
    settings = smooth_uct_leduc.settings(readings.PRESETS["cpu"].methods)
    for panel in readings.PANELS.values():
        for variant in panel.values():
            assert dataclasses.replace(settings[variant.of], **variant.change) is not None
            reads_its_own_average = variant.change.get("reading") == Reading(average="ucb")
            changed = (
                len(variant.change)
                + (variant.read_out is not readings.uct.average_policy)
                + (not variant.suits)
                - reads_its_own_average
            )
            assert changed == 1


@pytest.mark.slow
def test_a_variant_with_the_methods_own_settings_is_the_method(tmp_path, monkeypatch):
    config = readings.PRESETS["smoke"]
    same = {
        "c": readings.Variant(of=readings.SMOOTH, change={"exploration": 18.0}),
        "reading": readings.Variant(of=readings.SMOOTH, change={"reading": Reading()}),
        "epsilon": readings.Variant(of=readings.PARALLEL, change={"exploration": 0.5}),
    }
    monkeypatch.setattr(readings, "VARIANTS", readings.VARIANTS | same)
    names = (readings.SMOOTH, readings.PARALLEL, *same)
    learners = readings.methods(config.methods, names)
    curves = learn(tmp_path, learners, at=(500,))
    for name, variant in same.items():
        np.testing.assert_array_equal(curves[name], curves[variant.of])
    assert (curves[readings.SMOOTH] != curves[readings.PARALLEL]).any()


@pytest.mark.slow
def test_policies_that_do_not_see_suits_are_as_exploitable_in_leduc():
    """They are lifted to the game with suits, information state by information state."""
    whole, public, _ = compiled("leduc_poker")
    game = make("leduc_poker")
    unseen = readings.without_suits(game)
    merged, merged_public, merged_tree = compiled(str(unseen))

    def known(game, tree, player, suits):
        """By information state: ranks of the cards, and the actions."""
        rows = tree.representative(player)[: tree.num_decisions[player]]
        return [
            (int(s.private[player]) // suits, int(s.public) // suits, s.history.tobytes())
            for s in states_at(game, tree, rows)
        ]

    policy = split_by_player(merged_tree, random_table(merged_tree, seed=1))
    lifted = []
    for player, rows in enumerate(policy):
        number = {key: n for n, key in enumerate(known(unseen, merged, player, 1))}
        lifted.append(rows[np.array([number[k] for k in known(game, whole, player, 2)])])
    expected = float(evaluation.nash_conv(merged_public, policy))
    assert float(evaluation.nash_conv(public, tuple(lifted))) == pytest.approx(expected, rel=1e-5)
    assert expected > 1


def test_only_leduc_has_suits():
    with pytest.raises(ValueError, match=r"game=kuhn_poker.* must be leduc_poker"):
        readings.without_suits(make("kuhn_poker"))


AT = (10, 100, 1000)


def falling(level, power):
    return level * np.array(AT, float) ** -power


def test_times_as_fast_by_hand():
    """If NashConv falls with 1 / sqrt, half of it is a quarter of the episodes."""
    base, half = falling(8.0, 0.5), falling(4.0, 0.5)
    assert readings.times_as_fast(AT, half, base) == pytest.approx(4)
    assert readings.times_as_fast(AT, base, half) == pytest.approx(1 / 4)
    assert readings.times_as_fast(AT, base, base) == pytest.approx(1)
    assert readings.times_as_fast(AT, falling(0.1, 0.5), base) is None  # never as bad
    # the last time that it comes below counts
    back = np.array([0.01, 5.0, 0.01])
    assert readings.times_as_fast(AT, back, np.array([9.0, 9.0, 1.0])) < 10
