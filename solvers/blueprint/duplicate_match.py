"""Matches on duplicate deals: policies by bucket play each deal in all orders of seats, with the
same random numbers, so that most of the luck of the cards cancels (Heinrich and Silver 2015)."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxgames.checks import at_least
from jaxgames.holdem.card_abstraction import BucketTables
from solvers.blueprint.betting_walk import BettingWalk, Policy, play
from solvers.blueprint.dealt_hands import deal_hands

_CHUNK = 2**16  # deals that are played side by side


class Match(NamedTuple):
    """Means of a hand, in chips."""

    won: Float[np.ndarray, " N"]  # by a player of each policy
    error: Float[np.ndarray, " N"]  # standard errors
    by_seat: Float[np.ndarray, " P"]  # what whoever sits there wins
    seat_error: Float[np.ndarray, " P"]  # standard errors
    decisions: float  # of all players in a hand


def play_match(
    walk: BettingWalk,
    policies: Sequence[Float[Array, "rows A"] | Policy],
    tables: BucketTables,
    *,
    players: tuple[int, ...],
    hands: int,
    seed: int,
) -> Match:
    """Lets policies play each other.

    Args:
      walk: the game of P players.
      policies: N of them, in all S states `[S + 1, A]`, or functions of spots that are pytrees.
      tables: the buckets of all hands.
      players: the number of the policy of each player, each policy at least once. Orders of seats
        that differ in players of one policy are played once, as they are the same.
      hands: deals, each played in all orders; or a few more, to fill a last batch.
      seed: of the deals.

    Raises:
      ValueError: `hands` is not positive, or `players` are not P with all policies among them.
    """
    at_least(1, hands=hands)
    if len(players) != walk.num_players or set(players) != set(range(len(policies))):
        raise ValueError(
            f"players={players} must be {walk.num_players} with the numbers of all"
            f" {len(policies)} policies"
        )
    orders = tuple(sorted(set(itertools.permutations(players))))
    key, rows = jax.random.key(seed), []
    for number in range(-(-hands // _CHUNK)):
        size = min(_CHUNK, hands)
        chunk_key = jax.random.fold_in(key, number)
        rows.append(_played(walk, tuple(policies), tables, chunk_key, orders=orders, size=size))
    won, squares, by_seat, seat_squares, decisions = (
        np.mean(np.array(values, float), axis=0) for values in zip(*rows, strict=True)
    )
    error, seat_error = (
        np.sqrt(np.maximum(square - mean**2, 0) / (len(rows) * size))
        for mean, square in ((won, squares), (by_seat, seat_squares))
    )
    return Match(won, error, by_seat, seat_error, float(decisions))


@functools.partial(jax.jit, static_argnames=("orders", "size"))
def _played(walk, policies, tables, key, *, orders, size):
    """Means of deals: what players of each policy win and its square, what seats win and its
    square, decisions."""
    deal_key, key = jax.random.split(key)
    deals = deal_hands(tables, deal_key, size, num_players=walk.num_players)

    def in_order(seats):
        return play(walk, policies, deals, jax.random.clone(key), seats=seats)

    winnings, decisions = jax.lax.map(in_order, jnp.array(orders, jnp.int32))  # [O, P, D], [O, D]
    won = []
    for number in range(len(policies)):
        places = np.argwhere(np.array(orders) == number)
        own = sum(winnings[order, seat] for order, seat in places)
        won.append(own.astype(jnp.float32) / (walk.parts * len(places)))
    won = jnp.stack(won)
    seats = jnp.sum(winnings, axis=0, dtype=jnp.int32).astype(jnp.float32)
    seats = seats / (walk.parts * len(orders))
    means = (jnp.mean(x, axis=1) for x in (won, won**2, seats, seats**2))
    return *means, jnp.mean(decisions.astype(jnp.float32))
