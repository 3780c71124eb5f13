"""Calibration by subgroup: how far scores are from being probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import FloatArray
from bias_metrics._core.differences import Difference
from bias_metrics._core.index import aligned
from bias_metrics._core.intervals import check_confidence, effective_number, quantile
from bias_metrics._core.packed import Subgroups
from bias_metrics._core.proportions import wilson_interval
from bias_metrics._core.ranks import Floats, inner
from bias_metrics._core.tables import Row, Table, Tabular, labelled, plain
from bias_metrics._core.values import MetricValue
from bias_metrics.estimate import Change, LinearEstimate, Number
from bias_metrics.metrics import CALIBRATION_GAP, METRICS
from bias_metrics.rows import Places, RowOptions, Rows

N_BINS = 10


@dataclass(frozen=True)
class ReliabilityBin:
    """Rows of similar scores."""

    n: int
    """Number of rows."""
    mean_score: float
    share_positive: float
    """mean_score, share_positive: their mean score, and the share of positives among them; equal if
    calibrated."""
    low: float
    high: float
    """low, high: band of the share."""


@dataclass(frozen=True)
class Calibrated(Tabular):
    """The calibration of some rows."""

    n: int
    n_positive: int
    """n, n_positive: rows, and positives among them."""
    bias: MetricValue
    """Mean score minus the share of positives; 0 if calibrated in the mean."""
    reliability: tuple[ReliabilityBin, ...] = ()
    """The bins, by ascending score; none of a background."""


@dataclass(frozen=True)
class CalibrationReport(Tabular):
    """Calibration of all rows and of each subgroup."""

    overall: Calibrated
    """All rows."""
    subgroups: dict[str, Calibrated]
    backgrounds: dict[str, Calibrated]
    """subgroups, backgrounds: each subgroup, and what it is compared with (without bins)."""
    gaps: dict[str, MetricValue]
    """By subgroup the `calibration_gap`: its bias minus its background's."""
    reason: str | None = None
    """Why all numbers are undefined, if scores are not probabilities."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; the gap is next to a subgroup's own numbers."""
        subgroups = {
            name: plain(one)
            | {"background": plain(self.backgrounds[name])}
            | {CALIBRATION_GAP: plain(self.gaps[name])}
            for name, one in self.subgroups.items()
        }
        found = {"overall": plain(self.overall), "subgroups": subgroups}
        return found if self.reason is None else found | {"reason": self.reason}

    def rows(self) -> list[Row]:
        """Return one record per number of each subgroup and of all rows (whose name is None)."""
        every: dict[Any, Calibrated] = {**self.subgroups, None: self.overall}
        return labelled(
            "subgroup",
            {
                name: [
                    {"metric": metric, "n": one.n, "n_positive": one.n_positive}
                    | {key: getattr(value, key) for key in _PARTS}
                    for metric, value in self._numbers(name, one).items()
                ]
                for name, one in every.items()
            },
        )

    def _numbers(self, name: str | None, one: Calibrated) -> dict[str, MetricValue]:
        gap = {} if name is None else {CALIBRATION_GAP: self.gaps[name]}
        return {"bias": one.bias} | gap

    def _table(self) -> Table:
        return Table(
            ["subgroup", "n", "bias", CALIBRATION_GAP],
            [
                [name, f"{one.n:,}", *map(str, self._numbers(name, one).values())]
                for name, one in self.subgroups.items()
            ],
            f"{self.overall.n:,} rows: bias {self.overall.bias}",
        )


_PARTS = ("value", "std_error", "low", "high", "reason")


@dataclass(frozen=True)
class CalibrationComparison(Tabular):
    """The calibration of two models on the same rows."""

    overall: dict[str, Difference]
    """The `bias` of all rows, the first model minus the second."""
    subgroups: dict[str, dict[str, Difference]]
    """The `bias` and the `calibration_gap` of each subgroup."""

    def rows(self) -> list[Row]:
        """Return one record per difference; those of all rows have no subgroup."""
        every: dict[Any, dict[str, Difference]] = {**self.subgroups, None: self.overall}
        return labelled(
            "subgroup",
            {
                name: [{"metric": metric} | one.rows()[0] for metric, one in cells.items()]
                for name, cells in every.items()
            },
        )


