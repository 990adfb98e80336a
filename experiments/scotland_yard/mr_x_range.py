"""How probable Mr X's stations are, for somebody who sees what the detectives see.

The probabilities follow from Mr X's policy by Bayes' rule. His policy is

- of a uniform agent: all his legal moves alike;
- of a search agent of beliefs: the average policy of its search, without the actions that its
  threshold leaves out;
- of PimBot, which has no policy, as it plays the most visited move: the shares of visits in
  searches at all his possible stations, with one more visit to every legal move, so that no move is
  impossible.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.arrays import at
from jaxgames.core import record
from jaxgames.scotland_yard.beliefs import (
    ScotlandYardBeliefs,
    YardPublicState,
    scotland_yard_beliefs,
)
from jaxgames.scotland_yard.rules import ScotlandYard
from solvers.scotland_yard.matches import MR_X, MatchAgent, MatchStates, PimBotAgent, UniformAgent
from solvers.scotland_yard.search_match_agent import SearchMatchAgent
from solvers.search import readouts

_STATIONS_AT_ONCE = 32  # that PimBot searches side by side for its policy


@record
class MrXRange:
    """Mr X's range in one game."""

    beliefs: ScotlandYardBeliefs
    public: YardPublicState  # what everybody knows
    probability: Array  # [N] of his stations


def range_after_the_deal(game: ScotlandYard, states: MatchStates) -> MrXRange:
    """Mr X's range in a game that was dealt: all of his first stations alike.

    Args:
      game: the rules.
      states: one game.
    """
    starts = game.detective_starts[: game.detectives]
    beliefs = scotland_yard_beliefs(game, detective_starts=starts)  # of another deal, maybe
    public = beliefs.root_of(states.state.board.detectives[0])
    possible = public.possible.astype(float)
    return MrXRange(beliefs=beliefs, public=public, probability=possible / jnp.sum(possible))


def range_after_move(
    known: MrXRange,
    mr_x: MatchAgent,
    memory: PyTree,
    key: Key[Array, ""],
    states: MatchStates,
    actions: Int[Array, "1"],
) -> MrXRange:
    """Mr X's range after a move of his or of a detective.

    Args:
      known: his range before.
      mr_x: the agent who plays Mr X; PimBot, uniform or a search agent of beliefs.
      memory: of that agent, after it has acted if it is Mr X's move.
      key: consumed.
      states: one game, before the move.
      actions: the move.

    Raises:
      ValueError: nothing is known of the agent's policy.
    """
    policy = _his_legal(known)
    if states.state.actor[0] == MR_X:
        policy = _policy(mr_x, memory, key, states, policy)
    return _after(known, states.state.mr_x[0], actions[0], policy)


def _policy(agent, memory, key, states, legal) -> Float[Array, "A N"]:
    """What an agent plays as Mr X at each of his possible stations; `legal` is 1 for his legal
    moves there."""
    if isinstance(agent, SearchMatchAgent):
        return _searched_policy(memory.search, agent.threshold)
    if isinstance(agent, PimBotAgent):
        legal = legal + _visits(agent, key, states)
    elif not isinstance(agent, UniformAgent):
        raise ValueError(f"agent={type(agent).__name__} has no policy that is known")
    return legal / jnp.maximum(jnp.sum(legal, axis=0, keepdims=True), 1.0)


def _visits(agent, key, states) -> Float[Array, "A N"]:
    """Visits of PimBot's moves, in a search at each of Mr X's possible stations."""
    (possible,) = np.asarray(states.possible)
    stations = np.flatnonzero(possible)
    visits = np.zeros((len(possible), states.state.legal.shape[1]))
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


@functools.partial(jax.jit, static_argnames="threshold")
def _searched_policy(search, threshold):
    """What Mr X draws from `[A, N]` after the search of one agent, whose leaves are `[1, ...]`."""
    policy = readouts.average_policy(at(search, 0))[0]
    return readouts.without_rare(policy, threshold).astype(float)


@jax.jit
def _his_legal(known):
    return known.beliefs.legal(known.public)[0].astype(float)


@jax.jit
def _after(known, station, action, policy):
    """The range after an action, and after Mr X has shown himself where he does; `policy` is his,
    and says nothing where a detective moves."""
    beliefs = known.beliefs

    def down(carry):
        public, probability, station, _ = carry
        pairs = beliefs.follow(public, jnp.stack([station, jnp.int32(0)]), action)
        child = jnp.argmax(jnp.all(pairs >= 0, axis=1)).astype(jnp.int32)
        theirs = jnp.ones((beliefs.num_actions[1], 1), probability.dtype)
        both = probability, jnp.ones(1, probability.dtype)
        below = beliefs.down(public, child, both, (policy, theirs))[0]
        public = beliefs.child(public, child)
        return public, below / jnp.sum(below), pairs[child, 0], public.showing > 0

    # one step, and more where Mr X shows himself
    carry = known.public, known.probability, station, jnp.bool_(True)
    public, probability, *_ = jax.lax.while_loop(lambda carry: carry[-1], down, carry)
    return known.replace(public=public, probability=probability)
