"""Depth-limited subgames with multi-valued states (Brown, Sandholm and Amos 2018, section 4).

A piece of an explicit game becomes a game of its own. Where it is cut, every history is a *leaf*.
There the players choose among strategies for the rest of the game, each in its own information
state and without seeing the other's choice, and the game ends with the value of the leaf under the
chosen strategies. So every solver of sequence forms is a depth-limited solver, and other leaf
values, wherever they come from, are other payoffs. A subgame below the root of the game may begin
with a gadget, as any sequence form (see `solvers.subgames.safe_resolving`).
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

NOT_OF_GAME = -1  # number of a decision that the game does not have: a choice at a leaf
# A policy of a subgame for every player [D_p, B]; B is the larger of the numbers of actions and of
# choices at leaves.
SubgamePolicy = tuple[Float[Array | np.ndarray, "_ B"], ...]
_ROOT = 1  # public state of every subgame's first histories; 0 is a chance node above them


@record
class Subgame:
    """A depth-limited piece of a game, with L leaf histories and Z terminal histories.

    At a leaf, player p chooses among c_p strategies for the rest of the game. Its R_p root
    sequences are its information states where the subgame begins.
    """

    form: SequenceForm  # payoffs of leaves are 0 (see `with_leaf_values`)
    decisions: tuple[Array, ...]  # [D_p] int32 number in the game of each decision, or NOT_OF_GAME
    root_states: tuple[Array, ...]  # [R_p] int32 number in the game of each information state
    leaf_history: Array  # [L] int32 histories of the game
    leaf_states: tuple[Array, ...]  # [L] int32 number in the game of each leaf's information state
    leaf_choice: tuple[Array, ...]  # [L] int32 decision at each leaf of a player with a choice
    payoff: Array  # [Z] to player 0 at terminals of the game, 0 at those below leaves
    leaf_value_index: Array  # [Z] int32 place among the leaf values, -1 at terminals of the game
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
    """The piece of a two-player zero-sum game from one public state down to others.

    Args:
      tree: the game.
      leaves: public states where it is cut. It ends at the first of them on each path, and where
        the game does.
      choices: how many strategies each player chooses from at leaves. `(1, n)` lets the second
        player choose, which makes the first player's policy robust (the paper); `(n, n)` lets both
        choose (Brown and Sandholm 2019, Pluribus).
      root: the public state where it begins.
      without: public states that are left out, together with the actions that lead there.
      dtype: "float32" or "float64".

    Raises:
      ValueError: the game is not for two players and zero-sum; there is no such public state;
        `root` is among the leaves; a state of `without` is the root, no player's action leads
        there, or a decision has no action left without it; `choices` are below 1.
    """
    excluded = np.unique(np.fromiter(iter(without), int))
    _check(tree, leaves, choices, root, excluded)
    inside = tree.public_state == root
    below = np.zeros(tree.num_histories, bool)  # strictly below a leaf
    leaf = np.isin(tree.public_state, np.asarray(leaves, int)) & (tree.actor != TERMINAL)
    left_out = np.isin(tree.public_state, excluded)
    for rows in levels(tree.parent):
        above = tree.parent[rows]
        inside[rows] |= inside[above]
        inside[rows] &= ~left_out[rows]
        below[rows] = below[above] | (leaf[above] & inside[above])
    leaf &= inside & ~below
    table = _HistoryTable(tree, np.flatnonzero(inside & ~below), max(choices))
    removed = np.flatnonzero(left_out)
    removed = removed[inside[tree.parent[removed]] & ~below[tree.parent[removed]]]
    table["legal"][table.rows_of(tree.parent[removed]), tree.parent_action[removed]] = False
    starts = np.flatnonzero(tree.public_state == root)
    _add_root(table, table.rows_of(starts), tree.chance_reach()[starts])
    _add_choices(table, table.rows_of(np.flatnonzero(leaf)), choices)
    return _compiled(table, tree, starts, choices, dtype)


def with_leaf_values(
    subgame: Subgame, leaf_values: Float[Array | np.ndarray, "L c0 c1"]
) -> SequenceForm:
    """The subgame's sequence form with these values at its leaves; pure, batched by `jax.vmap`.

    Args:
      subgame: the piece of the game.
      leaf_values: payoff to player 0 at each leaf, by both players' choices.

    Raises:
      ValueError: the shape of `leaf_values` does not fit.
    """
    shape = (len(subgame.leaf_history), *subgame.choices)
    if leaf_values.shape != shape:
        raise ValueError(f"leaf_values have shape {leaf_values.shape}, must be {shape}")
    values = jnp.asarray(leaf_values).reshape(-1)
    index = subgame.leaf_value_index
    at_leaves = jnp.append(values, jnp.zeros(1, values.dtype))[index]  # -1: the last
    payoff = jnp.where(index < 0, subgame.payoff, at_leaves.astype(subgame.payoff.dtype))
    return with_returns(subgame.form, jnp.stack([payoff, -payoff], axis=1))


def embed(subgame: Subgame, policy: SubgamePolicy, blueprint: Policy) -> Policy:
    """The game's `blueprint` with the `policy` of the subgame in its place.

    Args:
      subgame: a piece of the game.
      policy: policies of the subgame by player; choices at leaves do not matter.
      blueprint: policies `[D_p, A]` of the game by player.

    Returns:
      Policies `[D_p, A]` of the game by player.
    """
    composed = []
    for rows, inner, outer in zip(subgame.decisions, policy, blueprint, strict=True):
        place = jnp.where(rows == NOT_OF_GAME, len(outer), rows)
        inner = jnp.asarray(inner, outer.dtype)[:, : outer.shape[1]]
        composed.append(jnp.asarray(outer).at[place].set(inner, mode="drop"))
    return tuple(composed)


def ends_of_rounds(tree: GameTree) -> Int[np.ndarray, " n"]:
    """Public states where chance acts after some player has acted: a later round begins."""
    acted = np.zeros(tree.num_histories, bool)
    for rows in levels(tree.parent):
        above = tree.parent[rows]
        acted[rows] = acted[above] | (tree.actor[above] >= 0)
    return np.unique(tree.public_state[acted & (tree.actor == CHANCE)])


def after_decisions(tree: GameTree, count: int, *, root: int = 0) -> Int[np.ndarray, " n"]:
    """Public states right after the `count`-th decision of the players from `root` on."""
    inside, made = tree.public_state == root, np.zeros(tree.num_histories, int)
    last = np.zeros(tree.num_histories, bool)
    for rows in levels(tree.parent):
        above = tree.parent[rows]
        decided = tree.actor[above] >= 0
        last[rows] = decided & inside[above]
        made[rows] = made[above] + last[rows]
        inside[rows] |= inside[above]
    return np.unique(tree.public_state[last & (made == count)])


class _HistoryTable:
    """The histories of a game tree under construction, one row each, in any order.

    The columns are those of a `GameTree`, and `payoff` to player 0, `leaf_value_index` (see
    `Subgame`), and for each row the number of the `history` of the game, of the `start` of the
    subgame and of the `leaf` that it is or lies below, -1 if there is none. New information and
    public states get numbers that the game does not have.
    """

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
            leaf_value_index=np.full(len(histories), -1),
            history=histories,
            start=np.full(len(histories), -1),
            leaf=np.full(len(histories), -1),
        )

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    def rows_of(self, histories: np.ndarray) -> np.ndarray:
        """The rows of histories of the game; -1 where they have none."""
        return self._row[histories]

    def states(self, states: np.ndarray, seen: np.ndarray | int = 0, most: int = 1) -> np.ndarray:
        """Numbers of new states, one for each pair of an old state and a `seen` in [0, most)."""
        _, number = np.unique(states * most + seen, return_inverse=True)
        number = self._fresh + number.ravel()
        self._fresh = int(number.max(initial=self._fresh)) + 1
        return number

    def add(self, count: int, **columns) -> np.ndarray:
        """Adds rows and returns their numbers.

        Columns that are not given are those of a terminal history, or 0 or False.
        """
        unknown = dict(leaf_value_index=-1, history=-1, start=-1, leaf=-1)
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
        place = np.argsort(rows)
        columns = {name: column[rows] for name, column in self.columns.items()}
        parent = np.where(columns["parent"] < 0, -1, place[columns["parent"]])
        return columns | dict(parent=parent)


def _add_root(table, starts, reach):
    """Adds the root, from which chance leads to the starts in proportion to their reach."""
    table["start"][starts] = np.arange(len(starts))
    (root,) = table.add(1, actor=CHANCE, parent=-1, public_state=table.states(np.zeros(1, int)))
    table["information_state"][root] = table.states(np.zeros(1, int))
    table["parent"][starts] = root
    table["parent_action"][starts] = np.arange(len(starts))
    table["chance_prob"][starts] = reach / reach.sum()


def _add_choices(table, leaves, choices):
    """Adds the choices at leaves, of every player that has more than one strategy there."""
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
    table["leaf_value_index"][rows] = np.arange(len(rows))  # in the flat values [L, c_0, c_1]


def _compiled(table, tree, starts, choices, dtype):
    """The subgame of a finished table; `starts` are its first histories in the game."""
    rows = table.sorted()
    payoff, index, history = (rows.pop(k) for k in ("payoff", "leaf_value_index", "history"))
    start, leaf = rows.pop("start"), rows.pop("leaf")
    inner = make_game_tree(game=tree.game, returns=np.stack([payoff, -payoff], axis=1), **rows)
    at_leaf = np.flatnonzero((leaf >= 0) & (history >= 0))
    leaf_history = np.empty(len(at_leaf), int)
    leaf_history[leaf[at_leaf]] = history[at_leaf]
    history = np.where(leaf < 0, history, -1)  # decisions at leaves are choices
    firsts = np.flatnonzero(start >= 0)
    first_of = [np.unique(inner.information_state[firsts, p], return_index=True)[1] for p in (0, 1)]
    ends = inner.actor == TERMINAL
    form = build_sequence_form(inner, root=_ROOT, dtype=dtype)
    # payoffs are weighted by chance's probability from the start of the game; its sum over the
    # starts can be more than 1, where players have acted before
    total = float(tree.chance_reach()[starts].sum())
    chance = form.histories.terminal_chance * total
    form = form.replace(histories=form.histories.replace(terminal_chance=chance))
    form = with_returns(form, jnp.asarray(inner.returns[ends], form.dtype))
    return Subgame(
        form=form,
        decisions=tuple(jnp.asarray(_decisions(tree, inner, history, p)) for p in range(2)),
        root_states=tuple(
            jnp.asarray(tree.information_state[starts[start[firsts[index]]], p], jnp.int32)
            for p, index in enumerate(first_of)
        ),
        leaf_history=jnp.asarray(leaf_history, jnp.int32),
        leaf_states=tuple(
            jnp.asarray(tree.information_state[leaf_history, p], jnp.int32) for p in range(2)
        ),
        leaf_choice=tuple(jnp.asarray(_choices(inner, leaf, p)) for p in range(2)),
        payoff=jnp.asarray(payoff[ends], dtype),
        leaf_value_index=jnp.asarray(index[ends], jnp.int32),
        choices=tuple(choices),
    )


def _decisions(tree, inner, history, player):
    """The number in the game of each of a player's decisions, or NOT_OF_GAME."""
    of_game = history[inner.representative(player)[: inner.num_decisions[player]]]
    numbers = np.where(of_game < 0, NOT_OF_GAME, tree.information_state[of_game, player])
    return numbers.astype(np.int32)


