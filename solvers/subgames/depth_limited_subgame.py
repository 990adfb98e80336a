"""Depth-limited subgames with multi-valued states (Brown, Sandholm and Amos 2018, section 4).

A piece of an explicit game becomes a game of its own. Where it is cut, every history is a *leaf*,
at which the players choose among strategies for the rest of the game, each player in its own
information state and without seeing the other's choice; a choice ends the game with the value of
the leaf under the chosen strategies. So every solver of public trees is a depth-limited solver, and
other values, however they were come by, are other payoffs. A subgame below the root of the game may
begin with a gadget, as any public tree (see `solvers.subgames.safe_resolving`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import flax.struct
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxgames.core import CHANCE, TERMINAL, record
from jaxgames.game_tree import GameTree, levels, make_game_tree
from solvers.sequence_form import (
    Policy,
    SequenceForm,
    build_sequence_form,
    with_returns,
)

NOT_OF_GAME = -1  # a decision that the game does not have: at a leaf
# A policy of a subgame for every player: [D_p, B], B the game's actions or the choices if more.
SubgamePolicy = tuple[Float[Array | np.ndarray, "_ B"], ...]
_ROOT = 1  # public state of every subgame's first histories, below one of chance


@record
class Subgame:
    """L leaf histories, at which player p chooses among c_p strategies; Z terminal histories.

    Root sequences are the R_p information states of player p where the subgame begins.
    """

    tree: SequenceForm  # payoffs of leaves are 0 (see `with_values`)
    decisions: tuple[Array, ...]  # [D_p] int32 number in the game of each decision, or NOT_OF_GAME
    root_states: tuple[Array, ...]  # [R_p] int32 number in the game of each information state
    leaf_history: Array  # [L] int32 histories of the game
    leaf_states: tuple[Array, ...]  # [L] int32 number in the game of each leaf's information state
    leaf_choice: tuple[Array, ...]  # [L] int32 decision at each leaf of a player with a choice
    payoff: Array  # [Z] to player 0 at the game's own terminals, 0 at the others
    slot: Array  # [Z] int32 place of the others' payoffs among leaf values, or -1
    choices: tuple[int, int] = flax.struct.field(pytree_node=False)  # c_0, c_1


def build_subgame(
    tree: GameTree,
    leaves: Sequence[int] | Int[np.ndarray, " n"],
    *,
    choices: tuple[int, int] = (1, 1),
    root: int = 0,
    without: Iterable[int] | Int[np.ndarray, " m"] = (),
    dtype: str = "float32",
) -> Subgame:
    """The piece of a two-player zero-sum game from public state `root` to the public states
    `leaves`.

    It ends at the first of `leaves` on each path, and where the game does. `choices` are how many
    strategies each player chooses from at the leaves: `(1, n)` lets the second one choose, against
    whom the first is then safe (the paper), `(n, n)` both (Pluribus). Actions that lead to the
    public states `without` are no part of it.

    Raises:
      ValueError: the game is not for two players and zero-sum; no such public state; `root` is
        among the leaves; what is left out is the root, or no player's action leads there, or
        another has none left; `choices` below 1.
    """
    out = np.unique(np.fromiter(iter(without), int))
    _check(tree, leaves, choices, root, out)
    inside = tree.public_state == root
    below = np.zeros(tree.num_histories, bool)  # strictly, a leaf
    leaf = np.isin(tree.public_state, np.asarray(leaves, int)) & (tree.actor != TERMINAL)
    left_out = np.isin(tree.public_state, out)
    for rows in levels(tree.parent):
        above = tree.parent[rows]
        inside[rows] |= inside[above]
        inside[rows] &= ~left_out[rows]
        below[rows] = below[above] | (leaf[above] & inside[above])
    leaf &= inside & ~below
    table = _Table(tree, np.flatnonzero(inside & ~below), max(choices))
    gone = np.flatnonzero(left_out)
    gone = gone[inside[tree.parent[gone]] & ~below[tree.parent[gone]]]
    table["legal"][table.rows_of(tree.parent[gone]), tree.parent_action[gone]] = False
    starts = np.flatnonzero(tree.public_state == root)
    _add_root(table, table.rows_of(starts), tree.chance_reach()[starts])
    _add_choices(table, table.rows_of(np.flatnonzero(leaf)), choices)
    return _compiled(table, tree, starts, choices, dtype)


def with_values(subgame: Subgame, leaf_values: Float[Array, "L c0 c1"]) -> SequenceForm:
    """The subgame's tree with these payoffs to player 0 at its leaves; pure, batched by `vmap`.

    Raises:
      ValueError: the shape of `leaf_values` does not fit.
    """
    shape = (len(subgame.leaf_history), *subgame.choices)
    if leaf_values.shape != shape:
        raise ValueError(f"leaf_values have shape {leaf_values.shape}, must be {shape}")
    values = leaf_values.reshape(-1)
    given = jnp.append(values, jnp.zeros(1, values.dtype))[subgame.slot]  # -1: the last
    payoff = jnp.where(subgame.slot < 0, subgame.payoff, given.astype(subgame.payoff.dtype))
    return with_returns(subgame.tree, jnp.stack([payoff, -payoff], axis=1))


def embed(subgame: Subgame, policy: SubgamePolicy, blueprint: Policy) -> Policy:
    """The game's `blueprint` with what `policy` of the subgame does in its place."""
    composed = []
    for rows, inner, outer in zip(subgame.decisions, policy, blueprint, strict=True):
        place = jnp.where(rows == NOT_OF_GAME, len(outer), rows)
        inner = jnp.asarray(inner, outer.dtype)[:, : outer.shape[1]]
        composed.append(jnp.asarray(outer).at[place].set(inner, mode="drop"))
    return tuple(composed)


