"""Thresholds: the one with the smallest gap between identities, and one that is carried over."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import Field, FiniteFloat, model_validator

from bias_metrics import OperatingPoint, ThresholdTransfer, advise_threshold, transfer_threshold
from bias_metrics.parts import PackedMasks
from biasgate.tasks.analysing.analysis import Analysis, Findings, MeasuredRows
from biasgate.tasks.common.settings import ConfigPath
from biasgate.tasks.data.chunks import Separator
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.scores import read_scores
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


_TOLD, _CHAMPION = 5, "champion"


class ThresholdTransferAnalysis(Analysis):
    """The candidate's threshold that flags as many comments as an earlier model did at its own."""

    kind: Literal["threshold_transfer"]
    path: ConfigPath | None = None
    """The earlier model's scores: CSV or JSON lines (gz too), or Parquet. Default: the
    champion's."""
    separator: Separator | None = None
    """Of a CSV file. Default: a tab for `.tsv`, else a comma."""
    id: str = "id"
    """Column of its ids."""
    score: str = "prediction"
    """Column of its scores. Rows without one are left out."""
    threshold: FiniteFloat
    """The earlier model's threshold."""
    match: Literal["flag_rate", "recall"] = "flag_rate"
    """What stays as it was: the share of all comments that is flagged, or of the toxic ones."""

    @property
    def needs_champion(self) -> bool:
        """Whether there is no file."""
        return self.path is None

    def check(self, frozen: EvaluationSet, source: SourceSettings) -> None:
        """Refuse a file that lacks a column, or rows of the set."""
        del source
        if self.path is None:
            return
        known = self._scores(self.path)
        wanted = pd.Index(frozen.column("id").to_pandas())
        missing = wanted.difference(known.index, sort=False)
        if len(missing):
            self.refuse(
                frozen,
                f"the ids of {self.path.name}",
                f"{len(missing)} of its {frozen.n_rows} rows are not in that file",
            )

    def analyse(self, rows: MeasuredRows) -> Findings:
        """Compare the flags on the measured rows for which both models have a score."""
        before = self._before(rows)
        both = ~np.isnan(before)
        found = transfer_threshold(
            before[both],
            rows.y_score[both],
            {name: rows.masks[name][both] for name in rows.groups},
            threshold=self.threshold,
            match=self.match,
            y_true=rows.y_true[both],
            clusters=None if rows.clusters is None else rows.clusters[both],
        )
        return Findings(found.to_dict(), _sentences(found), found.rows())

    def _before(self, rows: MeasuredRows) -> npt.NDArray[np.float64]:
        """Return the earlier model's scores of the measured rows; NaN where it has none."""
        if self.path is None:
            if _CHAMPION not in rows.evidence.roles:
                found = "there is no champion, and no `path`"
                self.refuse(rows.frozen, "scores of an earlier model", found)
            return np.asarray(rows.evidence.measured_scores(_CHAMPION), dtype=np.float64)
        ids = np.asarray(rows.frozen.column("id").to_pandas(), dtype=object)[rows.measured]
        return np.asarray(self._scores(self.path).reindex(ids).to_numpy(), dtype=np.float64)

    def _scores(self, path: Path) -> pd.Series[float]:
        return read_scores(path, self.id, self.score, separator=self.separator, allow_missing=True)


def _sentences(found: ThresholdTransfer) -> tuple[str, ...]:
    what = "the flag rate" if found.match == "flag_rate" else "recall"
    overall = found.overall
    first = (
        f"At {found.after:.4g}, {what} is {found.rate_after:.3f}, as before at "
        f"{found.before:.4g} ({found.rate_before:.3f}): {overall.n_gained:,} comments are flagged "
        f"that were not, and {overall.n_lost:,} no longer are."
    )
    more = [
        (one.change.value, name, one)
        for name, one in found.subgroups.items()
        if one.change.value is not None and one.change.low is not None and one.change.low > 0
    ]
    if not more:
        return (first, "No identity is shown to be flagged more often than before.")
    told = [
        f"{name} {value:+.3f} [{one.change.low:+.3f}, {one.change.high:+.3f}]"
        for value, name, one in sorted(more, key=lambda each: -each[0])[:_TOLD]
    ]
    others = f" and {len(more) - _TOLD} more" if len(more) > _TOLD else ""
    return (first, f"Flagged more often than before: {', '.join(told)}{others}.")
