"""Solved subgames: another solver's cases, walking the tree, files; and what is refused."""

import functools

import numpy as np
import pytest

from experiments.subgame_solving.holdem_spots import SPOTS
from jaxgames.game_tree import TreeTooLargeError
from jaxgames.holdem.bet_sizes import BetSizes
from jaxgames.holdem.betting_from_sizes import build_betting_tree
from jaxgames.holdem.cards import parse_cards
from jaxgames.holdem.equity import range_equity
from jaxgames.holdem.ranges import parse_range, whole_range
from solvers import cfr
from solvers.holdem import subgame_spec
from solvers.holdem.holdem_solution import HoldemSolution
from solvers.holdem.subgame_spec import estimated_bytes
from solvers.holdem.subgame_tree import holdem_tree


def subgame(board, bets, oop, ip, *, stack=900, raises="3x", **more):
    cards = parse_cards(board)
    betting = build_betting_tree(
        pot=200, stack=stack, streets=6 - len(cards), sizes=BetSizes.parse(bets, raises)
    )
    return holdem_tree(cards, (parse_range(oop), parse_range(ip)), betting, **more)


def solved(tree, iterations, solver=None):
    solver = cfr.dcfr(gamma=3.0) if solver is None else solver
    state = cfr.init(tree.sequence_form, root_reach=tree.root_reach)
    state = cfr.run(tree.sequence_form, state, solver=solver, num_iterations=iterations)
    return HoldemSolution(tree, cfr.average_policy(tree.sequence_form, state))


@pytest.mark.slow
@pytest.mark.parametrize("name", SPOTS)
def test_another_solver(name):
    spot = SPOTS[name]
    solution = solved(holdem_tree(spot.cards, spot.ranges, spot.betting), spot.iterations)
    expected = (spot.ev, spot.pot - spot.ev)
    np.testing.assert_allclose(solution.ev, expected, atol=spot.tolerance)
    assert solution.exploitability < 1.25 * spot.exploitability
    ranges = map(whole_range, solution.tree.hands, solution.tree.ranges)
    assert range_equity(spot.cards, *ranges) == pytest.approx(spot.equity, abs=1e-4)
    if spot.frequencies is not None:
        np.testing.assert_allclose(solution.root.frequencies, spot.frequencies, atol=0.01)


@functools.cache
def small(raises=""):
    """A turn with a symmetry of clubs and spades."""
    ranges = "66+,A8s+,KQo", "JJ-22,T9s,A2s+"
    tree = subgame("Td9d6hQh", "50%,allin", *ranges, raises=raises)
    assert [len(street.boards) for street in tree.streets] == [1, 35]
    return solved(tree, 60)


@pytest.mark.slow
def test_values_of_hands():
    """The mean of the values of actions is that of the hand, and their mean is the player's."""
    solution = small("3x")
    root = solution.root
    assert (root.player, root.pot, root.actions) == (0, 200, ("check", "bet 100", "allin"))
    assert root.mean_ev() == pytest.approx(solution.ev[0], abs=1e-3)
    for node in (root, solution.play("check"), solution.play("check", "bet 50%", "raise")):
        mixed = np.sum(node.policy * node.action_ev, axis=1)
        np.testing.assert_allclose(mixed, node.ev, atol=1e-2)
    assert sum(solution.ev) == pytest.approx(200, abs=1e-2)
    assert solution.play("check").player == 1


def test_shares_of_the_pot_add_up_after_every_card():
    """Both players' expected chips sum to the pot, for every card of the river."""
    for card in ("2s", "2c", "Kd", "Qs"):
        first = small().play("check", "check", card=card)
        assert first.pot == 200
        # the second player's values are known at its own decisions, after the first player's action
        answers = [first.play(action).mean_ev() for action in first.actions]
        assert first.mean_ev() + first.frequencies @ answers == pytest.approx(200, abs=0.1)


def test_symmetric_suits_play_alike():
    """The two of clubs as the two of spades, for hands with these suits exchanged."""
    solution = small()
    clubs, spades = (solution.play("check", "check", card=card) for card in ("2c", "2s"))
    assert clubs.board[-1] != spades.board[-1]
    assert clubs.strategy("AhAs") == spades.strategy("AhAc")
    assert clubs.strategy("AsKs") == spades.strategy("AcKc")
    assert clubs.strategy("AdAh") == spades.strategy("AdAh")
    assert clubs.strategy("AhAs") != clubs.strategy("AdAh")
    np.testing.assert_allclose(clubs.frequencies, spades.frequencies, atol=1e-6)


