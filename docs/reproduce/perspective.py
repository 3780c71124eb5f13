"""Compare the two Perspective models of Borkan et al. (2019) term by term, as Markdown.

BIASGATE_REAL_DATA=FOLDER python docs/reproduce/perspective.py > docs/evidence/perspective.md
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pandas as pd

from bias_metrics import Difference, compare_bias
from bias_metrics.metrics import SUBGROUP_METRICS

INTRODUCTION = """\
# TOXICITY@6 against TOXICITY@1

This page compares the two Perspective models of Borkan et al. (2019) on the {n:,} identity phrases
made from {templates} templates (data by the authors of Perspective, CC BY 4.0). A phrase mentions
a term if it contains the term as a whole word. Each difference is @6 minus @1, with two paired 95
% intervals: one as if phrases were independent, and one that allows for phrases of the same
template. **Phrases of one template are far from independent**: the standard error of a BPSN
difference is {smallest:.0f} to {largest:.0f} times as large (median {median:.0f}) when templates
are taken into account. For a term with fewer than 20 templates there is no such interval, and
nothing is said about it.

`python docs/reproduce/perspective.py` writes this page.

| metric | improved | got worse | not shown | too few templates | improved, phrases independent |
|---|--:|--:|--:|--:|--:|
{summary}

| term | templates | BPSN @1 | BPSN @6 | difference | phrases independent | by template | shown |
|---|--:|--:|--:|--:|---|---|---|
"""
TOO_FEW = "too few templates"


def main() -> None:
    """Print the page."""
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
    summary = "\n".join(_counts(metric, plain, clustered) for metric in SUBGROUP_METRICS[:3])
    print(
        INTRODUCTION.format(
            n=len(phrases),
            templates=phrases["template"].nunique(),
            smallest=growth.min(),
            largest=growth.max(),
            median=growth.median(),
            summary=summary,
        ),
        end="",
    )
    for term in sorted(masks, key=lambda name: -(plain[name]["bpsn_auc"].value or 0)):
        one, other = plain[term]["bpsn_auc"], clustered[term]["bpsn_auc"]
        print(
            f"| {term} | {templates[term]} | {one.second:.3f} | {one.first:.3f} | "
            f"{one.value:+.3f} | {_interval(one)} | {_interval(other)} | {_shown(other)} |"
        )


def _counts(metric: str, plain: dict, clustered: dict) -> str:
    found = [_shown(of_term[metric]) for of_term in clustered.values()]
    alone = [_shown(of_term[metric]) for of_term in plain.values()]
    columns = [found.count(one) for one in ("improved", "got worse", "not shown", TOO_FEW)]
    return "| " + " | ".join(map(str, [metric, *columns, alone.count("improved")])) + " |"


def _interval(difference: Difference) -> str:
    if difference.low is None or difference.high is None:
        return TOO_FEW
    return f"[{difference.low:+.3f}, {difference.high:+.3f}]"


def _shown(difference: Difference) -> str:
    if difference.low is None or difference.high is None:
        return TOO_FEW
    if difference.low > 0:
        return "improved"
    return "got worse" if difference.high < 0 else "not shown"


if __name__ == "__main__":
    main()
