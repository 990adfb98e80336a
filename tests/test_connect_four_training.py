"""The experiments that learn Connect Four, at their smallest."""

import argparse
import csv
import dataclasses
import itertools
import math
import pathlib

import jax
import numpy as np
import pytest
from experiment_cases import smoke_run
from flax import nnx

from experiments.harness.runs import Run
from experiments.perfect_information import (
    alphazero_connect_four,
    connect_four_training,
    move_quality,
    sog_connect_four,
)
from experiments.perfect_information.connect_four_positions import read_positions
from experiments.perfect_information.connect_four_training import Cell
from experiments.perfect_information.student import ALONE
from experiments.student_of_games.training_run import Trainee
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from nets import cvpn
from solvers.perfect_information.positions import legal_actions
from solvers.search.search_state import GrowingTreeCfr
from train.paper_settings import paper_settings


def test_chosen_moves_are_those_of_each_position():
    game, positions = pgx_beliefs("connect_four"), read_positions().every(40)
    states = move_quality.states_of(game, positions)
    legal = jax.jit(jax.vmap(lambda state: legal_actions(game, state)))

    def lowest(numbers, states):
        assert len(numbers) == 8
        return np.argmax(legal(states), axis=1)

    moves = move_quality.chosen_moves(lowest, states, len(positions.moves), batch=8)
    np.testing.assert_array_equal(moves, np.argmax(~np.isnan(positions.scores), axis=1))


FIRST = {(0, ALONE): (3, 3), (0, 800): (0, 6), (10, ALONE): (2, 3), (10, 800): (3, 3)}
CONFIG = dataclasses.replace(
    connect_four_training.SMOKE, measured_at=(0, 10), simulations=(ALONE, 800), seeds=2
)


def made_up_cells():
    """Of two seeds; a step takes 3 seconds with the first, and 6 with the second."""
    for seed, (step, simulations) in itertools.product(range(2), FIRST):
        share = 0.5 + 0.04 * step + (simulations == 800) * 0.05 + 0.02 * seed
        yield Cell(
            seed=seed,
            step=step,
            simulations=simulations,
            seconds=3.0 * step * (1 + seed),
            evaluations=100 * step,
            games=4 * step,
            positions=60,
            keeps=share,
            decides=share - 0.1,
            best=share - 0.2,
            first=FIRST[step, simulations][seed],
        )


@pytest.mark.parametrize(
    ("module", "agent", "target", "row"),
    [
        (alphazero_connect_four, "AlphaZero(800)", "opens in the centre", ["1", "1"]),
        (sog_connect_four, "SoG(800,10)", "keeps the result", ["0.96", "0.97"]),
    ],
)
def test_numbers_of_cells(module, agent, target, row):
    cells = [*made_up_cells()]
    found = {number.name: number for number in module.COMMAND.numbers(CONFIG, cells)}
    assert len(found) == 4 * 4 + 1
    for (step, simulations), first in FIRST.items():
        name = f"{'' if step else 'untrained '}{agent if simulations else 'network alone'}"
        opens = found[f"{name}: opens in the centre"]
        assert (opens.value, opens.unit, opens.seeds) == (first.count(3) / 2, "share of seeds", 2)
        keeps = found[f"{name}: keeps the result"]
        low = 0.5 + 0.04 * step + (simulations == 800) * 0.05
        assert (keeps.low, keeps.high) == pytest.approx((low, low + 0.02))
        assert keeps.value == pytest.approx(low + 0.01)
    pace = found["games/h"]  # 4 games in 3 or 6 seconds
    assert (pace.value, pace.low, pace.high) == pytest.approx((3600, 2400, 4800))

    steps, table = module.COMMAND.tables(CONFIG, cells)
    assert [*steps.columns[1].cells] == ["0", "45"]  # 30 seconds of one seed, 60 of the other
    columns = [[*column.cells] for column in table.columns]
    assert columns[0] == [f"{agent}: {target}"]
    assert [columns[1][0], columns[2][0]] == row
    recorded = module.COMMAND.extras["targets"](CONFIG, cells)
    assert recorded == {f"{agent}: {target}": float(row[1])}


def test_one_network_has_no_range():
    one = dataclasses.replace(CONFIG, seeds=1)
    cells = [cell for cell in made_up_cells() if cell.seed == 0]
    command = sog_connect_four.COMMAND
    assert {number.low for number in command.numbers(one, cells)} == {None}
    assert "; of one network;" in command.measure(one)
    assert "; mean of 2 networks;" in command.measure(CONFIG)


def small_search():
    graph, _ = nnx.split(cvpn.new_cvpn(pgx_beliefs("tic_tac_toe"), seed=0, width=4, depth=1))
    return GrowingTreeCfr(cvpn.CvpnEvaluator(graph), simulations=32, max_path=1, expand=1)


