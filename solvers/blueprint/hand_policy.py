"""Blueprints as policies by hand, which other agents and responders play against."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import CHANCE
from jaxgames.holdem.betting_tree import NO_NODE, BettingTree
from jaxgames.holdem.card_abstraction import buckets_of_deal
from jaxgames.holdem.ranges import NUM_HANDS
from jaxgames.holdem.rules import CALL, FOLD, NOTHING, Poker, PokerState
from solvers.approximate_best_response.local_best_response import HandPolicy
from solvers.blueprint.blueprint import Blueprint


def hand_policy(blueprint: Blueprint, poker: Poker) -> HandPolicy:
    """What a blueprint does with every hand, as a function of the public state; pure JAX.

    Args:
      blueprint: of the game.
      poker: the game, with bets of fixed sizes.

    Returns:
      Maps a state at which a player acts to the probabilities `[1326, A]` of the game's actions
      with each of the hands of `jaxgames.holdem.ranges`; those of hands that share a card with the
      board mean nothing.

    Raises:
      ValueError: the game's bets have no fixed sizes.
    """
    if not poker.limit:
        raise ValueError(f"game {poker} must have bets of fixed sizes (limit=true)")
    tree = blueprint.game.rounds.tree
    after = jnp.asarray(_decisions_after(tree, poker), jnp.int32)
    places = _Places(blueprint)

    def policy(state: PokerState) -> Float[Array, "N A"]:
        def act(node, action):
            return jnp.where(action == NOTHING, node, after[node, action]), None

        node, _ = jax.lax.scan(act, jnp.int32(0), state.history)
        found = jnp.zeros((NUM_HANDS, places.width))
        for street, end in enumerate(itertools.accumulate(poker.board)):
            bucket = buckets_of_deal(blueprint.buckets, state.board[:end])[street]
            here = places.policy(street, node, bucket)
            found = jnp.where(state.round == street, here, found)
        # a blueprint's actions are the legal ones, in their order
        order = jnp.cumsum(state.legal.astype(jnp.int32)) - 1
        return jnp.where(state.legal[None], found[:, jnp.clip(order, 0, places.width - 1)], 0)

    return policy


class _Places:
    """Where in a blueprint's tables the policy of each decision is."""

    def __init__(self, blueprint):
        tree, self.tables = blueprint.game.rounds.tree, blueprint.policy
        # by node: the family on its street, the first column, and the round of the family
        self.family, self.first, self.entry = np.zeros((3, len(tree.actor)), np.int32)
        self.count = np.array([len(names) for names in tree.actions], np.int32)
        self.width = max(self.count)
        for families in blueprint.game.rounds.streets:
            for number, family in enumerate(families):
                self.family[family.nodes] = number
                self.first[family.nodes] = np.array(family.template.first_column)[:, None]
                self.entry[family.nodes] = np.arange(family.entries)

    def policy(self, street, node, bucket):
        """The probabilities `[1326, A]` of a decision's actions, if it is on this street."""
        first, entry, count = (jnp.asarray(x)[node] for x in (self.first, self.entry, self.count))
        action = jnp.arange(self.width, dtype=jnp.int32)
        found = jnp.zeros((NUM_HANDS, self.width))
        for number, table in enumerate(self.tables[street]):
            size, columns = table.shape[-1], table.shape[1]
            column = jnp.minimum(first + action, columns - 1)
            rows = table[entry // size, column[None], bucket[:, None], entry % size]
            mine = jnp.asarray(self.family)[node] == number
            found = jnp.where(mine, rows, found)
        return jnp.where((action < count)[None], found, 0)


def _decisions_after(tree: BettingTree, poker: Poker) -> Int[np.ndarray, "X A"]:
    """The next decision after each action of the rules, NO_NODE where there is none."""
    numbers = {"fold": FOLD, "call": CALL, "raise": CALL + 1}
    after = np.full((len(tree.actor), poker.num_actions), NO_NODE)
    for node in np.flatnonzero(tree.actor >= 0):
        for name, child in zip(tree.actions[node], tree.child[node], strict=False):
            while tree.actor[child] == CHANCE:
                child = tree.child[child, 0]
            if tree.actor[child] >= 0:
                after[node, numbers[name]] = child
    return after
