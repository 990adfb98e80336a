"""UCT and Smooth UCT in two-player limit hold'em with buckets (Heinrich and Silver 2015, Figure 3
and Table 2).

All methods learn by self-play in the same buckets, after linear CFR has done so. Along the way
their policies, the average and the greedy ones, play each other, linear CFR, a player who always
calls and one who plays uniformly. In each match the same deals are played twice with the seats
exchanged, as in the paper. In the end they meet linear CFR and CFR-BR on real cards in a cross
table, and local best response.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
import shutil
from collections.abc import Iterator, Mapping, Sequence

import jax
import jax.numpy as jnp
from rich.table import Table

from experiments.best_response.blueprint_responses import piece_size
from experiments.blueprints import blueprint_training, cross_table, self_play, self_play_report
from experiments.blueprints.blueprint_training import CFR_BR, Solver
from experiments.blueprints.cross_table import Match
from experiments.blueprints.limit_lines import PERCENTILES
from experiments.blueprints.self_play import (
    AVERAGE,
    BLUEPRINTS,
    CALLER,
    CONSTANT,
    GREEDY,
    READ_OUTS,
    SMOOTH,
    UCT,
    UNIFORM,
    Measurement,
    Options,
    Settings,
)
from experiments.harness import results
from experiments.harness.experiment import Experiment
from experiments.harness.progress import status
from experiments.harness.runs import Run
from jaxgames.holdem.betting_graph import graph_of_tree
from jaxgames.holdem.card_abstraction import CardAbstraction, bucket_tables
from jaxgames.registry import make
from solvers.blueprint import betting_walk, bucket_uct
from solvers.blueprint.blueprint import (
    Blueprint,
    bucket_game,
    fixed_blueprint,
    read_blueprint,
    write_blueprint,
)
from solvers.blueprint.duplicate_match import play_match

RAISER, LINEAR_CFR = "always raise", blueprint_training.LINEAR_CFR.name
_FIXED = {CALLER: {"call": 1.0}, UNIFORM: {}, RAISER: {"raise": 1.0, "call": 1e-6}}
CROSS_TABLE = "cross_table"  # two files
PAPER_GRID = "169/ehs2:1000/ehs2:500/ehs2:200"
# mb/h, Table 2, with a standard error of 0.6: in the buckets of self-play, and on real cards, where
# the seats of the table are the other way round
PAPER = {
    f"{SMOOTH} against {UCT}, {GREEDY}": 5.28,
    cross_table.name(f"{UCT}, {GREEDY}", f"{SMOOTH}, {GREEDY}"): -5.28,
}
TWO_ROUNDS = "poker(board=0/3,first=1/0,raise_sizes=10/10,max_raises=3/4)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(Settings):
    """Self-play, and the cross table in the end."""

    game: str = "limit_holdem"
    exploration: float = 24.0
    references: Mapping[str, int]  # boards of linear CFR, by abstraction; its own is the first
    cfr_br: int = 0  # boards of CFR-BR in the abstraction; 0: it does not take part
    boards_per_iteration: int = 2  # of linear CFR and CFR-BR; divides their boards
    boards: int  # of the cross table
    deals: int  # that local best response plays against each player


PRESETS = {
    "smoke": Config(
        game=TWO_ROUNDS,
        abstraction="169/percentile:20",
        episodes=20_480,
        first=2_048,
        hands=2_000,
        references={"169/percentile:20": 4},
        cfr_br=4,
        boards=4,
        deals=16,
    ),
    "cpu": Config(
        abstraction="169/ehs2:100/ehs2:50/ehs2:20",
        methods=(UCT, SMOOTH, UCT + CONSTANT, SMOOTH + CONSTANT),
        episodes=1_000_000_000,
        first=100_000,
        hands=1_000_000,
        references={"169/ehs2:100/ehs2:50/ehs2:20": 4_000, PERCENTILES: 4_000},
        cfr_br=1_000,
        boards=300,
        deals=50_000,
    ),
    "large": Config(
        abstraction=PAPER_GRID,
        episodes=13_000_000_000,
        first=1_000_000,
        hands=1_000_000,
        references={PAPER_GRID: 4_000},
        cfr_br=1_000,
        boards=300,
        deals=4_000,
    ),
    "paper": Config(
        abstraction=PAPER_GRID,
        episodes=62_000_000_000,
        first=1_000_000,
        hands=5_000_000,
        references={PAPER_GRID: 640_000, PERCENTILES: 640_000},
        boards_per_iteration=64,
        cfr_br=640_000,
        boards=10_000,
        deals=50_000,
    ),
}


def configure(config: Config, options: Options) -> Config:
    """The preset with what the options ask for; the first linear CFR has the buckets of self-play.

    Raises:
      ValueError: an option is refused.
    """
    configured = self_play.configure(config, options)
    (_, boards), *others = config.references.items()
    references = {configured.abstraction: boards} | dict(others)
    return dataclasses.replace(configured, references=references)


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
            folder = run.checkpoint / BLUEPRINTS / self_play.folder_of(name, kind)
            players[f"{name}, {kind}"], _ = read_blueprint(folder)
    for number, abstraction in enumerate(run.config.references):
        name = f"{LINEAR_CFR}, {_short(abstraction)}"
        players[name] = _linear_cfr(run, number, title=name)
    if run.config.cfr_br:
        name = f"{CFR_BR.name}, {_short(run.config.abstraction)}"
        players[name] = _trained(
            run, run.config.abstraction, run.config.cfr_br, CFR_BR, "cfr-br", title=name
        )
    players |= {name: fixed_blueprint(poker, weights) for name, weights in _FIXED.items()}
    seed = run.config.seed + 2
    matches = cross_table.play_all(run, poker, players, boards=run.config.boards, seed=seed)
    matches += cross_table.respond_to_all(run, poker, players, deals=run.config.deals, seed=seed)
    return Outcome(curve=curve, matches=matches)


def _short(abstraction):
    """An abstraction's name in the cross table."""
    return abstraction.replace("ehs2:", "")


