"""Legal moves of pgx's chess and Gardner chess, by attacks on the king instead of trials.

pgx makes every move that a piece may make and looks whether the king can be taken afterwards. Here
the king's lines are looked at once: they tell who gives check, which squares end it, and which
pieces are pinned. That is what chess programs do; the moves are the same.

Tables are looked up by products with matrices of zeros and ones: processors are fast at them, and
XLA, which computes anew what is looked up by index at many places, computes factors once.

Boards are pgx's: square `file * size + rank` as the player to move sees the board, whose own pieces
are positive and whose pawns go up. Actions are pgx's, too: `square * P + plane`, where the planes
are nine underpromotions, eight lines of `size - 1` squares each, and eight jumps of the knight.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

EMPTY, PAWN, KNIGHT, BISHOP, ROOK, QUEEN, KING = range(7)  # the opponent's are negative
_WALL = 7  # beyond the edge: stops like a piece of one's own
_NO_LINE = 8

# Steps (in ranks, in files) of lines and jumps in the order of pgx's planes, and the lines whose
# squares stand there from the farthest to the nearest.
_LINES = ((-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (1, 1), (1, -1), (-1, 1))
_FARTHEST_FIRST = (0, 2, 4, 6)
_JUMPS = ((-1, -2), (1, -2), (-2, -1), (2, -1), (-1, 2), (1, 2), (-2, 1), (2, 1))
_FORWARD, _LEFT, _RIGHT = (_LINES.index(step) for step in ((1, 0), (0, -1), (0, 1)))
_CAPTURES = np.array([_LINES.index((1, 1)), _LINES.index((1, -1))])  # of pawns
_PROMOTIONS = np.array([_FORWARD, *_CAPTURES])  # pgx's order of lines in underpromotions
_STRAIGHT = np.array([0 in step for step in _LINES])
_PAWN_ATTACKS = np.isin(np.arange(8), _CAPTURES)  # lines on which an enemy's pawn attacks us
_OPPOSITE = np.array([_LINES.index((-rank, -file)) for rank, file in _LINES])


@dataclasses.dataclass(frozen=True)
class _Grid:
    """The geometry of a square board, in NumPy; S squares, and square S is beyond the edge.

    A group of planes has the same condition: the farthest step that the piece can go. Groups are
    the 8 lines, jumps, and 3 kinds of underpromotion.
    """

    size: int
    lines: Int[np.ndarray, "S1 8 D"]  # squares from the nearest
    jumps: Int[np.ndarray, "S1 8"]
    line_to: Int[np.ndarray, "S S"]  # on which line of the first square the second is, or _NO_LINE
    steps_to: Int[np.ndarray, "S S"]  # and how many squares are between them
    seen: _Table  # [D * S * 8] what stands on lines
    target: _Table  # [S * P] where actions lead
    group: _Table  # [P] of planes
    step: Int[np.ndarray, " P"]
    plane: Int[np.ndarray, "8 D"]  # of a step on a line
    advance: Int[np.ndarray, " S"]  # how many squares a pawn may go at once


class _Table:
    """Looks up small numbers at constant places."""

    def __init__(self, places: Int[np.ndarray, "..."], size: int, beyond: int = 0):
        """Where to look, among how many entries, and what is found at other places."""
        self._shape, places = places.shape, places.ravel()
        self._one_hot = (np.arange(size)[:, None] == places).astype(np.float32)
        self._beyond = np.where(places < size, 0, beyond).astype(np.float32)

    def __call__(self, entries: Array) -> Array:
        found = entries.astype(jnp.float32) @ self._one_hot + self._beyond
        return found.reshape(*entries.shape[:-1], *self._shape)


@functools.cache
def _grid(size: int) -> _Grid:
    """The geometry of a board. On the board of 8, pawns may first go two squares."""
    squares, reach = size * size, size - 1
    file, rank = np.divmod(np.arange(squares), size)

    def targets(steps):
        """The squares some steps away [S + 1, ...], `steps` [..., 2] in ranks and files."""
        up, right = (np.add.outer(x, steps[..., axis]) for axis, x in enumerate((rank, file)))
        inside = (up >= 0) & (up < size) & (right >= 0) & (right < size)
        found = np.where(inside, right * size + up, squares)
        return np.concatenate([found, np.full((1, *found.shape[1:]), squares)]).astype(np.int32)

    lines = targets(np.array(_LINES)[:, None] * np.arange(1, size)[:, None])
    jumps = targets(np.array(_JUMPS))
    line_to = np.full((squares, squares + 1), _NO_LINE, np.int32)
    steps_to = np.zeros((squares, squares + 1), np.int32)
    for line, step in np.ndindex(8, reach):
        line_to[np.arange(squares), lines[:-1, line, step]] = line
        steps_to[np.arange(squares), lines[:-1, line, step]] = step

    # The planes: underpromotions to three pieces, lines, jumps.
    groups = [9, 10, 11] * 3 + [line for line in range(8) for _ in range(reach)] + [8] * 8
    step = np.tile(np.arange(reach), (8, 1))
    step[_FARTHEST_FIRST, :] = step[_FARTHEST_FIRST, ::-1]
    on_lines = np.take_along_axis(lines[:-1], step[None], axis=2).reshape(squares, -1)
    under = np.tile(lines[:-1, _PROMOTIONS, 0], (1, 3))
    return _Grid(
        size=size,
        lines=lines,
        jumps=jumps,
        line_to=line_to[:, :-1],
        steps_to=steps_to[:, :-1],
        seen=_Table(lines[:-1].transpose(2, 0, 1), squares, beyond=_WALL),
        target=_Table(np.concatenate([under, on_lines, jumps[:-1]], axis=1), squares),
        group=_Table(np.array(groups), 12),
        step=np.concatenate([np.zeros(9, int), step.ravel(), np.zeros(8, int)]),
        plane=9 + reach * np.arange(8)[:, None] + step,  # each order is its own inverse
        advance=np.where((size == 8) & (rank == 1), 2, 1),
    )


def legal_actions(
    board: Int[Array, " S"],
    en_passant: Int[Array, ""] | None = None,
    castling: Bool[Array, "2"] | None = None,
) -> Bool[Array, " A"]:
    """The legal actions of the player to move.

    Args:
      board: of 25 or 64 squares, with one king of each colour.
      en_passant: the square behind a pawn that has just gone two squares, else negative. None: the
        game has no such moves.
      castling: whether the player still may castle on the queen's and the king's side. None: the
        game has no castling.
    """
    grid = _grid(int(board.shape[0] ** 0.5))
    walled, king = _walled(board), jnp.argmax(board == KING)
    threats = _threats(grid, walled, king)
    actions = _ordinary_actions(grid, board, threats)

    # The king goes where nobody can take him; he himself hides no square behind him.
    without_king = _walled(jnp.where(board == KING, EMPTY, board))
    steps = jnp.asarray(grid.lines)[king, :, 0]
    arrivals = (16, 48) if castling is not None else ()  # of a king that castles
    attacked = _attacked(grid, without_king, jnp.append(steps, jnp.array(arrivals, steps.dtype)))
    origins, planes = [jnp.full(8, king)], [grid.plane[:, 0]]
    legal = [(walled[steps] <= EMPTY) & ~attacked[:8]]

    if castling is not None:
        sides = np.array([_LEFT, _RIGHT])
        crossed = attacked[sides] | attacked[8:] | threats.checked
        origins, planes = [*origins, jnp.full(2, king)], [*planes, grid.plane[sides, 1]]
        legal += [castling & _is_open_for_castling(board) & ~crossed]
    if en_passant is not None:
        pawns, exists = _en_passant(grid, board, king, en_passant)
        origins, planes = [*origins, pawns], [*planes, grid.plane[_CAPTURES, 0]]
        legal += [exists]
    found = jnp.concatenate(origins), np.concatenate(planes)
    return actions.at[found].max(jnp.concatenate(legal)).ravel()


@dataclasses.dataclass(frozen=True)
class _Threats:
    checked: Any  # [] bool
    ends_check: Any  # [S] bool: where a piece other than the king must go; all without check
    pinned_on: Any  # [S] the king's line on which the piece is pinned, or _NO_LINE


def _walled(board):
    """The board with the square beyond its edge."""
    return jnp.append(board, jnp.array(_WALL, board.dtype))


def _free(seen, axis=-1):
    """How many squares of lines are empty before the first piece."""
    steps = np.arange(seen.shape[axis], dtype=np.int32)
    steps = steps.reshape(-1, *[1] * (seen.ndim - 1)) if axis == 0 else steps
    return jnp.min(jnp.where(seen == EMPTY, seen.shape[axis], steps), axis=axis)


def _at(seen, step):
    """What stands on lines [..., D] at a step; EMPTY beyond them."""
    steps = np.arange(seen.shape[-1], dtype=np.int32)
    return jnp.sum(jnp.where(steps == step[..., None], seen, EMPTY), axis=-1)


def _enemy_slides(piece):
    """Whether an enemy's piece moves far on the lines [..., 8] on which it stands."""
    return (piece == -QUEEN) | (piece == np.where(_STRAIGHT, -ROOK, -BISHOP))


