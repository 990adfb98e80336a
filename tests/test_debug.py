"""Debug mode: wrong values are told by the name of the argument, and the mode costs nothing."""

import dataclasses
import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import solvers
from jaxgames import debug
from jaxgames.beliefs import belief_table, list_public_states
from jaxgames.core import CHANCE
from jaxgames.registry import make
from nets.cvpn import CvpnEvaluator, new_cvpn
from solvers import cfr, evaluation, fictitious_play
from solvers.evaluation import belief_exploitability
from solvers.search import continual_resolving, growing_tree_cfr, leaf_evaluators, search_agent
from solvers.search.search_state import GrowingTreeCfr
from solvers.sequence_form import build_sequence_form
from train import student_of_games_training
from train.learner import LearnerSettings

KUHN = build_sequence_form(make("kuhn_poker"))
TABLE = belief_table(make("kuhn_poker"))
SETTINGS = GrowingTreeCfr(leaf_evaluators.zero, simulations=3, max_path=2)


def uniform():
    return cfr.average_policy(KUHN, cfr.init(KUHN))


def wrong(change):
    """The uniform policy with something wrong in player 1's information state 2."""
    policy = [np.array(rows) for rows in uniform()]
    policy[1][2] = change
    return tuple(map(jnp.asarray, policy))


EVALUATIONS = (
    evaluation.expected_value,
    evaluation.best_response,
    evaluation.best_response_value,
    evaluation.counterfactual_values,
    evaluation.exploitability,
    evaluation.nash_conv,
    evaluation.root_best_response_values,
    evaluation.root_values,
)


@pytest.mark.parametrize("function", EVALUATIONS, ids=lambda f: f.__name__)
def test_wrong_policies_are_told_by_every_evaluation(function):
    with debug.checks():
        function(KUHN, uniform())
        with pytest.raises(ValueError, match=rf"{function.__name__}: sum of policy\[1\] over act"):
            function(KUHN, wrong([0.5, 0.7]))


def test_nobody_looks_outside_of_debug_mode():
    evaluation.nash_conv(KUHN, wrong([0.5, 0.7]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ([0.5, 0.7], r"sum of policy\[1\] over actions\[2\] is 1.2\d*; allowed: 1"),
        ([1.5, -0.5], r"policy\[1\]\[2, 1\] is -0.5; allowed: finite numbers, at least 0"),
        ([np.nan, 1], r"policy\[1\]\[2, 0\] is nan; allowed: finite numbers, at least 0"),
    ],
)
def test_the_message_names_the_argument_the_value_and_what_is_allowed(change, message):
    with debug.checks(), pytest.raises(ValueError, match=message):
        evaluation.nash_conv(KUHN, wrong(change))


def test_probability_of_an_illegal_action_is_told():
    leduc = build_sequence_form(make("leduc_poker(ranks=2)"))
    policy = [np.array(rows) for rows in cfr.average_policy(leduc, cfr.init(leduc))]
    state, action = np.argwhere(policy[0] == 0)[0]
    policy[0][state, action] = 0.25
    with debug.checks(), pytest.raises(ValueError, match="as the action is illegal there") as error:
        evaluation.expected_value(leduc, tuple(map(jnp.asarray, policy)))
    assert f"policy[0][{state}, {action}] is 0.25" in str(error.value)


def test_wrong_ranges_are_told():
    ranges = (jnp.array([1.0]), jnp.array([-1.0]))
    message = r"root_reach\[1\]\[0\] is -1.0; allowed: finite numbers, at least 0"
    for function in (
        lambda: cfr.init(KUHN, root_reach=ranges),
        lambda: fictitious_play.init(KUHN, root_reach=ranges),
        lambda: evaluation.nash_conv(KUHN, uniform(), ranges),
    ):
        with debug.checks(), pytest.raises(ValueError, match=message):
            function()


def test_wrong_starts_are_told():
    with debug.checks():
        with pytest.raises(ValueError, match=r"init: sum of policy\[1\]"):
            cfr.init(KUHN, policy=wrong([0.5, 0.7]))
        with pytest.raises(ValueError, match=r"init: policy_weight is -1.0"):
            cfr.init(KUHN, policy=uniform(), policy_weight=-1.0)


