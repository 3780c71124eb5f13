"""Equality differences of Dixon et al. (2018): errors by subgroup, compared with all rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import (
    BoolArray,
    check_mask,
    check_scores,
    check_subgroups,
    check_threshold,
)
from bias_metrics._core.cuts import reaches_cut
from bias_metrics._core.index import refuse_misaligned, require_aligned
from bias_metrics._core.masks import Subgroups
from bias_metrics._core.ranks import sort_classes
from bias_metrics._core.tables import Row, Table, Tabular, flatten_values, label_rows
from bias_metrics._core.values import MetricValue, make_undefined
from bias_metrics.thresholds.thresholds import find_equal_error


@dataclass(frozen=True)
class EqualityDifference(Tabular):
    """Sum over subgroups of abs(metric of all rows - metric of the subgroup)."""

    overall: MetricValue
    """The metric over all rows."""
    subgroups: dict[str, MetricValue]
    """The metric by subgroup."""
    threshold: float | None = None
    """The threshold of the rates; None for AUCs, or if it is undefined."""

    @property
    def terms(self) -> dict[str, MetricValue]:
        """The terms of the sum, by subgroup."""
        everyone = self.overall.value
        if everyone is None:
            return dict.fromkeys(self.subgroups, self.overall)
        return {
            name: number if number.value is None else MetricValue(abs(everyone - number.value))
            for name, number in self.subgroups.items()
        }

    @property
    def value(self) -> MetricValue:
        """The sum: 0 or more, ideal 0; undefined if any term is undefined."""
        terms = self.terms
        if not terms:
            return make_undefined("no subgroups")
        if self.overall.value is None:
            return self.overall
        missing = [f"{name} ({term.reason})" for name, term in terms.items() if term.value is None]
        if missing:
            return make_undefined(f"undefined for {', '.join(missing)}")
        values = (term.value for term in terms.values() if term.value is not None)
        return MetricValue(math.fsum(values))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            **self.value.to_dict(),
            "threshold": self.threshold,
            "overall": self.overall.to_dict(),
            "subgroups": {name: metric.to_dict() for name, metric in self.subgroups.items()},
            "terms": {name: term.to_dict() for name, term in self.terms.items()},
        }

    def rows(self) -> list[Row]:
        """Return a record per subgroup: its metric and its term of the sum."""
        terms = self.terms
        records = {
            name: [flatten_values({"metric": metric.to_dict(), "term": terms[name].to_dict()})]
            for name, metric in self.subgroups.items()
        }
        return label_rows("subgroup", records)

    def _table(self) -> Table:
        return Table.from_records(
            self.rows(), f"sum of the terms: {self.value}; all rows: {self.overall}"
        )


@require_aligned
def fped(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    threshold: float | None = None,
    threshold_set: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
) -> EqualityDifference:
    """Compare each subgroup's false positive rate with that of all rows (FPED).

    False Positive Equality Difference: are harmless rows flagged as often in each subgroup?
    Sum over subgroups g of abs(FPR - FPR_g). FPR is the share of all negatives that is flagged
    (score >= threshold), and FPR_g the share of the subgroup's negatives. The sum shows neither the
    direction of a difference nor the precision of the rates. As a sum of absolute values it is
    above 0 even for a fair model, and grows with the number of subgroups and their noise. It has no
    confidence interval: never gate on it.

    Parameters
    ----------
    y_true, y_score, subgroups
        As in `evaluate_bias`; `Rows` are not accepted.
    threshold : float, optional
        Finite; a score equal to it is flagged.
    threshold_set : pair of arrays of shape (m,), optional
        Labels and scores of the rows whose `equal_error_rate` sets the threshold: in Dixon
        et al. the *general* test set, not the templates on which the subgroups are measured.
        With neither option, the measured rows set it themselves.

    Returns
    -------
    EqualityDifference
        The value, 0 or more (at most the number of subgroups), ideal 0; its terms; the
        threshold; the rates overall and by subgroup. Undefined without subgroups, and if a subgroup
        or the whole set lacks negatives. Also undefined if the rows of an equal error rate lack a
        class.

    Raises
    ------
    ValueError, TypeError
        As `evaluate_bias`; and if both options are given or `threshold` is not finite.

    References
    ----------
    Dixon et al. (2018), equation 1. Its Table 5 sums over 50 terms *and* 10 trained models.

    Examples
    --------
    >>> y_true, y_score = [0, 0, 0, 0, 1, 1], [0.1, 0.2, 0.3, 0.7, 0.6, 0.9]
    >>> result = fped(y_true, y_score, {"gay": [0, 0, 1, 1, 0, 1]}, threshold=0.5)
    >>> result.overall.value, result.subgroups["gay"].value, result.value.value
    (0.25, 0.5, 0.25)
    """
    return _compare_rates(y_true, y_score, subgroups, threshold, threshold_set, label=False)


@require_aligned
def fned(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Subgroups,
    *,
    threshold: float | None = None,
    threshold_set: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
) -> EqualityDifference:
    """Compare each subgroup's false negative rate with that of all rows (FNED).

    False Negative Equality Difference: are toxic rows missed as often in each subgroup?
    Sum over subgroups g of abs(FNR - FNR_g). FNR is the share of all positives that is not flagged
    (score < threshold), and FNR_g the share of the subgroup's positives. The caveats of `fped`
    apply.

    Parameters
    ----------
    y_true, y_score, subgroups, threshold, threshold_set
        As in `fped`.

    Returns
    -------
    EqualityDifference
        As `fped`, for false negative rates; undefined without positives.

    Raises
    ------
    ValueError, TypeError
        As `fped`.

    References
    ----------
    Dixon et al. (2018), equation 2. Its Table 5 sums over 50 terms *and* 10 trained models.

    Examples
    --------
    >>> y_true, y_score = [1, 1, 1, 1, 0, 0], [0.9, 0.8, 0.7, 0.3, 0.4, 0.1]
    >>> fned(y_true, y_score, {"gay": [0, 0, 1, 1, 0, 1]}, threshold=0.5).value.value
    0.25
    """
    return _compare_rates(y_true, y_score, subgroups, threshold, threshold_set, label=True)


def _compare_rates(
    y_true: npt.ArrayLike,
    y_score: npt.ArrayLike,
    subgroups: Subgroups,
    threshold: float | None,
    threshold_set: tuple[npt.ArrayLike, npt.ArrayLike] | None,
    *,
    label: bool,
) -> EqualityDifference:
    """Compare the shares of errors among the rows with a label, of each subgroup and all rows."""
    labels = check_mask("y_true", y_true)
    scores = check_scores("y_score", y_score, labels.size)
    masks = check_subgroups(subgroups, labels.size)
    if threshold is None:
        general = (labels, scores) if threshold_set is None else threshold_set
        if len(general) != 2:
            msg = f"`threshold_set` must be a pair of labels and scores; got {len(general)} arrays."
            raise ValueError(msg)
        names = ("threshold_set[0]", "threshold_set[1]")
        refuse_misaligned(dict(zip(names, general, strict=True)))
        general_labels = check_mask(names[0], general[0])
        size = general_labels.size
        general_scores = check_scores(names[1], general[1], size, like=names[0])
        equal = find_equal_error(sort_classes(general_labels, general_scores))
        if equal.threshold is None:
            lack = make_undefined(f"no threshold of equal errors: {equal.rate.reason}")
            return EqualityDifference(lack, dict.fromkeys(masks, lack))
        threshold = equal.threshold
    elif threshold_set is not None:
        msg = "`threshold` and `threshold_set` must not both be given."
        raise ValueError(msg)
    threshold = check_threshold(threshold)
    in_class = labels == label
    is_wrong = in_class & (reaches_cut(scores, threshold) != labels)
    reason = f"no {'positives' if label else 'negatives'}"

    def compute_rate(members: BoolArray) -> MetricValue:
        n_wrong = int(np.count_nonzero(members & is_wrong))
        n = int(np.count_nonzero(members & in_class))
        return MetricValue(n_wrong / n) if n else make_undefined(reason)

    overall = compute_rate(np.ones(labels.size, dtype=np.bool_))
    rates = {name: compute_rate(mask) for name, mask in masks.items()}
    return EqualityDifference(overall, rates, threshold)
