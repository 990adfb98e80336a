"""Enumeration: the game tree of a game, by vectorised breadth-first search.

Example:

    >>> import jaxgames
    >>> tree = jaxgames.enumerate_game(jaxgames.make("kuhn_poker"))
    >>> tree.num_histories, tree.num_decisions
    (58, (6, 6))
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from jaxgames.arrays import on_device
from jaxgames.core import CHANCE, Game, State
from jaxgames.game_tree.tree import NO_PARENT, GameTree, make_game_tree

MAX_HISTORIES = 5_000_000  # the default limit on the size of a tree
_ESTIMATE_FROM = 100_000  # smaller trees are built sooner than estimated
_BLOCKS = (256, 16_384)  # histories expanded at once: two compilations serve every tree


class TreeTooLargeError(ValueError):
    """The tree has more histories than the limit; the message estimates how many."""


def enumerate_game(game: Game, *, max_histories: int = MAX_HISTORIES) -> GameTree:
    """Enumerates every history of a game, in float64.

    Args:
      game: the game. If it has its tree already, in an attribute `tree`, that is returned.
      max_histories: the limit on the size of the tree.

    Returns:
      The game tree.

    Raises:
      TreeTooLargeError: the tree has more than `max_histories` histories; the message estimates how
        many.
      ValueError: the game breaks a rule of its contract (perfect recall, chance, payoffs), or is a
        name.
    """
    refuse_name(game)
    tree = getattr(game, "tree", None)
    if isinstance(tree, GameTree):
        if tree.num_histories > max_histories:
            raise too_large(game, tree.num_histories, max_histories)
        return tree
    with jax.enable_x64(True):
        states, view = _root(game)
        level = dict(view, parent=np.array([NO_PARENT]), parent_action=np.array([-1]))
        tree_levels, total = [level], 1
        while True:
            parents, actions = np.nonzero(_moves(level))
            if not len(parents):
                return _assemble(tree_levels, str(game))
            total = _checked_total(game, total, len(parents), max_histories)
            states, view = _expand(game, states, parents, actions)
            level = dict(view, parent=parents, parent_action=actions)
            tree_levels.append(level)


def estimate_num_histories(game: Game, key: Key[Array, ""], *, num_probes: int = 256) -> float:
    """Estimates the number of histories by random probes, without bias (Knuth 1975).

    A probe walks to a terminal history, choosing children uniformly; the product of the numbers of
    children along the way estimates the number of histories at each depth.

    Args:
      game: the game.
      key: consumed.
      num_probes: how many probes to average.

    Returns:
      The estimate.
    """
    return float(np.mean(_probe(jax.random.split(key, num_probes), game)))


def refuse_name(game: object) -> None:
    """Tells who passes a name where a game is needed how to make one.

    Raises:
      ValueError: `game` is a name.
    """
    if isinstance(game, str):
        raise ValueError(f"game={game!r} is a name; allowed: a game, by jaxgames.make({game!r})")


def too_large(game: object, estimate: float | int, limit: int) -> TreeTooLargeError:
    """Returns the error for a tree with an estimated number of histories above `limit`."""
    return TreeTooLargeError(
        f"the tree of {game} has about {estimate:.2g} histories, more than the limit of {limit:,}"
        " (argument max_histories)"
    )


@functools.partial(jax.jit, static_argnums=1)
@functools.partial(jax.vmap, in_axes=(0, None))
def _probe(key: Key[Array, ""], game: Game) -> Float[Array, ""]:
    """Walks to a terminal history once; returns its estimate of the number of histories."""

    def step(carry, noise):
        state, width, total = carry
        legal = jnp.concatenate([state.legal, state.chance_probs > 0])
        count = jnp.sum(legal.astype(float))
        move = jnp.argmax(jnp.where(legal, noise, -1.0)).astype(jnp.int32)
        move = jnp.where(move >= game.num_actions, move - game.num_actions, move)
        width = width * count
        return (game.step(state, move), width, total + width), None

    start = (game.init(), jnp.ones((), float), jnp.ones((), float))
    # drawn before the loop: jax_debug_key_reuse rejects a scan over keys under vmap
    num_moves = game.num_actions + game.num_chance_outcomes
    noise = jax.random.uniform(key, (game.max_depth, num_moves), jnp.float32)
    (_, _, total), _ = jax.lax.scan(step, start, noise)
    return total


def _moves(level):
    """Legal actions and possible chance outcomes `[n, max(A, C)]` of a level's histories."""
    chance = (level["actor"] == CHANCE)[:, None] & (level["chance_probs"] > 0)
    width = max(level["legal"].shape[1], chance.shape[1])
    pad = lambda mask: np.pad(mask, ((0, 0), (0, width - mask.shape[1])))  # noqa: E731
    return pad(level["legal"]) | pad(chance)


