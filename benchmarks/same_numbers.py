"""Compare two folders of results: `python -m benchmarks.same_numbers BEFORE AFTER`.

Without folders, `BENCHMARK_TREE=FOLDER` runs the same small inputs through the command of that
checkout and of this one, and compares what they wrote (`benchmarks/_whole_runs.py`).

Every JSON, CSV and Parquet file is compared value by value, at its place in the file. Items of a
list that are about a metric or a group, such as the numbers of a table, are compared by these
(`KEYS`), in whatever order. Numbers must agree to 1e-12 of max(1, |number|), texts must be equal.
Of HTML, Markdown, JUnit and plain text the visible lines must be equal (texts, table cells, titles
and alternative texts; of JUnit all attributes). Files of other kinds, such as pictures, are not
compared, and counted.

Ignored, and counted in what is printed:

- values under the keys of `IGNORED`: when and where a result was made, and by which packages;
- in every text: ids and digests (12 hexadecimal digits and more), dates, absolute paths, and
  addresses on this machine (`TOKENS`).

With `--numbers`, only JSON, CSV and Parquet are compared: of two trees whose pages are laid out
otherwise. Nothing else is left out. The largest difference of any number is printed, and that of
bounds, errors and p-values by itself. Places are printed with `*` for an index of a list and for
the name of an identity.
The exit code is 1 if a number, a boolean, a word (a text without blanks, such as an outcome), the
length of a list, or a number in a sentence differs or is missing. Other wording, and what is new,
is printed and does no harm.
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
    """What two folders differ in, and what was compared."""

    numbers: int = 0
    texts: int = 0
    lines: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    not_compared: Counter[str] = field(default_factory=Counter)
    places: defaultdict[tuple[str, str], list[str]] = field(
        default_factory=lambda: defaultdict(list)
    )
    """What differs: by kind (changed, missing, added, wording) and place, an example of each."""
    pages: dict[str, list[str]] = field(default_factory=dict)
    """Lines that differ, by file."""
    harm: bool = False
    largest: dict[str, tuple[float, str]] = field(default_factory=dict)
    """The largest difference, and its place: of estimates, and of their uncertainty."""
    names: frozenset[str] = frozenset()
    """Names of identities."""

    def add(self, kind: str, place: tuple[str, ...], example: str, *, harm: bool) -> None:
        """Keep one difference."""
        self.places[kind, self.grouped(place)].append(example)
        self.harm |= harm

    def grouped(self, place: tuple[str, ...]) -> str:
        """Return the place without what names one item of many."""
        file, *keys = place
        return f"{file}: {'.'.join(self._without_name(key) for key in keys)}"

    def _without_name(self, key: str) -> str:
        if key.isdecimal() or key in self.names:
            return "*"
        head, slash, tail = key.rpartition("/")
        return f"{head}/*" if slash and tail in self.names else key


def main(arguments: list[str] | None = None) -> int:
    """Print what differs; return the exit code."""
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
        found = compare(*options.folders, pages=not options.numbers)
    _print(found)
    return int(found.harm)


def compare(before: Path, after: Path, *, pages: bool = True) -> Differences:
    """Compare all files of two folders."""
    files = [_files(before), _files(after)]
    found = Differences(names=frozenset(_names([*files[0].values(), *files[1].values()])))
    for name in sorted(files[0].keys() | files[1].keys()):
        first, second = (side.get(name) for side in files)
        if first is None or second is None:
            kind = "added" if first is None else "missing"
            found.add(kind, (name,), "the file", harm=first is not None)
        elif (read := _READERS.get(first.suffix)) is not None:
            _values(found, (name,), read(first), read(second))
        elif pages and first.suffix in LINES:
            _lines(found, name, first, second)
        else:
            found.not_compared[first.suffix] += 1
    return found


def _files(folder: Path) -> dict[str, Path]:
    return {
        TOKENS["dates and times"].sub("DATE", path.relative_to(folder).as_posix()): path
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }


def _json(path: Path) -> Any:
    text = path.read_text("utf-8")
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return {"lines": text.splitlines()}


def _csv(path: Path) -> Any:
    with path.open(newline="", encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    return {
        name: [_number_or_text(row[at]) for row in rows if at < len(row)]
        for at, name in enumerate(header)
    }


def _number_or_text(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell


def _parquet(path: Path) -> Any:
    return pq.read_table(path).to_pydict()


_READERS = {".json": _json, ".csv": _csv, ".parquet": _parquet}


def _names(paths: list[Path]) -> Iterator[str]:
    """Yield the names of identities, which are keys of `subgroups` and values of `group`."""

    def of(value: Any, key: str) -> Iterator[str]:
        if isinstance(value, dict):
            if key in {"subgroups", "identities"}:
                yield from value
            for inner, part in value.items():
                yield from of(part, inner)
        elif isinstance(value, list):
            for part in value:
                yield from of(part, key)
        elif isinstance(value, str) and key in {"group", "subgroup", "identities"}:
            yield value

    for path in paths:
        if path.suffix == ".json":
            yield from of(_json(path), "")


def _values(found: Differences, place: tuple[str, ...], first: Any, second: Any) -> None:
    """Compare two values and all that is in them."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in dict.fromkeys([*first, *second]):
            if not _ignored(found, key):
                _items(found, (*place, key), key, first, second)
    elif isinstance(first, list) and isinstance(second, list):
        _lists(found, place, first, second)
    elif isinstance(first, str) and isinstance(second, str):
        _texts(found, place, first, second)
    else:
        _numbers(found, place, first, second)


