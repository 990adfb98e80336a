"""Positions: the public states of a belief-level game with perfect information.

Each player has one row (`num_rows` is (1, 1)) and chance never moves, so that an action leads from
one position to exactly one other.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgames.beliefs.contract import BeliefGame, PublicState


def require_perfect_information(game: BeliefGame) -> None:
    """Refuses games in which a player may be in several information states of a public state.

    Chance moves cannot be told from the sizes of a game; they are not examined.

    Raises:
      ValueError: `game` is no belief-level game, or its `num_rows` is not (1, 1).
    """
    if not isinstance(game, BeliefGame):
        raise ValueError(
            f"game={game!s:.80} is a {type(game).__name__}; allowed: a BeliefGame, such as"
            " make('pgx:connect_four').belief_game()"
        )
    if game.num_rows != (1, 1):
        raise ValueError(
            f"{game.name} has num_rows={game.num_rows}; allowed: (1, 1), perfect information"
        )


def position_after(game: BeliefGame, state: PublicState, action: Int[Array, ""]) -> PublicState:
    """The position after a legal action; unspecified after others and at terminals."""
    pairs = game.follow(state, jnp.zeros(2, jnp.int32), action)
    return game.child(state, jnp.argmax(jnp.all(pairs >= 0, axis=1)).astype(jnp.int32))


def num_actions(game: BeliefGame) -> int:
    """A, the actions of the player who has more."""
    return max(game.num_actions)


def legal_actions(game: BeliefGame, state: PublicState) -> Bool[Array, " A"]:
    """The legal actions of the player to move; all False at terminals."""
    first, second = (
        jnp.pad(legal[:, 0], (0, num_actions(game) - len(legal))) for legal in game.legal(state)
    )
    return first | second


def payoff(game: BeliefGame, state: PublicState, player: Int[Array, ""] | int) -> Float[Array, ""]:
    """What `player` gets at a terminal; unspecified elsewhere."""
    won = game.terminal_values(state, 0, jnp.ones(1, jnp.float32))[0]
    return jnp.where(jnp.equal(player, 0), won, -won)
