"""Commands on several devices and in several processes: the numbers of one device."""

import csv
import json
import os
import pathlib
import shlex
import signal
import socket
import subprocess
import sys
import time
from unittest import mock

import jax
import numpy as np
import pytest
from xla_flags import QUICK_COMPILATION

from experiments import cli, registry
from experiments.harness import devices
from experiments.harness.devices import DeviceArguments

ROOT = pathlib.Path(__file__).parent.parent
TIMEOUT = 900  # seconds, on a busy machine


# Two checkpoints in 20 steps, which take long enough to be interrupted between the two.
SLOWLY = """
import itertools, sys, time
from experiments.cli import MODULE, console
from experiments.student_of_games import training_run
times = itertools.cycle([False] * 9 + [True])
training_run.CheckpointTimes.due = lambda self: next(times)
training_run.require_finite_losses = lambda metrics, step: time.sleep(0.5)
sys.exit(console(MODULE))
"""


def start(command, *, there=1, slowly=False):
    """A process of `python -m experiments` where there are this many CPU devices."""
    flags = f"{QUICK_COMPILATION} --xla_force_host_platform_device_count={there}"
    environment = {
        "JAX_PLATFORMS": "cpu",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "XLA_FLAGS": flags,
        "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}",
    }
    program = ["-c", SLOWLY] if slowly else ["-m", "experiments"]
    words = [*program, *shlex.split(command)] if isinstance(command, str) else command
    return subprocess.Popen(
        [sys.executable, *words],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(*processes):
    """What the processes have printed."""
    try:
        said = [process.communicate(timeout=TIMEOUT)[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * len(processes), said
    finally:
        for process in processes:
            process.kill()
    return said


def two_processes(command, **options):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        common = f"{command} --coordinator localhost:{free.getsockname()[1]} --num_processes 2"
    return [start(f"{common} --process_id {number}", **options) for number in range(2)]


def numbers(folder):
    with open(folder / "curve.csv", newline="") as file:
        return [list(row.values()) for row in csv.DictReader(file)]


def assert_same_numbers(found, expected):
    """Two runs of training: the curves and the networks, up to rounding."""
    for ours, theirs in zip(numbers(found), numbers(expected), strict=True):
        for value, other in zip(ours, theirs, strict=True):
            assert value == other or float(value) == pytest.approx(float(other), rel=1e-3)
    networks = [np.load(folder / "network.npz") for folder in (found, expected)]
    assert set(networks[0]) == set(networks[1])
    for name in set(networks[0]):
        np.testing.assert_allclose(networks[0][name], networks[1][name], rtol=1e-3, atol=1e-5)


def test_bad_options_are_one_line_each(capsys, tmp_path):
    for options, line in {
        "--devices 0": "devices=0 must be at least 1",
        "--process_id 1": "process_id=1 needs a coordinator: add --coordinator HOST:PORT",
        "--num_processes 2": "num_processes=2 needs a coordinator: add --coordinator HOST:PORT",
        "--coordinator here": "coordinator='here' must be HOST:PORT",
        "--coordinator here:1": "coordinator='here:1' needs --num_processes, too",
        "--coordinator here:1 --num_processes 2": "coordinator='here:1' needs --process_id, too",
        "--coordinator here:1 --num_processes 2 --process_id 2": "process_id=2 must be from 0 to 1",
        "--coordinator here:1 --num_processes 3 --process_id 0": (
            "num_processes=3 must divide episodes=16"
        ),
        f"--devices {jax.device_count() + 1}": (
            f"devices={jax.device_count() + 1} must be at most the {jax.device_count()}"
            f" {jax.default_backend()} devices here"
        ),
    }.items():
        command = ["sog_leduc", "--preset", "smoke", "--out", f"{tmp_path / 'run'}"]
        assert cli.main([*command, *options.split()]) == 2
        assert capsys.readouterr().err == f"error: {line}\n"
    assert not (tmp_path / "run").exists()
    assert cli.main(f"solve kuhn_poker --devices 2 --out {tmp_path / 'run'}".split()) == 2
    message = "error: devices=2 must be 1: this command computes on one device\n"
    assert capsys.readouterr().err == message
    assert cli.main(f"solve kuhn_poker --devices all --out {tmp_path / 'run'}".split()) == 2
    assert capsys.readouterr().err == message.replace("=2", "=all")
    two = "--coordinator here:1 --num_processes 2 --process_id 0"
    command = f"blueprint_limit --preset smoke --out {tmp_path / 'run'} {two}"
    assert cli.main(command.split()) == 2
    message = "error: num_processes=2 must be 1: this command runs in one process\n"
    assert capsys.readouterr().err == message
    with pytest.MonkeyPatch.context() as patch:  # a step of Slurm with two tasks
        patch.setenv("SLURM_STEP_NODELIST", "here")
        patch.setenv("SLURM_STEP_NUM_TASKS", "2")
        assert cli.main(f"solve kuhn_poker --out {tmp_path / 'run'}".split()) == 2
    message = (
        "error: num_processes=2 must be 1: this command has no batches; Slurm or Open MPI has"
        " started so many\n"
    )
    assert capsys.readouterr().err == message
    assert cli.main(f"solve kuhn_poker --seed -1 --out {tmp_path / 'run'}".split()) == 2
    message = "error: seed=-1 must be from 0 to 4,294,967,295\n"
    assert capsys.readouterr().err == message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("variables", "all_of_them"),
    [
        ({"SLURM_STEP_TASKS_PER_NODE": "1(x2)"}, True),
        ({"SLURM_STEP_TASKS_PER_NODE": "1"}, True),
        ({"SLURM_STEP_TASKS_PER_NODE": "4(x2)"}, False),
        ({"SLURM_STEP_TASKS_PER_NODE": "1(x2)", "JAX_LOCAL_DEVICE_IDS": "0,1"}, False),
        ({}, False),
    ],
)
def test_a_process_alone_on_its_host_takes_all_accelerators(variables, all_of_them, monkeypatch):
    """An empty list is all of them, None leaves it to JAX: the one of its number on the host."""
    monkeypatch.setenv("SLURM_STEP_NODELIST", "here")
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "2")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    initialize = mock.create_autospec(jax.distributed.initialize)
    monkeypatch.setattr(jax.distributed, "initialize", initialize)
    devices._join(DeviceArguments(), 2)
    assert initialize.call_args.kwargs["local_device_ids"] == ([] if all_of_them else None)


ON_EIGHT = """
import json
from experiments.harness.devices import DeviceArguments, start
batches = {"episodes": 4, "games": 24}
found = {"sizes": [], "refused": []}
for asked in (None, 2, 3, 8, 9, "all"):
    try:
        mesh = start(DeviceArguments(devices=asked), batches)
        found["sizes"].append(1 if mesh is None else mesh.size)
    except ValueError as error:
        found["refused"].append(str(error))
for sizes in ({"games": 24}, {"games": 5}, {}, None):
    mesh = start(DeviceArguments(), sizes)
    found["sizes"].append(1 if mesh is None else mesh.size)
print(json.dumps(found))
"""


def test_devices_are_as_many_as_can_share_the_batches():
    (said,) = finish(start(["-c", ON_EIGHT], there=8))
    found = json.loads(said.splitlines()[-1])
    assert found["sizes"] == [4, 2, 8, 5, 8, 1]
    assert found["refused"] == [
        "devices=3 must divide episodes=4; allowed are 1, 2, 4",
        "devices=8 must divide episodes=4; allowed are 1, 2, 4",
        "devices=9 must be at most the 8 cpu devices here",
        "devices=8 must divide episodes=4; allowed are 1, 2, 4",
    ]


CORES = """
import os, sys, jax
from experiments.harness.devices import DeviceArguments, start
os.sched_getaffinity = lambda process: set(range(int(sys.argv[1])))
mesh = start(DeviceArguments(), {"episodes": 16})
print(mesh and mesh.size, jax.device_count())
text = jax.jit(lambda x: x * 2 + 1).lower(jax.ShapeDtypeStruct((10**7,), "float32"))
print("outer_dimension_partitions" in text.compile().as_text())
"""


@pytest.mark.parametrize(
    ("cores", "devices"), [(6, ["4", "4"]), pytest.param(1, ["None", "1"], marks=pytest.mark.slow)]
)
def test_cores_become_devices_whose_operations_are_not_split(cores, devices):
    environment = {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT), "XLA_FLAGS": ""}
    run = subprocess.run(
        [sys.executable, "-c", CORES, str(cores)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT,
    )
    assert run.stdout.split() == [*devices, "False"]


def test_published_settings_fill_eight_devices():
    shared = {}
    for name in registry.EXPERIMENTS:
        experiment = registry.load(name)
        for preset, config in experiment.presets.items():
            if experiment.batches is not None:
                shared[name, preset] = experiment.batches(config)
    assert {"sog_leduc", "sog_search", "abr_uniform", "abr_alphazero"} < {n for n, _ in shared}
    for (name, preset), batches in shared.items():
        assert all(size >= 1 for size in batches.values()), (name, preset)
        if preset == "paper" and name != "sog_soundness":  # which has a small part
            assert not any(size % 8 for size in batches.values()), (name, batches)


def test_a_single_process_asks_itself():
    assert devices.is_first()
    assert devices.by_first(lambda: [1]) == [1]
    assert devices.start(DeviceArguments(), None) is None
    assert devices.local(None) is None


@pytest.fixture(scope="module")
def one_device(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    finish(start(f"sog_leduc --preset smoke --out {folder}"))
    return folder


@pytest.mark.slow(minutes=2)
def test_eight_devices_give_the_numbers_of_one(tmp_path, one_device):
    finish(start(f"sog_leduc --preset smoke --devices 8 --out {tmp_path}", there=8))
    assert_same_numbers(tmp_path, one_device)


@pytest.mark.slow(minutes=3)
def test_two_processes_give_the_numbers_of_one_device(tmp_path, one_device):
    command = f"sog_leduc --preset smoke --out {tmp_path}"
    first, second = finish(*two_processes(command, there=2))
    assert "SoG(4,1)" in first
    assert "SoG(4,1)" not in second  # only the first prints and writes
    assert_same_numbers(tmp_path, one_device)
    assert len(list((tmp_path / "log").glob("events*"))) == 1
    steps = [json.loads(line)["step"] for line in (tmp_path / "log/metrics.jsonl").open()]
    assert steps == [0, 10]


@pytest.mark.slow(minutes=3)
@pytest.mark.parametrize("ended", [(1,), (0, 1)], ids=["of one", "of both"])
def test_ctrl_c_ends_both_processes_and_a_checkpoint_goes_on(tmp_path, one_device, ended):
    """In one process or in both of them, as a terminal does that they share; the run goes on in one
    process, or in two."""
    command = f"sog_leduc --preset smoke --out {tmp_path}"
    processes = two_processes(command, slowly=True)
    deadline = time.monotonic() + TIMEOUT
    while not list(tmp_path.glob("checkpoint/training/*/state")):
        assert time.monotonic() < deadline
        assert [process.poll() for process in processes] == [None, None]
        time.sleep(0.05)
    time.sleep(1)  # both have left the checkpoint behind
    for number in ended:
        processes[number].send_signal(signal.SIGINT)
    said = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [130, 130], said
    assert all(text.count("interrupted") == 1 and "resume with:" in text for text in said)
    assert list(tmp_path.glob("checkpoint/training/*/state"))
    assert not (tmp_path / "result.json").exists()
    again = f"{command} --resume"
    finish(*([start(again)] if len(ended) == 1 else two_processes(again)))
    assert_same_numbers(tmp_path, one_device)
