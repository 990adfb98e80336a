"""Hold'em subgames and whole games as sequence forms: exact solving, safe nested solving, action
translation.

    >>> from jaxgames.holdem import BetSizes, build_betting_tree, parse_cards, parse_range
    >>> from solvers import cfr
    >>> from solvers.holdem import Solution, holdem_tree
    >>> sizes = BetSizes.parse(bets="50%", raises="")
    >>> betting = build_betting_tree(pot=200, stack=900, streets=1, sizes=sizes)
    >>> board = parse_cards("Td9d6hQc2s")
    >>> ranges = parse_range("66+, A8s+"), parse_range("QQ+, AQ")
    >>> tree = holdem_tree(board, ranges, betting)
    >>> state = cfr.init(tree.sequence_form, root_reach=tree.root_reach)
    >>> solver = cfr.dcfr(gamma=3.0)
    >>> state = cfr.run(tree.sequence_form, state, solver=solver, num_iterations=20)
    >>> solution = Solution(tree, cfr.average_policy(tree.sequence_form, state))
    >>> solution.play("check").actions
    ('check', 'bet 100')
"""

from solvers.holdem.board_sharding import shard_holdem_tree, shard_tree
from solvers.holdem.depth_limited_street import cut_street, transferred_leaf_values
from solvers.holdem.nested_street_solving import promised_leaf_values, solve_below, solve_street
from solvers.holdem.policy_translation import mixture_policy, translated_tree_policy
from solvers.holdem.solution import Solution
from solvers.holdem.street_continuations import biased_policies, self_generated_values
from solvers.holdem.street_leaf_values import below_leaves, leaf_values, sampled_boards
from solvers.holdem.subgame_part import subgame_part
from solvers.holdem.subgame_spec import estimated_bytes
from solvers.holdem.subgame_tree import HoldemTree, build_holdem_tree, holdem_tree
from solvers.holdem.whole_game_tree import whole_game_tree

__all__ = [
    "HoldemTree",
    "Solution",
    "below_leaves",
    "biased_policies",
    "build_holdem_tree",
    "cut_street",
    "estimated_bytes",
    "holdem_tree",
    "leaf_values",
    "mixture_policy",
    "promised_leaf_values",
    "sampled_boards",
    "self_generated_values",
    "shard_holdem_tree",
    "shard_tree",
    "solve_below",
    "solve_street",
    "subgame_part",
    "transferred_leaf_values",
    "translated_tree_policy",
    "whole_game_tree",
]
