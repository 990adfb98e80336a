"""What the documentation names exists: files, modules, functions, links, commands and numbers."""

import functools
import importlib
import json
import keyword
import pathlib
import re

import pytest

from experiments.benchmarks import BENCHMARKS
from experiments.registry import COMMANDS

ROOT = pathlib.Path(__file__).parent.parent
DOCS = ROOT / "docs"
PACKAGES = ("jaxgames", "solvers", "nets", "train", "experiments")
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
GENERATED = {  # pages that the site makes: see docs/hooks.py
    DOCS / "api" / "index.md",
    *(DOCS / "notebooks" / f"{path.stem}.md" for path in (DOCS / "notebooks").glob("*.ipynb")),
    *(
        DOCS / "api" / f"{'.'.join(path.parent.relative_to(ROOT).parts)}.md"
        for package in PACKAGES[:-1]
        for path in (ROOT / package).rglob("__init__.py")
    ),
}
MAX_README_LINES = 150
MAX_README_ROWS = 12


def page_id(path):
    return path.relative_to(ROOT).as_posix()


def prose(path):
    """The text of a page without its programs."""
    return re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)


def code_spans(path):
    return re.findall(r"`([^`\n]+)`", prose(path))


@functools.cache
def words_of_the_code():
    paths = [path for package in (*PACKAGES, "tests") for path in (ROOT / package).rglob("*.py")]
    names = {part for path in paths for part in path.with_suffix("").relative_to(ROOT).parts}
    results = {path.name for path in (ROOT / "experiments" / "results").rglob("*")}
    return names | results | set(re.findall(r"\w+", " ".join(p.read_text() for p in paths)))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_paths_exist(page):
    spans = [span for span in code_spans(page) if re.fullmatch(r"[\w.-]+(/[\w.-]+)*/?", span)]
    tops = {path.name for path in ROOT.iterdir()}
    paths = [span for span in spans if "/" in span and span.split("/")[0] in tops - {"out"}]
    missing = [span for span in paths if not (ROOT / span).exists()]
    assert not missing, f"{page_id(page)} names paths that do not exist: {missing}"


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_dotted_names_exist(page):
    pattern = rf"\b(?:{'|'.join(PACKAGES)})(?:\.[A-Za-z_]\w*)+"
    found = {name for span in code_spans(page) for name in re.findall(pattern, span)}
    files = (".md", ".py", ".json", ".npz", ".csv", ".png")
    names = sorted(name for name in found if not name.endswith(files))
    missing = [name for name in names if not resolves(name)]
    assert not missing, f"{page_id(page)} names what does not exist: {missing}"


def test_new_names_in_the_changelog_exist():
    """Of the table of moved modules; `.name` is a neighbour of the full name before it."""
    text = (ROOT / "CHANGELOG.md").read_text()
    table = re.search(r"^\| old \| new \|\n(.*?)\n\n", text, re.DOTALL | re.MULTILINE).group(1)
    for row in table.splitlines()[1:]:
        neighbours = ""
        for name in re.findall(r"`([\w.]+)`", row.split("|")[2]):
            if name.split(".")[0] in PACKAGES:
                neighbours = name.rpartition(".")[0]
                assert resolves(name), f"{row}: {name}"
            elif name.startswith("."):
                assert resolves(neighbours + name), f"{row}: {name}"
            else:
                assert {*name.split(".")} <= words_of_the_code(), f"{row}: {name}"


