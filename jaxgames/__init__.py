"""Games as pure JAX functions: the rules, the game contract, and games by name.

Games by name:
  make: builds a game from its name: `make("leduc_poker")`, `make("openspiel:kuhn_poker")`,
    `make("efg:FILE")`, `make("pgx:chess")`.
  register, registered: adds a game of one's own; lists the names.

The contract:
  Game, State: what rules and states look like.
  CHANCE, TERMINAL: the values of `State.actor` that are not players.
  record, absorb, no_legal: helpers for writing a game.
  check_game: checks a game against the contract.

Playing:
  checked_step: steps from Python and refuses illegal moves.
  random_playouts, Playout: random episodes, batched.
  random_action, sample_chance: one random move.

Trees:
  enumerate_game, GameTree: every history of a game, in a table.
  estimate_num_histories, TreeTooLargeError: how large a tree is; the error if it is too large.
  make_game_tree: a tree from arrays of one's own.

Example:

    >>> import jax
    >>> import jaxgames
    >>> game = jaxgames.make("leduc_poker")
    >>> playouts = jaxgames.random_playouts(game, jax.random.key(0), num_playouts=4)
    >>> playouts.states.returns.shape  # playouts, states, players
    (4, 12, 2)
    >>> tree = jaxgames.enumerate_game(game)
    >>> tree.num_histories
    9457
"""

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
from jaxgames.check_game import check_game
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
