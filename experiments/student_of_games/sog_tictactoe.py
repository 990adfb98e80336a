"""Student of Games in tic-tac-toe, a game of perfect information.

An agent is trained by sound self-play, where searches add one child at a time (the paper's k = 1),
as Schmid et al. 2023 do in chess and Go. The agent plays the likeliest action of its search. Its
results against a perfect player and against the best response to it are exact: it is asked for its
action in every position that it can meet.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Float, PyTree
from rich.table import Table

from experiments.harness import devices, plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.runs import Run
from experiments.student_of_games.training_run import LOG, lost_queries, shared_sizes, student
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.arrays import at, index_batches
from jaxgames.core import TERMINAL
from nets import cvpn, parameters
from solvers.device_batches import split_calls
from solvers.perfect_information import minimax
from solvers.perfect_information.minimax import NOWHERE, Positions
from solvers.search import continual_resolving, growing_tree_cfr, readouts
from solvers.search.search_state import GrowingTreeCfr
from train.agent import training_settings
from train.paper_settings import PAPER_QUERIES
from train.self_play import SelfPlaySettings

_SEATS = ("first", "second")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The training and its measurements.

    A step of training plays `episodes` moves of self-play and solves `solves` queries.
    """

    simulations: tuple[int, ...]  # of the searches that are measured
    seeds: int  # of the measurements
    measured_at: tuple[int, ...]  # steps of training, which ends at the last
    training_simulations: int = 32
    expand: int = 1  # how many children a new node starts with
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


