"""What the main programs are on a GPU and on a TPU: lowered for them here, and counted.

No accelerator is needed to lower a program for one. What would be slow there shows in its text: a
new loop, whose steps follow one another; operations that grow with a batch or a tree; calls of code
that only one kind of device has.
"""

import collections
import functools
import re
from unittest import mock

import jax
import jax.numpy as jnp
import pytest
from flax import nnx
from jax import export

from experiments.subgame_solving.holdem_spots import SPOTS
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.beliefs import belief_table
from jaxgames.registry import make
from nets import cvpn
from solvers import cfr
from solvers.holdem.subgame_tree import holdem_tree
from solvers.sampling import uct
from solvers.sampling.decision_tree import build_decision_tree
from solvers.search import continual_resolving, growing_tree_cfr
from solvers.search.search_state import GrowingTreeCfr
from solvers.sequence_form import build_sequence_form
from train import student_of_games_training
from train.learner import LearnerSettings

# What each program has: loops and branches exactly, operations within SLACK of these numbers. A
# change that is meant to change them writes the new row, which the failing test prints. A loop more
# is a row of steps that follow one another on an accelerator, and a branch more may wait there for
# the host: the commit says why it is worth them.
EXPECTED = {
    "CFR+ in Leduc": {"loops": 1, "branches": 0, "operations": 1519},
    "search in Leduc": {"loops": 9, "branches": 0, "operations": 8596},
    "search in tic-tac-toe": {"loops": 5, "branches": 0, "operations": 6524},
    "training step in Kuhn": {"loops": 12, "branches": 0, "operations": 17346},
    "river of hold'em": {"loops": 1, "branches": 0, "operations": 1537},
    "UCT in Leduc": {"loops": 2, "branches": 0, "operations": 598},
}
SLACK = 0.2
PLATFORMS = ("cuda", pytest.param("tpu", marks=pytest.mark.slow))

_OPERATION = re.compile(r'^ *(?:%\S+ = )?"?(?:stablehlo|chlo)\.(\w+)', re.MULTILINE)
_FUNCTION = re.compile(r"^ *func\.func .*?@([\w.]+)\(", re.MULTILINE)
_CALL = re.compile(r"^ *(?:%\S+ = )?(?:func\.)?call @([\w.]+)\(", re.MULTILINE)
_NO_WORK = ("constant", "return")


def cfr_in_leduc(size):
    """Side by side, with ranges of their own."""
    form = build_sequence_form(make("leduc_poker"))
    return _solves(cfr.cfr_plus()), (form, _ranges(form, 3 * size))


def river(size):
    """Side by side, with ranges of their own."""
    spot = SPOTS["river"]
    form = holdem_tree(spot.cards, spot.ranges, spot.betting).sequence_form
    return _solves(cfr.dcfr(gamma=3.0)), (form, _ranges(form, 3 * size))


def _solves(solver):
    def solve(form, ranges):
        state = cfr.init(form, root_reach=ranges)
        state = cfr.run(form, state, solver=solver, num_iterations=100)
        return cfr.average_policy(form, state)

    return jax.vmap(solve, in_axes=(None, 0))


def _ranges(form, batch):
    return tuple(jnp.ones((batch, player.num_roots), form.dtype) for player in form.treeplexes)


def search_in_leduc(size):
    """Side by side; with the size their trees grow, too."""
    table, graph, params = _game_and_network("leduc_poker")
    settings = GrowingTreeCfr(cvpn.CvpnEvaluator(graph), simulations=20 * size, max_path=1)
    problem = continual_resolving.first_problem(table, max_path=1)

    def search(table, params, keys):
        run = functools.partial(growing_tree_cfr.search, problem=problem, settings=settings)
        return jax.vmap(run, in_axes=(None, None, 0))(table, params, keys)

    return search, (table, params, _keys(3 * size))


def search_in_tic_tac_toe(size):
    """Side by side, on trees whose children are made lazily; with the size they grow, too."""
    game = pgx_beliefs("tic_tac_toe")
    graph, params = nnx.split(cvpn.new_cvpn(game, seed=0, width=16, depth=1))
    evaluate = cvpn.CvpnEvaluator(graph)
    settings = GrowingTreeCfr(evaluate, simulations=20 * size, max_path=1, expand=1)
    problem = continual_resolving.first_problem(game, max_path=1)

    def search(game, params, keys):
        run = functools.partial(growing_tree_cfr.search, problem=problem, settings=settings)
        return jax.vmap(run, in_axes=(None, None, 0))(game, params, keys)

    return search, (game, params, _keys(3 * size))


