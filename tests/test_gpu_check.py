"""Work that waits for a GPU: nothing runs twice, minutes are kept, and a kill loses one item."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import pytest
import tyro

from experiments import cli, registry
from experiments.benchmarks import BENCHMARKS, alphazero_programs, search_profile
from experiments.commands import gpu_check
from experiments.commands.gpu_items import ITEMS
from experiments.harness import item_queue, results
from experiments.harness.item_queue import OUT, Device, Item
from experiments.harness.limited_process import Ending
from experiments.harness.limited_process import run as run_limited

HERE = Device("cpu", "this machine")
HALF_HOUR = 30 - item_queue.GRACE / 60
# A program that says in a file when it has begun, and does the rest.
BEGIN = "import pathlib, signal, sys, time; out = pathlib.Path(sys.argv[1]);"
BEGIN += "out.mkdir(exist_ok=True); begun = out / 'begun';"
BEGIN += "begun.open('a').write('x');"
ENDLESS = "time.sleep(60)"
LESS_THAN_A_SLEEP = 50.0  # seconds, on a busy machine
# Three steps in files, of which each run makes one; Ctrl-C is exit code 130.
STEPS = """
steps = len([*out.glob('step*')])
(out / f'step{steps}').touch()
try:
    steps < 2 and time.sleep(60)
except KeyboardInterrupt:
    sys.exit(130)
