"""Third step, continued: the meaning of the numbers for users of the classifier.

The identities with a significantly low AUC, the error rates at thresholds, and the calibration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from bias_metrics import (
    BiasTable,
    Key,
    MetricValue,
    calibration_report,
    equal_error_range,
    equal_error_rate,
    threshold_report,
)
from bias_metrics.families import bonferroni_level, widen_selected
from bias_metrics.gate import LEAST_ROWS
from bias_metrics.metrics import (
    AUCS,
    CALIBRATION_GAP,
    EQUAL_ERRORS,
    FINAL_SCORE_PARTS,
    GIVEN,
    METRICS,
    SUBGROUP_METRICS,
)
from bias_metrics.thresholds import MeasuredRates
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.measuring.terms import count_terms
from biasgate.tasks.records import (
    AtThreshold,
    CalibrationRecord,
    Explained,
    LookFirst,
)
from biasgate.tasks.records.numbers import CONFIDENCE, has_enough_rows, widen_number

MOST = 64
"""Largest number of identities for calibration and spread, which take a pass over all rows each."""
_MAX_NAMES = 20
"""Largest number of identities in a sentence."""


def explain_numbers(
    evidence: EvidenceFile, bias: BiasTable, threshold: float | None = None
) -> Explained:
    """Find significantly low AUCs, and count the errors at one or two thresholds.

    Errors are not counted for rows with sampling weights.

    Parameters
    ----------
    threshold : float, optional
        The threshold that the candidate is used with, in addition to that of equal errors.
    """
    rows, record = evidence.rows, evidence.record
    groups = list(bias.subgroups)
    spread = (
        {metric: bias.difference(metric) for metric in SUBGROUP_METRICS}
        if len(groups) <= MOST
        else None
    )
    harms = find_harms(bias.recompute_cells(compute_joint_confidence(len(groups))))
    if rows.weights is not None:
        first = look_first(bias, harms)
        return Explained(bias=bias, harms=harms, thresholds={}, look_first=first, spread=spread)
    y_true, y_score, masks = rows.labels, rows.y_score, rows.members
    equal = equal_error_rate(y_true, y_score)
    thresholds = {}
    checked = rows.check_rows(record.choices.background)
    for name, number in ((EQUAL_ERRORS, equal.threshold), (GIVEN, threshold)):
        if number is None:
            continue
        errors = threshold_report(
            y_true, y_score, masks, threshold=number, groups=record.power_mean_groups
        ).to_dict()
        span = None
        if name == EQUAL_ERRORS:
            errors = errors | {"equal_error_rate": equal.rate.to_dict()}
            span = equal_error_range(y_true, y_score, confidence=CONFIDENCE, clusters=rows.clusters)
        thresholds[name] = AtThreshold.from_dict(errors)
        rates = MeasuredRates(checked, {"y_score": y_score}, [number])
        bias = bias.add_numbers(rates.measure_gaps(CONFIDENCE, span, threshold_name=name))
    first = look_first(bias, harms)
    return Explained(bias=bias, harms=harms, thresholds=thresholds, look_first=first, spread=spread)


def compute_joint_confidence(n_identities: int) -> float:
    """Return the confidence at which the intervals of all AUCs hold jointly at 95 %."""
    return bonferroni_level(len(AUCS) * n_identities + 1, (1 - CONFIDENCE) / 2)


def find_harms(joint: BiasTable) -> dict[str, str]:
    """Return the metric of the lowest AUC by identity, for identities with a significantly low AUC.

    An AUC is significantly low if its upper bound is below the lower bound of the overall AUC. The
    bounds must hold jointly (`joint_confidence`), since the low AUCs are selected.
    """
    overall_low, harms = joint.overall.auc.low, {}
    if overall_low is None:
        return {}
    for name, subgroup in joint.subgroups.items():
        bounds = {metric: subgroup[metric].high for metric in AUCS}
        low = [metric for metric, high in bounds.items() if high is not None and high < overall_low]
        if low:
            harms[name] = min(low, key=lambda metric: joint[Key(metric, name)].value or 0.0)
    return harms


def describe_harm(bias: BiasTable, harms: Mapping[str, str], group: str) -> str:
    """Return a sentence with the harm to an identity; empty without a significantly low AUC."""
    if group not in harms:
        return ""
    value = bias[Key(harms[group], group)].value
    overall = bias.overall.auc.value
    assert value is not None  # noqa: S101 - a significantly low AUC has a bound
    assert overall is not None  # noqa: S101 - the bound was compared with that of the overall AUC
    harm = METRICS[harms[group]].harm.format(group=group)
    shares = f"{1 - value:.1%} of pairs; all comments: {1 - overall:.1%}"
    return f"{harm[0].upper()}{harm[1:]} ({shares})."


def look_first(bias: BiasTable, harms: Mapping[str, str]) -> LookFirst:
    """Choose the identity with the lowest AUC, preferably a significantly low AUC.

    AUCs with fewer than 20 rows in a compared class are ignored.
    """
    lowest = {}
    for name in bias.subgroups:
        values = [
            (value, metric)
            for metric in FINAL_SCORE_PARTS
            if (value := bias[Key(metric, name)].value) is not None
            and has_enough_rows(metric, bias.counts[name])
        ]
        if values:
            lowest[name] = min(values)
    significant = [name for name in lowest if name in harms]
    if not lowest:
        sentence = f"No identity has an AUC with at least {LEAST_ROWS} comments in each class."
        return LookFirst(subgroup=None, metric=None, sentence=sentence)
    first = min(significant or lowest, key=lambda name: lowest[name])
    value, metric = lowest[first]
    cell = widen_number(bias, first, metric)
    number = f"{metric} {value:.3f}"
    if cell.low is not None and cell.high is not None:
        number += f" [95% CI {cell.low:.3f} to {cell.high:.3f}]"
    if not significant:
        sentence = (
            "No identity has a significantly low AUC. The lowest with at least "
            f"{LEAST_ROWS} comments in each class is {number} of {first}."
        )
        return LookFirst(subgroup=first, metric=metric, sentence=sentence)
    sentence = (
        f"Look first at {first} (its lowest AUC is {number}). {describe_harm(bias, harms, first)}"
    )
    others = sorted({*significant} - {first}, key=lambda name: lowest[name])
    if others:
        more = f" and {len(others) - _MAX_NAMES:,} more" if len(others) > _MAX_NAMES else ""
        sentence += f" Also significantly low: {', '.join(others[:_MAX_NAMES])}{more}."
    return LookFirst(subgroup=first, metric=metric, sentence=sentence)


@task(name="explain bias", task_run_name="explain {evidence.folder!m}")
def explain_bias(
    bias: BiasTable, threshold: float | None, evidence: EvidenceFile, set_folder: str
) -> Explained:
    """Find significantly low AUCs, count errors at thresholds and by term, measure calibration.

    Only reads, safe to retry.
    """
    explained = explain_with_calibration(evidence, bias, threshold)
    terms = count_terms(evidence, EvaluationSet.load(Path(set_folder)), explained.thresholds)
    return replace(explained, terms=terms)


def explain_with_calibration(
    evidence: EvidenceFile, bias: BiasTable, threshold: float | None
) -> Explained:
    """Explain the numbers and measure calibration, with the rows of the evidence only."""
    explained = explain_numbers(evidence, bias, threshold)
    calibration, gaps = measure_calibration(evidence)
    numbers = {Key(CALIBRATION_GAP, name): gap for name, gap in gaps.items()}
    return replace(explained, bias=explained.bias.add_numbers(numbers), calibration=calibration)


def measure_calibration(evidence: EvidenceFile) -> tuple[CalibrationRecord, dict[str, MetricValue]]:
    """Measure the calibration of a candidate on a set, and the gap of each identity.

    With more than `MOST` identities, only the calibration of all rows is measured.
    """
    rows = evidence.rows
    checked = rows.check_rows(evidence.background)
    if len(rows.members) > MOST:
        checked = checked.replace_subgroups({})
    report = calibration_report(checked, rows.y_score, confidence=CONFIDENCE)
    calibration = CalibrationRecord.from_dict(report.to_dict() | {"sentence": ""})
    sentence = describe_calibration(calibration, report.gaps)
    return replace(calibration, sentence=sentence), report.gaps


def describe_calibration(calibration: CalibrationRecord, gaps: Mapping[str, MetricValue]) -> str:
    """Report the average calibration error, and the identity with the largest gap."""
    if calibration.reason is not None:
        return f"Calibration is not measured: {calibration.reason}."
    text = (
        "Read as probabilities, the scores differ from the share of toxic comments by "
        f"{calibration.overall.bias.value:+.3f} on average."
    )
    sizes = {}
    for name, gap in gaps.items():
        if gap.value is not None:
            group = calibration.subgroups[name]
            if min(group.n_positive, group.n - group.n_positive) >= LEAST_ROWS:
                sizes[name] = abs(gap.value)
    if not sizes:
        return text
    worst = max(sizes, key=lambda name: sizes[name])
    gap = widen_selected(gaps[worst], len(gaps))
    bounds = "" if gap.low is None else f" [{gap.low:+.3f}, {gap.high:+.3f}]"
    return (
        f"{text} The largest gap to other comments, of identities with at least {LEAST_ROWS} "
        f"comments in each class, is {gap.value:+.3f}{bounds}, for {worst}."
    )
