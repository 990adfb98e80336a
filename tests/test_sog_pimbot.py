"""The experiments `sog_london` and `sog_pimbot`: arithmetic with made-up games, and bad input."""

import dataclasses
import io
import pathlib
import types

import chex
import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from experiments import cli
from experiments.harness import kept_file, results
from experiments.harness.runs import Run
from experiments.harness.win_shares import Share
from experiments.scotland_yard import one_game, scotland_yard_picture, sog_london, sog_pimbot
from experiments.scotland_yard.agent_games import DETECTIVES, MR_X
from experiments.scotland_yard.sog_london import Measured, Outcome, Pace
from experiments.scotland_yard.sog_pimbot import Match, Point
from experiments.scotland_yard.trained_students import TrainedStudent, read_student
from jaxgames.core import record
from jaxgames.registry import make
from jaxgames.scotland_yard.beliefs import scotland_yard_beliefs
from nets import cvpn
from solvers.scotland_yard.matches import MatchAgent

GAME = "scotland_yard(map=glasses,rounds=3)"
STEPS = sog_london.PRESETS["cpu"].measured_at


def point(step, simulations, opponent, role, won, games=10):
    return Point(
        step=step, simulations=simulations, opponent=opponent, role=role, games=games, won=won
    )


# Of the last network, after 100 steps, with 400 and 100 simulations, and of an earlier one.
POINTS = [
    point(100, 400, 10, MR_X, 9),
    point(100, 400, 10, DETECTIVES, 7),
    point(100, 400, 50, MR_X, 4),
    point(100, 400, 50, DETECTIVES, 5),
    point(100, 100, 10, MR_X, 6),
    point(100, 100, 10, DETECTIVES, 8),
    point(0, 400, 10, MR_X, 1),
    point(0, 400, 10, DETECTIVES, 2),
]


def test_games_of_both_roles_count_together():
    assert sog_pimbot.both_roles(POINTS) == {
        (100, 400, 10): Share(wins=16, games=20),
        (100, 400, 50): Share(wins=9, games=20),
        (100, 100, 10): Share(wins=14, games=20),
        (0, 400, 10): Share(wins=3, games=20),
    }


