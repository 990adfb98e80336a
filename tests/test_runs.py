"""Folders of runs: whose they are, and when they are refused."""

import dataclasses
import os
import subprocess
import sys

import pytest

from experiments.harness import runs
from experiments.harness.folder_lock import FolderLock
from experiments.harness.runs import Run, RunArguments

TRIES = """
import pathlib, sys
from experiments.harness.folder_lock import FolderLock
try:
    FolderLock(pathlib.Path(sys.argv[1]))
except ValueError as error:
    print(error)
"""


@dataclasses.dataclass(frozen=True)
class Settings:
    number: int = 7


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arguments(RunArguments):
    preset: str = "cpu"


def begin(folder, **options):
    return Run(Arguments(out=folder, **options), Settings(), experiment="some", command="")


def refusal(folder):
    """What another process is told that wants the folder."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-c", TRIES, str(folder)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_finished_run_is_not_resumed(tmp_path):
    begin(tmp_path).finish([], measure="nothing")
    before = (tmp_path / "result.json").read_bytes()
    with pytest.raises(ValueError, match="holds a run that is finished: use another --out, or"):
        begin(tmp_path, resume=True)
    assert (tmp_path / "result.json").read_bytes() == before
    begin(tmp_path, overwrite=True).finish([], measure="nothing")


def test_a_run_whose_result_is_written_but_whose_checkpoint_is_there_goes_on(tmp_path):
    run = begin(tmp_path)
    (tmp_path / "result.json").write_text("{}")
    assert begin(tmp_path, resume=True).checkpoint == run.checkpoint


def test_another_process_cannot_use_the_folder_of_a_run(tmp_path):
    run = begin(tmp_path)
    assert refusal(tmp_path).startswith(f"{tmp_path} is in use by another process, perhaps by")
    again = begin(tmp_path, resume=True)  # this process can
    run.finish([], measure="nothing")
    del again
    assert refusal(tmp_path) == ""


def test_a_lock_ends_with_its_life(tmp_path):
    first = FolderLock(tmp_path)
    second = FolderLock(tmp_path)
    del first
    assert "in use" in refusal(tmp_path)
    del second
    third, fourth = FolderLock(tmp_path), FolderLock(tmp_path)
    third.release()
    assert "in use" in refusal(tmp_path)
    del fourth
    assert refusal(tmp_path) == ""
    assert [*tmp_path.iterdir()] == []


def test_who_cannot_resume_is_not_told_to(tmp_path):
    (tmp_path / "a.csv").write_text("precious")
    for resume, told in ((False, "add --resume to continue it or --over"), (None, "add --overw")):
        with pytest.raises(ValueError, match=told):
            runs.prepare(tmp_path, files=("a.csv",), resume=resume, overwrite=False)
    assert (tmp_path / "a.csv").read_text() == "precious"
