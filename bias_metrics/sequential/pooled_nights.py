"""Bounds that hold at every look together, however often somebody looks.

A 95 % bound errs in 5 of 100 cases if it is looked at once. Looked at every night while rows
accumulate, it errs in 21 of 100 cases within 20 nights. A confidence sequence is wider, by a factor
that depends on the number of rows alone, so that it errs in at most 5 of 100 cases over all nights.

The factor is that of the normal mixture. Let Z be how many standard errors an estimate from n rows
lies from the truth, and r = n / rho. If the estimate is normal,

    M = 2 (1 + r)^(-1/2) exp(Z^2 r / (2 (1 + r))) Phi(Z (r / (1 + r))^(1/2))

is a nonnegative martingale over the nights that starts at 1. By Ville's inequality, it ever reaches
1 / alpha with a chance of at most alpha. The Z with M = 1 / alpha is what replaces the normal
quantile. `rho` is chosen in advance, so that Z is near its smallest at the planned number of rows.

Estimates from many rows are normal, and so are their changes from night to night (asymptotic
confidence sequences). With few rows, the interval's own caution counts: Student's quantile,
Newcombe's interval, or no interval at all.

Nights are a source of variance, too: the rows of one night may all be off in the same direction. An
interval from pooled rows takes them as independent. Where a model's scores shift from night to
night, or what people write does, numbers vary more than that. So each number has a second standard
error, from how far whole nights move it. If that is the larger one, the interval becomes wider.
What a few nights show is itself uncertain: the part of the variance that they alone show has
Student's quantile, for the nights less one. Before the fifth night there is no interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.intervals import check_confidence, quantile
from bias_metrics.metrics import AUCS

_NORMAL = NormalDist()
_BISECTIONS = 100
# A chance of error, at one look, that is not told from 0: then the bounds need not be wider.
_NEVER = 5e-13


def always_valid_confidence(confidence: float, n_rows: int, *, planned_rows: int) -> float:
    """Return the confidence of an interval for one look, so that it holds at all looks together.

    Measure the rows of all nights so far with this confidence: each end of the intervals is then a
    one-sided bound that holds at every night together, with the chance that each end of a
    `confidence` interval has for one night. Never look at the numbers to choose `planned_rows`,
    and never use a row twice.

    Parameters
    ----------
    confidence : float
        Two-sided confidence that is wanted over all looks, as in `compare_bias`. Each end errs
        with a chance of `(1 - confidence) / 2`.
    n_rows : int
        Rows so far, of all nights, at least 1.
    planned_rows : int
        Number of rows, chosen before the first night, at which the bounds shall be tightest. They
        are valid whatever it is, and little wider at a third or at three times as many rows.

    Returns
    -------
    float
        Above `confidence`, below 1; highest for few rows.

    Raises
    ------
    ValueError
        If the confidence is not between 0 and 1, or a number of rows is not at least 1.

    Notes
    -----
    The chance of a false pass is at most the stated one for any number of looks if the shares of
    subgroups and classes stay about the same. Whatever the shares, it is at most the sum of the
    looks' own chances: below the stated one for up to 20 nights of equal size if `planned_rows` is
    the rows of 10 to 20 nights.

    References
    ----------
    Robbins (1970), Annals of Mathematical Statistics 41. Howard, Ramdas, McAuliffe and Sekhon
    (2021), Annals of Statistics 49, proposition 6 and section 3.5. Waudby-Smith, Arbour, Sinha,
    Kennedy and Ramdas (2024), Annals of Statistics 52 (asymptotic confidence sequences).

    Examples
    --------
    >>> round(always_valid_confidence(0.9, 30_000, planned_rows=30_000), 4)
    0.9943
    >>> round(always_valid_confidence(0.9, 5_000, planned_rows=30_000), 4)
    0.9986
    """
    alpha = (1 - check_confidence(confidence)) / 2
    for name, value in (("n_rows", n_rows), ("planned_rows", planned_rows)):
        if value < 1:
            msg = f"`{name}` must be at least 1; got {value}."
            raise ValueError(msg)
    error = _NORMAL.cdf(-mixture_quantile(alpha, _aim(alpha) * n_rows / planned_rows))
    return 1 - 2 * max(error, _NEVER)


@lru_cache(maxsize=4096)
def mixture_quantile(alpha: float, ratio: float) -> float:
    """Return the Z at which the normal mixture reaches 1 / alpha.

    `ratio` is the number of rows so far over the mixture's `rho`.
    """
    share = ratio / (1 + ratio)
    wanted = math.log(1 / (2 * alpha)) + math.log1p(ratio) / 2
    low, high = 0.0, 2 * math.sqrt((wanted + 1) / share)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        reached = middle**2 * share / 2 + math.log(_NORMAL.cdf(middle * math.sqrt(share)))
        low, high = (low, middle) if reached > wanted else (middle, high)
    return high


@lru_cache(maxsize=64)
def _aim(alpha: float) -> float:
    """Return planned rows over `rho`: where the two-sided mixture at 2 alpha is tightest.

    The equation y = 1 - 2 log(2 alpha) + log y is solved by iteration; the answer is y - 1.
    """
    y = 2.0
    for _ in range(_BISECTIONS):
        y = 1 - 2 * math.log(2 * alpha) + math.log(y)
    return y - 1


# ---- The rows of several nights as one set of rows; no row counts twice


IDS = "id"
SUBGROUPS = "subgroups"


def pool_nights(nights: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Put the rows of several nights together, for `compare_bias` or `evaluate_bias`.

    All rows count alike, so each AUC is that of all rows: a toxic comment of one night is compared
    with the harmless ones of every night. Nights with few mentions of an identity thus count too.

    Parameters
    ----------
    nights : sequence of mapping
        At least one. Each has `id`, with an id for each row, and arguments of `compare_bias` or
        `evaluate_bias`: arrays of shape (n,), and `subgroups`, a mapping of them. All nights have
        the same arguments and subgroups. Clusters that go on for several nights keep their name.

    Returns
    -------
    dict
        The arguments with the rows of all nights.

    Raises
    ------
    ValueError
        If there is no night, if nights have different arguments or subgroups, if the arrays of a
        night differ in length, or if an id is given twice: rows that count twice make every
        interval too narrow.

    References
    ----------
    Johari, Koomen, Pekelis and Walsh (2022), Operations Research 70 (looking at accumulating data).

    Examples
    --------
    >>> monday = {"id": [1, 2], "y_true": [0, 1], "y_score": [0.2, 0.9]}
    >>> tuesday = {"id": [3, 4], "y_true": [1, 0], "y_score": [0.4, 0.7]}
    >>> pool_nights([monday, tuesday])["y_score"]
    array([0.2, 0.9, 0.4, 0.7])
    """
    if not nights:
        msg = "`nights` must have at least one night; got none."
        raise ValueError(msg)
    each = [_arrays(night, number) for number, night in enumerate(nights, start=1)]
    for number, night in enumerate(each, start=1):
        _refuse_other_names(night, each[0], number)
    pooled = {key: np.concatenate([night[key] for night in each]) for key in each[0]}
    _refuse_repeated(pooled.pop((IDS, None)), [night[IDS, None].size for night in each])
    found: dict[str, Any] = {SUBGROUPS: {}} if SUBGROUPS in nights[0] else {}
    for (argument, group), values in pooled.items():
        if group is None:
            found[argument] = values
        else:
            found[SUBGROUPS][group] = values
    return found


