"""Learning Connect Four, with a perfect player's scores as truth.

`alphazero_connect_four` and `sog_connect_four` share this: the same residual network, measured
along the training by the moves that it chooses alone and with search, in positions whose moves are
all scored. Costs of training are given in seconds and in evaluations of the network.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from rich.table import Table

from experiments.harness import devices, plots, results
from experiments.harness.experiment import Experiment, preset_of, text_table
from experiments.harness.network_files import NETWORKS, write_network
from experiments.harness.progress import counter, progress
from experiments.harness.runs import Run
from experiments.perfect_information import move_quality
from experiments.perfect_information.connect_four_positions import COLUMNS, read_positions
from experiments.perfect_information.student import ALONE, Speed, Student, speed
from experiments.perfect_information.trained_seeds import (
    Cell,
    EarlierRun,
    Measured,
    SeedOptions,
    taken_over,
    with_seeds,
)
from experiments.student_of_games.training_run import LOG
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.beliefs.contract import BeliefGame
from solvers.device_batches import split_calls
from train.learner import LearnerSettings

GAME = "connect_four"
_CENTRE = COLUMNS // 2  # where a perfect player begins
_TIMED_STEPS = 5
KEEPS, OPENS = "keeps the result", "opens in the centre"  # names of numbers, after the agent's
SHARES = {  # of positions: names of numbers, and fields of `Cell`
    KEEPS: "keeps",
    "keeps it where that matters": "decides",
    "best move": "best",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The training and its measurements."""

    measured_at: tuple[int, ...]  # steps of training, which ends at the last
    simulations: tuple[int, ...]  # of searches that are measured; ALONE: the network alone
    seeds: int = 3  # networks
    first_seed: int = 0
    earlier: tuple[EarlierRun, ...] = ()  # that have trained some of the networks
    every: int = 1  # of the positions, one in this many is measured
    batch: int = 32  # positions side by side when measured
    training_simulations: int = 32
    torso: str = "alphazero"
    width: int = 64
    depth: int = 5
    dtype: str = "bfloat16"  # of the factors in the network
    episodes: int = 64  # games side by side, which go on from step to step
    solves: int = 0  # queries that a step of SoG solves at most
    updates: int = 16  # gradient updates in a step
    learning_rate: float = 5e-4  # with 2e-3 the residual network does not learn
    decay: float = 0.05  # of the learning rate, from the first update to the last
    l2: float = 1e-4
    batch_size: int = 256
    capacity: int = 100_000  # of the replay buffer


SMOKE = Config(
    measured_at=(0, 2),
    simulations=(ALONE, 4),
    seeds=1,
    every=16,
    batch=8,
    training_simulations=4,
    width=4,
    depth=1,
    episodes=4,
    solves=4,
    updates=1,
    batch_size=16,
    capacity=512,
)


def learner_settings(config: Config) -> LearnerSettings:
    """How networks learn, the same with both agents."""
    return LearnerSettings(
        learning_rate=config.learning_rate,
        decay_rate=config.decay,
        decay_steps=config.measured_at[-1] * config.updates,
        batch_size=config.batch_size,
        capacity=config.capacity,
        max_uses=20,
        policy_weight=1.0,
        l2=config.l2,
    )


NewStudent = Callable[[BeliefGame, Run, int], Student]
Evaluations = Callable[[Config], int]


