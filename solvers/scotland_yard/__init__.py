"""Scotland Yard: exact values stage by stage, the search PimBot, and matches.

- `search` of the module `pimbot` makes PimBot's searches, with the settings `PimBot`;
  `yard_tables` and `from_state` give it the game and its positions.
- The modules `playouts`, `tree`, `location_categories`, `station_sets` and `noise` are its parts.
- `play` plays many games between two agents (`MatchAgent`), such as those of `make_pimbot`;
  `compiled_play` does so in batches that shrink, so that games that have ended cost nothing.
- `solve_by_stages` finds the exact values of long games in which Mr X shows himself now and then.
- The module `possible_stations` says where Mr X may be for all that the detectives know.
"""

from solvers.scotland_yard import (
    location_categories,
    match_batches,
    matches,
    noise,
    pimbot,
    playouts,
    possible_stations,
    station_sets,
    tree,
)
from solvers.scotland_yard.by_stages import SolvedStages, SomeBoards, Stage, solve_by_stages
from solvers.scotland_yard.match_batches import compiled_play
from solvers.scotland_yard.matches import (
    MatchAgent,
    MatchResult,
    MatchStates,
    PimBotAgent,
    UniformAgent,
    make_pimbot,
    play,
)
from solvers.scotland_yard.pimbot import Found, PimBot, search
from solvers.scotland_yard.position import Position, from_state
from solvers.scotland_yard.tables import YardTables, yard_tables

__all__ = [
    "Found",
    "MatchAgent",
    "MatchResult",
    "MatchStates",
    "PimBot",
    "PimBotAgent",
    "Position",
    "SolvedStages",
    "SomeBoards",
    "Stage",
    "UniformAgent",
    "YardTables",
    "compiled_play",
    "from_state",
    "location_categories",
    "make_pimbot",
    "match_batches",
    "matches",
    "noise",
    "pimbot",
    "play",
    "playouts",
    "possible_stations",
    "search",
    "solve_by_stages",
    "station_sets",
    "tree",
    "yard_tables",
]
