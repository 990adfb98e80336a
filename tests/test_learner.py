"""Training of value-and-policy networks: replay buffer, loss and updates."""

import collections
import dataclasses
import functools
import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from flax import nnx
from replay_cases import sample

from jaxgames.arrays import masked_log_softmax, masked_softmax
from jaxgames.beliefs import belief_table
from jaxgames.registry import make
from nets import cvpn
from train import learner as learning
from train import replay as buffers
from train.examples import Example, make_example
from train.learner import LearnerSettings
from train.losses import loss
from train.paper_settings import PAPER_LEARNER

FIELDS = [field.name for field in dataclasses.fields(Example)]
SETTINGS = LearnerSettings(
    learning_rate=3e-3,
    decay_rate=0.5,
    decay_steps=100,
    batch_size=16,
    capacity=16,
    policy_weight=1.0,
)


@functools.cache
def table():
    return belief_table(make("leduc_poker"))


@jax.jit
@jax.vmap
def example_at(*arguments):
    return make_example(table(), *arguments)


def states_of_examples():
    return np.flatnonzero(np.asarray(table().actors) >= 0)[:16]


def with_own(pair, player, new):
    """A pair in which what `player` has is new."""
    return tuple(new if p == player else old for p, old in enumerate(pair))


@functools.cache
def leduc_examples():
    """16 decisions with random beliefs and random targets, fields [16, ...]."""
    states = states_of_examples()
    random, sizes = np.random.default_rng(1), [(16, rows) for rows in table().num_rows]
    reach, values = ([random.random(size, np.float32) for size in sizes] for _ in range(2))
    policy = []
    for legal in jax.tree.map(lambda x: np.asarray(x)[states], table().legal_actions):
        weights = np.where(legal, random.exponential(size=legal.shape) ** 2, 0)
        policy.append(weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-9))
    reach, values, policy = (
        tuple(jnp.asarray(own, jnp.float32) for own in pair) for pair in (reach, values, policy)
    )
    made = example_at(states, reach, values, policy)
    # of payoffs up to 0.1 per unit
    return made.replace(
        values=jax.tree.map(lambda x, mass: (x / 5 - 0.1) * mass, values, made.mass)
    )


@functools.cache
def network():
    return nnx.split(cvpn.new_cvpn(table(), seed=0, width=64, depth=2))


@functools.partial(jax.jit, static_argnums=(0, 3))
def update(graph, learner, batch, settings):
    return learning.update(graph, learner, batch, settings)


# Replay


def numbered(numbers):
    """Examples that differ in their only feature."""
    numbers = jnp.asarray(numbers, jnp.float32)
    fields = {name: jnp.ones(numbers.shape, jnp.float32) for name in FIELDS}
    both = {"legal": (numbers >= 0,) * 2, "policy": (fields["policy"],) * 2}
    return Example(**fields | both | {"features": numbers})


def filled(capacity, count):
    empty = buffers.new_replay(numbered(0), capacity)
    return buffers.add(empty, numbered(np.arange(count)), jnp.ones(count, bool))


def contents(replay):
    """Numbers in the buffer, oldest first."""
    size, begin = int(replay.size), int(replay.next)
    order = np.arange(size) if size < len(replay.uses) else np.arange(begin, begin + size)
    return np.asarray(replay.examples.features)[order % len(replay.uses)].tolist()


@pytest.mark.parametrize("capacity", [3, 7, 20])
def test_the_latest_examples_stay_in_order(capacity):
    random, latest = np.random.default_rng(0), collections.deque(maxlen=capacity)
    replay, add = buffers.new_replay(numbered(0), capacity), jax.jit(buffers.add)
    for begin in range(0, 60, 5):
        mask = random.random(5) < 0.6
        batch = np.arange(begin, begin + 5)
        latest.extend(batch[mask].tolist())
        replay = add(replay, numbered(batch), jnp.asarray(mask))
        assert contents(replay) == list(latest)


def test_overwriting_resets_uses():
    replay = filled(4, 4).replace(uses=jnp.full(4, 9, jnp.int32))
    replay = buffers.add(replay, numbered([4, 5, 6]), jnp.array([True, False, True]))
    np.testing.assert_array_equal(replay.uses, [0, 0, 9, 9])
    np.testing.assert_array_equal(replay.examples.features, [4, 6, 2, 3])


