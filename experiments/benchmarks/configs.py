"""Configs of the benchmarks: presets with some fields replaced, and checks of the names in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from experiments.harness.devices import cores
from jaxgames.registry import unknown

Config = TypeVar("Config")  # the config of a benchmark, a dataclass


def preset_config(presets: Mapping[str, Config], preset: str, **changes: Any) -> Config:
    """The config of a preset with some fields replaced by `changes`.

    Raises:
      ValueError: the preset is unknown.
    """
    check_names("preset", [preset], presets)
    return dataclasses.replace(presets[preset], **changes)


def check_names(kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raises `ValueError` at the first of the names of a kind that is not among the known ones."""
    for name in names:
        if name not in known:
            raise ValueError(unknown(kind, name, known))


def even_devices() -> int:
    """How many CPU devices to ask JAX for: the largest power of two that is at most the number of
    cores, so that devices share batches evenly."""
    return 2 ** max(cores().bit_length() - 1, 1)