def _items(found: Differences, place: tuple[str, ...], key: Any, *sides: dict[Any, Any]) -> None:
    """Compare what both sides have of a key; what only the second has does no harm."""
    first, second = sides
    if key in first and key in second:
        _values(found, place, first[key], second[key])
    else:
        kind, side = ("missing", first) if key in first else ("added", second)
        found.add(kind, place, _short(side[key]), harm=key in first)


def _lists(found: Differences, place: tuple[str, ...], *sides: list[Any]) -> None:
    first, second = sides
    if len(first) != len(second):
        found.add("changed", place, f"{len(first)} -> {len(second)} items", harm=True)
    before, after = _keyed(first), _keyed(second)
    if before and after:
        for key in dict.fromkeys([*before, *after]):
            _items(found, (*place, _label(key)), key, before, after)
    else:
        for at, pair in enumerate(zip(first, second, strict=False)):
            _values(found, (*place, str(at)), *pair)


def _keyed(items: list[Any]) -> dict[tuple[Any, ...], Any]:
    """Return items by what they are about; empty unless that names each of them once."""
    if not all(isinstance(one, dict) and not {"metric", "group"}.isdisjoint(one) for one in items):
        return {}
    found = {tuple(one.get(key) for key in KEYS): one for one in items}
    return found if len(found) == len(items) else {}


def _label(key: tuple[Any, ...]) -> str:
    """Return what an item is about, without the name of its group."""
    metric, group, *others = key
    parts = [metric, "*" if metric is None or group is not None else None, *others]
    return "/".join(str(part) for part in parts if part is not None)


def _ignored(found: Differences, key: str) -> bool:
    reason = next((why for why, keys in IGNORED.items() if key in keys), None)
    found.ignored[f"{reason}, the key {key!r}"] += reason is not None
    return reason is not None


def _numbers(found: Differences, place: tuple[str, ...], first: Any, second: Any) -> None:
    found.numbers += 1
    if {type(first), type(second)} <= {int, float}:
        apart = 0.0 if first == second else abs(first - second) / max(1, abs(first))
        same = apart <= TOLERANCE or (math.isnan(first) and math.isnan(second))
        kind = "bounds, errors and p-values" if UNCERTAINTY.fullmatch(place[-1]) else "estimates"
        if apart > found.largest.get(kind, (0.0, ""))[0]:
            found.largest[kind] = apart, found.grouped(place)
    else:
        same = type(first) is type(second) and first == second
    if not same:
        found.add("changed", place, f"{_short(first)} -> {_short(second)}", harm=True)