@pytest.mark.parametrize(
    ("max_uses", "allowed"),
    [(1, [1] * 10), (3, [3] * 10), (2.5, [2, 3] * 5), (0.2, [0, 0, 0, 0, 1] * 2)],
)
def test_examples_are_used_as_often_as_allowed_and_no_more(max_uses, allowed):
    def step(replay, key):
        replay, batch, weights = sample(replay, key, 4, max_uses)
        return replay, (batch, weights, jnp.max(replay.uses))

    keys = jax.random.split(jax.random.key(0), 40)
    replay, (batch, weights, most) = jax.jit(lambda r, k: jax.lax.scan(step, r, k))(
        filled(12, 10), keys
    )
    np.testing.assert_array_equal(replay.uses, [*allowed, 0, 0])
    assert weights.sum() == sum(allowed)
    assert most.max() == max(allowed)
    np.testing.assert_array_equal(batch.value_weight, weights)
    np.testing.assert_array_equal(batch.policy_weight, weights)
    drawn = np.bincount(np.asarray(batch.features)[weights > 0].astype(int), minlength=10)
    np.testing.assert_array_equal(drawn, allowed)


def test_draws_are_uniform():
    """Every ordered pair of different free slots is as likely as any other."""
    replay = filled(9, 8)
    replay = replay.replace(uses=replay.uses.at[3].set(2))
    keys = jax.random.split(jax.random.key(2), 20_000)
    draw = jax.jit(jax.vmap(lambda key: sample(replay, key, 2, 2)[1].features))
    counts = collections.Counter(map(tuple, np.asarray(draw(keys)).astype(int).tolist()))
    assert set(counts) == set(itertools.permutations([0, 1, 2, 4, 5, 6, 7], 2))
    assert scipy.stats.chisquare(list(counts.values())).pvalue > 0.01


