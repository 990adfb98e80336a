"""The CFR family against OpenSpiel, plain code and constants; and the laws that it obeys."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pyspiel
import pytest
from solver_cases import (
    assert_policies_close,
    form_of,
    from_openspiel,
    gains,
    game_tree,
    openspiel,
    swapped,
    with_other_returns,
)
from solver_reference import RULES, random_policies, reference_solve, uniform_policies

from jaxgames import TERMINAL
from jaxgames.matrix import MatrixGame
from solvers import batching, cfr, evaluation
from solvers.regret import RegretMinimizer, RegretState
from solvers.sequence_form import build_sequence_form, with_returns


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


def averages(form, solver, counts):
    """The average policies after each of the (increasing) numbers of iterations."""
    state, done = cfr.init(form), 0
    for count in counts:
        state = cfr.run(form, state, solver=solver, num_iterations=count - done)
        done = count
        yield cfr.average_policy(form, state)


def solve(form, solver, num_iterations, **start):
    return cfr.run(form, cfr.init(form, **start), solver=solver, num_iterations=num_iterations)


# Against other code


@pytest.mark.parametrize(
    ("name", "solver"),
    [
        ("kuhn_poker", "cfr"),
        ("kuhn_poker", "cfr_plus"),
        ("leduc_poker", "cfr_plus"),
        pytest.param("goofspiel(cards=4,points=descending)", "cfr", marks=pytest.mark.slow),
        pytest.param("kuhn_poker(players=3)", "cfr_plus", marks=pytest.mark.slow),
        pytest.param("leduc_poker", "cfr", marks=pytest.mark.slow),
        pytest.param("liars_dice(sides=4)", "cfr", marks=pytest.mark.slow),
    ],
)
def test_average_policies_are_those_of_openspiel(name, solver):
    make = {"cfr": pyspiel.CFRSolver, "cfr_plus": pyspiel.CFRPlusSolver}[solver]
    theirs = make(openspiel(name)[0])
    for average in averages(form_of(name), cfr.make_solver(solver), range(1, 11)):
        theirs.evaluate_and_update_policy()
        table = theirs.tabular_average_policy().policy_table()
        assert_policies_close(average, from_openspiel(name, table), atol=1e-10)


@pytest.mark.parametrize(
    ("solver", "alternating"),
    [*((solver, True) for solver in RULES), ("pcfr_plus", False)],
)
def test_policies_are_those_of_plain_code(solver, alternating):
    name, ours = "random(seed=35)", cfr.SOLVERS[solver](alternating=alternating, delay=2)
    for count in (1, 2, 3, 9):
        state = solve(form_of(name), ours, count)
        current, average = reference_solve(
            game_tree(name), solver, count, alternating=alternating, delay=2
        )
        assert_policies_close(cfr.current_policy(form_of(name), state), current, atol=1e-10)
        assert_policies_close(cfr.average_policy(form_of(name), state), average, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["random(seed=6,players=3)", "random(seed=10,players=1)"])
def test_three_players_and_one_are_those_of_plain_code(name):
    state = solve(form_of(name), cfr.dcfr(), 7)
    _, average = reference_solve(game_tree(name), "dcfr", 7)
    assert_policies_close(cfr.average_policy(form_of(name), state), average, atol=1e-10)


# Exploitability by number of iterations, from OpenSpiel. Rounding errors grow a millionfold per
# hundred iterations of CFR+ on Leduc: past 100, programs that add in another order differ.
EXPLOITABILITY = {
    ("leduc_poker", "cfr_plus"): {
        1: 2.373611, 2: 2.057917, 5: 1.371232, 7: 1.011154, 10: 0.610439, 20: 0.173655,
        50: 0.034121, 100: 0.013416,
    },
    ("kuhn_poker", "cfr_plus"): {1: 0.458333, 10: 0.032687, 100: 0.001194, 1000: 8.7e-5},
    ("kuhn_poker", "cfr"): {10: 0.068699, 100: 0.008226, 1000: 0.000938},
}  # fmt: skip


# on Leduc the fast tests compare averages with OpenSpiel's
@pytest.mark.parametrize(
    ("name", "solver"),
    [pytest.param(*k, marks=[pytest.mark.slow] * (k[0] == "leduc_poker")) for k in EXPLOITABILITY],
)
def test_exploitability_by_iteration(name, solver):
    expected = EXPLOITABILITY[name, solver]
    for average, number in zip(
        averages(form_of(name), cfr.make_solver(solver), expected),
        expected.values(),
        strict=True,
    ):
        *_, nash_conv = gains(form_of(name), average)
        np.testing.assert_allclose(nash_conv / 2, number, atol=6e-7)


def test_leduc_after_many_iterations():
    """In exact arithmetic (decimals of 200 digits) exploitability is .004950 after 200 iterations
    and .000263 after 1000; OpenSpiel has .004963 and .000257."""
    policies = averages(form_of("leduc_poker"), cfr.cfr_plus(), (200, 1000))
    for average, expected in zip(policies, (0.004950, 0.000263), strict=True):
        *_, nash_conv = gains(form_of("leduc_poker"), average)
        np.testing.assert_allclose(nash_conv / 2, expected, rtol=0.1)


def test_kuhn_converges_to_its_equilibria():
    """Kuhn (1950): everything follows from the chance alpha that player 0 bets the jack."""
    form = form_of("kuhn_poker")
    average = cfr.average_policy(form, solve(form, cfr.cfr_plus(), 10_000))
    bet = {
        text: float(policy[row, 1])
        for names, policy in zip(openspiel("kuhn_poker")[1], average, strict=True)
        for row, text in enumerate(names)
    }
    alpha = bet["0"]
    assert 0 <= alpha <= 1 / 3
    expected = {"1": 0, "2": 3 * alpha, "0pb": 0, "1pb": alpha + 1 / 3, "2pb": 1}
    expected |= {"0p": 1 / 3, "1p": 0, "2p": 1, "0b": 0, "1b": 1 / 3, "2b": 1}
    for text, chance in expected.items():
        np.testing.assert_allclose(bet[text], chance, atol=2e-3, err_msg=text)
    value, *_ = gains(form, average)
    np.testing.assert_allclose(value, [-1 / 18, 1 / 18], atol=1e-5)


@pytest.mark.parametrize(
    ("name", "policies"),
    [
        ("rps_plus", ([[0.4, 0.4, 0.2]], [[0.4, 0.4, 0.2]])),
        ("coin_toss(swapped=true)", (None, [[0.75, 0.25]])),
    ],
)
def test_known_equilibria(name, policies):
    form = form_of(name)
    average = cfr.average_policy(form, solve(form, cfr.cfr_plus(), 20_000))
    for rows, expected in zip(average, policies, strict=True):
        if expected is not None:
            np.testing.assert_allclose(rows, expected, atol=2e-3)


# Laws


@pytest.mark.parametrize("solver", RULES)
@pytest.mark.parametrize("name", ["kuhn_poker", "untimed"])
def test_convergence_is_at_least_of_order_one_half(name, solver):
    counts = 2 ** np.arange(3, 12)
    policies = averages(form_of(name), cfr.make_solver(solver), counts.tolist())
    nash_conv = [float(gains(form_of(name), average)[2]) for average in policies]
    slope = np.polyfit(np.log(counts), np.log(nash_conv), 1)[0]
    assert slope < -0.5
    # CFR's bound: the range of payoffs, times decisions, times sqrt(A / T), for both players
    explicit = game_tree(name)
    spread = np.ptp(explicit.returns[:, 0])
    bound = spread * sum(explicit.num_decisions) * np.sqrt(2 / counts)
    assert (nash_conv <= bound).all()


@dataclasses.dataclass(frozen=True)
class InTurn(RegretMinimizer):
    """A minimiser that plays action t - 1 in iteration t, whatever the regrets."""

    def update(self, state, instant, uniform, step):
        actions = jnp.arange(uniform.shape[0], dtype=step.dtype)
        policy = (actions[:, None] == step).astype(uniform.dtype) * jnp.ones_like(uniform)
        return RegretState(regret=state.regret, policy=policy)


class EightByEight(MatrixGame):
    """A game in which both players choose one of 8 actions and all payoffs are 0."""

    name = "eight_by_eight"
    payoffs = ((0.0,) * 8,) * 8
    action_names = tuple("abcdefgh")


@pytest.fixture(scope="module")
def indifferent():
    with jax.enable_x64(True):
        return build_sequence_form(EightByEight(), dtype="float64")


@pytest.mark.parametrize(
    ("power", "delay", "alternating"),
    [
        (0.0, 0, True),
        (2.0, 0, True),
        (1.5, 0, False),
        (0.0, 3, True),
        (1.0, 3, False),
        (2.0, 8, True),  # as long as the solve
    ],
)
def test_averaging_weights(indifferent, power, delay, alternating):
    """Iteration t counts (t - delay)**power: exactly the share of action t - 1 in the average."""
    first = (np.eye(8)[:1], np.eye(8)[:1])
    solver = cfr.Solver(InTurn(), power, delay, alternating)
    average = cfr.average_policy(indifferent, solve(indifferent, solver, 8, policy=first))
    weight = np.maximum(np.arange(1, 9) - delay, 0.0) ** power * (np.arange(1, 9) > delay)
    expected = weight / weight.sum() if weight.any() else np.full(8, 1 / 8)
    for policy in average:
        np.testing.assert_allclose(policy[0], expected, atol=1e-15)


def test_two_iterations_by_hand():
    """Matching pennies with stakes of 2 at heads. With alternating updates, player 1 answers player
    0's new policy; with simultaneous ones, the old policy."""
    returns = np.array([[2, -2], [-1, 1], [-1, 1], [1, -1.0]])
    form = with_returns(form_of("matrix_mp"), jnp.asarray(returns))
    expected = {
        True: ([[0.25, -0.25], [0.25, 1.75]], [[-1.5, 1.5], [-0.125, 1.5]]),
        False: ([[0.25, -0.25], [0.25, 1.75]], [[-0.25, 0.25], [-3.25, 0.25]]),
    }
    for alternating, regrets in expected.items():
        state = cfr.init(form)
        for t in range(2):
            solver = cfr.cfr(alternating=alternating)
            state = cfr.run(form, state, solver=solver, num_iterations=1)
            for player in range(2):
                ((memory,),) = (state.minimizers[player],)
                np.testing.assert_allclose(memory.regret[:, 0], regrets[player][t])
        # both play heads in the second iteration if they can: averages of uniform and pure
        average = cfr.average_policy(form, state)
        np.testing.assert_allclose(average[0], [[0.75, 0.25]])
        np.testing.assert_allclose(average[1], [[0.25, 0.75]])


