"""Agents against agents: every deal is played twice, with the seats swapped.

Games run side by side, one move of each at a time, on the histories of the game tree; agents hear
of them only what is public, and their own row.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from jaxgames.beliefs.places import Places, table_places
from jaxgames.beliefs.table import NOWHERE
from jaxgames.core import CHANCE, TERMINAL
from jaxgames.game_tree import GameTree
from solvers.search import search_agent
from train.agent import TrainedAgent

_SIDE_BY_SIDE = 256  # games whose agents are in memory at a time

Player = TrainedAgent | None  # None plays all legal actions equally often


def duel(
    agent: TrainedAgent,
    opponent: Player,
    *,
    deals: int,
    seed: int,
    batch: int = 64,
    report: Callable[[int], None] = lambda done: None,
) -> Float[np.ndarray, "D 2"]:
    """What `agent` wins against `opponent`, by deal and seat.

    Both are of one game. Chance draws the same in both games of a deal as far as it has the same
    choice. `batch` searches run side by side; `report` hears how many games were played.
    """
    tree, places = agent.tree, table_places(agent.tree, agent.table)
    depth = int(tree.depth.max())
    luck = np.random.default_rng(seed)
    cards, moves = luck.random((deals, depth)), luck.random((2, deals, depth))
    keys = jax.random.split(jax.random.key(seed), (2, 2, deals))
    won, size = np.zeros((deals, 2)), min(deals, _SIDE_BY_SIDE)
    for begin in range(0, deals, size):
        some = np.minimum(np.arange(begin, begin + size), deals - 1)  # the last again and again
        for seat in range(2):
            players = (agent, opponent) if seat == 0 else (opponent, agent)
            minds = [
                player and Minds(player, p, keys[seat, p, some], places, min(batch, size))
                for p, player in enumerate(players)
            ]
            ends = lockstep(tree, places, minds, cards=cards[some], moves=moves[seat, some])
            won[some, seat] = tree.returns[ends, seat]
            report(min(size, deals - begin))
    return won


def interval(values: Float[np.ndarray, " D"]) -> tuple[float, float]:
    """Mean, and half the width of its 95 % confidence interval."""
    return float(values.mean()), float(1.96 * values.std(ddof=1) / np.sqrt(len(values)))


class Minds:
    """One agent in B games side by side."""

    def __init__(
        self, agent: TrainedAgent, seat: int, keys: Key[Array, " B"], places: Places, batch: int
    ):
        self.agent, self.keys, self.places, self.batch = agent, keys, places, batch
        state = search_agent.init(agent.table, seat, settings=agent.settings)
        self.states = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(keys), *x.shape)), state)

    def policy(
        self, step: int, history: Int[np.ndarray, " B"], actor: Int[np.ndarray, " B"]
    ) -> Float[np.ndarray, "B A"]:
        """Thinks in all games where somebody acts; the policy in the actor's row."""
        agent, acting = self.agent, np.flatnonzero(actor >= 0)
        table = agent.table
        found = np.zeros((len(history), table.num_actions, table.num_rows), np.float32)
        for begin in range(0, len(acting), self.batch):
            places = np.arange(begin, begin + self.batch)
            games = acting[np.minimum(places, len(acting) - 1)]  # the last again and again
            self.states, found[games] = _think(
                table, agent.params, self.keys, step, self.states, games, agent.settings
            )
        row = self.places.row[history, np.maximum(actor, 0)]
        return found[np.arange(len(history)), :, row]

    def observe(self, slots: Int[np.ndarray, " B"]) -> None:
        """Hears which public child was entered, NOWHERE if none."""
        self.states = _observe(self.agent.table, self.states, slots)


@functools.partial(jax.jit, static_argnames="settings")
def _think(table, params, keys, step, states, games, settings):
    think = functools.partial(search_agent.think, table, params, settings=settings)
    noise = jax.vmap(lambda key: jax.random.fold_in(key, step))(keys[games])
    after, policy = jax.vmap(think)(noise, jax.tree.map(lambda x: x[games], states))
    return jax.tree.map(lambda x, new: x.at[games].set(new), states, after), policy


@jax.jit
def _observe(table, states, slots):
    return jax.vmap(functools.partial(search_agent.observe, table))(states, slots)


def lockstep(
    tree: GameTree,
    places: Places,
    minds: Sequence[Minds | None],
    *,
    cards: Float[np.ndarray, "B T"],
    moves: Float[np.ndarray, "B T"],
) -> Int[np.ndarray, " B"]:
    """The histories that games end with, T their longest.

    What happens is drawn by numbers from 0 to 1: the n-th draw of chance by the n-th of `cards`,
    what a player does in step t by `moves[:, t]`. `minds` are those of both players, None for one
    that plays all legal actions equally often.
    """
    games = np.arange(len(cards))
    history, dealt = np.zeros(len(games), np.int64), np.zeros(len(games), np.int64)
    for step in range(moves.shape[1]):
        actor = tree.actor[history]
        weights = _chances(tree, places, history)
        for seat, mind in enumerate(minds):
            policy = tree.legal[history] if mind is None else mind.policy(step, history, actor)
            mine = actor == seat
            weights[mine, : tree.num_actions] = policy[mine]
        drawn = np.where(actor == CHANCE, cards[games, dealt], moves[:, step])
        move = _draw(weights, drawn)
        over = actor == TERMINAL
        history = np.where(over, history, places.child[history, move])
        dealt += actor == CHANCE
        for mind in filter(None, minds):
            mind.observe(np.where(over, NOWHERE, places.slot[history]))
    return history


def _chances(tree: GameTree, places: Places, history: Int[np.ndarray, " B"]):
    """Probabilities of chance `[B, M]`, 0 where a player acts; wide enough for every move."""
    child = places.child[history]
    weights = np.zeros((len(history), max(child.shape[1], tree.num_actions)))
    chance = (tree.actor[history] == CHANCE)[:, None] & (child != NOWHERE)
    weights[:, : child.shape[1]] = np.where(chance, tree.chance_prob[child], 0)
    return weights


def _draw(weights, drawn):
    """An index in proportion to its weight by a number in [0, 1); 0 if there is no weight."""
    total = np.cumsum(weights, axis=1)
    return np.argmax(drawn[:, None] * total[:, -1:] < total, axis=1)
