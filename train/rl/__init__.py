"""Reinforcement learning by self-play, as a baseline without equilibrium methods.

- `environment`: a game as learners see it.
- `q_learning`: tabular Q-learning.
- `dqn`: deep Q-networks.
- `a2c`: advantage actor-critic.
- `networks`: what the learners with networks share.
"""
