"""Blueprints of limit hold'em for two players: linear CFR, or CFR-BR, over boards that are drawn.

The ground on which other agents of limit hold'em are compared (Heinrich and Silver 2015): policies
of whole games with buckets in place of cards. The real game tells how good they are: their value
against each other over all pairs of hands on drawn boards, and what best responses of players who
see their cards win, on drawn flops with all turns and rivers (Johanson, Waugh, Bowling and
Zinkevich 2011, "Accelerating best response calculation in large extensive games"). Training that
goes on lowers what is lost in the abstract game, not in the real one: responders who deviate from
the turn on draw that curve.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Iterator, Sequence
from typing import Annotated

import jax
import numpy as np
import tyro
from rich.table import Table

from experiments.best_response.blueprint_responses import piece_size
from experiments.blueprints import blueprint_training, first_actions, limit_lines, real_values
from experiments.blueprints.blueprint_training import CFR_BR, LINEAR_CFR, SOLVERS
from experiments.blueprints.limit_lines import (
    K_MEANS,
    PAPER_CFR_BR,
    PAPER_EXPLOITABILITY,
    PAPER_LEVELS,
    PAPER_OVERFITTING,
    PAPER_VALUE,
    PAPER_VALUE_BOUNDS,
    PERCENTILES,
    SHORT,
    Line,
    Lines,
    Point,
)
from experiments.blueprints.real_values import ALL_FLOPS, BOARDS
from experiments.harness import results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.runs import Run, RunArguments
from jaxgames.holdem import limit_holdem
from jaxgames.holdem.card_abstraction import CardAbstraction
from jaxgames.holdem.rules import Poker
from solvers.blueprint.blueprint import read_blueprint, write_blueprint
from solvers.device_batches import on_each_device

GAME = limit_holdem()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """What is solved, and when and how it is measured."""

    abstractions: tuple[str, ...]
    at: tuple[int, ...]  # boards after which the policy is kept and measured; the last one ends
    boards_per_iteration: int
    value_boards: int  # drawn, on which the value is measured: a multiple of `BOARDS`, or fewer
    flops: int  # that responders meet, at most 920 drawn ones; `ALL_FLOPS` are all
    turns: int  # of each flop, where responders deviate from the turn on
    best_responses_at: tuple[int, ...]  # those of `at` whose best responses are computed
    deals: int  # that local best response plays against the last policy
    solver: str = LINEAR_CFR.name
    game: Poker = GAME
    seed: int = 0


PRESETS = {
    "smoke": Config(
        abstractions=("169/percentile:20/percentile:10",),
        at=(4, 8, 16),
        boards_per_iteration=2,
        value_boards=4,
        flops=4,
        turns=2,
        best_responses_at=(16,),
        deals=16,
        game=Poker(
            raise_sizes=(10, 10, 20), board=(0, 3, 1), first=(1, 0, 0), max_raises=(3, 2, 1)
        ),
    ),
    "cpu": Config(
        abstractions=(PERCENTILES, K_MEANS),
        at=(1_000, 2_000, 5_000, 10_000, 20_000),
        boards_per_iteration=2,
        value_boards=512,
        flops=20,
        turns=1,
        best_responses_at=(20_000,),
        deals=50_000,
    ),
    "cfr_br": Config(
        abstractions=(PERCENTILES,),
        at=(1_000, 2_000, 5_000),
        boards_per_iteration=1,
        value_boards=512,
        flops=20,
        turns=1,
        best_responses_at=(5_000,),
        deals=50_000,
        solver=CFR_BR.name,
    ),
    "paper": Config(
        abstractions=(PERCENTILES, K_MEANS),
        at=(64_000, 128_000, 320_000, 640_000, 1_280_000, 3_200_000, 6_400_000),
        boards_per_iteration=64,
        value_boards=10_240,
        flops=ALL_FLOPS,
        turns=1,
        best_responses_at=(6_400_000,),
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
    flops: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """On how many flops responders are measured, instead of the preset's number; 1755 are all."""


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
        at, best = (
            (*(n for n in each if n < options.boards), options.boards)
            for each in (config.at, config.best_responses_at)
        )
        config = dataclasses.replace(config, at=at, best_responses_at=best)
    if options.flops is not None:
        real_values.draw_flops(options.flops, seed=config.seed)  # refuses other numbers
        config = dataclasses.replace(config, flops=options.flops)
    return config


