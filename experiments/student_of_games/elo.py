"""Elo ratings: the strengths under which the results of games are likeliest (Bradley and Terry)."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

_PER_UNIT = 400 / math.log(10)  # Elo points of one unit of log-odds
_STEPS = 1000


def ratings(
    points: Float[np.ndarray, "N N"], *, drawn: float = 1.0
) -> tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]:
    """Elo of N players, of whom player 0 has 0, and standard errors.

    `points[i, j]` are those that i has from games with j, 1 for a win and half of it for a draw.
    Every pair that met counts as having drawn `drawn` more games, so that those who always won have
    ratings too.

    Raises:
      ValueError: no games connect some players to player 0.
    """
    points = points + np.where(points + points.T > 0, drawn / 2, 0)
    games = points + points.T
    _check_connected(games)
    strength = np.zeros(len(points))
    for _ in range(_STEPS):  # Newton's method: the likelihood is concave
        expected = 1 / (1 + np.exp(strength[None, :] - strength[:, None]))
        gradient = np.sum(points - games * expected, axis=1)[1:]
        each = games * expected * expected.T
        information = (np.diag(each.sum(axis=1)) - each)[1:, 1:]
        change = np.linalg.solve(information, gradient)
        strength[1:] += np.clip(change, -1, 1)
        if np.abs(change).max(initial=0) < 1e-9:
            break
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    return _PER_UNIT * strength, _PER_UNIT * np.concatenate([[0], errors])


def difference(share: float) -> float:
    """By how much a player is stronger that gets this share of the points, between 0 and 1."""
    return _PER_UNIT * math.log(share / (1 - share))


def _check_connected(games):
    met = (games > 0) | np.eye(len(games), dtype=bool)
    reached = met[0]
    for _ in games:
        reached = met[reached].any(axis=0)
    if not reached.all():
        alone = np.flatnonzero(~reached).tolist()
        raise ValueError(f"no games connect players {alone} to player 0")
