"""Board-sampled CFR with buckets."""

import dataclasses
import functools
import math

import blueprint_reference as reference
import jax
import jax.numpy as jnp
import numpy as np
import other_devices
import pytest
from accelerator_branches import accelerator_branches

from experiments.benchmarks import numpy_board_sampled_cfr
from jaxgames.holdem import betting_of_rules, limit_holdem
from jaxgames.holdem.canonical_boards import (
    HAND_IMAGES,
    board_finder,
    board_symmetries,
    canonical_boards,
    num_deals,
)
from jaxgames.holdem.card_abstraction import BucketTables
from jaxgames.holdem.ranges import NUM_HANDS, class_numbers, hand_numbers
from jaxgames.holdem.rules import Poker
from solvers.blueprint import best_response, board_sampled_cfr, bucket_game, cfr_br
from solvers.blueprint.betting_rounds import betting_rounds
from solvers.blueprint.blueprint import Blueprint
from solvers.blueprint.deals import make_deal, make_deals, random_board
from solvers.regret import PredictiveRegretMatchingPlus, RegretMatching
from train.data_sharding import data_mesh

TWO_STREETS = Poker(raise_sizes=(10, 10), board=(0, 3), first=(1, 0), max_raises=(3, 4))
THREE_STREETS = Poker(
    raise_sizes=(10, 10, 20), board=(0, 3, 1), first=(1, 0, 0), max_raises=(1, 1, 1)
)
ONE_RAISE = Poker(raise_sizes=(10, 10), board=(0, 3), first=(1, 0), max_raises=(1, 1))
BUCKETS = (20, 30)


@functools.cache
def random_tables(num_buckets, board):
    """Random buckets that suits do not matter for."""
    generator, num_cards = np.random.default_rng(0), tuple(np.cumsum(board).tolist())
    tables = []
    for cards, count in zip(num_cards, num_buckets, strict=True):
        boards = len(canonical_boards(max(cards, 1))[cards].cards)
        table = generator.integers(count, size=(boards, NUM_HANDS)).astype(np.uint16)
        for board, permutations in board_symmetries(cards):
            table[board] = table[board, HAND_IMAGES[permutations]].min(axis=0)
        tables.append(table)
    return BucketTables(
        tables=tuple(map(jnp.asarray, tables)),
        finder=board_finder(max(num_cards[-1], 1)),
        num_cards=num_cards,
        strength_cards=num_cards[-1],
        num_buckets=num_buckets,
        perfect_recall=False,
    )


@functools.cache
def game_of(poker, num_buckets):
    return bucket_game.BucketGame(betting_rounds(betting_of_rules(poker)), num_buckets)


