"""The command line and what it leaves on disk: numbers, resuming, nothing half-written."""

import csv
import dataclasses
import errno
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections import namedtuple

import jax
import numpy as np
import pytest

from experiments import benchmarks, cli, compilation_cache, registry
from experiments.commands import solve
from experiments.harness import plots, results
from experiments.harness.experiment import Command
from experiments.harness.interrupts import termination_interrupts
from experiments.tabular import cfr_convergence, measured_solve
from jaxgames import registered
from solvers import checkpoint
from solvers.registry import SOLVERS

SCHEMA = {  # of every result
    "experiment": str,
    "preset": str,
    "config": dict,
    "commit": str,
    "versions": dict,
    "device": str,
    "command": str,
    "wall_seconds": float,
    "peak_memory_gib": float,
    "load_average": list,
    "cores": int,
    "commits": list,
    "deviations": list,
    "numbers": list,
}
NUMBER = {"name", "value", "low", "high", "unit", "paper", "seeds"}


def run(command, folder):
    """Exit code of a command line; OUT stands for the folder."""
    return cli.main([str(folder) if word == "OUT" else word for word in shlex.split(command)])


def read(folder):
    result = results.read_result(folder / "result.json")
    with open(folder / "curve.csv", newline="") as file:
        return {number.name: number for number in result.numbers}, [*csv.DictReader(file)]


def snapshot(folder):
    return {
        path: path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))
    }


@pytest.fixture(scope="module")
def kuhn(tmp_path_factory):
    """A finished solve of 500 iterations; tests must not change it."""
    folder = tmp_path_factory.mktemp("kuhn")
    assert run("solve kuhn_poker --iterations 500 --out OUT", folder) == 0
    return folder


def test_result_follows_the_schema(kuhn):
    result = json.loads((kuhn / "result.json").read_text())
    assert {key: type(value) for key, value in result.items()} == SCHEMA
    assert all(set(number) == NUMBER for number in result["numbers"])
    assert result["experiment"] == "solve"
    assert result["config"]["game"] == "kuhn_poker"
    assert (
        result["command"] == f"python -m experiments solve kuhn_poker --iterations 500 --out {kuhn}"
    )
    assert result["versions"]["jax"] == jax.__version__


