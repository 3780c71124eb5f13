"""Third step, continued: whether scores are probabilities, overall and for each identity."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bias_metrics import MetricValue, Rows, calibration_report
from bias_metrics.gate import LEAST_ROWS
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.records import Calibration
from biasgate.tasks.records.numbers import CONFIDENCE

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
