"""Torsos: the parts of networks between the features and the heads."""

from __future__ import annotations

import functools
import itertools
import math
import os
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, PyTree

from jaxgames.registry import unknown
from nets import convolution, products

_CACHED_BYTES = 2**18  # that boards have between two layers, beside other things in the cache
_LAST_CHANNELS = 4  # of the last convolution, before the dense layer


# The layers' convolutions by the precision of their factors; all else is float32.
_CONVOLUTION = {"float32": convolution.in_layer, "bfloat16": convolution.in_bfloat16_layer}


def linear(before: int, after: int, *, rngs: nnx.Rngs, dtype: str) -> nnx.Linear:
    """A layer.

    Args:
      before: inputs.
      after: outputs.
      rngs: of the parameters.
      dtype: precision of the factors, "float32" or "bfloat16"; sums are float32.
    """
    options = dict(dtype="float32", dot_general=products.dot_general(dtype))
    return nnx.Linear(before, after, rngs=rngs, **options)


def convolution_layer(
    before: int, after: int, *, size: int = 3, rngs: nnx.Rngs, dtype: str
) -> nnx.Conv:
    """A convolution of boards, with outputs of their size.

    Args:
      before: channels of the inputs.
      after: channels of the outputs.
      size: of the kernel, in both directions; odd.
      rngs: of the parameters.
      dtype: precision of the factors, "float32" or "bfloat16".
    """
    options = dict(dtype="float32", conv_general_dilated=_CONVOLUTION[dtype])
    return nnx.Conv(before, after, kernel_size=(size, size), rngs=rngs, **options)


def product(layer: nnx.Linear, inputs: Float[Array, "*B I"], rows: slice) -> Float[Array, "*B O"]:
    """The contribution of some inputs to a layer's sums, without its bias.

    Args:
      layer: the layer.
      inputs: those inputs.
      rows: of the layer's kernel, that belong to them.
    """
    axes = (((inputs.ndim - 1,), (0,)), ((), ()))
    return layer.dot_general(inputs, layer.kernel[rows], axes)


def check_layers(width: int, depth: int, dtype: str) -> None:
    """Checks the sizes of hidden layers.

    Raises:
      ValueError: a size below 1, or an unknown dtype.
    """
    if width < 1 or depth < 1:
        raise ValueError(f"width={width} and depth={depth} must be at least 1")
    if dtype not in products.DTYPES:
        raise ValueError(unknown("dtype", dtype, products.DTYPES))


class Mlp(nnx.Module):
    """`depth` hidden layers of `width` units with a ReLU after each."""

    def __init__(
        self, num_inputs: int, *, width: int, depth: int, rngs: nnx.Rngs, dtype: str = "float32"
    ):
        check_layers(width, depth, dtype)
        sizes = [num_inputs] + [width] * depth
        self.layers = nnx.List(
            linear(before, after, rngs=rngs, dtype=dtype)
            for before, after in itertools.pairwise(sizes)
        )
        self.width = width

    def __call__(self, inputs: Float[Array, "*B I"]) -> Float[Array, "*B O"]:
        return self.go_on(self.layers[0](inputs))

    @property
    def first(self) -> nnx.Linear:
        """The layer that the inputs go into."""
        return self.layers[0]

    def go_on(self, hidden: Float[Array, "*B W"]) -> Float[Array, "*B O"]:
        """The rest of the torso, after the first layer."""
        for layer in list(self.layers)[1:]:
            hidden = layer(jax.nn.relu(hidden))
        return jax.nn.relu(hidden)


