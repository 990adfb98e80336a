"""The experiment `sog_glasses`."""

import pytest

from experiments import cli
from experiments.harness import results


@pytest.mark.slow
def test_training_on_a_small_map(tmp_path):
    assert cli.main(["sog_glasses", "--preset", "smoke", "--out", str(tmp_path)]) == 0
    result = results.read_result(tmp_path / "result.json")
    assert [number.name for number in result.numbers] == [
        "untrained SoG(4,1)",
        "SoG(4,1)",
        "ours: SoG(4,1), half-uniform ranges",
        "ours: SoG(4,1), half-uniform ranges, exploration 3, own decisions only",
    ]
    assert any("with results in sight" in text for text in result.deviations)
    assert all(number.unit == "utility" and 0 <= number.value <= 2 for number in result.numbers)
