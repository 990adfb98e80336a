"""UCT and Smooth UCT side by side by self-play, measured along the way; for games of two and three
players with buckets."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import jax
import jax.numpy as jnp
import tyro
from jax.sharding import Mesh

from experiments.blueprints.measured_training import train_and_measure
from experiments.harness.progress import say
from experiments.harness.runs import Run, RunArguments
from experiments.tabular.learning_curves import log_spaced
from jaxgames.holdem.betting_graph import BettingGraph
from jaxgames.holdem.card_abstraction import BucketTables, CardAbstraction
from solvers.blueprint import bucket_uct
from solvers.blueprint.betting_walk import BettingWalk, PolicyByNode, policy_by_node
from solvers.blueprint.blueprint import fixed_policy
from solvers.blueprint.bucket_uct import BucketUctLearner
from solvers.blueprint.duplicate_match import Match
from solvers.device_batches import device_bytes
from solvers.sampling.uct import Uct, smooth_uct, uct

UCT, SMOOTH, CONSTANT = "UCT", "Smooth UCT", ", constant c"
CALLER, UNIFORM = "always call", "uniform"
BLUEPRINTS = "blueprints"  # the folder of the last policies
AVERAGE, GREEDY = "average", "greedy"
READ_OUTS = {AVERAGE: bucket_uct.average, GREEDY: bucket_uct.greedy}

Learners = dict[str, BucketUctLearner]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """The game, its buckets, the learners and when they are measured; constants as published."""

    game: str
    abstraction: str
    episodes: int  # of each method
    first: int  # episodes before the first measurement
    hands: int  # deals of a match, each played in all seats; or a few more, to fill a last batch
    exploration: float  # C, in big blinds
    methods: tuple[str, ...] = (UCT, SMOOTH)
    batch: int = 1024
    potential: float = 0.5  # k
    decay: float = 1 / 20_000  # d
    seed: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(RunArguments):
    """The options beside the preset."""

    abstraction: Annotated[str | None, tyro.conf.arg(metavar="TEXT")] = None
    """Another abstraction than the preset's, such as "169/ehs2:100/ehs2:50/ehs2:20"."""
    episodes: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """How many episodes of each method, instead of the preset's number."""


def configure(config: Settings, options: Options) -> Settings:
    """The preset with what the options ask for.

    Raises:
      ValueError: an option is refused.
    """
    if options.abstraction is not None:
        CardAbstraction.parse(options.abstraction)
        config = dataclasses.replace(config, abstraction=options.abstraction)
    if options.episodes is not None:
        if options.episodes < config.batch:
            raise ValueError(
                f"episodes={options.episodes} must be at least {config.batch}, a batch"
            )
        config = dataclasses.replace(config, episodes=options.episodes)
    return config


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measurement:
    """A number after a number of episodes of each method."""

    episodes: int
    name: str
    unit: str
    value: float
    error: float  # standard error of a match; 0 of counts


@dataclasses.dataclass(frozen=True)
class Learning:
    """How a method learns."""

    walk: BettingWalk
    settings: Uct


def methods(
    config: Settings, blind: int, lay_out: Callable[[float | None], BettingWalk]
) -> dict[str, Learning]:
    """How the methods of a config learn.

    Args:
      config: names them.
      blind: the big one, in chips.
      lay_out: makes the game, with k of the exploration constant.
    """
    found = {}
    for name in config.methods:
        most = config.exploration * blind
        smooth = name.startswith(SMOOTH)
        found[name] = Learning(
            lay_out(None if name.endswith(CONSTANT) else config.potential),
            smooth_uct(most, decay=config.decay) if smooth else uct(most),
        )
    return found


def fixed_players(graph: BettingGraph) -> dict[str, PolicyByNode]:
    """The players who do not look at their cards."""
    weights = {CALLER: {"call": 1.0}, UNIFORM: {}}
    return {name: policy_by_node(graph, fixed_policy(graph, own)) for name, own in weights.items()}


