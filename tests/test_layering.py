"""The floors of the house: imports point down only, and importing does no work."""

import ast
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
BELOW = {
    "jaxgames": set(),
    "nets": {"jaxgames"},
    "solvers": {"jaxgames"},
    "train": {"jaxgames", "nets", "solvers"},
    "experiments": {"jaxgames", "nets", "solvers", "train"},
}


def imported_packages(source: str) -> set[str]:
    """Top-level packages that a module imports, at its head or inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("package", BELOW)
def test_imports_only_point_down(package):
    forbidden = {*BELOW, "tests", "pyspiel"} - BELOW[package] - {package}
    if package in ("jaxgames", "experiments"):  # adapters and comparisons
        forbidden -= {"pyspiel"}
    for path in (ROOT / package).rglob("*.py"):
        wrong = imported_packages(path.read_text()) & forbidden
        assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"


def test_imports_are_found_everywhere():
    source = "import nets.torsos as t\ndef f():\n    from solvers import cfr\nfrom . import kuhn\n"
    assert imported_packages(source) == {"nets", "solvers"}


def test_imports_start_no_device():
    """No module makes arrays when imported: with a platform that does not exist it would fail."""
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for package in BELOW
        for path in sorted((ROOT / package).rglob("*.py"))
        if path.name != "__main__.py"
    ]
    assert "jaxgames.kuhn" in modules
    program = f"import importlib\nfor name in {modules}:\n    importlib.import_module(name)\n"
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "JAX_PLATFORMS": "no_such_platform"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
