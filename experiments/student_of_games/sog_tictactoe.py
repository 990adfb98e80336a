"""Student of Games in tic-tac-toe, a game of perfect information.

Training by sound self-play, searching with one new child at a time (the paper's k = 1), as Schmid
et al. 2023 do in chess and Go. The agent plays the likeliest action of its search. What is measured
is exact: what it gets against a perfect player, and against the best reply to it, in all the
positions that it can meet.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Float
from rich.console import Console
from rich.table import Table

from experiments.harness import plots, results
from experiments.harness.runs import Run, RunArguments
from experiments.student_of_games.training_run import LOG, student, training_settings
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.core import TERMINAL
from nets import cvpn
from solvers.perfect_information import minimax
from solvers.perfect_information.minimax import NOWHERE, Positions
from solvers.search import continual_resolving, growing_tree_cfr, readouts
from solvers.search.search_state import GrowingTreeCfr
from train.self_play import SelfPlaySettings

_SEATS = ("first", "second")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is trained and measured. A step plays `episodes` moves and solves `solves` queries."""

    simulations: tuple[int, ...]  # measured
    seeds: int
    measured_at: tuple[int, ...]  # steps of training, the last of which ends it
    training_simulations: int = 32
    expand: int = 1  # children that a new node starts with
    width: int = 64
    depth: int = 2
    episodes: int = 32
    solves: int = 32
    updates: int = 8
    learning_rate: float = 2e-3
    decay: float = 0.02  # of the learning rate, from the first update to the last
    batch_size: int = 128
    capacity: int = 20_000  # of the replay buffer
    batch: int = 64  # searches side by side when measured
    game: str = "pgx:tic_tac_toe"


