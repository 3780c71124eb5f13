"""Third step, continued: what the numbers mean for users of the classifier.

The pattern of bias of each identity, in words; and the errors once a threshold turns scores into
decisions: whose harmless comments are flagged, whose toxic comments are missed; and whether scores
are probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from bias_metrics import (
    BiasReport,
    MetricValue,
    Rows,
    SubgroupBias,
    calibration_report,
    diagnose_bias,
    equal_error_range,
    equal_error_rate,
    rate_gaps,
    threshold_report,
)
from bias_metrics.gate import LEAST_ROWS
from bias_metrics.metrics import EQUAL_ERRORS, FINAL_SCORE_PARTS, GIVEN
from bias_metrics.report import spread_of
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.records import (
    AtThreshold,
    Calibration,
    Diagnoses,
    DiagnosisRecord,
    Explained,
    LookFirst,
    metric_cells,
)
from biasgate.tasks.records.numbers import CONFIDENCE, has_enough_rows

# The most identities whose spread is measured.
_FEW = 64
# Most identities named in a sentence.
_TOLD = 20
NO_PATTERN = {"none", "no evidence"}


def explain(evidence: EvidenceFile, bias: BiasReport, threshold: float | None = None) -> Explained:
    """Diagnose every identity, and count the errors at one or two thresholds.

    Parameters
    ----------
    threshold : float, optional
        The threshold that the candidate is used with; measured beside that of equal errors.

    Rows with sampling weights have neither diagnoses nor thresholds.
    """
    rows, record = evidence.measured, evidence.record
    told = len(bias.subgroups) <= _FEW
    spread = spread_of(evidence.measurement, CONFIDENCE) if told else None
    if rows.weights is not None:
        return replace(undiagnosed(bias, "for rows with sampling weights"), spread=spread)
    y_true, y_score, groups = rows.labels, rows.y_score, rows.members
    diagnoses = diagnose_bias(
        Rows(y_true, groups, background=record.choices.background),
        y_score,
        confidence=CONFIDENCE,
    )
    equal = equal_error_rate(y_true, y_score)
    span = equal_error_range(y_true, y_score, confidence=CONFIDENCE, clusters=rows.clusters)
    chosen = {EQUAL_ERRORS: equal.threshold, GIVEN: threshold}
    thresholds = {
        kind: AtThreshold.from_dict(
            threshold_report(
                y_true,
                y_score,
                groups,
                threshold=number,
                groups=record.power_mean_groups,
            ).to_dict()
            | {
                "gaps": rate_gaps(
                    Rows(
                        y_true,
                        groups,
                        clusters=rows.clusters,
                        background=record.choices.background,
                    ),
                    y_score,
                    threshold=number,
                    threshold_range=span if kind == EQUAL_ERRORS else None,
                    confidence=CONFIDENCE,
                ).to_dict()["subgroups"],
            }
            | ({"equal_error_rate": equal.rate.to_dict()} if kind == EQUAL_ERRORS else {}),
        )
        for kind, number in chosen.items()
        if number is not None
    }
    subgroups = {
        name: DiagnosisRecord.from_dict(found.to_dict()) for name, found in diagnoses.items()
    }
    return Explained(
        diagnosis=Diagnoses(
            confidence=CONFIDENCE,
            rows_taken_as_independent=True,
            subgroups=subgroups,
        ),
        thresholds=thresholds,
        look_first=look_first(bias, subgroups, clustered=rows.clusters is not None),
        spread=spread,
    )


def undiagnosed(bias: BiasReport, where: str) -> Explained:
    """Say what the numbers mean where patterns of bias cannot be told."""
    reason = f"Patterns of bias are not diagnosed {where}."
    of_each: DiagnosisRecord = DiagnosisRecord(
        pattern="no evidence",
        name="not diagnosed",
        sentence=reason,
        evidence={},
    )
    subgroups = dict.fromkeys(bias.subgroups, of_each)
    return Explained(
        diagnosis=Diagnoses(
            confidence=CONFIDENCE,
            rows_taken_as_independent=True,
            subgroups=subgroups,
        ),
        thresholds={},
        look_first=look_first(bias, subgroups, diagnosed=False),
    )


def look_first(
    bias: BiasReport,
    diagnoses: Mapping[str, DiagnosisRecord],
    *,
    clustered: bool = False,
    diagnosed: bool = True,
) -> LookFirst:
    """Choose the identity with the lowest AUC, preferring those with a clear pattern.

    AUCs of fewer than 20 rows of a class that they compare do not count.

    Parameters
    ----------
    bias : mapping
        The numbers, as in the report.
    diagnoses : mapping
        The diagnosis of each identity.
    clustered : bool, default=False
        Whether rows belong to clusters, which the diagnoses do not take into account.
    diagnosed : bool, default=True
        Whether there are diagnoses.
    """
    lowest = {
        name: min(known)
        for name, cells in bias.subgroups.items()
        if (known := list(_defined(cells)))
    }
    clear = [name for name in lowest if diagnoses[name].pattern not in NO_PATTERN]
    if not lowest:
        sentence = (
            "No AUC of any identity has enough evidence: that takes "
            f"{LEAST_ROWS} rows of each class that it compares."
        )
        return LookFirst(subgroup=None, metric=None, sentence=sentence)
    first = min(clear or lowest, key=lambda name: lowest[name])
    value, metric = lowest[first]
    found = diagnoses[first]
    number = f"{metric} {value:.3f}{_interval(metric_cells(bias.subgroups[first])[metric])}"
    told = f"The lowest AUC with enough evidence is {number} of {first}."
    if diagnosed:
        told = "No identity shows a clear pattern of bias; the lowest AUC with enough evidence "
        told += f"is {number} of {first}."
    if clear:
        named = "" if found.pattern == "other" else f", {found.name}"
        told = f"Look first at {first} (its lowest AUC is {number}{named})."
    told += f" {found.sentence}"
    others = sorted({*clear} - {first}, key=lambda name: lowest[name])
    if others:
        more = f" and {len(others) - _TOLD:,} more" if len(others) > _TOLD else ""
        told += f" Clearly treated differently too: {', '.join(others[:_TOLD])}{more}."
    if clustered:
        told += " (This treats rows as independent, which rows of one cluster are not.)"
    return LookFirst(subgroup=first, metric=metric, sentence=told)


def _interval(cell: MetricValue) -> str:
    low, high = cell.low, cell.high
    return "" if low is None or high is None else f" [95 % interval {low:.3f}, {high:.3f}]"


def _defined(cells: SubgroupBias) -> Iterator[tuple[float, str]]:
    for metric in FINAL_SCORE_PARTS:
        value = metric_cells(cells)[metric].value
        if value is not None and has_enough_rows(metric, cells):
            yield value, metric


@task(name="explain bias", task_run_name="explain {evidence.folder!m}")
def explain_bias(bias: BiasReport, threshold: float | None, evidence: EvidenceFile) -> Explained:
    """Diagnose identities, count errors at thresholds, measure calibration.

    Only reads, safe to retry.
    """
    return replace(explain(evidence, bias, threshold), calibration=calibrate(evidence))


# Each identity takes a pass over all rows; if there are more, only all rows are measured.
MOST = 64


def calibrate(evidence: EvidenceFile) -> Calibration:
    """Measure the calibration of a candidate on a set, and say it in a sentence."""
    rows = evidence.measured
    found: dict[str, Any] = calibration_report(
        Rows(
            rows.labels,
            rows.members if len(rows.members) <= MOST else {},
            sample_weight=rows.weights,
            clusters=rows.clusters,
            background=evidence.background,
        ),
        rows.y_score,
        confidence=CONFIDENCE,
    ).to_dict()
    known = Calibration.from_dict(found | {"sentence": ""})
    return replace(known, sentence=calibration_sentence(known))


def calibration_sentence(found: Calibration) -> str:
    """Say how far scores are from probabilities, and for which identity they are worst."""
    if found.reason is not None:
        return f"Calibration is not measured: {found.reason}."
    overall = found.overall
    slope = _number(overall.slope)
    text = (
        f"As probabilities, scores differ from the share of toxic comments by "
        f"{overall.bias.value:+.3f} in the mean; Brier score {_number(overall.brier)}, "
        f"slope {slope} (1 is best), calibration error {_number(overall.calibration_error)}."
    )

    def enough(name: str) -> bool:
        one = found.subgroups[name]
        return min(one.n_positive, one.n - one.n_positive) >= LEAST_ROWS

    gaps = {name: one.calibration_gap for name, one in found.subgroups.items()}
    sizes = {
        name: abs(one.value) for name, one in gaps.items() if one.value is not None and enough(name)
    }
    if not sizes:
        return text
    worst = max(sizes, key=lambda name: sizes[name])
    gap = gaps[worst]
    bounds = "" if gap.low is None else f" [{gap.low:+.3f}, {gap.high:+.3f}]"
    apart = f"{gap.value:+.3f}{bounds}"
    off = f"they are farthest off, with enough evidence, for {worst}: {apart}."
    return f"{text} Compared with others {off}"


def _number(cell: MetricValue) -> str:
    return "undefined" if cell.value is None else f"{cell.value:.3f}"
