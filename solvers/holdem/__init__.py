"""Hold'em subgames and whole games as sequence forms: exact solving, safe nested subgame solving,
action translation.

    >>> from jaxgames.holdem import BetSizes, build_betting_tree, parse_cards, parse_range
    >>> from solvers import cfr
    >>> from solvers.holdem import HoldemSolution, holdem_tree
    >>> sizes = BetSizes.parse(bets="50%, allin", raises="3x")
    >>> betting = build_betting_tree(pot=200, stack=900, streets=1, sizes=sizes)
    >>> ranges = parse_range("66+, A8s+, AJo+"), parse_range("QQ-22, AQs-A2s")
    >>> tree = holdem_tree(parse_cards("Td9d6hQc2s"), ranges, betting)
    >>> state = cfr.init(tree.sequence_form, root_reach=tree.root_reach)
    >>> state = cfr.run(tree.sequence_form, state, solver=cfr.dcfr(gamma=3.0), num_iterations=200)
    >>> solution = HoldemSolution(tree, cfr.average_policy(tree.sequence_form, state))
    >>> print(f"{solution.ev[0]:.0f} {solution.ev[1]:.0f}")  # chips of a pot of 200
    111 89
    >>> solution.exploitability < 0.1  # chips
    True
    >>> max(solution.play("check").strategy("QsQh").items(), key=lambda item: item[1])[0]
    'allin'

Everything here is imported on first use.

- Trees: `holdem_tree` of a subgame on a board, `build_holdem_tree` with any deck,
  `whole_game_tree` of a whole game, all of them a `HoldemTree`; `estimated_bytes` of solving one;
  `shard_holdem_tree` and `shard_tree` over several devices. Every iterating solver of a
  `SequenceForm` works on `HoldemTree.sequence_form`.
- A `HoldemSolution` is walked, queried, saved and loaded.
- Depth-limited solving: `cut_street`, leaf values (`below_leaves`, `leaf_values`,
  `sampled_boards`), strategies to choose from (`self_generated_values`, `biased_policies`).
- Safe nested subgame solving: `subgame_part`, `transferred_leaf_values`, `solve_street`,
  `promised_leaf_values`, `solve_below`.
- Action translation of whole policies: `translated_tree_policy`, `mixture_policy`.
"""

from __future__ import annotations

from jaxgames.lazy_exports import lazy_exports

_MODULES = {
    "HoldemSolution": "holdem_solution",
    "HoldemTree": "subgame_tree",
    "below_leaves": "street_leaf_values",
    "biased_policies": "street_continuations",
    "build_holdem_tree": "subgame_tree",
    "cut_street": "depth_limited_street",
    "estimated_bytes": "subgame_spec",
    "holdem_tree": "subgame_tree",
    "leaf_values": "street_leaf_values",
    "mixture_policy": "policy_translation",
    "promised_leaf_values": "nested_street_solving",
    "sampled_boards": "street_leaf_values",
    "self_generated_values": "street_continuations",
    "shard_holdem_tree": "board_sharding",
    "shard_tree": "board_sharding",
    "solve_below": "nested_street_solving",
    "solve_street": "nested_street_solving",
    "subgame_part": "subgame_below",
    "transferred_leaf_values": "depth_limited_street",
    "translated_tree_policy": "policy_translation",
    "whole_game_tree": "whole_games",
}
__all__ = [*_MODULES]
__getattr__, __dir__ = lazy_exports(__name__, _MODULES)
