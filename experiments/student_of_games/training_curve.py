"""Training a Student of Games agent, and its exact exploitability as training goes on.

What `sog_leduc` and `sog_glasses` share (Schmid et al. 2023, Fig. 3): the agent searches at every
public state, or wherever it is to act, with several numbers of simulations. The paper does not give
the networks and the settings of these games; ours are the experiments' presets.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence

from flax import nnx
from rich.console import Console
from rich.table import Table

from experiments.harness import plots, published, results
from experiments.harness.runs import Run, RunArguments
from experiments.student_of_games import search_laboratory
from experiments.student_of_games.search_laboratory import Laboratory
from experiments.student_of_games.training_run import LOG, student, training_settings
from nets import cvpn
from solvers.search.agent_exploitability import agents
from solvers.search.growing_tree_cfr import GrowingTreeCfr


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is trained and measured. A step plays `episodes` moves and solves `solves` queries."""

    game: str
    simulations: tuple[int, ...]  # measured
    seeds: int
    measured_at: tuple[int, ...]  # steps of training, the last of which ends it
    training_simulations: int = 100
    width: int = 128
    depth: int = 3
    episodes: int = 16
    solves: int = 16
    updates: int = 4
    queries_per_search: float = 0.9
    queries_per_solve: float = 0.3
    learning_rate: float = 3e-3
    decay: float = 0.02  # of the learning rate, from the first update to the last
    batch_size: int = 256
    capacity: int = 100_000  # of the replay buffer
    exploration: float = 1.0  # of PUCT when measured
    smoothing: float = 0.0  # share of uniform in the ranges that the network sees, when measured
    own_decisions_only: bool = False  # when measured; or the agent searches at the other's too
    batch: int = 16  # searches side by side when measured
    max_path: int = 2  # public states from one decision to the next
    seed: int = 0  # of the network and of training


