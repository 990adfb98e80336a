"""Programs as other devices run them, on this CPU."""

import contextlib
from unittest import mock

import jax
import pytest

from nets import products

DEVICES = ("cpu", "cpu_with_units", "accelerator")  # of products with factors of bfloat16


@contextlib.contextmanager
def accelerator_branches():
    """Inside, programs take the branches of accelerators; nothing compiled stays from it."""

    def not_on_cpu(*arguments, cpu, default):
        return default(*arguments)

    try:
        with mock.patch.object(jax.lax, "platform_dependent", not_on_cpu):
            jax.clear_caches()
            yield
    finally:
        jax.clear_caches()


@contextlib.contextmanager
def branches_of(device):
    """Inside, products with factors of bfloat16 are those of one of `DEVICES`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "cpu_has_units", lambda: device == "cpu_with_units")
        with accelerator_branches() if device == "accelerator" else contextlib.nullcontext():
            yield
