"""Calibration by subgroup: deviation of scores from probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import FloatArray
from bias_metrics._core.differences import Difference
from bias_metrics._core.index import require_aligned
from bias_metrics._core.intervals import check_confidence, compute_effective_size, student_quantile
from bias_metrics._core.masks import Subgroups
from bias_metrics._core.proportions import wilson_interval
from bias_metrics._core.ranks import Floats, inner_product
from bias_metrics._core.tables import Row, Table, Tabular, label_rows, to_plain_values
from bias_metrics._core.values import MetricValue
from bias_metrics.estimate import LinearEstimate, LinearSummary, NumberPair
from bias_metrics.metrics import CALIBRATION_GAP, METRICS
from bias_metrics.rows import Places, RowOptions, Rows

N_BINS = 10


@dataclass(frozen=True)
class ReliabilityBin:
    """Rows of similar scores."""

    n: int
    mean_score: float
    share_positive: float
    """mean_score, share_positive: mean score and share of positives, which are equal if
    calibrated."""
    low: float
    high: float
    """low, high: confidence band of the share."""


@dataclass(frozen=True)
class RowCalibration(Tabular):
    """Calibration of a set of rows."""

    n: int
    n_positive: int
    """n, n_positive: number of rows, and of positives."""
    bias: MetricValue
    """Mean score minus the share of positives; 0 if calibrated in the mean."""
    reliability: tuple[ReliabilityBin, ...] = ()
    """Bins by ascending score; empty for a background."""


@dataclass(frozen=True)
class CalibrationReport(Tabular):
    """Calibration of all rows and by subgroup."""

    overall: RowCalibration
    """All rows."""
    subgroups: dict[str, RowCalibration]
    backgrounds: dict[str, RowCalibration]
    """subgroups, backgrounds: each subgroup, and its background (without bins)."""
    gaps: dict[str, MetricValue]
    """The `calibration_gap` by subgroup: its bias minus that of its background."""
    reason: str | None = None
    """Why all numbers are undefined, if scores are not probabilities."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; a subgroup's gap is next to its other numbers."""
        subgroups = {
            name: to_plain_values(calibration)
            | {"background": to_plain_values(self.backgrounds[name])}
            | {CALIBRATION_GAP: to_plain_values(self.gaps[name])}
            for name, calibration in self.subgroups.items()
        }
        values = {"overall": to_plain_values(self.overall), "subgroups": subgroups}
        return values if self.reason is None else values | {"reason": self.reason}

    def rows(self) -> list[Row]:
        """Return a record per subgroup and number; all rows are under None."""
        every: dict[Any, RowCalibration] = {**self.subgroups, None: self.overall}
        return label_rows(
            "subgroup",
            {
                name: [
                    {"metric": metric, "n": calibration.n, "n_positive": calibration.n_positive}
                    | {key: getattr(value, key) for key in _PARTS}
                    for metric, value in self._list_numbers(name, calibration).items()
                ]
                for name, calibration in every.items()
            },
        )

    def _list_numbers(
        self, name: str | None, calibration: RowCalibration
    ) -> dict[str, MetricValue]:
        gap = {} if name is None else {CALIBRATION_GAP: self.gaps[name]}
        return {"bias": calibration.bias} | gap

    def _table(self) -> Table:
        return Table(
            ["subgroup", "n", "bias", CALIBRATION_GAP],
            [
                [
                    name,
                    f"{calibration.n:,}",
                    *map(str, self._list_numbers(name, calibration).values()),
                ]
                for name, calibration in self.subgroups.items()
            ],
            f"{self.overall.n:,} rows: bias {self.overall.bias}",
        )


_PARTS = ("value", "std_error", "low", "high", "reason")


