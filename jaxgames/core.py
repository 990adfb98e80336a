"""The game contract: rules as pure functions, with explicit chance.

A game is an immutable, hashable object (static under `jit`); a state is a frozen record of arrays.
The vocabulary is that of factored-observation stochastic games (Kovarik et al. 2022). In shapes, P
is the number of players, A of actions, C of chance outcomes, F of features; L and M are the lengths
of the integer keys of information states and public states.
"""

from __future__ import annotations

import abc
import dataclasses
import typing
from typing import ClassVar

import flax.struct
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxgames.arrays import choose

CHANCE = -1  # actor of a chance state
TERMINAL = -2  # actor of a finished game


@typing.dataclass_transform(kw_only_default=True, frozen_default=True)
def record(cls: type) -> type:
    """Makes a class a frozen, keyword-only pytree: the decorator of all records of arrays.

    The annotations of its fields are documentation and not checked at run time: JAX rebuilds
    records around placeholders (in `vmap`, `scan`, `eval_shape`), which a checked constructor would
    reject. Functions carry checked annotations instead.

    Args:
      cls: a class with annotated fields.

    Returns:
      The class as a pytree.
    """
    return typing.no_type_check(flax.struct.dataclass(cls, kw_only=True))


@record
class State:
    """The fields that every game's state has; games add their own in a subclass."""

    actor: Array  # [] int32: 0..P-1, CHANCE or TERMINAL
    legal: Array  # [A] bool legal actions of the actor; all False at chance and terminal states
    chance_probs: Array  # [C] float, sums to 1 at chance states, else 0
    returns: Array  # [P] float payoffs, 0 before the end


class Game(abc.ABC):
    """The rules of one game.

    Subclasses are frozen dataclasses whose fields are the game's parameters; illegal parameters
    raise `ValueError` in `__post_init__`. All methods but `render` and `action_name` are pure JAX
    functions of unbatched states; batch them with `jax.vmap`. Terminal states are absorbing: `step`
    returns them unchanged (see `absorb`). Under `jit` an illegal action gives an unspecified state;
    `jaxgames.checked_step` refuses it from Python.
    """

    name: ClassVar[str]

    @property
    @abc.abstractmethod
    def num_players(self) -> int:
        """P."""

    @property
    @abc.abstractmethod
    def num_actions(self) -> int:
        """A, the number of distinct player actions."""

    @property
    def num_chance_outcomes(self) -> int:
        """C, at least 1 (1 in games without chance, where it is not used)."""
        return 1

    @property
    @abc.abstractmethod
    def max_depth(self) -> int:
        """An upper bound on the number of steps of an episode, chance included."""

    @abc.abstractmethod
    def init(self) -> State:
        """Returns the root, the same each time; the first move may be chance's."""

    @abc.abstractmethod
    def step(self, state: State, action: Int[Array, ""]) -> State:
        """Returns the state after `action`: an action of the actor, or the index of a chance
        outcome.
        """

    @abc.abstractmethod
    def information_state(self, state: State, player: int) -> Int[Array, " L"]:
        """Returns the key of what a player has observed and done so far, with perfect recall.

        Two histories have the same key exactly if the player cannot distinguish them.

        Args:
          state: any state, whoever acts.
          player: a Python integer.
        """

    @abc.abstractmethod
    def public_state(self, state: State) -> Int[Array, " M"]:
        """Returns the key of all public observations so far.

        It is a function of every player's information state, and tells who acts and how many steps
        were made.
        """

    @abc.abstractmethod
    def features(self, state: State, player: int) -> Float[Array, " F"]:
        """Encodes what `player` knows for networks: a function of its information state."""

    def features_of_actor(self, state: State) -> Float[Array, " F"]:
        """Encodes what the actor knows; where no player acts, what player 0 knows."""
        known = [self.features(state, player) for player in range(self.num_players)]
        return jnp.stack(known)[jnp.maximum(state.actor, 0)]

    def belief_game(self) -> typing.Any:
        """This game as a `jaxgames.beliefs.BeliefGame` of its own, or None if it has none.

        Games that are too large to enumerate return one, which search then needs no tree for. If
        it merges information states, `jaxgames.beliefs.belief_table` compiles it, and not the
        histories.
        """
        return None

    @abc.abstractmethod
    def render(self, state: State) -> str:
        """Draws a concrete state as text, with all cards open."""

    def action_name(self, state: State, action: int) -> str:
        """Names an action (or chance outcome) in a concrete state."""
        return str(action)

    def __str__(self) -> str:
        parameters = ",".join(f"{k}={_text(v)}" for k, v in self.parameters().items())
        return f"{self.name}({parameters})" if parameters else self.name

    def parameters(self) -> dict[str, object]:
        """Returns the parameters of the game by name, as `make` reads them."""
        fields = dataclasses.fields(self) if dataclasses.is_dataclass(self) else ()
        return {field.name: getattr(self, field.name) for field in fields}


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return "/".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def absorb(before: State, after: State) -> State:
    """Makes terminal states absorbing: the last line of every game's `step`.

    Args:
      before: the state before the step.
      after: the state after it.

    Returns:
      `before` if it is terminal, else `after`.
    """
    done = before.actor == TERMINAL
    return choose(done, before, after)


def no_legal(num_actions: int) -> Bool[Array, " A"]:
    """Returns the mask of a state in which no player acts.

    Args:
      num_actions: A.

    Returns:
      All False.
    """
    return jnp.zeros(num_actions, bool)