@pytest.mark.parametrize(
    ("poker", "buckets", "entries", "states"),
    [
        (TWO_STREETS, (5, 25), [[1], [7]], 1_790),
        pytest.param(
            limit_holdem(),
            (169, 1000, 500, 200),
            [[1], [7], [63], [567]],
            1_520_352,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_rounds_and_information_states(poker, buckets, entries, states):
    """Published: of [2-4] hold'em with five buckets and perfect recall (Johanson et al. 2012), and
    of limit hold'em with 169/1000/500/200 buckets (Heinrich and Silver 2015)."""
    game = game_of(poker, buckets)
    assert [[f.entries for f in families] for families in game.rounds.streets] == entries
    assert game.num_information_states == states


def states_by_node(game, tables):
    """Tables of the engine's first streets as those of the reference: by decision of the tree."""
    found = {}
    flat = [table for street in tables for table in street]
    families = [family for street, family, _ in game.shapes() if street < len(tables)]
    for family, table in zip(families, flat, strict=True):
        table = np.asarray(table)  # [N, C, B, E]
        whole = np.concatenate(list(table), axis=-1)  # [C, B, M]
        for j, first in enumerate(family.template.first_column):
            actions = len(family.template.actions[j])
            for m, node in enumerate(family.nodes[j]):
                found[node] = whole[first : first + actions, :, m].T
    return found


@pytest.fixture
def as_accelerators():
    with accelerator_branches():
        yield


@pytest.mark.parametrize("groups", [600, pytest.param(1176, marks=pytest.mark.slow)])
def test_iterations_of_accelerators_equal_those_hand_by_hand(groups, as_accelerators):
    check_iterations(groups)


@pytest.mark.slow
def test_iterations_in_chunks_equal_those_hand_by_hand(monkeypatch):
    """Of the seven rounds on a flop four at once, so that one is missing in the second chunk."""
    monkeypatch.setattr(bucket_game, "_CHUNK", 4)
    check_iterations(600)


@pytest.mark.parametrize("groups", [pytest.param(600, marks=pytest.mark.slow), 1176])
def test_iterations_equal_those_hand_by_hand(groups):
    check_iterations(groups)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [200, 1128])
@pytest.mark.parametrize(("stack", "families"), [(0, [1, 1, 1]), (40, [1, 3, 2])])
def test_iterations_of_three_streets_equal_those_hand_by_hand(groups, stack, families):
    """Also with players who may be all-in, so that rounds of a street have several shapes."""
    raises = (2, 2, 2) if stack else THREE_STREETS.max_raises
    poker = dataclasses.replace(THREE_STREETS, stack=stack, max_raises=raises)
    assert [len(street) for street in game_of(poker, (4, 6, 8)).rounds.streets] == families
    check_iterations(groups, poker, (4, 6, 8))


def check_iterations(groups, poker=TWO_STREETS, buckets=BUCKETS):
    """In float64; each hand a group of its own, and hands with equal buckets together."""
    with jax.enable_x64(True):
        game, tables = game_of(poker, buckets), random_tables(buckets, poker.board)
        tree, num_cards = game.rounds.tree, sum(poker.board)
        regret, average = (reference.new_tables(tree, buckets) for _ in range(2))
        state = board_sampled_cfr.init(game, dtype=jnp.float64)
        for number in range(2):
            board = random_board(jax.random.key(number), num_cards)
            deal, count = make_deal(tables, board, groups=groups, dtype=jnp.float64)
            assert int(count) <= groups
            state = board_sampled_cfr.iterate(state, deal, game=game)
            whole, _ = make_deal(tables, board, groups=math.comb(52 - num_cards, 2))
            cards = [np.asarray(x) for x in (whole.bucket, whole.cards, whole.strength)]
            reference.iterate(tree, regret, average, *cards, weight=number + 1)
        for mine, theirs in ((state.regret, regret), (state.average, average)):
            found = states_by_node(game, mine)
            assert found.keys() == theirs.keys()
            for node, table in theirs.items():
                np.testing.assert_allclose(found[node], table, rtol=1e-9, atol=1e-6)


def numbers():
    """Tables after two iterations on four deals each."""
    game, tables = game_of(TWO_STREETS, BUCKETS), random_tables(BUCKETS, (0, 3))
    state = board_sampled_cfr.init(game)
    mesh = data_mesh() if jax.device_count() > 1 else None
    for number in range(2):
        boards = [random_board(jax.random.key(4 * number + n), 3) for n in range(4)]
        deals = [make_deal(tables, board, groups=600)[0] for board in boards]
        many = jax.tree.map(lambda *x: jnp.stack(x), *deals)
        state = board_sampled_cfr.iterate_on_many(state, many, game=game, mesh=mesh)
    leaves = jax.tree.leaves((state.regret, state.average))
    return np.concatenate([np.asarray(x).ravel() for x in leaves])


@pytest.mark.parametrize("devices", [pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 4)])
def test_iterations_on_many_deals_sum_them(devices, tmp_path):
    """Four deals side by side, two on each of two devices, or one on each of four."""
    game, tables = game_of(TWO_STREETS, BUCKETS), random_tables(BUCKETS, (0, 3))
    tree = game.rounds.tree
    regret, average = (reference.new_tables(tree, BUCKETS) for _ in range(2))
    for number in range(2):
        before = {node: table.copy() for node, table in regret.items()}
        for n in range(4):
            deal, _ = make_deal(
                tables, random_board(jax.random.key(4 * number + n), 3), groups=1176
            )
            cards = [np.asarray(x) for x in (deal.bucket, deal.cards, deal.strength)]
            one = {node: table.copy() for node, table in before.items()}
            reference.iterate(tree, one, average, *cards, weight=number + 1)
            for node, table in one.items():
                regret[node] += table - before[node]
    there = other_devices.numbers(__name__, tmp_path, devices=devices)
    state = board_sampled_cfr.init(game)
    leaves, places = jax.tree.flatten((state.regret, state.average))
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]
    found = [x.reshape(leaf.shape) for x, leaf in zip(np.split(there, ends), leaves, strict=True)]
    for mine, theirs in zip(jax.tree.unflatten(places, found), (regret, average), strict=True):
        for node, table in states_by_node(game, mine).items():
            np.testing.assert_allclose(table, theirs[node], rtol=1e-4, atol=1e-4 * abs(table).max())


