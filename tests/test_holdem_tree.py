"""Hold'em subgames: payoffs by brute force over pairs of hands."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from holdem_reference import (
    RandomPolicy,
    Subgame,
    assert_values_by_hand,
    exchanged,
    suits_that_keep,
)

import solvers.holdem.showdown_by_ranks
from jaxgames.holdem.bet_sizes import BetSizes
from jaxgames.holdem.betting_from_sizes import build_betting_tree, subtree, with_bet
from jaxgames.holdem.cards import parse_cards
from jaxgames.holdem.ranges import HANDS, hand_number, parse_range
from solvers import cfr
from solvers.holdem.holdem_solution import HoldemSolution
from solvers.holdem.subgame_below import subgame_part
from solvers.holdem.subgame_tree import build_holdem_tree, holdem_tree
from solvers.sequence_form import sweeps

BOARD = parse_cards("Td9d6hQc2s")
SIZES = BetSizes.parse("50%, 100%, allin", "3x")


def betting(**more):
    return build_betting_tree(pot=200, stack=900, streets=1, sizes=SIZES, **more)


# by name: the board and both ranges, some of which distinguish suits
SUBGAMES = {
    "river": ("Td9d6hQc2s", "AQs+, JJ, KdTs:0.5, 5h3h", "KhQh, AQs:0.5, J8s:0.25, AcTd"),
    "turn": ("Td9d6hQc", "AQs, JJ, KdTs:0.5, 5h3h", "KhQh, 66, J8s:0.25, AcTd"),
    # the two suits of either kind can be exchanged, and the kinds with each other
    "paired turn": ("TdTh6d6h", "AQs, 99, T6, 52s:0.5", "KQs:0.5, 77, 65s, 99"),
    "turn of one suit": ("Td9d6dQd", "A9s, 88, KcJc, KhJh, KsJs", "ATs:0.25, JJ"),
}


@pytest.mark.parametrize(
    ("name", "showdowns", "isomorphism"),
    [
        ("river", "ranks", True),
        ("river", "products", True),
        pytest.param("turn", "ranks", True, marks=pytest.mark.slow),
        pytest.param("paired turn", "ranks", True, marks=pytest.mark.slow),
        pytest.param("paired turn", "products", False, marks=pytest.mark.slow),
        pytest.param("turn of one suit", "ranks", False, marks=pytest.mark.slow),
        pytest.param("turn of one suit", "products", True, marks=pytest.mark.slow),
    ],
)
def test_payoffs_are_those_of_all_pairs_of_hands(name, showdowns, isomorphism):
    """For random policies, and ranges that differ and share hands; turns deal all rivers."""
    board, *ranges = SUBGAMES[name]
    board, ranges = parse_cards(board), tuple(map(parse_range, ranges))
    streets = 6 - len(board)
    sizes = BetSizes.parse("50%, allin", "3x") if streets == 1 else BetSizes.parse("allin", "")
    game = build_betting_tree(pot=200, stack=900, streets=streets, sizes=sizes)
    with jax.enable_x64(True):
        tree = holdem_tree(
            board, ranges, game, dtype="float64", showdowns=showdowns, isomorphism=isomorphism
        )
        exchanges = symmetries_of(board, ranges) if isomorphism else [(0, 1, 2, 3)]
        assert len(tree.streets[-1].boards) == NUM_RIVERS[name, isomorphism]
        policy = RandomPolicy(game, exchanges, seed=0)
        subgame = Subgame(
            betting=game,
            deck=tuple(range(52)),
            deals=(1,) * (streets - 1),
            hands=tree.hands,
            policy=policy,
        )
        assert_values_by_hand(tree, policy, subgame, tree.ranges, board)


NUM_RIVERS = {
    ("river", True): 1,
    ("turn", True): 48,  # no symmetries
    ("paired turn", True): 2 + 2 * 11,  # ranks of the board, and other ranks by kind of suit
    ("paired turn", False): 48,
    ("turn of one suit", True): 9 + 13,
    ("turn of one suit", False): 48,
}


def symmetries_of(board, ranges):
    """The permutations of suits that leave the board and both ranges unchanged."""
    places = {tuple(sorted(hand)): place for place, hand in enumerate(HANDS.tolist())}
    return [
        suits
        for suits in suits_that_keep(board)
        if all(
            weights[place] == weights[places[exchanged(hand, suits)]]
            for weights in ranges
            for hand, place in places.items()
        )
    ]


@pytest.mark.slow
def test_boards_in_chunks_are_boards_at_once(monkeypatch):
    """The last chunk has fewer boards; lists of the same length are not as many in every chunk."""
    board, *ranges = SUBGAMES["turn"]
    board, ranges = parse_cards(board), tuple(map(parse_range, ranges))
    game = build_betting_tree(pot=200, stack=900, streets=2, sizes=BetSizes.parse("allin", ""))

    def values():
        tree = holdem_tree(board, ranges, game, showdowns="ranks")
        reach = tuple(
            jax.random.uniform(jax.random.key(p), (player.num_sequences // len(hands), len(hands)))
            for p, (player, hands) in enumerate(
                zip(tree.sequence_form.treeplexes, tree.hands, strict=True)
            )
        )
        return [sweeps.terminal_values(tree.sequence_form, reach, player) for player in range(2)]

    at_once = values()
    monkeypatch.setattr(solvers.holdem.showdown_by_ranks, "_MANY", 1)
    monkeypatch.setattr(
        solvers.holdem.showdown_by_ranks, "_CHUNK", 5 * 6 * len(np.flatnonzero(ranges[0]))
    )
    jax.tree.map(
        lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-3), values(), at_once
    )


def test_payoffs_after_an_added_bet():
    """A subtree just before a raise that is added to it, with chips paid before its root."""
    whole = build_betting_tree(pot=200, stack=900, streets=1, sizes=BetSizes.parse("50%", "allin"))
    facing = int(whole.child[0, 1])
    game = with_bet(subtree(whole, facing), 0, 250)
    assert (game.actions[0], game.paid[0].tolist()) == (
        ("fold", "call", "raise 250", "allin"),
        [100, 0],
    )
    ranges = parse_range("AQs, 99"), parse_range("KQs:0.5, 65s")
    with jax.enable_x64(True):
        tree = holdem_tree(BOARD, ranges, game, dtype="float64", showdowns="ranks")
        policy = RandomPolicy(game, [(0, 1, 2, 3)], seed=0)
        deck = tuple(range(52))
        subgame = Subgame(betting=game, deck=deck, deals=(), hands=tree.hands, policy=policy)
        assert_values_by_hand(tree, policy, subgame, tree.ranges, BOARD)
    solution = uniform(holdem_tree(BOARD, ranges, game))
    assert sum(solution.ev) == pytest.approx(300, abs=1e-3)
    assert solution.root.mean_ev() == pytest.approx(solution.ev[solution.root.player], abs=1e-3)


def uniform(tree):
    state = cfr.init(tree.sequence_form, root_reach=tree.root_reach)
    return HoldemSolution(tree, cfr.average_policy(tree.sequence_form, state))


def turn(ranges, **more):
    game = build_betting_tree(pot=200, stack=900, streets=2, sizes=BetSizes.parse("allin", ""))
    return holdem_tree(parse_cards("Td9d6hQh"), ranges, game, **more)


def test_hands_with_a_dealt_card_expect_nothing():
    solution = uniform(turn((parse_range("22, AKs"), parse_range("JJ, 55"))))
    node = solution.play("check", "check", card="2s")
    dead = (node.solution.tree.hands[0] == parse_cards("2s")[0]).any(axis=1)
    assert dead.any()
    assert (node.ev[dead] == 0).all()
    assert (node.action_ev[dead] == 0).all()
    assert (node.ev[~dead] != 0).all()


def test_a_part_has_the_hands_and_boards_of_the_whole_tree():
    tree = turn((parse_range("random"), parse_range("22, AKs:0.5")))
    part = subgame_part(tree, int(tree.betting.child[0, 0])).tree
    for name in ("hands", "ranges"):
        for ours, theirs in zip(getattr(part, name), getattr(tree, name), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(part.streets, tree.streets, strict=True):
        np.testing.assert_array_equal(ours.boards, theirs.boards)


def test_weights_are_equal_as_they_are_kept(tmp_path):
    """A file has 32 bits of them, by which it finds the symmetries of suits again."""
    weights = parse_range("AKs, QQ, 65s")
    ace_of, king_of = (parse_cards(f"{rank}c{rank}s") for rank in "AK")
    for (ace, king), weight in zip(
        zip(ace_of, king_of, strict=True), (0.3, 0.1 + 0.2), strict=True
    ):
        weights[hand_number(ace, king)] = weight
    solution = uniform(turn((weights, parse_range("JJ"))))
    assert [len(street.boards) for street in solution.tree.streets] == [1, 35]
    solution.save(tmp_path / "solution.npz")
    again = HoldemSolution.load(tmp_path / "solution.npz")
    np.testing.assert_array_equal(again.tree.streets[1].boards, solution.tree.streets[1].boards)


@pytest.mark.slow
def test_the_order_of_a_deck_does_not_matter():
    deck = tuple(range(0, 52, 4)) + tuple(range(1, 52, 4))  # two suits
    hands = np.array(list(itertools.combinations(sorted(deck), 1)))
    game = build_betting_tree(pot=2, stack=4, streets=3, sizes=BetSizes.parse("allin", ""))
    values = []
    for cards in (deck, tuple(sorted(deck)), deck[::-1]):
        tree = build_holdem_tree((), hands, (np.ones(26),) * 2, game, deals=(3, 1), deck=cards)
        values.append(uniform(tree).ev)
    np.testing.assert_allclose(values[1:], [values[0]] * 2, atol=1e-5)


@pytest.mark.slow
def test_solves_side_by_side_are_solves_one_by_one():
    tree = holdem_tree(BOARD, (parse_range("QQ+, T9s"), parse_range("AJs+, 66")), betting())
    ranges = tuple(
        jnp.stack([jnp.asarray(r), jnp.asarray(r) * jnp.linspace(0.2, 1, len(r))])
        for r in tree.ranges
    )

    def solve(*ranges):
        state = cfr.init(tree.sequence_form, root_reach=ranges)
        state = cfr.run(tree.sequence_form, state, solver=cfr.cfr_plus(), num_iterations=20)
        return cfr.average_policy(tree.sequence_form, state)

    together = jax.vmap(solve)(*ranges)
    for number in range(2):
        alone = solve(*(r[number] for r in ranges))
        for batch, single in zip(together, alone, strict=True):
            np.testing.assert_allclose(batch[number], single, atol=1e-4)


def test_bad_subgames():
    everything, two = parse_range("random"), parse_cards("2c2d")
    with pytest.raises(ValueError, match=r"board=\(0, 1\) must have 3 to 5 different cards"):
        holdem_tree(two, (everything, everything), betting())
    with pytest.raises(ValueError, match="player 1's range is empty on this board"):
        holdem_tree(BOARD, (everything, parse_range("TdAh")), betting())
    streets = build_betting_tree(pot=1, stack=2, streets=2, sizes=SIZES)
    with pytest.raises(ValueError, match="has 2 streets; from a board of 5 cards there are 1"):
        holdem_tree(BOARD, (everything, everything), streets)
    for weight in (-1.0, np.nan, np.inf):
        weights = everything.copy()
        weights[0] = weight
        with pytest.raises(ValueError, match="weights of player 1's range must be finite and at"):
            holdem_tree(BOARD, (everything, weights), betting())
    with pytest.raises(ValueError, match=r"board=\(.*, 52\) must be of cards of the deck"):
        holdem_tree((*BOARD[:4], 52), (everything, everything), betting())