def test_states_whose_reaches_do_not_match_the_tree_are_told():
    state, solver = cfr.init(KUHN), cfr.dcfr()
    reach = (state.reach[0], state.reach[1].at[3].add(0.5))
    with debug.checks():
        cfr.run(KUHN, state, solver=solver, num_iterations=2)
        with pytest.raises(ValueError, match=r"run: state.reach\[1\]\[3\] is .* allowed: what the"):
            cfr.run(KUHN, state.replace(reach=reach), solver=solver, num_iterations=2)
        broken = jax.tree.map(lambda x: x * jnp.nan, state.minimizers)
        with pytest.raises(ValueError, match=r"average_policy: state.minimizers.* is nan"):
            cfr.average_policy(KUHN, state.replace(minimizers=broken))


@pytest.mark.parametrize("storage", ["full", "int16"])
def test_right_states_pass(storage):
    with debug.checks():
        state = cfr.init(KUHN, policy=uniform(), storage=storage)
        state = cfr.run(KUHN, state, solver=cfr.cfr_plus(), num_iterations=20)
        policy = cfr.average_policy(KUHN, state)
        assert evaluation.nash_conv(KUHN, policy) < 0.2


def problem(**changes):
    return continual_resolving.first_problem(TABLE, max_path=2).replace(**changes)


@jax.jit  # compiled once for all problems; nobody reads the search, so only its checks are compiled
@functools.partial(jax.vmap, in_axes=(None, 0))
def searched(problem, key):
    growing_tree_cfr.search(TABLE, None, key, problem=problem, settings=SETTINGS)
    return problem.resolver


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(reach=(jnp.full(3, -1.0), jnp.ones(3))), r"problem.reach\[0\]\[0\] is -1.0"),
        (
            dict(reach=(jnp.ones(3), jnp.zeros(3))),
            r"problem.reach\[1\] sums to 0.0 over the rows of",
        ),
        (dict(path=jnp.array([7, -1])), r"problem.path\[0\] is 7; allowed: public children that"),
        (
            dict(opt_out=(jnp.zeros(3), jnp.array([0.0, jnp.inf, 0.0]))),
            r"problem.opt_out\[1\]\[1\] is inf; allowed: finite",
        ),
    ],
)
def test_problems_that_the_game_does_not_have_are_told(changes, message):
    keys = jax.random.split(jax.random.key(0), 2)
    with debug.checks():
        searched(problem(), keys)
    with pytest.raises(ValueError, match=message), debug.checks():
        searched(problem(**changes), keys)


def test_parameters_that_are_not_finite_are_told():
    def evaluate(params, game, state, reach):
        values, prior = leaf_evaluators.zero(None, game, state, reach)
        return jax.tree.map(lambda own: params["w"] * own, values), prior

    with debug.checks(), pytest.raises(ValueError, match=r"params\['w'\] is nan"):
        solvers.growing_tree_search(
            TABLE, key=jax.random.key(0), simulations=2, evaluate=evaluate, params={"w": jnp.nan}
        )


def test_policies_by_public_state_are_checked():
    listing = list_public_states(TABLE)
    policy = leaf_evaluators.uniform_policy(TABLE, listing)
    with debug.checks():
        belief_exploitability.exploitability(TABLE, listing, policy)
        for player in range(2):
            twice = tuple((1 + (p == player)) * own for p, own in enumerate(policy))
            message = rf"sum of policy\[{player}\] \(actions last\) over actions\["
            with pytest.raises(ValueError, match=message):
                belief_exploitability.exploitability(TABLE, listing, twice)


def test_steps_are_checked_under_transformations():
    game = make("kuhn_poker")
    root = game.init()
    assert root.actor == CHANCE

    def play(actions):
        return jax.lax.scan(lambda state, a: (debug.step(game, state, a), None), root, actions)[0]

    batched = jax.jit(jax.vmap(play))
    with debug.checks():
        batched(jnp.array([[0, 1, 1], [2, 0, 0]]))
    message = (
        r"step: action is 0, which is illegal in kuhn_poker\(players=2\) where the actor is -1"
    )
    with pytest.raises(ValueError, match=message), debug.checks():
        batched(jnp.array([[0, 1, 1], [0, 0, 1]]))  # both players hold the same card


