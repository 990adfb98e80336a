"""Sampling solvers: learners that play episodes of a game, and searches that sample it.

- `decision_tree`, `indexed_game`: a game compiled for episodes, from its tree or by its rules.
- `episodes`: plays episodes, thousands side by side, and draws random numbers for them.
- `outcome_sampling`, `external_sampling`, `public_chance_sampling`: the MCCFR family.
- `uct`: UCT and Smooth UCT in self-play.
- `information_set_mcts`: a search at one information state.
"""
