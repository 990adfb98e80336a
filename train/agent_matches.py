"""Matches of two agents, in which every deal is played twice with the seats swapped.

Many games run side by side, one move of each at a time, on the histories of the game tree. Agents
observe only the public states, and their own information state when they act.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from jaxgames.arrays import at, index_batches
from jaxgames.beliefs.places import Places, table_places
from jaxgames.beliefs.table import NOWHERE
from jaxgames.core import CHANCE, TERMINAL
from jaxgames.game_tree import GameTree
from solvers.search import search_agent
from solvers.search.readouts import policy_in_row
from train.agent import TrainedAgent

_SIDE_BY_SIDE = 256  # games at a time, whose agents must fit into memory

Player = TrainedAgent | None  # None plays uniformly at random


def play_match(
    agent: TrainedAgent,
    opponent: Player,
    *,
    deals: int,
    seed: int,
    batch: int = 64,
    report: Callable[[int], None] = lambda done: None,
) -> Float[np.ndarray, "D 2"]:
    """Plays a match.

    In both games of a deal, the n-th draw of chance uses the same random number.

    Args:
      agent: the agent that is measured.
      opponent: an agent of the same game, or None.
      deals: D; twice as many games are played.
      seed: of everything random.
      batch: how many searches run side by side.
      report: is called with the number of games played since its last call.

    Returns:
      The payoff of `agent`, by deal and seat.
    """
    tree, places = agent.tree, table_places(agent.tree, agent.table)
    depth = int(tree.depth.max())
    random = np.random.default_rng(seed)
    chance_draws, action_draws = random.random((deals, depth)), random.random((2, deals, depth))
    keys = jax.random.split(jax.random.key(seed), (2, 2, deals))
    payoffs, size = np.zeros((deals, 2)), min(deals, _SIDE_BY_SIDE)
    for block in index_batches(deals, size):
        for seat in range(2):
            players = (agent, opponent) if seat == 0 else (opponent, agent)
            seated = [
                player and SeatedAgents(player, p, keys[seat, p, block], places, min(batch, size))
                for p, player in enumerate(players)
            ]
            ends = play_side_by_side(
                tree,
                places,
                seated,
                chance_draws=chance_draws[block],
                action_draws=action_draws[seat, block],
            )
            payoffs[block, seat] = tree.returns[ends, seat]
            report(int(block[-1] - block[0]) + 1)
    return payoffs


class SeatedAgents:
    """The states of an agent that plays B games side by side in the same seat."""

    def __init__(
        self, agent: TrainedAgent, seat: int, keys: Key[Array, " B"], places: Places, batch: int
    ):
        self.agent, self.keys, self.places, self.batch = agent, keys, places, batch
        state = search_agent.init(agent.table, seat, settings=agent.settings)
        self.states = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(keys), *x.shape)), state)

    def policy(
        self, step: int, history: Int[np.ndarray, " B"], actor: Int[np.ndarray, " B"]
    ) -> Float[np.ndarray, "B A"]:
        """Lets the agent search in all games where a player acts.

        Args:
          step: the number of the move, from which random numbers are derived.
          history: where the games are.
          actor: who acts there.

        Returns:
          The agent's policy in the actor's information state; 0 where no player acts.
        """
        agent, acting = self.agent, np.flatnonzero(actor >= 0)
        table = agent.table
        policies = np.zeros((len(history), max(table.num_actions)), np.float32)
        row = self.places.row[history, np.maximum(actor, 0)]
        for block in index_batches(len(acting), self.batch):
            games = acting[block]
            self.states, policies[games] = _think(
                table,
                agent.params,
                (self.keys, actor, row),
                step,
                self.states,
                games,
                agent.settings,
            )
        return policies

    def begin(self, history: Int[np.ndarray, " B"]) -> None:
        """Lets the agent search at the root of its table if chance acts there: an agent's first
        search is there, whoever acts."""
        table = self.agent.table
        if int(table.actor(table.root())) == CHANCE:
            self.policy(0, history, np.zeros(len(history), int))

    def observe(self, slots: Int[np.ndarray, " B"]) -> None:
        """Lets the agent observe which public child was entered, NOWHERE if none."""
        self.states = _observe(self.agent.table, self.states, slots)


@functools.partial(jax.jit, static_argnames="settings")
def _think(table, params, every, step, states, games, settings):
    think = functools.partial(search_agent.think, table, params, settings=settings)
    keys, actor, row = at(every, games)
    noise = jax.vmap(lambda key: jax.random.fold_in(key, step))(keys)
    after, policy = jax.vmap(think)(noise, at(states, games))
    after = jax.tree.map(lambda x, new: x.at[games].set(new), states, after)
    return after, jax.vmap(policy_in_row)(policy, actor, row)


@jax.jit
def _observe(table, states, slots):
    return jax.vmap(functools.partial(search_agent.observe, table))(states, slots)


def play_side_by_side(
    tree: GameTree,
    places: Places,
    seated: Sequence[SeatedAgents | None],
    *,
    chance_draws: Float[np.ndarray, "B T"],
    action_draws: Float[np.ndarray, "B T"],
) -> Int[np.ndarray, " B"]:
    """Plays B games of at most T moves to their ends.

    Args:
      tree: the histories of the game.
      places: of the histories in the agents' tables.
      seated: both players; None plays uniformly at random.
      chance_draws: uniform numbers in [0, 1), the n-th for the n-th draw of chance.
      action_draws: uniform numbers in [0, 1), the t-th for the action of a player at move t.

    Returns:
      The terminal histories.
    """
    games = np.arange(len(chance_draws))
    history, num_chance = np.zeros(len(games), np.int64), np.zeros(len(games), np.int64)
    for agents in filter(None, seated):
        agents.begin(history)
    for step in range(action_draws.shape[1]):
        actor = tree.actor[history]
        weights = _chance_probabilities(tree, places, history)
        for seat, agents in enumerate(seated):
            policy = tree.legal[history] if agents is None else agents.policy(step, history, actor)
            acting = actor == seat
            weights[acting, : tree.num_actions] = policy[acting]
        draws = np.where(actor == CHANCE, chance_draws[games, num_chance], action_draws[:, step])
        move = _draw(weights, draws)
        over = actor == TERMINAL
        history = np.where(over, history, places.child[history, move])
        num_chance += actor == CHANCE
        for agents in filter(None, seated):
            agents.observe(np.where(over, NOWHERE, places.slot[history]))
    return history


def _chance_probabilities(tree: GameTree, places: Places, history: Int[np.ndarray, " B"]):
    """Probabilities of chance outcomes `[B, M]`, where M counts outcomes or actions, whichever are
    more; 0 where a player acts."""
    child = places.child[history]
    weights = np.zeros((len(history), max(child.shape[1], tree.num_actions)))
    chance = (tree.actor[history] == CHANCE)[:, None] & (child != NOWHERE)
    weights[:, : child.shape[1]] = np.where(chance, tree.chance_prob[child], 0)
    return weights


def _draw(weights, draws):
    """In every row of `weights` an index, drawn in proportion to its weight by a number in [0, 1);
    0 if all weights are 0."""
    total = np.cumsum(weights, axis=1)
    return np.argmax(draws[:, None] * total[:, -1:] < total, axis=1)
