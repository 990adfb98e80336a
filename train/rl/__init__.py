"""Reinforcement learning by self-play, as a baseline: no equilibrium methods."""
