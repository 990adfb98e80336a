"""The public tree: all that solvers need of a game, as arrays.

A *sequence* of player p is p's last own action together with the information state it was taken in
(or a root sequence, before any own action); perfect recall makes it determine all of p's past, so
p's own reach is one number per sequence, at whatever public state. The sequences are laid out by
own depth, and within a depth by the number of legal actions, so that both sweeps of CFR are a
short fixed list of vectorised steps. `docs/performance.md` says why this layout was chosen.
"""

from __future__ import annotations

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import TERMINAL, Game, record
from jaxgames.game_tree import MAX_HISTORIES, GameTree, enumerate_game, levels
from solvers import sparse_sum
from solvers.sparse_sum import SparseSum

# A policy for every player: probabilities [D_p, A], rows by number of the information state.
Policy = tuple[Float[Array | np.ndarray, "_ A"], ...]
# Every player's own reach of its root sequences [R_p]: in a subgame, the players' ranges.
RootReach = tuple[Float[Array | np.ndarray, " _"], ...]

NO_ACTION = -1
_GROUP_COST = 1000  # a further group of decisions costs as much as this many padded slots


@record
class Group:
    """n decisions of one player at one own depth, with A slots for their legal actions."""

    parent: Array  # [n] int32 row of the parent sequence among those of the depth above
    decision: Array  # [n] int32 number of the information state
    action: Array  # [A, n] int32 action of each slot, NO_ACTION at padding
    uniform: Array  # [A, n] the uniform policy, 0 at padding
    num_actions: int = flax.struct.field(pytree_node=False)  # A
    num_decisions: int = flax.struct.field(pytree_node=False)  # n


@record
class Level:
    """The decisions of one own depth; their sequences are the rows `begin:end`."""

    groups: tuple[Group, ...]
    children: SparseSum  # decisions of this depth -> sequences of the depth above
    begin: int = flax.struct.field(pytree_node=False)
    end: int = flax.struct.field(pytree_node=False)
    first_group: int = flax.struct.field(pytree_node=False)


@record
class Player:
    """One player's sequences: the R root sequences first, then depth by depth, Q in all."""

    levels: tuple[Level, ...]
    one: Array  # [] 1, unknown to the compiler; see `sweeps.materialize`
    num_roots: int = flax.struct.field(pytree_node=False)  # R
    num_sequences: int = flax.struct.field(pytree_node=False)  # Q, padding included
    num_decisions: int = flax.struct.field(pytree_node=False)  # D

    @property
    def groups(self) -> tuple[Group, ...]:
        """All groups, in order of depth."""
        return tuple(group for level in self.levels for group in level.groups)

    @property
    def num_groups(self) -> int:
        """Number of groups."""
        return sum(len(level.groups) for level in self.levels)


@record
class PublicStates:
    """S public states in breadth-first order, and who may be where.

    Information states of player p at a public state are its rows `[S, N_p]`, padded with -1.
    """

    parent: Array  # [S] int32, -1 at the root
    depth: Array  # [S] int32
    actor: Array  # [S] int32
    information_states: tuple[Array, ...]  # [S, N_p] int32 numbers, -1 at padding
    sequences: tuple[Array, ...]  # [S, N_p] int32 sequence that leads there, 0 at padding


@record
class PublicTree:
    """A game compiled for exact solving; a pytree, so an argument of jitted functions."""

    players: tuple[Player, ...]
    terminals: tuple[SparseSum, ...]  # by player: others' reach -> counterfactual payoffs [Q_p]
    payoffs: Array  # [E, P] chance-weighted payoffs of the terminal entries
    payoff_sequences: Array  # [P, E] int32 sequence of every player at each terminal entry
    terminal_entry: Array  # [Z] int32 terminal entry of each terminal history
    terminal_chance: Array  # [Z] chance's probability of each terminal history
    public_states: PublicStates
    num_actions: int = flax.struct.field(pytree_node=False)
    game: str = flax.struct.field(pytree_node=False)

    @property
    def num_players(self) -> int:
        """P."""
        return len(self.players)

    @property
    def dtype(self) -> jnp.dtype:
        """Precision of the payoffs, hence of every solver on this tree."""
        return self.payoffs.dtype


