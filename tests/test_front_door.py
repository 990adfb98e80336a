"""The front door of each package: its names, their documentation, and what one call does."""

import dataclasses
import importlib
import importlib.util
import inspect
import re
import shlex
import subprocess
import sys

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgames
import solvers
import train
from experiments import cli
from experiments.harness import results
from jaxgames.beliefs import BeliefTable, belief_table
from jaxgames.game_tree import enumerate_game
from jaxgames.game_tree.enumeration import refuse_name
from jaxgames.registry import make
from solvers.registry import SOLVERS
from solvers.search import fixed_problem, growing_tree_cfr, search_result
from solvers.sequence_form import build_sequence_form

EXPORTS = {
    "jaxgames.beliefs": (
        "NOWHERE NO_STATE BeliefGame BeliefTable Listing Places belief_table check_belief_game"
        " history_places list_public_states table_from_tree table_places tabulate"
    ),
    "solvers.search": (
        "Chain GrowingTreeCfr Problem Search SearchResult Whole average_policy average_values"
        " check_problem equilibrium expected_payoff first_problem fixed_problem"
        " growing_tree_search leaf_evaluators logged_queries next_problem oracle search"
        " search_agent searched_exploitability solve_below"
    ),
    "solvers.perfect_information": (
        "AlphaZero AlphaZeroAgent BeliefEvaluator GrowingTreeAgent PositionEvaluator act"
        " alphazero_search best_response_values chooser draw_openings duel duels"
        " enumerate_positions matches perfect_policy perfect_values play_pairs search"
    ),
    "jaxgames": (
        "CHANCE TERMINAL Game GameTree Playout State TreeTooLargeError absorb check_game"
        " checked_step enumerate_game estimate_num_histories make make_game_tree no_legal"
        " random_action random_playouts record register registered sample_chance"
    ),
    "solvers": (
        "CompiledGame GrowingTreeCfr SearchResult SequenceForm Solution best_response"
        " best_response_value build_sequence_form compile_game counterfactual_values"
        " expected_value exploitability growing_tree_search nash_conv prepare_solver solve"
        " solver_by_name solver_names"
    ),
    "jaxgames.holdem": (
        "BetSizes BettingTree HandIsomorphism Poker betting_of_rules build_betting_tree"
        " build_small_poker cards_name category hunl limit_holdem nlfh parse_cards parse_game"
        " parse_range range_equity rank_hands showdown_equity sizes_by_street strength subtree"
        " translate translate_bet with_bet without_cards"
    ),
    "solvers.holdem": (
        "HoldemSolution HoldemTree below_leaves biased_policies build_holdem_tree cut_street"
        " estimated_bytes holdem_tree leaf_values mixture_policy promised_leaf_values"
        " sampled_boards self_generated_values shard_holdem_tree shard_tree solve_below"
        " solve_street subgame_part transferred_leaf_values translated_tree_policy whole_game_tree"
    ),
    "nets": (
        "AlphaZeroNetwork Convolutional Cvpn CvpnEvaluator LeafValues Mlp MlpHead PositionNetwork"
        " ResidualMlp StationNetwork ValuePrior ValuePriorEvaluator apply_player_networks"
        " from_bytes leaf_features new_cvpn new_player_networks new_position_network"
        " new_station_network new_torso new_value_prior to_bytes"
    ),
    "train": (
        "AgentConfig AlphaZeroSettings LearnerSettings MetricsWriter ResponseSettings"
        " SelfPlaySettings StudentOfGamesSettings TrainedAgent load_agent paper_settings"
        " require_finite_losses student_of_games"
    ),
}
SMALL = train.AgentConfig(
    simulations=8,
    width=16,
    depth=1,
    episodes=4,
    solves=2,
    updates=1,
    batch_size=8,
    capacity=200,
)


@pytest.mark.parametrize("package", EXPORTS)
def test_exported_names(package):
    module, names = importlib.import_module(package), EXPORTS[package].split()
    assert sorted(module.__all__) == sorted(names)
    assert 10 <= len(names) <= 25
    for name in names:
        assert hasattr(module, name)
        assert name in module.__doc__


@pytest.mark.parametrize("package", ["solvers", "solvers.holdem"])
def test_no_module_hides_a_name_that_is_imported_on_first_use(package):
    for name in EXPORTS[package].split():
        assert importlib.util.find_spec(f"{package}.{name}") is None


def exported():
    return [(package, name) for package, names in EXPORTS.items() for name in names.split()]


