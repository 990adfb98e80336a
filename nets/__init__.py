"""Flax modules: value-and-policy networks and their torsos (none yet)."""
