"""Adapters: games of other libraries as games of this one, and policies back to them.

- `from_efg`: an extensive-form game in a Gambit file; also `jaxgames.make("efg:FILE")`.
- `from_openspiel`: a game of OpenSpiel; also `jaxgames.make("openspiel:NAME")`.
- `from_pgx`: a perfect-information game of pgx; also `jaxgames.make("pgx:NAME")`.
- `to_openspiel_policy`, `from_openspiel_policy`: policies of a tree as OpenSpiel's, and back.

Each function is imported on first use, so that none of the libraries need be installed.

Example:

    >>> from jaxgames.adapters import from_openspiel
    >>> from_openspiel("kuhn_poker").tree.num_histories
    58
"""

from __future__ import annotations

from jaxgames.lazy_exports import lazy_exports
from jaxgames.registry import ADAPTERS

_MODULES = {function: module.rpartition(".")[2] for module, function in ADAPTERS.values()} | {
    "from_openspiel_policy": "openspiel_policies",
    "to_openspiel_policy": "openspiel_policies",
}
__all__ = [*_MODULES]
__getattr__, __dir__ = lazy_exports(__name__, _MODULES)
