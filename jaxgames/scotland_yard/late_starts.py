"""Random positions in the middle of a game, right after Mr X has shown himself.

All know where he is then, so that such a position is a game of its own. In self-play that begins
there now and then, networks learn the last rounds from the first games on.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key

from jaxgames.scotland_yard.board import Board
from jaxgames.scotland_yard.maps import BLACK
from jaxgames.scotland_yard.rules import ScotlandYard


def late_start(game: ScotlandYard, key: Key[Array, ""]) -> tuple[Board, Int[Array, ""]]:
    """A position after which a detective moves.

    One of the reveals before the last round is drawn, and different stations for all. Everybody has
    paid for that many moves with cards drawn from a detective's, and Mr X has got the detectives';
    the numbers of his black and double cards are drawn. All that is drawn is equally likely.

    Args:
      game: the rules.
      key: consumed.

    Returns:
      The board, and Mr X's station, counted from 0.

    Raises:
      ValueError: Mr X never shows himself before the last round.
    """
    reveals = [moves for moves in np.flatnonzero(game.reveal_mask) if moves < game.rounds]
    if not reveals:
        raise ValueError(f"late starts: in {game} Mr X must show himself before the last round")
    which, places, pay, black, double = jax.random.split(key, 5)
    moves = jax.random.choice(which, jnp.asarray(reveals, jnp.int32))
    stations = jax.random.permutation(places, jnp.arange(game.num_stations, dtype=jnp.int32))
    deck = jnp.asarray(np.repeat(np.arange(BLACK), game.detective_tickets), jnp.int32)
    decks = jax.vmap(lambda k: jax.random.permutation(k, deck))(
        jax.random.split(pay, 1 + game.detectives)
    )
    paid = (jnp.arange(len(deck), dtype=jnp.int32) < moves)[None, :, None]
    kinds = jnp.arange(BLACK + 1, dtype=jnp.int32)[None, None, :]
    spent = jnp.sum((decks[:, :, None] == kinds) & paid, axis=1, dtype=jnp.int32)  # [1 + D, 4]
    board = game.initial_board()
    tickets = (board.tickets - spent).at[0].add(jnp.sum(spent[1:], axis=0))
    tickets = jnp.maximum(tickets, 0)
    left = jax.random.randint(black, (), 0, game.black + 1, jnp.int32)
    board = board.replace(
        detectives=stations[1 : 1 + game.detectives],
        tickets=tickets.at[0, BLACK].set(left),
        doubles=jax.random.randint(double, (), 0, game.doubles + 1, jnp.int32),
        moves=moves,
        turn=jnp.int32(1),
    )
    return board, stations[0]
