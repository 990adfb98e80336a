"""The tests that every belief-level game must pass: `check_belief_game(game)`.

For the authors of games, in this package and outside it. The laws are checked in public states
along random playouts, with random reaches and policies.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key

from jaxgames.arrays import choose, safe_divide
from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.beliefs.listing import in_blocks
from jaxgames.core import CHANCE, TERMINAL

_TOLERANCE = 1e-4  # of float32 sums over all rows
_PLAYERS = 2


def check_belief_game(game: BeliefGame, *, num_playouts: int = 32, seed: int = 0) -> None:
    """Checks `game` against the contract of `jaxgames.beliefs.BeliefGame`.

    Checked are: sizes, shapes and dtypes; the laws of actors, rows, legal actions and children;
    that `up` is the transpose of `down`; that reaches, weights and `follow` agree and that no
    probability is lost on the way to the children; that payoffs are zero-sum; that `known_down`,
    `known_up` and `known_follow` agree with these.

    Args:
      game: an implementation of the contract.
      num_playouts: random playouts to the end of the game, whose public states are examined.
      seed: of the playouts, reaches and policies.

    Returns:
      Nothing: the game passes if no error is raised.

    Raises:
      AssertionError: a law is broken; the message names all that are, in the first public state
        where one is, and the public children that lead there.
    """
    _check_shapes(game)
    walk_key, law_key = jax.random.split(jax.random.key(seed))
    states, paths = _playouts(game, walk_key, num_playouts)
    number = np.arange(len(paths), dtype=np.int32)
    look = functools.partial(_laws_of_block, type(game), game, law_key)
    holds = in_blocks(look, (states, number), size=min(32, len(paths)))
    everywhere = np.stack(list(holds.values())).all(axis=0)
    if not everywhere.all():
        first = int(np.argmin(everywhere))
        broken = "; ".join(law for law, holds_at in holds.items() if not holds_at[first])
        raise AssertionError(f"{game.name}: {broken}, after public children {paths[first]}")


def _check_shapes(game):
    rows, actions, children = game.num_rows, game.num_actions, game.num_children
    for name, pair in (("num_rows", rows), ("num_actions", actions)):
        is_pair = isinstance(pair, tuple) and len(pair) == _PLAYERS
        _require(
            is_pair and all(_is_size(size) for size in pair),
            f"{game.name}: {name}={pair!r} is not a number >= 1 for each of two players",
        )
    _require(_is_size(children), f"{game.name}: num_children={children!r} is not >= 1")
    root = jax.eval_shape(game.root)
    expected = {
        "actor": np.zeros((), np.int32),
        "rows": tuple(np.zeros(n, bool) for n in rows),
        "legal": tuple(np.zeros(size, bool) for size in zip(actions, rows, strict=True)),
        "child_mask": np.zeros(children, bool),
    }
    for name, right in expected.items():
        given, right = _text(jax.eval_shape(getattr(game, name), root)), _text(right)
        _require(given == right, f"{game.name}: {name} gives {given}, not {right}")
    shapes = functools.partial(jax.tree.map, lambda leaf: (leaf.shape, leaf.dtype))
    stacked = jax.tree.map(lambda leaf: ((children, *leaf.shape), leaf.dtype), root)
    text = f"{game.name}: children are not public states stacked on an axis of {children}"
    _require(shapes(jax.eval_shape(game.children, root)) == stacked, text)
    text = f"{game.name}: a child has other shapes or dtypes than the root"
    _require(shapes(jax.eval_shape(lambda s: game.child(s, 0), root)) == shapes(root), text)
    features = jax.eval_shape(game.encode, root)
    text = f"{game.name}: encode gives {features.dtype}{features.shape}, not a vector of floats"
    _require(features.ndim == 1 and jnp.issubdtype(features.dtype, jnp.floating), text)


def _text(arrays):
    """The dtype and shape of an array, or of each of a pair."""
    if isinstance(arrays, tuple):
        return f"({', '.join(map(_text, arrays))})"
    return f"{arrays.dtype}{arrays.shape}"


def _is_size(size):
    return isinstance(size, int) and size >= 1


def _playouts(
    game: BeliefGame, key: Key[Array, ""], count: int
) -> tuple[PublicState, list[list[int]]]:
    """The public states of random playouts, and the numbers of the children that lead to them."""
    length = game.max_depth + 1
    noise = jax.random.uniform(key, (count, length, game.num_children))
    below, numbers = _play(type(game), game, noise)
    numbers = np.asarray(numbers)
    _require((numbers[:, -1] < 0).all(), f"{game.name}: not over after {length - 1} public states")
    entered = np.nonzero(numbers >= 0)
    paths = [numbers[playout, : step + 1].tolist() for playout, step in zip(*entered, strict=True)]
    states = jax.tree.map(
        lambda leaf, root: jnp.concatenate([root[None], leaf[entered]]),
        below,
        jax.tree.map(jnp.asarray, game.root()),
    )
    return states, [[], *paths]


# Games are arguments, so that those of one kind share a program. `kind` is their class: JAX takes
# records of two classes for equal whose fields are equal.
@functools.partial(jax.jit, static_argnums=0)
@functools.partial(jax.vmap, in_axes=(None, None, 0))
def _play(kind, game, noise):
    """The public states of a random playout, and the children taken; -1 after the end."""

    def step(state, noise):
        number = jnp.argmax(jnp.where(game.child_mask(state), noise, -1)).astype(jnp.int32)
        over = game.actor(state) == TERMINAL
        after = choose(over, state, game.child(state, number))
        return after, (after, jnp.where(over, -1, number))

    _, (states, numbers) = jax.lax.scan(step, game.root(), noise)
    return states, numbers


@functools.partial(jax.jit, static_argnums=0)
@functools.partial(jax.vmap, in_axes=(None, None, None, 0))
def _laws_of_block(kind, game, key, numbered):
    """`_laws` in a block of public states, each with its number."""
    state, number = numbered
    return _laws(game, state, key, number)


def _laws(
    game: BeliefGame, state: PublicState, key: Key[Array, ""], number: Int[Array, ""]
) -> Mapping[str, Bool[Array, ""]]:
    """Whether each law holds in a public state, by its message where it does not."""
    actor, rows, legal = game.actor(state), game.rows(state), game.legal(state)
    mask, over = game.child_mask(state), actor == TERMINAL
    acting = [own & (actor == p) for p, own in enumerate(rows)]
    laws = {
        "actor is no player, CHANCE or TERMINAL": over | ((actor >= CHANCE) & (actor < _PLAYERS)),
        "a player has no row": jnp.any(rows[0]) & jnp.any(rows[1]),
        "the rows with legal actions are not those of the actor": _both(
            lambda p: jnp.any(legal[p], axis=0) == acting[p]
        ),
        "a terminal has children, or another state has none": jnp.any(mask) != over,
        "features are not finite": jnp.all(jnp.isfinite(game.encode(state))),
    }
    return laws | _reach_laws(game, state, jax.random.fold_in(key, number))


def _reach_laws(game, state, key):
    """The laws of reaches, values and weights."""
    keys = jax.random.split(key, 7)
    actor, rows, mask = game.actor(state), game.rows(state), game.child_mask(state)
    legal = game.legal(state)
    over = actor == TERMINAL
    ones = jnp.ones(game.num_rows[1])
    dtype = jax.eval_shape(lambda s: game.compatible(s, 0, ones), state).dtype
    reach, weights = _drawn_pair(keys[0], rows, dtype), _drawn_pair(keys[1], legal, dtype)
    policy = tuple(safe_divide(own, jnp.sum(own, axis=0, keepdims=True)) for own in weights)

    numbers, children = jnp.arange(game.num_children, dtype=jnp.int32), game.children(state)
    each = jax.vmap(lambda child: game.child(state, child))(numbers)
    same = [
        jnp.all((a == b).reshape(len(mask), -1), axis=1)
        for a, b in zip(jax.tree.leaves(each), jax.tree.leaves(children), strict=True)
    ]
    below = jax.vmap(lambda child: game.down(state, child, reach, policy))(numbers)
    exists = tuple(own & mask[:, None] for own in jax.vmap(game.rows)(children))
    values = tuple(
        jnp.where(own, 1 - 2 * drawn, 0)
        for own, drawn in zip(exists, _drawn_pair(keys[2], exists, dtype), strict=True)
    )
    actions, seen = game.up(state, values)
    transposed = []
    for p in range(_PLAYERS):
        acted = jnp.sum(jnp.where(legal[p], policy[p] * actions[p], 0), axis=0)
        own = jnp.where(rows[p], reach[p] * jnp.where(actor == p, acted, seen[p]), 0)
        flow = below[p] * values[p]
        transposed.append(_close(jnp.sum(flow), jnp.sum(own), jnp.sum(jnp.abs(flow))))

    mass, masses = _mass(game, state, reach), jax.vmap(lambda s, r: _mass(game, s, r))
    pair = jnp.stack([_drawn(k, r) for k, r in zip(keys[3:5], rows, strict=True)])
    weight = game.weight(state, pair)
    units = tuple(_unit(pair[p], reach[p]) for p in range(_PLAYERS))
    against = [game.compatible(state, p, units[1 - p]) for p in range(_PLAYERS)]
    choices = [_drawn(keys[5 + p], legal[p][:, pair[p]]) for p in range(_PLAYERS)]
    action = jnp.where(actor == 1, choices[1], choices[0])
    follows = game.follow(state, pair, action)
    possible = jnp.all(follows >= 0, axis=1) & mask & (weight > 0)
    weights = jax.vmap(game.weight)(children, jnp.maximum(follows, 0))
    weights = jnp.where(possible, weights, 0)
    played = tuple(jnp.zeros_like(own).at[action].set(1, mode="drop") for own in policy)
    moved = jax.vmap(lambda child: game.down(state, child, units, played))(numbers)
    payoffs = [jnp.vdot(reach[p], game.terminal_values(state, p, reach[1 - p])) for p in (0, 1)]
    return {
        "child and children differ": over | jnp.all(jnp.stack(same) | ~mask[None]),
        "a row that does not exist has reach": over | _both(lambda p: exists[p] | (below[p] == 0)),
        "up is not the transpose of down": over | _both(lambda p: transposed[p]),
        "probability is lost or made on the way to the children": over
        | _close(jnp.sum(jnp.where(mask, masses(children, below), 0)), mass),
        "weight and compatible differ": _both(lambda p: _close(against[p][pair[p]], weight)),
        "a row that does not exist is compatible": _both(lambda p: rows[p] | (against[p] == 0)),
        "follow and weight differ": over | (weight == 0) | _close(jnp.sum(weights), weight),
        "follow and down differ": over
        | (weight == 0)
        | jnp.all(_close(jnp.where(mask, masses(children, moved), 0), weights)),
        "payoffs are not zero-sum": ~over | _close(payoffs[0], -payoffs[1], mass),
        "known_down, known_up or known_follow differs": over
        | jnp.stack(
            [
                (actor != who)
                | _known_law(game, state, who, (reach, policy), values, (pair, action), weight)
                for who in (0, 1, CHANCE)
            ]
        ).all(),
    }


def _known_law(game, state, who, beliefs, values, move, weight):
    """Whether what is asked with knowledge of who acts is the same, where it is to be."""
    numbers = jnp.arange(game.num_children, dtype=jnp.int32)
    children, mask = game.children(state), game.child_mask(state)
    exists = tuple(own & mask[:, None] for own in jax.vmap(game.rows)(children))
    legal, rows = game.legal(state), game.rows(state)
    below = jax.vmap(lambda child: game.down(state, child, *beliefs))(numbers)
    known = game.known_down(who, state, *beliefs)
    down = _both(lambda p: ~exists[p] | _close(known[p], below[p]))
    actions, seen = game.up(state, values)
    worth = game.known_up(who, state, values)
    up = _both(
        lambda p: (
            ~legal[p] | _close(worth[p], actions[p], 1.0)
            if p == who
            else ~rows[p] | _close(worth[p], seen[p], 1.0)
        )
    )
    right, pairs = game.follow(state, *move), game.known_follow(who, state, *move)
    leads = mask & jnp.all(pairs >= 0, axis=1)
    for p in range(_PLAYERS):
        leads &= exists[p][numbers, jnp.maximum(pairs[:, p], 0)]
    goes = mask & jnp.all(right >= 0, axis=1)
    follow = (weight == 0) | jnp.all((leads == goes) & (~goes | jnp.all(pairs == right, axis=1)))
    return down & up & follow


def _mass(game, state, reach):
    """The probability of a public state: the sum of reaches times weight over pairs of rows."""
    return jnp.vdot(reach[0], game.compatible(state, 0, reach[1]))


def _both(law):
    """Whether a law holds for both players."""
    return jnp.all(law(0)) & jnp.all(law(1))


def _drawn_pair(key, masks, dtype):
    """Random numbers from 0.1 to 1 for both players, 0 outside of their masks."""
    keys = jax.random.split(key)
    return tuple(
        jnp.where(mask, jax.random.uniform(key, mask.shape, dtype, 0.1), 0)
        for key, mask in zip(keys, masks, strict=True)
    )


def _drawn(key, mask):
    """The number of a random entry of `mask` that is True; 0 if none is."""
    return jnp.argmax(jnp.where(mask, jax.random.uniform(key, mask.shape), -1)).astype(jnp.int32)


def _unit(row, like):
    return jax.nn.one_hot(row, like.shape[-1], dtype=like.dtype)


def _close(first, second, scale=0):
    """Equal up to rounding, in proportion to the larger number or to a `scale`."""
    largest = jnp.maximum(jnp.maximum(jnp.abs(first), jnp.abs(second)), scale)
    return jnp.abs(first - second) <= _TOLERANCE * largest


def _require(condition, text):
    if not condition:
        raise AssertionError(text)
