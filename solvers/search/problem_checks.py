"""Checks of a search problem outside of `jit`, where values can be examined."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from jaxgames.beliefs.contract import BeliefGame
from jaxgames.core import TERMINAL
from solvers.search.search_state import NO_RESOLVER, NO_STEP, GrowingTreeCfr, Problem


def check_problem(game: BeliefGame, problem: Problem, *, settings: GrowingTreeCfr) -> None:
    """Checks one problem, unbatched and not traced.

    Args:
      game: that is to be searched.
      problem: to check.
      settings: of the search.

    Returns:
      Nothing: the problem can be searched if no error is raised.

    Raises:
      ValueError: reaches have the wrong shape, are negative or not finite, or are all 0; chance
        never deals a pair of rows that both players reach; the re-solver is nobody; the opponent's
        opt-out values have the wrong shape or are not finite; or the path does not exist in the
        game, ends it, or is longer than `settings.max_path`.
    """
    reach, rows = [np.asarray(own) for own in problem.reach], game.rows(problem.state)
    if len(reach) != len(rows):
        raise ValueError(f"reach is of {len(reach)} players, not {len(rows)}, in {game.name}")
    for player, (own, size) in enumerate(zip(reach, game.num_rows, strict=True)):
        if own.shape != (size,):
            raise ValueError(
                f"reach[{player}] has shape {own.shape}, not {(size,)}, in {game.name}"
            )
        if not (np.isfinite(own) & (own >= 0)).all():
            raise ValueError(f"reach[{player}] of {game.name} must be at least 0 and finite")
        if not own[np.asarray(rows[player])].sum() > 0:
            raise ValueError(
                f"reach[{player}] sums to 0 over the information states that {game.name} has there"
            )
    second = jnp.asarray(np.where(rows[1], reach[1], 0))
    mass = np.asarray(game.compatible(problem.state, 0, second))
    if not (mass * np.where(rows[0], reach[0], 0)).sum() > 0:
        raise ValueError(
            f"reach: {game.name} deals no pair of rows that both reach[0] and reach[1] contain"
        )
    _check_gadget(game, problem)
    _check_path(game, problem, settings)


def _check_gadget(game, problem):
    resolver = int(problem.resolver)
    if resolver not in (NO_RESOLVER, 0, 1):
        raise ValueError(
            f"resolver={resolver} is no player of {game.name}; allowed: 0, 1, or {NO_RESOLVER} for"
            " a search without a gadget"
        )
    if resolver == NO_RESOLVER:
        return
    opponent = 1 - resolver
    opt_out, size = np.asarray(problem.opt_out[opponent]), game.num_rows[opponent]
    if opt_out.shape != (size,) or not np.isfinite(opt_out).all():
        raise ValueError(
            f"opt_out[{opponent}]={opt_out}; allowed: {size} finite values, one for each row of"
            f" player {opponent} of {game.name}"
        )


def _check_path(game, problem, settings):
    path = [int(step) for step in np.asarray(problem.path)]
    if len(path) > settings.max_path:
        raise ValueError(f"path has {len(path)} steps, more than max_path={settings.max_path}")
    steps = [step for step in path if step != NO_STEP]
    if path[: len(steps)] != steps:
        raise ValueError(f"path={path} must have its steps first, then {NO_STEP}")
    state = problem.state
    for number, step in enumerate(steps):
        allowed = np.flatnonzero(np.asarray(game.child_mask(state)))
        if step not in allowed:
            raise ValueError(f"path[{number}]={step} is no public child; allowed: {list(allowed)}")
        state = game.child(state, jnp.int32(step))
    if int(game.actor(state)) == TERMINAL:
        raise ValueError(f"path={path} ends the game: there is nothing to search")
