"""Solves a hold'em spot after the flop: `python -m experiments solve_holdem`.

Writes result.json, the convergence as curve.csv and curve.png, what every hand does at each
decision of the first street as strategy.csv, strategy.json and grids of hands, and the whole
solution, which `solvers.holdem.solution.Solution.load` reads.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shlex
import time
from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from experiments.commands import hand_grid
from experiments.harness import plots, results
from experiments.harness.progress import progress, status
from experiments.harness.runs import RunArguments, prepare
from experiments.tabular import measured_solve
from jaxgames.holdem.bet_sizes import SEATS, sizes_by_street
from jaxgames.holdem.betting_from_sizes import build_betting_tree
from jaxgames.holdem.cards import cards_name, parse_cards
from jaxgames.holdem.equity import range_equity
from jaxgames.holdem.ranges import (
    CLASSES,
    class_numbers,
    hand_numbers,
    parse_range,
    whole_range,
)
from solvers import cfr
from solvers.holdem.solution import Solution, SolutionNode
from solvers.holdem.subgame_tree import HoldemTree, holdem_tree

_FILES = (
    results.RESULT_FILE,
    "curve.csv",
    "curve.png",
    "strategy.csv",
    "strategy.json",
    "solution.npz",
    "grids",
)
_STREETS = ("flop", "turn", "river")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(RunArguments):
    """Solve a hold'em spot from the flop, the turn or the river on.

    For example, on the turn:

    --board "Td9d6h Qc" --oop "66+,A8s+,AJo+" --ip "QQ-22,AQs-A2s" --pot 200 --stack 900

    Writes result.json, curve.csv, curve.png, strategy.csv and strategy.json, grids of hands for
    each decision of the first street, and solution.npz into --out. Ctrl-C leaves a checkpoint,
    from which --resume continues to exactly the same numbers. Exit codes: 0 solved, 1 --target not
    reached, 2 bad input, 130 interrupted.
    """

    board: str
    """Three to five cards: "Td9d6h Qc"."""
    oop: str
    """Range of the player out of position, who acts first: "66+, A8s+, AJo+:0.5, random"."""
    ip: str
    """Range of the other player."""
    pot: int
    """Chips in the middle."""
    stack: int | tuple[int, int]
    """Chips that either player has left; of two numbers the smaller one counts."""
    bets: str = "50%,100%,allin"
    """Sizes of bets: shares of the pot, "2e" (all-in in two equal shares), "allin"."""
    raises: str = "3x"
    """Sizes of raises: multiples of the bet, shares of the pot after calling, "allin"."""
    sizes: tuple[str, ...] = ()
    """Other sizes by street and player: "turn bets 33%" "river oop bets 75%,allin" "ip raises"
    (none)."""
    least_bet: int = 1
    """The big blind; no bet is smaller."""
    target: str = "0.1%"
    """Stop when exploitability (NashConv / 2) is below: a share of the pot, or chips."""
    iterations: int = 2000
    """Iterations at most, each of which updates both players."""
    solver: str = "dcfr(gamma=3)"
    """A name of `list`, perhaps with parameters."""
    storage: Literal["full", "int16"] = "full"
    """How the solve is kept between iterations: in float32, or in half the bytes."""
    every: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Evaluate each so many iterations; None: ten times per decade."""
    out: pathlib.Path = pathlib.Path("out/solve_holdem")
    """Folder for the results; made if need be."""