def test_suits_do_not_matter():
    """Swapping the two cards of every rank maps the policies of Leduc to themselves."""
    explicit, form = game_tree("leduc_poker"), form_of("leduc_poker")
    average = cfr.average_policy(form, solve(form, cfr.cfr_plus(), 20))
    row_of, paths = {}, []
    for row in range(explicit.num_histories):
        above = () if row == 0 else (*paths[explicit.parent[row]], explicit.parent_action[row])
        paths.append(above)
        row_of[above] = row
    dealt = np.append(False, explicit.actor[explicit.parent[1:]] == -1)
    image = np.zeros(explicit.num_histories, int)
    mirrored = [()]
    for row in range(1, explicit.num_histories):
        move = int(explicit.parent_action[row]) ^ int(dealt[row])
        mirrored.append((*mirrored[explicit.parent[row]], move))
        image[row] = row_of[mirrored[row]]
    for player in range(2):
        first = explicit.representative(player)[: explicit.num_decisions[player]]
        other = explicit.information_state[image[first], player]
        assert (other != np.arange(len(other))).all()
        policy = np.asarray(average[player])
        np.testing.assert_allclose(policy[other], policy, atol=1e-10)


def test_players_may_be_swapped():
    """With simultaneous updates the order of the players does not matter."""
    name, solver = "untimed", cfr.cfr_plus(alternating=False)
    form = build_sequence_form(swapped(game_tree(name)), dtype="float64")
    policies = cfr.average_policy(form, solve(form, solver, 9))
    expected = cfr.average_policy(form_of(name), solve(form_of(name), solver, 9))
    assert_policies_close(policies[::-1], expected, atol=1e-10)