def ends_of_rounds(tree: GameTree) -> Int[np.ndarray, " n"]:
    """Public states where chance acts after a player has acted."""
    acted = np.zeros(tree.num_histories, bool)
    for rows in levels(tree.parent):
        above = tree.parent[rows]
        acted[rows] = acted[above] | (tree.actor[above] >= 0)
    return np.unique(tree.public_state[acted & (tree.actor == CHANCE)])


def after_decisions(tree: GameTree, count: int, *, root: int = 0) -> Int[np.ndarray, " n"]:
    """Public states right after `count` decisions of players from public state `root` on."""
    inside, made = tree.public_state == root, np.zeros(tree.num_histories, int)
    last = np.zeros(tree.num_histories, bool)
    for rows in levels(tree.parent):
        above = tree.parent[rows]
        decided = tree.actor[above] >= 0
        last[rows] = decided & inside[above]
        made[rows] = made[above] + last[rows]
        inside[rows] |= inside[above]
    return np.unique(tree.public_state[last & (made == count)])


class _Table:
    """Rows of a game tree to be, in any order; states are numbered apart from the game's."""

    def __init__(self, tree: GameTree, histories: np.ndarray, num_actions: int):
        wider = max(num_actions - tree.num_actions, 0)
        self._row = np.full(tree.num_histories, -1)
        self._row[histories] = np.arange(len(histories))
        self._fresh = 1 + max(tree.information_state.max(), tree.public_state.max())
        self.columns = dict(
            parent=self._row[tree.parent[histories]],
            parent_action=tree.parent_action[histories],
            actor=tree.actor[histories],
            legal=np.pad(tree.legal[histories], ((0, 0), (0, wider))),
            chance_prob=tree.chance_prob[histories],
            payoff=tree.returns[histories, 0],
            information_state=tree.information_state[histories].astype(np.int64),
            public_state=tree.public_state[histories].astype(np.int64),
            slot=np.full(len(histories), -1),
            history=histories,
            start=np.full(len(histories), -1),
            leaf=np.full(len(histories), -1),
        )

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    def rows_of(self, histories: np.ndarray) -> np.ndarray:
        """The rows of histories of the game."""
        return self._row[histories]

    def states(self, states: np.ndarray, seen: np.ndarray | int = 0, most: int = 1) -> np.ndarray:
        """New states, which differ where the old ones do, or what is `seen`, below `most`, does."""
        _, number = np.unique(states * most + seen, return_inverse=True)
        number = self._fresh + number.ravel()
        self._fresh = int(number.max(initial=self._fresh)) + 1
        return number

    def add(self, count: int, **columns) -> np.ndarray:
        """New rows; what is not said is 0, False, or that of a terminal history."""
        unknown = dict(slot=-1, history=-1, start=-1, leaf=-1)
        default = dict(actor=TERMINAL, chance_prob=1.0, **unknown)
        first = len(self["parent"])
        for name, old in self.columns.items():
            new = np.zeros((count, *old.shape[1:]), old.dtype)
            new[...] = columns.get(name, default.get(name, 0))
            self.columns[name] = np.concatenate([old, new])
        return np.arange(first, first + count)

    def sorted(self) -> dict[str, np.ndarray]:
        """The columns in breadth-first order, the row without a parent first."""
        parent, action = self["parent"], self["parent_action"]
        rank, order, level = np.zeros(len(parent), int), [], np.flatnonzero(parent < 0)
        while len(level):
            rank[level] = np.arange(len(level))
            order.append(level)
            level = np.flatnonzero(np.isin(parent, level))
            level = level[np.lexsort((action[level], rank[parent[level]]))]
        rows = np.concatenate(order)
        place = np.empty(len(rows), int)
        place[rows] = np.arange(len(rows))
        found = {name: column[rows] for name, column in self.columns.items()}
        return found | dict(parent=np.where(found["parent"] < 0, -1, place[found["parent"]]))


def _add_root(table, starts, reach):
    """Chance leads where the subgame begins, by its share in the reach of each history."""
    table["start"][starts] = np.arange(len(starts))
    (root,) = table.add(1, actor=CHANCE, parent=-1, public_state=table.states(np.zeros(1, int)))
    table["information_state"][root] = table.states(np.zeros(1, int))
    table["parent"][starts] = root
    table["parent_action"][starts] = np.arange(len(starts))
    table["chance_prob"][starts] = reach / reach.sum()


