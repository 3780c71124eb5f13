"""Compare the two Perspective models of Borkan et al. (2019) term by term.

BIASGATE_REAL_DATA=FOLDER python docs/reproduce/perspective.py

prints the counts of docs/evidence/numbers.md, and writes docs/evidence/perspective.csv.
"""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import pandas as pd

from bias_metrics import Difference, compare_bias
from bias_metrics.metrics import SUBGROUP_METRICS

HEAD = (
    "term",
    "templates",
    "BPSN @1",
    "BPSN @6",
    "difference",
    "phrases independent",
    "by template",
    "shown",
)
TABLE = Path(__file__).parents[1] / "evidence" / "perspective.csv"
TOO_FEW = "too few templates"


def main() -> None:
    """Print the counts, write the table."""
    folder = Path(os.environ["BIASGATE_REAL_DATA"])
    phrases = pd.read_parquet(folder / "perspective_templates.parquet")
    terms = pd.read_csv(folder / "perspective_unitary_results.csv")["subgroup"]
    masks = {
        term: phrases["phrase"].str.contains(rf"\b{re.escape(term)}\b").to_numpy() for term in terms
    }
    arrays = phrases["toxicity"] == "toxic", phrases["TOXICITY@6"], phrases["TOXICITY@1"]
    plain = compare_bias(*arrays, masks).subgroups
    clustered = compare_bias(*arrays, masks, clusters=phrases["template"]).subgroups
    templates = {term: int(phrases["template"][mask].nunique()) for term, mask in masks.items()}
    growth = pd.Series(
        [
            clustered[term]["bpsn_auc"].std_error / plain[term]["bpsn_auc"].std_error
            for term in masks
            if plain[term]["bpsn_auc"].std_error
        ]
    )
    print(f"{len(phrases):,} phrases of {phrases['template'].nunique()} templates")
    print(f"errors times {growth.min():.0f} to {growth.max():.0f}, median {growth.median():.0f}")
    for metric in SUBGROUP_METRICS[:3]:
        print(_count_changes(metric, plain, clustered))
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEAD)
        for term in sorted(masks, key=lambda name: -(plain[name]["bpsn_auc"].value or 0)):
            by_row, by_template = plain[term]["bpsn_auc"], clustered[term]["bpsn_auc"]
            values = f"{by_row.second:.3f}", f"{by_row.first:.3f}", f"{by_row.value:+.3f}"
            intervals = _format_interval(by_row), _format_interval(by_template)
            writer.writerow(
                [term, templates[term], *values, *intervals, _describe_change(by_template)]
            )


def _count_changes(metric: str, plain: dict, clustered: dict) -> str:
    by_template = [_describe_change(cells[metric]) for cells in clustered.values()]
    by_row = [_describe_change(cells[metric]) for cells in plain.values()]
    kinds = ("improved", "got worse", "not shown", TOO_FEW)
    counts = [*map(by_template.count, kinds), by_row.count("improved")]
    return "| " + " | ".join(map(str, [metric, *counts])) + " |"


def _format_interval(difference: Difference) -> str:
    if difference.low is None or difference.high is None:
        return TOO_FEW
    return f"[{difference.low:+.3f}, {difference.high:+.3f}]"


def _describe_change(difference: Difference) -> str:
    if difference.low is None or difference.high is None:
        return TOO_FEW
    if difference.low > 0:
        return "improved"
    return "got worse" if difference.high < 0 else "not shown"


if __name__ == "__main__":
    main()
