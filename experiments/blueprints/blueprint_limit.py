"""Blueprints of limit hold'em for two players: linear CFR over boards that are drawn.

The ground on which other agents of limit hold'em are compared (Heinrich and Silver 2015): policies
of whole games with buckets in place of cards. The real game tells how good they are: their value
against each other over all pairs of hands on drawn boards, and what best responses of players who
see their cards win, on drawn flops with all turns and rivers (Johanson, Waugh, Bowling and
Zinkevich 2011, "Accelerating best response calculation in large extensive games").
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
import shutil
from collections.abc import Iterator, Sequence
from typing import Annotated

import jax
import numpy as np
import tyro
from rich.table import Table

from experiments.best_response.blueprint_responses import local_best_response, piece_size
from experiments.blueprints import linear_cfr_training
from experiments.harness import hand_grid, plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.progress import progress
from experiments.harness.runs import Run, RunArguments
from jaxgames.holdem import limit_holdem
from jaxgames.holdem.canonical_boards import num_deals
from jaxgames.holdem.card_abstraction import CardAbstraction
from jaxgames.holdem.ranges import HANDS
from jaxgames.holdem.rules import Poker
from solvers.blueprint import best_response
from solvers.blueprint.blueprint import read_blueprint, write_blueprint
from solvers.blueprint.deals import random_boards
from solvers.blueprint.enumerated_match import winnings
from solvers.blueprint.hand_policy import read_hand_policy

GAME = limit_holdem()
DEALER = 1  # posts the small blind and acts first before the flop
PERCENTILES, K_MEANS = (
    "169/percentile:1000/percentile:500/percentile:200",
    "169/kmeans:200/kmeans:200/kmeans:200",
)
# the value of the game to the dealer (Bowling, Burch, Johanson and Tammelin 2015), mb/h
PAPER_VALUE = 88.0
# what CFR's abstract strategies lose after convergence (Johanson et al. 2012), mb/h
PAPER_EXPLOITABILITY = {PERCENTILES: 358.0, K_MEANS: 282.0}
_SHORT = {PERCENTILES: "percentiles 169/1000/500/200", K_MEANS: "k-means 169/200/200/200"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is solved, and when and how it is measured."""

    abstractions: tuple[str, ...]
    at: tuple[int, ...]  # boards after which the value is measured; the last one ends
    boards_per_iteration: int
    value_boards: int  # drawn, on which the value is measured
    flops: int  # drawn, on which best responses to the last policy are computed
    deals: int  # that local best response plays against it
    game: Poker = GAME
    seed: int = 0


