"""Q-learning, DQN and A2C by self-play in Kuhn and Leduc (Figure S4 of Student of Games).

Plots exploitability against episodes of self-play, for settings of the supplement's Table S6. These
algorithms do not look for equilibria; the paper shows how exploitable their policies stay.

The paper reports the best setting of each algorithm. The best of many settings on the seeds that
chose it is a lucky one, so here some seeds choose the setting, and others, which learn with that
setting only, are reported.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import numpy as np
from jaxtyping import Float
from rich.table import Table

from experiments.harness import plots, published, results, seed_statistics
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.runs import Run
from experiments.tabular.learning_curves import Method, learn, log_spaced
from jaxgames.registry import make
from solvers import evaluation
from solvers.sequence_form import SequenceForm, build_sequence_form, uniform, unpack
from train.rl import a2c, dqn, q_learning
from train.rl.a2c import A2c
from train.rl.dqn import Dqn
from train.rl.environment import Environment, build_environment
from train.rl.q_learning import QLearning

ALGORITHMS = ("A2C", "DQN", "Q-learning")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grid:
    """The settings, in all combinations: the rows of Table S6."""

    step_sizes: tuple[float, ...]  # Q-learning
    layers: tuple[tuple[int, int], ...]  # width and depth of the networks of DQN and A2C
    rates: tuple[float, ...]  # DQN
    explorations: tuple[float, ...]  # DQN's share of uniform play at first
    capacities: tuple[int, ...]  # of the replay buffers of DQN
    actor_rates: tuple[float, ...]  # A2C
    critic_rates: tuple[float, ...]
    critic_updates: tuple[int, ...]  # before every update of the actor


_WHOLE = Grid(
    step_sizes=(0.1, 0.2, 0.5, 0.8, 1.0),
    layers=((32, 1), (64, 1), (128, 1), (32, 2), (64, 2)),
    rates=(1e-1, 1e-2, 1e-3, 1e-4),
    explorations=(1.0, 0.8, 0.5, 0.2, 0.1),
    capacities=(100, 1000, 10_000, 100_000),
    actor_rates=(1e-3, 1e-4, 1e-5),
    critic_rates=(1e-2, 1e-3),
    critic_updates=(4, 8, 16),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The games, the settings and how long they learn."""

    blocks: dict[str, int]  # by game: how many blocks of `BLOCK` episodes
    grid: Grid
    selection_seeds: int = 2  # which choose the best setting of every algorithm
    seeds: int = 5  # further ones, which are reported


