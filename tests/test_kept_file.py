"""Files of a run's checkpoint: what is damaged is noticed, said, and replaced."""

import dataclasses
import json

import pytest

from experiments.harness import kept_file
from experiments.harness.runs import Run, RunArguments


@dataclasses.dataclass(frozen=True)
class Piece:
    number: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    preset: str = "cpu"


def resumed(folder):
    arguments = Arguments(out=folder, resume=True)
    return Run(arguments, Piece(7.0), experiment="some", command="")


def cut(path):
    path.write_bytes(path.read_bytes()[:-12])


def other_digit(path):
    path.write_bytes(path.read_bytes().replace(b"1", b"2"))


def no_text(path):
    path.write_bytes(b"\xff" * 20)


def empty(path):
    path.write_bytes(b"")


DAMAGES = [cut, other_digit, no_text, empty]


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "folder" / "file.json"
    with pytest.raises(FileNotFoundError):
        kept_file.read(path)
    for content in ({"a": [0.1, None]}, ["two\nlines"], 3):
        kept_file.write(path, content)
        assert kept_file.read(path) == content


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_gives_way_to_the_one_before(tmp_path, damage):
    path = tmp_path / "file.json"
    for number in (0.5, 1.5):
        kept_file.write(path, [number])
    damage(path)
    with pytest.warns(UserWarning, match=f"^{path} is damaged: .*; going back to the one before"):
        assert kept_file.read(path) == [0.5]


def test_a_kill_between_two_versions_leaves_the_one_before(tmp_path):
    path = tmp_path / "file.json"
    for number in (0.5, 1.5):
        kept_file.write(path, [number])
    path.unlink()
    assert kept_file.read(path) == [0.5]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_piece_is_computed_again_if_its_copy_is_damaged_too(tmp_path, damage):
    computed = []

    def compute():
        computed.append(1)
        yield Piece(1.1)

    def kept():
        return resumed(tmp_path).kept("one", Piece, compute)

    first = kept()
    path = tmp_path / "checkpoint" / "one.json"
    damage(path)
    with pytest.warns(UserWarning, match=f"^{path} is damaged: .*; going back to"):
        assert kept() == first
    assert len(computed) == 1
    damage(path.with_name("one.json.before"))
    with pytest.warns(UserWarning, match="; it is computed again$"):
        assert kept() == first
    assert len(computed) == 2
    assert kept() == first
    assert len(computed) == 2


def test_a_damaged_config_does_not_let_another_preset_in(tmp_path):
    resumed(tmp_path)
    path = tmp_path / "checkpoint" / "config.json"
    cut(path)
    with pytest.warns(UserWarning, match="config.json is damaged"):
        resumed(tmp_path)
    with (
        pytest.warns(UserWarning, match="config.json is damaged"),
        pytest.raises(ValueError, match="holds a run of another preset"),
    ):
        Run(Arguments(out=tmp_path, resume=True), Piece(8.0), experiment="some", command="")
    cut(path.with_name("config.json.before"))
    with pytest.raises(ValueError, match=r"config.json is damaged: .*; .*before is damaged"):
        resumed(tmp_path)


def test_files_are_json_for_people(tmp_path):
    kept_file.write(tmp_path / "file.json", {"number": 1})
    text = (tmp_path / "file.json").read_text().splitlines()[0]
    assert json.loads(text) == {"number": 1}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inner:
    width: int
    depth: int = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outer:
    inner: Inner
    start: str = ""


@pytest.mark.parametrize(
    ("kept", "refused"),
    [
        ({"inner": {"width": 8, "depth": 3}, "start": ""}, ""),
        ({"inner": {"width": 8}}, ""),  # both defaults are new since then
        ({"inner": {"width": 8, "depth": 4}}, "inner"),
        ({"inner": {"depth": 3}}, "inner"),
        ({"inner": {"width": 8, "gone": 1}}, "inner"),
        ({"inner": {"width": 8}, "gone": 1}, "gone"),
        ({"inner": {"width": 8}, "start": "x"}, "start"),
    ],
)
def test_new_fields_of_a_config_count_as_their_defaults(tmp_path, kept, refused):
    path = tmp_path / "checkpoint" / "config.json"
    kept_file.write_once(path, kept)

    def resume():
        config = Outer(inner=Inner(width=8))
        Run(Arguments(out=tmp_path, resume=True), config, experiment="some", command="")

    if refused:
        with pytest.raises(ValueError, match=f"differs in {refused}: use another --out"):
            resume()
        assert kept_file.read(path) == kept
    else:
        resume()
        assert kept_file.read(path) == {"inner": {"width": 8, "depth": 3}, "start": ""}