def test_solve_measures_what_it_says(kuhn):
    numbers, curve = read(kuhn)
    assert numbers["value"].value == pytest.approx(-1 / 18, abs=1e-3)
    assert numbers["value"].paper == -1 / 18
    assert numbers["exploitability"].value == pytest.approx(0.000172697, rel=1e-2)  # OpenSpiel's
    assert numbers["exploitability"].paper == 0.000172697
    assert numbers["nash_conv"].value == 2 * numbers["exploitability"].value
    assert numbers["num_information_states"].value == 12
    assert numbers["num_histories"].value == 58
    assert numbers["num_public_states"].value == 11  # 2 deals, 4 decisions, 5 ends
    assert numbers["iterations_per_second"].value > 0
    assert numbers["compile_seconds"].value > 0
    assert [int(row["iteration"]) for row in curve[:10]] == [1, 2, 3, 4, 5, 6, 8, 10, 12, 16]
    assert int(curve[-1]["iteration"]) == numbers["iterations"].value == 500
    assert float(curve[-1]["exploitability"]) == numbers["exploitability"].value
    assert (kuhn / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_policy_can_be_read_by_people(kuhn):
    with open(kuhn / "policy.csv", newline="") as file:
        rows = [*csv.DictReader(file)]
    assert len(rows) == 24
    policy = {(row["history"], row["action"]): float(row["probability"]) for row in rows}
    assert policy["deal 2 | deal {0,1} | pass | bet", "bet"] > 0.99  # calls with the king
    assert policy["deal {1,2} | deal 0 | bet", "pass"] > 0.99  # folds the jack
    assert policy["deal {0,2} | deal 1 | bet", "bet"] == pytest.approx(1 / 3, abs=0.02)
    exact = np.load(kuhn / "policy.npz")
    assert exact["player_0"].shape == exact["player_1"].shape == (6, 2)
    np.testing.assert_allclose(exact["player_0"].sum(axis=1), 1, rtol=1e-5)


def test_moves_that_a_player_cannot_see_are_listed(tmp_path):
    command = "solve goofspiel(cards=3,points=descending) --iterations 1 --out OUT"
    assert run(command.replace("(", "'(").replace(")", ")'"), tmp_path) == 0
    with open(tmp_path / "policy.csv", newline="") as file:
        histories = {row["history"] for row in csv.DictReader(file)}
    assert any("bid {1,2}" in history for history in histories)  # lost to a 3
    assert "bid 3 | bid {1,2}" in histories  # won with a 3, not known against what


def interrupt_at(monkeypatch, module, iteration, number=signal.SIGINT):
    """Sends a signal, as Ctrl-C does, once when a run reports `iteration` iterations or more."""
    progress, pressed = module.progress, []

    class Pressing:
        def __init__(self, *arguments):
            self.bar = progress(*arguments)

        def __enter__(self):
            report = self.bar.__enter__()

            def pressing(made, *numbers):
                report(made, *numbers)
                if made >= iteration and not pressed:
                    pressed.append(made)
                    signal.raise_signal(number)

            return pressing

        def __exit__(self, *error):
            return self.bar.__exit__(*error)

    monkeypatch.setattr(module, "progress", Pressing)
    return pressed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_python_only_prints_comes_again(number):
    """As in a callback of the collector, of which JAX has one."""

    class Garbage:
        def __del__(self):
            signal.raise_signal(number)

    def interrupted():
        with termination_interrupts():
            Garbage()
            time.sleep(20)

    hook = sys.unraisablehook
    # what a shell starts in the background ignores SIGINT
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        signal.signal(signal.SIGINT, handler)
    assert sys.unraisablehook is hook


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_was_interrupted_resumes_to_the_same_numbers(
    kuhn, tmp_path, monkeypatch, capfd, number
):
    handler, advance = signal.getsignal(number), measured_solve._advance
    timed = lambda prepared, state, n: (advance(prepared, state, n)[0], 0.001 * n)  # noqa: E731
    monkeypatch.setattr(measured_solve, "_advance", timed)
    pressed = interrupt_at(monkeypatch, solve, 30, number)
    out = tmp_path / "a folder"
    assert run("solve kuhn_poker --iterations 500 --overwrite --out OUT", out) == 130
    assert 30 <= pressed[0] < 500
    assert signal.getsignal(number) is handler
    assert [path.name for path in out.iterdir()] == ["checkpoint"]
    said = capfd.readouterr().err.splitlines()
    command = f"python -m experiments solve kuhn_poker --iterations 500 --out '{out}' --resume"
    assert said[-1] == f"resume with: {command}"
    assert f"stopped after {pressed[0]} iterations" in said[-2]

    assert cli.main(shlex.split(command)[3:]) == 0
    ours, our_curve = read(out)
    whole, whole_curve = read(kuhn)
    for name in ("exploitability", "nash_conv", "value", "iterations"):
        assert ours[name] == whole[name]
    for row in our_curve:  # those before the interruption count, too
        assert float(row.pop("seconds")) == pytest.approx(0.001 * int(row["iteration"]))
    for row in whole_curve:
        assert float(row.pop("seconds")) > 0
    assert our_curve == whole_curve
    assert (out / "policy.csv").read_text() == (kuhn / "policy.csv").read_text()


def test_a_finished_run_goes_on_for_more_iterations(kuhn, tmp_path):
    out = shutil.copytree(kuhn, tmp_path / "copy")
    assert run("solve kuhn_poker --iterations 1000 --resume --out OUT", out) == 0
    numbers, curve = read(out)
    assert numbers["iterations"].value == 1000
    assert numbers["exploitability"].value == pytest.approx(8.73653e-05, rel=2e-2)  # OpenSpiel's
    assert [row["iteration"] for row in curve].count("500") == 1


def test_target_stops_early_or_fails(tmp_path, capfd):
    assert run("solve kuhn_poker --target 0.02 --out OUT", tmp_path) == 0
    numbers, curve = read(tmp_path)
    assert numbers["exploitability"].value < 0.02 < float(curve[-2]["exploitability"])
    capfd.readouterr()
    assert run("solve kuhn_poker --target 1e-9 --iterations 9 --overwrite --out OUT", tmp_path) == 1
    assert "not below the target" in capfd.readouterr().err


def test_evaluation_at_intervals_and_in_double_precision(tmp_path):
    command = "solve kuhn_poker --every 7 --iterations 20 --dtype float64 --out OUT"
    assert run(command, tmp_path) == 0
    numbers, curve = read(tmp_path)
    assert [row["iteration"] for row in curve] == ["7", "14", "20"]
    assert numbers["exploitability"].value == pytest.approx(0.010109, rel=1e-5)  # OpenSpiel's
    assert np.load(tmp_path / "policy.npz")["player_0"].dtype == np.float64
    assert not jax.config.jax_enable_x64 or os.environ.get("JAX_ENABLE_X64")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("sovle kuhn_poker --out OUT", "unknown command 'sovle'; did you mean 'solve'?"),
        ("solve leduc_pocker --out OUT", "unknown game 'leduc_pocker'; did you mean 'leduc_poker'"),
        ("solve kuhn_poker --solver cfrplus --out OUT", "did you mean 'cfr_plus'?"),
        ("solve kuhn_poker --solver 'dcfr(alfa=1)' --out OUT", "did you mean 'alpha'?"),
        ("solve 'kuhn_poker(players=1)' --out OUT", "players=1 must be between 2 and 10"),
        ("solve efg:missing.efg --out OUT", "missing.efg"),
        ("solve kuhn_poker --iterations 0 --out OUT", "iterations=0 must be at least 1"),
        ("solve kuhn_poker --every 0 --out OUT", "every=0 must be at least 1"),
        ("solve kuhn_poker --target -1 --out OUT", "target=-1.0 must be positive"),
        ("solve leduc_poker --max_histories 100 --out OUT", "more than the limit of 100"),
        ("solve kuhn_poker --resume --overwrite --out OUT", "exclude each other"),
        ("benchmark cfrr --out OUT", "unknown benchmark 'cfrr'; did you mean 'cfr'?"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(command, message, tmp_path, capfd):
    out = tmp_path / "out"
    assert run(command, out) == 2
    said = capfd.readouterr()
    *_, last = said.err.splitlines()
    assert last.startswith("error: ")
    assert message in last
    assert "Traceback" not in said.err
    assert not out.exists()


@pytest.mark.parametrize("arguments", ["", "solve kuhn_poker", "cfr_convergence --preset big"])
def test_command_lines_that_do_not_fit_exit_with_2(arguments, capfd):
    with pytest.raises(SystemExit) as stop:
        cli.main(shlex.split(arguments))
    assert stop.value.code == 2


@pytest.mark.parametrize("command", registry.COMMANDS)
def test_help_is_complete(command, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main([command, "--help"], program="jaxgames")
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: jaxgames {command} ")
    assert registry.COMMANDS[command].summary in text
    options = dataclasses.fields(registry.load(command).arguments)
    assert all(option.name in text for option in options if option.name not in ("game", "name"))


@pytest.mark.parametrize("program", ["jaxgames", "python -m experiments"])
def test_help_names_all_commands_and_the_program(program, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"], program=program)
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: {program} COMMAND")
    assert all(f"\n {name} " in text for name in registry.COMMANDS)


def test_the_console_command_is_the_command_line(monkeypatch, capsys):
    with open(results.ROOT / "pyproject.toml", "rb") as file:
        (entry,) = tomllib.load(file)["project"]["scripts"].items()
    assert entry == ("jaxgames", "experiments.cli:console")
    monkeypatch.setattr(sys, "argv", ["/somewhere/jaxgames", "solve", "--help"])
    with pytest.raises(SystemExit) as stop:
        cli.console()
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith("usage: jaxgames solve ")


@pytest.mark.slow
def test_commands_keep_compiled_programs_in_the_users_cache_folder(tmp_path):
    """The second of two equal runs reads all programs, writes none, and gives the same numbers."""
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"}
    environment |= {"XDG_CACHE_HOME": str(tmp_path / "cache")}

    def run(name, **more):
        words = f"-m experiments solve kuhn_poker --iterations 3 --out {tmp_path / name}"
        command = [sys.executable, *words.split()]
        done = subprocess.run(
            command, cwd=results.ROOT, env=environment | more, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        folder = tmp_path / "cache" / "jaxgames"
        kept = {file.name for file in folder.rglob("*") if file.name.endswith("-cache")}
        numbers = results.read_result(tmp_path / name / "result.json").numbers
        measured = {each.name: each.value for each in numbers if "second" not in each.name}
        return kept, measured, done.stderr

    none, measured, _ = run("off", JAX_ENABLE_COMPILATION_CACHE="0")
    first, cold, _ = run("first")
    second, warm, _ = run("second")
    assert not none
    assert first
    assert first == second
    assert measured == cold == warm
    (tmp_path / "file").touch()
    _, _, said = run("no_folder", XDG_CACHE_HOME=str(tmp_path / "file"))
    assert "compiled programs are not kept: " in said


def test_the_oldest_compiled_programs_are_deleted(tmp_path):
    for age, name in enumerate(("new", "middle", "old")):
        (tmp_path / name).write_bytes(bytes(10))
        os.utime(tmp_path / name, (100 - age, 100 - age))
    (tmp_path / "tuned").mkdir()  # XLA's own
    os.utime(tmp_path / "tuned", (1, 1))
    compilation_cache.prune(tmp_path, 20)
    assert {file.name for file in tmp_path.iterdir()} == {"new", "middle", "tuned"}


def test_records_name_the_module_and_messages_the_program(tmp_path, monkeypatch, capfd):
    def interrupted(arguments, *, command):
        assert command == f"python -m experiments solve kuhn_poker --out {tmp_path}"
        raise KeyboardInterrupt

    solve_command = Command(registry.load("solve").arguments, interrupted)
    monkeypatch.setattr(cli, "load", lambda name: solve_command)
    words = ["solve", "kuhn_poker", "--out", str(tmp_path)]
    assert cli.main(words, program="jaxgames") == 130
    said = capfd.readouterr().err.splitlines()
    assert said[-1] == f"resume with: jaxgames solve kuhn_poker --out {tmp_path} --resume"


def test_list_names_everything(capsys):
    assert cli.main(["list"]) == 0
    text = capsys.readouterr().out
    for name in (*registered(), *SOLVERS, *benchmarks.BENCHMARKS):
        assert name in text


def test_an_earlier_run_is_not_overwritten_by_accident(kuhn, capfd):
    before = snapshot(kuhn)
    assert run("solve kuhn_poker --out OUT", kuhn) == 2
    assert "add --resume to continue it or --overwrite" in capfd.readouterr().err
    assert snapshot(kuhn) == before


def test_a_file_in_the_way_of_the_folder_is_refused(tmp_path, capfd):
    (tmp_path / "file").write_text("kept")
    assert run("solve kuhn_poker --out OUT", tmp_path / "file" / "out") == 2
    assert "error: Not a directory" in capfd.readouterr().err
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("kuhn_poker --solver dcfr", "solver"),
        ("'kuhn_poker(players=3)'", "game"),
        ("kuhn_poker --dtype float64", "dtype"),
        ("kuhn_poker --iterations 3", "less than the 500 iterations"),
    ],
)
def test_a_checkpoint_of_another_solve_is_refused(options, message, kuhn, capfd):
    before = snapshot(kuhn)
    assert run(f"solve {options} --resume --out OUT", kuhn) == 2
    assert message in capfd.readouterr().err.splitlines()[-1]
    assert snapshot(kuhn) == before


def spoil(place):
    for path in [place] if place.is_file() else place.rglob("*"):
        if path.is_file() and path.stat().st_size > 20:
            path.write_bytes(path.read_bytes()[:-10])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_solve_goes_back_from_a_damaged_checkpoint_to_the_one_before(kuhn, tmp_path, capfd):
    whole = shutil.copytree(kuhn, tmp_path / "whole")
    assert run("solve kuhn_poker --iterations 1000 --resume --out OUT", whole) == 0
    out = shutil.copytree(whole, tmp_path / "copy")
    first, last = sorted((out / "checkpoint" / "state").iterdir())
    spoil(last)
    with pytest.warns(UserWarning, match=f"{last} is damaged: .*; going back to .*, {first}$"):
        assert run("solve kuhn_poker --iterations 1000 --resume --out OUT", out) == 0
    for name in ("policy.csv", "policy.npz"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    assert read(out)[0]["exploitability"] == read(whole)[0]["exploitability"]
    points = [[float(row["exploitability"]) for row in read(folder)[1]] for folder in (out, whole)]
    assert points[0] == points[1]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_checkpoint_with_nothing_to_go_back_to_is_refused(kuhn, tmp_path, capfd):
    out = shutil.copytree(kuhn, tmp_path / "copy")
    spoil(out / "checkpoint" / "state")
    assert run("solve kuhn_poker --iterations 500 --resume --out OUT", out) == 2
    assert "damaged" in capfd.readouterr().err.splitlines()[-1]


def full_disk(*arguments):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_leaves_files_as_they_were(tmp_path, monkeypatch):
    results.write_file(tmp_path / "result.json", "old")
    monkeypatch.setattr(results.os, "fsync", full_disk)
    with pytest.raises(OSError, match=r"No space left on device: .*result\.json"):
        results.write_file(tmp_path / "result.json", "new")
    assert snapshot(tmp_path) == {tmp_path / "result.json": b"old"}


@pytest.mark.parametrize("file", ["usage.json", "curve.csv", "curve.png", "policy.npz"])
def test_a_disk_that_gets_full_leaves_no_result(file, tmp_path, monkeypatch, capfd):
    replace = os.replace

    def filling(source, target):
        return full_disk() if os.path.basename(target) == file else replace(source, target)

    monkeypatch.setattr(results.os, "replace", filling)
    assert run("solve kuhn_poker --iterations 2 --out OUT", tmp_path) == 2
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith("error: No space left on device: ")
    assert last.endswith(file)
    left = {path.name for path in tmp_path.rglob("*")}
    assert not left & {file, "result.json"}
    assert not any(name.endswith(".tmp") for name in left)


def test_a_disk_too_full_for_a_checkpoint_is_told_in_one_line(tmp_path, monkeypatch, capfd):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(checkpoint.shutil, "disk_usage", lambda path: usage(1, 1, 0))
    assert run("solve kuhn_poker --iterations 2 --out OUT", tmp_path) == 2
    assert "error: No space left on device: " in capfd.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "checkpoint" / "state").exists()


def test_defects_keep_their_traceback(monkeypatch):
    monkeypatch.setattr(solve, "_solve", lambda *_, **__: np.zeros(2).reshape(3))
    with pytest.raises(ValueError, match="cannot reshape"):
        cli.main(["solve", "kuhn_poker", "--out", "nowhere"])


@pytest.mark.slow
def test_cfr_convergence_smoke(tmp_path):
    assert run("cfr_convergence --preset smoke --out OUT", tmp_path) == 0
    numbers, curve = read(tmp_path)
    config = cfr_convergence.PRESETS["smoke"]
    assert len(numbers) == len(config.games) * len(config.solvers)
    known = numbers["cfr_plus:kuhn_poker"]
    assert known.value == pytest.approx(known.paper, rel=1e-3)
    for solver in config.solvers:
        line = [r for r in curve if r["solver"] == solver and r["game"].startswith("kuhn")]
        assert len(line) == 18
        assert float(line[-1]["exploitability"]) < 0.1 * float(line[0]["exploitability"])
        assert float(line[-1]["seconds"]) == pytest.approx(
            100 * float(line[0]["seconds"]), rel=0.01
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "curve.csv",
        "curve.png",
        "result.json",
    ]


def test_cfr_convergence_resumes_to_the_same_numbers(tmp_path, monkeypatch, capfd):
    config = dataclasses.replace(
        cfr_convergence.PRESETS["smoke"],
        games={"Kuhn": "kuhn_poker"},
        solvers=("cfr_plus",),
        timing_seconds=1e-4,
    )
    monkeypatch.setitem(cfr_convergence.PRESETS, "smoke", config)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert run("cfr_convergence --preset smoke --out OUT", whole) == 0
    with monkeypatch.context() as patch:
        interrupt_at(patch, cfr_convergence, 40)
        assert run("cfr_convergence --preset smoke --out OUT", parts) == 130
    assert capfd.readouterr().err.splitlines()[-1].endswith("--resume")
    assert run("cfr_convergence --preset cpu --resume --out OUT", parts) == 2
    assert "another preset" in capfd.readouterr().err
    assert run("cfr_convergence --preset smoke --resume --out OUT", parts) == 0
    assert read(parts)[0] == read(whole)[0]


def test_presets_evaluate_where_they_compare():
    for config in cfr_convergence.PRESETS.values():
        point = 0
        while point < config.compared_at:
            point = measured_solve.next_log_spaced(point)
        assert point == config.compared_at <= config.iterations


def test_labels_move_apart():
    places = [0.0, 0.01, 0.5, 0.02, 2.0, 0.55]
    moved = plots._apart(places, 0.1)
    order = np.argsort(places)
    assert np.all(np.diff(np.asarray(moved)[order]) > 0.1 - 1e-9)
    assert sum(moved) == pytest.approx(sum(places))
    assert moved[4] == 2.0


def test_importing_is_cheap():
    program = (
        "import sys, experiments; assert not {'jax', 'tyro'} & set(sys.modules)\n"
        "import experiments.cli; assert not {'jax', 'matplotlib', 'orbax'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=results.ROOT)


@pytest.mark.slow
def test_ctrl_c_from_outside(tmp_path):
    command = [sys.executable, "-m", "experiments", "solve", "leduc_poker", "--iterations"]
    command += [str(10**8), "--out", str(tmp_path)]
    process = subprocess.Popen(command, cwd=results.ROOT, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "checkpoint" / "state").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "resume with: python -m experiments solve leduc_poker" in said
