"""How far each identity moves the score, in texts that differ only in the identity."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Literal

import numpy as np
import numpy.typing as npt

from bias_metrics import CounterfactualGaps, counterfactual_gaps
from biasgate.tasks.analysing.analysis import Analysis, Findings, MeasuredRows
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.data.terms import TermMatcher

Codes = npt.NDArray[np.intp]
NONE = -1
_ROWS_A_STEP = 100_000


class CounterfactualAnalysis(Analysis):
    """The score of an identity's term minus that of other terms in the same sentence.

    A set needs `terms`, and texts that differ only in the term, such as the phrases of
    `source: templates`.
    """

    kind: Literal["counterfactual"]

    def check(self, frozen: EvaluationSet, source: SourceSettings) -> None:
        """Refuse a set without terms, or without two texts that differ only in the term."""
        matcher = source.matcher()
        if matcher is None or not frozen.has_text:
            self.refuse(frozen, "`terms` to compare texts by", "it has none")
        sentence, term = find_sentences(frozen, matcher)
        if not _with_several_terms(sentence, term).size:
            rule = "texts that differ only in an identity's term"
            self.refuse(frozen, rule, f"no two of its {frozen.n_rows:,} texts do")

    def analyse(self, rows: MeasuredRows) -> Findings:
        """Compare the terms in every sentence."""
        matcher = rows.source.matcher()
        if matcher is None:
            self.refuse(rows.frozen, "`terms`", "it has none")
        sentence, term = (one[rows.measured] for one in find_sentences(rows.frozen, matcher))
        found = compare_terms(sentence, term, rows.y_score, matcher.identities)
        return Findings(found.to_dict(), (_sentence(found),), found.rows())


def find_sentences(frozen: EvaluationSet, matcher: TermMatcher) -> tuple[Codes, Codes]:
    """Return the sentence of each row, and the identity of its term.

    Returns
    -------
    tuple of int arrays of shape (n,)
        Over all rows of the set: the number of the sentence, and the index of the identity in
        `matcher.identities`; -1 for rows without a term, or with terms of several identities.
    """
    sentence = np.full(frozen.n_rows, NONE, dtype=np.intp)
    term = np.full(frozen.n_rows, NONE, dtype=np.intp)
    seen: dict[bytes, int] = {}  # only a digest of each sentence is kept
    for row, found in enumerate(_each(frozen, matcher)):
        if found is not None:
            term[row], around = found
            key = blake2b(around.encode(), digest_size=16).digest()
            sentence[row] = seen.setdefault(key, len(seen))
    return sentence, term


def _each(frozen: EvaluationSet, matcher: TermMatcher) -> Iterator[tuple[int, str] | None]:
    for batch in frozen.batches(["text"], _ROWS_A_STEP):
        yield from matcher.around(batch.column(0).to_pylist())


def compare_terms(
    sentence: Codes, term: Codes, y_score: npt.NDArray[np.floating], names: list[str]
) -> CounterfactualGaps:
    """Compare the terms of each sentence; the scores of a repeated term are averaged."""
    found = sentence != NONE
    pairs = np.stack([sentence[found], term[found]])
    (sentences, terms), at, counts = np.unique(
        pairs, axis=1, return_inverse=True, return_counts=True
    )
    scores = np.bincount(at.ravel(), y_score[found], minlength=counts.size) / counts
    return counterfactual_gaps(sentences, np.array(names)[terms], scores)


def _with_several_terms(sentence: Codes, term: Codes) -> Codes:
    pairs = np.unique(np.stack([sentence, term])[:, sentence != NONE], axis=1)
    sentences, n_terms = np.unique(pairs[0], return_counts=True)
    return sentences[n_terms > 1]


def _sentence(found: CounterfactualGaps) -> str:
    gaps = {name: gap for name, gap in found.terms.items() if gap.n}
    if not gaps:
        return "No two of the measured comments differ only in the identity."
    name, gap = max(gaps.items(), key=lambda one: abs(float(one[1].mean_gap)))
    error = gap.std_error.value
    spread = "" if error is None else f" (standard error {error:.3f})"
    return (
        f"In {found.n_sentences:,} sentences that differ only in the identity, {name} moves the "
        f"score most: by {float(gap.mean_gap):+.3f}{spread} on average, compared with the other "
        f"identities. It scores highest in {float(gap.share_highest):.1%} of its "
        f"{gap.n:,} sentences."
    )
