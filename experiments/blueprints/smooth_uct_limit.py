"""UCT and Smooth UCT in two-player limit hold'em with buckets (Heinrich and Silver 2015, Figure 3
and Table 2).

All methods learn by self-play in the same buckets. Along the way their policies, the average and
the greedy ones, play each other, a player who always calls and one who plays uniformly. In each
match the same deals are played twice with the seats exchanged, as in the paper. In the end they
meet linear CFR in a cross table.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
import pathlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import jax
import jax.numpy as jnp
import tyro
from jaxtyping import Array, Float
from rich.table import Table

from experiments.blueprints import cross_table, linear_cfr_training
from experiments.blueprints.blueprint_limit import PERCENTILES
from experiments.blueprints.cross_table import Match
from experiments.blueprints.measured_training import train_and_measure
from experiments.harness import plots, results
from experiments.harness.experiment import Experiment, text_table
from experiments.harness.progress import say, status
from experiments.harness.runs import Run, RunArguments
from experiments.tabular.learning_curves import log_spaced
from jaxgames.holdem.card_abstraction import CardAbstraction, bucket_tables
from jaxgames.registry import make
from solvers.blueprint import betting_walk, bucket_uct
from solvers.blueprint.betting_walk import BettingWalk
from solvers.blueprint.blueprint import (
    bucket_game,
    fixed_blueprint,
    fixed_policy,
    read_blueprint,
    write_blueprint,
)
from solvers.blueprint.bucket_game import BucketGame
from solvers.blueprint.duplicate_match import play_match
from solvers.sampling.uct import Uct, smooth_uct, uct

UCT, SMOOTH, CONSTANT = "UCT", "Smooth UCT", ", constant c"
CALLER, UNIFORM, RAISER = "always call", "uniform", "always raise"
_FIXED = {CALLER: {"call": 1.0}, UNIFORM: {}, RAISER: {"raise": 1.0, "call": 1e-6}}
AVERAGE, GREEDY = "average", "greedy"
BLUEPRINTS, CROSS_TABLE = "blueprints", "cross_table"  # the folder of the last policies; files
READ_OUTS = {AVERAGE: bucket_uct.average_policy, GREEDY: bucket_uct.greedy_policy}
PAPER_GRID = "169/ehs2:1000/ehs2:500/ehs2:200"
PAPER = {f"{SMOOTH} against {UCT}, {GREEDY}": 5.28}  # mb/h, Table 2; standard error 0.6
TWO_ROUNDS = "poker(board=0/3,first=1/0,raise_sizes=10/10,max_raises=3/4)"
_PER_ITERATION = 2  # boards of linear CFR


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """The game, its buckets, the learners and when they are measured; constants as published."""

    abstraction: str
    episodes: int  # of each method
    first: int  # episodes before the first measurement
    hands: int  # deals of a match, each played in both seats; or a few more, to fill a last batch
    references: Mapping[str, int]  # boards of linear CFR for the cross table, by abstraction
    boards: int  # of the cross table
    methods: tuple[str, ...] = (UCT, SMOOTH)
    game: str = "limit_holdem"
    batch: int = 1024
    exploration: float = 24.0  # C, in big blinds
    potential: float = 0.5  # k
    decay: float = 1 / 20_000  # d
    seed: int = 0


PRESETS = {
    "smoke": Config(
        game=TWO_ROUNDS,
        abstraction="169/percentile:20",
        episodes=20_480,
        first=2_048,
        hands=2_000,
        references={"169/percentile:20": 4},
        boards=4,
    ),
    "cpu": Config(
        abstraction="169/ehs2:100/ehs2:50/ehs2:20",
        methods=(UCT, SMOOTH, UCT + CONSTANT, SMOOTH + CONSTANT),
        episodes=1_000_000_000,
        first=100_000,
        hands=1_000_000,
        references={"169/ehs2:100/ehs2:50/ehs2:20": 4_000, PERCENTILES: 4_000},
        boards=300,
    ),
    "large": Config(
        abstraction=PAPER_GRID,
        episodes=13_000_000_000,
        first=1_000_000,
        hands=1_000_000,
        references={PAPER_GRID: 10_000},
        boards=300,
    ),
    "paper": Config(
        abstraction=PAPER_GRID,
        episodes=62_000_000_000,
        first=1_000_000,
        hands=5_000_000,
        references={PAPER_GRID: 640_000, PERCENTILES: 640_000},
        boards=10_000,
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(RunArguments):
    """The options beside the preset."""

    episodes: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """How many episodes of each method, instead of the preset's number."""


