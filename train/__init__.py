"""Training: search agents by self-play, learned best responses, leaf values, RL baselines.

    import train

    agent = train.student_of_games("leduc_poker", steps=1000, seed=0)
    print(agent.exploitability())

In one call:

- `student_of_games` trains a `TrainedAgent` in a game by name, with an `AgentConfig`;
  `load_agent` reads one that was saved.

Training of one's own networks and games is made of modules of pure functions, which are also what
the experiments use:

- `StudentOfGamesSettings`, `new_student_of_games_training` and `train_step` of
  `train.student_of_games_training`, with `LearnerSettings`, `SelfPlaySettings` and
  `paper_settings` (the paper's settings by game),
- `train.alphazero_training`, `train.best_response_training` and `train.leaf_value_regression`,
- `train.rl`: A2C, DQN and Q-learning.

`MetricsWriter` records the numbers of a run, and `require_finite` stops one whose losses are not
finite.
"""

from train.agent import AgentConfig, TrainedAgent, load_agent, student_of_games
from train.learner import LearnerSettings, require_finite
from train.metrics import MetricsWriter
from train.paper_settings import paper_settings
from train.self_play import SelfPlaySettings
from train.student_of_games_training import (
    StudentOfGamesSettings,
    new_student_of_games_training,
)

__all__ = [
    "AgentConfig",
    "LearnerSettings",
    "MetricsWriter",
    "SelfPlaySettings",
    "StudentOfGamesSettings",
    "TrainedAgent",
    "load_agent",
    "new_student_of_games_training",
    "paper_settings",
    "require_finite",
    "student_of_games",
]
