"""Sampling algorithms, ours and OpenSpiel's, behind one interface, and how one is measured.

The unit of work is a traversal. In outcome sampling it is one line of play that updates one player,
in external sampling the tree of all actions of one player, in self-play search an episode, in
information-set MCTS a simulation. What one traversal does is counted in both programs
(`experiments.benchmarks.sampling_work`).
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pyspiel

from experiments.benchmarks import sampling_work
from experiments.benchmarks.measurements import Clock
from experiments.benchmarks.sampling_work import ROOT
from jaxgames.game_tree import enumerate_game
from jaxgames.registry import make
from solvers import evaluation
from solvers.sampling import external_sampling, information_set_mcts, outcome_sampling, uct
from solvers.sampling.decision_tree import DecisionTree, build_decision_tree
from solvers.sampling.information_set_mcts import InformationSetMcts
from solvers.sampling.outcome_sampling import OutcomeSampling
from solvers.sequence_form import build_sequence_form

# The programs. OpenSpiel's use one thread; with all cores, a process on each has its own learner.
OURS, ONE_LEARNER = "ours", "ours, one learner"
PEER, ONE_PEER = "OpenSpiel C++", "OpenSpiel C++, one learner"
SIMULATIONS = 1000  # of one search by information-set MCTS
CONSTANT = 13.0  # of its UCB
EXPLORATION = 0.6  # of outcome sampling
COUNTED = 16, 32  # learners, and how many traversals of each, whose moves are counted


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """An algorithm in a game."""

    algorithm: str
    game: str
    openspiel: str
    learners: int | None = None  # of our programs, in place of the config's: for large tables
    checked: int = 0  # traversals after which NashConv must be that of OpenSpiel; 0: unchecked


_LEDUC = {"game": "leduc_poker", "openspiel": "leduc_poker"}
_DICE = {
    "game": "liars_dice(dice=1,sides=6)",
    "openspiel": "liars_dice(numdice=1,dice_sides=6)",
    "learners": 128,
}
_KUHN = {"game": "kuhn_poker", "openspiel": "kuhn_poker"}
TASKS = {
    "outcome sampling, Leduc": Task(algorithm="outcome sampling", checked=1_000_000, **_LEDUC),
    "outcome sampling, liar's dice": Task(algorithm="outcome sampling", **_DICE),
    "external sampling, Leduc": Task(algorithm="external sampling", checked=100_000, **_LEDUC),
    "external sampling, liar's dice": Task(algorithm="external sampling", **_DICE),
    "UCT, Leduc": Task(algorithm="UCT", **_LEDUC),
    "Smooth UCT, Leduc": Task(algorithm="Smooth UCT", **_LEDUC),
    "IS-MCTS, Leduc": Task(algorithm="IS-MCTS", **_LEDUC),
    "outcome sampling, Kuhn": Task(algorithm="outcome sampling", checked=20_000, **_KUHN),
    "external sampling, Kuhn": Task(algorithm="external sampling", checked=20_000, **_KUHN),
    "IS-MCTS, Kuhn": Task(algorithm="IS-MCTS", **_KUHN),
}


class Program(abc.ABC):
    """One implementation of an algorithm at work."""

    @abc.abstractmethod
    def work(self, count: int) -> int:
        """Makes `count` traversals or somewhat more, waits for their end, returns their number."""

    def shares(self) -> list[float]:
        """Of a search, shares of the visits, on which all programs must agree, up to chance."""
        return []

    def nash_conv(self) -> float | None:
        """Of a learner, NashConv after the traversals of the task, if that is checked."""
        return None

    def moves(self) -> dict[str, float]:
        """What one of a new learner's first traversals does on average, by name."""
        return {}

    def processes(self) -> tuple[int, ...]:
        """The numbers of the other processes that work for it."""
        return ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Algorithm:
    """One of our algorithms on a game."""

    start: Any  # the learner's state at the start
    run: Callable[[Any, Any, Any], Any]  # of a learner's state, a key and a number of rounds
    average: Callable[[Any], Any]  # the average policy of a learner's state
    unit: int  # traversals in a round


def our_algorithm(name: str, tree: DecisionTree) -> Algorithm:
    """Our algorithm of this name."""
    if name == "external sampling":
        settings = external_sampling.ExternalSampling()
        return Algorithm(
            start=external_sampling.init(tree),
            run=lambda learner, key, rounds: external_sampling.run(
                tree, learner, key, settings=settings, num_iterations=rounds
            ),
            average=functools.partial(external_sampling.average_policy, tree),
            unit=tree.num_players,
        )
    if name == "outcome sampling":
        settings = OutcomeSampling(exploration=EXPLORATION, alternating=True)
        start, solver = outcome_sampling.init(tree, settings), outcome_sampling
    else:
        settings = uct.uct(20.0) if name == "UCT" else uct.smooth_uct(18.0, decay=0.002)
        start, solver = uct.init(tree), uct
    return Algorithm(
        start=start,
        run=lambda learner, key, rounds: solver.run(
            tree, learner, key, settings=settings, num_episodes=rounds
        ),
        average=functools.partial(solver.average_policy, tree),
        unit=1,
    )


