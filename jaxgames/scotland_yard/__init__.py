"""Scotland Yard on any map: rules, and the same game at the level of beliefs."""

from jaxgames.scotland_yard.maps import add_map, load_map
from jaxgames.scotland_yard.public import ScotlandYardPublic, public_scotland_yard
from jaxgames.scotland_yard.rules import ScotlandYard

__all__ = [
    "ScotlandYard",
    "ScotlandYardPublic",
    "add_map",
    "load_map",
    "public_scotland_yard",
]
