"""Count what a refactoring is to make smaller: `python -m benchmarks.counts [FOLDER] [--at REV]`.

Python files that git tracks in FOLDER (default: the working folder) are counted as they stand in
the work tree, or once for each REV (`--at REV --at REV`), side by side. Links are not followed.
Source is the code of the five rooms; benchmarks, docs and other folders have lines of their own.
What is counted:

- source lines, test lines: all lines, blank ones and docstrings included.
- string subscripts: `x["key"]` in tasks, flows, deployments and biasgate, read, written or deleted.
  Not counted: annotations such as `Literal["key"]`, and the reading of JSON, where a key is taken
  straight from the call that read it: `json.loads(text)["key"]`.
- dict[str, Any] in signatures: parameters and returns of functions in tasks and flows whose
  annotation has `dict[str, Any]` or `Mapping[str, Any]` anywhere in it, one for each annotation.
- modules with one importer or none: source modules (no `__init__`, no `__main__`) that at most one
  other source module imports, by any import statement or by name, `import_module("...")`. Tests,
  benchmarks and docs are no importers.
- deep imports: import statements of tasks, flows, deployments and biasgate that name a module of
  the library past its faces. A face is `bias_metrics` itself, and a module or subpackage without
  `_` in its path that has an `__all__`.
- the word `one`: per 1,000 source lines, in names of its own, comments and texts alike.
- long functions: more than 40 lines from the first statement after the docstring to the last.
- long files: more than 300 lines.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

APP = ("tasks", "flows", "deployments", "biasgate")
ROOMS = ("bias_metrics", *APP)
LONG_FUNCTION, LONG_FILE = 40, 300
LOOSE = re.compile(r"\b(?:dict|Dict|Mapping|MutableMapping)\[str, Any\]")
Functions = ast.FunctionDef | ast.AsyncFunctionDef


def main(arguments: list[str] | None = None) -> None:
    """Print one column for each tree."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.counts", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", nargs="?", type=Path, default=Path())
    parser.add_argument("--at", action="append", metavar="REV", help="a revision; may be repeated")
    options = parser.parse_args(arguments)
    revisions = options.at or [None]
    columns = [counts(sources(options.folder, revision)) for revision in revisions]
    labels = list(dict.fromkeys(label for column in columns for label in column))
    print(f"{'':<44}" + "".join(f"{revision or 'work tree':>14.13}" for revision in revisions))
    for label in labels:
        print(f"{label:<44}" + "".join(f"{column.get(label, 0):>14,}" for column in columns))


def sources(folder: Path, revision: str | None) -> dict[str, str]:
    """Return the text of every tracked Python file, by its path."""
    if revision is None:
        paths = _git(folder, "ls-files", "-z", "*.py").decode().split("\0")
        files = [(path, folder / path) for path in paths if path]
        return {path: file.read_text("utf-8") for path, file in files if file.is_file()}
    with tarfile.open(fileobj=io.BytesIO(_git(folder, "archive", revision))) as archive:
        return {
            member.name: content.read().decode()
            for member in archive
            if member.name.endswith(".py") and (content := archive.extractfile(member))
        }


def _git(folder: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True).stdout  # noqa: S603


def counts(files: dict[str, str]) -> dict[str, int]:
    """Return every count of a tree, by its label."""
    of_rooms = {path: text for path, text in files.items() if _top(path) in ROOMS}
    trees = {path: ast.parse(text) for path, text in of_rooms.items()}
    app = {path: tree for path, tree in trees.items() if _top(path) in APP}
    lines = {path: len(text.splitlines()) for path, text in files.items()}
    by_folder: Counter[str] = Counter()
    for path, n_lines in lines.items():
        by_folder[_top(path)] += n_lines
    n_source = sum(lines[path] for path in of_rooms)
    words = sum(len(re.findall(r"\bone\b", text)) for text in of_rooms.values())
    found = {"source lines": n_source}
    found |= {f"  {room}: lines": by_folder[room] for room in ROOMS}
    others = sorted(set(by_folder) - {*ROOMS, "tests"})
    found |= {f"lines of {folder}": by_folder[folder] for folder in others}
    found["lines of tests"] = by_folder["tests"]
    found["source files"] = len(of_rooms)
    subscripts = Counter(_top(path) for path, tree in app.items() for _ in string_subscripts(tree))
    found["string subscripts outside the library"] = subscripts.total()
    found |= {f"  {room}: subscripts": subscripts[room] for room in APP}
    for what, returns in (("parameters", False), ("returns", True)):
        found[f"dict[str, Any] as {what}, tasks and flows"] = sum(
            len(list(loose_annotations(tree, returns=returns)))
            for path, tree in trees.items()
            if _top(path) in {"tasks", "flows"}
        )
    found["modules with one importer or none"] = len(rarely_imported(trees))
    found["deep imports past the library's faces"] = sum(
        len(list(deep_imports(path, tree, faces(trees)))) for path, tree in app.items()
    )
    found["the word `one` per 1,000 source lines"] = round(1000 * words / max(n_source, 1))
    lengths = [length for tree in trees.values() for length in body_lengths(tree)]
    found["functions"] = len(lengths)
    found[f"functions of more than {LONG_FUNCTION} body lines"] = _above(lengths, LONG_FUNCTION)
    found[f"source files over {LONG_FILE} lines"] = _above(
        [lines[path] for path in of_rooms], LONG_FILE
    )
    found[f"test files over {LONG_FILE} lines"] = _above(
        [n_lines for path, n_lines in lines.items() if _top(path) == "tests"], LONG_FILE
    )
    return found


