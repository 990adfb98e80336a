"""Strict JAX for all tests: no silent promotion of ranks or dtypes, no key used twice."""

import os

from xla_flags import QUICK_COMPILATION

os.environ.setdefault("XLA_FLAGS", QUICK_COMPILATION)
# commands that tests start keep nothing in the user's cache folder
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", "")

import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_debug_key_reuse", True)


def pytest_configure(config):
    """Fast tests compile without LLVM's optimisations, in half the time."""
    if config.option.markexpr == "not slow":
        jax.config.update("jax_disable_most_optimizations", True)
