"""Sampling: learners that play episodes, and what episodes are made of."""
