"""An agent that plays by agent depth-limited solving (Brown, Sandholm and Amos 2018, section 5),
in games small enough for explicit trees.

The agent solves a subgame from the start of the game to a depth limit, and plays its solution.
Where the game goes on beyond a leaf, or the opponent takes an action outside of the agent's
abstraction, it solves the next subgame. The functions are those of `solvers.search.search_agent`:
an agent observes which public state was entered, thinks, and draws an action. `composed_policy` is
its policy in the whole game, to be measured exactly.
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
class DepthLimitedAgent:
    """What agents know of the game, and how they solve subgames.

    Subgames only have the actions of the abstraction. When the opponent has taken another action,
    the agent goes back to where that happened, and solves a subgame in which the action is legal.

    Attributes:
      tree: the game.
      blueprint: policies `[D_p, A]` of the game by player.
      continuations: strategies to choose from at leaves; each player's first is the blueprint.
      limit: `limit(tree, root)` gives the public states at which a subgame from `root` ends, such
        as `ends_of_rounds`; states that are not below the root do not count.
      constraint: at the roots of all subgames but the first.
      solver, num_iterations: how subgames are solved (see `cfr.run`).
      abstraction: for each player, which actions [D_p, A] the abstraction has; None: all.
    """

    tree: GameTree
    blueprint: Policy
    continuations: Continuations
    limit: Callable[[GameTree, int], Sequence[int] | np.ndarray]
    constraint: Constraint = "resolve"
    solver: Solver = dataclasses.field(default_factory=cfr.pcfr_plus)
    num_iterations: int = 1000
    abstraction: tuple[Bool[np.ndarray, "D0 A"], Bool[np.ndarray, "D1 A"]] | None = None

    @functools.cached_property
    def off_tree(self) -> frozenset[int]:
        """Public states to which actions outside of the abstraction lead.

        Raises:
          ValueError: actions of the abstraction lead there, too.
        """
        if self.abstraction is None:
            return frozenset()
        tree, rows = self.tree, np.arange(1, self.tree.num_histories)
        above, outside = tree.parent[rows], np.zeros(len(rows), bool)
        for player, allowed in enumerate(self.abstraction):
            acts = tree.actor[above] == player
            states = tree.information_state[above[acts], player]
            outside[acts] = ~allowed[states, tree.parent_action[rows[acts]]]
        public = tree.public_state[rows]
        off_tree = np.unique(public[outside])
        if np.isin(off_tree, public[~outside]).any():
            raise ValueError(
                f"abstraction of {tree.game}: actions outside of it must lead to public states"
                " where no other action leads"
            )
        return frozenset(off_tree.tolist())


@dataclasses.dataclass(frozen=True, eq=False)
class DepthLimitedAgentState:
    """What the agent of `player` remembers of a game."""

    player: int
    public: int  # public state that the game is in
    policy: Policy  # of the game: the solutions so far, and the blueprint beyond them
    root: int = -1  # public state where the last subgame begins; -1 before the first
    taken: frozenset[int] = frozenset()  # those of `off_tree` that the last subgame has
    subgame: Subgame | None = None
    leaf_values: Array | None = None  # [L, c_0, c_1]
    solution: SubgamePolicy | None = None


def init(agent: DepthLimitedAgent, player: int) -> DepthLimitedAgentState:
    """The agent of `player` at the start of the game."""
    return DepthLimitedAgentState(player=player, public=0, policy=agent.blueprint)


def observe(
    agent: DepthLimitedAgent, state: DepthLimitedAgentState, public: int
) -> DepthLimitedAgentState:
    """The state of the agent after the game went on to public state `public`.

    Raises:
      ValueError: that does not follow the public state that the game is in.
    """
    children = _children(agent.tree, state.public)
    if public not in children:
        allowed = ", ".join(map(str, children)) or "none, the game is over"
        raise ValueError(f"public={public} does not follow {state.public} (what does: {allowed})")
    return dataclasses.replace(state, public=public)


def think(
    agent: DepthLimitedAgent, state: DepthLimitedAgentState
) -> tuple[DepthLimitedAgentState, Float[np.ndarray, "N A"]]:
    """Solves the subgames that are due, and gives the policy for the present public state.

    Returns:
      The new state; and probabilities `[N, A]`, a row for each information state there of the
      player to act, in order of their numbers.

    Raises:
      ValueError: no player is to act.
    """
    tree = agent.tree
    rows = np.flatnonzero(tree.public_state == state.public)
    actor = int(tree.actor[rows[0]])
    if actor < 0:
        raise ValueError(f"no player is to act at public state {state.public}")
    state = _prepared(agent, state)
    numbers = np.unique(tree.information_state[rows, actor])
    return state, np.asarray(state.policy[actor])[numbers]


def act(
    agent: DepthLimitedAgent,
    key: Key[Array, ""],
    state: DepthLimitedAgentState,
    information_state: int,
) -> tuple[DepthLimitedAgentState, Int[Array, ""], Float[np.ndarray, " A"]]:
    """Thinks, and draws an action in an information state of the agent.

    Args:
      agent: the agent.
      key: consumed.
      state: the game is in a public state where the agent is to act.
      information_state: the one that the agent is in.

    Returns:
      The new state, the action, and the probabilities `[A]` that it was drawn from.

    Raises:
      ValueError: it is not the agent's turn, or there is no such information state here.
    """
    tree, player = agent.tree, state.player
    rows = np.flatnonzero(tree.public_state == state.public)
    if int(tree.actor[rows[0]]) != player:
        raise ValueError(f"{tree.game}: player {player} does not act here; allowed: observe")
    allowed = np.unique(tree.information_state[rows, player])
    if information_state not in allowed:
        raise ValueError(
            f"{tree.game}: information_state={information_state} does not exist here; allowed:"
            f" {', '.join(map(str, allowed))}"
        )
    state, _ = think(agent, state)
    policy = np.asarray(state.policy[state.player])[information_state]
    action = jax.random.categorical(key, jnp.log(jnp.asarray(policy)))
    return state, action, policy


def composed_policy(agent: DepthLimitedAgent, player: int) -> Policy:
    """The policy of the agent of `player` in the whole game, wherever a game may go.

    Returns:
      Policies `[D_p, A]` by player; the other player's rows are what the agent believes it plays.
    """
    tree, policy = agent.tree, [np.array(rows) for rows in agent.blueprint]
    pending = [init(agent, player)]
    while pending:
        state = _prepared(agent, pending.pop())
        rows = np.flatnonzero(tree.public_state == state.public)
        actor = int(tree.actor[rows[0]])
        if actor >= 0:
            numbers = np.unique(tree.information_state[rows, actor])
            policy[actor][numbers] = np.asarray(state.policy[actor])[numbers]
        pending += [observe(agent, state, int(public)) for public in _children(tree, state.public)]
    return tuple(map(jnp.asarray, policy))


def _children(tree, public):
    """The public states right after a public state."""
    return np.unique(tree.public_state[1:][tree.public_state[tree.parent[1:]] == public])


def _prepared(agent, state):
    """The state of the agent after all subgames are solved that are due on the way to where the
    game is: at a limit of the last subgame, or where the opponent left the abstraction."""
    tree, path, row = agent.tree, [], int(np.argmax(agent.tree.public_state == state.public))
    if tree.actor[row] == TERMINAL:
        return state
    while row >= 0:
        path.insert(0, int(tree.public_state[row]))
        row = int(tree.parent[row])
    if state.root < 0:
        state = _solved(agent, state, 0, state.taken)
    limit = agent.limit(tree, state.root)
    for before, place in itertools.pairwise(path[path.index(state.root) :]):
        if place in agent.off_tree and place not in state.taken:
            state = _solved(agent, state, before, state.taken | {place})
            limit = agent.limit(tree, before)
        if place in limit:
            state = _solved(agent, state, place, state.taken)
            limit = agent.limit(tree, place)
    return state


def _solved(
    agent: DepthLimitedAgent, before: DepthLimitedAgentState, root: int, taken: frozenset[int]
) -> DepthLimitedAgentState:
    """The state of the agent after solving the subgame from public state `root`.

    The subgame has the actions of the abstraction, and those to the public states `taken`.
    """
    tree, player, opponent = agent.tree, before.player, 1 - before.player
    continuations = tuple(
        rows if p == opponent else rows[:1] for p, rows in enumerate(agent.continuations)
    )
    leaves = [int(leaf) for leaf in agent.limit(tree, root) if leaf != root]
    constraint = agent.constraint if root > 0 else "unsafe"
    subgame = build_subgame(
        tree,
        leaves,
        choices=tuple(map(len, continuations)),
        root=root,
        without=agent.off_tree - taken,
    )
    values = leaf_values.values(leaf_values.paths_from_leaves(tree, subgame), continuations)
    opt_out = None
    if constraint != "unsafe":
        opt_out = _opt_out_values(agent, before, subgame)
    solution = nested_solving.resolve(
        subgame,
        values,
        nested_solving.ranges(nested_solving.paths_to_root(tree, subgame), before.policy),
        opt_out,
        resolver=player,
        constraint=constraint,
        solver=agent.solver,
        num_iterations=agent.num_iterations,
    )
    return DepthLimitedAgentState(
        player=player,
        public=before.public,
        policy=embed(subgame, solution, before.policy),
        root=root,
        taken=taken,
        subgame=subgame,
        leaf_values=values,
        solution=solution,
    )


def _opt_out_values(agent, before, subgame):
    """What the last subgame gives the opponent in the information states where the next begins."""
    tree, opponent, last = agent.tree, 1 - before.player, before.subgame
    states = subgame.root_states[opponent]
    if np.isin(states, last.leaf_states[opponent]).all():
        return nested_solving.opt_out_values_at_leaves(
            last,
            leaf_values.paths_to_leaves(tree, last),
            before.leaf_values,
            before.solution,
            before.policy,
            player=opponent,
            states=states,
        )
    reach = nested_solving.ranges(nested_solving.paths_to_root(tree, last), before.policy)
    return nested_solving.opt_out_values_inside(
        last, before.leaf_values, before.solution, reach, player=opponent, states=states
    )