def training_experiment(
    name: str,
    new_student: NewStudent,
    *,
    evaluations: Evaluations,
    label: Callable[[int], str],
    shared: Callable[[Config], Mapping[str, int]],
    targets: Mapping[str, float],
    deviations: Callable[[Config], Iterable[str]],
    options: type[SeedOptions] = SeedOptions,
    configure: Callable[[Config, Any], Config] = preset_of,
    **fields: Any,
) -> Experiment:
    """The experiment that trains one kind of agent.

    Args:
      name: of the experiment.
      new_student: the agent in training of a game, a run and a seed.
      evaluations: of the network in a step of training.
      label: the name of the agent with this many simulations.
      shared: the sizes that devices share in training.
      targets: the least values that are hoped for, by the name of the number.
      deviations: from the published setting, in words.
      options: beside the preset.
      configure: what they make of a preset, but for the seeds.
      fields: further fields of the record.
    """
    return Experiment(
        name=name,
        shown="shares of good moves against training steps",
        compute=functools.partial(compute, new_student, evaluations),
        batches=lambda config: {"batch": config.batch} | dict(shared(config)),
        rows=rows,
        draw=functools.partial(draw, label),
        numbers=functools.partial(numbers, label),
        tables=functools.partial(tables, name, label, targets),
        extras={"targets": lambda config, cells: dict(targets)},
        error_bars=results.LEAST_AND_MOST,
        measure=measure,
        deviations=lambda config: (
            *deviations(config),
            *(earlier.words() for earlier in config.earlier),
        ),
        options=options,
        configure=lambda config, options: with_seeds(
            configure(config, options), options, experiment=name
        ),
        more_files=(LOG, NETWORKS),
        **fields,
    )


def compute(new_student: NewStudent, evaluations: Evaluations, run: Run) -> list[Cell]:
    """Trains and measures one network after the other.

    The pace is measured in the end: untrained agents play other games, all of which begin at the
    same time, and have no queries to solve.
    """
    config, game = run.config, pgx_beliefs(GAME)
    every = read_positions().every(config.every)
    states = move_quality.states_of(game, every)
    each = evaluations(config)
    cells = taken_over(config.earlier, run.out)
    known = {cell.seed for cell in cells}
    for seed in range(config.first_seed, config.first_seed + config.seeds):
        if seed in known:
            continue
        student, measured = new_student(game, run, seed), []
        for step in config.measured_at:
            measure_step = functools.partial(
                _measure, run, game, student, every, states, seed=seed, step=step
            )
            measured += run.kept(f"{seed}-{step}", Measured, measure_step)
        student.trainee.train(config.measured_at[-1])
        write_network(run, str(seed), student.trainee.params)
        timed = functools.partial(speed, student.trainee, _TIMED_STEPS)
        (pace,) = run.kept(f"speed-{seed}", Speed, timed)
        for moves in measured:
            costs = dict(seconds=moves.step * pace.seconds, evaluations=moves.step * each)
            cells.append(Cell(**dataclasses.asdict(moves), **costs))
    return sorted(cells, key=lambda cell: cell.seed)


def network_name(seed: int, step: int) -> str:
    """Of the file with the network of a seed after a measured step."""
    return f"{seed}-{step}"


def _measure(run, game, student, positions, states, *, seed, step) -> Iterator[Measured]:
    """The quality of moves after some training, alone and with search."""
    config, trainee = run.config, student.trainee
    trainee.train(step)
    write_network(run, network_name(seed, step), trainee.params)
    number = len(positions.moves)
    with progress(f"step {step:,}, positions", number * len(config.simulations)) as report:
        count = counter(report)
        for simulations in config.simulations:
            key, mesh = jax.random.key(seed), devices.local(run.mesh)
            choose = _chooses(game, student, simulations, trainee.params, key, mesh)
            moves = move_quality.chosen_moves(choose, states, number, batch=config.batch)
            count(number)
            yield Measured(
                seed=seed,
                step=step,
                simulations=simulations,
                games=student.games,
                positions=number,
                first=int(moves[0]),
                **{name: float(good.mean()) for name, good in positions.judged(moves).items()},
            )


def _chooses(game, student, simulations, params, key, mesh):
    """The student's moves in positions with these numbers: alone, or with searches."""
    if simulations != ALONE:
        return move_quality.by_search(game, student.agent(params, simulations), key, mesh)
    alone = jax.jit(split_calls(student.alone, mesh))
    return lambda numbers, states: alone(params, states)


def _of(cells: Sequence[Cell], step: int, simulations: int) -> list[Cell]:
    return [cell for cell in cells if (cell.step, cell.simulations) == (step, simulations)]


