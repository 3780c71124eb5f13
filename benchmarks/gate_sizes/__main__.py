"""The command: draw what is missing, and write the counts and the tables."""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gate_sizes.judging import Draw, draw
from benchmarks.gate_sizes.page import Key, key_of, summary, tables
from benchmarks.gate_sizes.populations import SCORES, Line, lines
from biasgate.tasks.gating.policy import Policy, read_policy

REPOSITORY = Path(__file__).parents[2]
RESULTS = REPOSITORY / "benchmarks" / "results" / "gate_sizes.json"
FOLDER = REPOSITORY / "docs" / "evidence" / "gate-sizes"


class Kept:
    """Draws in a file of JSON lines, so that a killed run goes on where it was.

    Parameters
    ----------
    path : Path
        The file. A draw under rules that have changed since is left out, and so is half a line.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.draws = path, dict[Key, list[Draw]]()
        self._policies: dict[str, Policy] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for content in text.splitlines()[: text.count("\n")]:
            known = json.loads(content)
            key: Key = tuple(known.pop("line"))
            if known.pop("rules") == self.policy(key[1]).digest:
                self.draws.setdefault(key, []).append(known)
        if not text.endswith("\n"):
            path.write_text(text[: text.rfind("\n") + 1], encoding="utf-8")

    def policy(self, name: str) -> Policy:
        """Return a policy by its name or path."""
        if name not in self._policies:
            self._policies[name] = read_policy(name, Path())
        return self._policies[name]

    @property
    def sizes(self) -> list[int]:
        """The set sizes of all draws."""
        return sorted({key[-1] for key in self.draws})

    def summaries(self, chosen: Iterable[Line]) -> list[dict[str, Any]]:
        """Return the counts of those lines that have draws."""
        return [summary(line, self.draws) for line in chosen if self.draws.get(key_of(line))]

    def complete(self, line: Line, n_draws: int, folder: Path) -> None:
        """Draw what is missing of a line."""
        key, policy = key_of(line), self.policy(line.policy)
        known = self.draws.setdefault(key, [])
        done = {one["draw"] for one in known}
        for number in range(n_draws):
            if number not in done:
                one = {"draw": number} | draw(line, number, policy, folder)
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"line": key, "rules": policy.digest} | one) + "\n")
                known.append(one)


def write(summaries: Sequence[Mapping[str, Any]], *, results: Path, folder: Path) -> None:
    """Write the counts, and the tables."""
    each = ",\n".join(json.dumps(one) for one in summaries)
    results.write_text(f"[\n{each}\n]\n", encoding="utf-8")
    folder.mkdir(exist_ok=True)
    for name, rows in tables(summaries).items():
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


def wanted(given: argparse.Namespace) -> Iterator[Line]:
    """Yield the lines whose situation has one of some words in its name."""
    for scores in given.scores:
        for n_identities in given.identities:
            for n_rows in given.sizes:
                for line in lines(scores, n_identities, n_rows, given.policy):
                    if any(word in line.situation.name for word in given.situations.split(",")):
                        yield line


def main(arguments: list[str] | None = None) -> None:
    """Draw, print the tables, and write them if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate_sizes", description=__doc__)
    parser.add_argument("--draws", type=int, default=200, help="samples of each line")
    parser.add_argument("--scores", nargs="+", choices=SCORES, default=list(SCORES))
    parser.add_argument("--sizes", type=int, nargs="+", default=[5_000, 10_000, 42_870, 100_000])
    parser.add_argument("--identities", type=int, nargs="+", choices=(9, 24), default=[9, 24])
    parser.add_argument("--policy", help="a name or file (default: no-worse, and default at .93)")
    parser.add_argument("--situations", default="", help="words in their names, with commas")
    parser.add_argument("--kept", type=Path, default=REPOSITORY / "build" / "gate_sizes.jsonl")
    parser.add_argument("--fresh", action="store_true", help="draw all again, as after new code")
    parser.add_argument("--save", action="store_true", help="write all kept lines")
    given = parser.parse_args(arguments)
    if given.fresh:
        given.kept.unlink(missing_ok=True)
    kept, chosen = Kept(given.kept), list(wanted(given))
    with tempfile.TemporaryDirectory() as folder:
        for line in chosen:
            kept.complete(line, given.draws, Path(folder))
            print(" ".join(map(str, key_of(line))), len(kept.draws[key_of(line)]), flush=True)
    for name, rows in tables(kept.summaries(chosen)).items():
        print(name, *map(" | ".join, rows), sep="\n")
    if given.save:
        everything = parser.parse_args(["--sizes", *map(str, kept.sizes)])
        write(kept.summaries(wanted(everything)), results=RESULTS, folder=FOLDER)


if __name__ == "__main__":
    main()
