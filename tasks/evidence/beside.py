"""Two candidates that were scored apart, compared on the same rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bias_metrics.parts import format_count
from biasgate.tasks.common.arrow_arrays import as_numpy
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.evidence.measure import Measuring
from biasgate.tasks.evidence.rows import CANDIDATE, Rows

RIVAL = "champion"


class NotSameRowsError(ValueError):
    """Two candidates that were not scored on the same rows."""


def beside(first: EvidenceFile, second: EvidenceFile) -> Measuring:
    """Return the first candidate's rows with the second's scores in the place of the champion's.

    Only the identities that both have count.

    Raises
    ------
    NotSameRowsError
        If rows, labels or identities differ, with how.
    """
    rows, others = first.measured, second.measured
    order = _order(_ids(first), _ids(second))
    if (rows.labels != others.labels[order]).any():
        n = int((rows.labels != others.labels[order]).sum())
        msg = f"{n:,} of {rows.labels.size:,} rows {'has' if n == 1 else 'have'} a different label"
        raise NotSameRowsError(msg)
    if first.background != second.background:
        msg = "they have different backgrounds"
        raise NotSameRowsError(msg)
    shared = [name for name in rows.members if name in others.members]
    differ = [x for x in shared if (rows.members[x] != others.members[x][order]).any()]
    if not shared or differ:
        msg = f"identity {differ[0]} has different rows" if differ else "they share no identity"
        raise NotSameRowsError(msg)
    groups = first.record.power_mean_groups
    return Measuring(
        rows=_with_scores(rows, others.scores[CANDIDATE][order], shared),
        power_mean_groups=None
        if groups is None
        else [group for group in groups if group in shared],
        background=first.background,
        is_sample=first.record.choices.population != "these_rows",
        thresholds={},
        span=lambda *_: None,
    )


def _with_scores(rows: Rows, scores: npt.NDArray[np.floating], shared: list[str]) -> Rows:
    both = {CANDIDATE: rows.scores[CANDIDATE], RIVAL: scores}
    return replace(rows.among(shared), scores=both)


def _ids(evidence: EvidenceFile) -> npt.NDArray[np.str_]:
    return as_numpy(evidence.ids()).astype(np.str_)


def _order(first: npt.NDArray[np.str_], second: npt.NDArray[np.str_]) -> npt.NDArray[np.intp]:
    """Return where the second has each id of the first."""
    if first.size == second.size and (first == second).all():
        return np.arange(first.size)
    n_shared = np.intersect1d(first, second).size
    if n_shared != first.size or n_shared != second.size:
        shared = format_count(n_shared, "row is", "rows are")
        msg = f"{shared} in both, of {first.size:,} and {second.size:,}"
        raise NotSameRowsError(msg)
    sorted_second = np.argsort(second, kind="stable")
    found: npt.NDArray[np.intp] = sorted_second[np.searchsorted(second[sorted_second], first)]
    return found
