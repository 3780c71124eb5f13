"""Whether scores are probabilities, for each subgroup against its background."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import FloatArray, aligned
from bias_metrics._core.differences import Difference
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.ranks import Floats
from bias_metrics._core.values import undefined
from bias_metrics.calibration.numbers import (
    ESTIMATES,
    N_BINS,
    RANGES,
    Bins,
    Codes,
    Cumulative,
    Sample,
    labels_of,
)
from bias_metrics.calibration.results import (
    Calibrated,
    CalibrationComparison,
    CalibrationReport,
)
from bias_metrics.estimate import Change, Estimate, Number
from bias_metrics.metrics import METRICS, calibration_metrics
from bias_metrics.rows import Rows


@aligned
def calibration_report(
    rows: Rows,
    y_score: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    n_bins: int = N_BINS,
) -> CalibrationReport:
    """Measure whether scores are probabilities, for each subgroup and its background.

    Scores of .8 are calibrated if 80 % of such rows are positive. AUCs cannot tell: they only use
    the order of scores. A threshold has the same meaning for two subgroups only if both are
    calibrated.

    Parameters
    ----------
    rows : Rows
        The rows.
    y_score : float array of shape (n,)
        Probabilities. If any is outside [0, 1], all numbers are undefined, with that reason.
    confidence : float, default=0.95
        Confidence of each interval and of the bands.
    n_bins : int, default=10
        Bins of equally many rows, at least 2; fewer where scores are tied.

    Returns
    -------
    CalibrationReport
        For each subgroup `bias`, `brier`, `slope`, `calibration_error`, `cumulative_error` and
        `reliability`, the same of its background, and the gaps between them (ideal 0): above 0, the
        subgroup's scores are too high compared with others (`calibration_gap`), farther from the
        labels (`brier_gap`) or less overconfident (`slope_gap`). A Brier score also depends on the
        share of positives, so that a gap may be only in the labels.

    Raises
    ------
    ValueError, TypeError
        If scores are of another number or not finite, or `n_bins` is below 2.

    Notes
    -----
    Intervals are linearised, with Student's quantile for as many degrees of freedom as the fourth
    moments of the influences, or the clusters, allow. With fewer than 20 positives or negatives
    they reach as far as the share of positives may lie, by Wilson's interval with the variance that
    the scores leave open. For the slope, scores within 1e-6 of 0 or 1 are moved to that distance,
    and the error is then at least that of the regression.

    References
    ----------
    Brier (1950), Monthly Weather Review 78. Cox (1958), Biometrika 45 (slope). Kumar, Liang and
    Ma (2019), Advances in Neural Information Processing Systems 32 (debiased calibration error).
    Arrieta-Ibarra et al. (2022), Journal of Machine Learning Research 23 (cumulative error).

    Examples
    --------
    >>> y_true, gay = [0, 0, 1, 1] * 20, [0] * 40 + [1] * 40
    >>> y_score = [0.3, 0.5, 0.5, 0.7] * 10 + [0.5, 0.7, 0.7, 0.9] * 10
    >>> found = calibration_report(Rows(y_true, {"gay": gay}), y_score)
    >>> print(found.subgroups["gay"].bias, found.gaps["gay"]["calibration_gap"])
    0.200 [0.066, 0.334] 0.200 [0.014, 0.386]
    """
    if n_bins < 2:
        msg = f"`n_bins` must be at least 2; got {n_bins}."
        raise ValueError(msg)
    level = check_confidence(confidence)
    return MeasuredCalibration(rows, {"y_score": y_score}, n_bins=n_bins).report(level)


@aligned
def compare_calibration(
    rows: Rows,
    y_score_a: npt.ArrayLike,
    y_score_b: npt.ArrayLike,
    *,
    confidence: float = 0.95,
) -> CalibrationComparison:
    """Compare the calibration of two models on the same rows.

    The models are paired: rows that both get wrong do not widen the interval.

    Parameters
    ----------
    rows : Rows
        The rows.
    y_score_a, y_score_b : float array of shape (n,)
        Probabilities of the first model (the candidate) and the second (the champion).
    confidence : float, default=0.95
        Confidence of each interval.

    Returns
    -------
    CalibrationComparison
        Differences of `bias`, `brier` and `slope`, of all rows and of each subgroup; and of each
        subgroup's gaps, with bounds on how much wider the first is. For identical scores they are
        0 and have zero width.

    Raises
    ------
    ValueError, TypeError
        As `calibration_report`.

    References
    ----------
    Brier (1950), Monthly Weather Review 78. Zou (2007), Psychological Methods 12 (intervals of
    differences from the limits of each).

    Examples
    --------
    >>> y_true, gay = [0, 0, 1, 1] * 20, [0] * 40 + [1] * 40
    >>> a = [0.3, 0.5, 0.5, 0.7] * 20
    >>> b = [0.3, 0.5, 0.5, 0.7] * 10 + [0.5, 0.7, 0.7, 0.9] * 10
    >>> rows = Rows(y_true, {"gay": gay})
    >>> print(compare_calibration(rows, a, b).subgroups["gay"]["brier"])
    -0.040 [-0.093, +0.013]
    """
    level = check_confidence(confidence)
    scores = {"y_score_a": y_score_a, "y_score_b": y_score_b}
    return MeasuredCalibration(rows, scores).comparison(level)


_OF_OTHERS = "not measured of backgrounds"


class _Side(NamedTuple):
    """Some rows as measured: the first model's numbers, and both models' if there are two."""

    n: int
    n_positive: int
    numbers: Mapping[str, Number]
    bins: Bins | None
    cumulative: Cumulative | None
    changes: Mapping[str, Change]


class _Measured(NamedTuple):
    """Some rows with how far each moves each model's numbers: too much to keep of every group."""

    side: _Side
    numbers: Sequence[Mapping[str, Estimate]]