@dataclass(frozen=True)
class CalibrationComparison(Tabular):
    """Differences in calibration of two models on the same rows."""

    overall: dict[str, Difference]
    """Difference of the `bias` of all rows, first model minus second."""
    subgroups: dict[str, dict[str, Difference]]
    """Differences of `bias` and `calibration_gap` by subgroup."""

    def rows(self) -> list[Row]:
        """Return a record per difference; for all rows, the subgroup is None."""
        every: dict[Any, dict[str, Difference]] = {**self.subgroups, None: self.overall}
        return label_rows(
            "subgroup",
            {
                name: [
                    {"metric": metric} | difference.rows()[0]
                    for metric, difference in cells.items()
                ]
                for name, cells in every.items()
            },
        )


@require_aligned
def calibration_report(
    y_true: npt.ArrayLike | Rows,
    y_score: npt.ArrayLike,
    subgroups: Subgroups | None = None,
    *,
    confidence: float = 0.95,
    n_bins: int = N_BINS,
    **options: Unpack[RowOptions],
) -> CalibrationReport:
    """Measure the calibration of scores, for each subgroup and its background.

    Scores of .8 are calibrated if 80 % of such rows are positive. AUCs cannot detect this, since
    they only use the order of scores. A threshold has the same meaning for two subgroups only if
    both are calibrated.

    Parameters
    ----------
    y_true, subgroups
        As in `evaluate_bias`.
    y_score : float array of shape (n,)
        Probabilities. If any score is outside [0, 1], all numbers are undefined, with a reason.
    confidence : float, default=0.95
        Confidence of the intervals and bands.
    n_bins : int, default=10
        Number of bins with equally many rows, at least 2; tied scores may reduce it.
    **options
        As in `evaluate_bias`; not with `Rows`.

    Returns
    -------
    CalibrationReport
        For each subgroup `bias` (mean score minus share of positives, ideal 0) and `reliability`,
        the bias of its background, and their difference, the `calibration_gap` (ideal 0): above 0,
        the subgroup's scores are too high compared with others.

    Raises
    ------
    ValueError, TypeError
        If the number of scores differs, a score is not finite, or `n_bins` is below 2.

    Notes
    -----
    Intervals are linearised. Student's quantile has degrees of freedom from the fourth moments of
    the influences, or from the clusters. With fewer than 20 positives or negatives, intervals
    extend to the ends of Wilson's interval of the share of positives, with the variance that the
    scores leave unexplained.

    References
    ----------
    Pleiss et al. (2017), Advances in Neural Information Processing Systems 30 (calibration of each
    group). Wilson (1927), Journal of the American Statistical Association 22 (interval of a share).

    Examples
    --------
    >>> y_true, gay = [0, 0, 1, 1] * 20, [0] * 40 + [1] * 40
    >>> y_score = [0.3, 0.5, 0.5, 0.7] * 10 + [0.5, 0.7, 0.7, 0.9] * 10
    >>> report = calibration_report(y_true, y_score, {"gay": gay})
    >>> print(report.subgroups["gay"].bias, report.gaps["gay"])
    0.200 [0.066, 0.334] 0.200 [0.014, 0.386]
    """
    if n_bins < 2:
        msg = f"`n_bins` must be at least 2; got {n_bins}."
        raise ValueError(msg)
    level, rows = check_confidence(confidence), Rows.from_arguments(y_true, subgroups, **options)
    return MeasuredCalibration(rows, {"y_score": y_score}, n_bins=n_bins).report(level)


