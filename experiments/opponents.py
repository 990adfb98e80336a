"""Agents of enumerable games by name, as the policies that they play."""

from __future__ import annotations

import pathlib

import jax.numpy as jnp
import numpy as np

from experiments.policy_file import TabularPolicy, read_policy
from jaxgames.game_tree import GameTree, check_policies
from jaxgames.registry import unknown
from solvers import cfr
from solvers.cfr import SOLVERS
from solvers.public_tree import PublicTree

# the first legal one of these actions, in games of betting with the actions fold, call and raise
_PREFERENCES = {
    "always_fold": (0, 1, 2),
    "always_call": (1, 0, 2),
    "always_raise": (2, 1, 0),
}


def policies_of(agent: str, source: GameTree, public: PublicTree) -> TabularPolicy:
    """What an agent plays, `[D_p, A]` for every player p.

    `agent` is uniform, SOLVER:ITERATIONS (the average policy; `cfr_plus:10`), in Leduc always_fold,
    always_call or always_raise, or a file `policy.npz` that `solve` wrote.

    Raises:
      ValueError: there is no such agent, or it plays another game.
    """
    name, colon, count = agent.partition(":")
    if agent == "uniform":
        legal = [source.legal_actions(player) for player in range(source.num_players)]
        policies = tuple(rows / rows.sum(axis=1, keepdims=True) for rows in legal)
    elif agent in _PREFERENCES:
        policies = _first_legal(source, _PREFERENCES[agent])
    elif colon and name in SOLVERS:
        policies = _solved(public, name, count)
    elif pathlib.Path(agent).suffix == ".npz":
        policies = read_policy(pathlib.Path(agent))
    else:
        solvers = [f"{solver}:ITERATIONS" for solver in SOLVERS]
        raise ValueError(unknown("agent", agent, ["uniform", *_PREFERENCES, *solvers, "FILE.npz"]))
    check_policies(source, policies)
    return policies


def _first_legal(source, preference):
    if not source.game.startswith("leduc_poker"):
        raise ValueError(
            f"always folding, calling and raising are for leduc_poker, not {source.game}"
        )
    found = []
    for player in range(source.num_players):
        legal = source.legal_actions(player)[:, preference]
        found.append(np.eye(source.num_actions)[np.array(preference)[legal.argmax(axis=1)]])
    return tuple(found)


def _solved(public, solver, count):
    if not count.isdecimal() or int(count) < 1:
        raise ValueError(f"{solver}:{count} must tell how many iterations, at least 1")
    state = cfr.run(
        public, cfr.init(public), solver=cfr.make_solver(solver), num_iterations=int(count)
    )
    average = cfr.average_policy(public, state)
    return tuple(np.asarray(rows, np.float64) for rows in average)


def to_jax(policies: TabularPolicy) -> tuple[jnp.ndarray, ...]:
    """The same in the precision of solvers."""
    return tuple(jnp.asarray(rows, jnp.float32) for rows in policies)
