"""Responses to blueprints of hold'em: local best response, beliefs over hands, and the commands."""

import functools
import io
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blueprint_cases import TWO_STREETS
from test_blueprint_matches import blueprint_of, hands_of

from experiments import cli
from experiments.best_response import abr_chumps, blueprint_responses, holdem_responses
from experiments.harness import results
from jaxgames.core import CHANCE, TERMINAL
from jaxgames.holdem.card_abstraction import CardAbstraction
from jaxgames.holdem.ranges import HANDS, hand_numbers
from jaxgames.holdem.rules import Poker
from solvers.approximate_best_response import holdem_opponents
from solvers.approximate_best_response.exact_chump_responses import Chump
from solvers.approximate_best_response.holdem_opponents import HandGame, RangeBelief
from solvers.approximate_best_response.local_best_response import LocalBestResponse, duplicate_deals
from solvers.blueprint.blueprint import fixed_blueprint, write_blueprint
from solvers.blueprint.hand_policy import BlueprintByHand, hand_policy

# one bet on each of two rounds
SMALL = Poker(board=(0, 3), first=(1, 0), raise_sizes=(10, 20), max_raises=(1, 1))
GAME = "poker(board=0/3,first=1/0,raise_sizes=10/20,max_raises=1/1)"


@pytest.fixture(scope="module")
def steps():
    """Random hands of a random blueprint's game: states with actions, and decisions of the tree."""
    blueprint, by_node = blueprint_of(1)
    tree, generator = blueprint.game.rounds.tree, np.random.default_rng(0)
    step, games = jax.jit(TWO_STREETS.step), []
    for _ in range(6):
        state, node, game = TWO_STREETS.init(), 0, []
        while int(state.actor) != TERMINAL:
            if int(state.actor) == CHANCE:
                action = generator.choice(np.flatnonzero(state.chance_probs))
            else:
                while tree.actor[node] == CHANCE:
                    node = tree.child[node, 0]
                choice = generator.integers(1, len(tree.actions[node]))  # the first one often ends
                action = np.flatnonzero(state.legal)[choice]
                game.append((state, node, choice, int(action)))
                node = tree.child[node, choice]
            state = step(state, jnp.int32(action))
        games.append(game)
    return blueprint, by_node, games


def test_the_belief_over_hands_is_what_bayes_says(steps):
    """The product of what the tables say of the hand's buckets, of hands that may be held."""
    blueprint, by_node, games = steps
    policy, checked = hand_policy(blueprint, TWO_STREETS), 0
    poker = holdem_opponents.StrengthPoker(**TWO_STREETS.parameters())
    after, weights = jax.jit(RangeBelief.after), jax.jit(RangeBelief.weights)
    node_at = jax.jit(HandGame.at)
    for responder in range(2):
        response = holdem_opponents.build_hand_game(poker, policy, responder=responder)
        belief = response.belief
        for game in games:
            memory, seen = belief.start(), []
            for state, node, choice, action in game:
                if int(state.actor) == responder:
                    found = np.asarray(weights(belief, memory, state), np.float64)
                    buckets, cards, _ = hands_of(blueprint, state.board[: 3 * int(state.round)])
                    expected = np.ones(len(cards))
                    for street, other, taken in seen:
                        expected *= by_node[other][buckets[street], taken]
                    shared = np.isin(cards, np.asarray(state.hole[responder])).any(axis=1)
                    whole = np.zeros(1326)
                    whole[hand_numbers(cards)] = np.where(shared, 0, expected)
                    np.testing.assert_allclose(
                        found / found.sum(), whole / whole.sum(), rtol=1e-4, atol=1e-8
                    )
                    checked += bool(seen)
                else:
                    seen.append((int(state.round), node, choice))
                memory = after(belief, memory, node_at(response.game, state), jnp.int32(action))
    assert checked > 6


