"""Strict JAX for all tests: no silent promotion of ranks or dtypes, no key used twice.

Nearly all the time of a test is compilation, and so is its memory. Four means against both:
fast tests compile with most optimisations off; the workers of one run share their compiled programs
through a folder that begins empty and ends with the run; a worker forgets its programs when they
take too much memory; and Python's collector, which finds little among traced programs, looks
seldom.
"""

import ctypes
import gc
import os
import sys
import tempfile

import pytest
from slow_part import add_option, choose
from xla_flags import QUICK_COMPILATION

os.environ.setdefault("XLA_FLAGS", QUICK_COMPILATION)

import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_debug_key_reuse", True)
jax.config.update("jax_traceback_in_locations_limit", 1)  # nobody reads them
gc.set_threshold(100_000, 50, 100)

WORKER_GIGABYTES = 2.0  # what one worker may take
FORGET_GIGABYTES = 1.6  # a worker that has more forgets its programs; one test takes up to 0.3
_GIGABYTE = 2**30
_kept = 0.0  # what the worker had after it forgot: arrays and modules that stay


def pytest_addoption(parser):
    add_option(parser)


def pytest_collection_modifyitems(config, items):
    choose(config, items)


def pytest_collection_finish():
    """Modules stay: the collector need not go through them again and again."""
    gc.collect()
    gc.freeze()


def pytest_configure(config):
    """Fast tests compile without LLVM's optimisations, in half the time."""
    if config.option.markexpr == "not slow":
        jax.config.update("jax_disable_most_optimizations", True)
    _share_compiled_programs(config)


def _share_compiled_programs(config):
    """One folder for all workers, and for the processes that tests start; empty at first.

    The commands among those would otherwise keep their programs in the user's cache folder.
    """
    names = ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS")
    if names[0] not in os.environ:  # else it is the developer's, or that of the run's main process
        folder = tempfile.TemporaryDirectory(prefix="jaxgames-tests-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        os.environ.update(zip(names, (folder.name, "0"), strict=True))
    jax.config.update("jax_compilation_cache_dir", os.environ[names[0]])
    jax.config.update(
        "jax_persistent_cache_min_compile_time_secs", float(os.environ.get(names[1], "1"))
    )


def pytest_xdist_auto_num_workers(config):
    """As many workers as there are cores and memory for."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
    return max(1, min(cores, int(_available_gigabytes() / WORKER_GIGABYTES)))


@pytest.fixture(scope="session", autouse=True)
def _running_jax():
    """Commands that tests call leave the devices as they are, once JAX runs."""
    jax.devices()


def _available_gigabytes():
    if sys.platform != "linux":
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / _GIGABYTE
    with open("/proc/meminfo") as lines:
        fields = dict(line.split(":") for line in lines)
    return int(fields["MemAvailable"].split()[0]) / 2**20


def _resident_gigabytes():
    """Memory of this process."""
    with open("/proc/self/statm") as numbers:
        return int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / _GIGABYTE


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """After each test: forgets compiled programs if they take too much memory."""
    ran = yield
    global _kept
    if sys.platform == "linux" and _resident_gigabytes() > max(FORGET_GIGABYTES, _kept + 0.2):
        jax.clear_caches()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # glibc keeps what is free otherwise
        _kept = _resident_gigabytes()
    return ran
