"""Episodes: lines of play from the start of a game to its end, step by step and side by side."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree, Shaped, UInt32

from jaxgames.core import record

# choose(carry, what is known of the place, luck [W]) -> (carry, action, what it has to tell)
Choose = Callable[
    [PyTree, Any, Float[Array, " W"]],
    tuple[PyTree, Int[Array, ""], PyTree],
]


class Playable(abc.ABC):
    """What episodes need of a game of P players, A actions and N information states.

    A *place* is where a player acts or the game is over. What is known of it is a record with the
    fields `actor`, `state` (the number of the actor's information state; N where the game is over)
    and `uniform` (the uniform policy over legal actions `[A]`; 0 where it is over).
    """

    luck_of_chance: ClassVar[int]  # W, numbers uniform in [0, 1) that chance needs each time
    num_players: int
    num_actions: int
    num_states: int
    longest: int  # decisions of an episode, at most

    @abc.abstractmethod
    def start(self, luck: Float[Array, " W"]) -> PyTree:
        """The first place of an episode."""

    @abc.abstractmethod
    def at(self, place: PyTree) -> PyTree:
        """What is known of a place."""

    @abc.abstractmethod
    def after(self, node: PyTree, action: Int[Array, ""], luck: Float[Array, " W"]) -> PyTree:
        """The place after an action, by what is known; a terminal stays where it is."""

    @abc.abstractmethod
    def payoffs_at(self, place: PyTree) -> Float[Array, " P"]:
        """What the players get if the game is over there, else 0."""


@record
class Trajectory:
    """T decisions, after the last of which nothing happens: the actor is TERMINAL, the state N."""

    actor: Array  # [T] int32
    state: Array  # [T] int32
    action: Array  # [T] int32
    told: PyTree  # [T, ...] by `choose`
    payoffs: Array  # [P]


def play(
    game: Playable,
    key: Key[Array, ""],
    choose: Choose,
    carry: PyTree,
    *,
    place: PyTree | None = None,
    width: int = 1,
) -> Trajectory:
    """An episode in which `choose` acts for all players, given `width` numbers of luck each time.

    It starts at `place`, or with the game. `key` is consumed.
    """
    luck = uniform_numbers(key, (game.longest + 1, width + game.luck_of_chance))
    place = game.start(luck[-1, width:]) if place is None else place

    def step(before, luck):
        place, carry = before
        node = game.at(place)
        carry, action, told = choose(carry, node, luck[:width])
        told = Trajectory(
            actor=node.actor, state=node.state, action=action, told=told, payoffs=None
        )
        return (game.after(node, action, luck[width:]), carry), told

    (place, _), line = jax.lax.scan(step, (place, carry), luck[:-1])
    return line.replace(payoffs=game.payoffs_at(place))


def repeat_episodes(
    one: Callable[[PyTree, Key[Array, ""]], PyTree],
    learner: PyTree,
    key: Key[Array, ""],
    times: int | Int[Array, ""],
) -> PyTree:
    """`one(learner, its key)` so many times, in one loop; `learner.step` counts them.

    `key` is that of the whole run: a run in pieces is a run.
    """

    def body(_, learner):
        return one(learner, jax.random.fold_in(key, learner.step))

    return jax.lax.fori_loop(0, times, body, learner)


def put_rows(
    table: Shaped[Array, "n ..."], rows: Int[Array, " T"], new: Shaped[Array, "T ..."]
) -> Shaped[Array, "n ..."]:
    """The table with rows replaced, all different but for the last, whose content is of no use."""
    return table.at[rows].set(new, unique_indices=True, mode="promise_in_bounds")


def uniform_numbers(key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Numbers uniform in [0, 1), mixed from the key and a counter.

    Many times cheaper than `jax.random.uniform`, which would take most of an episode's time.
    `key` is consumed.
    """
    words = jax.random.key_data(key).astype(jnp.uint32)
    return uniform_number(words[-2:], jnp.arange(_size(shape), dtype=jnp.uint32)).reshape(shape)


def uniform_number(words: UInt32[Array, "2"], count: UInt32[Array, "..."]) -> Float[Array, "..."]:
    """Numbers uniform in [0, 1), mixed from two words and a counter."""
    bits = mix_bits(mix_bits(count * jnp.uint32(0x9E3779B9) + words[0]) ^ words[1])
    mantissa = (bits >> jnp.uint32(9)) | jnp.uint32(0x3F800000)
    return jax.lax.bitcast_convert_type(mantissa, jnp.float32) - 1


def _size(shape):
    size = 1
    for length in shape:
        size *= length
    return size


def mix_bits(bits: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """Other bits, one to one, that look like chance (MurmurHash3's finaliser)."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        bits = (bits ^ (bits >> jnp.uint32(shift))) * jnp.uint32(factor)
    return bits ^ (bits >> jnp.uint32(16))


def pick_action(weights: Float[Array, " A"], luck: Float[Array, ""]) -> Int[Array, ""]:
    """An action drawn in proportion to its weight; 0 if no action has any."""
    bounds = [weights[0]]
    for action in range(1, len(weights)):
        bounds.append(bounds[-1] + weights[action])
    aim, action = luck * bounds[-1], jnp.int32(0)
    for bound in bounds[:-1]:
        action = action + ((aim >= bound) & (bounds[-1] > 0)).astype(jnp.int32)
    return action
