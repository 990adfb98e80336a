"""Games as pure JAX functions: rules, the game contract, the registry and adapters."""

from jaxgames import (  # noqa: F401 (registers them)
    coin_toss,
    goofspiel,
    holdem,
    kuhn,
    leduc,
    liars_dice,
    matrix,
    rps_plus,
    scotland_yard,
    tic_tac_toe,
)
from jaxgames.check import check_game
from jaxgames.core import CHANCE, TERMINAL, Game, State, absorb, no_legal, record
from jaxgames.game_tree import (
    GameTree,
    TreeTooLargeError,
    enumerate_game,
    estimate_num_histories,
    make_game_tree,
)
from jaxgames.play import Playout, checked_step, random_action, random_playouts, sample_chance
from jaxgames.registry import make, register, registered

__all__ = [
    "CHANCE",
    "TERMINAL",
    "Game",
    "GameTree",
    "Playout",
    "State",
    "TreeTooLargeError",
    "absorb",
    "check_game",
    "checked_step",
    "enumerate_game",
    "estimate_num_histories",
    "make",
    "make_game_tree",
    "no_legal",
    "random_action",
    "random_playouts",
    "record",
    "register",
    "registered",
    "sample_chance",
]
