"""Comparison of two candidates that were scored in separate runs, on the same rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bias_metrics.parts import format_count
from biasgate.tasks.common.arrow_arrays import convert_column
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.evidence.measure import RowMeasurer
from biasgate.tasks.evidence.rows import CANDIDATE

RIVAL = "champion"


class NotSameRowsError(ValueError):
    """Error for two candidates that were not scored on the same rows."""


def pair_candidates(first: EvidenceFile, second: EvidenceFile) -> RowMeasurer:
    """Return the rows of the first candidate, with the second candidate as the champion.

    Only the identities of both candidates are measured.

    Raises
    ------
    NotSameRowsError
        If rows, labels or identities differ.
    """
    rows, other_rows = first.rows, second.rows
    order = _match_ids(
        *(convert_column(evidence.ids()).astype(np.str_) for evidence in (first, second))
    )
    n_different = int((rows.labels != other_rows.labels[order]).sum())
    if n_different:
        have = "has" if n_different == 1 else "have"
        msg = f"{n_different:,} of {rows.labels.size:,} rows {have} a different label"
        raise NotSameRowsError(msg)
    if first.background != second.background:
        msg = "they have different backgrounds"
        raise NotSameRowsError(msg)
    shared = [name for name in rows.members if name in other_rows.members]
    differing = [x for x in shared if (rows.members[x] != other_rows.members[x][order]).any()]
    if not shared or differing:
        msg = (
            f"identity {differing[0]} has different rows" if differing else "they share no identity"
        )
        raise NotSameRowsError(msg)
    groups = first.record.power_mean_groups
    scores = {CANDIDATE: rows.scores[CANDIDATE], RIVAL: other_rows.scores[CANDIDATE][order]}
    return RowMeasurer(
        rows=replace(rows.select_identities(shared), scores=scores),
        power_mean_groups=None
        if groups is None
        else [group for group in groups if group in shared],
        background=first.background,
        is_sample=first.record.choices.population != "these_rows",
        thresholds={},
        span=lambda *_: None,
    )


def _match_ids(first: npt.NDArray[np.str_], second: npt.NDArray[np.str_]) -> npt.NDArray[np.intp]:
    """Return the positions in `second` of the ids in `first`."""
    if first.size == second.size and (first == second).all():
        return np.arange(first.size)
    n_shared = np.intersect1d(first, second).size
    if n_shared != first.size or n_shared != second.size:
        shared = format_count(n_shared, "row is", "rows are")
        msg = f"{shared} in both, of {first.size:,} and {second.size:,}"
        raise NotSameRowsError(msg)
    sorted_second = np.argsort(second, kind="stable")
    positions: npt.NDArray[np.intp] = sorted_second[np.searchsorted(second[sorted_second], first)]
    return positions
