"""What a compiled program does when it runs: kernels, steps, bytes, floating-point operations.

The text of the optimised program says what each of its operations costs, and the profiler how often
it ran. A cost analysis by XLA itself counts the body of a loop once.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax

# They run other operations, or say where data lie.
_NO_KERNELS = {"while", "conditional", "call", "tuple", "get-tuple-element", "parameter"}
_NO_KERNELS |= {"constant", "bitcast", "async-start", "async-done", "after-all"}
_ARITHMETIC = {"add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "negate"}
_ARITHMETIC |= {"exponential", "log", "sqrt", "rsqrt", "tanh", "reduce"}
_BYTES = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2}
_BYTES |= {"s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8}

_LINE = re.compile(r"^ *(?:ROOT )?%(\S+) = (\(.*?\)|\S+) ([\w-]+)\(([^)]*)\)(.*)$")
_ARRAY = re.compile(r"(\w+)\[([\d,]*)\]")
_CALLS = re.compile(r"calls=%(\S+?)[,\s}]")
_RUNS = re.compile(r"(?:calls|to_apply|true_computation|false_computation)=%([\w.-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_BODY = re.compile(r"body=%([\w.-]+)")
_WHILE = re.compile(r'op_name="(?:[^"]*/)?while"')  # a loop of ours, not one that XLA makes itself
_CONTRACTED = re.compile(r"lhs_contracting_dims=\{([\d,]*)\}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Costs:
    """What ran, one kernel after the other."""

    kernels: int
    bytes: int  # read and written, if every kernel reads its inputs from the memory
    operations: int  # of floating point

    def __sub__(self, other: Costs) -> Costs:
        return Costs(
            kernels=self.kernels - other.kernels,
            bytes=self.bytes - other.bytes,
            operations=self.operations - other.operations,
        )


def compile_to_count(function: Callable[..., Any], *arguments: Any) -> jax.stages.Compiled:
    """Compiles a function for the CPU so that all kernels of its runs are seen.

    XLA:CPU would otherwise make one kernel of a small loop.
    """
    lowered = jax.jit(function).lower(*arguments)
    return lowered.compile({"xla_disable_hlo_passes": "small-while-loop-hoisting"})


def costs_of_a_run(compiled: jax.stages.Compiled, *arguments: Any) -> Costs:
    """Runs a program, and adds up the costs of what ran.

    Args:
      compiled: the program, from `compile_to_count`.
      *arguments: as it takes them.

    Returns:
      The costs. Of an array that a kernel gathers from, or takes a slice of, only that part counts;
      of one that it updates in place, the update.
    """
    program = _Program(compiled.as_text())
    times = _times(lambda: compiled(*arguments), program.instructions)
    return Costs(
        kernels=times.total(),
        bytes=sum(count * program.bytes(name) for name, count in times.items()),
        operations=sum(count * program.operations(name) for name, count in times.items()),
    )


def steps_of_a_run(compiled: jax.stages.Compiled, *arguments: Any) -> int:
    """Runs a program, and counts its sequential steps: turns of loops that hold no other loop.

    Args:
      compiled: the program, from `compile_to_count`.
      *arguments: as it takes them.

    Returns:
      The turns of loops that the program was written with; XLA makes others, such as for scatters.
    """
    program = _Program(compiled.as_text())
    times = _times(lambda: compiled(*arguments), program.instructions)
    return sum(max(times[name] for name in body) for body in program.innermost_loops())


def _times(run: Callable[[], Any], instructions) -> Counter[str]:
    """How often each of the program's kernels ran."""
    jax.block_until_ready(run())
    counted: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(run())
        for path in pathlib.Path(folder).rglob("*.xplane.pb"):
            for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
                for line in plane.lines:
                    counted.update(event.name for event in line.events)
    return Counter(
        {
            name: count
            for name, count in counted.items()
            if name in instructions and instructions[name].opcode not in _NO_KERNELS
        }
    )


@dataclasses.dataclass(frozen=True)
class _Instruction:
    name: str
    shape: str
    opcode: str
    operands: tuple[str, ...]
    attributes: str
    is_root: bool