def draw(label, path: pathlib.Path, config: Config, cells: Sequence[Cell]) -> None:
    """Shares of moves that keep the result, and of best ones, by steps of training."""
    shares = {
        "the move keeps the result": lambda cell: cell.keeps,
        "it does where others do not": lambda cell: cell.decides,
        "it has the best score": lambda cell: cell.best,
    }
    with plots.figure(path, rows=1, columns=3, size=(9.6, 3.0)) as axes:
        for panel, (name, share) in zip(axes[0], shares.items(), strict=True):
            lines = [
                plots.Band(
                    name=label(simulations),
                    x=config.measured_at,
                    samples=[
                        [*map(share, _of(cells, step, simulations))] for step in config.measured_at
                    ],
                )
                for simulations in config.simulations
            ]
            plots.bands(panel, lines, published={}, x_label="training steps", log_x=False)
            panel.set(yscale="linear", ylabel="share of positions")
            panel.set_title(name)


def rows(config: Config, cells: Sequence[Cell]) -> Iterator[dict[str, object]]:
    """A row for every cell."""
    return map(dataclasses.asdict, cells)


def numbers(label, config: Config, cells: Sequence[Cell]) -> Iterator[results.Number]:
    """The shares before and after training, and the speed of training."""
    for step in dict.fromkeys((config.measured_at[0], config.measured_at[-1])):
        for simulations in config.simulations:
            own = _of(cells, step, simulations)
            agent = f"{'' if step else 'untrained '}{label(simulations)}"
            for name, field in SHARES.items():
                values = [getattr(cell, field) for cell in own]
                yield results.Number(
                    name=f"{agent}: {name}",
                    value=float(np.mean(values)),
                    unit="share of positions",
                    **seed_range(values),
                    seeds=config.seeds,
                )
            yield results.Number(
                name=f"{agent}: {OPENS}",
                value=float(np.mean([cell.first == _CENTRE for cell in own])),
                unit="share of seeds",
                seeds=config.seeds,
            )
    paces = [
        cell.games / cell.seconds * 3600
        for cell in _of(cells, config.measured_at[-1], config.simulations[0])
    ]
    yield results.Number(
        name="games/h",
        value=float(np.mean(paces)),
        unit="games/h",
        **seed_range(paces),
        seeds=config.seeds,
    )


def seed_range(values: Sequence[float]) -> dict[str, float]:
    """The least and the most of several seeds; of a single one nothing is known."""
    return dict(low=min(values), high=max(values)) if len(values) > 1 else {}


def tables(
    name: str, label, targets: Mapping[str, float], config: Config, cells: Sequence[Cell]
) -> Iterator[Table]:
    """Shares of moves that keep the result by training and simulations; numbers with targets.

    Seconds and evaluations of training are means of the seeds.
    """
    lines = []
    for step in config.measured_at:
        seeds = _of(cells, step, config.simulations[0])
        seconds, evaluations = (
            f"{np.mean([getattr(cell, name) for cell in seeds]):,.0f}"
            for name in ("seconds", "evaluations")
        )
        shares = [_of(cells, step, simulations) for simulations in config.simulations]
        texts = (results.text(float(np.mean([cell.keeps for cell in own]))) for own in shares)
        lines.append((f"{step:,}", seconds, evaluations, *texts))
    headings = ("step", "seconds", "evaluations", *map(label, config.simulations))
    title = f"{name}: share of positions in which a move keeps the result"
    yield text_table(title, headings, lines, labels=0)
    found = {number.name: number for number in numbers(label, config, cells)}
    lines = [
        (target, results.text(found[target].value), results.text(least), found[target].unit)
        for target, least in targets.items()
        if target in found
    ]
    if lines:
        headings = ("", "share", "target", "of")
        yield text_table(f"{name}: targets after training", headings, lines)


def measure(config: Config) -> str:
    """What the numbers are."""
    networks = "of one network" if config.seeds == 1 else f"mean of {config.seeds} networks"
    return (
        "share of scored positions of Connect Four in which the agent's move keeps the result, or"
        f" has the best score; {networks}; share of the networks whose first"
        " move of the game is the centre, the only one that wins; games/h of training, at the speed"
        " of its end"
    )
