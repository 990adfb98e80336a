"""Seeds of training in Connect Four that are runs of their own, put together afterwards."""

import csv
import dataclasses
import itertools
import pathlib

import pytest
from experiment_cases import smoke_run

from experiments.harness import results
from experiments.harness.network_files import network_file
from experiments.perfect_information import alphazero_connect_four, sog_connect_four, trained_runs
from experiments.perfect_information.trained_seeds import (
    Cell,
    SeedOptions,
    read_cells,
    taken_over,
    with_seeds,
)

NAME = "alphazero_connect_four"
SMOKE = alphazero_connect_four.PRESETS["smoke"]


def made_up_cells(seeds):
    for seed, step, simulations in itertools.product(seeds, SMOKE.measured_at, SMOKE.simulations):
        yield Cell(
            seed=seed,
            step=step,
            simulations=simulations,
            seconds=3.0 * step,
            evaluations=100 * step,
            games=step,
            positions=60,
            keeps=0.5 + 0.1 * seed,
            decides=0.4,
            best=0.3,
            first=3,
        )


@pytest.fixture
def finished(tmp_path):
    """Makes the folder of a finished run of some seeds."""

    def make(*seeds, experiment=NAME, machine=None, **fields):
        folder = tmp_path / f"seeds{seeds}"
        for seed in seeds:
            path = network_file(folder, seed)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"network of seed {seed}")
            network_file(folder, f"{seed}-2").write_text(f"step 2 of seed {seed}")
        results.write_csv(folder / "curve.csv", [*map(dataclasses.asdict, made_up_cells(seeds))])
        config = dataclasses.replace(SMOKE, seeds=len(seeds), first_seed=seeds[0])
        stamps = dict(experiment=experiment, preset="smoke", command=f"train {seeds}", numbers=())
        config = dataclasses.asdict(config) | fields
        result = results.make_result(config=config, usage=results.Usage(), **stamps)
        result = dataclasses.replace(
            result, wall_seconds=10.0 + seeds[0], commit="c" * 40 + "-dirty"
        )
        if machine is not None:
            result = dataclasses.replace(result, device=machine)
        results.write_result(folder, result)
        return folder

    return make


def configured(*earlier, seeds=None, first_seed=0):
    options = SeedOptions(
        out=pathlib.Path(), seeds=seeds, first_seed=first_seed, earlier=tuple(earlier)
    )
    return with_seeds(SMOKE, options, experiment=NAME)


def test_without_options_the_preset_is_as_it_is():
    assert configured() == SMOKE


def test_seeds_of_earlier_runs_are_taken_over_with_their_networks(finished, tmp_path):
    # A finished run that has itself taken over seed 1: both runs stay on record.
    config = configured(finished(1), seeds=2, first_seed=1)
    earlier = [dataclasses.asdict(run) for run in config.earlier]
    config = configured(finished(0), finished(1, 2, earlier=earlier), seeds=4)
    assert (config.seeds, config.first_seed) == (4, 0)
    assert [run.seeds for run in config.earlier] == [(0,), (1,), (2,)]
    assert [run.command for run in config.earlier] == ["train (0,)", "train (1,)", "train (1, 2)"]
    assert [run.wall_seconds for run in config.earlier] == [10, 11, 11]
    assert pathlib.Path(config.earlier[1].folder).name == "seeds(1, 2)"

    out = tmp_path / "out"
    assert taken_over(config.earlier, out) == [*made_up_cells(range(3))]
    for seed in range(3):
        assert network_file(out, seed).read_text() == f"network of seed {seed}"
        assert network_file(out, f"{seed}-2").read_text() == f"step 2 of seed {seed}"
    assert len([*(out / "networks").iterdir()]) == 6
    deviations = alphazero_connect_four.COMMAND.deviations(config)
    assert deviations[-1] == (
        f"seed 2: trained and measured in 11 seconds ({results.device()}) by 'train (1, 2)'"
        " at commit cccccccccccc-dirty"
    )