"""


def item(name, program="", *, minutes=0.001, **fields):
    command = ("-c", BEGIN + "\n" + program, OUT)
    return Item(name=name, what=name, command=command, minutes=minutes, **fields)


def work_off(items, out, *, seconds=60.0, **options):
    deadline = time.monotonic() + seconds
    options = {"device": HERE, "grace": 2.0} | options
    ended = item_queue.work_off(items, out, deadline=deadline, **options)
    return [(record.name, record.state) for record in ended]


def runs(out, name):
    """How often an item has begun."""
    with contextlib.suppress(FileNotFoundError):
        return len((out / name / "begun").read_text())
    return 0


def record(out, name):
    return json.loads((out / f"{name}.json").read_text())


def test_each_item_runs_once_in_order_and_is_on_record(tmp_path):
    items = [item("first"), item("bad", "print('why'); sys.exit(3)"), item("last")]
    assert work_off(items, tmp_path) == [("first", "done"), ("bad", "failed"), ("last", "done")]
    begun = [(tmp_path / each.name / "begun").stat().st_mtime_ns for each in items]
    assert begun == sorted(begun)
    assert record(tmp_path, "first")["output"] == []
    bad = record(tmp_path, "bad")
    assert (bad["exit_code"], bad["output"]) == (3, ["why"])
    assert (bad["reason"], bad["device"]) == ("exit code 3", "this machine")
    assert (tmp_path / "bad.log").read_text() == "why\n"
    assert work_off(items, tmp_path) == []
    assert [runs(tmp_path, each.name) for each in items] == [1, 1, 1]


def test_failed_items_run_again_when_that_is_asked_for(tmp_path):
    items = [item("good"), item("bad", "sys.exit(begun.read_text() == 'x')")]
    work_off(items, tmp_path)
    assert work_off(items, tmp_path, retry=True) == [("bad", "done")]
    assert [runs(tmp_path, each.name) for each in items] == [1, 2]


def test_only_what_fits_into_the_minutes_is_started(tmp_path):
    items = [item("small"), item("large", minutes=2.0), item("other")]
    assert work_off(items, tmp_path) == [("small", "done"), ("other", "done")]
    assert work_off(items, tmp_path, seconds=122.0 + 10) == [("large", "done")]
    assert work_off([item("late")], tmp_path, seconds=2.0) == []  # grace takes all of it


def test_the_minutes_are_kept(tmp_path, monkeypatch):
    """However long an item may take, with the time to stop it all ends before the deadline."""
    times, said = [0.0], []

    def run(command, *, seconds, grace, log, **others):
        log.touch()
        said.append((times[0], seconds))
        times[0] += seconds + grace  # it takes all that it may
        return Ending(exit_code=130, seconds=seconds + grace, asked=True)

    monkeypatch.setattr(item_queue.time, "monotonic", lambda: times[0])
    monkeypatch.setattr(item_queue.limited_process, "run", run)
    items = [
        item("short", minutes=3.0),
        item("next", minutes=3.0),
        item("long", minutes=15.0),
        item("rest", minutes=2.0, resumable=True),
        item("nothing left"),
    ]
    ended = item_queue.work_off(items, tmp_path, deadline=25 * 60.0, device=HERE, grace=60.0)
    assert said == [(0.0, 6 * 60.0), (7 * 60.0, 6 * 60.0), (14 * 60.0, 10 * 60.0)]
    assert [record.name for record in ended] == ["short", "next", "rest"]
    assert times[0] == 25 * 60.0


def test_an_item_may_take_twice_its_minutes(tmp_path):
    begin = time.monotonic()
    endless = item("endless", f"print('hm', flush=True); {ENDLESS}", minutes=1.5 / 60)
    assert work_off([endless], tmp_path) == [("endless", "failed")]
    assert 3.0 <= time.monotonic() - begin < LESS_THAN_A_SLEEP
    assert record(tmp_path, "endless")["reason"] == "took more than 0.05 minutes"
    assert record(tmp_path, "endless")["output"][0] == "hm"
    assert work_off([endless], tmp_path) == []


def test_what_cannot_resume_starts_again_if_the_minutes_were_over(tmp_path):
    endless = item("endless", ENDLESS, minutes=1.5 / 60)
    for part in (1, 2):
        begin = time.monotonic()
        assert work_off([endless], tmp_path, seconds=4.0) == [("endless", "stopped")]
        assert time.monotonic() - begin < LESS_THAN_A_SLEEP
        assert runs(tmp_path, "endless") == part


def test_a_resumable_item_goes_on_until_it_is_done(tmp_path):
    """It takes all that is left, however few its own minutes are, and is stopped in time."""
    items = [item("steps", STEPS, resumable=True), item("after")]
    states = []
    while "done" not in states:
        begin = time.monotonic()
        states += [
            state for name, state in work_off(items, tmp_path, seconds=3.5) if name == "steps"
        ]
        assert time.monotonic() - begin < LESS_THAN_A_SLEEP
    assert states == ["stopped", "stopped", "done"]
    assert runs(tmp_path, "steps") == len([*(tmp_path / "steps").glob("step*")]) == 3
    assert record(tmp_path, "steps")["wall_seconds"] > 2.5  # of all parts
    assert runs(tmp_path, "after") == 1  # in what the last part had left


@pytest.mark.parametrize(
    ("program", "state"),
    [
        ("signal.signal(2, signal.SIG_IGN); time.sleep(60)", "stopped"),  # is killed
        ("signal.signal(2, lambda *_: sys.exit(1)); time.sleep(60)", "failed"),
        ("signal.signal(2, lambda *_: sys.exit(0)); time.sleep(60)", "done"),
        ("sys.exit(130)", "stopped"),  # somebody else has stopped it
        ("sys.exit(1)", "failed"),
    ],
)
def test_states_of_a_resumable_item(program, state, tmp_path):
    begin = time.monotonic()
    steps = item("steps", program, resumable=True)
    assert work_off([steps], tmp_path, seconds=3.0, grace=1.0) == [("steps", state)]
    assert time.monotonic() - begin < LESS_THAN_A_SLEEP


def test_an_item_is_killed_with_all_that_it_has_started(tmp_path):
    child = f"import subprocess; subprocess.Popen([sys.executable, '-c', 'import time; {ENDLESS}'])"
    program = f"{child}; (out / 'pid').write_text(str(_.pid)); {ENDLESS}"
    program = program.replace("subprocess.Popen", "_ = subprocess.Popen", 1)
    work_off([item("parent", program, resumable=True)], tmp_path, seconds=3.0)
    pid = int((tmp_path / "parent" / "pid").read_text())
    assert_ends(lambda: not is_alive(pid))


def is_alive(pid):
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        os.kill(pid, 0)
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def assert_ends(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


# A part in a process of its own, with the items "first" and "endless", and "after" them.
PART = """
import pathlib, sys, test_gpu_check as t
try:
    t.work_off(t.three_items(sys.argv[2]), pathlib.Path(sys.argv[1]))
