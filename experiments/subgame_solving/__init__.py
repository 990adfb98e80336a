"""Experiments with subgame solving: safe re-solving, depth limits, action translation."""
