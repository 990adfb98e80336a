"""The programs of the documentation run, and print what the pages say."""

import contextlib
import importlib
import io
import json
import pathlib
import re

import matplotlib as mpl
import numpy as np
import pytest
from normal_form import guaranteed, moves_before

from experiments.harness import policy_file
from jaxgames import enumerate_game
from jaxgames.holdem.bet_sizes import BetSizes
from jaxgames.holdem.betting_from_sizes import build_betting_tree
from jaxgames.holdem.cards import parse_cards
from jaxgames.holdem.ranges import parse_range
from jaxgames.registry import make
from solvers import evaluation
from solvers.holdem.holdem_solution import HoldemSolution
from solvers.holdem.subgame_tree import holdem_tree
from solvers.sequence_form import build_sequence_form, uniform, unpack

ROOT = pathlib.Path(__file__).parent.parent
DOCS = ROOT / "docs"
QUEEN, KING, ACE = 0, 1, 2


def blocks(page, language="python"):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def printed(program):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(program, "program", "exec"), {"__name__": "program"})
    return output.getvalue()


def last_number(text):
    return float(re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", text)[-1])


@pytest.fixture
def example():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS / "examples"))
        yield importlib.import_module("one_card_poker")


def test_guide_shows_the_whole_example():
    assert blocks("docs/add_a_game.md")[0] == (DOCS / "examples" / "one_card_poker.py").read_text()


@pytest.mark.usefixtures("example")
def test_guide_prints_what_it_says():
    """`check_game` passes, and the counts are those that the guide shows."""
    program = blocks("docs/add_a_game.md")[1]
    assert printed(program) == blocks("docs/add_a_game.md", "text")[0]


def test_example_has_the_published_equilibrium(example):
    """Bet the ace, bluff one queen in three; call with the ace and one king in three: 1/18."""
    tree = enumerate_game(example.OneCardPoker())
    second_actions = [{QUEEN: 1 / 3, KING: 0, ACE: 1}, {QUEEN: 0, KING: 1 / 3, ACE: 1}]
    deals = example.OneCardPoker()._deals()
    policies = []
    for player, probability in enumerate(second_actions):
        rows = tree.representative(player)[: tree.num_decisions[player]]
        cards = [deals[moves_before(tree, row)[0]][player] for row in rows]
        chosen = np.array([probability[card] for card in cards])
        policies.append(np.stack([1 - chosen, chosen], axis=1))
    assert guaranteed(tree, policies) == pytest.approx((1 / 18, 1 / 18), abs=1e-12)


@pytest.mark.parametrize("ranks", [2, 5])
def test_example_counts_with_other_parameters(example, ranks):
    tree = enumerate_game(example.OneCardPoker(ranks=ranks))
    assert tree.num_histories == 1 + 5 * ranks * (ranks - 1)
    assert tree.num_decisions == (ranks, ranks)


def test_example_refuses_an_illegal_parameter(example):
    with pytest.raises(ValueError, match="one_card_poker: ranks=1 must be between 2 and 50"):
        example.OneCardPoker(ranks=1)


def test_readme_solves():
    solve, _, _ = blocks("README.md")
    assert last_number(printed(solve)) == pytest.approx(0.000240, abs=1e-5)


def test_readme_searches():
    _, search, _ = blocks("README.md")
    assert "policy at the root" in printed(search)


