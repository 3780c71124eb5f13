"""Errors by term, for identities that are found by `terms`.

The evidence does not say which terms are in a comment: the frozen set does, since it has the text.
So these numbers are in the report, and no verdict depends on them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bias_metrics import Rows
from bias_metrics.metrics import EQUAL_ERRORS, GIVEN
from bias_metrics.thresholds import ErrorsByTerm, errors_by_term
from biasgate.tasks.common.arrow_arrays import as_numpy
from biasgate.tasks.data.evaluation_set import TERMS, EvaluationSet
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.evidence.join import places
from biasgate.tasks.records import AtThreshold
from biasgate.tasks.records.numbers import CONFIDENCE


def count_terms(
    evidence: EvidenceFile, frozen: EvaluationSet, thresholds: Mapping[str, AtThreshold]
) -> ErrorsByTerm | None:
    """Count the errors by term at the threshold in use, else at that of equal errors.

    None if no identity is found by terms, or there are no thresholds.
    """
    if TERMS not in frozen.columns or not thresholds:
        return None
    measured = places(evidence.ids(), frozen.column("id"))
    of_rows = frozen.column(TERMS).take(pa.array(measured)).combine_chunks()
    codes, rows = as_numpy(of_rows.flatten()), as_numpy(pc.list_parent_indices(of_rows))
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(frozen.terms) + 1))
    known = evidence.measured
    return errors_by_term(
        Rows(known.labels, {}, clusters=known.clusters),
        known.y_score,
        {
            (name, term): rows[order[ends[code] : ends[code + 1]]]
            for code, (term, names) in enumerate(frozen.terms)
            for name in names
            if name in known.members
        },
        threshold=thresholds.get(GIVEN, thresholds[EQUAL_ERRORS]).threshold,
        confidence=CONFIDENCE,
        intervals=evidence.is_sample,
    )
