"""The searches that are timed: games, networks and settings, by name."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import PyTree

from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from jaxgames.beliefs import belief_table
from jaxgames.beliefs.contract import BeliefGame
from jaxgames.registry import make
from jaxgames.scotland_yard import scotland_yard_beliefs
from nets.cvpn import CvpnEvaluator, new_cvpn
from solvers.search import continual_resolving, leaf_evaluators
from solvers.search.search_state import GrowingTreeCfr, Problem

LONDON = "scotland_yard"  # too large for a table: every step computes its rules
_PGX = "pgx:"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
    """SoG(simulations, pace) at the root of a game, a batch of searches side by side."""

    game: str
    simulations: int
    batch: int
    width: int = 0  # of the untrained network; 0: leaves are worth nothing
    depth: int = 3
    torso: str = "mlp"  # or "convolutional", with `depth` residual blocks of `width` channels
    pace: float = 1.0  # simulations per iteration of CFR
    expand: int | None = None  # children by prior that a new node starts with; None: all
    # room: children of a node on average, and shares of nodes at which either player may act
    children: float | None = None
    decision_shares: tuple[float, float] = (1.0, 1.0)
    to_mate: tuple[int, ...] = ()  # moves of a perfect-information game after which one move wins
    mate: int | None = None  # the move that wins then

    @property
    def has_rival(self) -> bool:
        """Whether AlphaZero's search can play the game too: it has perfect information."""
        return self.game.startswith(_PGX)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """The arguments of `growing_tree_cfr.search`."""

    game: BeliefGame
    params: PyTree
    problem: Problem
    settings: GrowingTreeCfr


def _connect_four(**sizes) -> Task:
    """Searches of Connect Four; three in a row wait for a fourth in the position before a win."""
    return Task(game="pgx:connect_four", expand=1, to_mate=(3, 0, 3, 1, 3, 0), mate=3, **sizes)


def _london(**sizes) -> Task:
    """Searches of London's map with a large network."""
    return Task(game=LONDON, width=512, depth=6, **sizes)


def _blocks(**fields) -> dict[str, Any]:
    """The fields of a task whose network has five residual blocks of 64 channels."""
    return {"width": 64, "depth": 5, "torso": "convolutional"} | fields


TASKS = {
    "Leduc (100,1), zero leaves": Task(game="leduc_poker", simulations=100, batch=64),
    "Leduc (100,1), 3x128": Task(game="leduc_poker", simulations=100, batch=64, width=128),
    "glasses (100,1), 3x128": Task(
        game="scotland_yard(map=glasses)", simulations=100, batch=64, width=128
    ),
    "London (400,1), 6x512": _london(
        simulations=400, batch=1, children=8.0, decision_shares=(0.12, 1.0)
    ),
    "London (32,1), 6x512": _london(
        simulations=32, batch=32, children=16.0, decision_shares=(0.4, 1.0)
    ),
    "Connect Four (800,1), 6x512": _connect_four(simulations=800, batch=16, width=512, depth=6),
    "Connect Four (800,10), 6x512": _connect_four(
        simulations=800, batch=16, width=512, depth=6, pace=10.0
    ),
    "Connect Four (32,1), 2x64": _connect_four(simulations=32, batch=64, width=64, depth=2),
    "Gardner chess (800,10), 6x512": Task(
        game="pgx:gardner_chess",
        simulations=800,
        batch=4,
        width=512,
        depth=6,
        pace=10.0,
        expand=1,
    ),
    "chess (100,1), 6x512": Task(
        game="pgx:chess", simulations=100, batch=4, width=512, depth=6, expand=1
    ),
    "19x19 Go (100,1), 6x512": Task(
        game="pgx:go_19x19", simulations=100, batch=4, width=512, depth=6, expand=1
    ),
    "Connect Four (800,10), 5x64 blocks": _connect_four(
        **_blocks(simulations=800, batch=8, pace=10.0)
    ),
    "Connect Four (32,1), 5x64 blocks": _connect_four(**_blocks(simulations=32, batch=64)),
    "Gardner chess (800,10), 5x64 blocks": Task(
        game="pgx:gardner_chess", expand=1, **_blocks(simulations=800, batch=4, pace=10.0)
    ),
    "9x9 Go (100,1), 5x64 blocks": Task(
        game="pgx:go_9x9", expand=1, **_blocks(simulations=100, batch=8)
    ),
    "Kuhn (8,1), 1x8": Task(game="kuhn_poker", simulations=8, batch=2, width=8, depth=1),
    "tic-tac-toe (40,1), 1x8": Task(
        game="pgx:tic_tac_toe",
        simulations=40,
        batch=2,
        width=8,
        depth=1,
        expand=1,
        to_mate=(0, 3, 1, 8),
        mate=2,
    ),
}


def build(task: Task) -> Setting:
    """The game of a task, an untrained network, the problem at the root, and the settings."""
    game = belief_game(task.game)
    params, evaluate = None, leaf_evaluators.zero
    if task.width:
        network = new_cvpn(game, seed=0, width=task.width, depth=task.depth, torso=task.torso)
        graph, params = nnx.split(network)
        evaluate = CvpnEvaluator(graph)
    settings = GrowingTreeCfr(
        evaluate,
        simulations=task.simulations,
        pace=task.pace,
        max_path=1,
        expand=task.expand,
        children=task.children,
        decision_shares=task.decision_shares,
    )
    problem = continual_resolving.first_problem(game, max_path=settings.max_path)
    return Setting(game=game, params=params, problem=problem, settings=settings)


def belief_game(name: str) -> BeliefGame:
    """A belief-level game by name: from pgx, London's map from after the deal, or as a table."""
    if name.startswith(_PGX):
        return pgx_beliefs(name.removeprefix(_PGX))
    if name == LONDON:
        rules = make(name)
        return scotland_yard_beliefs(
            rules, detective_starts=rules.detective_starts[: rules.detectives]
        )
    return belief_table(make(name))


def before_mate(task: Task, game: BeliefGame) -> BeliefGame:
    """The game with the position before the winning move of a task as its root."""
    position = game.root()
    after = jax.jit(game.child)
    for move in task.to_mate:
        position = after(position, jnp.int32(move))
    return game.replace(start=position)