@aligned
def calibration_report(
    y_true: npt.ArrayLike | Rows,
    y_score: npt.ArrayLike,
    subgroups: Subgroups | None = None,
    *,
    confidence: float = 0.95,
    n_bins: int = N_BINS,
    **options: Unpack[RowOptions],
) -> CalibrationReport:
    """Measure whether scores are probabilities, for each subgroup and its background.

    Scores of .8 are calibrated if 80 % of such rows are positive. AUCs cannot tell: they only use
    the order of scores. A threshold has the same meaning for two subgroups only if both are
    calibrated.

    Parameters
    ----------
    y_true : bool array of shape (n,), or Rows
        True for the positive (toxic) class. `Rows` have the subgroups too.
    y_score : float array of shape (n,)
        Probabilities. If any is outside [0, 1], all numbers are undefined, with that reason.
    subgroups : mapping of str to bool array of shape (n,), data frame, or column of names
        As in `evaluate_bias`; not with `Rows`.
    confidence : float, default=0.95
        Confidence of each interval and of the bands.
    n_bins : int, default=10
        Bins of equally many rows, at least 2; fewer where scores are tied.
    **options
        `sample_weight`, `weight_kind`, `clusters`, `background` as in `evaluate_bias`; not with
        `Rows`.

    Returns
    -------
    CalibrationReport
        For each subgroup `bias` (mean score minus share of positives, ideal 0) and `reliability`,
        the bias of its background, and their difference, the `calibration_gap` (ideal 0): above 0,
        the subgroup's scores are too high compared with others.

    Raises
    ------
    ValueError, TypeError
        If scores are of another number or not finite, or `n_bins` is below 2.

    Notes
    -----
    Intervals are linearised, with Student's quantile for as many degrees of freedom as the fourth
    moments of the influences, or the clusters, allow. With fewer than 20 positives or negatives
    they reach as far as the share of positives may lie, by Wilson's interval with the variance that
    the scores leave open.

    References
    ----------
    Pleiss et al. (2017), Advances in Neural Information Processing Systems 30 (calibration of each
    group). Wilson (1927), Journal of the American Statistical Association 22 (interval of a share).

    Examples
    --------
    >>> y_true, gay = [0, 0, 1, 1] * 20, [0] * 40 + [1] * 40
    >>> y_score = [0.3, 0.5, 0.5, 0.7] * 10 + [0.5, 0.7, 0.7, 0.9] * 10
    >>> found = calibration_report(y_true, y_score, {"gay": gay})
    >>> print(found.subgroups["gay"].bias, found.gaps["gay"])
    0.200 [0.066, 0.334] 0.200 [0.014, 0.386]
    """
    if n_bins < 2:
        msg = f"`n_bins` must be at least 2; got {n_bins}."
        raise ValueError(msg)
    level, rows = check_confidence(confidence), Rows.of(y_true, subgroups, **options)
    return MeasuredCalibration(rows, {"y_score": y_score}, n_bins=n_bins).report(level)


@aligned
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
    y_true : bool array of shape (n,), or Rows
        True for the positive (toxic) class. `Rows` have the subgroups too.
    y_score_a, y_score_b : float array of shape (n,)
        Probabilities of the first model (the candidate) and the second (the champion).
    subgroups : mapping of str to bool array of shape (n,), data frame, or column of names
        As in `evaluate_bias`; not with `Rows`.
    confidence : float, default=0.95
        Confidence of each interval.
    **options
        `sample_weight`, `weight_kind`, `clusters`, `background` as in `evaluate_bias`; not with
        `Rows`.

    Returns
    -------
    CalibrationComparison
        Differences of `bias`, of all rows and of each subgroup; and of each subgroup's gap, with
        bounds on how much wider the first is. For identical scores they are 0 and have zero width.

    Raises
    ------
    ValueError, TypeError
        As `calibration_report`.

    References
    ----------
    Zou (2007), Psychological Methods 12 (intervals of differences from the limits of each).

    Examples
    --------
    >>> y_true, gay = [0, 0, 1, 1] * 20, [0] * 40 + [1] * 40
    >>> a = [0.3, 0.5, 0.5, 0.7] * 20
    >>> b = [0.3, 0.5, 0.5, 0.7] * 10 + [0.5, 0.7, 0.7, 0.9] * 10
    >>> found = compare_calibration(y_true, a, b, {"gay": gay})
    >>> round(found.subgroups["gay"]["bias"].value, 3)
    -0.2
    """
    level, rows = check_confidence(confidence), Rows.of(y_true, subgroups, **options)
    scores = {"y_score_a": y_score_a, "y_score_b": y_score_b}
    return MeasuredCalibration(rows, scores).comparison(level)


@dataclass(frozen=True, eq=False)
class Sample:
    """Some rows, by place: those of a subgroup, of its background, or all; labels are 0 and 1."""

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
        """Clusters with a positive, or with a negative, if they are fewer."""
        if self.clusters is None:
            return 0
        is_positive = self.y_true > 0
        return min(np.unique(self.clusters[rows]).size for rows in (is_positive, ~is_positive))


def bias_of(y_score: Floats, sample: Sample) -> tuple[float, Floats]:
    """Return mean score minus share of positives, and how far each row moves it."""
    apart = y_score - sample.y_true
    mean = inner(sample.share, apart)
    return mean, sample.share * (apart - mean)


def labels_of(y_score: Floats, sample: Sample) -> tuple[float, float, float]:
    """Return the share of positives, its noise and step, see `Positives`."""
    positive, mean = (inner(sample.share, values) for values in (sample.y_true, y_score))
    variance = inner(sample.share, y_score * (1 - y_score))
    noise = min(variance / (mean * (1 - mean)), 1.0) if 0 < mean < 1 else 1.0
    return positive, noise, -1.0


class _Side(NamedTuple):
    """Some rows as measured: one number of each model; bins of one model, where a curve asks."""

    n: int
    n_positive: int
    numbers: Sequence[LinearEstimate]
    bins: _Bins | None = None

    @property
    def change(self) -> Change:
        """Both models' numbers together."""
        first, second = self.numbers
        return first.beside(second)


