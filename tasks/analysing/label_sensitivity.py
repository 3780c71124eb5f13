"""How far the metrics depend on the definition of toxic."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, JsonValue, model_validator

from bias_metrics import BiasReport, LabelSensitivity, label_sensitivity, worst_subgroup
from bias_metrics.metrics import AUCS, SUBGROUP_METRICS
from biasgate.tasks.analysing.analysis import Analysis, Findings, MeasuredRows
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.source import SourceSettings, Threshold

Share = Annotated[float, Field(gt=0, lt=1)]


class LabelSensitivityAnalysis(Analysis):
    """The metrics at several label thresholds, and where raters agree or are divided."""

    kind: Literal["label_sensitivity"]
    thresholds: Annotated[tuple[Threshold, ...], Field(min_length=2)] = (0.3, 0.4, 0.5, 0.6, 0.7)
    """A comment is toxic if its label is at least this."""
    contested: tuple[Share, Share] = (0.3, 0.7)
    """Smallest and largest label at which raters count as divided. The metrics are also computed on
    these rows alone, on all others, and on rows with label 0 or 1; there, 0.5 and more is toxic."""

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        if len(set(self.thresholds)) < len(self.thresholds):
            msg = f"`thresholds` must differ; got {list(self.thresholds)}"
            raise ValueError(msg)
        if self.contested[0] > self.contested[1]:
            msg = f"`contested` must give the smaller number first; got {list(self.contested)}"
            raise ValueError(msg)
        return self

    def check(self, frozen: EvaluationSet, source: SourceSettings) -> None:
        """Refuse a set whose labels are all 0 or 1, since no threshold changes these."""
        del source
        labels = frozen.column("label").to_numpy()
        if np.isin(labels, (0, 1)).all():
            self.refuse(
                frozen, "labels that are fractions of raters", "all of its labels are 0 or 1"
            )

    def analyse(self, rows: MeasuredRows) -> Findings:
        """Measure the same rows at every threshold, and the parts where raters agree or not."""
        found = label_sensitivity(
            rows.column("label"),
            rows.y_score,
            rows.masks,
            thresholds=self.thresholds,
            contested=self.contested,
            background=rows.background,
        )
        result = {
            "by_threshold": {f"{at:g}": _brief(one) for at, one in found.by_threshold.items()},
            "contested": _brief(found.contested),
            "agreed": _brief(found.agreed),
            "unanimous": _brief(found.unanimous),
            "spread": {
                name: {metric: found.spread(name, metric).to_dict() for metric in SUBGROUP_METRICS}
                for name in rows.masks
            },
        }
        return Findings(result, tuple(_sentences(found)), found.rows())


def _brief(report: BiasReport) -> dict[str, JsonValue]:
    """Return the overall numbers, and the worst identity by each metric."""
    known = report.to_dict()
    worst = {}
    for metric in SUBGROUP_METRICS:
        one = worst_subgroup(known, metric).to_dict()
        keys = ("subgroup", "value") if one["value"] is not None else ("value", "reason")
        worst[metric] = {key: one[key] for key in keys}
    return {key: known[key] for key in ("overall", "power_mean", "final_score")} | {"worst": worst}


def _sentences(found: LabelSensitivity) -> list[str]:
    """Return the overall AUC and the worst AUC at the lowest and at the highest threshold."""
    thresholds = sorted(found.by_threshold)
    lowest, highest = (found.by_threshold[at] for at in (thresholds[0], thresholds[-1]))
    told = (
        f"With the label threshold at {thresholds[0]:g} and at {thresholds[-1]:g}: overall AUC "
        f"{_number(lowest.overall.auc.value)} and {_number(highest.overall.auc.value)}; worst "
        f"AUC of an identity {_worst(lowest)} and {_worst(highest)}."
    )
    spreads = {
        (name, metric): spread.value
        for name in found.contested.subgroups
        for metric in SUBGROUP_METRICS
        if (spread := found.spread(name, metric)).value is not None
    }
    if not spreads:
        return [told]
    name, metric = max(spreads, key=lambda one: spreads[one])
    most = f"Over all thresholds, {metric} of {name} moves most: by {spreads[name, metric]:.3f}."
    return [told, most]


def _worst(report: BiasReport) -> str:
    known = [one for metric in AUCS if (one := report.worst[metric]).value.value is not None]
    if not known:
        return "undefined"
    worst = min(known, key=lambda one: float(one.value))
    return f"{float(worst.value):.3f} ({worst.metric} of {worst.subgroup})"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"
