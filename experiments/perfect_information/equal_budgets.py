"""Agents trained in Connect Four after equal seconds, and after equal evaluations of the network.

Runs of `alphazero_connect_four` and `sog_connect_four` have measured their networks at some steps,
and what each step has cost. A budget is what all runs have reached. Shares of good moves at the
budget are linear between the steps around it; in games each run plays with the networks of the
measured step whose cost is nearest to the budget.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Iterator, Sequence

import numpy as np
from rich.table import Table

from experiments.engines import match
from experiments.harness import plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.runs import Run, RunArguments, checksum
from experiments.perfect_information import paired_matches
from experiments.perfect_information.connect_four_training import (
    GAME,
    SHARES,
    network_name,
    seed_range,
)
from experiments.perfect_information.paired_matches import Pair
from experiments.perfect_information.student import ALONE
from experiments.perfect_information.trained_players import existing_network, read_network_file
from experiments.perfect_information.trained_runs import COSTS, TrainedRun, read_run
from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.beliefs.contract import BeliefGame
from solvers.perfect_information.matches import Agent

_GAMES_FILE = "pairs.csv"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The runs that are compared, and their games."""

    runs: tuple[str, ...] = ()  # folders
    simulations: int  # of the searches in games
    pairs: int  # of games in each match
    opening_moves: int = 4  # drawn at random
    batch: int  # pairs that are played and kept together; positions side by side
    seed: int = 0
    networks_checksum: str = ""  # of the files of all that play