def _checked_total(game, before, new, limit):
    """The number of histories so far, with a level of `new` ones.

    Large trees are refused by an estimate once they outgrow `_ESTIMATE_FROM`.
    """
    total = before + new
    if total > _ESTIMATE_FROM >= before or total > limit:
        estimate = estimate_num_histories(game, jax.random.key(0))
        # The estimate is noisy: near the limit the tree is built and counted.
        if total > limit or estimate > 4 * limit:
            raise too_large(game, max(estimate, total), limit)
    return total


def _view(game: Game, state: State) -> dict[str, Array]:
    """What a tree records of a state."""
    players = range(game.num_players)
    return dict(
        actor=state.actor,
        legal=state.legal,
        chance_probs=state.chance_probs,
        returns=state.returns,
        information_state=jnp.stack([game.information_state(state, p) for p in players]),
        public_state=game.public_state(state),
    )


@functools.partial(jax.jit, static_argnums=0)
def _init(game):
    state = game.init()
    return state, _view(game, state)


def _root(game):
    """The root and what is recorded of it, as a batch of one."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[None], _init(game))


@functools.partial(jax.jit, static_argnums=0)
def _expand_block(game, states, actions):
    """The children of a block of histories, and what is recorded of them."""

    def expand(state, action):
        after = game.step(state, action)
        return after, _view(game, after)

    return jax.vmap(expand)(states, actions)


def _expand(game, states, parents, actions):
    """All children of a level.

    They are computed in blocks of fixed sizes, so that few programs are compiled.
    """
    block = _BLOCKS[len(parents) > _BLOCKS[0]]
    parts = []
    for begin in range(0, len(parents), block):
        rows = _pad(parents[begin : begin + block], block)
        moves = on_device(_pad(actions[begin : begin + block], block), np.int32)
        near = jax.tree.map(lambda leaf, rows=rows: np.asarray(leaf)[rows], states)
        count = min(block, len(parents) - begin)
        parts.append(
            jax.tree.map(
                lambda leaf, count=count: np.asarray(leaf)[:count],
                _expand_block(game, near, moves),
            )
        )
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _pad(values, size):
    """The values, extended to `size` by repeating the last one."""
    return np.concatenate([values, np.repeat(values[-1:], size - len(values))])


def _assemble(tree_levels: list[dict[str, np.ndarray]], name: str) -> GameTree:
    """Joins the levels of a tree into one table."""
    sizes = [len(level["actor"]) for level in tree_levels]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    num_players = tree_levels[0]["returns"].shape[1]
    actor = np.concatenate([level["actor"] for level in tree_levels]).astype(np.int32)
    chance = [np.ones(1)]
    parent = [np.array([NO_PARENT])]
    for above, level, start in zip(tree_levels, tree_levels[1:], starts, strict=False):
        by_chance = above["actor"][level["parent"]] == CHANCE
        column = np.where(by_chance, level["parent_action"], 0)
        chance.append(np.where(by_chance, above["chance_probs"][level["parent"], column], 1.0))
        parent.append(level["parent"] + start)
    states = [
        _number([level["information_state"][:, p] for level in tree_levels])
        for p in range(num_players)
    ]
    return make_game_tree(
        parent=np.concatenate(parent),
        parent_action=np.concatenate([level["parent_action"] for level in tree_levels]),
        actor=actor,
        legal=np.concatenate([level["legal"] for level in tree_levels]),
        chance_prob=np.concatenate(chance),
        returns=np.concatenate([level["returns"] for level in tree_levels]),
        information_state=np.stack(states, axis=1),
        public_state=_number([level["public_state"] for level in tree_levels]),
        game=name,
    )


def _number(keys_by_level: list[np.ndarray]) -> np.ndarray:
    """Dense numbers of the distinct keys (rows), level by level: keys of different levels
    differ.
    """
    numbers, first = [], 0
    for keys in keys_by_level:
        rows = np.ascontiguousarray(keys.astype(np.int32))
        void = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
        _, index, inverse = np.unique(void, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(index))  # by first occurrence
        numbers.append(rank[inverse] + first)
        first += len(index)
    return np.concatenate(numbers)
