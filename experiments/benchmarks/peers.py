"""CFR+ of other packages behind one interface, one small class each, and how one is measured.

All of them update alternately (player 0, then player 1 against player 0's new policy) and weight
the policies of iteration t by t in the average; one iteration updates both players. Where a
package leaves the loop to its user, the loop here keeps to that order, so that the average policies
of all are equal but for rounding. Libraries are imported only when asked for: what one needs is
not in the memory of another.
"""

from __future__ import annotations

import abc
import dataclasses
import importlib
import importlib.util
import sys
import types
from collections.abc import Callable
from typing import Any, ClassVar

from experiments.benchmarks import Clock, arguments, peak_memory


@dataclasses.dataclass(frozen=True, kw_only=True)
class Twin:
    """OpenSpiel's form of one of our games, and how closely NashConv must agree on it.

    Where all regrets of a decision are 0, regret matching plays uniformly; one that rounding makes
    1e-17 instead it plays with certainty. So programs that add in different order part ways at
    such ties. In Kuhn and Leduc poker none comes up early; in liar's dice and Goofspiel they do at
    the first update, at decisions that matter only later. No tie has an effect on NashConv in
    `exact_iterations`; after them it may differ by the fraction `tie_tolerance`.
    """

    title: str
    openspiel: str
    exact_iterations: int
    tie_tolerance: float

    def tolerance(self, iterations: int, precisions: set[str]) -> float:
        """Allowed relative difference of two NashConvs after so many iterations."""
        if iterations > self.exact_iterations:
            return self.tie_tolerance
        return 1e-9 if precisions == {"float64"} else 1e-5


GAMES = {
    "kuhn_poker": Twin(
        title="Kuhn poker", openspiel="kuhn_poker", exact_iterations=10, tie_tolerance=0.01
    ),
    "leduc_poker": Twin(
        title="Leduc hold'em", openspiel="leduc_poker", exact_iterations=10, tie_tolerance=0.2
    ),
    "liars_dice(dice=1,sides=6)": Twin(
        title="Liar's dice, 6 sides",
        openspiel="liars_dice(numdice=1,dice_sides=6)",
        exact_iterations=4,
        tie_tolerance=0.05,
    ),
    "goofspiel(cards=5,points=descending)": Twin(
        title="Goofspiel, 5 cards",
        openspiel="turn_based_simultaneous_game(game=goofspiel(imp_info=true,num_cards=5,players=2"
        ",points_order=descending))",
        exact_iterations=2,
        tie_tolerance=0.5,
    ),
}


class CfrPlus(abc.ABC):
    """CFR+ of one package on one game; constructing it builds all that is needed to iterate."""

    distribution: ClassVar[str]  # whose version is told
    modules: ClassVar[tuple[str, ...]]  # imported before the clock starts
    precision: ClassVar[str] = "float64"
    note: ClassVar[str] = ""  # what readers of the table should know

    @classmethod
    def is_installed(cls) -> bool:
        """Whether the package can be found; imports nothing."""
        return all(importlib.util.find_spec(name.partition(".")[0]) for name in cls.modules)

    @classmethod
    def prepare_process(cls) -> None:
        """Imports and settings, apart from what is timed."""
        for name in cls.modules:
            importlib.import_module(name)

    @abc.abstractmethod
    def __init__(self, game: str, spiel: Any):
        """`game` is the name of a game of ours, `spiel` the same as a `pyspiel.Game`."""

    def compile(self) -> None:
        """Compiles what `step` runs, where there is something to compile."""
        self.step(0)

    @abc.abstractmethod
    def step(self, num_iterations: int) -> None:
        """Makes iterations and waits for their end."""

    @abc.abstractmethod
    def average_policy(self) -> Any:
        """The average policies of both players, as `pyspiel.nash_conv` takes them."""

    def details(self) -> dict[str, float]:
        """Further numbers, measured last."""
        return {}


def openspiel_policy(tabular: Any) -> Any:
    """A `pyspiel.Policy` from a tabular policy of OpenSpiel's Python."""
    from open_spiel.python.policy import python_policy_to_pyspiel_policy

    return python_policy_to_pyspiel_policy(tabular)


class NumpySequenceForm(CfrPlus):
    """`numpy_sequence_form`: what 200 lines of NumPy do."""

    distribution = "numpy"
    modules = ("pyspiel", "experiments.benchmarks.numpy_sequence_form")

    def __init__(self, game: str, spiel: Any):
        from experiments.benchmarks.numpy_sequence_form import SequenceFormCfrPlus

        self.solver = SequenceFormCfrPlus(spiel)

    def step(self, num_iterations: int) -> None:
        self.solver.step(num_iterations)

    def average_policy(self) -> Any:
        return self.solver.average_policy()


