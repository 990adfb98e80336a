"""Editions of Scotland Yard: what is dealt and for how long it is played, as named presets.

Sources: the rule books and programs named at each preset, and Schmid et al. 2023.
"""

from __future__ import annotations

import dataclasses

from jaxgames.registry import unknown
from jaxgames.scotland_yard.maps import BLACK, NOWHERE, load_map, moves

AS_EDITION = -1  # a parameter that is not given
NEVER = 0  # `reveals` of a game in which Mr X never shows himself
_LIMIT = 1000

_CARDS_18 = (13, 26, 29, 34, 50, 53, 91, 94, 103, 112, 117, 132, 138, 141, 155, 174, 197, 198)
_CARDS_16 = (13, 26, 29, 34, 50, 53, 91, 94, 103, 112, 117, 123, 138, 141, 155, 174)
_CARDS_13 = (35, 45, 51, 71, 78, 104, 106, 127, 132, 146, 166, 170, 172)
_AMPLE = (24, 24, 24)  # more than anyone can spend, as where Mr X pays from the bank


@dataclasses.dataclass(frozen=True)
class Edition:
    """Constants of an edition; tickets by taxi, bus and underground.

    With as many start cards as detectives nothing is dealt: detectives start in their order.
    """

    detectives: int = 5
    rounds: int = 24  # Mr X's moves: windows of his log, of which a double move fills two
    reveals: tuple[int, ...] = (3, 8, 13, 18, 24)  # after which of his moves Mr X shows himself
    detective_tickets: tuple[int, ...] = (10, 8, 4)
    mr_x_tickets: tuple[int, ...] = (4, 3, 3)
    black: int | None = None  # Mr X's black cards; None: as many as detectives
    doubles: int = 2  # Mr X's double cards
    detective_starts: tuple[int, ...] = _CARDS_18
    mr_x_starts: tuple[int, ...] = _CARDS_18


def _district(**differences) -> Edition:
    """A short game on the map `district`, in which no ticket is scarce."""
    usual = dict(
        detectives=1,
        rounds=6,
        reveals=(NEVER,),
        detective_tickets=_AMPLE,
        mr_x_tickets=_AMPLE,
        black=0,
        doubles=0,
        detective_starts=(36,),
        mr_x_starts=(51,),
    )
    return Edition(**(usual | differences))


EDITIONS = {
    # 24 rounds and 18 cards (Schmid et al. 2023, who leave the tickets open: the usual ones).
    "student_of_games": Edition(),
    "glasses": Edition(  # Schmid et al. 2023, Fig. S3; its published curves imply no reveals
        detectives=2,
        rounds=5,
        reveals=(NEVER,),
        detective_tickets=(5, 0, 0),
        mr_x_tickets=(5, 0, 0),
        black=0,
        doubles=0,
        detective_starts=(1, 11),
        mr_x_starts=(6,),
    ),
    "district": _district(),
    "district_two_detectives": _district(
        detectives=2, rounds=4, detective_starts=(4, 12), mr_x_starts=(37,)
    ),
    "district_reveals": _district(
        rounds=4, reveals=(2,), detective_starts=(34,), mr_x_starts=(3, 11, 23, 24)
    ),
    "milton_bradley_1985": Edition(black=5),
    "ravensburger_2000": Edition(reveals=(3, 8, 13, 18)),
    "ravensburger_29_cards": Edition(  # newer prints; 22 turns, 24 moves with both double cards
        detective_tickets=(11, 8, 4),
        mr_x_tickets=_AMPLE,
        black=5,
        detective_starts=_CARDS_16,
        mr_x_starts=_CARDS_13,
    ),
    "bristol": Edition(  # the coursework of the University of Bristol
        detective_tickets=(11, 8, 4),
        black=5,
        detective_starts=tuple(card for card in _CARDS_16 if card not in (13, 34)),
        mr_x_starts=tuple(card for card in _CARDS_13 if card != 146),
    ),
}
PARAMETERS = tuple(field.name for field in dataclasses.fields(Edition))