class Learners(Program):
    """Our learners, equally many in every thread."""

    def __init__(self, task: Task, *, learners: int, threads: int):
        self.source = enumerate_game(make(task.game))
        self.tree = build_decision_tree(self.source)
        self.task, self.sequence_form = task, build_sequence_form(self.source)
        self.algorithm = our_algorithm(task.algorithm, self.tree)
        self.pool, each = ThreadPoolExecutor(threads), learners // threads
        self.learners = each * threads
        self.keys = jax.random.split(jax.random.key(0), (threads, each))
        # The states are donated: otherwise every call would begin with a copy of all tables.
        self.run = jax.jit(jax.vmap(self.algorithm.run, (0, 0, None)), donate_argnums=0)
        copies = jax.jit(lambda x: jax.tree.map(lambda y: jnp.repeat(y[None], each, axis=0), x))
        self.states = [copies(self.algorithm.start) for _ in range(threads)]

    def work(self, count: int) -> int:
        rounds = -(-count // (self.learners * self.algorithm.unit))

        def further(state, keys):
            return jax.block_until_ready(self.run(state, keys, jnp.int32(rounds)))

        self.states = list(self.pool.map(further, self.states, self.keys))
        return rounds * self.algorithm.unit * self.learners

    def nash_conv(self) -> float | None:
        if not self.task.checked:
            return None

        @jax.jit
        @jax.vmap
        def nash_conv(key):
            rounds = self.task.checked // self.algorithm.unit
            learner = self.algorithm.run(self.algorithm.start, key, rounds)
            return evaluation.nash_conv(self.sequence_form, self.algorithm.average(learner))

        return float(nash_conv(jax.random.split(jax.random.key(1), 16)).mean())

    def moves(self) -> dict[str, float]:
        learners, traversals = COUNTED
        keys = jax.random.split(jax.random.key(2), learners)
        if self.task.algorithm == "external sampling":
            total = sampling_work.count_external_sampling(
                self.tree,
                self.source,
                keys,
                settings=external_sampling.ExternalSampling(),
                num_traversals=traversals,
            )
        else:

            def play(tree):
                algorithm = our_algorithm(self.task.algorithm, tree)
                return [algorithm.run(algorithm.start, key, traversals) for key in keys]

            total = sampling_work.count_episodes(self.tree, self.source, play)
        return {name: number / (learners * traversals) for name, number in total.items()}


class Searches(Program):
    """Our information-set MCTS at the first decision, equally many in every thread."""

    def __init__(self, task: Task, *, learners: int, threads: int):
        self.source, self.each = enumerate_game(make(task.game)), learners // threads
        self.tree = build_decision_tree(self.source)
        sampling_work.check_same_root(self.tree, self.source, pyspiel.load_game(task.openspiel))
        self.pool, self.done = ThreadPoolExecutor(threads), 0
        self.settings = InformationSetMcts(exploration=CONSTANT, simulations=SIMULATIONS)
        search = functools.partial(
            information_set_mcts.search, self.tree, jnp.int32(ROOT), settings=self.settings
        )
        self.search = jax.jit(jax.vmap(search))
        self.threads = threads

    def work(self, count: int) -> int:
        simulations = self.each * self.threads * SIMULATIONS
        rounds = -(-count // simulations)

        def search_batch(number):
            keys = jax.random.split(jax.random.key(number), self.each)
            jax.block_until_ready(self.search(keys))

        list(self.pool.map(search_batch, range(self.done, self.done + rounds * self.threads)))
        self.done += rounds * self.threads
        return rounds * simulations

    def shares(self) -> list[float]:
        """Shares of the visits at the first decision, for the player with the lowest card."""
        keys = jax.random.split(jax.random.key(2), 256)
        return (self.search(keys).visits.mean(axis=0) / SIMULATIONS).tolist()

    def moves(self) -> dict[str, float]:
        def search(tree):
            return information_set_mcts.search(
                tree, jnp.int32(ROOT), jax.random.key(0), settings=self.settings
            )

        total = sampling_work.count_episodes(self.tree, self.source, search)
        return {"simulations of a search": float(total["ends"])}


class OpenSpielLearner(Program):
    """OpenSpiel's C++ with one learner in one thread."""

    def __init__(self, task: Task, *, seed: int):
        self.task, self.game = task, pyspiel.load_game(task.openspiel)
        self.solver = self._new(self.game, seed)

    def _new(self, game, seed):
        if self.task.algorithm == "external sampling":
            return pyspiel.ExternalSamplingMCCFRSolver(game, seed)
        return pyspiel.OutcomeSamplingMCCFRSolver(game, EXPLORATION, seed)

    def work(self, count: int) -> int:
        return self._traverse(self.solver, count)

    def _traverse(self, solver, count):
        each = self.game.num_players()  # an iteration is a traversal for every player
        iterations = -(-count // each)
        for _ in range(iterations):
            solver.run_iteration()
        return iterations * each

    def nash_conv(self) -> float | None:
        if not self.task.checked:
            return None
        nash_convs = []
        for seed in range(1, 4):
            solver = self._new(self.game, seed)
            self._traverse(solver, self.task.checked)
            nash_convs.append(pyspiel.nash_conv(self.game, solver.average_policy()))
        return float(np.mean(nash_convs))

    def moves(self) -> dict[str, float]:
        game, (learners, traversals) = sampling_work.CountingGame(self.game), COUNTED
        for seed in range(1, learners + 1):
            self._traverse(self._new(game, seed), traversals)
        return {name: number / (learners * traversals) for name, number in game.total.items()}


class OpenSpielSearch(Program):
    """OpenSpiel's C++, one search after the other at the first decision with the lowest card."""

    def __init__(self, task: Task, *, seed: int):
        self.game = pyspiel.load_game(task.openspiel)
        self.state = sampling_work.first_decision(self.game)
        evaluator = pyspiel.RandomRolloutEvaluator(1, seed)
        self.bot = pyspiel.ISMCTSBot(seed, evaluator, CONSTANT, SIMULATIONS)

    def work(self, count: int) -> int:
        searches = -(-count // SIMULATIONS)
        for _ in range(searches):
            self.bot.get_policy(self.state)
        return searches * SIMULATIONS

    def shares(self) -> list[float]:
        shares = np.zeros(self.game.num_distinct_actions())
        for _ in range(64):
            for action, share in self.bot.get_policy(self.state):
                shares[action] += share / 64
        return shares.tolist()

    def moves(self) -> dict[str, float]:
        policies = [self.bot.get_policy(self.state) for _ in range(16)]
        # the first simulation of a search adds the root to the tree and visits none of its actions
        visits = sampling_work.visits_at_root(policies, SIMULATIONS)
        return {"simulations of a search": visits + 1.0}


class OpenSpielOnAllCores(Program):
    """OpenSpiel's C++ in as many processes as there are cores, each with a learner of its own."""

    def __init__(self, task: Task, *, cores: int):
        context, self.pipes, self.workers = multiprocessing.get_context("spawn"), [], []
        for seed in range(cores):
            here, there = context.Pipe()
            worker = context.Process(target=_serve, args=(task, seed, there), daemon=True)
            worker.start()
            self.pipes.append(here)
            self.workers.append(worker)
        self.work(1)  # waits until all have started

    def work(self, count: int) -> int:
        for pipe in self.pipes:
            pipe.send(-(-count // len(self.pipes)))
        return sum(pipe.recv() for pipe in self.pipes)

    def processes(self) -> tuple[int, ...]:
        return tuple(worker.pid for worker in self.workers)


def _serve(task, seed, pipe):
    """In a process of its own: makes as many traversals as it is told, again and again."""
    peer = _peer(task, seed)
    try:
        while True:
            pipe.send(peer.work(pipe.recv()))
    except EOFError:  # nobody asks for more
        return


def _peer(task, seed) -> Program:
    return (OpenSpielSearch if task.algorithm == "IS-MCTS" else OpenSpielLearner)(task, seed=seed)


def program(name: str, task: Task, learners: int) -> Program:
    """The program of this name on a task; `learners` are for `OURS`."""
    if name == ONE_PEER:
        return _peer(task, seed=0)
    if name == PEER:
        return OpenSpielOnAllCores(task, cores=os.cpu_count() or 1)
    ours = Searches if task.algorithm == "IS-MCTS" else Learners
    if name == OURS:
        return ours(task, learners=learners, threads=min(os.cpu_count() or 1, learners))
    return ours(task, learners=1, threads=1)


def measure(job: dict[str, Any], report: Callable[..., None]) -> None:
    """Builds, compiles, checks and times one program on one task.

    Args:
      job: `task`, a key of `TASKS`; `program`; `check`, whether to report answers and moves;
        `learners`, `seconds` and `repeats`, as in `sampling.Config`.
      report: takes the numbers as keywords.
    """
    clock = Clock()
    task = TASKS[job["task"]]
    measured = program(job["program"], task, task.learners or job["learners"])
    report(build_seconds=clock.seconds())
    clock, count = Clock(), 1
    count = measured.work(count)
    report(compile_seconds=clock.seconds())
    if job["check"]:
        report(shares=measured.shares(), nash_conv=measured.nash_conv(), moves=measured.moves())
    while True:
        clock = Clock()
        count = measured.work(count)
        if clock.seconds() > job["seconds"] / 2:
            break
        count *= 2 if clock.seconds() > job["seconds"] / 8 else 8
    samples = []
    for _ in range(job["repeats"]):
        clock = Clock(measured.processes())
        samples.append(clock.sample(measured.work(count)))
    report(samples=samples)
