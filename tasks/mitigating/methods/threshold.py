"""Method `threshold`: one threshold for everybody that spreads errors most evenly."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bias_metrics.mitigation import even_threshold
from biasgate.tasks.mitigating.methods.method import (
    Adjustment,
    MethodUndoneError,
    ScoreMethod,
    Tuning,
)


class Threshold(ScoreMethod):
    """The threshold with the smallest gap between identities among those that are good enough."""

    kind: Literal["threshold"]
    min_recall: Annotated[float, Field(ge=0, le=1)] = 0.5
    min_precision: Annotated[float, Field(ge=0, le=1)] = 0.5
    """What the threshold must reach on the comments that are like those of the training set."""
    min_rows: Annotated[int, Field(ge=1)] = 10
    """Identities with fewer toxic or fewer non-toxic tuning rows are left out."""

    def adjust(self, tuning: Tuning) -> Adjustment:
        """Choose the threshold."""
        y_true = tuning.y_true
        prior = float(tuning.general[0].mean())
        if self.min_precision <= prior:
            msg = (
                f"method {self.called}: `min_precision` must be above the share of toxic comments, "
                f"{prior:.2f}; got {self.min_precision:g}. Otherwise flagging everything, "
                "which has no gap, is allowed."
            )
            raise MethodUndoneError(msg)
        masks = {
            name: mask
            for name, mask in tuning.masks.items()
            if min((mask & y_true).sum(), (mask & ~y_true).sum()) >= self.min_rows
        }
        if not masks:
            msg = (
                f"method {self.called}: tuning rows must have {self.min_rows} toxic and non-toxic "
                "comments of an identity; none has. Name rows with more by `tune_on`."
            )
            raise MethodUndoneError(msg)
        found = even_threshold(
            y_true,
            tuning.y_score,
            masks,
            good_on=tuning.general,
            min_recall=self.min_recall,
            min_precision=self.min_precision,
        )
        if found.threshold is None:
            msg = f"method {self.called}: {found.reason}. Lower `min_recall` or `min_precision`."
            raise MethodUndoneError(msg)
        said = (
            f"Threshold {found.threshold:.4g}: the largest gap between the error rates of "
            f"{len(masks)} identities and of all is {found.gap:.3f} ({found.subgroup}) on tuning "
            "rows. It changes no score, so no AUC changes."
        )
        report = {"n_identities": len(masks), "found": dict(vars(found))}
        return Adjustment(found.threshold, report=report, sentences=(said,))
