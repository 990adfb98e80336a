"""Game definitions of the ACPC (Annual Computer Poker Competition): text in `.game` files."""

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
_SCALARS = ("players", "rounds", "suits", "ranks", "hole")
_REQUIRED = ("players", "rounds", "blinds", "suits", "ranks", "hole", "board")
_UNLIMITED_STACK = 2**31 - 1  # how definitions write a stack without limit
_UNLIMITED_RAISES = 255


def parse_game(text: str) -> Poker:
    """Reads a game definition in the format of the ACPC's server.

    Args:
      text: the content of a `.game` file.

    Returns:
      The rules that it defines.

    Raises:
      ValueError: a line is not understood, a key is missing or is given twice, the players' stacks
        differ, or the rules are refused by `Poker`.
    """
    fields: dict[str, list[int]] = {}
    kind = None
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.partition("#")[0].strip()
        keyword = content.lower()
        if not content or keyword in ("gamedef", "end gamedef"):
            continue
        if keyword in ("limit", "nolimit"):
            kind = keyword
            continue
        match = re.fullmatch(r"(\w+)\s*=\s*(\d+(?:\s+\d+)*)", content)
        name = _KEYS.get(match[1].lower()) if match else None
        if name is None:
            raise ValueError(f"line {number} of the game definition is not understood: {line!r}")
        if name in fields:
            raise ValueError(f"line {number} of the game definition gives {match[1]} again")
        fields[name] = [int(value) for value in match[2].split()]
    if kind is None:
        raise ValueError("the game definition says neither limit nor nolimit")
    for name in _REQUIRED:
        if name not in fields:
            key = next(key for key, value in _KEYS.items() if value == name)
            raise ValueError(f"the game definition lacks {key}")
    return _poker(kind == "limit", fields)


def _poker(limit, fields):
    """The rules with these values of the definition's keys."""
    scalars = {name: fields[name][0] for name in _SCALARS}
    players, rounds = scalars["players"], scalars["rounds"]
    stacks = set(fields.get("stack", [0]))
    if len(stacks) > 1:
        raise ValueError(f"the game definition has stacks {fields['stack']}; they must be equal")
    stack = stacks.pop()
    raises = fields.get("max_raises", [_UNLIMITED_RAISES] * rounds)
    if 0 in raises[:rounds]:
        raise ValueError(
            f"the game definition has maxRaises = {raises}; each must be at least 1, as rounds"
            " without raises are not known here"
        )
    return Poker(
        players=players,
        limit=limit,
        blinds=tuple(fields["blinds"][:players]),
        stack=0 if limit and stack >= _UNLIMITED_STACK else stack,
        first=tuple(seat - 1 for seat in fields.get("first", [1] * rounds)[:rounds]),
        board=tuple(fields["board"][:rounds]),
        raise_sizes=tuple(fields.get("raise_sizes", ())[:rounds]) if limit else (),
        max_raises=tuple(UNLIMITED if n >= _UNLIMITED_RAISES else n for n in raises[:rounds]),
        hole=scalars["hole"],
        ranks=scalars["ranks"],
        suits=scalars["suits"],
    )
