"""Fourth step: the report and its table, written as files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bias_metrics import BiasTable, MetricValue
from bias_metrics.metrics import EQUAL_ERRORS, GIVEN
from biasgate.tasks.common.csv_files import format_csv
from biasgate.tasks.common.files import write_json
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.near_words import NearTerms
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.measuring.cautions import list_cautions
from biasgate.tasks.records import (
    AnalysisRecord,
    Choices,
    EvaluationSetRecord,
    Explained,
    MarkedComments,
    ModelRecord,
    Report,
    ReportedChoices,
    Value,
    list_error_rates,
)
from biasgate.tasks.reporting.decisions import TERMS_FILE, format_terms_csv
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.scored_set import ScoredSet, ScoresRecord

SCHEMA_VERSION = 1
AT = {EQUAL_ERRORS: "at_equal_errors", GIVEN: "at_threshold"}


def build_report(
    evaluation_set: EvaluationSet,
    choices: Choices,
    candidate: CandidateSettings,
    scores: ScoresRecord,
    explained: Explained,
    analysed: Sequence[tuple[str, AnalysisRecord]] = (),
    missing: MarkedComments | None = None,
    truncated: MarkedComments | None = None,
) -> Report:
    """Return the report of a candidate on a set.

    `scores` has the provenance of its scores; `explained` has the numbers and their meaning.
    """
    record = evaluation_set.record
    reported = ReportedChoices(
        **vars(choices),
        split=record["split"],
        source=record["source"],
        in_no_slice=record.get("in_no_slice"),
    )
    unmatched = record.get("unmatched_terms", {})
    near = {name: NearTerms(**words) for name, words in record.get("near_terms", {}).items()}
    model = ModelRecord(
        **vars(candidate.describe_model()),
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
        candidate=model,
        bias=explained.bias,
        trained_on=scores.trained_on,
        harms=explained.harms,
        thresholds=explained.thresholds,
        look_first=explained.look_first,
        warnings=[
            *list_cautions(explained.bias, reported, candidate, unmatched, near, explained),
            *(warning for _, analysis in analysed for warning in analysis.warnings),
        ],
        missing=missing,
        truncated=truncated,
        calibration=explained.calibration,
        spread=explained.spread,
        terms=explained.terms,
        analyses=dict(analysed) or None,
    )


def build_metric_table(report: Report) -> dict[str, list[Any]]:
    """Return one row per subgroup: counts, metrics with intervals, error rates, gaps."""
    values: dict[str, dict[str | None, Any]] = {}
    for row in _list_further_numbers(report):
        column = f"{row['metric']}_{AT[row['threshold']]}" if "threshold" in row else row["metric"]
        values.setdefault(column, {})[row["group"]] = row["value"]
    further = {
        name: [column.get(group) for group in report.bias.subgroups]
        for name, column in values.items()
    }
    return build_wide_table(report.bias) | further


def build_wide_table(table: BiasTable) -> dict[str, list[Any]]:
    """Return one row per subgroup: counts and metrics with intervals."""
    groups = list(table.subgroups)
    columns: dict[str, list[Any]] = {"subgroup": groups}
    for name in ("n", "n_positive", "n_negative"):
        columns[name] = [getattr(table.counts[group], name) for group in groups]
    for key, number in table.items():
        if key.group is not None:
            name = key.metric if key.threshold is None else f"{key.metric}_{AT[key.threshold]}"
            for column, end in ((name, "value"), (f"{name}_low", "low"), (f"{name}_high", "high")):
                columns.setdefault(column, []).append(getattr(number, end))
    return columns


def _list_further_numbers(report: Report) -> Iterator[dict[str, Any]]:
    """Yield error rates, and shares of comments without a score and of truncated comments."""
    for threshold, errors in report.thresholds.items():
        for group, rates in [(None, errors.overall), *errors.subgroups.items()]:
            for rate, cell in list_error_rates(rates).items():
                yield {"metric": rate, "group": group, "threshold": threshold} | _read_numbers(cell)
    for kind, marked in report.marked.items():
        for group, share in [(None, marked.overall), *marked.subgroups.items()]:
            yield {"metric": f"n_{kind}", "group": group, "value": share.n_marked}
            for name, number in (("rate", share.rate), ("gap", share.gap)):
                if number is not None:
                    yield {"metric": f"{kind}_{name}", "group": group} | _read_numbers(number)


def _read_numbers(cell: MetricValue | Value) -> dict[str, Any]:
    return {name: getattr(cell, name, None) for name in ("value", "low", "high", "reason")}


def format_metric_csv(report: Report) -> str:
    """Return all numbers as CSV, one per row; an undefined number is an empty cell."""
    rows = [*report.bias.rows(), *_list_further_numbers(report)]
    columns = [name for name in rows[0] if name != "against"]
    return format_csv(columns, [[row.get(name) for name in columns] for row in rows])


def write_submission(scored: ScoredSet, path: Path) -> None:
    """Write scores in the Kaggle submission format: `id,prediction`; empty without a score."""
    table = scored.table()
    ids, scores = (table.column(name).to_pylist() for name in ("id", "score"))
    texts = ("" if math.isnan(score) else score for score in scores)
    path.write_bytes(format_csv(["id", "prediction"], zip(ids, texts, strict=True)).encode())


@task(name="write report", task_run_name="report {evidence.folder!m}")
def write_report(
    explained: Explained,
    analysed: list[tuple[str, AnalysisRecord]],
    candidate: CandidateSettings,
    set_folder: str,
    scores_folder: str,
    evidence: EvidenceFile,
    missing: MarkedComments | None = None,
    truncated: MarkedComments | None = None,
) -> Report:
    """Write `report.json`, `bias_metrics.csv` and `terms.csv`, return the report.

    Safe to retry.
    """
    scores = ScoredSet.open(scores_folder).record
    choices = evidence.record.choices
    frozen = EvaluationSet.load(Path(set_folder))
    report = build_report(
        frozen, choices, candidate, scores, explained, analysed, missing, truncated
    )
    write_json(evidence.folder / "report.json", report)
    (evidence.folder / "bias_metrics.csv").write_text(format_metric_csv(report), "utf-8")
    if report.terms is not None:
        (evidence.folder / TERMS_FILE).write_text(format_terms_csv(report.terms), "utf-8")
    return report
