"""What the benchmark of accelerators measures in a process of its own: the main programs, with so
many solves, searches or learners side by side."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp

from experiments.benchmarks import (
    alphazero_search,
    mctx_search,
    sampling_programs,
    scaling_runs,
)
from experiments.benchmarks.blueprint_iterations import BLUEPRINTS
from experiments.benchmarks.growing_tree_search import searcher
from experiments.benchmarks.measurements import samples_of_turns
from experiments.benchmarks.search_tasks import TASKS, Setting, build
from experiments.benchmarks.uct_episodes import LEARNERS
from experiments.subgame_solving.holdem_spots import SPOTS
from jaxgames.game_tree import enumerate_game
from jaxgames.holdem import betting_of_rules
from jaxgames.holdem.card_abstraction import CardAbstraction, bucket_tables
from jaxgames.registry import make
from solvers import cfr
from solvers.blueprint import betting_walk, board_sampled_cfr, bucket_uct
from solvers.blueprint.betting_rounds import betting_rounds
from solvers.blueprint.blueprint import bucket_game
from solvers.blueprint.bucket_game import BucketGame
from solvers.blueprint.deals import make_deals, random_boards
from solvers.holdem.subgame_tree import holdem_tree
from solvers.sampling.decision_tree import build_decision_tree
from solvers.sampling.uct import smooth_uct
from solvers.sequence_form import build_sequence_form

Turns = Iterator[Any]  # each gives arrays that exist when the turn has ended

_ITERATIONS = 100  # of a tabular solver in a turn
_EPISODES = 100  # rounds of a learner's episodes in a turn


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """What is measured."""

    unit: str  # of work, counted over all that is side by side
    turns: Callable[[int], Turns]  # with this many side by side
    amount: int = 1  # units of one of these in a turn
    abstraction: tuple[str, tuple[int, ...]] | None = (
        None  # cards' buckets, and the board by street
    )


def measurements(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields `compile_seconds` of a program, with its first turn, and then samples of its speed.

    Args:
      job: `program`, a key of `PROGRAMS`; `batch`, how many are side by side; `seconds`, about how
        long a sample takes.

    Yields:
      Numbers by name, as `measurements.samples_of_turns`, and the most memory that the device had
      in use, if it knows.
    """
    program = PROGRAMS[job["program"]]
    turns = _one_ahead(program.turns(job["batch"]))
    for numbers in samples_of_turns(turns, program.amount * job["batch"], seconds=job["seconds"]):
        yield numbers | _memory()


def _one_ahead(turns: Turns) -> Turns:
    """The same turns, each of which is given when the one before it has ended."""
    last = None
    for running in turns:
        jax.block_until_ready(last)
        last = running
        yield running


@jax.jit
def _sign(state):
    """A number of a state that exists as soon as the state does, and is kept when it is used up."""
    return jax.tree.leaves(state)[0].ravel()[0]


def _memory() -> dict[str, int]:
    known = jax.local_devices()[0].memory_stats() or {}
    return {"peak_bytes": known.get("peak_bytes_in_use", 0)}


def _tabular(game: str) -> Callable[[int], Turns]:
    """Iterations of CFR+; solves side by side have ranges of their own."""

    def turns(batch):
        form = build_sequence_form(enumerate_game(make(game)))
        reach = cfr.init(form).root_reach
        yield from _iterations(form, reach, cfr.cfr_plus(), _ITERATIONS, batch)

    return turns


def _spot(name: str, iterations: int) -> Callable[[int], Turns]:
    """Iterations of discounted CFR on a hold'em spot."""

    def turns(batch):
        spot = SPOTS[name]
        tree = holdem_tree(spot.cards, spot.ranges, spot.betting)
        solver = cfr.dcfr(gamma=3.0)
        yield from _iterations(tree.sequence_form, tree.root_reach, solver, iterations, batch)

    return turns


def _iterations(form, reach, solver, iterations, batch) -> Turns:
    """Turns of `iterations` iterations, each of which goes on where the last one ended."""

    def begin(scale):
        return cfr.init(form, root_reach=tuple(scale * own for own in reach))

    def advance(form, state):
        return cfr.run(form, state, solver=solver, num_iterations=jnp.int32(iterations))

    if batch == 1:
        state = begin(jnp.ones((), form.dtype))
    else:
        state = jax.vmap(begin)(jnp.linspace(0.5, 1.0, batch, dtype=form.dtype))
        advance = jax.vmap(advance, (None, 0))
    run = jax.jit(advance, donate_argnums=1)
    while True:
        state = run(form, state)
        yield _sign(state)


def _search(task: str) -> Callable[[int], Turns]:
    """Searches of `search_tasks.TASKS` at the root of the game."""

    def turns(batch):
        setting = build(dataclasses.replace(TASKS[task], batch=batch))
        run = jax.jit(searcher(setting))
        shared = setting.game, setting.params, setting.problem
        yield from _batches(lambda keys: run(shared, keys).iterations, batch)

    return turns


def _alphazero(
    task: str, searcher: Callable[[Setting, int], Callable[..., Any]]
) -> Callable[[int], Turns]:
    """The same by a search of AlphaZero, ours or mctx's, with the same network."""

    def turns(batch):
        setting = build(dataclasses.replace(TASKS[task], batch=batch))
        run = jax.jit(searcher(setting, batch))
        yield from _batches(lambda keys: run(setting.game, setting.params, keys[0]), batch)

    return turns


