"""The game contract: rules as pure functions with explicit chance.

A game is an immutable, hashable object (static under `jit`); a state is a frozen record of arrays.
Vocabulary: Factored-Observation Stochastic Games (Kovarik et al. 2022). `P` players, `A` actions,
`C` chance outcomes, `L` and `M` the lengths of the integer keys, `F` features.
"""

from __future__ import annotations

import abc
import dataclasses
import typing
from typing import ClassVar

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

CHANCE = -1  # actor of a chance state
TERMINAL = -2  # actor of a finished game


@typing.dataclass_transform(kw_only_default=True, frozen_default=True)
def record(cls: type) -> type:
    """Makes `cls` a frozen, keyword-only pytree. Fields are documented, not checked at run time.

    JAX rebuilds records around placeholders (in `vmap`, `scan`, `eval_shape`), which a constructor
    checked by beartype would reject; functions carry the checked annotations instead.
    """
    return typing.no_type_check(flax.struct.dataclass(cls, kw_only=True))


@record
class State:
    """What every game's state shows; games add their own fields in a sub-record."""

    actor: Array  # [] int32: 0..P-1, CHANCE or TERMINAL
    legal: Array  # [A] bool: legal actions of the actor; all False at chance and terminal states
    chance_probs: Array  # [C] float: sums to 1 at chance states, else 0
    returns: Array  # [P] float: 0 until terminal


class Game(abc.ABC):
    """Rules of one game. Subclasses are frozen dataclasses whose fields are the game's parameters.

    Invalid parameters raise `ValueError` in `__post_init__`. All methods but `render` and
    `action_name` are pure JAX functions of unbatched states; batch them with `jax.vmap`.
    Terminal states are absorbing: `step` returns them unchanged (see `absorb`). Under `jit` an
    illegal action gives an unspecified state; `jaxgames.play.checked_step` refuses it from Python.
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
        """C >= 1 (1 in games without chance, where it is never used)."""
        return 1

    @property
    @abc.abstractmethod
    def max_depth(self) -> int:
        """Upper bound on the number of steps of an episode, chance included."""

    @abc.abstractmethod
    def init(self) -> State:
        """The deterministic root; its first move may be chance."""

    @abc.abstractmethod
    def step(self, state: State, action: Int[Array, ""]) -> State:
        """The state after `action`, an action of the actor or the index of a chance outcome."""

    @abc.abstractmethod
    def information_state(self, state: State, player: int) -> Int[Array, " L"]:
        """Key of all that `player` has observed and done so far (perfect recall), at any state.

        Two histories have the same key exactly if `player` cannot tell them apart. `player` is a
        Python integer.
        """

    @abc.abstractmethod
    def public_state(self, state: State) -> Int[Array, " M"]:
        """Key of all public observations so far; a function of every player's information state.

        It tells whose turn it is and how many steps were made.
        """

    @abc.abstractmethod
    def features(self, state: State, player: int) -> Float[Array, " F"]:
        """Encoding for networks of what `player` knows; a function of the information state."""

    def features_of_actor(self, state: State) -> Float[Array, " F"]:
        """Those of what the actor knows; where nobody acts, of anything."""
        known = [self.features(state, player) for player in range(self.num_players)]
        return jnp.stack(known)[jnp.maximum(state.actor, 0)]

    def belief_game(self) -> typing.Any:
        """This game as a `jaxgames.beliefs.BeliefGame` of its own, or None if it has none.

        Games return one that merges information states or that is too large to enumerate;
        `jaxgames.beliefs.belief_table` then compiles that instead of the histories.
        """
        return None

    @abc.abstractmethod
    def render(self, state: State) -> str:
        """Human-readable picture of a concrete state, all cards open."""

    def action_name(self, state: State, action: int) -> str:
        """Human-readable name of an action (or chance outcome) in a concrete state."""
        return str(action)

    def __str__(self) -> str:
        parameters = ",".join(f"{k}={_text(v)}" for k, v in self.parameters().items())
        return f"{self.name}({parameters})" if parameters else self.name

    def parameters(self) -> dict[str, object]:
        """The parameters of this game by name, as `make` reads them."""
        fields = dataclasses.fields(self) if dataclasses.is_dataclass(self) else ()
        return {field.name: getattr(self, field.name) for field in fields}


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return "/".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def absorb(before: State, after: State) -> State:
    """`before` if it is terminal, else `after`: makes terminal states absorbing."""
    done = before.actor == TERMINAL
    return jax.tree.map(lambda old, new: jnp.where(done, old, new), before, after)


def no_legal(num_actions: int) -> Bool[Array, " A"]:
    """The mask of a state in which no player acts."""
    return jnp.zeros(num_actions, bool)
