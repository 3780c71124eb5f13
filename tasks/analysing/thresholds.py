"""A threshold that is carried over from one model to the next."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import FiniteFloat

from bias_metrics import transfer_threshold
from bias_metrics.families import widen_selected
from bias_metrics.thresholds import ThresholdTransfer
from biasgate.tasks.analysing.analysis import Analysis, Findings, MeasuredRows
from biasgate.tasks.common.settings import ConfigPath
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.plain_columns import suggest_id_form
from biasgate.tasks.data.scores import ScoreColumns
from biasgate.tasks.data.source import SourceSettings

_TOLD, _CHAMPION = 5, "champion"


class ThresholdTransferAnalysis(ScoreColumns, Analysis):
    """The candidate's threshold that flags as many comments as an earlier model did at its own."""

    kind: Literal["threshold_transfer"]
    path: ConfigPath | None = None
    """The earlier model's scores: CSV or JSON lines (gz too), or Parquet. Rows without one are left
    out. Default: the champion's scores."""
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
        known = self.read_scores(self.path, allow_missing=True)
        wanted = pd.Index(frozen.column("id").to_pandas())
        missing = wanted.difference(known.index, sort=False)
        if len(missing):
            self.refuse(
                frozen,
                f"the ids of {self.path.name}",
                f"{len(missing)} of its {frozen.n_rows} rows are not in that file"
                f"{suggest_id_form(missing, known.index).rstrip('.')}",
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
                found = "neither a champion nor a `path` is given"
                self.refuse(rows.frozen, "scores of an earlier model", found)
            return np.asarray(rows.evidence.scores(_CHAMPION), dtype=np.float64)
        ids = np.asarray(rows.frozen.column("id").to_pandas(), dtype=object)[rows.measured]
        scores = self.read_scores(self.path, allow_missing=True).reindex(ids)
        return np.asarray(scores.to_numpy(), dtype=np.float64)


def _sentences(found: ThresholdTransfer) -> tuple[str, ...]:
    what = "the flag rate" if found.match == "flag_rate" else "recall"
    overall = found.overall
    first = (
        f"At threshold {found.after:.4g}, {what} is {found.rate_after:.3f}, as before at "
        f"{found.before:.4g} ({found.rate_before:.3f}): {overall.n_gained:,} comments are newly "
        f"flagged, and {overall.n_lost:,} are no longer flagged."
    )
    changes = {
        name: widen_selected(one.change, len(found.subgroups))
        for name, one in found.subgroups.items()
    }
    more = sorted(
        (change.value, name)
        for name, change in changes.items()
        if change.value is not None and change.low is not None and change.low > 0
    )
    if not more:
        return (first, "No identity is flagged significantly more often than before.")
    told = [
        f"{name} {value:+.3f} [{changes[name].low:+.3f}, {changes[name].high:+.3f}]"
        for value, name in more[::-1][:_TOLD]
    ]
    others = f" and {len(more) - _TOLD} more" if len(more) > _TOLD else ""
    return (first, f"Flagged significantly more often than before: {', '.join(told)}{others}.")