def _texts(found: Differences, place: tuple[str, ...], first: str, second: str) -> None:
    if place[-1] == "payload" and first.startswith("ey"):  # the statement of an attestation
        statements = (json.loads(base64.b64decode(text)) for text in (first, second))
        _values(found, (*place, "*"), *statements)
        return
    found.texts += 1
    if first == second:
        return
    before, after = _plain(found, first), _plain(found, second)
    if before != after:
        a_word = not re.search(r"\s", before) or not re.search(r"\s", after)
        harm = a_word or NUMBER.findall(before) != NUMBER.findall(after)
        kind = "changed" if harm else "wording"
        found.add(kind, place, f"{_short(first)} -> {_short(second)}", harm=harm)


def _plain(found: Differences, text: str) -> str:
    """Return a text without what is another one in each run."""
    for what, token in TOKENS.items():
        text, n = token.subn(f"<{what}>", text)
        found.ignored[f"{what} in texts"] += n
    return text


def _lines(found: Differences, name: str, *paths: Path) -> None:
    """Compare what a reader sees of two pages."""
    first, second = ([_plain(found, line) for line in _visible(found, path)] for path in paths)
    found.lines += len(first)
    if first == second:
        return
    _, _, *changed = difflib.unified_diff(first, second, n=0, lineterm="")
    changed = [line for line in changed if not line.startswith("@@")]
    found.pages[name] = changed
    numbers = [
        [number for line in changed if line.startswith(sign) for number in NUMBER.findall(line[1:])]
        for sign in "-+"
    ]
    found.harm |= numbers[0] != numbers[1]


def _visible(found: Differences, path: Path) -> list[str]:
    text = path.read_text("utf-8")
    if path.suffix == ".html":
        page = _Page()
        page.feed(text)
        lines = page.lines
    elif path.suffix == ".xml":
        lines = list(_of_xml(found, ET.fromstring(text)))  # noqa: S314 - our own file
    else:
        lines = text.splitlines()
    return [line for line in (" ".join(line.split()) for line in lines) if line]


def _of_xml(found: Differences, element: ET.Element) -> Iterator[str]:
    shown = {key: value for key, value in element.attrib.items() if not _ignored(found, key)}
    yield " ".join([element.tag, *(f"{key}={value}" for key, value in shown.items())])
    yield from (element.text or "").splitlines()
    for inner in element:
        yield from _of_xml(found, inner)


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


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 160 else f"{text[:160]}..."


def _print(found: Differences) -> None:
    print(f"compared: {found.numbers:,} numbers, {found.texts:,} texts, {found.lines:,} lines")
    for what in ("estimates", "bounds, errors and p-values"):
        apart, place = found.largest.get(what, (0.0, ""))
        print(f"largest difference of {what}: {apart:.2g} of max(1, |number|) {place}".rstrip())
    for what, n in sorted(found.ignored.items()):
        if n:
            print(f"ignored: {what}, {n:,} times")
    for suffix, n in sorted(found.not_compared.items()):
        print(f"not compared: {n} files {suffix}")
    for (kind, place), examples in sorted(found.places.items()):
        print(f"{kind}: {place} ({len(examples)} times; {examples[0]})")
    for name, lines in found.pages.items():
        print(f"lines of {name}: {len(lines)} differ")
        print("".join(f"  {line}\n" for line in lines[:MOST_LINES]), end="")
    if not found.places and not found.pages:
        print("no difference")
    elif not found.harm:
        print("no number and no verdict differs")


if __name__ == "__main__":
    raise SystemExit(main())