@pytest.mark.slow
def test_the_memory_of_an_iteration_is_estimated_from_above(as_accelerators):
    """Beside what the compiled program takes."""
    game, tables = game_of(TWO_STREETS, (169, 1000)), random_tables(BUCKETS, (0, 3))
    boards = jnp.stack([random_board(jax.random.key(n), 3) for n in range(4)])
    deals, _ = make_deals(tables, boards, groups=704)
    program = board_sampled_cfr.iterate_on_many.lower(
        board_sampled_cfr.init(game), deals, game=game
    )
    needed = program.compile().memory_analysis().temp_size_in_bytes
    estimate = game.iteration_bytes(groups=704, deals=4)
    assert needed < estimate < 3 * needed


def test_tables_that_are_too_large_are_refused():
    game = game_of(TWO_STREETS, (169, 20))
    with pytest.raises(ValueError, match=r"states take [\d,]+ bytes; max_bytes=1,000 are allowed"):
        board_sampled_cfr.init(game, max_bytes=1000)
    kept = sum(x.nbytes for x in jax.tree.leaves(board_sampled_cfr.init(game)))
    assert kept == game.table_bytes + 4  # and the number of iterations


def test_minimizers_with_other_policies_are_refused():
    game, tables = game_of(TWO_STREETS, BUCKETS), random_tables(BUCKETS, (0, 3))
    deal, _ = make_deal(tables, jnp.arange(3, dtype=jnp.int32), groups=1176)
    with pytest.raises(ValueError, match="must be one whose policies follow from regrets"):
        board_sampled_cfr.iterate(
            board_sampled_cfr.init(game),
            deal,
            game=game,
            minimizer=PredictiveRegretMatchingPlus(),
        )


@functools.cache
def random_policy(poker=TWO_STREETS, num_buckets=BUCKETS):
    """A policy of random regrets, and the same by decision of the tree."""
    game, generator = game_of(poker, num_buckets), np.random.default_rng(1)
    state = board_sampled_cfr.init(game)
    sums = jax.tree.map(lambda x: jnp.asarray(generator.random(x.shape), x.dtype), state.average)
    policy = board_sampled_cfr.average_policy(game, sums)
    return policy, states_by_node(game, policy)


@pytest.mark.parametrize("player", [0, 1])
def test_best_responses_on_a_flop_are_those_hand_by_hand(player):
    """At each of the seven rounds of a flop, summed over the hands of a class."""
    game, tables = game_of(TWO_STREETS, BUCKETS), random_tables(BUCKETS, (0, 3))
    policy, by_node = random_policy()
    flop = 1_234
    blueprint = Blueprint(policy=policy, buckets=tables, game=game)
    (found,) = best_response.flop_values(blueprint, np.array([flop]), player=player)
    board = jnp.asarray(canonical_boards(3)[3].cards[flop], jnp.int32)
    deal, _ = make_deal(tables, board, groups=1176)
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
    flops = np.array([7, 1_234])
    expected = best_response.flop_values(
        Blueprint(policy=policy, buckets=tables, game=game), flops, player=1
    )
    flop = policy[1][0]
    chunks = bucket_game.in_chunks(flop[0], jnp.zeros((2, *flop.shape[1:3], 4)))
    again = Blueprint(policy=(policy[0], (chunks,)), buckets=tables, game=game)
    found = best_response.flop_values(again, flops, player=1)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=0.1)


def test_iterations_of_cfr_br_equal_those_hand_by_hand():
    check_cfr_br()


@pytest.mark.slow
def test_iterations_of_cfr_br_on_accelerators_equal_those_hand_by_hand(as_accelerators):
    check_cfr_br()


@pytest.mark.slow
def test_iterations_of_cfr_br_in_chunks_equal_those_hand_by_hand(monkeypatch):
    monkeypatch.setattr(bucket_game, "_CHUNK", 4)
    check_cfr_br()


