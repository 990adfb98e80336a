"""The district of London where Scotland Yard is solved exactly: its stations, lines and games."""

import collections

import numpy as np
import pytest

from jaxgames import make
from jaxgames.scotland_yard import load_map
from jaxgames.scotland_yard.editions import EDITIONS
from jaxgames.scotland_yard.maps import KINDS

TWENTY = [13, 4, 23, 24, 3, 12, 22, 37, 38, 11, 34, 35, 36, 50, 25, 51, 10, 47, 48, 65]
GAMES = {
    "district": "scotland_yard(map=district)",
    "district_two_detectives": "scotland_yard(map=district,edition=district_two_detectives)",
    "district_reveals": "scotland_yard(map=district,edition=district_reveals)",
}


def lines(name):
    """The lines of a map, as station numbers and the name of their kind."""
    layout = load_map(name)
    first, second = layout.numbers[layout.edges[:, 0]], layout.numbers[layout.edges[:, 1]]
    return {(int(a), int(b), KINDS[k]) for a, b, k in zip(first, second, layout.edges[:, 2])}  # noqa: B905


def nearest(station, count):
    """Stations of London breadth first by taxi, neighbours in ascending order."""
    neighbours = collections.defaultdict(set)
    for a, b, kind in lines("london"):
        if kind == "taxi":
            neighbours[a].add(b)
            neighbours[b].add(a)
    found = [station]
    for here in found:
        found += [there for there in sorted(neighbours[here]) if there not in found]
        if len(found) >= count:
            return found[:count]
    return found


def test_stations_are_the_twenty_nearest_to_13_by_taxi():
    assert nearest(13, 20) == TWENTY
    assert load_map("district").numbers.tolist() == sorted(TWENTY)


def test_lines_are_those_of_london_between_these_stations():
    inside = {line for line in lines("london") if {*line[:2]} <= {*TWENTY}}
    assert lines("district") == inside
    count = collections.Counter(kind for _, _, kind in inside)
    assert count == {"taxi": 26, "bus": 6}


@pytest.mark.parametrize("name", GAMES)
def test_games_have_no_cards_and_ample_tickets(name):
    game = make(GAMES[name])
    assert game == make(str(game)) == make(f"scotland_yard(map=district,edition={name})")
    assert str(game) == GAMES[name]
    assert (game.black, game.doubles) == (0, 0)
    assert game.num_deals == (1 if len(game.mr_x_starts) > 1 else 0)
    assert not np.any(game.layout.edges[:, 2] == KINDS.index("ferry"))
    # whoever always takes the same kind of line still has a ticket at the end
    assert min(game.mr_x_tickets + game.detective_tickets) > game.rounds


def test_starts_and_rounds():
    one, two, shown = (make(spec) for spec in GAMES.values())
    assert (one.detectives, one.rounds) == (1, 6)
    assert (one.mr_x_starts, one.detective_starts) == ((51,), (36,))
    assert (two.detectives, two.rounds) == (2, 4)
    assert (two.mr_x_starts, two.detective_starts) == ((37,), (4, 12))
    assert not one.reveal_mask.any()
    assert not two.reveal_mask.any()
    assert (shown.detectives, shown.rounds) == (1, 4)
    assert (shown.mr_x_starts, shown.detective_starts) == ((3, 11, 23, 24), (34,))
    assert np.flatnonzero(shown.reveal_mask).tolist() == [*EDITIONS["district_reveals"].reveals]
