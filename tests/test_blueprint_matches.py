"""Blueprints in the real game: matches over all pairs of hands, best responses; and folders."""

import functools
import json
import re

import blueprint_reference as reference
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blueprint_cases import (
    BUCKETS,
    TWO_RAISES,
    TWO_STREETS,
    game_of,
    random_policy,
    random_tables,
    states_by_node,
)

from experiments import cli
from experiments.acpc.agents import make_agent
from experiments.commands import match
from experiments.harness import results
from jaxgames.core import CHANCE, TERMINAL
from jaxgames.holdem import card_abstraction, limit_holdem
from jaxgames.holdem.canonical_boards import num_deals
from jaxgames.holdem.card_abstraction import CardAbstraction, bucket_tables
from jaxgames.holdem.ranges import hand_numbers
from jaxgames.holdem.rules import Poker
from solvers.blueprint import best_response, board_sampled_cfr
from solvers.blueprint.blueprint import (
    Blueprint,
    fixed_blueprint,
    read_blueprint,
    write_blueprint,
)
from solvers.blueprint.deals import make_deal, random_board
from solvers.blueprint.enumerated_match import check_same_betting, winnings
from solvers.blueprint.hand_policy import BlueprintByHand, hand_policy


@functools.cache
def blueprint_of(seed, poker=TWO_STREETS, num_buckets=BUCKETS):
    """Random, and its policies by decision of the tree."""
    game, generator = game_of(poker, num_buckets), np.random.default_rng(seed)
    state = board_sampled_cfr.init(game)
    sums = jax.tree.map(lambda x: jnp.asarray(generator.random(x.shape), x.dtype), state.average)
    policy = board_sampled_cfr.average_policy(game, sums)
    buckets = random_tables(num_buckets, poker.board)
    return Blueprint(policy=policy, buckets=buckets, game=game), states_by_node(game, policy)