@pytest.mark.parametrize("preset", ["smoke", "cpu", "gpu", "paper"])
def test_values_are_learned_from_queries_or_from_outcomes(preset):
    """As in chess and as in Go (Schmid et al. 2023, Table S2), by as many searches."""
    trained = {}
    for values in ("queries", "outcomes"):
        options = sog_connect_four.Options(out=pathlib.Path(), values=values)
        config = sog_connect_four.configure(sog_connect_four.PRESETS[preset], options)
        settings = sog_connect_four.settings_for(config, small_search())
        each = sog_connect_four.evaluations(config)
        examples = settings.episodes + round(settings.queries_per_search) * settings.solves
        uses = settings.updates * settings.learner.batch_size / examples
        trained[values] = settings, config.measured_at[-1] * each, uses
        assert settings.learner.decay_steps == config.measured_at[-1] * config.updates
        assert settings.learner.l2 == alphazero_connect_four.PRESETS[preset].l2 == 1e-4
    (queries, cost, uses), (outcomes, other, others) = trained.values()
    assert (queries.queries_per_search, queries.queries_per_solve) == (1.0, 0.2)
    assert (outcomes.queries_per_search, outcomes.queries_per_solve) == (0.0, 0.0)
    assert queries.self_play.outcome_targets == 0
    assert outcomes.self_play == dataclasses.replace(queries.self_play, outcome_targets=0.2)
    assert cost == other
    assert preset == "smoke" or uses == others


@pytest.mark.parametrize("preset", ["smoke", "cpu", "gpu", "paper"])
def test_as_many_devices_learn_from_outcomes_as_from_queries(preset):
    """Devices are chosen by the sizes of the preset, which learns from queries."""
    config = sog_connect_four.PRESETS[preset]
    options = sog_connect_four.Options(out=pathlib.Path(), values="outcomes")
    own, other = (
        sog_connect_four.COMMAND.batches(each)
        for each in (config, sog_connect_four.configure(config, options))
    )
    assert own.keys() == other.keys()
    devices = math.gcd(*own.values())
    assert devices >= {"smoke": 4, "cpu": 32, "gpu": 32, "paper": 128}[preset]
    assert not any(size % devices for size in other.values())


@pytest.mark.parametrize(
    ("values", "column", "learner"),
    [
        ("queries", "chess", ["adam (the paper: sgd)", "value weight 1 (the paper: 0.25)"]),
        ("outcomes", "go", ["max uses 20 (the paper: 0.2)", "value weight 1 (the paper: 0.5)"]),
    ],
)
def test_what_is_not_the_papers_is_said(values, column, learner):
    """All of Student of Games' settings of training beside those of Table S2."""
    options = sog_connect_four.Options(out=pathlib.Path(), values=values)
    config = sog_connect_four.configure(sog_connect_four.PRESETS["paper"], options)
    own, other, *more = sog_connect_four.deviations(config)
    lost = [
        text for text in more if text.startswith("1,228.8 queries are asked in a step and 1,02")
    ]
    assert len(lost) == (values == "queries")  # 1,024 of self-play, and a fifth of as many solved
    assert own == (
        f"Connect Four with the settings of {column} in Table S2, but: greedy moves after 10 moves"
        " (the paper: 30), no resignation (the paper: below -0.9)"
    )
    assert all(words in other for words in learner)
    # What else of the settings is not the paper's: games of Connect Four are shorter than the most
    # moves, and of games that nobody resigns no share is kept from it.
    search = small_search()
    settings = sog_connect_four.settings_for(config, search)
    sizes = {name: getattr(settings, name) for name in ("episodes", "solves", "updates", "learner")}
    paper = paper_settings(column, search, **sizes)
    said = dict(greedy_after=10, resign_below=None, max_moves=None)
    assert settings.search.evaluate.temperature == 1.5
    assert settings == dataclasses.replace(
        paper, self_play=dataclasses.replace(paper.self_play, **said)
    )


@pytest.mark.parametrize("preset", ["cpu", "gpu", "paper"])
def test_alphazero_is_measured_where_it_has_cost_as_much_as_student_of_games(preset):
    config, other = (
        module.PRESETS[preset] for module in (alphazero_connect_four, sog_connect_four)
    )
    each = alphazero_connect_four.evaluations(config)
    cost = other.measured_at[-1] * sog_connect_four.evaluations(other)
    assert min(abs(step * each - cost) for step in config.measured_at) <= each / 2
    assert config.measured_at[-1] * each > cost


@pytest.mark.slow
def test_games_under_way_go_on_after_an_interruption(tmp_path):
    """A run that stops after a step and goes on from its checkpoint is the same to the bit."""
    game = pgx_beliefs("tic_tac_toe")
    config = dataclasses.replace(
        alphazero_connect_four.PRESETS["smoke"], measured_at=(0, 4), torso="mlp", moves=5
    )

    def student(folder):
        arguments = argparse.Namespace(out=folder, preset="", resume=True, overwrite=False)
        run = Run(arguments, config, experiment="alphazero_connect_four", command="")
        return alphazero_connect_four.new_student(game, run, 0)

    whole, part = (student(tmp_path / name) for name in ("whole", "part"))
    whole.trainee.train(4)
    part.trainee.train(2)
    assert part.trainee.state.self_play.games.num_moves.any()
    resumed = student(tmp_path / "part")
    resumed.trainee.train(4)
    expected, found = (jax.tree.leaves(each.trainee.state) for each in (whole, resumed))
    for own, other in zip(expected, found, strict=True):
        if jax.dtypes.issubdtype(own.dtype, jax.dtypes.prng_key):
            own, other = jax.random.key_data(own), jax.random.key_data(other)
        np.testing.assert_array_equal(own, other)
    # of 20 moves in each of 4 games, which have 5 to 9
    assert whole.games == resumed.games
    assert 4 * 2 <= whole.games <= 4 * 4
    assert whole.trainee.state.replay.size <= 4 * 20


