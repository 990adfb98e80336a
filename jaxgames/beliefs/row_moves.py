"""Which rows of a belief-level game lead to which rows of public children, as lists of moves."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

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
    inner = np.flatnonzero(actor != TERMINAL)
    above = jax.tree.map(np.asarray, listing.state)
    parts: tuple[list, list] = ([], [])
    for begin in range(0, len(inner), _BLOCK):
        states = inner[begin : begin + _BLOCK]
        padded = np.resize(states, _BLOCK)  # one compilation serves all blocks
        reaches = jax.tree.map(
            np.asarray, _unit_reaches(game, jax.tree.map(lambda x, p=padded: x[p], above))
        )
        for player, (acted, seen) in enumerate(reaches):
            acts = (actor[states] == player)[:, None, None, None, None]
            exists = (child[states] != NO_STATE)[:, None, None, :, None]
            for reach, where, watches in ((acted, acts, False), (seen, ~acts, True)):
                reach = np.where(where & exists, reach[: len(states)], 0)
                if not np.isin(reach, (0, 1)).all():
                    raise ValueError(f"{game.name}: down takes a reach of 1 to another than 0 or 1")
                number, row, action, slot, below = np.nonzero(reach)
                state = states[number]
                action = np.full_like(action, WATCHING) if watches else action
                parts[player].append((state, row, action, slot, child[state, slot], below))
    return _joined(parts[0]), _joined(parts[1])


def _joined(parts):
    """The parts as one list, in the order of the public states above."""
    columns = np.concatenate([np.stack(part) for part in parts], axis=1)
    state, row, action, slot, child, below = columns[:, np.argsort(columns[0], kind="stable")]
    return RowMoves(state=state, row=row, action=action, slot=slot, child=child, row_below=below)


@jax.jit
@functools.partial(jax.vmap, in_axes=(None, 0))
def _unit_reaches(game, state):
    """`down` of a reach of 1 in a single row, into all children, for both players.

    Reaches are `[N, A, K, N]` by row and action here, as they are where the player acts, and
    `[N, 1, K, N]` by row here, as they are where the player does not act.
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

    reaches = []
    for p, (actions, rows) in enumerate(sizes):
        policies = jnp.eye(rows * actions).reshape(-1, rows, actions).swapaxes(1, 2)
        acted = jax.vmap(lambda policy, p=p: below(p, every[p], policy))(policies)
        seen = jax.vmap(lambda reach, p=p: below(p, reach, none[p]))(jnp.eye(rows))
        reaches.append((acted.reshape(rows, actions, *acted.shape[1:]), seen[:, None]))
    return tuple(reaches)
