"""The parts of the slow tests that continuous integration runs by turns."""

import argparse

import pytest
from slow_part import parse_part, part


@pytest.mark.parametrize(("count", "parts"), [(174, 40), (40, 40), (7, 40), (0, 3)])
def test_parts_are_all_tests_once(count, parts):
    items = list(range(count))
    each = [part(items, number, parts) for number in range(parts)]
    assert [item for chosen in each for item in chosen] == items
    assert max(map(len, each)) - min(map(len, each)) <= 1


def test_numbers_of_parts():
    assert parse_part("3/40") == (3, 40)
    for text in ("40/40", "3", "-1/40", "a/b"):
        with pytest.raises(argparse.ArgumentTypeError, match=r"allowed: K/N with 0 <= K < N"):
            parse_part(text)
