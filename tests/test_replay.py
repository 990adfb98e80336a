"""Policies in the replay buffer: of who acts only, in bfloat16, in rings of their own."""

import collections
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from replay_cases import sample
from uneven_game import NUM_ACTIONS, NUM_ROWS, uneven_game

from jaxgames.beliefs import belief_table
from jaxgames.registry import make
from jaxgames.scotland_yard import scotland_yard_beliefs
from train import replay as buffers
from train.examples import blank_example, make_example
from train.learner import LearnerSettings, new_buffer
from train.losses import loss
from train.paper_settings import PAPER_LEARNER

ROUNDING = 2**-8  # of bfloat16, relative
CAPACITY = 7


@functools.cache
def table_of(name):
    return belief_table(uneven_game().tree if name == "uneven" else make(name))


def examples(name, seed, *, count=None, states=None):
    """Examples at random decisions of a game, or at given ones, with random targets that no other
    example has; fields `[count, ...]`."""
    table, random = table_of(name), np.random.default_rng(seed)
    if states is None:
        states = random.choice(np.flatnonzero(np.asarray(table.actors) >= 0), count)
    drawn = lambda *shape: random.random((len(states), *shape), np.float32)  # noqa: E731
    reach, values = (tuple(drawn(rows) for rows in table.num_rows) for _ in range(2))
    policy = tuple(map(drawn, table.num_actions, table.num_rows))
    return made(table, np.asarray(states, np.int32), reach, values, policy)


made = jax.jit(jax.vmap(make_example, in_axes=(None, 0, 0, 0, 0)))
add, examples_at = jax.jit(buffers.add), jax.jit(buffers.examples_at)


def buffer_of(example, capacity=CAPACITY, **options):
    return buffers.new_replay(
        jax.tree.map(lambda x: np.asarray(x)[0], example), capacity, **options
    )


def all_of(batch):
    return jnp.ones(len(batch.features), bool)


def nbytes(arrays):
    return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(arrays))


def test_bytes_of_policies_in_london():
    """10.7 KB of Mr X and 28 bytes of a detective; nothing else has actions and rows."""
    rules, settings = make("scotland_yard(map=london)"), PAPER_LEARNER["scotland_yard"]
    starts = rules.detective_starts[: rules.detectives]
    london = scotland_yard_beliefs(rules, detective_starts=starts)
    replay = jax.eval_shape(lambda: new_buffer(blank_example(london), settings))
    mr_x, detective = (nbytes(ring) / len(ring) for ring in replay.policies)
    assert (mr_x, detective) == (10_746, 28)
    assert [len(ring) for ring in replay.policies] == [250_000, 1_000_000]
    rest = nbytes(replay.examples) / settings.capacity
    assert rest == 4 * london.encode(london.root()).size + 13 * 200 + 12
    kept = nbytes(replay) - nbytes(replay.examples) - 250_000 * 10_746 - 1_000_000 * 28
    assert kept < 13 * settings.capacity + 100  # uses, place, and the slots of policies


def test_players_with_policies_of_one_shape_share_a_ring():
    replay = buffer_of(examples("leduc_poker", 0, count=1))
    (ring,) = replay.policies
    assert ring.shape == (CAPACITY, 3, 6)
    assert ring.dtype == jnp.uint16  # the bits of bfloat16


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", ["uneven", "leduc_poker"])
def test_examples_return_as_they_were_up_to_rounding(name, dtype):
    batch = examples(name, 0, count=20)
    assert set(batch.actor.tolist()) == {0, 1}
    replay = add(buffer_of(batch, 20, policy_dtype=dtype), batch, all_of(batch))
    found = examples_at(replay, jnp.arange(20))
    rounding = ROUNDING if dtype == "bfloat16" else 0
    chex.assert_trees_all_close(found.policy, batch.policy, rtol=rounding, atol=0)
    chex.assert_trees_all_equal(found.replace(policy=batch.policy), batch)
    chex.assert_trees_all_equal_dtypes(found, batch)  # so losses are float32
    exact = all(map(np.array_equal, found.policy, batch.policy))
    assert exact == (dtype == "float32")


@pytest.mark.parametrize("name", ["uneven", "leduc_poker"])
def test_draws_have_the_policy_of_who_acts(name):
    """Each example's own, though both players' lie in other orders than the examples."""
    batch = examples(name, 1, count=16)
    batch = batch.replace(features=jnp.arange(16.0)[:, None])
    replay = add(buffer_of(batch, 16), batch, all_of(batch))
    draw = jax.jit(functools.partial(sample, batch_size=12, max_uses=9))
    _, drawn, weights = draw(replay, jax.random.key(0))
    number = np.asarray(drawn.features)[:, 0].astype(int)
    assert weights.all()
    assert set(np.asarray(batch.actor)[number]) == {0, 1}
    expected = jax.tree.map(lambda x: x[number], batch)
    chex.assert_trees_all_equal((drawn.actor, drawn.legal), (expected.actor, expected.legal))
    chex.assert_trees_all_close(drawn.policy, expected.policy, rtol=ROUNDING, atol=0)
    for player in range(2):
        idle = np.asarray(drawn.actor) != player
        assert not drawn.policy[player][idle].any()
        assert not drawn.legal[player][idle].any()


