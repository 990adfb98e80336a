"""Board-sampled CFR with buckets."""

import dataclasses
import math

import blueprint_reference as reference
import jax
import jax.numpy as jnp
import numpy as np
import other_devices
import pytest
from accelerator_branches import accelerator_branches
from blueprint_cases import (
    BUCKETS,
    THREE_STREETS,
    TWO_RAISES,
    TWO_STREETS,
    game_of,
    random_tables,
    states_by_node,
)

from experiments.benchmarks import numpy_board_sampled_cfr
from jaxgames.holdem import limit_holdem
from solvers.blueprint import board_sampled_cfr, bucket_game
from solvers.blueprint.deals import make_deal, make_deals, random_board
from solvers.regret import PredictiveRegretMatchingPlus
from train.data_sharding import data_mesh


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


@pytest.fixture
def as_accelerators():
    with accelerator_branches():
        yield


@pytest.mark.slow
@pytest.mark.parametrize("groups", [600, 1176])
def test_iterations_of_accelerators_equal_those_hand_by_hand(groups, as_accelerators):
    check_iterations(groups)


@pytest.mark.slow
def test_iterations_in_chunks_equal_those_hand_by_hand(monkeypatch):
    """Of the seven rounds on a flop four at once, so that one is missing in the second chunk."""
    monkeypatch.setattr(bucket_game, "_CHUNK", 4)
    check_iterations(600)


@pytest.mark.parametrize(
    ("groups", "poker"),
    [
        (1176, TWO_RAISES),
        *(pytest.param(n, TWO_STREETS, marks=pytest.mark.slow) for n in (600, 1176)),
    ],
)
def test_iterations_equal_those_hand_by_hand(groups, poker):
    check_iterations(groups, poker)


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
            hands = math.comb(52 - num_cards, 2)
            whole, _ = make_deal(tables, board, groups=hands, dtype=jnp.float64)
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


@pytest.mark.slow
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
