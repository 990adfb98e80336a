"""Trained search agents: train one in one call, measure it, play it, save it and load it.

`student_of_games("leduc_poker", steps=1000, seed=0)` trains a `TrainedAgent`, which has the methods
`exploitability`, `play` and `save`; `load_agent` reads it again. A saved agent is a folder with its
network (`network.npz`) and how it was made (`result.json`), as the training experiments leave it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import Array, Float, Int, Key, PyTree

from jaxgames.beliefs.build import belief_table
from jaxgames.beliefs.listing import Listing, list_public_states
from jaxgames.beliefs.table import BeliefTable
from jaxgames.checks import at_least
from jaxgames.core import Game
from jaxgames.files import write_file
from jaxgames.game_tree import GameTree, enumerate_game
from jaxgames.registry import make
from nets import cvpn, parameters
from solvers.search import search_agent
from solvers.search.agent_exploitability import agents, longest_path, searched_exploitability
from solvers.search.search_agent import SearchAgentState
from solvers.search.search_state import GrowingTreeCfr
from train import student_of_games_training
from train.learner import LearnerSettings, require_finite_losses
from train.student_of_games_training import StudentOfGamesSettings

NETWORK_FILE = "network.npz"
RESULT_FILE = "result.json"
_NEEDED = ("game", "width", "depth", "simulations", "max_path")  # of a result's config


@dataclasses.dataclass(frozen=True, kw_only=True)
class AgentConfig:
    """What `student_of_games` trains, and how. The defaults are for small games on a CPU.

    A step of training plays `episodes` moves, solves `solves` queries at most and makes `updates`
    gradient updates.
    """

    simulations: int = 100  # of every search, in training and in play
    width: int = 128  # of the network's hidden layers
    depth: int = 3  # hidden layers of the network
    episodes: int = 16
    solves: int = 16
    updates: int = 4
    queries_per_search: float = 0.9
    queries_per_solve: float = 0.3
    learning_rate: float = 3e-3
    decay: float = 0.02  # of the learning rate, from the first step to the last
    batch_size: int = 256  # examples of a gradient update
    capacity: int = 100_000  # examples in the replay buffer


_DEFAULT = AgentConfig()


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TrainedAgent:
    """A network, and the search that plays with it."""

    game: Game
    table: BeliefTable  # the game at the level of beliefs, which is what the agent searches
    params: PyTree  # of the network, from `nnx.split`
    settings: GrowingTreeCfr  # of its searches
    own_decisions_only: bool = False  # whether measuring it searches only at its own decisions
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # how it was made

    @property
    def tree(self) -> GameTree:
        """The histories of the game.

        Raises:
          ValueError: rows of the table merge information states, so that it has no histories.
        """
        beliefs = self.game.belief_game()
        if beliefs is not None and beliefs.merges_rows:
            raise ValueError(
                f"{self.game}: its table merges information states, so its agents can be measured"
                " but not followed through a game; allowed: agents of other games"
            )
        return game_tree(str(self.game))

    def new_game(self, player: int) -> SearchAgentState:
        """The agent's state before a game.

        Args:
          player: the seat that it takes, 0 or 1.

        Returns:
          The state that `act` and `observe` take and return.

        Raises:
          ValueError: there is no such seat.
        """
        if player not in (0, 1):
            raise ValueError(f"player={player} must be 0 or 1")
        return search_agent.init(self.table, player, settings=self.settings)

    def think(self, key: Key[Array, ""], state: SearchAgentState) -> SearchAgentState:
        """Searches where the opponent acts, so that the agent follows what the opponent may have.

        An agent must think at the root of the game, whoever acts there, and then wherever a player
        does; at its own decisions `act` does so.

        Args:
          key: consumed.
          state: of the agent, which has observed all public states up to here.

        Returns:
          The state after thinking.
        """
        return search_agent.think(self.table, self.params, key, state, settings=self.settings)[0]

    def act(
        self, key: Key[Array, ""], state: SearchAgentState, row: int | Int[Array, ""]
    ) -> tuple[SearchAgentState, Int[Array, ""], Float[Array, " A"]]:
        """Thinks at its own decision and draws an action.

        Args:
          key: consumed.
          state: of the agent, which has observed all public states up to here.
          row: of the public state, the agent's own information state.

        Returns:
          The state after thinking, the action, and the policy `[A]` that it was drawn from.

        Raises:
          ValueError: it is not the agent's turn, or there is no such information state.
        """
        search_agent.check_decision(self.table, state, int(row))
        return search_agent.act(
            self.table, self.params, key, state, jnp.int32(row), settings=self.settings
        )

    def observe(self, state: SearchAgentState, child: int) -> SearchAgentState:
        """Tells the agent which public state was entered.

        Args:
          state: of the agent.
          child: the number of the public child of the public state before.

        Returns:
          The state of the agent there.

        Raises:
          ValueError: there is no such child, or the agent has to think first.
        """
        return search_agent.checked_observe(self.table, state, child)

    def play(
        self, opponent: TrainedAgent | None = None, *, deals: int = 100, seed: int = 0
    ) -> Float[np.ndarray, "D 2"]:
        """Plays against another agent; every deal is played twice, with the seats swapped.

        Args:
          opponent: another agent of the same game; None plays all legal actions equally often.
          deals: D, how many.
          seed: of all that is random.

        Returns:
          What this agent wins `[D, 2]`, by deal and seat.

        Raises:
          ValueError: the opponent plays another game, or there are no deals.
        """
        from train import agent_matches

        at_least(1, deals=deals)
        if opponent is not None and str(opponent.game) != str(self.game):
            raise ValueError(f"opponent plays {opponent.game}; must be {self.game}")
        return agent_matches.play_match(self, opponent, deals=deals, seed=seed)

    def exploitability(self, *, seeds: int = 1, seed: int = 0) -> float:
        """How exploitable it is if it searches wherever it may have to act (Schmid et al. 2023).

        Args:
          seeds: how often to search everywhere.
          seed: of all searches.

        Returns:
          NashConv / 2 in the unit of the payoffs, the mean over the seeds.

        Raises:
          ValueError: there are no seeds.
        """
        at_least(1, seeds=seeds)
        listing = list_public_states(self.table)
        chains = agents(own_decisions_only=self.own_decisions_only)
        path = max(1, longest_path(listing, chains))
        by_seed = searched_exploitability(
            self.table,
            listing,
            self.params,
            jax.random.split(jax.random.key(seed), seeds),
            settings=dataclasses.replace(self.settings, max_path=path),
            chains=chains,
        )
        return float(by_seed.mean())

    def save(self, folder: pathlib.Path | str) -> None:
        """Writes the agent into a folder, from which `load_agent` reads it.

        Args:
          folder: made if need be.

        Raises:
          ValueError: the folder holds an agent already.
          OSError: the folder cannot be written.
        """
        folder = pathlib.Path(folder)
        if (folder / RESULT_FILE).exists():
            raise ValueError(f"{folder} holds a {RESULT_FILE} already; allowed: a new folder")
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / NETWORK_FILE, parameters.to_bytes(self.params))
        result = {"experiment": "student_of_games", "config": dict(self.config)}
        write_file(folder / RESULT_FILE, json.dumps(result, indent=2) + "\n")

    def __str__(self) -> str:
        count = sum(leaf.size for leaf in jax.tree.leaves(self.params))
        steps = self.config.get("steps", (self.config.get("measured_at") or ["?"])[-1])
        return "\n".join(
            [
                f"Student of Games agent of {self.game}",
                f"  network   {count:,} parameters, trained for {steps} steps",
                f"  search    {self.settings.simulations:,} simulations per decision",
            ]
        )

    __repr__ = __str__


def student_of_games(
    game: str | Game,
    *,
    steps: int,
    seed: int = 0,
    config: AgentConfig = _DEFAULT,
    progress: Callable[[int, Mapping[str, Array]], None] | None = None,
) -> TrainedAgent:
    """Trains a value-and-policy network by sound self-play (Student of Games, Schmid et al. 2023).

    The game must be small enough to be tabulated; `train.student_of_games_training` takes any
    belief-level game, a network and settings of one's own.

    Args:
      game: a name of `jaxgames.registered()`, perhaps with parameters, or such a game.
      steps: how many steps to train.
      seed: of the network and of training.
      config: sizes of the network, of the searches and of a step.
      progress: called after every step with the number of steps made and the step's metrics.

    Returns:
      The agent, which can be measured, played and saved.

    Raises:
      ValueError: unknown game, one that cannot be tabulated, or a setting out of range.
      FloatingPointError: a loss is not finite.
    """
    at_least(1, steps=steps)
    name = _name_of(game)
    table = game_table(name)
    listing = _listing(name)
    recorded = dataclasses.asdict(config) | {
        "game": name,
        "seed": seed,
        "steps": steps,
        "simulations": [config.simulations],
        "max_path": max(1, longest_path(listing, agents())),
    }
    graph, params, search = _network_and_search(recorded, table)
    settings = training_settings(
        config,
        search,
        steps=steps,
        queries_per_search=config.queries_per_search,
        queries_per_solve=config.queries_per_solve,
    )
    state = student_of_games_training.init(table, params, jax.random.key(seed), settings=settings)
    for step in range(steps):
        state, metrics = student_of_games_training.train_step(
            table, graph, state, settings=settings
        )
        require_finite_losses(metrics, step)
        if progress is not None:
            progress(step + 1, metrics)
    return TrainedAgent(
        game=make(name), table=table, params=state.learner.params, settings=search, config=recorded
    )


def _name_of(game: str | Game) -> str:
    """The name by which agents keep their game, from which `make` builds it again."""
    name = str(game)
    try:
        make(name)
    except ValueError:
        if isinstance(game, str):
            raise
        raise ValueError(
            f"game {name} is not registered: put @jaxgames.register(NAME) above its class, and"
            " import the class's module before an agent is trained or loaded"
        ) from None
    return name


def training_settings(
    config: Any, search: GrowingTreeCfr, *, steps: int, policy_weight: float = 0.05, **more: Any
) -> StudentOfGamesSettings:
    """The settings of training that a config describes.

    Args:
      config: an `AgentConfig`, or any record with its fields about training.
      search: of self-play.
      steps: how long the learning rate decays.
      policy_weight: of the policy's loss beside the values'.
      more: further fields of the settings.

    Returns:
      The settings of `train.student_of_games_training`.
    """
    return StudentOfGamesSettings(
        search=search,
        learner=LearnerSettings(
            learning_rate=config.learning_rate,
            decay_rate=config.decay,
            decay_steps=steps * config.updates,
            batch_size=config.batch_size,
            capacity=config.capacity,
            max_uses=20,
            policy_weight=policy_weight,
        ),
        episodes=config.episodes,
        solves=config.solves,
        updates=config.updates,
        **more,
    )


def load_agent(
    folder: pathlib.Path | str,
    *,
    game: str | None = None,
    simulations: int | None = None,
    trained: bool = True,
) -> TrainedAgent:
    """Loads an agent that `TrainedAgent.save` or a training experiment has written.

    Args:
      folder: with `result.json` and `network.npz`.
      game: the game that the agent must be of; None for any.
      simulations: of its searches; None for the most that it was measured with.
      trained: False for the network as it was before training.

    Returns:
      The agent.

    Raises:
      ValueError: `folder` holds no trained agent, or one of another game than `game`, or the
        network does not fit the result.
      OSError: the files cannot be read.
    """
    folder = pathlib.Path(folder)
    config = _read_config(folder)
    if game is not None and str(make(game)) != str(make(config["game"])):
        raise ValueError(f"{folder} holds an agent of {config['game']}, not of {make(game)}")
    table = game_table(config["game"])
    _, params, settings = _network_and_search(config, table)
    if not trained:
        config = config | {"steps": 0}  # as `save` writes it
    else:
        try:
            params = parameters.read_params(folder / NETWORK_FILE, params)
        except ValueError as error:
            sizes = ", ".join(f"{name}={config[name]}" for name in ("game", "width", "depth"))
            raise ValueError(f"{error}, by {sizes} of {RESULT_FILE}") from None
    if simulations is not None:
        settings = dataclasses.replace(settings, simulations=simulations)
        config = config | {"simulations": [simulations]}  # as `save` writes it
    return TrainedAgent(
        game=make(config["game"]),
        table=table,
        params=params,
        settings=settings,
        own_decisions_only=config.get("own_decisions_only", False),
        config=config,
    )


def agent_game(folder: pathlib.Path | str) -> str:
    """The game of a saved agent, as it was given when the agent was trained.

    Raises:
      ValueError: `folder` holds no trained agent.
      OSError: the files cannot be read.
    """
    return _read_config(pathlib.Path(folder))["game"]


@functools.cache
def game_tree(game: str) -> GameTree:
    """The tree of a game by its name; the same object for the same name."""
    return enumerate_game(make(game))


@functools.lru_cache(maxsize=16)
def game_table(game: str) -> BeliefTable:
    """The belief table of a game by its name; the same object for the same name."""
    return belief_table(make(game))


@functools.lru_cache(maxsize=16)
def _listing(game: str) -> Listing:
    return list_public_states(game_table(game))


def _network_and_search(
    config: Mapping[str, Any], table: BeliefTable
) -> tuple[nnx.GraphDef, PyTree, GrowingTreeCfr]:
    """The network before training, as graph and parameters, and the search that uses it."""
    sizes = {name: config[name] for name in ("width", "depth", "seed") if name in config}
    graph, params = nnx.split(cvpn.new_cvpn(table, **({"seed": 0} | sizes)))
    settings = GrowingTreeCfr(
        cvpn.CvpnEvaluator(graph, smoothing=config.get("smoothing", 0.0)),
        simulations=max(config["simulations"]),
        exploration=config.get("exploration", 1.0),
        max_path=config["max_path"],
        max_nodes=max(_listing(config["game"]).num_inner, 1 + config["max_path"]),
    )
    return graph, params, settings


def _read_config(folder: pathlib.Path) -> dict[str, Any]:
    for name in (RESULT_FILE, NETWORK_FILE):
        if not (folder / name).is_file():
            raise ValueError(f"{folder} holds no trained agent: there is no {name}")
    try:
        result = json.loads((folder / RESULT_FILE).read_text(encoding="utf-8"))
        experiment, config = result["experiment"], dict(result["config"])
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{folder / RESULT_FILE} is not a result: {error}") from None
    missing = [name for name in _NEEDED if name not in config]
    if missing:
        raise ValueError(
            f"{folder} holds no trained agent: the config of its {experiment} lacks"
            f" {', '.join(missing)}"
        )
    return config