def edition_of(map_name: str) -> str:
    """The edition that is played on a map unless another is named."""
    return map_name if map_name in ("district", "glasses") else "student_of_games"


def complete_parameters(edition: str, given: dict[str, object]) -> dict[str, object]:
    """All parameters of a game: those that are given, and those of the edition for the others.

    Raises:
      ValueError: there is no such edition.
    """
    if edition not in EDITIONS:
        raise ValueError(unknown("edition of scotland_yard", edition, EDITIONS))
    given = {k: v for k, v in given.items() if v not in (AS_EDITION, (AS_EDITION,))}
    values = {name: getattr(EDITIONS[edition], name) for name in PARAMETERS} | given
    if values["black"] is None:
        values["black"] = values["detectives"]
    if "reveals" not in given:
        values["reveals"] = tuple(r for r in values["reveals"] if r <= values["rounds"])
    values["reveals"] = values["reveals"] or (NEVER,)
    return values


def check(map_name: str, values: dict[str, object]) -> None:
    """Checks all parameters of a game.

    Raises:
      ValueError: a parameter is out of range, or Mr X could start where he cannot move.
    """
    numbers = load_map(map_name).numbers.tolist()
    bounds = {"detectives": (1, len(numbers) - 1), "rounds": (1, _LIMIT)}
    for name in ("detectives", "rounds", "black", "doubles"):
        _require_between(name, values[name], values[name], *bounds.get(name, (0, _LIMIT)))
    for name in ("detective_tickets", "mr_x_tickets"):
        _require(len(values[name]) == 3, name, values[name], "3 numbers: taxi/bus/underground")
        for number in values[name]:
            _require_between(name, values[name], number, 0, _LIMIT)
    _check_reveals(values["reveals"], values["rounds"])
    _check_starts(map_name, numbers, values)


def _check_reveals(reveals, rounds):
    if reveals != (NEVER,):
        for number in reveals:
            _require_between("reveals", reveals, number, 1, rounds)
        ascending = list(reveals) == sorted(set(reveals))
        _require(ascending, "reveals", reveals, f"ascending rounds, or {NEVER} for never")


def _check_starts(map_name, numbers, values):
    detectives = values["detectives"]
    for name in ("detective_starts", "mr_x_starts"):
        starts = values[name]
        where = f"stations of map {map_name!r} ({numbers[0]} to {numbers[-1]})"
        _require({*starts} <= {*numbers}, name, starts, where)
        _require(len({*starts}) == len(starts), name, starts, "different stations")
    theirs, his = {*values["detective_starts"]}, {*values["mr_x_starts"]}
    text = f"at least as many stations as detectives, {detectives}"
    _require(len(theirs) >= detectives, "detective_starts", values["detective_starts"], text)
    left = len(his) > min(detectives, len(his & theirs))
    text = "stations of which one is left whatever the detectives get"
    _require(left, "mr_x_starts", values["mr_x_starts"], text)
    for start in sorted(his):
        targets = _first_targets(map_name, numbers, values, start)
        blocked = targets <= theirs and len(targets) <= detectives
        text = f"stations from which Mr X can move; from {start} he could not"
        _require(not blocked, "mr_x_starts", values["mr_x_starts"], text)


def _first_targets(map_name, numbers, values, start):
    tickets = (*values["mr_x_tickets"], values["black"])
    table, row = moves(map_name, black=tickets[BLACK] > 0), numbers.index(start)
    pairs = zip(table.to[row], table.ticket[row], strict=True)
    return {numbers[to] for to, ticket in pairs if to != NOWHERE and tickets[ticket] > 0}


def _require_between(name, value, number, low, high):
    _require(low <= number <= high, name, value, f"between {low} and {high}")


def _require(condition, name, value, allowed):
    if not condition:
        text = "/".join(map(str, value)) if isinstance(value, tuple) else value
        raise ValueError(f"scotland_yard: {name}={text} must be {allowed}")
