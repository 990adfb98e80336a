"""AlphaZero's network: heads of their own, and moves from squares."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jaxgames.adapters.pgx_beliefs import pgx_beliefs
from nets import torsos
from nets.alphazero_network import AlphaZeroNetwork
from nets.position_network import new_position_network
from nets.value_prior import new_value_prior

BOARD = (3, 4, 2)
SIZE = 3 * 4 * 2 + 1


def network(num_actions=5, **options):
    options = dict(width=8, depth=1, board=BOARD, rngs=nnx.Rngs(0)) | options
    return AlphaZeroNetwork(SIZE, num_actions, **options)


@pytest.mark.parametrize(("actions", "planes"), [(5, 0), (3 * 4 * 6, 6)])
def test_batches_of_any_shape(actions, planes):
    features = 10 * jax.random.normal(jax.random.key(0), (2, 3, SIZE))
    apply = jax.jit(network(actions, move_planes=planes))
    values, logits = apply(features)
    assert (values.shape, logits.shape) == ((2, 3), (2, 3, actions))
    assert np.abs(values).max() < 1
    value, row = apply(features[1, 2])
    np.testing.assert_allclose(value, values[1, 2], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(row, logits[1, 2], rtol=1e-4, atol=1e-5)


def test_a_core_takes_a_few_boards_at_a_time(monkeypatch):
    """The outputs and gradients are those of all boards at once."""
    graph, params = nnx.split(network(3 * 4 * 6, move_planes=6))
    features = jax.random.normal(jax.random.key(0), (6, SIZE))

    def found(cores):
        monkeypatch.setenv("NPROC", cores)

        def loss(params):
            values, logits = nnx.merge(graph, params)(features)
            return jnp.mean(jnp.sin(values)) + jnp.mean(jnp.sin(logits))

        assert ("scan" in str(jax.make_jaxpr(loss)(params))) == (cores == "1")
        return jax.jit(jax.value_and_grad(loss))(params)

    monkeypatch.setattr(torsos, "_CACHED_BYTES", 2 * 4 * 12 * 8)  # of two boards
    chex.assert_trees_all_close(found("1"), found("2"), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "planes"), [("gardner_chess", 49), ("chess", 73)])
def test_moves_are_from_squares_with_pieces(name, planes):
    """A network whose planes say whether a cell has a piece of the mover, which pgx's first six
    channels do, finds one where every legal move begins, and nowhere else."""
    game = pgx_beliefs(name)
    assert game.move_planes == planes
    state, noise = game.root(), np.random.default_rng(0)
    step, child = jax.jit(game.child_mask), jax.jit(game.child)
    squares = np.zeros(len(step(state)), bool)
    for _ in range(40):
        legal = np.flatnonzero(step(state))
        board = np.reshape(game.encode(state)[:-1], game.board)
        pieces = jnp.asarray(board[..., :6].sum(axis=-1, keepdims=True) > 0)
        found = logits_of_cells(jnp.broadcast_to(pieces, (*board.shape[:2], planes)))
        assert found[legal].all()
        assert found.sum() == planes * pieces.sum()
        squares[legal] = True
        state = child(state, int(noise.choice(legal)))
    assert squares.reshape(-1, planes).any(axis=1).sum() > board.shape[0] ** 2 / 2


def logits_of_cells(planes):
    """What a network whose last planes are these gives."""
    own = network(planes.size, board=(*planes.shape[:2], 0), move_planes=planes.shape[2])
    identity = lambda hidden: hidden  # noqa: E731
    own.prior_board, own.prior_norm = identity, identity
    own.prior = identity
    return np.asarray(own._logits(planes.astype(jnp.float32))) > 0


@pytest.mark.parametrize(
    "name", [pytest.param("gardner_chess", marks=pytest.mark.slow), "go_9x9", "connect_four"]
)
def test_games_get_the_network(name):
    game = pgx_beliefs(name)
    sizes = dict(seed=0, width=4, depth=1)
    own = new_value_prior(game, torso="alphazero", **sizes)
    assert own.move_planes == (49 if name == "gardner_chess" else 0)
    shared = new_position_network(game, torso="alphazero", **sizes)
    shared.check_fits(game, game.encode(game.root()))
    value, logits = own(game.encode(game.root()))
    assert (value.shape, logits.shape) == ((), (game.num_children,))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(board=()), r"board=\(\) must be \(H, W, C\) within the 25 inputs"),
        (dict(move_planes=7), r"move_planes=7 on board=\(3, 4, 2\) are not num_actions=5"),
        (dict(depth=0), "depth=0 must be at least 1"),
    ],
)
def test_sizes_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        network(**options)
