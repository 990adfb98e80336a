"""Games by name: `make("leduc_poker(players=3)")`, `make("openspiel:kuhn_poker")`.

Example:

    >>> import jaxgames
    >>> game = jaxgames.make("goofspiel(cards=4,points=descending)")
    >>> print(game)
    goofspiel(cards=4,points=descending,players=2,returns=win_loss)
    >>> jaxgames.make("kuhn_pokr")
    Traceback (most recent call last):
    ValueError: unknown game 'kuhn_pokr'; did you mean 'kuhn_poker'? (known: ...)
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from jaxgames.core import Game
from jaxgames.game_tree import MAX_HISTORIES

T = TypeVar("T")

_GAMES: dict[str, Callable[..., Game]] = {}
_ALIASES: dict[str, str] = {}

# Games of other libraries, by the prefix that `make` reads: module and function that adapt them.
# The modules import their libraries, so each is imported when it is first asked for.
ADAPTERS: dict[str, tuple[str, str]] = {
    "efg": ("jaxgames.adapters.gambit", "from_efg"),
    "openspiel": ("jaxgames.adapters.openspiel", "from_openspiel"),
    "pgx": ("jaxgames.adapters.pgx", "from_pgx"),
}


def register(name: str, *aliases: str) -> Callable[[T], T]:
    """Registers a game's class, or a function that builds a game, under a name for `make`.

    Args:
      name: the name of the game. A class also gets it as its attribute `name`.
      *aliases: other names that `make` accepts.

    Returns:
      A decorator that returns the class or function unchanged.

    Raises:
      ValueError: (from the decorator) a game of one of these names exists already.
    """

    def decorate(builder: T) -> T:
        taken = {name, *aliases} & {*_GAMES, *_ALIASES}
        if taken:
            raise ValueError(
                f"register: a game named {sorted(taken)[0]!r} exists already; to register a changed"
                " one, start Python again"
            )
        if isinstance(builder, type):
            builder.name = name
        _GAMES[name] = builder
        _ALIASES.update(dict.fromkeys(aliases, name))
        return builder

    return decorate


def registered() -> tuple[str, ...]:
    """Lists the registered games.

    Returns:
      Their names, sorted; aliases are left out.
    """
    return tuple(sorted(_GAMES))


def described(name: str) -> tuple[str, str]:
    """Describes a registered game for a list of games.

    Args:
      name: a name from `registered()`.

    Returns:
      The game with its default parameters, as `make` reads them, and one line of description.
    """
    builder, game = _GAMES[name], make(name)
    if isinstance(builder, type):
        return str(game), inspect.getdoc(inspect.getmodule(builder)).splitlines()[0]
    defaults = inspect.signature(builder).parameters.values()
    inside = ",".join(f"{p.name}={'' if p.default == () else p.default}" for p in defaults)
    return f"{name}({inside})" if inside else name, inspect.getdoc(builder).splitlines()[0]


def make(spec: str, *, max_histories: int = MAX_HISTORIES) -> Game:
    """Builds a game from its name.

    Args:
      spec: one of
        `NAME` or `NAME(key=value,...)`: a registered game. Values are integers, floats, true/false
        or words; the entries of a tuple are separated by slashes, as in `raise_sizes=2/4`.
        `openspiel:NAME`: a game of OpenSpiel, with OpenSpiel's own syntax of parameters.
        `efg:FILE`: an extensive-form game in a Gambit file.
        `pgx:NAME`: a two-player perfect-information game of pgx; `pgx:NAME(max_depth=NUMBER)` ends
        after this many steps.
      max_histories: the largest tree that is read from OpenSpiel or from a Gambit file. These
        adapters enumerate the game at once; the other games enumerate nothing here.

    Returns:
      The game.

    Raises:
      TreeTooLargeError: the tree of an `openspiel:` or `efg:` game has more histories than
        `max_histories`.
      ValueError: an unknown game or prefix (the message names the nearest one), an unknown or
        illegal parameter, bad syntax, or a file that cannot be read.
      ImportError: the library is not installed; the message names what to install.
    """
    prefixed = re.fullmatch(r"\s*([^:()]*):(.*)", spec, re.DOTALL)
    if not prefixed:
        return call(
            spec, "game", _GAMES | {alias: _GAMES[name] for alias, name in _ALIASES.items()}
        )
    prefix, name = prefixed.groups()
    if prefix not in ADAPTERS:
        raise ValueError(unknown("source of games", prefix, ADAPTERS))
    limit = {} if prefix == "pgx" else {"max_histories": max_histories}
    return adapter(prefix)(name.strip(), **limit)


def adapter(prefix: str) -> Callable[..., Game]:
    """Imports and returns the function that adapts the games of a library, a key of `ADAPTERS`."""
    module, function = ADAPTERS[prefix]
    return getattr(importlib.import_module(module), function)


def call(spec: str, kind: str, functions: Mapping[str, Callable[..., T]]) -> T:
    """Calls one of several functions by its name, with parameters given as text.

    Args:
      spec: `name` or `name(key=value,...)`. Each value is read as the type that annotates the
        parameter of that name.
      kind: what the functions build, for error messages: "game", "solver".
      functions: functions or dataclasses by name.

    Returns:
      What the function returns.

    Raises:
      ValueError: an unknown name (the message names the nearest one), an unknown or illegal
        parameter, or bad syntax.
    """
    match = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", spec)
    if not match:
        raise ValueError(f"{kind} {spec!r} is not of the form name or name(key=value,...)")
    name, inside = match.groups()
    if name not in functions:
        raise ValueError(unknown(kind, name, functions))
    return functions[name](**_parameters(name, functions[name], inside or ""))


def unknown(kind: str, value: str, allowed: Iterable[str]) -> str:
    """Returns the error message for an unknown name, with the nearest name and all known ones."""
    allowed = sorted(allowed)
    near = difflib.get_close_matches(value, allowed, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"unknown {kind} {value!r}{hint} (known: {', '.join(allowed)})"


def _parameters(name: str, function: Callable, inside: str) -> dict[str, object]:
    """Reads `key=value,...` into the keyword arguments of `function`."""
    owner = function.__init__ if isinstance(function, type) else function
    hints = typing.get_type_hints(owner)
    allowed = list(inspect.signature(function).parameters)
    parameters: dict[str, object] = {}
    for item in filter(None, (part.strip() for part in inside.split(","))):
        key, equals, text = (part.strip() for part in item.partition("="))
        if not equals:
            raise ValueError(f"parameter {item!r} of {name} is not of the form key=value")
        if key not in allowed:
            raise ValueError(unknown(f"parameter of {name}", key, allowed))
        if key in parameters:
            raise ValueError(f"parameter {key!r} of {name} is given twice")
        parameters[key] = _value(name, key, text, hints[key])
    return parameters


def _value(name: str, key: str, text: str, hint: object) -> object:
    """Reads one value of the type `hint`: a tuple, bool, int, float or word, or one of them or
    None, which no text stands for."""
    kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
    if type(None) in typing.get_args(hint) and len(kinds) == 1:
        hint = kinds[0]
    if typing.get_origin(hint) is tuple and not text:
        return ()
    if typing.get_origin(hint) is tuple:
        return tuple(_value(name, key, part, typing.get_args(hint)[0]) for part in text.split("/"))
    if hint is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{name}: {key}={text!r} must be true or false")
        return text.lower() == "true"
    if hint in (int, float):
        try:
            return hint(text)
        except ValueError:
            raise ValueError(f"{name}: {key}={text!r} must be of type {hint.__name__}") from None
    return text
