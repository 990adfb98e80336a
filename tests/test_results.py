"""The schema of results, and the page that is made of them."""

import dataclasses

import pytest

from experiments import cli
from experiments.harness import results, tables, usage_meter


def test_numbers_must_be_finite():
    with pytest.raises(ValueError, match="value=nan is not finite"):
        results.Number(name="x", value=float("nan"), unit="")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"numbers": []}', '{"numbers": [{"name": 1}]}'])
def test_files_of_another_schema_are_refused(text, tmp_path):
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(ValueError, match="is not a result"):
        results.read_result(tmp_path / "result.json")


def test_commit_is_that_of_this_checkout_or_unknown(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "ROOT", tmp_path)
    assert results.commit() == "unknown"


def make_results_page(root, *numbers):
    folder = root / "experiments" / "results" / "some" / "cpu"
    folder.mkdir(parents=True)
    result = results.make_result(
        experiment="some",
        preset="cpu",
        config={"measure": "what it is"},
        command="python -m experiments some",
        usage=usage_meter.UsageMeter().usage(),
        error_bars="between the worst and the best guess",
        numbers=numbers,
    )
    results.write_result(folder, result)
    (root / "docs").mkdir()
    (root / tables.PAGE).write_text(f"# head\n{tables.BEGIN}\nold\n{tables.END}\ntail\n")


def test_results_tables(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(results, "ROOT", tmp_path)
    make_results_page(
        tmp_path,
        results.Number(name="ours:kuhn", value=2e6, unit="iterations/s"),
        results.Number(name="theirs:kuhn", value=58774.0, unit="iterations/s", paper=60000.0),
        results.Number(name="ours:leduc", value=3.5, unit="iterations/s"),
    )
    assert cli.main(["tables", "--check"]) == 2
    assert "docs/results.md is out of date" in capfd.readouterr().err
    assert cli.main(["tables"]) == 0
    text = (tmp_path / tables.PAGE).read_text()
    assert "| iterations/s | ours | theirs |\n|---|---:|---:|\n" in text
    assert "| kuhn | 2,000,000 | 58,774 (published 60,000) |\n| leduc | 3.5 |  |\n" in text
    assert "### some, cpu\n\nWhat it is.\n\n```\npython -m experiments some\n```\n" in text
    assert "[result.json](../experiments/results/some/cpu/result.json)" in text
    assert text.startswith("# head\n")
    assert text.endswith(f"{tables.END}\ntail\n")
    assert "old" not in text
    assert cli.main(["tables", "--check"]) == 0


def test_a_run_of_another_game_has_a_section_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "ROOT", tmp_path)
    make_results_page(tmp_path, results.Number(name="ours", value=3.5, unit="Elo"))
    folder = tmp_path / "experiments" / "results" / "some" / "cpu"
    folder.rename(folder.with_name("cpu-go_9x9"))
    assert cli.main(["tables"]) == 0
    assert "### some, cpu, go_9x9\n" in (tmp_path / tables.PAGE).read_text()


@pytest.mark.parametrize(
    ("experiment", "whose"),
    [
        ("benchmark_holdem", "another solver on another machine"),
        ("cfr_convergence", "OpenSpiel"),
        ("ismcts_leduc", "published"),
    ],
)
def test_numbers_of_other_programs_are_not_called_published(experiment, whose):
    page = (results.ROOT / tables.PAGE).read_text()
    _, _, section = page.partition(f"### {experiment}, cpu\n")
    beside = section.partition("\n### ")[0]
    assert f"({whose} " in beside or f"| {whose} |" in beside
    assert whose == "published" or "published" not in beside


def test_results_tables_of_single_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "ROOT", tmp_path)
    make_results_page(
        tmp_path, results.Number(name="value", value=-0.05556, low=-0.06, high=-0.05, unit="chips")
    )
    tables.main(check=False)
    text = (tmp_path / tables.PAGE).read_text()
    assert "| value | -0.05556 | -0.06 to -0.05 |  | chips |" in text
    assert "\nRange: between the worst and the best guess.\n" in text


def test_results_say_what_has_changed_since(tmp_path, monkeypatch):
    """The words are kept in result.json when the page is written again."""
    monkeypatch.setattr(results, "ROOT", tmp_path)
    make_results_page(tmp_path, results.Number(name="value", value=1.0, unit="chips"))
    folder = tmp_path / "experiments" / "results" / "some" / "cpu"
    result = results.read_result(folder / results.RESULT_FILE)
    results.write_result(folder, dataclasses.replace(result, superseded="games are longer"))
    for _ in range(2):
        tables.main(check=False)
    text = (tmp_path / tables.PAGE).read_text()
    assert "\n**Since this was measured,** games are longer.\n" in text
    assert results.read_result(folder / results.RESULT_FILE).superseded == "games are longer"


def test_error_bars_must_be_explained(tmp_path):
    number = results.Number(name="value", value=1.0, low=0.5, high=1.5, unit="chips")
    with pytest.raises(ValueError, match="some: error_bars=None must explain 'value'"):
        results.make_result(
            experiment="some",
            preset="cpu",
            config={},
            command="",
            usage=results.Usage(),
            numbers=[number],
        )
