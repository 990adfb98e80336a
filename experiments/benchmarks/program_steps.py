"""The sequential steps of a compiled program: turns of its innermost loops.

The text of the optimised program says which operations are in which loops, and the profiler how
often they ran.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

_LINE = re.compile(r"^ *(?:ROOT )?%(\S+) = (?:\(.*?\)|\S+) ([\w-]+)\([^)]*\)(.*)$")
_RUNS = re.compile(r"(?:calls|to_apply|true_computation|false_computation)=%([\w.-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_BODY = re.compile(r"body=%([\w.-]+)")
_WHILE = re.compile(r'op_name="(?:[^"]*/)?while"')  # a loop of ours, not one that XLA makes itself


def compile_to_count(function: Callable[..., Any], *arguments: Any) -> jax.stages.Compiled:
    """Compiles a function for the CPU so that all operations of its runs are seen.

    XLA:CPU would otherwise make one operation of a small loop.
    """
    lowered = jax.jit(function).lower(*arguments)
    return lowered.compile({"xla_disable_hlo_passes": "small-while-loop-hoisting"})


def steps_of_a_run(compiled: jax.stages.Compiled, *arguments: Any) -> int:
    """Runs a program, and counts its sequential steps: turns of loops that hold no other loop.

    Args:
      compiled: the program, from `compile_to_count`.
      *arguments: as it takes them.

    Returns:
      The turns of loops that the program was written with; XLA makes others, such as for scatters.
    """
    computations = _computations(compiled.as_text())
    times = _times(lambda: compiled(*arguments))
    return sum(max(times[name] for name in body) for body in _innermost_loops(computations))


def _computations(text: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Of each computation in the text of a program its operations by name: what they are, and
    their attributes."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    operations: dict[str, tuple[str, str]] = {}
    for line in text.splitlines():
        if line.endswith("{") and line.startswith(("%", "ENTRY")):
            name = line.removeprefix("ENTRY ").split()[0].removeprefix("%")
            operations = found[name] = {}
        elif match := _LINE.match(line):
            name, operation, attributes = match.groups()
            operations[name] = operation, attributes
    return found


def _innermost_loops(computations) -> list[set[str]]:
    """The operations in the body of each loop that holds no other loop."""
    loops = {
        name: attributes
        for operations in computations.values()
        for name, (operation, attributes) in operations.items()
        if operation == "while" and _WHILE.search(attributes)
    }
    bodies = [_run_by(computations, _BODY.search(each)[1]) for each in loops.values()]
    return [body for body in bodies if body and not body & loops.keys()]


def _run_by(computations, name: str) -> set[str]:
    """The operations of a computation, of its branches and of what it calls."""
    found = set()
    for each, (_, attributes) in computations[name].items():
        found.add(each)
        branches = _BRANCHES.search(attributes)
        inside = re.findall(r"%([\w.-]+)", branches[1]) if branches else []
        for other in (*_RUNS.findall(attributes), *inside):
            found |= _run_by(computations, other)
    return found


def _times(run: Callable[[], Any]) -> Counter[str]:
    """How often each operation ran, by its name."""
    jax.block_until_ready(run())
    counted: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(run())
        for path in Path(folder).rglob("*.xplane.pb"):
            for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
                for line in plane.lines:
                    counted.update(event.name for event in line.events)
    return counted