# One loop, any number of solves


def assert_states_equal(actual, expected, atol=0.0):
    chex.assert_trees_all_close(actual, expected, rtol=0, atol=atol)


def test_iterations_may_be_run_in_parts():
    form = form_of("kuhn_poker")
    whole = solve(form, cfr.dcfr(), 12)
    state = solve(form, cfr.dcfr(), 5)
    state = cfr.run(form, state, solver=cfr.dcfr(), num_iterations=0)
    parts = cfr.run(form, state, solver=cfr.dcfr(), num_iterations=7)
    assert int(parts.step) == 12
    assert_states_equal(parts, whole)


def test_compiled_is_as_written():
    form = form_of("kuhn_poker")
    with jax.disable_jit():
        eager = solve(form, cfr.pcfr_plus(), 3)
    assert_states_equal(eager, solve(form, cfr.pcfr_plus(), 3), atol=1e-12)


def test_forms_of_one_shape_share_a_compilation():
    explicit = game_tree("kuhn_poker")
    form, solver = form_of("kuhn_poker"), cfr.cfr(delay=1)
    solve(form, solver, 2)
    before = cfr.run._cache_size()
    solve(form, solver, 77)
    solve(form, cfr.cfr(delay=1), jnp.int32(5).item())
    other = build_sequence_form(with_other_returns(explicit, 0), dtype="float64")
    solve(other, solver, 2)
    assert cfr.run._cache_size() == before
    solve(form, cfr.cfr(delay=2), 2)
    assert cfr.run._cache_size() == before + 1