class SlowTrainee(Trainee):
    """Stands for a network in training: a step takes 100 seconds at first, and 2 in the end."""

    params = None

    def __init__(self, made, *, stops_at=None):
        self._made, self._stops_at = made, stops_at  # made: the steps, which outlast it

    def train(self, step):
        if step == self._stops_at:
            raise KeyboardInterrupt
        self._made.append(step)

    def timed_steps(self, number):
        return [2.0 if self._made[-1:] == [10] else 100.0] * number


def test_seconds_are_by_the_pace_at_the_end(tmp_path, monkeypatch):
    """Also after an interruption, and the pace of a network that had been trained is kept."""
    monkeypatch.setattr(connect_four_training, "write_network", lambda *_: None)
    monkeypatch.setattr(connect_four_training, "_chooses", lambda *_: None)
    monkeypatch.setattr(
        move_quality, "chosen_moves", lambda _, __, number, batch: np.zeros(number, int)
    )
    config = dataclasses.replace(CONFIG, every=120, simulations=(ALONE,))
    arguments = argparse.Namespace(out=tmp_path, preset="", resume=True, overwrite=False)
    made = [[], []]

    def cells(*, stops_at=None):
        def student(game, run, seed):
            trainee = SlowTrainee(made[seed], stops_at=stops_at if seed else None)
            return argparse.Namespace(trainee=trainee, games=0)

        run = Run(arguments, config, experiment="alphazero_connect_four", command="")
        return connect_four_training.compute(student, lambda _: 100, run)

    with pytest.raises(KeyboardInterrupt):
        cells(stops_at=10)
    found = cells()
    assert [(cell.seed, cell.step) for cell in found] == [(0, 0), (0, 10), (1, 0), (1, 10)]
    assert [cell.seconds for cell in found] == [0.0, 20.0] * 2
    assert [cell.evaluations for cell in found] == [0, 1_000] * 2
    monkeypatch.setattr(SlowTrainee, "timed_steps", lambda *_: [50.0])
    assert cells() == found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "agent", "allowed", "options"),
    [
        # 48 moves in each of 4 games, which have 7 to 42
        ("alphazero", "AlphaZero(4)", range(4 * (48 // 42), 4 * (48 // 7) + 1), []),
        ("sog", "SoG(4,1)", range(1), []),
        ("sog", "SoG(4,1)", range(1), ["--values", "outcomes"]),
    ],
)
def test_learning_connect_four(tmp_path, name, agent, allowed, options):
    result = smoke_run(f"{name}_connect_four", tmp_path, *options)
    with (tmp_path / "curve.csv").open(newline="") as file:
        curve = [*csv.DictReader(file)]
    last = "4" if options else "2"
    assert [row["step"] for row in curve] == ["0", "0", last, last]
    positions = read_positions().every(connect_four_training.SMOKE.every)
    measures = {"keeps the result": "keeps", "keeps it where that matters": "decides"}
    expected = {}
    for row in curve:
        player = "network alone" if row["simulations"] == "0" else agent
        player = player if row["step"] == last else f"untrained {player}"
        for what, column in (measures | {"best move": "best"}).items():
            expected[f"{player}: {what}"] = float(row[column])
        assert (float(row["best"]) * len(positions.moves)) % 1 == pytest.approx(0, abs=1e-6)
        assert float(row["best"]) <= float(row["keeps"])  # best moves keep the result
        undecided = 1 - positions.matters.mean()
        assert float(row["keeps"]) == pytest.approx(
            undecided + (1 - undecided) * float(row["decides"])
        )
        expected[f"{player}: opens in the centre"] = float(row["first"] == "3")
    games = int(curve[-1]["games"])
    assert [int(row["games"]) for row in curve] == [0, 0, games, games]
    assert games in allowed
    if name == "alphazero":  # a search evaluates its root and in each simulation
        assert int(curve[-1]["evaluations"]) == 4 * 48 * (1 + 4)
    expected["games/h"] = games / float(curve[-1]["seconds"]) * 3600
    assert {number.name: number.value for number in result.numbers} == pytest.approx(expected)
    networks = {step: tmp_path / "networks" / f"0-{step}.npz" for step in ("0", last)}
    kept = {step: path.read_bytes() for step, path in networks.items()}
    assert kept["0"] != kept[last] or options  # no game has ended, of which outcomes would be known
    assert (tmp_path / "networks" / "0.npz").read_bytes() == kept[last]