@pytest.mark.parametrize(("package", "name"), exported())
def test_exported_names_are_documented(package, name):
    thing = getattr(importlib.import_module(package), name)
    if inspect.isclass(thing):
        assert thing.__doc__
        assert not thing.__doc__.startswith(f"{name}(")  # made up by dataclasses
        if dataclasses.is_dataclass(thing):
            source = inspect.getsource(thing)
            for field in dataclasses.fields(thing):
                assert re.search(rf"^    {field.name}: .*", source, re.MULTILINE)
    elif callable(thing):
        signature = inspect.signature(thing)
        parameters = signature.parameters
        document = inspect.getdoc(thing)
        assert not parameters or "Args:" in document
        assert signature.return_annotation == "None" or "Returns:" in document
        lists = re.findall(r"^ +([\w*, ]+): ", document, re.MULTILINE)
        described = {name.strip(" *") for names in lists for name in names.split(",")}
        assert {*parameters} <= described


def test_importing_solvers_is_cheap():
    program = (
        "import solvers, sys\n"
        "heavy = {'scipy', 'orbax', 'pgx', 'pyspiel', 'optax', 'matplotlib'} & {*sys.modules}\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_unknown_names_are_attribute_errors():
    assert solvers.linear_program.solve is importlib.import_module("solvers.linear_program").solve
    with pytest.raises(AttributeError, match="'solvers' has no attribute 'solv'"):
        solvers.solv  # noqa: B018


def iterations(name):
    return {"linear_program": None, "outcome_sampling": 20_000}.get(name, 1000)


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_solves_kuhn_poker(name):
    """Value: Kuhn (1950), -1/18 to the first player."""
    solution = solvers.solve("kuhn_poker", name, num_iterations=iterations(name))
    assert solution.exploitability < (0.1 if "sampling" in name else 0.02)
    assert solution.values[0] == pytest.approx(-1 / 18, abs=0.1 if "sampling" in name else 0.01)
    assert solution.nash_conv == pytest.approx(2 * solution.exploitability)
    for rows in solution.policy:
        np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-5)


def test_solutions_are_printable():
    text = str(solvers.solve("kuhn_poker", "dcfr(gamma=3)", num_iterations=1000))
    assert "kuhn_poker(players=2) solved by dcfr(gamma=3) in 1,000 iterations" in text
    assert "12 information states" in text
    assert "player 1, deal {1,2} | deal 0 | bet:  pass 1.000  bet 0.000" in text
    assert "values          -0.05" in text


def test_a_game_may_be_given_in_any_form():
    game = make("kuhn_poker")
    tree = enumerate_game(game)
    forms = ("kuhn_poker", game, tree, build_sequence_form(tree))
    solutions = [solvers.solve(form, num_iterations=10) for form in forms]
    assert len({solution.nash_conv for solution in solutions}) == 1
    assert len(solutions[0].rows()) == 24
    for solution in solutions[2:]:
        assert "information state 0:" in str(solution)
        with pytest.raises(ValueError, match="was given without its rules"):
            solution.rows()


def test_sampling_solvers_differ_by_seed_only():
    first, again, other = (
        solvers.solve("kuhn_poker", "external_sampling", num_iterations=50, seed=seed)
        for seed in (0, 0, 1)
    )
    assert first.nash_conv == again.nash_conv != other.nash_conv


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(game="kuhn_poke"), "did you mean 'kuhn_poker'"),
        (dict(game="kuhn_poker", solver="dcfrs"), "unknown solver 'dcfrs'; did you mean 'dcfr'"),
        (dict(game="kuhn_poker", num_iterations=0), "num_iterations=0 must be at least 1"),
        (
            dict(game="kuhn_poker", solver="linear_program", num_iterations=5),
            "num_iterations=5: linear_program does not iterate; allowed: None",
        ),
        (dict(game="kuhn_poker(players=3)", solver="linear_program"), "3 players"),
    ],
)
def test_bad_input_is_told(arguments, message):
    with pytest.raises(ValueError, match=message):
        solvers.solve(**arguments)


def test_sampling_needs_more_than_a_sequence_form():
    form = build_sequence_form(make("kuhn_poker"))
    with pytest.raises(ValueError, match="allowed: a name, a Game or a GameTree"):
        solvers.solve(form, "outcome_sampling", num_iterations=1)