PRESETS = {
    "smoke": Config(
        simulations=(4,),
        seeds=1,
        measured_at=(0, 6),
        training_simulations=4,
        width=16,
        depth=1,
        episodes=8,
        solves=8,
        updates=1,
        batch_size=16,
        capacity=200,
    ),
    "cpu": Config(simulations=(16, 64, 256), seeds=10, measured_at=(0, 100, 300, 1000, 3000)),
    "paper": Config(
        simulations=(16, 64, 256),
        seeds=50,
        measured_at=(0, 300, 1000, 3000, 10_000),
        training_simulations=64,
        episodes=256,
        solves=256,
        batch_size=512,
        capacity=200_000,
        batch=512,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Train a Student of Games agent in tic-tac-toe, and see whether it ever loses.

    Writes what the agent loses as training goes on as curve.csv and curve.png, the trained network
    and result.json into --out. Ctrl-C leaves a checkpoint there, from which --resume continues to
    exactly the same numbers.
    """

    preset: Literal["smoke", "cpu", "paper"] = "cpu"
    """smoke: a minute; cpu: ten minutes on one core; paper: more of everything, for an
    accelerator."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One agent after some training, from one seat."""

    step: int
    simulations: int
    seed: int
    seat: str
    lost: float  # shares of games against the perfect player
    drawn: float
    won: float
    worst: float  # what it gets against the best reply: -1 loses, 0 never loses


def main(arguments: Arguments, *, command: str) -> None:
    """Trains, measures and writes the results.

    Raises:
      ValueError: the folder holds another run.
      FloatingPointError: training met a number that is not finite.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; a checkpoint has been left.
    """
    config = PRESETS[arguments.preset]
    files = ("curve.csv", "curve.png", "network.npz", LOG)
    run = Run(arguments, config, experiment="sog_tictactoe", command=command, files=files)
    student = _Student(run)
    cells = [cell for step in config.measured_at for cell in student.measure_at(step)]
    results.write_csv(run.out / "curve.csv", [dataclasses.asdict(cell) for cell in cells])
    results.write_file(run.out / "network.npz", cvpn.to_bytes(student.trainee.params))
    draw(run.out / "curve.png", config, cells)
    ends = [step for step in config.measured_at if step in (0, config.measured_at[-1])]
    run.finish(
        [number for step in ends for number in _numbers(config, cells, step)],
        measure=_measure(config),
        deviations=["the paper plays chess and Go; tic-tac-toe is ours"],
    )
    _print(config, cells)


class _Student:
    """An agent in training, and what it loses on the way."""

    def __init__(self, run: Run):
        self.run, self.config = run, run.config
        config = self.config
        self.game = pgx_beliefs(config.game.removeprefix("pgx:"))
        self.positions = minimax.enumerate_positions(self.game)
        network = cvpn.new_cvpn(self.game, seed=0, width=config.width, depth=config.depth)
        self.evaluate = cvpn.CvpnEvaluator(nnx.graphdef(network))
        settings = training_settings(
            config,
            self._search(config.training_simulations),
            policy_weight=1.0,
            self_play=SelfPlaySettings(exploration=0.25),
            queries_per_search=1.0,
            queries_per_solve=0.2,
        )
        self.trainee = student(self.game, network, settings, run)

    def measure_at(self, step: int) -> list[Cell]:
        """Trains up to `step`, unless nothing is left to be done there, and measures."""
        if step == self.config.measured_at[-1]:
            self.trainee.train(step)
        return self.run.kept(str(step), Cell, lambda: self._measure(step))

    def _search(self, simulations: int) -> GrowingTreeCfr:
        return GrowingTreeCfr(
            self.evaluate, simulations=simulations, max_path=1, expand=self.config.expand
        )

    def _measure(self, step: int) -> Iterator[Cell]:
        self.trainee.train(step)
        for simulations in self.config.simulations:
            find = functools.partial(
                _likeliest, self.game, self.trainee.params, settings=self._search(simulations)
            )
            for seed, key in enumerate(jax.random.split(jax.random.key(1), self.config.seeds)):
                policy = composed(
                    self.positions, functools.partial(find, key), batch=self.config.batch
                )
                for seat in range(2):
                    shares = against_perfect(self.positions, policy, seat=seat)
                    yield Cell(
                        step=step,
                        simulations=simulations,
                        seed=seed,
                        seat=_SEATS[seat],
                        worst=against_best(self.positions, policy, seat=seat),
                        **dict(zip(("lost", "drawn", "won"), shares, strict=True)),
                    )


@functools.partial(jax.jit, static_argnames="settings")
def _likeliest(game, params, key, numbers, states, *, settings):
    """The likeliest action of a search at each of these positions."""
    problem = continual_resolving.first_problem(game, max_path=settings.max_path)

    def one(number, state):
        noise, asked = jax.random.fold_in(key, number), problem.replace(state=state)
        found = growing_tree_cfr.search(game, params, noise, problem=asked, settings=settings)
        return jnp.argmax(readouts.average_policy(found)[:, 0])

    return jax.vmap(one)(numbers, states)


def composed(positions: Positions, find: Any, *, batch: int) -> Float[np.ndarray, "S A"]:
    """What an agent plays at all positions that it can meet, from either seat; elsewhere 0.

    `find(numbers, states)` gives its actions at `batch` positions. Nothing is hidden: searches
    start where they act, and need nothing from the ones before.
    """
    policy = np.zeros(positions.child.shape)
    met = np.zeros((2, len(positions.actor)), bool)  # by seat
    met[:, 0] = True
    for depth in range(int(positions.depth.max())):
        here = np.flatnonzero((positions.depth == depth) & (positions.actor >= 0))
        mine = here[met[positions.actor[here], here]]
        for begin in range(0, len(mine), batch):
            some = mine[np.minimum(np.arange(begin, begin + batch), len(mine) - 1)]
            states = jax.tree.map(lambda x, some=some: x[some], positions.state)
            policy[some, np.asarray(find(some.astype(np.int32), states))] = 1
        for seat in range(2):
            goes = np.where((positions.actor[here] == seat)[:, None], policy[here] > 0, True)
            goes &= met[seat, here][:, None] & (positions.child[here] != NOWHERE)
            met[seat, positions.child[here][goes]] = True
    return policy


def against_best(positions: Positions, policy: Float[np.ndarray, "S A"], *, seat: int) -> float:
    """What the policy gets from this seat against the best reply to it."""
    values = minimax.best_response_values(positions, policy, player=1 - seat)
    return float(values[0] if seat == 0 else 0 - values[0])  # no -0


def against_perfect(
    positions: Positions, policy: Float[np.ndarray, "S A"], *, seat: int
) -> tuple[float, float, float]:
    """Shares of games that the policy loses, draws and wins from this seat against a perfect
    player, who plays all moves that keep the value equally often."""
    mine = (positions.actor == seat)[:, None]
    both = np.where(mine, policy, minimax.perfect_policy(positions))
    reach = np.zeros(len(positions.actor))
    reach[0] = 1
    for depth in range(int(positions.depth.max())):
        here = np.flatnonzero(positions.depth == depth)
        there = positions.child[here] != NOWHERE
        np.add.at(reach, positions.child[here][there], (reach[here, None] * both[here])[there])
    payoff = positions.payoff if seat == 0 else -positions.payoff
    over = positions.actor == TERMINAL
    return tuple(float(reach[over & (np.sign(payoff) == sign)].sum()) for sign in (-1, 0, 1))


def draw(path: pathlib.Path, config: Config, cells: Sequence[Cell]) -> None:
    """What is lost to a perfect player and to the best reply, against training steps: means."""
    measured = {
        "lost to a perfect player": lambda cell: cell.lost,
        "lost to the best reply": lambda cell: -cell.worst,
    }
    with plots.figure(path, rows=1, columns=2, size=(7.6, 2.8)) as axes:
        for place, (name, lost) in zip(axes[0], measured.items(), strict=True):
            lines = [
                plots.Band(
                    name=f"SoG({simulations},1)",
                    x=config.measured_at,
                    samples=[
                        [float(np.mean([lost(cell) for cell in _some(cells, step, simulations)]))]
                        for step in config.measured_at
                    ],
                )
                for simulations in config.simulations
            ]
            plots.bands(place, lines, published={}, x_label="training steps", log_x=False)
            place.set_xscale("symlog", linthresh=config.measured_at[1])
            place.set(yscale="linear", ylabel=name, xlim=(0, None))
        axes[0, 0].get_legend().remove()
        axes[0, 0].set_title("Student of Games, tic-tac-toe")


def _some(cells, step, simulations):
    return [cell for cell in cells if (cell.step, cell.simulations) == (step, simulations)]


def _measure(config: Config) -> str:
    return (
        "games against a perfect player, and what the best reply to the agent wins, exactly; mean"
        f" of both seats and {config.seeds} seeds of search; low and high are the least and the"
        " most of a seat and seed"
    )


def _numbers(config: Config, cells: Sequence[Cell], step: int) -> list[results.Number]:
    numbers = []
    for simulations in config.simulations:
        some = _some(cells, step, simulations)
        measured = {
            "lost to a perfect player": [cell.lost for cell in some],
            "drawn with a perfect player": [cell.drawn for cell in some],
            "lost to the best reply": [0 - cell.worst for cell in some],
        }
        for name, values in measured.items():
            numbers.append(
                results.Number(
                    name=f"{'' if step else 'untrained '}SoG({simulations},1): {name}",
                    value=float(np.mean(values)),
                    unit="payoff" if name.endswith("reply") else "share of games",
                    low=min(values),
                    high=max(values),
                    seeds=config.seeds,
                )
            )
    return numbers


def _print(config: Config, cells: Sequence[Cell]) -> None:
    table = Table(title=f"sog_tictactoe: {_measure(config)}")
    for column in ("step", "agent", "lost", "drawn", "won", "lost to the best reply"):
        table.add_column(column, justify="right")
    for step in config.measured_at:
        for simulations in config.simulations:
            some = _some(cells, step, simulations)
            means = (np.mean([getattr(c, name) for c in some]) for name in ("lost", "drawn", "won"))
            worst = f"{0 - np.mean([cell.worst for cell in some]):.3f}"
            shown = (f"{mean:.3f}" for mean in means)
            table.add_row(f"{step:,}", f"SoG({simulations},1)", *shown, worst)
    Console().print(table)
