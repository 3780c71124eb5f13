"""Errors by term, for identities that are found by `terms`.

The evidence does not record the terms of a comment; the frozen set does, because it has the texts.
So these numbers are in the report only, and verdicts do not depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bias_metrics import Rows
from bias_metrics.metrics import EQUAL_ERRORS, GIVEN
from bias_metrics.thresholds import ErrorsByTerm, errors_by_term
from biasgate.tasks.common.arrow_arrays import convert_column
from biasgate.tasks.data.evaluation_set import TERMS, EvaluationSet
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.evidence.join import find_positions
from biasgate.tasks.records import AtThreshold
from biasgate.tasks.records.numbers import CONFIDENCE


def count_terms(
    evidence: EvidenceFile, frozen: EvaluationSet, thresholds: Mapping[str, AtThreshold]
) -> ErrorsByTerm | None:
    """Count the errors by term at the threshold in use, or else at that of equal errors.

    Returns None if no identity is found by terms, or there are no thresholds.
    """
    if TERMS not in frozen.columns or not thresholds:
        return None
    positions = find_positions(evidence.ids(), frozen.column("id"))
    terms = frozen.column(TERMS).take(pa.array(positions)).combine_chunks()
    codes, row_numbers = (
        convert_column(terms.flatten()),
        convert_column(pc.list_parent_indices(terms)),
    )
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(frozen.terms) + 1))
    rows = evidence.rows
    return errors_by_term(
        Rows(rows.labels, {}, clusters=rows.clusters),
        rows.y_score,
        {
            (name, term): row_numbers[order[ends[code] : ends[code + 1]]]
            for code, (term, names) in enumerate(frozen.terms)
            for name in names
            if name in rows.members
        },
        threshold=thresholds.get(GIVEN, thresholds[EQUAL_ERRORS]).threshold,
        confidence=CONFIDENCE,
        intervals=evidence.is_sample,
    )