except KeyboardInterrupt as stop:
    print(stop); sys.exit(130)
"""


def three_items(program):
    return [item("first"), item("endless", program, minutes=0.5), item("after")]


def part_in_a_process(out, program=ENDLESS):
    """A part, of which "endless" has begun."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PART, str(out), program]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert_ends(lambda: runs(out, "endless"))
    return process


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_what_another_call_goes_on_with(number, tmp_path):
    process = part_in_a_process(tmp_path)
    process.send_signal(number)
    said, _ = process.communicate(timeout=20)
    assert (process.returncode, said) == (130, "the same command goes on from here\n")
    assert record(tmp_path, "endless")["state"] == "stopped"
    assert not (tmp_path / "after.json").exists()
    ended = work_off(three_items(""), tmp_path)
    assert ended == [("endless", "done"), ("after", "done")]
    assert [runs(tmp_path, name) for name in ("first", "endless", "after")] == [1, 2, 1]


def test_a_kill_loses_only_the_item_that_runs(tmp_path):
    """The item lives on; until it has ended, another call is refused."""
    program = f"import os; (out / 'pid').write_text(str(os.getpid())); {ENDLESS}"
    process = part_in_a_process(tmp_path, program)
    assert_ends((tmp_path / "endless" / "pid").exists)
    process.kill()
    process.communicate(timeout=20)
    with pytest.raises(ValueError, match="in use by another process, perhaps by one that was left"):
        work_off(three_items(""), tmp_path)
    os.kill(int((tmp_path / "endless" / "pid").read_text()), signal.SIGKILL)
    assert_ends(lambda: not is_alive(int((tmp_path / "endless" / "pid").read_text())))
    assert work_off(three_items(""), tmp_path) == [("endless", "done"), ("after", "done")]
    assert [runs(tmp_path, name) for name in ("first", "endless", "after")] == [1, 2, 1]


def test_an_item_that_came_to_its_end_after_a_kill_is_done(tmp_path):
    """Its run is finished, and would refuse to be resumed."""
    (tmp_path / "steps").mkdir()
    (tmp_path / "steps" / "result.json").write_text("{}")
    assert work_off([item("steps", "raise SystemExit(2)", resumable=True)], tmp_path) == [
        ("steps", "done")
    ]