@require_aligned
def compare_calibration(
    y_true: npt.ArrayLike | Rows,
    y_score_a: npt.ArrayLike,
    y_score_b: npt.ArrayLike,
    subgroups: Subgroups | None = None,
    *,
    confidence: float = 0.95,
    **options: Unpack[RowOptions],
) -> CalibrationComparison:
    """Compare the calibration of two models on the same rows.

    The models are paired: rows that both get wrong do not widen the interval.

    Parameters
    ----------
    y_true, subgroups
        As in `evaluate_bias`.
    y_score_a, y_score_b : float array of shape (n,)
        Probabilities of the first model (the candidate) and the second (the champion).
    confidence : float, default=0.95
        Confidence of the intervals.
    **options
        As in `evaluate_bias`; not with `Rows`.

    Returns
    -------
    CalibrationComparison
        Differences of `bias`, for all rows and by subgroup, and of the subgroups' gaps, with
        bounds on the change of their size. For identical scores they are 0 with zero width.

    Raises
    ------
    ValueError, TypeError
        As `calibration_report`.

    References
    ----------
    Zou (2007), Psychological Methods 12 (intervals of differences from separate limits).

    Examples
    --------
    >>> y_true, gay = [0, 0, 1, 1] * 20, [0] * 40 + [1] * 40
    >>> a = [0.3, 0.5, 0.5, 0.7] * 20
    >>> b = [0.3, 0.5, 0.5, 0.7] * 10 + [0.5, 0.7, 0.7, 0.9] * 10
    >>> differences = compare_calibration(y_true, a, b, {"gay": gay})
    >>> round(differences.subgroups["gay"]["bias"].value, 3)
    -0.2
    """
    level, rows = check_confidence(confidence), Rows.from_arguments(y_true, subgroups, **options)
    scores = {"y_score_a": y_score_a, "y_score_b": y_score_b}
    return MeasuredCalibration(rows, scores).compare_models(level)


@dataclass(frozen=True, eq=False)
class CalibrationSample:
    """Rows of a subgroup, of its background, or all rows, by place; labels are 0 and 1."""

    rows: Places
    y_true: Floats
    weight: Floats
    clusters: Places | None

    @property
    def share(self) -> Floats:
        """Each row's share of the weight."""
        return np.asarray(self.weight / self.weight.sum())

    @property
    def mixed_clusters(self) -> int:
        """Number of clusters with a positive or with a negative, whichever is smaller."""
        if self.clusters is None:
            return 0
        is_positive = self.y_true > 0
        return min(np.unique(self.clusters[rows]).size for rows in (is_positive, ~is_positive))


def measure_bias(y_score: Floats, sample: CalibrationSample) -> tuple[float, Floats]:
    """Return the mean score minus the share of positives, and the rows' influences."""
    deviation = y_score - sample.y_true
    mean = inner_product(sample.share, deviation)
    return mean, sample.share * (deviation - mean)


def measure_labels(y_score: Floats, sample: CalibrationSample) -> tuple[float, float, float]:
    """Return the share of positives, its noise and step: see `Positives`."""
    positive, mean = (inner_product(sample.share, values) for values in (sample.y_true, y_score))
    variance = inner_product(sample.share, y_score * (1 - y_score))
    noise = min(variance / (mean * (1 - mean)), 1.0) if 0 < mean < 1 else 1.0
    return positive, noise, -1.0


class _MeasuredSide(NamedTuple):
    """Measured rows: the bias under each model, and the bins of a single model."""

    n: int
    n_positive: int
    numbers: Sequence[LinearEstimate]
    bins: _ScoreBins | None = None

    def summarise(self) -> _SideSummary:
        """Return the results without the influences of rows, which need too much memory."""
        first, *others = self.numbers
        pair = first.pair_with(others[0]) if others else None
        return _SideSummary(self.n, self.n_positive, first.summary, pair, self.bins)


class _SideSummary(NamedTuple):
    """Stored results of a side; the pair has the numbers of both models, if there are two."""

    n: int
    n_positive: int
    number: LinearSummary
    number_pair: NumberPair | None
    bins: _ScoreBins | None

    def compute_calibration(self, confidence: float) -> RowCalibration:
        curve = () if self.bins is None else make_curve(*self.bins, confidence)
        return RowCalibration(self.n, self.n_positive, self.number.compute_value(confidence), curve)


class _CalibratedGroup(NamedTuple):
    """A measured subgroup and its background."""

    own: _SideSummary
    background: _SideSummary
    gap: LinearSummary
    gap_pair: NumberPair | None  # Of the gap, if there are two models


