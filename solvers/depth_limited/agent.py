"""An agent that plays by depth-limited solutions, one after the other (Brown, Sandholm and Amos
2018, section 5), in games small enough for explicit trees.

It solves a subgame from the start of the game to a limit, and plays by that; where the game goes
on beyond a leaf, it solves the next subgame from there. The functions are those of
`solvers.search.agent`: an agent hears which public state was entered, thinks, and draws an action.
`composed_policy` is all that it would do, to be measured exactly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from jaxgames.game_tree import GameTree
from solvers import cfr
from solvers.cfr import Solver
from solvers.depth_limited import leaf_values, resolving
from solvers.depth_limited.leaf_values import Continuations, Paths
from solvers.depth_limited.resolving import Constraint
from solvers.depth_limited.subgame import Subgame, SubgamePolicy, build_subgame, embed
from solvers.public_tree import Policy


@dataclasses.dataclass(frozen=True, eq=False)
class Nested:
    """What agents know, and how they solve.

    `limit` tells the public states to which a subgame from a public state goes, such as
    `ends_of_rounds`; states that are not below it do not count.
    """

    tree: GameTree
    blueprint: Policy
    offered: Continuations  # strategies at leaves, of which each player's first is the blueprint
    limit: Callable[[GameTree, int], Sequence[int] | np.ndarray]
    both: bool = False  # choose at leaves, or the agent's opponent only
    constraint: Constraint = "resolve"  # at the roots of later subgames
    solver: Solver = dataclasses.field(default_factory=cfr.pcfr_plus)
    num_iterations: int = 1000


@dataclasses.dataclass(frozen=True, eq=False)
class AgentState:
    """What the agent of `player` remembers of a game."""

    player: int
    public: int  # state where the game stands
    policy: Policy  # of the game: as far as it was solved, the blueprint beyond
    root: int = -1  # public state of the last subgame; -1 before the first
    subgame: Subgame | None = None
    to_leaves: Paths | None = None
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
    tree = nested.tree
    there = np.unique(tree.public_state[1:][tree.public_state[tree.parent[1:]] == state.public])
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
    for root in _roots(nested, state):
        state = _solved(nested, state, root)
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
    waiting = [_solved(nested, init(nested, player), 0)]
    policy = waiting[0].policy
    while waiting:
        state = waiting.pop()
        for root in np.unique(nested.tree.public_state[np.asarray(state.subgame.leaf_history)]):
            after = _solved(nested, state, int(root))
            policy = embed(after.subgame, after.solution, policy)
            waiting.append(after)
    return policy


def _roots(nested, state):
    """Public states to solve from until the last subgame holds where the game stands."""
    tree, path, row = nested.tree, [], int(np.argmax(nested.tree.public_state == state.public))
    while row >= 0:
        path.insert(0, int(tree.public_state[row]))
        row = int(tree.parent[row])
    root, found = state.root, []
    if root < 0:
        root = 0
        found.append(root)
    while True:
        limit = set(map(int, nested.limit(tree, root))) - {root}
        below = path[path.index(root) :]
        root = next((place for place in below if place in limit), None)
        if root is None:
            return found
        found.append(root)


def _solved(nested: Nested, before: AgentState, root: int) -> AgentState:
    """The agent after solving the subgame from `root`, which is a leaf of the last one."""
    tree, player, other = nested.tree, before.player, 1 - before.player
    offered = tuple(
        rows if nested.both or p == other else rows[:1] for p, rows in enumerate(nested.offered)
    )
    leaves = [int(leaf) for leaf in nested.limit(tree, root) if leaf != root]
    constraint = nested.constraint if root > 0 else "unsafe"
    subgame = build_subgame(tree, leaves, choices=tuple(map(len, offered)), root=root)
    values = leaf_values.values(leaf_values.from_leaves(tree, subgame), offered)
    promises = None
    if constraint != "unsafe":
        promises = resolving.promised(
            before.subgame,
            before.to_leaves,
            before.leaf_values,
            before.solution,
            before.policy,
            player=other,
            states=subgame.root_states[other],
        )
    solution = resolving.resolve(
        subgame,
        values,
        resolving.ranges(resolving.to_root(tree, subgame), before.policy),
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
        subgame=subgame,
        to_leaves=leaf_values.to_leaves(tree, subgame),
        leaf_values=values,
        solution=solution,
    )
