"""A part of the slow tests, chosen by number: `pytest -m slow --slow-part 3/60`.

Slow tests run with all of XLA's optimisations, fast ones without; so continuous integration also
runs one part of the slow ones, chosen by the commit (`make test-slow-part`). Tests that say how
many minutes they take, as `@pytest.mark.slow(minutes=20)`, are in no part: `make test-slow` runs
them.
"""

import argparse
import re


def parse_part(text: str) -> tuple[int, int]:
    """Reads `K/N`, a part's number, from 0 on, and how many parts there are."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or int(match[1]) >= int(match[2]):
        message = f"{text!r}; allowed: K/N with 0 <= K < N, for example 3/60"
        raise argparse.ArgumentTypeError(message)
    return int(match[1]), int(match[2])


def part(items: list, number: int, parts: int) -> list:
    """The items of one part: neighbours, so that they share files, fixtures and programs."""
    return items[number * len(items) // parts : (number + 1) * len(items) // parts]


def add_option(parser) -> None:
    """Adds `--slow-part`."""
    text = "run only the K-th of N parts of the slow tests that are about a minute long at most"
    parser.addoption("--slow-part", type=parse_part, metavar="K/N", help=text)


def choose(config, items: list) -> None:
    """Keeps the tests of the part that was asked for; all tests if none was."""
    if config.option.slow_part is None:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    short = [item for item in slow if not item.get_closest_marker("slow").kwargs.get("minutes")]
    chosen = part(short, *config.option.slow_part)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen
