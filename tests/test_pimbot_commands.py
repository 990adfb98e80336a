"""Commands with PimBot: the sweep of its settings, its speed, games against a person."""

import dataclasses
import io
import itertools
import re
import shlex
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
import tyro
from experiment_cases import smoke_run

from experiments import benchmarks
from experiments.benchmarks import pimbot as benchmark
from experiments.commands import play_agent
from experiments.harness import results
from experiments.harness.runs import Run
from experiments.harness.win_shares import Share, interval_of_sum, wilson_interval
from experiments.scotland_yard import pimbot_settings, pimbot_strength
from experiments.scotland_yard.pimbot_settings import Cell, Config


@pytest.mark.parametrize(("wins", "games"), [(8, 10), (0, 10), (500, 1000), (3, 3)])
def test_wilson_intervals_are_those_of_scipy(wins, games):
    expected = scipy.stats.binomtest(wins, games).proportion_ci(method="wilson")
    assert wilson_interval(wins, games) == pytest.approx((expected.low, expected.high), abs=1e-6)


def test_wilson_intervals_need_games():
    with pytest.raises(ValueError, match="wins=3 must be from 0 to games=2"):
        wilson_interval(3, 2)


@pytest.mark.parametrize(
    ("first", "second", "low", "high"),  # Newcombe 1998, Table II, method 10
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((6, 7), (2, 7), 0.0582, 0.8062),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((0, 10), (0, 20), -0.1611, 0.2775),
    ],
)
def test_intervals_of_differences_are_those_of_newcombe(first, second, low, high):
    one, other = (Share(wins=wins, games=games) for wins, games in (first, second))
    assert interval_of_sum([(1.0, one), (-1.0, other)]) == pytest.approx((low, high), abs=5e-5)
    assert interval_of_sum([(-1.0, one), (1.0, other)]) == pytest.approx((-high, -low), abs=5e-5)


def test_a_mean_of_two_shares_has_less_error_than_one():
    one = Share(wins=300, games=600)
    assert interval_of_sum([(1.0, one)]) == pytest.approx(one.interval)
    low, high = interval_of_sum([(0.5, one), (0.5, one)])
    assert high - low == pytest.approx((one.interval[1] - one.interval[0]) / 2**0.5)


def sweep(games, wins):
    """A round robin of C in (0.5, 2) and r in (0.1, 0.5); `wins(his, theirs, r)` are Mr X's."""
    config = Config(games=games, batch=games, explorations=(0.5, 2.0), reductions=(0.1, 0.5))
    return config, [
        Cell(
            mr_x_exploration=his,
            exploration=theirs,
            reduction=reduction,
            games=games,
            mr_x_wins=wins(his, theirs, reduction),
        )
        for his, theirs, reduction in itertools.product((0.5, 2.0), (0.5, 2.0), (0.1, 0.5))
    ]


