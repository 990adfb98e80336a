"""The experiment `sog_london`: what it measures and keeps, with made-up games."""

import dataclasses
import math
import pathlib
import re
import shutil
import types

import chex
import pytest
from flax import nnx

from experiments.harness import results
from experiments.harness.runs import Run
from experiments.harness.win_shares import Share
from experiments.scotland_yard import london_settings, sog_london, sog_pimbot
from experiments.scotland_yard.agent_games import DETECTIVES, MR_X
from experiments.scotland_yard.sog_london import Measured, Outcome, Pace
from experiments.scotland_yard.trained_students import read_student
from jaxgames import make

MEASURED = [
    Measured(step=step, opponent=opponent, role=role, games=4, won=won)
    for won, (step, opponent, role) in enumerate(
        [(0, 10, MR_X), (0, 10, DETECTIVES), (6, 10, MR_X), (6, 10, DETECTIVES)]
    )
]
LOG = [
    {"step": step, "values": 1.0 / (step + 1), "policy": None if step < 20 else 0.5}
    | {"solved": 2.0, "full": float(step == 10)}
    for step in range(0, 60, 10)
]
OUTCOME = Outcome(MEASURED, Pace(seconds=2.0, games=0.25), LOG)


def test_numbers_of_training(tmp_path):
    config = london_settings.PRESETS["smoke"]
    numbers = {number.name: number for number in sog_london.numbers(config, OUTCOME)}
    assert numbers["step 6, detectives:PimBot(10)"].value == 0.75
    assert numbers["self-play"].value == 3600 / 2 * 0.25
    assert numbers["full trees"].value == 1 / (6 * (4 + 2))  # four games and two queries a step
    table, text = sog_london.tables(config, OUTCOME)
    assert [*table.columns[2].cells] == ["1 of 4", "3 of 4"]
    assert "450 games an hour" in text
    sog_london.draw(tmp_path / "curve.png", config, OUTCOME)
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert len([*sog_london.rows(config, OUTCOME)]) == 4


@pytest.mark.parametrize("games_last", [False, True])
def test_an_interrupted_measurement_keeps_the_matches_that_are_done(
    tmp_path, monkeypatch, games_last
):
    """And the network that plays them."""
    config = dataclasses.replace(london_settings.PRESETS["smoke"], measured_at=(6,))
    arguments = types.SimpleNamespace(
        out=tmp_path, resume=True, overwrite=False, preset="smoke", games_last=games_last
    )
    played, allowed = [], 1

    class Trainee:
        state = types.SimpleNamespace(games=0)

        def __init__(self, game, network, *args, **named):
            self.params = nnx.state(network)

        def train(self, step):
            assert step == 6

        def timed_steps(self, number):
            return [1.0]

    def play_games(play, player, opponent, *, role, games):
        if len(played) == allowed:
            raise KeyboardInterrupt
        played.append(role)
        return Share(wins=len(played), games=games.number)

    monkeypatch.setattr(sog_london, "student", Trainee)
    monkeypatch.setattr(sog_london, "play_games", play_games)
    monkeypatch.setattr(sog_london, "read_metrics", lambda path: [])

    def run():
        return sog_london.compute(Run(arguments, config, experiment="", command=""))

    with pytest.raises(KeyboardInterrupt):
        run()
    assert (tmp_path / "networks" / "6.npz").exists()
    allowed = 2
    measured = run().measured
    assert played == [MR_X, DETECTIVES]
    assert [(each.role, each.won) for each in measured] == [(MR_X, 1), (DETECTIVES, 2)]


def test_the_time_of_the_papers_training_is_that_of_its_searches():
    """By the recorded speed of an H200."""
    record = results.ROOT / "experiments/results/benchmark_accelerator/gpu/result.json"
    config = london_settings.PRESETS["paper"]
    speed = results.read_result(record).number("London (32,1), 6x512, 256 at once").value
    assert (config.simulations, config.width, config.depth) == (32, 512, 6)
    per_step, steps = config.episodes + config.solves, config.measured_at[-1]
    assert round(steps * per_step / speed / 86_400) == 146
    assert round(10_000 * per_step / speed / 3_600) == 2
    said = sog_london.COMMAND.preset_docs["paper"]
    assert "months on one H200, by the measured speed of searches alone" in said
    shown = round(25 * 60 * speed / per_step, -3)
    assert f"25 minutes are about {shown:,.0f} of its {steps // 10**6} million steps" in said
    docs = (results.ROOT / "docs/scotland_yard.md").read_text()
    assert f"{speed:,.0f} a second" in docs
    assert f"about {shown:,.0f} steps" in docs
    assert "146 days" in docs


def test_losses_are_means_over_parts_of_training():
    steps, values = sog_london.losses(LOG, "values", points=2)
    assert steps == [10, 40]
    assert values == pytest.approx([(1 + 1 / 11 + 1 / 21) / 3, (1 / 31 + 1 / 41 + 1 / 51) / 3])
    assert sog_london.losses(LOG, "policy") == ([20, 30, 40, 50], [0.5] * 4)


