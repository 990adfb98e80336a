"""Names and modules of a package, imported on first use, so that the package is cheap."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_exports(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package (PEP 562), which find its modules, too.

    Args:
      package: its `__name__`.
      modules: the module of each exported name, within the package. No name may be that of a
        module, which would hide it as soon as it is imported.

    Returns:
      The two functions, to be bound to these names in the package.
    """

    def get(name: str) -> Any:
        if name in modules:
            return getattr(importlib.import_module(f"{package}.{modules[name]}"), name)
        if name.startswith("_") or importlib.util.find_spec(f"{package}.{name}") is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return get, names
