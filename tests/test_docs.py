"""The guide to a game of one's own shows the example in full, and what it says is so."""

import contextlib
import importlib
import io
import pathlib
import re

import numpy as np
import pytest
from normal_form import guaranteed, moves_before

from jaxgames import enumerate_game
from jaxgames.holdem.bet_sizes import BetSizes
from jaxgames.holdem.betting_from_sizes import build_betting_tree
from jaxgames.holdem.cards import parse_cards
from jaxgames.holdem.ranges import parse_range
from solvers.holdem.solution import Solution
from solvers.holdem.subgame_tree import holdem_tree
from solvers.sequence_form import uniform, unpack

DOCS = pathlib.Path(__file__).parent.parent / "docs"
GUIDE = (DOCS / "add_a_game.md").read_text()
QUEEN, KING, ACE = 0, 1, 2


@pytest.fixture(scope="module")
def example():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS / "examples"))
        yield importlib.import_module("one_card_poker")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def test_guide_shows_the_whole_example():
    assert blocks("python")[0] == (DOCS / "examples" / "one_card_poker.py").read_text()


@pytest.mark.usefixtures("example")
def test_guide_prints_what_it_says():
    """Runs the guide's own lines: `check_game` passes, and the counts are those it shows."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(blocks("python")[1], {})
    assert output.getvalue() == blocks("text")[0]


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


def test_readme_program_runs_in_twelve_lines(capsys):
    readme = (DOCS.parent / "README.md").read_text()
    program = re.search(r"```python\n(.*?)```", readme, re.DOTALL).group(1)
    assert len([line for line in program.splitlines() if line]) <= 12
    exec(compile(program, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert float(printed.split()[1]) == pytest.approx(2 * 0.000257, abs=1e-4)
    assert float(printed.split()[-1]) == pytest.approx(-0.0856064, abs=1e-4)


def test_program_of_student_of_games_runs():
    text = (DOCS / "student_of_games.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(program, {})
    assert output.getvalue().count("[") == 4  # three actions


@pytest.mark.slow
def test_programs_of_depth_limited_solving_run(capsys):
    """The first player guarantees almost the value of Leduc hold'em; values of hold'em's leaves."""
    leduc, holdem = re.findall(
        r"```python\n(.*?)```", (DOCS / "depth_limited.md").read_text(), re.DOTALL
    )
    exec(leduc, {})
    assert float(capsys.readouterr().out.split()[-1]) == pytest.approx(-0.0856, abs=0.005)
    found: dict = {}
    exec(holdem, found)
    assert found["values"].shape == (len(found["cut"].leaves), 1, 4, 4, 4)


@pytest.mark.slow
def test_programs_of_holdem_run(capsys, monkeypatch, tmp_path):
    """One reads the solution of the worked spot: here a rough one, of fewer hands."""
    monkeypatch.chdir(tmp_path)
    pathlib.Path("out/turn").mkdir(parents=True)
    sizes = BetSizes.parse("100%", "")
    betting = build_betting_tree(pot=200, stack=900, streets=2, sizes=sizes)
    ranges = parse_range("KJs, 66"), parse_range("QQ, A8s")
    tree = holdem_tree(parse_cards("Td9d6hQc"), ranges, betting)
    Solution(tree, unpack(tree.sequence_form, uniform(tree.sequence_form))).save(
        "out/turn/solution.npz"
    )
    programs = re.findall(r"```python\n(.*?)```", (DOCS / "holdem.md").read_text(), re.DOTALL)
    for program in programs:
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


@pytest.mark.slow  # its parts are tested in `test_alphazero`
def test_program_of_alphazero_runs(capsys):
    text = (DOCS / "approximate_best_response.md").read_text()
    program = next(
        one for one in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "duel" in one
    )
    exec(program, {})
    assert -1 <= float(capsys.readouterr().out.split()[-1]) <= 1