def build_public_tree(
    game: Game | GameTree,
    *,
    root: int = 0,
    dtype: str = "float32",
    max_histories: int = MAX_HISTORIES,
) -> PublicTree:
    """Compiles a game, or its explicit tree, into a `PublicTree` of precision `dtype`.

    `root` is a public state; other than 0 it makes a subgame, in which every player has one root
    sequence for each of its information states there, and payoffs are weighted by chance's
    probability from the start of the game. Numbers of information and public states stay those
    of the whole game.

    Raises:
      TreeTooLargeError: more than `max_histories` histories, with an estimate of how many.
      ValueError: no public state `root`, `dtype` neither float32 nor float64, or float64 without
        JAX's x64 mode.
    """
    dtype = _checked_dtype(dtype)
    tree = game if isinstance(game, GameTree) else enumerate_game(game, max_histories=max_histories)
    if not 0 <= root <= tree.public_state.max():
        raise ValueError(f"root={root} must be a public state, 0 to {tree.public_state.max()}")
    inside = _descendants(tree, root)
    layouts = [_Layout(tree, p, root, inside, dtype) for p in range(tree.num_players)]
    terminal = np.flatnonzero(inside & (tree.actor == TERMINAL))
    at_terminal = np.stack([layout.rows[layout.last[terminal]] for layout in layouts])
    chance = _chance_reach(tree)[terminal]
    sequences, entry = np.unique(at_terminal, axis=1, return_inverse=True)
    payoffs = np.zeros((sequences.shape[1], tree.num_players))
    np.add.at(payoffs, entry, chance[:, None] * tree.returns[terminal])
    return PublicTree(
        players=tuple(layout.player for layout in layouts),
        terminals=tuple(
            _terminal_sum(p, sequences, payoffs[:, p].astype(dtype), layouts)
            for p in range(tree.num_players)
        ),
        payoffs=jnp.asarray(payoffs, dtype),
        payoff_sequences=jnp.asarray(sequences, jnp.int32),
        terminal_entry=jnp.asarray(entry, jnp.int32),
        terminal_chance=jnp.asarray(chance, dtype),
        public_states=_public_states(tree, inside, layouts),
        num_actions=tree.num_actions,
        game=tree.game,
    )


def with_returns(tree: PublicTree, returns: Float[Array, "Z P"]) -> PublicTree:
    """The same tree with other payoffs at its terminal histories; pure, batched by `vmap`.

    Raises:
      ValueError: the shape of `returns` is not `[Z, P]`.
    """
    shape = (len(tree.terminal_chance), tree.num_players)
    if returns.shape != shape:
        raise ValueError(f"returns of {tree.game} have shape {returns.shape}, must be {shape}")
    weighted = returns.astype(tree.dtype) * tree.terminal_chance[:, None]
    payoffs = jax.ops.segment_sum(weighted, tree.terminal_entry, tree.payoffs.shape[0])
    terminals = [sparse_sum.reweigh(plan, payoffs[:, p]) for p, plan in enumerate(tree.terminals)]
    return tree.replace(payoffs=payoffs, terminals=tuple(terminals))


def checked_root_reach(tree: PublicTree, root_reach: RootReach | None) -> tuple[Array, ...]:
    """`root_reach` in the precision of the tree, or 1 everywhere if it is None.

    Raises:
      ValueError: the shape of a player's root reach is not `[R_p]`.
    """
    shapes = [(player.num_roots,) for player in tree.players]
    if root_reach is None:
        return tuple(jnp.ones(shape, tree.dtype) for shape in shapes)
    given = [tuple(np.shape(reach)) for reach in root_reach]
    if given != shapes:
        raise ValueError(f"root_reach of {tree.game} has shapes {given}, must be {shapes}")
    return tuple(jnp.asarray(reach, tree.dtype) for reach in root_reach)


def uniform(tree: PublicTree) -> tuple[tuple[Array, ...], ...]:
    """The uniform policies as tables, by player and group."""
    return tuple(tuple(group.uniform for group in player.groups) for player in tree.players)


def pack(tree: PublicTree, policy: Policy) -> tuple[tuple[Array, ...], ...]:
    """Policies as tables by player and group, `[A_g, n_g]`, zero at padding.

    Raises:
      ValueError: the shape of a player's policy is not `[D_p, A]`.
    """
    shapes = [(player.num_decisions, tree.num_actions) for player in tree.players]
    given = [tuple(np.shape(rows)) for rows in policy]
    if given != shapes:
        raise ValueError(f"policy of {tree.game} has shapes {given}, must be {shapes}")
    packed = []
    for player, rows in zip(tree.players, policy, strict=True):
        rows = jnp.asarray(rows, tree.dtype)
        tables = (rows[group.decision[None, :], group.action] for group in player.groups)
        packed.append(
            tuple(
                jnp.where(group.uniform > 0, table, 0)
                for group, table in zip(player.groups, tables, strict=True)
            )
        )
    return tuple(packed)


