"""Draw missing samples, and write the counts and the tables."""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.gate_sizes.judging import Draw, judge_draw
from benchmarks.gate_sizes.page import make_tables, summarise_draws
from benchmarks.gate_sizes.populations import Key, Line, iter_lines
from biasgate.tasks.gating.policy import Policy, read_policy

REPOSITORY = Path(__file__).parents[2]
RESULTS = REPOSITORY / "benchmarks" / "results" / "gate_sizes.json"
FOLDER = REPOSITORY / "docs" / "evidence" / "gate-sizes"


class Kept:
    """Draws in a file of JSON lines, so that a killed run is resumed.

    Draws under rules that have changed since are left out, and so is half a line.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.draws = path, dict[Key, list[Draw]]()
        self._policies: dict[str, Policy] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for content in text.splitlines()[: text.count("\n")]:
            saved = json.loads(content)
            key: Key = tuple(saved.pop("line"))
            if saved.pop("rules") == self.read_policy(key[1]).digest:
                self.draws.setdefault(key, []).append(saved)
        if not text.endswith("\n"):
            path.write_text(text[: text.rfind("\n") + 1], encoding="utf-8")

    def read_policy(self, name: str) -> Policy:
        """Read a policy by its name or path, once."""
        if name not in self._policies:
            self._policies[name] = read_policy(name, Path())
        return self._policies[name]

    def summarise(self, lines: Iterable[Line]) -> list[dict[str, Any]]:
        """Return the counts of the lines that have draws."""
        return [summarise_draws(line, self.draws) for line in lines if self.draws.get(line.key)]

    def complete(self, line: Line, n_draws: int, folder: Path) -> None:
        """Draw the missing samples of a line."""
        key, policy = line.key, self.read_policy(line.policy)
        draws = self.draws.setdefault(key, [])
        for number in sorted(set(range(n_draws)) - {draw["draw"] for draw in draws}):
            draw = {"draw": number} | judge_draw(line, number, policy, folder)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"line": key, "rules": policy.digest} | draw) + "\n")
            draws.append(draw)


def write(summaries: Sequence[Mapping[str, Any]], *, results: Path, folder: Path) -> None:
    """Write the counts, and the tables."""
    lines = ",\n".join(json.dumps(summary) for summary in summaries)
    results.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    folder.mkdir(exist_ok=True)
    for name, rows in make_tables(summaries).items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


def select_lines(options: argparse.Namespace) -> Iterator[Line]:
    """Yield the lines with any of the given words in the name of the situation."""
    words = options.situations.split(",")
    for choice in product(options.identities, options.sizes):
        for line in iter_lines(*choice, options.policy):
            if any(word in line.situation.name for word in words):
                yield line


def main(arguments: list[str] | None = None) -> None:
    """Draw, print the tables, and write them with `--save`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate_sizes", description=__doc__)
    parser.add_argument("--draws", type=int, default=200, help="samples of each line")
    parser.add_argument("--sizes", type=int, nargs="+", default=[5_000, 10_000, 42_870, 100_000])
    parser.add_argument("--identities", type=int, nargs="+", choices=(9, 24), default=[9, 24])
    parser.add_argument("--policy", default="no-worse", help="a name or file")
    parser.add_argument("--situations", default="", help="words in their names, with commas")
    parser.add_argument("--kept", type=Path, default=REPOSITORY / "build" / "gate_sizes.jsonl")
    parser.add_argument("--fresh", action="store_true", help="draw all again, as after new code")
    parser.add_argument("--save", action="store_true", help="write all kept lines")
    options = parser.parse_args(arguments)
    if options.fresh:
        options.kept.unlink(missing_ok=True)
    kept, lines = Kept(options.kept), list(select_lines(options))
    with tempfile.TemporaryDirectory() as folder:
        for line in lines:
            kept.complete(line, options.draws, Path(folder))
            print(" ".join(map(str, line.key)), len(kept.draws[line.key]), flush=True)
    for name, rows in make_tables(kept.summarise(lines)).items():
        print(name, *map(" | ".join, rows), sep="\n")
    if options.save:
        sizes = sorted({key[-1] for key in kept.draws})
        all_lines = select_lines(parser.parse_args(["--sizes", *map(str, sizes)]))
        write(kept.summarise(all_lines), results=RESULTS, folder=FOLDER)


if __name__ == "__main__":
    main()
