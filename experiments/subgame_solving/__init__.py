"""experiments/subgame_solving."""
