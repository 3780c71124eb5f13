"""Whether tonight's rows differ from those of earlier nights by more than chance."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bias_metrics._core.checks import check_choice, check_rng
from bias_metrics._core.covariance import Joint
from bias_metrics._core.differences import paired
from bias_metrics._core.intervals import quantile
from bias_metrics._core.tables import Row, Tabular
from bias_metrics.binned.counts import ScoreCounts
from bias_metrics.binned.report import Cell, compared
from bias_metrics.drift.nights import OVERALL, Exchange, Key, Night, Union, numbers_of, p_values
from bias_metrics.estimate import Estimate
from bias_metrics.rows import BACKGROUNDS, Background
from bias_metrics.thresholds.shares import Share, ShareGap

ALPHA = 0.01
CONFIDENCE = 0.95
LEAST = 10
"""So many rows of the smallest class of a number must be new, gone or changed on the average."""
_EMPTY = "no rows in a class"
_FEW = "too few rows differ between the nights"


@dataclass(frozen=True)
class Change:
    """How one number changed."""

    metric: str
    group: str
    """metric, group: the number, and its subgroup, or `overall`."""
    before: float | None
    now: float | None
    """before, now: its values; None if a class of rows is empty."""
    change: float | None = None
    low: float | None = None
    high: float | None = None
    """change, low, high: `now - before`, and a 95 % interval for each number on its own."""
    p_value: float | None = None
    """The chance of a change as large in any number, if nothing changed; None if it is not
    judged."""
    drifted: bool = False
    """Whether `p_value` is at most the chance of a wrong alarm."""
    reason: str | None = None
    """Why it is not judged."""


@dataclass(frozen=True)
class Drift(Tabular):
    """What changed."""

    changes: tuple[Change, ...]
    """All numbers."""
    alpha: float
    """The chance of a wrong alarm."""
    n_before: int
    n_now: int
    n_shared: int
    n_changed: int
    """n_before, n_now, n_shared, n_changed: rows of each, ids in both, and how many of these have
    other values now."""
    n_deals: int
    """How often rows were exchanged; never if counts are compared."""

    @property
    def drifted(self) -> tuple[Change, ...]:
        """The numbers that changed by more than chance, the clearest first."""
        found = [change for change in self.changes if change.drifted]
        return tuple(sorted(found, key=lambda change: change.p_value or 0.0))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self) | {"changes": [asdict(change) for change in self.changes]}

    def rows(self) -> list[Row]:
        """Return one record per number."""
        return [asdict(change) for change in self.changes]


def metric_drift(
    before: Mapping[str, Any] | ScoreCounts,
    now: Mapping[str, Any] | ScoreCounts,
    *,
    rng: np.random.Generator | None = None,
    alpha: float = ALPHA,
    background: Background = "outside_subgroup",
) -> Drift:
    """Compare the metrics of one unchanged model on earlier rows and on tonight's.

    The overall AUC and the five Borkan metrics of every subgroup. If neither the comments nor the
    model changed, an alarm has at most the chance `alpha`, over all numbers together; no number
    needs to be normal for that. Rows in both sets count: where all are the same, nothing differs.

    Parameters
    ----------
    before, now : mapping or ScoreCounts
        The rows of earlier nights, each once, and those of tonight. Keys: `id`, different for each
        row and the same in both where the comment is; `y_true`, `y_score` and `subgroups` as in
        `evaluate_bias`; if wanted `sample_weight` and `clusters`, whose names are the same in both.
        Or the counts of both, which do not tell whether a row is in both: it must not be. Instead
        of an exchange, the interval of each number decides, at the chance of a wrong alarm divided
        by the number of numbers, and as much wider as binning requires.
    rng : numpy.random.Generator, optional
        Exchanges rows; counts need none.
    alpha : float, default=0.01
        The chance of a wrong alarm, above 0 and below 1.
    background : {"outside_subgroup", "no_identity"}
        As in `evaluate_bias`.

    Returns
    -------
    Drift
        Its `drifted` are the alarms. A number without about ten rows that differ between the nights
        in each of its classes is not judged, with a `reason`.

    Raises
    ------
    ValueError
        If an argument is missing, only one of both has it, or an id is given twice; if counts share
        a shard, or have other bins or subgroups.

    References
    ----------
    Westfall and Young (1993), Resampling-Based Multiple Testing, section 2.5 (the largest of many);
    Besag and Clifford (1991), Biometrika 78 (when to stop).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> toxic = rng.random(4000) < 0.5
    >>> night = {"id": np.arange(4000), "y_true": toxic, "y_score": toxic + rng.normal(size=4000)}
    >>> night["subgroups"] = {"gay": rng.random(4000) < 0.3}
    >>> split = [
    ...     {key: values[half] for key, values in night.items() if key != "subgroups"}
    ...     | {"subgroups": {"gay": night["subgroups"]["gay"][half]}}
    ...     for half in (slice(2000), slice(2000, None))
    ... ]
    >>> metric_drift(*split, rng=rng).drifted
    ()
    """
    return _drift(before, now, rng, alpha, background, scored=True)


def data_drift(
    before: Mapping[str, Any] | ScoreCounts,
    now: Mapping[str, Any] | ScoreCounts,
    *,
    rng: np.random.Generator | None = None,
    alpha: float = ALPHA,
) -> Drift:
    """Compare earlier comments with tonight's.

    The share of each subgroup (`share`), the share of toxic rows in all and in each subgroup
    (`toxic_share`) and, if it is given, the mean `length`. If nothing changed, an alarm has at
    most the chance `alpha`, over all numbers together.

    Parameters
    ----------
    before, now : mapping or ScoreCounts
        As in `metric_drift`, without `y_score`; if wanted with `length`, a number for each row.
    rng : numpy.random.Generator, optional
        Exchanges rows; counts need none.
    alpha : float, default=0.01
        The chance of a wrong alarm, above 0 and below 1.

    Returns
    -------
    Drift
        As `metric_drift`.

    Raises
    ------
    ValueError
        As `metric_drift`.

    References
    ----------
    As `metric_drift`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> first, second = (
    ...     {"id": ids, "y_true": rng.random(2000) < share, "subgroups": {}}
    ...     for ids, share in ((np.arange(2000), 0.1), (np.arange(2000, 4000), 0.2))
    ... )
    >>> [found.metric for found in data_drift(first, second, rng=rng).drifted]
    ['toxic_share']
    """
    return _drift(before, now, rng, alpha, "outside_subgroup", scored=False)


def _drift(
    before: Mapping[str, Any] | ScoreCounts,
    now: Mapping[str, Any] | ScoreCounts,
    rng: np.random.Generator | None,
    alpha: float,
    background: Background,
    *,
    scored: bool,
) -> Drift:
    check_choice("background", background, BACKGROUNDS)
    if not 0 < alpha < 1:
        msg = f"`alpha` must be above 0 and below 1, as in 0.01; got {alpha}."
        raise ValueError(msg)
    if isinstance(before, ScoreCounts) and isinstance(now, ScoreCounts):
        before.refuse_sum(now)
        moved = metrics_of(before, now, background) if scored else data_of(before, now)
        return _of_counts(dict(moved), alpha, before.n, now.n)
    if isinstance(before, ScoreCounts) or isinstance(now, ScoreCounts):
        msg = "`before` and `now` must both be rows or both be counts; only one is counts."
        raise TypeError(msg)
    rng = check_rng(rng)
    sides = {name: Night.of(given, name) for name, given in (("before", before), ("now", now))}
    for name, night in sides.items():
        if (night.y_score is not None) != scored or night.rows.n == 0:
            msg = f"`{name}` must have rows {'with' if scored else 'without'} `y_score`."
            raise ValueError(msg)
    union = Union.of(sides["before"], sides["now"])
    numbers = numbers_of(union.rows, background).values()
    exchange = Exchange.of(union, np.stack([estimate.influence for estimate in numbers], axis=1))
    enough = exchange.moving * np.array([estimate.n_effective for estimate in numbers]) >= LEAST
    judged = enough | (exchange.std_error == 0)  # nothing can differ
    found, n_deals = p_values(exchange, judged, alpha, rng)
    old, new = (numbers_of(night, background) for night in sides.values())
    changes = tuple(
        _change(key, number, new[key], _error(union, number, new[key]), float(p_value), alpha)
        for (key, number), p_value in zip(old.items(), found, strict=True)
    )
    n_before, n_now = (night.rows.n for night in sides.values())
    return Drift(changes, alpha, n_before, n_now, union.n_shared, union.n_changed, n_deals)


def _of_counts(numbers: Mapping[Key, Moved], alpha: float, n_before: int, n_now: int) -> Drift:
    """Judge the numbers of two nights that share no row."""
    moving = min(n_before, n_now) / max(n_before + n_now, 1)
    judged = {
        key: number.p_value()
        for key, number in numbers.items()
        if moving * number.n_least >= LEAST and number.interval(CONFIDENCE) is not None
    }
    changes = []
    for key, number in numbers.items():
        if number.before is None or number.now is None:
            changes.append(Change(*key, number.before, number.now, reason=_EMPTY))
            continue
        low, high = number.interval(CONFIDENCE) or (None, None)
        p_value = min(len(judged) * judged[key], 1.0) if key in judged else None
        changes.append(
            Change(
                *key,
                number.before,
                number.now,
                number.now - number.before,
                low,
                high,
                p_value,
                drifted=p_value is not None and p_value <= alpha,
                reason=None if key in judged else _FEW,
            )
        )
    return Drift(tuple(changes), alpha, n_before, n_now, n_shared=0, n_changed=0, n_deals=0)


def _error(union: Union, old: Estimate, new: Estimate) -> float:
    """Return the standard error of a difference; rows in both nights are not independent."""
    moved = np.zeros(union.in_before.size)
    moved[union.places_now] += new.influence
    moved[union.in_before] -= old.influence
    by_unit = np.bincount(union.unit, weights=moved)
    return math.sqrt(float(by_unit @ by_unit))


def _change(
    key: Key, old: Estimate, new: Estimate, std_error: float, p_value: float, alpha: float
) -> Change:
    if old.value is None or new.value is None:
        return Change(*key, old.value, new.value, reason=_EMPTY)
    change, reach = new.value - old.value, quantile(CONFIDENCE) * std_error
    judged = not math.isnan(p_value)
    return Change(
        *key,
        old.value,
        new.value,
        change,
        change - reach,
        change + reach,
        p_value if judged else None,
        drifted=judged and p_value <= alpha,
        reason=None if judged else _FEW,
    )


FINEST = 1e-12
"""No p-value of one number is smaller: quantiles beyond it are rounding errors."""
_STEPS = 16
"""Halvings of the logarithm: a p-value is right to less than one part in a thousand."""
_UNRELATED = Joint(0.0, (0.0, 0.0, 0.0, 0.0))
Ends = tuple[float, float]


@dataclass(frozen=True)
class Moved:
    """A number on both nights, and between which ends its change is at a confidence."""

    before: float | None
    now: float | None
    n_least: int
    """Rows of its smallest class, of both nights together."""
    interval: Callable[[float], Ends | None]

    def p_value(self) -> float:
        """Return the smallest chance of error at which the interval leaves out 0."""
        low, high = FINEST, 1.0
        for _ in range(_STEPS):
            middle = (low * high) ** 0.5
            ends = self.interval(1 - middle)
            assert ends is not None  # noqa: S101 - it is judged
            if ends[0] <= 0 <= ends[1]:
                low = middle
            else:
                high = middle
        return high


def metrics_of(
    before: ScoreCounts, now: ScoreCounts, background: Background
) -> Iterator[tuple[Key, Moved]]:
    """Yield the metrics. Where scores share bins, intervals hold what binning leaves open."""
    cells = [counts.cells(background) for counts in (before, now)]
    nights = [compared(counts, background) for counts in (before, now)]
    for (key, *rows), (_, *others) in zip(*nights, strict=True):
        old, new = (of_night[key] for of_night in cells)
        sizes = [int(x.sum()) + int(y.sum()) for x, y in zip(rows, others, strict=True)]
        first, second = (cell.binned.at(None).value for cell in (old, new))
        name, metric = key
        yield (metric, name or OVERALL), Moved(first, second, min(sizes), _between(old, new))


def _between(old: Cell, new: Cell) -> Callable[[float], Ends | None]:
    def interval(confidence: float) -> Ends | None:
        a, b = (cell.binned.at(confidence) for cell in (new, old))
        if a.std_error is None or b.std_error is None:
            return None
        ends = paired(a, b, _UNRELATED, confidence, small=True).ends
        assert ends is not None  # noqa: S101
        slack = old.slack + new.slack
        return ends[0] - slack, ends[1] + slack

    return interval


def data_of(before: ScoreCounts, now: ScoreCounts) -> Iterator[tuple[Key, Moved]]:
    """Yield the shares of toxic rows and of subgroups."""
    of_nights = [
        {None: counts.everyone.sum(axis=-1).tolist()}
        | {
            name: own.sum(axis=-1).tolist()
            for name, own in zip(counts.names, counts.subgroups, strict=True)
        }
        for counts in (before, now)
    ]
    for name in of_nights[0]:
        if name is not None:
            yield ("share", name), _share(*((sum(of[name]), sum(of[None])) for of in of_nights))
        toxic = ((of[name][0], sum(of[name])) for of in of_nights)
        yield ("toxic_share", name or OVERALL), _share(*toxic)


def _share(before: tuple[int, int], now: tuple[int, int]) -> Moved:
    """Return how many rows have an event, of how many."""
    old, new = (Share(n, (events,), events) for events, n in (before, now))
    gap = ShareGap(new, old, "rows")

    def interval(confidence: float) -> Ends | None:
        found = gap.measure(confidence)
        return None if found.low is None or found.high is None else (found.low, found.high)

    first, second = (share.value(0) if share.n else None for share in (old, new))
    events = before[0] + now[0]
    return Moved(first, second, min(events, before[1] + now[1] - events), interval)
