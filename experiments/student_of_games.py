"""Training a Student of Games agent, and its exact exploitability as training goes on.

What `sog_leduc` and `sog_glasses` share (Schmid et al. 2023, Fig. 3): the agent searches at every
public state, with several numbers of simulations. The paper does not give the networks and the
training settings of these games; ours are the experiments' presets.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shutil
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from flax import nnx
from rich.console import Console
from rich.table import Table

from experiments import plots, published, results
from experiments.folders import CHECKPOINT, check_same_config, prepare
from experiments.progress import counter, progress
from jaxgames.public_states import list_public_states
from jaxgames.tabulate import belief_table
from nets import cvpn
from solvers.search.exploitability import agents, searched_exploitability
from solvers.search.gt_cfr import GrowingTreeCfr
from train import loop
from train.learner import LearnerSettings, require_finite
from train.metrics import MetricsWriter

_LOG = "log"  # folder of the metrics: JSON lines, and events for TensorBoard
_FILES = (results.RESULT_FILE, "curve.csv", "curve.png", "network.npz", _LOG)
_STATE = "training"  # in the checkpoint
_SAVE_EVERY = 100  # steps
_LOG_EVERY = 10


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
    learning_rate: float = 1e-3
    batch_size: int = 256
    capacity: int = 100_000  # of the replay buffer
    batch: int = 16  # searches side by side when measured
    max_path: int = 2  # public states from one decision to the next


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One agent after some training."""

    step: int
    simulations: int
    exploitability: list[float]  # by seed


def run(
    config: Config,
    out: pathlib.Path,
    *,
    experiment: str,
    preset: str,
    command: str,
    resume: bool,
    overwrite: bool,
) -> None:
    """Trains, measures and writes the results into `out`.

    Raises:
      ValueError: `out` holds another run.
      FloatingPointError: training met a number that is not finite.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; a checkpoint has been left.
    """
    begin = time.perf_counter()
    prepare(out, files=_FILES, resume=resume, overwrite=overwrite)
    check_same_config(out / CHECKPOINT, config)
    training = _Run(config, out / CHECKPOINT)
    cells = [cell for step in config.measured_at for cell in training.measure_at(step)]
    results.write_csv(out / "curve.csv", [row for cell in cells for row in _rows(cell)])
    results.write_file(out / "network.npz", cvpn.to_bytes(training.state.learner.params))
    draw(out / "curve.png", config, cells)
    result = results.make_result(
        experiment=experiment,
        preset=preset,
        config=dataclasses.asdict(config) | {"measure": _measure(config)},
        command=command,
        wall_seconds=time.perf_counter() - begin,
        numbers=[_number(config, cell) for cell in cells if _wanted(config, cell)],
        deviations=[f"{config.measured_at[-1]:,} steps of training of our own scale"],
    )
    results.write_result(out, result)
    shutil.rmtree(out / CHECKPOINT)
    _print(experiment, config, cells)