class MeasuredCalibration:
    """Calibration of one or two models, measured once and reported at any confidence.

    Parameters and errors are those of `calibration_report`; `scores` has one or two arrays by
    argument name.
    """

    def __init__(
        self, rows: Rows, scores: Mapping[str, npt.ArrayLike], *, n_bins: int = N_BINS
    ) -> None:
        self._rows, model_scores = rows.select_counted(
            *(rows.check_scores(*each) for each in scores.items())
        )
        self.names = list(self._rows.subgroups)
        self.reason = next(filter(None, map(_find_non_probability, model_scores)), None)
        self._scores = [scores_of_model.astype(np.float64) for scores_of_model in model_scores]
        self._labels = self._rows.y_true.astype(np.float64)
        weights = self._rows.sample_weight
        self._weights = np.ones(self._rows.n) if weights is None else weights.astype(np.float64)
        self._n_bins = n_bins
        self._groups: dict[str, _CalibratedGroup] = {}

    @cached_property
    def _everyone(self) -> _SideSummary:
        return self._measure_side(np.arange(self._rows.n)).summarise()

    def _measure_side(self, places: Places, *, curve: bool = True) -> _MeasuredSide:
        clusters = None if self._rows.clusters is None else self._rows.clusters[places]
        sample = CalibrationSample(places, self._labels[places], self._weights[places], clusters)
        has_bins = curve and len(self._scores) == 1 and self.reason is None and places.size
        bins = None
        if has_bins:
            bins = _ScoreBins.from_scores(self._scores[0][places], sample, self._n_bins)
        numbers = [self._measure_bias(scores, sample) for scores in self._scores]
        return _MeasuredSide(places.size, int(np.count_nonzero(sample.y_true)), numbers, bins)

    def _measure_bias(self, y_score: Floats, sample: CalibrationSample) -> LinearEstimate:
        n, places = self._rows.n, sample.rows
        if self.reason is not None or not places.size:
            return LinearEstimate.undefined(self.reason or "no rows", n)
        value, influence = measure_bias(y_score[places], sample)
        estimate = LinearEstimate.from_influence(
            value,
            influence,
            places,
            sample.weight,
            n,
            clusters=self._rows.clusters,
            bounds=(-1.0, 1.0),
        )
        return estimate.add_labels(*measure_labels(y_score[places], sample), sample.mixed_clusters)

    def _measure_groups(self, names: Iterable[str] | None) -> dict[str, _CalibratedGroup]:
        """Measure subgroups, default all; new subgroups share the background of rows without any.

        The shared background is only used with the option `no_identity`.
        """
        names = self.names if names is None else list(names)
        new = [name for name in names if name not in self._groups]
        excluded, shared = self._rows.excluded, None
        if new and excluded is not None:
            shared = self._measure_side(np.delete(np.arange(self._rows.n), excluded), curve=False)
        largest = METRICS[CALIBRATION_GAP].largest
        for name in new:
            mask = self._rows.subgroups[name]
            own = self._measure_side(np.flatnonzero(mask))
            others = shared or self._measure_side(np.flatnonzero(~mask), curve=False)
            gap, *other_gaps = (
                number.subtract(other, (-largest, largest))
                for number, other in zip(own.numbers, others.numbers, strict=True)
            )
            pair = gap.pair_with(other_gaps[0]) if other_gaps else None
            self._groups[name] = _CalibratedGroup(
                own.summarise(), others.summarise(), gap.summary, pair
            )
        return {name: self._groups[name] for name in names}

    def report(self, confidence: float, names: Iterable[str] | None = None) -> CalibrationReport:
        """Return the report of a single model; `names` are the subgroups, default all."""
        groups = self._measure_groups(names)
        return CalibrationReport(
            self._everyone.compute_calibration(confidence),
            {name: group.own.compute_calibration(confidence) for name, group in groups.items()},
            {
                name: group.background.compute_calibration(confidence)
                for name, group in groups.items()
            },
            {
                name: group.gap.compute_value(confidence).attach_measure(group.gap.compute_value)
                for name, group in groups.items()
            },
            self.reason,
        )

    def compare_models(
        self, confidence: float, names: Iterable[str] | None = None
    ) -> CalibrationComparison:
        """Return the comparison of two models; `names` are the subgroups, default all."""

        def compute_difference(change: NumberPair | None, *, is_gap: bool = False) -> Difference:
            assert change is not None  # noqa: S101 - there are two models
            measure = partial(change.compute_difference, is_gap=is_gap)
            return measure(confidence).attach_measure(measure)

        return CalibrationComparison(
            {"bias": compute_difference(self._everyone.number_pair)},
            {
                name: {
                    "bias": compute_difference(group.own.number_pair),
                    CALIBRATION_GAP: compute_difference(group.gap_pair, is_gap=True),
                }
                for name, group in self._measure_groups(names).items()
            },
        )


