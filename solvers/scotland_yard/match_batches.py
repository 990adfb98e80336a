"""Matches in batches that shrink: games that have ended cost little.

Agents think in all games of a batch side by side, those that have ended included. So the games are
played round by round, and the games that go on do so in a smaller batch as soon as they fit into
one. Each size is a program of its own, which is why there are only a few.

Either side's agent has programs of its own. Searches take minutes to compile, and those of an agent
serve it against all opponents. But XLA:CPU maps every kernel of a program into memory, programs
with searches have thousands, and Linux allows a process 65,530 maps. So the programs of agents that
do not play are dropped; JAX's persistent cache has them if they come back.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxgames.arrays import at
from jaxgames.scotland_yard.rules import ScotlandYard
from solvers.device_batches import on_each_device, split_calls
from solvers.scotland_yard import matches
from solvers.scotland_yard.matches import Match, MatchResult

# play(agents, keys [B], report): games to their ends; the report gets the number of games that have
# ended in a round
Play = Callable[..., MatchResult]
_SHARES = 1.0, 0.5, 0.25  # of a batch, that smaller ones have


class _AgentPrograms:
    """What an agent does on one side, in programs that do not depend on its opponent."""

    def __init__(self, side: int, mesh: Mesh | None):
        def begin(agent, batch):
            return agent.begin(*batch, side=side)

        def think(shared, batch):
            (agent, player), (keys, memory, states) = shared, batch
            return jax.lax.cond(  # in the second part of a double move no detective thinks
                jnp.any(matches.to_move(states, player)),
                lambda: matches.think(agent, player, keys, memory, states, side=side),
                lambda: (memory, jnp.zeros(len(keys), jnp.int32)),
            )

        def observe(agent, batch):
            return agent.observe(*batch)

        self.begin, self.think, self.observe = (
            jax.jit(split_calls(each, mesh)) for each in (begin, think, observe)
        )


def compiled_play(game: ScotlandYard, mesh: Mesh | None = None) -> Play:
    """Games between two agents, compiled once for all agents of the same kinds in a row.

    Args:
      game: the rules.
      mesh: the devices that share batches; None: one.

    Returns:
      A function `play(agents, keys)` with the results of `matches.play`, on the host; `agents` are
      those of Mr X and of the detectives, `keys` are consumed. A third argument is called after
      every round with the number of games that have ended in it.
    """
    devices = 1 if mesh is None else mesh.size
    deal = jax.jit(split_calls(lambda _, keys: matches.deal_games(game, keys), mesh))
    referee = jax.jit(
        split_calls(lambda player, batch: matches.referee(game, player, *batch), mesh)
    )
    taken = jax.jit(at)
    programs = {}  # of agents that play

    def programs_of(agents):
        kinds = [(jax.tree.structure(agent), side) for side, agent in enumerate(agents)]
        for kind in programs.keys() - {*kinds}:
            del programs[kind]  # with the functions go what they were compiled to
        for kind, side in kinds:
            if (kind, side) not in programs:
                programs[kind, side] = _AgentPrograms(side, mesh)
        return [programs[kind] for kind in kinds]

    def begin(own, agents, keys):
        states, move_keys, begin_keys = deal((), keys)
        memories = tuple(
            each.begin(agent, (begun, states))
            for each, agent, begun in zip(own, agents, begin_keys, strict=True)
        )
        legal = jnp.ones_like(states.state.result, bool)
        return Match(keys=move_keys, states=states, memories=memories, legal=legal)

    def turn(own, agents, match, player):
        side = matches.DETECTIVES if player else matches.MR_X
        player, states, memories = jnp.int32(player), match.states, [*match.memories]
        batch = match.keys, memories[side], states
        memories[side], actions = own[side].think((agents[side], player), batch)
        after, acts, legal = referee(player, (states, actions))
        memories = tuple(
            each.observe(agent, (memory, states, actions, after, acts))
            for each, agent, memory in zip(own, agents, memories, strict=True)
        )
        return match.replace(states=after, memories=memories, legal=match.legal & legal)

    def play(agents, keys, report=lambda games: None):
        own, agents = programs_of(agents), on_each_device(agents, mesh)
        allowed = sizes(len(keys), devices)
        match, games = begin(own, agents, keys), np.arange(len(keys))  # the numbers of its games
        result, running = jax.tree.map(np.array, match.result), len(keys)
        while running:
            for player in range(1 + game.detectives):
                match = turn(own, agents, match, player)
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