@pytest.mark.slow(minutes=2)
def test_readme_trains(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    _, _, train = blocks("README.md")
    assert 0 < last_number(printed(train.replace("steps=1000", "steps=3"))) < 2
    assert (tmp_path / "out" / "my_agent" / "network.npz").exists()


def test_programs_of_the_readme_begin_the_tutorial():
    solve, search, train = blocks("README.md")
    started = blocks("docs/getting_started.md")
    assert started[2:4] == [search, train]
    assert [re.sub(r"  # .*", "", line) for line in started[1].splitlines()] == solve.splitlines()


def test_concepts_show_the_message_of_debug_mode():
    _, program, _ = blocks("docs/concepts.md")
    assert [printed(program)] == blocks("docs/concepts.md", "text")


@pytest.mark.slow
def test_leaves_are_valued_by_hand():
    """All of Kuhn poker is in the tree, where the first player loses 1/18."""
    program, _, _ = blocks("docs/concepts.md")
    value = re.search(r"value to player 0 +(\S+)", printed(program))[1]
    assert float(value) == pytest.approx(-1 / 18, abs=0.01)


@pytest.mark.slow
def test_concepts_search_another_state():
    """With a queen and a king player 1 calls what may be a bluff; with the jack it folds."""
    _, _, program = blocks("docs/concepts.md")
    rows = re.findall(r"row \d: +(\S+) +(\S+)", printed(program))
    queen, king, jack = (float(fold) for fold, _ in rows)  # as they are dealt first
    assert max(queen, king) < 0.1 < 0.9 < jack


@pytest.mark.slow
def test_networks_of_board_games_search_in_a_program():
    program = blocks("docs/perfect_information.md")[1]
    assert "gardner_chess searched with 50 simulations" in printed(program)


def test_getting_started_plays():
    """At random player 0 wins an eighth: showdowns cancel, and player 1 folds twice as often."""
    chance, decision, mean = printed(blocks("docs/getting_started.md")[0]).splitlines()
    assert chance.startswith("True [0.3333")
    assert decision == "1 [ True  True] [0. 0.]"
    assert last_number(mean) == pytest.approx(-1 / 8, abs=0.12)


def test_getting_started_solves_a_batch():
    assert last_number(printed(blocks("docs/getting_started.md")[4])) < 0.01


def test_a_policy_found_here_is_as_good_in_openspiel():
    program, _, _ = blocks("docs/coming_from.md")
    assert last_number(printed(program)) == pytest.approx(2.469e-4, rel=0.05)  # `cfr_convergence`


def test_a_search_as_with_mctx():
    """Fifty simulations over seven columns, the mean of eight searches."""
    _, program, _ = blocks("docs/coming_from.md")
    visits = re.findall(r"\d+\.?\d*", printed(program).split("]")[0])
    assert sum(map(float, visits)) == pytest.approx(50)


@pytest.mark.slow  # its parts are tested in `test_search`
def test_a_search_of_many_positions():
    """The mean of four policies over seven columns."""
    _, _, program = blocks("docs/coming_from.md")
    policy = re.findall(r"\d\.?\d*(?:e-\d+)?", printed(program))
    assert len(policy) == 7
    assert sum(map(float, policy)) == pytest.approx(1, abs=1e-4)


@pytest.mark.slow
def test_guide_to_subgames():
    """Leduc's value is -0.0856; re-solving guarantees less than that, but more than before."""
    (program,) = blocks("docs/guides/solve_a_subgame.md")
    before, after = map(last_number, printed(program).strip().splitlines())
    assert before < -0.15
    assert before + 0.03 < after < -0.0855


@pytest.mark.slow  # its parts are tested in `test_front_door`
def test_guide_to_training(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    program, *_ = blocks("docs/guides/train_student_of_games.md")
    assert len([line for line in program.splitlines() if line]) <= 15
    for whole, part in (("steps=50", "steps=5"), ("deals=100", "deals=20"), ("seeds=3", "seeds=1")):
        program = program.replace(whole, part)
    assert 0 < last_number(printed(program)) < 0.1


@pytest.mark.slow
def test_guide_to_a_loop_of_ones_own(monkeypatch):
    monkeypatch.chdir(ROOT)
    _, program, _ = blocks("docs/guides/train_student_of_games.md")
    assert 1 <= abs(last_number(printed(program))) <= 13  # chips


@pytest.mark.slow  # its parts are tested in `test_training` and `test_learner`
def test_guide_to_training_by_parts():
    *_, program = blocks("docs/guides/train_student_of_games.md")
    assert "replay" in printed(program)


@pytest.mark.slow
def test_guide_to_exploiting_an_agent():
    exact, _, _, learned = blocks("docs/guides/exploit_an_agent.md")
    assert 0.05 < last_number(printed(exact)) < 0.5
    won, error = map(float, re.findall(r"won (\S+) \+- (\S+)", printed(learned))[0])
    assert won == pytest.approx(0.5, abs=2 * error)


def test_guide_to_a_policy_of_ones_own(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    _, program, _, _ = blocks("docs/guides/exploit_an_agent.md")
    exploitability = last_number(printed(program))
    form = build_sequence_form(make("leduc_poker"))
    policies = policy_file.read_policy(tmp_path / "mine.npz")
    expected = float(evaluation.exploitability(form, policies))
    assert exploitability == pytest.approx(expected, rel=1e-5)
    assert 0.5 < exploitability < 5


@pytest.mark.slow  # its parts are tested in `test_experiments`
def test_experiment_with_other_parameters(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (program,) = blocks("docs/experiments.md")
    printed(program)
    result = json.loads((tmp_path / "out" / "mine" / "result.json").read_text())
    assert (result["preset"], result["config"]["training_simulations"]) == ("mine", 5)


@pytest.mark.slow
def test_guide_to_exploiting_a_search_agent(monkeypatch):
    monkeypatch.chdir(ROOT)
    _, _, program, _ = blocks("docs/guides/exploit_an_agent.md")
    assert 0.1 < last_number(printed(program)) < 2


@pytest.mark.slow
def test_guide_to_devices():
    (program,) = blocks("docs/guides/gpus_and_hosts.md")
    assert "examples from" in printed(program)


def test_program_of_student_of_games():
    program, *_ = blocks("docs/student_of_games.md")
    assert printed(program).count("[") == 4  # three actions


@pytest.mark.slow
def test_program_of_the_districts():
    _, program, _ = blocks("docs/student_of_games.md")
    assert 0 <= last_number(printed(program)) < 0.005


@pytest.mark.slow  # what it calls is tested in `test_by_stages`
def test_program_of_stages():
    *_, program = blocks("docs/student_of_games.md")
    assert 0 <= last_number(printed(program)) < 0.005


def test_program_of_sampling():
    (program,) = blocks("docs/sampling.md")
    assert last_number(printed(program.replace("1_000", "100"))) > 0


@pytest.mark.slow
def test_programs_of_depth_limited_solving():
    """The first player guarantees almost the value of Leduc poker; values of hold'em's leaves."""
    leduc, holdem = blocks("docs/depth_limited.md")
    assert last_number(printed(leduc)) == pytest.approx(-0.0856, abs=0.005)
    names: dict = {}
    exec(holdem, names)
    assert names["values"].shape == (len(names["cut"].leaves), 1, 4, 4, 4)


@pytest.mark.slow
def test_programs_of_holdem(capsys, monkeypatch, tmp_path):
    """One reads the solution of the worked spot: here a rough one, of fewer hands."""
    monkeypatch.chdir(tmp_path)
    pathlib.Path("out/turn").mkdir(parents=True)
    sizes = BetSizes.parse("100%", "")
    betting = build_betting_tree(pot=200, stack=900, streets=2, sizes=sizes)
    ranges = parse_range("KJs, 66"), parse_range("QQ, A8s")
    tree = holdem_tree(parse_cards("Td9d6hQc"), ranges, betting)
    HoldemSolution(tree, unpack(tree.sequence_form, uniform(tree.sequence_form))).save(
        "out/turn/solution.npz"
    )
    for program in blocks("docs/holdem.md"):
        exec(program, {})
    walked, asked, exploitability, known, taken, put_in, equity, rivers, spread = (
        capsys.readouterr().out.strip().split("\n")
    )
    assert walked.startswith("('check', 'bet 600')")
    assert asked.startswith("{'check': 0.5, 'bet 600': 0.5}")
    assert float(exploitability) < 0.2
    assert known == "('fold', 'call', 'raise 200', 'raise 300', 'allin')"
    assert taken.startswith("[0.")
    assert put_in == known.replace("'raise 200'", "'raise 200', 'raise 250'")
    assert equity.startswith("0.627")
    assert rivers == "(8,)"
    assert float(spread.strip("[]")) >= 0


def test_program_of_limit_holdem():
    """Average policies of the 169 classes of hands: fold, call and raise at the first decision."""
    program = blocks("docs/limit_holdem.md")[0]
    assert "(1, 21, 169, 1)" in printed(program + "print(policy[0][0].shape)")


@pytest.mark.slow  # its parts are tested in `test_alphazero_training`
def test_program_of_alphazero():
    program, _ = blocks("docs/approximate_best_response.md")
    assert -1 <= last_number(printed(program)) <= 1


@pytest.mark.slow  # its parts are tested in `test_perfect_player`
def test_program_of_the_perfect_player():
    program = blocks("docs/perfect_information.md")[0]
    assert printed(program) == "[[1. 1.]\n [1. 1.]\n [1. 1.]\n [1. 1.]]\n"


@pytest.mark.slow  # its parts are tested in `test_local_best_response`
def test_program_of_local_best_response():
    _, program = blocks("docs/approximate_best_response.md")
    assert last_number(printed(program)) > 0


@pytest.mark.slow(minutes=2)
@pytest.mark.parametrize("name", ["solve_and_look", "train_and_measure"])
def test_notebooks_run_and_keep_small_outputs(name):
    path = DOCS / "notebooks" / f"{name}.ipynb"
    assert path.stat().st_size < 200_000
    notebook = json.loads(path.read_text())
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    outputs = [output for c in notebook["cells"] for output in c.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not any(output["output_type"] == "error" for output in outputs)
    mpl.use("agg")
    names: dict = {"__name__": "notebook"}
    for cell in cells:
        exec(compile(cell, path.name, "exec"), names)
