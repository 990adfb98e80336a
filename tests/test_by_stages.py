"""Scotland Yard stage by stage, against whole games."""

import numpy as np
import pytest
import row_program
from yard_cases import FULL

from jaxgames import make
from jaxgames.beliefs import list_public_states
from solvers import cfr, evaluation
from solvers.scotland_yard import by_stages, solve_by_stages
from solvers.sequence_form import sequence_form_of_beliefs

DEALT = "scotland_yard(map=district,edition=district_reveals{})"  # Mr X's start is drawn in secret


@pytest.mark.parametrize(
    ("name", "boards_at_once"),
    [
        pytest.param(
            FULL, 100, marks=pytest.mark.slow
        ),  # a double move goes on after the reveal, and cards run out
        pytest.param(FULL, 20, marks=pytest.mark.slow),
        pytest.param(DEALT.format(""), 100, marks=pytest.mark.slow(minutes=2)),
        pytest.param(DEALT.format(",reveals=1/2"), 100, marks=pytest.mark.slow(minutes=2)),
    ],
)
def test_value_is_that_of_the_whole_game(name, boards_at_once):
    """By a linear program over all rows of the game."""
    game = make(name).belief_game()
    solved = solve_by_stages(game, boards_at_once=boards_at_once)
    assert [stage.moves for stage in solved.stages] == [0, *game.game.reveals]
    assert solved.exploitability_bound < 0.005
    value = row_program.game_value(game, list_public_states(game))
    assert abs(solved.value - value) < solved.exploitability_bound + 1e-5


@pytest.mark.slow(minutes=2)
def test_six_rounds_of_the_district():
    game = make("scotland_yard(map=district,reveals=3)").belief_game()
    form = sequence_form_of_beliefs(game, list_public_states(game))
    state = cfr.run(form, cfr.init(form), solver=cfr.pcfr_plus(), num_iterations=400)
    most, least = evaluation.best_response_value(form, cfr.average_policy(form, state))
    assert most + least < 0.005
    solved = solve_by_stages(game)
    assert solved.exploitability_bound < 0.005
    assert -least - 0.005 < solved.value < most + 0.005


@pytest.mark.slow
def test_boards_that_were_kept_are_not_solved_again(monkeypatch):
    game, known, asked = make(FULL).belief_game(), {}, []

    def solve_all(boards, solve):
        asked.append(boards)
        known[boards] = solve()
        return known[boards]

    first = solve_by_stages(game, boards_at_once=20, keep=solve_all)
    counts = {stage.moves: len(stage.values) for stage in first.stages}
    moves = [boards.moves for boards in asked]
    assert moves == sorted(moves, reverse=True)  # the last stage first
    assert {m: sum(b.count for b in asked if b.moves == m) for m in counts} == counts
    assert {boards.total for boards in asked} == {sum(counts.values())}
    assert all(boards.first % 20 == 0 and 0 < boards.count <= 20 for boards in asked)
    assert any(boards.first for boards in asked)
    monkeypatch.setattr(by_stages, "_solve_part", lambda *args: pytest.fail("solved again"))
    again = solve_by_stages(game, boards_at_once=20, keep=lambda boards, solve: known[boards])
    for one, other in zip(first.stages, again.stages, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.errors, other.errors)


def test_kept_values_must_be_of_the_boards():
    wrong = np.zeros(2), np.zeros(2)
    game = make("scotland_yard(map=glasses,rounds=1,reveals=1)").belief_game()
    with pytest.raises(ValueError, match=r"keep has returned 2 values for \d+ boards: SomeBoards"):
        solve_by_stages(game, keep=lambda boards, solve: wrong)


@pytest.mark.parametrize("name", ["num_iterations", "boards_at_once"])
def test_nothing_to_do_is_refused(name):
    with pytest.raises(ValueError, match=f"{name}=0 must be at least 1"):
        solve_by_stages(make(FULL).belief_game(), **{name: 0})
