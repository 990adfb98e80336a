"""Mutation testing: small faults are put into the code one by one, and the fast tests must fail.

    python tests/mutate.py --count 60            # or `make mutations`

A fault is a swapped operator, an order of arguments, a constant that is off by one, a dropped `not`
and the like, inside a function. The sample is drawn by hashes, so that it stays nearly the same as
the code changes. Each fault is put into a clone of the last commit, and pytest runs the test files
that import the module, nearest first, until one fails. Results are kept in `--out`: an interrupted
run goes on where it stopped, and a result is measured again only after its files have changed.
"""

from __future__ import annotations

import argparse
import ast
import bisect
import collections
import dataclasses
import hashlib
import itertools
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parent.parent
PACKAGES = ("jaxgames", "solvers", "nets", "train", "experiments")
SEED = 0  # of the hashes that order the faults
STAGES = ((3, 90), (6, 240))  # test files, nearest first, and seconds of CPU time for them
LOOKS = re.compile("plot|draw|hand_grid")  # modules and functions of experiments that draw
TEXTS = {"print", "warn", "axes", "figure", "plt", "parser"}  # calls of or on these
EQUIVALENT = ROOT / "tests" / "equivalent_mutations.txt"  # names, places and reasons
READERS = {"test_docs", "test_docstrings", "test_layering"}  # they do not run what they check

OPERATORS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "//"), ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
PAIRS = ("min max", "argmin argmax", "minimum maximum", "any all", "zeros ones", "floor ceil",
         "zeros_like ones_like", "sum max", "add set", "left right", "exp log")  # fmt: skip
NAMED = ast.FunctionDef | ast.ClassDef
NAMES = {a: b for pair in map(str.split, PAIRS) for a, b in (pair, pair[::-1])}


@dataclasses.dataclass(frozen=True)
class Mutation:
    """A fault: bytes `start` to `end` of a module are replaced."""

    name: str  # a hash of all but the line's number
    path: str
    line: int
    start: int
    end: int
    text: str
    diff: tuple[str, str]  # the line before and after


def replacements(node: ast.AST, source: bytes, place) -> Iterator[tuple[int, int, str]]:
    """The faults that one expression or statement can have."""

    def between(left, right, operator):
        old, new = OPERATORS[type(operator)]
        start, end = place(left)[1], place(right)[0]
        yield start, end, source[start:end].decode().replace(old, new, 1)

    def swap(first, second):
        (a, b), (c, d) = place(first), place(second)
        yield a, d, (source[c:d] + source[b:c] + source[a:b]).decode()

    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            yield from between(left, right, operator)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPERATORS:
            if not any(isinstance(x, ast.JoinedStr) for x in (left, right)):
                yield from between(left, right, operator)
        case ast.BoolOp(op=operator, values=[left, right, *_]):
            yield from between(left, right, operator)
        case ast.UnaryOp(operand=operand):
            yield *place(node), "(" + source[slice(*place(operand))].decode() + ")"
        case ast.Constant(value=bool(value)):
            yield *place(node), str(not value)
        case ast.Constant(value=int(value) | float(value)):
            for changed in (value + 1, value - 1):
                yield *place(node), repr(changed)
        case ast.keyword(arg="axis", value=ast.Constant(value=int(value))):
            yield *place(node.value), str({0: 1, 1: 0, -1: 0}.get(value, value - 1))
        case ast.If(test=test) | ast.While(test=test):
            yield *place(test), "not (" + source[slice(*place(test))].decode() + ")"
        case ast.IfExp(body=body, orelse=orelse):
            yield *place(node), source[slice(*place(body))].decode()
            yield *place(node), source[slice(*place(orelse))].decode()
        case ast.Slice(lower=ast.expr() as bound) | ast.Slice(upper=ast.expr() as bound):
            yield *place(bound), source[slice(*place(bound))].decode() + " + 1"
        case ast.Call(func=ast.Attribute(attr="where"), args=[_, yes, no]):
            yield from swap(yes, no)
            for kept in (yes, no):
                yield *place(node), source[slice(*place(kept))].decode()
        case ast.Call(func=ast.Attribute(attr="add" | "set", value=ast.Name())):
            return  # of a set or a figure, not of array.at[...]
        case ast.Call(func=ast.Attribute(attr=name) as function) if name in NAMES:
            end = place(function)[1]
            yield end - len(name), end, NAMES[name]
        case ast.Call(func=ast.Name(id=name) as function) if name in NAMES:
            yield *place(function), NAMES[name]
        case ast.Call(args=[ast.Name() as first, ast.Name() as second, *_], func=ast.Name()):
            yield from swap(first, second)


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """What of a node can hold faults: no types, decorators, messages, looks or texts."""
    if isinstance(node, ast.Raise | ast.JoinedStr) or getattr(node, "arg", None) == "strict":
        return
    if isinstance(node, ast.Call):
        called = {x.id for x in ast.walk(node.func) if isinstance(x, ast.Name)}
        called |= {x.attr for x in ast.walk(node.func) if isinstance(x, ast.Attribute)}
        if called & TEXTS:
            return
    types = (getattr(node, field, None) for field in ("annotation", "returns"))
    left_out = [*types, *getattr(node, "decorator_list", [])]
    yield from (part for part in ast.iter_child_nodes(node) if part not in left_out)


