"""Scotland Yard on any map: rules, and the same game at the level of beliefs."""

from jaxgames.scotland_yard.beliefs import ScotlandYardBeliefs, scotland_yard_beliefs
from jaxgames.scotland_yard.maps import add_map, load_map
from jaxgames.scotland_yard.rules import ScotlandYard

__all__ = [
    "ScotlandYard",
    "ScotlandYardBeliefs",
    "add_map",
    "load_map",
    "scotland_yard_beliefs",
]
