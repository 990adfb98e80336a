"""What the benchmarks measure with: clocks, repeated samples, peak memory, memory bandwidth."""

from __future__ import annotations

import os
import pathlib
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jax.sharding import Mesh


class Clock:
    """Times one stretch of work, and how many cores this process and all others kept busy.

    Args:
      helpers: the numbers of processes whose work counts as this one's.
    """

    def __init__(self, helpers: Sequence[int] = ()):
        self._helpers = helpers
        self._others = _busy_seconds()
        self._own = self._own_seconds()
        self._begin = time.perf_counter()

    def seconds(self) -> float:
        """Wall time so far."""
        return time.perf_counter() - self._begin

    def sample(self, count: int) -> dict[str, float]:
        """The rate of `count` units of work since the start, and the cores that were busy.

        Returns:
          `rate` in units per second; `cores` and `others`, the mean numbers of cores that this
          process and all other processes kept busy.
        """
        seconds, own = self.seconds(), self._own_seconds() - self._own
        others = max(_busy_seconds() - self._others - own, 0.0)
        return {"rate": count / seconds, "cores": own / seconds, "others": others / seconds}

    def _own_seconds(self):
        return time.process_time() + sum(map(_core_seconds, self._helpers))


def mesh_of_cores(count: int) -> Mesh | None:
    """Starts JAX on as many devices as there are cores to measure on, as commands do.

    Args:
      count: how many; 1: one device, which has the threads of all cores.

    Returns:
      The devices; None: there is one, or an accelerator is used, where cores are not devices.
    """
    import jax

    from experiments.harness import devices
    from train.data_sharding import data_mesh

    jax.config.update("jax_num_cpu_devices", count)
    devices.start_cpu(count)
    return data_mesh() if count > 1 and jax.device_count() == count else None


def sample_searches(
    search: Callable[[int], Any], batch: int, job: dict[str, Any]
) -> tuple[Any, list[dict[str, float]]]:
    """Times `search(0)`, `search(1)`, ..., each of which makes `batch` searches.

    Args:
      search: takes the sample's number.
      batch: the number of searches that one call makes.
      job: `repeats` samples are taken; after `sampling_seconds` two are enough.

    Returns:
      The result of `search(0)`, and the samples of `Clock`.
    """
    import jax

    samples: list[dict[str, float]] = []
    begin = Clock()

    def sample(number):
        clock = Clock()
        result = jax.block_until_ready(search(number))
        samples.append(clock.sample(batch))
        return result

    first = sample(0)
    while len(samples) < job["repeats"]:
        if len(samples) >= 2 and begin.seconds() > job["sampling_seconds"]:
            break
        sample(len(samples))
    return first, samples


def samples_of_turns(
    turns: Iterator[Any], amount: int, *, seconds: float
) -> Iterator[dict[str, float]]:
    """Times the first of some turns of work, and then samples of several turns each.

    Args:
      turns: each is under way when it is given.
      amount: units of work in a turn.
      seconds: about how long a sample takes.

    Yields:
      First `compile_seconds`, those of the first turn; then samples of `Clock`. Nothing is under
      way between two of them, so that another process can be measured.
    """
    import jax

    clock = Clock()
    jax.block_until_ready(next(turns))
    yield {"compile_seconds": round(clock.seconds(), 3)}
    clock = Clock()
    jax.block_until_ready(next(turns))
    count = max(1, round(seconds / clock.seconds()))
    while True:
        next(turns)  # so that a turn is under way when the sample begins, as it is when it ends
        clock = Clock()
        for _ in range(count):
            running = next(turns)
        sample = clock.sample(count * amount)
        jax.block_until_ready(running)
        yield sample


def long_enough(
    measured: Callable[[int], float], seconds: float, *, first: int = 1
) -> tuple[int, float]:
    """Doubles a number of turns until they take at least `seconds`.

    Args:
      measured: makes as many turns as its argument says and returns the seconds that they took.
      seconds: the least that the last measurement takes.
      first: the first number of turns.

    Returns:
      The last number of turns, and its seconds.
    """
    count = first
    while (spent := measured(count)) < seconds:
        count *= 2
    return count, spent


def seconds_per_turn(
    run: Callable[[Any], Any], *, seconds: float, most: int | None = None
) -> float:
    """Seconds of each of the turns that `run(count)` makes, without what it costs to make none.

    Args:
      run: makes as many turns as its argument, a traced int32, says.
      seconds: how long one of the three measurements takes, or about half of that.
      most: the largest number of turns that `run` can make at once; None for no limit.

    Returns:
      The shortest of three measurements, per turn.
    """
    import jax
    import jax.numpy as jnp

    def measured(count):
        clock = Clock()
        jax.block_until_ready(run(jnp.int32(count)))
        return clock.seconds()

    measured(0)  # compiles

    def least(count):
        return min(measured(count) for _ in range(3))

    none, count = least(0), 1
    while (spent := least(count) - none) < seconds / 2 and (most is None or 2 * count <= most):
        count *= 2
    return spent / count


def peak_memory() -> float:
    """Peak resident memory of this process so far, in MiB.

    On Linux it is read from /proc: `ru_maxrss` of a parent process is passed on to its children.
    """
    try:
        for line in pathlib.Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**10
    except OSError:
        pass
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def bandwidth(num_bytes: int, *, seconds: float = 0.2) -> float:
    """Bytes per second that a compiled `x = a x + y` moves on two arrays of `num_bytes` together.

    The best of five measurements, as in STREAM (McCalpin 1995). Small arrays stay in the caches.
    """
    import jax
    import jax.numpy as jnp

    @jax.jit
    def triad(x, y, count):
        return jax.lax.fori_loop(0, count, lambda _, x: jnp.float32(0.5) * x + y, x)

    def measured(count):
        clock = Clock()
        jax.block_until_ready(triad(x, x, count))
        return clock.seconds()

    x = jnp.ones(max(num_bytes // 8, 1), jnp.float32)
    measured(0)  # compiles
    count, _ = long_enough(measured, seconds / 2)
    return 3 * x.nbytes * count / min(measured(count) for _ in range(5))


def _core_seconds(process: int) -> float:
    """Core-seconds that a running process has used; 0 where its /proc/PID/stat is missing."""
    try:
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _busy_seconds() -> float:
    """Core-seconds that the whole machine has been busy since its start; 0 where /proc/stat is
    missing."""
    try:
        fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return 0.0
    user, nice, system, _, _, irq, soft_irq, stolen = map(int, fields)
    return (user + nice + system + irq + soft_irq + stolen) / os.sysconf("SC_CLK_TCK")
