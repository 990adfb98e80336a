"""Checks of the names and numbers in the configs of benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from experiments.harness.devices import cores
from jaxgames.checks import at_least
from jaxgames.registry import unknown


def check_names(kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raises `ValueError` at the first of the names of a kind that is not among the known ones."""
    for name in names:
        if name not in known:
            raise ValueError(unknown(kind, name, known))


def check_devices(devices: int, batches: Mapping[str, int]) -> None:
    """Raises `ValueError` at the first batch, by name, that devices cannot share evenly."""
    at_least(1, devices=devices)
    for name, batch in batches.items():
        if batch % devices:
            raise ValueError(f"devices={devices} must divide batch={batch} of {name}")


def even_devices(most: int = 64) -> int:
    """How many CPU devices to ask JAX for: the largest power of two that is at most the number of
    cores and `most`, so that devices share batches evenly; at least 2."""
    return 2 ** max(min(cores(), most).bit_length() - 1, 1)