def mutations(path: str, source: bytes) -> Iterator[Mutation]:
    """All faults of the functions of a module."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    place = lambda node: (  # noqa: E731
        starts[node.lineno - 1] + node.col_offset,
        starts[node.end_lineno - 1] + node.end_col_offset,
    )
    seen = collections.Counter()

    def visit(node, inside):
        if path.startswith("experiments") and LOOKS.search(getattr(node, "name", None) or path):
            return
        inside = inside or isinstance(node, ast.FunctionDef | ast.Lambda)
        for start, end, text in replacements(node, source, place) if inside else ():
            line = bisect.bisect(starts, start)  # from 1
            head, tail = source[starts[line - 1] : start], source[end : source.find(b"\n", end)]
            before = source[starts[line - 1] : starts[line]].decode().strip()
            after = (head.decode() + text + tail.decode()).strip()
            identity = f"{SEED} {path} {before} {after}"
            seen[identity] += 1
            name = hashlib.sha256(f"{identity} {seen[identity]}".encode()).hexdigest()[:12]
            yield Mutation(name, path, line, start, end, text, (before, after))
        for part in parts(node):
            yield from visit(part, inside)

    yield from visit(ast.parse(source), False)


def sample(root: pathlib.Path, skip: int, count: int) -> list[Mutation]:
    """The faults in the order of their hashes, at most one for each line; some are passed over."""
    found = {}
    for package in PACKAGES:
        for file in sorted((root / package).rglob("*.py")):
            path = file.relative_to(root).as_posix()
            for mutation in mutations(path, file.read_bytes()):
                key = mutation.path, mutation.line
                found[key] = min(found.get(key, mutation), mutation, key=lambda m: m.name)
    without = {line.partition(" ")[0] for line in EQUIVALENT.read_text().splitlines()}
    ordered = (m for m in sorted(found.values(), key=lambda m: m.name) if m.name not in without)
    return [*itertools.islice((m for m in ordered if compiles(root, m)), skip, skip + count)]


def mutated(source: bytes, mutation: Mutation) -> bytes:
    """The text of a module with its fault."""
    return source[: mutation.start] + mutation.text.encode() + source[mutation.end :]


def compiles(root: pathlib.Path, mutation: Mutation) -> bool:
    """Whether the module with its fault is Python."""
    try:
        compile(mutated((root / mutation.path).read_bytes(), mutation), mutation.path, "exec")
    except SyntaxError:
        return False
    return True


class Imports:
    """The import graph of modules and test files."""

    def __init__(self, root: pathlib.Path):
        self.files = {}
        for path in (f for p in (*PACKAGES, "tests") for f in (root / p).rglob("*.py")):
            name = ".".join(path.relative_to(root).with_suffix("").parts)
            self.files[name.removeprefix("tests.").removesuffix(".__init__")] = path
        self.trees = {name: ast.parse(path.read_text()) for name, path in self.files.items()}
        self.edges = {name: set(self._imported(name)) for name in self.files}

    def _imported(self, name):
        for node in ast.walk(self.trees[name]):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                # modules that are imported by their names, such as those of lazy exports
                yield from (node.value, f"{name}.{node.value}", f"experiments.{node.value}")

    def nearest_tests(self, path: str) -> list[str]:
        """The test files that import a module: its namesake, the nearest, most mentions."""
        target = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        distance, border = {target: 0}, [target]
        while border:
            new = {n for n, e in self.edges.items() if n not in distance and e & {*border}}
            distance |= dict.fromkeys(new, distance[border[0]] + 1)
            border = sorted(new)
        stem = target.rpartition(".")[2]
        own = [x.name for x in ast.walk(self.trees[target]) if isinstance(x, NAMED)] + [stem]
        named = re.compile(rf"\b({'|'.join(own)})\b")
        mentions = lambda n: len(named.findall(self.files[n].read_text()))  # noqa: E731
        tests = [n for n in distance if n.startswith("test_") and n not in READERS]
        tests.sort(key=lambda n: (n != f"test_{stem}", distance[n], -mentions(n), n))
        return [f"tests/{name}.py" for name in tests]


def run_pytest(copy: pathlib.Path, what: list[str], seconds: int) -> tuple[str, str]:
    """Runs tests until one fails: "passed", "failed" or "limit", and the name of what failed."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=no", *what],
        cwd=copy,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5)),
        capture_output=True,
        text=True,
    )
    if done.returncode in (0, 5):  # 5: all tests of these files are slow
        return "passed", ""
    failed = re.search(r"^(?:FAILED|ERROR) ([^\s\[]+)", done.stdout, re.MULTILINE)
    return ("failed", failed[1]) if failed else ("limit", "")


