"""pgx's Go with faster steps; all states are pgx's.

pgx sums over the whole board for every point to know the liberties of chains, twice in a step, and
counts the area after every move. Here a chain's liberties are summed over its stones, and the area
is counted when a game is over.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgames.adapters.without_branches import WithoutBranches
from jaxgames.arrays import choose

_KOMI = 7.5


class _Rules:
    """What differs from pgx's rules of Go without players.

    A stone on the board is the number of its chain's first point, from 1 on, negative if it is
    white.
    """

    def step(self, state, action):
        from pgx._src.games import go  # makes arrays when imported

        points = self.size**2
        passed = go._apply_pass(state._replace(ko=jnp.int32(-1)))
        placed = self._with_stone(state, jnp.minimum(action, points - 1))
        after = choose(action < points, placed, passed)
        colours = jnp.sign(after.board)
        after = after._replace(board_history=jnp.roll(after.board_history, 1, 0).at[0].set(colours))
        history = after.hash_history.at[after.step_count].set(go._compute_hash(after))
        after = after._replace(hash_history=history)
        after = after._replace(is_psk=go._is_psk(after))
        return after._replace(step_count=after.step_count + 1)

    def _with_stone(self, state, action):
        """The state with one more stone, and without those that it captures."""
        board, own = state.board, 1 - 2 * state.color
        neighbours = jnp.asarray(_neighbours(self.size))[action]
        inside = neighbours >= 0
        chains = board[neighbours]

        # Chains whose only liberty was this point.
        free = (board == 0) & (jnp.arange(board.shape[0]) != action)
        breathes = self._beside(free, jnp.logical_or)
        stones = board[:, None] == chains  # [points, 4]
        taken = inside & (chains * own < 0) & ~(stones & breathes[:, None]).any(axis=0)
        captured = stones & taken
        number = jnp.sum(captured, dtype=jnp.int32)  # a chain on two sides counts twice, as in pgx
        surrounded = (~inside | (chains * own < 0)).all()
        ko = jnp.where(surrounded & (number == 1), neighbours[jnp.argmax(taken)], -1)
        board = jnp.where(captured.any(axis=1), 0, board)

        # One chain of the stone and the own chains beside it.
        joins = inside & (chains * own > 0)
        first = jnp.min(jnp.where(joins, jnp.abs(chains), action + 1))
        first = jnp.minimum(first, action + 1) * own
        joined = (stones & joins).any(axis=1) | (jnp.arange(board.shape[0]) == action)
        return state._replace(
            board=jnp.where(joined, first, board).astype(jnp.int32),
            consecutive_pass_count=jnp.int32(0),
            num_captured=state.num_captured.at[state.color].add(number),
            ko=ko,
        )

    def legal_action_mask(self, state):
        board, own = state.board, 1 - 2 * state.color
        # Of each stone: how many empty points there are beside it, the sum of their numbers and of
        # these squared; then of its chain. All are one point if the square of the sum is as large
        # as it can be.
        number = jnp.where(board == 0, jnp.arange(1, board.shape[0] + 1, dtype=jnp.int32), 0)
        counts = jnp.stack([(board == 0).astype(jnp.int32), number, number**2])
        counts = self._beside(counts, jnp.add)
        chain = jnp.abs(board)  # 0 where there is no stone
        of_chain = jnp.zeros((chain.shape[0] + 1, 3), jnp.int32).at[chain].add(counts.T)
        count, total, squares = of_chain[chain].T
        in_atari = total**2 == squares * count
        lives = jnp.where(board * own > 0, ~in_atari, in_atari & (board != 0))
        legal = (board == 0) & self._beside((board == 0) | lives, jnp.logical_or)
        legal &= jnp.arange(board.shape[0]) != state.ko
        return jnp.append(legal, True)  # one may always pass

    def rewards(self, state):
        """Of black and white, 0 before the end."""
        over = self.is_terminal(state)
        # By colour: its stones, and the points from which no way leads to the other's.
        boards = jnp.stack([jnp.sign(state.board), -jnp.sign(state.board)])

        def spread(carry):
            boards, _ = carry
            reached = (boards == 0) & self._beside(boards < 0, jnp.logical_or)
            return jnp.where(reached, -1, boards), reached.any()

        boards, _ = jax.lax.while_loop(lambda carry: carry[1], spread, (boards, over))
        black, white = jnp.sum(boards >= 0, axis=1)
        won = jnp.where(black - self.komi > white, 1.0, -1.0)
        won = jnp.where(state.is_psk, 2.0 * (state.color == 0) - 1, won)
        return jnp.where(over, jnp.stack([won, -won]), 0).astype(jnp.float32)

    def observe(self, state, color=None):
        color = state.color if color is None else color
        own = 1 - 2 * color
        seen = state.board_history.T[:, :, None] == jnp.stack([own, -own])
        seen = seen.reshape(-1, 2 * self.history_length)
        turn = jnp.broadcast_to(color == 1, (seen.shape[0], 1))
        return jnp.concatenate([seen, turn], axis=1).reshape(self.size, self.size, -1)

    def _beside(self, values, combine):
        """What is on the four sides of all points `[..., points]`, combined; 0 beyond the edge."""
        size = self.size
        boards = values.reshape(*values.shape[:-1], size, size)
        wide = jnp.pad(boards, [(0, 0)] * (values.ndim - 1) + [(1, 1)] * 2)
        sides = [
            wide[..., :-2, 1:-1],
            wide[..., 2:, 1:-1],
            wide[..., 1:-1, :-2],
            wide[..., 1:-1, 2:],
        ]
        return functools.reduce(combine, sides).reshape(values.shape)


@functools.cache
def _neighbours(size):
    """The points above, below, left and right of each `[points, 4]`, in pgx's order; -1: none."""
    point = np.arange(size**2).reshape(size, size)
    wide = np.pad(point, 1, constant_values=-1)
    sides = [wide[:-2, 1:-1], wide[2:, 1:-1], wide[1:-1, :-2], wide[1:-1, 2:]]
    return np.stack(sides, axis=-1).reshape(-1, 4).astype(np.int32)


@functools.cache
def fast_go(size: int) -> Any:
    """`pgx.go.Go` with the same states and steps."""
    from pgx._src.games import go  # makes arrays when imported
    from pgx.go import Go

    class Rules(_Rules, go.Game):
        pass

    class FastGo(WithoutBranches, Go):
        pass

    env = FastGo(size=size, komi=_KOMI)
    env._game = Rules(size=size, komi=_KOMI)
    return env


ENVIRONMENTS = {f"go_{size}x{size}": functools.partial(fast_go, size) for size in (9, 19)}