def _batches(run, batch) -> Turns:
    """Turns of `run(keys)` with new keys."""
    for number in itertools.count():
        yield run(jax.random.split(jax.random.key(number), batch))


def _training(task: str) -> Callable[[int], Turns]:
    """Searches in steps of training of Student of Games."""

    def turns(batch):
        setting = build(dataclasses.replace(TASKS[task], batch=batch))
        yield from scaling_runs.PROGRAMS["training"](setting, batch, None)

    return turns


def _learners(algorithm: str, game: str) -> Callable[[int], Turns]:
    """Episodes of sampling algorithms, each learner with tables of its own."""

    def turns(batch):
        tree = build_decision_tree(enumerate_game(make(game)))
        found = sampling_programs.our_algorithm(algorithm, tree)
        run = jax.jit(jax.vmap(found.run, (0, 0, None)), donate_argnums=0)
        state = jax.tree.map(lambda x: jnp.repeat(x[None], batch, axis=0), found.start)
        keys = jax.random.split(jax.random.key(0), batch)
        while True:
            state = run(state, keys, jnp.int32(_EPISODES))
            yield _sign(state)

    return turns


def _limit_uct(learner: str) -> Callable[[int], Turns]:
    """Episodes of one learner in limit hold'em, a batch of which sees the same policy."""

    def turns(batch):
        poker, text, exploration, _ = LEARNERS[learner]
        abstraction = CardAbstraction.parse(text)
        tables = bucket_tables(abstraction, board=poker.board)
        walk = betting_walk.betting_walk(bucket_game(poker, abstraction))
        state, key = bucket_uct.init(walk), jax.random.key(0)
        settings = smooth_uct(exploration, decay=1 / 20_000)
        while True:
            state = bucket_uct.run(
                walk,
                state,
                tables,
                key,
                settings=settings,
                batch=batch,
                num_batches=jnp.int32(_EPISODES),
            )
            yield _sign(state)

    return turns


def _blueprint(name: str) -> Callable[[int], Turns]:
    """Boards of board-sampled linear CFR, `batch` per iteration, which are dealt in it."""

    def turns(batch):
        blueprint = BLUEPRINTS[name]
        abstraction = CardAbstraction.parse(blueprint.abstraction)
        tables = bucket_tables(abstraction, board=blueprint.game.board)
        rounds = betting_rounds(betting_of_rules(blueprint.game))
        game = BucketGame(rounds, abstraction.num_buckets)
        state = board_sampled_cfr.init(game)

        @jax.jit
        def deals(tables, key):
            boards = random_boards(key, batch, num_cards=tables.num_cards[-1])
            return make_deals(tables, boards, groups=blueprint.groups)[0]

        for number in itertools.count():
            dealt = deals(tables, jax.random.key(number))
            state = board_sampled_cfr.iterate_on_many(state, dealt, game=game)
            yield _sign(state)

    return turns


_LEDUC = "Leduc (100,1), 3x128"
_KUHN = "Kuhn (8,1), 1x8"
ALPHAZERO, RIVAL = "AlphaZero: ", "mctx: "  # what names of their searches begin with

PROGRAMS = {
    "Kuhn, CFR+": Program(unit="iterations", turns=_tabular("kuhn_poker"), amount=_ITERATIONS),
    "Leduc, CFR+": Program(unit="iterations", turns=_tabular("leduc_poker"), amount=_ITERATIONS),
    "liar's dice, CFR+": Program(
        unit="iterations", turns=_tabular("liars_dice(dice=1,sides=6)"), amount=_ITERATIONS
    ),
    "hold'em river": Program(unit="iterations", turns=_spot("river", 20), amount=20),
    "hold'em turn": Program(unit="iterations", turns=_spot("turn", 20), amount=20),
    "hold'em flop": Program(unit="iterations", turns=_spot("flop", 10), amount=10),
    "training, Leduc (100,1), 3x128": Program(unit="searches", turns=_training(_LEDUC)),
    "training, Kuhn (8,1), 1x8": Program(unit="searches", turns=_training(_KUHN)),
    **{task: Program(unit="searches", turns=_search(task)) for task in TASKS},
    **{
        begin + task: Program(unit="searches", turns=_alphazero(task, module.searcher))
        for task, wanted in TASKS.items()
        if wanted.has_rival
        for begin, module in ((ALPHAZERO, alphazero_search), (RIVAL, mctx_search))
    },
    **{
        f"{algorithm}, Leduc": Program(
            unit="traversals", turns=_learners(algorithm, "leduc_poker"), amount=_EPISODES
        )
        for algorithm in ("outcome sampling", "Smooth UCT")
    },
    **{
        name: Program(
            unit="episodes",
            turns=_limit_uct(name),
            amount=_EPISODES,
            abstraction=(abstraction, poker.board),
        )
        for name, (poker, abstraction, _, _) in LEARNERS.items()
    },
    **{
        name: Program(
            unit="boards",
            turns=_blueprint(name),
            abstraction=(blueprint.abstraction, blueprint.game.board),
        )
        for name, blueprint in BLUEPRINTS.items()
    },
}
