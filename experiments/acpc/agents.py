"""Agents of matches by the ACPC protocol.

An agent is a function: given what its player knows of a hand in which it has to act, it returns an
action of the rules, which must be legal. `AGENTS` has those that can be named on the command line,
beside the folders of blueprints.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping

import jax
import numpy as np
from jaxtyping import Array, Int, Key

from jaxgames.holdem.acpc_protocol import MatchState, poker_state
from jaxgames.holdem.rules import CALL, Poker, PokerState
from jaxgames.registry import unknown
from solvers.approximate_best_response.hand_policies import HandPolicy, as_argument, draw_action
from solvers.blueprint.hand_policy import read_hand_policy
from solvers.blueprint.state_policy import read_state_policy

Agent = Callable[[MatchState], int]


def always_call(game: Poker, *, seed: int = 0) -> Agent:
    """Returns the agent that checks and calls; `seed` is not needed."""
    return lambda state: CALL


def always_raise(game: Poker, *, seed: int = 0) -> Agent:
    """Returns the agent that makes the smallest raise, or calls where it may not raise; `seed` is
    not needed."""

    def act(state: MatchState) -> int:
        raises = np.flatnonzero(poker_state(game, state).legal)
        return int(raises[raises > CALL][0]) if raises[-1] > CALL else CALL

    return act


def uniform(game: Poker, *, seed: int = 0) -> Agent:
    """Returns the agent that draws from all legal actions, every size of a raise being one."""
    generator = np.random.default_rng(seed)

    def act(state: MatchState) -> int:
        return int(generator.choice(np.flatnonzero(poker_state(game, state).legal)))

    return act


def by_hand_policy(game: Poker, policy: HandPolicy, *, seed: int = 0) -> Agent:
    """Builds the agent that draws its actions from the policy of its hand.

    Args:
      game: the rules.
      policy: gives the probabilities of the actions by hand.
      seed: of the draws. A decision's draw depends on the number of the hand and of the decision.

    Returns:
      The agent, which raises a ValueError if the policy's array has another shape.
    """
    policy, key = as_argument(policy), jax.random.key(seed)

    @jax.jit
    def draw(
        policy: HandPolicy,
        state: PokerState,
        own: Int[Array, " k"],
        hand: Int[Array, ""],
        key: Key[Array, ""],
    ) -> Int[Array, ""]:
        key = jax.random.fold_in(jax.random.fold_in(key, hand), state.num_taken)
        return draw_action(game, policy, state, own, key)

    def act(state: MatchState) -> int:
        own = np.array(state.hole[state.seat], np.int32)
        return int(draw(policy, poker_state(game, state), own, np.int32(state.hand), key))

    return act


AGENTS: Mapping[str, Callable[..., Agent]] = {
    "always_call": always_call,
    "always_raise": always_raise,
    "uniform": uniform,
}


def make_agent(name: str, game: Poker, *, seed: int) -> Agent:
    """Builds an agent by its name.

    Args:
      name: a key of `AGENTS`, or a folder with a blueprint of the game, for more than two players
        with a policy by information state (`solvers.blueprint.state_policy`).
      game: the rules.
      seed: of everything random.

    Returns:
      The agent.

    Raises:
      ValueError: there is no agent of this name, or it plays another game.
    """
    if name in AGENTS:
        return AGENTS[name](game, seed=seed)
    if not pathlib.Path(name).is_dir():
        raise ValueError(unknown("agent", name, [*AGENTS, "FOLDER"]))
    read = read_hand_policy if game.players == 2 else read_state_policy
    return by_hand_policy(game, read(pathlib.Path(name), game), seed=seed)
