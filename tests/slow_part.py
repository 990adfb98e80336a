"""A part of the slow tests, chosen by number: `pytest -m slow --slow-part 3/60`.

Slow tests run with all of XLA's optimisations, fast ones without; so continuous integration also
runs one part of the slow ones, chosen by the commit (`make test-slow-part`). Tests that say how
many minutes they take, as `@pytest.mark.slow(minutes=20)`, are in no part: `make test-slow` runs
them. Only the files of a part are imported, since that takes as long as its tests.
"""

import argparse
import functools
import pathlib
import re
from collections.abc import Mapping
from fractions import Fraction


def parse_part(text: str) -> tuple[int, int]:
    """Reads `K/N`, a part's number, from 0 on, and how many parts there are."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or int(match[1]) >= int(match[2]):
        message = f"{text!r}; allowed: K/N with 0 <= K < N, for example 3/60"
        raise argparse.ArgumentTypeError(message)
    return int(match[1]), int(match[2])


def shares(
    marks: Mapping[str, int], number: int, parts: int
) -> dict[str, tuple[Fraction, Fraction]]:
    """What a part has of each file: from which share of its slow tests to which.

    Args:
      marks: how many marks of slow tests the files have; parts have equally many.
      number: of the part.
      parts: how many there are.
    """
    begin, end = (Fraction(n * sum(marks.values()), parts) for n in (number, number + 1))
    before, found = 0, {}
    for name, count in sorted(marks.items()):
        first, last = max((begin - before) / count, Fraction(0)), min((end - before) / count, 1)
        if first < last:
            found[name] = first, Fraction(last)
        before += count
    return found


@functools.cache
def _marks():
    """How often each file says `mark.slow` without minutes."""
    files = pathlib.Path(__file__).parent.glob("test_*.py")
    marks = {x.name: len(re.findall(r"mark\.slow\b(?!\(minutes)", x.read_text())) for x in files}
    return {name: count for name, count in marks.items() if count}


def add_option(parser) -> None:
    """Adds `--slow-part`."""
    text = "run only the K-th of N parts of the slow tests that are about a minute long at most"
    parser.addoption("--slow-part", type=parse_part, metavar="K/N", help=text)


def ignored(config, path: pathlib.Path) -> bool | None:
    """Whether a file has nothing of the part that was asked for; None leaves it to pytest."""
    if config.option.slow_part is None or not path.name.startswith("test_"):
        return None
    return path.name not in shares(_marks(), *config.option.slow_part) or None


def choose(config, items: list) -> None:
    """Keeps the tests of the part that was asked for; all tests if none was."""
    if config.option.slow_part is None:
        return
    chosen = []
    for name, (first, last) in shares(_marks(), *config.option.slow_part).items():
        marked = (
            (item, item.get_closest_marker("slow")) for item in items if item.path.name == name
        )
        short = [item for item, slow in marked if slow and not slow.kwargs.get("minutes")]
        chosen += short[int(first * len(short)) : int(last * len(short))]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen
