"""Compare two folders of results: `python -m benchmarks.same_numbers BEFORE AFTER`.

Without folders, `BENCHMARK_TREE=FOLDER` runs the same small inputs through the command of that
checkout and of this checkout, and compares their results (`benchmarks/_whole_runs.py`).

Every JSON, CSV and Parquet file is compared value by value, at its place in the file. Items of a
list with a metric or a group, such as the numbers of a table, are compared by these (`KEYS`), in
any order. Numbers must agree to 1e-12 of max(1, |number|), texts must be equal. Of HTML, Markdown,
JUnit and plain text the visible lines must be equal (texts, table cells, titles and alternative
texts; all attributes of JUnit). Files of other kinds, such as pictures, are only counted.

Ignored, and counted in the output:

- values under the keys of `IGNORED`: time, place and packages of a run;
- in every text: ids and digests (12 hexadecimal digits and more), dates, absolute paths, and
  addresses on this machine (`TOKENS`).

With `--numbers`, only JSON, CSV and Parquet are compared, for two trees with different layouts of
pages. The output has the largest difference of any number, and separately of bounds, errors and
p-values. In places, `*` replaces the index of a list and the name of an identity. The exit code is
1 if a number, a boolean, a word (a text without blanks, such as an outcome), the length of a list,
or a number in a sentence differs or is missing. Other wording, and additions, are printed and
allowed.
"""

from __future__ import annotations

import argparse
import base64
import csv
import difflib
import json
import math
import os
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pyarrow.parquet as pq

from benchmarks._whole_runs import NAMES, THIS_TREE, run_trees

TOLERANCE, MOST_LINES = 1e-12, 20
UNCERTAINTY = re.compile(r"low|high|.*std_error|p_\w+|.*_(low|high)|.*confidence|bound|ends")
IGNORED = {
    "times": {"decided_on", "seconds", "time", "timestamp"},
    "versions": {"versions"},
    "hosts": {"store", "hostname", "owner"},
}
TOKENS = {
    "addresses": re.compile(r"https?://(?:127\.0\.0\.1|localhost)(?::\d+)?"),
    "ids and digests": re.compile(r"\b(?=\d*[a-f])[0-9a-f]{12,128}\b"),
    "dates and times": re.compile(
        r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:?\d\d(?::?\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d| UTC)?)?\b"
    ),
    "paths": re.compile(r"(?<![\w.:/<])(?:file://)?/(?:[\w.+@%-]+/)+[\w.+@%-]+/?"),
}
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?", re.IGNORECASE)
LINES = {".html", ".md", ".xml", ".txt"}
KEYS = ("metric", "group", "threshold", "against")


