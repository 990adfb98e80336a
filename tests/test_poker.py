"""Rules of poker: state by state against OpenSpiel's ACPC server, small instances, definitions."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from holdem_reference import LEDUC
from openspiel_parity import assert_same_game, universal_poker

from jaxgames import make, random_playouts
from jaxgames.core import CHANCE, TERMINAL
from jaxgames.game_tree import enumerate_game
from jaxgames.holdem.acpc import parse_game
from jaxgames.holdem.named_games import hunl, limit_holdem, nlfh
from jaxgames.holdem.rules import CALL, NOTHING, Poker
from solvers.linear_program import solve
from solvers.sequence_form import build_sequence_form

HEADS_UP = """GAMEDEF
nolimit
numPlayers = 2
numRounds = 4
stack = 20000 20000
blind = 100 50
firstPlayer = 2 1 1 1
numSuits = 4
numRanks = 13
numHoleCards = 2
numBoardCards = 0 3 1 1
END GAMEDEF
"""
FLOP = (
    HEADS_UP.replace("Rounds = 4", "Rounds = 2").replace("2 1 1 1", "2 1").replace("0 3 1 1", "0 3")
)
THREE = """# blinds of 5 and 10
GAMEDEF
limit
numPlayers = 3
numRounds = 4
blind = 5 10 0
raiseSize = 10 10 20 20
firstPlayer = 3 1 1 1
maxRaises = 3 4 4 4
numSuits = 4
numRanks = 13
numHoleCards = 2
numBoardCards = 0 3 1 1
END GAMEDEF
"""
TWO = (
    THREE.replace("Players = 3", "Players = 2")
    .replace("5 10 0", "10 5")
    .replace("3 1 1 1", "2 1 1 1")
)
SIDE_POTS = (
    HEADS_UP.replace("Players = 2", "Players = 3")
    .replace("100 50", "50 100 0")
    .replace("20000 20000", "700 700 700")
    .replace("2 1 1 1", "3 1 1 1")
)
RHODE_ISLAND = """GAMEDEF
limit
numPlayers = 2
numRounds = 3
blind = 5 5
raiseSize = 10 20 20
firstPlayer = 1 1 1
maxRaises = 3 3 3
numSuits = 4
numRanks = 13
numHoleCards = 1
numBoardCards = 0 1 1
END GAMEDEF
"""
DEFINITIONS = {
    "hunl": HEADS_UP,
    "nlfh": FLOP,
    "limit, two players": TWO,
    "limit, three players": THREE,
    "side pots": SIDE_POTS,
    "Rhode Island": RHODE_ISLAND,
}


def our_action(state, action, *, no_limit):
    """OpenSpiel calls a raise to n chips n."""
    return action + 1 if no_limit and action > 1 and not state.is_chance_node() else action


@pytest.mark.parametrize("name", [name for name in DEFINITIONS if name not in ("hunl", "nlfh")])
def test_some_hands_are_those_of_openspiel(name):
    text = DEFINITIONS[name]
    no_limit = "nolimit" in text
    assert_same_game(
        parse_game(text),
        universal_poker(text, "fullgame" if no_limit else "fcpa"),
        num_playouts=15,
        seed=0,
        action_map=functools.partial(our_action, no_limit=no_limit),
    )


def test_a_betting_abstraction_is_that_of_openspiel():
    game = hunl(("1", "allin"))
    assert_same_game(game, universal_poker(HEADS_UP, "fcpa"), num_playouts=15, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFINITIONS)
def test_ten_thousand_hands_are_those_of_openspiel(name):
    text, rng = DEFINITIONS[name], np.random.default_rng(0)
    no_limit = "nolimit" in text
    game = universal_poker(text, "fullgame" if no_limit else "fcpa")
    hands = [recorded(game, rng, no_limit=no_limit) for _ in range(10_000)]
    length = max(len(moves) for moves, _ in hands)
    moves = np.array([moves + [0] * (length - len(moves)) for moves, _ in hands])
    expected = np.array([views + views[-1:] * (length - len(views) + 1) for _, views in hands])
    returns = np.concatenate(
        [followed(parse_game(text), jnp.array(some)) for some in np.split(moves, 20)]
    )
    np.testing.assert_allclose(returns, expected, atol=1e-3)


def recorded(game, rng, *, no_limit):
    """One random hand: our moves, and what is seen before each and after the last."""
    state, moves, views = game.new_initial_state(), [], []
    while not state.is_terminal():
        if state.is_chance_node():
            outcomes = state.chance_outcomes()
            views.append([CHANCE, len(outcomes), 0, 0, *np.zeros(game.num_players())])
            move = outcomes[rng.integers(len(outcomes))][0]
        else:
            legal = state.legal_actions()
            raises = [action for action in legal if action > 1]
            ends = [raises[0] + no_limit, raises[-1] + no_limit] if raises else [0, 0]
            views.append([state.current_player(), len(legal), *ends, *np.zeros(game.num_players())])
            move = chosen(rng, legal, raises)
        moves.append(our_action(state, move, no_limit=no_limit))
        state.apply_action(move)
    views.append([TERMINAL, 0, 0, 0, *state.returns()])
    return moves, views


def chosen(rng, legal, raises):
    """Mostly calls, so that hands last; of raises often the least or the largest."""
    luck = rng.random()
    if luck < 0.55 or not raises:
        return 0 if luck < 0.05 and 0 in legal else 1
    if luck < 0.75:
        return raises[0]
    return raises[-1] if luck < 0.8 else raises[rng.integers(len(raises))]


@functools.partial(jax.jit, static_argnums=0)
def followed(game, moves):
    """The same of ours, `[hands, moves + 1, 4 + P]`."""
    numbers = jnp.arange(game.num_actions)

    def view(state):
        raises = state.legal & (numbers > 1)
        least = jnp.where(jnp.any(raises), jnp.argmax(raises), 0)
        most = jnp.where(jnp.any(raises), len(raises) - 1 - jnp.argmax(raises[::-1]), 0)
        count = jnp.where(
            state.actor == CHANCE, jnp.sum(state.chance_probs > 0), jnp.sum(state.legal)
        )
        seen = jnp.stack([state.actor, count, least, most]).astype(jnp.float32)
        return jnp.concatenate([seen, state.returns])

    def step(state, move):
        return game.step(state, move), view(state)

    def hand(moves):
        last, views = jax.lax.scan(step, game.init(), moves)
        return jnp.concatenate([views, view(last)[None]])

    return jax.vmap(hand)(moves)


def test_named_games_are_those_of_their_definitions():
    assert parse_game(HEADS_UP) == hunl() == make("hunl")
    assert parse_game(FLOP) == nlfh() == make("nlfh")
    assert parse_game(TWO) == limit_holdem() == make("limit_holdem") == Poker()
    assert parse_game(THREE) == make("limit_holdem(players=3)")
    assert make("hunl(bets=0.5/1/allin)").bets == ("0.5", "1", "allin")
    assert make(str(hunl())) == hunl()


KUHN = Poker(
    blinds=(1, 1),
    first=(0,),
    board=(0,),
    raise_sizes=(1,),
    max_raises=(1,),
    hole=1,
    ranks=3,
    suits=1,
)


@pytest.mark.parametrize(
    ("game", "same"),
    [
        (KUHN, "kuhn_poker"),
        (dataclasses.replace(LEDUC, ranks=2), "leduc_poker(ranks=2)"),
        pytest.param(LEDUC, "leduc_poker", marks=pytest.mark.slow),
    ],
    ids=["Kuhn", "Leduc with two ranks", "Leduc"],
)
def test_small_instances_are_known_games(game, same):
    ours, known = enumerate_game(game), enumerate_game(make(same))
    assert ours.num_decisions == known.num_decisions
    assert ours.num_histories == known.num_histories
    np.testing.assert_array_equal(np.sort(ours.returns[:, 0]), np.sort(known.returns[:, 0]))
    values = [solve(build_sequence_form(tree))[0] for tree in (ours, known)]
    assert values[0] == pytest.approx(values[1], abs=1e-6)


@pytest.mark.parametrize("game", [limit_holdem(), LEDUC])
def test_features_of_money_are_fractions_of_the_most_that_can_be_spent(game):
    """In limit games: 1 once all raises have been made and called."""
    state, play = game.init(), jax.jit(game.step)
    while int(state.actor) != TERMINAL:
        legal = np.flatnonzero(state.legal if int(state.actor) >= 0 else state.chance_probs)
        state = play(state, jnp.int32(legal[-1]))  # raises where it may, else calls
    np.testing.assert_allclose(game.features(state, 0)[:2], 1)


def test_rounds_may_begin_without_a_card():
    """Who begins such a round is who begins it in the definition, as in the others."""
    bets = dict(raise_sizes=(2, 2), max_raises=(1, 1))
    game = Poker(hole=1, board=(0, 0), ranks=3, suits=1, blinds=(1, 1), first=(1, 0), **bets)
    state = game.init()
    for card in (0, 1):
        state = game.step(state, jnp.int32(card))
    assert int(state.actor) == 1
    for _ in range(2):
        state = game.step(state, jnp.int32(CALL))
    assert (int(state.round), int(state.actor)) == (1, 0)


def test_bets_of_the_pot():
    """50 and 100 are in: half of the pot after calling is 100, all of it 200."""
    game = hunl(("0.5", "1", "allin"))
    state, step = game.init(), jax.jit(game.step)
    for card in range(4):
        state = step(state, jnp.int32(card))
    assert state.legal.tolist() == [True] * 5
    spent = [int(step(state, jnp.int32(a)).spent[1]) for a in range(5)]
    assert spent == [50, 100, 200, 300, 20_000]


def test_shares_of_the_pot_are_exact():
    """21 % of 300 is 63; in float32 it is a little less."""
    rules = {"limit": False, "stack": 20_000, "max_raises": (0, 0, 0, 0)}
    game = Poker(**rules, blinds=(150, 75), bets=("0.21", "0.333333333333"))
    state, step = game.init(), jax.jit(game.step)
    for card in range(4):
        state = step(state, jnp.int32(card))
    assert [int(step(state, jnp.int32(a)).spent[1]) for a in (2, 3)] == [150 + 63, 150 + 100]


def test_sizes_drawn_for_a_hand():
    """From half of the pot to all of it; such a bet is legal exactly if the full rules have it."""
    rules = {"limit": False, "stack": 900, "blinds": (100, 50), "max_raises": (0, 0, 0, 0)}
    full, drawn = Poker(**rules), Poker(**rules, bets=("random", "allin"))
    hands = jax.tree.map(np.asarray, random_playouts(drawn, jax.random.key(0), num_playouts=256))
    percent = 50 + hands.moves[:, :1]
    assert set(percent[:, 0]) <= set(range(50, 101))
    assert len(set(percent[:, 0])) > 45  # of 51
    stakes = hands.states.spent.max(axis=2)
    raises = (hands.states.actor[:, :-1] >= 0) & (hands.moves > 1)
    moves = np.where(raises, 1 + stakes[:, 1:], hands.moves)[:, 1:]

    def step(state, move):
        return full.step(state, move), (state.legal, state.returns)

    play = jax.jit(jax.vmap(lambda moves: jax.lax.scan(step, full.init(), moves)[1]))
    legal, returns = jax.tree.map(np.asarray, play(moves))
    states = jax.tree.map(lambda leaf: leaf[:, 1:-1], hands.states)
    to = stakes[:, 1:-1] * (100 + 2 * percent) // 100  # of what is in the pot after calling
    wanted = [0 * to, 0 * to + 1, 1 + np.minimum(to, 900), 0 * to + 901]
    expected = np.take_along_axis(legal, np.stack(wanted, axis=2), axis=2)
    expected[..., 2] &= to <= 900
    np.testing.assert_array_equal(states.legal, expected)
    np.testing.assert_array_equal(states.returns, returns)
    assert {tuple(row) for row in states.legal[states.actor >= 0]} >= {
        (False, True, True, True),
        (True, True, True, True),
        (True, True, False, True),
        (True, True, False, False),
    }


@pytest.mark.slow
def test_pictures():
    game = hunl()
    state = game.init()
    for move in (51, 47, 0, 5, 301, 1, 12, 13, 14):
        state = game.step(state, jnp.int32(move))
    expected = "hands: AsKs 2c3d  board: 5c5d5h  actions: raise to 300 call  spent: 300 300"
    assert game.render(state) == expected
    game = hunl(("random", "allin"))
    state = game.init()
    assert game.action_name(state, 25) == "random bets are 75% of the pot"
    for move in (25, 51, 47, 0, 5, 2):
        state = game.step(state, jnp.int32(move))
    expected = (
        "hands: AsKs 2c3d  board: -  actions: raise the drawn share of the pot  spent: 100 250"
    )
    assert game.render(state) == f"{expected}  random bets: 75%"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADS_UP.replace("nolimit", ""), "says neither limit nor nolimit"),
        (HEADS_UP.replace("blind", "blinds"), "line 6 of the game definition is not understood"),
        (HEADS_UP.replace("numSuits = 4\n", ""), "the game definition lacks numsuits"),
        (HEADS_UP + "stack = 1 1", "line 13 of the game definition gives stack again"),
        (HEADS_UP + f"stack = {' 2147483647' * 6};", "line 13 .* is not understood"),
        (
            HEADS_UP.replace("20000 20000", "20000 100"),
            r"stacks \[20000, 100\]; they must be equal",
        ),
        (HEADS_UP.replace("20000 20000", "100 100"), "stack=100 must be more than blinds"),
        (
            HEADS_UP + "maxRaises = 3 0 3 3",
            r"has maxRaises = \[3, 0, 3, 3\]; each must be at least",
        ),
    ],
)
def test_bad_definitions(text, message):
    with pytest.raises(ValueError, match=message):
        parse_game(text)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"players": 1}, "players=1 must be between 2 and 10"),
        ({"players": 3}, r"blinds=\(10, 5\) must be chips for each of players=3"),
        ({"limit": False}, "stack=0 .* is for limit games"),
        ({"board": (0, 3)}, r"first=\(1, 0, 0, 0\) must have a number for each of the 2 rounds"),
        ({"first": (2, 0, 0, 0)}, r"first=\(2, 0, 0, 0\) must be players below 2"),
        ({"bets": ("1",)}, "is for no-limit games"),
        ({"ranks": 2}, "9 cards are dealt, but ranks=2 times suits=4 are 8"),
        ({"hole": 3}, r"must be 1 to 7 cards together"),
        ({"max_raises": (0, 4, 4, 4)}, "limit games need raise_sizes and max_raises"),
        ({"stack": 2**30}, "stack=1073741824 of players=2 are 2,147,483,648 chips or more"),
    ],
)
def test_bad_rules(parameters, message):
    with pytest.raises(ValueError, match=message):
        Poker(**parameters)


@pytest.mark.parametrize(
    ("bets", "message"),
    [
        (("half",), "'half' of bets must be a positive fraction"),
        (("0.5", "1", "0.50"), r"bets=\('0.5', '1', '0.50'\) must be different"),
        (("53688",), "'53688' of bets with stack=20000 may need numbers of 2,147,483,648 chips"),
        (("1e10",), "'1e10' of bets with stack=20000 may need numbers of"),
        (("30.0001",), "'30.0001' of bets with stack=20000 may need numbers of"),
    ],
)
def test_bad_bets(bets, message):
    with pytest.raises(ValueError, match=message):
        hunl(bets)


def test_all_actions_of_a_hand_have_a_place():
    """Also where raises are smaller than the blinds, and so more than stacks of blinds."""
    game = Poker(stack=20, raise_sizes=(1,) * 4, max_raises=(9,) * 4)
    state, play = game.init(), jax.jit(game.step)
    for action in itertools.chain([-1] * 4, [CALL + 1] * 9, itertools.repeat(CALL)):
        if state.actor == TERMINAL:
            break
        if state.actor == CHANCE:
            action = int(np.argmax(state.chance_probs))
        elif action < 0 or not state.legal[action]:
            action = CALL
        state = play(state, jnp.int32(action))
    assert state.num_taken == np.sum(state.history != NOTHING)