@pytest.mark.parametrize("name", ["uneven", pytest.param("leduc_poker", marks=pytest.mark.slow)])
@pytest.mark.parametrize("shares", [(1.0, 1.0), (3 / 7, 1.0), (1.0, 2 / 7), (2 / 7, 3 / 7)])
def test_the_latest_policies_of_either_player_stay(name, shares):
    """Batches of up to more than a ring, against lists of what was added."""
    random = np.random.default_rng(2)
    places = [round(share * CAPACITY) for share in shares]
    shared = name == "leduc_poker"
    latest = collections.deque(maxlen=CAPACITY)  # examples
    rings = [collections.deque(maxlen=min(CAPACITY, sum(places)) if shared else n) for n in places]
    replay, lost = None, 0
    for turn in range(24):
        batch = examples(name, turn, count=10)
        replay = buffer_of(batch, policy_shares=shares) if replay is None else replay
        mask = random.random(10) < (0.9 if turn % 6 == 5 else 0.25)
        replay = add(replay, batch, jnp.asarray(mask))
        batch = jax.tree.map(np.asarray, batch)
        added = [(10 * turn + i, jax.tree.map(lambda x, i=i: x[i], batch)) for i in range(10)]
        added = [added[i] for i in np.flatnonzero(mask)]
        latest.extend(added)
        for number, example in added[-CAPACITY:]:
            rings[0 if shared else int(example.actor)].append(number)
        start = int(replay.next) if len(latest) == CAPACITY else 0
        order = (start + jnp.arange(CAPACITY)) % CAPACITY
        found = jax.tree.map(np.asarray, examples_at(replay, order))
        for i, (number, example) in enumerate(latest):
            here = jax.tree.map(lambda x, i=i: x[i], found)
            assert here.value_weight == 1
            chex.assert_trees_all_equal((here.reach, here.values), (example.reach, example.values))
            kept = number in rings[0 if shared else int(example.actor)]
            lost += not kept
            assert bool(here.policy_weight) == kept
            if kept:
                chex.assert_trees_all_equal(here.legal, example.legal)
                chex.assert_trees_all_close(here.policy, example.policy, rtol=ROUNDING, atol=0)
    assert (lost == 0) == (shares == (1.0, 1.0) or (shared and sum(places) >= CAPACITY))


def network(batch):
    """Random values and logits, whatever the beliefs."""
    random = np.random.default_rng(4)
    drawn = lambda x: jnp.asarray(random.standard_normal(x.shape), jnp.float32)  # noqa: E731
    prediction = jax.tree.map(drawn, (batch.values, batch.policy))
    return lambda features, ranges: prediction


@jax.jit
def losses(batch):
    return loss(network(batch), batch, 1.0, 1.0)


def test_policies_that_are_lost_teach_nothing_and_values_still_do():
    """The loss is that of the examples that are left, with the values of all."""
    table = table_of("uneven")
    states = np.flatnonzero(np.asarray(table.actors) == 0)[:4]
    batch = examples("uneven", 3, states=states)
    replay = add(buffer_of(batch, 4, policy_shares=(0.5, 1.0)), batch, all_of(batch))
    found = examples_at(replay, jnp.arange(4))
    assert found.policy_weight.tolist() == [0, 0, 1, 1]
    total, parts = losses(found)
    _, expected = losses(batch.replace(policy_weight=jnp.array([0.0, 0.0, 1.0, 1.0])))
    np.testing.assert_array_equal(parts["values"], expected["values"])
    np.testing.assert_allclose(parts["policy"], expected["policy"], rtol=0.02)
    assert total.dtype == jnp.float32


def test_targets_that_are_not_finite_stay_visible():
    batch = examples("uneven", 5, count=6)
    bad = batch.replace(policy=jax.tree.map(lambda x: x * jnp.nan, batch.policy))
    replay = add(buffer_of(batch), bad, all_of(bad))
    found = examples_at(replay, jnp.arange(6))
    chex.assert_trees_all_equal(found.legal, batch.legal)
    assert jnp.isnan(losses(found)[1]["policy"])


def test_the_uneven_game_is_uneven():
    """Otherwise these tests would not see two rings."""
    batch = examples("uneven", 0, count=1)
    assert (NUM_ROWS, NUM_ACTIONS) == ((2, 1), (3, 2))
    assert [ring.shape for ring in buffer_of(batch).policies] == [(7, 3, 2), (7, 2, 1)]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"policy_dtype": "int8"}, r"unknown policy_dtype 'int8' \(known: bfloat16, float16, "),
        ({"policy_shares": (0.0, 1.0)}, r"policy_shares=.*must be two numbers over 0 and up to 1"),
    ],
)
def test_bad_settings(setting, message):
    with pytest.raises(ValueError, match=message):
        LearnerSettings(**setting)
