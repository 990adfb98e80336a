"""Strict JAX for all tests: no silent promotion of ranks or dtypes, no key used twice."""

import os

import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_debug_key_reuse", True)


def pytest_configure(config):
    """Most of a fast test's time is compilation: XLA:CPU's older emitter takes half of it, and
    without LLVM's optimisations half of that. Slow tests run what users run."""
    if config.option.markexpr == "not slow":
        flags = "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0"
        os.environ.setdefault("XLA_FLAGS", flags)