def _linear_cfr(run: Run, number: int, *, title: str) -> Blueprint:
    """Linear CFR in an abstraction of `references`, by its number; trained once in a run."""
    abstraction, boards = [*run.config.references.items()][number]
    folder, solver = f"linear-cfr-{number}", blueprint_training.LINEAR_CFR
    return _trained(run, abstraction, boards, solver, folder, title=title, number=number)


def _trained(
    run: Run,
    abstraction: str,
    boards: int,
    solver: Solver,
    folder: str,
    *,
    title: str,
    number: int = 0,
) -> Blueprint:
    """A blueprint that learned from this many boards, with a number for them, in a checkpoint's
    folder."""
    blueprint, _ = blueprint_training.train(
        run,
        make(run.config.game),
        abstraction,
        jax.random.fold_in(jax.random.key(run.config.seed), number),
        at=[boards],
        boards_per_iteration=run.config.boards_per_iteration,
        folder=run.checkpoint / folder,
        title=title,
        solver=solver,
    )
    return blueprint


def _learn(run: Run) -> list[Measurement]:
    """Learns from the checkpoint on, and measures on schedule."""
    config = run.config
    poker, abstraction = make(config.game), CardAbstraction.parse(config.abstraction)
    with status("making the betting tree"):
        game = bucket_game(poker, abstraction)
    blind = max(poker.blinds)
    methods = self_play.methods(
        config, blind, lambda k: betting_walk.betting_walk(game, potential=k)
    )
    self_play.check_memory(config, methods, run.mesh)
    # on one device, as the learners when they are measured
    policy = jax.device_get(_linear_cfr(run, 0, title=LINEAR_CFR).policy)
    reference = betting_walk.state_rows(game, jax.tree.map(jnp.asarray, policy))
    with status(f"making the buckets {abstraction}"):
        tables = bucket_tables(abstraction, board=poker.board)
    walk = methods[config.methods[0]].walk
    measure = functools.partial(_measured, config, game, walk, tables, blind, reference)
    learners, found = self_play.learn(run, methods, tables, measure)
    played = {"poker": poker, "abstraction": abstraction, "buckets": tables}
    _write_blueprints(run.checkpoint / BLUEPRINTS, game, methods, learners, **played)
    return found