def _threats(grid, walled, king):
    """What the king's lines and jumps tell."""
    around = walled[jnp.asarray(grid.lines)[king]]  # [8, D]
    before = _free(around)
    first = _at(around, before)
    behind = np.arange(around.shape[1]) > before[:, None]
    second = _at(around, _free(jnp.where(behind, around, EMPTY)))
    checks = _enemy_slides(first) | ((first == -PAWN) & (before == 0) & _PAWN_ATTACKS)
    pins = (first > EMPTY) & _enemy_slides(second)
    jumps = jnp.asarray(grid.jumps)[king]
    knights = walled[jumps] == -KNIGHT
    number = jnp.sum(checks, dtype=jnp.int32) + jnp.sum(knights, dtype=jnp.int32)

    # By lines and squares [8, S].
    line, steps = jnp.asarray(grid.line_to)[king], jnp.asarray(grid.steps_to)[king]
    on_line, before = line == np.arange(8)[:, None], before[:, None]
    ends = on_line & checks[:, None] & (steps <= before)
    ends |= knights[:, None] & (jumps[:, None] == np.arange(line.shape[0]))
    pinned = on_line & pins[:, None] & (steps == before)
    return _Threats(
        checked=number > 0,
        ends_check=(number == 0) | ((number == 1) & ends.any(axis=0)),
        pinned_on=jnp.min(jnp.where(pinned, line, _NO_LINE), axis=0),
    )