class ResidualMlp(nnx.Module):
    """A linear layer to `width` units, then `depth` residual blocks `x + W relu(norm(x))`."""

    def __init__(
        self, num_inputs: int, *, width: int, depth: int, rngs: nnx.Rngs, dtype: str = "float32"
    ):
        check_layers(width, depth, dtype)
        self.first = linear(num_inputs, width, rngs=rngs, dtype=dtype)
        self.norms = nnx.List(nnx.LayerNorm(width, rngs=rngs) for _ in range(depth))
        self.layers = nnx.List(linear(width, width, rngs=rngs, dtype=dtype) for _ in range(depth))
        self.width = width

    def __call__(self, inputs: Float[Array, "*B I"]) -> Float[Array, "*B O"]:
        return self.go_on(self.first(inputs))

    def go_on(self, hidden: Float[Array, "*B W"]) -> Float[Array, "*B O"]:
        """The rest of the torso, after the first layer."""
        for norm, layer in zip(self.norms, self.layers, strict=True):
            normal = norm(hidden.astype(jnp.float32))  # statistics in full precision
            hidden = hidden + layer(jax.nn.relu(normal))
        return hidden


def _piece_size(batch: Array, most: int) -> int:
    """How many entries of a batch `[*B, ...]` to take at a time, a divisor of their number.

    All at once if no divisor is near to `most`: small pieces are slow.
    """
    number = math.prod(batch.shape[:-1])
    largest = max(size for size in range(1, most + 1) if number % size == 0)
    return largest if 2 * largest > most else number


def _in_pieces(
    function: Callable[[PyTree, Array], Array], params: PyTree, inputs: Array, most: int
) -> Array:
    """`function(params, inputs)` `[*B, O]` of inputs `[*B, I]`, and gradients, a few at a time.

    All axes of a batch are cut together, those of `vmap` too.

    Args:
      function: computes each entry of a batch on its own.
      params: of the function.
      inputs: the batch.
      most: entries at a time.
    """

    def cut(batch):
        return batch.reshape(-1, _piece_size(batch, most), batch.shape[-1])

    @jax.custom_batching.custom_vmap
    def values(params, inputs):
        found = jax.lax.map(functools.partial(function, params), cut(inputs))
        return found.reshape(*inputs.shape[:-1], -1)

    @values.def_vmap
    def values_of_batch(size, batched, params, inputs):
        if not any(jax.tree.leaves(batched[0])):
            return values(params, inputs), True
        in_axes = jax.tree.map(lambda each: 0 if each else None, tuple(batched))
        return jax.vmap(function, in_axes, axis_size=size)(params, inputs), True

    def gradients(params, inputs, change):
        def add(found, piece):
            entries, change = piece
            of_params, of_entries = jax.vjp(function, params, entries)[1](change)
            return jax.tree.map(jnp.add, found, of_params), of_entries

        zero = jax.tree.map(jnp.zeros_like, params)
        of_params, of_inputs = jax.lax.scan(add, zero, (cut(inputs), cut(change)))
        return of_params, of_inputs.reshape(inputs.shape)

    def forward(params, inputs):
        if _piece_size(inputs, most) == math.prod(inputs.shape[:-1]):
            return jax.vjp(function, params, inputs)  # one piece need not be computed again
        return values(params, inputs), jax.tree_util.Partial(gradients, params, inputs)

    differentiable = jax.custom_vjp(values)
    differentiable.defvjp(forward, lambda backward, change: backward(change))
    return differentiable(params, inputs)


def _has_one_core() -> bool:
    """Whether a device is one core of a CPU, to which `NPROC` keeps XLA."""
    return jax.default_backend() == "cpu" and os.environ.get("NPROC") == "1"


