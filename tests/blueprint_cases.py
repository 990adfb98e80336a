"""Games with random buckets, for tests of blueprints."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxgames.holdem import betting_of_rules
from jaxgames.holdem.canonical_boards import (
    HAND_IMAGES,
    board_finder,
    board_symmetries,
    canonical_boards,
)
from jaxgames.holdem.card_abstraction import BucketTables
from jaxgames.holdem.ranges import NUM_HANDS
from jaxgames.holdem.rules import Poker
from solvers.blueprint import board_sampled_cfr, bucket_game
from solvers.blueprint.betting_rounds import betting_rounds

TWO_STREETS = Poker(raise_sizes=(10, 10), board=(0, 3), first=(1, 0), max_raises=(3, 4))
THREE_STREETS = Poker(
    raise_sizes=(10, 10, 20), board=(0, 3, 1), first=(1, 0, 0), max_raises=(1, 1, 1)
)
ONE_RAISE = Poker(raise_sizes=(10, 10), board=(0, 3), first=(1, 0), max_raises=(1, 1))
TWO_RAISES = Poker(raise_sizes=(10, 10), board=(0, 3), first=(1, 0), max_raises=(1, 2))
BUCKETS = (20, 30)


@functools.cache
def random_tables(num_buckets, board):
    """Random buckets that suits do not matter for."""
    generator, num_cards = np.random.default_rng(0), tuple(np.cumsum(board).tolist())
    tables = []
    for cards, count in zip(num_cards, num_buckets, strict=True):
        boards = len(canonical_boards(max(cards, 1))[cards].cards)
        table = generator.integers(count, size=(boards, NUM_HANDS)).astype(np.uint16)
        for board, permutations in board_symmetries(cards):
            table[board] = table[board, HAND_IMAGES[permutations]].min(axis=0)
        tables.append(table)
    return BucketTables(
        tables=tuple(map(jnp.asarray, tables)),
        finder=board_finder(max(num_cards[-1], 1)),
        num_cards=num_cards,
        strength_cards=num_cards[-1],
        num_buckets=num_buckets,
        perfect_recall=False,
    )


@functools.cache
def game_of(poker, num_buckets):
    return bucket_game.BucketGame(betting_rounds(betting_of_rules(poker)), num_buckets)


def states_by_node(game, tables):
    """Tables of the engine's first streets as those of the reference: by decision of the tree."""
    found = {}
    flat = [table for street in tables for table in street]
    families = [family for street, family, _ in game.shapes() if street < len(tables)]
    for family, table in zip(families, flat, strict=True):
        table = np.asarray(table)  # [N, C, B, E]
        whole = np.concatenate(list(table), axis=-1)  # [C, B, M]
        for j, first in enumerate(family.template.first_column):
            actions = len(family.template.actions[j])
            for m, node in enumerate(family.nodes[j]):
                found[node] = whole[first : first + actions, :, m].T
    return found


@functools.cache
def random_policy(poker=TWO_STREETS, num_buckets=BUCKETS):
    """A policy of random regrets, and the same by decision of the tree."""
    game, generator = game_of(poker, num_buckets), np.random.default_rng(1)
    state = board_sampled_cfr.init(game)
    sums = jax.tree.map(lambda x: jnp.asarray(generator.random(x.shape), x.dtype), state.average)
    policy = board_sampled_cfr.average_policy(game, sums)
    return policy, states_by_node(game, policy)
