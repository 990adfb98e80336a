"""Q-learning, DQN and A2C by self-play in Kuhn and Leduc (Figure S4 of Student of Games).

Plots exploitability against episodes of self-play, for settings of the supplement's Table S6. These
algorithms do not look for equilibria; the paper shows how exploitable their policies stay.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Iterator, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from rich.table import Table

from experiments.harness import plots, published, results, seed_statistics
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.runs import Run
from experiments.tabular.learning_curves import Method, learn, log_spaced, of_seeds
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
    seeds: int = 3


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
    """Learners that run side by side in a single program: of every setting, several seeds."""

    name: str
    algorithm: str
    settings: tuple[str, ...]  # what differs among the learners
    method: Method  # learners by setting, then by seed


Curves = Mapping[str, Float[np.ndarray, "points seeds"]]  # by "algorithm, setting"


@dataclasses.dataclass(frozen=True)
class Learned:
    """The learning curves of all settings in a game."""

    at: tuple[int, ...]  # blocks of episodes after which learners are measured
    curves: Curves


def compute(run: Run) -> dict[str, Learned]:
    """The learning curves by game."""
    config, outcome = run.config, {}
    for game, blocks in config.blocks.items():
        at, by_name = log_spaced(1, blocks), {each.name: each for each in families(game, config)}
        methods = {name: family.method for name, family in by_name.items()}
        curves = {}
        measured = learn(run.checkpoint / game, methods, at=at, saved=run.meter.keep)
        for name, values in measured.items():
            family = by_name[name]
            parts = np.split(values, len(family.settings), axis=1)
            names = (f"{family.algorithm}, {setting}" for setting in family.settings)
            curves |= zip(names, parts, strict=True)
        outcome[game] = Learned(at, curves)
    return outcome


def families(game: str, config: Config) -> Iterator[Family]:
    """All settings of the grid, in families of settings that can learn side by side."""
    environment, public = build_environment(make(game)), build_sequence_form(make(game))
    grid = config.grid
    for size in grid.step_sizes:
        yield _q_learning(environment, public, config, size)
    for (width, depth), capacity in itertools.product(grid.layers, grid.capacities):
        settings = Dqn(width=width, depth=depth, capacity=capacity, exploration_rounds=50_000)
        yield _dqn(environment, public, config, settings)
    for (width, depth), updates in itertools.product(grid.layers, grid.critic_updates):
        settings = A2c(width=width, depth=depth, critic_updates=updates)
        yield _a2c(environment, public, config, settings)


def _q_learning(
    environment: Environment, public: SequenceForm, config: Config, size: float
) -> Family:
    settings = QLearning(step_size=size)
    return Family(
        name=f"Q-learning {size:g}",
        algorithm="Q-learning",
        settings=(f"step size {size:g}",),
        method=Method(
            **of_seeds(q_learning.init(environment), config.seeds),
            run=lambda learner, key, count: q_learning.run(
                environment, learner, key, settings=settings, num_episodes=BLOCK * count
            ),
            measure=lambda learner: evaluation.exploitability(
                public, q_learning.greedy_policy(environment, learner)
            ),
        ),
    )


def _dqn(environment: Environment, public: SequenceForm, config: Config, settings: Dqn) -> Family:
    pairs = tuple(itertools.product(config.grid.rates, config.grid.explorations))

    def new(key, rate, exploration):
        return dqn.init(
            environment, key, settings=settings, rate=rate, first_exploration=exploration
        )

    shape = f"{settings.width} x {settings.depth}, buffer {settings.capacity}"
    return Family(
        name=f"DQN {shape}",
        algorithm="DQN",
        settings=tuple(f"{shape}, rate {r:g}, exploration {e:g}" for r, e in pairs),
        method=Method(
            **_of_pairs(new, pairs, config.seeds),
            run=lambda learner, key, count: dqn.run(
                environment,
                learner,
                key,
                settings=settings,
                num_rounds=BLOCK // settings.batch * count,
            ),
            measure=lambda learner: evaluation.exploitability(
                public, dqn.greedy_policy(environment, learner, settings=settings)
            ),
        ),
    )


def _a2c(environment: Environment, public: SequenceForm, config: Config, settings: A2c) -> Family:
    pairs = tuple(itertools.product(config.grid.actor_rates, config.grid.critic_rates))

    def new(key, actor, critic):
        return a2c.init(environment, key, settings=settings, actor_rate=actor, critic_rate=critic)

    shape = f"{settings.width} x {settings.depth}, {settings.critic_updates} critic updates"
    episodes = settings.batch * settings.critic_updates
    return Family(
        name=f"A2C {shape}",
        algorithm="A2C",
        settings=tuple(f"{shape}, rates {a:g} and {c:g}" for a, c in pairs),
        method=Method(
            **_of_pairs(new, pairs, config.seeds),
            run=lambda learner, key, count: a2c.run(
                environment,
                learner,
                key,
                settings=settings,
                num_rounds=BLOCK // episodes * count,
            ),
            measure=lambda learner: evaluation.exploitability(
                public, a2c.current_policy(environment, learner, settings=settings)
            ),
        ),
    )


def _of_pairs(new, pairs, seeds):
    """The fields `start` and `keys` of a method with learners `new(key, *pair)`, by pair and then
    by seed."""
    first, second = np.repeat(np.array(pairs, np.float32), seeds, axis=0).T
    seed = np.tile(np.arange(seeds), len(pairs))
    init_keys, keys = (jax.random.split(jax.random.key(use), seeds)[seed] for use in range(2))
    start = jax.vmap(new)(init_keys, jnp.asarray(first), jnp.asarray(second))
    return {"start": start, "keys": keys}


def best(curves: Curves, algorithm: str) -> str:
    """The setting of an algorithm with the least mean exploitability in the end."""
    own = [name for name in curves if name.startswith(f"{algorithm}, ")]
    return min(own, key=lambda name: curves[name][-1].mean())


def uniform_exploitability(game: str) -> float:
    """Exploitability (NashConv / 2) of uniform play."""
    public = build_sequence_form(make(game))
    return float(evaluation.exploitability(public, unpack(public, uniform(public))))


def draw(path: pathlib.Path, config: Config, outcome: Mapping[str, Learned]) -> None:
    """Exploitability against episodes for the best setting of every algorithm, beside the paper's
    in the end."""
    columns = len(outcome)
    with plots.figure(path, rows=1, columns=columns, size=(5.2 * columns, 3.6)) as axes:
        for panel, (game, learned) in zip(axes[0], outcome.items(), strict=True):
            x, curves = [BLOCK * point for point in learned.at], learned.curves
            lines = [
                plots.Band(name=name, x=x, samples=curves[best(curves, name)].tolist())
                for name in ALGORITHMS
            ]
            plots.bands(panel, lines, published={}, x_label="episodes")
            for number, name in enumerate(ALGORITHMS):
                known = published.reinforcement_learning(game, name)
                if known is not None:
                    plots.points(panel, {x[-1]: known}, number)
            plots.level(panel, uniform_exploitability(game), "uniform")
            panel.set_ylabel("exploitability (NashConv / 2)")
            panel.set_title(game)
            panel.get_legend().remove()
        axes[0, -1].plot([], [], markeredgecolor="black", label="SoG, Fig. S4", **plots.HOLLOW)
        axes[0, -1].legend(**plots.BESIDE)


def rows(config: Config, outcome: Mapping[str, Learned]) -> Iterator[dict[str, object]]:
    """A row for every seed at every point of every curve."""
    for game, learned in outcome.items():
        for name, curve in learned.curves.items():
            for point, values in zip(learned.at, curve, strict=True):
                columns = {"game": game, "setting": name, "episodes": BLOCK * point}
                yield from seed_statistics.rows(columns, values)


def numbers(config: Config, outcome: Mapping[str, Learned]) -> Iterator[results.Number]:
    """The exploitability of every algorithm's best setting and of uniform play, by game."""
    for game, learned in outcome.items():
        for algorithm in ALGORITHMS:
            yield seed_statistics.number(
                f"{game}:best {algorithm}",
                game,
                learned.curves[best(learned.curves, algorithm)][-1].tolist(),
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
        f" {config.seeds} seeds of the setting where it is least; low and high are the least and"
        " the most exploitable. A2C plays its current policy, the others greedily"
    )


def tables(config: Config, outcome: Mapping[str, Learned]) -> Iterator[Table]:
    """A table per game: the best setting of every algorithm."""
    for game, learned in outcome.items():
        unit, scale = published.measured_in(game)
        texts = []
        for algorithm in ALGORITHMS:
            name = best(learned.curves, algorithm)
            mean = f"{scale * learned.curves[name][-1].mean():.4g}"
            texts.append((algorithm, name.removeprefix(f"{algorithm}, "), mean))
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
    measure=measure,
)
