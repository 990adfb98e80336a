"""Networks with a value and a prior, and convolutional torsos."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from nets import torsos
from nets.torsos import Convolutional
from nets.value_prior import ValuePrior, ValuePriorEvaluator, new_value_prior

BOARD = (4, 5, 2)
SIZE = 4 * 5 * 2 + 1  # and one more feature


def network(**options):
    options = dict(width=8, depth=1, torso="convolutional", board=BOARD) | options
    return ValuePrior(SIZE, 3, rngs=nnx.Rngs(0), **options)


def test_batches_of_any_shape():
    features = jax.random.normal(jax.random.key(0), (2, 3, SIZE))
    apply = jax.jit(network())
    values, logits = apply(features)
    assert (values.shape, logits.shape) == ((2, 3), (2, 3, 3))
    value, row = apply(features[1, 2])
    np.testing.assert_allclose(value, values[1, 2], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(row, logits[1, 2], rtol=1e-4, atol=1e-6)
    other = apply(features.at[..., -1].add(1.0))[0]  # the feature beyond the board
    assert np.abs(other - values).min() > 1e-6


@pytest.mark.parametrize("torso", ["mlp", "residual", "convolutional"])
def test_factors_of_bfloat16_change_little(torso):
    """Values and gradients are float32, and those of float32 but for rounding."""
    features = jax.random.normal(jax.random.key(0), (6, SIZE))

    def found(dtype):
        graph, params = nnx.split(network(torso=torso, dtype=dtype))

        def loss(params):
            values, logits = nnx.merge(graph, params)(features)
            return jnp.mean(jnp.sin(values)) + jnp.mean(jnp.sin(logits))

        leaves = jax.tree.leaves(jax.jit(jax.value_and_grad(loss))(params))
        assert {leaf.dtype for leaf in leaves} == {jnp.dtype("float32")}
        return jnp.concatenate([*map(jnp.ravel, leaves)])

    ours, exact = found("bfloat16"), found("float32")
    assert 0 < jnp.linalg.norm(ours - exact) < 0.05 * jnp.linalg.norm(exact)


def by_batch(graph, params, features):
    return nnx.merge(graph, params)(features)


def by_board(graph, params, features):
    return jax.vmap(nnx.merge(graph, params))(features)


def by_network(graph, params, features):
    """Each with the same boards."""
    several = jax.tree.map(lambda x: jnp.stack([x, 1.1 * x]), params)
    return jax.vmap(lambda params: nnx.merge(graph, params)(features))(several)


def by_network_and_board(graph, params, features):
    """Each with boards of its own."""
    several = jax.tree.map(lambda x: jnp.stack([x, 1.1 * x]), params)
    return jax.vmap(lambda params, x: by_board(graph, params, x))(
        several, features.reshape(2, 6, -1)
    )


CALLS = [pytest.param(by, marks=pytest.mark.slow) for by in (by_batch, by_board, by_network)]


@pytest.mark.parametrize("call", [*CALLS, by_network_and_board])
def test_a_few_boards_at_a_time_are_all_at_once(call, monkeypatch):
    """Values and gradients, by parameters and by boards; where a core is a device."""
    monkeypatch.setattr(torsos, "_CACHED_BYTES", 4 * 8 * 4 * 5 * 5)  # of 5 boards, so 4 are taken
    features = jax.random.normal(jax.random.key(0), (12, SIZE))
    graph, params = nnx.split(network())

    def found(cores):
        monkeypatch.setenv("NPROC", cores)

        def loss(params, features):
            values, logits = call(graph, params, features)
            return jnp.sum(jnp.sin(values)) + jnp.sum(jnp.sin(logits)), (values, logits)

        loops = "scan" in str(jax.make_jaxpr(loss)(params, features))
        assert loops == (cores == "1" and call in (by_batch, by_board))
        gradient = jax.grad(loss, (0, 1), has_aux=True)
        return jax.jit(lambda *given: (*loss(*given), gradient(*given)))(params, features)

    chex.assert_trees_all_close(found("1"), found("2"), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("number", "most", "size"),
    [(128, 24, 16), (48, 24, 24), (30, 16, 15), (7, 16, 7), (37, 16, 37)],
)
def test_pieces_are_equal_and_not_too_small(number, most, size):
    assert torsos._piece_size(jnp.zeros((number, 3)), most) == size


def test_unknown_precisions_are_refused():
    with pytest.raises(ValueError, match=r"unknown dtype 'float16'.* \(known: bfloat16, float32\)"):
        network(dtype="float16")


def test_convolutions_reach_neighbours_on_the_board():
    """Before the last layer a cell influences cells at most three steps away, through the first
    convolution and the two of the block."""
    torso = Convolutional(SIZE, width=4 * 5 * 4, depth=1, board=BOARD, rngs=nnx.Rngs(0))
    torso.last.kernel[...] = jnp.eye(4 * 5 * 4)  # so that what it gets comes out
    features = jax.random.normal(jax.random.key(1), (SIZE,))
    changes = torso(features.at[0].add(1.0)) - torso(features)  # in the first cell
    changed = np.abs(changes).reshape(4, 5, -1).max(axis=2) > 0
    assert changed[0, 0]
    assert not changed[:, 4].any()
    assert changed[:, :4].any()


@pytest.mark.parametrize("board", [None, (4, 5), (4, 5, 3)])
def test_features_without_that_board(board):
    with pytest.raises(ValueError, match=r"must be \(H, W, C\) within the 41 inputs"):
        network(board=board)


def test_networks_of_another_game_are_refused():
    games = [pgx_beliefs(name) for name in ("tic_tac_toe", "connect_four")]
    graph, params = nnx.split(new_value_prior(games[0], seed=0, width=8, depth=1))
    evaluate = ValuePriorEvaluator(graph)
    assert evaluate(params, games[0], games[0].root())[1].shape == (9,)
    message = r"the network has num_features=\d+, and does not fit .*; allowed: \d+"
    with pytest.raises(ValueError, match=message):
        evaluate(params, games[1], games[1].root())
    with pytest.raises(ValueError, match=r"params have 0 arrays; the network has \d+"):
        evaluate(None, games[0], games[0].root())


def test_bad_options():
    with pytest.raises(ValueError, match="unknown torso 'conv'"):
        network(torso="conv")
    with pytest.raises(ValueError, match="width=0 and depth=1 must be at least 1"):
        network(width=0)
    assert isinstance(network(torso="mlp")(jnp.zeros(SIZE))[0], jax.Array)
