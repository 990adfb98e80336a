"""The registry of experiments, and that it still knows what was recorded with it."""

import ast
import dataclasses
import graphlib
import importlib
import inspect
import json
import pkgutil

import pytest

import experiments
from experiments import benchmarks, registry
from experiments.harness import published, results, tables
from experiments.harness.experiment import Command, Experiment

RECORDED = sorted((results.ROOT / "experiments/results").rglob(results.RESULT_FILE))
MEASURE = "measure"  # recorded in every config


def test_recorded_results_are_looked_for_in_the_right_place():
    assert len(RECORDED) >= 28


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: "/".join(path.parts[-3:-1]))
def test_recorded_results_fit_the_registry(path):
    result = results.read_result(path)
    assert path.parents[1].name == result.experiment
    assert path.parent.name.partition("-")[0] == result.preset
    assert result.command.startswith("python -m experiments ")
    has_bars = any(number.low is not None for number in result.numbers)
    assert bool(result.error_bars) == has_bars
    name = result.experiment.removeprefix("benchmark_")
    if name != result.experiment:
        assert name in benchmarks.BENCHMARKS
        return
    assert name in registry.EXPERIMENTS
    experiment = registry.load(name)
    config = experiment.presets[result.preset]
    fields = {field.name: field for field in dataclasses.fields(config)}
    assert set(result.config) <= {*fields, MEASURE, *experiment.extras}
    later = [fields[name] for name in {*fields} - {*result.config}]
    assert all(field.default is not dataclasses.MISSING for field in later)
    assert {MEASURE, *experiment.extras} <= set(result.config)


def test_published_losses_stand_beside_the_recorded_ones():
    """All that were read off the paper's figure, as they were when the result was made."""
    folder = results.ROOT / "experiments/results/depth_limited_nlfh/cpu"
    beside = {number.paper for number in results.read_result(folder / results.RESULT_FILE).numbers}
    assert beside == {None, *published.depth_limited_nlfh().values()}


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: "/".join(path.parts[-3:-1]))
def test_recorded_results_say_what_the_experiments_say_today(path):
    """If not, `python -m experiments tables` brings them up to date."""
    result = results.read_result(path)
    assert tables.with_registered_words(result) == result


def recorded_as(**config):
    """The record of a run of `abr_search_agents`, with words that it does not have today."""
    preset = dataclasses.asdict(registry.load("abr_search_agents").presets["smoke"])
    return results.make_result(
        experiment="abr_search_agents",
        preset="smoke",
        config=json.loads(json.dumps(preset)) | {MEASURE: "guesses"} | config,
        command="python -m experiments abr_search_agents",
        usage=results.Usage(),
        numbers=[results.Number(name="a number", value=1.0, unit="chips")],
        deviations=["none at all"],
    )


def test_words_are_the_experiments_and_everything_else_is_the_runs():
    result = recorded_as()
    worded = tables.with_registered_words(result)
    experiment = registry.load("abr_search_agents")
    assert worded.deviations == tuple(experiment.deviations) != result.deviations
    assert worded.config.pop(MEASURE) == experiment.measure != result.config.pop(MEASURE)
    assert dataclasses.replace(worded, deviations=result.deviations) == result


def test_a_run_of_another_config_keeps_its_words():
    result = recorded_as(agents=["another"])
    assert tables.with_registered_words(result) == result


def test_fields_that_came_later_do_not_make_another_config():
    result = recorded_as()
    del result.config["learning"]["max_uses"]
    assert tables.with_registered_words(result) != result


def test_fields_that_came_later_have_their_defaults(monkeypatch):
    result = recorded_as()
    del result.config["learning"]["max_uses"]
    presets = registry.load("abr_search_agents").presets
    learning = dataclasses.replace(presets["smoke"].learning, max_uses=7)  # no default
    monkeypatch.setitem(presets, "smoke", dataclasses.replace(presets["smoke"], learning=learning))
    assert tables.with_registered_words(result) == result


@pytest.mark.parametrize("name", registry.EXPERIMENTS)
def test_experiments_are_registered_under_their_names(name):
    experiment = registry.load(name)
    assert isinstance(experiment, Experiment)
    assert experiment.name == name
    assert "smoke" in experiment.presets


@pytest.mark.parametrize("name", registry.TOOLS)
def test_other_commands_begin_their_help_with_the_registered_line(name):
    command = registry.load(name)
    assert isinstance(command, Command)
    assert " ".join(inspect.getdoc(command.arguments).split("\n\n")[0].split()) == (
        registry.TOOLS[name].summary
    )


def test_modules_of_experiments_import_each_other_without_loops():
    paths = (results.ROOT / "experiments").rglob("*.py")
    modules = {module_name(path): path for path in paths}
    imports = {name: imported(path, modules) - {name} for name, path in modules.items()}
    graphlib.TopologicalSorter(imports).prepare()  # raises CycleError


def module_name(path):
    parts = path.relative_to(results.ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def imported(path, modules):
    """The modules among `modules` that a file imports, at its head or inside functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                names.add(module if module in modules else node.module)
    return names & set(modules)


def test_every_command_of_a_module_is_registered():
    modules = {f"experiments.{entry.module}" for entry in registry.COMMANDS.values()}
    for module in pkgutil.walk_packages(experiments.__path__, "experiments."):
        if module.ispkg or module.name.endswith("__main__"):
            continue
        if hasattr(importlib.import_module(module.name), "COMMAND"):
            assert module.name in modules


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"preset_docs": {"smoke": "seconds"}}, "must describe the presets"),
        ({"default_preset": "big"}, "default_preset='big' must be one of"),
    ],
)
def test_presets_and_their_descriptions_must_match(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(registry.load("cfr_convergence"), **changes)


def test_help_is_made_from_the_record():
    arguments = registry.load("sog_leduc").arguments
    assert inspect.getdoc(arguments).startswith("Train a Student of Games agent in Leduc hold'em")
    assert "curve.csv and curve.png, and network.npz, log and result.json" in arguments.__doc__
    assert [field.name for field in dataclasses.fields(arguments)] == [
        "devices",
        "coordinator",
        "num_processes",
        "process_id",
        "out",
        "resume",
        "overwrite",
        "seed",
        "preset",
    ]
    assert arguments(out="x").preset == "quick"