def stack(*trees):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def assert_batch_is_loop(solve_one_case, *arguments, atol=1e-12):
    """`solve_one_case`, mapped over the stacked arguments, gives what a loop over them gives."""
    batch = jax.jit(jax.vmap(solve_one_case))(*(stack(*each) for each in arguments))
    loop = [jax.jit(solve_one_case)(*each) for each in zip(*arguments, strict=True)]
    assert_states_equal(batch, stack(*loop), atol)


@pytest.fixture
def after_deal():
    return form_of("kuhn_poker", root=2)


def kuhn_ranges(count):
    return [tuple(np.random.default_rng(seed).random((2, 3))) for seed in range(count)]


def test_batch_over_ranges(after_deal):
    def of_ranges(reach):
        state = solve(after_deal, cfr.dcfr(), 6, root_reach=reach)
        return cfr.average_policy(after_deal, state), state

    assert_batch_is_loop(of_ranges, kuhn_ranges(3))


@pytest.mark.parametrize("num_parts", [1, 2, 3])
def test_batch_over_payoffs_and_warm_starts(num_parts, monkeypatch):
    """In two parts, of which the last is not full."""
    explicit, form = game_tree("random(seed=12)"), form_of("random(seed=12)")

    def of_payoffs(returns, policy):
        state = cfr.init(form, policy=policy, policy_weight=0.1)
        other = with_returns(form, returns)
        return cfr.run(other, state, solver=cfr.cfr_plus(), num_iterations=5)

    over = explicit.actor == TERMINAL
    returns = [with_other_returns(explicit, seed).returns[over] for seed in range(3)]
    if num_parts > 1:
        size = 3 * sum(x.nbytes for x in jax.tree.leaves((cfr.init(form), form.histories.payoffs)))
        monkeypatch.setattr(batching, "_CPU_BYTES", size / (num_parts - 0.5))
    policies = [random_policies(explicit, seed) for seed in range(3)]
    assert_batch_is_loop(of_payoffs, returns, policies)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("payoffs_first", "in_parts"), [(True, False), (False, False), (True, True)]
)
def test_batch_of_batches(after_deal, payoffs_first, in_parts, monkeypatch):
    """Payoffs by ranges; equal numbers of both must not be taken for one axis."""
    if in_parts:
        monkeypatch.setattr(batching, "_CPU_BYTES", 1)
    explicit = game_tree("kuhn_poker")
    over = explicit.actor == TERMINAL

    def of_both(returns, reach):
        return solve(with_returns(after_deal, returns), cfr.linear_cfr(), 5, root_reach=reach)

    others = [with_other_returns(explicit, seed) for seed in range(2)]
    returns, reaches = stack(*[each.returns[over] for each in others]), kuhn_ranges(2)
    inner, outer = ((None, 0), (0, None)) if payoffs_first else ((0, None), (None, 0))
    nested = jax.vmap(jax.vmap(of_both, in_axes=inner), in_axes=outer)
    batch = jax.jit(nested)(returns, stack(*reaches))
    for i, payoffs in enumerate(returns):
        for j, reach in enumerate(reaches):
            place = (i, j) if payoffs_first else (j, i)
            element = jax.tree.map(lambda x, place=place: x[place], batch)
            assert_states_equal(element, jax.jit(of_both)(payoffs, reach), atol=1e-12)


