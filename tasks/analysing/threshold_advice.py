"""The threshold with the smallest gap between identities that is still accurate enough."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from bias_metrics import OperatingPoint, advise_threshold
from bias_metrics.parts import PackedMasks
from biasgate.tasks.analysing.analysis import Analysis, Findings, MeasuredRows
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.source import SourceSettings

Rate = Literal["false_positive_rate", "false_negative_rate", "recall", "accuracy"]
Share = Annotated[float, Field(ge=0, le=1)]
SHOWN = 50  # points of the frontier that the report has


class ThresholdAdviceAnalysis(Analysis):
    """The threshold of the smallest gap between identities with enough recall and precision."""

    kind: Literal["threshold_advice"]
    min_recall: Share
    """Recall that the threshold must reach over all comments. There is no default: without it and
    `min_precision`, one that flags everything, or nothing, has the smallest gap."""
    min_precision: Share
    """Precision that it must reach over all comments."""
    rates: Annotated[tuple[Rate, ...], Field(min_length=1)] = (
        "false_positive_rate",
        "false_negative_rate",
    )
    """Error rates that are compared between identities."""

    @model_validator(mode="before")
    @classmethod
    def _both_given(cls, value: Any) -> Any:
        needed = ("min_recall", "min_precision")
        missing = [name for name in needed if isinstance(value, dict) and name not in value]
        if missing:
            msg = (
                f"`{missing[0]}` must be given, since a threshold that flags everything, or "
                "nothing, has the smallest gap; as in {kind: threshold_advice, min_recall: 0.6, "
                "min_precision: 0.5}"
            )
            raise ValueError(msg)
        return value

    def check(self, frozen: EvaluationSet, source: SourceSettings) -> None:
        """Refuse a set without identities."""
        if not source.measured_identities(frozen.identities):
            self.refuse(frozen, "identities to compare", "it has none")

    def analyse(self, rows: MeasuredRows) -> Findings:
        """Try every score as a threshold, for the identities of the power means."""
        found = advise_threshold(
            rows.y_true,
            rows.y_score,
            PackedMasks.of(((name, rows.masks[name]) for name in rows.groups), rows.y_true.size),
            min_recall=self.min_recall,
            min_precision=self.min_precision,
            rates=self.rates,
        )
        known = found.to_dict()
        n_points = len(found.frontier)
        at = np.unique(np.linspace(0, n_points - 1, SHOWN).round().astype(int)) if n_points else ()
        result = known | {
            "n_frontier": n_points,
            "frontier": [known["frontier"][i] for i in at],
        }
        asked = f"recall {self.min_recall:g} and precision {self.min_precision:g}"
        if found.advised is None:
            told = f"No threshold is advised: {found.reason}."
        else:
            told = f"Of the thresholds with at least {asked}, {_words(found.advised)}"
            if found.advised.threshold <= rows.y_score.min():
                told += (
                    " It flags every comment: ask for a `min_precision` above "
                    f"{rows.y_true.mean():.3f}, the share of toxic comments."
                )
        return Findings(result, (told,), found.rows())


def _words(point: OperatingPoint) -> str:
    rate = point.rate.replace("_", " ")
    return (
        f"{point.threshold:.4g} has the smallest gap between an identity and all comments: "
        f"{point.gap:.3f} ({rate} of {point.subgroup}), at recall {point.recall:.3f} and "
        f"precision {point.precision:.3f}. On other comments the gap is usually larger."
    )