def training_step_in_kuhn(size):
    """With the size grow episodes, queries and examples."""
    table, graph, params = _game_and_network("kuhn_poker")
    settings = student_of_games_training.StudentOfGamesSettings(
        search=GrowingTreeCfr(cvpn.CvpnEvaluator(graph), simulations=7, max_path=2),
        learner=LearnerSettings(batch_size=9 * size, capacity=50 * size),
        episodes=6 * size,
        solves=4 * size,
        updates=2,
        queue_capacity=11 * size,
    )
    begin = functools.partial(student_of_games_training.init, settings=settings)
    state = jax.eval_shape(begin, table, params, jax.random.key(0))

    def step(table, state):
        return student_of_games_training.train_step(table, graph, state, settings=settings)

    return step, (table, state)


def _game_and_network(name):
    table = belief_table(make(name))
    return table, *nnx.split(cvpn.new_cvpn(table, seed=0, width=16, depth=1))


def uct_in_leduc(size):
    """Learners side by side."""
    tree = build_decision_tree(make("leduc_poker"))

    def learn(tree, key):
        settings = uct.smooth_uct(2.0)
        return uct.run(tree, uct.init(tree), key, settings=settings, num_episodes=100)

    return jax.vmap(learn, in_axes=(None, 0)), (tree, _keys(3 * size))


def _keys(count):
    return jax.random.split(jax.random.key(0), count)


PROGRAMS = {
    "CFR+ in Leduc": cfr_in_leduc,
    "search in Leduc": search_in_leduc,
    "search in tic-tac-toe": search_in_tic_tac_toe,
    "training step in Kuhn": training_step_in_kuhn,
    "river of hold'em": river,
    "UCT in Leduc": uct_in_leduc,
}
LONG = {"search in tic-tac-toe", "training step in Kuhn"}
NAMES = [pytest.param(name, marks=[pytest.mark.slow] * (name in LONG)) for name in PROGRAMS]


def as_on_accelerator():
    """A context in which programs are traced with the layouts for accelerators."""
    return mock.patch.object(jax, "default_backend", return_value="gpu")


@functools.cache
def program(name, size):
    """The jitted function and its arguments, with the layouts for accelerators."""
    with as_on_accelerator():
        function, arguments = PROGRAMS[name](size)
        function = jax.jit(function)
        function.trace(*arguments)  # is kept, and every platform lowers it
    return function, arguments


@functools.cache
def operations(name, platform, size=1):
    """How often each operation stands in the program, with functions written out in their callers:
    which of them are shared differs between versions of JAX."""
    function, arguments = program(name, size)
    with as_on_accelerator():  # JAX may have dropped the trace, and then traces again
        text = export.export(function, platforms=[platform])(*arguments).mlir_module()
    _, *parts = _FUNCTION.split(text)
    functions = dict(zip(parts[::2], parts[1::2], strict=True))

    @functools.cache
    def written_out(function):
        found = collections.Counter(_OPERATION.findall(functions[function]))
        for called in _CALL.findall(functions[function]):
            found += written_out(called)
        return found

    return written_out("main")


def counted(name, platform, size=1):
    """The numbers of `EXPECTED`."""
    found = operations(name, platform, size)
    work = sum(count for operation, count in found.items() if operation not in _NO_WORK)
    branches = found["case"] + found["if"]
    return {"loops": found["while"], "branches": branches, "operations": work}


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("name", NAMES)
def test_programs_are_as_long_as_expected(name, platform):
    found, expected = counted(name, platform), EXPECTED[name]
    renew = f"for {platform}; if that is meant, EXPECTED has a new row: {name!r}: {found},"
    for kind in ("loops", "branches"):
        message = f"{name} should have {expected[kind]} {kind}, and has {found[kind]} {renew}"
        assert found[kind] == expected[kind], message
    least, most = (round(expected["operations"] * share) for share in (1 - SLACK, 1 + SLACK))
    message = f"{name} should have {least} to {most} operations, and has {found['operations']}"
    assert least <= found["operations"] <= most, f"{message} {renew}"


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("name", NAMES)
def test_no_code_of_one_platform_is_called(name, platform):
    called = operations(name, platform)["custom_call"]
    assert called == 0, f"{name} for {platform} calls {called} functions that others may lack"


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_operation_is_for_one_solve_or_node(name):
    """At twice the size the program is as long: operations treat all of a batch, or of a tree."""
    once, twice = (counted(name, "cuda", size) for size in (1, 2))
    assert twice == once, f"{name}, first as it is and then at twice the size"
