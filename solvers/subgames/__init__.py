"""Depth-limited solving with multi-valued states: subgames, values of leaves, re-solving."""
