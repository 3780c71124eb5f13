"""The page: what holds, with every line, and those that miss something, as CSV beside it."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path

from benchmarks.coverage.campaign import SECTIONS, Found, Section, result_of
from benchmarks.coverage.held import MANY_ERRORS, Case, Held

FOLDER = Path(__file__).parent.parent.parent / "docs" / "evidence"
COLUMNS = ("covered", "below", "above", "passed", "width", "ratio", "missing", "draws")

TITLES = {
    "cells": "single AUC",
    "spreads": "single AUC of classes that are spread unequally",
    "tiny": "power means and final score with a tiny group",
    "differing": "final score of groups that differ",
    "paired": "difference of two models on the same rows",
    "power": "the same: how often a model is non-inferior within .02",
    "weighted": "weighted rows",
    "crossing": "clusters that hold rows of all groups",
    "nested": "clusters of a single group",
    "apart": "the same, with a model not equally good for all groups",
    "few": "positives in a few of 200 clusters",
    "large": "large clusters, of 120 rows on average",
    "models": "difference of two models, in clusters",
    "many": "single AUC in clusters",
    "wide": "the same, with widths near the limit and more samples",
    "rates": "gap of an error rate, in clusters",
    "shared": "the same, with subgroup and background in the same clusters",
    "rare": "single AUC if few threads or rows decide: all samples, and samples without a warning",
    "calibrated": "gaps of calibration",
}

BEGIN, END = "<!-- begin coverage -->", "<!-- end coverage -->"


def write_page(found: Found) -> None:
    """Write what the sections that were drawn claim into the page, and their tables."""
    drawn = [section for section in SECTIONS if _is_drawn(found, section)]
    for section in drawn:
        _write_table(found, section)
    with (FOLDER / "coverage" / "faults.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("table", "line", "what it misses"), *_faults(found, drawn)])
    page = FOLDER / "intervals.md"
    text = page.read_text(encoding="utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    claims = "\n".join(_claims(found, drawn))
    page.write_text(f"{before}{BEGIN}\n{claims}\n{END}{after}", encoding="utf-8")
    print(f"written: {page}, with {len(drawn)} of {len(SECTIONS)} tables")


def _is_drawn(found: Found, section: Section) -> bool:
    try:
        return bool(list(_lines(found, section)))
    except KeyError:
        return False


def _lines(found: Found, section: Section) -> Iterator[tuple[Case, str, Held]]:
    for case in section.cases:
        for name, held in result_of(found, section, case).items():
            yield case, name, held


def _write_table(found: Found, section: Section) -> None:
    (FOLDER / "coverage").mkdir(exist_ok=True)
    path = FOLDER / "coverage" / f"{section.name}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*section.head, *COLUMNS])
        for case, name, held in _lines(found, section):
            named = [name] if "number" in section.head else []
            writer.writerow([*case.described(), *named, *map(_rounded, _numbers(held))])


def _numbers(held: Held) -> list[float]:
    return [getattr(held, column) for column in COLUMNS]


def _rounded(number: float) -> str:
    if isinstance(number, int):
        return str(number)
    return "" if math.isnan(number) else f"{number:.4g}"


def _claims(found: Found, sections: list[Section]) -> Iterator[str]:
    yield "| table | lines | miss | covered | floor passes | width | samples |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for section in sections:
        lines = [line for line in _lines(found, section) if line[2].missing <= 0.5]
        held = [of_line for _, _, of_line in lines]
        covered, passed = [one.covered for one in held], [one.passed for one in held]
        wide = [one.ratio for case, _, one in lines if case.errors >= MANY_ERRORS]
        wide = sorted(ratio for ratio in wide if not math.isnan(ratio))
        missed = "" if section.name == "power" else sum(_misses(*line) != "" for line in lines)
        cells = [
            f"[{TITLES[section.name]}](coverage/{section.name}.csv)",
            f"{len(list(_lines(found, section)))}",
            f"{missed}",
            f"{min(covered):.1%}, {sum(covered) / len(covered):.1%}",
            f"{sum(passed) / len(passed):.1%}, {max(passed):.1%}",
            f"{wide[len(wide) // 2]:.2f}, {wide[-1]:.2f}" if wide else "",
            f"{section.draws:,}",
        ]
        yield f"| {' | '.join(cells)} |"


def _misses(case: Case, _name: str, held: Held) -> str:
    return ", ".join(held.faults(case.errors))


def _faults(found: Found, sections: list[Section]) -> Iterator[tuple[str, str, str]]:
    for section in sections:
        for case, name, held in _lines(found, section):
            if section.name != "power" and (missed := _misses(case, name, held)):
                yield section.name, ", ".join([*case.described(), name]), missed
