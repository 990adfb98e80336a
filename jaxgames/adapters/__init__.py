"""Adapters: games of other libraries as games of this one, and policies back to them.

- `from_efg`: an extensive-form game in a Gambit file; also `jaxgames.make("efg:FILE")`.
- `from_openspiel`: a game of OpenSpiel; also `jaxgames.make("openspiel:NAME")`.
- `from_pgx`: a perfect-information game of pgx; also `jaxgames.make("pgx:NAME")`.

Each function is imported on first use, so that none of the libraries need be installed.

Example:

    >>> from jaxgames.adapters import from_openspiel
    >>> from_openspiel("kuhn_poker").tree.num_histories
    58
"""

from __future__ import annotations

from jaxgames.registry import ADAPTERS, adapter


def __getattr__(name: str):
    """Imports an adapter when it is first asked for."""
    for prefix, (_, function) in ADAPTERS.items():
        if name == function:
            return adapter(prefix)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
