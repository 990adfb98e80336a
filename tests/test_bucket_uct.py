"""UCT and Smooth UCT in hold'em with buckets."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blueprint_cases import BUCKETS, TWO_STREETS, game_of, random_tables, states_by_node
from bucket_uct_reference import Reference
from holdem_reference import LEDUC

from jaxgames.core import CHANCE
from jaxgames.holdem import limit_holdem
from jaxgames.holdem.betting_graph import graph_of_tree
from jaxgames.holdem.betting_tree import NO_NODE
from jaxgames.holdem.card_abstraction import buckets_of_deal
from jaxgames.holdem.equity import hand_strengths
from jaxgames.holdem.ranges import hand_number
from jaxgames.holdem.small_poker import NO_STATE, build_small_poker
from solvers import evaluation
from solvers.blueprint import betting_walk, bucket_game, bucket_uct, enumerated_match
from solvers.blueprint.blueprint import Blueprint
from solvers.blueprint.dealt_hands import DealtHands, deal_hands, draw_cards
from solvers.sampling.episodes import uniform_numbers
from solvers.sampling.uct import Reading, smooth_uct, uct, upper_bounds
from solvers.sequence_form import build_sequence_form

LEDUC_BUCKETS = (3, 9)
SETTINGS = {"UCT": uct(12.0), "Smooth UCT": smooth_uct(12.0, decay=0.05)}
dealt = jax.jit(deal_hands, static_argnums=2, static_argnames="num_players")


def leduc_deals(_, key, num_deals, *, num_players=2):
    """Own rank before the board, and own rank and the board's after it."""
    noise = uniform_numbers(key, (3, num_deals))
    cards = []
    for number in range(3):
        card = (noise[number] * (6 - number)).astype(jnp.int32)
        for other in [jnp.minimum(*cards), jnp.maximum(*cards)] if number == 2 else cards:
            card = card + (card >= other).astype(jnp.int32)
        cards.append(card)
    ranks, board = jnp.stack(cards[:2]) // 2, cards[2] // 2
    strength = ranks + 3 * (ranks == board[None]).astype(jnp.int32)
    bucket = jnp.stack([ranks, 3 * ranks + board[None]])
    return DealtHands(bucket=bucket, strength=strength)


@functools.cache
def leduc(potential=None):
    game = game_of(LEDUC, LEDUC_BUCKETS)
    return game, betting_walk.betting_walk(game, potential=potential)


def by_state(game, rows):
    """Rows of the engine by decision of the tree and bucket."""
    found, row = {}, 0
    for node in np.flatnonzero(game.rounds.tree.actor >= 0):
        for bucket in range(game.num_buckets[game.rounds.tree.street[node]]):
            found[int(node), bucket] = np.asarray(rows[row])
            row += 1
    return found


def learned(walk, draw, source, *, settings, batch, episodes, key=0):
    return bucket_uct.run(
        walk,
        bucket_uct.init(walk),
        source,
        jax.random.key(key),
        settings=settings,
        batch=batch,
        num_batches=episodes // max(batch, 1),
        draw=draw,
    )