def test_nothing_is_drawn_from_an_empty_buffer():
    replay, _, weights = sample(filled(4, 0), jax.random.key(0), 2, 1)
    assert not weights.any()
    assert not replay.uses.any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: filled(0, 0), "capacity=0 must be at least 1"),
        (lambda: sample(filled(4, 4), jax.random.key(0), 5, 1), "1 to the capacity 4"),
        (lambda: sample(filled(4, 4), jax.random.key(0), 2, 0), "max_uses=0 must be from"),
    ],
)
def test_bad_buffers(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# Losses


@functools.partial(jax.jit, static_argnums=(0,))
def network_loss(graph, params, batch):
    return loss(nnx.merge(graph, params), batch, 1.0, 1.0)[0]


def predicting(values, logits):
    return lambda features, ranges: (values, logits)


def predictions(batch, seed=3):
    random = np.random.default_rng(seed)
    drawn = lambda like: jnp.asarray(random.standard_normal(like.shape), like.dtype)  # noqa: E731
    values, logits = jax.tree.map(drawn, (batch.values, batch.policy))
    return jax.tree.map(lambda x: 2 * x, values), logits


def test_loss_is_the_formula():
    """Huber and Kullback-Leibler, example by example and row by row."""
    value_rows, divergences = [], []
    examples = leduc_examples()
    mass = with_own(examples.mass, 1, examples.mass[1].at[:, 4:].set(0))  # fewer rows than player 0
    examples = examples.replace(mass=mass)
    point = predictions(examples)
    batch, values = jax.tree.map(np.asarray, (examples, point[0]))
    softmax = jax.tree.map(jax.vmap(masked_softmax), point[1], examples.legal)
    for b in range(16):
        errors = [
            abs(values[p][b, n] - batch.values[p][b, n] / batch.mass[p][b, n])
            for p in range(2)
            for n in np.flatnonzero(batch.mass[p][b] > 0)
        ]
        value_rows.append(np.mean([e**2 / 2 if e < 1 else e - 0.5 for e in errors]))
        actor = int(table().actors[states_of_examples()[b]])
        rows = batch.legal[actor][b].any(axis=0)
        target, prediction = batch.policy[actor][b], np.asarray(softmax[actor][b])
        divergences.append(scipy.stats.entropy(target, prediction)[rows].sum())
    loss_at = jax.jit(lambda point, batch: loss(predicting(*point), batch, 2.0, 0.5))
    total, parts = loss_at(point, examples)
    np.testing.assert_allclose(parts["values"], np.mean(value_rows), rtol=1e-5)
    np.testing.assert_allclose(parts["policy"], np.mean(divergences), rtol=1e-5)
    np.testing.assert_allclose(total, 2 * parts["values"] + 0.5 * parts["policy"], rtol=1e-6)


def test_loss_is_zero_at_the_targets_a_network_would_give():
    graph, params = network()
    evaluate, batch = cvpn.CvpnEvaluator(graph, zero_sum=False), leduc_examples()
    states = states_of_examples()
    targets = jax.jit(jax.vmap(lambda s, r: evaluate(params, table(), s, r)))(states, batch.reach)
    made = example_at(states, batch.reach, *targets)
    assert abs(network_loss(graph, params, made)) < 1e-6
    for player in range(2):
        wrong = made.replace(values=with_own(made.values, player, 2 * made.values[player]))
        assert network_loss(graph, params, wrong) > 1e-4


def test_gradient_against_finite_differences():
    with jax.enable_x64(True):
        exact = lambda x: x.astype(float) if jnp.issubdtype(x.dtype, jnp.floating) else x  # noqa: E731
        batch = jax.tree.map(exact, leduc_examples())
        point, direction = predictions(batch), predictions(batch, seed=4)

        @jax.jit
        def along(distance):
            moved = jax.tree.map(lambda x, d: x + distance * d, point, direction)
            return loss(predicting(*moved), batch, 0.7, 0.3)[0]

        step = 1e-6
        difference = (along(step) - along(-step)) / (2 * step)
        np.testing.assert_allclose(jax.grad(along)(0.0), difference, rtol=1e-7)


def test_a_player_who_reaches_nothing_counts_with_all_its_rows():
    """As networks see it in searches."""
    (graph, params), batch = network(), leduc_examples()
    ours, theirs = batch.reach
    nobody, anybody, given = (
        float(network_loss(graph, params, batch.replace(reach=(own, theirs))))
        for own in (jnp.zeros_like(ours), batch.rows[0].astype(ours.dtype), ours)
    )
    assert nobody == pytest.approx(anybody, rel=1e-6)
    assert nobody != pytest.approx(given, rel=1e-4)


def test_rows_and_examples_that_do_not_count_do_not_matter():
    """Neither in the loss nor, through NaN, in its gradient."""
    batch, nan = leduc_examples(), jnp.nan
    mass, rows, values = batch.mass, batch.rows, batch.values
    batch = batch.replace(
        mass=with_own(mass, 0, mass[0].at[2, 1].set(0)),
        rows=with_own(rows, 1, rows[1].at[3, 2].set(False)),
        legal=tuple(legal.at[4, :, 0].set(False) for legal in batch.legal),
        value_weight=batch.value_weight.at[5].set(0),
        policy_weight=batch.policy_weight.at[6].set(0),
    )
    values = with_own(values, 0, values[0].at[2, 1].set(nan))
    values = with_own(values, 1, values[1].at[3, 2].set(nan))
    other = batch.replace(
        values=tuple(own.at[5].set(nan) for own in values),
        policy=tuple(own.at[4, :, 0].set(nan).at[6].set(nan) for own in batch.policy),
    )
    loss_of = lambda p, batch: loss(predicting(*p), batch, 1.0, 1.0)[0]  # noqa: E731
    value = jax.jit(jax.value_and_grad(loss_of))
    for result, expected in zip(
        jax.tree.leaves(value(predictions(batch), other)),
        jax.tree.leaves(value(predictions(batch), batch)),
        strict=True,
    ):
        chex.assert_tree_all_finite(result)
        np.testing.assert_array_equal(result, expected)


def test_log_softmax_of_large_logits():
    logits = jnp.array([[1e4, 3.0], [-1e4, 4.0]], jnp.float32)
    logarithms = masked_log_softmax(logits, jnp.array([[True, False], [True, False]]))
    np.testing.assert_array_equal(logarithms, [[0, 0], [-2e4, 0]])


# Learner


def test_few_examples_are_learned_by_heart():
    """Through the buffer, which lends each of 16 examples 400 times."""
    graph, params = network()
    replay = buffers.new_replay(jax.tree.map(lambda x: x[0], leduc_examples()), 16)
    replay = buffers.add(replay, leduc_examples(), jnp.ones(16, bool))

    def step(carry, key):
        replay, learner = carry
        replay, batch, _ = sample(replay, key, SETTINGS.batch_size, 400)
        learner, losses = learning.update(graph, learner, batch, SETTINGS)
        return (replay, learner), losses

    start = (replay, learning.new_learner(params, SETTINGS))
    keys = jax.random.split(jax.random.key(0), 401)
    (_, learner), losses = jax.jit(lambda c, k: jax.lax.scan(step, c, k))(start, keys)
    for name in ("values", "policy", "total"):
        assert losses[name][399] < losses[name][0] / 100
        assert losses[name][400] == 0  # nothing was left to draw
    assert learner.step == 400


def test_gradients_move_against_themselves_at_the_decayed_rate():
    settings = dataclasses.replace(
        SETTINGS, optimizer="sgd", learning_rate=0.5, decay_rate=0.25, decay_steps=2
    )
    rule, gradient = learning.optimizer(settings), jnp.array([3.0, -4.0], jnp.float32)
    first, state = rule.update(gradient, rule.init(gradient))
    second, _ = rule.update(gradient, state)
    np.testing.assert_allclose(first, -0.5 * gradient, rtol=1e-6)
    np.testing.assert_allclose(second, -0.25 * 1.9 * gradient, rtol=1e-6)
    clipped = learning.optimizer(dataclasses.replace(settings, max_gradient_norm=1.0))
    first, _ = clipped.update(gradient, clipped.init(gradient))
    np.testing.assert_allclose(first, -0.1 * gradient, rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "step", "rate"),
    [
        ("chess", 0, 0.1),
        ("chess", 80_000, 0.064),
        ("go", 100_000, 0.02 * 0.1**0.5),
        ("scotland_yard", 2_000_000, 0.05),
        ("holdem", 4_000_000, 2.5e-5),
    ],
)
def test_published_learning_rates(name, step, rate):
    schedule = learning.learning_rate(PAPER_LEARNER[name])
    np.testing.assert_allclose(schedule(jnp.int32(step)), rate, rtol=1e-5)


