"""PimBot: Monte Carlo tree search for Scotland Yard after Nijssen and Winands 2012.

One tree per search, and one determinisation per simulation: when detectives search, a simulation
begins by drawing a station at which Mr X is assumed to be (`location_categories`). In the tree each
player chooses by UCT with progressive history; a playout (`playouts`) ends the game. The most
visited move is played. B searches run side by side and make their simulations in lockstep; each has
the result that it has alone.

The program itself cannot be had. Parameters are from the literature and from programs that follow
it. Where these leave things open: moves without visits come first, those with the best history
before others; history counts the moves of the tree and of playouts by player, ticket and
destination; Mr X's own reward is 1 if he gets away and else 0, whoever catches him; that Mr X
cannot move is a success of all detectives, as if another one had caught him; n of the parent is the
number of visits with the same assumed station.

Example:

    >>> import jax
    >>> from jaxgames import make
    >>> from solvers.scotland_yard import pimbot
    >>> from solvers.scotland_yard.position import from_state
    >>> from solvers.scotland_yard.tables import yard_tables
    >>> game = make("scotland_yard(map=glasses)")
    >>> root = from_state(jax.tree.map(lambda x: x[None], game.init()))
    >>> possible = (root.mr_x[None] == jax.numpy.arange(11)[:, None])
    >>> found = pimbot.search(
    ...     yard_tables(game), root, possible, jax.random.split(jax.random.key(0), 1),
    ...     settings=pimbot.PimBot(simulations=50), mr_x_searches=True,
    ... )
    >>> int(found.visits.sum())
    50
"""

from __future__ import annotations

import functools

import flax.struct
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from jaxgames.arrays import choose
from jaxgames.core import record
from jaxgames.scotland_yard.board import LOST, RUNNING, WON
from solvers.scotland_yard import location_categories, noise, playouts, station_sets
from solvers.scotland_yard import tree as trees
from solvers.scotland_yard.position import Position, advance, legal, own_station
from solvers.scotland_yard.tables import YardTables
from solvers.scotland_yard.tree import NO_NODE, Tree

_FIRST = 1e6  # the value of moves without visits, above that of all others


@record
class PimBot:
    """Settings of a search; only `simulations` is static under `jit`."""

    simulations: int = flax.struct.field(pytree_node=False)
    # C of UCT, and r: what a detective's reward loses if another one catches. This pair won most in
    # self-play (`pimbot_settings`); Nijssen and Winands 2012 have C = 0.5.
    exploration: float | Array = 0.2
    reduction: float | Array = 0.5
    history_weight: float | Array = 5.0  # W of progressive history
    epsilon_mr_x: float | Array = 0.1  # random moves of playouts when Mr X searches
    epsilon_detectives: float | Array = 0.2  # and when detectives do
    weights: tuple[float | Array, ...] = location_categories.WEIGHTS  # of location categories


@record
class Found:
    """What B searches found."""

    action: Array  # [B] int32 the most visited action of the root
    visits: Array  # [A, B] float32 of the root's actions
    rewards: Array  # [A, B] float32 their mean rewards for the player who moves, 0 without visits
    size: Array  # [B] int32 nodes of the tree


@record
class _Descent:
    """The way of one simulation through each tree; L moves at most."""

    depth: Array  # [] int32
    position: Position
    node: Array  # [B] int32
    located: Array  # [B] bool whether the nodes depend on Mr X's station
    inside: Array  # [B] bool whether the simulation is still in the tree
    adds: Array  # [B] bool whether it ends at a new node
    by_station: Array  # [B] bool whether the new node is that of an assumed station
    action: Array  # [B] int32 the last one
    nodes: Array  # [L, B] int32
    actions: Array  # [L, B] int32
    players: Array  # [L, B] int32 who moved; -1 where nobody did
    moves: Array  # [L, B] int32 numbers of moves


@functools.partial(jax.jit, static_argnames="mr_x_searches")
def search(
    tables: YardTables,
    root: Position,
    possible: Bool[Array, "N B"],
    keys: Key[Array, " B"],
    *,
    settings: PimBot,
    mr_x_searches: bool,
) -> Found:
    """Searches in B positions at once.

    Args:
      tables: of the game.
      root: positions in which Mr X moves, or in which a detective does, not the same one in all.
        Searches of other positions are wasted. Mr X's station is ignored when detectives
        search.
      possible: where Mr X may be for all that the detectives know.
      keys: consumed, one for each search.
      settings: of the searches.
      mr_x_searches: whether it is Mr X who searches. Static.

    Returns:
      Actions and statistics of the roots.
    """
    tree = grow(tables, root, possible, keys, settings=settings, mr_x_searches=mr_x_searches)
    visits, rewards = tree.visits[:, 0].T, tree.rewards[:, 0].T
    means = rewards / jnp.maximum(visits, 1.0)
    return Found(
        action=jnp.argmax(visits + 0.5 * means, axis=0).astype(jnp.int32),
        visits=visits,
        rewards=means,
        size=tree.size,
    )


