"""The settings of a search, its problem and its state."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable
from typing import Any

import flax.struct
from jaxtyping import Array, PyTree

from jaxgames.beliefs.contract import BeliefGame, Policy, PublicState, Reach, Values
from jaxgames.core import record
from solvers.regret import RegretMatchingPlus, RegretMinimizer
from solvers.search.search_tree import LazyTree, SearchTree

# evaluate(params, game, state, reach) -> counterfactual values ([N0], [N1]) and priors ([A0, N0],
# [A1, N1]) of both players; the prior of who does not act is 0
Evaluator = Callable[[PyTree, BeliefGame, PublicState, Reach], tuple[Values, Policy]]
NO_RESOLVER = -1  # of problems without a gadget, such as that at the root of the game
NO_STEP = -1  # padding of a path


@dataclasses.dataclass(frozen=True)
class GrowingTreeCfr:
    """The settings of a search. The paper's SoG(s, c) has `simulations=s` and `pace=c`."""

    evaluate: Evaluator
    simulations: int  # s
    # c simulations per iteration of CFR; those that make no whole phase in the end are left out
    pace: float = 1.0
    exploration: float = 1.0  # constant of PUCT
    cfr_share: float = 0.5  # of CFR's average policy in what simulations play; the rest is PUCT
    follow_share: float = 0.5  # alpha: of the gadget in the opponent's range; the rest is as before
    # what the opponent's range is mixed with: its average reach in the search before (False), or
    # its reach by its policies alone (True)
    range_by_policies: bool = False
    minimizer: RegretMinimizer = dataclasses.field(default_factory=RegretMatchingPlus)
    averaging_power: float = 1.0  # iteration t has the weight t**power in averages
    max_path: int = 4  # public states between the root of a tree and the state that is searched
    # the most nodes that a tree can have, such as all of the game's; at least those of a path
    max_nodes: int | None = None
    # how many children a node may have on average: the tree has memory for as many, and stops
    # growing when it is used up; None: for all K children of every node
    children: float | None = None
    # the shares of a tree's nodes at which player 0, and player 1, can act; when a share is used
    # up, no such node is added any more. The nodes of a path always have room
    decision_shares: tuple[float, float] = (1.0, 1.0)
    # k best children by prior that a new node starts with, but for the root (1 in games of perfect
    # information, in the paper and by `growing_tree_search`); None: all
    expand: int | None = None
    # how far either player's belief at a leaf may move (L1 distance, up to 2) before the leaf is
    # valued again; 0: in every iteration
    belief_tolerance: float = 0.0
    virtual_loss: float = 1.0  # payoff counted for visits since the last iteration
    logged_queries: int = 0  # calls of the evaluator that a search keeps, for training

    def __post_init__(self):
        self._check_counts()
        if not 0 < self.pace < math.inf:
            raise ValueError(f"pace={self.pace} must be positive and finite")
        if self.expansions_per_phase > self.simulations:
            raise ValueError(
                f"pace={self.pace} must be at most simulations={self.simulations}, or a search has"
                " no iteration of CFR"
            )
        if self.children is not None and not 1 <= self.children < math.inf:
            raise ValueError(
                f"children={self.children} must be at least 1 and finite, or None: every node of a"
                " tree but its root is a child"
            )
        self._check_shares()
        if self.expand is not None:
            self._check_no_bounds()
        for name in ("exploration", "virtual_loss", "belief_tolerance", "averaging_power"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 0 and finite")

    def _check_counts(self):
        least = {"simulations": 1, "max_path": 0, "max_nodes": 1 + self.max_path}
        why = {
            "max_nodes": f", the nodes of a path of max_path={self.max_path} steps",
            "expand": ", or None for all children",
        }
        for name, lowest in (least | {"expand": 1, "logged_queries": 0}).items():
            value = getattr(self, name)
            if value is None and name in ("max_nodes", "expand"):
                continue
            if not isinstance(value, numbers.Integral):
                raise ValueError(f"{name}={value} must be an integer")
            if value < lowest:
                raise ValueError(f"{name}={value} must be at least {lowest}{why.get(name, '')}")

    def _check_no_bounds(self):
        for name, default in (
            ("max_nodes", None),
            ("children", None),
            ("decision_shares", (1.0, 1.0)),
        ):
            if getattr(self, name) != default:
                raise ValueError(
                    f"{name}={getattr(self, name)} has no use with expand={self.expand}, where"
                    f" trees have room for what simulations add; allowed: {default}"
                )

    def _check_shares(self):
        shares = self.decision_shares
        if (
            not isinstance(shares, tuple)
            or len(shares) != 2
            or not all(0 <= x <= 1 for x in shares)
        ):
            raise ValueError(f"decision_shares={shares} must be a tuple of two numbers from 0 to 1")
        if not any(shares):
            raise ValueError(
                f"decision_shares={shares} must not both be 0, or trees grow nowhere where a player"
                " acts"
            )
        for name in ("cfr_share", "follow_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)} must be from 0 to 1")

    @property
    def iterations_per_phase(self) -> int:
        """Iterations of CFR between expansions."""
        return math.ceil(1 / self.pace)

    @property
    def expansions_per_phase(self) -> int:
        """Simulations between iterations of CFR."""
        return math.ceil(self.pace)

    @property
    def capacity(self) -> int:
        """Nodes that a search has room for; memory grows with it."""
        needed = 1 + self.max_path + self.simulations
        return needed if self.max_nodes is None else min(needed, self.max_nodes)


@record
class Problem:
    """What to search; `continual_resolving` makes problems."""

    state: PublicState  # where the tree starts
    path: Array  # [L] int32 children from there to where the search acts, then NO_STEP
    # [N] own reaches of both players at `state`; the opponent's are those of the search before
    reach: tuple[Array, Array]
    resolver: Array  # [] int32 player whose policy is re-solved, or NO_RESOLVER
    # [N] values of both players' rows if they terminate in the gadget; only the opponent's count
    opt_out: tuple[Array, Array]


@record
class Gadget:
    """The choice, in each row, to follow into the subgame or to terminate.

    Both players have it; only the opponent's counts.
    """

    regret: tuple[Array, Array]  # [2, N] of following and of terminating
    follow: tuple[Array, Array]  # [N] probability of following


@record
class QueryLog:
    """C calls of the evaluator, each drawn from all calls in regret phases so far."""

    state: PublicState  # [C, ...]
    reach: tuple[Array, Array]  # [C, N] own reaches of both players at the time of the call
    calls: Array  # [] int32 so far
    key: Array | None  # of the draws; None once the search is finished


@record
class Search:
    """A finished search; see `readouts`."""

    problem: Problem
    tree: SearchTree | LazyTree
    target: Array  # [] int32 the node at which the search acts
    reach: tuple[Array, Array]  # [N] own reaches of both players there, in the last iteration
    iterations: Array  # [] int32 of CFR
    total: Array  # [] sum of the iterations' weights
    log: QueryLog | None = None  # None: no queries are kept


@record
class Searches:
    """B searches in progress."""

    layout: Any = flax.struct.field(pytree_node=False)  # forest.Layout, or lazy_layout.LazyLayout
    problem: Problem  # [B, ...]
    forest: Any  # forest.Forest, or lazy_trees.LazyTrees
    gadget: Gadget | None  # [B, ...]; None: trees of LazyTrees have no gadget
    target: Array  # [B] int32 the places of the nodes at which the searches act
    iterations: Array  # [] int32 of CFR so far
    total: Array  # [] sum of the iterations' weights
    log: QueryLog | None = None  # [B, ...]; None: no queries are kept
