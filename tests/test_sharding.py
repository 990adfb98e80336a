"""Training on several devices, in several processes, and through SIGKILL: the same numbers."""

import os
import pathlib
import random
import socket
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from xla_flags import QUICK_COMPILATION

from jaxgames.beliefs import belief_table
from jaxgames.beliefs.listing import list_public_states
from jaxgames.registry import make
from solvers import device_batches
from solvers.search import leaf_evaluators
from solvers.search.agent_exploitability import agents, composed_policy
from solvers.search.search_state import GrowingTreeCfr
from train import data_sharding

TESTS = pathlib.Path(__file__).parent
TIMEOUT = 400  # seconds, on a busy machine
FLAGS = QUICK_COMPILATION
SETTINGS = {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}


def start(*arguments, devices=1, **environment):
    """A `training_run` in a process of its own."""
    flags = f"{FLAGS} --xla_force_host_platform_device_count={devices}"
    return subprocess.Popen(
        [sys.executable, TESTS / "training_run.py", *map(str, arguments)],
        env=os.environ
        | SETTINGS
        | {"XLA_FLAGS": flags, "PYTHONPATH": str(TESTS.parent)}
        | environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def finish(*processes):
    try:
        for process in processes:
            process.communicate(timeout=TIMEOUT)
        assert [process.returncode for process in processes] == [0] * len(processes)
    finally:
        for process in processes:
            process.kill()


@pytest.fixture(scope="module")
def one_device(tmp_path_factory):
    path = tmp_path_factory.mktemp("one") / "numbers.npz"
    finish(start("--steps", 3, "--out", path))
    return np.load(path)


def assert_equal(numbers, expected, **tolerance):
    for name in set(expected) - {"devices", "whole"}:
        np.testing.assert_allclose(numbers[name], expected[name], err_msg=name, **tolerance)


def assert_spread(numbers, one_device, *, devices):
    """The numbers of one device, on `devices` in each process."""
    assert_equal(numbers, one_device, rtol=1e-4, atol=1e-6)
    assert one_device["['sizes']['replay']"] > 24  # queries were solved too
    assert (numbers["devices"] == devices).all()  # replay, queue and episodes are cut up, all parts
    assert numbers["whole"] == 0  # and the replay never put together
    assert one_device["whole"] > 0


@pytest.mark.slow
def test_eight_devices_of_one_process_give_the_numbers_of_one(tmp_path, one_device):
    finish(start("--steps", 3, "--devices", "--out", tmp_path / "found.npz", devices=8))
    assert_spread(np.load(tmp_path / "found.npz"), one_device, devices=8)


@pytest.mark.slow
def test_eight_devices_train_without_queries_as_one_does(tmp_path):
    found = {}
    for devices in (1, 8):
        out = tmp_path / f"{devices}.npz"
        spread = ["--devices"] if devices > 1 else []
        finish(start("--steps", 6, *spread, "--out", out, devices=devices, WITHOUT_QUERIES="1"))
        found[devices] = np.load(out)
    assert_equal(found[8], found[1], rtol=1e-4, atol=1e-6)
    assert (found[8]["devices"] == 8).all()
    assert found[1]["['sizes']['replay']"] > 8
    assert found[1]["['metrics']['solved']"] == 0


@pytest.mark.slow
def test_eight_devices_of_two_processes_give_the_numbers_of_one(tmp_path, one_device):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    outs = [tmp_path / f"{number}.npz" for number in range(2)]
    common = "--steps", 3, "--port", port
    finish(*(start(*common, "--process", n, "--out", out, devices=4) for n, out in enumerate(outs)))
    for out in outs:
        assert_spread(np.load(out), one_device, devices=4)


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_numbers(tmp_path):
    """Killed at a random moment, which may be within a write of a checkpoint or of metrics."""
    folder, whole, out = tmp_path / "run", tmp_path / "whole", tmp_path / "numbers.npz"
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    endless = start("--folder", folder, **cache)
    while endless.stdout.readline() != "6\n":  # after two checkpoints
        assert endless.poll() is None
    time.sleep(random.uniform(0, 0.5))
    endless.kill()
    assert endless.wait(TIMEOUT) == -9
    endless.stdout.close()
    finish(start("--folder", folder, "--steps", 5, "--out", out, "--whole", whole, **cache))
    numbers = np.load(out)
    assert numbers["['sizes']['step']"] >= 11
    assert_equal(numbers, np.load(whole / "numbers.npz"), rtol=0)
    lines = [(place / "metrics.jsonl").read_text() for place in (folder, whole)]
    assert lines[0] == lines[1]
    assert lines[0].count("\n") == numbers["['sizes']['step']"]


def test_sizes_that_devices_cannot_share():
    mesh = data_sharding.data_mesh(jax.devices() * 3)
    with pytest.raises(ValueError, match="episodes=8 must be a multiple of the 3 devices"):
        device_batches.check_even({"solves": 6, "episodes": 8}, mesh)
    device_batches.check_even({"episodes": 8}, None)
    split = device_batches.split_calls(lambda shared, batch: batch, mesh)
    with pytest.raises(ValueError, match="batch=4 must be a multiple of the 3 devices"):
        split(None, (jnp.ones((3, 2)), jnp.ones((4, 2))))
    listing = list_public_states(table := belief_table(make("kuhn_poker")))
    keys = jax.random.split(jax.random.key(0), 1)
    how = dict(settings=GrowingTreeCfr(leaf_evaluators.zero, simulations=3), chain=agents()[0])
    for batch, message in {
        4: "batch=4 must be a multiple of the 3",
        0: "batch=0 must be at",
    }.items():
        with pytest.raises(ValueError, match=message):
            composed_policy(table, listing, None, keys, batch=batch, mesh=mesh, **how)