def test_one_hand_and_all_hands_of_a_board_are_alike(steps):
    """Also when all cards of the board are given before they are dealt."""
    blueprint, _, games = steps
    policy = hand_policy(blueprint, TWO_STREETS)
    every, one = jax.jit(BlueprintByHand.__call__), jax.jit(BlueprintByHand.of_hand)
    whole = jax.jit(lambda policy, board, state: policy.on_board(board)(state))
    for game in games[:3]:
        board = game[-1][0].board
        for state, *_ in game:
            rows = every(policy, state)
            hand = state.hole[state.actor]
            number = np.flatnonzero((np.sort(hand) == HANDS).all(axis=1))[0]
            np.testing.assert_array_equal(one(policy, state, hand), rows[number])
            apart = ~np.isin(HANDS, board).any(axis=1)
            np.testing.assert_array_equal(
                np.asarray(whole(policy, board, state))[apart], np.asarray(rows)[apart]
            )


def test_the_responder_knows_no_more_than_its_network_sees():
    """Against blueprints as against chumps: the same features, and showdowns pay the hands held."""
    blueprint, _ = blueprint_of(1)
    poker = holdem_opponents.StrengthPoker(**TWO_STREETS.parameters())
    policy = hand_policy(blueprint, TWO_STREETS)
    ours = holdem_opponents.build_hand_game(poker, policy, responder=0).game
    chumps = holdem_opponents.build_chump_game(poker, Chump((0.0, 1.0, 0.0)), responder=0).game
    assert (ours.num_states, ours.max_decisions) == (chumps.num_states, chumps.max_decisions)
    state, step = TWO_STREETS.init(), jax.jit(TWO_STREETS.step)
    for card in (51, 47, 0, 5, 1, 1, 20, 25, 31, 1, 1):  # high cards against low ones, nobody bets
        state = step(state, jnp.int32(card))
    assert int(state.actor) == TERMINAL
    np.testing.assert_array_equal(ours.payoffs_at(state), state.returns)
    assert float(state.returns[0]) == 10


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A blueprint of the small game that calls or raises, whatever it holds."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    blueprint, path = fixed_blueprint(SMALL, {"call": 1.0, "raise": 1.0}), tmp_path / "mine"
    path.mkdir()
    abstraction = CardAbstraction.parse("all:1/all:1")
    write_blueprint(
        path,
        blueprint.policy,
        poker=SMALL,
        abstraction=abstraction,
        buckets=blueprint.buckets,
    )
    return path


def respond(game, *words):
    return cli.main(["approximate_best_response", game, *map(str, words)])


@pytest.mark.parametrize(
    ("deals", "size"), [(2, 8), (16, 16), (101, 104), (250, 256), (9_999, 256)]
)
def test_devices_can_share_any_number_of_deals(deals, size):
    assert blueprint_responses.piece_size(deals) == size


