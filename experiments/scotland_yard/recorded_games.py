"""A game of Scotland Yard move by move, with the probabilities of Mr X's stations.

The probabilities are those of somebody who sees what the detectives see and knows Mr X's policy, by
Bayes' rule. His policy is

- of a uniform agent: all his legal moves alike;
- of a search agent of beliefs: the average policy of its search;
- of PimBot, which has no policy, as it plays the most visited move: the shares of visits in
  searches at all his possible stations, with one more visit to every legal move, so that no move is
  impossible.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from experiments.scotland_yard import one_game
from jaxgames.core import TERMINAL
from jaxgames.scotland_yard.beliefs import scotland_yard_beliefs
from jaxgames.scotland_yard.maps import TICKETS
from jaxgames.scotland_yard.rules import ScotlandYard, ScotlandYardState
from solvers.scotland_yard.matches import (
    DETECTIVES,
    MR_X,
    MatchAgent,
    MatchStates,
    PimBotAgent,
    UniformAgent,
)
from solvers.scotland_yard.search_match_agent import SearchMatchAgent
from solvers.search import readouts

_STATIONS_AT_ONCE = 32  # that PimBot searches side by side for its policy
DOUBLE = "double"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Moment:
    """A game after the deal, or after a move."""

    state: ScotlandYardState
    probability: np.ndarray  # [N] of Mr X's stations, for who sees what the detectives see
    player: int = MR_X  # who has moved: 0 is Mr X, d is detective d
    move: str = ""  # its name; empty after the deal
    ticket: str = ""  # one of `TICKETS`, DOUBLE, or empty where nothing was paid
    shows: bool = False  # whether Mr X has shown himself


def record_game(
    game: ScotlandYard, key: Key[Array, ""], mr_x: MatchAgent, detectives: MatchAgent
) -> list[Moment]:
    """Plays a game; it is the one that `matches.play` plays for this key.

    Args:
      game: the rules.
      key: consumed.
      mr_x: the agent who plays Mr X; PimBot, uniform or a search agent of beliefs.
      detectives: the agent who plays all detectives.

    Returns:
      The game after the deal and after each move.

    Raises:
      ValueError: an agent has played an illegal action, or nothing is known of Mr X's policy.
    """
    deal_key, move_key, *begin_keys = jax.random.split(key, 4)
    agents = mr_x, detectives
    starts = game.detective_starts[: game.detectives]
    beliefs = scotland_yard_beliefs(game, detective_starts=starts)  # of another deal, maybe
    states = one_game.deal(game, deal_key)
    memories = [
        one_game.begin(agent, begin_keys[side], states, side=side)
        for side, agent in enumerate(agents)
    ]
    public = beliefs.root_of(states.state.board.detectives[0])
    reach = public.possible.astype(float)
    reach /= jnp.sum(reach)
    moments = [_moment(game, None, 0, states, reach)]
    while (before := moments[-1].state).actor != TERMINAL:
        side = MR_X if before.actor == MR_X else DETECTIVES
        key = jax.random.fold_in(move_key, before.num_steps)
        memories[side], actions = one_game.act(
            game, agents[side], key, memories[side], states, side=side
        )
        action = int(actions[0])
        legal = _his_legal(beliefs, public)
        if side == MR_X:
            searched = jax.random.fold_in(key, 1)
            policy = station_policy(mr_x, memories[MR_X], searched, states, legal)
        else:
            policy = legal  # nothing of it is used
        states, memories, public, reach = _after(
            game, beliefs, agents, memories, states, public, reach, actions, policy
        )
        moments.append(_moment(game, before, action, states, reach))
    return moments


def station_policy(
    agent: MatchAgent,
    memory: PyTree,
    key: Key[Array, ""],
    states: MatchStates,
    legal: Float[Array, "A N"],
) -> Float[Array, "A N"]:
    """What an agent plays as Mr X, at each of his possible stations.

    Args:
      agent: who plays Mr X.
      memory: of the agent in one game, after it has acted.
      key: consumed.
      states: one game, in which Mr X moves.
      legal: 1 for his legal moves at his possible stations, else 0.

    Raises:
      ValueError: nothing is known of the agent's policy.
    """
    if isinstance(agent, SearchMatchAgent):
        return _searched_policy(memory.search)
    if isinstance(agent, PimBotAgent):
        legal = legal + _visits(agent, key, states)
    elif not isinstance(agent, UniformAgent):
        raise ValueError(f"agent={type(agent).__name__} has no policy that is known")
    return legal / jnp.maximum(jnp.sum(legal, axis=0, keepdims=True), 1.0)


def _visits(agent, key, states) -> Float[Array, "A N"]:
    """Visits of PimBot's moves, in a search at each of Mr X's possible stations."""
    (possible,) = np.asarray(states.possible)
    stations, visits = (
        np.flatnonzero(possible),
        np.zeros((len(possible), states.state.legal.shape[1])),
    )
    for begin in range(0, len(stations), _STATIONS_AT_ONCE):
        some = stations[begin : begin + _STATIONS_AT_ONCE]
        padded = jnp.asarray(np.resize(some, _STATIONS_AT_ONCE), jnp.int32)
        drawn = jax.random.fold_in(key, begin)
        visits[some] = np.asarray(_root_visits(agent, drawn, padded, states).T)[: len(some)]
    return jnp.asarray(visits.T, float)


@jax.jit
def _root_visits(agent, key, stations, states):
    """Visits `[A, S]` in PimBot's searches as Mr X, with him at each of S stations."""
    many = jax.tree.map(lambda leaf: jnp.repeat(leaf, len(stations), axis=0), states)
    many = many.replace(state=many.state.replace(mr_x=stations))
    return agent.search(jax.random.split(key, len(stations)), many, side=MR_X).visits