def test_networks_that_were_kept_play_without_the_training(tmp_path, monkeypatch):
    """As where an accelerator has trained, whose checkpoint stays there."""
    config = dataclasses.replace(
        london_settings.PRESETS["smoke"], network="stations", width=4, depth=2
    )
    arguments = types.SimpleNamespace(
        out=tmp_path, resume=True, overwrite=False, preset="smoke", games_last=True
    )

    class Trainee:
        def __init__(self, game, network, *args, **named):
            self.params, self.state = nnx.state(network), types.SimpleNamespace(games=9)

        def train(self, step):
            pass

        def timed_steps(self, number):
            return [1.0]

    class Elsewhere(Trainee):
        def train(self, step):
            raise AssertionError("no training is needed")

    def play_games(play, player, opponent, *, role, games):
        if interrupted:
            raise KeyboardInterrupt
        return Share(wins=1, games=games.number)

    monkeypatch.setattr(sog_london, "play_games", play_games)
    monkeypatch.setattr(sog_london, "read_metrics", lambda path: [])
    monkeypatch.setattr(sog_london, "student", Trainee)
    interrupted = True
    with pytest.raises(KeyboardInterrupt):
        sog_london.compute(Run(arguments, config, experiment="", command=""))
    assert sorted(path.name for path in (tmp_path / "networks").iterdir()) == ["0.npz", "6.npz"]
    interrupted = False
    monkeypatch.setattr(sog_london, "student", Elsewhere)
    outcome = sog_london.compute(Run(arguments, config, experiment="", command=""))
    assert len(outcome.measured) == 4
    assert outcome.pace.games == 9 / 6


def test_training_begins_with_the_network_of_another_run(tmp_path, monkeypatch):
    """And its steps are counted on."""
    trained, stations = results.ROOT / sog_pimbot.Config.agent, london_settings.PRESETS["stations"]
    options = london_settings.Options(out=tmp_path, start=trained, steps=480)
    config = london_settings.configure(stations, options)
    assert (config.start, config.start_steps) == (str(trained), 2_400)
    assert "which has had 2,400 steps of training" in "\n".join(sog_london.deviations(config))
    begun = []

    def student(beliefs, network, *args, **named):
        begun.append(nnx.state(network))
        raise KeyboardInterrupt

    monkeypatch.setattr(sog_london, "student", student)
    arguments = types.SimpleNamespace(
        out=tmp_path, resume=False, overwrite=False, preset="stations", games_last=True
    )
    with pytest.raises(KeyboardInterrupt):
        sog_london.compute(Run(arguments, config, experiment="", command=""))
    chex.assert_trees_all_equal(begun[0], read_student(trained).params(2_400))
    agent = dataclasses.replace(sog_pimbot.PRESETS["cpu"], start_steps=2_400)
    assert sog_pimbot._name(agent, 0, 100, 480) == "SoG(100,1), 2,400 steps"
    with pytest.raises(ValueError, match="does not fit"):
        london_settings.configure(london_settings.PRESETS["cpu"], options)
    with pytest.raises(ValueError, match=r"start: agent=.*none must be the folder of a run"):
        london_settings.configure(stations, dataclasses.replace(options, start=tmp_path / "none"))


def test_a_curriculum_takes_a_network_to_another_map(tmp_path):
    """Parameters of a network of stations fit all maps, with as many detectives and rounds."""
    page = (pathlib.Path(__file__).parents[1] / "docs/scotland_yard.md").read_text()
    (district,) = re.findall(r'--game .\n +"(.*)"', page)
    trained = tmp_path / "district"
    stations = london_settings.PRESETS["stations"]
    shutil.copytree(results.ROOT / sog_pimbot.Config.agent, trained)
    text = (trained / results.RESULT_FILE).read_text()
    assert text.count('"game": "scotland_yard"') == 1
    text = text.replace('"game": "scotland_yard"', f'"game": "{district}"')
    (trained / results.RESULT_FILE).write_text(text)
    options = london_settings.Options(out=tmp_path, game=district)
    config = london_settings.configure(stations, options)
    assert make(config.game) == make(district) == read_student(trained).rules
    config = london_settings.configure(
        stations, london_settings.Options(out=tmp_path, start=trained)
    )
    assert (config.game, config.start_games) == (stations.game, (district,))
    assert f"2,400 steps of training, also in {district}; its" in "\n".join(
        sog_london.deviations(config)
    )
    again = london_settings.configure(stations, dataclasses.replace(options, start=trained))
    assert (again.start_games, again.start_steps) == ((), 2_400)
    same = london_settings.configure(stations, dataclasses.replace(options, game="scotland_yard"))
    assert same == stations
    chex.assert_trees_all_equal(
        nnx.state(london_settings.first_network(london_settings.beliefs_of(config), config)),
        read_student(trained).params(2_400),
    )
    fewer = dataclasses.replace(options, start=trained, game="scotland_yard(detectives=4)")
    with pytest.raises(ValueError, match="does not fit"):
        london_settings.configure(stations, fewer)
    with pytest.raises(ValueError, match=r"game=leduc_poker.* must be a game of Scotland Yard"):
        london_settings.configure(stations, dataclasses.replace(options, game="leduc_poker"))
    uneven = re.sub("mr_x_starts=22", "mr_x_starts=3/22", district)
    with pytest.raises(ValueError, match="must contain all or none of"):
        london_settings.configure(stations, dataclasses.replace(options, game=uneven))


