"""Solves a hold'em spot after the flop: `jaxgames solve_holdem`.

Writes result.json, the convergence as curve.csv and curve.png, the strategy of every hand at each
decision of the first street as strategy.csv, strategy.json and grids of hands, and the whole
solution, which `solvers.holdem.holdem_solution.HoldemSolution.load` reads.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import pathlib
import shlex
from collections.abc import Iterator
from typing import Annotated, Literal

import jax
import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from experiments.harness import devices, hand_grid, plots, results
from experiments.harness.experiment import Command
from experiments.harness.progress import progress, status
from experiments.harness.runs import CHECKPOINT, USAGE, RunArguments, prepare
from experiments.harness.usage_meter import UsageMeter
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
from solvers import cfr, evaluation
from solvers.holdem.holdem_solution import HoldemSolution, SolutionNode
from solvers.holdem.subgame_tree import HoldemTree, holdem_tree
from solvers.registry import PreparedSolver, prepare_cfr

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
class Arguments(RunArguments):
    """Solve a hold'em spot from the flop, the turn or the river on.

    For example, on the turn:

    --board "Td9d6h Qc" --oop "66+,A8s+,AJo+" --ip "QQ-22,AQs-A2s" --pot 200 --stack 900

    Writes result.json, curve.csv, curve.png, strategy.csv and strategy.json, grids of hands for
    each decision of the first street, and solution.npz into --out. Ctrl-C leaves a checkpoint,
    from which --resume continues to exactly the same numbers. Exit codes: 0 solved, 1 --target not
    reached, 2 bad input, 130 interrupted.
    """

    board: str
    """Three to five cards, such as "Td9d6h Qc"."""
    oop: str
    """Range of the player out of position, who acts first, such as "66+, A8s+, AJo+:0.5"; random is
    all hands."""
    ip: str
    """Range of the player in position."""
    pot: int
    """Chips in the pot."""
    stack: int | tuple[int, int]
    """Chips that each player has left; if two numbers are given, the smaller one counts."""
    bets: str = "50%,100%,allin"
    """Sizes of bets: shares of the pot, 2e (all-in over two streets in equal shares), allin."""
    raises: str = "3x"
    """Sizes of raises: multiples of the bet, shares of the pot after a call, allin."""
    sizes: tuple[str, ...] = ()
    """Exceptions by street and player, such as "turn bets 33%", "river oop bets 75%,allin", or
    "ip raises" for no raises in position."""
    least_bet: int = 1
    """The smallest bet: the big blind."""
    target: str = "0.1%"
    """Stop when exploitability (NashConv / 2) is below this share of the pot or number of chips."""
    iterations: int = 2000
    """How many iterations at most; each updates both players."""
    solver: str = "dcfr(gamma=3)"
    """A name of `list`, with or without parameters."""
    storage: Literal["full", "int16"] = "full"
    """How the solver's state is stored between iterations: in float32, or in half the bytes."""
    every: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Iterations from one evaluation to the next. None: ten evaluations per decade."""
    out: pathlib.Path = pathlib.Path("out/solve_holdem")
    """Folder for the results, which is made if it does not exist."""


def main(arguments: Arguments, *, command: str) -> int:
    """Runs the command.

    Args:
      arguments: its options.
      command: the command line, for the record.

    Returns:
      The exit code: 0 solved, 1 the target is not reached.

    Raises:
      ValueError: bad input.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; a checkpoint has been left if a state was reached.
    """
    devices.start(arguments, None)
    meter = UsageMeter()
    solver = cfr.make_solver(arguments.solver)
    with status("building the tree"):
        tree = build(arguments)
    target = _target(arguments)
    schedule = measured_solve.Schedule(
        iterations=arguments.iterations, every=arguments.every, target=target
    )
    lock = prepare(
        arguments.out, files=_FILES, resume=arguments.resume, overwrite=arguments.overwrite
    )
    meter.keep_in(arguments.out / CHECKPOINT / USAGE)
    prepared = prepare_cfr(
        solver, tree.sequence_form, root_reach=tree.root_reach, storage=arguments.storage
    )
    with (
        progress(cards_name(tree.board), arguments.iterations) as report,
        concurrent.futures.ThreadPoolExecutor(1) as beside,
    ):
        # What the report needs is compiled on another core while the solver is.
        beside.submit(_compile_report, tree, prepared)
        run = measured_solve.run(
            prepared,
            schedule,
            folder=arguments.out,
            resume=arguments.resume,
            report=report,
            weight=tree.total_weight,
            saved=meter.keep,
        )
    # An earlier result no longer fits the files below.
    (arguments.out / results.RESULT_FILE).unlink(missing_ok=True)
    solution = HoldemSolution(tree, cfr.average_policy(tree.sequence_form, run.state))
    with status("writing the solution"):
        speed = measured_solve.iterations_per_second(prepared, run.state)
        _write(arguments, solution, run.points, target)
        result = results.make_result(
            experiment="solve_holdem",
            preset="custom",
            config=_recorded(arguments),
            command=command,
            usage=meter.usage(),
            numbers=[*numbers(solution, run), _seconds(speed)],
        )
        results.write_result(arguments.out, result)
    lock.release()
    _print(result, solution, arguments.out)
    if schedule.reached(run.points):
        return 0
    Console(stderr=True).print(f"exploitability is not below the target of {arguments.target}")
    return 1


def build(arguments: Arguments) -> HoldemTree:
    """Builds the subgame that the options describe.

    Raises:
      ValueError: an option is not valid.
    """
    board = parse_cards(arguments.board)
    if not 3 <= len(board) <= 5:
        raise ValueError(f"board {arguments.board!r} must have 3 to 5 cards")
    streets = _STREETS[len(board) - 3 :]
    betting = build_betting_tree(
        pot=arguments.pot,
        stack=arguments.stack,
        streets=len(streets),
        sizes=sizes_by_street(arguments.bets, arguments.raises, arguments.sizes, streets=streets),
        least_bet=arguments.least_bet,
    )
    ranges = parse_range(arguments.oop), parse_range(arguments.ip)
    return holdem_tree(board, ranges, betting, storage=arguments.storage)


def numbers(solution: HoldemSolution, run: measured_solve.MeasuredSolve) -> list[results.Number]:
    """The numbers of a solution: values, equities, exploitability, and frequencies at the root.

    Args:
      solution: of the spot.
      run: that led to it.
    """
    tree, pot, last = solution.tree, solution.tree.betting.pot, run.points[-1]
    equity = _equity(tree)
    measured = [
        results.Number(name="ev_oop", value=run.values[0] + pot / 2, unit="chips"),
        results.Number(name="ev_ip", value=run.values[1] + pot / 2, unit="chips"),
        results.Number(name="equity_oop", value=equity, unit="of the pot"),
        results.Number(name="equity_ip", value=1 - equity, unit="of the pot"),
        results.Number(name="exploitability", value=last.exploitability, unit="chips"),
        results.Number(
            name="exploitability_pct_pot", value=100 * last.exploitability / pot, unit="%"
        ),
        results.Number(name="iterations", value=float(last.iteration), unit="iterations"),
    ]
    root = solution.root
    for action, frequency in zip(root.actions, root.frequencies, strict=True):
        name = f"frequency_{SEATS[root.player]}_{action.replace(' ', '_')}"
        measured.append(results.Number(name=name, value=float(frequency), unit="of the range"))
    return measured


def first_street(solution: HoldemSolution) -> Iterator[SolutionNode]:
    """All decisions before another card is dealt, in breadth-first order."""
    queue = [solution.root]
    while queue:
        node = queue.pop(0)
        yield node
        betting = solution.tree.betting
        for index, action in enumerate(node.actions):
            if betting.actor[betting.child[node.number, index]] >= 0:
                queue.append(node.play(action))


def _equity(tree: HoldemTree) -> float:
    """The share of the pot of the player out of position if both check to the showdown."""
    return range_equity(tree.board, *map(whole_range, tree.hands, tree.ranges))


def _compile_report(tree: HoldemTree, prepared: PreparedSolver) -> None:
    """Compiles what is computed after the solve."""
    policy = prepared.average_policy(prepared.initial_state)
    jax.block_until_ready(
        evaluation.counterfactual_values(tree.sequence_form, policy, tree.root_reach)
    )
    _equity(tree)


def _seconds(speed):
    return results.Number(name="seconds_per_iteration", value=1 / speed, unit="s")


def _target(arguments) -> float:
    """The target in chips."""
    text = arguments.target.strip()
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        raise ValueError(f"target={text!r} must be a share of the pot (0.1%) or chips") from None
    return value * arguments.pot / 100 if text.endswith("%") else value


def _write(arguments, solution, points, target) -> None:
    results.write_csv(arguments.out / "curve.csv", [dataclasses.asdict(point) for point in points])
    curve = plots.Curve(
        solver=arguments.solver,
        x=[point.iteration for point in points],
        exploitability=[point.exploitability for point in points],
    )
    board = cards_name(solution.tree.board)
    with plots.figure(arguments.out / "curve.png", rows=1, columns=1, size=(4.6, 3.2)) as axes:
        plots.convergence(axes[0, 0], [curve], x_label="iterations")
        plots.level(axes[0, 0], target, "target")
        axes[0, 0].set(title=board, ylabel="exploitability (chips)")
    grids = arguments.out / "grids"
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
    results.write_csv(
        arguments.out / "strategy.csv", [row for node in nodes for row in _rows(node)]
    )
    strategies = json.dumps({node.path: _strategies(node) for node in nodes})
    results.write_file(arguments.out / "strategy.json", strategies)
    solution.save(arguments.out / "solution.npz")


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
            "probability": f"{node.policy[row, index]:.6g}",
            "action_ev": f"{node.action_ev[row, index]:.6g}",
        }
        for row in range(len(hands))
        for index, action in enumerate(node.actions)
    ]


def _strategies(node: SolutionNode) -> dict[str, object]:
    """A decision for JSON, with the weight, the value and the policy of every hand."""
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


def _recorded(arguments: Arguments) -> dict[str, object]:
    """The config of the result: the options that numbers depend on."""
    recorded = dataclasses.asdict(arguments)
    for field in dataclasses.fields(RunArguments):  # not about the numbers
        del recorded[field.name]
    measure = "a hold'em subgame: expected shares of the pot, exploitability (NashConv / 2)"
    return recorded | {"measure": measure}


def _print(result: results.Result, solution: HoldemSolution, out: pathlib.Path) -> None:
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
            break  # only the root and the decisions after it are printed
        _print_node(console, node)
    console.print(f"written to {shlex.quote(str(out))}", soft_wrap=True)


def _print_node(console: Console, node: SolutionNode) -> None:
    try:
        frequencies = node.frequencies
    except ValueError:
        return  # no hand reaches the decision
    table = Table(title=f"{node.path or 'first'}: {SEATS[node.player].upper()}")
    for heading in ("action", "frequency", "hands that do it most"):
        table.add_column(heading, justify="left" if heading != "frequency" else "right")
    hands = node.solution.tree.hands[node.player]
    weights = node.ranges[node.player] * node.opponent_weight[node.player]
    shares, _ = hand_grid.of_classes(hands, weights, node.policy)
    classes = class_numbers()[hand_numbers(hands)]
    for index, action in enumerate(node.actions):
        weight = np.bincount(classes, weights * node.policy[:, index], len(CLASSES))
        most = [i for i in np.argsort(-weight, kind="stable")[:8] if shares[i, index] >= 0.05]
        names = ", ".join(f"{CLASSES[i]} {shares[i, index]:.2f}" for i in most)
        table.add_row(action, f"{100 * frequencies[index]:.1f} %", names)
    console.print(table)


COMMAND = Command(Arguments, main)
