"""Best responses to blueprints in the real game, over all turns and rivers or over some turns."""

import functools

import blueprint_reference as reference
import jax.numpy as jnp
import numpy as np
import pytest
from accelerator_branches import accelerator_branches
from blueprint_cases import (
    BUCKETS,
    THREE_STREETS,
    TWO_STREETS,
    game_of,
    random_policy,
    random_tables,
)
from test_blueprint_matches import blueprint_of, hands_of

from jaxgames.holdem.canonical_boards import NextCards, canonical_boards, next_cards, num_deals
from jaxgames.holdem.ranges import class_numbers, hand_numbers
from jaxgames.holdem.rules import Poker
from solvers.blueprint import best_response, bucket_game
from solvers.blueprint.blueprint import Blueprint, fixed_blueprint
from solvers.blueprint.deals import make_deal
from solvers.blueprint.response_rounds import num_runouts

FLOP = 1_234  # two of its suits may be exchanged, and so may some of its turns
FLOP_CARDS = canonical_boards(3)[3].cards[FLOP].astype(np.int32)
TURN = 2  # the street


@functools.cache
def random_blueprint():
    return blueprint_of(1, THREE_STREETS, (20, 30, 10))


@functools.cache
def on_turn(card):
    """The hands of the flop with a turn: their buckets, their numbers, and pairs of them."""
    blueprint, _ = random_blueprint()
    bucket, cards, strength = hands_of(blueprint, np.append(FLOP_CARDS, card).astype(np.int32))
    return bucket, hand_numbers(cards), reference.pairs_of_hands(cards, strength)


def by_hand(player, turns, best_from):
    """What `flop_values` are if these turns stand for all, and the player plays a best response
    from a street on: hand by hand and decision by decision."""
    blueprint, by_node = random_blueprint()
    tree = blueprint.game.rounds.tree
    bucket, cards, strength = hands_of(blueprint, FLOP_CARDS)
    hands, pairs = hand_numbers(cards), reference.pairs_of_hands(cards, strength)

    def after(node, reach):
        """Values `[H]` of the flop's hands once a turn has been dealt."""
        reaches, total = np.zeros(1326), np.zeros(1326)
        reaches[hands] = reach
        for card in turns:
            rows, there, pairs = on_turn(card)
            total[there] += reference.best_response(
                tree, node, by_node, rows, pairs, player, reaches[there], best_from=best_from
            )
        return 49 / len(turns) * total[hands]

    found = []
    for node in blueprint.game.rounds.streets[1][0].nodes[0]:
        reach = reference.reach_of(tree, node, by_node, bucket, 1 - player)
        values = reference.best_response(
            tree, node, by_node, bucket, pairs, player, reach, after, 45, best_from
        )
        found.append(np.bincount(class_numbers()[hands], weights=values, minlength=169))
    return np.stack(found, axis=1)


def flop_values(player, turns=None):
    blueprint, _ = random_blueprint()
    given = None if turns is None else np.array([turns])
    (found,) = best_response.flop_values(blueprint, np.array([FLOP]), player=player, turns=given)
    return found


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * abs(expected).max())


