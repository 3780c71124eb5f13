"""The table of docs/evidence/intervals.md, and CSV files with all lines and with missed limits."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.coverage.campaign import SECTIONS, Results, Section
from benchmarks.coverage.case import MANY_ERRORS, Case, Coverage

FOLDER = Path(__file__).parent.parent.parent / "docs" / "evidence"
COLUMNS = ("covered", "below", "above", "passed", "width", "ratio", "missing", "draws")
BEGIN, END = "<!-- begin coverage -->", "<!-- end coverage -->"


def write_page(results: Results) -> None:
    """Write the table of the sections that were drawn into the page, and their CSV files."""
    drawn = [
        section
        for section in SECTIONS
        if all(section.get_key(case) in results for case in section.cases)
    ]
    faults = [("table", "line", "what it misses")]
    for section in drawn:
        rows = [[*section.head, *COLUMNS]]
        for case, name, coverage in _iter_lines(results, section):
            number = [name] if "number" in section.head else []
            figures = (_format_figure(getattr(coverage, column)) for column in COLUMNS)
            rows.append([*case.describe(), *number, *figures])
            if missed := _describe_faults(section, case, coverage):
                faults.append((section.name, ", ".join([*case.describe(), name]), missed))
        _write_csv(section.name, rows)
    _write_csv("faults", faults)
    page = FOLDER / "intervals.md"
    text = page.read_text(encoding="utf-8")
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    table = "\n".join(_iter_table(results, drawn))
    page.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")
    print(f"written: {page}, with {len(drawn)} of {len(SECTIONS)} tables")


def _write_csv(name: str, rows: Iterable[Iterable[str]]) -> None:
    (FOLDER / "coverage").mkdir(exist_ok=True)
    with (FOLDER / "coverage" / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def _iter_lines(results: Results, section: Section) -> Iterator[tuple[Case, str, Coverage]]:
    for case in section.cases:
        for name, coverage in results[section.get_key(case)].items():
            yield case, name, coverage


def _format_figure(number: float) -> str:
    if isinstance(number, int):
        return str(number)
    return "" if math.isnan(number) else f"{number:.4g}"


def _describe_faults(section: Section, case: Case, coverage: Coverage) -> str:
    return "" if section.name == "power" else ", ".join(coverage.find_faults(case.errors))


def _iter_table(results: Results, sections: list[Section]) -> Iterator[str]:
    yield "| table | lines | miss | covered | floor passes | width | samples |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for section in sections:
        lines = list(_iter_lines(results, section))
        judged = [(case, coverage) for case, _, coverage in lines if coverage.missing <= 0.5]
        covered = [coverage.covered for _, coverage in judged]
        passed = [coverage.passed for _, coverage in judged]
        widths = sorted(
            coverage.ratio
            for case, coverage in judged
            if case.errors >= MANY_ERRORS and not math.isnan(coverage.ratio)
        )
        n_missed = sum(_describe_faults(section, *line) != "" for line in judged)
        cells = [
            f"[{section.title}](coverage/{section.name}.csv)",
            f"{len(lines)}",
            "" if section.name == "power" else f"{n_missed}",
            f"{min(covered):.1%}, {sum(covered) / len(covered):.1%}",
            f"{sum(passed) / len(passed):.1%}, {max(passed):.1%}",
            f"{widths[len(widths) // 2]:.2f}, {widths[-1]:.2f}" if widths else "",
            f"{section.draws:,}",
        ]
        yield f"| {' | '.join(cells)} |"