def test_games_of_runs_before_are_told(tmp_path):
    """From a district to London, and on from there."""
    agent = results.ROOT / sog_pimbot.Config.agent
    shutil.copytree(agent, tmp_path / "london")
    path = tmp_path / "london" / results.RESULT_FILE
    known = '"game": "scotland_yard",'
    text = path.read_text()
    assert text.count(known) == 1
    path.write_text(text.replace(known, known + '"start_games": ["a", "b"],'))
    options = london_settings.Options(out=tmp_path, start=tmp_path / "london")
    config = london_settings.configure(london_settings.PRESETS["stations"], options)
    assert config.start_games == ("a", "b")
    measured = sog_pimbot.configure(
        sog_pimbot.PRESETS["cpu"], sog_pimbot.Options(out=tmp_path, agent=tmp_path / "london")
    )
    for text in (sog_london.deviations(config), sog_pimbot.deviations(measured)):
        assert ", also in a and b; its" in "\n".join(text)


def test_options_change_the_preset():
    options = london_settings.Options(out=pathlib.Path("x"), network="stations", steps=100, seed=3)
    config = london_settings.configure(london_settings.PRESETS["gpu"], options)
    assert config.measured_at == (0, 10, 30, 100)
    assert config.learner.decay_steps == 100 * config.updates
    assert (config.network, config.width, config.depth, config.seed) == ("stations", 16, 3, 3)
    ours = config
    paper = dataclasses.replace(options, network="mlp", late_starts=0.0)
    config = london_settings.configure(london_settings.PRESETS["stations"], paper)
    assert (config.network, config.width, config.depth) == ("mlp", 512, 6)
    assert config.late_starts == 0
    plain = london_settings.Options(out=pathlib.Path("x"))
    for preset in london_settings.PRESETS.values():
        assert london_settings.configure(preset, plain) == preset
    with pytest.raises(ValueError, match="steps=-1 must be at least 1"):
        london_settings.configure(preset, dataclasses.replace(plain, steps=-1))
    with pytest.raises(ValueError, match=r"late_starts=1.5 must be from 0 to 1"):
        london_settings.configure(preset, dataclasses.replace(plain, late_starts=1.5))
    late = london_settings.configure(preset, dataclasses.replace(plain, late_starts=0.5))
    assert "50% of the games of training begin at random" in "".join(sog_london.deviations(late))
    said = "\n".join(sog_london.deviations(ours))
    assert "begin at random" not in said
    assert "for each station 3 layers of 16 units that share their weights" in said
    assert "its sizes were chosen, because the paper's fits examples" in said


def test_all_settings_that_differ_are_named():
    said = "\n".join(sog_london.deviations(london_settings.PRESETS["cpu"]))
    for text in (
        "optimizer adam (the paper: sgd)",
        "learning rate 0.001 (the paper: 0.1)",
        "decay rate 0.05 (the paper: 0.5)",
        "the network has 3 layers of 256 units; the paper: 6 layers of 512 units",
        "decay steps 4,800 (the paper: 2,000,000)",
        "batch size 256 (the paper: 1,024)",
        "capacity 50,000 (the paper: 1,000,000)",
        "max uses 60 (the paper: 5)",
        "for decisions of Mr X at 40% and of the detectives at 100%",
    ):
        assert text in said
    paper = "\n".join(sog_london.deviations(london_settings.PRESETS["paper"]))
    assert "the learner: momentum 0.9 of sgd (the paper: not given)\n" in paper
    assert "the network has" not in paper
    assert "the network is ours" not in paper


@pytest.mark.parametrize("name", ["smoke", "cpu", "stations", "curriculum", "gpu"])
def test_the_learning_rate_falls_until_the_end_of_training(name):
    config = london_settings.PRESETS[name]
    assert config.learner.decay_steps == config.measured_at[-1] * config.updates


@pytest.mark.parametrize("preset", sog_london.PRESETS)
def test_devices_that_share_all_sizes_can_train(preset):
    config = sog_london.PRESETS[preset]
    sizes = sog_london.COMMAND.batches(config)
    learner = config.learner
    for share in learner.policy_shares:
        room = round(share * learner.capacity)
        assert room % math.gcd(*sizes.values()) == 0
