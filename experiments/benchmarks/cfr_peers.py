"""CFR+ of other packages: one small class for each behind the interface of `cfr_program`."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable
from typing import Any

from experiments.benchmarks.cfr_program import CfrProgram, measure_program, openspiel_policy


def measure(job: dict[str, Any], report: Callable[..., None]) -> None:
    """Measures the program that the job's `solver` names (see `measure_program`)."""
    measure_program(PEERS[job["solver"]], job, report)


class NumpySequenceForm(CfrProgram):
    """`numpy_sequence_form`: what 200 lines of NumPy and SciPy do."""

    distribution = "numpy"
    modules = ("pyspiel", "experiments.benchmarks.numpy_sequence_form")

    def __init__(self, game: str, spiel: Any):
        from experiments.benchmarks.numpy_sequence_form import SequenceFormCfrPlus

        self.solver = SequenceFormCfrPlus(spiel)

    def step(self, num_iterations: int) -> None:
        self.solver.step(num_iterations)

    def average_policy(self) -> Any:
        return self.solver.average_policy()


class OpenSpielCpp(CfrProgram):
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


class OpenSpielJax(CfrProgram):
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


class LiteEfg(CfrProgram):
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


class Noregret(CfrProgram):
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


def require_openspiel() -> None:
    """Raises `ImportError`, which says what to install, if OpenSpiel cannot be found."""
    if not OpenSpielCpp.is_installed():
        raise ImportError("OpenSpiel is not installed: pip install 'jaxgames[openspiel]'")


PEERS: dict[str, type[CfrProgram]] = {
    "numpy_sequence_form": NumpySequenceForm,
    "openspiel_cpp": OpenSpielCpp,
    "openspiel_jax": OpenSpielJax,
    "liteefg": LiteEfg,
    "gpugt": Gpugt,
    "noregret": Noregret,
}


def _normalised(row):
    """Actions with their weights divided by their sum; uniform where that is 0."""
    total = sum(weight for _, weight in row)
    return [(a, weight / total if total > 0 else 1 / len(row)) for a, weight in row]


def _decision_processes(spiel: Any) -> dict[str, list]:
    """A game of OpenSpiel in the form that gpugt and noregret load; actions are numbers as text.

    Each player has a tree of decision points, observation points and ends, linked by its own
    sequences; payoffs to player 0, times chance, are listed by the pair of sequences.
    """
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
        "tree_form_sequential_decision_processes": [[*_nodes(decisions)] for decisions in below],
        "utilities": [{"sequences": [*both], "value": value} for both, value in payoff.items()],
    }


def _nodes(below):
    """The nodes of one player's decision process, each with the edge that leads to it."""
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