_SMOOTHED = (
    "when measured, the network sees ranges of which a share of {} is uniform, unless a number says"
    " without smoothing"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One agent after some training."""

    step: int
    simulations: int
    smoothing: float
    exploitability: list[float]  # by seed


def run(arguments: RunArguments, config: Config, *, experiment: str, command: str) -> None:
    """Trains, measures and writes the results into `arguments.out`.

    Raises:
      ValueError: the folder holds another run.
      FloatingPointError: training met a number that is not finite.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; a checkpoint has been left.
    """
    files = ("curve.csv", "curve.png", "network.npz", LOG)
    run = Run(arguments, config, experiment=experiment, command=command, files=files)
    student = _Student(run)
    cells = [cell for step in config.measured_at for cell in student.measure_at(step)]
    plain = student.measure_at(config.measured_at[-1], smoothing=0.0) if config.smoothing else []
    rows = [row for cell in cells + plain for row in _rows(cell)]
    results.write_csv(run.out / "curve.csv", rows)
    results.write_file(run.out / "network.npz", cvpn.to_bytes(student.trainee.params))
    draw(run.out / "curve.png", config, cells)
    ends = [cell for cell in cells if cell.step in (0, config.measured_at[-1])]
    run.finish(
        [_number(config, cell) for cell in ends + plain],
        measure=_measure(config),
        deviations=[f"{config.measured_at[-1]:,} steps of training of our own scale"]
        + [_SMOOTHED.format(config.smoothing)] * bool(config.smoothing),
    )
    _print(experiment, config, cells + plain)


class _Student:
    """An agent in training, and what it is exploitable by on the way."""

    def __init__(self, run: Run):
        self.run, self.config = run, run.config
        config = self.config
        self.laboratory = Laboratory(config.game, batch=config.batch)
        table = self.laboratory.table
        network = cvpn.new_cvpn(table, seed=config.seed, width=config.width, depth=config.depth)
        self.evaluate = cvpn.CvpnEvaluator(nnx.graphdef(network))
        settings = training_settings(
            config,
            self._search(config.training_simulations),
            policy_weight=0.05,
            queries_per_search=config.queries_per_search,
            queries_per_solve=config.queries_per_solve,
        )
        self.trainee = student(table, network, settings, run, seed=config.seed)

    def measure_at(self, step: int, *, smoothing: float | None = None) -> list[Cell]:
        """Trains up to `step`, unless nothing is left to be done there, and measures, with another
        smoothing than the config's if one is given."""
        if step == self.config.measured_at[-1]:
            self.trainee.train(step)
        share = self.config.smoothing if smoothing is None else smoothing
        return [
            cell
            for simulations in self.config.simulations
            for cell in self.run.kept(
                f"{step}-{simulations}-{share}",
                Cell,
                lambda s=simulations: [self._measure(step, s, share)],
            )
        ]

    def _measure(self, step, simulations, smoothing):
        self.trainee.train(step)
        found = self.laboratory.exploitability(
            f"step {step}, {_agent(self.config, simulations, smoothing)}",
            self.trainee.params,
            dataclasses.replace(
                self._search(simulations),
                evaluate=dataclasses.replace(self.evaluate, smoothing=smoothing),
                exploration=self.config.exploration,
            ),
            seeds=self.config.seeds,
            key=1,
            chains=agents(own_decisions_only=self.config.own_decisions_only),
        )
        return Cell(step=step, simulations=simulations, smoothing=smoothing, exploitability=found)

    def _search(self, simulations):
        return GrowingTreeCfr(
            self.evaluate,
            simulations=simulations,
            max_path=self.config.max_path,
            max_nodes=self.laboratory.listing.num_inner,
        )


def draw(path: pathlib.Path, config: Config, cells: Sequence[Cell]) -> None:
    """Exploitability against training steps, a line per number of simulations, as in Fig. 3."""
    known = published.searched_exploitability(config.game)
    with plots.figure(path, rows=1, columns=1, size=(5.6, 3.6)) as axes:
        lines = [
            plots.Band(
                name=f"SoG({simulations},1)",
                x=[cell.step for cell in cells if cell.simulations == simulations],
                samples=[cell.exploitability for cell in cells if cell.simulations == simulations],
            )
            for simulations in config.simulations
        ]
        plots.bands(axes[0, 0], lines, published={}, x_label="training steps", log_x=False)
        trained = next(iter(known.values()), {})
        for simulations in config.simulations:
            if simulations in trained:
                name = f"SoG({simulations},1) of the paper, trained"
                plots.level(axes[0, 0], trained[simulations], name)
        axes[0, 0].set_ylabel("exploitability (NashConv / 2)")
        axes[0, 0].set_title(f"Student of Games, {config.game}")


def _agent(config: Config, simulations: int, smoothing: float) -> str:
    without = ", without smoothing" * (smoothing != config.smoothing)
    return f"SoG({simulations},1){without}"


def _measure(config: Config) -> str:
    where = "; the agent searches at its own decisions only" * config.own_decisions_only
    return search_laboratory.measure(config.game, config.seeds) + where


def _rows(cell: Cell) -> list[dict[str, object]]:
    return [
        {
            "step": cell.step,
            "simulations": cell.simulations,
            "smoothing": cell.smoothing,
            "seed": seed,
            "exploitability": f"{value:.6g}",
        }
        for seed, value in enumerate(cell.exploitability)
    ]


def _number(config: Config, cell: Cell) -> results.Number:
    kinds = list(published.searched_exploitability(config.game).values())
    known = kinds[0 if cell.step else 1] if kinds else {}
    return search_laboratory.number(
        f"{'' if cell.step else 'untrained '}{_agent(config, cell.simulations, cell.smoothing)}",
        config.game,
        cell.exploitability,
        paper=known.get(cell.simulations),
    )


def _print(experiment: str, config: Config, cells: Sequence[Cell]) -> None:
    table = Table(title=f"{experiment}: {_measure(config)}")
    table.add_column("step", justify="right")
    for simulations in config.simulations:
        table.add_column(f"SoG({simulations},1)", justify="right")
    for step, smoothing in dict.fromkeys((cell.step, cell.smoothing) for cell in cells):
        here = [cell for cell in cells if (cell.step, cell.smoothing) == (step, smoothing)]
        name = f"{step:,}{', without smoothing' * (smoothing != config.smoothing)}"
        table.add_row(
            name, *(search_laboratory.text(config.game, cell.exploitability) for cell in here)
        )
    Console().print(table)
