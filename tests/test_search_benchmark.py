"""The benchmark of searches: its counts are right, and unequal answers are refused."""

import csv
import dataclasses
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from xla_flags import QUICK_COMPILATION

from experiments import benchmarks
from experiments.benchmarks import (
    growing_tree_search,
    mctx_search,
    network_time,
    search,
    search_report,
    tree_growth,
)
from experiments.benchmarks.measurements import seconds_per_turn
from experiments.benchmarks.processes import measure_in_process
from experiments.benchmarks.reports import Row
from experiments.benchmarks.search_tasks import TASKS, before_mate, build
from experiments.harness import results
from jaxgames.core import TERMINAL
from solvers.search import expansion_phase, growing_tree_cfr, regret_phase

TASK = "Kuhn (8,1), 1x8"
CHILDREN = "tic-tac-toe (40,1), 1x8"
FLAGS = {"XLA_FLAGS": QUICK_COMPILATION, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run of one task."""
    out = tmp_path_factory.mktemp("benchmark")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in FLAGS.items():  # compile sooner
            patch.setenv(name, value)
        tiny = {"tasks": (TASK,), "split": (), "growth": (), "responses": ()}
        benchmarks.run("search", out, preset="smoke", command="the command", **tiny)
    return out


@pytest.mark.slow
def test_result_follows_the_schema(folder):
    result = results.read_result(folder / "result.json")
    assert (result.experiment, result.preset) == ("benchmark_search", "smoke")
    assert result.command == "the command"
    speed = result.number(f"ours:{TASK}")
    assert 0 < speed.low <= speed.value <= speed.high
    assert all(number.name.count(":") == 1 for number in result.numbers)
    assert len({number.name for number in result.numbers}) == len(result.numbers)
    parts = [result.number(f"{name}:{TASK}").value for name in search_report._PARTS]
    assert sum(parts) == pytest.approx(1)
    ratio = result.number(f"floor, searches/s:{TASK}").value / speed.value
    assert result.number(f"floor / ours:{TASK}").value == pytest.approx(ratio)
    for part in ("iteration", "simulation"):
        assert result.number(f"sequential steps per {part}:{TASK}").value >= 1


@pytest.mark.slow
def test_details_and_figure(folder):
    with (folder / "benchmark.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["task"], row["program"], row["samples"]) == (TASK, "ours", "2")
    assert float(row["calls"]) <= float(row["computed_calls"])
    assert int(row["iterate_steps"]) >= 1
    assert "sequential steps per iteration" in (folder / "table.md").read_text()
    assert (folder / "benchmark.png").read_bytes().startswith(b"\x89PNG")
    assert TASK in (folder / "table.md").read_text()


@pytest.mark.slow
def test_children_of_a_root_are_counted_as_many_as_are_valued_together():
    """All nine of tic-tac-toe, five at a time; a tree has room for no more than are legal."""
    setting = build(TASKS[CHILDREN])
    problems = jax.tree.map(lambda x: jnp.broadcast_to(x, (2, *jnp.shape(x))), setting.problem)
    start = jax.jit(functools.partial(growing_tree_cfr.start, settings=setting.settings))
    begun = growing_tree_cfr.finish(start(setting.game, setting.params, problems=problems))
    counted = growing_tree_search.network_calls(setting, begun)
    assert counted["calls"] == 1 + 9
    assert counted["computed_calls"] == 1 + setting.settings.simulations + 10


@pytest.mark.slow
def test_leaves_are_counted_in_every_iteration():
    """Against a search that is made one iteration at a time."""
    setting = build(TASKS[TASK])
    game, settings = setting.game, setting.settings
    problems = jax.tree.map(lambda x: jnp.broadcast_to(x, (2, *jnp.shape(x))), setting.problem)
    args = {"settings": settings}
    start = jax.jit(functools.partial(growing_tree_cfr.start, game, setting.params, **args))
    step = jax.jit(functools.partial(regret_phase.iterate, game, setting.params, **args))
    grow = jax.jit(functools.partial(expansion_phase.simulate, game, setting.params, **args))
    finish = jax.jit(growing_tree_cfr.finish)
    state, expected = start(problems=problems), []
    keys = jax.random.split(jax.random.key(0), 2)
    noise = growing_tree_cfr.noise_of_walks(keys, state, settings)
    for number in range(settings.simulations):
        tree = jax.tree.map(np.asarray, finish(state).tree)
        below = np.asarray(game.successors)[tree.state]
        ends = np.asarray(game.actors)[np.maximum(below, 0)] == TERMINAL
        expected.append((tree.exists & (tree.node < 0) & ~ends).sum())
        state = grow(noise[:, number], step(state))
    asked, computed = growing_tree_search.leaves_by_iteration(setting, 2)
    np.testing.assert_array_equal(asked, expected)
    assert (computed >= asked).all()
    counted = growing_tree_search.network_calls(setting, finish(state))
    priors = settings.simulations + 1
    assert counted["calls"] == pytest.approx(np.sum(expected) / 2 + priors)
    assert counted["simulations"] == settings.simulations
    inputs = network_time.layers(setting.params["torso"])[0][0]
    rows, actions = np.array(game.num_rows), np.array(game.num_actions)
    torso, value, prior = inputs * 8, 8 * rows.sum(), 8 * (actions * rows).sum()
    by_hand = 2 * (np.sum(expected) / 2 * (torso + value) + priors * (torso + prior))
    assert counted["operations"] == pytest.approx(by_hand)


@pytest.mark.slow
def test_steps_are_pages_of_nodes_and_terminals_chunks_and_blocks():
    """In an iteration: nodes twice, terminals, leaves and the decisions of both players once."""
    setting = build(TASKS[TASK])
    game, params, settings = setting.game, setting.params, setting.settings
    begin = growing_tree_search._initial_searches(
        game, params, setting.problem, batch=8, settings=settings
    )
    one, some, first = map(jnp.int32, (1, 5, 0))
    parts = functools.partial(growing_tree_search._parts, game, params, settings=settings)
    state = parts(begin, one, first, one, some)
    layout, forest = state.layout, state.forest
    steps = growing_tree_search.sequential_steps(setting, state)
    nodes, ends = (
        np.ceil(np.asarray(pages.count) / layout.page).sum()
        for pages in (forest.pages, forest.terminals)
    )
    chunks = np.ceil(int(forest.num_leaves) / layout.chunk)
    blocks = sum(np.ceil(int(own.count) / layout.page) for own in forest.decisions)
    assert ends > 1
    assert steps["iterate_steps"] == 2 * nodes + ends + chunks + blocks
    assert 1 < steps["simulate_steps"] <= layout.levels  # of the longest walk


def test_matrix_rate_is_measured():
    linear = [network_time.Layer(8, 16), network_time.Layer(16, 8)]
    convolution = network_time.Layer(4, 8, kernel=(3, 3), board=(2, 3))
    for found in (linear, [convolution]):
        assert 1e6 < network_time.matrix_rate(found, rows=4, seconds=0.01) < 1e15


def test_operations_of_convolutions_are_those_of_their_matrix_products():
    """A convolution of 3 by 3 is a product with nine times the inputs at each place of a board."""
    task = dataclasses.replace(TASKS["tic-tac-toe (40,1), 1x8"], torso="convolutional")
    setting = build(task)
    found = network_time.layers(setting.params, setting.game.board)
    places, planes, width, narrow = 9, 2 + 3, 8, 4  # planes: the board's, the turn and two ranges
    rows = [9 * planes] + [9 * width] * 2  # of matrices, in the first convolution and in a block
    convolutions = places * (sum(rows) * width + width * narrow)
    linear = places * narrow * width + width * (2 + 2 * 9)  # after the board, and the heads
    assert network_time.operations(found) == 2 * (convolutions + linear)
    assert growing_tree_search.head_operations(setting)[0] == 2 * (
        convolutions + places * narrow * width + width * 2
    )
    with pytest.raises(ValueError, match="board=None must be given"):
        network_time.layers(setting.params)


def test_a_turn_is_timed_without_the_fixed_cost():
    def run(count):
        time.sleep(0.02 + 0.005 * int(count))
        return count

    spent = seconds_per_turn(run, seconds=0.08)
    assert 0.004 < spent < 0.01  # sleep may take longer on a busy machine


@pytest.mark.parametrize(
    ("task", "run", "message"),
    [
        (TASK, {"answer": [0.5, 0.51]}, "policies of other are off by 0.01"),
        (TASK, {"simulations": 7.0}, "simulations of other is 7.0, must be 8"),
        (CHILDREN, {"move": 4}, "move of other is 4, must be 2"),
    ],
)
def test_unequal_work_and_answers_are_refused(task, run, message):
    ours = Row(task=task, program=search_report.OURS, runs=[{"answer": [0.5, 0.5]}])
    equal = {"answer": [0.5, 0.5], "simulations": TASKS[task].simulations, "move": TASKS[task].mate}
    other = Row(task=task, program="other", runs=[equal])
    search.check_equal(other, [ours, other])
    capped = dataclasses.replace(ours, runs=[{"failure": "capped: 1,800 s"}])
    search.check_equal(other, [capped, other])
    wrong = Row(task=task, program="other", runs=[equal | run])
    with pytest.raises(ValueError, match=message):
        search.check_equal(wrong, [ours, wrong])


@pytest.mark.slow
def test_the_error_of_a_process_is_one_line_of_the_report():
    job = {"task": TASK, "devices": 3, "pieces": False}
    run = measure_in_process("experiments.benchmarks.growing_tree_search", job, time_limit=300.0)
    assert run["failure"].endswith("ValueError: batch=2 must be a multiple of the 3 devices")


def test_the_fastest_of_both_programs_are_compared():
    def row(task, program, *rates):
        return Row(task=task, program=program, runs=[{"samples": [{"rate": x} for x in rates]}])

    ours, rival = search_report.OURS, search_report.RIVAL
    rows = [
        row(CHILDREN, ours, 5.0, 6.0, 7.0),
        row(CHILDREN, f"{ours}, 2 devices", 8.0),
        row(CHILDREN, rival, 12.0),
        row(CHILDREN, f"{rival}, 2 devices", 3.0, 20.0),
        row(CHILDREN, f"{rival}, 3 devices"),  # capped
        row(TASK, ours, 1.0),
    ]
    ((best, other),) = search_report.best_by_task(rows, ours)
    assert (best, other) == (rows[1], rows[2])
    number = search_report._best_ratio(ours, best, other)
    assert number.name == f"fastest by fastest, {rival} / {ours}, 2 devices:{CHILDREN}"
    assert number.value == 1.5


def test_all_tasks_whose_batch_devices_share_are_measured_on_them():
    config = search.PRESETS["cpu"]
    search.BENCHMARK.check(config)
    alone = set(config.tasks) - set(config.split)
    assert alone == {name for name in config.tasks if TASKS[name].batch % config.devices}
    assert "London (400,1), 6x512" in alone


def test_a_capacity_that_changes_policies_is_refused():
    tree_growth.check_equal("a_game", 16, [0.5], [0.5])
    with pytest.raises(ValueError, match="a_game, 16 nodes: twice the capacity"):
        tree_growth.check_equal("a_game", 16, [0.5], [0.501])


def test_linear_growth_has_exponent_1():
    assert search_report.exponent(
        [[16, 9.0, 9.0], [64, 2.0, 2.0], [128, 4.0, 4.0]]
    ) == pytest.approx(1)
    assert search_report.exponent([[16, 1.0, 1.0]]) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preset": "paper"}, "unknown preset 'paper'"),
        ({"tasks": ("Kuhn",)}, "unknown task 'Kuhn'"),
        ({"responses": ("Kuhn",)}, "unknown response 'Kuhn'"),
        ({"preset": "smoke", "devices": 3}, "devices=3 must divide batch=2 of Kuhn"),
        ({"preset": "smoke", "devices": 0}, "devices=0 must be at least 1"),
    ],
)
def test_unknown_names_are_refused(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        benchmarks.run("search", tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.mate is not None])
def test_one_move_wins_before_mate(name):
    task = TASKS[name]
    game = before_mate(task, build(task).game)
    pays = []
    for move in np.flatnonzero(game.child_mask(game.root())):
        after = game.child(game.root(), jnp.int32(move))
        if game.actor(after) == TERMINAL:
            pays.append((int(move), float(game.terminal_values(after, 0, jnp.ones(1))[0])))
    assert pays == [(task.mate, 1.0)]
    assert int(game.actor(game.root())) == 0


@pytest.mark.slow
def test_all_programs_agree(tmp_path):
    """Also AlphaZero's search where mctx is installed, two devices, and growing trees."""
    benchmarks.run("search", tmp_path, preset="smoke")
    with (tmp_path / "benchmark.csv").open() as file:
        measured = [(row["task"], row["program"]) for row in csv.DictReader(file)]
    programs = [search_report.OURS, search_report.ALPHAZERO]
    programs += [search_report.RIVAL] * mctx_search.is_installed()
    both = [name for program in programs for name in (program, f"{program}, 2 devices")]
    assert measured == [(TASK, name) for name in both[:2]] + [(CHILDREN, name) for name in both]
    result = results.read_result(tmp_path / "result.json")
    if mctx_search.is_installed():
        best = [number for number in result.numbers if number.name.startswith("fastest by fastest")]
        assert [number.name.partition(":")[2] for number in best] == [CHILDREN] * 2
        assert "fastest of the rival" in (tmp_path / "table.md").read_text()
    assert result.number("32 nodes:leduc_poker, twice the capacity").value > 0
    for name in ("ISMCTS-BR", "ISMCTS-BR, games"):
        assert result.number(f"{name}:Kuhn (8), zero").value > 0
