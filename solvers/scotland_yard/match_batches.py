"""Matches in batches that shrink: games that have ended cost little.

Agents think in all games of a batch side by side, those that have ended included. So the games are
played round by round, and the games that go on do so in a smaller batch as soon as they fit into
one. Each size is a program of its own, which is why there are only a few.

XLA:CPU maps every kernel of a program into memory. Programs with searches have thousands, and Linux
allows a process 65,530 maps, which those of a few matches are. So programs are dropped when other
agents play; JAX's persistent cache has them if they come back.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxgames.scotland_yard.rules import ScotlandYard
from solvers.device_batches import split_calls
from solvers.scotland_yard import matches
from solvers.scotland_yard.matches import MatchResult

# play(agents, keys [B], report): games to their ends; the report gets the games that have ended
# since it was last called
Play = Callable[..., MatchResult]
_SHARES = 1.0, 0.5, 0.25  # of a batch, that smaller ones have


def compiled_play(game: ScotlandYard, mesh: Mesh | None = None, *, rounds: int = 1) -> Play:
    """Games between two agents, compiled once for all agents of the same kinds in a row.

    Args:
      game: the rules.
      mesh: the devices that share batches; None: one.
      rounds: that are played between looks at which games go on.

    Returns:
      A function `play(agents, keys)` with the results of `matches.play`, on the host; `agents` are
      those of Mr X and of the detectives, `keys` are consumed. A third argument is called with the
      number of games that have ended since the last call.

    Raises:
      ValueError: there are no rounds.
    """
    if rounds < 1:
        raise ValueError(f"rounds={rounds} must be at least 1")
    devices = 1 if mesh is None else mesh.size
    programs = {}  # of one kind of agents at a time

    def new_programs():
        begin = split_calls(lambda agents, keys: matches.begin(game, keys, *agents), mesh)
        go_on = split_calls(
            lambda agents, match: matches.go_on(game, match, *agents, rounds=rounds), mesh
        )
        return jax.jit(begin), jax.jit(go_on), jax.jit(_taken)

    def play(agents, keys, report=lambda games: None):
        kind = jax.tree.structure(agents)
        if kind not in programs:
            programs.clear()  # with the functions go what they were compiled to
            programs[kind] = new_programs()
        begin, go_on, taken = programs[kind]
        allowed = sizes(len(keys), devices)
        match, games = begin(agents, keys), np.arange(len(keys))  # the numbers of its games
        result, running = jax.tree.map(np.array, match.result), len(keys)
        while running:
            match = go_on(agents, match)
            goes_on = np.asarray(match.running)
            report(running - int(goes_on.sum()))
            running = int(goes_on.sum())
            size = min(size for size in allowed if size >= running)
            if running and size == len(games):
                continue
            ends = jax.tree.leaves(match.result)
            for every, some in zip(jax.tree.leaves(result), ends, strict=True):
                every[games] = some
            if running:
                order = np.argsort(~goes_on, kind="stable")[:size]  # those that go on come first
                match, games = taken(match, jnp.asarray(order)), games[order]
        return result

    return play


def sizes(batch: int, devices: int = 1) -> tuple[int, ...]:
    """The sizes that a batch may have, the largest first; devices share each evenly."""
    found = [devices * math.ceil(share * batch / devices) for share in _SHARES]
    return tuple(dict.fromkeys(found))


def _taken(match, games):
    """Some games of a batch."""
    return jax.tree.map(lambda x: x[games], match)
