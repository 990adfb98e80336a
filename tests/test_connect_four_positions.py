"""The packaged positions of Connect Four, against the rules, minimax and the solver."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import cli
from experiments.perfect_information import connect_four_positions
from experiments.perfect_information.connect_four_positions import (
    CELLS,
    NO_MOVE,
    PACKAGED,
    read_positions,
)
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from solvers.perfect_information import minimax
from solvers.perfect_information.positions import legal_actions


@pytest.fixture(scope="module")
def positions():
    return read_positions()


@pytest.fixture(scope="module")
def states(positions):
    """The positions in the game of pgx, after a check that all moves are legal."""
    game = pgx_beliefs("connect_four")

    def follow(moves):
        def step(carry, move):
            state, fine = carry
            plays = move != NO_MOVE
            fine &= ~plays | legal_actions(game, state)[jnp.maximum(move, 0)]
            after = game.child(state, jnp.maximum(move, 0))
            state = jax.tree.map(lambda new, old: jnp.where(plays, new, old), after, state)
            return (state, fine), None

        (state, fine), _ = jax.lax.scan(step, (game.root(), jnp.bool_(True)), moves)
        return state, fine, legal_actions(game, state)

    state, fine, legal = jax.jit(jax.vmap(follow))(positions.moves)
    assert fine.all()
    np.testing.assert_array_equal(legal, ~np.isnan(positions.scores))
    return game, state


def test_the_first_player_wins_by_starting_in_the_centre(positions):
    (first,) = positions.scores[positions.ply == 0]
    np.testing.assert_array_equal(first, [-2, -1, 0, 1, 0, -1, -2])
    assert positions.keeps_result(np.full(len(positions.moves), 3))[0]
    assert not positions.keeps_result(np.full(len(positions.moves), 2))[0]


def test_positions_are_of_the_game_and_different(positions, states):
    assert len(positions.moves) > 900
    played = {tuple(line) for line in positions.moves}
    assert len(played) == len(positions.moves)
    assert (np.diff(positions.ply) >= 0).all()
    assert {*range(39)} == {*positions.ply}
    assert (np.isnan(positions.scores).sum(axis=1) <= 5).all(), "there is a choice"
    least = -(CELLS - positions.ply) // 2
    assert (np.nanmax(np.abs(positions.scores), axis=1) <= -least + 1).all()


def test_what_random_moves_keep(positions):
    """As the documentation says."""
    results = np.sign(positions.scores)
    keeps = results == np.nanmax(results, axis=1, keepdims=True)
    shares = keeps.sum(axis=1) / (~np.isnan(results)).sum(axis=1)
    assert shares.mean() == pytest.approx(0.69, abs=0.005)
    assert positions.matters.mean() == pytest.approx(0.53, abs=0.005)


def test_late_positions_are_scored_as_minimax_values_them(positions, states, monkeypatch):
    monkeypatch.setattr(minimax, "_BLOCK", 128)  # there are few positions at each depth
    game, state = states
    late = np.flatnonzero(positions.ply >= 35)[::6]
    assert len(late) > 12
    for number in late:
        here = jax.tree.map(lambda x, n=number: x[n], state)
        listed = minimax.enumerate_positions(game.replace(start=here))
        values = minimax.perfect_values(listed)
        sign = 1 if listed.actor[0] == 0 else -1
        for move in np.flatnonzero(~np.isnan(positions.scores[number])):
            expected = sign * values[listed.child[0, move]]
            assert np.sign(positions.scores[number, move]) == expected


def test_the_solver_scores_some_of_them_so_again(positions):
    import bitbully  # here, so that all other tests run without it

    solver = bitbully.BitBully()
    some = [*np.flatnonzero(positions.ply <= 8)[::20], *np.flatnonzero(positions.ply >= 22)[::20]]
    for number in some:
        moves = positions.moves[number]
        board = bitbully.Board(moves[moves != NO_MOVE].tolist())
        scores = solver.score_all_moves(board)
        found = [scores.get(column, np.nan) for column in range(7)]
        np.testing.assert_array_equal(found, positions.scores[number])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", str(PACKAGED)], "exists"),
        (["--out", "new.csv", "--per_ply", "0"], "per_ply=0 must be at least 1"),
    ],
)
def test_bad_options_are_refused(words, message, capsys):
    assert cli.main(["connect_four_positions", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_is_made_for_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(connect_four_positions, "_drawn", lambda *given: iter([{"moves": "3"}]))
    file = tmp_path / "new" / "positions.csv"
    assert cli.main(["connect_four_positions", "--out", str(file)]) == 0
    assert file.read_text().split() == ["moves", "3"]