_QUERIES = PAPER_QUERIES["chess"]
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
class Cell:
    """An agent after some training, in one of the seats."""

    step: int
    simulations: int
    seed: int
    seat: str
    lost: float  # shares of games against a perfect player
    drawn: float
    won: float
    worst: float  # payoff against the best response: -1 if that wins, 0 if the agent never loses


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The trained network, and how agents with it play."""

    cells: list[Cell]
    params: PyTree


def compute(run: Run) -> Outcome:
    """Trains and measures."""
    student = _Student(run)
    cells = [cell for step in run.config.measured_at for cell in student.measure_at(step)]
    return Outcome(cells, student.trainee.params)


class _Student:
    """An agent in training, which is measured on the way."""

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
            steps=config.measured_at[-1],
            policy_weight=1.0,
            self_play=SelfPlaySettings(exploration=0.25),
            queries_per_search=_QUERIES[0],
            queries_per_solve=_QUERIES[1],
        )
        self.trainee = student(self.game, network, settings, run)

    def measure_at(self, step: int) -> list[Cell]:
        """Trains up to `step` and measures, unless an interrupted run has measured there."""
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
            choose = functools.partial(
                _likeliest,
                self.game,
                self.trainee.params,
                settings=self._search(simulations),
                mesh=devices.local(self.run.mesh),
            )
            for seed, key in enumerate(jax.random.split(jax.random.key(1), self.config.seeds)):
                policy = composed(
                    self.positions, functools.partial(choose, key), batch=self.config.batch
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


@functools.partial(jax.jit, static_argnames=("settings", "mesh"))
def _likeliest(game, params, key, numbers, states, *, settings, mesh):
    """The likeliest action of a search at each of these positions, which devices share."""

    def actions(shared, batch):
        game, params, key = shared
        problem = continual_resolving.first_problem(game, max_path=settings.max_path)

        def action(number, state):
            noise, here = jax.random.fold_in(key, number), problem.replace(state=state)
            search = growing_tree_cfr.search(game, params, noise, problem=here, settings=settings)
            first, second = readouts.average_policy(search)
            return jnp.argmax(first[:, 0] + second[:, 0])

        return jax.vmap(action)(*batch)

    return split_calls(actions, mesh)((game, params, key), (numbers, states))


def composed(
    positions: Positions, choose: Callable[..., Any], *, batch: int
) -> Float[np.ndarray, "S A"]:
    """The policy of an agent at the positions that it can meet from either seat.

    No search needs anything from the ones before: the game hides nothing, so that a search starts
    at the position at which it acts.

    Args:
      positions: all S positions of the game.
      choose: `choose(numbers, states)` returns the agent's actions at `batch` positions.
      batch: how many positions are asked for at a time.

    Returns:
      1 at the action that the agent plays; 0 at all actions of positions that it cannot meet.
    """
    policy = np.zeros(positions.child.shape)
    met = np.zeros((2, len(positions.actor)), bool)  # by seat of the agent
    met[:, 0] = True
    for depth in range(int(positions.depth.max())):
        level = np.flatnonzero((positions.depth == depth) & (positions.actor >= 0))
        own = level[met[positions.actor[level], level]]
        for numbers in index_batches(len(own), batch):
            part = own[numbers]
            states = at(positions.state, part)
            policy[part, np.asarray(choose(part.astype(np.int32), states))] = 1
        for seat in range(2):  # the agent takes its action, the other player any
            taken = np.where((positions.actor[level] == seat)[:, None], policy[level] > 0, True)
            taken &= met[seat, level][:, None] & (positions.child[level] != NOWHERE)
            met[seat, positions.child[level][taken]] = True
    return policy


def against_best(positions: Positions, policy: Float[np.ndarray, "S A"], *, seat: int) -> float:
    """The payoff of the policy in this seat against the best response to it."""
    values = minimax.best_response_values(positions, policy, player=1 - seat)
    return float(values[0] if seat == 0 else 0 - values[0])  # no -0


def against_perfect(
    positions: Positions, policy: Float[np.ndarray, "S A"], *, seat: int
) -> tuple[float, float, float]:
    """Shares of games that the policy loses, draws and wins in this seat against a perfect player.

    The perfect player plays all moves that keep the value of the position equally often.
    """
    own = (positions.actor == seat)[:, None]
    both = np.where(own, policy, minimax.perfect_policy(positions))
    reach = np.zeros(len(positions.actor))
    reach[0] = 1
    for depth in range(int(positions.depth.max())):
        level = np.flatnonzero(positions.depth == depth)
        children = positions.child[level]
        legal = children != NOWHERE
        np.add.at(reach, children[legal], (reach[level, None] * both[level])[legal])
    payoff = positions.payoff if seat == 0 else -positions.payoff
    over = positions.actor == TERMINAL
    return tuple(float(reach[over & (np.sign(payoff) == sign)].sum()) for sign in (-1, 0, 1))


def draw(path: pathlib.Path, config: Config, outcome: Outcome) -> None:
    """Mean losses to a perfect player and to the best response, against training steps."""
    measured = {
        "lost to a perfect player": lambda cell: cell.lost,
        "lost to the best reply": lambda cell: -cell.worst,
    }
    with plots.figure(path, rows=1, columns=2, size=(7.6, 2.8)) as axes:
        for panel, (name, lost) in zip(axes[0], measured.items(), strict=True):
            lines = [
                plots.Band(
                    name=f"SoG({simulations},1)",
                    x=config.measured_at,
                    samples=[
                        [np.mean([*map(lost, _cells_of(outcome, step, simulations))]).item()]
                        for step in config.measured_at
                    ],
                )
                for simulations in config.simulations
            ]
            plots.bands(panel, lines, published={}, x_label="training steps", log_x=False)
            panel.set_xscale("symlog", linthresh=config.measured_at[1])
            panel.set(yscale="linear", ylabel=name, xlim=(0, None))
        axes[0, 0].set_title("Student of Games, tic-tac-toe")


def _cells_of(outcome: Outcome, step: int, simulations: int) -> list[Cell]:
    """The cells of all seeds and seats."""
    key = (step, simulations)
    return [cell for cell in outcome.cells if (cell.step, cell.simulations) == key]


def rows(config: Config, outcome: Outcome) -> Iterator[dict[str, object]]:
    """A row for every cell."""
    return map(dataclasses.asdict, outcome.cells)


def numbers(config: Config, outcome: Outcome) -> Iterator[results.Number]:
    """What the agent loses and draws, before and after training."""
    ends = [step for step in config.measured_at if step in (0, config.measured_at[-1])]
    for step, simulations in itertools.product(ends, config.simulations):
        cells = _cells_of(outcome, step, simulations)
        samples = {
            "lost to a perfect player": [cell.lost for cell in cells],
            "drawn with a perfect player": [cell.drawn for cell in cells],
            "lost to the best reply": [0 - cell.worst for cell in cells],
        }
        for name, values in samples.items():
            yield results.Number(
                name=f"{'' if step else 'untrained '}SoG({simulations},1): {name}",
                value=float(np.mean(values)),
                unit="payoff" if name.endswith("reply") else "share of games",
                low=min(values),
                high=max(values),
                seeds=config.seeds,
            )


def measure(config: Config) -> str:
    """What the numbers are."""
    return (
        "games against a perfect player, and what the best reply to the agent wins, exactly; mean"
        f" of both seats and {config.seeds} seeds of search"
    )


def tables(config: Config, outcome: Outcome) -> Iterator[Table]:
    """Mean results by training steps and simulations."""
    texts = []
    for step, simulations in itertools.product(config.measured_at, config.simulations):
        cells = _cells_of(outcome, step, simulations)
        shares = (
            f"{np.mean([getattr(cell, name) for cell in cells]):.3f}"
            for name in ("lost", "drawn", "won")
        )
        worst = f"{0 - np.mean([cell.worst for cell in cells]):.3f}"
        texts.append((f"{step:,}", f"SoG({simulations},1)", *shares, worst))
    headings = ("step", "agent", "lost", "drawn", "won", "lost to the best reply")
    yield text_table(f"sog_tictactoe: {measure(config)}", headings, texts, labels=0)


COMMAND = Experiment(
    name="sog_tictactoe",
    shown="what the agent loses as training goes on",
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "ten minutes on one core",
        "paper": "more of everything, for an accelerator",
    },
    batches=lambda config: shared_sizes(config) | {"batch": config.batch},
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    error_bars="the least and the most of a seat and a seed",
    measure=measure,
    deviations=lambda config: (
        "the paper plays chess and Go; tic-tac-toe, its network and the scale of its training are"
        " ours",
        "PUCT's constant is not published; here it is 1, beside payoffs from -1 to 1",
        "a quarter of the moves of self-play is uniform (the paper: none in chess and Go)",
        *lost_queries(config, *_QUERIES),
    ),
    more_files=("network.npz", LOG),
    write_more=lambda run, outcome: results.write_file(
        run.out / "network.npz", parameters.to_bytes(outcome.params)
    ),
)