def test_files_there_and_back(tmp_path):
    solution = small()
    path = tmp_path / "solution.npz"
    solution.save(path)
    again = HoldemSolution.load(path)
    assert [file.name for file in tmp_path.iterdir()] == ["solution.npz"]
    assert again.tree.betting.abstraction == solution.tree.betting.abstraction
    np.testing.assert_allclose(again.ev, solution.ev, atol=1e-4)
    nodes = [s.play("check", "bet 100").play("call", card="2s") for s in (solution, again)]
    np.testing.assert_array_equal(nodes[0].policy, nodes[1].policy)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="is not a solution of this version"):
        HoldemSolution.load(path)
    path.write_bytes(b"something else")
    with pytest.raises(ValueError, match="is not a solution of this version"):
        HoldemSolution.load(path)
    with pytest.raises(OSError, match="no_such"):
        HoldemSolution.load(tmp_path / "no_such.npz")


def test_files_are_read_where_they_could_not_be_solved(tmp_path, monkeypatch):
    path = tmp_path / "solution.npz"
    small().save(path)
    monkeypatch.setattr(subgame_spec, "device_bytes", lambda: 1000)
    again = HoldemSolution.load(path)
    np.testing.assert_array_equal(again.policy[0], small().policy[0])


def test_moves_that_cannot_be():
    solution = small()
    root = solution.root
    for play, message in (
        (lambda: root.play("chekc"), "unknown action 'chekc'; did you mean 'check'"),
        (lambda: root.play("bet 70%"), "'bet 70%' would add 140 chips, which is none of the bets"),
        (lambda: root.play("bet x%"), "'x%' is not a share of the pot"),
        (lambda: root.play("check", "check"), "after check, check a card is dealt"),
        (lambda: root.play("check", card="2s"), "no card is dealt after check"),
        (lambda: root.play("check", "check", card="Td"), "card='Td' must be 1 of the deck that"),
        (lambda: root.play("check", "check", card="2c2d"), "must be 1 of the deck"),
        (lambda: root.play("allin", "fold"), "after allin, fold the hand was folded"),
        (lambda: root.play("allin", "call"), "after allin, call the hands are shown"),
        (lambda: root.strategy("2c3d"), "'2c3d' is not in player 0's range here"),
        (lambda: root.strategy("AhTd"), "not in player 0's range"),
    ):
        with pytest.raises(ValueError, match=message):
            play()


def test_subgames_that_cannot_be():
    with pytest.raises(ValueError, match="must have 3 to 5 different cards"):
        holdem_tree((0, 1), (parse_range("random"),) * 2, small().tree.betting)
    with pytest.raises(ValueError, match="player 1's range is empty on this board"):
        subgame("Td9d6hQc2s", "50%", "AA", "TdAh")
    with pytest.raises(ValueError, match="every hand of player 0's range shares a card with each"):
        subgame("Td9d6hQc2s", "50%", "AhKh", "AhKh")
    with pytest.raises(ValueError, match="dtype='float64' needs"):
        subgame("Td9d6hQc2s", "50%", "AA", "KK", dtype="float64")
    with pytest.raises(ValueError, match="betting tree has 2 streets; from a board of 5 cards"):
        holdem_tree(parse_cards("Td9d6hQc2s"), (parse_range("AA"),) * 2, small().tree.betting)
    with pytest.raises(ValueError, match=r"unknown showdowns 'fast' \(known: products, ranks\)"):
        subgame("Td9d6hQc2s", "50%", "AA", "KK", showdowns="fast")
    message = (
        r"needs about 0.0\d+ GB, more than 1e-05 GB: 9 betting nodes, 1 boards by street, 1,081"
    )
    with pytest.raises(TreeTooLargeError, match=message):
        subgame("Td9d6hQc2s", "50%", "random", "random", raises="", max_bytes=10**4)


def test_the_estimate_of_memory_covers_what_a_solve_keeps():
    tree = small().tree
    sizes = tuple(map(len, tree.hands))
    state = cfr.init(tree.sequence_form, root_reach=tree.root_reach)
    kept = sum(leaf.nbytes for leaf in [*state.reach, *state.average_reach])
    assert 4 * kept < estimated_bytes(tree.betting, tree.streets, sizes) < 40 * kept
