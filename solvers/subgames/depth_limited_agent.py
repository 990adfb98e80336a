"""An agent that plays by depth-limited solutions, one after the other (Brown, Sandholm and Amos
2018, section 5), in games small enough for explicit trees.

It solves a subgame from the start of the game to a limit, and plays by that; where the game goes
on beyond a leaf, or the opponent acts outside of an abstraction, it solves the next subgame. The
functions are those of `solvers.search.search_agent`: an agent hears which public state was entered,
thinks, and draws an action. `composed_policy` is all that it would do, to be measured exactly.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from jaxgames.core import TERMINAL
from jaxgames.game_tree import GameTree
from solvers import cfr
from solvers.cfr import Solver
from solvers.sequence_form import Policy
from solvers.subgames import leaf_values, nested_solving
from solvers.subgames.depth_limited_subgame import Subgame, SubgamePolicy, build_subgame, embed
from solvers.subgames.leaf_values import Continuations
from solvers.subgames.nested_solving import Constraint


@dataclasses.dataclass(frozen=True, eq=False)
class Nested:
    """What agents know, and how they solve.

    `limit` tells the public states to which a subgame from a public state goes, such as
    `ends_of_rounds`; states that are not below it do not count. Of the actions, subgames have those
    that the abstraction knows. When the opponent has taken another one, the agent goes back to
    where it did, and solves a subgame in which that action is known, too.
    """

    tree: GameTree
    blueprint: Policy
    offered: Continuations  # strategies at leaves, of which each player's first is the blueprint
    limit: Callable[[GameTree, int], Sequence[int] | np.ndarray]
    both: bool = False  # choose at leaves, or the agent's opponent only
    constraint: Constraint = "resolve"  # at the roots of later subgames
    solver: Solver = dataclasses.field(default_factory=cfr.pcfr_plus)
    num_iterations: int = 1000
    known: tuple[Bool[np.ndarray, "D0 A"], Bool[np.ndarray, "D1 A"]] | None = None  # all

    @functools.cached_property
    def off_tree(self) -> frozenset[int]:
        """Public states to which actions lead that the abstraction does not know.

        Raises:
          ValueError: others lead there, too.
        """
        if self.known is None:
            return frozenset()
        tree, rows = self.tree, np.arange(1, self.tree.num_histories)
        above, unknown = tree.parent[rows], np.zeros(len(rows), bool)
        for player, known in enumerate(self.known):
            acts = tree.actor[above] == player
            states = tree.information_state[above[acts], player]
            unknown[acts] = ~known[states, tree.parent_action[rows[acts]]]
        public = tree.public_state[rows]
        found = np.unique(public[unknown])
        if np.isin(found, public[~unknown]).any():
            raise ValueError(f"known: the other player of {tree.game} does not see what is known")
        return frozenset(found.tolist())


@dataclasses.dataclass(frozen=True, eq=False)
class AgentState:
    """What the agent of `player` remembers of a game."""

    player: int
    public: int  # state where the game stands
    policy: Policy  # of the game: as far as it was solved, the blueprint beyond
    root: int = -1  # public state of the last subgame; -1 before the first
    taken: frozenset[int] = frozenset()  # of `Nested.off_tree`, what the last subgame has
    subgame: Subgame | None = None
    leaf_values: Array | None = None  # [L, c_0, c_1]
    solution: SubgamePolicy | None = None


def init(nested: Nested, player: int) -> AgentState:
    """The agent of `player` at the start of the game."""
    return AgentState(player=player, public=0, policy=nested.blueprint)


def observe(nested: Nested, state: AgentState, public: int) -> AgentState:
    """The agent after the game went on to public state `public`.

    Raises:
      ValueError: that is not next to where the game stands.
    """
    there = _next(nested.tree, state.public)
    if public not in there:
        next_ones = ", ".join(map(str, there)) or "none, the game is over"
        raise ValueError(f"public={public} is not next (there: {next_ones})")
    return dataclasses.replace(state, public=public)


def think(nested: Nested, state: AgentState) -> tuple[AgentState, Float[np.ndarray, "N A"]]:
    """Solves what has to be; the policy where the game stands.

    It has a row for each information state there of the player to act, in order of their numbers.

    Raises:
      ValueError: no player is to act.
    """
    tree = nested.tree
    rows = np.flatnonzero(tree.public_state == state.public)
    actor = int(tree.actor[rows[0]])
    if actor < 0:
        raise ValueError(f"no player is to act at public state {state.public}")
    state = _prepared(nested, state)
    numbers = np.unique(tree.information_state[rows, actor])
    return state, np.asarray(state.policy[actor])[numbers]


def act(
    nested: Nested, key: Key[Array, ""], state: AgentState, information_state: int
) -> tuple[AgentState, Int[Array, ""], Float[np.ndarray, " A"]]:
    """Thinks, and draws an action in an information state; what it is drawn from is returned too.

    It must be the agent's own decision. `key` is consumed.
    """
    state, _ = think(nested, state)
    policy = np.asarray(state.policy[state.player])[information_state]
    action = jax.random.categorical(key, jnp.log(jnp.asarray(policy)))
    return state, action, policy


def composed_policy(nested: Nested, player: int) -> Policy:
    """All that the agent of `player` does, wherever a game goes; the other player's rows are what
    it is believed to do."""
    tree, policy = nested.tree, [np.array(rows) for rows in nested.blueprint]
    waiting = [init(nested, player)]
    while waiting:
        state = _prepared(nested, waiting.pop())
        rows = np.flatnonzero(tree.public_state == state.public)
        actor = int(tree.actor[rows[0]])
        if actor >= 0:
            numbers = np.unique(tree.information_state[rows, actor])
            policy[actor][numbers] = np.asarray(state.policy[actor])[numbers]
        waiting += [observe(nested, state, int(public)) for public in _next(tree, state.public)]
    return tuple(map(jnp.asarray, policy))


def _next(tree, public):
    """Public states right after one of them."""
    return np.unique(tree.public_state[1:][tree.public_state[tree.parent[1:]] == public])


def _prepared(nested, state):
    """The agent whose last subgame, solved as all those before it, holds where the game stands."""
    tree, path, row = nested.tree, [], int(np.argmax(nested.tree.public_state == state.public))
    if tree.actor[row] == TERMINAL:
        return state
    while row >= 0:
        path.insert(0, int(tree.public_state[row]))
        row = int(tree.parent[row])
    if state.root < 0:
        state = _solved(nested, state, 0, state.taken)
    limit = nested.limit(tree, state.root)
    for before, place in itertools.pairwise(path[path.index(state.root) :]):
        if place in nested.off_tree and place not in state.taken:
            state = _solved(nested, state, before, state.taken | {place})
            limit = nested.limit(tree, before)
        if place in limit:
            state = _solved(nested, state, place, state.taken)
            limit = nested.limit(tree, place)
    return state


def _solved(nested: Nested, before: AgentState, root: int, taken: frozenset[int]) -> AgentState:
    """The agent after solving the subgame from `root`, a public state of the last one, with those
    actions outside of the abstraction that were `taken`."""
    tree, player, other = nested.tree, before.player, 1 - before.player
    offered = tuple(
        rows if nested.both or p == other else rows[:1] for p, rows in enumerate(nested.offered)
    )
    leaves = [int(leaf) for leaf in nested.limit(tree, root) if leaf != root]
    constraint = nested.constraint if root > 0 else "unsafe"
    subgame = build_subgame(
        tree,
        leaves,
        choices=tuple(map(len, offered)),
        root=root,
        without=nested.off_tree - taken,
    )
    values = leaf_values.values(leaf_values.from_leaves(tree, subgame), offered)
    promises = None
    if constraint != "unsafe":
        promises = _promises(nested, before, subgame)
    solution = nested_solving.resolve(
        subgame,
        values,
        nested_solving.ranges(nested_solving.to_root(tree, subgame), before.policy),
        promises,
        resolver=player,
        constraint=constraint,
        solver=nested.solver,
        num_iterations=nested.num_iterations,
    )
    return AgentState(
        player=player,
        public=before.public,
        policy=embed(subgame, solution, before.policy),
        root=root,
        taken=taken,
        subgame=subgame,
        leaf_values=values,
        solution=solution,
    )


def _promises(nested, before, subgame):
    """What the last subgame gives the opponent where the next one begins."""
    tree, other, known = nested.tree, 1 - before.player, before.subgame
    states = subgame.root_states[other]
    if np.isin(states, known.leaf_states[other]).all():
        return nested_solving.promised(
            known,
            leaf_values.to_leaves(tree, known),
            before.leaf_values,
            before.solution,
            before.policy,
            player=other,
            states=states,
        )
    reach = nested_solving.ranges(nested_solving.to_root(tree, known), before.policy)
    return nested_solving.promised_inside(
        known, before.leaf_values, before.solution, reach, player=other, states=states
    )
