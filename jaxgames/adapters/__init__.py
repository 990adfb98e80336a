"""Games of other libraries as games of this one: OpenSpiel, Gambit files, pgx.

    from jaxgames.adapters import from_openspiel, from_efg, from_pgx, load

The libraries themselves are imported only when one of these names is asked for.
"""

from __future__ import annotations

import importlib

from jaxgames.core import Game
from jaxgames.game_tree import MAX_HISTORIES
from jaxgames.registry import make, unknown

# By prefix of `load`: the function that adapts, and the module it is in.
_ADAPTERS = {
    "efg": ("from_efg", "gambit"),
    "openspiel": ("from_openspiel", "openspiel"),
    "pgx": ("from_pgx", "pgx"),
}


def load(spec: str, *, max_histories: int = MAX_HISTORIES) -> Game:
    """The game named by `spec`: as for `jaxgames.registry.make`, or from another library.

    `openspiel:NAME`, with OpenSpiel's own syntax of parameters, `efg:FILE` or `pgx:NAME`. Games of
    OpenSpiel are tabulated at once, so they may have at most `max_histories`.

    Raises:
      TreeTooLargeError: a game of OpenSpiel has more histories than `max_histories`.
      ValueError: unknown game, bad parameter or bad file.
      ImportError: the library is not installed; the message names what to install.
    """
    prefix, colon, name = spec.partition(":")
    if not colon:
        return make(spec)
    if prefix not in _ADAPTERS:
        raise ValueError(unknown("source of games", prefix, _ADAPTERS))
    limit = {"max_histories": max_histories} if prefix == "openspiel" else {}
    return __getattr__(_ADAPTERS[prefix][0])(name, **limit)


def __getattr__(name: str):
    """The adapters, imported on first use."""
    for function, module in _ADAPTERS.values():
        if name == function:
            return getattr(importlib.import_module(f"{__name__}.{module}"), function)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