def configure(config: Config, options: Options) -> Config:
    """The preset with what the options ask for.

    Raises:
      ValueError: an option is refused.
    """
    if options.episodes is None:
        return config
    if options.episodes < config.batch:
        raise ValueError(f"episodes={options.episodes} must be at least {config.batch}, a batch")
    return dataclasses.replace(config, episodes=options.episodes)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measurement:
    """A number after so many episodes of each method."""

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """All measurements, and the cross table in the end."""

    curve: list[Measurement]
    matches: list[Match]


def compute(run: Run) -> Outcome:
    """The measurements of all methods, which learn side by side, and their matches in the end."""
    curve = run.kept("curve", Measurement, functools.partial(_learn, run))
    poker = make(run.config.game)
    players = {}
    for name, kind in itertools.product(run.config.methods, READ_OUTS):
        if not name.endswith(CONSTANT):
            folder = run.checkpoint / BLUEPRINTS / _folder(name, kind)
            players[f"{name}, {kind}"], _ = read_blueprint(folder)
    for number, (abstraction, boards) in enumerate(run.config.references.items()):
        folder = run.checkpoint / f"linear-cfr-{number}"
        name = f"linear CFR, {abstraction.replace('ehs2:', '')}"
        players[name], _ = linear_cfr_training.train(
            run,
            poker,
            abstraction,
            jax.random.fold_in(jax.random.key(run.config.seed), number),
            at=[boards],
            boards_per_iteration=_PER_ITERATION,
            folder=folder,
            title=name,
        )
    players |= {name: fixed_blueprint(poker, weights) for name, weights in _FIXED.items()}
    seed = run.config.seed + 2
    matches = cross_table.play_all(run, poker, players, boards=run.config.boards, seed=seed)
    return Outcome(curve=curve, matches=matches)