@pytest.mark.parametrize(
    ("field", "part"), [("values", "values"), ("policy", "policy"), ("mass", "values")]
)
@pytest.mark.parametrize("player", range(2))
def test_what_is_not_finite_is_named_and_not_learned(field, part, player):
    graph, params = network()
    before, batch = learning.new_learner(params, SETTINGS), leduc_examples()
    after, losses = update(graph, before, batch, SETTINGS)
    learning.require_finite_losses(losses, 0)
    assert after.step == 1
    example = int(jnp.argmax(batch.legal[player].any(axis=(1, 2))))  # where the player acts
    row = (int(jnp.argmax(batch.legal[player][example, :, 0])), 0) if field == "policy" else (0,)
    own = getattr(batch, field)[player].at[example, *row].set(jnp.nan)
    bad = batch.replace(**{field: with_own(getattr(batch, field), player, own)})
    last, losses = update(graph, after, bad, SETTINGS)
    with pytest.raises(FloatingPointError, match=f"step 1: not finite: {part}, total, gradient"):
        learning.require_finite_losses(losses, 1)
    chex.assert_trees_all_equal(last, after)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"optimizer": "lamb"}, r"unknown optimizer 'lamb' \(known: adam, sgd\)"),
        ({"learning_rate": 0.0}, "learning_rate=0.0 must be positive and finite"),
        ({"max_gradient_norm": -1.0}, "max_gradient_norm=-1.0 must be positive and finite"),
        ({"decay_rate": 1.5}, "decay_rate=1.5 must be over 0 and at most 1"),
        ({"decay_steps": 0}, "decay_steps=0 must be at least 1"),
        ({"batch_size": 0}, "batch_size=0 must be at least 1"),
        ({"capacity": 5}, "capacity=5 must be at least batch_size=1024"),
        ({"max_uses": 0}, "max_uses=0 must be from 0.001 to 1000000"),
        ({"policy_weight": float("nan")}, "policy_weight=nan must be at least 0 and finite"),
    ],
)
def test_bad_settings(setting, message):
    with pytest.raises(ValueError, match=message):
        LearnerSettings(**setting)


def test_networks_with_statistics_of_batches_are_refused():
    params = nnx.split(nnx.BatchNorm(4, rngs=nnx.Rngs(0)))[1]
    with pytest.raises(ValueError, match="params hold a BatchStat at"):
        learning.new_learner(params, SETTINGS)