def unpack(tree: PublicTree, tables: tuple[tuple[Array, ...], ...]) -> Policy:
    """The inverse of `pack`: rows by information state, zero at illegal actions."""
    policy = []
    for player, groups in zip(tree.players, tables, strict=True):
        rows = jnp.zeros((player.num_decisions, tree.num_actions + 1), tree.dtype)
        for group, table in zip(player.groups, groups, strict=True):
            # Padding has action -1 and falls into the extra column.
            rows = rows.at[group.decision[None, :], group.action].set(table)
        policy.append(rows[:, :-1])
    return tuple(policy)


def _checked_dtype(dtype):
    if dtype not in ("float32", "float64"):
        raise ValueError(f"dtype={dtype!r} must be 'float32' or 'float64'")
    if dtype == "float64" and not jax.config.jax_enable_x64:
        raise ValueError("dtype='float64' needs jax.config.update('jax_enable_x64', True)")
    return np.dtype(dtype)


def _descendants(tree, root):
    """Histories [H] bool at or below a public state."""
    inside = tree.public_state == root
    for rows in levels(tree.parent):
        inside[rows] |= inside[tree.parent[rows]]
    return inside


def _chance_reach(tree):
    reach = tree.chance_prob.copy()
    for rows in levels(tree.parent):
        reach[rows] *= reach[tree.parent[rows]]
    return reach


class _Layout:
    """Numbers the sequences of one player.

    Raw numbers are the root sequences 0..R-1, then R + decision * A + action: `last` [H] is the
    raw last sequence of each history, and `rows` translates raw numbers to rows.
    """

    def __init__(self, tree: GameTree, player: int, root: int, inside: np.ndarray, dtype: np.dtype):
        states = tree.information_state[:, player]
        self.root_states = np.unique(states[tree.public_state == root])
        self.num_roots = len(self.root_states)
        decides = np.zeros(tree.num_decisions[player], bool)
        decides[states[inside & (tree.actor == player)]] = True
        self.last = self._last_sequences(tree, player, root, decides)
        decisions = np.flatnonzero(decides)
        parent = np.zeros(len(decides), np.int64)
        parent[decisions] = self.last[_first_inside(states, inside, decisions)]
        depth = self._own_depth(parent, decides, tree.num_actions)
        self.rows = np.zeros(self.num_roots + decides.size * tree.num_actions, np.int64)
        self.rows[: self.num_roots] = np.arange(self.num_roots)
        self.player = self._player(depth, tree.legal_actions(player), parent, dtype)

    def _last_sequences(self, tree, player, root, decides):
        states = tree.information_state[:, player]
        last = np.zeros(tree.num_histories, np.int64)
        at_root = tree.public_state == root
        last[at_root] = np.searchsorted(self.root_states, states[at_root])
        own = self.num_roots + states.astype(np.int64) * tree.num_actions
        for rows in levels(tree.parent):
            above = tree.parent[rows]
            acted = (tree.actor[above] == player) & np.append(decides, False)[
                np.minimum(states[above], len(decides))
            ]
            inherited = np.where(acted, own[above] + tree.parent_action[rows], last[above])
            last[rows] = np.where(at_root[rows], last[rows], inherited)
        return last

    def _player(self, depth, legal, parent, dtype):
        found, begin, first_group = [], self.num_roots, 0
        above = (0, self.num_roots)
        for d in range(depth.max(initial=-1) + 1):
            here = np.flatnonzero(depth == d)
            members = _group_by_num_actions(here, legal[here].sum(axis=1))
            groups, end = [], begin
            for decisions in members:
                groups.append(self._group(decisions, legal, parent, above[0], end, dtype))
                end += groups[-1].num_actions * groups[-1].num_decisions
            parents = self.rows[parent[np.concatenate(members)]] - above[0]
            children = sparse_sum.build(
                row=parents,
                columns=(np.arange(len(parents)),),
                num_rows=above[1] - above[0],
                num_columns=len(parents),
            )
            found.append(
                Level(
                    groups=tuple(groups),
                    children=children,
                    begin=begin,
                    end=end,
                    first_group=first_group,
                )
            )
            above, begin, first_group = (begin, end), end, first_group + len(groups)
        return Player(
            levels=tuple(found),
            one=jnp.ones((), dtype),
            num_roots=self.num_roots,
            num_sequences=begin,
            num_decisions=len(depth),
        )

    def _own_depth(self, parent, decides, num_actions):
        """Own decisions above each decision, -1 outside; parents have smaller numbers."""
        depth = np.where(decides, 0, -1)
        above = (parent - self.num_roots) // num_actions
        deeper = decides & (parent >= self.num_roots)
        while True:
            updated = np.where(deeper, depth[np.where(deeper, above, 0)] + 1, depth)
            if (updated == depth).all():
                return depth
            depth = updated

    def _group(self, decisions, legal, parent, above, first, dtype):
        width = int(legal[decisions].sum(axis=1).max())
        slots = np.argsort(~legal[decisions], axis=1, kind="stable")[:, :width].T  # [A, n]
        allowed = np.take_along_axis(legal[decisions], slots.T, axis=1).T
        rows = first + np.arange(slots.size).reshape(slots.shape)
        raw = self.num_roots + decisions[None, :] * legal.shape[1] + slots
        self.rows[raw[allowed]] = rows[allowed]
        return Group(
            parent=jnp.asarray(self.rows[parent[decisions]] - above, jnp.int32),
            decision=jnp.asarray(decisions, jnp.int32),
            action=jnp.asarray(np.where(allowed, slots, NO_ACTION), jnp.int32),
            uniform=jnp.asarray(allowed / allowed.sum(axis=0), dtype),
            num_actions=width,
            num_decisions=len(decisions),
        )


