"""Random positions in the middle of a game, right after Mr X has shown himself.

All know where he is then, so that such a position is a game of its own. Self-play that begins there
now and then has examples of the last rounds from the first games on.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from jaxgames.scotland_yard.board import Board
from jaxgames.scotland_yard.maps import BLACK
from jaxgames.scotland_yard.rules import ScotlandYard


def reveals_before_the_end(game: ScotlandYard) -> tuple[int, ...]:
    """After which of his moves Mr X shows himself, but for the last round.

    Raises:
      ValueError: after none.
    """
    reveals = tuple(int(n) for n in np.flatnonzero(game.reveal_mask) if n < game.rounds)
    if not reveals:
        raise ValueError(f"late starts: in {game} Mr X must show himself before the last round")
    return reveals


def late_start(game: ScotlandYard, key: Key[Array, ""]) -> tuple[Board, Int[Array, ""]]:
    """A position after a move of Mr X with which he shows himself.

    Which of these moves it was is drawn, then different stations for all, and how many black and
    double cards Mr X has used; each with equal probabilities. The players have paid for their other
    moves with tickets drawn from a detective's, as far as they have them, and Mr X has got those of
    the detectives.

    Args:
      game: the rules.
      key: consumed.

    Returns:
      The board, on which the first detective moves, and Mr X's station, counted from 0.

    Raises:
      ValueError: Mr X never shows himself before the last round.
    """
    which, places, pay, black_key, double_key = jax.random.split(key, 5)
    moves = jax.random.choice(which, jnp.asarray(reveals_before_the_end(game), jnp.int32))
    stations = jax.random.permutation(places, jnp.arange(game.num_stations, dtype=jnp.int32))
    doubles = _drawn(double_key, jnp.minimum(game.doubles, moves // 2))
    black = _drawn(black_key, jnp.minimum(game.black, moves))
    # a double card is two moves of Mr X in one turn, and in this turn no detective has moved yet
    theirs = jnp.full(game.detectives, moves - 1 - doubles, jnp.int32)
    paid = jnp.concatenate([(moves - black)[None], theirs])
    spent = jax.vmap(_spent, (0, 0, None))(
        jax.random.split(pay, 1 + game.detectives), paid, game.detective_tickets
    )
    board = game.initial_board()
    tickets = (board.tickets - spent).at[0].add(jnp.sum(spent[1:], axis=0))
    tickets = jnp.maximum(tickets, 0).at[0, BLACK].add(-black)
    board = board.replace(
        detectives=stations[1 : 1 + game.detectives],
        tickets=tickets,
        doubles=game.doubles - doubles,
        moves=moves,
        turn=jnp.int32(1),
    )
    return board, stations[0]


def _drawn(key, most):
    """A number from 0 to `most`."""
    return jax.random.randint(key, (), 0, most + 1, jnp.int32)


def _spent(key, moves, tickets):
    """How many tickets of each kind a detective spends in `moves` moves `[4]`."""
    deck = jnp.asarray(np.repeat(np.arange(BLACK), tickets), jnp.int32)
    used = jnp.arange(len(deck), dtype=jnp.int32) < moves
    kinds = jnp.arange(BLACK + 1, dtype=jnp.int32)
    drawn = jax.random.permutation(key, deck)
    return jnp.sum((drawn[:, None] == kinds[None]) & used[:, None], axis=0, dtype=jnp.int32)
