"""Flax modules: value-and-policy networks and their torsos."""
