"""Agents of enumerable games by name, as tabular policies."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from experiments.harness.policy_file import TabularPolicy, read_policy
from experiments.harness.progress import counter, progress
from jaxgames.beliefs import history_places
from jaxgames.beliefs.listing import list_public_states
from jaxgames.beliefs.table import BeliefTable
from jaxgames.core import Game
from jaxgames.game_tree import GameTree, check_policies
from jaxgames.registry import unknown
from solvers import cfr
from solvers.cfr import SOLVERS
from solvers.search.agent_exploitability import agents, composed_policy, longest_path
from solvers.sequence_form import SequenceForm
from train.agent import game_tree, load_agent

# Agents that take the first legal action of a list; the actions are fold, call and raise.
_PREFERENCES = {
    "always_fold": (0, 1, 2),
    "always_call": (1, 0, 2),
    "always_raise": (2, 1, 0),
}


def agent_policies(agent: str, tree: GameTree, sequence_form: SequenceForm) -> TabularPolicy:
    """The policies of an agent in both seats.

    Args:
      agent: uniform; SOLVER:ITERATIONS, the average policy (such as `cfr_plus:10`); in Leduc
        always_fold, always_call or always_raise; a file `policy.npz` that `solve` wrote; or
        FOLDER:SIMULATIONS, the folder of a trained search agent, which then searches wherever it
        may have to act.
      tree: the histories of the game.
      sequence_form: of the same game.

    Returns:
      `[D_p, A]` for every player p.

    Raises:
      ValueError: there is no such agent, or it plays another game.
    """
    name, colon, count = agent.partition(":")
    if agent == "uniform":
        legal = [tree.legal_actions(player) for player in range(tree.num_players)]
        policies = tuple(rows / rows.sum(axis=1, keepdims=True) for rows in legal)
    elif agent in _PREFERENCES:
        policies = _first_legal(tree, _PREFERENCES[agent])
    elif colon and name in SOLVERS:
        policies = _solved(sequence_form, name, count)
    elif colon and pathlib.Path(name).is_dir():
        policies = _searched(name, _count(agent, count), tree.game)
    elif pathlib.Path(agent).suffix == ".npz":
        policies = read_policy(pathlib.Path(agent))
    else:
        solvers = [f"{solver}:ITERATIONS" for solver in SOLVERS]
        allowed = ["uniform", *_PREFERENCES, *solvers, "FILE.npz", "FOLDER:SIMULATIONS"]
        raise ValueError(unknown("agent", agent, allowed))
    check_policies(tree, policies)
    return policies


def _first_legal(tree, preference) -> TabularPolicy:
    """Policies that take the first legal action of a list."""
    if not tree.game.startswith("leduc_poker"):
        raise ValueError(
            f"always folding, calling and raising are for leduc_poker, not {tree.game}"
        )
    policies = []
    for player in range(tree.num_players):
        legal = tree.legal_actions(player)[:, preference]
        policies.append(np.eye(tree.num_actions)[np.array(preference)[legal.argmax(axis=1)]])
    return tuple(policies)


def _solved(sequence_form, solver, count) -> TabularPolicy:
    """The average policies of a solver after `count` iterations, a number as text."""
    state = cfr.run(
        sequence_form,
        cfr.init(sequence_form),
        solver=cfr.make_solver(solver),
        num_iterations=_count(f"{solver}:{count}", count),
    )
    average = cfr.average_policy(sequence_form, state)
    return tuple(np.asarray(rows, np.float64) for rows in average)


def _count(agent, count) -> int:
    """The number at the end of an agent's name."""
    if not count.isdecimal() or int(count) < 1:
        raise ValueError(f"agent {agent} must end with a number of at least 1")
    return int(count)


@functools.cache
def _searched(folder, simulations, game) -> TabularPolicy:
    """The policies of a search agent in either seat, from its searches at all public states."""
    agent = load_agent(pathlib.Path(folder), game=game, simulations=simulations)
    table, tree = agent.table, game_tree(str(agent.game))
    listing = list_public_states(table)
    chains = agents(own_decisions_only=agent.own_decisions_only)
    settings = dataclasses.replace(agent.settings, max_path=max(1, longest_path(listing, chains)))
    policies = []
    searches = sum(int(chain.searched(listing).sum()) for chain in chains)
    with progress("search agent", searches) as report:
        count = counter(report)
        for player, chain in enumerate(chains):
            composed = composed_policy(
                table,
                listing,
                agent.params,
                jax.random.split(jax.random.key(player), 1),
                settings=settings,
                chain=chain,
                report=count,
            )
            policies.append(composed[player][0])
    return information_state_policies(agent.game, tree, table, policies)


def information_state_policies(
    game: Game, tree: GameTree, table: BeliefTable, policies: Sequence[Float[np.ndarray, "S _ _"]]
) -> TabularPolicy:
    """Policies by information state, from policies by public state and row.

    Args:
      game: the game.
      tree: its histories.
      table: its belief table.
      policies: of every player `[S, A, N]` at all public states of the table's listing.

    Returns:
      `[D_p, A]` for every player p; uniform where the policies at public states have no actions.
    """
    listing = list_public_states(table)
    state, rows = history_places(game, tree, table)
    listed = np.asarray(listing.state)
    number = np.zeros(len(table.actors), int)  # in the listing, of every state of the table
    number[listed] = np.arange(len(listed))
    tabular = []
    for player, policy in enumerate(policies):
        history = tree.representative(player)[: tree.num_decisions[player]]
        legal = tree.legal_actions(player)
        weights = np.zeros(legal.shape)
        weights[:, : policy.shape[1]] = policy[number[state[history]], :, rows[history, player]]
        weights = np.where(legal, weights, 0)
        weights = np.where(weights.sum(axis=1, keepdims=True) > 0, weights, legal)
        tabular.append(weights / weights.sum(axis=1, keepdims=True))
    return tuple(tabular)


def to_jax(policies: TabularPolicy) -> tuple[jnp.ndarray, ...]:
    """The policies as arrays of JAX, in the precision of solvers."""
    return tuple(jnp.asarray(rows, jnp.float32) for rows in policies)
