"""The same sentence with another identity: how much does the score change?

Gaps are differences of scores, on the scale of the scores: unlike AUCs they change when
the scores are transformed, and two models can be compared only if their scores mean the same.
The analysis `counterfactual` reports `counterfactual_gaps`; `paired_gaps` is for Python users.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import FloatArray, aligned, check_scores
from bias_metrics._core.tables import Row, Tabular, labelled, rows_of
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.groups.counts import as_dicts

MAX_SCORE = 1e100  # so that no sum and no square of differences overflows


@aligned
def counterfactual_gaps(
    sentence: npt.ArrayLike, term: npt.ArrayLike, y_score: npt.ArrayLike
) -> CounterfactualGaps:
    """How much higher a sentence scores with one identity term than with the others.

    A term's gap in a sentence is its score minus the mean score of the other terms there.
    All terms share the sentence and its label, so any gap is caused by the term itself.
    Positive: the identity raises the score, and harmless comments that name it are
    over-flagged. Negative: it lowers the score, and toxic comments that name it are missed.
    Not to be confused with the AEGs, which compare different comments by rank.

    Parameters
    ----------
    sentence : int or str array of shape (n,)
        The frame that a row fills, such as `You are a <term> person.`
    term : str array of shape (n,)
        The identity term in it; at most once in each sentence.
    y_score : float array of shape (n,)
        Scores between -1e100 and 1e100.

    Returns
    -------
    CounterfactualGaps
        For every term the mean gap and its mean size, on the scale of the scores, ideal 0;
        the share of sentences where it scores highest; and a standard error that takes
        sentences as independent, which is too small if they were made from few
        templates. Undefined for a term that never occurs with another.

    Raises
    ------
    ValueError
        If a length differs, a score is not finite or too large, or a sentence has a term
        twice.
    TypeError
        If `sentence` is neither whole numbers nor strings, `term` is not strings or
        `y_score` not numbers.

    References
    ----------
    Garg et al. (2019), Counterfactual Fairness in Text Classification through Robustness,
    section 3 (the gap of two terms); Dixon et al. (2018), section 4 (phrase templates).

    Examples
    --------
    >>> gaps = counterfactual_gaps(
    ...     [1, 1, 1, 2, 2], ["gay", "old", "tall", "gay", "old"], [0.75, 0.5, 0.25, 0.5, 0.25]
    ... )
    >>> gaps.terms["gay"].mean_gap.value  # the mean of .75 - .375 and .5 - .25
    0.3125
    >>> gaps.terms["gay"].share_highest.value
    1.0
    """
    scores = _checked_scores("y_score", y_score)
    sentences, sentence_of = np.unique(
        _checked_ids("sentence", sentence, "iuU", scores.size), return_inverse=True
    )
    terms, term_of = np.unique(_checked_ids("term", term, "U", scores.size), return_inverse=True)
    _refuse_repeated(sentence_of, term_of, sentences, terms)
    n_terms = np.bincount(sentence_of, minlength=sentences.size)
    highest = np.full(sentences.size, -np.inf)
    np.maximum.at(highest, sentence_of, scores)
    below = scores - highest[sentence_of]  # equal scores are 0 apart, without rounding
    n_highest = np.bincount(sentence_of[below == 0], minlength=sentences.size)
    compared = n_terms[sentence_of] > 1
    sums = np.bincount(sentence_of, below, minlength=sentences.size)
    others = (sums[sentence_of] - below)[compared] / (n_terms[sentence_of][compared] - 1)
    gaps = below[compared] - others
    wins = (below == 0)[compared] / n_highest[sentence_of][compared]
    return CounterfactualGaps(
        n_sentences=int(np.count_nonzero(n_terms > 1)),
        n_alone=int(np.count_nonzero(n_terms == 1)),
        terms={
            str(name): _term_gap(gaps[term_of[compared] == i], wins[term_of[compared] == i])
            for i, name in enumerate(terms)
        },
    )


@aligned
def paired_gaps(original: npt.ArrayLike, swapped: npt.ArrayLike) -> PairedGaps:
    """How much scores change when the identity in each text is swapped for another.

    Positive: the swapped versions score higher. If the new identity is drawn at random,
    changes up and down partly cancel: read the mean size of the gaps, and measure toxic and
    harmless texts separately. In toxic texts a negative gap means that the score came from the
    original identity rather than from what is said about it.

    Parameters
    ----------
    original : float array of shape (n,)
        Scores of the texts as they were, between -1e100 and 1e100.
    swapped : float array of shape (n,)
        Scores of the same texts, in the same order, with the identity swapped.

    Returns
    -------
    PairedGaps
        Counts of the changes; mean gap and mean size of the gaps, on the scale of the scores,
        ideal 0, undefined without pairs; standard error over pairs.

    Raises
    ------
    ValueError
        If the lengths differ, or a score is not finite or too large.
    TypeError
        If the scores are not numbers.

    References
    ----------
    Garg et al. (2019), section 3.

    Examples
    --------
    >>> gaps = paired_gaps(original=[0.5, 0.25, 0.75], swapped=[0.75, 0.25, 0.5])
    >>> gaps.mean_gap.value, gaps.n_higher, gaps.n_lower, gaps.n_equal
    (0.0, 1, 1, 1)
    """
    before = _checked_scores("original", original)
    after = _checked_scores("swapped", swapped, before.size, like="original")
    gaps = after - before
    n_higher, n_lower, n_equal = (np.count_nonzero(m) for m in (gaps > 0, gaps < 0, gaps == 0))
    return PairedGaps(int(n_higher), int(n_lower), int(n_equal), *_summary(gaps, "pairs"))


def _term_gap(gaps: FloatArray, wins: FloatArray) -> CounterfactualGap:
    unit = "sentences to compare"
    share = MetricValue(float(wins.mean())) if wins.size else undefined(f"no {unit}")
    return CounterfactualGap(gaps.size, *_summary(gaps, unit), share)


def _summary(gaps: FloatArray, unit: str) -> tuple[MetricValue, MetricValue, MetricValue]:
    """Mean, its standard error, and mean size."""
    if gaps.size == 0:
        none = undefined(f"no {unit}")
        return none, none, none
    error = undefined(f"fewer than 2 {unit}")
    if gaps.size > 1:
        error = MetricValue(float(gaps.std(ddof=1)) / math.sqrt(gaps.size))
    return MetricValue(float(gaps.mean())), error, MetricValue(float(np.abs(gaps).mean()))


def _checked_scores(
    name: str, values: npt.ArrayLike, n: int | None = None, *, like: str = "y_true"
) -> FloatArray:
    scores = check_scores(name, values, n, like=like).astype(np.float64)
    wrong = np.flatnonzero(np.abs(scores) > MAX_SCORE)
    if wrong.size:
        row = wrong[0]
        msg = f"`{name}` must be within {MAX_SCORE:g} of 0; got {scores[row]:g} (row {row})."
        raise ValueError(msg)
    return scores


def _checked_ids(name: str, values: npt.ArrayLike, kinds: str, n: int) -> npt.NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1 or array.size != n:
        msg = f"`{name}` must have shape ({n},) like `y_score`; got shape {array.shape}."
        raise ValueError(msg)
    if array.dtype.kind == "O" and all(isinstance(value, str) for value in array):
        array = array.astype(np.str_)
    if array.size and array.dtype.kind not in kinds:
        allowed = "strings" if kinds == "U" else "whole numbers or strings"
        msg = f"`{name}` must be {allowed}; got dtype {array.dtype}."
        raise TypeError(msg)
    return array


def _refuse_repeated(
    sentence_of: npt.NDArray[np.intp],
    term_of: npt.NDArray[np.intp],
    sentences: npt.NDArray[Any],
    terms: npt.NDArray[Any],
) -> None:
    place = sentence_of * terms.size + term_of
    _, first = np.unique(place, return_index=True)
    if first.size < place.size:
        row = np.setdiff1d(np.arange(place.size), first)[0]
        msg = (
            "`term` must occur at most once in each sentence; got "
            f"{str(terms[term_of[row]])!r} again in sentence "
            f"{str(sentences[sentence_of[row]])!r} (row {row})."
        )
        raise ValueError(msg)


# ---- Results of the counterfactual comparisons: gaps between scores, on the scale of the scores


@dataclass(frozen=True)
class CounterfactualGap(Tabular):
    """How one term's score differs from that of other terms in the same sentence."""

    n: int
    """Sentences with this term and another."""
    mean_gap: MetricValue
    """Mean of the gaps, signed: above 0 the term scores higher than the others."""
    std_error: MetricValue
    """Standard error of the mean gap over sentences; undefined for fewer than 2."""
    mean_absolute_gap: MetricValue
    """Mean size of the gaps, at least 0."""
    share_highest: MetricValue
    """Share of the sentences in which this term scores highest, from 0 to 1; k terms that tie for
    the highest score count 1/k each."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        names = ("mean_gap", "std_error", "mean_absolute_gap", "share_highest")
        return {"n": self.n} | {name: getattr(self, name).to_dict() for name in names}


@dataclass(frozen=True)
class CounterfactualGaps(Tabular):
    """The gaps of every term."""

    n_sentences: int
    """Sentences with two or more terms."""
    n_alone: int
    """Sentences with a single term, which has nothing to compare with; they are left out."""
    terms: dict[str, CounterfactualGap]
    """Every term, sorted by name."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        counts = {"n_sentences": self.n_sentences, "n_alone": self.n_alone}
        return counts | {"terms": as_dicts(self.terms)}

    def rows(self) -> list[Row]:
        """Return one record per term."""
        return labelled("term", rows_of(self.terms))


@dataclass(frozen=True)
class PairedGaps(Tabular):
    """How scores differ between two versions of the same texts."""

    n_higher: int
    n_lower: int
    n_equal: int
    """n_higher, n_lower, n_equal: pairs whose swapped version scores higher, lower or the same."""
    mean_gap: MetricValue
    """Mean of swapped minus original score."""
    std_error: MetricValue
    """Standard error of the mean gap over pairs; undefined for fewer than 2."""
    mean_absolute_gap: MetricValue
    """Mean size of the gaps, at least 0."""

    @property
    def n(self) -> int:
        """Number of pairs."""
        return self.n_higher + self.n_lower + self.n_equal

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        counts = ("n", "n_higher", "n_lower", "n_equal")
        values = ("mean_gap", "std_error", "mean_absolute_gap")
        return {name: getattr(self, name) for name in counts} | {
            name: getattr(self, name).to_dict() for name in values
        }