def _measured(config, game, walk, tables, blind, reference, learners):
    """All matches, and what self-play with average policies is like."""
    fixed = {LINEAR_CFR: reference, **self_play.fixed_players(graph_of_tree(game.rounds.tree))}
    match = functools.partial(
        play_match, walk, tables=tables, hands=config.hands, seed=config.seed + 1
    )
    for kind, read in READ_OUTS.items():
        policies = {name: read(learners[name]) for name in config.methods}
        versus = [*itertools.product(policies, fixed)]
        versus += [(other, one) for one, other in itertools.combinations(policies, 2)]
        for one, other in versus:
            found = match([policies[one], (policies | fixed)[other]], players=(0, 1))
            yield self_play.won(f"{one} against {other}, {kind}", found, blind)
        if kind == AVERAGE:
            for name, policy in policies.items():
                found = match([policy], players=(0, 0))
                yield from self_play.of_self_play(
                    name, found, "big blind", 0, learners[name], blind
                )


def _write_blueprints(folder, game, methods, learners, **played):
    """Leaves all policies as blueprints, which the command `match` lets play."""
    for name, (kind, read) in itertools.product(methods, READ_OUTS.items()):
        own = folder / self_play.folder_of(name, kind)
        own.mkdir(parents=True, exist_ok=True)
        rows = bucket_uct.policy_rows(methods[name].walk, read(learners[name]))
        write_blueprint(own, betting_walk.policy_tables(game, rows), **played)


def rows(config: Config, outcome: Outcome) -> Iterator[dict[str, object]]:
    """A row for every measurement."""
    return self_play_report.rows(outcome.curve)


def _published(config):
    """The paper's numbers, of which other games have none."""
    return PAPER if config.game == PRESETS["paper"].game else {}


def numbers(config: Config, outcome: Outcome) -> Iterator[results.Number]:
    """The measurements at the end, and the cross table."""
    yield from self_play_report.numbers(outcome.curve, _published(config))
    yield from cross_table.numbers(outcome.matches, _published(config))


def draw(path: pathlib.Path, config: Config, outcome: Outcome) -> None:
    """Matches against episodes."""
    self_play_report.draw(path, outcome.curve, _published(config), reference=LINEAR_CFR)


def write_more(run: Run, outcome: Outcome) -> None:
    """The last policies, and the cross table."""
    shutil.copytree(run.checkpoint / BLUEPRINTS, run.out / BLUEPRINTS, dirs_exist_ok=True)
    results.write_csv(run.out / f"{CROSS_TABLE}.csv", [*cross_table.rows(outcome.matches)])
    cross_table.draw(run.out / f"{CROSS_TABLE}.png", outcome.matches)


def tables(config: Config, outcome: Outcome) -> Iterator[Table]:
    """The measurements at the end, beside the paper's, and the cross table."""
    yield self_play_report.table("smooth_uct_limit", outcome.curve, _published(config))
    yield cross_table.table(outcome.matches, title="The row wins of the column, mb/h")


def deviations(config: Config) -> Sequence[str]:
    """What differs from the paper, in words."""
    texts = [
        *self_play_report.deviations(config, PRESETS["paper"], "62.1 and 61.7 billion"),
        f"opponents are linear CFR{', CFR-BR' if config.cfr_br else ''} and players who do not look"
        " at their cards, not the agents of the 2014 Annual Computer Poker Competition, which are"
        " not to be had",
    ]
    if config.cfr_br:
        texts += blueprint_training.cfr_br_deviations(make(config.game))
    return texts


COMMAND = Experiment(
    name="smooth_uct_limit",
    shown="what policies win of each other and of fixed players along the run",
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "three to five hours on two cores, and the making of buckets",
        "large": "the paper's buckets, 26 billion episodes: four hours and more on two cores",
        "paper": "a day or more",
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
    several_processes=False,
    batches=lambda config: {
        "boards_per_iteration": config.boards_per_iteration,
        "boards": config.boards,
        "deals of a piece": piece_size(config.deals),
    },
    more_files=(BLUEPRINTS, f"{CROSS_TABLE}.csv", f"{CROSS_TABLE}.png"),
    write_more=write_more,
    error_bars="two standard errors of the deals to either side",
    deviations=deviations,
)
