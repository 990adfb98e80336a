"""A game compiled for sampling: its decisions, and the lotteries of chance between them.

Places are the histories in which a player acts, followed by the terminal ones; chance is not a
place. What follows an action, and the start of the game, is a lottery over places, drawn from in
constant time (Walker 1977). All is looked up by number, so thousands of episodes go side by side
under `jax.vmap`, each at a place of its own.
"""

from __future__ import annotations

import flax.struct
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import TERMINAL, Game, record
from jaxgames.game_tree import MAX_HISTORIES, GameTree, enumerate_game, levels
from solvers.public_tree import Policy


@record
class Lotteries:
    """L lotteries over places, with O tickets in all (Walker's alias method)."""

    first: Array  # [L] int32 first ticket
    count: Array  # [L] int32 number of tickets
    place: Array  # [O] int32 where a ticket leads
    share: Array  # [O] of the ticket that is its own; the rest is another's
    other: Array  # [O] int32 that other ticket


@record
class DecisionTree:
    """D decisions and Z terminals, N information states (of all players, one player after the
    other), P players, A actions.

    Tables of information states have one row more than there are, N: of nobody, where an episode is
    over.
    """

    actor: Array  # [D + Z] int32, TERMINAL at terminals
    state: Array  # [D + Z] int32 information state, N at terminals
    payoffs: Array  # [D + Z, P], 0 at decisions
    uniform: Array  # [N + 1, A] uniform policy over legal actions, 0 in row N
    chance: Lotteries  # what follows: number `place * A + action`, at last the start of the game
    worlds: Lotteries  # by information state: where it may be, by what chance alone makes likely
    num_decisions: tuple[int, ...] = flax.struct.field(pytree_node=False)  # [P] states of each
    widths: tuple[tuple[int, ...], ...] = flax.struct.field(pytree_node=False)  # see `_widths`
    longest: int = flax.struct.field(pytree_node=False)  # decisions of an episode, at most
    game: str = flax.struct.field(pytree_node=False)

    @property
    def num_players(self) -> int:
        """P."""
        return self.payoffs.shape[1]

    @property
    def num_actions(self) -> int:
        """A."""
        return self.uniform.shape[1]

    @property
    def num_states(self) -> int:
        """N."""
        return sum(self.num_decisions)


def build_decision_tree(
    game: Game | GameTree, *, max_histories: int = MAX_HISTORIES
) -> DecisionTree:
    """Compiles a game, or its explicit tree.

    Raises:
      TreeTooLargeError: more than `max_histories` histories, with an estimate of how many.
      ValueError: no player ever acts.
    """
    tree = game if isinstance(game, GameTree) else enumerate_game(game, max_histories=max_histories)
    decisions = np.flatnonzero(tree.actor >= 0)
    if not len(decisions):
        raise ValueError(f"{tree.game}: no player ever acts")
    ends = np.flatnonzero(tree.actor == TERMINAL)
    histories = np.concatenate([decisions, ends])
    place = np.full(tree.num_histories, -1)
    place[histories] = np.arange(len(histories))
    begin = np.concatenate([[0], np.cumsum(tree.num_decisions)])
    player = np.maximum(tree.actor[decisions], 0)
    own = tree.information_state[decisions, player] + begin[player]
    legal = np.concatenate([tree.legal_actions(p) for p in range(tree.num_players)])
    uniform = legal / legal.sum(axis=1, keepdims=True)
    return DecisionTree(
        actor=jnp.asarray(tree.actor[histories], jnp.int32),
        state=jnp.asarray(np.concatenate([own, np.full(len(ends), begin[-1])]), jnp.int32),
        payoffs=jnp.asarray(tree.returns[histories] * (tree.actor[histories] < 0)[:, None]),
        uniform=jnp.asarray(
            np.concatenate([uniform, np.zeros((1, tree.num_actions))]), jnp.float32
        ),
        chance=_chance(tree, decisions, place),
        worlds=_lotteries(own, tree.chance_reach()[decisions], np.arange(len(own)), begin[-1]),
        num_decisions=tree.num_decisions,
        widths=tuple(_widths(tree, player) for player in range(tree.num_players)),
        longest=int(_decisions_before(tree).max()),
        game=tree.game,
    )


def draw(lotteries: Lotteries, number: Int[Array, ""], luck: Float[Array, ""]) -> Int[Array, ""]:
    """The place that a lottery leads to; `luck` is uniform in [0, 1)."""
    count = lotteries.count[number]
    scaled = luck * count.astype(luck.dtype)
    drawn = jnp.minimum(jnp.floor(scaled).astype(jnp.int32), count - 1)
    ticket = lotteries.first[number] + drawn
    own = scaled - drawn.astype(luck.dtype) < lotteries.share[ticket]
    return lotteries.place[jnp.where(own, ticket, lotteries.other[ticket])]


