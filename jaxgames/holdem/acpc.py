"""Game definitions of the ACPC (Annual Computer Poker Competition): `.game` files."""

from __future__ import annotations

import re

from jaxgames.holdem.rules import UNLIMITED, Poker

_KEYS = {
    "numplayers": "players",
    "numrounds": "rounds",
    "blind": "blinds",
    "stack": "stack",
    "raisesize": "raise_sizes",
    "firstplayer": "first",
    "maxraises": "max_raises",
    "numsuits": "suits",
    "numranks": "ranks",
    "numholecards": "hole",
    "numboardcards": "board",
}
_ONE = ("players", "rounds", "suits", "ranks", "hole")
_NEEDED = ("players", "rounds", "blinds", "suits", "ranks", "hole", "board")
_MANY = 2**31 - 1  # how files write "no limit"


def parse_game(text: str) -> Poker:
    """Reads a game definition, as in the files of the ACPC's server.

    Raises:
      ValueError: a line is not understood, something is missing or given twice, players' stacks
        differ, or there is no such game.
    """
    found: dict[str, list[int]] = {}
    kind = None
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].strip()
        lower = words.lower()
        if not words or lower in ("gamedef", "end gamedef"):
            continue
        if lower in ("limit", "nolimit"):
            kind = lower
            continue
        match = re.fullmatch(r"(\w+)\s*=\s*((?:\d+\s*)+)", words)
        name = _KEYS.get(match[1].lower()) if match else None
        if name is None:
            raise ValueError(f"line {number} of the game definition is not understood: {line!r}")
        if name in found:
            raise ValueError(f"line {number} of the game definition gives {match[1]} again")
        found[name] = [int(value) for value in match[2].split()]
    if kind is None:
        raise ValueError("the game definition says neither limit nor nolimit")
    for name in _NEEDED:
        if name not in found:
            key = next(key for key, value in _KEYS.items() if value == name)
            raise ValueError(f"the game definition lacks {key}")
    return _game(kind == "limit", found)


def _game(limit, found):
    one = {name: found[name][0] for name in _ONE}
    players, rounds = one["players"], one["rounds"]
    stacks = set(found.get("stack", [0]))
    if len(stacks) > 1:
        raise ValueError(f"the game definition has stacks {found['stack']}; they must be equal")
    stack = stacks.pop()
    raises = found.get("max_raises", [UNLIMITED] * rounds)
    return Poker(
        players=players,
        limit=limit,
        blinds=tuple(found["blinds"][:players]),
        stack=0 if limit and stack >= _MANY else stack,
        first=tuple(seat - 1 for seat in found.get("first", [1] * rounds)[:rounds]),
        board=tuple(found["board"][:rounds]),
        raise_sizes=tuple(found.get("raise_sizes", ())[:rounds]) if limit else (),
        max_raises=tuple(UNLIMITED if n >= 255 else n for n in raises[:rounds]),
        hole=one["hole"],
        ranks=one["ranks"],
        suits=one["suits"],
    )
