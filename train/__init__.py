"""Training: search agents by self-play, learned best responses, leaf values, RL baselines.

In one call:

- `student_of_games("leduc_poker", steps=1000, seed=0)` trains a `TrainedAgent`, with the sizes of
  an `AgentConfig`.
- `load_agent(folder)` reads an agent that was saved.

For your own networks and games each algorithm is a module of pure functions (`init`, `train_step`),
and a record of settings:

- `train.student_of_games_training` with `StudentOfGamesSettings`, which hold `SelfPlaySettings` and
  `LearnerSettings`; `paper_settings` has the paper's by game.
- `train.alphazero_training` with `AlphaZeroSettings`.
- `train.best_response_training` with `ResponseSettings`.
- `train.leaf_value_regression`, and `train.rl`: A2C, DQN and Q-learning.

`MetricsWriter` records the numbers of a run, and `require_finite_losses` stops one whose losses are
not finite.
"""

from train.agent import AgentConfig, TrainedAgent, load_agent, student_of_games
from train.alphazero_training import AlphaZeroSettings
from train.best_response_training import ResponseSettings
from train.learner import LearnerSettings, require_finite_losses
from train.metrics import MetricsWriter
from train.paper_settings import paper_settings
from train.self_play import SelfPlaySettings
from train.student_of_games_training import StudentOfGamesSettings

__all__ = [
    "AgentConfig",
    "AlphaZeroSettings",
    "LearnerSettings",
    "MetricsWriter",
    "ResponseSettings",
    "SelfPlaySettings",
    "StudentOfGamesSettings",
    "TrainedAgent",
    "load_agent",
    "paper_settings",
    "require_finite_losses",
    "student_of_games",
]
