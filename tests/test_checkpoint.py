"""Checkpoints: a saved state is restored exactly, and every other one is refused."""

import shutil

import chex
import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from solver_cases import form_of, game_tree, with_other_returns

from solvers import cfr, checkpoint
from solvers.sequence_form import build_sequence_form

NAME, SOLVER = "kuhn_poker", cfr.dcfr()


@pytest.fixture(autouse=True)
def _x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def form():
    return form_of(NAME)


def solved(form, num_iterations, solver=SOLVER):
    return cfr.run(form, cfr.init(form), solver=solver, num_iterations=num_iterations)


@pytest.fixture
def saved(tmp_path, form):
    checkpoint.save(tmp_path, solved(form, 7), form=form, solver=SOLVER)
    return tmp_path


def assert_same(actual, expected):
    chex.assert_trees_all_equal(actual, expected)
    assert jax.tree.map(lambda x: x.dtype, actual) == jax.tree.map(lambda x: x.dtype, expected)


def test_a_resumed_solve_is_an_uninterrupted_one(saved, form):
    state = checkpoint.restore(saved, form=form, solver=SOLVER)
    assert_same(state, solved(form, 7))
    state = cfr.run(form, state, solver=SOLVER, num_iterations=5)
    assert_same(state, solved(form, 12))


def test_ranges_are_kept(tmp_path):
    form = form_of(NAME, root=2)
    reach = tuple(np.random.default_rng(0).random((2, 3)))
    start = cfr.init(form, root_reach=reach)
    checkpoint.save(tmp_path, start, form=form, solver=SOLVER)
    state = checkpoint.restore(tmp_path, form=form, solver=SOLVER)
    np.testing.assert_array_equal(state.root_reach, reach)
    assert_same(state, start)


def test_single_precision_returns_as_it_was(tmp_path):
    with jax.enable_x64(False):
        form = build_sequence_form(game_tree(NAME))
        checkpoint.save(str(tmp_path), solved(form, 7), form=form, solver=SOLVER)
        assert_same(checkpoint.restore(str(tmp_path), form=form, solver=SOLVER), solved(form, 7))


@pytest.mark.parametrize("count", [9, 7, 3])
def test_the_newest_save_counts(saved, form, count):
    """Even if it has as many iterations as the one before, or fewer."""
    checkpoint.save(saved, solved(form, count), form=form, solver=SOLVER)
    state = checkpoint.restore(saved, form=form, solver=SOLVER)
    assert int(state.step) == count
    checkpoint.save(saved, solved(form, 5), form=form, solver=SOLVER)
    assert len(list(saved.iterdir())) == 2  # older ones are gone


def test_another_solve_may_replace_a_checkpoint(saved, form):
    checkpoint.save(saved, solved(form, 2, cfr.cfr()), form=form, solver=cfr.cfr())
    assert int(checkpoint.restore(saved, form=form, solver=cfr.cfr()).step) == 2


def other_payoffs():
    return build_sequence_form(with_other_returns(game_tree(NAME), 0), dtype="float64")


@pytest.mark.parametrize(
    ("other", "solver", "message"),
    [
        (lambda: form_of(NAME), cfr.dcfr(gamma=3.0), r"has solver=.*=2.0.*, not '.*=3.0.*'"),
        (lambda: form_of(NAME), cfr.cfr(), r"has solver=.*Discounted.*, not 'Solver\(.*"),
        (lambda: form_of(NAME, dtype="float32"), SOLVER, "has dtype='float64', not 'float32'"),
        (
            lambda: form_of("matrix_mp"),
            SOLVER,
            r"has game='kuhn_poker\(players=2\)', not 'matr",
        ),
        (
            lambda: form_of(NAME, root=2),
            SOLVER,
            r"has num_sequences=\[13, 13\], not \[15, 15\]",
        ),
        (other_payoffs, SOLVER, r"has fingerprint=\d+, not \d+"),
    ],
    ids=[
        "other parameters",
        "other solver",
        "other precision",
        "other game",
        "subgame",
        "other payoffs",
    ],
)
def test_checkpoints_of_other_solves_are_refused(saved, other, solver, message):
    with pytest.raises(ValueError, match=f"^the checkpoint at {saved} {message}"):
        checkpoint.restore(saved, form=other(), solver=solver)


def test_a_missing_checkpoint_is_refused(tmp_path, form):
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "empty").mkdir()
    for name in ("missing", "file", "empty"):
        with pytest.raises(FileNotFoundError, match=f"^no checkpoint at {tmp_path / name}$"):
            checkpoint.restore(tmp_path / name, form=form, solver=SOLVER)
    assert not (tmp_path / "missing").exists()
    assert not list((tmp_path / "empty").iterdir())