@pytest.mark.slow
def test_searches_that_nobody_uses_are_no_false_alarm():
    """An empty queue is searched all the same, and so is a state where an agent thinks again."""
    graph, params = nnx.split(new_cvpn(TABLE, seed=0, width=8, depth=1))
    settings = student_of_games_training.StudentOfGamesSettings(
        search=dataclasses.replace(SETTINGS, evaluate=CvpnEvaluator(graph)),
        learner=LearnerSettings(batch_size=4, capacity=16),
        episodes=2,
        solves=2,
        updates=1,
    )
    state = student_of_games_training.init(TABLE, params, jax.random.key(0), settings=settings)
    leduc = belief_table(make("leduc_poker(ranks=2)"))  # nobody folds at the root, which is child 0
    keys = jax.random.split(jax.random.key(0))
    with debug.checks():
        student_of_games_training.train_step(TABLE, graph, state, settings=settings)
        mind = search_agent.init(leduc, 0, settings=SETTINGS)
        for key in keys:
            mind, _ = search_agent.think(leduc, None, key, mind, settings=SETTINGS)


def test_transformed_callers_are_checked():
    policies = jax.tree.map(lambda *x: jnp.stack(x), uniform(), wrong([0.5, 0.7]))
    compare = jax.jit(jax.vmap(evaluation.nash_conv, (None, 0)))
    compare(KUHN, policies)  # compiled without checks
    with pytest.raises(ValueError, match=r"nash_conv: sum of policy\[1\] over act"), debug.checks():
        compare(KUHN, policies)
    with debug.checks(), pytest.raises(jax.errors.JaxRuntimeError, match=r"sum of policy\[1\]"):
        jax.block_until_ready(compare(KUHN, policies))
    compare(KUHN, policies)


def test_other_errors_stay_what_they_are():
    with pytest.raises(KeyError), debug.checks():
        {}["nothing"]


def test_loops_that_call_checked_functions_run_in_debug_mode():
    with debug.checks():
        state = fictitious_play.run(KUHN, fictitious_play.init(KUHN), num_iterations=3)
    assert state.step == 3


PROGRAMS = {
    "nash_conv": lambda: (evaluation.nash_conv, (KUHN, uniform()), {}),
    "cfr.run": lambda: (
        cfr.run,
        (KUHN, cfr.init(KUHN)),
        dict(solver=cfr.dcfr(), num_iterations=3),
    ),
    "cfr.average_policy": lambda: (cfr.average_policy, (KUHN, cfr.init(KUHN)), {}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_the_same_as_without_the_decorator(name):
    function, args, kwargs = PROGRAMS[name]()
    plain = function.__wrapped__
    assert function.lower(*args, **kwargs).as_text() == plain.lower(*args, **kwargs).as_text()

    def text(call):
        def caller(*arrays):
            return call(*arrays, **kwargs)

        return jax.jit(caller).lower(*args).as_text()

    off = text(function)
    assert off == text(plain)
    with debug.checks():
        assert text(function) != off


@pytest.mark.slow
def test_search_is_the_same_program_as_without_the_decorator():
    def text(search):
        run = jax.jit(lambda key: search(TABLE, None, key, problem=problem(), settings=SETTINGS))
        return run.lower(jax.random.key(0)).as_text()

    assert text(growing_tree_cfr.search) == text(growing_tree_cfr.search.__wrapped__)


def test_checked_functions_look_like_the_functions():
    assert evaluation.nash_conv.__name__ == "nash_conv"
    assert "Lanctot" in evaluation.nash_conv.__doc__
    assert not debug.enabled()
    with debug.checks():
        assert debug.enabled()
        with debug.checks(False):
            assert not debug.enabled()


def test_the_environment_turns_the_mode_on():
    program = "from jaxgames import debug; assert debug.enabled()"
    environment = {**os.environ, debug.ENVIRONMENT_VARIABLE: "1"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
