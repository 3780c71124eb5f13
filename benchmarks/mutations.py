"""Whether the fast tests notice a small mistake: change one place of the code, and run them.

    python -m benchmarks.mutations --number 60 --seed 1 [--save results.json]

Each mistake is one drawn place of `ROOMS`: a comparison flipped, a number changed, a sign swapped,
a condition turned round, a statement left out. It is made in a copy of the checkout. The tests
that run its line come first, then the others of their files; the first failure kills the mistake.
With `--jobs`, that many are judged at once, in a copy each. With `--trace FOLDER`, which tests run
a line is kept there, or read if it is there already. With `--tests FOLDER`, other tests judge the
same mistakes; with `--only FILE`, those alone that survived in an earlier result. A run that was
stopped goes on where it was, if `--save` names the same file.
"""

from __future__ import annotations

import argparse
import ast
import functools
import itertools
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue

import coverage

CHECKOUT = Path(__file__).parents[1]
# What is changed, by the group that a quarter of all mistakes is drawn from.
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
LIMIT_S = 900  # a mistake that makes the tests hang is noticed, too

FLIPPED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
SWAPPED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


@dataclass(frozen=True)
class Mutation:
    """One mistake, and whether a test noticed it."""

    file: str
    line: int
    kind: str
    before: str
    after: str
    place: int
    """Its number among the places of the file."""
    killed_by: str = ""
    """The first test that failed; empty if none did."""


def places(tree: ast.Module) -> list[tuple[ast.AST, str]]:
    """Return the nodes that can be changed, with the kind of change."""
    found: list[tuple[ast.AST, str]] = []
    for node in _code(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            found.append((node, "comparison"))
        elif isinstance(node, (ast.BinOp, ast.BoolOp, ast.AugAssign)) and type(node.op) in SWAPPED:
            found.append((node, "operator"))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
            found.append((node, "sign"))
        elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
            found.append((node, "constant"))
        elif isinstance(node, ast.Raise) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        ):
            found.append((node, "statement"))
        elif isinstance(node, ast.IfExp):
            found.append((node, "condition"))
    return found


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs: no annotations, no imports, nothing for type checkers alone.

    Nor `strict` of a `zip`: without it, nothing changes as long as the code is right.
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
            yield from _code(child)


@functools.cache
def _n_places(source: str) -> int:
    return len(places(ast.parse(source)))


def mutated(source: str, place: int) -> tuple[str, Mutation]:
    """Return the source with one place changed, and what was changed."""
    tree = ast.parse(source)
    node, kind = places(tree)[place]
    before = ast.unparse(node)
    changed = _change(node)
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is node:
                setattr(parent, name, changed)
            elif isinstance(value, list):
                value[:] = [changed if child is node else child for child in value]
    line = getattr(node, "lineno", 0)
    told = Mutation("", line, kind, before.splitlines()[0], ast.unparse(changed), place)
    return ast.unparse(ast.fix_missing_locations(tree)), told


