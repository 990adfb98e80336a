"""The items of `gpu_check`, in the order in which they run.

First whether everything works on the device, then how fast it is, then training, and in the end the
published settings, the shortest first. Minutes are estimates from runs on two CPU cores, but for
`benchmark_accelerator`, which was measured.
"""

from __future__ import annotations

from collections.abc import Iterator

from experiments.harness.item_queue import OTHERS, OUT, Item

_SOLVERS = (
    "cfr",
    "evaluation",
    "regret",
    "sparse_sum",
    "safe_resolving",
    "outcome_sampling",
    "external_sampling",
    "equity",
    "holdem_solution",
    "holdem_tree",
)
_SEARCH = (
    "search",
    "continual_resolving",
    "soundness",
    "leaf_values_network",
    "self_play",
    "learner",
    "training",
    "alphazero",
    "alphazero_training",
)
_PAPERS = (  # experiments whose preset "paper" is run, shortest first as far as is known
    "rps_plus",
    "aivat_leduc",
    "cfr_convergence",
    "depth_limited_leduc",
    "translation_no_limit_leduc",
    "resolving_leduc",
    "sog_soundness",
    "sog_tictactoe",
    "alphazero_connect_four",
    "sog_connect_four",
    "search_ladder",
    "search_gap",
    "equal_budgets",
    "sog_variants",
    "smooth_uct_kuhn",
    "ismcts_leduc",
    "sog_search",
    "smooth_uct_leduc",
    "smooth_uct_leduc_readings",
    "blueprint_two_rounds",
    "blueprint_limit",
    "smooth_uct_limit",
    "smooth_uct_three_players",
    "depth_limited_nlfh",
    "leaf_values_dnn",
    "abr_uniform",
    "abr_cfr",
    "abr_search_agents",
    "abr_chumps",
    "rl_baselines",
    "pimbot_settings",
    "pimbot_strength",
    "alphazero_board_games",
    "sog_board_games",
    "sog_glasses",
    "sog_district",
    "sog_leduc",
    "abr_alphazero",
)
_BOTH = (
    *("--alphazero", f"{OTHERS}/alphazero_connect_four"),
    *("--student_of_games", f"{OTHERS}/sog_connect_four"),
)
_CONNECT_FOUR = ("alphazero_connect_four", "sog_connect_four", "sog_connect_four_outcomes")
_LENT = ("--network", "stations", "--games_last")  # the games can be played elsewhere
_TRAINED_BEFORE = {  # options with the folders of other items, whose networks are needed
    "search_ladder": _BOTH,
    "search_gap": _BOTH,
    "equal_budgets": ("--runs", *(f"{OTHERS}/{name}" for name in _CONNECT_FOUR)),
}


def _tests(name: str, what: str, files: tuple[str, ...], minutes: float) -> Item:
    """Tests of a few files, in four processes, which must not take all memory of the GPU."""
    options = "-q -rfE --color=no -p no:cacheprovider -n 4 --dist loadfile"
    paths = (f"tests/test_{file}.py" for file in files)
    return Item(
        name=name,
        what=f"fast tests of {what}",
        command=("-m", "pytest", *options.split(), *paths),
        minutes=minutes,
        environment={"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
    )


def _benchmark(name: str, minutes: float, preset: str = "cpu") -> Item:
    return Item(
        name=f"benchmark_{name}",
        what=f"`benchmark {name} --preset {preset}`",
        command=_experiment("benchmark", name, "--preset", preset, "--out", OUT, "--overwrite"),
        minutes=minutes,
    )


def _changed_benchmark(name: str, changes: str, what: str, *, of: str, minutes: float) -> Item:
    """A benchmark with changes that the command line does not know."""
    program = (
        "import pathlib, sys; from experiments import benchmarks;"
        f" benchmarks.run({of!r}, pathlib.Path(sys.argv[1]), {changes}, overwrite=True)"
    )
    return Item(
        name=name,
        what=f"`benchmark {of}` with {what}",
        command=("-c", program, OUT),
        minutes=minutes,
    )


def _profile(name: str, task: str, minutes: float) -> Item:
    return Item(
        name=name,
        what=f"calls and time of all operations of the search {task}",
        command=("-m", "experiments.benchmarks.search_profile", task, OUT),
        minutes=minutes,
    )


def _training(name: str, experiment: str, preset: str, *options: str) -> Item:
    shown = () if any(OTHERS in word for word in options) else options
    return Item(
        name=name,
        what=f"`{' '.join((experiment, '--preset', preset, *shown))}`",
        command=_experiment(experiment, "--preset", preset, *options, "--out", OUT, "--resume"),
        minutes=5.0,
        resumable=True,
    )


def _experiment(*words: str) -> tuple[str, ...]:
    return ("-m", "experiments", *words)


def _items() -> Iterator[Item]:
    yield _tests("tests_solvers", "solvers, sampling and hold'em", _SOLVERS, 5.0)
    yield _tests("tests_search", "search, self-play and training", _SEARCH, 6.0)
    yield _benchmark("accelerator", 6.0, preset="gpu")
    yield _benchmark("cfr", 12.0)
    yield _benchmark("search", 16.0)
    yield _benchmark("holdem", 10.0)
    yield _benchmark("sampling", 8.0)
    yield _benchmark("pimbot", 3.0)
    yield _benchmark("alphazero_training", 10.0)
    yield _benchmark("networks", 2.0)
    yield _benchmark("board_steps", 3.0, preset="gpu")
    yield _profile("profile_leduc", "Leduc (100,1), 3x128", 3.0)
    yield _profile("profile_connect_four", "Connect Four (800,1), 6x512", 4.0)
    rivers = "spots=('river',), batch=1024, rounds=1"
    yield _changed_benchmark(
        "rivers_1024", rivers, "1,024 rivers side by side", of="holdem", minutes=5.0
    )
    for learners in (4096, 16384, 65536):
        tasks = "tasks=('outcome sampling, Leduc', 'external sampling, Leduc')"
        yield _changed_benchmark(
            f"sampling_{learners}",
            f"{tasks}, learners={learners}, rounds=1",
            f"{learners:,} learners in Leduc",
            of="sampling",
            minutes=4.0,
        )
    yield _changed_benchmark(
        "alphazero_training_example",
        "tasks=('9x9 Go, 6x128 blocks',), whole=()",
        "the sizes of pgx's example",
        of="alphazero_training",
        minutes=15.0,
    )
    yield _training("train_leduc", "sog_leduc", "quick")
    yield _training("train_connect_four", "abr_alphazero", "cpu")
    yield _training("sog_connect_four_gpu", "sog_connect_four", "gpu")
    yield _training("alphazero_connect_four_gpu", "alphazero_connect_four", "gpu")
    values = ("--values", "outcomes")
    yield _training("sog_connect_four_outcomes_gpu", "sog_connect_four", "gpu", *values)
    yield _training("sog_london_gpu", "sog_london", "gpu", *_LENT)
    for experiment in _PAPERS:
        more = _TRAINED_BEFORE.get(experiment, ())
        yield _training(experiment, experiment, "paper", *more)
        if experiment == "sog_connect_four":
            yield _training("sog_connect_four_outcomes", experiment, "paper", *values)
    agent = ("--agent", f"{OTHERS}/alphazero_connect_four")  # which is then exploited
    yield _training("abr_connect_four", "abr_alphazero", "connect_four_large", *agent)
    # London takes months, so it comes last; its agent then plays
    yield _training("sog_london", "sog_london", "paper")
    yield _training("sog_pimbot", "sog_pimbot", "large", "--agent", f"{OTHERS}/sog_london")


ITEMS = tuple(_items())
