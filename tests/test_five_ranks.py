"""Hold'em with five ranks: its size, and how far its solution is from another program's."""

import dataclasses
import math

import numpy as np
import pytest
from experiment_cases import smoke_run

from experiments.blueprints import five_ranks
from experiments.harness import results
from jaxgames.holdem.betting_tree import SHOWDOWN
from jaxgames.registry import make
from solvers import cfr, evaluation
from solvers.registry import prepare_cfr

RECORD = results.ROOT / "experiments/results/five_ranks/cpu" / results.RESULT_FILE
CONFIG = five_ranks.PRESETS["cpu"]
LOW, HIGH = five_ranks.VALUE


@pytest.fixture(scope="module")
def tree():
    return five_ranks.game_tree(CONFIG)


def test_the_game_has_the_size_that_its_rules_say(tree):
    """A street ends in three ways: two checks, a bet or a raise that is called."""
    betting = tree.betting
    assert np.bincount(betting.street[betting.actor >= 0]).tolist() == [4, 12, 36, 108]
    assert betting.actor[0] == five_ranks.BUTTON
    ends = np.unique(betting.paid[betting.actor == SHOWDOWN])
    assert ends.tolist() == [2 * 3**bets for bets in range(5)]  # whatever the streets of the bets
    assert ends[-1] == CONFIG.game.stack == 162
    assert tree.total_weight == math.comb(20, 2) * math.comb(18, 2)
    # Burnside: of the suits' permutations 1, 6 and 8 keep the cards of 4, 2 and 1 suits in place
    boards = [
        (math.perm(20, n) + 6 * math.perm(10, n) + 8 * math.perm(5, n)) // 24 for n in range(1, 4)
    ]
    assert boards == [5, 45, 485]
    nodes = 2 + 6 * boards[0] + 18 * boards[1] + 54 * boards[2]  # half of a street's are each one's
    decisions = [treeplex.num_decisions for treeplex in tree.sequence_form.treeplexes]
    assert decisions == [190 * nodes] * 2


def test_the_game_is_that_of_its_parameters():
    """Without the sizes of raises, which games with a limit have."""
    rules = "ranks=5,blinds=2/1,stack=162,first=1/0/0/0,board=0/1/1/1,max_raises=1/1/1/1"
    game = make(f"poker(limit=false,{rules})")
    assert dataclasses.replace(game, raise_sizes=()) == CONFIG.game


@pytest.mark.slow
def test_the_smallest_run(tmp_path):
    numbers = smoke_run("five_ranks", tmp_path).numbers
    assert [number.name for number in numbers] == [
        "exploitability after 20 iterations",
        "value to the button",
    ]
    assert all(number.paper is None for number in numbers)


def test_the_record_is_as_good_as_the_other_program():
    result = results.read_result(RECORD)
    for iterations, theirs in five_ranks.EXPLOITABILITY.items():
        assert result.number(f"exploitability after {iterations:,} iterations").value <= theirs
    value = result.number("value to the button")
    assert value.low < LOW < HIGH < value.high
    exploitability = result.number("exploitability after 1,000 iterations").value
    assert value.high - value.low == pytest.approx(2 * exploitability, rel=1e-3)


@pytest.mark.slow
def test_solving_is_as_good_as_the_other_program(tree):
    """Whatever the policies, the game's value lies between what best responses leave and win."""
    form, reach = tree.sequence_form, tree.root_reach
    prepared = prepare_cfr(cfr.make_solver(five_ranks.SOLVER), form, root_reach=reach)
    state = prepared.run(prepared.initial_state, 200)
    policy = prepared.average_policy(state)
    unit = tree.total_weight * 2 / 1000
    exploitability = float(evaluation.exploitability(form, policy, reach)) / unit
    assert exploitability <= five_ranks.EXPLOITABILITY[200]
    against_button, button = evaluation.best_response_value(form, policy, reach) / unit
    assert -against_button < LOW < HIGH < button
    assert button + against_button == pytest.approx(2 * exploitability, rel=1e-3)