class _Group(NamedTuple):
    """A subgroup as measured."""

    own: _Side
    background: _Side
    gaps: Mapping[str, Number]
    changes: Mapping[str, Change]  # Of the gaps, if there are two models


class MeasuredCalibration:
    """One or two models' calibration, measured once; asked for at any confidence.

    Parameters and errors are those of `calibration_report`; `scores` are by the name of their
    argument, one or two of them.
    """

    def __init__(
        self, rows: Rows, scores: Mapping[str, npt.ArrayLike], *, n_bins: int = N_BINS
    ) -> None:
        self._models = _Model.of(rows, scores)
        self.names = list(self._models[0].rows.subgroups)
        self._n_bins = n_bins
        self._groups: dict[str, _Group] = {}

    @cached_property
    def _everyone(self) -> _Side:
        return self._measured(self._models[0].everyone()).side

    def _asked(self, names: Iterable[str] | None) -> dict[str, _Group]:
        """Return subgroups as measured, default all; those asked for share one background."""
        names = self.names if names is None else list(names)
        wanted = [name for name in names if name not in self._groups]
        model = self._models[0]
        background = model.shared_background() if wanted else None
        shared = None if background is None else self._measured(background, curve=False)
        for name in wanted:
            others = self._measured(model.outside(name), curve=False) if shared is None else shared
            self._groups[name] = self._group(self._measured(model.inside(name)), others)
        return {name: self._groups[name] for name in names}

    def _group(self, own: _Measured, others: _Measured) -> _Group:
        gaps = [_gaps(*both) for both in zip(own.numbers, others.numbers, strict=True)]
        numbers = {metric: gap.number for metric, gap in gaps[0].items()}
        return _Group(own.side, others.side, numbers, _changes(gaps))

    def _measured(self, sample: Sample, *, curve: bool = True) -> _Measured:
        numbers = [model.numbers(sample) for model in self._models]
        return _Measured(self._side(sample, numbers, curve=curve), numbers)

    def _side(
        self, sample: Sample, numbers: Sequence[Mapping[str, Estimate]], *, curve: bool
    ) -> _Side:
        return _Side(
            int(sample.rows.size),
            sample.n_positive,
            {name: one.number for name, one in numbers[0].items()},
            None if len(numbers) > 1 else self._models[0].bins(sample, self._n_bins),
            self._models[0].cumulative(sample) if curve and len(numbers) == 1 else None,
            _changes(numbers),
        )

    def report(self, confidence: float, names: Iterable[str] | None = None) -> CalibrationReport:
        """Return the report of one model; `names` are the subgroups, default all."""
        [model] = self._models
        groups = self._asked(names)

        def calibrated(side: _Side, *, curve: bool = True) -> Calibrated:
            measured = {name: one.at(confidence) for name, one in side.numbers.items()}
            bins = side.bins
            return Calibrated(
                n=side.n,
                n_positive=side.n_positive,
                **measured,
                calibration_error=undefined(model.reason or "no rows")
                if bins is None
                else bins.error(confidence),
                cumulative_error=undefined(model.reason or ("no rows" if curve else _OF_OTHERS))
                if side.cumulative is None
                else side.cumulative.at(confidence),
                reliability=bins.curve(confidence) if bins is not None and curve else (),
            )

        return CalibrationReport(
            calibrated(self._everyone),
            {name: calibrated(group.own) for name, group in groups.items()},
            {name: calibrated(group.background, curve=False) for name, group in groups.items()},
            {
                name: {metric: gap.at(confidence) for metric, gap in group.gaps.items()}
                for name, group in groups.items()
            },
            model.reason,
        )

    def comparison(
        self, confidence: float, names: Iterable[str] | None = None
    ) -> CalibrationComparison:
        """Return the comparison of two models; `names` are the subgroups, default all."""

        def at(changes: Mapping[str, Change], *, is_gap: bool = False) -> dict[str, Difference]:
            return {name: one.at(confidence, is_gap=is_gap) for name, one in changes.items()}

        groups = self._asked(names)
        return CalibrationComparison(
            at(self._everyone.changes),
            {
                name: at(group.own.changes) | at(group.changes, is_gap=True)
                for name, group in groups.items()
            },
        )


