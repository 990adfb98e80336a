"""The experiments that learn Connect Four, at their smallest."""

import jax
import numpy as np
import pytest
from experiment_cases import smoke_run

from experiments.perfect_information import move_quality
from experiments.perfect_information.connect_four_positions import read_positions
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from solvers.perfect_information.positions import legal_actions


def test_chosen_moves_are_those_of_each_position():
    game, positions = pgx_beliefs("connect_four"), read_positions().every(40)
    states = move_quality.states_of(game, positions)
    legal = jax.jit(jax.vmap(lambda state: legal_actions(game, state)))

    def lowest(numbers, states):
        assert len(numbers) == 8
        return np.argmax(legal(states), axis=1)

    moves = move_quality.chosen_moves(lowest, states, len(positions.moves), batch=8)
    np.testing.assert_array_equal(moves, np.argmax(~np.isnan(positions.scores), axis=1))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "agent"), [("alphazero", "AlphaZero(4)"), ("sog", "SoG(4,1)")])
def test_learning_connect_four(tmp_path, name, agent):
    result = smoke_run(f"{name}_connect_four", tmp_path)
    measures = ("keeps the result", "keeps it where that matters", "best move")
    assert [number.name for number in result.numbers] == [
        f"{when}{player}: {what}"
        for when in ("untrained ", "")
        for player in ("network alone", agent)
        for what in measures
    ]
    assert all(0 <= number.value <= 1 for number in result.numbers)
    assert (tmp_path / "networks" / "0.npz").exists()