def compute(run: Run) -> Lines:
    """All abstractions, one after the other: training first, then measurements."""
    lines = {}
    for number, text in enumerate(run.config.abstractions):
        name = re.sub("[/:, ]+", "-", text)
        kept = dict(zip(run.config.at, _trained(run, number, text, name), strict=True))
        measured = [_measured(run, f"{name}-{at}", folder, at) for at, folder in kept.items()]
        points, by_flop = zip(*measured, strict=True)
        last = kept[run.config.at[-1]]
        blueprint, poker = read_blueprint(last)
        weights = real_values.flop_weights(_flops(run.config))
        least = min(by_flop, key=lambda won: np.average(won, weights=weights))
        lines[text] = Line(
            points=list(points),
            change=real_values.estimate(poker, by_flop[-1] - least, weights),
            first=first_actions.first_actions(blueprint),
        )
        shutil.copytree(last, run.out / "blueprints" / name, dirs_exist_ok=True)
    return lines


def _trained(run, number, text, name):
    """The folders to which policies were written when training had come to the boards of `at`."""
    config, folder = run.config, run.checkpoint / f"{name}-blueprints"

    def keep(blueprint):
        folder.mkdir(exist_ok=True)
        # one that training is not going to know of may be here, from a run that was killed
        own = folder / str(len(list(folder.iterdir())))
        own.mkdir()
        abstraction = CardAbstraction.parse(text)
        write_blueprint(
            own,
            blueprint.policy,
            poker=config.game,
            abstraction=abstraction,
            buckets=blueprint.buckets,
        )
        return own.name

    _, names = blueprint_training.train(
        run,
        config.game,
        text,
        jax.random.fold_in(jax.random.key(config.seed), number),
        at=config.at,
        boards_per_iteration=config.boards_per_iteration,
        folder=run.checkpoint / name,
        title=_title(config, text),
        measure=keep,
        solver=SOLVERS[config.solver],
    )
    return [folder / each for each in names]


def _measured(run, name, folder, boards):
    """What the policy in a folder is worth, which has learned from `boards` boards; and what
    responders win by flop who deviate from the turn on, in chips."""
    config, last = run.config, boards == run.config.at[-1]
    blueprint, poker = read_blueprint(folder)
    everywhere = on_each_device(blueprint, run.mesh)
    flops = _flops(config)
    turns = real_values.draw_turns(flops, config.turns, seed=config.seed)
    value = real_values.value_to_the_dealer(
        run, name, everywhere, poker, boards=config.value_boards, seed=config.seed + 1
    )
    by_flop = real_values.responses_from_the_turn(
        run, name, everywhere, poker, flops=flops, turns=turns
    )
    from_turn = real_values.estimate(poker, by_flop, real_values.flop_weights(flops))
    best = local = None
    if boards in config.best_responses_at:
        best = real_values.best_responses(run, name, everywhere, poker, flops=flops)
    if last:
        local = real_values.local_best_responses(
            run, name, blueprint, poker, deals=config.deals, seed=config.seed + 2
        )
    point = Point(boards=boards, value=value, from_turn=from_turn, best=best, local=local)
    return point, by_flop


def _title(config, text):
    """An abstraction, and how it was solved if not by linear CFR."""
    solver = "" if config.solver == LINEAR_CFR.name else f"{config.solver}, "
    return solver + SHORT.get(text, text)


def _flops(config):
    """That responders meet."""
    return real_values.draw_flops(config.flops, seed=config.seed)


_MEASURES = ("value", "from_turn", "best", "local")


def rows(config: Config, lines: Lines) -> Iterator[dict[str, object]]:
    """A row for every policy."""
    for text, line in lines.items():
        for point in line.points:
            row = {"abstraction": text, "boards": point.boards}
            for name in _MEASURES:
                found = getattr(point, name) or ("", "")
                for end, number in zip(("", "_error"), found, strict=True):
                    row[name + end] = number if number == "" else f"{number:.6g}"
            yield row


def numbers(config: Config, lines: Lines) -> Iterator[results.Number]:
    """The dealer's value and first actions, and what responders win, of every last policy."""
    whole = config.game == GAME
    for text, line in lines.items():
        *earlier, last = line.points
        yield _number(f"{text}: value to the dealer", last.value, PAPER_VALUE if whole else None)
        yield _number(f"{text}: exploitability", last.best, _paper_exploitability(config, text))
        yield _number(f"{text}: wins from the turn on", last.from_turn, None)
        yield _number(f"{text}: the same, more than its least", line.change, None)
        yield _number(f"{text}: local best response wins", last.local, None)
        for point in earlier:
            if point.best is not None:
                yield _number(f"{text}: exploitability at {point.boards:,}", point.best, None)
        for name, share in zip(line.first._fields, line.first, strict=True):
            words = name.replace("top_ten", "of the top ten classes:").replace("_", " ")
            yield results.Number(name=f"{text}: the dealer first {words}", value=share, unit="%")


def _paper_exploitability(config, text):
    """That is published for blueprints of this kind; None: nothing is."""
    if config.solver == CFR_BR.name:
        return PAPER_CFR_BR if text == PERCENTILES else None
    return PAPER_EXPLOITABILITY.get(text)