@pytest.mark.slow
def test_search_begins_at_the_root_of_a_game_in_any_form():
    game, key = make("kuhn_poker"), jax.random.key(0)
    forms = ("kuhn_poker", game, enumerate_game(game), belief_table(game))
    searched = [solvers.growing_tree_search(form, key=key, simulations=30) for form in forms]
    first = searched[0]
    for result in searched:
        chex.assert_trees_all_equal(result.policy, first.policy)
    chex.assert_shape(first.policy, (2, 3))
    np.testing.assert_allclose(first.policy.sum(axis=0), 1, atol=1e-6)
    text = str(first)
    assert "kuhn_poker(players=2) searched with 30 simulations" in text
    assert "policy of player 0" in text


@pytest.mark.slow
def test_what_is_printed_of_a_search_below_the_root():
    """Its value is what is expected there, by the beliefs; none where a gadget is in the values."""
    game, key = belief_table(make("kuhn_poker")), jax.random.key(0)
    state = game.child(game.root(), jnp.int32(1))  # player 0 has bet
    reach = jnp.array([0.0, 0.0, 0.5]), jnp.array([1.0, 0.0, 1.0])  # the king; queen or jack
    problem = fixed_problem(state, reach, max_path=1)
    searched = solvers.growing_tree_search(game, key=key, simulations=200, problem=problem)
    value = float(re.search(r"value to player 0 +(\S+)", str(searched))[1])
    assert value == pytest.approx(1, abs=0.05)  # who folds to a king loses the ante
    resolved = problem.replace(resolver=jnp.int32(1))
    again = solvers.growing_tree_search(game, key=key, simulations=200, problem=resolved)
    assert "value to player 0" not in str(again)
    begins = str(solvers.growing_tree_search("goofspiel(cards=3)", key=key, simulations=3))
    assert begins.endswith("chance moves there")


@pytest.mark.slow
def test_games_with_beliefs_of_their_own_are_searched_by_them():
    """And not tabulated: they may be of any size. Tables have fewer rows, with the same policy."""
    name, key = "scotland_yard(map=glasses,rounds=2)", jax.random.key(0)
    own, table = solvers.growing_tree_search(name, key=key, simulations=3), belief_table(make(name))
    assert not isinstance(own.game, BeliefTable)
    tabulated = solvers.growing_tree_search(table, key=key, simulations=3)
    assert tabulated.game.num_actions == own.game.num_actions
    rows = [np.asarray(result.policy).sum(axis=0) > 0 for result in (own, tabulated)]
    np.testing.assert_allclose(
        np.asarray(own.policy)[:, rows[0]], np.asarray(tabulated.policy)[:, rows[1]], atol=1e-5
    )
    whole = solvers.growing_tree_search("pgx:tic_tac_toe", key=key, simulations=3, expand=None)
    assert whole.settings.expand is None


@pytest.mark.slow
def test_games_of_perfect_information_are_searched_as_in_the_paper():
    """Without a table, child by child."""
    key = jax.random.key(0)
    board = solvers.growing_tree_search("pgx:tic_tac_toe", key=key, simulations=3)
    assert board.settings.expand == 1  # the paper's k


def test_a_search_needs_to_know_where_detectives_are_dealt():
    key = jax.random.key(0)
    with pytest.raises(ValueError, match=r"such as scotland_yard\(detective_starts=13/26/29/34/50"):
        solvers.growing_tree_search("scotland_yard", key=key)


def test_a_name_is_told_from_a_game():
    with pytest.raises(ValueError, match=r"'kuhn_poker' is a name; allowed: a game, by jaxgames"):
        refuse_name("kuhn_poker")
    refuse_name(make("kuhn_poker"))


def test_the_likeliest_of_many_actions_are_printed():
    many = np.zeros(40)
    many[[7, 3]] = 0.25, 0.75
    assert search_result._likeliest(many) == "3: 0.750  7: 0.250"
    assert search_result._likeliest(np.full(40, 1 / 40)).endswith("11: 0.025  ...")
    assert (
        search_result._likeliest(many[:8])
        == "0.000  0.000  0.000  0.750  0.000  0.000  0.000  0.250"
    )


def test_search_is_compiled_once_for_a_game_and_settings(monkeypatch):
    traced_once = chex.assert_max_traces(growing_tree_cfr.search, n=1)
    monkeypatch.setattr(growing_tree_cfr, "search", traced_once)
    for seed in range(3):
        solvers.growing_tree_search("kuhn_poker", key=jax.random.key(seed), simulations=3)
    with pytest.raises(AssertionError, match="traced > 1 times"):
        solvers.growing_tree_search("kuhn_poker", key=jax.random.key(0), simulations=4)


@pytest.fixture(scope="module")
def agent():
    steps = []
    made = train.student_of_games(
        "kuhn_poker", steps=3, config=SMALL, progress=lambda step, metrics: steps.append(step)
    )
    assert steps == [1, 2, 3]
    return made


