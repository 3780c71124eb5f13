"""Check that the fast tests notice small mistakes: change one place of the code, and run them.

    python -m benchmarks.mutations --number 60 --seed 1 [--save results.json]

Each mistake is a drawn place of `ROOMS`: a comparison flipped, a number changed, a sign swapped, a
condition inverted, a statement removed. It is made in a copy of the checkout. The tests that run
its line come first, then the other tests of their files; the first failure kills the mistake.
`--jobs` judges several mistakes at once, in a copy each. `--trace FOLDER` saves or reads which
tests run a line. `--tests FOLDER` uses other tests for the same mistakes; `--only FILE` judges only
the survivors of an earlier result. A stopped run is resumed if `--save` names the same file.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue

import coverage

CHECKOUT = Path(__file__).parents[1]
# The group of each room; a quarter of all mistakes is drawn from each group.
ROOMS = {
    "bias_metrics": "bias_metrics",
    "tasks/gating": "gating",
    "tasks/verifying": "verifying",
    "tasks/ledger": "ledger and promoting",
    "tasks/promoting": "ledger and promoting",
}
TESTS = ["tests/bias_metrics", "tests/plot", "tests/tasks", "tests/flows"]
COPIED = ("bias_metrics", "biasgate", "tasks", "flows", "deployments", "benchmarks", "docs")
FILES = ("pyproject.toml", "Makefile", "README.md", "CONTRIBUTING.md", "SECURITY.md")
SELECTED = ["-m", "not slow", "-p", "no:cacheprovider", "-p", "no:cov"]
OTHERS_S = 60
LIMIT_S = 900  # tests that hang notice a mistake

_COMPARISONS = (
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.In, ast.NotIn),
    (ast.Is, ast.IsNot),
)
_OPERATORS = ((ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.BitAnd, ast.BitOr), (ast.And, ast.Or))
FLIPPED, SWAPPED = (
    dict(pairs) | {second: first for first, second in pairs} for pairs in (_COMPARISONS, _OPERATORS)
)


@dataclass(frozen=True)
class Mutation:
    """A mistake, and the test that noticed it."""

    file: str
    line: int
    kind: str
    before: str
    after: str
    place: int
    """Index among the places of the file."""
    killed_by: str = ""
    """The first test that failed; empty if all passed."""


def list_places(tree: ast.Module) -> list[tuple[ast.AST, str]]:
    """Return the nodes that can be changed, with the kind of change."""
    places: list[tuple[ast.AST, str]] = []
    for node in _iter_code(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            places.append((node, "comparison"))
        elif isinstance(node, (ast.BinOp, ast.BoolOp, ast.AugAssign)) and type(node.op) in SWAPPED:
            places.append((node, "operator"))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
            places.append((node, "sign"))
        elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
            places.append((node, "constant"))
        elif isinstance(node, ast.Raise) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        ):
            places.append((node, "statement"))
        elif isinstance(node, ast.IfExp):
            places.append((node, "condition"))
    return places


def _iter_code(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run, without annotations, imports and code for type checkers.

    `strict` of a `zip` is left out, since it has no effect while the code is right.
    """
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params"}:
            continue
        if name == "keywords" and isinstance(node, ast.Call) and ast.unparse(node.func) == "zip":
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, (ast.Import, ast.ImportFrom)):
                continue
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            yield child
            yield from _iter_code(child)


def mutate(source: str, place: int) -> tuple[str, Mutation]:
    """Return the source with one place changed, and the mutation."""
    tree = ast.parse(source)
    node, kind = list_places(tree)[place]
    before = ast.unparse(node)
    changed = _change_node(node)
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is node:
                setattr(parent, name, changed)
            elif isinstance(value, list):
                value[:] = [changed if child is node else child for child in value]
    line = getattr(node, "lineno", 0)
    mutation = Mutation("", line, kind, before.splitlines()[0], ast.unparse(changed), place)
    return ast.unparse(ast.fix_missing_locations(tree)), mutation


