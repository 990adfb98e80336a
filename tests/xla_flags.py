"""Flags of XLA with which tests compile in less time."""

from importlib.metadata import version

# Most of a test's time is compilation, and XLA:CPU's older emitter takes half of it. From jaxlib
# 0.11 on it is gone, and a process that asks for it is aborted. Each worker has one core: programs
# are not split into parts for several.
_HAS_OLDER_EMITTER = tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11)
_OLDER_EMITTER = ("--xla_cpu_use_fusion_emitters=false",) if _HAS_OLDER_EMITTER else ()
QUICK_COMPILATION = " ".join((*_OLDER_EMITTER, "--xla_cpu_parallel_codegen_split_count=1"))