def examine(copy: pathlib.Path, mutation: Mutation, imports: Imports, commit: str) -> dict:
    """Puts one fault into the clone, and sees which test notices."""
    file, tests = copy / mutation.path, imports.nearest_tests(mutation.path)
    source, begin = file.read_bytes(), resource.getrusage(resource.RUSAGE_CHILDREN)
    outcome, test, passed = "no tests", "", set()
    for number, seconds in STAGES:
        stage = [x for x in tests[:number] if x not in passed]
        if stage and outcome != "failed":
            file.write_bytes(mutated(source, mutation))
            outcome, test = run_pytest(copy, stage, seconds)
            file.write_bytes(source)
            passed |= {*stage} if outcome == "passed" else set()
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    outcome = {"failed": "killed", "passed": "survived"}.get(outcome, outcome)
    spent = end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime
    place = dict(path=mutation.path, line=mutation.line, diff=mutation.diff)
    return dict(place, outcome=outcome, test=test, tests=tests, cpu=round(spent, 1), commit=commit)


def is_stale(result: dict, copy: pathlib.Path, commit: str) -> bool:
    """Whether a result's module, or a test that decided it, has changed since."""
    command = ["git", "-C", str(copy), "diff", "--name-only", result["commit"], commit]
    changed = {*subprocess.run(command, capture_output=True, text=True).stdout.split()}
    noticed = result["test"].partition("::")[0]
    return bool(changed & {result["path"], *([noticed] if noticed else result["tests"])})


def main() -> None:
    """Examines the sample, or some of what is left of it, and prints what has been found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=60, help="size of the sample")
    parser.add_argument("--skip", type=int, default=0, help="for another sample: faults before it")
    parser.add_argument("--limit", type=int, help="examine at most this many now")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "out" / "mutations")
    how = parser.parse_args()
    copy, kept = how.out.resolve() / "clone", how.out.resolve() / "results"
    kept.mkdir(parents=True, exist_ok=True)
    if not copy.exists():
        subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, copy], check=True)
    head = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    commit = subprocess.check_output(head, text=True).strip()
    subprocess.run(["git", "-C", copy, "checkout", "--quiet", "--force", commit], check=True)
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(how.out.resolve() / "compiled"))
    chosen, imports, left = sample(copy, how.skip, how.count), Imports(copy), how.limit
    outcomes, decided = collections.Counter(), collections.defaultdict(list)
    for mutation in chosen:
        record = kept / f"{mutation.name}.json"
        result = json.loads(record.read_text()) if record.exists() else None
        if (result is None or is_stale(result, copy, commit)) and left != 0:
            left = left and left - 1
            result = examine(copy, mutation, imports, commit)
            written = record.with_suffix(".part")
            written.write_text(json.dumps(result, indent=1))
            written.replace(record)
        outcome = result["outcome"] if result else "not yet"
        outcomes[outcome] += 1
        if result:
            if outcome == "killed":
                decided[result["test"]].append(record)
            before, after = mutation.diff
            print(f"{mutation.name} {outcome}: {mutation.path}:{mutation.line} {result['test']}")
            print(f"    - {before}\n    + {after}", flush=True)
    print(dict(outcomes))
    while "not yet" not in outcomes and decided:
        outcome, test = run_pytest(copy, sorted(decided), 3600)
        if outcome != "failed":
            print(f"The tests that noticed, without faults: {outcome}")
            break
        print(f"{test} fails without faults, too: what it decided is forgotten")
        for record in decided.pop(test):
            record.unlink()


if __name__ == "__main__":
    main()