def _number(name, found, paper):
    low, high = found.value - 2 * found.error, found.value + 2 * found.error
    return results.Number(
        name=name, value=found.value, unit="mb/h", low=low, high=high, paper=paper
    )


def write_more(run: Run, lines: Lines) -> None:
    """The dealer's first actions as a picture, by abstraction."""
    (run.out / "grids").mkdir(exist_ok=True)
    for folder in sorted((run.out / "blueprints").iterdir()):
        blueprint, _ = read_blueprint(folder)
        first_actions.draw(
            run.out / "grids" / f"dealer-{folder.name}.png",
            blueprint,
            title=f"The dealer's first action, {folder.name}",
        )


def tables(config: Config, lines: Lines) -> Iterator[Table]:
    """Every policy, and the papers' numbers; then what the dealer does first."""
    texts = []
    for text, line in lines.items():
        short = _title(config, text)
        for point in line.points:
            found = [_with_error(getattr(point, name)) for name in _MEASURES]
            texts.append((short, f"{point.boards:,}", *found))
    if config.game == GAME:
        bounds = "{:g} to {:g}".format(*PAPER_VALUE_BOUNDS)
        for name, height in PAPER_LEVELS.items():
            texts.append((f"{name} (paper)", "", bounds, "", results.text(height), ""))
    headings = ("abstraction", "boards", "value", "BR from turn", "BR wins", "LBR wins")
    yield text_table("blueprint_limit: mb/h ± standard error", headings, texts, labels=1)
    shares = [
        (_title(config, text), *(f"{share:.2f}" for share in line.first))
        for text, line in lines.items()
    ]
    headings = ("abstraction", "limps", "folds", "top ten limp", "top ten fold")
    yield text_table("What the dealer does first, %", headings, shares, labels=1)


def _with_error(found):
    if found is None:
        return ""
    exact = found.error == 0
    return results.text(found.value) + ("" if exact else f" ± {results.text(found.error)}")


def deviations(config: Config) -> Sequence[str]:
    """What differs from the papers, in words."""
    texts = [
        f"{config.solver} over {config.at[-1]:,} boards that are drawn, and linear averages; the"
        " papers' strategies have converged in their abstractions",
        "buckets are made here: percentiles of E[HS^2], and k-means in one dimension of cumulative"
        " histograms of strength on the river; the papers' are of other sizes",
    ]
    if config.solver == CFR_BR.name:
        texts += blueprint_training.cfr_br_deviations(config.game)
    if config.flops < ALL_FLOPS:
        texts.append(
            f"best responses on {config.flops} different flops that are drawn, with all turns and"
            " rivers; what is played before the flop is chosen on one half of them and valued on"
            " the other, so that they are lower bounds on average"
        )
    texts.append(
        "the curve along training is of responders who play as the blueprint does before the turn"
        f" and as is best from it on, on {config.turns} drawn turns of each flop with all rivers:"
        " lower bounds, whose change shows overfitting and not its whole size. All policies meet"
        " the same cards, on which the one that loses least was chosen, too"
    )
    if config.flops == ALL_FLOPS:
        texts.append(
            "standard errors of that curve are as if flops had been drawn, and too wide: only turns"
            " are"
        )
    return texts


def _published(config, lines):
    """The papers' numbers beside those of single policies."""
    return {
        "value to the dealer, mb/h": PAPER_VALUE_BOUNDS,
        "exploitability, mb/h": PAPER_LEVELS,
        "exploitability of CFR as training goes on, mb/h": PAPER_OVERFITTING,
    }


COMMAND = Experiment(
    name="blueprint_limit",
    shown="the value and what responders win by boards",
    presets=PRESETS,
    preset_docs={
        "smoke": "two minutes",
        "cpu": "two hours on two cores",
        "cfr_br": "CFR-BR instead of linear CFR: two hours on two cores",
        "paper": "millions of boards and all flops, for an accelerator",
    },
    options=Options,
    configure=configure,
    several_processes=False,
    batches=lambda config: {
        "boards_per_iteration": config.boards_per_iteration,
        "value boards of a piece": min(BOARDS, config.value_boards),
        "deals of a piece": piece_size(config.deals),
    },
    compute=compute,
    rows=rows,
    draw=lambda path, config, lines: limit_lines.draw(
        path,
        {_title(config, text): line for text, line in lines.items()},
        whole=config.game == GAME,
    ),
    numbers=numbers,
    tables=tables,
    measure=(
        "values of average policies against themselves over all pairs of hands on drawn boards, and"
        " what responders who see their cards win from them, mean of both seats: best responses on"
        " flops with all turns and rivers, those that deviate from the turn on, and local best"
        " responses; thousandths of a big blind per hand. Shares of the dealer's hands in per cent"
    ),
    deviations=deviations,
    error_bars=results.TWO_STANDARD_ERRORS,
    extras={"published": _published},
    more_files=("blueprints", "grids"),
    write_more=write_more,
)