def string_subscripts(tree: ast.Module) -> Iterator[ast.Subscript]:
    """Yield `x["key"]`, but neither annotations nor keys straight from a call that reads JSON."""
    annotations = {id(part) for node in _annotations(tree) for part in ast.walk(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Subscript) or id(node) in annotations:
            continue
        key = node.slice
        text = isinstance(key, ast.Constant) and isinstance(key.value, str)
        if text and not _is_typing(node.value) and not _reads_json(node.value):
            yield node


def _annotations(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation:
            yield node.annotation
        elif isinstance(node, Functions) and node.returns:
            yield node.returns


def _is_typing(value: ast.expr) -> bool:
    """Tell types that are written where no annotation stands, such as `Kind = Literal["key"]`."""
    return getattr(value, "attr", getattr(value, "id", "")) in {"Literal", "Annotated", "type"}


def _reads_json(value: ast.expr) -> bool:
    if isinstance(value, ast.Subscript):
        return _reads_json(value.value)
    if not isinstance(value, ast.Call):
        return False
    return ast.unparse(value.func) in {"json.load", "json.loads"}


def loose_annotations(tree: ast.Module, *, returns: bool) -> Iterator[str]:
    """Yield annotations of parameters, or of returns, that say no more than `dict[str, Any]`."""
    for node in ast.walk(tree):
        if not isinstance(node, Functions):
            continue
        given = node.args
        named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        named += [argument for argument in (given.vararg, given.kwarg) if argument]
        annotations = [node.returns] if returns else [argument.annotation for argument in named]
        texts = (ast.unparse(annotation) for annotation in annotations if annotation)
        yield from (text for text in texts if LOOSE.search(text))


def rarely_imported(trees: dict[str, ast.Module]) -> list[str]:
    """Return the paths of modules that at most one other source module imports."""
    modules = {module_of(path): path for path in trees}
    importers: defaultdict[str, set[str]] = defaultdict(set)
    for path, tree in trees.items():
        for _, names in imports(path, tree):
            # `from package import name`: the name may be a module, else it is the package's.
            for base, name in names:
                target = f"{base}.{name}" if f"{base}.{name}" in modules else base
                if target in modules and modules[target] != path:
                    importers[modules[target]].add(path)
    ways_in = {"__init__.py", "__main__.py"}
    return [p for p in trees if PurePosixPath(p).name not in ways_in and len(importers[p]) <= 1]


def deep_imports(path: str, tree: ast.Module, public: set[str]) -> Iterator[int]:
    """Yield the lines of statements that import a module of the library that is no face."""
    for line, names in imports(path, tree):
        inside = [base for base, _ in names if base.partition(".")[0] == "bias_metrics"]
        if any(base not in public for base in inside):
            yield line


def faces(trees: dict[str, ast.Module]) -> set[str]:
    """Return `bias_metrics`, and its public modules and subpackages that have an `__all__`."""
    exporting = {
        module_of(path)
        for path, tree in trees.items()
        if path.startswith("bias_metrics/") and "/_" not in path.replace("/__init__.py", "")
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and "__all__" in ast.unparse(node)
    }
    return {"bias_metrics", *exporting}


def imports(path: str, tree: ast.Module) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Yield for each import its line, and pairs of module and name (empty for a plain import)."""
    package = module_of(path).split(".")
    if not path.endswith("/__init__.py"):
        package = package[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield node.lineno, [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield node.lineno, [(base, alias.name) for alias in node.names]
        elif isinstance(node, ast.Call) and node.args and "import_module" in ast.unparse(node.func):
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                yield node.lineno, [(name.value, "")]


def module_of(path: str) -> str:
    """Return the name by which a file is imported; tasks are `biasgate.tasks`, and so on."""
    parts = list(PurePosixPath(path).with_suffix("").parts)
    if parts[0] in {"tasks", "flows", "deployments"}:
        parts.insert(0, "biasgate")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def body_lengths(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of every function from its first statement after the docstring to its end."""
    for node in ast.walk(tree):
        if isinstance(node, Functions):
            body = node.body[1:] if ast.get_docstring(node, clean=False) else node.body
            yield (node.end_lineno or 0) - body[0].lineno + 1 if body else 0


def _top(path: str) -> str:
    return PurePosixPath(path).parts[0]


def _above(values: list[int], limit: int) -> int:
    return sum(value > limit for value in values)


if __name__ == "__main__":
    main()