def grow(
    tables: YardTables,
    root: Position,
    possible: Bool[Array, "N B"],
    keys: Key[Array, " B"],
    *,
    settings: PimBot,
    mr_x_searches: bool,
) -> Tree:
    """The trees of B searches; takes the arguments of `search`."""
    batch = len(keys)
    seeds = jax.vmap(lambda key: jax.random.bits(key, dtype=jnp.uint32))(keys)
    tree = trees.init(
        tables, batch=batch, simulations=settings.simulations, assumed=not mr_x_searches
    )
    if mr_x_searches:
        root = root.replace(possible=station_sets.pack(possible))
        assume = lambda word: root  # noqa: E731
    else:
        root = root.replace(possible=None)
        weights = jnp.stack([jnp.asarray(w, jnp.float32) for w in settings.weights])
        shares = location_categories.location_probabilities(
            tables, possible, root.detectives, weights
        )
        cumulative = jnp.cumsum(shares, axis=0)

        def assume(word):
            station = location_categories.draw(cumulative, noise.uniform(word))
            return root.replace(mr_x=station)

    def simulate(number, tree):
        seed = noise.bits(seeds, number)
        begin = assume(noise.bits(seed, -1))
        descent = _descend(tables, tree, begin, seed, settings, not mr_x_searches)
        epsilon = settings.epsilon_mr_x if mr_x_searches else settings.epsilon_detectives
        playout = playouts.play(
            tables, descent.position, noise.bits(seed, -2), jnp.float32(epsilon)
        )
        reduction = jnp.float32(0.0 if mr_x_searches else settings.reduction)
        rewards = side_rewards(playout.position, root.turn, reduction)
        return _learn(tables, tree, descent, playout, rewards)

    return jax.lax.fori_loop(0, settings.simulations, simulate, tree)


def side_rewards(
    end: Position, searcher: Int[Array, " B"], reduction: Float[Array, ""]
) -> tuple[Float[Array, " B"], Float[Array, " B"]]:
    """Rewards of Mr X and of the detectives at the end of a game, by coalition reduction.

    Args:
      end: the last position.
      searcher: the player who searches.
      reduction: r; the detectives get 1 if the searching one has caught Mr X, else 1 - r.
    """
    own = jnp.zeros(searcher.shape, bool)
    for number, detective in enumerate(end.detectives, start=1):
        own |= (searcher == number) & (detective == end.mr_x)
    lost = end.result == LOST
    theirs = jnp.where(lost, jnp.where(own, 1.0, 1.0 - reduction), 0.0)
    return (end.result == WON).astype(jnp.float32), theirs


def upper_bounds(
    visits: Float[Array, "A ..."],
    means: Float[Array, "A ..."],
    history: Float[Array, "A ..."],
    *,
    exploration: Float[Array, ""] | float,
    history_weight: Float[Array, ""] | float,
) -> Float[Array, "A ..."]:
    """UCT with progressive history, for actions with visits:
    mean + C sqrt(ln n / n_a) + history W / (n_a (1 - mean) + 1)."""
    parent = jnp.sum(visits, axis=0)
    count = jnp.maximum(visits, 1.0)
    width = jnp.sqrt(jnp.log(jnp.maximum(parent, 1.0))[None] / count)
    bias = history * history_weight / (count * (1.0 - means) + 1.0)
    return means + exploration * width + bias