PRESETS = {
    "smoke": Config(
        abstractions=("169/percentile:20",),
        at=(4, 8),
        boards_per_iteration=2,
        value_boards=4,
        flops=4,
        deals=16,
        game=Poker(raise_sizes=(10, 10), board=(0, 3), first=(1, 0), max_raises=(3, 4)),
    ),
    "cpu": Config(
        abstractions=(PERCENTILES, K_MEANS),
        at=(1_000, 2_000, 5_000, 10_000, 20_000),
        boards_per_iteration=2,
        value_boards=500,
        flops=16,
        deals=50_000,
    ),
    "paper": Config(
        abstractions=(PERCENTILES, K_MEANS),
        at=(64_000, 640_000, 6_400_000),
        boards_per_iteration=64,
        value_boards=10_000,
        flops=1_000,
        deals=50_000,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(RunArguments):
    """The options beside the preset."""

    abstraction: Annotated[str | None, tyro.conf.arg(metavar="TEXT")] = None
    """One abstraction instead of the preset's, such as "169/ehs2:100/ehs2:50/ehs2:20"."""
    boards: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """How many boards are drawn, instead of the preset's number."""


def configure(config: Config, options: Options) -> Config:
    """The preset with what the options ask for.

    Raises:
      ValueError: an option is refused.
    """
    if options.abstraction is not None:
        CardAbstraction.parse(options.abstraction)
        config = dataclasses.replace(config, abstractions=(options.abstraction,))
    if options.boards is not None:
        size = config.boards_per_iteration
        if options.boards < 1 or options.boards % size:
            raise ValueError(f"boards={options.boards} must be a multiple of {size}, at least 1")
        at = tuple(n for n in config.at if n < options.boards)
        config = dataclasses.replace(config, at=(*at, options.boards))
    return config


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """Average policies in the real game, in thousandths of a big blind per hand, each with its
    standard error.
    """

    values: list[tuple[float, float]]  # of the dealer, against itself, after `Config.at` boards
    exploitability: tuple[float, float]  # what best responses to the last win, mean of both seats
    local: tuple[float, float]  # the same of local best response


Lines = dict[str, Line]  # by abstraction


def compute(run: Run) -> Lines:
    """All abstractions, one after the other: training first, then best responses."""
    lines = {}
    for number, text in enumerate(run.config.abstractions):
        folder = run.checkpoint / f"{_name(text)}-blueprint"
        values = _trained(run, number, text, folder)
        lines[text] = Line(
            values=values,
            exploitability=_exploitability(run, folder),
            local=_local_best_response(run, text, folder),
        )
        if run.writes:
            shutil.copytree(folder, run.out / "blueprints" / _name(text), dirs_exist_ok=True)
    return lines


def _name(text):
    return re.sub("[/:, ]+", "-", text)


def _trained(run, number, text, folder):
    """The values measured on the way, after which the last policy is written to a folder."""
    config, mesh = run.config, run.mesh
    boards = random_boards(
        jax.random.key(config.seed + 1), config.value_boards, num_cards=sum(config.game.board)
    )

    def value(blueprint):
        own = winnings(blueprint, blueprint, boards, mesh=mesh)
        return _mean_and_error(np.asarray(own)[:, DEALER])

    blueprint, values = linear_cfr_training.train(
        run,
        config.game,
        text,
        jax.random.fold_in(jax.random.key(config.seed), number),
        at=config.at,
        boards_per_iteration=config.boards_per_iteration,
        folder=run.checkpoint / _name(text),
        title=_SHORT.get(text, text),
        measure=value,
    )
    if run.writes:
        folder.mkdir(parents=True, exist_ok=True)
        write_blueprint(
            folder,
            blueprint.policy,
            poker=config.game,
            abstraction=CardAbstraction.parse(text),
            buckets=blueprint.buckets,
        )
    return [(value, error) for value, error in values]


def _mean_and_error(chips):
    """In thousandths of a big blind."""
    chips = 1000 / max(GAME.blinds) * np.asarray(chips, np.float64)
    return float(chips.mean()), float(chips.std(ddof=1) / np.sqrt(len(chips)))


def _exploitability(run, folder):
    """What best responses win on drawn flops, as the mean of both seats, with its standard error.

    What is played before the flop is chosen on one half of the flops and valued on the other.
    """
    config = run.config
    blueprint, _ = read_blueprint(folder)
    share = num_deals(3) / num_deals(3).sum()
    flops = np.random.default_rng(config.seed).choice(len(share), config.flops, p=share)
    size = 1 if run.mesh is None else run.mesh.size
    values = [[], []]
    with progress(f"best responses, {folder.name}", 2 * config.flops) as report:
        for begin in range(0, config.flops, size):
            now = flops[begin : begin + size]
            for player in range(2):
                # how many flops there are in a piece is up to the devices, which may change
                piece = f"{folder.name}-player-{player}-flops-{begin}-to-{begin + len(now) - 1}"
                path = run.checkpoint / f"{piece}.json"
                respond = functools.partial(_flop_values, blueprint, now, player, run.mesh)
                values[player].append(np.array(run.kept_json(path, respond)))
                report(2 * begin + (player + 1) * len(now), None, 0.0)
    won = []
    for player in range(2):
        whole = np.concatenate(values[player])
        halves = np.array_split(np.arange(config.flops), 2)
        of_halves = [
            best_response.response_values(
                blueprint, whole[other].mean(axis=0), whole[half], player=player
            )
            for half, other in (halves, halves[::-1])
        ]
        won.append(np.concatenate(of_halves))
    return _mean_and_error(sum(won) / 2)


def _local_best_response(run, text, folder):
    """What local best response wins, as the mean of both seats, with its standard error."""
    config = run.config
    chips = local_best_response(
        run,
        config.game,
        text,
        read_hand_policy(folder, config.game),
        deals=config.deals,
        seed=config.seed + 2,
    )
    return _mean_and_error(chips.mean(axis=1))


def _flop_values(blueprint, flops, player, mesh):
    """As lists, which a checkpoint keeps."""
    return best_response.flop_values(blueprint, flops, player=player, mesh=mesh).tolist()


def rows(config: Config, lines: Lines) -> Iterator[dict[str, object]]:
    """A row for every value, the last with the exploitability."""
    for text, line in lines.items():
        for boards, (value, error) in zip(config.at, line.values, strict=True):
            lost = (*line.exploitability, *line.local) if boards == config.at[-1] else ("",) * 4
            names = [
                end
                for name in ("value", "exploitability", "local")
                for end in (name, f"{name}_error")
            ]
            fields = zip(names, (value, error, *lost), strict=True)
            yield {"abstraction": text, "boards": boards} | {
                name: each if each == "" else f"{each:.6g}" for name, each in fields
            }


def numbers(config: Config, lines: Lines) -> Iterator[results.Number]:
    """The dealer's value and the exploitability of every line's last policy."""
    for text, line in lines.items():
        published = PAPER_VALUE if config.game == GAME else None
        yield _number(f"{text}: value to the dealer", *line.values[-1], published)
        paper = PAPER_EXPLOITABILITY.get(text)
        yield _number(f"{text}: exploitability", *line.exploitability, paper)
        yield _number(f"{text}: local best response wins", *line.local, None)


def _number(name, value, error, paper):
    low, high = value - 2 * error, value + 2 * error
    return results.Number(name=name, value=value, unit="mb/h", low=low, high=high, paper=paper)


def draw(path: pathlib.Path, config: Config, lines: Lines) -> None:
    """The value against boards, and the exploitability in the end; the papers' beside them."""
    with plots.figure(path, rows=1, columns=2, size=(8.4, 3.6)) as axes:
        value, exploitability = axes[0]
        for number, (text, line) in enumerate(lines.items()):
            look = dict(color=plots.colour(number), marker=plots.marker(number), capsize=2)
            values, errors = zip(*line.values, strict=True)
            short = _SHORT.get(text, text)
            value.errorbar(config.at, values, [2 * error for error in errors], label=short, **look)
            lost, error = line.exploitability
            exploitability.errorbar([number], [lost], [2 * error], linestyle="none", **look)
            local, error = line.local
            exploitability.errorbar(
                [number + 0.15],
                [local],
                [2 * error],
                color=plots.colour(number),
                marker="x",
                linestyle="none",
                capsize=2,
                label="local best response" if number == 0 else None,
            )
            if text in PAPER_EXPLOITABILITY:
                plots.points(exploitability, {number: PAPER_EXPLOITABILITY[text]}, number)
        value.set(xscale="log", xlabel="boards", ylabel="value to the dealer, mb/h")
        if config.game == GAME:
            plots.level(value, PAPER_VALUE, "the game's value (Bowling et al. 2015)")
        exploitability.set_xticks(range(len(lines)), [_SHORT.get(text, text) for text in lines])
        exploitability.set_xlim(-0.5, len(lines) - 0.5)
        exploitability.set_ylim(bottom=0)
        exploitability.set_ylabel("won in the real game, mb/h (hollow: papers)")


def write_more(run: Run, lines: Lines) -> None:
    """The dealer's first actions as a picture, by abstraction."""
    folder = run.out / "grids"
    folder.mkdir(exist_ok=True)
    for text in lines:
        blueprint, _ = read_blueprint(run.out / "blueprints" / _name(text))
        policy = np.asarray(blueprint.policy[0][0])[0, :, :, 0]  # [C, 169]
        tree = blueprint.game.rounds.tree
        first = policy[: len(tree.actions[0])].T
        number = np.asarray(blueprint.buckets.tables[0])[0]
        hand_grid.draw(
            folder / f"dealer-{_name(text)}.png",
            title=f"The dealer's first action, {_SHORT.get(text, text)}",
            actions=tree.actions[0],
            hands=HANDS,
            weights=np.ones(len(HANDS)),
            policy=first[number],
        )


def tables(config: Config, lines: Lines) -> Iterator[Table]:
    """Every value, the last with the exploitability, beside the papers' numbers."""
    texts = []
    for text, line in lines.items():
        for boards, value in zip(config.at, line.values, strict=True):
            last, paper = boards == config.at[-1], PAPER_EXPLOITABILITY.get(text)
            texts.append(
                (
                    _SHORT.get(text, text),
                    f"{boards:,}",
                    _with_error(*value),
                    results.text(PAPER_VALUE) if config.game == GAME else "",
                    _with_error(*line.exploitability) if last else "",
                    _with_error(*line.local) if last else "",
                    results.text(paper) if last and paper else "",
                )
            )
    headings = ("abstraction", "boards", "value", "paper", "BR wins", "LBR wins", "paper")
    yield text_table("blueprint_limit: mb/h ± standard error", headings, texts, labels=1)


def _with_error(value, error):
    return f"{results.text(value)} ± {results.text(error)}"


def deviations(config: Config) -> Sequence[str]:
    """What differs from the papers, in words."""
    return [
        f"linear CFR over {config.at[-1]:,} boards that are drawn, and linear averages; the papers'"
        " strategies have converged in their abstractions",
        "buckets are made here: percentiles of E[HS^2], and k-means in one dimension of cumulative"
        " histograms of strength on the river; the papers' are of other sizes",
        f"best responses on {config.flops} flops that are drawn, with all turns and rivers; what is"
        " played before the flop is chosen on one half of them and valued on the other, which"
        " makes them lower bounds",
    ]


COMMAND = Experiment(
    name="blueprint_limit",
    shown="the value and the exploitability by boards",
    presets=PRESETS,
    preset_docs={
        "smoke": "two minutes",
        "cpu": "two hours on two cores",
        "paper": "millions of boards, for an accelerator",
    },
    options=Options,
    configure=configure,
    batches=lambda config: {
        "boards_per_iteration": config.boards_per_iteration,
        "deals of a piece": piece_size(config.deals),
    },
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    measure=(
        "values of average policies against each other over all pairs of hands on drawn boards, and"
        " what best responses of players who see their cards win from them on drawn flops, mean of"
        " both seats: thousandths of a big blind per hand"
    ),
    deviations=deviations,
    error_bars=results.TWO_STANDARD_ERRORS,
    more_files=("blueprints", "grids"),
    write_more=write_more,
)
