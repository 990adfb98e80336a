"""Belief-level games: public states, ranges over information states, and tables of them.

    >>> import jaxgames
    >>> from jaxgames.beliefs import belief_table
    >>> game = belief_table(jaxgames.make("leduc_poker"))
    >>> game.num_actions  # of either player
    (3, 3)

- `BeliefGame` is the contract, for games of any size; `check_belief_game` tests an implementation.
- `belief_table` compiles any small two-player game into a `BeliefTable`. It uses `table_from_tree`,
  which compiles all histories, or `tabulate`, which compiles a belief-level game.
- `list_public_states` gives a `Listing` of all public states (NO_STATE where there is no child).
- `history_places` and `table_places` (to `Places`) tell where the histories of a game are in its
  table; in tables, NOWHERE stands for a child, parent or row that does not exist.
"""

from jaxgames.beliefs.build import belief_table
from jaxgames.beliefs.check_belief_game import check_belief_game
from jaxgames.beliefs.contract import BeliefGame
from jaxgames.beliefs.from_tree import table_from_tree
from jaxgames.beliefs.listing import NO_STATE, Listing, list_public_states
from jaxgames.beliefs.places import Places, history_places, table_places
from jaxgames.beliefs.table import NOWHERE, BeliefTable
from jaxgames.beliefs.tabulate import tabulate

__all__ = [
    "NOWHERE",
    "NO_STATE",
    "BeliefGame",
    "BeliefTable",
    "Listing",
    "Places",
    "belief_table",
    "check_belief_game",
    "history_places",
    "list_public_states",
    "table_from_tree",
    "table_places",
    "tabulate",
]
