"""Rows of the evidence for which the candidate has no score."""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bias_metrics import MissingScores, missing_scores
from bias_metrics.parts import PackedMasks
from bias_metrics.rows import Background
from biasgate.tasks.common.arrow_arrays import as_numpy
from biasgate.tasks.data.evaluation_set import IDENTITY


def scored_rows(scores: pa.ChunkedArray) -> npt.NDArray[np.bool_] | None:
    """Return which rows have a score; None if all have one."""
    missing = np.isnan(as_numpy(scores))
    return ~missing if missing.any() else None


def count_missing_rows(
    rows: pa.Table, column: str, confidence: float, background: str
) -> MissingScores:
    """Count the rows without a score.

    Parameters
    ----------
    confidence : float
        Of each interval.
    background : str
        What identities are compared with.
    """
    names = [one for one in rows.column_names if one.startswith(IDENTITY)]
    masks = ((one.removeprefix(IDENTITY), as_numpy(rows[one])) for one in names)
    return missing_scores(
        np.isnan(as_numpy(rows[column])),
        PackedMasks.of(masks, rows.num_rows),
        confidence=confidence,
        clusters=as_numpy(rows["cluster"]) if "cluster" in rows.column_names else None,
        background=cast("Background", background),
    )