def test_runs_that_do_not_fit_are_refused(finished, tmp_path):
    zero, one = finished(0), finished(1)
    for refused, earlier, options in (
        (
            r"earlier: .* has the seeds \[1\]; --seeds and --first_seed ask for \[0\]",
            [one],
            dict(seeds=1),
        ),
        (
            r"a seed may be there once, and the runs have: .*: \[0\]; .*: \[0\]",
            [zero, zero],
            dict(seeds=2),
        ),
        ("must be the folder of a finished run of alphazero_connect_four", [tmp_path], {}),
        (
            "is of sog_connect_four, not of alphazero_connect_four",
            [finished(2, experiment="sog_connect_four")],
            dict(seeds=3),
        ),
        ("is a run with another width, depth", [finished(3, width=5, depth=2)], dict(seeds=4)),
        (
            "runs must be of one kind of machine",
            [zero, finished(4, machine="another")],
            dict(seeds=5),
        ),
        ("; this run: ", [finished(5, machine="another")], dict(first_seed=5, seeds=2)),
        ("seeds=0 must be at least 1", [], dict(seeds=0)),
        ("first_seed=-1 must be at least 0", [], dict(first_seed=-1)),
    ):
        with pytest.raises(ValueError, match=refused):
            configured(*earlier, **options)


def test_runs_that_are_not_whole_are_refused(finished):
    folder = finished(0)
    curve = (folder / "curve.csv").read_text()
    lines = curve.splitlines(keepends=True)
    for damaged, message in (
        ("".join(lines[:-1]), "curve.csv has not each measurement once"),
        (lines[0], "curve.csv has not each measurement once"),
        (curve.replace("seed,", "seeds,"), "curve.csv is damaged: KeyError"),
        (curve.replace("0.4", "x"), "curve.csv is damaged: ValueError"),
    ):
        (folder / "curve.csv").write_text(damaged)
        with pytest.raises(ValueError, match=message):
            configured(folder, seeds=1)
    (folder / "curve.csv").write_text(curve)
    network_file(folder, 0).unlink()
    with pytest.raises(ValueError, match=r"0\.npz is not there"):
        configured(folder, seeds=1)


def test_a_run_of_earlier_code_is_not_added_to(finished):
    folder = finished(0)
    result = dataclasses.replace(results.read_result(folder / "result.json"), superseded="other")
    results.write_result(folder, result)
    with pytest.raises(ValueError, match="is of earlier code: other"):
        configured(folder)


def test_an_earlier_run_is_not_written_over(finished):
    folder = finished(0)
    options = SeedOptions(out=folder, seeds=2, earlier=(folder,), overwrite=True)
    with pytest.raises(ValueError, match="is --out, which must be another folder"):
        with_seeds(SMOKE, options, experiment=NAME)


def test_comparisons_need_the_first_seed(finished):
    with pytest.raises(ValueError, match="begin with 1, and must begin with 0: put runs"):
        trained_runs.read_run(finished(1))


def test_comparisons_know_the_machine_that_has_trained(finished):
    config = configured(finished(0, machine="another"), seeds=1)
    earlier = [dataclasses.asdict(run) for run in config.earlier]
    assert trained_runs.read_run(finished(0, 1, earlier=earlier)).device == "another"


def test_options_of_values_and_of_seeds_go_together():
    options = sog_connect_four.Options(out=pathlib.Path(), values="outcomes", seeds=2, first_seed=1)
    preset = sog_connect_four.PRESETS["cpu"]
    config = sog_connect_four.COMMAND.configure(preset, options)
    assert (config.values, config.solves) == ("outcomes", 0)
    assert (config.seeds, config.first_seed) == (2, 1)


@pytest.mark.slow
def test_seeds_one_by_one_are_those_of_one_run(tmp_path):
    """The same measurements, but for the seconds, and the same networks to the last bit."""
    together = smoke_run(NAME, tmp_path / "both", "--seeds", "2")
    smoke_run(NAME, tmp_path / "0", "--seeds", "1")
    smoke_run(NAME, tmp_path / "1", "--seeds", "1", "--first_seed", "1")
    apart = [str(tmp_path / "0"), str(tmp_path / "1")]
    result = smoke_run(NAME, tmp_path / "merged", "--seeds", "2", "--earlier", *apart)
    one = smoke_run(NAME, tmp_path / "more", "--seeds", "2", "--earlier", apart[0])
    for folder, record in (("merged", result), ("more", one)):
        own, other = (
            [dataclasses.replace(cell, seconds=0.0) for cell in read_cells(tmp_path / name)]
            for name in ("both", folder)
        )
        assert own == other
        files = sorted(path.name for path in (tmp_path / "both" / "networks").iterdir())
        assert len(files) == 6
        for name in files:
            same = [(tmp_path / each / "networks" / name).read_bytes() for each in ("both", folder)]
            assert same[0] == same[1]
        shares = [number for number in record.numbers if number.name != "games/h"]
        assert shares == [number for number in together.numbers if number.name != "games/h"]
    with (tmp_path / "merged" / "curve.csv").open(newline="") as file:
        assert len([*csv.DictReader(file)]) == 8
