"""Third step, continued: the meaning of the numbers for users of the classifier.

Identities with a significantly low AUC; the errors once a threshold turns scores into decisions;
and whether scores are probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    Calibration,
    Explained,
    LookFirst,
)
from biasgate.tasks.records.numbers import CONFIDENCE, has_enough_rows, named_number

# The most identities whose spread is measured.
_FEW = 64
# Most identities named in a sentence.
_TOLD = 20


def explain(evidence: EvidenceFile, bias: BiasTable, threshold: float | None = None) -> Explained:
    """Find significantly low AUCs, and count the errors at one or two thresholds.

    Rows with sampling weights have no thresholds.

    Parameters
    ----------
    threshold : float, optional
        The threshold that the candidate is used with; measured beside that of equal errors.
    """
    rows, record = evidence.measured, evidence.record
    groups = list(bias.subgroups)
    spread = (
        {metric: bias.difference(metric) for metric in SUBGROUP_METRICS}
        if len(groups) <= _FEW
        else None
    )
    harms = find_harms(bias.recompute_cells(joint_confidence(len(groups))))
    if rows.weights is not None:
        first = look_first(bias, harms)
        return Explained(bias=bias, harms=harms, thresholds={}, look_first=first, spread=spread)
    y_true, y_score, masks = rows.labels, rows.y_score, rows.members
    equal = equal_error_rate(y_true, y_score)
    chosen, thresholds = {EQUAL_ERRORS: equal.threshold, GIVEN: threshold}, {}
    checked = rows.checked(record.choices.background)
    for name, number in chosen.items():
        if number is None:
            continue
        errors = threshold_report(
            y_true, y_score, masks, threshold=number, groups=record.power_mean_groups
        )
        span, rate = None, None
        if name == EQUAL_ERRORS:
            rate = equal.rate.to_dict()
            span = equal_error_range(y_true, y_score, confidence=CONFIDENCE, clusters=rows.clusters)
        known = errors.to_dict() | ({} if rate is None else {"equal_error_rate": rate})
        thresholds[name] = AtThreshold.from_dict(known)
        rates = MeasuredRates(checked, {"y_score": y_score}, [number])
        bias = bias.add_numbers(rates.measure_gaps(CONFIDENCE, span, threshold_name=name))
    first = look_first(bias, harms)
    return Explained(bias=bias, harms=harms, thresholds=thresholds, look_first=first, spread=spread)


def joint_confidence(n_identities: int) -> float:
    """Return the confidence at which the intervals of all AUCs hold together at 95 %."""
    return bonferroni_level(len(AUCS) * n_identities + 1, (1 - CONFIDENCE) / 2)


def find_harms(joint: BiasTable) -> dict[str, str]:
    """Return the identities with a significantly low AUC, each with the metric of its lowest one.

    An AUC is significantly low if its upper bound is below the lower bound of the overall AUC. The
    bounds must hold together (`joint_confidence`), since the low AUCs are selected.
    """
    least, found = joint.overall.auc.low, {}
    if least is None:
        return {}
    for name, subgroup in joint.subgroups.items():
        highs = {metric: subgroup[metric].high for metric in AUCS}
        low = [metric for metric, high in highs.items() if high is not None and high < least]
        if low:
            found[name] = min(low, key=lambda metric: joint[Key(metric, name)].value or 0.0)
    return found


def describe_harm(bias: BiasTable, harms: Mapping[str, str], group: str) -> str:
    """Return the harm to an identity as a sentence made from its number; empty if there is none."""
    if group not in harms:
        return ""
    value = bias[Key(harms[group], group)].value
    usual = bias.overall.auc.value
    assert value is not None  # noqa: S101 - it has a bound
    assert usual is not None  # noqa: S101 - so has this
    harm = METRICS[harms[group]].harm.format(group=group)
    shares = f"{1 - value:.1%} of pairs; all comments: {1 - usual:.1%}"
    return f"{harm[0].upper()}{harm[1:]} ({shares})."


def look_first(bias: BiasTable, harms: Mapping[str, str]) -> LookFirst:
    """Choose the identity with the lowest AUC, preferring those with a significantly low one.

    AUCs of fewer than 20 rows of a class that they compare do not count.
    """
    lowest = {name: min(known) for name in bias.subgroups if (known := list(_defined(bias, name)))}
    significant = [name for name in lowest if name in harms]
    if not lowest:
        sentence = f"No identity has an AUC with at least {LEAST_ROWS} comments in each class."
        return LookFirst(subgroup=None, metric=None, sentence=sentence)
    first = min(significant or lowest, key=lambda name: lowest[name])
    value, metric = lowest[first]
    number = f"{metric} {value:.3f}{_interval(named_number(bias, first, metric))}"
    if not significant:
        told = (
            "No identity has a significantly low AUC. The lowest with at least "
            f"{LEAST_ROWS} comments in each class is {number} of {first}."
        )
        return LookFirst(subgroup=first, metric=metric, sentence=told)
    told = (
        f"Look first at {first} (its lowest AUC is {number}). {describe_harm(bias, harms, first)}"
    )
    others = sorted({*significant} - {first}, key=lambda name: lowest[name])
    if others:
        more = f" and {len(others) - _TOLD:,} more" if len(others) > _TOLD else ""
        told += f" Also significantly low: {', '.join(others[:_TOLD])}{more}."
    return LookFirst(subgroup=first, metric=metric, sentence=told)


def _interval(cell: MetricValue) -> str:
    low, high = cell.low, cell.high
    return "" if low is None or high is None else f" [95% CI {low:.3f} to {high:.3f}]"


def _defined(bias: BiasTable, group: str) -> Iterator[tuple[float, str]]:
    for metric in FINAL_SCORE_PARTS:
        value = bias[Key(metric, group)].value
        if value is not None and has_enough_rows(metric, bias.counts[group]):
            yield value, metric


@task(name="explain bias", task_run_name="explain {evidence.folder!m}")
def explain_bias(
    bias: BiasTable, threshold: float | None, evidence: EvidenceFile, set_folder: str
) -> Explained:
    """Find significantly low AUCs, count errors at thresholds and by term, measure calibration.

    Only reads, safe to retry.
    """
    found = explain_with_calibration(evidence, bias, threshold)
    terms = count_terms(evidence, EvaluationSet.load(Path(set_folder)), found.thresholds)
    return replace(found, terms=terms)


def explain_with_calibration(
    evidence: EvidenceFile, bias: BiasTable, threshold: float | None
) -> Explained:
    """Return everything of a report that follows from the rows of the evidence."""
    found = explain(evidence, bias, threshold)
    calibration, gaps = calibrate(evidence)
    numbers = {Key(CALIBRATION_GAP, name): gap for name, gap in gaps.items()}
    return replace(found, bias=found.bias.add_numbers(numbers), calibration=calibration)


# Each identity takes a pass over all rows; if there are more, only all rows are measured.
MOST = 64


def calibrate(evidence: EvidenceFile) -> tuple[Calibration, dict[str, MetricValue]]:
    """Measure the calibration of a candidate on a set, and the gap of each identity."""
    rows = evidence.measured
    checked = rows.checked(evidence.background)
    if len(rows.members) > MOST:
        checked = checked.replace_subgroups({})
    measured = calibration_report(checked, rows.y_score, confidence=CONFIDENCE)
    known = Calibration.from_dict(measured.to_dict() | {"sentence": ""})
    return replace(known, sentence=calibration_sentence(known, measured.gaps)), measured.gaps


def calibration_sentence(found: Calibration, gaps: Mapping[str, MetricValue]) -> str:
    """Say how far scores are from probabilities, and for which identity they are worst."""
    if found.reason is not None:
        return f"Calibration is not measured: {found.reason}."
    text = (
        "Read as probabilities, the scores differ from the share of toxic comments by "
        f"{found.overall.bias.value:+.3f} on average."
    )

    def enough(name: str) -> bool:
        one = found.subgroups[name]
        return min(one.n_positive, one.n - one.n_positive) >= LEAST_ROWS

    sizes = {
        name: abs(one.value) for name, one in gaps.items() if one.value is not None and enough(name)
    }
    if not sizes:
        return text
    worst = max(sizes, key=lambda name: sizes[name])
    gap = widen_selected(gaps[worst], len(gaps))
    bounds = "" if gap.low is None else f" [{gap.low:+.3f}, {gap.high:+.3f}]"
    apart = f"{gap.value:+.3f}{bounds}"
    return (
        f"{text} The largest gap to other comments, of identities with at least {LEAST_ROWS} "
        f"comments in each class, is {apart}, for {worst}."
    )
