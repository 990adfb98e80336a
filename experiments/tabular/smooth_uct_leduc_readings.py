"""What other readings of Heinrich and Silver 2015 do to the learning curves in Leduc (Figure 2).

In the paper, outcome sampling passes Smooth UCT after 85 and 170 million episodes, in
`smooth_uct_leduc` after some 20,000. Every learner here differs in one thing from one of the four
of that experiment: in a constant, in what it counts, in what is read out, or in what players see.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from rich.table import Table

from experiments.harness import plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.runs import Run
from experiments.tabular import smooth_uct_leduc
from experiments.tabular.learning_curves import Method, learn
from experiments.tabular.smooth_uct_leduc import CROSSINGS, METHODS, Curves, points
from jaxgames.core import Game
from jaxgames.game_tree import enumerate_game
from jaxgames.leduc import LeducPoker
from jaxgames.registry import make
from solvers.sampling import uct
from solvers.sampling.decision_tree import build_decision_tree
from solvers.sampling.outcome_sampling import OutcomeSampling
from solvers.sampling.uct import Reading
from solvers.sequence_form import build_sequence_form

UCT, SMOOTH, PARALLEL, ALTERNATING = METHODS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Variant:
    """A method of `smooth_uct_leduc` in which one thing is different."""

    of: str  # the method
    change: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of its settings
    suits: bool = True  # whether players tell cards of the same rank apart
    read_out: Callable[..., Any] = uct.average_policy  # of UCT and Smooth UCT


def _reading(**fields: Any) -> Variant:
    return Variant(of=SMOOTH, change={"reading": Reading(**fields)})


# by the title of their panel and their name
PANELS: dict[str, dict[str, Variant]] = {
    "Constant of UCB, or unit of payoffs": {
        f"c = {constant:g}": Variant(of=SMOOTH, change={"exploration": constant})
        for constant in (9.0, 13.0, 36.0)
    },
    "What Smooth UCT counts, and when": {
        "eta by episodes": _reading(schedule="episodes"),
        "average of UCB's choices": dataclasses.replace(
            _reading(average="ucb"), read_out=uct.ucb_policy
        ),
        "whole trees": _reading(whole_trees=True),
        "first of ties": _reading(ties="first"),
        "alternating": _reading(alternating=True),
    },
    "Read-outs and suits": {
        "UCB's choices read out": Variant(of=SMOOTH, read_out=uct.ucb_policy),
        "greedy policy read out": Variant(of=SMOOTH, read_out=uct.greedy_policy),
        **{f"{name}, suits unseen": Variant(of=name, suits=False) for name in METHODS},
    },
    "Outcome sampling": {
        **{
            f"parallel OS, epsilon = {epsilon:g}": Variant(
                of=PARALLEL, change={"exploration": epsilon}
            )
            for epsilon in (0.1, 0.4, 0.8)
        },
        **{
            f"{name}, optimistic": Variant(of=name, change={"averaging": "optimistic"})
            for name in (PARALLEL, ALTERNATING)
        },
    },
}
BASELINES = {name: Variant(of=name) for name in METHODS}
VARIANTS = BASELINES | {name: each for panel in PANELS.values() for name, each in panel.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The methods that are varied and when they are measured, the variants, and those of them that
    learn for longer."""

    methods: smooth_uct_leduc.Config
    variants: tuple[str, ...] = tuple(VARIANTS)
    longer: smooth_uct_leduc.Config
    longer_variants: tuple[str, ...] = (f"{SMOOTH}, suits unseen",)


