"""The networks that a run of training keeps in its folder, as files that other commands read."""

from __future__ import annotations

import pathlib

from jaxtyping import PyTree

from experiments.harness import results
from experiments.harness.devices import by_first
from experiments.harness.runs import Run
from nets import parameters

NETWORKS = "networks"  # their folder in that of the run
_DTYPE = "float16"  # of parameters there, which halves them


def network_file(folder: pathlib.Path, name: str | int) -> pathlib.Path:
    """The file of a network.

    Args:
      folder: of the run.
      name: of the network, such as the steps of training after which it was written.
    """
    return folder / NETWORKS / f"{name}.npz"


def write_network(run: Run, name: str | int, params: PyTree) -> None:
    """Writes parameters into a run's folder, with 16 bits each.

    Of several processes, all of which call this, the first writes and the others wait for it.

    Args:
      run: the run.
      name: of the network.
      params: to be written.

    Raises:
      OSError: the file cannot be written.
    """

    def write():
        path = network_file(run.out, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        results.write_file(path, parameters.to_bytes(params, dtype=_DTYPE))

    by_first(write)
