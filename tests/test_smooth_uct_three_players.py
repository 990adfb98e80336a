"""The experiment `smooth_uct_three_players`."""

import dataclasses

import numpy as np
import pytest
from test_blueprint import random_tables

from experiments import cli
from experiments.blueprints import smooth_uct_three_players as experiment
from experiments.harness import results
from jaxgames.holdem import limit_holdem
from jaxgames.registry import make


@pytest.mark.slow
def test_a_run(tmp_path, monkeypatch):
    """With random buckets, few of them, and few hands."""
    monkeypatch.setattr(
        experiment, "bucket_tables", lambda *_, **__: random_tables((169, 20), (0, 3))
    )
    smoke = dataclasses.replace(experiment.PRESETS["smoke"], hands=300)
    monkeypatch.setitem(experiment.PRESETS, "smoke", smoke)
    words = ["smooth_uct_three_players", "--preset", "smoke", "--out", str(tmp_path / "run")]
    assert cli.main(words) == 0
    assert (tmp_path / "run" / "curve.png").read_bytes().startswith(b"\x89PNG")
    result = results.read_result(tmp_path / "run" / "result.json")
    value = {number.name: number.value for number in result.numbers}
    for kind in ("average", "greedy"):
        assert value[f"UCT against two uniform, {kind}"] > 0
        number = result.number(f"Smooth UCT against two UCT, {kind}")
        assert number.low < number.value < number.high
        assert number.paper is None
    assert 3 < value["decisions of UCT"] < 15
    assert 0 < value["states that UCT has visited"] <= 1


def test_games_and_published_numbers():
    paper = experiment.PRESETS["paper"]
    assert make(paper.game) == limit_holdem(players=3)
    names = [
        f"{one} against two {other}, greedy"
        for one, other in (("Smooth UCT", "UCT"), ("UCT", "Smooth UCT"))
    ]
    assert [experiment._published(paper)[name] for name in names] == [7.5, -8.2]
    assert np.prod(make(experiment.TWO_ROUNDS).max_raises) == 4