PRESETS = {
    "smoke": Config(simulations=4, pairs=2, batch=2),
    "cpu": Config(simulations=100, pairs=24, batch=24),
    "paper": Config(simulations=800, pairs=104, batch=104),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(RunArguments):
    """The options beside the preset."""

    runs: tuple[pathlib.Path, ...]
    """Folders of two or more finished runs of alphazero_connect_four and sog_connect_four."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """The runs, and the games of their networks."""

    runs: Sequence[TrainedRun]
    pairs: Sequence[Pair] = ()  # players are numbers of `networks`

    @property
    def seeds(self) -> range:
        """Those that all runs have."""
        return range(min(run.seeds for run in self.runs))

    @property
    def simulations(self) -> list[int]:
        """Of the searches that were measured in all runs."""
        measured = [run.simulations for run in self.runs]
        return [count for count in measured[0] if all(count in other for other in measured)]

    @property
    def rivals(self) -> list[tuple[int, int]]:
        """All pairs of runs, by number."""
        return [*itertools.combinations(range(len(self.runs)), 2)]

    def budget(self, cost: str) -> float:
        """What all runs have reached."""
        return min(run.reached(cost) for run in self.runs)

    def network(self, number: int, seed: int, cost: str) -> tuple[int, int, int]:
        """What plays for a run at a budget: the number of the run, the seed and the step."""
        return number, seed, self.runs[number].nearest(cost, self.budget(cost)).step

    @functools.cached_property
    def networks(self) -> list[tuple[int, int, int]]:
        """All that play; one may serve for both budgets."""
        every = itertools.product(range(len(self.runs)), self.seeds, COSTS)
        return [*dict.fromkeys(self.network(*which) for which in every)]

    @property
    def files(self) -> list[pathlib.Path]:
        """Of all networks that play.

        Raises:
          ValueError: one is not there.
        """
        return [
            existing_network(self.runs[number].folder, network_name(seed, step))
            for number, seed, step in self.networks
        ]

    def met(self, cost: str, first: int, second: int) -> list[tuple[int, int]]:
        """Which networks of two runs meet at a budget, by seed, as numbers of `networks`."""
        return [
            (
                self.networks.index(self.network(first, seed, cost)),
                self.networks.index(self.network(second, seed, cost)),
            )
            for seed in self.seeds
        ]

    def points(self, cost: str, first: int, second: int) -> tuple[float, float, float]:
        """The share of the points that the first run's networks got, and its interval."""
        met = self.met(cost, first, second)
        shares = [pair.share for pair in self.pairs if (pair.first, pair.second) in met]
        return match.share_interval(np.asarray(shares))


def compute(run: Run) -> Outcome:
    """Reads the runs, and lets their networks play at each budget."""
    config, game = run.config, pgx_beliefs(GAME)
    outcome = Outcome(runs=[read_run(pathlib.Path(folder)) for folder in config.runs])
    met = [
        (*both, seed)
        for cost, rivals in itertools.product(COSTS, outcome.rivals)
        for seed, both in zip(outcome.seeds, outcome.met(cost, *rivals), strict=True)
    ]
    agents = [
        _agent(outcome.runs[number], path, config.simulations, game)
        for (number, _, _), path in zip(outcome.networks, outcome.files, strict=True)
    ]
    pairs = paired_matches.play_matches(run, game, agents, [*dict.fromkeys(met)])
    return dataclasses.replace(outcome, pairs=pairs)


def _agent(trained: TrainedRun, path: pathlib.Path, simulations: int, game: BeliefGame) -> Agent:
    """A network of a run with the search that it was trained with."""
    return read_network_file(trained.agent, path, game).player(trained.agent, simulations)


def rows(config: Config, outcome: Outcome) -> Iterator[dict[str, object]]:
    """A row for each budget, run, seed and search."""
    for cost, trained, seed, count in itertools.product(
        COSTS, outcome.runs, outcome.seeds, outcome.simulations
    ):
        budget = outcome.budget(cost)
        playing = trained.nearest(cost, budget)
        row = {"equal": cost, "budget": budget, "agent": trained.name, "seed": seed}
        row |= {"step_in_games": playing.step, "cost_in_games": getattr(playing, cost)}
        row |= {"simulations": count}
        shares = SHARES.values()
        yield row | {field: trained.share(seed, count, cost, budget, field) for field in shares}


def write_more(run: Run, outcome: Outcome) -> None:
    """Writes the results of all games."""

    def name_of(player: int) -> str:
        number, seed, step = outcome.networks[player]
        return f"{outcome.runs[number].name}, seed {seed}, step {step}"

    results.write_csv(run.out / _GAMES_FILE, paired_matches.rows(outcome.pairs, name_of))


def numbers(config: Config, outcome: Outcome) -> Iterator[results.Number]:
    """The budgets, the shares of good moves there, and the points of the games."""
    count = len(outcome.seeds)
    for cost, unit in COSTS.items():
        yield results.Number(name=f"equal {cost}", value=outcome.budget(cost), unit=unit)
        for trained, simulations in itertools.product(outcome.runs, outcome.simulations):
            for name, shares in _shares(outcome, trained, simulations, cost).items():
                yield results.Number(
                    name=f"equal {cost}: {trained.name}, {_search(simulations)}: {name}",
                    value=float(np.mean(shares)),
                    unit="share of positions",
                    seeds=count,
                    **seed_range(shares),
                )
        for first, second in outcome.rivals:
            share, low, high = outcome.points(cost, first, second)
            yield results.Number(
                name=f"equal {cost}: {_against(outcome, first, second)}",
                value=share,
                low=low,
                high=high,
                unit="points/game",
                seeds=count,
            )


def _shares(outcome, trained, simulations, cost) -> dict[str, list[float]]:
    """Of good moves at a budget, of all seeds, by the name of the number."""
    budget = outcome.budget(cost)
    return {
        name: [trained.share(seed, simulations, cost, budget, field) for seed in outcome.seeds]
        for name, field in SHARES.items()
    }


def _search(simulations: int) -> str:
    return "network alone" if simulations == ALONE else f"{simulations:,} simulations"


def _against(outcome, first, second) -> str:
    return f"{outcome.runs[first].name} against {outcome.runs[second].name}"


def tables(config: Config, outcome: Outcome) -> Iterator[Table]:
    """Shares and points at each budget."""
    for cost in COSTS:
        lines = [
            (
                trained.name,
                _search(simulations),
                *(
                    results.text(float(np.mean(shares)))
                    for shares in _shares(outcome, trained, simulations, cost).values()
                ),
            )
            for trained, simulations in itertools.product(outcome.runs, outcome.simulations)
        ]
        title = (
            f"equal_budgets: shares of positions after {results.text(outcome.budget(cost))} {cost}"
        )
        yield text_table(title, ("agent", "search", *SHARES), lines, labels=2)
        lines = []
        for rivals in outcome.rivals:
            share, low, high = outcome.points(cost, *rivals)
            lines.append((_against(outcome, *rivals), f"{share:.3f} ({low:.3f} to {high:.3f})"))
        title = f"points/game with {config.simulations:,} simulations, equal {cost}"
        yield text_table(title, ("", "points/game"), lines)


def draw(path: pathlib.Path, config: Config, outcome: Outcome) -> None:
    """Shares of moves that keep the result by seconds and by evaluations, with the budgets."""
    with plots.figure(path, rows=1, columns=len(COSTS), size=(8.4, 3.2)) as axes:
        for panel, cost in zip(axes[0], COSTS, strict=True):
            shown = [*dict.fromkeys((outcome.simulations[0], outcome.simulations[-1]))]
            lines = [
                _band(trained, simulations, cost, outcome.seeds)
                for trained, simulations in itertools.product(outcome.runs, shown)
            ]
            of_network = " of the network" if cost == "evaluations" else ""
            label = f"{cost}{of_network} in training"
            plots.bands(panel, lines, published={}, x_label=label, log_x=bool(of_network))
            if of_network:
                plots.count_in_thousands(panel.xaxis)
            panel.set(yscale="linear", ylabel="share of moves that keep the result")
            panel.axvline(outcome.budget(cost), color="#333333", linewidth=0.8, label="budget")


def _band(trained: TrainedRun, simulations: int, cost: str, seeds: range) -> plots.Band:
    """The share of moves that keep the result along the training, but for its beginning."""
    lines = [trained.line(seed, simulations)[1:] for seed in seeds]
    steps = [*zip(*lines, strict=True)]  # the cells of all seeds
    return plots.Band(
        name=f"{trained.name}, {_search(simulations)}",
        x=[float(np.mean([getattr(cell, cost) for cell in same])) for same in steps],
        samples=[[cell.keeps for cell in same] for same in steps],
    )


def configure(config: Config, options: Options) -> Config:
    """The preset with the runs.

    Raises:
      ValueError: runs that cannot be compared, or a network that plays is not there.
    """
    if len(options.runs) < 2:
        raise ValueError(f"runs has {len(options.runs)} folders; there must be at least 2")
    runs = [read_run(folder) for folder in options.runs]
    names, machines = [each.name for each in runs], {each.device for each in runs}
    if len({*names}) < len(names):
        raise ValueError(f"runs are of {', '.join(names)}; there must be one of each at most")
    if len(machines) > 1:
        raise ValueError(f"runs are of {' and '.join(sorted(machines))}; must be of one device")
    positions = {cell.positions for run in runs for cell in run.cells}
    if len(positions) > 1:
        counts = " and ".join(f"{count:,}" for count in sorted(positions))
        raise ValueError(f"runs were measured in {counts} positions; must be the same")
    try:
        networks_checksum = checksum(Outcome(runs=runs).files)
    except ValueError as error:
        raise ValueError(f"runs: {error}") from None
    return dataclasses.replace(
        config, runs=tuple(map(str, options.runs)), networks_checksum=networks_checksum
    )


def measure(config: Config) -> str:
    """What the numbers are."""
    return (
        "at the largest number of seconds, and of evaluations of the network, that all runs have"
        " trained for: share of scored positions of Connect Four in which an agent's move keeps the"
        " result, or has the best score, linear between the measured steps; and points of a game, 1"
        f" for a win and 1/2 for a draw, with {config.simulations} simulations, in"
        f" {2 * config.pairs} games of each seed from random openings with swapped colours, of the"
        " networks of the measured step whose cost is nearest to the budget; a run's seconds are"
        " those of its steps in the mean of its seeds"
    )


COMMAND = Experiment(
    name="equal_budgets",
    shown="shares of good moves at equal budgets",
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "three minutes on one core for two runs of three seeds",
        "paper": "800 simulations and 208 games of each seed, for an accelerator",
    },
    options=Options,
    configure=configure,
    batches=lambda config: {"batch": config.batch},
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    measure=measure,
    deviations=(
        "evaluations of the network by Student of Games are the most that there can be: they are"
        " counted as if it always had queries to solve",
        f"games begin with {Config.opening_moves} random moves",
    ),
    error_bars="of shares of positions: the least and the most of all seeds; of points: "
    + match.ERROR_BARS
    + paired_matches.OF_THESE_NETWORKS,
    more_files=(_GAMES_FILE,),
    write_more=write_more,
)
