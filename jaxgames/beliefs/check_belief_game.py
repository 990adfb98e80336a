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

from jaxgames.beliefs.contract import BeliefGame, PublicState
from jaxgames.beliefs.listing import in_blocks
from jaxgames.core import CHANCE, TERMINAL

_TOLERANCE = 1e-4  # of float32 sums over all rows
_PLAYERS = 2


def check_belief_game(game: BeliefGame, *, num_playouts: int = 32, seed: int = 0) -> None:
    """Checks `game` against the contract of `jaxgames.beliefs.BeliefGame`.

    Checked are: sizes, shapes and dtypes; the laws of actors, rows, legal actions and children;
    that `up` is the transpose of `down`; that reaches, weights and `follow` agree and that no
    probability is lost on the way to the children; that payoffs are zero-sum.

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
    number = jnp.arange(len(paths), dtype=jnp.int32)
    look = jax.jit(jax.vmap(lambda both: _laws(game, both[0], law_key, both[1])))
    holds = in_blocks(look, (states, number), size=min(32, len(paths)))
    everywhere = np.stack(list(holds.values())).all(axis=0)
    if not everywhere.all():
        first = int(np.argmin(everywhere))
        broken = "; ".join(law for law, holds_at in holds.items() if not holds_at[first])
        raise AssertionError(f"{game.name}: {broken}, after public children {paths[first]}")


def _check_shapes(game):
    sizes = {name: getattr(game, name) for name in ("num_rows", "num_actions", "num_children")}
    for name, size in sizes.items():
        _require(isinstance(size, int) and size >= 1, f"{game.name}: {name}={size!r} is not >= 1")
    rows, actions, children = sizes.values()
    root = jax.eval_shape(game.root)
    expected = {
        "actor": ((), jnp.int32),
        "rows": ((_PLAYERS, rows), bool),
        "legal": ((actions, rows), bool),
        "child_mask": ((children,), bool),
    }
    for name, (shape, dtype) in expected.items():
        leaf = jax.eval_shape(getattr(game, name), root)
        text = f"{game.name}: {name} gives {leaf.dtype}{leaf.shape}, not {np.dtype(dtype)}{shape}"
        _require(leaf.shape == shape and leaf.dtype == dtype, text)
    shapes = functools.partial(jax.tree.map, lambda leaf: (leaf.shape, leaf.dtype))
    stacked = jax.tree.map(lambda leaf: ((children, *leaf.shape), leaf.dtype), root)
    text = f"{game.name}: children are not public states stacked on an axis of {children}"
    _require(shapes(jax.eval_shape(game.children, root)) == stacked, text)
    text = f"{game.name}: a child has other shapes or dtypes than the root"
    _require(shapes(jax.eval_shape(lambda s: game.child(s, 0), root)) == shapes(root), text)
    features = jax.eval_shape(game.encode, root)
    text = f"{game.name}: encode gives {features.dtype}{features.shape}, not a vector of floats"
    _require(features.ndim == 1 and jnp.issubdtype(features.dtype, jnp.floating), text)


def _playouts(
    game: BeliefGame, key: Key[Array, ""], count: int
) -> tuple[PublicState, list[list[int]]]:
    """The public states of random playouts, and the numbers of the children that lead to them."""

    def step(state, noise):
        number = jnp.argmax(jnp.where(game.child_mask(state), noise, -1)).astype(jnp.int32)
        over = game.actor(state) == TERMINAL
        after = jax.tree.map(
            lambda old, new: jnp.where(over, old, new), state, game.child(state, number)
        )
        return after, (after, jnp.where(over, -1, number))

    @jax.jit
    @jax.vmap
    def play(noise):
        _, (states, numbers) = jax.lax.scan(step, game.root(), noise)
        return states, numbers

    length = game.max_depth + 1
    below, numbers = play(jax.random.uniform(key, (count, length, game.num_children)))
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


def _laws(
    game: BeliefGame, state: PublicState, key: Key[Array, ""], number: Int[Array, ""]
) -> Mapping[str, Bool[Array, ""]]:
    """Whether each law holds in a public state, by its message where it does not."""
    actor, rows, legal = game.actor(state), game.rows(state), game.legal(state)
    mask, over = game.child_mask(state), actor == TERMINAL
    acting = (jnp.arange(_PLAYERS, dtype=jnp.int32) == actor)[:, None] & rows
    acting = jnp.any(acting, axis=0)
    laws = {
        "actor is no player, CHANCE or TERMINAL": over | ((actor >= CHANCE) & (actor < _PLAYERS)),
        "a player has no row": jnp.all(jnp.any(rows, axis=1)),
        "the rows with legal actions are not those of the actor": jnp.all(
            jnp.any(legal, axis=0) == acting
        ),
        "a terminal has children, or another state has none": jnp.any(mask) != over,
        "features are not finite": jnp.all(jnp.isfinite(game.encode(state))),
    }
    return laws | _reach_laws(game, state, jax.random.fold_in(key, number))


def _reach_laws(game, state, key):
    """The laws of reaches, values and weights."""
    keys = jax.random.split(key, 6)
    actor, rows, mask = game.actor(state), game.rows(state), game.child_mask(state)
    over, acts = actor == TERMINAL, (jnp.arange(_PLAYERS, dtype=jnp.int32) == actor)[:, None]
    dtype = jax.eval_shape(game.compatible, state, 0, jnp.ones(game.num_rows)).dtype
    reach = jnp.where(rows, jax.random.uniform(keys[0], rows.shape, dtype), 0)
    legal = game.legal(state)
    policy = jnp.where(legal, jax.random.uniform(keys[1], legal.shape, dtype, 0.1), 0)
    total = jnp.sum(policy, axis=0, keepdims=True)
    policy = policy / jnp.where(total > 0, total, 1)

    numbers, children = jnp.arange(game.num_children, dtype=jnp.int32), game.children(state)
    each = jax.vmap(lambda child: game.child(state, child))(numbers)
    same = [
        jnp.all((a == b).reshape(len(mask), -1), axis=1)
        for a, b in zip(jax.tree.leaves(each), jax.tree.leaves(children), strict=True)
    ]
    below = jax.vmap(lambda child: game.down(state, child, reach, policy))(numbers)  # [K, 2, N]
    exists = jax.vmap(game.rows)(children) & mask[:, None, None]
    values = jnp.where(exists, jax.random.normal(keys[2], exists.shape, dtype), 0).swapaxes(0, 1)
    actions, seen = game.up(state, values)
    own = jnp.where(acts, jnp.sum(jnp.where(legal, policy * actions, 0), axis=0)[None], seen)
    down_sum = jnp.sum(below.swapaxes(0, 1) * values, axis=(1, 2))
    scale = jnp.sum(jnp.abs(below.swapaxes(0, 1) * values), axis=(1, 2))
    up_sum = jnp.sum(jnp.where(rows, reach * own, 0), axis=1)

    mass, masses = _mass(game, state, reach), jax.vmap(lambda s, r: _mass(game, s, r))
    pair = jnp.stack([_drawn(k, r) for k, r in zip(keys[3:5], rows, strict=True)])
    weight = game.weight(state, pair)
    against = [game.compatible(state, p, _unit(pair[1 - p], reach)) for p in range(_PLAYERS)]
    action = _drawn(keys[5], legal[:, pair[jnp.maximum(actor, 0)]])
    follows = game.follow(state, pair, action)
    possible = jnp.all(follows >= 0, axis=1) & mask & (weight > 0)
    weights = jax.vmap(game.weight)(children, jnp.maximum(follows, 0))
    weights = jnp.where(possible, weights, 0)
    units = jnp.stack([_unit(row, reach) for row in pair])
    played = jnp.zeros_like(policy).at[action].set(1)
    moved = jax.vmap(lambda child: game.down(state, child, units, played))(numbers)
    payoffs = [jnp.vdot(reach[p], game.terminal_values(state, p, reach[1 - p])) for p in (0, 1)]
    return {
        "child and children differ": over | jnp.all(jnp.stack(same) | ~mask[None]),
        "a row that does not exist has reach": over | jnp.all(exists | (below == 0)),
        "up is not the transpose of down": over | jnp.all(_close(down_sum, up_sum, scale)),
        "probability is lost or made on the way to the children": over
        | _close(jnp.sum(jnp.where(mask, masses(children, below), 0)), mass),
        "weight and compatible differ": jnp.all(
            _close(jnp.stack([against[p][pair[p]] for p in range(_PLAYERS)]), weight)
        ),
        "a row that does not exist is compatible": jnp.all(rows | (jnp.stack(against) == 0)),
        "follow and weight differ": over | (weight == 0) | _close(jnp.sum(weights), weight),
        "follow and down differ": over
        | (weight == 0)
        | jnp.all(_close(jnp.where(mask, masses(children, moved), 0), weights)),
        "payoffs are not zero-sum": ~over | _close(payoffs[0], -payoffs[1], mass),
    }


def _mass(game, state, reach):
    """The probability of a public state: the sum of reaches times weight over pairs of rows."""
    return jnp.vdot(reach[0], game.compatible(state, 0, reach[1]))


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
