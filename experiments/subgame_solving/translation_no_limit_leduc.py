"""How exploitable action translation is (Ganzfried and Sandholm 2013, Tables 2, 3, 4 and 6).

A strategy knows fold, call, one size and all-in; its opponent bets what it likes. In games of one
bet, no-limit Kuhn poker and the clairvoyance game, the second player translates; bets are multiples
of a tenth of the pot. In no-limit Leduc hold'em either player does, wherever it acts; chips are
whole. A best response in the whole game tells how much that loses.

Equilibria of abstractions are not unique, and what translation loses depends on which is taken. In
games of one bet it is the one in which bluffs of any known size gain nothing; in Leduc there are
several: the linear program's, and what CFR+ finds from random policies.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from rich.console import Console
from rich.table import Table

from experiments.harness import plots, published, results
from experiments.harness.progress import counter, progress
from experiments.harness.runs import Run, RunArguments
from jaxgames.holdem.bet_sizes import BetSizes
from jaxgames.holdem.betting_from_rules import betting_of_rules
from jaxgames.holdem.betting_from_sizes import build_betting_tree
from jaxgames.holdem.rules import UNLIMITED, Poker
from jaxgames.holdem.small_poker import SmallPoker, build_small_poker
from solvers import cfr, evaluation, linear_program
from solvers.sequence_form import Policy, build_sequence_form
from solvers.translated_strategy import translated

MAPPINGS = {
    "deterministic_arithmetic": "Det-Arith",
    "arithmetic": "Rand-Arith",
    "deterministic_geometric": "Det-Geo",
    "geometric_1": "Rand-Geo-1",
    "geometric_2": "Rand-Geo-2",
    "deterministic_pseudo_harmonic": "Det-psHar",
    "pseudo_harmonic": "Rand-psHar",
}
_POT = 10  # chips in the pot of games of one bet
_RANKS = 3
_CLAIRVOYANT = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])  # cards that each player may hold
SEATS = ("P1", "P2")


@dataclasses.dataclass(frozen=True)
class OneBet:
    """A game in which the first player may bet, and the second one may call."""

    name: str
    size: str  # that the abstraction knows besides all-in
    clairvoyant: bool  # the first player knows whether it wins


ONE_BET = {
    "clairvoyance": OneBet("clairvoyance", "100%", True),
    "Kuhn": OneBet("Kuhn", "100%", False),
    "Kuhn, 0.4 pot": OneBet("Kuhn, 0.4 pot", "40%", False),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is computed."""

    stacks: tuple[int, ...] = (1, 3, 5, 10, 20, 50, 100)  # in games of one bet, in pots
    leduc_stack: int = 12  # ante included, in antes
    sizes: str = "100%, allin"  # that the abstraction of Leduc knows
    equilibria: int = 5  # of the abstraction of Leduc
    abstract_iterations: int = 20_000  # of CFR+ for each but the linear program's
    iterations: int = 4000  # of PCFR+ for the value of Leduc


