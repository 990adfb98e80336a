"""UCT and Smooth UCT in limit hold'em for three, with buckets (Heinrich and Silver 2015, Table 3).

Both learn by self-play in the same buckets. Along the way one player of a method plays two of the
other one, or two players who always call or play uniformly. In each match all deals are played in
all six orders of seats, as in the paper; those in which the two equal players change seats are the
same, and are played once. The last policies are left as folders.
"""

from __future__ import annotations

import functools
import itertools
import pathlib
import shutil
from collections.abc import Iterator, Sequence

from rich.table import Table

from experiments.blueprints import self_play, self_play_report
from experiments.blueprints.self_play import (
    AVERAGE,
    BLUEPRINTS,
    GREEDY,
    READ_OUTS,
    SMOOTH,
    UCT,
    Measurement,
    Options,
    Settings,
)
from experiments.harness import results
from experiments.harness.experiment import Experiment
from experiments.harness.progress import status
from experiments.harness.runs import Run
from jaxgames.holdem.betting_graph import graph_of_rules
from jaxgames.holdem.card_abstraction import CardAbstraction, bucket_tables
from jaxgames.registry import make
from solvers.blueprint.betting_walk import walk_of_graph
from solvers.blueprint.duplicate_match import play_match
from solvers.blueprint.state_policy import write_state_policy

# mb/h, with standard errors of 1
PAPER = {
    f"{SMOOTH} against two {UCT}, {GREEDY}": 7.5,
    f"{UCT} against two {SMOOTH}, {GREEDY}": -8.2,
}
LIMIT = "limit_holdem(players=3)"
TWO_ROUNDS = "poker(players=3,blinds=5/10/0,board=0/3,first=2/0,raise_sizes=10/10,max_raises=2/2)"
_BUTTON = 2  # acts first before the flop, and last after it

PRESETS = {
    "smoke": Settings(
        game=TWO_ROUNDS,
        abstraction="169/percentile:20",
        exploration=36.0,
        episodes=20_480,
        first=2_048,
        hands=2_000,
    ),
    "cpu": Settings(
        game=LIMIT,
        abstraction="169/ehs2:50/ehs2:10/ehs2:2",
        exploration=36.0,
        episodes=600_000_000,
        first=100_000,
        hands=300_000,
    ),
    "paper": Settings(
        game=LIMIT,
        abstraction="169/ehs2:1000/ehs2:100/ehs2:20",
        exploration=36.0,
        episodes=50_900_000_000,
        first=1_000_000,
        hands=1_700_000,
    ),
}


def compute(run: Run) -> list[Measurement]:
    """The measurements of all methods, which learn side by side."""
    return run.kept("curve", Measurement, functools.partial(_learn, run))


def _learn(run):
    """Learns from the checkpoint on, and measures on schedule."""
    config = run.config
    poker, abstraction = make(config.game), CardAbstraction.parse(config.abstraction)
    with status("making the betting graph"):
        graph = graph_of_rules(poker)
    blind = max(poker.blinds)
    methods = self_play.methods(
        config, blind, lambda k: walk_of_graph(graph, abstraction.num_buckets, potential=k)
    )
    self_play.check_memory(config, methods, run.mesh)
    with status(f"making the buckets {abstraction}"):
        tables = bucket_tables(abstraction, board=poker.board)
    walk = methods[config.methods[0]].walk
    measure = functools.partial(_measured, config, graph, walk, tables, blind)
    learners, found = self_play.learn(run, methods, tables, measure)
    played = {"poker": poker, "abstraction": abstraction, "buckets": tables}
    for name, (kind, read) in itertools.product(methods, READ_OUTS.items()):
        folder = run.checkpoint / BLUEPRINTS / self_play.folder_of(name, kind)
        folder.mkdir(parents=True, exist_ok=True)
        write_state_policy(folder, read(learners[name]), walk=walk, **played)
    return found


def _measured(config, graph, walk, tables, blind, learners):
    """All matches, and what self-play with average policies is like."""
    fixed = self_play.fixed_players(graph)
    match = functools.partial(
        play_match, walk, tables=tables, hands=config.hands, seed=config.seed + 1
    )
    for kind, read in READ_OUTS.items():
        policies = {name: read(learners[name]) for name in config.methods}
        versus = [*itertools.permutations(policies, 2), *itertools.product(policies, fixed)]
        for one, other in versus:
            found = match([policies[one], (policies | fixed)[other]], players=(0, 1, 1))
            yield self_play.won(f"{one} against two {other}, {kind}", found, blind)
        if kind == AVERAGE:
            for name, policy in policies.items():
                found = match([policy], players=(0, 0, 0))
                yield from self_play.of_self_play(
                    name, found, "button", _BUTTON, learners[name], blind
                )


def _published(config):
    """The paper's numbers, of which other games have none."""
    return PAPER if config.game == LIMIT else {}


def rows(config: Settings, found: Sequence[Measurement]) -> Iterator[dict[str, object]]:
    """A row for every measurement."""
    return self_play_report.rows(found)


def numbers(config: Settings, found: Sequence[Measurement]) -> Iterator[results.Number]:
    """The measurements at the end."""
    return self_play_report.numbers(found, _published(config))


def draw(path: pathlib.Path, config: Settings, found: Sequence[Measurement]) -> None:
    """Matches against episodes."""
    self_play_report.draw(path, found, _published(config))


def write_more(run: Run, found: Sequence[Measurement]) -> None:
    """The last policies, which `acpc client` takes as agents."""
    shutil.copytree(run.checkpoint / BLUEPRINTS, run.out / BLUEPRINTS, dirs_exist_ok=True)


def tables(config: Settings, found: Sequence[Measurement]) -> Iterator[Table]:
    """The measurements at the end, beside the paper's."""
    yield self_play_report.table("smooth_uct_three_players", found, _published(config))


def deviations(config: Settings) -> Sequence[str]:
    """What differs from the paper, in words."""
    return [
        *self_play_report.deviations(config, PRESETS["paper"], "50.9 and 49.4 billion"),
        "opponents are players who always call and uniform ones, not the agents of the 2014 Annual"
        " Computer Poker Competition, which are not to be had",
    ]


COMMAND = Experiment(
    name="smooth_uct_three_players",
    shown="what one policy wins of two others along the run",
    presets=PRESETS,
    preset_docs={
        "smoke": "a minute",
        "cpu": "an hour to two on two cores, and the making of buckets; 5 GB of memory",
        "paper": "days; 31 GB of memory on a CPU, 18 GB on an accelerator",
    },
    options=Options,
    configure=self_play.configure,
    compute=compute,
    rows=rows,
    draw=draw,
    numbers=numbers,
    tables=tables,
    measure=(
        "winnings of one player in thousandths of a big blind per hand, of deals that are drawn in"
        " the buckets of the abstraction and played in all orders of seats; self-play is that of"
        " average policies"
    ),
    more_files=(BLUEPRINTS,),
    write_more=write_more,
    error_bars="two standard errors of the deals to either side",
    deviations=deviations,
)
