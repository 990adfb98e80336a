"""The experiment `scotland_yard_stages`: what it keeps and says, with made-up boards."""

import dataclasses
import types

import numpy as np
import pytest
from experiment_cases import smoke_run

from experiments.harness.runs import Run
from experiments.scotland_yard import scotland_yard_stages
from experiments.scotland_yard.scotland_yard_stages import COMMAND, PRESETS, Config
from jaxgames import make
from solvers.scotland_yard import SomeBoards

GAMES = tuple(f"scotland_yard(map=glasses,rounds={rounds},reveals=1/2)" for rounds in (4, 5))
CONFIG = Config(games=GAMES)


class Solver:
    """Made-up boards: one, then three, then five in two parts."""

    def __init__(self):
        self.solved, self.fails_at = [], None

    def __call__(self, game, *, num_iterations, boards_at_once, keep):
        def part(moves, first, values):
            def solve():
                if (game.game.rounds, moves) == self.fails_at:
                    raise KeyboardInterrupt
                self.solved.append((game.game.rounds, moves, first))
                return np.array(values) / game.game.rounds, np.full(len(values), 0.001)

            return keep(SomeBoards(moves=moves, first=first, count=len(values), total=9), solve)

        last = [part(2, 0, [-5.0, 5.0, 0.1 + 0.2]), part(2, 3, [-5.0, 3.0])]
        below = tuple(np.concatenate(each) for each in zip(*last, strict=True))
        parts = below, part(1, 0, [2.0, 1.0, -1.0]), part(0, 0, [0.7])
        stages = [stage(*each) for each in zip((2, 1, 0), parts, strict=True)]
        return types.SimpleNamespace(stages=stages[::-1])


def stage(moves, solved):
    values, errors = solved
    return types.SimpleNamespace(
        moves=moves, values=values, num_states=10 * len(values), error=errors.max()
    )


@pytest.fixture
def solver(monkeypatch):
    made = Solver()
    monkeypatch.setattr(scotland_yard_stages, "solve_by_stages", made)
    return made


def compute(out, *, resume=False):
    arguments = COMMAND.arguments(preset="smoke", out=out, resume=resume)
    return scotland_yard_stages.compute(Run(arguments, CONFIG, experiment="", command=""))


def test_an_interrupted_run_goes_on_to_the_same_numbers(tmp_path, solver):
    solver.fails_at = (5, 1)
    with pytest.raises(KeyboardInterrupt):
        compute(tmp_path / "resumed")
    solver.fails_at = None
    solver.solved.clear()
    resumed = compute(tmp_path / "resumed", resume=True)
    assert solver.solved == [(5, 1, 0), (5, 0, 0)]
    assert resumed == compute(tmp_path / "whole")  # every bit


def test_means_are_of_all_boards(tmp_path, solver):
    stages = compute(tmp_path)
    start, first, second = scotland_yard_stages.of_game(stages, GAMES[1])
    assert (start.mean, start.moves_left) == (0.7 / 5, 5)
    assert first.mean == pytest.approx(2 / 15)
    assert (second.mean, second.boards) == (pytest.approx(-1.7 / 25), 5)
    assert (second.won, second.lost, second.states) == (0.2, 0.4, 50)


def test_a_game_has_its_value_and_a_bound(tmp_path, solver):
    stages = compute(tmp_path)
    numbers = {number.name: number for number in scotland_yard_stages.numbers(CONFIG, stages)}
    assert numbers[f"{GAMES[1]}:value"].value == 0.7 / 5
    assert numbers[f"{GAMES[1]}:exploitability, at most"].value == pytest.approx(0.003)
    name = f"{GAMES[1]}:mean of the reached boards, 3 moves left"
    assert numbers[name].value == pytest.approx(-1.7 / 25)


def test_stages_are_shown(tmp_path, solver):
    stages = compute(tmp_path)
    first, _ = scotland_yard_stages.tables(CONFIG, stages)
    assert [*first.columns[1].cells] == ["1", "3", "5"]
    scotland_yard_stages.draw(tmp_path / "curve.png", CONFIG, stages)
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert len([*scotland_yard_stages.rows(CONFIG, stages)]) == 6


def test_boards_that_were_kept_must_be_those_that_are_asked_for(tmp_path, solver, monkeypatch):
    solver.fails_at = (4, 1)
    with pytest.raises(KeyboardInterrupt):
        compute(tmp_path)
    other = Solver()

    def more(*args, keep, **settings):
        def one_more(boards, solve):
            return keep(dataclasses.replace(boards, count=4), solve)

        return other(*args, keep=one_more, **settings)

    monkeypatch.setattr(scotland_yard_stages, "solve_by_stages", more)
    with pytest.raises(ValueError, match=r"3 values of .*count=4.* were kept: use another --out"):
        compute(tmp_path, resume=True)


@pytest.mark.parametrize("game", ["scotland_yard(map=district)", "leduc_poker"])
def test_games_without_reveals_are_refused(game):
    with pytest.raises(ValueError, match="must be Scotland Yard with reveals"):
        Config(games=(game,))


def test_the_games_of_all_presets_show_mr_x():
    games = [make(game) for preset in PRESETS.values() for game in preset.games]
    assert all(game.reveal_mask.any() for game in games)


@pytest.mark.slow
def test_it_solves_a_game(tmp_path):
    result = smoke_run("scotland_yard_stages", tmp_path)
    (game,) = PRESETS["smoke"].games
    assert result.number(f"{game}:value").value == pytest.approx(-1)
    assert 0 <= result.number(f"{game}:exploitability, at most").value < 0.005
