"""The steps of one game of Scotland Yard on the host, as batches of one; each is compiled once."""

from __future__ import annotations

import functools

import jax
from jaxtyping import Array, Int, Key

from jaxgames.scotland_yard.rules import ScotlandYard
from solvers.scotland_yard import matches
from solvers.scotland_yard.matches import MatchAgent, MatchStates, Memory


@functools.partial(jax.jit, static_argnames="game")
def deal(game: ScotlandYard, key: Key[Array, ""]) -> MatchStates:
    """A game after the deal."""
    return jax.tree.map(lambda leaf: leaf[None], matches.deal(game, key))


@functools.partial(jax.jit, static_argnames="side")
def begin(agent: MatchAgent, key: Key[Array, ""], states: MatchStates, *, side: int) -> Memory:
    """What an agent keeps of a game after the deal, as `MatchAgent.begin`."""
    return agent.begin(key[None], states, side=side)


@functools.partial(jax.jit, static_argnames="side")
def act(
    agent: MatchAgent, key: Key[Array, ""], memory: Memory, states: MatchStates, *, side: int
) -> tuple[Memory, Int[Array, "1"]]:
    """An agent's memory after thinking and its action, as `MatchAgent.act`."""
    return agent.act(key[None], memory, states, side=side)
