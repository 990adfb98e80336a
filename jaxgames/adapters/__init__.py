"""Games of other libraries as games of this one: OpenSpiel, Gambit files, pgx.

The libraries are imported only when asked for: use `load`, or the module of the library.
"""

from __future__ import annotations

from jaxgames.core import Game
from jaxgames.registry import make, unknown

_PREFIXES = ("efg", "openspiel", "pgx")


def load(spec: str) -> Game:
    """The game named by `spec`: as for `jaxgames.registry.make`, or from another library.

    `openspiel:NAME`, with OpenSpiel's own syntax of parameters, `efg:FILE` or `pgx:NAME`.

    Raises:
      ValueError: unknown game, bad parameter or bad file.
      ImportError: the library is not installed; the message names what to install.
    """
    prefix, colon, name = spec.partition(":")
    if not colon:
        return make(spec)
    if prefix == "openspiel":
        from jaxgames.adapters.openspiel import from_openspiel

        return from_openspiel(name)
    if prefix == "efg":
        from jaxgames.adapters.gambit import from_efg

        return from_efg(name)
    if prefix == "pgx":
        from jaxgames.adapters.pgx import from_pgx

        return from_pgx(name)
    raise ValueError(unknown("source of games", prefix, _PREFIXES))
