"""Methods that change how the scores of a trained model are used: `threshold` and `calibrate`."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field, field_validator

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
    """Recall that the threshold must reach on comments like those of the training set."""
    min_precision: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Precision that it must reach there. One that is not above the share of toxic comments does
    nothing: flagging everything has no gap."""
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


_ROUNDS = 100


class Calibrate(ScoreMethod):
    """Platt's calibration: a logistic regression of the labels on the log-odds of the scores.

    One function for all comments, so that nobody's identity is needed when a comment is scored. It
    keeps the order of all scores: no AUC changes, and only errors at a fixed threshold do.
    """

    kind: Literal["calibrate"]
    inputs: tuple[str, ...] = ("score",)
    """Must be `[score]`."""

    @field_validator("inputs")
    @classmethod
    def _no_identity(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if value != ("score",):
            msg = (
                "`inputs` must be [score]: with an identity as an input, the same words would be "
                "judged by other standards because of whom they mention, and no comment comes with "
                "its identities when it is scored"
            )
            raise ValueError(msg)
        return value

    def adjust(self, tuning: Tuning) -> Adjustment:
        """Fit slope and shift."""
        slope, shift = self._fitted(tuning)
        said = (
            f"Log-odds are multiplied by {slope:.3g} and moved by {shift:+.3g}, for all comments "
            "alike. The order of scores stays, so no AUC changes."
        )
        return Adjustment(None, slope, shift, {"slope": slope, "shift": shift}, (said,))

    def _fitted(self, tuning: Tuning) -> tuple[float, float]:
        labels, scores = tuning.general
        y = labels.astype(float)
        inside = np.clip(scores.astype(float), 1e-12, 1 - 1e-12)
        x = np.log(inside) - np.log1p(-inside)
        positive, negative = x[y > 0], x[y == 0]
        if not positive.size or not negative.size or positive.mean() <= negative.mean():
            msg = (
                f"method {self.called}: tuning rows must have both classes, and toxic ones must "
                "score higher on average; name other rows by `tune_on`."
            )
            raise MethodUndoneError(msg)
        # Platt's targets, with which separated classes have a finite slope, too.
        target = np.where(y > 0, (positive.size + 1) / (positive.size + 2), 1 / (negative.size + 2))
        design = np.stack([x - x.mean(), np.ones_like(x)])
        found = np.zeros(2)
        for _ in range(_ROUNDS):
            p = 1 / (1 + np.exp(-np.clip(found @ design, -500, 500)))
            curvature = (design * np.maximum(p * (1 - p), 1e-12)) @ design.T
            step = np.linalg.solve(curvature, design @ (target - p))
            found = found + step / max(float(np.abs(step).max()) / 2, 1.0)
            if np.abs(step).max() < 1e-10:
                break
        return float(found[0]), float(found[1] - found[0] * x.mean())