BLOCK = 128  # episodes of self-play
PRESETS = {
    "smoke": Config(
        blocks={"kuhn_poker": 8},
        grid=dataclasses.replace(
            _WHOLE,
            step_sizes=(0.1,),
            layers=((32, 1),),
            rates=(1e-2,),
            explorations=(1.0,),
            capacities=(1000,),
            actor_rates=(1e-3,),
            critic_rates=(1e-2,),
            critic_updates=(8,),
        ),
        seeds=2,
    ),
    # five million decisions of uniform play: an episode of Kuhn has 2.25, one of Leduc 4.06
    "cpu": Config(
        blocks={"kuhn_poker": 18_000, "leduc_poker": 10_000},
        grid=dataclasses.replace(
            _WHOLE, layers=((64, 1),), explorations=(1.0, 0.2), capacities=(10_000,)
        ),
    ),
    "paper": Config(blocks={"kuhn_poker": 18_000, "leduc_poker": 10_000}, grid=_WHOLE, seeds=10),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
    """Settings of an algorithm that can learn side by side in a single program."""

    algorithm: str
    settings: Mapping[str, tuple[float, ...]]  # by name: what differs among the learners
    method: Callable[[Sequence[tuple[float, ...]], range], Method]
    """The method with learners of these settings: of every setting one for each seed."""


Curves = Mapping[str, Float[np.ndarray, "points _"]]  # a column for every seed


@dataclasses.dataclass(frozen=True)
class Learned:
    """The learning curves in a game."""

    at: tuple[int, ...]  # blocks of episodes after which learners are measured
    selection: Curves  # by "algorithm, setting": all settings, with the seeds that choose
    best: Mapping[str, str]  # by algorithm: the name in `selection` of the chosen setting
    reported: Curves  # by algorithm: the chosen setting, with other seeds


def compute(run: Run) -> dict[str, Learned]:
    """The learning curves by game."""
    return {game: _learned(run, game) for game in run.config.blocks}


def _learned(run: Run, game: str) -> Learned:
    """Lets all settings learn, and then the best of every algorithm again with other seeds."""
    config = run.config
    at, by_setting, methods = log_spaced(1, config.blocks[game]), {}, {}
    seeds = range(config.selection_seeds)
    for family in families(game, config.grid):
        names = [f"{family.algorithm}, {setting}" for setting in family.settings]
        by_setting |= zip(names, ((family, each) for each in family.settings.values()), strict=True)
        methods["; ".join(names)] = family.method([*family.settings.values()], seeds)
    selection = {}
    for names, curves in _curves(run, game, methods, at).items():
        parts = np.split(curves, curves.shape[1] // len(seeds), axis=1)
        selection |= zip(names.split("; "), parts, strict=True)
    best = {algorithm: least_exploitable(selection, algorithm) for algorithm in ALGORITHMS}
    seeds = range(config.selection_seeds, config.selection_seeds + config.seeds)
    methods = {}
    for algorithm, name in best.items():
        family, setting = by_setting[name]
        methods[algorithm] = family.method([setting], seeds)
    reported = _curves(run, f"{game}, reported", methods, at)
    return Learned(at, selection, best, reported)


def _curves(run, name, methods, at):
    return learn(run.checkpoint / name, methods, at=at, saved=run.meter.keep)


def least_exploitable(curves: Curves, algorithm: str) -> str:
    """The setting of an algorithm with the least mean exploitability in the end."""
    own = [name for name in curves if name.startswith(f"{algorithm}, ")]
    return min(own, key=lambda name: curves[name][-1].mean())


def families(game: str, grid: Grid) -> Iterator[Family]:
    """All settings of the grid, in families of settings that can learn side by side."""
    environment, public = build_environment(make(game)), build_sequence_form(make(game))
    for size in grid.step_sizes:
        yield _q_learning(environment, public, QLearning(step_size=size))
    for (width, depth), capacity in itertools.product(grid.layers, grid.capacities):
        settings = Dqn(width=width, depth=depth, capacity=capacity, exploration_rounds=50_000)
        yield _dqn(environment, public, grid, settings)
    for (width, depth), updates in itertools.product(grid.layers, grid.critic_updates):
        settings = A2c(width=width, depth=depth, critic_updates=updates)
        yield _a2c(environment, public, grid, settings)


def _q_learning(environment: Environment, public: SequenceForm, settings: QLearning) -> Family:
    def run(learner, key, count):
        return q_learning.run(
            environment, learner, key, settings=settings, num_episodes=BLOCK * count
        )

    def measure(learner):
        return evaluation.exploitability(public, q_learning.greedy_policy(environment, learner))

    def method(values, seeds):
        start, keys = _learners(lambda key: q_learning.init(environment), values, seeds)
        return Method(start=start, keys=keys, run=run, measure=measure)

    return Family(
        algorithm="Q-learning", settings={f"step size {settings.step_size:g}": ()}, method=method
    )


def _dqn(environment: Environment, public: SequenceForm, grid: Grid, settings: Dqn) -> Family:
    def new(key, rate, exploration):
        return dqn.init(
            environment, key, settings=settings, rate=rate, first_exploration=exploration
        )

    def run(learner, key, count):
        rounds = BLOCK // settings.batch * count
        return dqn.run(environment, learner, key, settings=settings, num_rounds=rounds)

    def measure(learner):
        policy = dqn.greedy_policy(environment, learner, settings=settings)
        return evaluation.exploitability(public, policy)

    def method(values, seeds):
        start, keys = _learners(new, values, seeds)
        return Method(start=start, keys=keys, run=run, measure=measure)

    shape = f"{settings.width} x {settings.depth}, buffer {settings.capacity}"
    names = {
        f"{shape}, rate {rate:g}, exploration {exploration:g}": (rate, exploration)
        for rate, exploration in itertools.product(grid.rates, grid.explorations)
    }
    return Family(algorithm="DQN", settings=names, method=method)


def _a2c(environment: Environment, public: SequenceForm, grid: Grid, settings: A2c) -> Family:
    def new(key, actor, critic):
        return a2c.init(environment, key, settings=settings, actor_rate=actor, critic_rate=critic)

    def run(learner, key, count):
        rounds = BLOCK // (settings.batch * settings.critic_updates) * count
        return a2c.run(environment, learner, key, settings=settings, num_rounds=rounds)

    def measure(learner):
        policy = a2c.current_policy(environment, learner, settings=settings)
        return evaluation.exploitability(public, policy)

    def method(values, seeds):
        start, keys = _learners(new, values, seeds)
        return Method(start=start, keys=keys, run=run, measure=measure)

    shape = f"{settings.width} x {settings.depth}, {settings.critic_updates} critic updates"
    names = {
        f"{shape}, rates {actor:g} and {critic:g}": (actor, critic)
        for actor, critic in itertools.product(grid.actor_rates, grid.critic_rates)
    }
    return Family(algorithm="A2C", settings=names, method=method)


def _learners(new, values, seeds):
    """Learners `new(key, *value)` and the keys they learn with, by value and then by seed."""

    def both(seed, *value):
        init_key, key = jax.random.split(jax.random.key(seed))
        return new(init_key, *value), key

    columns = np.repeat(np.array(values, np.float32), len(seeds), axis=0).T
    return jax.vmap(both)(np.tile(np.array(seeds), len(values)), *columns)


def uniform_exploitability(game: str) -> float:
    """Exploitability (NashConv / 2) of uniform play."""
    public = build_sequence_form(make(game))
    return float(evaluation.exploitability(public, unpack(public, uniform(public))))


def draw(path: pathlib.Path, config: Config, outcome: Mapping[str, Learned]) -> None:
    """Exploitability against episodes for the best setting of every algorithm, beside the paper's
    in the end."""
    columns = len(outcome)
    with plots.figure(path, rows=1, columns=columns, size=(4.4 * columns, 3.4)) as axes:
        for panel, (game, learned) in zip(axes[0], outcome.items(), strict=True):
            unit, scale = published.measured_in(game)
            x = [BLOCK * point for point in learned.at]
            lines = [
                plots.Band(name=name, x=x, samples=(scale * learned.reported[name]).tolist())
                for name in ALGORITHMS
            ]
            plots.bands(panel, lines, published={}, x_label="episodes")
            for number, name in enumerate(ALGORITHMS):
                known = published.reinforcement_learning(game, name)
                if known is not None:
                    plots.points(panel, {x[-1]: scale * known}, number)
            plots.level(panel, scale * uniform_exploitability(game), "uniform")
            panel.set_ylabel(f"exploitability ({unit})")
            panel.set_title(game)
        axes[0, -1].plot([], [], markeredgecolor="black", label="SoG, Fig. S4", **plots.HOLLOW)


def rows(config: Config, outcome: Mapping[str, Learned]) -> Iterator[dict[str, object]]:
    """A row for every seed at every point of every curve."""
    for game, learned in outcome.items():
        reported = {learned.best[name]: curve for name, curve in learned.reported.items()}
        every = (
            ("selection", learned.selection, 0),
            ("reported", reported, config.selection_seeds),
        )
        for seeds, curves, first in every:
            for name, curve in curves.items():
                for point, values in zip(learned.at, curve, strict=True):
                    columns = {
                        "game": game,
                        "seeds": seeds,
                        "setting": name,
                        "episodes": BLOCK * point,
                    }
                    yield from seed_statistics.rows(columns, values, first_seed=first)


def numbers(config: Config, outcome: Mapping[str, Learned]) -> Iterator[results.Number]:
    """The exploitability of every algorithm's best setting and of uniform play, by game."""
    for game, learned in outcome.items():
        for algorithm in ALGORITHMS:
            yield seed_statistics.number(
                f"{game}:best {algorithm}",
                game,
                learned.reported[algorithm][-1].tolist(),
                paper=published.reinforcement_learning(game, algorithm),
            )
        unit, scale = published.measured_in(game)
        known = published.reinforcement_learning(game, "uniform")
        yield results.Number(
            name=f"{game}:uniform",
            value=scale * uniform_exploitability(game),
            unit=unit,
            paper=None if known is None else scale * known,
        )


def measure(config: Config) -> str:
    """What the numbers are."""
    return (
        "exploitability (NashConv / 2) of the policies at the end, in mbb/h: mean of"
        f" {config.seeds} seeds. Each"
        " algorithm has the setting of the grid that was the least exploitable with"
        f" {config.selection_seeds} other seeds. A2C plays its current policy, the others greedily"
    )


def deviations(config: Config) -> Iterator[str]:
    """What differs from the paper, or is not said there."""
    yield (
        "the paper reports the best setting of its grid; here other seeds than the reported ones"
        " choose it"
    )
    if config.grid != _WHOLE:
        yield (
            f"{_counted(config.grid)} of the {_counted(_WHOLE)} settings of Table S6, to save time"
        )
    yield (
        "DQN makes one gradient step per player and eight episodes, and A2C one update of its"
        " critic per eight episodes; exploration decays to 0.1 in DQN within 400,000 episodes, and"
        " is 0.2 in Q-learning (the paper does not say)"
    )
    yield (
        "the published number of A2C in Leduc is the text's (78 mbb/h); the paper's Figure S4 ends"
        " near 850"
    )


def _counted(grid: Grid) -> int:
    """How many settings a grid has."""
    dqn_settings = (grid.layers, grid.rates, grid.explorations, grid.capacities)
    a2c_settings = (grid.layers, grid.actor_rates, grid.critic_rates, grid.critic_updates)
    return len(grid.step_sizes) + sum(
        math.prod(map(len, settings)) for settings in (dqn_settings, a2c_settings)
    )


def tables(config: Config, outcome: Mapping[str, Learned]) -> Iterator[Table]:
    """A table per game: the best setting of every algorithm."""
    for game, learned in outcome.items():
        unit, scale = published.measured_in(game)
        texts = []
        for algorithm in ALGORITHMS:
            name = learned.best[algorithm].removeprefix(f"{algorithm}, ")
            mean = f"{scale * learned.reported[algorithm][-1].mean():.4g}"
            texts.append((algorithm, name, mean))
        title = f"rl_baselines: exploitability in {game}, {unit}"
        yield text_table(title, ("algorithm", "best setting", unit), texts, labels=2)


COMMAND = Experiment(
    name="rl_baselines",
    shown="exploitability by episodes and setting",
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "an hour on two cores",
        "paper": "the whole grid, for an accelerator",
    },
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    error_bars=results.LEAST_AND_MOST,
    measure=measure,
    deviations=lambda config: [*deviations(config)],
)
