"""Evaluate public packages that carry a model, and write their page.

BIASGATE_REAL_DATA=FOLDER python docs/reproduce/packages.py STORE

installs each package into its own environment in STORE, checks the direction of its scores on a few
sentences, evaluates packages.yaml and packages_arabic.yaml, and writes docs/evidence/packages.csv
and the tables of docs/evidence/packages.md. Needs the Python registry. Prints no comment.
`--csv FILE` writes only that file.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import venv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import pandas as pd
from package_models import PACKAGES, score_texts

from bias_metrics import MetricValue
from bias_metrics.families import widen_selected
from biasgate.flows.evaluate import evaluate
from biasgate.tasks.outcomes import WORDS
from biasgate.tasks.records import Report

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "evidence" / "packages.md"
TABLE = PAGE.with_suffix(".csv")
# The columns of the CSV file, with the alignment of those on the page.
COLUMNS = {
    "set": "",
    "comments": "",
    "toxic": "",
    "package": "---",
    "pairs in order": "",
    "AUC": "---",
    "worst BPSN AUC": "---",
    "of": "---",
    "harmless flagged": "--:",
    "toxic missed": "",
    "highest FPR gap": "---",
    "of identity": "---",
    "verdict": "---",
    "failed checks": "---",
}
SHOWN = {column: rule for column, rule in COLUMNS.items() if rule}
SETS = {
    "civil_comments": "Civil Comments, 70% toxic",
    "civil_comments_natural": "Civil Comments, natural rate",
    "phrases": "Identity phrases",
    "hatecheck_arabic": "Multilingual HateCheck, Arabic",
}
MIN_IN_ORDER = 0.75
SENTENCES = {  # harmless, toxic; written for this check
    "english": (
        [
            "thank you for the helpful answer",
            "the library opens at nine tomorrow",
            "we enjoyed the concert in the park",
            "my sister baked bread for the neighbours",
        ],
        [
            "you are a fucking idiot",
            "shut up, you stupid bitch",
            "go to hell, you worthless piece of shit",
            "what an asshole, I hope you suffer",
        ],
    ),
    "arabic": (
        ["شكرا على المساعدة", "الطقس جميل اليوم", "سأزور المكتبة غدا", "أحب القراءة والموسيقى"],
        ["أنت غبي وحقير", "اخرس يا كلب", "يا حمار يا قذر", "أنت تافه وابن كلب"],
    ),
}


def main(arguments: Sequence[str]) -> None:
    """Install, check, evaluate, write."""
    parser = argparse.ArgumentParser(description="Evaluate public packages that carry a model.")
    parser.add_argument("store", type=Path)
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args(arguments)
    data = os.environ.get("BIASGATE_REAL_DATA")
    if data is None:
        sys.exit("packages.py: BIASGATE_REAL_DATA must name the folder with the real data.")
    if sys.version_info[:2] not in {(3, 11), (3, 12)}:
        sys.exit("packages.py: needs Python 3.11 or 3.12, which all packages have wheels for.")
    store = options.store.resolve()
    environments = store / "environments"
    os.environ["BIASGATE_PACKAGES"] = str(environments)
    install(environments)
    in_order = {name: compute_order(name, package.language) for name, package in PACKAGES.items()}
    for name, share in in_order.items():
        if share < MIN_IN_ORDER:
            sys.exit(f"packages.py: {name} orders only {share:.0%} of the pairs rightly.")
    cases = pd.read_parquet(Path(data) / "multilingual_hatecheck.parquet")
    arabic = cases[cases["language"] == "arabic"]
    arabic.to_parquet(environments / "hatecheck_arabic.parquet")
    rows = []
    for name in ("packages", "packages_arabic"):
        results = store / "results" / name
        evaluate(str(HERE / f"{name}.yaml"), str(results), str(store / "store"))
        rows.extend(read_results(results, in_order))
    with (options.csv or TABLE).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    if options.csv is None:
        PAGE.write_text(replace_tables(PAGE.read_text("utf-8"), rows), "utf-8")


def install(folder: Path) -> None:
    """Make an environment per package; a wheel with another digest is refused."""
    for name, package in PACKAGES.items():
        place = folder / name
        ready = place / "ready"
        wanted = f"{name}=={package.version} --hash=sha256:{package.sha256}"
        if ready.is_file() and ready.read_text("utf-8") == wanted + package.requires:
            continue
        print(f"installing {name}", flush=True)
        venv.create(place, clear=True, with_pip=True)
        pip = [place / "bin" / "python", "-m", "pip", "install", "--quiet", "--only-binary=:all:"]
        pinned = folder / f"{name}.txt"
        pinned.write_text(f"{wanted}\n", "utf-8")
        subprocess.run([*pip, *package.requires.split()], check=True)  # noqa: S603
        subprocess.run([*pip, "--no-deps", "--require-hashes", "-r", pinned], check=True)  # noqa: S603
        ready.write_text(wanted + package.requires, "utf-8")


def compute_order(package: str, language: str) -> float:
    """Return the share of pairs in which the toxic sentence scores higher, ties counted half."""
    harmless, toxic = (score_texts(package, texts) for texts in SENTENCES[language])
    pairs = list(product(harmless, toxic))
    return sum((low < high) + (low == high) / 2 for low, high in pairs) / len(pairs)


def read_results(results: Path, in_order: Mapping[str, float]) -> Iterator[dict[str, str]]:
    """Yield a row for each candidate on each set of an evaluation."""
    summary = json.loads((results / "summary.json").read_text("utf-8"))
    for decision in summary["decisions"]:
        if decision["outcome"] == "error":
            sys.exit(f"packages.py: {decision['sentence']}")
    for verdict in summary["verdicts"]:
        set_name, name = verdict["evaluation_set"]["name"], verdict["candidate"]["name"]
        report = Report.read((results / set_name / name / "report.json").read_text("utf-8"))
        bias, given = report.bias, report.thresholds["given"].overall
        worst = bias.worst("bpsn_auc")
        cells_by_group = bias.select_threshold("given")
        gaps = {group: cells["fpr_gap"] for group, cells in cells_by_group.items()}
        most, gap = find_highest_gap(gaps)
        failed = Counter(
            result["metric"] for result in verdict["results"] if result["outcome"] == "fail"
        )
        rows = bias.counts[None]
        cells = (
            set_name,
            rows.n,
            rows.n_positive,
            name,
            f"{in_order[name]:.2f}",
            bias.overall.auc,
            worst.value,
            worst.subgroup,
            format_percent(given.false_positive_rate.value),
            format_percent(given.false_negative_rate.value),
            gap,
            most,
            WORDS[verdict["outcome"]].text,
            ", ".join(f"{metric} {n}" if n > 1 else metric for metric, n in failed.items())
            or "none",
        )
        yield dict(zip(COLUMNS, map(str, cells), strict=True))


def find_highest_gap(gaps: Mapping[str, MetricValue]) -> tuple[str, MetricValue]:
    """Return the group with the highest gap, with an interval that allows for the selection."""
    most = max(gaps, key=lambda name: gaps[name].value or 0.0)
    if not gaps[most].value:
        return "none", MetricValue(0.0)
    return most, widen_selected(gaps[most], len(gaps))


def format_percent(share: float | None) -> str:
    """Return a share as a percentage."""
    return "undefined" if share is None else f"{100 * share:.1f}%"


def replace_tables(page: str, rows: Sequence[Mapping[str, str]]) -> str:
    """Return the page with its two tables replaced."""
    for name, lines in (("packages", iter_packages(rows)), ("results", iter_results(rows))):
        pattern = rf"(?<=<!-- {name} -->\n\n).*?(?=\n\n<!-- end of {name} -->)"
        page, n = re.subn(pattern, lambda _, new=lines: "\n".join(new), page, flags=re.DOTALL)
        if n != 1:
            msg = f"the page must have one part `<!-- {name} -->`; it has {n}."
            raise ValueError(msg)
    return page


def iter_packages(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yield the lines of the table of packages."""
    in_order = {row["package"]: row["pairs in order"] for row in rows}
    yield "| package | model | trained on | licence | SHA-256 of the wheel | in order |"
    yield "|---|---|---|---|---|--:|"
    for name, package in PACKAGES.items():
        cells = (package.kind, package.trained_on, package.licence, f"`{package.sha256[:12]}…`")
        yield f"| {name} {package.version} | {' | '.join(cells)} | {in_order[name]} |"


def iter_results(rows: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yield the lines of a table for each set."""
    for name, title in SETS.items():
        rows_of_set = [row for row in rows if row["set"] == name]
        n, n_toxic = int(rows_of_set[0]["comments"]), int(rows_of_set[0]["toxic"])
        if name != next(iter(SETS)):
            yield ""
        yield f"### {title}: {n:,} texts, {n_toxic:,} toxic"
        yield ""
        yield "| " + " | ".join(SHOWN) + " |"
        yield "|" + "|".join(SHOWN.values()) + "|"
        for row in rows_of_set:
            yield "| " + " | ".join(row[column] for column in SHOWN) + " |"


if __name__ == "__main__":
    main(sys.argv[1:])
