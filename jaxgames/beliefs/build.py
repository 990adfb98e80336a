"""One constructor of belief tables for all games that can be enumerated."""

from __future__ import annotations

from jaxgames.beliefs.from_tree import table_from_tree
from jaxgames.beliefs.table import BeliefTable
from jaxgames.beliefs.tabulate import tabulate
from jaxgames.core import Game
from jaxgames.game_tree import GameTree, enumerate_game
from jaxgames.game_tree.enumeration import refuse_name


def belief_table(game: Game | GameTree, *, dtype: str = "float32") -> BeliefTable:
    """Compiles a two-player zero-sum game into tables by public state.

    A game whose own beliefs (`Game.belief_game`) merge information states is tabulated from those.
    Other games, and trees, are compiled from their histories.

    Args:
      game: the rules, or all their histories.
      dtype: of weights, payoffs and features.

    Returns:
      The tables; of one game always the same.

    Raises:
      TreeTooLargeError: the game has too many histories.
      ValueError: the game has not two players, is not zero-sum, has too many public states, chance
        deals privately after the first decision, or an information state lies in several public
        states; or `game` is a name.
    """
    if isinstance(game, GameTree):
        return table_from_tree(game, dtype=dtype)
    refuse_name(game)
    beliefs = game.belief_game()
    if beliefs is not None and beliefs.merges_rows:
        return tabulate(beliefs, dtype=dtype)
    return table_from_tree(enumerate_game(game), dtype=dtype)
