"""Programs as accelerators run them, on a CPU."""

import contextlib
from unittest import mock

import jax


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