def test_batch_of_different_games():
    """Two subgames of one shape whose tables of indices differ."""
    states = form_of("leduc_poker").histories.public_states
    roots = np.flatnonzero((np.asarray(states.depth) == 5) & (np.asarray(states.actor) == 0))
    trees = [build_sequence_form(game_tree("leduc_poker"), root=int(r)) for r in roots[:2]]
    assert_batch_is_loop(lambda form: solve(form, cfr.cfr_plus(), 5), trees, atol=1e-6)


def test_one_number_of_iterations_for_all():
    form = form_of("kuhn_poker")

    def of_count(count):
        return solve(form, cfr.cfr(), count)

    with pytest.raises(ValueError, match="num_iterations must be the same for all solves"):
        jax.vmap(of_count)(jnp.arange(3, dtype=jnp.int32))


# Starting points, precision


def test_the_average_is_uniform_before_it_begins():
    form, uniform = form_of("kuhn_poker"), uniform_policies(game_tree("kuhn_poker"))
    state = cfr.init(form)
    assert_policies_close(cfr.average_policy(form, state), uniform, atol=0)
    assert_policies_close(cfr.current_policy(form, state), uniform, atol=0)


@pytest.mark.parametrize("solver", RULES)
def test_a_solve_begun_at_an_equilibrium_stays_there(solver):
    form, alpha = form_of("kuhn_poker"), 0.2
    bets = {"0": alpha, "1": 0, "2": 3 * alpha, "0pb": 0, "1pb": alpha + 1 / 3, "2pb": 1}
    bets |= {"0p": 1 / 3, "1p": 0, "2p": 1, "0b": 0, "1b": 1 / 3, "2b": 1}
    table = {text: [(0, 1 - bet), (1, bet)] for text, bet in bets.items()}
    equilibrium = from_openspiel("kuhn_poker", table)
    start = cfr.init(form, policy=equilibrium, policy_weight=3.0)
    assert_policies_close(cfr.current_policy(form, start), equilibrium, atol=0)
    state = cfr.run(form, start, solver=cfr.make_solver(solver), num_iterations=20)
    assert_policies_close(cfr.current_policy(form, state), equilibrium, atol=1e-10)
    assert_policies_close(cfr.average_policy(form, state), equilibrium, atol=1e-10)


