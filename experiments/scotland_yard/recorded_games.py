"""A game of Scotland Yard move by move, with the probabilities of Mr X's stations.

The probabilities are those of somebody who sees what the detectives see and knows Mr X's policy
(`mr_x_range`).
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from experiments.scotland_yard import one_game
from experiments.scotland_yard.mr_x_range import range_after_move, range_after_the_deal
from jaxgames.core import TERMINAL
from jaxgames.scotland_yard.maps import TICKETS
from jaxgames.scotland_yard.rules import ScotlandYard, ScotlandYardState
from solvers.scotland_yard import matches
from solvers.scotland_yard.matches import DETECTIVES, MR_X, MatchAgent

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
    states = one_game.deal(game, deal_key)
    memories = [
        one_game.begin(agent, begin_keys[side], states, side=side)
        for side, agent in enumerate(agents)
    ]
    known = range_after_the_deal(game, states)
    moments = [_moment(game, None, 0, states, known)]
    while (before := moments[-1].state).actor != TERMINAL:
        side = MR_X if before.actor == MR_X else DETECTIVES
        key = jax.random.fold_in(move_key, before.num_steps)
        memories[side], actions = one_game.act(
            game, agents[side], key, memories[side], states, side=side
        )
        searched = jax.random.fold_in(key, 1)
        known = range_after_move(known, mr_x, memories[MR_X], searched, states, actions)
        states, memories = _after(game, agents, memories, states, actions)
        moments.append(_moment(game, before, int(actions[0]), states, known))
    return moments


@functools.partial(jax.jit, static_argnames="game")
def _after(game, agents, memories, states, actions):
    """The game and the agents' memories after an action."""
    after = matches.after_actions(game, states, actions)
    acted = jnp.ones(1, bool)
    memories = [
        agent.observe(memory, states, actions, after, acted)
        for agent, memory in zip(agents, memories, strict=True)
    ]
    return after, memories


def _moment(game, before, action, states, known) -> Moment:
    """The moment after an action in the state before; `before` is None after the deal."""
    state = jax.tree.map(lambda leaf: np.asarray(leaf)[0], states.state)
    moment = Moment(state=state, probability=np.asarray(known.probability, float))
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