def test_an_item_hears_ctrl_c_though_this_process_ignores_it(tmp_path):
    """As shells let programs in the background do."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        steps = item("steps", STEPS, resumable=True)
        assert work_off([steps], tmp_path, seconds=3.5) == [("steps", "stopped")]
    finally:
        signal.signal(signal.SIGINT, before)
    assert record(tmp_path, "steps")["exit_code"] == 130


def test_a_folder_has_records_of_one_kind_of_device(tmp_path):
    work_off([item("first")], tmp_path)
    with pytest.raises(ValueError, match=r"first on this machine \(cpu\), and this is H \(gpu\)"):
        work_off([item("first"), item("last")], tmp_path, device=Device("gpu", "H"))


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"output": []}'])
def test_a_file_that_is_no_record_is_refused(text, tmp_path):
    (tmp_path / "first.json").write_text(text)
    with pytest.raises(ValueError, match=r"first\.json is not a record"):
        work_off([item("first")], tmp_path)
    assert not runs(tmp_path, "first")


def test_a_process_reports_while_it_runs(tmp_path):
    seconds = []
    command = [sys.executable, "-c", "import time; time.sleep(0.5)"]
    options = {"folder": tmp_path, "log": tmp_path / "log", "environment": {}}
    ending = run_limited(command, seconds=20.0, grace=1.0, report=seconds.append, **options)
    assert (ending.exit_code, ending.asked) == (0, False)
    assert len(seconds) > 1
    assert 0.5 <= ending.seconds < 20


@pytest.fixture
def tiny(monkeypatch):
    """The command with tiny items."""
    items = (item("good", minutes=0.1), item("bad", "sys.exit(1)"), item("long", minutes=50.0))
    monkeypatch.setattr(gpu_check, "ITEMS", items)


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", ["gpu_check", "gpu-check"])
def test_the_command_on_a_machine_without_accelerator(name, tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    words = [name, "--out", str(tmp_path), "--minutes", "1.5"]
    assert cli.main([*words, "--items", "good"]) == 0
    said = capfd.readouterr().err
    assert f"device: {results.device()} (no accelerator)" in said
    assert "good: done, 0.0 minutes" in said
    assert "1 of 1 items done" in said
    assert cli.main(words) == 1
    assert "1 of 3 items done; 1 failed; next: long, 50 minutes" in capfd.readouterr().err
    assert cli.main(words) == 0  # nothing has failed this time
    assert [runs(tmp_path, each) for each in ("good", "bad", "long")] == [1, 1, 0]
    assert cli.main([*words, "--list"]) == 0
    said = capfd.readouterr().out
    assert all(word in said for word in ("good", "done", "bad", "failed", "long", "waiting", "50"))


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--items good goood", "items='goood' is unknown; allowed: good, bad, long"),
        ("--minutes 0", "minutes=0 must be positive"),
        ("--minutes nan", "minutes=nan must be positive"),
    ],
)
def test_bad_options_are_refused(options, message, tmp_path, capfd):
    assert cli.main(["gpu_check", "--out", str(tmp_path / "out"), *options.split()]) == 2
    assert capfd.readouterr().err == f"error: {message}\n"
    assert not (tmp_path / "out").exists()


def test_jax_that_does_not_start_is_told_in_one_line(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "abacus")
    assert cli.main(["gpu_check", "--out", str(tmp_path / "out")]) == 2
    last = capfd.readouterr().err.splitlines()
    assert len(last) == 1
    assert last[0].startswith("error: JAX does not start: ")


def words_of(program):
    """The items that run `python -m PROGRAM`, each with the words after it."""
    return [(each, each.command[2:]) for each in ITEMS if each.command[:2] == ("-m", program)]


def test_every_item_fits_into_half_an_hour():
    assert len({each.name for each in ITEMS}) == len(ITEMS)
    assert all(0 < each.minutes <= HALF_HOUR for each in ITEMS)
    assert sum(each.minutes for each in ITEMS[:2]) <= 25


def test_items_are_commands_with_options_that_exist():
    found = words_of("experiments")
    assert len(found) > 20
    for each, words in found:
        arguments = tyro.cli(
            registry.load(words[0]).arguments, args=words[1:], use_underscores=True
        )
        assert OUT in words
        assert each.resumable == getattr(arguments, "resume", False) != arguments.overwrite


def test_no_published_setting_is_left_out():
    papers = [words[0] for _, words in words_of("experiments") if "paper" in words]
    have_one = {n for n in registry.EXPERIMENTS if "paper" in registry.load(n).presets}
    assert {*papers} == have_one
    benchmarks = {words[1] for _, words in words_of("experiments") if words[0] == "benchmark"}
    assert benchmarks == {*BENCHMARKS} - {
        "startup",
        "scaling",
        "districts",
    }  # in which a GPU has no part


def test_the_agent_of_sog_london_plays_pimbot(tmp_path):
    (item,) = (each for each in ITEMS if each.name == "sog_pimbot")
    words = item_queue._command(item, tmp_path)
    assert words[words.index("--agent") + 1] == str(tmp_path / "sog_london")
    assert words[words.index("--out") + 1] == str(tmp_path / "sog_pimbot")
    assert [each.name for each in ITEMS].index("sog_london") < ITEMS.index(item)


def test_agents_of_connect_four_are_trained_before_they_are_compared(tmp_path):
    names = [each.name for each in ITEMS]
    for name, count in (("search_ladder", 2), ("search_gap", 2), ("equal_budgets", 3)):
        place = names.index(name)
        words = item_queue._command(ITEMS[place], tmp_path)
        folders = [word for word in words if word.startswith(f"{tmp_path}/")]
        assert folders.pop() == str(tmp_path / name)  # of its own results
        assert len(folders) == count
        assert {folder.removeprefix(f"{tmp_path}/") for folder in folders} < {*names[:place]}


def test_tests_and_tasks_of_items_exist():
    tests = [word for _, words in words_of("pytest") for word in words if word.endswith(".py")]
    assert len(tests) > 10
    assert all((results.ROOT / path).is_file() for path in tests)
    profiles = words_of("experiments.benchmarks.search_profile")
    assert {words[0] for _, words in profiles} <= {*search_profile.TASKS}


def test_changed_benchmarks_have_changes_that_exist(tmp_path, monkeypatch):
    """Their programs, as far as the first measurement."""
    changed = [each for each in ITEMS if each.command[0] == "-c"]
    assert len(changed) > 1
    for each in changed:
        asked = []
        for module in ("holdem", "sampling", "alphazero_training"):
            name = f"experiments.benchmarks.{module}.measure_all"
            monkeypatch.setattr(name, lambda config, asked=asked: asked.append(config) or 1 / 0)
        monkeypatch.setattr(sys, "argv", ["-c", str(tmp_path / each.name)])
        with pytest.raises(ZeroDivisionError):
            exec(each.command[1], {})
        if each.name == "alphazero_training_example":
            sizes = alphazero_programs.TASKS[asked[0].tasks[0]]
            assert (sizes.positions, sizes.updates) == (262_144, 64)  # those of the example
            continue
        assert asked[0].rounds == 1
        assert {1024, 4096, 16384, 65536} & {*vars(asked[0]).values()} - {None}


def test_the_page_has_the_table_of_items():
    page = (results.ROOT / "docs" / "gpu_queue.md").read_text()
    assert gpu_check.markdown_table() in page, f"its table must be:\n{gpu_check.markdown_table()}"


def test_operations_are_counted_in_the_trace():
    """A loop of 37 turns, with a hyperbolic tangent in each."""

    @jax.jit
    def loop(x):
        return jax.lax.fori_loop(0, 37, lambda _, x: jnp.tanh(x @ x), x)

    x = jnp.ones((64, 64))
    summary, rows = search_profile.profile(lambda: loop(x))
    assert {row["calls"] for row in rows if "tanh" in row["operation"]} == {37}
    assert {row["calls"] for row in rows if row["operation"].startswith("while")} == {1}
    assert all(0 <= row["seconds"] <= summary["seconds_traced"] for row in rows)
    assert summary["seconds"] > 0
    assert summary["kernels"] == 0  # of an accelerator


@pytest.mark.slow
def test_a_search_is_profiled(tmp_path):
    search_profile.main("Kuhn (8,1), 1x8", tmp_path / "out")
    summary = json.loads((tmp_path / "out" / "profile.json").read_text())
    assert summary["task"] == "Kuhn (8,1), 1x8"
    assert summary["seconds"] > 0
    lines = (tmp_path / "out" / "profile.csv").read_text().splitlines()
    assert lines[0] == "plane,line,operation,calls,seconds"
    assert 10 < len(lines) <= 201


def test_unknown_tasks_are_not_profiled(tmp_path):
    with pytest.raises(ValueError, match="unknown task 'Kuhn'"):
        search_profile.main("Kuhn", tmp_path / "out")
    assert not (tmp_path / "out").exists()