def test_batches_of_the_same_games_are_one_point():
    halves = [dataclasses.replace(each, games=5, won=each.won // 2) for each in POINTS]
    others = [dataclasses.replace(each, games=5, won=(each.won + 1) // 2) for each in POINTS]
    assert sog_pimbot.together([*halves, *others]) == POINTS
    assert Match(simulations=4, opponents=(4,), games=24, batch=4).parts == 3


def test_the_papers_numbers_stand_beside_its_own_agent_only():
    """SoG(400,1), trained to the end, against opponents that Figure 5 has."""
    config = sog_pimbot.PRESETS["smoke"]
    numbers = {number.name: number for number in sog_pimbot.numbers(config, POINTS)}
    assert {name: number.paper for name, number in numbers.items() if number.paper} == {
        "SoG(400,1):PimBot(10)": 0.99
    }
    assert numbers["SoG(400,1):PimBot(10)"].value == 0.8
    assert numbers["SoG(400,1):PimBot(10):as Mr X"].value == 0.9
    assert numbers["SoG(400,1), untrained:PimBot(10):as detectives"].value == 0.2
    assert all(0 <= each.low < each.value < each.high <= 1 for each in numbers.values())
    assert len(numbers) == 4 + len(POINTS)


def test_no_published_number_stands_beside_another_game():
    config = dataclasses.replace(sog_pimbot.PRESETS["smoke"], game=GAME)
    assert not any(number.paper for number in sog_pimbot.numbers(config, POINTS))
    assert f"{GAME} is not the paper's game" in sog_pimbot.deviations(config)[-1]
    (table,) = sog_pimbot.tables(config, POINTS)
    assert not any(table.columns[4].cells)
    assert GAME in sog_pimbot.COMMAND.measure(config)


def test_tables_and_plots(tmp_path):
    config = sog_pimbot.PRESETS["smoke"]
    (table,) = sog_pimbot.tables(config, POINTS)
    assert [*table.columns[4].cells] == ["0.99", "", "", ""]
    sog_pimbot.draw(tmp_path / "curve.png", config, POINTS)
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert len([*sog_pimbot.rows(config, POINTS)]) == len(POINTS)


@pytest.mark.parametrize(
    ("steps", "compared"),
    [
        (STEPS, (0, 240, 2_400)),
        (sog_london.PRESETS["paper"].measured_at, (0, 1_700_000, 17_000_000)),
        ((0, 6), (0, 6)),
        ((0, 90, 120, 1_000), (0, 90, 1_000)),
        ((7,), (7,)),
    ],
)
def test_the_first_the_tenth_and_the_last_network_are_compared(steps, compared):
    assert TrainedStudent(pathlib.Path(), {}, steps).compared == compared


def test_a_match_is_of_the_last_network_or_of_the_earlier_ones():
    match = Match(simulations=100, opponents=(10,), games=4, batch=2)
    assert sog_pimbot.steps(match, (0, 4_000, 40_000)) == (40_000,)
    earlier = dataclasses.replace(match, networks="earlier")
    assert sog_pimbot.steps(earlier, (0, 4_000, 40_000)) == (0, 4_000)


@pytest.mark.parametrize("games", [0, 5, 12])
def test_games_of_a_role_are_whole_batches(games):
    with pytest.raises(ValueError, match=rf"games={games} must be twice a multiple of batch=4"):
        Match(simulations=100, opponents=(10,), games=games, batch=4)
    assert Match(simulations=100, opponents=(10,), games=6, batch=4).side_by_side == 3


def test_an_interruption_loses_twenty_minutes_of_the_slowest_games():
    """120 searches of a game at 0.8 a second, with each of the sizes that two devices share."""
    (slow,) = sog_pimbot.PRESETS["cpu_400"].matches
    assert (slow.side_by_side, slow.parts) == (8, 3)
    assert slow.side_by_side * 120 / 0.8 <= 20 * 60
    assert not any(
        match.side_by_side % 2
        for preset in ("cpu", "cpu_training", "cpu_400", "large")
        for match in sog_pimbot.PRESETS[preset].matches
    )


def test_smaller_numbers_than_the_papers_are_named():
    presets = sog_pimbot.PRESETS["cpu_training"], sog_pimbot.PRESETS["cpu_400"]
    said = "\n".join(line for preset in presets for line in sog_pimbot.deviations(preset))
    assert (
        "SoG(400,1) plays 48 games a point against PimBot with 10, 100, 1,000, 10,000 sim" in said
    )
    assert "(the paper: SoG(400,1), 2,000 games, 10 to 10,000,000 simulations)" in said
    assert "untrained and after a tenth of the training" in said
    assert "room for 12 children a node on average" in said


# sog_london

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
    config = sog_london.PRESETS["smoke"]
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
    config = dataclasses.replace(sog_london.PRESETS["smoke"], measured_at=(6,))
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
    config = sog_london.PRESETS["paper"]
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
    config = dataclasses.replace(sog_london.PRESETS["smoke"], network="stations", width=4, depth=2)
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
    trained, stations = results.ROOT / sog_pimbot.Config.agent, sog_london.PRESETS["stations"]
    options = sog_london.Options(out=tmp_path, start=trained, steps=480)
    config = sog_london.configure(stations, options)
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
    with pytest.raises(ValueError, match="is not the run's network"):
        sog_london.configure(sog_london.PRESETS["cpu"], options)
    with pytest.raises(ValueError, match=r"start: agent=.*none must be the folder of a run"):
        sog_london.configure(stations, dataclasses.replace(options, start=tmp_path / "none"))


def test_options_change_the_preset():
    options = sog_london.Options(out=pathlib.Path("x"), network="stations", steps=100, seed=3)
    config = sog_london.configure(sog_london.PRESETS["gpu"], options)
    assert config.measured_at == (0, 10, 30, 100)
    assert config.learner.decay_steps == 100 * config.updates
    assert (config.network, config.width, config.depth, config.seed) == ("stations", 16, 3, 3)
    ours = config
    paper = dataclasses.replace(options, network="mlp", late_starts=0.0)
    config = sog_london.configure(sog_london.PRESETS["stations"], paper)
    assert (config.network, config.width, config.depth) == ("mlp", 512, 6)
    assert config.late_starts == 0
    plain = sog_london.Options(out=pathlib.Path("x"))
    for preset in sog_london.PRESETS.values():
        assert sog_london.configure(preset, plain) == preset
    with pytest.raises(ValueError, match="steps=-1 must be at least 1"):
        sog_london.configure(preset, dataclasses.replace(plain, steps=-1))
    with pytest.raises(ValueError, match=r"late_starts=1.5 must be from 0 to 1"):
        sog_london.configure(preset, dataclasses.replace(plain, late_starts=1.5))
    late = sog_london.configure(preset, dataclasses.replace(plain, late_starts=0.5))
    assert "50% of the games of training begin at random" in "".join(sog_london.deviations(late))
    said = "\n".join(sog_london.deviations(ours))
    assert "begin at random" not in said
    assert "for each station 3 layers of 16 units that share their weights" in said
    assert "its sizes were chosen, because the paper's fits examples" in said


def test_all_settings_that_differ_are_named():
    said = "\n".join(sog_london.deviations(sog_london.PRESETS["cpu"]))
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
    paper = "\n".join(sog_london.deviations(sog_london.PRESETS["paper"]))
    assert "the learner: momentum 0.9 of sgd (the paper: not given)\n" in paper
    assert "the network has" not in paper
    assert "the network is ours" not in paper


# Networks in files


def write_run(folder, widths, *, finished=True):
    """What a run of `sog_london` leaves: networks of these widths by step, the first as said."""
    rules = make(GAME)
    starts = rules.detective_starts[: rules.detectives]
    beliefs = scotland_yard_beliefs(rules, detective_starts=starts)
    (folder / "networks").mkdir(parents=True)
    for step, width in widths.items():
        _, params = nnx.split(cvpn.new_cvpn(beliefs, seed=step, width=width, depth=1))
        (folder / "networks" / f"{step}.npz").write_bytes(cvpn.to_bytes(params))
    width = next(iter(widths.values()))
    config = dataclasses.replace(sog_london.PRESETS["smoke"], game=GAME, width=width, depth=1)
    fields = dataclasses.asdict(config)
    if finished:
        made = dict(experiment="sog_london", preset="smoke", command="none", numbers=())
        results.write_result(
            folder, results.make_result(config=fields, usage=results.Usage(), **made)
        )
    else:
        arguments = types.SimpleNamespace(out=folder, resume=True, overwrite=False, preset="smoke")
        Run(arguments, config, experiment="sog_london", command="")


@pytest.mark.parametrize("step", [0, 1, 10])
@pytest.mark.parametrize("damaged", [False, True])
def test_networks_are_looked_at_before_anything_is_written(tmp_path, capsys, step, damaged):
    """Each of the three that are compared."""
    trained, out = tmp_path / "trained", tmp_path / "out"
    write_run(trained, {5: 8, 0: 8, 1: 8, 10: 8} | ({} if damaged else {step: 16}))
    path = trained / "networks" / f"{step}.npz"
    if damaged:
        path.write_bytes(path.read_bytes()[:300])
    command = ["sog_pimbot", "--preset", "cpu_training", "--agent", str(trained), "--out", str(out)]
    assert cli.main(command) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"{step}.npz is not the run's network: " in said
    assert f"its run has game={GAME}, network=mlp, width=8, depth=1, dtype=bfloat16" in said
    assert ("damaged" if damaged else "must have shape") in said
    assert not out.exists()


def test_networks_that_are_not_compared_are_not_needed(tmp_path):
    write_run(tmp_path, {0: 8, 1: 8, 5: 16, 10: 8})
    options = sog_pimbot.Options(agent=tmp_path, out=tmp_path / "out")
    config = sog_pimbot.configure(sog_pimbot.PRESETS["cpu_training"], options)
    assert (config.agent, config.game) == (str(tmp_path), GAME)
    assert read_student(tmp_path).steps == (0, 1, 5, 10)


def test_networks_of_the_repository_can_be_read():
    student = read_student(pathlib.Path(sog_pimbot.Config.agent))
    assert student.steps == sog_london.PRESETS["stations"].measured_at
    for step in student.steps:
        student.params(step)


def test_a_run_without_its_networks_is_refused(tmp_path, capsys):
    """As the large ones are in the repository."""
    write_run(tmp_path / "trained", {0: 8})
    (tmp_path / "trained" / "networks" / "0.npz").unlink()
    command = ["sog_pimbot", "--agent", str(tmp_path / "trained"), "--out", str(tmp_path / "out")]
    assert cli.main(command) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "has no networks in networks: they are large, and not in the repository; train" in said
    assert not (tmp_path / "out").exists()


def test_a_run_that_is_not_finished_plays_with_its_last_network_so_far(tmp_path):
    write_run(tmp_path, {0: 8, 3: 8, 40: 8}, finished=False)
    assert not (tmp_path / "result.json").exists()
    student = read_student(tmp_path)
    assert student.steps == (0, 3, 40)
    assert student.rules == make(GAME)
    agent = scotland_yard_picture.named_agent(f"{tmp_path}:4", make(GAME))
    assert agent.settings.simulations == 4


def test_a_finished_run_of_another_experiment_is_refused(tmp_path):
    """Though its config has all that is looked for."""
    write_run(tmp_path, {0: 8})
    path = tmp_path / "result.json"
    path.write_text(path.read_text().replace("sog_london", "sog_glasses"))
    with pytest.raises(ValueError, match=r"run of sog_london: result\.json is of another experim"):
        read_student(tmp_path)


def test_illegal_actions_of_agents_are_refused():
    game = make(GAME)
    states = one_game.deal(game, jax.random.key(0))
    with pytest.raises(ValueError, match="Stubborn has played action=-1, which is illegal here"):
        one_game.act(game, Stubborn(), jax.random.key(1), (), states, side=0)


@record
class Stubborn(MatchAgent):
    """Plays no action at all."""

    def act(self, keys, memory, states, *, side):
        return memory, jnp.full(len(keys), -1, jnp.int32)


@pytest.mark.slow
@pytest.mark.parametrize("seat", [0, 1])
def test_a_person_plays_against_a_trained_agent(tmp_path, monkeypatch, capsys, seat):
    write_run(tmp_path, {0: 8, 3: 8}, finished=False)
    monkeypatch.setattr("sys.stdin", io.StringIO("0\n1\n" * 40))
    options = ["--agent", str(tmp_path), "--seat", str(seat), "--games", "1", "--seed", "1"]
    assert cli.main(["play", GAME, *options, "--simulations", "2"]) == 0
    said = capsys.readouterr().out
    assert f"You are {('Mr X', 'the detectives')[seat]}." in said
    assert ("agent: detective 1 " if seat == 0 else "agent: taxi\n") in said
    assert "You win " in said


def test_an_agent_plays_the_game_that_it_was_trained_in(tmp_path, capsys):
    write_run(tmp_path, {0: 8}, finished=False)
    assert cli.main(["play", "scotland_yard", "--agent", str(tmp_path)]) == 2
    assert f"was trained in {GAME}, and cannot play scotland_yard" in flat(capsys.readouterr().err)


def flat(text):
    return " ".join(text.split())


def test_a_resumed_run_plays_on_with_the_networks_that_it_began_with(tmp_path, monkeypatch):
    """Though training has kept another one."""
    write_run(tmp_path / "trained", {0: 8, 3: 8}, finished=False)
    config = dataclasses.replace(sog_pimbot.PRESETS["smoke"], agent=str(tmp_path / "trained"))
    out = tmp_path / "out"
    arguments = types.SimpleNamespace(out=out, resume=True, overwrite=False, preset="smoke")
    stops = [False, True]

    def play_games(*args, games, **named):
        if stops and stops.pop(0):
            raise KeyboardInterrupt
        return Share(wins=1, games=games.number)

    monkeypatch.setattr(sog_pimbot, "play_games", play_games)

    def run():
        return sog_pimbot.compute(Run(arguments, config, experiment="", command=""))

    with pytest.raises(KeyboardInterrupt):
        run()
    networks = tmp_path / "trained" / "networks"
    (networks / "40.npz").write_bytes((networks / "3.npz").read_bytes())
    assert {point.step for point in run()} == {0, 3}
    again = dataclasses.replace(config, seed=1)
    arguments = types.SimpleNamespace(out=out, resume=False, overwrite=True, preset="smoke")
    points = sog_pimbot.compute(Run(arguments, again, experiment="", command=""))
    assert {point.step for point in points} == {0, 3, 40}
    assert sog_pimbot.COMMAND.extras["trained_steps"](again, points) == 40


def test_a_run_is_resumed_with_other_matches(tmp_path, monkeypatch):
    """What was played stays, unless batches have another size; other fields must be the same, and
    those that are new since then as their defaults."""
    write_run(tmp_path / "trained", {0: 8, 3: 8}, finished=False)
    few, played = Match(simulations=4, opponents=(4,), games=4, batch=2), []
    config = sog_pimbot.Config(agent=str(tmp_path / "trained"), matches=(few,))

    def play_games(*args, games, **named):
        played.append(games.title)
        return Share(wins=1, games=games.number)

    monkeypatch.setattr(sog_pimbot, "play_games", play_games)
    arguments = types.SimpleNamespace(
        out=tmp_path / "out", resume=True, overwrite=False, preset="smoke"
    )

    def run(config, **more):
        return sog_pimbot.compute(Run(arguments, config, experiment="", command="", **more))

    assert len(run(config)) == len(played) == 2
    path = tmp_path / "out" / "checkpoint" / "config.json"
    kept = kept_file.read(path)
    del kept["start_steps"]
    kept_file.write(path, kept)
    more = dataclasses.replace(config, matches=(dataclasses.replace(few, opponents=(4, 5)),))
    with pytest.raises(ValueError, match="differs in matches: use another"):
        run(more)
    assert sog_pimbot.COMMAND.extendable == ("matches",)
    assert len(run(more, extendable=("matches",))) == len(played) == 4
    assert run(more) == run(more, extendable=("matches",))
    large = dataclasses.replace(few, games=8, batch=4)
    with pytest.raises(ValueError, match="played with 2 games, not 4: use another --out"):
        run(dataclasses.replace(config, matches=(large,)), extendable=("matches",))
    with pytest.raises(ValueError, match="differs in start_steps: use another"):
        run(dataclasses.replace(more, start_steps=1), extendable=("matches",))


def test_folders_without_a_run_or_without_networks_yet_are_refused(tmp_path):
    write_run(tmp_path / "begun", {0: 8}, finished=False)
    (tmp_path / "begun" / "networks" / "0.npz").unlink()
    kept_file.write(tmp_path / "other" / "checkpoint" / "config.json", {"game": GAME, "width": 8})
    damaged = tmp_path / "damaged" / "checkpoint" / "config.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{")
    for name, reason in {
        "begun": "has no networks in networks: its run is not finished, and keeps the first before",
        "other": "must be the folder of a run of sog_london: its run is of another experiment",
        "damaged": "must be the folder of a run of sog_london: .* is damaged: its checksum differs",
        "none": "must be the folder of a run of sog_london: .*none has neither result.json nor a",
    }.items():
        with pytest.raises(ValueError, match=f"agent={tmp_path / name} {reason}") as refused:
            read_student(tmp_path / name)
        assert "\n" not in str(refused.value)
