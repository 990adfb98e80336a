"""What one blueprint wins of another on given boards, over all pairs of hands: matches in which
only the board is drawn.

The cards of both players are enumerated, and both seats are played, so that the result varies with
the board alone: in limit hold'em by some 30 to 40 thousandths of a big blind, where hands that are
dealt vary by some thousands.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int

from jaxgames.holdem.cards import NUM_CARDS
from solvers.blueprint.betting_rounds import END, FOLDED, BettingRounds
from solvers.blueprint.blueprint import Blueprint
from solvers.blueprint.bucket_game import in_chunks
from solvers.blueprint.deals import make_deal
from solvers.blueprint.rounds_played import of_groups, played_in_round, reaches_at_rounds
from solvers.blueprint.showdowns import folds, showdowns
from solvers.device_batches import split_calls


def check_same_betting(first: BettingRounds, second: BettingRounds) -> None:
    """Checks that two games have the same bets, whatever their buckets are.

    Raises:
      ValueError: they have not.
    """
    trees = first.tree, second.tree
    names = ("actor", "street", "child", "paid")
    same = all(np.array_equal(*(getattr(tree, name) for tree in trees)) for name in names)
    if not same or trees[0].pot != trees[1].pot:
        raise ValueError(
            f"both must play the same bets: their betting trees have {len(trees[0].actor):,} and"
            f" {len(trees[1].actor):,} nodes, and differ"
        )


@functools.partial(jax.jit, static_argnames="mesh")
def winnings(
    first: Blueprint,
    second: Blueprint,
    boards: Int[Array, "n cards"],
    *,
    mesh: Mesh | None = None,
) -> Float[Array, "n 2"]:
    """What the first of two blueprints wins on average over all pairs of hands, board by board.

    Args:
      first: a blueprint.
      second: another of the same bets (`check_same_betting`), with buckets of its own.
      boards: cards in the order of the deal, to the end.
      mesh: devices with one axis, `device_batches.DATA`, which share the boards evenly; None: one
        device. Static.

    Returns:
      Chips per hand as player 0 and as player 1. Boards are deals: the mean over random ones is
      the value of the match.

    Raises:
      ValueError: the devices cannot share the boards evenly.
    """
    here = values_on_boards(first, second, boards, mesh=mesh)
    there = -values_on_boards(second, first, boards, mesh=mesh)
    return jnp.stack([here, there], axis=1)


@functools.partial(jax.jit, static_argnames="mesh")
def values_on_boards(
    zero: Blueprint, one: Blueprint, boards: Int[Array, "n cards"], *, mesh: Mesh | None = None
) -> Float[Array, " n"]:
    """One seat of `winnings`, which is enough for a blueprint against itself.

    Args:
      zero: what player 0 plays.
      one: what player 1 plays.
      boards, mesh: as of `winnings`.

    Returns:
      What player 0 wins on average, in chips per hand.

    Raises:
      ValueError: the devices cannot share the boards evenly.
    """

    def on_device(players, boards):
        return jax.lax.map(functools.partial(_value, *players), boards)

    return split_calls(on_device, mesh)((zero, one), boards)


def _value(zero, one, board):
    """What player 0 wins of player 1, on average over all pairs of hands on a board."""
    left = NUM_CARDS - len(board)
    hands, others = math.comb(left, 2), math.comb(left - 2, 2)
    players = zero, one
    deals = [make_deal(b.buckets, board, groups=hands)[0] for b in players]
    reaches = [
        reaches_at_rounds(b.game, b.policy, deal, read=lambda _, table: list(table))
        for b, deal in zip(players, deals, strict=True)
    ]
    total = jnp.float32(0)
    for street, families in enumerate(zero.game.rounds.streets):
        for number, family in enumerate(families):
            tables = [b.policy[street][number] for b in players]
            reach = [in_chunks(reaches[p][street][number][p], tables[p]) for p in range(2)]
            chips = [
                in_chunks(jnp.asarray(x, jnp.float32), tables[0])
                for x in (family.fold_chips, family.end_chips)
            ]
            buckets = [deal.bucket[street] for deal in deals]
            chunk = functools.partial(_of_rounds, family.template, deals[0], buckets)
            total += jnp.sum(jax.lax.map(chunk, (tables, reach, *chips)))
    return total / (hands * others)


def _of_rounds(template, deal, buckets, given):
    """What player 0 wins at the folds and showdowns of a chunk of rounds."""
    tables, reach, fold_chips, end_chips = given
    played = [played_in_round(template, list(table)) for table in tables]

    def met(rule, kind):
        """Player 0's reaches times the reaches that it meets, at all places of a kind `[n, E]`."""
        own, other = (
            of_groups(played[p][kind], p, buckets[p]) * reach[p][:, None] for p in range(2)
        )
        return jnp.sum(own * rule(deal, other.reshape(len(other), -1)).reshape(other.shape), axis=0)

    total = jnp.float32(0)
    if played[0][FOLDED]:
        sign = jnp.asarray(np.where(np.array(template.loser) == 0, -1, 1), jnp.float32)
        total += jnp.sum(sign[:, None] * fold_chips * met(folds, FOLDED))
    if any(template.shown):
        shown = jnp.asarray(template.shown)[:, None]
        total += jnp.sum(jnp.where(shown, end_chips, 0) * met(showdowns, END))
    return total