def _changes(models: Sequence[Mapping[str, Estimate]]) -> dict[str, Change]:
    """Return both models' numbers beside each other; nothing if there is one model."""
    if len(models) == 1:
        return {}
    first, second = models
    return {name: one.beside(second[name]) for name, one in first.items()}


def _gaps(own: Mapping[str, Estimate], background: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """Return the differences between a subgroup and its background, by metric."""
    found = {}
    for name, kind in calibration_metrics().items():
        largest = METRICS[name].largest
        found[name] = own[kind.of].minus(background[kind.of], (-largest, largest))
    return found


@dataclass(frozen=True, eq=False)
class _Model:
    """One model's scores on the rows that count; `reason` if they are not probabilities."""

    rows: Rows
    scores: Floats
    labels: Floats
    weights: Floats
    reason: str | None

    @classmethod
    def of(cls, rows: Rows, given: Mapping[str, npt.ArrayLike]) -> list[_Model]:
        """Check scores, by the name of their argument; one that is wrong is so for all models."""
        rows, scores = rows.counted(*(rows.scores(*each) for each in given.items()))
        weights = np.ones(rows.n) if rows.sample_weight is None else rows.sample_weight
        reason = next(filter(None, map(_no_probabilities, scores)), None)
        labels = rows.y_true.astype(np.float64)
        return [
            cls(rows, of_model.astype(np.float64), labels, weights.astype(np.float64), reason)
            for of_model in scores
        ]

    def everyone(self) -> Sample:
        """Return all rows."""
        return self._sample(np.arange(self.rows.n))

    def inside(self, name: str) -> Sample:
        """Return a subgroup's rows."""
        return self._sample(np.flatnonzero(self.rows.subgroups[name]))

    def outside(self, name: str) -> Sample:
        """Return the rows outside a subgroup."""
        return self._sample(np.flatnonzero(~self.rows.subgroups[name]))

    def shared_background(self) -> Sample | None:
        """Return the rows that all subgroups are compared with; None if each has its own."""
        excluded = self.rows.excluded
        if excluded is None:
            return None
        return self._sample(np.delete(np.arange(self.rows.n), excluded))

    def _sample(self, places: Codes) -> Sample:
        clusters = None if self.rows.clusters is None else self.rows.clusters[places]
        return Sample(places, self.labels[places], self.weights[places], clusters)

    def numbers(self, sample: Sample) -> dict[str, Estimate]:
        """Return bias, Brier score and slope of some rows."""
        return {name: self._number(name, sample) for name in ESTIMATES}

    def _number(self, name: str, sample: Sample) -> Estimate:
        reason = self.reason or ("no rows" if sample.rows.size == 0 else None)
        if reason is not None:
            return Estimate.undefined(reason, self.rows.n)
        scores = self.scores[sample.rows]
        value, influence, reason = ESTIMATES[name](scores, sample)
        found = Estimate.of(
            value,
            influence,
            sample.rows,
            sample.weight,
            self.rows.n,
            clusters=self.rows.clusters,
            bounds=RANGES[name],
            reason=reason,
        )
        labels = labels_of(name, scores, sample)
        return found.resting_on(*labels, sample.mixed_clusters) if labels else found

    def cumulative(self, sample: Sample) -> Cumulative | None:
        """Return cumulative differences of some rows; None where there are no bins, either."""
        if self.reason is not None or not sample.rows.size:
            return None
        return Cumulative.of(self.scores[sample.rows], sample)

    def bins(self, sample: Sample, n_bins: int) -> Bins | None:
        """Return some rows in bins; None if there are none, or scores are not probabilities."""
        if self.reason is not None or not sample.rows.size:
            return None
        return Bins.of(self.scores[sample.rows], sample, n_bins)


def _no_probabilities(scores: FloatArray) -> str | None:
    """Say that scores are not probabilities, if so."""
    outside = np.flatnonzero((scores < 0) | (scores > 1))
    if not outside.size:
        return None
    row = int(outside[0])
    return f"scores are not probabilities: got {scores[row]:.6g} (row {row})"
