"""Numbers with the moves of their rows: their intervals, and their differences."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bias_metrics._core.counted import too_few
from bias_metrics._core.covariance import Joint
from bias_metrics._core.difference_rule import less, negated, paired, sized, undefined_difference
from bias_metrics._core.differences import Difference
from bias_metrics._core.intervals import MIN_CLUSTERS, quantile
from bias_metrics._core.placements import inner, squares_of
from bias_metrics._core.values import MetricValue, undefined
from bias_metrics.calibration.estimates import Moves

_LEAST = 2.0
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Number:
    """A number and its moves.

    Attributes
    ----------
    value : float or None
        The number.
    reason : str or None
        Why there is no value.
    largest : float
        Largest possible size.
    worth : float
        How many rows of equal weight it rests on.
    rows : Moves
        By row.
    clusters : Moves or None
        By cluster, if rows come in clusters.
    n_clusters : int
        Clusters behind it.
    least : float, default=None
        Smallest possible value; by default `-largest`.
    """

    value: float | None
    reason: str | None
    largest: float
    worth: float
    rows: Moves
    clusters: Moves | None = None
    n_clusters: int = 0
    least: float | None = None

    @property
    def moves(self) -> Moves:
        """By cluster, if rows come in clusters."""
        return self.clusters or self.rows

    def measured(self, confidence: float) -> MetricValue:
        """Return the number with its interval, symmetric around it within the possible range."""
        if self.value is None:
            return undefined(self.reason or "")
        if self.worth < _LEAST - _ROUNDING:
            return MetricValue(self.value, "fewer than 2 rows in subgroup or background")
        moves = self.moves
        reach = quantile(confidence, moves.freedom) * moves.std_error
        least = -self.largest if self.least is None else self.least
        low, high = max(self.value - reach, least), min(self.value + reach, self.largest)
        found = MetricValue(self.value, std_error=moves.std_error, low=low, high=high)
        if self.clusters is None:
            return found
        found = replace(found, row_std_error=self.rows.std_error, n_clusters=self.n_clusters)
        reason = self._few()
        return replace(found, low=None, high=None, reason=reason) if reason else found

    def minus(self, other: Number, largest: float) -> Number:
        """Return the difference of the numbers of a subgroup and its background."""
        known = self.value is not None and other.value is not None
        clusters = None
        if self.clusters is not None and other.clusters is not None:
            clusters = self.clusters.less(other.clusters)
        return Number(
            self.value - other.value if known else None,  # type: ignore[operator]
            None if known else _lacking(self, other),
            largest,
            min(self.worth, other.worth),
            _rows_less(self.rows, other.rows),
            clusters,
            min(self.n_clusters, other.n_clusters),
        )

    def changed(self, other: Number, confidence: float, *, is_gap: bool) -> Difference:
        """Return this model's number minus another's, of the same rows."""
        a, b = self.measured(confidence), other.measured(confidence)
        if a.std_error is None or b.std_error is None:
            return undefined_difference(a, b)
        own, others = self.moves, other.moves
        apart = _rows_less(own, others) if self.clusters is None else own.less(others)
        if self.clusters is not None and (reason := self._few()):
            found = Difference(a.value, b.value, less(a, b), apart.std_error, reason=reason)
            return replace(found, n_clusters=self.n_clusters)
        together = Joint(inner(own.each, others.each), (0.0, 0.0, 0.0, 0.0))
        found = paired(a, b, together, confidence, apart.freedom, small=True)
        if is_gap:
            opposite = together.negated()
            total = paired(a, negated(b), opposite, confidence, apart.freedom, small=True)
            found = sized(found, total, b, confidence)
        return found if self.clusters is None else replace(found, n_clusters=self.n_clusters)

    def _few(self) -> str | None:
        if self.n_clusters >= MIN_CLUSTERS:
            return None
        return too_few(self.n_clusters, "cluster", MIN_CLUSTERS)


def _rows_less(one: Moves, other: Moves) -> Moves:
    each = one.each - other.each
    return Moves(each, squares_of([each])[1])


def _lacking(own: Number, other: Number) -> str:
    if own.value is None:
        return f"subgroup: {own.reason}"
    return f"background: {other.reason}"
