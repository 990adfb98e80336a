"""Strict JAX for all tests: no silent promotion of ranks or dtypes, no key used twice."""

import os

# Most of a test's time is compilation, and XLA:CPU's older emitter takes half of it.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")

import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_debug_key_reuse", True)


def pytest_configure(config):
    """Fast tests compile without LLVM's optimisations, in half the time."""
    if config.option.markexpr == "not slow":
        jax.config.update("jax_disable_most_optimizations", True)
