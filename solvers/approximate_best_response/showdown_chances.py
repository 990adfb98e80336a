"""How a hand of poker fares at showdown against every other hand, on all boards or some of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from jaxgames.core import record
from jaxgames.holdem.hand_evaluator import (
    flush_strength,
    in_full_deck,
    rank_counts,
    strength_by_ranks,
    strength_of_sets,
    suit_sets,
)
from jaxgames.holdem.rules import Poker
from solvers.approximate_best_response.hand_policies import all_hands

ALL = 0  # boards


@record
class ShowdownChances:
    """How a hand fares at showdown against each of N hands, as seen in each of R rounds."""

    won: Array  # [R, N] boards on which the hand wins; ties count half
    met: Array  # [R, N] boards that are possible with both hands
    apart: Array  # [R, N] bool: no card in common with the hand or with the board so far


def showdown_chances(
    game: Poker,
    key: Key[Array, ""],
    hand: Int[Array, " k"],
    board: Int[Array, " B"],
    *,
    drawn: Sequence[int],
) -> ShowdownChances:
    """Counts on how many boards a hand wins against every other hand, as seen in each round.

    Args:
      game: the game.
      key: consumed.
      hand: the hand.
      board: all cards of the board; each round sees the first of them.
      drawn: for each round, how many complete boards are sampled; `ALL` enumerates them.

    Returns:
      The counts by round.
    """
    hands = jnp.asarray(all_hands(game))
    ends, keys = itertools.accumulate(game.board), jax.random.split(key, len(game.board))
    boards, apart = [], []
    for end, count, noise in zip(ends, drawn, keys, strict=True):
        seen = jnp.concatenate([hand, board[:end]])
        boards.append(_boards(game, noise, board[:end], seen, count))
        apart.append(~jnp.any(hands[:, :, None] == seen[None, None, :], axis=(1, 2)))
    rounds = np.repeat(np.arange(len(boards)), [len(each) for each in boards])
    won, met = _won(game, hand, hands, jnp.concatenate(boards), rounds)
    return ShowdownChances(won=won, met=met, apart=jnp.stack(apart))


def _boards(game, key, board, seen, drawn):
    """Complete boards `[X, B]` that begin with the given cards: all, or `drawn` samples."""
    cards = jnp.arange(game.ranks * game.suits, dtype=jnp.int32)
    count, missing = len(cards) - len(seen), sum(game.board) - len(board)
    is_seen = jnp.any(cards[:, None] == seen[None, :], axis=1)
    if drawn == ALL:
        left = jnp.argsort(is_seen, stable=True)[:count].astype(jnp.int32)
        which = np.array(list(itertools.combinations(range(count), missing)), np.int32)
        more = left[which.reshape(math.comb(count, missing), missing)]
    else:
        noise = jax.random.uniform(key, (drawn, len(cards)), jnp.float32)
        noise = jnp.where(is_seen[None], 2, noise)
        more = _smallest(noise, missing)
    return jnp.concatenate([jnp.broadcast_to(board[None], (len(more), len(board))), more], axis=1)


def _smallest(noise, count):
    """The places `[X, count]` of the smallest numbers of each row, without sorting all of them."""
    column = jnp.arange(noise.shape[1], dtype=jnp.int32)[None]
    places = [jnp.zeros((len(noise), 0), jnp.int32)]
    for _ in range(count):
        place = jnp.argmin(noise, axis=1).astype(jnp.int32)[:, None]
        noise = jnp.where(column == place, jnp.inf, noise)
        places.append(place)
    return jnp.concatenate(places, axis=1)


def _won(game, hand, hands, boards, rounds):
    """By round, the number of boards on which a hand wins against each other hand (ties count
    half), and the number of boards that are possible with both hands; `rounds` are the boards'.
    """
    num_cards = game.hole + sum(game.board)

    def sets(cards):
        return suit_sets(in_full_deck(cards, game.suits))

    held, mine = sets(hands), sets(hand)

    def add(total, given):
        board, round = given
        shared = sets(board) if len(board) else jnp.zeros(4, jnp.uint32)
        others = _strengths(held, shared, num_cards, game.hole)
        own = strength_of_sets(mine | shared, num_cards=num_cards)
        apart = ~jnp.any(held & (mine | shared)[:, None] != 0, axis=0)
        wins = (own > others).astype(jnp.float32) + (own == others).astype(jnp.float32) / 2
        won, met = total
        won = won.at[round].add(jnp.where(apart, wins, 0))
        return (won, met.at[round].add(apart.astype(jnp.float32))), None

    nothing = jnp.zeros((len(game.board), len(hands)), jnp.float32)
    total, _ = jax.lax.scan(add, (nothing, nothing), (boards, jnp.asarray(rounds, jnp.int32)))
    return total


def _strengths(held, shared, num_cards, hole):
    """Strengths of hands `[4, N]` with the cards that they share.

    With hands of one or two cards only the suit of which most cards are shared can make a flush.
    """
    sets = held | shared[:, None]
    if hole > 2:
        return strength_of_sets(sets, num_cards=num_cards)
    by_ranks = strength_by_ranks(*rank_counts(sets), max(num_cards - 5, 0)).astype(jnp.int32)
    if num_cards < 5:
        return by_ranks
    suit = jnp.argmax(jax.lax.population_count(shared))
    return jnp.maximum(by_ranks, flush_strength(held[suit] | shared[suit]).astype(jnp.int32))