def start(tree: DecisionTree, luck: Float[Array, ""]) -> Int[Array, ""]:
    """The first place of an episode."""
    return draw(tree.chance, jnp.int32(len(tree.chance.count) - 1), luck)


def after(
    tree: DecisionTree, place: Int[Array, ""], action: Int[Array, ""], luck: Float[Array, ""]
) -> Int[Array, ""]:
    """The place after an action; a terminal stays where it is."""
    over = tree.actor[place] == TERMINAL
    number = jnp.where(over, 0, place * tree.num_actions + action)
    return jnp.where(over, place, draw(tree.chance, number, luck))


def policies(tree: DecisionTree, table: Float[Array, "n A"]) -> Policy:
    """A table over all information states as policies by player `[D_p, A]`."""
    ends = np.cumsum(tree.num_decisions)
    return tuple(table[end - n : end] for n, end in zip(tree.num_decisions, ends, strict=True))


def _chance(tree, decisions, place):
    """What follows every action, and the start of the game."""
    number = np.full(tree.num_histories, -1)
    number[decisions] = np.arange(len(decisions))
    root = len(decisions) * tree.num_actions
    lottery, weight = np.full(tree.num_histories, root), np.ones(tree.num_histories)
    for rows in levels(tree.parent):
        above = tree.parent[rows]
        acted = tree.actor[above] >= 0
        mine = number[above] * tree.num_actions + tree.parent_action[rows]
        lottery[rows] = np.where(acted, mine, lottery[above])
        weight[rows] = np.where(acted, 1.0, weight[above] * tree.chance_prob[rows])
    there = place >= 0
    return _lotteries(lottery[there], weight[there], place[there], root + 1)


def _lotteries(number, weight, place, length):
    """Of tickets by number of their lottery, weight and place."""
    order = np.argsort(number, kind="stable")
    order = order[weight[order] > 0]
    number, weight, place = number[order], weight[order], place[order]
    count = np.bincount(number, minlength=length)
    first = np.cumsum(count) - count
    share, other = np.ones(len(order)), np.arange(len(order))
    for begin, size in zip(first[count > 1], count[count > 1], strict=True):
        rows = slice(begin, begin + size)
        share[rows], other[rows] = _alias(weight[rows])
        other[rows] += begin
    return Lotteries(
        first=jnp.asarray(first, jnp.int32),
        count=jnp.asarray(count, jnp.int32),
        place=jnp.asarray(place, jnp.int32),
        share=jnp.asarray(share, jnp.float32),
        other=jnp.asarray(other, jnp.int32),
    )


def _alias(weights):
    """Walker's tables: ticket k, drawn uniformly, keeps its own place with `share[k]`."""
    share, other = weights / weights.sum() * len(weights), np.arange(len(weights))
    small, large = list(np.flatnonzero(share < 1)), list(np.flatnonzero(share >= 1))
    while small and large:
        less, more = small.pop(), large[-1]
        other[less] = more
        share[more] -= 1 - share[less]
        if share[more] < 1:
            small.append(large.pop())
    share[small + large] = 1  # up to rounding
    return share, other


def _decisions_before(tree):
    """Decisions on the way to each history, its own included."""
    found = (tree.actor >= 0).astype(np.int64)
    for rows in levels(tree.parent):
        found[rows] += found[tree.parent[rows]]
    return found


def _widths(tree, player):
    """By number of decisions before: how many decisions there can be, if chance and the other
    players take one action each, and `player` all of them."""
    longest = int(_decisions_before(tree).max())
    below = np.zeros((tree.num_histories, longest + 1), np.int64)
    for rows in reversed(list(levels(tree.parent))):
        _settle(tree, below, rows)
        above = tree.parent[rows]
        mine = (tree.actor[above] == player)[:, None]
        np.add.at(below, above, np.where(mine, below[rows], 0))
        np.maximum.at(below, above, np.where(mine, 0, below[rows]))
    _settle(tree, below, slice(0, 1))
    return tuple(int(width) for width in below[0] if width)


def _settle(tree, below, rows):
    """What was found of the decisions below these histories becomes what is found from them on."""
    decides = (tree.actor[rows] >= 0)[:, None]
    after = np.concatenate([np.ones_like(below[rows, :1]), below[rows, :-1]], axis=1)
    below[rows] = np.where(decides, after, below[rows])