@pytest.mark.slow
@pytest.mark.parametrize("stack", [0, 40])
def test_iterations_of_cfr_br_on_three_streets_equal_those_hand_by_hand(stack):
    """Also with players who may be all-in before the last street."""
    raises = (2, 2, 2) if stack else THREE_STREETS.max_raises
    poker = dataclasses.replace(THREE_STREETS, stack=stack, max_raises=raises)
    check_cfr_br(poker, (5, 6, 7))


@pytest.mark.slow
def test_iterations_of_cfr_br_with_another_minimizer_equal_those_hand_by_hand():
    """Without discounts: weights of iterations are those of averages alone."""
    check_cfr_br(minimizer=RegretMatching(), regret_weight=lambda number: 1)


def check_cfr_br(
    poker=TWO_STREETS,
    buckets=(5, 6),
    minimizer=board_sampled_cfr.LINEAR,
    regret_weight=lambda number: number,
):
    """In float64, and from large random regrets: all actions are taken, so that no two of them are
    equally good."""
    with jax.enable_x64(True):
        game, tables = game_of(poker, buckets), random_tables(buckets, poker.board)
        tree, generator = game.rounds.tree, np.random.default_rng(0)
        start = cfr_br.init_cfr_br(game, dtype=jnp.float64)
        assert sum(x.nbytes for x in jax.tree.leaves(start.trunk)) == 2 * cfr_br.trunk_bytes(game)
        filled = lambda x: jnp.asarray(1e8 * generator.random(x.shape))  # noqa: E731
        blueprint = start.blueprint.replace(regret=jax.tree.map(filled, start.blueprint.regret))
        state = cfr_br.CfrBrState(blueprint=blueprint, trunk=jax.tree.map(filled, start.trunk))
        regret, trunk = (
            {node: np.array(table) for node, table in states_by_node(game, given).items()}
            for given in (state.blueprint.regret, state.trunk)
        )
        average = reference.new_tables(tree, buckets)
        for number in range(1, 3):
            board = random_board(jax.random.key(number), sum(poker.board))
            hands = math.comb(52 - len(board), 2)
            deal, _ = make_deal(tables, board, groups=hands, dtype=jnp.float64)
            state = cfr_br.iterate(state, deal, game=game, minimizer=minimizer)
            bucket, cards, strength = (
                np.asarray(x) for x in (deal.bucket, deal.cards, deal.strength)
            )
            reference.iterate_cfr_br(
                tree,
                regret,
                average,
                trunk,
                bucket,
                np.stack([class_numbers()[hand_numbers(cards)], *bucket[1:]]),
                cards,
                strength,
                weight=number,
                regret_weight=regret_weight(number),
            )
        for mine, theirs in (
            (state.blueprint.regret, regret),
            (state.blueprint.average, average),
            (state.trunk, trunk),
        ):
            for node, table in states_by_node(game, mine).items():
                np.testing.assert_allclose(table, theirs[node], rtol=1e-12, atol=1e-4)


def test_cfr_br_refuses_what_it_is_not_for():
    game, tables = game_of(ONE_RAISE, (5, 6)), random_tables((5, 6), ONE_RAISE.board)
    board = jnp.arange(3, dtype=jnp.int32)
    grouped, _ = make_deal(tables, board, groups=600)
    with pytest.raises(ValueError, match="1176 hands in 600 groups; each hand must be a group"):
        cfr_br.iterate(cfr_br.init_cfr_br(game), grouped, game=game)
    deal, _ = make_deal(tables, board, groups=1176)
    with pytest.raises(ValueError, match="must be one whose policies follow from regrets"):
        cfr_br.iterate(
            cfr_br.init_cfr_br(game), deal, game=game, minimizer=PredictiveRegretMatchingPlus()
        )
    both = game.table_bytes + cfr_br.trunk_bytes(game)
    cfr_br.init_cfr_br(game, max_bytes=both)
    with pytest.raises(ValueError, match=r"states take [\d,]+ bytes; max_bytes="):
        cfr_br.init_cfr_br(game, max_bytes=both - 1)


