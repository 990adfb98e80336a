"""The experiment `smooth_uct_three_players`."""

import dataclasses
from unittest import mock

import jax
import numpy as np
import pytest
from blueprint_cases import random_tables
from jax.sharding import Mesh

from experiments import cli
from experiments.blueprints import self_play, self_play_report
from experiments.blueprints import smooth_uct_three_players as experiment
from experiments.harness import results
from jaxgames.holdem import limit_holdem
from jaxgames.holdem.betting_graph import graph_of_rules
from jaxgames.holdem.card_abstraction import CardAbstraction
from jaxgames.registry import make
from solvers.blueprint.betting_walk import walk_of_graph
from solvers.sampling.uct import uct


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
    folders = sorted(path.name for path in (tmp_path / "run" / "blueprints").iterdir())
    assert folders == ["Smooth-UCT-average", "Smooth-UCT-greedy", "UCT-average", "UCT-greedy"]
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


def test_matches_are_drawn_in_the_panels_of_their_opponents(tmp_path, monkeypatch):
    """Of one player against another, or against two."""
    drawn = []
    monkeypatch.setattr(
        self_play_report,
        "_draw_lines",
        lambda panel, matches, names, *_: drawn.append(sorted(names)),
    )
    names = [
        f"UCT against {others}, {kind}"
        for others in ("two Smooth UCT", "Smooth UCT", "two uniform", "uniform", "two always call")
        for kind in self_play.READ_OUTS
    ]
    found = [
        self_play.Measurement(episodes=9, name=name, unit="mb/h", value=1.0, error=0.1)
        for name in names
    ]
    self_play_report.draw(tmp_path / "curve.png", found, {})
    for kind, lines in zip(self_play.READ_OUTS, (drawn[:3], drawn[3:]), strict=True):
        others, by_caller, by_uniform = lines
        ways = ("Smooth UCT", "two Smooth UCT")
        assert others == [f"UCT against {way}, {kind}" for way in ways]
        assert by_caller == [f"UCT against two always call, {kind}"]
        assert by_uniform == [f"UCT against {way}, {kind}" for way in ("two uniform", "uniform")]


def test_memory_is_that_of_all_tables(monkeypatch):
    """Three words for each of three actions in 215,050,250 states. On a CPU a checkpoint is read
    beside two tables. An accelerator has both when they are measured, and a policy, one word."""
    config, said = experiment.PRESETS["paper"], []
    poker, abstraction = make(config.game), CardAbstraction.parse(config.abstraction)
    walk = walk_of_graph(graph_of_rules(poker), abstraction.num_buckets)
    assert walk.table_bytes == 3 * walk.policy_bytes == 3 * 3 * 4 * 215_050_251
    methods = {name: self_play.Learning(walk, uct(1.0)) for name in config.methods}
    monkeypatch.setattr(self_play, "say", said.append)
    monkeypatch.setattr(self_play, "device_bytes", lambda: 31 * 10**9)
    self_play.check_memory(config, methods, None)
    assert said[0].endswith(
        "tables of 2 methods, 7,383 MiB each, and what is made of them take 29,533 MiB"
    )
    monkeypatch.setattr(self_play, "device_bytes", lambda: 30 * 10**9)
    message = "take 29,533 MiB, more than the memory of 28,610 MiB: fewer buckets make them smaller"
    with pytest.raises(ValueError, match=message):
        self_play.check_memory(config, methods, None)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    two = mock.Mock(spec=Mesh, local_devices=["first", "second"])
    for devices in (None, two):
        monkeypatch.setattr(self_play, "device_bytes", lambda: 18_100_000_000)
        self_play.check_memory(config, methods, devices)
        monkeypatch.setattr(self_play, "device_bytes", lambda: 18_000_000_000)
        with pytest.raises(ValueError, match="take 17,227 MiB, more than the memory of 17,166 MiB"):
            self_play.check_memory(config, methods, devices)


def test_games_and_published_numbers():
    paper = experiment.PRESETS["paper"]
    assert make(paper.game) == limit_holdem(players=3)
    names = [
        f"{one} against two {other}, greedy"
        for one, other in (("Smooth UCT", "UCT"), ("UCT", "Smooth UCT"))
    ]
    assert [experiment._published(paper)[name] for name in names] == [7.5, -8.2]
    assert np.prod(make(experiment.TWO_ROUNDS).max_raises) == 4