class _Program:
    """The instructions of a program's text, by name and by computation."""

    def __init__(self, text: str):
        self.instructions: dict[str, _Instruction] = {}
        self._computations: dict[str, list[_Instruction]] = {}
        computation: list[_Instruction] = []
        for line in text.splitlines():
            if line.endswith("{") and line.startswith(("%", "ENTRY")):
                name = line.removeprefix("ENTRY ").split()[0].removeprefix("%")
                computation = self._computations[name] = []
            elif match := _LINE.match(line):
                name, shape, opcode, operands, attributes = match.groups()
                instruction = _Instruction(
                    name,
                    shape,
                    opcode,
                    tuple(re.findall(r"%([^\s,]+)", operands)),
                    attributes,
                    line.lstrip().startswith("ROOT"),
                )
                self.instructions[name] = instruction
                computation.append(instruction)

    def innermost_loops(self) -> list[set[str]]:
        """The instructions in the body of each loop that holds no other loop."""
        loops = [each for each in self.instructions.values() if _is_loop(each)]
        bodies = [self._run_by(_BODY.search(each.attributes)[1]) for each in loops]
        names = {each.name for each in loops}
        return [body for body in bodies if body and not body & names]

    def _run_by(self, computation: str) -> set[str]:
        """The instructions of a computation, of its branches and of what it calls."""
        found = set()
        for each in self._computations[computation]:
            found.add(each.name)
            branches = _BRANCHES.search(each.attributes)
            inside = re.findall(r"%([\w.-]+)", branches[1]) if branches else []
            for name in (*_RUNS.findall(each.attributes), *inside):
                found |= self._run_by(name)
        return found

    def bytes(self, name: str) -> int:
        """Of one kernel."""
        each, inside = self.instructions[name], self._inside(name)
        return self._read(each, inside) + self._written(inside)

    def operations(self, name: str) -> int:
        """Of one kernel."""
        return sum(map(self._operations, self._inside(name)))

    def _inside(self, name):
        """The instructions of a kernel."""
        each = self.instructions[name]
        if each.opcode != "fusion":
            return [each]
        return self._computations[_CALLS.search(each.attributes + " ")[1]]

    def _read(self, each, inside):
        if each.opcode != "fusion":
            return sum(self._part(each, operand) for operand in {*each.operands})
        inputs = [x for x in inside if x.opcode == "parameter"]
        return sum(self._used(x.name, inside) for x in inputs)

    def _used(self, name, inside):
        """Bytes of an array that a fusion reads: at most all of it."""
        parts = 0
        for user in inside:
            if name in user.operands:
                bitcast = user.opcode in ("bitcast", "copy", "reshape") and not user.is_root
                parts += self._used(user.name, inside) if bitcast else self._part(user, name)
        return min(parts, _size(self.instructions[name].shape))

    def _part(self, user, name):
        """Bytes of an array that one instruction reads."""
        if user.opcode in ("dynamic-slice", "gather", "slice") and user.operands[0] == name:
            return _size(user.shape)
        if user.opcode in ("dynamic-update-slice", "scatter") and user.operands[0] == name:
            return 0
        return _size(self.instructions[name].shape)

    def _written(self, inside):
        root = next((x for x in inside if x.is_root), inside[-1])
        return self._put(root)

    def _put(self, root):
        if root.opcode == "tuple" and root.operands:
            return sum(self._put(self.instructions[name]) for name in root.operands)
        if root.opcode == "bitcast" and root.operands:
            return self._put(self.instructions[root.operands[0]])
        if root.opcode == "dynamic-update-slice":
            return _size(self.instructions[root.operands[1]].shape)
        if root.opcode == "scatter":
            return _size(self.instructions[root.operands[-1]].shape)
        return _size(root.shape)

    def _operations(self, each):
        if each.opcode == "dot":
            axes = [int(axis) for axis in _CONTRACTED.search(each.attributes)[1].split(",") if axis]
            lengths = _lengths(self.instructions[each.operands[0]].shape)
            return 2 * _elements(each.shape) * math.prod(lengths[axis] for axis in axes)
        if each.opcode not in _ARITHMETIC:
            return 0
        source = self.instructions[each.operands[0]] if each.opcode == "reduce" else each
        return _elements(source.shape) if _ARRAY.search(source.shape)[1].startswith("f") else 0


def _is_loop(each):
    return each.opcode == "while" and bool(_WHILE.search(each.attributes))


def _lengths(shape):
    return [int(length) for length in _ARRAY.search(shape)[2].split(",") if length]


def _elements(shape):
    return math.prod(_lengths(shape))


def _size(shape):
    """Bytes of an array, or of a tuple of arrays."""
    return sum(
        _BYTES.get(dtype, 0) * math.prod(int(length) for length in lengths.split(",") if length)
        for dtype, lengths in _ARRAY.findall(shape)
    )
