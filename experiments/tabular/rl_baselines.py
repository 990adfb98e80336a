"""Q-learning, DQN and A2C by self-play in Kuhn and Leduc (Figure S4 of Student of Games).

Exploitability against episodes of self-play, for settings of the supplement's Table S6. These are
no equilibrium methods; the paper's point is how exploitable their policies stay.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from rich.console import Console
from rich.table import Table

from experiments.harness import plots, published, results
from experiments.harness.runs import Run, RunArguments
from experiments.student_of_games import search_laboratory
from experiments.tabular.learning_curves import Method, learned, log_spaced, of_seeds
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
    """The settings tried, all with all: rows of Table S6."""

    step_sizes: tuple[float, ...]  # Q-learning
    layers: tuple[tuple[int, int], ...]  # width and depth of DQN's and A2C's networks
    rates: tuple[float, ...]  # DQN
    explorations: tuple[float, ...]  # DQN's share of uniform at first
    capacities: tuple[int, ...]  # of DQN's replay buffers
    actor_rates: tuple[float, ...]  # A2C
    critic_rates: tuple[float, ...]
    critic_updates: tuple[int, ...]  # before every one of the actor


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
    """What is computed."""

    blocks: dict[str, int]  # by game: of `BLOCK` episodes
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
    # five million decisions of uniform play: 2.25 in an episode of Kuhn, 4.06 in one of Leduc
    "cpu": Config(
        blocks={"kuhn_poker": 18_000, "leduc_poker": 10_000},
        grid=dataclasses.replace(
            _WHOLE, layers=((64, 1),), explorations=(1.0, 0.2), capacities=(10_000,)
        ),
    ),
    "paper": Config(blocks={"kuhn_poker": 18_000, "leduc_poker": 10_000}, grid=_WHOLE, seeds=10),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    """Measure how exploitable reinforcement learning by self-play is, in Kuhn and Leduc.

    Writes exploitability by episodes and setting as curve.csv and curve.png, and result.json, into
    --out. Ctrl-C keeps what is learned there, from which --resume continues to exactly the same
    numbers.
    """

    preset: Literal["smoke", "cpu", "paper"] = "cpu"
    """smoke: a minute; cpu: an hour on two cores; paper: the whole grid, for an accelerator."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Family:
    """Learners that one program runs side by side: settings that are arrays, times seeds."""

    name: str
    algorithm: str
    settings: tuple[str, ...]  # those that differ within it
    method: Method  # of learners setting by setting, seed by seed


Curves = Mapping[str, Float[np.ndarray, "points seeds"]]  # by "algorithm, setting"


def main(arguments: Arguments, *, command: str) -> None:
    """Runs the experiment.

    Raises:
      ValueError: `out` holds another run.
      OSError: the results cannot be written.
      KeyboardInterrupt: stopped by Ctrl-C; what was finished has been kept.
    """
    config = PRESETS[arguments.preset]
    run = Run(arguments, config, experiment="rl_baselines", command=command)
    found = {}
    for game, blocks in config.blocks.items():
        at, here = log_spaced(1, blocks), {each.name: each for each in families(game, config)}
        methods = {name: family.method for name, family in here.items()}
        curves = {}
        for name, measured in learned(run.checkpoint / game, methods, at=at).items():
            family = here[name]
            parts = np.split(measured, len(family.settings), axis=1)
            names = (f"{family.algorithm}, {setting}" for setting in family.settings)
            curves |= zip(names, parts, strict=True)
        found[game] = at, curves
    results.write_csv(run.out / "curve.csv", _rows(found))
    draw(run.out / "curve.png", found)
    run.finish(
        [number for game, (_, curves) in found.items() for number in _numbers(game, curves)],
        measure="exploitability (NashConv / 2) of the policies at the end, in mbb/h: mean of"
        f" {config.seeds} seeds of the setting where it is least; low and high are the least and"
        " the most exploitable. A2C plays its current policy, the others greedily",
    )
    _print(found)