def _change(node: ast.AST) -> ast.AST:
    """Return what stands in the place of a node."""
    match node:
        case ast.Compare(left, [operator], comparators):
            changed: ast.AST = ast.Compare(left, [FLIPPED[type(operator)]()], comparators)
        case ast.BoolOp(operator, values):
            changed = ast.BoolOp(SWAPPED[type(operator)](), values)
        case ast.BinOp(left, operator, right):
            changed = ast.BinOp(left, SWAPPED[type(operator)](), right)
        case ast.AugAssign(target, operator, value):
            changed = ast.AugAssign(target, SWAPPED[type(operator)](), value)
        case ast.UnaryOp(_, operand):
            changed = operand
        case ast.IfExp(test, body, orelse):
            changed = ast.IfExp(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.Constant(bool() as value):
            changed = ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            changed = ast.Constant(value + 1)
        case _:
            changed = ast.Pass()
    return changed


def drawn(number: int, seed: int, checkout: Path = CHECKOUT) -> list[Mutation]:
    """Draw mistakes: as many in each group of rooms, evenly over all places of its files."""
    draws = random.Random(seed)  # noqa: S311 - not for secrets
    groups: dict[str, list[tuple[Path, int]]] = {}
    for room, group in ROOMS.items():
        for file in sorted((checkout / room).rglob("*.py")):
            known = range(_n_places(file.read_text("utf-8")))
            groups.setdefault(group, []).extend((file, at) for at in known)
    made = []
    for at, group_places in enumerate(groups.values()):
        size = number // len(groups) + (at < number % len(groups))
        for file, place in draws.sample(group_places, size):
            _, told = mutated(file.read_text("utf-8"), place)
            named = asdict(told) | {"file": str(file.relative_to(checkout))}
            made.append(Mutation(**named))
    return made


class Traced:
    """Which tests run a line, and how long each takes: one run of the fast tests tells both."""

    def __init__(self, kept: Path) -> None:
        """Read what one run told."""
        self._root = (kept / "root").read_text("utf-8")
        self._data = coverage.CoverageData(str(kept / "lines"))
        self._data.read()
        self._seconds: dict[str, float] = {}
        for file in kept.glob("*.json"):
            self._seconds |= json.loads(file.read_text("utf-8"))

    @classmethod
    def of(cls, copy: Path) -> Traced:
        """Run the tests in a copy of the checkout."""
        command = [sys.executable, "-m", "pytest", "-q", *SELECTED, "-n", str(os.cpu_count())]
        command += ["--dist", "worksteal", "-p", "benchmarks._which_tests", *TESTS]
        (copy / "traced").mkdir()
        done = _run(command, copy, limit_s=None, TRACED=str(copy / "traced"))
        if done.returncode:
            raise SystemExit("the tests fail without a mistake:\n" + done.stdout[-2000:])
        merged = coverage.Coverage(data_file=str(copy / "traced" / "lines"))
        merged.combine([str(copy / "traced")])
        merged.save()
        (copy / "traced" / "root").write_text(str(copy), "utf-8")
        return cls(copy / "traced")

    def tests_of(self, mutation: Mutation, source: str) -> list[list[str]]:
        """Return the tests that run the changed line, then all others of their files.

        What is run once for several tests, such as a fixture, counts as run by the first of them.
        A constant is read by whatever test runs a line of its file. The tests beside the code come
        first, and of the others as many quick ones as fit in `OTHERS_S`.
        """
        lines = self._data.contexts_by_lineno(str(Path(self._root, mutation.file)))
        first, last = _statement(source, mutation.place)
        ran = {one for at in range(first, last + 1) for one in lines.get(at, []) if one}
        ran = ran or {one for tests in lines.values() for one in tests if one}
        room = next(one for one in ROOMS if mutation.file.startswith(one))
        own = sorted((one for one in ran if one.startswith(f"tests/{room}")), key=self._took)
        others = sorted(ran.difference(own), key=self._took)
        spent = itertools.accumulate(map(self._took, others))
        quick = [one for one, so_far in zip(others, spent, strict=True) if so_far <= OTHERS_S]
        files = {one.partition("::")[0] for one in own or quick}
        known = {one for one in self._seconds if one.partition("::")[0] in files}
        return [own + quick, sorted(known.difference(own, quick), key=self._took)]

    def _took(self, test: str) -> float:
        return self._seconds.get(test, 0.0)


def _statement(source: str, place: int) -> tuple[int, int]:
    """Return the first line of the statement of a place, and the last line of the place."""
    tree = ast.parse(source)
    node, _ = places(tree)[place]
    holds = [
        one.lineno
        for one in ast.walk(tree)
        if isinstance(one, ast.stmt) and any(inner is node for inner in ast.walk(one))
    ]
    return max(holds), getattr(node, "end_lineno", 0)


def copied(tests: Path, copy: Path, checkout: Path = CHECKOUT) -> Path:
    """Make a copy of the checkout with these tests."""
    for name in COPIED:
        shutil.copytree(checkout / name, copy / name, symlinks=True)
    for name in FILES:
        shutil.copy(checkout / name, copy / name)
    shutil.copytree(tests, copy / "tests")
    return copy


def judged(mutation: Mutation, traced: Traced, copy: Path) -> Mutation:
    """Make a mistake in a copy of the checkout, run its tests, and take it back."""
    file = copy / mutation.file
    source = file.read_text("utf-8")
    _write(file, mutated(source, mutation.place)[0])
    try:
        killed = ""
        for chosen in traced.tests_of(mutation, source):
            killed = killed or (_first_failure(copy, chosen) if chosen else "")
    finally:
        _write(file, source)
    return Mutation(**asdict(mutation) | {"killed_by": killed})


def _write(file: Path, source: str) -> None:
    """Write a module whose compiled one, of the same size and the same second, may be another."""
    Path(cache_from_source(file)).unlink(missing_ok=True)
    file.write_text(source, "utf-8")


def _first_failure(copy: Path, chosen: list[str]) -> str:
    """Return the first test that fails in a copy; empty if all pass."""
    (copy / "chosen").write_text("\n".join(chosen), "utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "--tb=no", *SELECTED]
    try:
        done = _run([*command, "@chosen"], copy)
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT_S} s"
    if done.returncode == 0:
        return ""
    named = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return named[0].split(" - ")[0] if named else f"ended with {done.returncode}"


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
    parser.add_argument("--only", type=Path, help="a result of which only survivors are judged")
    parser.add_argument("--jobs", type=int, default=1, help="how many are judged at once")
    parser.add_argument("--trace", type=Path, help="keep or use what ran which line")
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    made = drawn(options.number, options.seed)
    results = []
    if options.save and options.save.exists():
        results = [Mutation(**one) for one in json.loads(options.save.read_text("utf-8"))]
    if options.only:
        known = json.loads(options.only.read_text("utf-8"))
        survived = {(one["file"], one["place"]) for one in known if not one["killed_by"]}
        made = [one for one in made if (one.file, one.place) in survived]
    known = {(one.file, one.place) for one in results}
    made = [one for one in made if (one.file, one.place) not in known]
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        root = Path(folder).resolve()
        copies: SimpleQueue[Path] = SimpleQueue()
        for job in range(options.jobs):
            copies.put(copied(options.tests.resolve(), root / str(job)))
        kept = options.trace or root / "0" / "traced"
        if not kept.exists():
            Traced.of(root / "0")
            if options.trace:
                shutil.copytree(root / "0" / "traced", kept)
        traced = Traced(kept)

        def judged_in_a_copy(mutation: Mutation) -> Mutation:
            copy = copies.get()
            try:
                return judged(mutation, traced, copy)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(options.jobs) as pool:
            for done in as_completed(pool.submit(judged_in_a_copy, one) for one in made):
                results.append(one := done.result())
                print(f"{one.file}:{one.line} {one.kind}: {one.before} -> {one.after}")
                print(f"    {one.killed_by or 'SURVIVED'}", flush=True)
                if options.save:
                    options.save.write_text(json.dumps([asdict(one) for one in results], indent=1))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    killed = sum(bool(one.killed_by) for one in results)
    print(f"{killed} of {len(results)} noticed; {used.ru_utime + used.ru_stime:.0f} CPU-seconds")


if __name__ == "__main__":
    main()
