"""The parts of the slow tests that continuous integration runs by turns."""

import argparse
import types

import pytest
import slow_part
from slow_part import parse_part, shares


@pytest.mark.parametrize("parts", [1, 3, 40, 1000])
def test_parts_are_all_tests_once(parts):
    marks = {"b": 7, "a": 20, "c": 1}
    ends = dict.fromkeys(marks, 0)
    for number in range(parts):
        sizes = []
        for name, (first, last) in shares(marks, number, parts).items():
            assert first == ends[name] < last
            ends[name] = last
            sizes.append((last - first) * marks[name])
        assert sum(sizes) * parts == 28
    assert ends == dict.fromkeys(marks, 1)


def test_only_files_of_a_part_are_read(monkeypatch, tmp_path):
    monkeypatch.setattr(slow_part, "_marks", lambda: {"test_a.py": 1, "test_b.py": 3})
    config = types.SimpleNamespace(option=types.SimpleNamespace(slow_part=(1, 4)))
    names = ["test_a.py", "test_b.py", "test_without.py", "conftest.py"]
    assert [slow_part.ignored(config, tmp_path / name) for name in names] == [
        True,
        None,
        True,
        None,
    ]
    config.option.slow_part = None
    assert slow_part.ignored(config, tmp_path / "test_a.py") is None


def test_numbers_of_parts():
    assert parse_part("3/40") == (3, 40)
    for text in ("40/40", "3", "-1/40", "a/b"):
        with pytest.raises(argparse.ArgumentTypeError, match=r"allowed: K/N with 0 <= K < N"):
            parse_part(text)