def _find_non_probability(scores: FloatArray) -> str | None:
    """Return the reason if scores are not probabilities, or None."""
    outside = np.flatnonzero((scores < 0) | (scores > 1))
    if not outside.size:
        return None
    row = int(outside[0])
    return f"scores are not probabilities: got {scores[row]:.6g} (row {row})"


class _ScoreBins(NamedTuple):
    """Rows in bins of equally many rows by score; rows with equal scores share a bin."""

    n: npt.NDArray[np.signedinteger]  # (b,): Number of rows of each bin, at least 1
    mean_score: Floats  # mean_score, share_positive, (b,): weighted means
    share_positive: Floats
    n_effective: Floats  # (b,): Effective number of independent rows of each bin

    @classmethod
    def from_scores(cls, y_score: Floats, sample: CalibrationSample, n_bins: int) -> _ScoreBins:
        """Assign rows to bins."""
        edges = np.quantile(y_score, np.linspace(0, 1, n_bins + 1)[1:-1])
        position = np.searchsorted(edges, y_score)
        n = np.bincount(position)
        position, n = (np.cumsum(n > 0) - 1)[position], n[n > 0]
        weight = np.bincount(position, sample.share)
        score, positive = (
            np.bincount(position, sample.share * values) / weight
            for values in (y_score, sample.y_true)
        )
        bin_share = sample.share / weight[position]
        equal = np.bincount(position, bin_share**2)
        if sample.clusters is None:
            return cls(n, score, positive, 1 / equal)
        moves = bin_share * (sample.y_true - positive[position])
        independent = np.bincount(position, moves**2 / np.maximum(1 - bin_share, bin_share))
        codes = np.unique(sample.clusters, return_inverse=True)[1]
        shape = (int(codes.max()) + 1, n.size)
        cell = codes * n.size + position
        sums, shares = (
            np.bincount(cell, values, shape[0] * shape[1]).astype(np.float64).reshape(shape)
            for values in (moves, bin_share)
        )
        left = 1 - shares
        clustered = (sums**2 / np.where(left > 0, left, 1.0)).sum(axis=0)
        n_effective_clusters = np.array([compute_effective_size(values) for values in shares.T])
        effect = np.maximum(clustered / np.where(independent > 0, independent, 1.0), 1.0)
        n_effective = np.maximum(
            np.where(independent > 0, 1 / equal / effect, n_effective_clusters), 1.0
        )
        return cls(n, score, positive, n_effective)


def make_curve(
    n: npt.NDArray[np.signedinteger],
    mean_score: Floats,
    share_positive: Floats,
    n_effective: Floats,
    confidence: float,
) -> tuple[ReliabilityBin, ...]:
    """Return bins with confidence bands: Wilson's interval for the effective number of rows."""
    z = student_quantile(confidence)
    bins = []
    for rows, score, share, size in zip(n, mean_score, share_positive, n_effective, strict=True):
        low, high = wilson_interval(float(share), size, z)
        ends = max(float(low), 0.0), min(float(high), 1.0)
        bins.append(ReliabilityBin(int(rows), float(score), float(share), *ends))
    return tuple(bins)
