"""Why a single value at the depth limit is not enough: rock-paper-scissors-plus (RPS+).

Brown, Sandholm and Amos 2018, Figure 1. In RPS+ every action of the first player is worth 0 in
equilibrium, so a search of depth one that is given these values learns nothing. If the second
player may choose among several strategies at the depth limit, the same search finds the
equilibrium: rock 0.4, paper 0.4, scissors 0.2.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator, Sequence

import jax.numpy as jnp
import numpy as np
from rich.table import Table

from experiments.harness import plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.runs import Run
from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from jaxgames.rps_plus import RockPaperScissorsPlus
from solvers import cfr, evaluation, linear_program
from solvers.sequence_form import build_sequence_form
from solvers.subgames import continuations, leaf_values
from solvers.subgames.depth_limited_subgame import after_decisions, build_subgame, embed

ACTIONS = RockPaperScissorsPlus.action_names
EQUILIBRIUM = dict(zip(ACTIONS, (0.4, 0.4, 0.2), strict=True))
METHODS = ("self-generative", "bias")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    values: tuple[int, ...]  # numbers of values at every leaf
    iterations: int  # of the solver, for every subgame
    solver: str = "cfr_plus"
    bias: float = 10.0  # factor by which the probability of an action is multiplied


PRESETS = {
    "smoke": Config(values=(1, 4), iterations=100),
    "cpu": Config(values=(1, 2, 3, 4), iterations=100_000),
    "paper": Config(values=(1, 2, 3, 4), iterations=1_000_000),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """The result of the search with a number of values per leaf."""

    method: str
    values: int
    policy: list[float]  # of the first player
    exploitability: float  # what a best response to the policy wins


def compute(run: Run) -> list[Cell]:
    """All cells."""
    return run.kept("cells", Cell, lambda: _cells(run.config))


def _cells(config: Config) -> Iterator[Cell]:
    """Searches with every method and every number of values."""
    tree = enumerate_game(make("rps_plus"))
    game = build_sequence_form(tree)
    _, equilibrium = linear_program.solve(game)
    blueprint = tuple(jnp.asarray(rows, game.dtype) for rows in equilibrium)
    solving = dict(solver=cfr.make_solver(config.solver), num_iterations=config.iterations)
    for method in METHODS:
        for count in config.values:
            subgame = build_subgame(tree, after_decisions(tree, 1), choices=(1, count))
            paths = (
                leaf_values.paths_to_leaves(tree, subgame),
                leaf_values.paths_from_leaves(tree, subgame),
            )
            if method == "bias":
                offered = continuations.bias_set(blueprint[1], np.eye(3, dtype=bool))[:count]
                offered = blueprint[0][None], offered
            else:
                offered = continuations.self_generated(game, subgame, paths, blueprint, **solving)
            values = continuations.values_of(subgame, paths, blueprint, offered)
            policy = embed(subgame, continuations.solve(subgame, values, **solving), blueprint)
            yield Cell(
                method=method,
                values=count,
                policy=np.asarray(policy[0][0], float).tolist(),
                exploitability=float(evaluation.best_response_value(game, policy)[1]),
            )


def draw(path: pathlib.Path, config: Config, cells: Sequence[Cell]) -> None:
    """The first player's policy, and how exploitable it is, by the number of values."""
    with plots.figure(path, rows=1, columns=3, size=(9.6, 3.0)) as axes:
        last = axes[0, 2]
        for place, method in zip(axes[0], METHODS, strict=False):
            of_method = [cell for cell in cells if cell.method == method]
            counts = [cell.values for cell in of_method]
            for action, (name, colour) in enumerate(zip(ACTIONS, _COLOURS, strict=True)):
                chances = [cell.policy[action] for cell in of_method]
                place.plot(counts, chances, color=colour, marker="o", markersize=4, label=name)
                place.axhline(EQUILIBRIUM[name], color=colour, linewidth=0.8, linestyle=(0, (4, 3)))
            place.set(xlabel="values per leaf", ylim=(0, 1), xticks=counts, title=method)
            last.plot(
                counts,
                [cell.exploitability for cell in of_method],
                marker="os"[METHODS.index(method)],
                markersize=4,
                color=_COLOURS[METHODS.index(method)],
                linestyle=("-", "--")[METHODS.index(method)],
                label=method,
            )
        axes[0, 0].set_ylabel("probability (dashed: equilibrium)")
        axes[0, 0].legend(frameon=False, fontsize=8, ncols=3, loc="upper center")
        last.set(xlabel="values per leaf", ylabel="exploitability", xticks=counts)
        last.set_title("what a best response wins")
        last.legend(frameon=False, fontsize=8)


_COLOURS = tuple(plots.COLOURS.values())[:3]


def rows(config: Config, cells: Sequence[Cell]) -> Iterator[dict[str, object]]:
    """A row for every cell."""
    return map(_row, cells)


def _row(cell: Cell) -> dict[str, object]:
    chances = {name: f"{p:.6g}" for name, p in zip(ACTIONS, cell.policy, strict=True)}
    exploitability = f"{cell.exploitability:.6g}"
    return dict(method=cell.method, values=cell.values, **chances, exploitability=exploitability)


def numbers(config: Config, cells: Sequence[Cell]) -> Iterator[results.Number]:
    """Policies and what best responses to them win; published: the equilibrium."""
    for cell in cells:
        yield from _numbers(cell)


def _numbers(cell: Cell) -> Iterator[results.Number]:
    row = f"{cell.method}, values={cell.values}"
    for name, chance in zip(ACTIONS, cell.policy, strict=True):
        paper = EQUILIBRIUM[name] if cell.values == 4 else None
        yield results.Number(name=f"{name}:{row}", value=chance, unit="probability", paper=paper)
    yield results.Number(name=f"exploitability:{row}", value=cell.exploitability, unit="payoff")


def tables(config: Config, cells: Sequence[Cell]) -> Iterator[Table]:
    """A line for every cell."""
    lines = [
        (
            f"{cell.method}, {cell.values}",
            *(f"{x:.4f}" for x in (*cell.policy, cell.exploitability)),
        )
        for cell in cells
    ]
    title = "rps_plus: policies after a search of depth one"
    yield text_table(title, ("values", *ACTIONS, "exploitability"), lines)


COMMAND = Experiment(
    name="rps_plus",
    shown="the first player's policies by the number of values",
    presets=PRESETS,
    preset_docs={"smoke": "seconds", "cpu": "seconds", "paper": "more iterations"},
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    measure="what the first player does after a search of depth one with this many values at"
    " each leaf, and what a best response to that wins; published: the equilibrium",
    deviations=("the paper shows the equilibrium alone; sets of one to four values are ours",),
)