class _Kept(NamedTuple):
    """What is kept of a side: the influences of its rows would be too much."""

    n: int
    n_positive: int
    number: Number
    change: Change | None
    bins: _Bins | None

    @classmethod
    def of(cls, side: _Side) -> _Kept:
        change = side.change if len(side.numbers) > 1 else None
        return cls(side.n, side.n_positive, side.numbers[0].number, change, side.bins)

    def at(self, confidence: float) -> Calibrated:
        curve = () if self.bins is None else self.bins.curve(confidence)
        return Calibrated(self.n, self.n_positive, self.number.at(confidence), curve)


class _Group(NamedTuple):
    """A subgroup as measured."""

    own: _Kept
    background: _Kept
    gap: Number
    change: Change | None  # Of the gap, if there are two models


class MeasuredCalibration:
    """One or two models' calibration, measured once; reported at any confidence.

    Parameters and errors are those of `calibration_report`; `scores` are by the name of their
    argument, one or two of them.
    """

    def __init__(
        self, rows: Rows, scores: Mapping[str, npt.ArrayLike], *, n_bins: int = N_BINS
    ) -> None:
        self._rows, of_models = rows.counted(*(rows.scores(*each) for each in scores.items()))
        self.names = list(self._rows.subgroups)
        self.reason = next(filter(None, map(_no_probabilities, of_models)), None)
        self._scores = [of_model.astype(np.float64) for of_model in of_models]
        self._labels = self._rows.y_true.astype(np.float64)
        weights = self._rows.sample_weight
        self._weights = np.ones(self._rows.n) if weights is None else weights.astype(np.float64)
        self._n_bins = n_bins
        self._groups: dict[str, _Group] = {}

    @cached_property
    def _everyone(self) -> _Kept:
        return _Kept.of(self._measure(np.arange(self._rows.n)))

    def _measure(self, places: Places, *, curve: bool = True) -> _Side:
        clusters = None if self._rows.clusters is None else self._rows.clusters[places]
        sample = Sample(places, self._labels[places], self._weights[places], clusters)
        has_bins = curve and len(self._scores) == 1 and self.reason is None and places.size
        bins = _Bins.of(self._scores[0][places], sample, self._n_bins) if has_bins else None
        numbers = [self._number(scores, sample) for scores in self._scores]
        return _Side(places.size, int(np.count_nonzero(sample.y_true)), numbers, bins)

    def _number(self, of_model: Floats, sample: Sample) -> LinearEstimate:
        n, places = self._rows.n, sample.rows
        if self.reason is not None or not places.size:
            return LinearEstimate.undefined(self.reason or "no rows", n)
        value, influence = bias_of(of_model[places], sample)
        found = LinearEstimate.of(
            value,
            influence,
            places,
            sample.weight,
            n,
            clusters=self._rows.clusters,
            bounds=(-1.0, 1.0),
        )
        return found.resting_on(*labels_of(of_model[places], sample), sample.mixed_clusters)

    def _asked(self, names: Iterable[str] | None) -> dict[str, _Group]:
        """Return subgroups as measured, default all; those asked for share one background."""
        names = self.names if names is None else list(names)
        wanted = [name for name in names if name not in self._groups]
        excluded, shared = self._rows.excluded, None
        if wanted and excluded is not None:
            shared = self._measure(np.delete(np.arange(self._rows.n), excluded), curve=False)
        for name in wanted:
            mask = self._rows.subgroups[name]
            others = shared or self._measure(np.flatnonzero(~mask), curve=False)
            self._groups[name] = _group(self._measure(np.flatnonzero(mask)), others)
        return {name: self._groups[name] for name in names}

    def report(self, confidence: float, names: Iterable[str] | None = None) -> CalibrationReport:
        """Return the report of one model; `names` are the subgroups, default all."""
        groups = self._asked(names)
        return CalibrationReport(
            self._everyone.at(confidence),
            {name: group.own.at(confidence) for name, group in groups.items()},
            {name: group.background.at(confidence) for name, group in groups.items()},
            {
                name: group.gap.at(confidence).measured_by(group.gap.at)
                for name, group in groups.items()
            },
            self.reason,
        )

    def comparison(
        self, confidence: float, names: Iterable[str] | None = None
    ) -> CalibrationComparison:
        """Return the comparison of two models; `names` are the subgroups, default all."""

        def at(change: Change | None, *, is_gap: bool = False) -> Difference:
            assert change is not None  # noqa: S101 - there are two models
            measure = partial(change.at, is_gap=is_gap)
            return measure(confidence).measured_by(measure)

        return CalibrationComparison(
            {"bias": at(self._everyone.change)},
            {
                name: {
                    "bias": at(group.own.change),
                    CALIBRATION_GAP: at(group.change, is_gap=True),
                }
                for name, group in self._asked(names).items()
            },
        )