PRESETS = {
    "smoke": Config(
        stacks=(3,), leduc_stack=3, equilibria=2, abstract_iterations=1000, iterations=300
    ),
    "cpu": Config(),
    "paper": Config(equilibria=20, abstract_iterations=100_000, iterations=50_000),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Measure action translation in no-limit Leduc, Kuhn and clairvoyance poker.

    Writes exploitability by mapping as curve.csv and curve.png, and result.json, into --out. Ctrl-C
    keeps what is finished there, from which --resume continues to the same numbers.
    """

    preset: Literal["smoke", "cpu", "paper"] = "cpu"
    """smoke: seconds; cpu: minutes; paper: more equilibria, closer to them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """What a best response wins against a mapping, beyond the value of the game."""

    game: str
    mapping: str
    seat: str  # of who translates
    stack: int
    equilibrium: int
    exploitability: float  # in pots; in Leduc in antes


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the experiment.

    Raises:
      ValueError: `out` holds another run.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; what was finished has been kept.
    """
    config = PRESETS[arguments.preset]
    run = Run(arguments, config, experiment="translation_no_limit_leduc", command=command)
    cells: list[Cell] = []
    with progress("translation_no_limit_leduc", len(ONE_BET) * len(config.stacks) + 1) as report:
        count = counter(report)
        for game in ONE_BET.values():
            for stack in config.stacks:
                name = f"{game.name} {stack}"
                cells += run.kept(name, Cell, lambda game=game, stack=stack: one_bet(game, stack))
                count(1)
        cells += run.kept("Leduc", Cell, lambda: leduc(config))
        count(1)
    results.write_csv(run.out / "curve.csv", list(map(_row, cells)))
    draw(run.out / "curve.png", config, cells)
    run.finish(
        _numbers(config, cells),
        measure=_MEASURE,
        deviations=[
            "what a translated strategy does where bets of the hand and of the abstraction have"
            " parted is our reading; in Leduc values are means over"
            f" {config.equilibria} equilibria of the abstraction, low and high their range"
        ],
    )
    _print(cells)


_MEASURE = (
    "what a best response wins beyond the value of the game from a strategy of the abstraction with"
    " translated bets; published: Ganzfried and Sandholm 2013"
)


def one_bet(game: OneBet, stack: int) -> Iterator[Cell]:
    """All mappings for one stack."""
    real, abstract = _one_bet(game, stack, "any"), _one_bet(game, stack, f"{game.size}, allin")
    tree = build_sequence_form(real.tree)
    value, _ = linear_program.solve(tree)
    policy = defending(abstract)
    first = jnp.zeros((tree.treeplexes[0].num_decisions, tree.num_actions))
    for mapping in MAPPINGS:
        rows = jnp.asarray(translated(real, abstract, policy, player=1, mapping=mapping), float)
        best = float(evaluation.best_response_value(tree, (first, rows))[0])
        yield Cell(
            game=game.name,
            mapping=mapping,
            seat="P2",
            stack=stack,
            equilibrium=0,
            exploitability=(best - value) / _POT,
        )


def _one_bet(game: OneBet, stack: int, bets: str) -> SmallPoker:
    sizes = BetSizes.parse(bets, ""), BetSizes.parse("", "")
    betting = build_betting_tree(pot=_POT, stack=_POT * stack, streets=1, sizes=(sizes,))
    weights = _CLAIRVOYANT if game.clairvoyant else None
    return build_small_poker(betting, ranks=_RANKS, weights=weights)


def defending(game: SmallPoker) -> Float[np.ndarray, "D A"]:
    """The second player's equilibrium of a game of one bet in which it calls with its best cards,
    so often that the first player's lowest card gains nothing by a bet, whatever its size.

    That is 1 / (1 + x) of the hands it holds then, of a bet of x pots (Ankenman and Chen 2006).
    """
    policy = np.zeros(game.tree.legal_actions(1).shape)
    held = game.deals[np.flatnonzero(game.deals.sum(axis=1))[0]]  # when the first has its lowest
    held = held / held.sum()
    better = np.cumsum(held[::-1])[::-1] - held  # how often the card is a better one
    betting = game.betting
    for node in np.flatnonzero(betting.actor == 1):
        states, bet = game.states[node][:, 0], int(np.ptp(betting.paid[node]))
        wanted = 1 / (1 + bet / betting.pot)
        calls = np.clip((wanted - better) / np.where(held > 0, held, 1), 0, 1)
        chances = np.stack([1 - calls, calls], axis=1) if bet else np.ones((len(calls), 1))
        there = states >= 0
        policy[states[there], : chances.shape[1]] = chances[there]
    return policy


def leduc(config: Config) -> Iterator[Cell]:
    """All mappings, for both players, of each equilibrium of the abstraction."""
    real, abstract = no_limit_leduc(config, "any"), no_limit_leduc(config, config.sizes)
    tree = build_sequence_form(real.tree)
    solver, count = cfr.pcfr_plus(), config.iterations
    solved = cfr.average_policy(
        tree, cfr.run(tree, cfr.init(tree), solver=solver, num_iterations=count)
    )
    value = np.asarray(evaluation.expected_value(tree, solved))
    for number in range(config.equilibria):
        policy = _equilibrium(config, abstract, number)
        rows = [
            [translated(real, abstract, policy[p], player=p, mapping=name) for name in MAPPINGS]
            for p in range(2)
        ]
        policies = tuple(jnp.asarray(np.stack(each), tree.dtype) for each in rows)
        best = np.asarray(_best_values(tree, policies))
        for row, mapping in zip(best, MAPPINGS, strict=True):
            for player, seat in enumerate(SEATS):
                yield Cell(
                    game="Leduc",
                    mapping=mapping,
                    seat=seat,
                    stack=config.leduc_stack,
                    equilibrium=number,
                    exploitability=float(row[1 - player] + value[player]),
                )


_best_values = jax.jit(jax.vmap(evaluation.best_response_value, (None, 0)))


def no_limit_leduc(config: Config, sizes: str) -> SmallPoker:
    """Leduc hold'em without limit, with these sizes."""
    rules = Poker(
        limit=False,
        blinds=(1, 1),
        stack=config.leduc_stack,
        first=(0, 0),
        board=(0, 1),
        raise_sizes=(),
        max_raises=(UNLIMITED, UNLIMITED),
        hole=1,
        ranks=_RANKS,
        suits=2,
    )
    betting = betting_of_rules(rules, sizes=BetSizes.parse(sizes, sizes))
    return build_small_poker(betting, ranks=rules.ranks, suits=rules.suits)


def _equilibrium(config: Config, abstract: SmallPoker, number: int) -> Policy:
    """The linear program's, or what CFR+ makes of random policies."""
    tree = build_sequence_form(abstract.tree)
    if number == 0:
        return linear_program.solve(tree)[1]
    random = np.random.default_rng(number)
    start = []
    for player in range(2):
        weight = random.exponential(size=(legal := abstract.tree.legal_actions(player)).shape)
        weight = weight * legal
        start.append(jnp.asarray(weight / weight.sum(axis=1, keepdims=True), tree.dtype))
    state = cfr.init(tree, policy=tuple(start), policy_weight=float(config.leduc_stack))
    count = config.abstract_iterations
    return cfr.average_policy(
        tree, cfr.run(tree, state, solver=cfr.cfr_plus(), num_iterations=count)
    )


def draw(path: pathlib.Path, config: Config, cells: Sequence[Cell]) -> None:
    """By the stack in games of one bet, and for either player in Leduc."""
    colours = dict(zip(MAPPINGS, _COLOURS, strict=True))
    with plots.figure(path, rows=2, columns=2, size=(10.0, 6.2)) as axes:
        for place, name in zip(axes.flat, ONE_BET, strict=False):
            for mapping, label in MAPPINGS.items():
                here = [c for c in cells if (c.game, c.mapping) == (name, mapping)]
                height = [max(cell.exploitability, 0) for cell in here]
                paper = [published.translation(name, mapping, "P2", c.stack) for c in here]
                place.plot(config.stacks, height, color=colours[mapping], label=label)
                place.plot(config.stacks, paper, markeredgecolor=colours[mapping], **plots.HOLLOW)
            place.set(xscale="log", title=f"{name}: second player", xlabel="stack (pots)")
            place.set_yscale("symlog", linthresh=0.01)
            place.set_ylim(0, 2 * max(c.exploitability for c in cells if c.game == name))
            place.set_xticks(config.stacks, [str(stack) for stack in config.stacks])
            place.minorticks_off()
            place.set_ylabel("exploitability (pots)")
        place = axes[1, 1]
        for seat, shift, marker in (("P1", -0.15, "o"), ("P2", 0.15, "s")):
            for number, mapping in enumerate(MAPPINGS):
                values = _values(cells, mapping, seat)
                x = number + shift
                place.plot([x, x], [min(values), max(values)], color=colours[mapping], linewidth=2)
                place.plot(x, np.mean(values), color=colours[mapping], marker=marker, markersize=4)
                paper = published.translation("Leduc", mapping, seat, config.leduc_stack)
                style = plots.HOLLOW | {"marker": marker}
                if paper is not None:
                    place.plot(x, paper, markeredgecolor=colours[mapping], **style)
        place.set_xticks(range(len(MAPPINGS)), MAPPINGS.values(), rotation=30, ha="right")
        place.set(title="Leduc: first (circles) and second player", ylabel="exploitability (antes)")
        place.set_ylim(bottom=0)
        place.plot([], [], markeredgecolor="black", label="published", **plots.HOLLOW)
        place.legend(loc="upper right", frameon=False, fontsize=8)
        axes[0, 1].legend(**plots.BESIDE)


_COLOURS = (*plots.COLOURS.values(), "#56B4E9", "#333333")


def _values(cells, mapping, seat):
    key = "Leduc", mapping, seat
    return [c.exploitability for c in cells if (c.game, c.mapping, c.seat) == key]


def _row(cell: Cell) -> dict[str, object]:
    return dataclasses.asdict(cell) | {"exploitability": f"{cell.exploitability:.6g}"}


def _numbers(config: Config, cells: Sequence[Cell]) -> Iterator[results.Number]:
    for cell in cells:
        if cell.game == "Leduc":
            continue
        paper = published.translation(cell.game, cell.mapping, cell.seat, cell.stack)
        yield results.Number(
            name=f"{MAPPINGS[cell.mapping]}:{cell.game}, stack {cell.stack}",
            value=cell.exploitability,
            unit="pots",
            paper=paper,
        )
    for seat in SEATS:
        for mapping, label in MAPPINGS.items():
            values = _values(cells, mapping, seat)
            yield results.Number(
                name=f"{label}:Leduc, {seat}",
                value=float(np.mean(values)),
                low=min(values),
                high=max(values),
                unit="antes",
                paper=published.translation("Leduc", mapping, seat, config.leduc_stack),
                seeds=len(values),
            )


def _print(cells: Sequence[Cell]) -> None:
    table = Table(title="translation_no_limit_leduc: exploitability, pots or antes")
    table.add_column("game", no_wrap=True)
    for label in MAPPINGS.values():
        table.add_column(label, justify="right")
    lines: dict[str, list[str]] = {}
    for cell in cells:
        name = f"{cell.game}, {cell.stack}"
        if cell.game == "Leduc":
            name = f"Leduc {cell.seat}, {cell.equilibrium}"
        lines.setdefault(name, []).append(f"{cell.exploitability:.3f}")
    for name, texts in lines.items():
        table.add_row(name, *texts)
    Console().print(table)