class _Run:
    """Training, and measurements on the way; both go on from what `folder` holds."""

    def __init__(self, config: Config, folder: pathlib.Path):
        self.config, self.folder = config, folder
        self.table = belief_table(config.game)
        self.listing = list_public_states(self.table)
        self.max_nodes = max(self.listing.num_inner, config.max_path + 1)
        network = cvpn.new_cvpn(self.table, seed=0, width=config.width, depth=config.depth)
        self.graph, params = nnx.split(network)
        self.settings = loop.TrainingSettings(
            search=self._search(config.training_simulations),
            learner=LearnerSettings(
                learning_rate=config.learning_rate,
                decay_steps=50_000,
                batch_size=config.batch_size,
                capacity=config.capacity,
                max_uses=20,
                policy_weight=0.05,
            ),
            episodes=config.episodes,
            solves=config.solves,
            updates=config.updates,
            queries_per_solve=0.3,
        )
        key = jax.random.key(0)
        self.state = loop.new_training(self.table, params, key, settings=self.settings)
        self._restore()

    def measure_at(self, step: int) -> list[Cell]:
        """Trains up to `step` and measures there what has not been measured yet."""
        paths = {s: self.folder / f"{step}-{s}.json" for s in self.config.simulations}
        missing = [s for s, path in paths.items() if not path.exists()]
        if missing or step == self.config.measured_at[-1]:
            self._train(step)
        for simulations in missing:
            cell = self._measure(step, simulations)
            results.write_file(paths[simulations], json.dumps(dataclasses.asdict(cell)))
        return [Cell(**json.loads(path.read_text(encoding="utf-8"))) for path in paths.values()]

    def _search(self, simulations: int) -> GrowingTreeCfr:
        return GrowingTreeCfr(
            cvpn.NetworkEvaluator(self.graph),
            simulations=simulations,
            max_path=self.config.max_path,
            max_nodes=self.max_nodes,
        )

    def _train(self, step: int) -> None:
        begin, first = time.perf_counter(), int(self.state.step)
        if first >= step:
            return
        folder = self.folder.parent / _LOG
        with progress("training", step) as report, MetricsWriter(folder, step=first) as log:
            for number in range(first, step):
                self.state, metrics = loop.train_step(
                    self.table, self.graph, self.state, settings=self.settings
                )
                require_finite(metrics, number)
                if number % _LOG_EVERY == 0:
                    log.write(number, metrics)
                if (number + 1) % _SAVE_EVERY == 0 or number + 1 == step:
                    self._save()
                done = number + 1 - first
                report(number + 1, None, done / (time.perf_counter() - begin))

    def _measure(self, step: int, simulations: int) -> Cell:
        total = 2 * self.config.seeds * int((np.asarray(self.listing.actor) >= 0).sum())
        with progress(f"step {step}, SoG({simulations},1)", total) as report:
            found = searched_exploitability(
                self.table,
                self.listing,
                self.state.learner.params,
                jax.random.split(jax.random.key(1), self.config.seeds),
                settings=self._search(simulations),
                chains=agents(),
                batch=self.config.batch,
                report=counter(report),
            )
        return Cell(step=step, simulations=simulations, exploitability=found.tolist())

    def _identity(self) -> dict[str, Any]:
        return {"training": json.dumps(dataclasses.asdict(self.config))}

    def _save(self) -> None:
        from train import saving  # imports Orbax

        saving.save(self.folder / _STATE, self.state, identity=self._identity())

    def _restore(self) -> None:
        if not (self.folder / _STATE).exists():
            return
        from train import saving  # imports Orbax

        self.state = saving.restore(self.folder / _STATE, self.state, identity=self._identity())


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


def _rows(cell: Cell) -> list[dict[str, object]]:
    return [
        {
            "step": cell.step,
            "simulations": cell.simulations,
            "seed": seed,
            "exploitability": f"{value:.6g}",
        }
        for seed, value in enumerate(cell.exploitability)
    ]


def _measure(config: Config) -> str:
    unit, _ = published.measured_in(config.game)
    return (
        f"exploitability (NashConv / 2) in {config.game}, in {unit}: mean of {config.seeds} seeds"
        " of search; low and high are the least and the most exploitable"
    )


def _wanted(config: Config, cell: Cell) -> bool:
    return cell.step in (0, config.measured_at[-1])


def _number(config: Config, cell: Cell) -> results.Number:
    unit, scale = published.measured_in(config.game)
    values = scale * np.asarray(cell.exploitability)
    kinds = list(published.searched_exploitability(config.game).values())
    known = dict(kinds[0 if cell.step else 1]) if kinds else {}
    paper = known.get(cell.simulations)
    return results.Number(
        name=f"{'' if cell.step else 'untrained '}SoG({cell.simulations},1)",
        value=float(values.mean()),
        unit=unit,
        low=float(values.min()),
        high=float(values.max()),
        paper=None if paper is None else scale * paper,
        seeds=len(values),
    )


def _print(experiment: str, config: Config, cells: Sequence[Cell]) -> None:
    table = Table(title=f"{experiment}: {_measure(config)}")
    table.add_column("step", justify="right")
    for simulations in config.simulations:
        table.add_column(f"SoG({simulations},1)", justify="right")
    for step in config.measured_at:
        here = [cell for cell in cells if cell.step == step]
        means = (
            f"{published.measured_in(config.game)[1] * np.mean(cell.exploitability):.3g}"
            for cell in here
        )
        table.add_row(f"{step:,}", *means)
    Console().print(table)