@pytest.mark.slow
def test_agents_are_measured_and_printed(agent):
    assert 0 < agent.exploitability() < 1
    assert "Student of Games agent of kuhn_poker(players=2)" in str(agent)
    assert "trained for 3 steps" in str(agent)
    chex.assert_shape(agent.play(deals=4), (4, 2))


@pytest.mark.slow
def test_agents_act(agent):
    mind = agent.new_game(0)
    mind, action, policy = agent.act(jax.random.key(0), mind, 1)
    assert policy[action] > 0
    mind = agent.observe(mind, int(action))
    assert int(agent.table.actor(mind.public)) == 1
    second = agent.new_game(1)
    with pytest.raises(ValueError, match="an agent must think at the root of the game first"):
        agent.observe(second, int(action))
    second = agent.observe(agent.think(jax.random.key(1), second), int(action))
    assert agent.act(jax.random.key(2), second, 1)[2].sum() == pytest.approx(1)
    for call, message in (
        (lambda: agent.act(jax.random.key(3), mind, 1), "player 0 cannot act, player 1 acts"),
        (lambda: agent.act(jax.random.key(3), second, -1), "row=-1 does not exist here; allowed"),
        (lambda: agent.new_game(2), "player=2 must be 0 or 1"),
        (lambda: agent.play(deals=0), "deals=0 must be at least 1"),
        (lambda: agent.exploitability(seeds=0), "seeds=0 must be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.slow
def test_agents_are_saved_and_loaded(agent, tmp_path):
    agent.save(tmp_path / "agent")
    again = train.load_agent(tmp_path / "agent")
    assert again.exploitability() == agent.exploitability()
    with pytest.raises(ValueError, match=r"holds a result.json already"):
        agent.save(tmp_path / "agent")


def test_steps_are_checked():
    with pytest.raises(ValueError, match="steps=0 must be at least 1"):
        train.student_of_games("kuhn_poker", steps=0)
    unregistered = type("OneCard", (type(make("kuhn_poker")),), {"name": "one_card"})()
    with pytest.raises(ValueError, match=r"game one_card.* is not registered: put @jaxgames"):
        train.student_of_games(unregistered, steps=1)


def test_games_can_be_made_from_the_front_door():
    assert "leduc_poker" in jaxgames.registered()


def command_line(arguments, folder):
    return cli.main(["solve", *shlex.split(arguments), "--out", str(folder)])


def numbers(folder):
    return {n.name: n.value for n in results.read_result(folder / "result.json").numbers}


ITERATIVE = sorted(set(SOLVERS) - {"linear_program"})
FAST = ("cfr_plus", "external_sampling")  # one that sweeps the tree, one that samples


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in ITERATIVE]
)
def test_the_command_line_knows_every_solver_and_resumes_it(name, tmp_path):
    """In pieces the same as at once in `solvers.solve`."""
    arguments = f"kuhn_poker --solver {name} --every 20"
    assert command_line(f"{arguments} --iterations 20", tmp_path / "pieces") == 0
    assert command_line(f"{arguments} --iterations 40 --resume", tmp_path / "pieces") == 0
    solution = solvers.solve("kuhn_poker", name, num_iterations=40)
    pieces = numbers(tmp_path / "pieces")
    assert pieces["nash_conv"] == solution.nash_conv


def test_the_command_line_solves_the_linear_program(tmp_path):
    assert command_line("kuhn_poker --solver linear_program", tmp_path) == 0
    recorded = numbers(tmp_path)
    assert recorded["value"] == pytest.approx(-1 / 18, abs=1e-6)
    assert "iterations" not in recorded
    assert {path.name for path in tmp_path.iterdir()} == {"result.json", "policy.npz", "policy.csv"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--solver linear_program --iterations 5", "iterations=5 does not apply to linear_program"),
        ("--solver linear_program --resume", "resume=True does not apply to linear_program"),
        ("--solver cfr --seed 1", "seed=1 does not apply to cfr, which draws nothing"),
    ],
)
def test_options_that_do_not_apply_are_told(arguments, message, tmp_path, capsys):
    assert command_line(f"kuhn_poker {arguments}", tmp_path) == 2
    assert message in capsys.readouterr().err


def test_checkpoints_of_another_seed_are_refused(tmp_path, capsys):
    arguments = "kuhn_poker --solver external_sampling --iterations 5"
    assert command_line(arguments, tmp_path) == 0
    assert command_line(f"{arguments} --seed 3 --resume", tmp_path) == 2
    assert "has seed=0, not 3" in capsys.readouterr().err
