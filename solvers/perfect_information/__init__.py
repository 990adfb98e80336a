"""Games of perfect information: AlphaZero's search, games between agents, and perfect play.

- `search` and `act` of the module `alphazero_search` are AlphaZero's, for an `AlphaZeroAgent` with
  the settings `AlphaZero`.
- `duel` plays agents against each other; the module `duels` plays many games side by side.
- `play_pairs` of the module `matches` plays pairs of games from openings (`draw_openings`) between
  two choosers of moves, which `chooser` makes of agents of AlphaZero and of Student of Games
  (`GrowingTreeAgent`).
- `BeliefEvaluator` lets growing-tree CFR evaluate by what AlphaZero's search would, and
  `PositionEvaluator` the other way.
- `enumerate_positions`, `perfect_values`, `perfect_policy` and `best_response_values` solve small
  games by backward induction.
"""

from solvers.perfect_information import alphazero_search, duels, matches
from solvers.perfect_information.alphazero_search import AlphaZero, AlphaZeroAgent, act, search
from solvers.perfect_information.duels import duel
from solvers.perfect_information.evaluators import BeliefEvaluator, PositionEvaluator
from solvers.perfect_information.growing_tree_agent import GrowingTreeAgent
from solvers.perfect_information.matches import chooser, draw_openings, play_pairs
from solvers.perfect_information.minimax import (
    best_response_values,
    enumerate_positions,
    perfect_policy,
    perfect_values,
)

__all__ = [
    "AlphaZero",
    "AlphaZeroAgent",
    "BeliefEvaluator",
    "GrowingTreeAgent",
    "PositionEvaluator",
    "act",
    "alphazero_search",
    "best_response_values",
    "chooser",
    "draw_openings",
    "duel",
    "duels",
    "enumerate_positions",
    "matches",
    "perfect_policy",
    "perfect_values",
    "play_pairs",
    "search",
]