def points(config: Config) -> tuple[int, ...]:
    """The numbers of episodes after which learners are measured, as whole batches: two per decade,
    and the last."""
    schedule = log_spaced(min(config.first, config.episodes), config.episodes)
    kept = [n for n in schedule if n == config.episodes or schedule.index(n) % 5 == 0]
    return tuple(dict.fromkeys(-(-n // config.batch) * config.batch for n in kept))


def _learn(run: Run) -> list[Measurement]:
    """Learns from the checkpoint on, and measures on schedule."""
    config = run.config
    poker, abstraction = make(config.game), CardAbstraction.parse(config.abstraction)
    with status(f"making the betting tree and the buckets {abstraction}"):
        game = bucket_game(poker, abstraction)
        tables = bucket_tables(abstraction, board=poker.board)
    methods = {name: _learning(config, poker, game, name) for name in config.methods}
    walk = next(iter(methods.values())).walk
    keys = dict(
        zip(methods, jax.random.split(jax.random.key(config.seed), len(methods)), strict=True)
    )

    say(
        f"{config.abstraction}: {walk.num_states:,} information states, whose table takes"
        f" {walk.table_bytes / 2**20:,.0f} MiB for each of {len(methods)} methods"
    )
    given = {
        name: jax.device_put((each.walk, tables, keys[name]), device)
        for (name, each), device in zip(methods.items(), _devices(run.mesh), strict=False)
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

    def measure(learners):
        episodes = done(learners) * config.batch
        learners = jax.device_put(learners, walk.uniform.device)
        return _measured(config, game, walk, tables, max(poker.blinds), learners, episodes)

    def done(learners):
        return int(learners[config.methods[0]].batches)

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        learners, found = train_and_measure(
            advance,
            {name: bucket_uct.init(each.walk) for name, each in methods.items()},
            done=done,
            at=[n // config.batch for n in points(config)],
            measure=measure,
            title="self-play",
            folder=run.checkpoint / "self-play",
            identity={"seed": config.seed, "methods": [*config.methods], "batch": config.batch},
            keep=run.keep_usage,
            scale=config.batch,
        )
    if run.writes:
        played = {"poker": poker, "abstraction": abstraction}
        _write_blueprints(run.checkpoint / BLUEPRINTS, game, methods, learners, **played)
    return [Measurement(**fields) for fields in itertools.chain(*found)]


def _devices(mesh):
    """A device for each method, of those of this process in turn."""
    return itertools.cycle([None] if mesh is None else mesh.local_devices)


def _learning(config, poker, game, name):
    """The walk and the settings of a method."""
    potential = None if name.endswith(CONSTANT) else config.potential
    most = config.exploration * max(poker.blinds)
    smooth = name.startswith(SMOOTH)
    settings = smooth_uct(most, decay=config.decay) if smooth else uct(most)
    return Learning(betting_walk.betting_walk(game, potential=potential), settings)


def _measured(config, game, walk, tables, blind, learners, episodes):
    """All matches, and what self-play with average policies is like; as JSON."""
    found = []

    def add(name, unit, value, error=0.0):
        found.append(
            dict(episodes=episodes, name=name, unit=unit, value=float(value), error=float(error))
        )

    fixed = {CALLER: caller(game), UNIFORM: walk.uniform}
    deals = {"hands": config.hands, "seed": config.seed + 1}
    for kind, read in READ_OUTS.items():
        policies = {name: read(walk, learners[name]) for name in config.methods}
        versus = [(one, other) for one in policies for other in fixed]
        versus += [(other, one) for one, other in itertools.combinations(policies, 2)]
        for one, other in versus:
            both = policies[one], (policies | fixed)[other]
            match = play_match(walk, both, tables, players=(0, 1), **deals)
            won, error = match.won[0] * 1000 / blind, match.error[0] * 1000 / blind
            add(f"{one} against {other}, {kind}", "mb/h", won, error)
        if kind == AVERAGE:
            for name, policy in policies.items():
                match = play_match(walk, [policy], tables, players=(0, 0), **deals)
                seen = jnp.mean(jnp.any(bucket_uct.visits(learners[name]) > 0, axis=1)[:-1])
                add(f"{name} wins as the big blind", "mb/h", match.by_seat[0] * 1000 / blind)
                add(f"decisions of {name}", "per hand", match.decisions)
                add(f"states that {name} has visited", "share", seen)
    return found


def _write_blueprints(folder, game, methods, learners, **played):
    """Leaves all policies as blueprints, which the command `match` lets play."""
    for name, (kind, read) in itertools.product(methods, READ_OUTS.items()):
        own = folder / _folder(name, kind)
        own.mkdir(parents=True, exist_ok=True)
        policy = betting_walk.policy_tables(game, read(methods[name].walk, learners[name]))
        write_blueprint(own, policy, **played)


def _folder(name, kind):
    return f"{name}, {kind}".replace(",", "").replace(" ", "-")


def caller(game: BucketGame) -> Float[Array, "rows A"]:
    """The policy that always checks and calls."""
    policy = fixed_policy(game.rounds.tree, _FIXED[CALLER])
    return jnp.asarray(betting_walk.in_all_buckets(game, policy), jnp.float32)


def rows(config: Config, outcome: Outcome) -> Iterator[dict[str, object]]:
    """A row for every measurement."""
    for each in outcome.curve:
        yield {
            "episodes": each.episodes,
            "name": each.name,
            "unit": each.unit,
            "value": f"{each.value:.6g}",
            "standard_error": f"{each.error:.3g}",
        }


def _last(outcome):
    """The measurements at the end."""
    found = outcome.curve
    return [each for each in found if each.episodes == found[-1].episodes]


def _published(config):
    """The paper's numbers, of which other games have none."""
    return PAPER if config.game == PRESETS["paper"].game else {}


def numbers(config: Config, outcome: Outcome) -> Iterator[results.Number]:
    """The measurements at the end, and the cross table."""
    for each in _last(outcome):
        match = each.error > 0
        yield results.Number(
            name=each.name,
            value=each.value,
            unit=each.unit,
            low=each.value - 2 * each.error if match else None,
            high=each.value + 2 * each.error if match else None,
            paper=_published(config).get(each.name),
        )
    yield from cross_table.numbers(outcome.matches)


def draw(path: pathlib.Path, config: Config, outcome: Outcome) -> None:
    """Matches against episodes, of average policies above and of greedy ones below: of methods
    against each other on the left, and against fixed players on the right."""
    matches = [each for each in outcome.curve if " against " in each.name]
    with plots.figure(path, rows=2, columns=2, size=(9.6, 6.4)) as axes:
        for panels, kind in zip(axes, READ_OUTS, strict=True):
            ending = f", {kind}"
            of_kind = [each for each in matches if each.name.endswith(ending)]
            names = dict.fromkeys(each.name for each in of_kind)
            fixed = [name for name in names if CALLER in name or UNIFORM in name]
            shown = [name for name in names if name not in fixed], fixed
            for panel, lines in zip(panels, shown, strict=True):
                _draw_panel(panel, of_kind, lines, ending)
            for name, won in _published(config).items():
                if name in names:
                    plots.level(panels[0], won, f"{name} (paper)")
            panels[0].set_title(f"{kind} policies against each other")
            panels[1].set_title("against fixed players")
            panels[0].set_ylabel("mb/h (bars: two standard errors)")


def _draw_panel(panel, matches, names, ending):
    panel.set(xscale="log", xlabel="episodes of each method")
    for number, name in enumerate(names):
        line = [each for each in matches if each.name == name]
        panel.errorbar(
            [each.episodes for each in line],
            [each.value for each in line],
            [2 * each.error for each in line],
            color=plots.colour(number),
            marker=plots.marker(number),
            markersize=3.5,
            label=name.removesuffix(ending),
        )


def write_more(run: Run, outcome: Outcome) -> None:
    """The last policies, and the cross table."""
    shutil.copytree(run.checkpoint / BLUEPRINTS, run.out / BLUEPRINTS, dirs_exist_ok=True)
    results.write_csv(run.out / f"{CROSS_TABLE}.csv", [*cross_table.rows(outcome.matches)])
    cross_table.draw(run.out / f"{CROSS_TABLE}.png", outcome.matches)


def tables(config: Config, outcome: Outcome) -> Iterator[Table]:
    """The measurements at the end, beside the paper's, and the cross table."""
    paper = _published(config)
    texts = [
        (
            each.name,
            results.text(each.value),
            f"{2 * each.error:.2g}" if each.error else "",
            each.unit,
            results.text(paper[each.name]) if each.name in paper else "",
        )
        for each in _last(outcome)
    ]
    headings = ("", "value", "+-", "unit", "Heinrich and Silver 2015")
    title = f"smooth_uct_limit: after {outcome.curve[-1].episodes:,} episodes of each method"
    yield text_table(title, headings, texts)
    yield cross_table.table(outcome.matches, title="The row wins of the column, mb/h")


def deviations(config: Config) -> Sequence[str]:
    """What differs from the paper, in words."""
    texts = [
        f"{config.batch:,} episodes of a batch see the same table; the paper's see each other",
        "opponents are linear CFR and players who do not look at their cards, not the agents of"
        " the 2014 Annual Computer Poker Competition, which are not to be had; CFR-BR is not among"
        " them, as one of its iterations in limit hold'em takes minutes",
    ]
    paper = PRESETS["paper"]
    if config.episodes < paper.episodes:
        texts.append(f"{config.episodes:,} episodes instead of 62.1 and 61.7 billion")
    if config.abstraction != paper.abstraction:
        texts.append(f"buckets {config.abstraction} instead of {paper.abstraction}")
    if config.game != paper.game:
        texts.append(f"the game is {config.game}")
    return texts


COMMAND = Experiment(
    name="smooth_uct_limit",
    shown="what policies win of each other and of fixed players along the run",
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "an hour on two cores, and the making of buckets",
        "large": "the paper's buckets: five hours on two cores",
        "paper": "two days or more",
    },
    options=Options,
    configure=configure,
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    measure=(
        "winnings in thousandths of a big blind per hand, of deals that are drawn in the buckets of"
        " the abstraction and played in both seats; self-play is that of average policies"
    ),
    batches=lambda config: {"boards of an iteration": _PER_ITERATION, "boards": config.boards},
    more_files=(BLUEPRINTS, f"{CROSS_TABLE}.csv", f"{CROSS_TABLE}.png"),
    write_more=write_more,
    error_bars="two standard errors of the deals to either side",
    deviations=deviations,
)