PRESETS = {
    "smoke": Config(
        methods=smooth_uct_leduc.Config(episodes=2000, first=1000, seeds=2),
        variants=(SMOOTH, ALTERNATING, f"{SMOOTH}, suits unseen"),
        longer=smooth_uct_leduc.Config(episodes=4000, first=1000, seeds=2),
    ),
    "cpu": Config(
        methods=smooth_uct_leduc.Config(episodes=2_000_000, seeds=3),
        longer=smooth_uct_leduc.Config(episodes=85_000_000, seeds=2),
    ),
    "paper": Config(
        methods=smooth_uct_leduc.Config(episodes=170_000_000),
        longer=smooth_uct_leduc.Config(episodes=500_000_000),
    ),
}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The learning curves of all variants, and the longer ones of some."""

    curves: Curves
    longer: Mapping[str, Float[np.ndarray, "more_points seeds_of_longer"]]


def compute(run: Run) -> Outcome:
    """Lets all variants learn."""

    def curves(name, config, variants):
        return learn(
            run.checkpoint / name,
            methods(config, variants),
            at=points(config),
            saved=run.meter.keep,
        )

    config = run.config
    return Outcome(
        curves("self-play", config.methods, config.variants),
        curves("longer", config.longer, config.longer_variants),
    )


def methods(config: smooth_uct_leduc.Config, variants: Sequence[str]) -> dict[str, Method]:
    """The learners, by the names of their variants."""
    games, settings = {}, smooth_uct_leduc.settings(config)
    for suits in {VARIANTS[name].suits for name in variants}:
        game = make(config.game)
        source = enumerate_game(game if suits else without_suits(game))
        games[suits] = build_decision_tree(source), build_sequence_form(source)

    def method(variant):
        changed = dataclasses.replace(settings[variant.of], **variant.change)
        tree, public = games[variant.suits]
        if isinstance(changed, OutcomeSampling):
            return smooth_uct_leduc.sampling(tree, public, changed, seeds=config.seeds)
        return smooth_uct_leduc.searching(
            tree, public, changed, seeds=config.seeds, read_out=variant.read_out
        )

    return {name: method(VARIANTS[name]) for name in variants}


def without_suits(game: Game) -> Game:
    """Leduc in which nobody tells cards of the same rank apart.

    Raises:
      ValueError: it is another game.
    """
    if not isinstance(game, LeducPoker):
        raise ValueError(f"game={game} must be leduc_poker")
    return dataclasses.replace(game, suit_isomorphism=True)


def times_as_fast(
    at: Sequence[int], curve: Float[np.ndarray, " points"], other: Float[np.ndarray, " points"]
) -> float | None:
    """How many times fewer episodes a curve needs than another one to be as low as the worse of the
    two is in the end; None if the better one was never above that.

    Args:
      at: numbers of episodes, ascending.
      curve: NashConv after each of these.
      other: NashConv of the other one.
    """
    if curve[-1] > other[-1]:
        inverse = times_as_fast(at, other, curve)
        return None if inverse is None else 1 / inverse
    above = np.flatnonzero(curve > other[-1])
    if not above.size:
        return None if curve[-1] < other[-1] else 1.0
    last = slice(above[-1], above[-1] + 2)  # from somewhere between these two the curve is below
    begin, end = np.log(curve[last])
    share = (begin - np.log(other[-1])) / (begin - end)
    reached = np.exp(np.interp(share, (0, 1), np.log(at[last])))
    return float(at[-1] / reached)


def draw(path: pathlib.Path, config: Config, outcome: Outcome) -> None:
    """A panel for every kind of change: the curves, and the points that the paper gives."""
    known = {f"paper: {name} passes Smooth UCT": dict([point]) for name, point in CROSSINGS.items()}
    shown = {name: (points(config.methods), curve) for name, curve in outcome.curves.items()}
    shown |= {name: (points(config.longer), curve) for name, curve in outcome.longer.items()}
    with plots.figure(path, rows=2, columns=2, size=(9.6, 7.2)) as axes:
        for panel, (title, variants) in zip(axes.flat, PANELS.items(), strict=True):
            lines = [
                plots.Band(
                    name=name, x=shown[name][0], samples=shown[name][1].tolist(), confidence=True
                )
                for name in (SMOOTH, ALTERNATING, *variants)
                if name in shown
            ]
            plots.bands(panel, lines, published=known, x_label="episodes")
            panel.set_ylabel("NashConv (chips)")
            panel.set_title(title)
            panel.legend(loc="lower left", frameon=False, fontsize=6.5, labelspacing=0.25)


def rows(config: Config, outcome: Outcome) -> Iterator[dict[str, object]]:
    """A row for every seed at every point of every curve."""
    yield from smooth_uct_leduc.rows(config.methods, outcome.curves)
    for name, curve in outcome.longer.items():
        yield from smooth_uct_leduc.rows(config.longer, {f"{name} (longer)": curve})


def numbers(config: Config, outcome: Outcome) -> Iterator[results.Number]:
    """NashConv at powers of ten and in the end, and what each variant does to its method."""
    yield from _levels(config.methods, outcome.curves)
    yield from _levels(config.longer, outcome.longer, after=config.methods.episodes)
    for name, (ratio, faster) in effects(config, outcome).items():
        for column, value in (("NashConv in the end", ratio), ("as fast", faster)):
            if value is not None:
                yield _number(config.methods, f"{column}:{name}", value, "times its method")
    for (rival, name), point in overtaken(config, outcome).items():
        paper = float(CROSSINGS[rival][0]) if name == SMOOTH else None
        column = f"{rival} is better from"
        yield _number(config.methods, f"{column}:{name}", float(point), "episodes", paper=paper)


def _number(config, name, value, unit, **more):
    return results.Number(name=name, value=value, unit=unit, seeds=config.seeds, **more)


def _levels(config, curves, *, after=0):
    """NashConv at the powers of ten and at the end, from some number of episodes on."""
    at, published = points(config), dict(CROSSINGS.values())  # points of the paper's Smooth UCT
    chosen = [n for n, at_n in enumerate(at) if f"{at_n}".strip("0") == "1" or at_n == at[-1]]
    for name, curve in curves.items():
        for point in chosen:
            if at[point] > after:
                low, high = results.interval(curve[point].tolist())
                yield _number(
                    config,
                    f"{at[point]:,} episodes:{name}",
                    float(curve[point].mean()),
                    "chips",
                    low=low,
                    high=high,
                    paper=published.get(at[point]) if VARIANTS[name].of == SMOOTH else None,
                )


def effects(config: Config, outcome: Outcome) -> dict[str, tuple[float, float | None]]:
    """By variant: NashConv in the end relative to that of its method, and `times_as_fast`."""
    at = points(config.methods)
    means = {name: curve.mean(axis=1) for name, curve in outcome.curves.items()}
    pairs = {name: (mean, means[VARIANTS[name].of]) for name, mean in means.items()}
    return {
        name: (float(mean[-1] / other[-1]), times_as_fast(at, mean, other))
        for name, (mean, other) in pairs.items()
        if name not in METHODS
    }


def overtaken(config: Config, outcome: Outcome) -> dict[tuple[str, str], int]:
    """By kind of outcome sampling and variant of Smooth UCT: the number of episodes from which on
    outcome sampling is better; left out if it is not in the end.
    """
    at, found = points(config.methods), {}
    for name, curve in outcome.curves.items():
        for rival in (each for each in CROSSINGS if each in outcome.curves):
            pair = {SMOOTH: curve, rival: outcome.curves[rival]}
            point = smooth_uct_leduc.passed(at, pair, rival)
            if VARIANTS[name].of == SMOOTH and point is not None:
                found[rival, name] = point
    return found


def deviations(config: Config) -> list[str]:
    """What differs from the paper, in words."""
    return [
        "only `Smooth UCT`, `UCT`, `parallel OS` and `alternating OS` are the experiment"
        " smooth_uct_leduc, which has the paper's constants; every variant changes one thing of one"
        " of them, and was chosen and tried with the results in sight",
        "the paper's text does not say whether players see the suits of cards; published: NashConv"
        " at the two points that it gives, which are points of its Smooth UCT",
        f"{config.methods.episodes:,} episodes, and {config.longer.episodes:,} of"
        f" {' and '.join(config.longer_variants)} with other seeds, instead of 500,000,000",
        "no variant explains the paper's outcome sampling: it needs about as many episodes as ours"
        " that sees suits, where its Smooth UCT needs as many as ours that does not",
    ]


def measure(config: Config) -> str:
    """What the numbers are."""
    return (
        f"NashConv (the sum of both players' gains) in {config.methods.game}, in chips: mean of"
        f" {config.methods.seeds} learners ({config.longer.seeds} after more than"
        f" {config.methods.episodes:,} episodes); NashConv in the end, relative to that of the"
        " method without the change; in how many times fewer episodes it is as low as the worse of"
        " the two is in the end; from which episode on outcome sampling that sees suits is better"
    )


def tables(config: Config, outcome: Outcome) -> Iterator[Table]:
    """What each variant does."""
    texts = []
    for name, (ratio, faster) in effects(config, outcome).items():
        last = outcome.curves[name][-1].mean()
        speed = "" if faster is None else f"{faster:.3g}"
        texts.append((name, VARIANTS[name].of, f"{last:.4g}", f"{ratio:.3g}", speed))
    headings = ("variant", "of", "NashConv in the end", "times its method's", "times as fast")
    title = f"smooth_uct_leduc_readings: {config.methods.episodes:,} episodes, chips"
    yield text_table(title, headings, texts, labels=2)


COMMAND = Experiment(
    name="smooth_uct_leduc_readings",
    shown="NashConv by episodes and variant",
    presets=PRESETS,
    preset_docs={
        "smoke": "some variants, seconds",
        "cpu": "an hour on one core, which others used too",
        "paper": "until the paper's curves have crossed",
    },
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    error_bars=results.TWO_STANDARD_ERRORS_OF_SEEDS,
    measure=measure,
    deviations=deviations,
)
