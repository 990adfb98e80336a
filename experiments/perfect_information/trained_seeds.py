"""Which networks a run of training in Connect Four trains: some seeds here, others in earlier runs.

On a cluster each seed can be a run of its own. One more run then puts them together, and trains the
seeds that are not there yet. It needs the files that are on record: `curve.csv`, `result.json` and
the networks.
"""

from __future__ import annotations

import csv
import dataclasses
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

from experiments.harness import results, runs
from experiments.harness.experiment import CURVE
from experiments.harness.network_files import NETWORKS
from experiments.harness.runs import RunArguments
from jaxgames.checks import at_least

_PARSERS = {"int": int, "float": float}
_OWN_FIELDS = ("first_seed", "seeds", "earlier")  # of a config, in which such runs may differ


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """The moves of an agent after some training."""

    seed: int
    step: int
    simulations: int
    games: int  # that have ended in training
    positions: int
    keeps: float  # share of positions in which its move keeps the result
    decides: float  # the same among the positions in which some moves do not
    best: float  # share of positions in which its move has the best score
    first: int  # column of its first move of the game


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell(Measured):
    """The same with what the training has cost."""

    seconds: float  # of training, as a step takes in its end
    evaluations: int  # of the network in training


@dataclasses.dataclass(frozen=True, kw_only=True)
class EarlierRun:
    """A finished run whose networks are not trained again."""

    folder: str
    seeds: tuple[int, ...]
    command: str
    commit: str
    wall_seconds: float
    device: str

    def words(self) -> str:
        """What it was, in words."""
        several = "seeds" if len(self.seeds) > 1 else "seed"
        return (
            f"{several} {', '.join(map(str, self.seeds))}: trained and measured in"
            f" {self.wall_seconds:,.0f} seconds by {self.command!r} at commit {self.commit[:12]}"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeedOptions(RunArguments):
    """Options of experiments that train several networks."""

    seeds: int | None = None
    """How many networks there are; None: as many as the preset says."""
    first_seed: int = 0
    """The seed of the first network; the others follow it."""
    earlier: tuple[pathlib.Path, ...] = ()
    """Finished runs of this experiment and preset, on machines like this one, whose seeds are
    among those asked for: their networks and measurements are taken over."""


def with_seeds(config: Any, options: SeedOptions, *, experiment: str) -> Any:
    """The config with the seeds that the options ask for.

    Args:
      config: with `seeds`, `first_seed` and `earlier`.
      options: of the command.
      experiment: that earlier runs must be of.

    Raises:
      ValueError: seeds that cannot be, or an earlier run is not finished, or of another experiment,
        config or kind of machine, or has other seeds or those of another run.
    """
    seeds = config.seeds if options.seeds is None else options.seeds
    at_least(1, seeds=seeds)
    at_least(0, first_seed=options.first_seed)
    asked = range(options.first_seed, options.first_seed + seeds)
    earlier = tuple(
        run for folder in options.earlier for run in _earlier_runs(folder, config, experiment)
    )
    taken = [seed for run in earlier for seed in run.seeds]
    for run in earlier:
        if not {*run.seeds} <= {*asked}:
            raise ValueError(
                f"earlier: {run.folder} has the seeds {[*run.seeds]}; asked for are {[*asked]}"
            )
    if len({*taken}) < len(taken):
        raise ValueError(f"earlier: the runs have the seeds {taken}; each may be there once")
    machines = {run.folder: run.device for run in earlier}
    if len(taken) < seeds and earlier:
        machines["this run"] = results.device()
    if len({*machines.values()}) > 1:
        found = "; ".join(f"{name}: {machine}" for name, machine in machines.items())
        raise ValueError(f"earlier: runs must be of one kind of machine, and are of: {found}")
    return dataclasses.replace(config, seeds=seeds, first_seed=options.first_seed, earlier=earlier)


def _earlier_runs(folder, config, experiment) -> Iterator[EarlierRun]:
    """Those that have trained the networks in a run's folder: others, which it has taken over, and
    itself."""
    path = folder / results.RESULT_FILE
    if not path.is_file():
        raise ValueError(f"earlier: {folder} must be the folder of a finished run of {experiment}")
    result = results.read_result(path)
    if result.experiment != experiment:
        raise ValueError(f"earlier: {folder} is of {result.experiment}, not of {experiment}")
    names = [field.name for field in dataclasses.fields(config) if field.name not in _OWN_FIELDS]
    defaults = {field.name: field.default for field in dataclasses.fields(config)}
    differ = [
        name
        for name in names
        if not runs.agrees(result.config.get(name, defaults[name]), getattr(config, name))
    ]
    if differ:
        raise ValueError(f"earlier: {folder} is a run with another {', '.join(differ)}")
    own = dict.fromkeys(cell.seed for cell in read_cells(folder))
    for fields in result.config.get("earlier", ()):
        run = EarlierRun(**fields | dict(folder=str(folder), seeds=tuple(fields["seeds"])))
        own = [seed for seed in own if seed not in run.seeds]
        yield run
    if own:
        yield EarlierRun(
            folder=str(folder),
            seeds=tuple(own),
            command=result.command,
            commit=result.commit,
            wall_seconds=result.wall_seconds,
            device=result.device,
        )


def device_of(result: results.Result) -> str:
    """The kind of machine on which the networks of a run were trained."""
    earlier = result.config.get("earlier")
    return earlier[0]["device"] if earlier else result.device


def read_cells(folder: pathlib.Path) -> list[Cell]:
    """The measurements of a finished run."""
    parsers = {field.name: _PARSERS[str(field.type)] for field in dataclasses.fields(Cell)}
    with (folder / CURVE).open(newline="") as file:
        return [
            Cell(**{name: parse(line[name]) for name, parse in parsers.items()})
            for line in csv.DictReader(file)
        ]


def taken_over(earlier: tuple[EarlierRun, ...], seed: int, out: pathlib.Path) -> list[Cell] | None:
    """The measurements of a seed in earlier runs, after a copy of its networks.

    Args:
      earlier: the runs.
      seed: of the network.
      out: the folder of this run, which gets the networks.

    Returns:
      The measurements; None: no earlier run has that seed.

    Raises:
      OSError: a file cannot be copied.
    """
    for run in earlier:
        if seed in run.seeds:
            folder = pathlib.Path(run.folder)
            for path in _networks(folder, seed):
                (out / NETWORKS).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, out / NETWORKS / path.name)
            return [cell for cell in read_cells(folder) if cell.seed == seed]
    return None


def _networks(folder: pathlib.Path, seed: int) -> Iterator[pathlib.Path]:
    yield from (folder / NETWORKS).glob(f"{seed}.npz")
    yield from (folder / NETWORKS).glob(f"{seed}-*.npz")