def check_memory(config: Settings, methods: Mapping[str, Learning], mesh: Mesh | None) -> None:
    """Says what the tables of all methods take, before anything large is made.

    A device has the tables of its methods. The first one has those of all when they are measured,
    and room for a policy that is read out to be written. The devices of a CPU share its memory,
    which also has a checkpoint that is read, beside the tables made of it.

    Args:
      config: names the abstraction.
      methods: learn side by side.
      mesh: the devices; None: one.

    Raises:
      ValueError: the memory of a device is too small.
    """
    walk = methods[config.methods[0]].walk
    home, *others = (device for _, device in zip(methods, _devices(mesh), strict=False))
    tables = Counter({home: len(methods)})
    tables.update(device for device in others if device != home)
    needed = walk.table_bytes * max(tables.values()) + walk.policy_bytes
    if jax.default_backend() == "cpu":
        needed = walk.table_bytes * tables.total() + walk.policy_bytes
        needed = max(needed, 2 * len(methods) * walk.table_bytes)
    said = (
        f"{config.abstraction}: {walk.num_states:,} information states; tables of"
        f" {len(methods)} methods, {_mib(walk.table_bytes)} each, and what is made of them take"
        f" {_mib(needed)}"
    )
    allowed = device_bytes()
    if needed > allowed:
        raise ValueError(
            f"{said}, more than the memory of {_mib(allowed)}: fewer buckets make them smaller"
        )
    say(said)


def _mib(number):
    return f"{number / 2**20:,.0f} MiB"


def points(config: Settings) -> tuple[int, ...]:
    """The numbers of episodes after which learners are measured, as whole batches: two per decade,
    and the last."""
    schedule = log_spaced(min(config.first, config.episodes), config.episodes)
    kept = [n for n in schedule if n == config.episodes or schedule.index(n) % 5 == 0]
    return tuple(dict.fromkeys(-(-n // config.batch) * config.batch for n in kept))


def learn(
    run: Run,
    methods: Mapping[str, Learning],
    tables: BucketTables,
    measure: Callable[[Learners], Iterator[tuple[str, str, float, float]]],
) -> tuple[Learners, list[Measurement]]:
    """Learns from the checkpoint on, and measures on schedule.

    Args:
      run: whose config has `Settings`.
      methods: learn side by side, on the devices of this process.
      tables: the buckets of all hands.
      measure: yields names, units, values and standard errors.

    Returns:
      The learners in the end, and all measurements.

    Raises:
      ValueError: a learner's table takes too many bytes, which `check_memory` says earlier.
    """
    config, walk = run.config, next(iter(methods.values())).walk
    keys = jax.random.split(jax.random.key(config.seed), len(methods))
    given = {
        name: jax.device_put((each.walk, tables, key), device)
        for (name, each), key, device in zip(
            methods.items(), keys, _devices(run.mesh), strict=False
        )
    }

    def advance(learners, count):
        def advanced(name):
            walk, tables, key = given[name]
            learner = bucket_uct.run(
                walk,
                jax.device_put(learners[name], key.device),
                tables,
                key,
                settings=methods[name].settings,
                batch=config.batch,
                num_batches=jnp.int32(count),
            )
            return name, jax.block_until_ready(learner)

        return dict(threads.map(advanced, methods))

    def done(learners):
        return int(learners[config.methods[0]].batches)

    def measured(learners):
        learners = jax.device_put(learners, walk.rows.device)
        return [
            dict(
                episodes=done(learners) * config.batch,
                name=name,
                unit=unit,
                value=float(value),
                error=float(error),
            )
            for name, unit, value, error in measure(learners)
        ]

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        learners, found = train_and_measure(
            advance,
            lambda: {name: bucket_uct.init(each.walk) for name, each in methods.items()},
            done=done,
            at=[n // config.batch for n in points(config)],
            measure=measured,
            title="self-play",
            folder=run.checkpoint / "self-play",
            identity={"seed": config.seed, "methods": [*config.methods], "batch": config.batch},
            keep=run.keep_usage,
            scale=config.batch,
        )
    return learners, [Measurement(**fields) for fields in itertools.chain(*found)]


def _devices(mesh):
    """A device for each method, of those of this process in turn."""
    return itertools.cycle([None] if mesh is None else mesh.local_devices)


def folder_of(name: str, kind: str) -> str:
    """The name of the folder of a method's policy, of a kind of read-out."""
    return f"{name}, {kind}".replace(",", "").replace(" ", "-")


def won(name: str, match: Match, blind: int) -> tuple[str, str, float, float]:
    """The measurement of what the first policy of a match wins."""
    return name, "mb/h", match.won[0] * 1000 / blind, match.error[0] * 1000 / blind


def of_self_play(
    name: str, match: Match, seat: str, number: int, learner: BucketUctLearner, blind: int
) -> Iterator[tuple[str, str, float, float]]:
    """What a match of a policy with itself is like: what a seat wins, by its name and number, and
    how many decisions a hand has; and how much its learner has seen."""
    yield (
        f"{name} wins as the {seat}",
        "mb/h",
        match.by_seat[number] * 1000 / blind,
        match.seat_error[number] * 1000 / blind,
    )
    yield f"decisions of {name}", "per hand", match.decisions, 0.0
    yield f"states that {name} has visited", "share", bucket_uct.share_visited(learner), 0.0