def test_settings_that_cannot_be_told_from_the_strongest():
    """Detectives with r = 0.5 win 52 % and those with r = 0.1 half, Mr X with C = 2 wins more."""

    def wins(games):
        his = {0.5: games * 3 // 10, 2.0: games * 7 // 10}
        return lambda mr_x, _, r: his[mr_x] - (games // 50 if r == 0.5 else 0)

    config, cells = sweep(100, wins(100))
    assert pimbot_settings.strongest(config, cells) == (2.0, 0.5)
    assert pimbot_settings.perhaps_as_strong(config, cells) == [(2.0, 0.1)]
    low, high = pimbot_settings.both_roles_intervals(config, cells)[2.0, 0.5]
    assert low < pimbot_settings.both_roles(config, cells)[2.0, 0.5] < high
    assert 0.02 < high - low < 0.1  # of 400 games as Mr X and 200 as detectives
    config, cells = sweep(10_000, wins(10_000))
    assert pimbot_settings.perhaps_as_strong(config, cells) == []
    numbers = {number.name: number for number in pimbot_settings.numbers(config, cells)}
    assert numbers["both roles:C=2, r=0.5"].low < numbers["both roles:C=2, r=0.5"].high
    assert numbers["perhaps as strong"].value == 0
    published = {number.name: number.paper for number in numbers.values() if number.paper}
    assert published == {"strongest:C": 0.5}
    (said,) = (text for text in pimbot_settings.COMMAND.deviations if "published" in text)
    assert "only their C = 0.5 stands beside" in said


def test_the_strongest_setting_wins_a_round_robin():
    """Detectives win by r alone, Mr X by C alone; the round robin adds both."""
    config, cells = sweep(10, lambda his, _, r: (6 if his == 2.0 else 2) + (2 if r == 0.1 else 0))
    mr_x = pimbot_settings.mr_x_shares(config, cells)
    assert {c: share.value for c, share in mr_x.items()} == {0.5: 0.3, 2.0: 0.7}
    theirs = pimbot_settings.detectives_shares(config, cells)
    assert theirs[0.5, 0.1].value == theirs[2.0, 0.1].value == 0.4
    assert theirs[0.5, 0.5].value == theirs[2.0, 0.5].value == 0.6
    assert pimbot_settings.both_roles(config, cells)[2.0, 0.5] == pytest.approx(0.65)
    assert pimbot_settings.strongest(config, cells) == (2.0, 0.5)
    # over all settings a round robin is won by half
    shares = pimbot_settings.both_roles(config, cells).values()
    assert sum(shares) / len(shares) == pytest.approx(0.5)


def test_every_pair_of_settings_plays_deals_of_its_own(tmp_path, monkeypatch):
    """So that all games are independent, as the intervals take them."""
    config, dealt = pimbot_settings.PRESETS["smoke"], []
    arguments = types.SimpleNamespace(out=tmp_path, resume=False, overwrite=False, preset="smoke")

    def won_by_mr_x(play, agents, keys, *, batch):
        dealt.append(np.asarray(jax.random.key_data(keys)))
        return 0

    monkeypatch.setattr(pimbot_settings, "won_by_mr_x", won_by_mr_x)
    cells = pimbot_settings.compute(Run(arguments, config, experiment="", command=""))
    assert len(dealt) == len(cells) == 8
    assert len(np.unique(np.concatenate(dealt), axis=0)) == 8 * config.games


def test_more_simulations_meet_fewer_in_both_roles(tmp_path, monkeypatch):
    """Each pair once, in deals of its own; wins are those of who has more simulations."""
    preset, dealt, met = pimbot_strength.PRESETS["smoke"], [], []
    config = dataclasses.replace(preset, simulations=(2, 8, 32), games=4, batch=4)
    arguments = types.SimpleNamespace(out=tmp_path, resume=False, overwrite=False, preset="smoke")

    def play(agents, keys, report):
        dealt.append(np.asarray(jax.random.key_data(keys)))
        his, theirs = (agent.settings.simulations for agent in agents)
        met.append((his, theirs))
        won = jnp.full(len(keys), his > theirs)
        return types.SimpleNamespace(legal=jnp.ones(len(keys), bool), mr_x_won=won)

    monkeypatch.setattr(pimbot_strength, "compiled_play", lambda game, mesh: play)
    matches = pimbot_strength.compute(Run(arguments, config, experiment="", command=""))
    assert sorted(met) == [*itertools.permutations((2, 8, 32), 2)]
    assert len(np.unique(np.concatenate(dealt), axis=0)) == 6 * 4
    assert pimbot_strength.both_roles(matches) == {
        pair: Share(wins=8, games=8) for pair in ((8, 2), (32, 2), (32, 8))
    }
    numbers = {number.name: number for number in pimbot_strength.numbers(config, matches)}
    assert len(numbers) == 3 + 6
    assert numbers["PimBot(32):PimBot(8):as detectives"].value == 1
    (table,) = pimbot_strength.tables(config, matches)
    assert [*table.columns[2].cells] == ["8 of 8"] * 3
    pimbot_strength.draw(tmp_path / "curve.png", config, matches)
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_batches_must_divide_games():
    with pytest.raises(ValueError, match="games=10 must be a multiple of batch=4"):
        Config(games=10, batch=4)


@pytest.mark.slow
def test_the_sweep_runs(tmp_path):
    result = smoke_run("pimbot_settings", tmp_path)
    assert result.number("Mr X:C=0.5").value >= 0.5  # of two rounds on London
    assert {number.unit for number in result.numbers} == {
        "share of games won",
        "C",
        "r",
        "settings",
    }


@pytest.mark.slow(minutes=2)
def test_speed_is_measured(tmp_path):
    benchmarks.run("pimbot", tmp_path, preset="smoke")
    result = results.read_result(tmp_path / "result.json")
    for task in benchmark.TASKS:
        speed = result.number(f"PimBot:{task}")
        assert 0 < speed.low <= speed.value <= speed.high


def test_unknown_tasks_are_refused(tmp_path):
    with pytest.raises(ValueError, match="unknown task 'simulations'"):
        benchmarks.run("pimbot", tmp_path / "out", preset="smoke", tasks=("simulations",))
    assert not (tmp_path / "out").exists()


def play(options):
    arguments = tyro.cli(play_agent.Arguments, args=shlex.split(options), use_underscores=True)
    play_agent.main(arguments, command="")


@pytest.mark.slow
def test_a_person_plays_against_pimbot(monkeypatch, capsys):
    """As detectives the person sees of Mr X's moves the tickets alone."""
    monkeypatch.setattr("sys.stdin", io.StringIO("0\n1\n" * 40))
    play("'scotland_yard(map=glasses)' --agent pimbot --seat 1 --simulations 5 --games 1 --seed 1")
    hidden, end = capsys.readouterr().out.split("Mr X has")
    assert "You are the detectives. Mr X never shows himself." in hidden
    assert "Mr X may be at 2 of 11 stations: 5 7\ndetective 1 moves now" in hidden
    assert "detective 2 at 11: taxi 5 (moves now)" in hidden
    assert "Mr X at ?" in hidden
    assert not re.search(r"Mr X at \d", hidden)
    assert re.search(r"PimBot: taxi\n", hidden)
    assert re.search(r"Mr X at \d", end)


@pytest.mark.slow
def test_detectives_may_be_told_probabilities(monkeypatch, capsys):
    """He shows himself after his second move; the first detective's next turn knows that."""
    monkeypatch.setattr("sys.stdin", io.StringIO("0\n1\n" * 40))
    game = "'scotland_yard(map=glasses,reveals=2)'"
    play(f"{game} --agent pimbot --seat 1 --simulations 5 --games 1 --seed 1 --probabilities")
    told = capsys.readouterr().out.split("Mr X has")[0]
    (before, after) = told.split("Mr X shows himself at ")
    first = re.search(r"may be at 2 of 11 stations: 5 7\n.*\nMost probable: (.*)\n", before)[1]
    shares = [int(share) for share in re.findall(r"\((\d+)%\)", first)]
    assert {*re.findall(r"(\d+) \(", first)} == {"5", "7"}
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(100, abs=1)
    shown = re.match(r"\d+", after)[0]
    assert f"Most probable: {shown} (100%)\n" in after


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("kuhn_poker --agent pimbot", "agent pimbot plays scotland_yard, not kuhn_poker"),
        ("scotland_yard --agent pimbot --simulations 0", "simulations=0 must be at least 1"),
        (
            "scotland_yard --agent pimbot --opponent uniform",
            "opponent=uniform is for other trained agents",
        ),
        ("scotland_yard --agent pimbot --probabilities --seat 0", "is for detectives"),
        (
            "scotland_yard --agent experiments/results/sog_london/curriculum",
            "curriculum has no networks in networks: they are large, and not in the repository",
        ),
        (
            "connect_four --agent random --probabilities --seat 0",
            "--probabilities is for scotland_yard",
        ),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        play(options)
