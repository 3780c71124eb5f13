"""What a mitigated candidate costs: each identity's numbers before and after, on the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bias_metrics import MetricValue, error_rates
from bias_metrics.metrics import AEGS, AUCS
from bias_metrics.mitigation import ALL, RATES, rate_changes
from biasgate.tasks.evidence.beside import RIVAL, NotSameRowsError, beside
from biasgate.tasks.evidence.measure import Measuring
from biasgate.tasks.evidence.rows import CANDIDATE
from biasgate.tasks.mitigating.page import Row
from biasgate.tasks.records import metric_cells
from biasgate.tasks.records.numbers import CONFIDENCE
from biasgate.tasks.reporting.results import Published, read_results

_METRICS = (*AUCS, *AEGS)


def costs_of(before: Path, after: Path, method: str) -> list[Row]:
    """Compare the results of a candidate with those of a mitigated one; worst change first.

    The overall AUC, five metrics of each identity, and the error rates of all rows and of each
    identity, each candidate at its own threshold of equal errors. Intervals are paired, row by
    row, and allow for clusters.
    """
    [first], [second] = read_results(before).each, read_results(after).each
    found = [_cost(method, *cell) for cell in _numbers(first, second).items()]
    return sorted(found, key=lambda cost: -(cost["worse_by"]["value"] or 0.0))


def _cost(method: str, at: tuple[str, str], cells: Mapping[str, Any]) -> Row:
    return {"method": method, "identity": at[0], "metric": at[1], **cells}


def _numbers(first: Published, second: Published) -> dict[tuple[str, str], Row]:
    """Return the cells of both, by identity and metric."""
    measuring = _paired(first, second)
    differences = None if measuring is None else measuring.evidence(CONFIDENCE).champion
    bias, other = first.report.bias, second.report.bias
    found = {
        (ALL, "auc"): _change(
            "auc",
            bias.overall.auc,
            other.overall.auc,
            None if differences is None else differences["overall"]["auc"],
        )
    }
    for name, cells in bias.subgroups.items():
        theirs = metric_cells(other.subgroups[name])
        for metric in _METRICS:
            change = None if differences is None else differences["subgroups"][name][metric]
            found[name, metric] = _change(
                metric, metric_cells(cells)[metric], theirs[metric], change
            )
    return found | ({} if measuring is None else _rates(first, second, measuring))


def _paired(first: Published, second: Published) -> Measuring | None:
    """Return the rows with both scores; None if they are not the same rows."""
    if first.evidence is None or second.evidence is None:
        return None
    try:
        return beside(second.evidence, first.evidence)
    except NotSameRowsError:
        return None


def _change(metric: str, before: MetricValue, after: MetricValue, difference: Any) -> Row:
    worse: Row = {"value": None, "reason": before.reason or after.reason}
    if before.value is not None and after.value is not None:
        worse = {"value": harm(metric, before.value, after.value), "low": None, "high": None}
    if difference is not None and worse["value"] is not None:
        low, high = difference.get("low"), difference.get("high")
        if metric in AEGS:
            low, high = difference.get("size_low"), difference.get("size_high")
        elif low is not None and high is not None:
            low, high = -high, -low
        worse |= {"low": low, "high": high}
    return {"before": before.value, "after": after.value, "worse_by": worse}


def _rates(first: Published, second: Published, measuring: Measuring) -> dict[tuple[str, str], Row]:
    """Return the error rates of all rows and of each identity, without weights."""
    rows = measuring.rows
    thresholds = [one.report.thresholds["equal_errors"].threshold for one in (first, second)]
    scores = rows.scores[RIVAL], rows.scores[CANDIDATE]
    if rows.weights is not None or rows.matched is not None or None in thresholds:
        return {}
    masks = {name: np.asarray(rows.members[name]) for name in rows.members}
    before, after = (score >= at for score, at in zip(scores, thresholds, strict=True))
    changes = rate_changes(rows.labels, before, after, masks, clusters=rows.clusters)
    found = {}
    for name, cells in changes.items():
        mask = masks.get(name, np.ones(rows.labels.size, dtype=bool))
        both = [
            error_rates(rows.labels[mask], score[mask], threshold=at)
            for score, at in zip(scores, thresholds, strict=True)
        ]
        for rate in RATES:
            values = [one.rate(rate).value for one in both]
            worse = cells[rate].to_dict(interval=True)
            found[name, rate] = {"before": values[0], "after": values[1], "worse_by": worse}
    return found


def harm(metric: str, before: float, after: float) -> float:
    """Return by how much a number became worse: above 0 is worse, whatever the metric."""
    if metric in AEGS:
        return abs(after) - abs(before)
    return before - after if metric in AUCS or metric == "auc" else after - before
