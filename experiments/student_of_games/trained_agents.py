"""Trained agents, loaded from the folders that their training wrote."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import zipfile

from flax import nnx
from jaxtyping import PyTree

from experiments.harness import results
from jaxgames.beliefs.listing import list_public_states
from jaxgames.beliefs.table import BeliefTable
from jaxgames.beliefs.tabulate import belief_table_by_name
from jaxgames.core import Game
from jaxgames.game_tree import GameTree, enumerate_game
from jaxgames.registry import make
from jaxgames.scotland_yard import ScotlandYard
from nets import cvpn
from solvers.search.growing_tree_cfr import GrowingTreeCfr

NETWORK_FILE = "network.npz"
_NEEDED = ("game", "width", "depth", "simulations", "max_path")  # in a result's config


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TrainedAgent:
    """The arguments of a search in `solvers.search`: tables of the game, parameters, settings."""

    game: Game
    table: BeliefTable
    params: PyTree
    settings: GrowingTreeCfr
    own_decisions_only: bool = False  # when measured; else it searched at the opponent's, too

    @property
    def tree(self) -> GameTree:
        """The histories of the game, whose information states are the rows of `table`.

        Raises:
          ValueError: rows of the table merge information states.
        """
        if _merges_information_states(self.game):
            raise ValueError(
                f"{self.game}: rows of its tables merge information states, so its agents can be"
                " measured but not followed through a game; allowed: agents of other games"
            )
        return tree_of(str(self.game))


def load_agent(
    folder: pathlib.Path,
    *,
    game: str | None = None,
    simulations: int | None = None,
    trained: bool = True,
) -> TrainedAgent:
    """Loads the agent whose result.json and network.npz are in a folder.

    Args:
      folder: that an experiment such as `sog_leduc` wrote to.
      game: a name of the game that the agent must be of; None: of any.
      simulations: of every search; None: the most that the agent was measured with.
      trained: False loads the network as it was before training.

    Raises:
      ValueError: `folder` holds no trained agent, or one of another game than `game`, or the
        network does not fit the result.
      OSError: the files cannot be read.
    """
    config = _config(folder)
    if game is not None and str(make(game)) != str(make(config["game"])):
        raise ValueError(f"{folder} holds an agent of {config['game']}, not of {make(game)}")
    table = table_of(config["game"])
    sizes = {name: config[name] for name in ("width", "depth", "seed") if name in config}
    network = cvpn.new_cvpn(table, **({"seed": 0} | sizes))
    graph, params = nnx.split(network)
    if trained:
        params = _params(folder / NETWORK_FILE, params)
    settings = GrowingTreeCfr(
        cvpn.CvpnEvaluator(graph, smoothing=config.get("smoothing", 0.0)),
        simulations=max(config["simulations"]) if simulations is None else simulations,
        exploration=config.get("exploration", 1.0),
        max_path=config["max_path"],
        max_nodes=_num_inner(config["game"]),
    )
    return TrainedAgent(
        game=make(config["game"]),
        table=table,
        params=params,
        settings=settings,
        own_decisions_only=config.get("own_decisions_only", False),
    )


def game_of(folder: pathlib.Path) -> str:
    """The name of the game of the agent in a folder, as in the config of its training.

    Raises:
      ValueError: `folder` holds no trained agent.
      OSError: the files cannot be read.
    """
    return _config(folder)["game"]


# the same object for the same name, so that functions of it are compiled once
table_of = functools.cache(belief_table_by_name)
tree_of = functools.cache(lambda game: enumerate_game(make(game)))


def _merges_information_states(game: Game) -> bool:
    """Whether rows of a game's belief-level tables stand for several information states."""
    return isinstance(game, ScotlandYard)


@functools.cache
def _num_inner(game):
    return list_public_states(table_of(game)).num_inner


def _config(folder):
    for name in (results.RESULT_FILE, NETWORK_FILE):
        if not (folder / name).is_file():
            raise ValueError(f"{folder} holds no trained agent: there is no {name}")
    result = results.read_result(folder / results.RESULT_FILE)
    missing = [name for name in _NEEDED if name not in result.config]
    if missing:
        raise ValueError(
            f"{folder} holds no trained agent: the config of its {result.experiment} lacks"
            f" {', '.join(missing)}"
        )
    return result.config


def _params(path, like):
    try:
        return cvpn.from_bytes(path.read_bytes(), like)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} does not fit the result beside it: {error}") from None
