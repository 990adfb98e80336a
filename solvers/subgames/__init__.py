"""Solving a part of a game: safely, to a limited depth, and one part after the other.

- `safe_resolving`: gadgets that keep the opponent from gaining (re-solving, maxmargin, reach).
- `depth_limited_subgame`: pieces of a game whose leaves have values under several strategies.
- `continuations`, `leaf_values`: which strategies, and the values of leaves under them.
- `nested_solving`, `depth_limited_agent`: the next subgame, and an agent that plays by them.
"""
