"""Games by name: `make("leduc_poker(players=3)")`."""

from __future__ import annotations

import difflib
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from jaxgames.core import Game

T = TypeVar("T")

_GAMES: dict[str, Callable[..., Game]] = {}
_ALIASES: dict[str, str] = {}


def register(name: str, *aliases: str) -> Callable[[T], T]:
    """Decorator of a game's class, or of a function that builds one: `make(name)` calls it.

    `aliases` are other names for it.
    """

    def decorate(cls: T) -> T:
        taken = {name, *aliases} & {*_GAMES, *_ALIASES}
        if taken:
            raise ValueError(f"register: a game named {sorted(taken)[0]!r} exists already")
        if isinstance(cls, type):
            cls.name = name
        _GAMES[name] = cls
        _ALIASES.update(dict.fromkeys(aliases, name))
        return cls

    return decorate


def registered() -> tuple[str, ...]:
    """The names of all games, sorted."""
    return tuple(sorted(_GAMES))


def described(name: str) -> tuple[str, str]:
    """A registered game with its parameters, as `make` reads them, and what it is in a line."""
    builder, game = _GAMES[name], make(name)
    if isinstance(builder, type):
        return str(game), inspect.getdoc(inspect.getmodule(builder)).splitlines()[0]
    defaults = inspect.signature(builder).parameters.values()
    inside = ",".join(f"{p.name}={'' if p.default == () else p.default}" for p in defaults)
    return f"{name}({inside})" if inside else name, inspect.getdoc(builder).splitlines()[0]


def make(spec: str) -> Game:
    """Builds a game from its name and parameters in brackets.

    `make("kuhn_poker")`, `make("goofspiel(cards=5,points=descending)")`. Values are integers,
    floats, true/false or words; tuples are written with slashes, `raise_sizes=2/4`.

    Raises:
      ValueError: unknown game (with the nearest name), unknown or illegal parameter, bad syntax.
    """
    return call(spec, "game", _GAMES | {alias: _GAMES[name] for alias, name in _ALIASES.items()})


def call(spec: str, kind: str, functions: Mapping[str, Callable[..., T]]) -> T:
    """Calls the function that `spec`, of the form `name(key=value,...)`, names.

    Values are read by the annotations of the function's (or dataclass's) parameters.

    Raises:
      ValueError: unknown name (with the nearest one), unknown or illegal parameter, bad syntax.
    """
    match = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", spec)
    if not match:
        raise ValueError(f"{kind} {spec!r} is not of the form name or name(key=value,...)")
    name, inside = match.groups()
    if name not in functions:
        raise ValueError(unknown(kind, name, functions))
    return functions[name](**_parameters(name, functions[name], inside or ""))


def unknown(kind: str, value: str, allowed: Iterable[str]) -> str:
    """The message for an unknown name: what was given, the nearest name, what is allowed."""
    allowed = sorted(allowed)
    near = difflib.get_close_matches(value, allowed, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"unknown {kind} {value!r}{hint} (known: {', '.join(allowed)})"


def _parameters(name: str, function: Callable, inside: str) -> dict[str, object]:
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