def files(folder):
    """The files that the state is read from; Orbax does not read the others back."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    read = ("_METADATA", "manifest.ocdbt", "metadata")
    files = [path for path in files if path.name in read or path.parent.name == "d"]
    return [path for path in files if "ocdbt.process_0" not in path.parts]


# threads of Orbax outlive the first error and complain
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("damage", ["truncated", "missing", "overwritten", "one byte"])
def test_damaged_checkpoints_are_refused(saved, form, damage, tmp_path_factory):
    names = [path.relative_to(saved) for path in files(saved)]
    assert len(names) == 4
    for name in names:
        folder = tmp_path_factory.mktemp("damaged")
        shutil.copytree(saved, folder, dirs_exist_ok=True)
        content = (folder / name).read_bytes()
        if damage == "missing":
            (folder / name).unlink()
        elif damage == "truncated":
            (folder / name).write_bytes(content[: len(content) // 2])
        elif damage == "overwritten":
            (folder / name).write_bytes(b"something else")
        elif name.parent.name == "d":  # its checksums notice
            middle = len(content) // 2
            changed = bytes([content[middle] ^ 1])
            (folder / name).write_bytes(content[:middle] + changed + content[middle + 1 :])
        else:
            continue
        message = f"^the checkpoint at {folder}/0 is damaged: ."
        with pytest.raises(checkpoint.DamagedCheckpointError, match=message) as error:
            checkpoint.restore(folder, form=form, solver=SOLVER)
        assert "\n" not in str(error.value)


def spoil(folder, content=None):
    """Cuts all files of a folder in two, or replaces their content."""
    for path in folder.rglob("*"):
        if path.is_file():
            found = path.read_bytes()
            path.write_bytes(found[: len(found) // 2] if content is None else content)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("content", [None, b"", b"something else"])
def test_the_checkpoint_before_a_damaged_one_is_continued(saved, form, content):
    """To the numbers of a solve that was not interrupted; the next save is not in the way."""
    checkpoint.save(saved, solved(form, 10), form=form, solver=SOLVER)
    spoil(saved / "1", content)
    message = rf"^the checkpoint at {saved}/1 is damaged: .*; going back to .* before, {saved}/0$"
    with pytest.warns(UserWarning, match=message):
        state = checkpoint.restore(saved, form=form, solver=SOLVER)
    assert_same(state, solved(form, 7))
    state = cfr.run(form, state, solver=SOLVER, num_iterations=5)
    assert_same(state, solved(form, 12))
    checkpoint.save(saved, state, form=form, solver=SOLVER)
    assert_same(checkpoint.restore(saved, form=form, solver=SOLVER), state)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_two_damaged_checkpoints_are_both_named(saved, form):
    checkpoint.save(saved, solved(form, 10), form=form, solver=SOLVER)
    spoil(saved)
    message = f"^the checkpoint at {saved}/1 is damaged: .*; the checkpoint at {saved}/0 is damaged"
    with pytest.raises(checkpoint.DamagedCheckpointError, match=message):
        checkpoint.restore(saved, form=form, solver=SOLVER)


def test_notes_are_those_of_the_state_that_is_read(tmp_path):
    for number in range(2):
        state = {"x": np.full(3, number)}
        checkpoint.write(tmp_path, state, identity={"name": 1}, notes=[{"number": number}])
    _, notes = checkpoint.read_with_notes(tmp_path, state, identity={"name": 1})
    assert notes == [{"number": 1}]
    spoil(tmp_path / "1")
    with pytest.warns(UserWarning, match="going back"):
        state, notes = checkpoint.read_with_notes(tmp_path, state, identity={"name": 1})
    assert notes == [{"number": 0}]
    assert state["x"].tolist() == [0, 0, 0]


def test_checkpoints_of_other_programs_are_refused(tmp_path, form):
    with ocp.CheckpointManager(tmp_path) as manager:
        manager.save(3, args=ocp.args.StandardSave({"weights": np.ones(3)}))
    with pytest.raises(ValueError, match="is damaged"):
        checkpoint.restore(tmp_path, form=form, solver=SOLVER)


def test_an_unfinished_save_is_ignored(saved, form):
    (done,) = saved.iterdir()
    shutil.copytree(done, saved / f"{int(done.name) + 1}.orbax-checkpoint-tmp")
    assert int(checkpoint.restore(saved, form=form, solver=SOLVER).step) == 7
    shutil.rmtree(done)
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        checkpoint.restore(saved, form=form, solver=SOLVER)


def test_a_full_disk_leaves_the_last_checkpoint(saved, form, monkeypatch):
    before = sorted(saved.rglob("*"))
    full = shutil.disk_usage(saved)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    with pytest.raises(OSError, match="No space left on device"):
        checkpoint.save(saved, solved(form, 9), form=form, solver=SOLVER)
    assert sorted(saved.rglob("*")) == before
    assert int(checkpoint.restore(saved, form=form, solver=SOLVER).step) == 7


def test_places_that_cannot_be_written(tmp_path, form):
    (tmp_path / "file").write_text("no folder")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(
            OSError, match=f"^the checkpoint at {path} cannot be written: ."
        ) as error:
            checkpoint.save(path, solved(form, 1), form=form, solver=SOLVER)
        assert "\n" not in str(error.value)
    assert (tmp_path / "file").read_text() == "no folder"