class OpenSpielCpp(CfrPlus):
    """`pyspiel.CFRPlusSolver`, C++ (Lanctot et al. 2019)."""

    distribution = "open_spiel"
    modules = ("pyspiel",)

    def __init__(self, game: str, spiel: Any):
        import pyspiel

        self.solver = pyspiel.CFRPlusSolver(spiel)

    def step(self, num_iterations: int) -> None:
        for _ in range(num_iterations):
            self.solver.evaluate_and_update_policy()

    def average_policy(self) -> Any:
        return self.solver.average_policy()


class OpenSpielJax(CfrPlus):
    """OpenSpiel's `JaxCFR`, its step inside one compiled loop."""

    distribution = "open_spiel"
    modules = ("pyspiel", "jax.numpy", "open_spiel.python.jax.cfr.jax_cfr")
    precision = "float32"
    note = "as shipped, Python calls every step; here one compiled loop does"

    def __init__(self, game: str, spiel: Any):
        import jax
        from open_spiel.python.jax.cfr.jax_cfr import JaxCFR

        self.solver = JaxCFR(spiel)
        self.tables = (list(self.solver.regrets), list(self.solver.averages))
        self.done = 0

        def iterate(t, tables):
            for player in range(2):
                tables = self.solver.jit_step(*tables, t, player)
            return tables

        self.run = jax.jit(lambda tables, *span: jax.lax.fori_loop(*span, iterate, tables))

    def step(self, num_iterations: int) -> None:
        import jax

        begin, self.done = self.done + 1, self.done + num_iterations
        self.tables = jax.block_until_ready(self.run(self.tables, begin, self.done + 1))

    def average_policy(self) -> Any:
        self.solver.averages = self.tables[1]
        return openspiel_policy(self.solver.average_policy())


class LiteEfg(CfrPlus):
    """`LiteEFG.baselines.CFRplus`, C++ (Liu, Farina, Ozdaglar 2024), one thread as by default."""

    distribution = "LiteEFG"
    modules = ("pyspiel", "LiteEFG.baselines.CFRplus")

    def __init__(self, game: str, spiel: Any):
        import LiteEFG
        from LiteEFG.baselines import CFRplus

        self.environment = LiteEFG.OpenSpielEnv(spiel, "Enumerate", regenerate=True)
        self.graph = CFRplus.graph()
        self.environment.set_graph(self.graph)

    def step(self, num_iterations: int) -> None:
        for _ in range(num_iterations):
            self.environment.update_strategy(self.graph.current_strategy())  # the average
            self.graph.update_graph(self.environment)

    def average_policy(self) -> Any:
        kind = "linear-avg-iterate"
        policy, _ = self.environment.get_strategy(self.graph.current_strategy(), kind)
        return openspiel_policy(policy)


class Noregret(CfrPlus):
    """noregret, sequence form in NumPy and SciPy."""

    distribution = "noregret"
    modules = ("pyspiel", "noregret.games", "noregret.regret_minimizers")

    def __init__(self, game: str, spiel: Any):
        _, games, minimizers = map(importlib.import_module, self.modules)
        sys.setrecursionlimit(10_000)
        self.game = games.TwoPlayerZeroSumExtensiveFormGame.deserialize(_decision_processes(spiel))
        self.processes = (
            self.game.row_tree_form_sequential_decision_process,
            self.game.column_tree_form_sequential_decision_process,
        )
        make_player = minimizers.CounterfactualRegretMinimizationPlus
        self.players = [make_player(process) for process in self.processes]
        for player in self.players:
            player.is_time_symmetric = True  # do not keep every past strategy
        _, self.column_strategy = (player.next_strategy() for player in self.players)

    def step(self, num_iterations: int) -> None:
        row, column = self.players
        for _ in range(num_iterations):
            row.observe_utility(self.game.row_utility(self.column_strategy))
            column.observe_utility(self.game.column_utility(row.next_strategy()))
            self.column_strategy = column.next_strategy()

    def average_policy(self) -> Any:
        weights: dict[str, list[tuple[int, float]]] = {}
        for player, process in zip(self.players, self.processes, strict=True):
            sequences = zip(process.sequences, player.average_strategy.tolist(), strict=True)
            for (key, action), weight in (pair for pair in sequences if pair[0]):
                weights.setdefault(key, []).append((int(action), max(weight, 0.0)))
        return {key: _normalised(row) for key, row in weights.items()}


class Gpugt(Noregret):
    """gpugt, sequence form in CuPy (Kim 2024), here with NumPy and SciPy in CuPy's place."""

    distribution = "gpugt"
    modules = ("pyspiel", "gpugt.games", "gpugt.regret_minimizers")
    note = "NumPy and SciPy in CuPy's place"

    @classmethod
    def prepare_process(cls) -> None:
        import numpy
        import scipy.sparse

        cupyx, inner = types.ModuleType("cupyx"), types.ModuleType("cupyx.scipy")
        cupyx.scipy, inner.sparse = inner, scipy.sparse
        sys.modules |= {"cupy": numpy, "cupyx": cupyx, "cupyx.scipy": inner}
        sys.modules["cupyx.scipy.sparse"] = scipy.sparse
        super().prepare_process()


