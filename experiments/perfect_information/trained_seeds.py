"""Which networks a run of training in Connect Four trains: some seeds here, others in earlier runs.

On a cluster each seed can be a run of its own. One more run then puts them together, and trains the
seeds that are not there yet. It needs the files that are on record: `curve.csv`, `result.json` and
the networks.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

from experiments.harness import results, runs
from experiments.harness.devices import by_first
from experiments.harness.experiment import CURVE
from experiments.harness.network_files import NETWORKS, network_file
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
        noun = "seeds" if len(self.seeds) > 1 else "seed"
        commit, *dirty = self.commit.split("-")
        return (
            f"{noun} {', '.join(map(str, self.seeds))}: trained and measured in"
            f" {self.wall_seconds:,.0f} seconds ({self.device}) by {self.command!r} at commit"
            f" {'-'.join([commit[:12], *dirty])}"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeedOptions(RunArguments):
    """Options of experiments that train several networks."""

    seeds: int | None = None
    """How many networks there are; None: as many as the preset says."""
    first_seed: int = 0
    """The seed of the first network; the others follow it."""
    earlier: tuple[pathlib.Path, ...] = ()
    """Finished runs of this experiment with the same settings, on machines like this one and with
    as many devices, whose seeds are among those asked for: their networks and measurements are
    taken over."""


def with_seeds(config: Any, options: SeedOptions, *, experiment: str) -> Any:
    """The config with the seeds that the options ask for.

    Args:
      config: with `seeds`, `first_seed` and `earlier`.
      options: of the command.
      experiment: that earlier runs must be of.

    Raises:
      ValueError: seeds that cannot be, or an earlier run is the folder that is written to, is not
        finished or not whole, or of another experiment, config or kind of machine, of code that
        trains otherwise today, or has other seeds or those of another run.
    """
    seeds = config.seeds if options.seeds is None else options.seeds
    at_least(1, seeds=seeds)
    at_least(0, first_seed=options.first_seed)
    if any(folder.resolve() == options.out.resolve() for folder in options.earlier):
        raise ValueError(f"earlier: {options.out} is --out, which must be another folder")
    asked = range(options.first_seed, options.first_seed + seeds)
    earlier = tuple(
        run for folder in options.earlier for run in _earlier_runs(folder, config, experiment)
    )
    taken = [seed for run in earlier for seed in run.seeds]
    for run in earlier:
        if not {*run.seeds} <= {*asked}:
            raise ValueError(
                f"earlier: {run.folder} has the seeds {[*run.seeds]}; --seeds and --first_seed ask"
                f" for {[*asked]}"
            )
    if len({*taken}) < len(taken):
        found = "; ".join(f"{run.folder}: {[*run.seeds]}" for run in earlier)
        raise ValueError(f"earlier: a seed may be there once, and the runs have: {found}")
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
    if result.superseded:
        raise ValueError(f"earlier: {folder} is of earlier code: {result.superseded}")
    differ = [
        field.name
        for field in dataclasses.fields(config)
        if field.name not in _OWN_FIELDS and not runs.same_field(result.config, config, field)
    ]
    if differ:
        raise ValueError(f"earlier: {folder} is a run with another {', '.join(differ)}")
    own = _seeds_of(folder, config)
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


def _seeds_of(folder, config) -> list[int]:
    """The seeds of a finished run, all of whose measurements and last networks are there."""
    cells = read_cells(folder)
    seeds = sorted({cell.seed for cell in cells})
    measured = sorted((cell.seed, cell.step, cell.simulations) for cell in cells)
    every = itertools.product(seeds, config.measured_at, config.simulations)
    missing = [seed for seed in seeds if not network_file(folder, seed).is_file()]
    if not seeds or measured != sorted(every):
        raise ValueError(f"earlier: {folder / CURVE} has not each measurement once")
    if missing:
        raise ValueError(f"earlier: {network_file(folder, missing[0])} is not there")
    return seeds


def device_of(result: results.Result) -> str:
    """The kind of machine on which the networks of a run were trained."""
    earlier = result.config.get("earlier")
    return earlier[0]["device"] if earlier else result.device


def read_cells(folder: pathlib.Path) -> list[Cell]:
    """The measurements of a finished run.

    Raises:
      ValueError: the file is damaged.
      OSError: it cannot be read.
    """
    parsers = {field.name: _PARSERS[str(field.type)] for field in dataclasses.fields(Cell)}
    with (folder / CURVE).open(newline="") as file:
        lines = [*csv.DictReader(file)]
    try:
        return [
            Cell(**{name: parse(line[name]) for name, parse in parsers.items()}) for line in lines
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{folder / CURVE} is damaged: {error!r}") from None


def taken_over(earlier: Iterable[EarlierRun], out: pathlib.Path) -> list[Cell]:
    """The measurements of earlier runs, after a copy of their networks.

    Args:
      earlier: the runs.
      out: the folder of this run, which gets the networks.

    Raises:
      OSError: a file cannot be copied.
    """

    def copy():
        for run, seed in seeds:
            networks = pathlib.Path(run.folder) / NETWORKS
            for path in [networks / f"{seed}.npz", *networks.glob(f"{seed}-*.npz")]:
                (out / NETWORKS).mkdir(parents=True, exist_ok=True)
                results.write_file(out / NETWORKS / path.name, path.read_bytes())

    seeds = [(run, seed) for run in earlier for seed in run.seeds]
    by_first(copy)
    return [
        cell
        for run, seed in seeds
        for cell in read_cells(pathlib.Path(run.folder))
        if cell.seed == seed
    ]
