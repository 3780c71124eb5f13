"""A number with its uncertainty, or the reason why it is undefined."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from bias_metrics._core.intervals import check_confidence

NOT_REQUESTED = "intervals were not asked for"
UNDEFINED = "undefined"


class Estimate:
    """A number with its interval: `value`, `std_error`, `low`, `high`, `n_clusters`, `reason`."""

    value: float | None
    std_error: float | None
    low: float | None
    high: float | None
    n_clusters: int | None
    reason: str | None
    _measure: ClassVar[Any] = None  # a function of the confidence

    def attach_measure(self, measure: Callable[[float], Any]) -> Self:
        """Attach a function that computes the number with an interval at any confidence.

        A copy changed by `dataclasses.replace` loses the function.
        """
        number = copy(self)
        object.__setattr__(number, "_measure", measure)
        return number

    def change_confidence(self, confidence: float) -> Self:
        """Return the number with its interval at another confidence.

        Raises
        ------
        ValueError
            If the number lacks this function, as after reading it from a file.
        """
        check_confidence(confidence)
        if self._measure is None:
            msg = "this number has no interval at another confidence; measure it with `confidence`."
            raise ValueError(msg)
        number: Any = self._measure(confidence)
        return cast("Self", number.attach_measure(self._measure))

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the confidence interval; each end of a 90 % interval is a one-sided 95 % bound.

        Raises
        ------
        ValueError
            As `change_confidence`; or, with the reason, if the interval is undefined.
        """
        number = self.change_confidence(confidence)
        if number.ends is None:
            msg = f"this number has no interval: {number.reason}."
            raise ValueError(msg)
        return number.ends

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    @property
    def ends(self) -> tuple[float, float] | None:
        """The interval; None if it is undefined."""
        return None if self.low is None or self.high is None else (self.low, self.high)


@dataclass(frozen=True, repr=False)
class MetricValue(Estimate):
    """Value and confidence interval of a metric, or the reason why it is undefined.

    It behaves like its number: `float(auc)`, `round(auc, 3)`, `auc < 0.8`, `auc == 0.5` and
    `f"{auc:.3f}"`. It does not support arithmetic, because the difference of two metrics needs its
    own interval: see `compare_bias`.

    An undefined value is not a number, and not NaN. `float()`, `round()` and `<` raise
    ValueError with the reason, so that `auc < 0.8` cannot silently skip a group. It does not equal
    any number, and prints as `undefined`.
    """

    value: float | None
    """None when the metric is undefined; never NaN or infinite."""
    reason: str | None = None
    """Why `value`, or only the interval, is None."""
    std_error: float | None = None
    """Standard error of `value`."""
    low: float | None = None
    high: float | None = None
    """Confidence interval; both are None if it is undefined."""
    row_std_error: float | None = None
    """If `std_error` allows for clusters: the standard error for independent rows."""
    n_clusters: int | None = None
    """If `std_error` allows for clusters: the number of clusters."""

    def __float__(self) -> float:
        if self.value is None:
            msg = f"an undefined value has no number: {self.reason}. Test `.value is None` first."
            raise ValueError(msg)
        return self.value

    def __round__(self, digits: int | None = None) -> float:
        return round(float(self), digits)

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        return UNDEFINED if self.value is None else format(self.value, spec)

    def __str__(self) -> str:
        if self.value is None:
            return f"{UNDEFINED} ({self.reason})"
        if self.low is None or self.high is None:
            return f"{self.value:.3f}"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, MetricValue):
            return all(
                getattr(self, field.name) == getattr(other, field.name) for field in fields(self)
            )
        return bool(self.value == other) if isinstance(other, Real) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)  # equal to the hash of the number

    def __lt__(self, other: Any) -> Any:
        return _compare_numbers(self, other, float.__lt__)

    def __le__(self, other: Any) -> Any:
        return _compare_numbers(self, other, float.__le__)

    def __gt__(self, other: Any) -> Any:
        return _compare_numbers(self, other, float.__gt__)

    def __ge__(self, other: Any) -> Any:
        return _compare_numbers(self, other, float.__ge__)

    def to_dict(self, *, interval: bool = False) -> dict[str, float | str | None]:
        """Return `value`, with `interval` also its uncertainty, and any `reason`."""
        if not interval:
            short: dict[str, float | str | None] = {"value": self.value}
            return short if self.reason is None else short | {"reason": self.reason}
        numbers: dict[str, float | str | None] = {
            "value": self.value,
            "std_error": self.std_error,
            "low": self.low,
            "high": self.high,
        }
        if self.row_std_error is not None:
            numbers["row_std_error"] = self.row_std_error
        if self.n_clusters is not None:
            numbers["n_clusters"] = self.n_clusters
        reason = self.reason or (NOT_REQUESTED if self.low is None else None)
        return numbers if reason is None else numbers | {"reason": reason}


def _compare_numbers(
    value: MetricValue, other: Any, compare: Callable[[float, float], bool]
) -> Any:
    if not isinstance(other, MetricValue | Real):
        return NotImplemented
    return compare(float(value), float(other))


def make_undefined(reason: str) -> MetricValue:
    """Return an undefined value with its reason."""
    return MetricValue(None, reason=reason)


# ---- Numbers by name, accessible as items or as attributes


V = TypeVar("V")


class NamedValues(dict[str, V], Generic[V]):
    """Numbers by the name of their metric: `numbers["bpsn_auc"]` is `numbers.bpsn_auc`.

    So attributes and the keys of `to_dict()` have the same path to a number.
    """

    def __getattr__(self, name: str) -> V:
        try:
            return self[name]
        except KeyError:
            msg = f"there is no {name!r} (known: {', '.join(self) or 'none'})"
            raise AttributeError(msg) from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]