def _choices(inner, leaf, player):
    """The decision of a player at each leaf; NOT_OF_GAME if it has no choice."""
    numbers = np.full(leaf.max(initial=-1) + 1, NOT_OF_GAME, np.int32)
    rows = np.flatnonzero((leaf >= 0) & (inner.actor == player))
    numbers[leaf[rows]] = inner.information_state[rows, player]
    return numbers


def _check(tree, leaves, choices, root, excluded):
    if tree.num_players != 2 or np.abs(tree.returns.sum(axis=1)).max() > 1e-6:
        raise ValueError(f"{tree.game}: depth-limited solving is for two-player zero-sum games")
    last = tree.public_state.max()
    named = dict(root=[root], leaves=leaves, without=excluded.tolist())
    for name, state in ((name, state) for name, states in named.items() for state in states):
        if not 0 <= state <= last:
            raise ValueError(f"{name}: {state} must be a public state, 0 to {last}")
    if root in leaves:
        raise ValueError(f"root={root} must not be among the leaves")
    rows = np.flatnonzero(np.isin(tree.public_state, excluded))
    above = tree.parent[rows]
    by_chance = (above < 0) | (tree.actor[above] < 0) | (tree.public_state[rows] == root)
    if by_chance.any():
        state = tree.public_state[rows[by_chance][0]]
        raise ValueError(
            f"without: public state {state} must be below the root, behind a player's action"
        )
    left = tree.legal.copy()
    left[above, tree.parent_action[rows]] = False
    if not (has_action := left[above].any(axis=1)).all():
        state = tree.public_state[above[~has_action][0]]
        raise ValueError(f"without: no action is left at public state {state}")
    if len(choices) != 2 or min(choices) < 1:
        raise ValueError(f"choices={choices} must be two numbers of at least 1")