def _group_by_num_actions(decisions, num_actions):
    """Splits decisions by their number of actions into few groups with little padding.

    Dynamic programming over the distinct numbers, largest first: a group costs its padded slots
    plus `_GROUP_COST`.
    """
    counts, sizes = np.unique(num_actions, return_counts=True)
    counts, sizes = counts[::-1], sizes[::-1]
    best, cut = [0.0], []
    for end in range(1, len(counts) + 1):
        costs = [
            best[begin] + _GROUP_COST + counts[begin] * sizes[begin:end].sum()
            for begin in range(end)
        ]
        cut.append(int(np.argmin(costs)))
        best.append(min(costs))
    groups, end = [], len(counts)
    while end:
        begin = cut[end - 1]
        widest_first = [decisions[num_actions == count] for count in counts[begin:end]]
        groups.insert(0, np.concatenate(widest_first))
        end = begin
    return groups


def _terminal_sum(player, sequences, payoff, layouts):
    others = [q for q in range(len(layouts)) if q != player]
    return sparse_sum.build(
        row=sequences[player],
        columns=tuple(sequences[q] for q in others),
        num_rows=layouts[player].player.num_sequences,
        num_columns=0,
        weight=payoff,
    )


def _public_states(tree, inside, layouts) -> PublicStates:
    _, first = np.unique(tree.public_state, return_index=True)
    above = tree.public_state[tree.parent[first]]
    tables, sequences = [], []
    for player, layout in enumerate(layouts):
        states = np.unique(tree.information_state[inside, player])
        history = _first_inside(tree.information_state[:, player], inside, states)
        table = _pad_by(tree.public_state[history], len(first))
        tables.append(jnp.asarray(np.where(table < 0, -1, states[table]), jnp.int32))
        rows = layout.rows[layout.last[history]]
        sequences.append(jnp.asarray(np.where(table < 0, 0, rows[table]), jnp.int32))
    return PublicStates(
        parent=jnp.asarray(np.where(first == 0, -1, above), jnp.int32),
        depth=jnp.asarray(tree.depth[first], jnp.int32),
        actor=jnp.asarray(tree.actor[first], jnp.int32),
        information_states=tuple(tables),
        sequences=tuple(sequences),
    )


def _first_inside(states, inside, wanted):
    """The first history of each wanted information state among those inside."""
    histories = np.flatnonzero(inside)[::-1]
    found = np.zeros(states.max() + 1, np.int64)
    found[states[histories]] = histories
    return found[wanted]


def _pad_by(owner: Int[np.ndarray, " I"], num_owners: int) -> Int[np.ndarray, "S N"]:
    """Members `0..I-1` listed by owner, one row each, padded with -1."""
    order = np.argsort(owner, kind="stable")
    count = np.bincount(owner, minlength=num_owners)
    rank = np.arange(len(owner)) - (np.cumsum(count) - count)[owner[order]]
    table = np.full((num_owners, count.max()), -1)
    table[owner[order], rank] = order
    return table