def resolves(name):
    """Whether a dotted name is a module, or something inside one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            fields = getattr(found, "__dataclass_fields__", {})
            if not hasattr(found, part) and part not in fields:
                return False
            found = getattr(found, part, None)
        return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_identifiers_are_words_of_the_code(page):
    """Names in `snake_case` and `CamelCase`: a renamed function must not stay in the prose."""
    spans = [
        span for span in code_spans(page) if not re.match(r"(python|pip|make|jaxgames) ", span)
    ]
    identifiers = {
        word
        for span in spans
        for word in re.findall(r"(?<![\w/\"'.-])[A-Za-z_]\w+", span)
        if re.search(r"[a-z]_[a-z]|[a-z][A-Z]", word) and not keyword.iskeyword(word)
    }
    known = words_of_the_code() | OTHER_NAMES
    missing = sorted(identifiers - known)
    assert not missing, f"{page_id(page)} names what the code does not: {missing}"


# Names of other libraries and of environment variables, which our code does not use.
OTHER_NAMES = {
    "ExternalSamplingSolver",
    "OutcomeSamplingSolver",
    "PolicyOutput",
    "dirichlet_alpha",
    "dirichlet_fraction",
    "muzero_policy",
    "my_game",
    "my_training",
    "optimization_barrier",
    "pb_c_init",
}


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_resolve(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"https?:|data:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists() or path in GENERATED, f"{page_id(page)}: {target}"
        if anchor and path.exists():
            headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
            assert anchor in map(slug, headings), f"{page_id(page)}: {target}"


def slug(heading):
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())


def test_every_command_is_listed():
    text = (DOCS / "experiments.md").read_text()
    listed = set(re.findall(r"\| `python -m experiments (\w+)", text))
    assert listed == set(COMMANDS)
    assert set(re.findall(r"`python -m experiments benchmark (\w+)", text)) == set(BENCHMARKS)


def test_every_record_is_beside_its_command():
    """The last column links all results of an experiment or benchmark, and no others."""
    rows = r"^\| `python -m experiments (benchmark )?(\w+).* \|(.*) \|$"
    linked = {
        target
        for kind, name, cell in re.findall(
            rows, (DOCS / "experiments.md").read_text(), re.MULTILINE
        )
        for target in re.findall(r"results\.md#([\w-]+)", cell)
        if target.partition("-")[0] == kind.strip() + "_" * bool(kind) + name
    }
    records = (ROOT / "experiments" / "results").glob("*/*/result.json")
    assert linked == {"-".join(path.parts[-3:-1]) for path in records}


def test_every_page_is_in_the_site():
    site = (ROOT / "mkdocs.yml").read_text()
    for page in [*sorted(DOCS.rglob("*.md")), *GENERATED]:
        assert f": {page.relative_to(DOCS).as_posix()}\n" in site


def test_readme_is_one_page():
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= MAX_README_LINES
    programs = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert len(programs) == 3
    for program in programs:
        assert len([line for line in program.splitlines() if line]) <= 12


# README's rows: what they begin with; result; our number; theirs (None: the published one of ours)
HEADLINES = [
    ("CFR+ in Leduc, 1,000", "cfr_convergence/cpu", "cfr_plus:leduc_poker", None),
    ("CFR+ in Leduc: it", "benchmark_cfr/cpu", "ours:leduc_poker", "openspiel_jax:leduc_poker"),
    (
        "CFR+ in liar's dice",
        "benchmark_cfr/cpu",
        "ours:liars_dice(dice=1,sides=6)",
        "gpugt:liars_dice(dice=1,sides=6)",
    ),
    (
        "outcome sampling in Leduc",
        "benchmark_sampling/cpu",
        "ours:outcome sampling, Leduc",
        "OpenSpiel C++:outcome sampling, Leduc",
    ),
    ("hold'em turn", "benchmark_holdem/cpu", "ms:turn", None),
    (
        "800 simulations in Connect Four",
        "benchmark_search/cpu",
        "ours, 2 devices:Connect Four (800,1), 6x512",
        "AlphaZero (mctx), 2 devices:Connect Four (800,1), 6x512",
    ),
    (
        "800 simulations in Connect Four, 10 per",
        "benchmark_accelerator/gpu",
        "Connect Four (800,10), 6x512, 256 at once",
        "mctx: Connect Four (800,10), 6x512, 256 at once",
    ),
    ("Student of Games in Leduc, 1,000", "sog_leduc/cpu", "SoG(1000,1)", None),
    (
        "Student of Games in Scotland",
        "sog_glasses/cpu",
        "SoG(1000,1)",
        None,
    ),
    ("off-tree bet", "depth_limited_nlfh/cpu", "values=16:plain", None),
    ("Smooth UCT wins", "smooth_uct_limit/cpu", "Smooth UCT against UCT, greedy", None),
    ("exact best response", "abr_chumps/cpu", "exact:always raise, limit", None),
]


def test_readme_headline_numbers_are_the_committed_ones():
    readme = (ROOT / "README.md").read_text()
    table = re.search(r"\| what \| ours .*?\n\n", readme, re.DOTALL).group(0).splitlines()[2:]
    rows = [[cell.strip() for cell in line.split("|")[1:4]] for line in table if line]
    assert len(rows) == len(HEADLINES) <= MAX_README_ROWS
    for (what, ours, theirs), (begin, folder, name, other) in zip(rows, HEADLINES, strict=True):
        assert what.startswith(begin)
        path = ROOT / "experiments" / "results" / folder / "result.json"
        numbers = {n["name"]: n for n in json.loads(path.read_text())["numbers"]}
        compared = numbers[name]["paper"] if other is None else numbers[other]["value"]
        assert number(ours) == pytest.approx(numbers[name]["value"], rel=5e-3)
        assert number(theirs) == pytest.approx(compared, rel=5e-3)


def number(text):
    return float(text.replace(",", ""))


def test_other_programs_in_the_readme_are_the_fastest():
    """OpenSpiel in JAX in Leduc, gpugt in liar's dice: no other peer makes more iterations."""
    path = ROOT / "experiments" / "results" / "benchmark_cfr" / "cpu" / "result.json"
    peers = ("openspiel_cpp", "openspiel_jax", "liteefg", "gpugt", "noregret")
    numbers = {n["name"]: n["value"] for n in json.loads(path.read_text())["numbers"]}
    for game, fastest in (
        ("leduc_poker", "openspiel_jax"),
        ("liars_dice(dice=1,sides=6)", "gpugt"),
    ):
        assert max(peers, key=lambda peer: numbers[f"{peer}:{game}"]) == fastest