def _attacked(grid, walled, squares):
    """Whether the enemy attacks squares [T]."""
    around = walled[jnp.asarray(grid.lines)[squares]]  # [T, 8, D]
    first, nearest = _at(around, _free(around)), around[:, :, 0]
    found = _enemy_slides(first) | (nearest == -KING) | ((nearest == -PAWN) & _PAWN_ATTACKS)
    knights = walled[jnp.asarray(grid.jumps)[squares]] == -KNIGHT
    return (found | knights).any(axis=1)


def _ordinary_actions(grid, board, threats):
    """Actions [S, P] of all pieces but the king, captures in passing left out."""
    own, pinned = board[:, None], threats.pinned_on[:, None]
    seen = grid.seen(board)  # [D, S, 8]: reductions over the first axis are the fast ones
    free, nearest = _free(seen, axis=0), seen[0]
    along = (pinned == _NO_LINE) | (pinned == np.arange(8)) | (pinned == _OPPOSITE)

    # How far the pieces can go on their lines [S, 8], by jumps and in underpromotions; -1: not at
    # all.
    slides = (own == QUEEN) | (own == np.where(_STRAIGHT, ROOK, BISHOP))
    takes = jnp.where((nearest < EMPTY) & _PAWN_ATTACKS, 0, -1)
    advances = jnp.minimum(free, grid.advance[:, None]) - 1
    pawns = jnp.where(np.arange(8) == _FORWARD, advances, takes)
    pawns = jnp.where(along & (own == PAWN), pawns, -1)
    lines = jnp.where(along & slides, free, pawns)
    leaps = jnp.where((own == KNIGHT) & (pinned == _NO_LINE), 0, -1)
    last = (np.arange(board.shape[0]) % grid.size == grid.size - 2)[:, None]
    under = jnp.where(last, pawns[:, _PROMOTIONS], -1)

    far = grid.group(jnp.concatenate([lines, leaps, under], axis=1))
    enters = grid.target((board <= EMPTY) & threats.ends_check)
    return (enters > 0) & (grid.step <= far)


def _en_passant(grid, board, king, target):
    """Where pawns stand that may capture in passing [2], and whether they do. Two pawns leave their
    line at once, so that these moves are tried."""
    origins = target - np.array([1 + grid.size, 1 - grid.size])
    taken = target - 1
    exists = (target >= 0) & (origins >= 0) & (origins < board.shape[0])
    exists &= (board[origins] == PAWN) & (board[taken] == -PAWN)

    def is_safe(origin):
        after = board.at[jnp.stack([origin, taken])].set(EMPTY).at[target].set(PAWN)
        return ~_attacked(grid, _walled(after), king[None])[0]

    return jnp.where(exists, origins, 0), exists & jax.vmap(is_safe)(origins)


def _is_open_for_castling(board):
    """Whether king and rook stand at home with nothing between, on the queen's, the king's side."""
    rooks = board[np.array([0, 56])] == ROOK
    between = jnp.stack([board[np.array([8, 16, 24])], board[np.array([40, 48, 48])]])
    return rooks & (board[32] == KING) & (between == EMPTY).all(axis=1)