def main(config: Config, *, command: str) -> int:
    """Runs `solve_holdem`; returns the exit code. `command` is the command line, for the record.

    Raises:
      ValueError: bad input.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; a checkpoint has been left if a state was reached.
    """
    begin = time.perf_counter()
    solver = cfr.make_solver(config.solver)
    with status("building the tree"):
        tree = build(config)
    target = _target(config)
    schedule = measured_solve.Schedule(
        iterations=config.iterations, every=config.every, target=target
    )
    prepare(config.out, files=_FILES, resume=config.resume, overwrite=config.overwrite)
    with progress(cards_name(tree.board), config.iterations) as report:
        run = measured_solve.run(
            tree.sequence_form,
            solver,
            schedule,
            folder=config.out,
            resume=config.resume,
            report=report,
            root_reach=tree.root_reach,
            weight=tree.total_weight,
            storage=config.storage,
        )
    (config.out / results.RESULT_FILE).unlink(missing_ok=True)  # it no longer fits the files below
    solution = Solution(tree, cfr.average_policy(tree.sequence_form, run.state))
    with status("writing the solution"):
        speed = measured_solve.iterations_per_second(tree.sequence_form, run.state, solver)
        _write(config, solution, run.points, target)
        result = results.make_result(
            experiment="solve_holdem",
            preset="custom",
            config=_recorded(config),
            command=command,
            wall_seconds=time.perf_counter() - begin,
            numbers=[*numbers(solution, run.points[-1]), _seconds(speed)],
        )
        results.write_result(config.out, result)
    _print(result, solution, config.out)
    if schedule.reached(run.points):
        return 0
    Console(stderr=True).print(f"exploitability is not below the target of {config.target}")
    return 1


def build(config: Config) -> HoldemTree:
    """The subgame that the options describe."""
    board = parse_cards(config.board)
    if not 3 <= len(board) <= 5:
        raise ValueError(f"board {config.board!r} must have 3 to 5 cards")
    streets = _STREETS[len(board) - 3 :]
    betting = build_betting_tree(
        pot=config.pot,
        stack=config.stack,
        streets=len(streets),
        sizes=sizes_by_street(config.bets, config.raises, config.sizes, streets=streets),
        least_bet=config.least_bet,
    )
    ranges = parse_range(config.oop), parse_range(config.ip)
    return holdem_tree(board, ranges, betting, storage=config.storage)


def numbers(solution: Solution, last: measured_solve.Point) -> list[results.Number]:
    """Of a solution: values, equities, how exploitable it is, and what happens first."""
    tree, pot = solution.tree, solution.tree.betting.pot
    first, second = map(whole_range, tree.hands, tree.ranges)
    equity = range_equity(tree.board, first, second)
    found = [
        results.Number(name="ev_oop", value=solution.ev[0], unit="chips"),
        results.Number(name="ev_ip", value=solution.ev[1], unit="chips"),
        results.Number(name="equity_oop", value=equity, unit="of the pot"),
        results.Number(name="equity_ip", value=1 - equity, unit="of the pot"),
        results.Number(name="exploitability", value=last.exploitability, unit="chips"),
        results.Number(
            name="exploitability_pct_pot", value=100 * last.exploitability / pot, unit="%"
        ),
        results.Number(name="iterations", value=float(last.iteration), unit="iterations"),
    ]
    root = solution.root
    for action, often in zip(root.actions, root.frequencies, strict=True):
        name = f"frequency_{SEATS[root.player]}_{action.replace(' ', '_')}"
        found.append(results.Number(name=name, value=float(often), unit="of the range"))
    return found


def first_street(solution: Solution) -> Iterator[SolutionNode]:
    """All decisions before another card is dealt."""
    waiting = [solution.root]
    while waiting:
        node = waiting.pop(0)
        yield node
        betting = solution.tree.betting
        for place, action in enumerate(node.actions):
            if betting.actor[betting.child[node.number, place]] >= 0:
                waiting.append(node.play(action))


def _seconds(speed):
    return results.Number(name="seconds_per_iteration", value=1 / speed, unit="s")


def _target(config) -> float:
    """In chips."""
    text = config.target.strip()
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        raise ValueError(f"target={text!r} must be a share of the pot (0.1%) or chips") from None
    return value * config.pot / 100 if text.endswith("%") else value


