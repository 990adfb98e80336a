"""The experiment `scotland_yard_stages`: what it keeps and says, with made-up boards."""

import types

import numpy as np
import pytest

from experiments.harness.runs import Run
from experiments.scotland_yard import scotland_yard_stages
from experiments.scotland_yard.scotland_yard_stages import COMMAND, Config
from solvers.scotland_yard.by_stages import Boards

GAME = "scotland_yard(map=glasses,rounds=4,reveals=2)"
CONFIG = Config(games=(GAME,))
BELOW = np.array([-1.0, 1.0, 0.5, -0.5, 0.1])  # of the boards after the reveal, two parts
ROOT = np.array([0.1 + 0.2])


@pytest.fixture
def solved(monkeypatch):
    """Boards that were solved, of a game whose root follows five others; the last may be asked to
    fail."""
    log = []

    def solve_by_stages(game, *, num_iterations, boards_at_once, keep):
        def part(moves, first, values):
            def solve():
                log.append((moves, first))
                if "stop" in log and moves == 0:
                    raise KeyboardInterrupt
                return values, np.full(len(values), 0.001 * (moves + 1))

            return keep(Boards(moves=moves, first=first, count=len(values), of=6), solve)

        parts = [part(2, 0, BELOW[:3]), part(2, 3, BELOW[3:])]
        below = [np.concatenate(each) for each in zip(*parts, strict=True)]
        stages = [(0, part(0, 0, ROOT), 10), (2, below, 50)]
        found = [
            types.SimpleNamespace(
                moves=moves, values=own[0], errors=own[1], num_states=states, error=own[1].max()
            )
            for moves, own, states in stages
        ]
        return types.SimpleNamespace(stages=found)

    monkeypatch.setattr(scotland_yard_stages, "solve_by_stages", solve_by_stages)
    return log


def compute(tmp_path, *, resume=False):
    arguments = COMMAND.arguments(preset="smoke", out=tmp_path / "run", resume=resume)
    return scotland_yard_stages.compute(Run(arguments, CONFIG, experiment="", command=""))


def test_an_interrupted_run_goes_on_to_the_same_numbers(tmp_path, solved):
    solved.append("stop")
    with pytest.raises(KeyboardInterrupt):
        compute(tmp_path)
    assert solved == ["stop", (2, 0), (2, 3), (0, 0)]
    solved.clear()
    root, below = compute(tmp_path, resume=True)
    assert solved == [(0, 0)]
    assert (root.mean, root.error, root.states) == (0.1 + 0.2, 0.001, 10)  # every bit
    assert (below.boards, below.rounds_left) == (5, 2)
    assert below.mean == pytest.approx(0.02)
    assert (below.lost, below.won) == (0.2, 0.2)
    assert (below.low, below.high) == pytest.approx((-0.8, 0.8))


def test_values_and_their_bound_are_numbers(tmp_path, solved):
    stages = compute(tmp_path)
    numbers = {number.name: number for number in scotland_yard_stages.numbers(CONFIG, stages)}
    assert numbers[f"value:{GAME}"].value == 0.1 + 0.2
    assert numbers[f"exploitability, at most:{GAME}"].value == pytest.approx(0.004)
    assert numbers[f"mean of 5 boards, 2 rounds left:{GAME}"].value == pytest.approx(0.02)
    (table,) = scotland_yard_stages.tables(CONFIG, stages)
    assert [*table.columns[1].cells] == ["1", "5"]
    scotland_yard_stages.draw(tmp_path / "curve.png", CONFIG, stages)
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert len([*scotland_yard_stages.rows(CONFIG, stages)]) == 2
