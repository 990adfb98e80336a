"""The experiment `sog_pimbot`: arithmetic with made-up games, and bad input."""

import contextlib
import dataclasses
import io
import pathlib
import types

import jax
import jax.numpy as jnp
import pytest
from flax import nnx

from experiments import cli
from experiments.harness import kept_file, plots, results
from experiments.harness.runs import Run
from experiments.harness.win_shares import Share
from experiments.scotland_yard import (
    london_settings,
    one_game,
    scotland_yard_picture,
    sog_pimbot,
)
from experiments.scotland_yard.agent_games import DETECTIVES, MR_X
from experiments.scotland_yard.figure_5_settings import Match
from experiments.scotland_yard.sog_pimbot import Point
from experiments.scotland_yard.trained_students import TrainedStudent, read_student
from jaxgames.core import record
from jaxgames.registry import make
from jaxgames.scotland_yard.beliefs import scotland_yard_beliefs
from nets import cvpn, parameters
from solvers.scotland_yard.matches import MatchAgent

GAME = "scotland_yard(map=glasses,rounds=3)"
STEPS = london_settings.PRESETS["cpu"].measured_at


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


def test_an_agent_with_a_threshold_is_named_so():
    config = dataclasses.replace(sog_pimbot.PRESETS["smoke"], threshold=0.15)
    names = {number.name for number in sog_pimbot.numbers(config, POINTS)}
    assert "SoG(400,1) from 15% on:PimBot(10)" in names
    assert "less than 15%; where all are rarer" in "\n".join(sog_pimbot.deviations(config))


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


def test_against_one_opponent_the_plot_is_by_own_simulations(tmp_path, monkeypatch):
    drawn, original = [], plots.figure

    @contextlib.contextmanager
    def figure(path, **shape):
        with original(path, **shape) as axes:
            yield axes
            drawn.append(axes[0, 0])

    monkeypatch.setattr(plots, "figure", figure)
    config = sog_pimbot.PRESETS["cpu_simulations"]
    ladder = [
        point(100, 10 * won, 100, role, won) for won in (8, 1, 4) for role in (MR_X, DETECTIVES)
    ]
    one_point, two_networks = ladder[:2], [*ladder, point(0, 10, 100, MR_X, 3)]
    for points in (ladder, POINTS, one_point, two_networks):
        sog_pimbot.draw(tmp_path / "curve.png", config, points)
    mine, *others = drawn
    assert mine.get_xlabel() == "simulations of Student of Games"
    line, paper = mine.get_lines()[0], mine.get_lines()[-1]
    assert [*line.get_xdata()] == [10, 40, 80]
    assert [*line.get_ydata()] == [0.1, 0.4, 0.8]
    assert ([*paper.get_xdata()], [*paper.get_ydata()]) == ([400], [0.972])
    assert {other.get_xlabel() for other in others} == {"PimBot's simulations"}


@pytest.mark.parametrize(
    ("steps", "compared"),
    [
        (STEPS, (0, 240, 2_400)),
        (london_settings.PRESETS["paper"].measured_at, (0, 1_700_000, 17_000_000)),
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


MATCHES = [
    match
    for name, preset in sog_pimbot.PRESETS.items()
    for match in preset.matches
    if name.startswith("cpu")
]


def test_the_slowest_games_are_kept_eight_by_eight():
    assert {match.side_by_side for match in MATCHES if match.simulations == 400} == {8}


def test_a_number_that_was_chosen_while_games_were_played_is_said():
    said = "lowered when 8 of the first run had been played"
    assert [
        name
        for name, preset in sog_pimbot.PRESETS.items()
        if said in "\n".join(sog_pimbot.deviations(preset))
    ] == ["cpu_simulations"]


def test_two_devices_share_the_games():
    assert not any(match.side_by_side % 2 for match in MATCHES)


def test_smaller_numbers_than_the_papers_are_named():
    presets = sog_pimbot.PRESETS["cpu_training"], sog_pimbot.PRESETS["cpu_400"]
    said = "\n".join(line for preset in presets for line in sog_pimbot.deviations(preset))
    assert "SoG(400,1) plays 16 games a point against PimBot with 10, 1,000, 10,000 sim" in said
    assert "(the paper: SoG(400,1), 2,000 games, 10 to 10,000,000 simulations)" in said
    assert "untrained and after a tenth of the training" in said
    assert "room for 12 children a node on average" in said


# Networks in files


def write_run(folder, widths, *, finished=True):
    """What a run of `sog_london` leaves: networks of these widths by step, the first as said."""
    rules = make(GAME)
    starts = rules.detective_starts[: rules.detectives]
    beliefs = scotland_yard_beliefs(rules, detective_starts=starts)
    (folder / "networks").mkdir(parents=True)
    for step, width in widths.items():
        _, params = nnx.split(cvpn.new_cvpn(beliefs, seed=step, width=width, depth=1))
        (folder / "networks" / f"{step}.npz").write_bytes(parameters.to_bytes(params))
    width = next(iter(widths.values()))
    config = dataclasses.replace(london_settings.PRESETS["smoke"], game=GAME, width=width, depth=1)
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
    assert f"{step}.npz does not fit: " in said
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
    assert student.steps == london_settings.PRESETS["stations"].measured_at
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


def test_the_agent_plays_with_the_threshold(tmp_path, monkeypatch):
    write_run(tmp_path / "trained", {0: 8, 3: 8}, finished=False)
    few, found = Match(simulations=4, opponents=(4,), games=4, batch=2), set()
    config = sog_pimbot.Config(agent=str(tmp_path / "trained"), matches=(few,), threshold=0.15)

    def play_games(play, player, *args, games, **named):
        found.add(player.threshold)
        return Share(wins=1, games=games.number)

    monkeypatch.setattr(sog_pimbot, "play_games", play_games)
    arguments = types.SimpleNamespace(
        out=tmp_path / "out", resume=False, overwrite=False, preset="smoke"
    )
    sog_pimbot.compute(Run(arguments, config, experiment="", command=""))
    assert found == {0.15}
    assert {preset.threshold for preset in sog_pimbot.PRESETS.values()} == {0.0, 0.15}
