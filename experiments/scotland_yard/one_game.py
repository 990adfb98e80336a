"""One game of Scotland Yard on the host, step by step, as a batch of one."""

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


def act(
    game: ScotlandYard,
    agent: MatchAgent,
    key: Key[Array, ""],
    memory: Memory,
    states: MatchStates,
    *,
    side: int,
) -> tuple[Memory, Int[Array, "1"]]:
    """An agent's memory after thinking and its action, as `MatchAgent.act`.

    Raises:
      ValueError: the action is illegal.
    """
    memory, actions = _act(agent, key, memory, states, side=side)
    action = int(actions[0])
    if not 0 <= action < game.num_actions or not states.state.legal[0, action]:
        name = type(agent).__name__
        raise ValueError(f"{name} has played action={action}, which is illegal here")
    return memory, actions


@functools.partial(jax.jit, static_argnames="side")
def _act(agent, key, memory, states, *, side):
    return agent.act(key[None], memory, states, side=side)