def test_the_game_after_the_deal_has_the_value_of_the_game(after_deal):
    average = cfr.average_policy(after_deal, solve(after_deal, cfr.cfr_plus(), 3000))
    for root in (after_deal, form_of("kuhn_poker")):
        value, _, nash_conv = gains(root, average)
        np.testing.assert_allclose(value, [-1 / 18, 1 / 18], atol=1e-4)
        np.testing.assert_allclose(nash_conv, 0, atol=2e-4)


def test_ranges_decide_a_subgame(after_deal):
    """If player 0 holds the king for sure, player 1 folds jack and queen to a bet."""
    reach = (jnp.asarray([0.0, 0.0, 1.0]), jnp.ones(3))
    state = solve(after_deal, cfr.cfr_plus(), 300, root_reach=reach)
    average = cfr.average_policy(after_deal, state)
    names = openspiel("kuhn_poker")[1][1]
    for text in ("0b", "1b"):
        np.testing.assert_allclose(average[1][names.index(text)], [1, 0], atol=1e-2)
    nash_conv = evaluation.nash_conv(after_deal, average, reach)
    np.testing.assert_allclose(nash_conv, 0, atol=1e-3)


def test_float32_is_close_to_float64():
    explicit = game_tree("kuhn_poker")
    exact = form_of("kuhn_poker")
    expected = cfr.average_policy(exact, solve(exact, cfr.cfr_plus(), 50))
    with jax.enable_x64(False):
        form = build_sequence_form(explicit)
        state = solve(form, cfr.cfr_plus(), 50)
        policies = cfr.average_policy(form, state)
    leaves = jax.tree.leaves((state, policies))
    assert {leaf.dtype for leaf in leaves} == {np.dtype("float32"), np.dtype("int32")}
    assert_policies_close(policies, expected, atol=1e-4)


# Bad input


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cfr_pluss", r"unknown solver 'cfr_pluss'; did you mean 'cfr_plus'\?"),
        ("dcfr(gama=2)", r"unknown parameter of dcfr 'gama'; did you mean 'gamma'\?"),
        ("cfr(averaging=-1)", r"averaging=-1.0 .* must be"),
        ("cfr(averaging=nan)", r"averaging=nan .* must be"),
        ("cfr(averaging=inf)", r"averaging=inf .* must be"),
        ("cfr(delay=-1)", "delay=-1 must be at least 0"),
        ("cfr(delay=0.5)", "delay='0.5' must be of type int"),
        ("dcfr(gamma=-1)", r"averaging=-1.0 \(gamma of dcfr\) must be"),
        ("dcfr(alpha=nan)", r"alpha=nan and beta=0.0 must be numbers"),
    ],
)
def test_unknown_solvers_are_refused(spec, message):
    with pytest.raises(ValueError, match=message):
        cfr.make_solver(spec)


def test_solvers_are_made_by_name():
    assert cfr.make_solver("dcfr") == cfr.dcfr()
    assert cfr.make_solver("dcfr(alpha=2,alternating=false)") == cfr.dcfr(
        alpha=2.0, alternating=False
    )
    assert cfr.make_solver("cfr_plus(averaging=2,delay=10)") == cfr.cfr_plus(
        averaging=2.0, delay=10
    )


def test_starting_points_of_wrong_shape():
    form = form_of("kuhn_poker")
    with pytest.raises(ValueError, match=r"policy of kuhn.* has shapes"):
        cfr.init(form, policy=uniform_policies(game_tree("kuhn_poker"))[:1])
    with pytest.raises(ValueError, match=r"root_reach of kuhn.* has shapes"):
        cfr.init(form, root_reach=(jnp.ones(2), jnp.ones(1)))
