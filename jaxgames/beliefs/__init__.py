"""Belief-level games: public states, ranges over information states, and tables of them.

`belief_table(game)` compiles any small two-player game; `BeliefGame` is the contract for games too
large for that, and `check_belief_game` tests an implementation of it.
"""

from jaxgames.beliefs.build import belief_table
from jaxgames.beliefs.check import check_belief_game
from jaxgames.beliefs.contract import BeliefGame, Player, PublicState
from jaxgames.beliefs.from_tree import table_from_tree
from jaxgames.beliefs.listing import NO_STATE, Listing, list_public_states
from jaxgames.beliefs.places import Places, history_places, table_places
from jaxgames.beliefs.table import NOWHERE, AlignedTable, BeliefTable, SteadyTable
from jaxgames.beliefs.tabulate import tabulate

__all__ = [
    "NOWHERE",
    "NO_STATE",
    "AlignedTable",
    "BeliefGame",
    "BeliefTable",
    "Listing",
    "Places",
    "Player",
    "PublicState",
    "SteadyTable",
    "belief_table",
    "check_belief_game",
    "history_places",
    "list_public_states",
    "table_from_tree",
    "table_places",
    "tabulate",
]
