"""The examples in docstrings run, and print what they show.

An example is written as at Python's prompt (`>>>`), begins with its own imports and takes seconds.
"""

import ast
import doctest
import importlib
import pathlib
import textwrap

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PACKAGES = ("jaxgames", "solvers", "nets", "train")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for package in PACKAGES
    for path in sorted((ROOT / package).rglob("*.py"))
}
WITH_EXAMPLES = [name for name, path in MODULES.items() if ">>> " in path.read_text()]
# Their programs take long to compile, and other fast tests run the same.
LONG = (
    "jaxgames.check_game",
    "jaxgames.holdem.betting_graph",
    "jaxgames.holdem.hand_percentile",
    "solvers.approximate_best_response",
    "solvers.approximate_best_response.ismcts_br",
    "solvers.approximate_best_response.local_best_response",
    "solvers.holdem",
    "solvers.perfect_information.alphazero_search",
    "solvers.sampling.indexed_game",
    "solvers.scotland_yard.pimbot",
    "solvers.search",
    "train.alphazero_training",
    "train.best_response_training",
    "train.rl.a2c",
    "train.rl.environment",
)


def programs(docstring: str) -> list[str]:
    """Indented blocks of a docstring that are Python programs but not written with `>>>`."""
    blocks: list[list[str]] = [[]]
    for line in docstring.splitlines():
        if line.startswith("    "):
            blocks[-1].append(line)
        elif line.strip() and blocks[-1]:
            blocks.append([])
    texts = [textwrap.dedent("\n".join(block)) for block in blocks]
    return [text for text in texts if _is_program(text)]


def _is_program(text: str) -> bool:
    try:
        statements = ast.parse(text).body
    except SyntaxError:
        return False
    return any(
        isinstance(statement, ast.Import | ast.ImportFrom)
        or (isinstance(statement, ast.Assign | ast.Expr) and isinstance(statement.value, ast.Call))
        for statement in statements
    )


def test_programs_are_told_from_prose_and_equations():
    paragraphs = ["Head.", "    x = f(1)\n    y = x", "Then:", "    a = b + c", "    >>> f(1)"]
    assert programs("\n\n".join(paragraphs)) == ["x = f(1)\ny = x"]


@pytest.mark.parametrize("name", MODULES)
def test_every_program_in_a_docstring_is_an_example_that_runs(name):
    docstring = ast.get_docstring(ast.parse(MODULES[name].read_text())) or ""
    assert programs(docstring) == [], f"{MODULES[name]}: write the program as an example with >>>"


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in LONG else ()) for n in WITH_EXAMPLES]
)
def test_examples_print_what_they_show(name):
    module = importlib.import_module(name)
    tests = doctest.DocTestFinder().find(module, name, globs={})
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    for test in tests:
        runner.run(test, out=report.append, clear_globs=True)
    assert runner.tries > 0, f"{name} has >>> outside of docstrings"
    assert runner.failures == 0, "".join(report)