def _descend(tables, tree, begin, seed, settings, assumed):
    """Plays by UCT from the roots until the simulations leave their trees."""
    batch = len(seed)
    games = jnp.arange(batch, dtype=jnp.int32)
    length = tables.game.max_depth
    nothing, never = jnp.zeros(batch, jnp.int32), jnp.zeros(batch, bool)
    empty = jnp.full((length, batch), -1, jnp.int32)
    start = _Descent(
        depth=jnp.int32(0), position=begin, node=nothing, located=jnp.full(batch, not assumed),
        inside=begin.result == RUNNING, adds=never, by_station=never, action=nothing,
        nodes=empty, actions=empty, players=empty, moves=empty,
    )  # fmt: skip

    def goes_on(descent):
        return jnp.any(descent.inside) & (descent.depth < length)

    def step(descent):
        position, node, inside = descent.position, descent.node, descent.inside
        new_station, located = never, descent.located
        if assumed:
            splits = inside & (position.turn == 0) & ~located
            own = tree.by_station[games, node, position.mr_x]
            new_station = splits & (own == NO_NODE)
            node = jnp.where(splits & ~new_station, own, node)
            located |= splits
            inside &= ~new_station
        lines = tables.lines[:, own_station(position)]
        allowed = legal(tables, position)
        kept = playouts.without_black(tables, position, lines, allowed[:-1])
        his = position.turn == 0
        kept = jnp.where(his[None], kept, allowed[:-1])
        allowed = jnp.concatenate([kept, allowed[-1:]])
        can = jnp.any(allowed, axis=0)
        position = position.replace(
            result=jnp.where(inside & ~can, LOST, position.result)  # Mr X cannot move
        )
        inside &= can
        number = playouts.move_number(tables, position.turn[None], lines)
        word = noise.bits(seed, descent.depth + 1)
        action = _select(tree, games, node, allowed, number, word, settings)
        moved = advance(tables, position, action)
        position = choose(inside, moved, position)
        child = tree.child[games, node, action]
        running = position.result == RUNNING
        new_child = inside & running & (child == NO_NODE)
        slot = jnp.minimum(action, tables.num_moves - 1)
        move = jnp.take_along_axis(number, slot[None], axis=0)[0]
        special = action == jnp.where(his, tables.num_moves, tables.num_open)
        put = functools.partial(jax.lax.dynamic_update_index_in_dim, index=descent.depth, axis=0)
        return _Descent(
            depth=descent.depth + 1,
            position=position,
            node=jnp.where(inside & ~new_child, child, node),
            located=located,
            inside=inside & running & ~new_child,
            adds=descent.adds | new_child | new_station,
            by_station=descent.by_station | new_station,
            action=jnp.where(inside, action, descent.action),
            nodes=put(descent.nodes, node),
            actions=put(descent.actions, action),
            players=put(descent.players, jnp.where(inside, descent.position.turn, -1)),
            moves=put(descent.moves, jnp.where(inside & ~special, move, playouts.NO_MOVE)),
        )

    return jax.lax.while_loop(goes_on, step, start)


def _select(tree, games, node, allowed, number, word, settings):
    """The best action by UCT with progressive history; moves without visits come first."""
    visits, rewards = tree.visits[games, node].T, tree.rewards[games, node].T
    past = tree.history[games[None], number]  # [M, B, 2]
    history = past[..., 1] / jnp.maximum(past[..., 0], 1.0)
    history = jnp.concatenate([history, jnp.zeros_like(history[:1])])
    visits = jnp.where(allowed, visits, 0.0)
    means = rewards / jnp.maximum(visits, 1.0)
    bounds = upper_bounds(
        visits,
        means,
        history,
        exploration=settings.exploration,
        history_weight=settings.history_weight,
    )
    slots = jnp.arange(len(allowed), dtype=jnp.uint32)[:, None]
    tie = noise.uniform(noise.bits(word[None], slots + 1))
    # float32 has eight to sixteen numbers between _FIRST and the next whole one, so that of several
    # equal moves the first one is taken a little more often
    bounds = jnp.where(visits > 0, bounds, _FIRST * (1.0 + 0.5 * history))
    bounds = bounds + tie * jnp.where(visits > 0, 1e-6, 1.0)
    return jnp.argmax(jnp.where(allowed, bounds, -1.0), axis=0).astype(jnp.int32)


def _learn(tables, tree, descent, playout, rewards):
    """The trees after a simulation: a new node, and statistics of the moves that were made."""
    tree = trees.put_node(
        tree,
        adds=descent.adds,
        node=descent.node,
        action=descent.action,
        station=descent.position.mr_x,
        by_station=descent.by_station,
    )
    his, theirs = rewards

    def back_up(depth, tree):
        player = descent.players[depth]
        reward = jnp.where(player == 0, his, theirs)
        tree = trees.back_up(
            tree, counts=player >= 0, node=descent.nodes[depth], action=descent.actions[depth],
            reward=reward,
        )  # fmt: skip
        return trees.remember(tree, descent.moves[depth][None], reward[None])

    tree = jax.lax.fori_loop(0, descent.depth, back_up, tree)
    players = 1 + tables.game.detectives
    in_round = jnp.where((jnp.arange(players) == 0)[:, None], his[None], theirs[None])

    def remember(number, tree):
        moves = jax.lax.dynamic_slice_in_dim(playout.played, number * players, players)
        return trees.remember(tree, moves, in_round)

    return jax.lax.fori_loop(0, playout.length // players, remember, tree)