def families(game: str, config: Config) -> Iterator[Family]:
    """All settings of the grid, by what can be learned side by side."""
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
    """`start` and `keys` of learners `new(key, *pair)`, pair by pair and seed by seed."""
    first, second = np.repeat(np.array(pairs, np.float32), seeds, axis=0).T
    seed = np.tile(np.arange(seeds), len(pairs))
    begin, luck = (jax.random.split(jax.random.key(use), seeds)[seed] for use in range(2))
    start = jax.vmap(new)(begin, jnp.asarray(first), jnp.asarray(second))
    return {"start": start, "keys": luck}


def best(curves: Curves, algorithm: str) -> str:
    """The setting of an algorithm that is least exploitable in the end, in the mean."""
    own = [name for name in curves if name.startswith(f"{algorithm}, ")]
    return min(own, key=lambda name: curves[name][-1].mean())


def uniform_exploitability(game: str) -> float:
    """Of uniform play."""
    public = build_sequence_form(make(game))
    return float(evaluation.exploitability(public, unpack(public, uniform(public))))


Found = Mapping[str, tuple[Sequence[int], Curves]]  # by game: blocks measured at, curves


def draw(path: pathlib.Path, found: Found) -> None:
    """Exploitability against episodes, the best setting of every algorithm; the paper's ends."""
    with plots.figure(path, rows=1, columns=len(found), size=(5.2 * len(found), 3.6)) as axes:
        for place, (game, (at, curves)) in zip(axes[0], found.items(), strict=True):
            x = [BLOCK * point for point in at]
            lines = [
                plots.Band(name=name, x=x, samples=curves[best(curves, name)].tolist())
                for name in ALGORITHMS
            ]
            plots.bands(place, lines, published={}, x_label="episodes")
            for number, name in enumerate(ALGORITHMS):
                known = published.reinforcement_learning(game, name)
                if known is not None:
                    plots.points(place, {x[-1]: known}, number)
            plots.level(place, uniform_exploitability(game), "uniform")
            place.set_ylabel("exploitability (NashConv / 2)")
            place.set_title(game)
            place.get_legend().remove()
        axes[0, -1].plot([], [], markeredgecolor="black", label="SoG, Fig. S4", **plots.HOLLOW)
        axes[0, -1].legend(**plots.BESIDE)


def _rows(found: Found) -> list[dict[str, object]]:
    return [
        {
            "game": game,
            "setting": name,
            "episodes": BLOCK * point,
            "seed": seed,
            "exploitability": f"{value:.6g}",
        }
        for game, (at, curves) in found.items()
        for name, curve in curves.items()
        for point, values in zip(at, curve, strict=True)
        for seed, value in enumerate(values)
    ]


def _numbers(game: str, curves: Curves) -> Iterator[results.Number]:
    unit, scale = published.measured_in(game)
    for algorithm in ALGORITHMS:
        yield search_laboratory.number(
            f"{game}:best {algorithm}",
            game,
            curves[best(curves, algorithm)][-1].tolist(),
            paper=published.reinforcement_learning(game, algorithm),
        )
    known = published.reinforcement_learning(game, "uniform")
    yield results.Number(
        name=f"{game}:uniform",
        value=scale * uniform_exploitability(game),
        unit=unit,
        paper=None if known is None else scale * known,
    )


def _print(found: Found) -> None:
    for game, (_, curves) in found.items():
        unit, scale = published.measured_in(game)
        table = Table(title=f"rl_baselines: exploitability in {game}, {unit}")
        for name in ("algorithm", "best setting", unit):
            table.add_column(name, justify="right" if name == unit else "left")
        for algorithm in ALGORITHMS:
            name = best(curves, algorithm)
            setting = name.removeprefix(f"{algorithm}, ")
            table.add_row(algorithm, setting, f"{scale * curves[name][-1].mean():.4g}")
        Console().print(table)