def test_turns_are_told_apart_up_to_suits():
    """63,193 turns in the order of the deal; each flop has 49."""
    after = [next_cards(flop) for flop in canonical_boards(3)[3].cards]
    assert sum(len(more.cards) for more in after) == 63_193
    assert {more.times.sum() for more in after} == {49}
    assert [len(more.symmetries) for more in after] == (24 // num_deals(3)).tolist()
    monotone = next_cards(np.array([0, 4, 8]))  # clubs, after which other suits are alike
    assert len(monotone.cards) == 10 + 13
    assert set(next_cards(np.array([0, 4, 8]), np.array([1])).symmetries) < set(monotone.symmetries)


@pytest.mark.slow
@pytest.mark.parametrize("player", range(2))
def test_best_responses_go_through_all_turns(player):
    """At each round on a flop: hand by hand, summed over the 49 cards that may come."""
    every = np.setdiff1d(np.arange(52), FLOP_CARDS)
    assert_close(flop_values(player), by_hand(player, every, 0))


@pytest.mark.slow
@pytest.mark.parametrize("player", [0, 1])
def test_responses_from_the_turn_on(player):
    """At each round on a flop: hand by hand on some turns; over all turns it is no better than the
    best response, and on each turn no worse than the policy itself."""
    every = np.setdiff1d(np.arange(52), FLOP_CARDS)
    some = every[[3, 30]]
    found = flop_values(player, some)
    assert_close(found, by_hand(player, some, TURN))
    own = by_hand(player, some, TURN + 1)
    close = 1e-4 * abs(own).max()
    assert (found >= own - close).all()
    assert found.sum() > own.sum() + close
    whole = flop_values(player, every)
    parts = [flop_values(player, every[begin : begin + 7]) for begin in range(0, 49, 7)]
    assert_close(np.mean(parts, axis=0), whole)
    best = flop_values(player)
    assert (whole <= best + close).all()
    assert whole.sum() < best.sum() - close


def test_play_before_the_flop_as_the_blueprint_does():
    """What it is worth is what it is hand by hand, and less than what is best."""
    player, (blueprint, by_node) = 1, blueprint_of(1)
    tree, flops = blueprint.game.rounds.tree, np.array([7, 600])
    values = best_response.flop_values(blueprint, flops, player=player)
    found = best_response.response_values(blueprint, None, values, player=player)
    bucket, cards, strength = hands_of(blueprint, np.zeros(0, np.int32))
    pairs = reference.pairs_of_hands(cards, strength)
    numbers = hand_numbers(cards)
    classes = class_numbers()[numbers]
    size = np.bincount(classes, minlength=169)
    roots = blueprint.game.rounds.streets[1][0].nodes[0].tolist()
    runouts = num_runouts(blueprint.buckets, 0)
    for flop, worth in zip(values, found, strict=True):
        after = lambda node, _, flop=flop: 22_100 * (flop[:, roots.index(node)] / size)[classes]  # noqa: E731
        expected = reference.best_response(
            tree, 0, by_node, bucket, pairs, player, None, after, runouts, best_from=1
        )
        np.testing.assert_allclose(worth, expected.sum() / (1326 * 1225 * runouts), rtol=1e-4)
    best = best_response.response_values(blueprint, values[0], values[:1], player=player)
    assert found[0] < best[0]


def one_by_one(*dealt):
    """All next cards, as `next_cards` would tell them if no two were alike."""
    left = np.setdiff1d(np.arange(52), np.concatenate(dealt))
    return NextCards(cards=left, times=np.ones_like(left), symmetries=np.zeros(1, int))


def test_turns_that_differ_in_suits_only_are_gone_through_once(monkeypatch):
    found = flop_values(0)
    monkeypatch.setattr(best_response, "next_cards", one_by_one)
    assert_close(found, flop_values(0))


FOUR_STREETS = Poker(
    raise_sizes=(10, 10, 20, 20), board=(0, 3, 1, 1), first=(1, 0, 0, 0), max_raises=(1,) * 4
)


@pytest.mark.slow
def test_accelerators_take_several_rivers_at_a_time():
    """A turn and rivers of one suit, so that not all places have a card."""
    blueprint = fixed_blueprint(FOUR_STREETS, {"call": 2.0, "raise": 1.0, "fold": 1.0})
    board = np.array([0, 4, 8, 40], np.int32)
    rivers = best_response._in_arrays([next_cards(board[:3], board[3:])])
    respond = functools.partial(
        best_response._values_of_boards, blueprint, board[None], rivers, player=0, mesh=None
    )
    one_by_one = np.asarray(respond())
    with accelerator_branches():
        assert_close(np.asarray(respond()), one_by_one)


@pytest.mark.slow
def test_rivers_that_differ_in_suits_only_are_gone_through_once(monkeypatch):
    blueprint = fixed_blueprint(FOUR_STREETS, {"call": 2.0, "raise": 1.0, "fold": 1.0})
    cards = np.array([0, 4, 8])  # all of one suit, as the turn is
    flop = np.flatnonzero((canonical_boards(3)[3].cards == cards).all(axis=1))[0]
    turns = np.array([[40]])
    respond = functools.partial(
        best_response.flop_values, blueprint, np.array([flop]), player=0, turns=turns
    )
    assert len(next_cards(cards, turns[0]).cards) == 9 + 13
    (found,) = respond()
    monkeypatch.setattr(best_response, "next_cards", one_by_one)
    assert_close(found, respond()[0])


def test_bad_turns_are_refused():
    blueprint, _ = random_blueprint()
    respond = functools.partial(best_response.flop_values, blueprint, np.array([FLOP]), player=0)
    for turns in ([[FLOP_CARDS[1]]], [[51, 51]], [[52]], [[]]):
        with pytest.raises(ValueError, match=r"turns=\[.* must be different cards that may follow"):
            respond(turns=np.array(turns, int))
    with pytest.raises(ValueError, match="in a game with a turn"):
        best_response.flop_values(
            blueprint_of(1)[0], np.array([FLOP]), player=0, turns=np.array([[51]])
        )


@pytest.mark.parametrize("player", [0, 1])
def test_best_responses_on_a_flop_are_those_hand_by_hand(player):
    """At each of the seven rounds of a flop, summed over the hands of a class."""
    game, tables = game_of(TWO_STREETS, BUCKETS), random_tables(BUCKETS, (0, 3))
    policy, by_node = random_policy()
    blueprint = Blueprint(policy=policy, buckets=tables, game=game)
    (found,) = best_response.flop_values(blueprint, np.array([FLOP]), player=player)
    deal, _ = make_deal(tables, jnp.asarray(FLOP_CARDS), groups=1176)
    bucket, cards, strength = (np.asarray(x) for x in (deal.bucket, deal.cards, deal.strength))
    tree, family = game.rounds.tree, game.rounds.streets[1][0]
    classes, pairs = class_numbers()[hand_numbers(cards)], reference.pairs_of_hands(cards, strength)
    for entry, node in enumerate(family.nodes[0]):
        reach = reference.reach_of(tree, node, by_node, bucket, 1 - player)
        values = reference.best_response(tree, node, by_node, bucket, pairs, player, reach)
        expected = np.bincount(classes, weights=values, minlength=169)
        np.testing.assert_allclose(found[:, entry], expected, rtol=1e-4, atol=0.5)


def test_best_responses_in_chunks_are_the_same():
    """Of the seven rounds on a flop four at once."""
    game, tables = game_of(TWO_STREETS, BUCKETS), random_tables(BUCKETS, (0, 3))
    policy, _ = random_policy()
    flops = np.array([7, FLOP])
    expected = best_response.flop_values(
        Blueprint(policy=policy, buckets=tables, game=game), flops, player=1
    )
    flop = policy[1][0]
    chunks = bucket_game.in_chunks(flop[0], jnp.zeros((2, *flop.shape[1:3], 4)))
    again = Blueprint(policy=(policy[0], (chunks,)), buckets=tables, game=game)
    found = best_response.flop_values(again, flops, player=1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=0.1)