@pytest.mark.parametrize(
    ("name", "potential", "batch"),
    [
        ("UCT", 0.5, 1),
        pytest.param("UCT", 0.5, 7, marks=pytest.mark.slow),
        pytest.param("Smooth UCT", None, 1, marks=pytest.mark.slow),
        ("Smooth UCT", None, 7),
    ],
)
def test_episodes_are_those_of_the_paper(name, potential, batch):
    """The same table as from a plain loop with the same random numbers."""
    game, walk = leduc(potential)
    expected = Reference(game.rounds.tree, SETTINGS[name], potential=potential)

    @jax.jit
    def play(learner, number):
        """The learner after a batch, and all random numbers of it."""
        deal_key, key = jax.random.split(jax.random.key(number))
        deals = leduc_deals(None, deal_key, batch)
        shape = walk.max_decisions, batch
        noise = jnp.stack(
            [uniform_numbers(k, shape) for k in jax.random.split(jax.random.clone(key))]
        )
        after = bucket_uct.play_batch(walk, learner, deals, key, settings=SETTINGS[name])
        winner = jnp.sign(deals.strength[0] - deals.strength[1])
        return after, (deals.bucket, winner, noise)

    learner = bucket_uct.init(walk)
    for number in range(400 // batch):
        learner, drawn = play(learner, number)
        expected.play_batch(*map(np.asarray, drawn))
    visits = by_state(game, bucket_uct.visits(learner))
    means = by_state(game, bucket_uct._mean(learner.table) / walk.parts)
    assert len(expected.visits) > 80
    for state, found in visits.items():
        np.testing.assert_array_equal(found, expected.visits[state], err_msg=str(state))
        mean = expected.sums[state] / np.maximum(expected.visits[state], 1)
        np.testing.assert_allclose(means[state], mean, rtol=1e-6)


def test_bounds_are_those_of_small_games():
    """Action by action as `solvers.sampling.uct` has them row by row."""
    generator = np.random.default_rng(0)
    legal = np.arange(3)[:, None] < generator.integers(2, 4, 200)
    visits = jnp.asarray(np.where(legal, generator.integers(0, 4, (3, 200)), 0), jnp.int32)
    means, noise = (jnp.asarray(generator.random(x), jnp.float32) for x in ((3, 200), 200))
    bounds = functools.partial(upper_bounds, exploration=3.0)
    expected = jax.vmap(bounds, 1, 1)(visits, means, jnp.asarray(legal))
    found = bucket_uct.tree_weights(
        list(visits),
        list(means),
        list(jnp.asarray(legal)),
        jnp.full(200, 3.0),
        noise,
        settings=uct(3.0),
    )
    np.testing.assert_array_equal(jnp.stack(found), expected)


def limits_met(walk, num_deals):
    """All limits of exploration constants where all players act at random."""

    def choose(carry, spot, noise):
        action = betting_walk.picked([x.astype(jnp.float32) for x in spot.legal], noise[0])
        limit = jnp.where(spot.state < walk.num_states, spot.exploration_limit, jnp.nan)
        return carry, action, limit

    nothing = jnp.zeros((walk.num_players, num_deals), jnp.int32)
    deals = DealtHands(bucket=jnp.stack([nothing] * 4), strength=nothing)
    _, limits = betting_walk.walk_down(walk, deals, jax.random.key(0), choose, (), width=1)
    return np.unique(limits[~np.isnan(limits)])


@pytest.mark.slow
def test_exploration_constants_of_limit_holdem():
    """Published: from 10 to 24 big blinds, where C is 24 (Heinrich and Silver 2015, section 4.2).
    Two streets of ten chips a bet, by hand: 15 of at most 160 chips before the flop; 20 to 80 and
    half of 80 on it."""
    game = game_of(TWO_STREETS, BUCKETS)
    found = limits_met(betting_walk.betting_walk(game), 1000)
    np.testing.assert_array_equal(found, [60, 80, 87.5, 100, 120])
    assert limits_met(betting_walk.betting_walk(game, potential=None), 10) == np.inf


@pytest.mark.slow
def test_states_and_constants_of_limit_holdem():
    """Published: 1,520,352 information states, and constants from 10 to 24 big blinds."""
    game = game_of(limit_holdem(), (169, 1000, 500, 200))
    walk = betting_walk.betting_walk(game)
    assert walk.num_states == game.num_information_states == 1_520_352
    found = np.minimum(limits_met(walk, 10_000) / 10, 24)
    assert (found.min(), found.max()) == (10, 24)


def test_sums_are_carried_without_loss():
    """Long runs carry low words to high ones: winnings stay what they are."""
    _, walk = leduc()
    learner = learned(walk, leduc_deals, None, settings=SETTINGS["UCT"], batch=16, episodes=160)
    table = learner.table.at[..., 1].add(70_000).at[..., 2].add(-3)
    due = learner.replace(table=table, uncarried=jnp.int32((2**31 - 2**17) // walk.max_chips))
    sums = [sum_of(due.table)]
    run = functools.partial(bucket_uct.run, settings=SETTINGS["UCT"], batch=16, draw=leduc_deals)
    fresh = jax.tree.map(jnp.copy, due.replace(uncarried=jnp.int32(0)))
    kept = run(walk, fresh, None, jax.random.key(0), num_batches=1)
    carried = run(walk, due, None, jax.random.key(0), num_batches=1)
    assert int(carried.uncarried) == 16
    np.testing.assert_array_equal(sum_of(carried.table), sum_of(kept.table))
    assert (sum_of(carried.table) != sums[0]).any()
    low = np.asarray(carried.table[..., 1])
    assert low.min() >= -16 * walk.max_chips
    assert low.max() < 2**16 + 16 * walk.max_chips


def sum_of(table):
    table = np.asarray(table, np.int64)
    return table[..., 1] + 2**16 * table[..., 2]


def leduc_policy(game, walk, rows):
    """A policy of the engine as one of the explicit tree."""
    small = build_small_poker(game.rounds.tree, ranks=3, suits=2)
    policies = [small.tree.legal_actions(p).astype(np.float32) for p in range(2)]
    table = by_state(game, rows)
    for node, own, board in np.argwhere(small.states != NO_STATE):
        street = game.rounds.tree.street[node]
        row = table[int(node), own if street == 0 else 3 * own + board]
        mine = policies[game.rounds.tree.actor[node]]
        mine[small.states[node, own, board]] = row[: mine.shape[1]]
    return build_sequence_form(small.tree), tuple(map(jnp.asarray, policies))


def nash_conv(batch, episodes, key=0):
    game, walk = leduc()
    settings = smooth_uct(18.0, decay=0.002)
    learner = learned(
        walk, leduc_deals, None, settings=settings, batch=batch, episodes=episodes, key=key
    )
    return float(
        evaluation.nash_conv(*leduc_policy(game, walk, bucket_uct.average_policy(walk, learner)))
    )


@pytest.mark.slow
def test_batches_learn_as_single_episodes_do():
    """NashConv of Smooth UCT in Leduc after 65,536 episodes."""
    found = [nash_conv(batch, 2**16) for batch in (1, 64)]
    assert min(found) > 0.5
    assert max(found) < 1.6  # uniform play: 4.7
    assert abs(found[0] - found[1]) < 0.3


@pytest.mark.slow(minutes=3)
def test_batches_learn_as_single_episodes_do_for_longer():
    """After a million episodes 256 a batch are as good as single ones. Of 4,096 each of Leduc's
    three first states gets over a thousand at once, and they take more episodes."""
    single, some, many = (
        np.mean([nash_conv(batch, 2**20, key) for key in range(3)]) for batch in (1, 256, 4096)
    )
    assert max(single, some) < 0.4
    assert abs(single - some) < 0.08
    assert 0.45 < many < 0.9
    assert nash_conv(4096, 2**22) < 0.4


def test_read_outs():
    """Average and greedy policies: of what was tried, the first if two are as good, and uniform
    where nothing was."""
    _, walk = leduc()
    words = np.zeros((walk.num_states + 1, walk.num_actions, 3), np.int32)
    words[0] = [[3, -9, 0], [1, 5, -1], [0, 0, 0]][: walk.num_actions]
    words[1] = [[1, 4, 0], [3, 12, 0], [0, 0, 0]][: walk.num_actions]
    words[-1] = 1  # where episodes add what does not count
    learner = bucket_uct.init(walk).replace(table=jnp.asarray(words))
    average = np.asarray(bucket_uct.average_policy(walk, learner))
    greedy = np.asarray(bucket_uct.greedy_policy(walk, learner))
    np.testing.assert_allclose(average[:2, :2], [[0.75, 0.25], [0.25, 0.75]])
    np.testing.assert_array_equal(greedy[:2, :2], [[1, 0]] * 2)  # -3 rather than 5 - 65536
    for policy in (average, greedy):
        np.testing.assert_allclose(policy[:-1].sum(axis=1), 1, rtol=1e-6)
        np.testing.assert_array_equal(policy[2:-1], walk.uniform[2:-1])
        assert not policy[-1].any()


def test_policies_are_read_where_they_are_played():
    """The same hands as with tables of all states; a player at each node has none."""
    game, walk = leduc()
    learner = learned(walk, leduc_deals, None, settings=SETTINGS["UCT"], batch=8, episodes=800)
    assert 0 < bucket_uct.share_visited(learner) < 1
    visited = np.asarray(bucket_uct.visits(learner))[:-1].any(axis=1)
    np.testing.assert_allclose(bucket_uct.share_visited(learner), visited.mean(), rtol=1e-6)
    deals = leduc_deals(None, jax.random.key(1), 2000)
    play, seats = jax.jit(betting_walk.play), jnp.array([0, 1])
    tree = game.rounds.tree
    raiser = np.where(tree.child != NO_NODE, np.arange(tree.child.shape[1]) + 1.0, 0)
    by_node = betting_walk.policy_by_node(graph_of_tree(tree), raiser[tree.actor != CHANCE])
    tables = [bucket_uct.average_policy(walk, learner), bucket_uct.greedy_policy(walk, learner)]
    read = [bucket_uct.average(learner), bucket_uct.greedy(learner)]
    all_states = betting_walk.in_all_buckets(game, raiser).astype(np.float32)
    for one, other in ((tables, read), ([tables[1], all_states], [read[1], by_node])):
        expected, found = (
            play(walk, policies, deals, jax.random.key(2), seats=seats) for policies in (one, other)
        )
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])
        assert np.std(found[0]) > 1


def random_rows(walk, seed):
    rows = np.random.default_rng(seed).random(walk.uniform.shape) * (np.asarray(walk.uniform) > 0)
    return jnp.asarray(rows / np.maximum(rows.sum(axis=1, keepdims=True), 1e-9), jnp.float32)


@pytest.mark.slow
def test_policies_in_the_layout_of_blueprints(monkeypatch):
    """Of seven rounds on the flop four at once, so that one is missing in the second chunk."""
    monkeypatch.setattr(bucket_game, "_CHUNK", 4)
    game = game_of(TWO_STREETS, BUCKETS)
    walk = betting_walk.betting_walk(game)
    rows = random_rows(walk, 0)
    tables = betting_walk.policy_tables(game, rows)
    flat = [table.shape for street in tables for table in street]
    assert flat == [shape for _, _, shape in game.shapes()]
    assert not tables[1][0][1, ..., 3:].any()  # the round that does not exist
    np.testing.assert_array_equal(betting_walk.state_rows(game, tables), rows)
    found, expected = states_by_node(game, tables), by_state(game, rows)
    for (node, bucket), row in expected.items():
        actions = int((game.rounds.tree.child[node] != NO_NODE).sum())
        np.testing.assert_array_equal(found[node][bucket], row[:actions])


@pytest.mark.slow
def test_what_is_won_is_what_all_hands_win():
    """Hands that are drawn on random boards, against all pairs of hands on them."""
    game, tables = game_of(TWO_STREETS, BUCKETS), random_tables(BUCKETS, (0, 3))
    walk = betting_walk.betting_walk(game)
    rows = [random_rows(walk, seed) for seed in range(2)]
    first, second = (
        Blueprint(policy=betting_walk.policy_tables(game, each), buckets=tables, game=game)
        for each in rows
    )
    boards = jnp.stack([jax.random.permutation(jax.random.key(n), 52)[:3] for n in range(100)])
    exact = np.asarray(enumerated_match.winnings(first, second, boards.astype(jnp.int32)))
    deals = dealt(tables, jax.random.key(1), 200_000, num_players=2)
    for seat, seats in enumerate(([0, 1], [1, 0])):
        won, decisions = jax.jit(betting_walk.play)(
            walk, rows, deals, jax.random.key(2), seats=jnp.array(seats)
        )
        won = np.asarray(won)[seat]
        spread = won.std() / np.sqrt(len(won)) + exact[:, seat].std() / 10
        assert won.mean() == pytest.approx(exact[:, seat].mean(), abs=3.5 * spread)
        assert spread < 0.25
        assert decisions.min() >= 1
        assert decisions.max() <= walk.max_decisions


def test_cards_are_different_and_equally_likely():
    noise = uniform_numbers(jax.random.key(0), (7, 50_000))
    cards = np.asarray(jax.jit(draw_cards)(noise))
    ordered = np.sort(cards, axis=0)
    assert (ordered[1:] > ordered[:-1]).all()
    for row in cards:
        counts = np.bincount(row, minlength=52)
        assert len(counts) == 52
        assert ((counts - 50_000 / 52) ** 2).sum() / (50_000 / 52) < 100  # chi^2, 51 degrees


@pytest.mark.slow
@pytest.mark.parametrize("players", [2, 3])
def test_deals_are_those_of_single_hands(players):
    """The buckets of all players' hands among those of all hands, and who is stronger."""
    tables, key, num_hole = random_tables(BUCKETS, (0, 3)), jax.random.key(4), 2 * players
    deals = dealt(tables, key, 20, num_players=players)
    cards = np.asarray(draw_cards(uniform_numbers(jax.random.clone(key), (num_hole + 3, 20))))
    found = jax.jit(lambda board: (buckets_of_deal(tables, board), hand_strengths(board)))
    for number in range(20):
        hole, board = cards[:num_hole, number].reshape(-1, 2), cards[num_hole:, number]
        hands = np.array([hand_number(*sorted(pair.tolist())) for pair in hole])
        buckets, strength = found(jnp.asarray(board))
        np.testing.assert_array_equal(deals.bucket[..., number], buckets[:, hands])
        order = np.sign(np.subtract.outer(*[np.asarray(strength)[hands]] * 2))
        own = np.asarray(deals.strength)[:, number]
        np.testing.assert_array_equal(np.sign(np.subtract.outer(own, own)), order)


def test_a_run_in_parts_is_the_run():
    _, walk = leduc()
    run = functools.partial(
        bucket_uct.run, walk, settings=SETTINGS["Smooth UCT"], batch=8, draw=leduc_deals
    )
    whole = run(bucket_uct.init(walk), None, jax.random.key(0), num_batches=30)
    part = run(bucket_uct.init(walk), None, jax.random.key(0), num_batches=11)
    part = run(part, None, jax.random.key(0), num_batches=19)
    np.testing.assert_array_equal(whole.table, part.table)
    assert int(whole.batches) == int(part.batches) == 30


def test_what_is_refused(monkeypatch):
    _, walk = leduc()
    with monkeypatch.context() as patch:
        patch.setattr(bucket_uct, "device_bytes", lambda: walk.table_bytes - 1)
        with pytest.raises(ValueError, match=f"max_bytes={walk.table_bytes - 1:,} are allowed"):
            bucket_uct.init(walk)
    with pytest.raises(ValueError, match=r"takes [\d,]+ bytes; max_bytes=1,000 are allowed"):
        bucket_uct.init(walk, max_bytes=1000)
    with pytest.raises(ValueError, match="batch=0 must be from 1 to"):
        learned(walk, leduc_deals, None, settings=SETTINGS["UCT"], batch=0, episodes=0)
    other = dataclasses.replace(SETTINGS["UCT"], reading=Reading(ties="first"))
    with pytest.raises(ValueError, match=r"ties='first'.* must be Reading\(.*the only one"):
        learned(walk, leduc_deals, None, settings=other, batch=1, episodes=0)
