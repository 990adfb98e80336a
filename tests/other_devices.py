"""Numbers of a test module, computed on several devices in a process of its own."""

import os
import pathlib
import subprocess
import sys

import numpy as np

TESTS = pathlib.Path(__file__).parent


def numbers(module, folder, *, devices, name="numbers"):
    """What a function of the module returns where there are this many devices."""
    program = f"import numpy, {module} as t; numpy.save('{folder}/it', t.{name}())"
    environment = os.environ | {
        "PYTHONPATH": f"{TESTS.parent}:{TESTS}",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
    }
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=600)
    return np.load(folder / "it.npy")
