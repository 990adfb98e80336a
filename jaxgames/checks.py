"""Checks of numbers that are given by name."""

from __future__ import annotations


def at_least(least: int, **values: int | float) -> None:
    """Checks that no number is below another.

    Args:
      least: the other one.
      values: by the names that the error is to call them.

    Raises:
      ValueError: a number is too low; the first one is named.
    """
    for name, value in values.items():
        if not value >= least:
            raise ValueError(f"{name}={value} must be at least {least}")
