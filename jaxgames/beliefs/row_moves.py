"""Which rows of a belief-level game lead to which rows of public children, as lists of moves."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxgames.arrays import at
from jaxgames.beliefs.contract import BeliefGame
from jaxgames.beliefs.listing import NO_STATE, Listing
from jaxgames.core import TERMINAL, record

WATCHING = -1  # of a move at which the player does not act
_BLOCK = 128  # public states looked at together


@record
class RowMoves:
    """E moves of a player's rows to rows of public children, as NumPy arrays.

    A row that acts has a move for each action and child that the action may lead to; a row that
    does not act has one for each child that it may come to. They are in the order of the public
    states above, then of the rows there.
    """

    state: np.ndarray  # [E] number of the public state above in the listing
    row: np.ndarray  # [E] the player's row there
    action: np.ndarray  # [E] what the player plays, WATCHING where it does not act
    slot: np.ndarray  # [E] which child of the public state above
    child: np.ndarray  # [E] number of that child in the listing
    row_below: np.ndarray  # [E] the player's row there


def row_moves(game: BeliefGame, listing: Listing) -> tuple[RowMoves, RowMoves]:
    """The moves of both players' rows, read off `down` of reaches of a single row or action.

    Args:
      game: any belief-level game.
      listing: all its public states.

    Returns:
      Player 0's and player 1's.

    Raises:
      ValueError: a reach of 1 becomes neither 0 nor 1 in some child.
    """
    actor, child = np.asarray(listing.actor), np.asarray(listing.child)
    above = jax.tree.map(np.asarray, listing.state)
    parts: tuple[list, list] = ([], [])
    for acting in range(2):
        # where neither acts, each is watching: its moves are found beside those of the other
        numbers = np.flatnonzero((actor != TERMINAL) & (actor != 1 - acting))
        for begin in range(0, len(numbers), _BLOCK):
            states = numbers[begin : begin + _BLOCK]
            padded = np.resize(states, _BLOCK)  # one compilation serves all blocks
            there = at(above, padded)
            found = _unit_moves(game, there, child[padded] != NO_STATE, acting)
            for player, (moves, good) in enumerate(found):
                counts = (player != acting) | (actor[states] == acting)
                if not np.asarray(good)[: len(states)][counts].all():
                    raise ValueError(f"{game.name}: down takes a reach of 1 to another than 0 or 1")
                moves = np.asarray(moves)[: len(states)] & counts[:, None, None, None, None]
                number, row, action, slot, below = np.nonzero(moves)
                state = states[number]
                action = action if player == acting else np.full_like(action, WATCHING)
                parts[player].append((state, row, action, slot, child[state, slot], below))
    return _joined(parts[0]), _joined(parts[1])


def _joined(parts):
    """The parts as one list, in the order of the public states above."""
    columns = np.concatenate([np.stack(part) for part in parts], axis=1)
    state, row, action, slot, child, below = columns[:, np.argsort(columns[0], kind="stable")]
    return RowMoves(state=state, row=row, action=action, slot=slot, child=child, row_below=below)


@functools.partial(jax.jit, static_argnames="acting")
@functools.partial(jax.vmap, in_axes=(None, 0, 0, None))
def _unit_moves(game, state, exists, acting):
    """For both players, where `down` takes a reach of 1 in a single row, and whether it becomes 0
    or 1 in all children that exist.

    Moves are `[N, A, K, N]` by row and action for the player who acts, and `[N, 1, K, N]` by row
    for one who does not.
    """
    down = jax.jit(game.down)  # traced once for all its uses
    children = jnp.arange(game.num_children, dtype=jnp.int32)
    every = tuple(jnp.ones(n) for n in game.num_rows)
    sizes = [*zip(game.num_actions, game.num_rows, strict=True)]
    none = tuple(jnp.zeros(size) for size in sizes)

    def below(player, reach, policy):
        """The player's reaches `[K, N]` in the children, from its reach and policy."""
        given = (
            tuple(new if p == player else old for p, old in enumerate(pair))
            for new, pair in ((reach, every), (policy, none))
        )
        reaches, policies = given
        return jax.vmap(lambda child: down(state, child, reaches, policies)[player])(children)

    found = []
    for p, (actions, rows) in enumerate(sizes):
        if p == acting:
            policies = jnp.eye(rows * actions).reshape(-1, rows, actions).swapaxes(1, 2)
            reach = jax.vmap(lambda policy, p=p: below(p, every[p], policy))(policies)
            reach = reach.reshape(rows, actions, *reach.shape[1:])
        else:
            reach = jax.vmap(lambda reach, p=p: below(p, reach, none[p]))(jnp.eye(rows))[:, None]
        reach = jnp.where(exists[:, None], reach, 0)
        found.append((reach != 0, jnp.all((reach == 0) | (reach == 1))))
    return tuple(found)