def hands_of(blueprint, board):
    """The buckets of a board's hands by street, their cards and their strengths."""
    left = 52 - len(board)
    deal, _ = make_deal(blueprint.buckets, jnp.asarray(board), groups=left * (left - 1) // 2)
    return [np.asarray(x) for x in (deal.bucket, deal.cards, deal.strength)]


def test_matches_are_those_pair_by_pair():
    """Of two blueprints with other buckets, on one board, in both seats."""
    first, first_by_node = blueprint_of(1, TWO_RAISES)
    second, second_by_node = blueprint_of(2, TWO_RAISES, (11, 7))
    board = random_board(jax.random.key(3), 3)
    (found,) = np.asarray(winnings(first, second, board[None]))
    one, cards, strength = hands_of(first, board)
    other, *_ = hands_of(second, board)
    tree = first.game.rounds.tree
    for seat in range(2):
        players = [(first_by_node, one), (second_by_node, other)]
        if seat == 1:
            players.reverse()
        value = reference.value(tree, players, cards, strength)
        expected = (value, -value)[seat] / (1176 * 1081)
        # wins and losses of up to 40 chips cancel in float32, which rounds each by 6e-8 of it
        np.testing.assert_allclose(found[seat], expected, rtol=1e-5, atol=40 * 6e-8)


@pytest.mark.slow
def test_seats_of_a_match_are_mirrored():
    first, second = blueprint_of(1)[0], blueprint_of(2, num_buckets=(11, 7))[0]
    boards = jnp.stack([random_board(jax.random.key(n), 3) for n in range(2)])
    here, there = winnings(first, second, boards), winnings(second, first, boards)
    np.testing.assert_allclose(here, -there[:, ::-1], rtol=1e-5, atol=1e-6)
    own = winnings(first, first, boards)
    np.testing.assert_allclose(own.sum(axis=1), 0, atol=1e-6)


def test_matches_are_between_the_same_bets():
    other = Poker(raise_sizes=(10, 10), board=(0, 3), first=(1, 0), max_raises=(3, 3))
    games = [game_of(poker, BUCKETS).rounds for poker in (TWO_STREETS, other)]
    check_same_betting(games[0], games[0])
    with pytest.raises(ValueError, match=r"both must play the same bets: .* differ"):
        check_same_betting(*games)


def test_play_before_the_flop_is_best_for_what_is_expected():
    """What it is worth on some flops is their best response's if these were expected, and no more
    if others were."""
    blueprint, _ = blueprint_of(1)
    flops = np.array([7, 600, 1_234])
    values = best_response.flop_values(blueprint, flops, player=1)
    weights = num_deals(3)[flops]
    best = best_response.best_response_value(blueprint, values, weights, player=1)
    mean = np.average(values, axis=0, weights=weights)
    own = best_response.response_values(blueprint, mean, values, player=1)
    np.testing.assert_allclose(np.average(own, weights=weights), best, rtol=1e-5)
    other = best_response.response_values(blueprint, values[0], values, player=1)
    assert np.average(other, weights=weights) < best
    alone = best_response.best_response_value(blueprint, values[:1], weights[:1], player=1)
    np.testing.assert_allclose(other[0], alone, rtol=1e-5)
    assert alone > own[0]


def test_policies_by_hand_are_those_of_the_tables():
    """Along random hands, at each decision with all hands that are possible there."""
    blueprint, by_node = blueprint_of(1)
    game, tree = TWO_STREETS, blueprint.game.rounds.tree
    policy = functools.partial(jax.jit(BlueprintByHand.__call__), hand_policy(blueprint, game))
    step = jax.jit(game.step)
    generator, seen = np.random.default_rng(0), set()
    for _ in range(20):
        state, node = game.init(), 0
        while int(state.actor) != TERMINAL:
            if int(state.actor) == CHANCE:
                action = generator.choice(np.flatnonzero(state.chance_probs))
            else:
                while tree.actor[node] == CHANCE:
                    node = tree.child[node, 0]
                legal = np.flatnonzero(state.legal)
                street = int(state.round)
                bucket, cards, _ = hands_of(blueprint, state.board[: 3 * street])
                expected = np.zeros((len(cards), game.num_actions))
                expected[:, legal] = by_node[node][bucket[street]]
                found = np.asarray(policy(state))[hand_numbers(cards)]
                np.testing.assert_allclose(found, expected, atol=1e-6)
                choice = generator.integers(len(legal))
                seen.add(node)
                action, node = legal[choice], tree.child[node, choice]
            state = step(state, jnp.int32(action))
    assert len(seen) > 12


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A blueprint in a folder, and what it was made from."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    abstraction = CardAbstraction.parse("169/percentile:8")
    game, generator = game_of(TWO_STREETS, abstraction.num_buckets), np.random.default_rng(0)
    average = jax.tree.map(
        lambda x: jnp.asarray(generator.random(x.shape), x.dtype),
        board_sampled_cfr.init(game).average,
    )
    policy = board_sampled_cfr.average_policy(game, average)
    write_blueprint(
        tmp_path,
        policy,
        poker=TWO_STREETS,
        abstraction=abstraction,
        buckets=bucket_tables(abstraction, board=TWO_STREETS.board),
    )
    return tmp_path, abstraction, policy


def test_blueprints_are_read_as_they_were_written(kept):
    folder, abstraction, policy = kept
    found, poker = read_blueprint(folder)
    assert poker == TWO_STREETS
    for mine, theirs in zip(jax.tree.leaves(found.policy), jax.tree.leaves(policy), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=5e-4)
    expected = bucket_tables(abstraction, board=TWO_STREETS.board)
    for mine, theirs in zip(found.buckets.tables, expected.tables, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_blueprints_know_their_buckets(kept, tmp_path):
    """Another bucket of one hand on one flop is enough; folders of version 1 do not know."""
    folder, *_ = kept
    (cached,) = (tmp_path / "cache").rglob("percentile-8-*.npz")
    with np.load(cached) as file:
        table = file["table"]
    table[1_000, -1] ^= 1
    np.savez(cached, table=table)
    with pytest.raises(ValueError, match="with other buckets classes:169/percentile:8 than"):
        read_blueprint(folder)
    description = json.loads((folder / "blueprint.json").read_text())
    old = {name: description[name] for name in ("game", "abstraction")} | {"version": 1}
    (folder / "blueprint.json").write_text(json.dumps(old))
    found, _ = read_blueprint(folder)
    np.testing.assert_array_equal(found.buckets.tables[1], table)


@pytest.mark.slow
def test_blueprints_know_on_which_board_strengths_were_taken(tmp_path, monkeypatch):
    """Buckets are those of the last street's cards here."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(
        card_abstraction,
        "bucket_table",
        lambda buckets, num_cards, last: np.full((len(num_deals(num_cards)), 1326), last, np.uint8),
    )
    abstraction, poker = CardAbstraction.parse("ehs2:8/ehs2:8"), TWO_STREETS
    for cards in (None, 5):
        tables = bucket_tables(abstraction, board=poker.board, strength_cards=cards)
        policy, _ = random_policy(poker, (8, 8))
        write_blueprint(tmp_path, policy, poker=poker, abstraction=abstraction, buckets=tables)
        found, _ = read_blueprint(tmp_path)
        assert found.buckets.strength_cards == int(found.buckets.tables[1][0, 0]) == (cards or 3)


def test_folders_without_a_blueprint_are_refused(kept, tmp_path):
    folder, *_ = kept
    with pytest.raises(ValueError, match=r"plays poker\(.*board=0/3,.*, not poker\("):
        make_agent(str(folder), limit_holdem(), seed=0)
    with pytest.raises(ValueError, match=r"holds no blueprint: it has no blueprint\.json"):
        read_blueprint(tmp_path / "nowhere")
    text = (folder / "blueprint.json").read_text()
    for new, message in (
        (text.replace('"version": 2', '"version": 7'), "of version 7; this is version 2"),
        (text.replace("percentile:8", "percentile:9"), "tables of shapes .* with buckets"),
        (text[:20], "blueprint.json is damaged"),
        ("[]", r"blueprint\.json is damaged: it must hold an object, not \[\]"),
        (text.replace('"game"', '"gain"'), r"blueprint\.json is damaged: game=None must be str"),
        (
            re.sub(r"poker\([^)]*\)", "kuhn_poker", text),
            r"blueprint\.json is of no use: game='kuhn_poker' must be hold'em",
        ),
        (
            text.replace("ranks=13", "ranks=5"),
            r"is of no use: hole=2, ranks=5 and suits=4 must be 2, 13 and 4",
        ),
    ):
        (folder / "blueprint.json").write_text(new)
        with pytest.raises(ValueError, match=message):
            read_blueprint(folder)
    (folder / "blueprint.json").write_text(text)
    content = (folder / "blueprint.npz").read_bytes()
    for damaged in (b"nothing", content[:100], *flipped(content)):
        (folder / "blueprint.npz").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"blueprint\.npz holds no policy"):
            read_blueprint(folder)


def flipped(content):
    """The file with a byte flipped: in the compressed table, and in zip's list of what there is,
    by which it is encrypted or compressed in an unknown way."""
    there = content.index(b"PK\x01\x02")
    for place in (60, 300, there + 8, there + 10):
        yield content[:place] + bytes([content[place] ^ 0x41]) + content[place + 1 :]


def test_fixed_blueprints_take_what_is_legal():
    """All-in before anything else: a call where there is no raise any more."""
    blueprint = fixed_blueprint(TWO_STREETS, {"raise": 1.0})
    tree, by_node = blueprint.game.rounds.tree, states_by_node(blueprint.game, blueprint.policy)
    for node, policy in by_node.items():
        names = tree.actions[node]
        expected = [float(n == "raise") for n in names] if "raise" in names else [0.5, 0.5]
        np.testing.assert_array_equal(policy, [expected])


@pytest.mark.slow
def test_matches_from_the_command_line(kept, tmp_path, capsys):
    folder, *_ = kept
    run = lambda *words: cli.main(["match", *map(str, words)])  # noqa: E731
    assert run(folder, "always_call", "--boards", 5, "--out", tmp_path / "one") == 0
    assert run("always_call", folder, "--boards", 5, "--out", tmp_path / "other") == 0
    found = [results.read_result(tmp_path / name / "result.json") for name in ("one", "other")]
    one, other = ({number.name: number.value for number in r.numbers} for r in found)
    np.testing.assert_allclose(one["0"], -other["1"], rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(one["both"], -other["both"], rtol=1e-4, atol=1e-3)
    boards = (tmp_path / "one" / "boards.csv").read_text().splitlines()
    assert len(boards) == 1 + 5
    mean = np.mean([float(line.split(",")[1]) for line in boards[1:]])
    np.testing.assert_allclose(one["0"], mean, rtol=1e-4)
    capsys.readouterr()
    for words, message in (
        (("always_fold", folder), "unknown player 'always_fold'"),
        (("uniform", "always_call"), "must be a folder, which says what is played"),
        ((folder, folder, "--boards", 1), "boards=1 must be at least 2"),
    ):
        assert run(*words, "--out", tmp_path / "bad") == 2
        assert message in capsys.readouterr().err


@pytest.fixture
def pieces(monkeypatch):
    """Matches in pieces of four boards, and how many of them were played."""
    played = []

    def counted(first, second, boards, **options):
        played.append(len(boards))
        return winnings(first, second, boards, **options)

    monkeypatch.setattr(match, "_PIECE", 4)
    monkeypatch.setattr(match, "winnings", counted)
    return played


def interrupted_match(words, monkeypatch):
    """A match that is interrupted in its second piece."""
    left = iter([match.winnings])
    with monkeypatch.context() as patch:

        def play(*arguments, **options):
            for kept in left:
                return kept(*arguments, **options)
            raise KeyboardInterrupt

        patch.setattr(match, "winnings", play)
        assert cli.main(words) == 130


@pytest.mark.slow
def test_a_match_goes_on_after_ctrl_c(kept, pieces, tmp_path, monkeypatch):
    """To the same file of boards, whose means and errors are those on record; no piece is played
    twice."""
    folder, *_ = kept
    words = ["match", str(folder), "always_call", "--boards", "10", "--out"]
    assert cli.main([*words, str(tmp_path / "whole")]) == 0
    interrupted_match([*words, str(tmp_path / "parts")], monkeypatch)
    assert not (tmp_path / "parts" / "boards.csv").exists()
    assert cli.main([*words, str(tmp_path / "parts"), "--resume"]) == 0
    assert pieces == [4] * (3 + 1 + 2)
    whole, parts = ((tmp_path / name / "boards.csv").read_text() for name in ("whole", "parts"))
    assert whole == parts
    won = np.loadtxt(whole.splitlines(), delimiter=",", skiprows=1)[:, 1:]
    assert won.shape == (10, 2)
    result = results.read_result(tmp_path / "parts" / "result.json")
    for name, samples in (("0", won[:, 0]), ("1", won[:, 1]), ("both", won.mean(axis=1))):
        number = result.number(name)
        error = np.std(samples, ddof=1) / np.sqrt(10)
        assert number.value == pytest.approx(samples.mean(), rel=1e-4, abs=1e-3)
        assert number.high - number.value == pytest.approx(2 * error, rel=1e-4)
        assert number.value - number.low == pytest.approx(2 * error, rel=1e-4)


@pytest.mark.slow
def test_a_match_does_not_go_on_with_another_blueprint(kept, pieces, tmp_path, monkeypatch, capsys):
    """In the same folder; with the first one again it does."""
    folder, abstraction, policy = kept
    words = ["match", "uniform", str(folder), "--boards", "6", "--out", str(tmp_path / "run")]
    interrupted_match(words, monkeypatch)
    before = (folder / "blueprint.npz").read_bytes()
    other = jax.tree.map(lambda table: table[:, ::-1], policy)
    own = read_blueprint(folder)[0].buckets
    write_blueprint(folder, other, poker=TWO_STREETS, abstraction=abstraction, buckets=own)
    capsys.readouterr()
    assert cli.main([*words, "--resume"]) == 2
    assert "which differs in contents: use another --out" in capsys.readouterr().err
    (folder / "blueprint.npz").write_bytes(before)
    assert cli.main([*words, "--resume"]) == 0
    assert pieces == [4] * 2
