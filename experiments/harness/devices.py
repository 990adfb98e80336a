"""The devices and processes of a command. Cores of a CPU are devices, too.

A command that works on batches spreads them over a mesh of devices, which `start` returns. XLA
would split every small operation over all cores and wait for all of them each time. So each core
becomes a device, which computes its own share of a batch. What is one large computation stays on
one device, whose operations XLA splits.

Several processes, one per machine, make one mesh of all their devices. All of them run the same
command and see the same folder, into which the first one writes.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import jax
import numpy as np
import tyro
from jax.sharding import Mesh

from jaxgames.checks import at_least
from train.data_sharding import data_mesh

# Launchers that JAX recognises, by a variable that they set: where the number of processes is, and
# that of those on each host.
_LAUNCHERS = {
    "SLURM_STEP_NODELIST": ("SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"),
    "OMPI_MCA_orte_hnp_uri": ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
}
_ONE_PER_HOST = re.compile(r"1(\(x\d+\))?")  # as Slurm writes it, such as 1(x4)
_FORCED = re.compile(r"--xla_force_host_platform_device_count=(\d+)")
# Where cores are devices: operations are not split over the cores, and a loop on less than 100 MB
# is one function, whose steps XLA does not dispatch one by one.
_CORE_FLAGS = {
    "xla_disable_hlo_passes": "cpu-parallel-task-assigner",
    "xla_backend_extra_options": "xla_cpu_small_while_loop_byte_threshold=100000000",
}
_HEARTBEAT_SECONDS = 10  # without a sign of life a process counts as dead
_LEAST_BYTES = 1024  # that are sent at once, as each size is compiled for


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceArguments:
    """The options about devices and processes."""

    devices: Annotated[int | Literal["all"] | None, tyro.conf.arg(metavar="INT|all")] = None
    """How many devices each process computes on. None: as many as can share the batches; on CPUs
    each core is a device."""
    coordinator: Annotated[str | None, tyro.conf.arg(metavar="HOST:PORT")] = None
    """Where the first of several processes listens. Jobs of Slurm and Open MPI need none of these
    three options."""
    num_processes: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """How many processes there are; all run the same command with the same --out."""
    process_id: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """The number of this process; the first is 0."""


def start(
    arguments: DeviceArguments,
    batches: Mapping[str, int] | None,
    *,
    several_processes: bool = True,
) -> Mesh | None:
    """Starts JAX on the devices that a command asks for, and joins its other processes.

    This comes before all else that makes arrays. If JAX runs already, it stays as it is.

    Args:
      arguments: how many devices and processes are asked for.
      batches: the sizes that the devices share, by name, each of which must be a multiple of their
        number. Empty: devices of one process share a single computation; on a CPU that is one
        device unless more are asked for. None: the command computes on one device.
      several_processes: whether devices of several processes may share the batches.

    Returns:
      The devices of all processes; None: there is one device to compute on.

    Raises:
      ValueError: an option is not possible here, or does not fit the sizes.
    """
    asked = arguments.devices
    if isinstance(asked, int) and asked < 1:
        raise ValueError(f"devices={asked} must be at least 1")
    processes = _processes(arguments)
    if processes > 1 and not (batches and several_processes):
        why = "runs in one process" if batches else "has no batches"
        by = "" if arguments.coordinator else "; Slurm or Open MPI has started so many"
        raise ValueError(f"num_processes={processes} must be 1: this command {why}{by}")
    if batches is None:
        if asked not in (None, 1):
            raise ValueError(f"devices={asked} must be 1: this command computes on one device")
        return None
    for name, size in batches.items():
        if size % processes:
            raise ValueError(f"num_processes={processes} must divide {name}={size}")
    _join(arguments, processes)
    cores = _cpu_devices()
    fitting = _fitting(batches, processes, cores)[-1] if batches else 1
    start_cpu(min(cores, {None: fitting, "all": cores}.get(asked, asked)))
    return _mesh(asked, batches, processes)


def start_cpu(count: int) -> None:
    """Lets cores be `count` devices when JAX starts, with flags of XLA's that suit several.

    Args:
      count: how many. With 1, JAX starts as it would, unless there is only one core.
    """
    if count == 1 and cores() > 1:
        return
    if not _FORCED.search(os.environ.get("XLA_FLAGS", "")):
        try:
            jax.config.update("jax_num_cpu_devices", count)
        except RuntimeError:  # JAX runs already
            return
    set_core_flags()


def set_core_flags() -> None:
    """Sets what XLA reads when JAX starts, for devices that are cores."""
    # XLA's pool has NPROC threads, but at least one for each device, and would split operations
    # over them.
    os.environ.setdefault("NPROC", "1")
    flags = os.environ.get("XLA_FLAGS", "")
    more = [f"--{name}={value}" for name, value in _CORE_FLAGS.items() if name not in flags]
    os.environ["XLA_FLAGS"] = " ".join([flags, *more]).strip()


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def is_first() -> bool:
    """Whether this is the process that writes: the only one, or the first of several."""
    return not jax.distributed.is_initialized() or jax.process_index() == 0


def local(mesh: Mesh | None) -> Mesh | None:
    """The devices of a mesh that belong to this process; None: it has one."""
    devices = [] if mesh is None else list(mesh.local_devices)
    return data_mesh(devices) if len(devices) > 1 else None


def by_first(function: Callable[[], Any]) -> Any:
    """Calls a function in the first process, and returns in all processes what it returned there.

    Args:
      function: returns anything that JSON can hold. If there are several processes, all call
        `by_first`, and all wait for the first.

    Raises:
      ValueError, OSError: the function raised it; in the other processes, a `ValueError`.
    """
    if not jax.distributed.is_initialized():
        return function()
    outcome: dict[str, Any] = {}
    failure = None
    if is_first():
        try:
            outcome["returned"] = function()
        except (ValueError, OSError) as error:
            failure, outcome["refused"] = error, str(error)
    outcome = json.loads(_sent(json.dumps(outcome)))
    if failure is not None:
        raise failure
    if "refused" in outcome:
        raise ValueError(outcome["refused"])
    return outcome["returned"]


def end_with_all(code: int) -> None:
    """Ends this process at once if there are several: the others cannot go on without it.

    Args:
      code: the exit code.
    """
    if jax.distributed.is_initialized():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # else JAX would wait here for the others, and they in a step for us


def _processes(arguments) -> int:
    """How many processes there are; refuses options that do not belong together."""
    count, number = arguments.num_processes, arguments.process_id
    if arguments.coordinator is None:
        for name, value in (("num_processes", count), ("process_id", number)):
            if value is not None:
                raise ValueError(f"{name}={value} needs a coordinator: add --coordinator HOST:PORT")
        return max([int(count) for count, _ in _launched() if count], default=1)
    if not re.fullmatch(r".+:\d+", arguments.coordinator):
        raise ValueError(f"coordinator={arguments.coordinator!r} must be HOST:PORT")
    if count is None or number is None:
        missing = "num_processes" if count is None else "process_id"
        raise ValueError(f"coordinator={arguments.coordinator!r} needs --{missing}, too")
    at_least(1, num_processes=count)
    if not 0 <= number < count:
        raise ValueError(f"process_id={number} must be from 0 to {count - 1}")
    return count


def _launched() -> list[tuple[str | None, str | None]]:
    """What launchers tell this process: how many there are in all, and on each host."""
    signs = (names for sign, names in _LAUNCHERS.items() if sign in os.environ)
    return [(os.environ.get(count), os.environ.get(per_host)) for count, per_host in signs]


def _join(arguments, processes) -> None:
    """Joins the other processes, if there are any and that has not been done."""
    if processes == 1 or jax.distributed.is_initialized():
        return
    # JAX gives a process that was launched the accelerator of its number on the host, and one alone
    # would compute on the first only.
    alone = any(_ONE_PER_HOST.fullmatch(per_host or "") for _, per_host in _launched())
    jax.distributed.initialize(
        arguments.coordinator,
        arguments.num_processes,
        arguments.process_id,
        local_device_ids=[] if alone and "JAX_LOCAL_DEVICE_IDS" not in os.environ else None,
        heartbeat_timeout_seconds=_HEARTBEAT_SECONDS,
    )


def _cpu_devices() -> int:
    """How many CPU devices there are or can be: what the user has set for JAX, or the cores."""
    if jax.config.jax_num_cpu_devices >= 1:
        return jax.config.jax_num_cpu_devices
    forced = _FORCED.search(os.environ.get("XLA_FLAGS", ""))
    return int(forced[1]) if forced else cores()


def _mesh(asked, batches, processes) -> Mesh | None:
    """As many of the devices that there are as are asked for, or as can share the batches."""
    there = jax.local_device_count()
    fitting = _fitting(batches, processes, there)
    if asked is None:
        asked = fitting[-1]
    elif asked == "all":
        asked = there
    if asked > there:
        kind = jax.local_devices()[0].platform
        raise ValueError(f"devices={asked} must be at most the {there} {kind} devices here")
    if asked not in fitting:
        wrong = next(name for name, size in batches.items() if size % (asked * processes))
        times = f" times the {processes} processes" if processes > 1 else ""
        raise ValueError(
            f"devices={asked}{times} must divide {wrong}={batches[wrong]}; allowed are"
            f" {', '.join(map(str, fitting))}"
        )
    every = (jax.local_devices(process_index=number)[:asked] for number in range(processes))
    devices = [device for each in every for device in each]
    return data_mesh(devices) if len(devices) > 1 else None


def _fitting(batches, processes, most) -> list[int]:
    """All numbers of devices per process that can share the batches, up to `most`."""
    counts = range(1, most + 1)
    return [n for n in counts if not any(size % (n * processes) for size in batches.values())]


def _sent(text: str) -> str:
    """The text of the first process, in all of them."""
    from jax.experimental import multihost_utils

    data = np.frombuffer(text.encode(), np.uint8)
    size = int(multihost_utils.broadcast_one_to_all(np.int32(len(data))))
    room = np.zeros(max(_LEAST_BYTES, 1 << (size - 1).bit_length()), np.uint8)
    if is_first():
        room[:size] = data
    return bytes(np.asarray(multihost_utils.broadcast_one_to_all(room))[:size]).decode()
