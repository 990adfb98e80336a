"""Agents of matches by the ACPC protocol.

An agent is a function: given what its player knows of a hand in which it has to act, it returns an
action of the rules, which must be legal. `AGENTS` has those that can be named on the command line,
beside the folders of blueprints.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from jaxgames.holdem.acpc_protocol import MatchState, poker_state
from jaxgames.holdem.rules import CALL, NOTHING, Poker, PokerState
from jaxgames.registry import unknown
from solvers.approximate_best_response.local_best_response import HandPolicy, all_hands
from solvers.blueprint.blueprint import read_blueprint
from solvers.blueprint.hand_policy import hand_policy

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
      policy: maps the public state to the probabilities `[N, A]` of the actions with each of the
        hands of `all_hands`; it is compiled with what is around it.
      seed: of the draws. A decision's draw depends on the number of the hand and of the decision.

    Returns:
      The agent, which raises a ValueError if the policy's array has another shape.
    """
    hands, key = all_hands(game), jax.random.key(seed)
    shape = (len(hands), game.num_actions)

    @jax.jit
    def draw(
        state: PokerState, held: Int[Array, ""], hand: Int[Array, ""], key: Key[Array, ""]
    ) -> Int[Array, ""]:
        public = state.replace(hole=jnp.full_like(state.hole, NOTHING))
        probabilities: Float[Array, "N A"] = policy(public)
        if probabilities.shape != shape:
            raise ValueError(
                f"the policy gives an array of shape {probabilities.shape}, not {shape}"
            )
        key = jax.random.fold_in(jax.random.fold_in(key, hand), state.num_taken)
        return jax.random.categorical(key, jnp.log(probabilities[held]))

    def act(state: MatchState) -> int:
        own = sorted(state.hole[state.seat])
        held = np.flatnonzero((hands == own).all(axis=1))[0]
        return int(draw(poker_state(game, state), np.int32(held), np.int32(state.hand), key))

    return act


AGENTS: Mapping[str, Callable[..., Agent]] = {
    "always_call": always_call,
    "always_raise": always_raise,
    "uniform": uniform,
}


def make_agent(name: str, game: Poker, *, seed: int) -> Agent:
    """Builds an agent by its name.

    Args:
      name: a key of `AGENTS`, or a folder with a blueprint of the game.
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
    blueprint, own = read_blueprint(pathlib.Path(name))
    if own != game:
        raise ValueError(f"the blueprint in {name} plays {own}, not {game}")
    return by_hand_policy(game, hand_policy(blueprint, game), seed=seed)