def _write(config, solution, points, target) -> None:
    results.write_csv(config.out / "curve.csv", [dataclasses.asdict(point) for point in points])
    curve = plots.Curve(
        solver=config.solver,
        x=[point.iteration for point in points],
        exploitability=[point.exploitability for point in points],
    )
    board = cards_name(solution.tree.board)
    with plots.figure(config.out / "curve.png", rows=1, columns=1, size=(4.6, 3.2)) as axes:
        plots.convergence(axes[0, 0], [curve], x_label="iterations")
        plots.level(axes[0, 0], target, "target")
        axes[0, 0].set(title=board, ylabel="exploitability (chips)")
    grids = config.out / "grids"
    grids.mkdir(exist_ok=True)
    nodes = list(first_street(solution))
    for node in nodes:
        seat = SEATS[node.player].upper()
        hand_grid.draw(
            grids / f"{node.path.replace(', ', '-').replace(' ', '') or 'root'}.png",
            title=f"{board}  {node.path or 'first'}: {seat}",
            actions=node.actions,
            hands=solution.tree.hands[node.player],
            weights=node.ranges[node.player] * node.opponent_weight[node.player],
            policy=node.policy,
        )
    results.write_csv(config.out / "strategy.csv", [row for node in nodes for row in _rows(node)])
    strategies = json.dumps({node.path: _strategies(node) for node in nodes})
    results.write_file(config.out / "strategy.json", strategies)
    solution.save(config.out / "solution.npz")


def _rows(node: SolutionNode) -> list[dict[str, object]]:
    """A row for each hand and action."""
    hands, weights = node.solution.tree.hands[node.player], node.ranges[node.player]
    return [
        {
            "path": node.path,
            "player": SEATS[node.player],
            "hand": cards_name(hands[row][::-1]),
            "weight": f"{weights[row]:.6g}",
            "ev": f"{node.ev[row]:.6g}",
            "action": action,
            "probability": f"{node.policy[row, place]:.6g}",
            "action_ev": f"{node.action_ev[row, place]:.6g}",
        }
        for row in range(len(hands))
        for place, action in enumerate(node.actions)
    ]


def _strategies(node: SolutionNode) -> dict[str, object]:
    """A decision, and what every hand does, is worth, and weighs there."""
    hands, weights = node.solution.tree.hands[node.player], node.ranges[node.player]
    columns = weights.tolist(), node.ev.tolist(), node.policy.tolist()
    return {
        "player": SEATS[node.player],
        "pot": node.pot,
        "actions": node.actions,
        "hands": {
            cards_name(hand[::-1]): {"weight": weight, "ev": ev, "policy": policy}
            for hand, weight, ev, policy in zip(hands, *columns, strict=True)
        },
    }


def _recorded(config: Config) -> dict[str, object]:
    kept = dataclasses.asdict(config)
    for name in ("out", "resume", "overwrite"):  # about files, not about the numbers
        del kept[name]
    measured = "a hold'em subgame: expected shares of the pot, exploitability (NashConv / 2)"
    return kept | {"measure": measured}


def _print(result: results.Result, solution: Solution, out: pathlib.Path) -> None:
    console, tree = Console(), solution.tree
    table = Table(title=f"{cards_name(tree.board)}, pot {tree.betting.pot}")
    table.add_column("number")
    table.add_column("value", justify="right")
    table.add_column("unit")
    for number in result.numbers:
        table.add_row(number.name, results.text(number.value), number.unit)
    console.print(table)
    for node in first_street(solution):
        if len(node.path.split(",")) > 1:
            break  # the root, and the answers to it
        _print_node(console, node)
    console.print(f"written to {shlex.quote(str(out))}", soft_wrap=True)


def _print_node(console: Console, node: SolutionNode) -> None:
    try:
        often = node.frequencies
    except ValueError:
        return  # nobody comes here
    table = Table(title=f"{node.path or 'first'}: {SEATS[node.player].upper()}")
    for heading in ("action", "frequency", "hands that do it most"):
        table.add_column(heading, justify="left" if heading != "frequency" else "right")
    hands = node.solution.tree.hands[node.player]
    weights = node.ranges[node.player] * node.opponent_weight[node.player]
    shares, _ = hand_grid.of_classes(hands, weights, node.policy)
    classes = class_numbers()[hand_numbers(hands)]
    for place, action in enumerate(node.actions):
        most = np.bincount(classes, weights * node.policy[:, place], len(CLASSES))
        some = [i for i in np.argsort(-most, kind="stable")[:8] if shares[i, place] >= 0.05]
        named = ", ".join(f"{CLASSES[i]} {shares[i, place]:.2f}" for i in some)
        table.add_row(action, f"{100 * often[place]:.1f} %", named)
    console.print(table)
