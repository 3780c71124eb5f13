"""Nights are a source of variance: the rows of one night may all be off in the same direction.

An interval from pooled rows takes them as independent. Where a model's scores shift from night to
night, or what people write does, numbers vary more than that. So each number has a second standard
error, from how far whole nights move it. If that is the larger one, the interval becomes as much
wider. A few nights say next to nothing about how nights differ: before the fifth there is no
interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bias_metrics.metrics import AUCS

LEAST_NIGHTS = 5
_TOO_FEW = f"how much nights differ is not known before night {LEAST_NIGHTS}"
_SHARES = frozenset({*AUCS, "auc", "final_score"})
_P_VALUES = ("p_value", "p_holm", "p_bh")
_ENDS = ("low", "high", "size_low", "size_high")
Cell = Mapping[str, Any]


def with_night_variance(found: Cell, by_night: Cell, *, n_nights: int) -> dict[str, Any]:
    """Return numbers of pooled rows with intervals that allow for nights.

    Parameters
    ----------
    found : mapping
        What `to_dict()` of a report or a comparison gives, of the rows of all nights.
    by_night : mapping
        The same of the same rows with the night of each row as its cluster. Its standard errors
        count; that it has no intervals for few clusters does not matter.
    n_nights : int
        How many nights there are, at least 1.

    Returns
    -------
    dict
        As `found`. Where whole nights move a number more than its rows would, its interval is
        wider and it has no p-values. With fewer than 5 nights no number that varies has one.

    Raises
    ------
    ValueError
        If `n_nights` is less than 1.

    Notes
    -----
    It allows for shifts that are random and independent from night to night, not for a trend. The
    quantile stays that of the interval, not Student's for the nights less one, so that equal nights
    cost little. So while nights are few, and differ much more than their rows, bounds err more
    often than they say.

    References
    ----------
    Bell and McCaffrey (2002), Survey Methodology 28 (few clusters).

    Examples
    --------
    >>> cell = {"value": 0.9, "std_error": 0.01, "low": 0.88, "high": 0.92}
    >>> nights = {"auc": {"value": 0.9, "std_error": 0.02}}
    >>> wider = with_night_variance({"auc": cell}, nights, n_nights=10)["auc"]
    >>> round(wider["low"], 3), round(wider["high"], 3)
    (0.86, 0.94)
    """
    if n_nights < 1:
        msg = f"`n_nights` must be at least 1; got {n_nights}."
        raise ValueError(msg)

    def change(name: str, cell: Cell, of_nights: Cell) -> dict[str, Any]:
        error, larger = cell["std_error"], of_nights.get("std_error")
        if not error:  # such as two models with the same scores
            return dict(cell)
        if n_nights < LEAST_NIGHTS:
            return _without_interval(cell)
        if larger is None or larger <= error:
            return dict(cell)
        return _stretched(name, cell, larger / error) | {"std_error": larger}

    return _changed(found, by_night, change)


def _changed(
    found: Cell, by_night: Cell, change: Callable[[str, Cell, Cell], dict[str, Any]]
) -> dict[str, Any]:
    """Change each number that has a standard error."""
    result: dict[str, Any] = {}
    for name, value in found.items():
        of_nights = by_night.get(name) or {}
        if not isinstance(value, Mapping):
            result[name] = value
        elif "std_error" in value:
            result[name] = change(name, value, of_nights)
        else:
            result[name] = _changed(value, of_nights, change)
    return result


def _without_interval(cell: Cell) -> dict[str, Any]:
    lost = {name: None for name in (*_ENDS, *_P_VALUES) if name in cell}
    return {**cell, **lost, "reason": cell.get("reason") or _TOO_FEW}


def _stretched(name: str, cell: Cell, factor: float) -> dict[str, Any]:
    found = {**cell, **{key: None for key in _P_VALUES if key in cell}}
    for end in _ENDS:
        if cell.get(end) is not None:
            is_size = end.startswith("size")
            centre = abs(cell["first"]) - abs(cell["second"]) if is_size else cell["value"]
            found[end] = centre + factor * (cell[end] - centre)
            if name in _SHARES and "first" not in cell:
                found[end] = min(max(found[end], 0.0), 1.0)
    return found
