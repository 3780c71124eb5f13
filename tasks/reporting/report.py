"""Fourth step: the report and its table, written as files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bias_metrics import BiasReport, MetricValue
from bias_metrics.metrics import (
    CALIBRATION_GAP,
    EQUAL_ERRORS,
    GIVEN,
    SUBGROUP_METRICS,
    threshold_metrics,
)
from biasgate.tasks.common.csv_files import csv_of
from biasgate.tasks.common.files import write_json
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.near_words import NearTerms
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.measuring.cautions import (
    cautions,
)
from biasgate.tasks.records import (
    AnalysisRecord,
    Choices,
    EvaluationSetRecord,
    Explained,
    Missing,
    ModelRecord,
    Report,
    ReportedChoices,
    error_rates,
    metric_cells,
)
from biasgate.tasks.reporting.decisions import TERMS_FILE, terms_csv
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.scored_set import ScoredSet, ScoresRecord

SCHEMA_VERSION = 1
ERROR_RATES = ("false_positive_rate", "false_negative_rate")
AT = {EQUAL_ERRORS: "at_equal_errors", GIVEN: "at_threshold"}


def build_report(
    bias: BiasReport,
    evaluation_set: EvaluationSet,
    choices: Choices,
    candidate: CandidateSettings,
    scores: ScoresRecord,
    explained: Explained,
    analysed: Sequence[tuple[str, AnalysisRecord]] = (),
    missing: Missing | None = None,
) -> Report:
    """Return the report of one candidate on one set.

    `scores` says what affects its kept scores, and `explained` what the numbers mean.
    """
    reported = ReportedChoices(
        **vars(choices),
        split=evaluation_set.record["split"],
        source=evaluation_set.record["source"],
        in_no_slice=evaluation_set.record.get("in_no_slice"),
    )
    unmatched, near = (
        evaluation_set.record.get(name, {}) for name in ("unmatched_terms", "near_terms")
    )
    near = {name: NearTerms(**words) for name, words in near.items()}
    judged = ModelRecord(
        **vars(candidate.identity()),
        digest=scores.candidate_digest,
        bound=scores.bound,
        opened_as=candidate.opened_as() if candidate.uri else None,
    )
    return Report(
        schema_version=SCHEMA_VERSION,
        evaluation_set=EvaluationSetRecord(
            name=evaluation_set.name,
            digest=evaluation_set.digest,
            choices=reported,
        ),
        candidate=judged,
        bias=bias,
        trained_on=scores.trained_on,
        harms=explained.harms,
        thresholds=explained.thresholds,
        look_first=explained.look_first,
        warnings=[
            *cautions(bias, reported, candidate, unmatched, near, explained),
            *(warning for _, one in analysed for warning in one.warnings),
        ],
        missing=missing,
        calibration=explained.calibration,
        spread=explained.spread,
        terms=explained.terms,
        analyses=dict(analysed) or None,
    )


def metric_table(report: Report) -> dict[str, list[Any]]:
    """Return one row per subgroup: counts, metrics with intervals, error rates, gaps."""
    subgroups = report.bias.subgroups
    table = bias_table(report.bias)
    for kind, errors in report.thresholds.items():
        for rate in ERROR_RATES:
            cells = [error_rates(errors.subgroups[name])[rate] for name in subgroups]
            table[f"{rate}_{AT[kind]}"] = [cell.value for cell in cells]
        for metric in threshold_metrics():
            gaps = [errors.gaps[name][metric] for name in subgroups]
            _add_cells(table, f"{metric}_{AT[kind]}", gaps)
    if report.missing is not None:
        lacking = report.missing.subgroups
        table |= {"n_missing": [lacking[name].n_missing for name in subgroups]}
        for key in ("missing_rate", "missing_gap"):
            cells_of = [metric_cells(lacking[name])[key] for name in subgroups]
            _add_cells(table, key, cells_of)
    calibrated = report.calibration.subgroups if report.calibration is not None else {}
    if calibrated:
        _add_cells(table, CALIBRATION_GAP, [calibrated[name].calibration_gap for name in subgroups])
    return table


def bias_table(bias: BiasReport) -> dict[str, list[Any]]:
    """Return one row per subgroup: counts and metrics with intervals."""
    subgroups = bias.subgroups
    table: dict[str, list[Any]] = {"subgroup": list(subgroups)}
    for name in ("n", "n_positive", "n_negative"):
        table[name] = [getattr(cells, name) for cells in subgroups.values()]
    for name in SUBGROUP_METRICS:
        _add_cells(table, name, [metric_cells(cells)[name] for cells in subgroups.values()])
    return table


def _add_cells(table: dict[str, list[Any]], name: str, cells: Sequence[MetricValue]) -> None:
    """Add the values of a metric and the ends of their intervals."""
    for column, key in ((name, "value"), (f"{name}_low", "low"), (f"{name}_high", "high")):
        table[column] = [getattr(cell, key) for cell in cells]


def metric_csv(report: Report) -> str:
    """Return the metric table as CSV; an undefined number is an empty cell."""
    table = metric_table(report)
    return csv_of(table, zip(*table.values(), strict=True))


def write_submission(scored: ScoredSet, path: Path) -> None:
    """Write scores in the Kaggle submission format: `id,prediction`; empty without a score."""
    table = scored.table()
    ids, scores = (table.column(name).to_pylist() for name in ("id", "score"))
    texts = ("" if math.isnan(one) else one for one in scores)
    path.write_bytes(csv_of(["id", "prediction"], zip(ids, texts, strict=True)).encode())


@task(name="write report", task_run_name="report {evidence.folder!m}")
def write_report(
    bias: BiasReport,
    explained: Explained,
    analysed: list[tuple[str, AnalysisRecord]],
    candidate: CandidateSettings,
    set_folder: str,
    scores_folder: str,
    evidence: EvidenceFile,
    missing: Missing | None = None,
) -> Report:
    """Write `report.json`, `bias_metrics.csv` and `terms.csv`, return the report.

    Safe to retry.
    """
    scores = ScoredSet.open(scores_folder).record
    choices = evidence.record.choices
    frozen = EvaluationSet.load(Path(set_folder))
    report = build_report(bias, frozen, choices, candidate, scores, explained, analysed, missing)
    write_json(evidence.folder / "report.json", report)
    (evidence.folder / "bias_metrics.csv").write_text(metric_csv(report), "utf-8")
    if report.terms is not None:
        (evidence.folder / TERMS_FILE).write_text(terms_csv(report.terms), "utf-8")
    return report
