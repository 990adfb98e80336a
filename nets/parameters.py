"""Parameters of networks: put back into networks, checked against games, kept in files."""

from __future__ import annotations

import io
import pathlib
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jaxtyping import PyTree

from jaxgames.beliefs.contract import BeliefGame
from jaxgames.files import DAMAGED_ARRAYS


def merged(graph: nnx.GraphDef, params: PyTree) -> nnx.Module:
    """The network that `nnx.split` has taken apart.

    Args:
      graph: the network without its parameters.
      params: its parameters.

    Raises:
      ValueError: there are more or fewer parameters than the graph has places for.
    """
    found = len(jax.tree.leaves(params))
    if found != graph.num_leaves:
        raise ValueError(f"params have {found} arrays; the network has {graph.num_leaves}")
    return nnx.merge(graph, params)


def require_parameters(params: PyTree) -> None:
    """Refuses a network's state that changes otherwise than by gradients.

    Args:
      params: of `nnx.split(network)`.

    Raises:
      ValueError: it holds, for example, statistics of batches, or keys of a dropout.
    """
    is_variable = lambda x: isinstance(x, nnx.Variable)  # noqa: E731
    for path, leaf in jax.tree.leaves_with_path(params, is_leaf=is_variable):
        if is_variable(leaf) and not isinstance(leaf, nnx.Param):
            raise ValueError(
                f"params hold a {type(leaf).__name__} at {jax.tree_util.keystr(path)}; networks"
                " must be functions of their parameters alone, without batch normalisation or"
                " dropout"
            )


def check_sizes(network: nnx.Module, game: BeliefGame, sizes: Mapping[str, object]) -> None:
    """Checks that a network was made for a game.

    Args:
      network: has its sizes as attributes.
      game: the game.
      sizes: that the game asks for, by the names of the attributes.

    Raises:
      ValueError: a size is another one, or the network does not tell it.
    """
    for name, size in sizes.items():
        if (own := getattr(network, name, None)) != size:
            raise ValueError(
                f"the network has {name}={own}, and does not fit {game.name}; allowed: {size}"
            )


def to_bytes(params: PyTree, *, dtype: str | None = None) -> bytes:
    """Serialises parameters.

    Args:
      params: of `nnx.split(network)`.
      dtype: of the parameters in the file, such as "float16", which halves it; None: as they are.

    Returns:
      The content of an .npz file.

    Raises:
      ValueError: a parameter is too large for `dtype`.
    """
    leaves = {}
    for path, leaf in _leaves(params):
        name, array = jax.tree_util.keystr(path), np.asarray(leaf)
        if dtype is not None:
            largest = np.abs(array).max(initial=0)
            if largest > np.finfo(dtype).max:
                raise ValueError(f"parameter {name} has a {largest:g}, too large for {dtype}")
            array = array.astype(dtype)
        leaves[name] = array
    content = io.BytesIO()
    np.savez_compressed(content, **leaves)
    return content.getvalue()


def from_bytes(content: bytes, like: PyTree) -> PyTree:
    """Reads parameters that `to_bytes` has written.

    Args:
      content: of an .npz file.
      like: parameters of a network of the same sizes.

    Returns:
      The parameters, with the structure of `like`.

    Raises:
      ValueError: the content is damaged, or they are of a network of other sizes.
    """
    try:
        arrays = dict(np.load(io.BytesIO(content)))
    except (*DAMAGED_ARRAYS, TypeError) as error:
        raise ValueError(f"this is no .npz file, or a damaged one: {error}") from None
    wanted = {jax.tree_util.keystr(path): leaf for path, leaf in _leaves(like)}
    if more := arrays.keys() - wanted.keys():
        raise ValueError(f"parameter {min(more)} is not one of the network's")
    leaves = []
    for name, leaf in wanted.items():
        if name not in arrays or arrays[name].shape != leaf.shape:
            shape = f"has shape {arrays[name].shape}" if name in arrays else "is missing"
            raise ValueError(f"parameter {name} {shape}; it must have shape {leaf.shape}")
        leaves.append(jnp.asarray(arrays[name], leaf.dtype))
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def read_params(path: pathlib.Path, like: PyTree, *, game: str = "") -> PyTree:
    """Reads the parameters in a file of `to_bytes`, with the structure of `like`.

    Args:
      path: of the file.
      like: parameters of a network of the same sizes.
      game: that the network is for, by name, for the error.

    Raises:
      ValueError: the file is damaged, or of another network; names it, and the game.
      OSError: the file cannot be read.
    """
    try:
        return from_bytes(path.read_bytes(), like)
    except ValueError as error:
        raise ValueError(f"{path} does not fit{game and f' {game}'}: {error}") from None


def _leaves(params):
    return jax.tree_util.tree_flatten_with_path(params)[0]
