"""Whether the fast tests notice a small mistake: change one place of the code, and run them.

    python -m benchmarks.mutations --number 60 --seed 1 [--save results.json]

Each mistake is one drawn place of `ROOMS`: a comparison flipped, a number changed, a sign swapped,
a condition turned round, a statement left out. It is made in a copy of the checkout. The tests of
its own room run first, then those of the rooms around it; the first failure kills the mistake. With
`--tests FOLDER`, other tests judge the same mistakes; with `--only FILE`, those alone that survived
in an earlier result. A run that was stopped goes on where it was, if `--save` names the same file.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
# What is changed, and the tests that run after those of the file's own folder. One in four each.
ROOMS = {
    "bias_metrics": ["tests/bias_metrics", "tests/plot"],
    "tasks/gating": ["tests/tasks/gating", "tests/tasks/evidence"],
    "tasks/verifying": ["tests/tasks/verifying", "tests/tasks/promoting"],
    "tasks/ledger": ["tests/tasks/ledger", "tests/tasks/promoting"],
    "tasks/promoting": ["tests/tasks/promoting", "tests/tasks/verifying"],
}
TOGETHER = {"tasks/ledger": "ledger and promoting", "tasks/promoting": "ledger and promoting"}
COPIED = ("bias_metrics", "biasgate", "tasks", "flows", "deployments", "benchmarks", "docs")
FILES = ("pyproject.toml", "Makefile", "README.md", "CONTRIBUTING.md", "SECURITY.md")
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
    """Yield what runs: no annotations, no imports, nothing for type checkers alone."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params"}:
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
    for room in ROOMS:
        for file in sorted((checkout / room).rglob("*.py")):
            known = range(_n_places(file.read_text("utf-8")))
            groups.setdefault(TOGETHER.get(room, room), []).extend((file, at) for at in known)
    made = []
    for at, group in enumerate(groups.values()):
        size = number // len(groups) + (at < number % len(groups))
        for file, place in draws.sample(group, size):
            _, told = mutated(file.read_text("utf-8"), place)
            named = asdict(told) | {"file": str(file.relative_to(checkout))}
            made.append(Mutation(**named))
    return made


def rooms_of(file: str, tests: Path) -> list[list[str]]:
    """Return the folders of tests that run, one after the other, for a changed file."""
    mirror = Path("tests") / Path(file).parent
    room = next(one for one in ROOMS if Path(file).is_relative_to(one))
    first = [str(mirror)] if (tests.parent / mirror).is_dir() else []
    return [one for one in (first, [name for name in ROOMS[room] if name not in first]) if one]


def judged(mutation: Mutation, tests: Path, checkout: Path = CHECKOUT) -> Mutation:
    """Make a mistake in a copy of the checkout and run its tests."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        copy = Path(folder)
        for name in COPIED:
            shutil.copytree(checkout / name, copy / name, symlinks=True)
        for name in FILES:
            shutil.copy(checkout / name, copy / name)
        shutil.copytree(tests, copy / "tests")
        source = (checkout / mutation.file).read_text("utf-8")
        (copy / mutation.file).write_text(mutated(source, mutation.place)[0], "utf-8")
        killed = ""
        for chosen in rooms_of(mutation.file, copy / "tests"):
            killed = killed or _first_failure(copy, chosen)
        return Mutation(**asdict(mutation) | {"killed_by": killed})


def _first_failure(copy: Path, folders: list[str]) -> str:
    """Return the first test that fails in a copy; empty if all pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-n", "0"]
    command += ["-p", "no:cacheprovider", "--tb=no", *folders]
    environment = os.environ | {"PYTHONPATH": str(copy), "HYPOTHESIS_STORAGE_DIRECTORY": str(copy)}
    try:
        done = subprocess.run(  # noqa: S603 - our own tests
            command,
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT_S} s"
    if done.returncode == 0:
        return ""
    named = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return named[0].split(" - ")[0] if named else f"ended with {done.returncode}"


def main() -> None:
    """Draw, judge, print and save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutations", description=__doc__)
    parser.add_argument("--number", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", type=Path, default=CHECKOUT / "tests")
    parser.add_argument("--only", type=Path, help="a result of which only survivors are judged")
    parser.add_argument("--part", default="1/1", help="such as 2/4: the second quarter")
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    made = drawn(options.number, options.seed)
    if options.only:
        known = json.loads(options.only.read_text("utf-8"))
        survived = {(one["file"], one["place"]) for one in known if not one["killed_by"]}
        made = [one for one in made if (one.file, one.place) in survived]
    part, parts = map(int, options.part.split("/"))
    results = []
    for mutation in made[part - 1 :: parts]:
        results.append(judged(mutation, options.tests.resolve()))
        one = results[-1]
        print(f"{one.file}:{one.line} {one.kind}: {one.before} -> {one.after}")
        print(f"    {one.killed_by or 'SURVIVED'}", flush=True)
        if options.save:
            options.save.write_text(json.dumps([asdict(one) for one in results], indent=1))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    killed = sum(bool(one.killed_by) for one in results)
    print(f"{killed} of {len(results)} noticed; {used.ru_utime + used.ru_stime:.0f} CPU-seconds")


if __name__ == "__main__":
    main()