def few_at_a_time(network: ResidualTower, inputs: Float[Array, "*B I"]) -> Float[Array, "*B O"]:
    """`network.at_once(inputs)`; where a core of a CPU is a device, a few boards at a time, so that
    activations between the layers stay in its cache, and are computed again for gradients.

    Args:
      network: a tower, with what follows it.
      inputs: of the tower.
    """
    if not _has_one_core():
        return network.at_once(inputs)
    graph, params = nnx.split(network)
    each = 4 * math.prod(network.board[:2]) * network.width  # bytes between two layers
    most = max(_CACHED_BYTES // each, 1)
    return _in_pieces(lambda p, x: nnx.merge(graph, p).at_once(x), params, inputs, most)


class ResidualTower(nnx.Module):
    """`depth` residual blocks of two 3x3 convolutions with `width` channels each.

    The first H * W * C inputs are the `board` (H, W, C); each of the others becomes a constant
    plane.
    """

    def __init__(
        self,
        num_inputs: int,
        *,
        width: int,
        depth: int,
        board: tuple[int, ...],
        rngs: nnx.Rngs,
        dtype: str = "float32",
    ):
        check_layers(width, depth, dtype)
        if len(board) != 3 or math.prod(board) > num_inputs:
            raise ValueError(f"board={board} must be (H, W, C) within the {num_inputs} inputs")

        layer = functools.partial(convolution_layer, rngs=rngs, dtype=dtype)
        self.board, self.width = board, width
        planes = board[2] + num_inputs - math.prod(board)
        self.first = layer(planes, width)
        self.norms = nnx.List(nnx.LayerNorm(width, rngs=rngs) for _ in range(2 * depth))
        self.layers = nnx.List(layer(width, width) for _ in range(2 * depth))

    def tower(self, inputs: Float[Array, "*B I"]) -> Float[Array, "*B H W C"]:
        """The channels of all cells, before the last ReLU."""
        batch, size = inputs.shape[:-1], math.prod(self.board)
        board = inputs[..., :size].reshape(*batch, *self.board)
        others = inputs[..., None, None, size:]
        others = jnp.broadcast_to(others, (*board.shape[:-1], others.shape[-1]))
        hidden = self.first(jnp.concatenate([board, others], axis=-1))
        for number in range(0, len(self.layers), 2):
            change = hidden
            for norm, layer in zip(
                self.norms[number : number + 2], self.layers[number : number + 2], strict=True
            ):
                change = layer(jax.nn.relu(norm(change.astype(jnp.float32))))
            hidden = hidden + change
        return hidden


class Convolutional(ResidualTower):
    """A residual tower, then a dense layer of `width` units that sees a few channels of all
    cells."""

    def __init__(
        self,
        num_inputs: int,
        *,
        width: int,
        depth: int,
        board: tuple[int, ...],
        rngs: nnx.Rngs,
        dtype: str = "float32",
    ):
        options = dict(rngs=rngs, dtype=dtype)
        super().__init__(num_inputs, width=width, depth=depth, board=board, **options)
        self.narrow = convolution_layer(width, _LAST_CHANNELS, size=1, **options)
        self.last = linear(math.prod(board[:2]) * _LAST_CHANNELS, width, **options)

    def __call__(self, inputs: Float[Array, "*B I"]) -> Float[Array, "*B O"]:
        return few_at_a_time(self, inputs)

    def at_once(self, inputs: Float[Array, "*B I"]) -> Float[Array, "*B O"]:
        """The outputs of all boards at once."""
        narrow = jax.nn.relu(self.narrow(jax.nn.relu(self.tower(inputs))))
        return jax.nn.relu(self.last(narrow.reshape(*inputs.shape[:-1], -1)))


TORSOS = {"mlp": Mlp, "residual": ResidualMlp, "convolutional": Convolutional}


def new_torso(
    kind: str,
    num_inputs: int,
    *,
    width: int,
    depth: int,
    board: tuple[int, ...] | None = None,
    rngs: nnx.Rngs,
    dtype: str = "float32",
) -> nnx.Module:
    """Makes a torso.

    Args:
      kind: "mlp", "residual" or "convolutional".
      num_inputs: how many features go in.
      width: how many come out; the hidden layers have as many units or channels.
      depth: hidden layers, or residual blocks.
      board: shape (H, W, C) of the board that the inputs begin with; the convolutional torso needs
        it, the others ignore it.
      rngs: of the first parameters.
      dtype: precision of the factors of all products, "float32" or "bfloat16".

    Returns:
      A module from `[..., num_inputs]` to `[..., width]`.

    Raises:
      ValueError: unknown kind or dtype, a size below 1, or a convolutional torso without a board.
    """
    if kind not in TORSOS:
        raise ValueError(unknown("torso", kind, TORSOS))
    more = {"board": board or ()} if kind == "convolutional" else {}
    return TORSOS[kind](num_inputs, width=width, depth=depth, rngs=rngs, dtype=dtype, **more)
