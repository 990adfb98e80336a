"""A small run of an experiment, as the tests of experiments share it."""

from experiments import cli
from experiments.harness import results


def smoke_run(name, folder, *options):
    """Runs an experiment's smallest preset into a folder, checks its files, returns the result."""
    assert cli.main([name, "--preset", "smoke", "--out", str(folder), *options]) == 0
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert len((folder / "curve.csv").read_text().splitlines()) > 1
    assert not (folder / "checkpoint").exists()
    return results.read_result(folder / "result.json")
