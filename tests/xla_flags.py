"""Flags of XLA with which tests compile in less time."""

from importlib.metadata import version

# Most of a test's time is compilation, and XLA:CPU's older emitter takes half of it. From jaxlib
# 0.11 on it is gone, and a process that asks for it is aborted.
_HAS_OLDER_EMITTER = tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 11)
QUICK_COMPILATION = "--xla_cpu_use_fusion_emitters=false" if _HAS_OLDER_EMITTER else ""