def _add_choices(table, leaves, choices):
    """At each leaf both players' choices, as far as they have any."""
    rows = leaves
    table["leaf"][leaves] = np.arange(len(leaves))
    for player, count in enumerate(choices):
        if count == 1:
            continue
        table["actor"][rows] = player
        table["legal"][rows] = np.arange(table["legal"].shape[1]) < count
        above, action = np.repeat(rows, count), np.tile(np.arange(count), len(rows))
        known = table["information_state"][above]
        seen = [table.states(known[:, p], action * (p == player), count) for p in range(2)]
        rows = table.add(
            len(above),
            parent=above,
            parent_action=action,
            information_state=np.stack(seen, axis=1),
            public_state=table.states(table["public_state"][above]),
            leaf=table["leaf"][above],
        )
    table["actor"][rows] = TERMINAL
    table["legal"][rows] = False
    table["slot"][rows] = np.arange(len(rows))  # in the values [L, c_0, c_1]


def _compiled(table, tree, starts, choices, dtype):
    rows = table.sorted()
    payoff, slot, history = (rows.pop(name) for name in ("payoff", "slot", "history"))
    start, leaf = rows.pop("start"), rows.pop("leaf")
    found = make_game_tree(game=tree.game, returns=np.stack([payoff, -payoff], axis=1), **rows)
    at_leaf = np.flatnonzero((leaf >= 0) & (history >= 0))
    leaf_history = np.empty(len(at_leaf), int)
    leaf_history[leaf[at_leaf]] = history[at_leaf]
    history = np.where(leaf < 0, history, -1)  # what is done at a leaf is a choice
    firsts = np.flatnonzero(start >= 0)
    first_of = [np.unique(found.information_state[firsts, p], return_index=True)[1] for p in (0, 1)]
    ends = found.actor == TERMINAL
    public = build_sequence_form(found, root=_ROOT, dtype=dtype)
    # chance's probability from the start of the game, which below players can sum to more than 1
    total = float(tree.chance_reach()[starts].sum())
    histories = public.histories.replace(terminal_chance=public.histories.terminal_chance * total)
    public = public.replace(histories=histories)
    return Subgame(
        tree=public,
        decisions=tuple(jnp.asarray(_decisions(tree, found, history, p)) for p in range(2)),
        root_states=tuple(
            jnp.asarray(tree.information_state[starts[start[firsts[index]]], p], jnp.int32)
            for p, index in enumerate(first_of)
        ),
        leaf_history=jnp.asarray(leaf_history, jnp.int32),
        leaf_states=tuple(
            jnp.asarray(tree.information_state[leaf_history, p], jnp.int32) for p in range(2)
        ),
        leaf_choice=tuple(jnp.asarray(_choices(found, leaf, p)) for p in range(2)),
        payoff=jnp.asarray(payoff[ends], dtype),
        slot=jnp.asarray(slot[ends], jnp.int32),
        choices=tuple(choices),
    )


def _decisions(tree, found, history, player):
    """The game's number of each of a player's decisions."""
    at = history[found.representative(player)[: found.num_decisions[player]]]
    return np.where(at < 0, NOT_OF_GAME, tree.information_state[at, player]).astype(np.int32)


def _choices(found, leaf, player):
    """The decision of a player at each leaf, or NOT_OF_GAME if there is no choice."""
    numbers = np.full(leaf.max(initial=-1) + 1, NOT_OF_GAME, np.int32)
    rows = np.flatnonzero((leaf >= 0) & (found.actor == player))
    numbers[leaf[rows]] = found.information_state[rows, player]
    return numbers


def _check(tree, leaves, choices, root, out):
    if tree.num_players != 2 or np.abs(tree.returns.sum(axis=1)).max() > 1e-6:
        raise ValueError(f"{tree.game}: depth-limited solving is for two-player zero-sum games")
    last = tree.public_state.max()
    named = dict(root=[root], leaves=leaves, without=out.tolist())
    for name, state in ((name, state) for name, states in named.items() for state in states):
        if not 0 <= state <= last:
            raise ValueError(f"{name}: {state} must be a public state, 0 to {last}")
    if root in leaves:
        raise ValueError(f"root={root} must not be among the leaves")
    rows = np.flatnonzero(np.isin(tree.public_state, out))
    above = tree.parent[rows]
    by_chance = (above < 0) | (tree.actor[above] < 0) | (tree.public_state[rows] == root)
    if by_chance.any():
        state = tree.public_state[rows[by_chance][0]]
        raise ValueError(
            f"without: {state} must be what a player's action leads to, below the root"
        )
    left = tree.legal.copy()
    left[above, tree.parent_action[rows]] = False
    if not (some := left[above].any(axis=1)).all():
        state = tree.public_state[above[~some][0]]
        raise ValueError(f"without leaves no action at public state {state}")
    if len(choices) != 2 or min(choices) < 1:
        raise ValueError(f"choices={choices} must be a number of at least 1 for either player")