@dataclass
class Differences:
    """Differences of two folders, and the numbers of compared parts."""

    numbers: int = 0
    texts: int = 0
    lines: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    not_compared: Counter[str] = field(default_factory=Counter)
    places: defaultdict[tuple[str, str], list[str]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """Examples by kind (changed, missing, added, wording) and place."""
    pages: dict[str, list[str]] = field(default_factory=dict)
    """Lines that differ, by file."""
    is_harmful: bool = False
    """True if a number or a verdict differs."""
    largest: dict[str, tuple[float, str]] = field(default_factory=dict)
    """The largest difference, and its place: of estimates, and of their uncertainty."""
    names: frozenset[str] = frozenset()
    """Names of identities."""

    def add(self, kind: str, place: tuple[str, ...], example: str, *, is_harmful: bool) -> None:
        """Add a difference."""
        self.places[kind, self.format_place(place)].append(example)
        self.is_harmful |= is_harmful

    def is_ignored(self, key: str) -> bool:
        """Return True if a key is in `IGNORED`, and count it."""
        reason = next((reason for reason, keys in IGNORED.items() if key in keys), None)
        self.ignored[f"{reason}, the key {key!r}"] += reason is not None
        return reason is not None

    def remove_tokens(self, text: str) -> str:
        """Return a text without parts that differ between any two runs."""
        for name, token in TOKENS.items():
            text, n = token.subn(f"<{name}>", text)
            self.ignored[f"{name} in texts"] += n
        return text

    def format_place(self, place: tuple[str, ...]) -> str:
        """Return the place without indices and names of identities."""
        file, *keys = place
        return f"{file}: {'.'.join(self._mask_name(key) for key in keys)}"

    def _mask_name(self, key: str) -> str:
        if key.isdecimal() or key in self.names:
            return "*"
        head, slash, tail = key.rpartition("/")
        return f"{head}/*" if slash and tail in self.names else key


def main(arguments: list[str] | None = None) -> int:
    """Print the differences; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.same_numbers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folders", type=Path, nargs="*", metavar="BEFORE AFTER")
    parser.add_argument("--numbers", action="store_true", help="compare no pages and no texts")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep here what was run")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=(), help="run these alone")
    options = parser.parse_args(arguments)
    other = os.environ.get("BENCHMARK_TREE")
    if len(options.folders) != 2 and (options.folders or not other):
        parser.error("give two folders, or the checkout to compare with as BENCHMARK_TREE")
    for folder in options.folders:
        if not folder.is_dir():
            parser.error(f"{folder} is no folder")
    with tempfile.TemporaryDirectory() as name:
        if not options.folders:
            place = options.keep or Path(name)
            trees = {"before": Path(str(other)), "after": THIS_TREE}
            options.folders = run_trees(trees, place, options.only)
        differences = compare(*options.folders, pages=not options.numbers)
    print_differences(differences)
    return int(differences.is_harmful)


def compare(before: Path, after: Path, *, pages: bool = True) -> Differences:
    """Compare all files of two folders."""
    files = [_list_files(before), _list_files(after)]
    names = _iter_identities([*files[0].values(), *files[1].values()])
    differences = Differences(names=frozenset(names))
    for name in sorted(files[0].keys() | files[1].keys()):
        first, second = (side.get(name) for side in files)
        if first is None or second is None:
            kind = "added" if first is None else "missing"
            differences.add(kind, (name,), "the file", is_harmful=first is not None)
        elif (read := _READERS.get(first.suffix)) is not None:
            _compare_values(differences, (name,), read(first), read(second))
        elif pages and first.suffix in LINES:
            _compare_pages(differences, name, first, second)
        else:
            differences.not_compared[first.suffix] += 1
    return differences


def _list_files(folder: Path) -> dict[str, Path]:
    return {
        TOKENS["dates and times"].sub("DATE", path.relative_to(folder).as_posix()): path
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }


def _read_json(path: Path) -> Any:
    text = path.read_text("utf-8")
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return {"lines": text.splitlines()}


def _read_csv(path: Path) -> Any:
    with path.open(newline="", encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    return {
        name: [_parse_cell(row[column]) for row in rows if column < len(row)]
        for column, name in enumerate(header)
    }


def _parse_cell(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell


_READERS = {
    ".json": _read_json,
    ".csv": _read_csv,
    ".parquet": lambda path: pq.read_table(path).to_pydict(),
}


def _iter_identities(paths: list[Path]) -> Iterator[str]:
    """Yield the names of identities, which are keys of `subgroups` and values of `group`."""

    def iter_names(value: Any, key: str) -> Iterator[str]:
        if isinstance(value, dict):
            if key in {"subgroups", "identities"}:
                yield from value
            for inner, part in value.items():
                yield from iter_names(part, inner)
        elif isinstance(value, list):
            for part in value:
                yield from iter_names(part, key)
        elif isinstance(value, str) and key in {"group", "subgroup", "identities"}:
            yield value

    for path in paths:
        if path.suffix == ".json":
            yield from iter_names(_read_json(path), "")


def _compare_values(
    differences: Differences, place: tuple[str, ...], first: Any, second: Any
) -> None:
    """Compare two values and all their parts."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in dict.fromkeys([*first, *second]):
            if not differences.is_ignored(key):
                _compare_items(differences, (*place, key), key, first, second)
    elif isinstance(first, list) and isinstance(second, list):
        _compare_lists(differences, place, first, second)
    elif isinstance(first, str) and isinstance(second, str):
        _compare_texts(differences, place, first, second)
    else:
        _compare_numbers(differences, place, first, second)


def _compare_items(
    differences: Differences, place: tuple[str, ...], key: Any, *sides: dict[Any, Any]
) -> None:
    """Compare the values of a key; a key of the second side only is allowed."""
    first, second = sides
    if key in first and key in second:
        _compare_values(differences, place, first[key], second[key])
    else:
        kind, side = ("missing", first) if key in first else ("added", second)
        differences.add(kind, place, _shorten(side[key]), is_harmful=key in first)


def _compare_lists(differences: Differences, place: tuple[str, ...], *sides: list[Any]) -> None:
    first, second = sides
    if len(first) != len(second):
        example = f"{len(first)} -> {len(second)} items"
        differences.add("changed", place, example, is_harmful=True)
    before, after = _map_items(first), _map_items(second)
    if before and after:
        for key in dict.fromkeys([*before, *after]):
            metric, group, *others = key
            parts = [metric, "*" if metric is None or group is not None else None, *others]
            label = "/".join(str(part) for part in parts if part is not None)
            _compare_items(differences, (*place, label), key, before, after)
    else:
        for index, pair in enumerate(zip(first, second, strict=False)):
            _compare_values(differences, (*place, str(index)), *pair)


def _map_items(items: list[Any]) -> dict[tuple[Any, ...], Any]:
    """Return items by their `KEYS`; empty unless these identify each item."""
    if not all(
        isinstance(item, dict) and not {"metric", "group"}.isdisjoint(item) for item in items
    ):
        return {}
    by_key = {tuple(item.get(key) for key in KEYS): item for item in items}
    return by_key if len(by_key) == len(items) else {}


def _compare_numbers(
    differences: Differences, place: tuple[str, ...], first: Any, second: Any
) -> None:
    differences.numbers += 1
    if {type(first), type(second)} <= {int, float}:
        distance = 0.0 if first == second else abs(first - second) / max(1, abs(first))
        is_same = distance <= TOLERANCE or (math.isnan(first) and math.isnan(second))
        kind = "bounds, errors and p-values" if UNCERTAINTY.fullmatch(place[-1]) else "estimates"
        if distance > differences.largest.get(kind, (0.0, ""))[0]:
            differences.largest[kind] = distance, differences.format_place(place)
    else:
        is_same = type(first) is type(second) and first == second
    if not is_same:
        example = f"{_shorten(first)} -> {_shorten(second)}"
        differences.add("changed", place, example, is_harmful=True)


def _compare_texts(
    differences: Differences, place: tuple[str, ...], first: str, second: str
) -> None:
    if place[-1] == "payload" and first.startswith("ey"):  # the statement of an attestation
        statements = (json.loads(base64.b64decode(text)) for text in (first, second))
        _compare_values(differences, (*place, "*"), *statements)
        return
    differences.texts += 1
    if first == second:
        return
    before, after = map(differences.remove_tokens, (first, second))
    if before != after:
        is_word = not re.search(r"\s", before) or not re.search(r"\s", after)
        is_harmful = is_word or NUMBER.findall(before) != NUMBER.findall(after)
        kind = "changed" if is_harmful else "wording"
        example = f"{_shorten(first)} -> {_shorten(second)}"
        differences.add(kind, place, example, is_harmful=is_harmful)


def _compare_pages(differences: Differences, name: str, *paths: Path) -> None:
    """Compare the visible lines of two pages."""
    first, second = (
        list(map(differences.remove_tokens, _list_lines(differences, path))) for path in paths
    )
    differences.lines += len(first)
    if first == second:
        return
    _, _, *changed = difflib.unified_diff(first, second, n=0, lineterm="")
    changed = [line for line in changed if not line.startswith("@@")]
    differences.pages[name] = changed
    numbers = [
        [number for line in changed if line.startswith(sign) for number in NUMBER.findall(line[1:])]
        for sign in "-+"
    ]
    differences.is_harmful |= numbers[0] != numbers[1]


def _list_lines(differences: Differences, path: Path) -> list[str]:
    text = path.read_text("utf-8")
    if path.suffix == ".html":
        page = _Page()
        page.feed(text)
        lines = page.lines
    elif path.suffix == ".xml":
        lines = list(_iter_xml(differences, ET.fromstring(text)))  # noqa: S314 - our own file
    else:
        lines = text.splitlines()
    return [line for line in (" ".join(line.split()) for line in lines) if line]


def _iter_xml(differences: Differences, element: ET.Element) -> Iterator[str]:
    attributes = element.attrib.items()
    shown = (f"{key}={value}" for key, value in attributes if not differences.is_ignored(key))
    yield " ".join([element.tag, *shown])
    yield from (element.text or "").splitlines()
    for inner in element:
        yield from _iter_xml(differences, inner)


class _Page(HTMLParser):
    """The texts of a page, without scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in {"script", "style"}
        shown = {"title", "alt", "aria-label"}
        self.lines += [value for key, value in attrs if key in shown and value]

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in {"script", "style"}

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.lines.append(data)


def _shorten(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 160 else f"{text[:160]}..."


def print_differences(result: Differences) -> None:
    """Print all differences, and the numbers of compared parts."""
    print(f"compared: {result.numbers:,} numbers, {result.texts:,} texts, {result.lines:,} lines")
    for kind in ("estimates", "bounds, errors and p-values"):
        distance, place = result.largest.get(kind, (0.0, ""))
        print(f"largest difference of {kind}: {distance:.2g} of max(1, |number|) {place}".rstrip())
    for reason, n in sorted(result.ignored.items()):
        if n:
            print(f"ignored: {reason}, {n:,} times")
    for suffix, n in sorted(result.not_compared.items()):
        print(f"not compared: {n} files {suffix}")
    for (kind, place), examples in sorted(result.places.items()):
        print(f"{kind}: {place} ({len(examples)} times; {examples[0]})")
    for name, lines in result.pages.items():
        print(f"lines of {name}: {len(lines)} differ")
        print("".join(f"  {line}\n" for line in lines[:MOST_LINES]), end="")
    if not result.places and not result.pages:
        print("no difference")
    elif not result.is_harmful:
        print("no number and no verdict differs")


if __name__ == "__main__":
    raise SystemExit(main())
