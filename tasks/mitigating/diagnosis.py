"""Diagnose a training set: which terms are out of line, where, and how sure labels are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bias_metrics import identity_counts, term_frequencies, toxicity_by_length
from bias_metrics.mitigation import Imbalance, label_imbalance, rows_to_balance
from biasgate.tasks.analysing.analyse import write_rows
from biasgate.tasks.common.files import write_json
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.data.evaluation_set import RATERS
from biasgate.tasks.data.identity_names import metric_name
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.mitigating.page import Row, Section, write_page
from biasgate.tasks.mitigating.rows import TrainingRows
from biasgate.tasks.mitigating.sets import SetFolder, rows_of
from biasgate.tasks.mitigating.settings import Mitigation
from biasgate.tasks.store import Workplace

REPORT, PAGE, TABLE = "diagnosis.json", "diagnosis.html", "diagnosis.csv"
CONTESTED = (0.25, 0.75)
_TOLD, _NEARLY_ALL = 5, 0.95


def diagnose(rows: TrainingRows) -> dict[str, Any]:
    """Return what a model could learn about identities from a training set.

    Returns
    -------
    dict
        JSON-ready: counts, frequencies, shares by length, tests, certainty of labels, and
        `sentences`. No comment is quoted.
    """
    rows.require_classes()
    found = label_imbalance(rows.labels, rows.lengths, rows.masks, edges=rows.edges)
    content: dict[str, Any] = {
        "training_set": rows.name,
        "n_rows": rows.n,
        "counts": identity_counts(rows.labels, rows.masks).to_dict(),
        "frequencies": term_frequencies(rows.labels, rows.masks).to_dict(),
        "by_length": toxicity_by_length(
            rows.labels, rows.lengths, rows.masks, edges=rows.edges
        ).to_dict(),
        "imbalance": found.to_dict(),
        "label_certainty": _certainty(rows),
        "unused": rows.unused(),
    }
    content["sentences"] = _sentences(content, found.shown())
    return content


def _certainty(rows: TrainingRows) -> list[Row] | None:
    """Return how contested labels are, where they are fractions of raters; else None."""
    fractions = rows.table["label"].to_numpy()
    if not ((fractions > 0) & (fractions < 1)).any():
        return None
    contested = (fractions >= CONTESTED[0]) & (fractions <= CONTESTED[1])
    raters = rows.table[RATERS].to_numpy() if RATERS in rows.table.column_names else None
    found = []
    for name, mask in ({"all comments": np.ones(rows.n, bool)} | rows.masks).items():
        n = int(mask.sum())
        found.append(
            {
                "identity": name,
                "n": n,
                "contested": float(contested[mask].mean()) if n else None,
                "mean_raters": float(raters[mask].mean()) if raters is not None and n else None,
            }
        )
    return found


def _sentences(content: dict[str, Any], shown: list[Imbalance]) -> list[str]:
    overall = content["counts"]["overall"]
    told = [
        f"{content['n_rows']:,} comments, {overall['percent_toxic']['value']:.1f} % of them toxic.",
    ]
    for one in _told_once(shown)[:_TOLD]:
        to = "characters or more" if one.stop is None else f"to {one.stop - 1} characters"
        where = "" if one.of_all_lengths else f" of {one.start} {to}"
        low, high = one.difference.low or 0.0, one.difference.high or 0.0
        told.append(
            f"Comments{where} with {one.term} are toxic in {one.rows.n_positive:,} of "
            f"{one.rows.n:,}, others in {one.others.n_positive:,} of {one.others.n:,}: a "
            f"difference of {float(one.difference):+.1%} [{low:+.1%}, {high:+.1%}], p "
            f"{one.p_holm:.2g} after Holm."
        )
    if not shown:
        told.append("No term is shown to be toxic more or less often than other comments.")
    if content["unused"]:
        names = ", ".join(content["unused"])
        told.append(f"Never mentioned, so nothing is known of them: {names}.")
    return told


def _told_once(shown: list[Imbalance]) -> list[Imbalance]:
    """Leave out a length that has nearly all comments with its term, if all lengths are there."""
    whole = {one.term: one.rows.n for one in shown if one.of_all_lengths}
    return [
        one
        for one in shown
        if one.of_all_lengths or one.rows.n < _NEARLY_ALL * whole.get(one.term, np.inf)
    ]


def sections(content: dict[str, Any]) -> list[Section]:
    """Return the tables of a diagnosis as parts of a page."""
    terms = content["frequencies"]["terms"]
    counts = content["counts"]["identities"]
    of_all = sorted(terms, key=lambda one: -(terms[one]["ratio"]["value"] or 0.0))
    found = [
        Section(
            "How often terms are used",
            "Share of toxic and of all comments that mention each one, and their ratio. After "
            "Dixon et al. (2018), Table 1.",
            [
                {"term": one}
                | {key: terms[one][key]["value"] for key in ("share_of_toxic", "share_of_all")}
                | {"ratio": terms[one]["ratio"]["value"]}
                for one in of_all
            ],
        ),
        Section(
            "Counts of each identity",
            "After Borkan et al. (2019), Table 5.",
            [
                {
                    "identity": name,
                    "comments": one["n"],
                    "toxic": one["n_positive"],
                    "percent toxic": one["percent_toxic"]["value"],
                }
                for name, one in counts.items()
            ],
        ),
        Section(
            "Percent toxic by length in characters",
            "After Dixon et al. (2018), Figure 1. Each cell: percent toxic (comments).",
            _by_length(content["by_length"]["buckets"]),
        ),
        Section(
            "What is out of line",
            "Share of toxic comments with the term minus the share of others of the same length. "
            "p-values of Fisher's exact test, adjusted for all terms and lengths by Holm. Rows to "
            "add: harmless comments that would bring the term to the share of its bucket.",
            _cells(content),
        ),
    ]
    if content["label_certainty"]:
        about = (
            f"Contested: between {CONTESTED[0]:g} and {CONTESTED[1]:g} of the raters said toxic. "
            "Labels of an identity that are contested more often than others may be wrong more "
            "often."
        )
        found.append(Section("How sure labels are", about, content["label_certainty"]))
    return found


def _by_length(buckets: list[dict[str, Any]]) -> list[Row]:
    rows = []
    for name in ("all comments", *buckets[0]["terms"]):
        row: Row = {"term": name}
        for one in buckets:
            cell = one["overall"] if name == "all comments" else one["terms"][name]
            stop = "+" if one["stop"] is None else f"-{one['stop'] - 1}"
            percent = cell["percent_toxic"]["value"]
            row[f"{one['start']}{stop}"] = (
                "-" if percent is None else f"{percent:.1f} ({cell['n']:,})"
            )
        rows.append(row)
    return rows


def _cells(content: dict[str, Any]) -> list[Row]:
    priors = {one["start"]: one["overall"] for one in content["by_length"]["buckets"]}
    rows = []
    for one in content["imbalance"]["cells"]:
        if one["p_holm"] is None:
            continue
        stop = "+" if one["stop"] is None else f"-{one['stop'] - 1}"
        overall = (
            priors[one["start"]] if not one["of_all_lengths"] else content["counts"]["overall"]
        )
        prior = overall["n_positive"] / overall["n"]
        counts = one["rows"]
        rows.append(
            {
                "term": one["term"],
                "length": "all" if one["of_all_lengths"] else f"{one['start']}{stop}",
                "toxic": f"{counts['n_positive']:,} of {counts['n']:,}",
                "difference": one["difference"],
                "p (Holm)": one["p_holm"],
                "rows to add": rows_to_balance(counts["n"], counts["n_positive"], prior).value,
            }
        )
    return sorted(rows, key=lambda row: (row["p (Holm)"], -abs(row["difference"]["value"])))


@task(name="diagnose training data", task_run_name="diagnose {source.name}")
def diagnose_training_set(
    source: SourceSettings,
    rows: str,
    mitigation: Mitigation,
    output: str,
    workplace: Workplace,
    experiment: str,
) -> dict[str, Any]:
    """Diagnose a frozen training set; write JSON, CSV and a page; log them. Safe to retry."""
    say(f"diagnosing {source.name}")
    found = diagnose(rows_of(SetFolder(source, rows), mitigation))
    parts = sections(found)
    flat = [
        {**{key: one[key] for key in ("term", "start", "stop", "of_all_lengths", "p_value")}}
        | {"n": one["rows"]["n"], "n_positive": one["rows"]["n_positive"]}
        | {key: one["difference"].get(key) for key in ("value", "low", "high")}
        | {key: one[key] for key in ("p_holm", "p_bh")}
        for one in found["imbalance"]["cells"]
    ]
    metrics = {
        f"label_imbalance/{metric_name(one['term'])}": one["difference"]["value"]
        for one in found["imbalance"]["cells"]
        if one["of_all_lengths"] and one["difference"]["value"] is not None
    }
    folder = Path(output) / source.name
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / REPORT, found)
    write_page(folder / PAGE, f"Training data: {source.name}", found["sentences"], parts)
    write_rows(flat, folder / TABLE)
    log_results(workplace, experiment, f"diagnose {source.name}", rows, metrics, folder)
    return found


def log_results(
    workplace: Workplace,
    experiment: str,
    name: str,
    key: str,
    metrics: dict[str, float],
    folder: Path,
) -> None:
    """Log numbers and files in one MLflow run, found again by its key."""
    gateway = workplace.gateway
    run_id = gateway.run(gateway.experiment(experiment), f"{name} {key}", name)
    with gateway.failing(run_id):
        gateway.log(run_id, metrics=metrics)
        gateway.log_folder(run_id, folder)
        gateway.finish(run_id)
