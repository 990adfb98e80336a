"""One search in one call: `growing_tree_search("leduc_poker", key=key, simulations=100)`."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from jaxgames.arrays import at
from jaxgames.beliefs import BeliefGame, BeliefTable, belief_table
from jaxgames.beliefs.contract import Values
from jaxgames.core import CHANCE, Game
from jaxgames.debug import checked
from jaxgames.game_tree import GameTree
from jaxgames.registry import make
from solvers.search import continual_resolving, growing_tree_cfr, leaf_evaluators, readouts
from solvers.search.problem_checks import check_problem
from solvers.search.search_state import NO_RESOLVER, Evaluator, GrowingTreeCfr, Problem, Search
from solvers.value_checks import check_search

_SHOWN = 12  # rows that are printed, and actions


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SearchResult:
    """What one search says about the public state it acted at. N rows, A actions."""

    game: BeliefGame
    settings: GrowingTreeCfr
    policy: Float[Array, "A N"]  # of who acts there, in each of its rows; 0 where chance moves
    values: Values  # both players' counterfactual values at the root of the search
    search: Search  # the search itself, with its tree

    @property
    def actor(self) -> int:
        """The player who acts there, 0 or 1; -1 where chance moves."""
        return int(self.game.actor(self._state))

    @property
    def num_nodes(self) -> int:
        """Public states in the tree of the search."""
        return int(self.search.tree.count)

    @property
    def _state(self):
        return at(self.search.tree.state, self.search.target)

    def __str__(self) -> str:
        lines = [
            f"{self.game.name} searched with {self.settings.simulations:,} simulations",
            f"  public states in the tree  {self.num_nodes:,}",
        ]
        if int(self.search.problem.resolver) == NO_RESOLVER:  # else the gadget is in the values
            lines.append(f"  value to player 0          {self._expected:+.6f}")
        return "\n".join(lines + self._policy_lines())

    __repr__ = __str__

    @property
    def _expected(self):
        """What player 0 expects at the root of the search: the sum over all pairs of rows, divided
        by their weight."""
        problem = self.search.problem
        mass = self.game.compatible(problem.state, 0, problem.reach[1])
        pairs = jnp.sum(problem.reach[0] * mass)
        return float(jnp.sum(problem.reach[0] * self.values[0]) / pairs)

    def _policy_lines(self):
        if self.actor == CHANCE:
            return ["  chance moves there"]
        policy = np.asarray(self.policy)
        present = np.flatnonzero(np.asarray(self.game.rows(self._state)[self.actor]))
        return [
            f"  policy of player {self.actor}         {len(present):,} rows, by action",
            *(f"    row {row}:  {_likeliest(policy[:, row])}" for row in present[:_SHOWN]),
            *(["    ..."] if len(present) > _SHOWN else []),
        ]


def _likeliest(policy):
    """The probabilities of all actions if they are few, or the largest with their actions."""
    if len(policy) <= _SHOWN:
        return "  ".join(f"{x:.3f}" for x in policy)
    played = [a for a in np.argsort(-policy, kind="stable") if policy[a] > 0]
    more = ["..."] if len(played) > _SHOWN else []
    return "  ".join([*(f"{a}: {policy[a]:.3f}" for a in played[:_SHOWN]), *more])


def growing_tree_search(
    game: str | Game | GameTree | BeliefGame,
    *,
    key: Key[Array, ""],
    simulations: int = 100,
    evaluate: Evaluator = leaf_evaluators.zero,
    params: PyTree = None,
    problem: Problem | None = None,
    **settings: object,
) -> SearchResult:
    """Searches one public state of a game by growing-tree CFR (Schmid et al. 2023).

    The search is compiled once for each game and `settings`. This is called from Python; in
    functions that are compiled or batched, use `solvers.search.search`.

    Args:
      game: a name, a game or its tree, or a belief-level game. A game with beliefs of its own, such
        as Scotland Yard or chess, is searched by these, and may have any size; others are compiled
        into tables.
      key: consumed by the search.
      simulations: of the search, each of which adds a public state's children to the tree.
      evaluate: values and prior policies of leaves, called with `params`; by default 0 and uniform.
        Static: pass the same function again, or the search is compiled again.
      params: parameters of `evaluate`, such as a network's.
      problem: what is asked; by default the root of the game (see `continual_resolving` for
        others).
      **settings: other fields of `GrowingTreeCfr`, such as `pace` or `exploration`. In a game of
        perfect information with beliefs of its own `expand` is 1, if it is not given (the paper's
        k).

    Returns:
      The policy there and both players' values, with the search itself.

    Raises:
      ValueError: unknown game, one that has no beliefs, a setting out of range, or a problem that
        the game does not have.
      TreeTooLargeError: the game has no beliefs of its own, and too many histories.
    """
    game = _belief_game(game)
    if game.has_perfect_information and not isinstance(game, BeliefTable):
        settings = {"expand": 1} | settings
    settings = GrowingTreeCfr(evaluate=evaluate, simulations=simulations, **settings)
    if problem is None:
        problem = continual_resolving.first_problem(game, max_path=settings.max_path)
    else:
        check_problem(game, problem, settings=settings)
    search = _search(game, params, key, problem, settings=settings)
    return SearchResult(
        game=game,
        settings=settings,
        policy=readouts.average_policy(search)[int(game.actor(readouts.target_state(search)))],
        values=readouts.average_values(search),
        search=search,
    )


@checked(check_search)
@functools.partial(jax.jit, static_argnames="settings")
def _search(game, params, key, problem, *, settings):
    return growing_tree_cfr.search(game, params, key, problem=problem, settings=settings)


def _belief_game(game):
    """The game's own beliefs if it has some, and else its tables; the same object for the same name
    or game."""
    if isinstance(game, BeliefGame):
        return game
    return belief_table(game) if isinstance(game, GameTree) else _beliefs(game)


@functools.lru_cache(maxsize=16)
def _beliefs(game: str | Game) -> BeliefGame:
    rules = make(game) if isinstance(game, str) else game
    own = rules.belief_game()
    return belief_table(rules) if own is None else own
