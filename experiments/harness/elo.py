"""Elo ratings by maximum likelihood, in the model of Bradley and Terry (1952)."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

_PER_UNIT = 400 / math.log(10)  # Elo points of one unit of log-odds
_STEPS = 1000


def ratings(
    points: Float[np.ndarray, "*R N N"], *, drawn: float | Float[np.ndarray, "*R"] = 1.0
) -> tuple[Float[np.ndarray, "*R N"], Float[np.ndarray, "*R N"]]:
    """Computes the ratings of N players, by one or more tables of points.

    Args:
      points: those of player i from games with j at `[i, j]`: 1 for a win, 1/2 for a draw.
      drawn: how many drawn games are added for every pair that played, so that the ratings of
        players who won all their games are finite.

    Returns:
      Elo ratings, that of player 0 being 0, and their standard errors.

    Raises:
      ValueError: some players are not connected to player 0 by games.
    """
    drawn = np.asarray(drawn, float)[..., None, None]
    points = points + np.where(points + points.swapaxes(-1, -2) > 0, drawn / 2, 0)
    games = points + points.swapaxes(-1, -2)
    _check_connected(games)
    strength, unit = np.zeros(points.shape[:-1]), np.eye(points.shape[-1])
    for _ in range(_STEPS):  # Newton's method: the likelihood is concave
        expected = 1 / (1 + np.exp(strength[..., None, :] - strength[..., :, None]))
        gradient = np.sum(points - games * expected, axis=-1)[..., 1:]
        each = games * expected * expected.swapaxes(-1, -2)
        information = (unit * each.sum(axis=-1)[..., None] - each)[..., 1:, 1:]
        change = np.linalg.solve(information, gradient[..., None])[..., 0]
        strength[..., 1:] += np.clip(change, -1, 1)
        if np.abs(change).max(initial=0) < 1e-9:
            break
    errors = np.sqrt(np.diagonal(np.linalg.inv(information), axis1=-2, axis2=-1))
    errors = np.concatenate([np.zeros((*errors.shape[:-1], 1)), errors], axis=-1)
    return _PER_UNIT * strength, _PER_UNIT * errors


def difference(share: float) -> float:
    """The difference in Elo at which the stronger player is expected to get this share of the
    points, between 0 and 1."""
    return _PER_UNIT * math.log(share / (1 - share))


def expected_share(stronger: float) -> float:
    """Of the points, what a player is expected to get who is so much stronger, in Elo."""
    return 1 / (1 + math.exp(-stronger / _PER_UNIT))


def _check_connected(games):
    count = games.shape[-1]
    played = (games > 0) | np.eye(count, dtype=bool)
    connected = played[..., 0, :]
    for _ in range(count):
        connected = (connected[..., None] & played).any(axis=-2)
    if not connected.all():
        others = np.flatnonzero(~connected.reshape(-1, count).all(axis=0)).tolist()
        raise ValueError(f"points: no games connect players {others} to player 0")
