"""Trained agents, from the folders that their training left."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import zipfile

from flax import nnx
from jaxtyping import PyTree

from experiments.harness import results
from jaxgames.beliefs import belief_table
from jaxgames.beliefs.listing import list_public_states
from jaxgames.beliefs.table import BeliefTable
from jaxgames.core import Game
from jaxgames.game_tree import GameTree, enumerate_game
from jaxgames.registry import make
from nets import cvpn
from solvers.search.growing_tree_cfr import GrowingTreeCfr

NETWORK_FILE = "network.npz"
_NEEDED = ("game", "width", "depth", "simulations", "max_path")  # of a result's config


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TrainedAgent:
    """All that `solvers.search` asks for: `search(table, params, ..., settings=settings)`."""

    game: Game
    table: BeliefTable
    params: PyTree
    settings: GrowingTreeCfr
    own_decisions_only: bool = False  # where it searched when it was measured

    @property
    def tree(self) -> GameTree:
        """The histories that `table` tells of.

        Raises:
          ValueError: rows of the table merge information states, so that it tells of none.
        """
        if self.game.belief_game() is not None:
            raise ValueError(
                f"{self.game}: its table merges information states, so its agents can be measured"
                " but not followed through a game; allowed: agents of other games"
            )
        return tree_of(str(self.game))


def load_agent(
    folder: pathlib.Path,
    *,
    game: str | None = None,
    simulations: int | None = None,
    trained: bool = True,
) -> TrainedAgent:
    """The agent whose result.json and network.npz are in `folder`.

    It searches with `simulations`, by default the most that it was measured with. With `trained`
    False its network is as before training.

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
    """The game of the agent in `folder`, as it was given when it was trained.

    Raises:
      ValueError: `folder` holds no trained agent.
      OSError: the files cannot be read.
    """
    return _config(folder)["game"]


# the same object for the same name: it compiles once
table_of = functools.cache(lambda game: belief_table(make(game)))
tree_of = functools.cache(lambda game: enumerate_game(make(game)))


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
            f"{folder} holds no trained agent: the config of its {result.experiment} does not"
            f" tell {', '.join(missing)}"
        )
    return result.config


def _params(path, like):
    try:
        return cvpn.from_bytes(path.read_bytes(), like)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} does not fit: {error}") from None
