"""Two models by counts of the same rows: differences whose bounds hold however they are related.

Counts of one model do not tell which rows another ranks alike. Without counts of pairs, the
standard error of a difference is taken as the largest possible, the sum of the two models' own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bias_metrics._core.covariance import Joint
from bias_metrics._core.differences import (
    Difference,
    less,
    negated,
    paired,
    sized,
    undefined_difference,
    with_unseen_loss,
)
from bias_metrics._core.intervals import few_errors
from bias_metrics._core.values import MetricValue
from bias_metrics.binned.bin_counts import BinCounts
from bias_metrics.binned.pairs import Pairs
from bias_metrics.binned.report import cells_of, compared
from bias_metrics.metrics import METRICS, PAIRS, Metric
from bias_metrics.rows import Background
from bias_metrics.table import BiasTable, Key


def comparison_of(
    models: tuple[BinCounts, BinCounts],
    pairs: BinCounts | None,
    tables: Sequence[BiasTable],
    confidence: float,
) -> BiasTable:
    """Return the differences of two models' tables; see `ScoreCounts.compare`."""
    (first, second), (a, b) = models, tables
    known, sizes = (second, pairs, a.background), cells_of(first, a.background)
    related = first.once(known, lambda: dict(_related(first, *known)))
    numbers: dict[Key, Difference] = {}
    for key in a:
        if key not in related:  # an aggregate
            numbers[key] = _apart(a[key], b[key])
            continue
        together, metric = related[key], METRICS[key.metric]
        numbers[key] = (
            widest(a[key], b[key], metric, confidence, sizes[key].binned.n_drawn)
            if together is None
            else together.difference(a[key], b[key], confidence, is_gap=metric.is_gap)
        )
    return replace(a, numbers=numbers)


@dataclass(frozen=True)
class Related:
    """How two models' numbers are related, and how far binning may move their difference."""

    together: Joint
    wrong: float
    errors: tuple[float, float]
    moved: float
    slack: float
    small: bool
    n_drawn: float

    def difference(
        self, a: MetricValue, b: MetricValue, confidence: float, *, is_gap: bool
    ) -> Difference:
        """Return the difference, whatever the rows that are related in an unknown way do."""
        found = self._apart(a, b, self.together, confidence, is_gap=is_gap)
        if not is_gap:
            return found
        total = self._apart(a, negated(b), self.together.negated(), confidence, is_gap=True)
        return sized(found, total, b, confidence)

    def error(self, together: Joint) -> float:
        """Return the largest standard error that is possible."""
        covariance = together.covariance - self.wrong
        variance = self.errors[0] ** 2 + self.errors[1] ** 2 - 2 * covariance
        return min(math.sqrt(max(variance, 0.0)), sum(self.errors)) + self.moved

    def _apart(
        self, a: MetricValue, b: MetricValue, together: Joint, confidence: float, *, is_gap: bool
    ) -> Difference:
        assert a.std_error is not None  # noqa: S101
        assert b.std_error is not None  # noqa: S101
        square = self.error(together) ** 2
        least = Joint((a.std_error**2 + b.std_error**2 - square) / 2, together.thirds)
        found = paired(a, b, least, confidence, small=self.small)
        found = with_unseen_loss(found, self.n_drawn, confidence, of_auc=not is_gap)
        assert found.ends is not None  # noqa: S101
        low, high = found.ends[0] - self.slack, found.ends[1] + self.slack
        return replace(found, low=low, high=high, p_value=None)


def _related(
    first: BinCounts, second: BinCounts, pairs: BinCounts | None, background: Background
) -> Iterator[tuple[Key, Related | None]]:
    """Yield how the two models' numbers are related, where that is known and both have an error."""
    if pairs is None:
        yield from ((key, None) for key, _, _ in compared(first, background))
        return
    known, of_models = Pairs.of(first, second, pairs), (first, second)
    rows = (compared(of_model, background) for of_model in (*of_models, pairs))
    for (key, *of_first), (_, *of_second), (_, *of_pairs) in zip(*rows, strict=True):
        a, b = (cells_of(counts, background)[key] for counts in of_models)
        y, x = zip(of_first, of_second, of_pairs, strict=True)
        if a.binned.std_error is None or b.binned.std_error is None:
            yield key, None
            continue
        yield (
            key,
            Related(
                *known.together(y, x, flip=key.group is not None and PAIRS[key.metric].flip),
                (a.binned.std_error - a.moved, b.binned.std_error - b.moved),
                a.moved + b.moved,
                a.slack + b.slack,
                any(few_errors(cell.binned.value or 0.0, *cell.binned.sizes) for cell in (a, b)),
                a.binned.n_drawn,
            ),
        )


def widest(
    a: MetricValue, b: MetricValue, metric: Metric, confidence: float, n_drawn: float = math.inf
) -> Difference:
    """Return the difference of two numbers, however their errors are related."""
    found, total = (
        with_unseen_loss(_apart(a, other), n_drawn, confidence, of_auc=not metric.is_gap)
        for other in (b, negated(b))
    )
    return sized(found, total, b, confidence) if metric.is_gap else found


def _apart(a: MetricValue, b: MetricValue) -> Difference:
    value = less(a, b)
    if value is None or a.low is None or a.high is None or b.low is None or b.high is None:
        return undefined_difference(a, b)
    low, high = a.low - b.high, a.high - b.low
    error = None
    if a.std_error is not None and b.std_error is not None:
        error = a.std_error + b.std_error
    return Difference(a.value, b.value, value, error, low, high)


def refuse_other_rows(first: BinCounts, *others: BinCounts) -> None:
    """Refuse counts of models unless they are of the same rows, as far as counts tell."""
    of_rows: Mapping[str, Callable[[BinCounts], Any]] = {
        "shards": lambda counts: counts.shards,
        "names": lambda counts: counts.names,
        "numbers of rows": lambda counts: [
            np.sum(getattr(counts, of), axis=-1).tolist()
            for of in ("everyone", "anyone", "subgroups")
        ],
    }
    for what, of in of_rows.items():
        if any(of(first) != of(other) for other in others):
            msg = f"counts that are compared must be of the same rows; their {what} differ."
            raise ValueError(msg)