@pytest.mark.slow
def test_a_run_against_a_blueprint_that_plays_as_a_chump(folder, tmp_path, monkeypatch, capsys):
    """It wins what it wins of the chump on the same deals; also when it is interrupted between."""
    monkeypatch.setattr(blueprint_responses, "PIECE", 16)
    words = ("--agent", folder, "--steps", 0, "--deals", 24, "--seed", 1, "--out")
    assert respond(GAME, *words, tmp_path / "whole") == 0
    assert re.search(r"mine\W+LBR, played\W+[\d.,]+", capsys.readouterr().out)
    play, pieces = blueprint_responses.duplicate_deals, []

    def stopping(*given, **named):
        if pieces:
            raise KeyboardInterrupt
        pieces.append(named["num_deals"])
        return play(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(blueprint_responses, "duplicate_deals", stopping)
        assert respond(GAME, *words, tmp_path / "parts") == 130
    assert pieces == [16]
    assert respond(GAME, *words, tmp_path / "parts", "--resume") == 0
    chump = functools.partial(holdem_opponents.by_chump, SMALL, Chump((0.0, 1.0, 1.0)))
    won = [
        duplicate_deals(
            LocalBestResponse(SMALL),
            chump,
            jax.random.fold_in(jax.random.key(1), begin),
            num_deals=16,
        )
        for begin in (0, 16)
    ]
    expected = 100 * np.concatenate(won)[:24].mean(axis=1)  # a chip is a tenth of a big blind
    for name in ("whole", "parts"):
        number = results.read_result(tmp_path / name / "result.json").numbers[0]
        assert number.name == f"LBR, played:mine, {GAME}"
        assert number.value == pytest.approx(expected.mean())
        assert number.high - number.value == pytest.approx(2 * expected.std(ddof=1) / 24**0.5)
    assert len(np.unique(expected)) > 3


@pytest.mark.slow(minutes=3)  # its parts are tested in `test_holdem_response`
def test_learning_against_a_blueprint(folder, tmp_path, monkeypatch):
    small = abr_chumps.PRESETS["smoke"].learning
    monkeypatch.setattr(holdem_responses, "LEARNING", small)
    out = tmp_path / "out"
    assert respond(GAME, "--agent", folder, "--steps", 4, "--deals", 0, "--out", out) == 0
    result = results.read_result(out / "result.json")
    (number,) = result.numbers
    assert number.name == f"ISMCTS-BR:mine, {GAME}"
    rows = (out / "curve.csv").read_text().splitlines()
    assert len(rows) == 1 + 4  # steps 0, 1, 2 and 4


@pytest.mark.parametrize(
    ("game", "words", "message"),
    [
        ("limit_holdem", (), r"the blueprint in .* plays poker\(.*, not poker\("),
        (GAME, ("--deals", 1), "deals=1 must be at least 2, or 0 for none"),
        (GAME, ("--deals", 0, "--steps", 0), "deals=0 and steps=0: nothing is measured"),
        (GAME, ("--agent", "nowhere"), "unknown agent of .* 'nowhere'.*FOLDER"),
        ("limit_holdem", ("--agent", "always_call", "--deals", 9), "deals=9 are for the folder"),
        (GAME, ("--without_search", "dqn"), "must be empty in"),
    ],
)
def test_bad_input_is_refused(folder, tmp_path, capsys, game, words, message):
    agent = () if "--agent" in words else ("--agent", folder)
    assert respond(game, *agent, *words, "--out", tmp_path / "bad") == 2
    error = capsys.readouterr().err
    assert re.search(message, " ".join(error.split()))
    assert "Traceback" not in error
    assert not (tmp_path / "bad").exists()


def test_a_person_plays_against_a_blueprint(folder, monkeypatch, capsys):
    """Hands are shown when they are over; what is paid is what the rules say."""
    monkeypatch.setattr("sys.stdin", io.StringIO("call\n" * 20))
    words = ["play", GAME, "--agent", str(folder)]
    assert cli.main([*words, "--games", "2", "--seed", "4"]) == 0
    out = capsys.readouterr().out
    assert "Game 2 of" in out
    assert "you are player 1" in out
    pictures = re.findall(r"hands: (\S+) (\S+)", out)
    assert {"?"} < {first for first, _ in pictures} | {second for _, second in pictures}
    ends = re.findall(r"hands: (\w{4}) (\w{4}) .*\nYou win ([+-]\d+)", out)
    assert len(ends) == 2
    assert f"2 games played to the end, you won {sum(int(e[2]) for e in ends):+d}" in out
    for more, message in (
        (("--opponent", "uniform"), "opponent=uniform is for trained agents: blueprints play each"),
        (("--simulations", "3"), "simulations=3 is for trained agents: blueprints do not search"),
    ):
        assert cli.main([*words, *more]) == 2
        assert message in " ".join(capsys.readouterr().err.split())
    assert cli.main(["play", "limit_holdem", "--agent", str(folder)]) == 2
    assert "not poker(" in " ".join(capsys.readouterr().err.split())
