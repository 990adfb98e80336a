"""Scotland Yard: the maps, the parameters, and the rules by hand and along random games."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from yard_cases import FULL, GLASSES, LONDON, london_games

from jaxgames import CHANCE, TERMINAL, check_game, make
from jaxgames.scotland_yard import add_map, load_map, maps
from jaxgames.scotland_yard.board import LOST, RUNNING, WON

# Maps


def test_london_is_the_board():
    london = load_map("london")
    first, second, kind = london.edges.T
    assert london.numbers.tolist() == list(range(1, 200))
    assert len(london.edges) == 467
    assert [int(np.sum(kind == k)) for k in range(4)] == [345, 99, 20, 3]
    taxi = kind == maps.KINDS.index("taxi")
    assert {*first[taxi], *second[taxi]} == {*range(199)}
    ferries = london.numbers[london.edges[kind == maps.KINDS.index("ferry"), :2]].tolist()
    assert ferries == [[108, 115], [115, 157], [157, 194]]


def test_glasses_is_the_map_of_the_paper():
    glasses = load_map("glasses")
    lines = "1-2 2-3 2-4 3-5 4-5 5-6 6-7 7-8 7-9 8-10 9-10 10-11"
    assert lines == " ".join(f"{a}-{b}" for a, b in glasses.numbers[glasses.edges[:, :2]])
    assert not glasses.edges[:, 2].any()


@pytest.mark.parametrize(("name", "black"), [("london", True), ("london", False), ("toy", True)])
def test_every_move_has_its_way_back(name, black):
    moves = maps.moves(name, black=black)
    station, slot = np.nonzero(moves.to != maps.NOWHERE)
    to, back, ticket = (leaf[station, slot] for leaf in (moves.to, moves.back, moves.ticket))
    np.testing.assert_array_equal(moves.to[to, back], station)
    np.testing.assert_array_equal(moves.back[to, back], slot)
    np.testing.assert_array_equal(moves.ticket[to, back], ticket)
    edges = load_map(name).edges
    neighbours = {tuple(pair) for pair in np.sort(edges[:, :2], axis=1).tolist()}
    lines = np.sum(edges[:, 2] != maps.KINDS.index("ferry")) + len(neighbours) * black
    assert len(station) == 2 * lines
    assert len({*zip(station, to, ticket, strict=True)}) == len(station)
    num_open = make(LONDON if name == "london" else FULL).num_open
    assert slot[ticket != maps.BLACK].max() == num_open - 1  # what detectives may do comes first


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(1, 2, "tram")], r"unknown kind of edge .*'tram'"),
        ([(1, 1, "taxi")], r"edge \(1, 1, 'taxi'\) leads from a station to itself"),
        ([(1, 2, "taxi"), (2, 1, "taxi")], r"edge \(1, 2, 'taxi'\) twice"),
        ([], "no edges"),
        ([(-1, 2, "taxi")], r"station -1 of edge \(-1, 2, 'taxi'\) must be at least 1"),
    ],
)
def test_bad_map_is_refused(edges, message):
    with pytest.raises(ValueError, match=message):
        add_map("bad", edges)
    with pytest.raises(ValueError, match="a map named 'london' exists already"):
        add_map("london", [(1, 2, "taxi")])
    with pytest.raises(ValueError, match="name='a,b' must be letters, digits and underscores"):
        add_map("a,b", [(1, 2, "taxi")])


# Parameters


def test_settings_of_student_of_games():
    london, glasses = make("scotland_yard"), make(GLASSES)
    assert london == make(LONDON)
    assert (london.detectives, london.rounds, london.black, london.doubles) == (5, 24, 5, 2)
    assert len(london.detective_starts) == len(london.mr_x_starts) == 18
    assert (glasses.detective_starts, glasses.mr_x_starts, glasses.rounds) == ((1, 11), (6,), 5)
    assert glasses.detective_tickets == glasses.mr_x_tickets == (5, 0, 0)
    assert not glasses.reveal_mask.any()
    assert (glasses.black, glasses.doubles) == (0, 0)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (GLASSES, GLASSES),
        ("scotland_yard(detectives=3,rounds=10)", None),
        ("scotland_yard(edition=bristol,reveals=0)", None),
        ("scotland_yard(edition=ravensburger_29_cards,detectives=4)", None),
        ("scotland_yard(edition=milton_bradley_1985)", None),
        ("scotland_yard(edition=ravensburger_2000,detectives=4)", None),
        (FULL, None),
    ],
)
def test_text_of_a_game_makes_it_again(spec, text):
    game = make(spec)
    assert make(str(game)) == game
    assert hash(make(str(game))) == hash(game)
    assert text is None or str(game) == text


def test_parameters_follow_from_others():
    game = make("scotland_yard(map=london,detectives=3,rounds=10)")
    assert (game.black, game.reveals) == (3, (3, 8))
    assert str(game) == "scotland_yard(map=london,detectives=3,rounds=10)"
    assert make("scotland_yard(reveals=0)").max_depth == 6 + 24 * 6 + 2


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("map=londn", r"unknown map of scotland_yard 'londn'; did you mean 'london'\?"),
        ("edition=first", r"unknown edition of scotland_yard 'first'"),
        ("detectives=0", "detectives=0 must be between 1 and 198"),
        ("rounds=0", "rounds=0 must be between 1 and 1000"),
        ("black=-2", "black=-2 must be between 0 and 1000"),
        ("doubles=-2", "doubles=-2 must be between 0 and 1000"),
        ("reveals=3/25", "reveals=3/25 must be between 1 and 24"),
        ("reveals=8/3", "reveals=8/3 must be ascending rounds, or 0 for never"),
        ("mr_x_tickets=4/3", "mr_x_tickets=4/3 must be 3 numbers"),
        ("detective_tickets=10/-8/4", "detective_tickets=10/-8/4 must be between 0 and 1000"),
        ("map=glasses,mr_x_starts=12", r"mr_x_starts=12 must be stations of map 'glasses' \(1 to"),
        ("map=glasses,detective_starts=1/1", "detective_starts=1/1 must be different stations"),
        ("map=glasses,detectives=3", "detective_starts=1/11 must be at least as many stations as"),
        ("map=glasses,mr_x_starts=11", "mr_x_starts=11 must be stations of which one is left"),
        ("map=glasses,detective_starts=2/11,mr_x_starts=1", "can move; from 1 he could not"),
        ("map=glasses,mr_x_tickets=0/0/0", "can move; from 6 he could not"),
        ("map=glasses,edition=bristol", "detective_starts=26/29.* must be stations of map 'glass"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        make(f"scotland_yard({parameters})")


# Rules


@pytest.mark.slow
@pytest.mark.parametrize("spec", [GLASSES, FULL])
def test_game_keeps_the_contract(spec):
    check_game(make(spec))


def test_random_games_in_london_keep_the_rules():
    game, states = make(LONDON), london_games().states
    board, running = states.board, states.actor >= 0
    assert np.sum(running) > 3000

    total = board.tickets.sum(axis=2)  # by ticket: spent by Mr X only
    assert (np.diff(total, axis=1) <= 0).all()
    spent = np.diff(board.tickets, axis=1)
    assert (spent[:, :, 1:] <= 0).all()
    detective_moves = running[:, :-1] & (board.turn[:, :-1] > 0)
    to_mr_x = spent[:, :, 0] == -spent[:, :, 1:].sum(axis=2)
    assert to_mr_x[detective_moves].all()
    assert (board.tickets >= 0).all()
    assert (board.tickets[:, :, 1:, maps.BLACK] == 0).all()
    assert (board.doubles >= 0).all()
    cards = 15 + 5 * 22  # at the start; each move of Mr X takes one out of the game
    assert (board.moves == cards - total.sum(axis=2)).all()

    detectives = np.sort(board.detectives, axis=2)
    dealt = (states.num_steps >= 5)[:, :, None] & np.ones(4, bool)
    assert (np.diff(detectives, axis=2) > 0)[dealt].all()
    caught = (board.detectives == states.mr_x[:, :, None]).any(axis=2)
    assert not caught[running].any()
    over = states.actor == TERMINAL
    assert (over == (states.result != RUNNING)).all()
    assert (states.result[caught & over] == LOST).all()
    won = states.result == WON
    assert (board.moves[won] == game.rounds).all()
    assert (board.moves <= game.rounds).all()
    assert over[:, -1].all()
    assert {LOST, WON} <= {*np.unique(states.result)}
    np.testing.assert_array_equal(states.returns[..., 0], np.where(won, 1, -1) * over)

    moved = np.diff(board.moves, axis=1) == 1
    shows = moved & np.isin(board.moves[:, 1:], game.reveals)
    np.testing.assert_array_equal(states.shown[:, 1:][shows], states.mr_x[:, 1:][shows])
    assert (np.diff(states.shown, axis=1)[~shows] == 0).all()


def test_moves_in_london_go_along_lines():
    states = london_games().states
    lines = {(a, b, k) for a, b, k in load_map("london").edges.tolist()}
    lines |= {(b, a, k) for a, b, k in lines}
    neighbours = {line[:2] for line in lines}
    everyone = np.concatenate([states.mr_x[:, :, None], states.board.detectives], axis=2)
    spent = -np.diff(states.board.tickets, axis=1)
    before, after = everyone[:, :-1], everyone[:, 1:]
    running = (states.actor[:, :-1] >= 0)[:, :, None]
    num_black = 0
    for n, t, who in np.argwhere((before != after) & running):
        ticket = int(np.argmax(spent[n, t, who]))
        pair = int(before[n, t, who]), int(after[n, t, who])
        assert who == states.board.turn[n, t]
        assert pair in neighbours if ticket == maps.BLACK else (*pair, ticket) in lines
        num_black += ticket == maps.BLACK
    assert num_black > 10


def play(spec, *names):
    """The states of a game along moves given by name."""
    game = make(spec)
    state, step = game.init(), jax.jit(game.step)
    states = [state]
    for name in names:
        chance = int(state.actor) == CHANCE
        moves = np.flatnonzero(state.chance_probs if chance else state.legal)
        state = step(state, jnp.int32({game.action_name(state, int(m)): m for m in moves}[name]))
        states.append(state)
    return game, states


def names(game, state):
    return {game.action_name(state, int(m)) for m in np.flatnonzero(state.legal)}


def test_a_game_by_hand():
    opening = ("Mr X starts at 4", "double", "taxi to 3", "bus to 2")
    game, states = play(FULL, *opening, "bus to 3", "taxi to 5", "taxi to 1", "taxi to 4", "pass")
    four = {"taxi to 3", "taxi to 5", "black to 3", "black to 5"}
    assert names(game, states[1]) == four | {"double"}
    assert names(game, states[2]) == four
    assert int(states[3].shown) == maps.NOWHERE
    assert int(states[4].shown) == 1  # after his second move, at station 2
    assert names(game, states[4]) == {"taxi to 2", "bus to 3"}
    assert names(game, states[5]) == {"taxi to 5"}  # the bus to 3 leads to the other detective
    assert names(game, states[6]) == {"taxi to 1", "black to 1"}
    assert names(game, states[8]) == {"pass"}
    assert states[9].returns.tolist() == [1, -1]
    assert game.render(states[0]).startswith("after 0 of 3 rounds\nMr X at ?: taxi 2 bus 1 black 1")
    assert game.render(states[9]) == (
        "after 3 of 3 rounds, last shown at 2: Mr X has won\nMr X at 1: taxi 2 bus 1 black 1\n"
        "detective 1 at 4: no ticket\ndetective 2 at 5: bus 1"
    )


def test_mr_x_is_caught():
    game, states = play(FULL, "Mr X starts at 4", "double", "taxi to 3", "bus to 2", "taxi to 2")
    assert states[-1].returns.tolist() == [-1, 1]
    assert game.render(states[-1]).splitlines()[0].endswith("Mr X has lost")


def test_mr_x_who_cannot_move_has_lost():
    spec = "scotland_yard(map=glasses,detective_starts=4/11,mr_x_starts=2)"
    _, states = play(spec, "taxi to 1", "taxi to 2", "taxi to 10")
    assert [int(state.actor) for state in states[-3:]] == [1, 1, TERMINAL]
    assert states[-1].returns.tolist() == [-1, 1]
