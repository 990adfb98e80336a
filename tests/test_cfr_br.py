"""CFR-BR with buckets."""

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
    ONE_RAISE,
    THREE_STREETS,
    TWO_RAISES,
    TWO_STREETS,
    game_of,
    random_tables,
    states_by_node,
)

from jaxgames.holdem.canonical_boards import canonical_boards, num_deals
from jaxgames.holdem.ranges import class_numbers, hand_numbers
from solvers.blueprint import best_response, board_sampled_cfr, bucket_game, cfr_br
from solvers.blueprint.blueprint import Blueprint
from solvers.blueprint.deals import make_deal, make_deals, random_board
from solvers.regret import PredictiveRegretMatchingPlus, RegretMatching
from train.data_sharding import data_mesh


@pytest.fixture
def as_accelerators():
    with accelerator_branches():
        yield


@pytest.mark.parametrize(
    "poker", [TWO_RAISES, pytest.param(TWO_STREETS, marks=pytest.mark.slow)], ids=["small", "whole"]
)
def test_iterations_of_cfr_br_equal_those_hand_by_hand(poker):
    check_cfr_br(poker)


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


@pytest.mark.slow
@pytest.mark.parametrize("devices", [0, 2, 4])
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