PEERS: dict[str, type[CfrPlus]] = {
    "numpy_sequence_form": NumpySequenceForm,
    "openspiel_cpp": OpenSpielCpp,
    "openspiel_jax": OpenSpielJax,
    "liteefg": LiteEfg,
    "gpugt": Gpugt,
    "noregret": Noregret,
}


def _normalised(row):
    total = sum(weight for _, weight in row)
    return [(a, weight / total if total > 0 else 1 / len(row)) for a, weight in row]


def _decision_processes(spiel: Any) -> dict[str, list]:
    """A game of OpenSpiel in the form that gpugt and noregret load; actions are numbers as text."""
    below = [{(): {}}, {(): {}}]  # by player and own sequence: decisions that may follow
    payoff: dict[tuple, float] = {}

    def visit(state, chance, sequences):
        if state.is_terminal():
            payoff[sequences] = payoff.get(sequences, 0.0) + chance * state.returns()[0]
        elif state.is_chance_node():
            for action, probability in state.chance_outcomes():
                visit(state.child(action), chance * probability, sequences)
        else:
            player, key = state.current_player(), state.information_state_string()
            below[player][sequences[player]][key] = None
            for action in state.legal_actions():
                sequence = (key, str(action))
                below[player].setdefault(sequence, {})
                both = (sequence, sequences[1]) if player == 0 else (sequences[0], sequence)
                visit(state.child(action), chance, both)

    visit(spiel.new_initial_state(), 1.0, ((), ()))
    return {
        "tree_form_sequential_decision_processes": [[*_nodes(found)] for found in below],
        "utilities": [{"sequences": [*both], "value": value} for both, value in payoff.items()],
    }


def _nodes(below):
    for number, (sequence, decisions) in enumerate(below.items()):
        edge, kind = sequence, "DECISION_POINT"
        if not decisions:
            yield {"parent_edge": edge, "node": {"id": "", "type": "END_OF_THE_DECISION_PROCESS"}}
        if len(decisions) > 1:
            name = f"observation {number}"
            yield {"parent_edge": edge, "node": {"id": name, "type": "OBSERVATION_POINT"}}
        for place, key in enumerate(decisions):
            if len(decisions) > 1:
                edge = (name, str(place))
            yield {"parent_edge": edge, "node": {"id": key, "type": kind}}


def main() -> None:
    """What a process of its own does: measures the solver that its arguments name."""
    job, report = arguments()
    if job["solver"] in PEERS:
        measure(PEERS[job["solver"]], job, report)
    else:
        from experiments.benchmarks.ours import OURS  # imports JAX

        measure(OURS[job["solver"]], job, report)


def measure(solver_class: type[CfrPlus], job: dict[str, Any], report: Callable[..., None]) -> None:
    """Builds, compiles, checks and times one solver on one game, reporting as it goes.

    NashConv is that of the average policy after exactly so many iterations; peak memory is taken
    before, as OpenSpiel builds a tree of its own to compute it.
    """
    import pyspiel

    solver_class.prepare_process()
    spiel = pyspiel.load_game(GAMES[job["game"]].openspiel)
    report(memory_of_imports=peak_memory())
    clock = Clock()
    solver = solver_class(job["game"], spiel)
    report(build_seconds=round(clock.seconds(), 4))
    clock = Clock()
    solver.compile()
    report(compile_seconds=round(clock.seconds(), 4))
    nash_conv = []
    for iterations in _climb(solver, job):
        report(timed_from=iterations, **({} if nash_conv else {"peak_memory": peak_memory()}))
        if job["check"]:
            nash_conv.append((iterations, pyspiel.nash_conv(spiel, solver.average_policy())))
            report(nash_conv=nash_conv)
    samples: list[dict[str, float]] = []
    count = _warm_up(solver, job["seconds"])
    for _ in range(job["repeats"]):
        clock = Clock()
        solver.step(count)
        samples.append(clock.sample(count))
        report(samples=samples)
    report(**solver.details())


def _climb(solver, job):
    """Yields at every checkpoint that can be reached in `climb_seconds`, the first in any case."""
    done, spent = 0, 0.0
    for target in job["checkpoints"]:
        if done and spent / done * (target - done) > job["climb_seconds"]:
            return
        clock = Clock()
        solver.step(target - done)
        done, spent = target, spent + clock.seconds()
        yield done


def _warm_up(solver, seconds) -> int:
    """Iterates more and more at once, until it takes half of `seconds`; returns that number."""
    count = 1
    while True:
        clock = Clock()
        solver.step(count)
        if clock.seconds() > seconds / 2:
            return count
        count *= 2
