"""Transfer of a decision threshold from an earlier model to the candidate."""

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

_MAX_NAMES = 5
_CHAMPION = "champion"


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
        """True without a file of scores."""
        return self.path is None

    def check(self, frozen: EvaluationSet, source: SourceSettings) -> None:
        """Refuse a file that lacks a column, or rows of the set."""
        del source
        if self.path is None:
            return
        scores = self.read_scores(self.path, allow_missing=True)
        ids = pd.Index(frozen.column("id").to_pandas())
        missing = ids.difference(scores.index, sort=False)
        if len(missing):
            self.refuse(
                frozen,
                f"the ids of {self.path.name}",
                f"{len(missing)} of its {frozen.n_rows} rows are not in that file"
                f"{suggest_id_form(missing, scores.index).rstrip('.')}",
            )

    def analyse(self, rows: MeasuredRows) -> Findings:
        """Compare the flags on the measured rows for which both models have a score."""
        earlier = self._read_earlier(rows)
        is_scored = ~np.isnan(earlier)
        transfer = transfer_threshold(
            earlier[is_scored],
            rows.y_score[is_scored],
            {name: rows.masks[name][is_scored] for name in rows.groups},
            threshold=self.threshold,
            match=self.match,
            y_true=rows.y_true[is_scored],
            clusters=None if rows.clusters is None else rows.clusters[is_scored],
        )
        return Findings(transfer.to_dict(), _describe_transfer(transfer), transfer.rows())

    def _read_earlier(self, rows: MeasuredRows) -> npt.NDArray[np.float64]:
        """Return the earlier model's scores of the measured rows; NaN for missing scores."""
        if self.path is None:
            if _CHAMPION not in rows.evidence.roles:
                reason = "neither a champion nor a `path` is given"
                self.refuse(rows.frozen, "scores of an earlier model", reason)
            return np.asarray(rows.evidence.scores(_CHAMPION), dtype=np.float64)
        ids = np.asarray(rows.frozen.column("id").to_pandas(), dtype=object)[rows.row_numbers]
        scores = self.read_scores(self.path, allow_missing=True).reindex(ids)
        return np.asarray(scores.to_numpy(), dtype=np.float64)


def _describe_transfer(transfer: ThresholdTransfer) -> tuple[str, ...]:
    rate = "the flag rate" if transfer.match == "flag_rate" else "recall"
    overall = transfer.overall
    first = (
        f"At threshold {transfer.after:.4g}, {rate} is {transfer.rate_after:.3f}, as before at "
        f"{transfer.before:.4g} ({transfer.rate_before:.3f}): {overall.n_gained:,} comments are "
        f"newly flagged, and {overall.n_lost:,} are no longer flagged."
    )
    changes = {
        name: widen_selected(flags.change, len(transfer.subgroups))
        for name, flags in transfer.subgroups.items()
    }
    increased = sorted(
        (change.value, name)
        for name, change in changes.items()
        if change.value is not None and change.low is not None and change.low > 0
    )
    if not increased:
        return (first, "No identity is flagged significantly more often than before.")
    listed = [
        f"{name} {value:+.3f} [{changes[name].low:+.3f}, {changes[name].high:+.3f}]"
        for value, name in increased[::-1][:_MAX_NAMES]
    ]
    others = f" and {len(increased) - _MAX_NAMES} more" if len(increased) > _MAX_NAMES else ""
    return (first, f"Flagged significantly more often than before: {', '.join(listed)}{others}.")