_Arrays = dict[tuple[str, str | None], npt.NDArray[Any]]


def _arrays(night: Mapping[str, Any], number: int) -> _Arrays:
    """Return the arrays of a night, by argument and subgroup."""
    if IDS not in night:
        msg = f"`nights` must have an `{IDS}` for each row; night {number} has none."
        raise ValueError(msg)
    found: _Arrays = {}
    for argument, values in night.items():
        if argument == SUBGROUPS:
            found |= {(argument, str(name)): np.asarray(values[name]) for name in values}
        else:
            found[argument, None] = np.asarray(values)
    for (argument, group), array in found.items():
        if array.shape != found[IDS, None].shape or array.ndim != 1:
            name = argument if group is None else f"{argument}[{group!r}]"
            msg = (
                f"`{name}` of night {number} must have a value for each of its "
                f"{found[IDS, None].size} ids; got shape {array.shape}."
            )
            raise ValueError(msg)
    return found


def _refuse_other_names(night: _Arrays, first: _Arrays, number: int) -> None:
    differ = night.keys() ^ first.keys()
    if differ:
        argument, group = min(differ, key=str)
        name = argument if group is None else f"{argument}[{group!r}]"
        msg = f"`nights` must all have the same arguments; not both of 1 and {number} have {name}."
        raise ValueError(msg)


