"""Episodes: a game played from its start to its end, many episodes side by side.

Random numbers are drawn before an episode begins and handed out step by step: the argument `noise`
is always an array of numbers uniform in [0, 1). A solver gives `play` a function that chooses the
actions of all players, and gets a `Trajectory` back.

Example:

    >>> import jax
    >>> from jaxgames import make
    >>> from solvers.sampling import episodes
    >>> from solvers.sampling.decision_tree import build_decision_tree
    >>> tree = build_decision_tree(make("kuhn_poker"))
    >>> def choose(carry, node, noise):
    ...     return carry, episodes.pick_action(node.uniform, noise[0]), None
    >>> trajectory = episodes.play(tree, jax.random.key(0), choose, None)
    >>> trajectory.actor.shape, float(trajectory.payoffs.sum())
    ((3,), 0.0)
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree, Shaped, UInt32

from jaxgames.core import record

# (carry, node, noise [W]) -> (carry, action, what to record of the decision)
Choose = Callable[
    [PyTree, Any, Float[Array, " W"]],
    tuple[PyTree, Int[Array, ""], PyTree],
]


class Playable(abc.ABC):
    """What `play` needs of a game of P players, A actions and N information states.

    A *place* is a point of the game where a player acts or the game is over; chance has already
    acted. The *node* at a place is a record with the fields `actor` (a player or TERMINAL), `state`
    (the number of the actor's information state; N at terminals) and `uniform` (the uniform policy
    over the legal actions `[A]`; 0 at terminals). `DecisionTree` and `IndexedGame` are the
    implementations.
    """

    noise_width: ClassVar[int]  # W, random numbers that chance needs between two decisions
    num_players: int
    num_actions: int
    num_states: int
    max_decisions: int  # an upper bound on the decisions of an episode

    @abc.abstractmethod
    def start(self, noise: Float[Array, " W"]) -> PyTree:
        """Returns the first place of an episode, after the first moves of chance."""

    @abc.abstractmethod
    def at(self, place: PyTree) -> PyTree:
        """Returns the node at a place."""

    @abc.abstractmethod
    def after(self, node: PyTree, action: Int[Array, ""], noise: Float[Array, " W"]) -> PyTree:
        """Returns the next place, after an action at `node` and the moves of chance that follow it.

        A terminal place is followed by itself.
        """

    @abc.abstractmethod
    def payoffs_at(self, place: PyTree) -> Float[Array, " P"]:
        """Returns the players' payoffs `[P]` at a terminal place, 0 elsewhere."""


@record
class Trajectory:
    """One episode of T decisions, padded: after the last one the actor is TERMINAL, the state N."""

    actor: Array  # [T] int32
    state: Array  # [T] int32
    action: Array  # [T] int32
    recorded: PyTree  # [T, ...] what `choose` recorded of each decision
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
    """Plays one episode in which `choose` acts for all players.

    Args:
      game: the game.
      key: consumed.
      choose: maps (carry, node, noise `[width]`) to (carry, action, what to record of the
        decision).
      carry: the first value of the carry.
      place: where the episode starts; the start of the game if not given.
      width: how many random numbers `choose` gets for each decision.

    Returns:
      The episode, with T = `game.max_decisions` decisions.
    """
    noise = uniform_numbers(key, (game.max_decisions + 1, width + game.noise_width))
    place = game.start(noise[-1, width:]) if place is None else place

    def step(before, noise):
        place, carry = before
        node = game.at(place)
        carry, action, recorded = choose(carry, node, noise[:width])
        decision = Trajectory(
            actor=node.actor, state=node.state, action=action, recorded=recorded, payoffs=None
        )
        return (game.after(node, action, noise[width:]), carry), decision

    (place, _), trajectory = jax.lax.scan(step, (place, carry), noise[:-1])
    return trajectory.replace(payoffs=game.payoffs_at(place))


def repeat_episodes(
    episode: Callable[[PyTree, Key[Array, ""]], PyTree],
    learner: PyTree,
    key: Key[Array, ""],
    times: int | Int[Array, ""],
) -> PyTree:
    """Applies `episode(learner, key)` `times` times in one compiled loop.

    Args:
      episode: maps (learner, key) to the learner after one more episode; it adds 1 to
        `learner.step`.
      learner: a record with the field `step`, the number of episodes so far.
      key: the key of the whole run. Episode t gets `fold_in(key, t)`, so that a run that was
        interrupted and continued with the same key gives the same result.
      times: number of episodes.

    Returns:
      The learner after the last episode.
    """

    def body(_, learner):
        return episode(learner, jax.random.fold_in(key, learner.step))

    return jax.lax.fori_loop(0, times, body, learner)


def put_rows(
    table: Shaped[Array, "n ..."], rows: Int[Array, " T"], new: Shaped[Array, "T ..."]
) -> Shaped[Array, "n ..."]:
    """Replaces the given rows of a table.

    `rows` are distinct, except that the last row of the table may occur repeatedly: the padding of
    episodes is written there, and is never read.
    """
    return table.at[rows].set(new, unique_indices=True, mode="promise_in_bounds")


def uniform_numbers(key: Key[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Draws numbers uniform in [0, 1) from a hash of the key and a counter.

    This is many times cheaper than `jax.random.uniform`, which would take most of an episode's
    time. `key` is consumed.
    """
    words = jax.random.key_data(key).astype(jnp.uint32)
    return uniform_number(words[-2:], jnp.arange(math.prod(shape), dtype=jnp.uint32)).reshape(shape)


def uniform_number(words: UInt32[Array, "2"], count: UInt32[Array, "..."]) -> Float[Array, "..."]:
    """Hashes two words and a counter into a number uniform in [0, 1)."""
    bits = mix_bits(mix_bits(count * jnp.uint32(0x9E3779B9) + words[0]) ^ words[1])
    mantissa = (bits >> jnp.uint32(9)) | jnp.uint32(0x3F800000)
    return jax.lax.bitcast_convert_type(mantissa, jnp.float32) - 1


def mix_bits(bits: UInt32[Array, "..."]) -> UInt32[Array, "..."]:
    """Scrambles 32 bits by a bijection, the finaliser of MurmurHash3."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        bits = (bits ^ (bits >> jnp.uint32(shift))) * jnp.uint32(factor)
    return bits ^ (bits >> jnp.uint32(16))


def pick_action(weights: Float[Array, " A"], noise: Float[Array, ""]) -> Int[Array, ""]:
    """Draws an action with probability proportional to its weight.

    Args:
      weights: not negative.
      noise: a number uniform in [0, 1).

    Returns:
      The action; 0 if all weights are 0.
    """
    bounds = [weights[0]]
    for action in range(1, len(weights)):
        bounds.append(bounds[-1] + weights[action])
    aim, action = noise * bounds[-1], jnp.int32(0)
    for bound in bounds[:-1]:
        action = action + ((aim >= bound) & (bounds[-1] > 0)).astype(jnp.int32)
    return action