def _change_node(node: ast.AST) -> ast.AST:  # noqa: PLR0911 - a result for each kind
    """Return the replacement of a node."""
    match node:
        case ast.Compare(left, [operator], comparators):
            return ast.Compare(left, [FLIPPED[type(operator)]()], comparators)
        case ast.BoolOp(operator, values):
            return ast.BoolOp(SWAPPED[type(operator)](), values)
        case ast.BinOp(left, operator, right):
            return ast.BinOp(left, SWAPPED[type(operator)](), right)
        case ast.AugAssign(target, operator, value):
            return ast.AugAssign(target, SWAPPED[type(operator)](), value)
        case ast.UnaryOp(_, operand):
            return operand
        case ast.IfExp(test, body, orelse):
            return ast.IfExp(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.Constant(bool() as value):
            return ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            return ast.Constant(value + 1)
        case _:
            return ast.Pass()


def draw_mutations(number: int, seed: int, checkout: Path = CHECKOUT) -> list[Mutation]:
    """Draw mistakes: as many in each group of rooms, evenly over all places of its files."""
    draws = random.Random(seed)  # noqa: S311 - not for secrets
    groups: dict[str, list[tuple[Path, int]]] = {}
    for room, group in ROOMS.items():
        for file in sorted((checkout / room).rglob("*.py")):
            n_places = len(list_places(ast.parse(file.read_text("utf-8"))))
            groups.setdefault(group, []).extend((file, place) for place in range(n_places))
    mutations = []
    for index, places in enumerate(groups.values()):
        size = number // len(groups) + (index < number % len(groups))
        for file, place in draws.sample(places, size):
            _, mutation = mutate(file.read_text("utf-8"), place)
            mutations.append(replace(mutation, file=str(file.relative_to(checkout))))
    return mutations


class Traced:
    """The tests per line, and their times, from a run of the fast tests."""

    def __init__(self, folder: Path) -> None:
        """Read the records of a run."""
        self._root = (folder / "root").read_text("utf-8")
        self._data = coverage.CoverageData(str(folder / "lines"))
        self._data.read()
        self._seconds: dict[str, float] = {}
        for file in folder.glob("*.json"):
            self._seconds |= json.loads(file.read_text("utf-8"))

    @classmethod
    def from_run(cls, copy: Path) -> Traced:
        """Run the tests in a copy of the checkout."""
        command = [sys.executable, "-m", "pytest", "-q", *SELECTED, "-n", str(os.cpu_count())]
        command += ["--dist", "worksteal", "-p", "benchmarks._which_tests", *TESTS]
        (copy / "traced").mkdir()
        result = _run(command, copy, limit_s=None, TRACED=str(copy / "traced"))
        if result.returncode:
            raise SystemExit("the tests fail without a mistake:\n" + result.stdout[-2000:])
        merged = coverage.Coverage(data_file=str(copy / "traced" / "lines"))
        merged.combine([str(copy / "traced")])
        merged.save()
        (copy / "traced" / "root").write_text(str(copy), "utf-8")
        return cls(copy / "traced")

    def select_tests(self, mutation: Mutation, source: str) -> list[list[str]]:
        """Return the tests that run the changed line, then the other tests of their files.

        A line that runs once for several tests, such as a fixture, counts for the first test. A
        constant is read by any test that runs a line of its file. The tests of the same room come
        first, then as many quick tests of other rooms as fit in `OTHERS_S`.
        """
        lines = self._data.contexts_by_lineno(str(Path(self._root, mutation.file)))
        first, last = _find_lines(source, mutation.place)
        ran = {test for line in range(first, last + 1) for test in lines.get(line, []) if test}
        ran = ran or {test for tests in lines.values() for test in tests if test}
        room = next(name for name in ROOMS if mutation.file.startswith(name))
        own = self._sort_tests(test for test in ran if test.startswith(f"tests/{room}"))
        others = self._sort_tests(ran.difference(own))
        spent = itertools.accumulate(map(self._get_seconds, others))
        quick = [test for test, so_far in zip(others, spent, strict=True) if so_far <= OTHERS_S]
        files = {test.partition("::")[0] for test in own or quick}
        in_files = {test for test in self._seconds if test.partition("::")[0] in files}
        return [own + quick, self._sort_tests(in_files.difference(own, quick))]

    def _sort_tests(self, tests: Iterable[str]) -> list[str]:
        return sorted(tests, key=self._get_seconds)

    def _get_seconds(self, test: str) -> float:
        return self._seconds.get(test, 0.0)


def _find_lines(source: str, place: int) -> tuple[int, int]:
    """Return the first line of the statement of a place, and the last line of the place."""
    tree = ast.parse(source)
    node, _ = list_places(tree)[place]
    lines = [
        statement.lineno
        for statement in ast.walk(tree)
        if isinstance(statement, ast.stmt) and any(inner is node for inner in ast.walk(statement))
    ]
    return max(lines), getattr(node, "end_lineno", 0)


def copy_checkout(tests: Path, copy: Path) -> Path:
    """Make a copy of the checkout with these tests."""
    for name in COPIED:
        shutil.copytree(CHECKOUT / name, copy / name, symlinks=True)
    for name in FILES:
        shutil.copy(CHECKOUT / name, copy / name)
    shutil.copytree(tests, copy / "tests")
    return copy


def judge(mutation: Mutation, traced: Traced, copy: Path) -> Mutation:
    """Make a mistake in a copy of the checkout, run its tests, and revert it."""
    file = copy / mutation.file
    source = file.read_text("utf-8")
    _write(file, mutate(source, mutation.place)[0])
    try:
        failures = (
            _find_failure(copy, tests) for tests in traced.select_tests(mutation, source) if tests
        )
        return replace(mutation, killed_by=next(filter(None, failures), ""))
    finally:
        _write(file, source)


def _write(file: Path, source: str) -> None:
    """Write a module, and remove its compiled file.

    The compiled file may be of another source with the same size and the same second.
    """
    Path(cache_from_source(file)).unlink(missing_ok=True)
    file.write_text(source, "utf-8")


def _find_failure(copy: Path, tests: list[str]) -> str:
    """Return the first test that fails in a copy; empty if all pass."""
    (copy / "chosen").write_text("\n".join(tests), "utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "--tb=no", *SELECTED]
    try:
        result = _run([*command, "@chosen"], copy)
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT_S} s"
    if result.returncode == 0:
        return ""
    failures = [line for line in result.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failures[0].split(" - ")[0] if failures else f"ended with {result.returncode}"


def _run(
    command: list[str], copy: Path, limit_s: int | None = LIMIT_S, **environment: str
) -> subprocess.CompletedProcess[str]:
    environment |= {"PYTHONPATH": str(copy), "HYPOTHESIS_STORAGE_DIRECTORY": str(copy)}
    return subprocess.run(  # noqa: S603 - our own tests
        command,
        cwd=copy,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )


def main() -> None:
    """Draw, judge, print and save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutations", description=__doc__)
    parser.add_argument("--number", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", type=Path, default=CHECKOUT / "tests")
    parser.add_argument("--only", type=Path, help="judge only the survivors of this result")
    parser.add_argument("--jobs", type=int, default=1, help="number of mistakes judged at once")
    parser.add_argument("--trace", type=Path, help="folder to save or read the tests per line")
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    results = []
    if options.save and options.save.exists():
        results = [Mutation(**saved) for saved in json.loads(options.save.read_text("utf-8"))]
    mutations = {
        (mutation.file, mutation.place): mutation
        for mutation in draw_mutations(options.number, options.seed)
    }
    if options.only:
        earlier = json.loads(options.only.read_text("utf-8"))
        survived = {(saved["file"], saved["place"]) for saved in earlier if not saved["killed_by"]}
        mutations = {place: mutations[place] for place in mutations if place in survived}
    for mutation in results:
        mutations.pop((mutation.file, mutation.place), None)
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        root = Path(folder).resolve()
        copies: SimpleQueue[Path] = SimpleQueue()
        for job in range(options.jobs):
            copies.put(copy_checkout(options.tests.resolve(), root / str(job)))
        trace = options.trace or root / "0" / "traced"
        if not trace.exists():
            Traced.from_run(root / "0")
            if options.trace:
                shutil.copytree(root / "0" / "traced", trace)
        traced = Traced(trace)

        def judge_in_copy(mutation: Mutation) -> Mutation:
            copy = copies.get()
            try:
                return judge(mutation, traced, copy)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(options.jobs) as pool:
            for future in as_completed(pool.submit(judge_in_copy, m) for m in mutations.values()):
                mutation = future.result()
                results.append(mutation)
                change = f"{mutation.kind}: {mutation.before} -> {mutation.after}"
                print(f"{mutation.file}:{mutation.line} {change}")
                print(f"    {mutation.killed_by or 'SURVIVED'}", flush=True)
                if options.save:
                    options.save.write_text(json.dumps(list(map(asdict, results)), indent=1))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    n_killed = sum(bool(mutation.killed_by) for mutation in results)
    print(f"{n_killed} of {len(results)} noticed; {used.ru_utime + used.ru_stime:.0f} CPU-seconds")


if __name__ == "__main__":
    main()