def numbers_of_cfr_br():
    """Tables after an iteration on four boards at once."""
    game, tables = game_of(ONE_RAISE, (5, 6)), random_tables((5, 6), ONE_RAISE.board)
    deals, _ = make_deals(tables, four_boards(), groups=1_176)
    mesh = data_mesh() if jax.device_count() > 1 else None
    state = cfr_br.iterate_on_many(cfr_br.init_cfr_br(game), deals, game=game, mesh=mesh)
    assert int(state.blueprint.iteration) == 1
    return flat(state)


def four_boards():
    return jnp.stack([random_board(jax.random.key(number), 3) for number in range(4)])


def flat(state):
    leaves = jax.tree.leaves((state.blueprint.regret, state.blueprint.average, state.trunk))
    return np.concatenate([np.asarray(x).ravel() for x in leaves])


@pytest.mark.parametrize("devices", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 4))])
def test_many_boards_of_cfr_br_at_once_add_up(devices, tmp_path):
    """From tables of zeros, to what single iterations add from there."""
    found = (
        other_devices.numbers(__name__, tmp_path, devices=devices, name="numbers_of_cfr_br")
        if devices
        else numbers_of_cfr_br()
    )
    game, tables = game_of(ONE_RAISE, (5, 6)), random_tables((5, 6), ONE_RAISE.board)
    each = []
    for board in four_boards():
        deal, _ = make_deal(tables, board, groups=1_176)
        each.append(flat(cfr_br.iterate(cfr_br.init_cfr_br(game), deal, game=game)))
    np.testing.assert_allclose(found, sum(each), rtol=1e-4, atol=1e-5 * abs(sum(each)).max())


@pytest.mark.slow
def test_cfr_br_is_less_exploitable_than_cfr():
    """In the real game, with five buckets, on the five flops that both learn from."""
    buckets, flops = (5, 5), np.flatnonzero(num_deals(3) == 24)[::60][:5]
    game, tables = game_of(TWO_STREETS, buckets), random_tables(buckets, (0, 3))
    boards = jnp.asarray(canonical_boards(3)[3].cards[flops], jnp.int32)
    found = []
    for solver, start in (
        (board_sampled_cfr, board_sampled_cfr.init),
        (cfr_br, cfr_br.init_cfr_br),
    ):
        state = start(game)
        for number in range(60):
            deal, _ = make_deal(tables, boards[number % 5], groups=1176)
            state = solver.iterate(state, deal, game=game)
        tables_of = getattr(state, "blueprint", state).average
        blueprint = Blueprint(
            policy=board_sampled_cfr.average_policy(game, tables_of), buckets=tables, game=game
        )
        won = [
            best_response.best_response_value(
                blueprint,
                best_response.flop_values(blueprint, flops, player=player),
                num_deals(3)[flops],
                player=player,
            )
            for player in range(2)
        ]
        found.append(sum(won) / 2)
    by_cfr, by_cfr_br = found
    assert 0 < by_cfr_br < 0.9 * by_cfr


def test_the_numpy_version_of_the_benchmark_makes_the_same_iteration():
    """One iteration from random tables; later ones drift apart where regrets are near 0."""
    game, tables = game_of(TWO_STREETS, BUCKETS), random_tables(BUCKETS, (0, 3))
    deal, _ = make_deal(tables, random_board(jax.random.key(3), 3), groups=600)
    generator, state = np.random.default_rng(0), board_sampled_cfr.init(game)
    regret = [[generator.normal(size=table.shape[1:])] for (table,) in state.regret]  # [C, B, E]
    state = state.replace(regret=tuple((jnp.asarray(x[None], jnp.float32),) for (x,) in regret))
    theirs = [[x.swapaxes(0, 1).astype(np.float32)] for (x,) in regret]
    average = [[np.zeros_like(x)] for (x,) in theirs]
    numpy_board_sampled_cfr.iterate(
        game.rounds, theirs, average, numpy_board_sampled_cfr.prepare(deal), 1.0
    )
    state = board_sampled_cfr.iterate(state, deal, game=game)
    for mine, other in zip((state.regret, state.average), (theirs, average), strict=True):
        for (table,), (expected,) in zip(mine, other, strict=True):
            scale = np.abs(expected).max()
            found = np.asarray(table)[0].swapaxes(0, 1)
            np.testing.assert_allclose(found / scale, expected / scale, atol=2e-6)