@jax.jit
def _searched_policy(search):
    """Mr X's policy `[A, N]` in the search of one agent, whose leaves are `[1, ...]`."""
    return readouts.average_policy(jax.tree.map(lambda leaf: leaf[0], search))[0].astype(float)


@jax.jit
def _his_legal(beliefs, public):
    return beliefs.legal(public)[0].astype(float)


@functools.partial(jax.jit, static_argnames="game")
def _after(game, beliefs, agents, memories, states, public, reach, actions, policy):
    """Everything after an action; Mr X's reaches of his stations sum to 1."""
    state = jax.vmap(game.step)(states.state, actions)

    def down(carry):
        public, reach, station, _ = carry
        pairs = beliefs.follow(public, jnp.stack([station, jnp.int32(0)]), actions[0])
        child = jnp.argmax(jnp.all(pairs >= 0, axis=1)).astype(jnp.int32)
        theirs = jnp.ones((beliefs.num_actions[1], 1), reach.dtype)
        both = reach, jnp.ones(1, reach.dtype)
        below = beliefs.down(public, child, both, (policy, theirs))[0]
        public = beliefs.child(public, child)
        return public, below / jnp.sum(below), pairs[child, 0], public.showing > 0

    # one step, and more where Mr X shows himself
    carry = public, reach, states.state.mr_x[0], jnp.bool_(True)
    public, reach, *_ = jax.lax.while_loop(lambda carry: carry[-1], down, carry)
    after = MatchStates(state=state, possible=public.possible[None])
    memories = [
        agent.observe(memory, states, actions, after, jnp.ones(1, bool))
        for agent, memory in zip(agents, memories, strict=True)
    ]
    return after, memories, public, reach


def _moment(game, before, action, states, reach) -> Moment:
    """The moment after an action in the state before; `before` is None after the deal."""
    state = jax.tree.map(lambda leaf: np.asarray(leaf)[0], states.state)
    moment = Moment(state=state, probability=np.asarray(reach, float))
    if before is None:
        return moment
    name = game.action_name(before, action)
    moved = state.board.moves > before.board.moves
    return dataclasses.replace(
        moment,
        player=int(before.board.turn),
        move=name,
        ticket=next((card for card in (*TICKETS, DOUBLE) if name.startswith(card)), ""),
        shows=bool(moved and game.reveal_mask[state.board.moves]),
    )