def _group(own: _Side, others: _Side) -> _Group:
    largest = METRICS[CALIBRATION_GAP].largest
    gaps = [
        number.minus(other, (-largest, largest))
        for number, other in zip(own.numbers, others.numbers, strict=True)
    ]
    change = gaps[0].beside(gaps[1]) if len(gaps) > 1 else None
    return _Group(_Kept.of(own), _Kept.of(others), gaps[0].number, change)


def _no_probabilities(scores: FloatArray) -> str | None:
    """Say that scores are not probabilities, if so."""
    outside = np.flatnonzero((scores < 0) | (scores > 1))
    if not outside.size:
        return None
    row = int(outside[0])
    return f"scores are not probabilities: got {scores[row]:.6g} (row {row})"


@dataclass(frozen=True, eq=False)
class _Bins:
    """Rows in bins of equally many by score; rows of the same score share a bin."""

    n: npt.NDArray[np.signedinteger]  # (b,): Rows of each bin, at least 1
    mean_score: Floats  # mean_score, share_positive, (b,): weighted means
    share_positive: Floats
    worth: Floats  # (b,): How many independent rows each bin is worth

    @classmethod
    def of(cls, y_score: Floats, sample: Sample, n_bins: int) -> _Bins:
        """Put rows into bins."""
        edges = np.quantile(y_score, np.linspace(0, 1, n_bins + 1)[1:-1])
        at = np.searchsorted(edges, y_score)
        n = np.bincount(at)
        at, n = (np.cumsum(n > 0) - 1)[at], n[n > 0]
        weight = np.bincount(at, sample.share)
        score, positive = (
            np.bincount(at, sample.share * one) / weight for one in (y_score, sample.y_true)
        )
        own = sample.share / weight[at]
        equal = np.bincount(at, own**2)
        if sample.clusters is None:
            return cls(n, score, positive, 1 / equal)
        moves = own * (sample.y_true - positive[at])
        alone = np.bincount(at, moves**2 / np.maximum(1 - own, own))
        codes = np.unique(sample.clusters, return_inverse=True)[1]
        shape = (int(codes.max()) + 1, n.size)
        cell = codes * n.size + at
        sums, shares = (
            np.bincount(cell, one, shape[0] * shape[1]).astype(np.float64).reshape(shape)
            for one in (moves, own)
        )
        left = 1 - shares
        together = (sums**2 / np.where(left > 0, left, 1.0)).sum(axis=0)
        of_clusters = np.array([effective_number(one) for one in shares.T])
        effect = np.maximum(together / np.where(alone > 0, alone, 1.0), 1.0)
        worth = np.maximum(np.where(alone > 0, 1 / equal / effect, of_clusters), 1.0)
        return cls(n, score, positive, worth)

    def curve(self, confidence: float) -> tuple[ReliabilityBin, ...]:
        """Return the bins with bands."""
        return curve_of(self.n, self.mean_score, self.share_positive, self.worth, confidence)


def curve_of(
    n: npt.NDArray[np.signedinteger],
    mean_score: Floats,
    share_positive: Floats,
    worth: Floats,
    confidence: float,
) -> tuple[ReliabilityBin, ...]:
    """Return bins with bands, by Wilson's interval for as many rows as each is worth."""
    z = quantile(confidence)
    return tuple(
        ReliabilityBin(int(rows), float(score), float(share), *_band(float(share), of_bin, z))
        for rows, score, share, of_bin in zip(n, mean_score, share_positive, worth, strict=True)
    )


def _band(share: float, worth: float, z: float) -> tuple[float, float]:
    low, high = wilson_interval(share, worth, z)
    return max(float(low), 0.0), min(float(high), 1.0)