def _refuse_repeated(ids: npt.NDArray[Any], sizes: Sequence[int]) -> None:
    """Refuse rows that are given twice; say which, and in which nights."""
    _, first, codes = np.unique(ids, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[codes] != np.arange(ids.size))
    if again.size:
        night = np.repeat(np.arange(1, len(sizes) + 1), sizes)
        row = int(again[0])
        msg = (
            f"`nights` must be fresh rows, each given once; {again.size:,} are given again, first "
            f"id {ids[row]} of night {night[first[codes[row]]]} in night {night[row]}."
        )
        raise ValueError(msg)


LEAST_NIGHTS, MANY_NIGHTS = 5, 20
_TOO_FEW = f"how much nights differ is not known before night {LEAST_NIGHTS}"
_SHARES = frozenset({*AUCS, "auc", "final_score"})
_P_VALUES = ("p_value", "p_holm", "p_bh")
_ENDS = ("low", "high", "size_low", "size_high")
Cell = Mapping[str, Any]


def night_clusters(
    nights: npt.NDArray[np.integer[Any]], labels: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int64]:
    """Return the clusters by which numbers are measured for `with_night_variance`.

    Parameters
    ----------
    nights : integer array of shape (n,)
        The night of each row.
    labels : bool array of shape (n,)
        True where the row is toxic.

    Returns
    -------
    int array of shape (n,)
        The nights; before the twentieth, the toxic rows of a night are a cluster of their own.

    Notes
    -----
    A shift of all scores of a night moves its toxic rows up and its harmless rows down, so that an
    AUC stays nearly the same: in it the two moves cancel, but for what the square of the shift
    does. Few nights do not tell how large that is. As clusters of their own the two moves do not
    cancel.

    References
    ----------
    Obuchowski (1997), Biometrics 53 (AUCs of clustered rows, by class and together).

    Examples
    --------
    >>> night_clusters(np.array([1, 1, 2]), np.array([False, True, True]))
    array([2, 3, 5])
    """
    found = nights.astype(np.int64)
    return found if np.unique(found).size >= MANY_NIGHTS else 2 * found + labels


def with_night_variance(
    found: Cell, by_night: Cell, *, n_nights: int, confidence: float
) -> dict[str, Any]:
    """Return numbers of pooled rows with intervals that allow for nights.

    Parameters
    ----------
    found : mapping
        What `to_dict()` of a report or a comparison gives, of the rows of all nights.
    by_night : mapping
        The same of the same rows in the clusters of `night_clusters`. Its standard errors count;
        that it has no intervals for few clusters does not matter.
    n_nights : int
        How many nights there are, at least 1.
    confidence : float
        Of the intervals in `found`.

    Returns
    -------
    dict
        As `found`. Where whole nights move a number more than its rows would, its interval is
        wider and it has no p-values. With fewer than 5 nights no number that varies has one.

    Raises
    ------
    ValueError
        If `n_nights` is less than 1, or the confidence is not between 0 and 1.

    Notes
    -----
    It allows for shifts that are random and independent from night to night, not for a trend. Let
    r be the standard error of the nights over that of the rows, z the normal quantile and t
    Student's for the nights less one. If r is above 1, the interval reaches
    sqrt(1 + (r**2 - 1) (t / z)**2) times as far: what the rows explain keeps the quantile of many
    rows, and what only nights show has that of few nights. So equal nights cost little, and where
    nights are all that differs, the interval is Student's.

    References
    ----------
    Bell and McCaffrey (2002), Survey Methodology 28 (few clusters). Graybill and Wang (1980),
    Journal of the American Statistical Association 75 (bounds of sums of variances).

    Examples
    --------
    >>> cell = {"value": 0.9, "std_error": 0.01, "low": 0.88, "high": 0.92}
    >>> nights = {"auc": {"value": 0.9, "std_error": 0.02}}
    >>> wider = with_night_variance({"auc": cell}, nights, n_nights=10, confidence=0.95)["auc"]
    >>> round(wider["low"], 3), round(wider["high"], 3)
    (0.855, 0.945)
    """
    if n_nights < 1:
        msg = f"`n_nights` must be at least 1; got {n_nights}."
        raise ValueError(msg)
    of_rows = quantile(confidence)
    few = quantile(confidence, n_nights - 1) / of_rows if n_nights > 1 else math.inf

    def change(name: str, cell: Cell, of_nights: Cell) -> dict[str, Any]:
        error, larger = cell["std_error"], of_nights.get("std_error")
        if not error:  # such as two models with the same scores
            return dict(cell)
        if n_nights < LEAST_NIGHTS:
            return _without_interval(cell)
        if larger is None or larger <= error:
            return dict(cell)
        factor = math.sqrt(1 + ((larger / error) ** 2 - 1) * few**2)
        return _stretched(name, cell, factor) | {"std_error": larger}

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
