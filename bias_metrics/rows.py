"""Rows to measure: labels, subgroups, weights, clusters and background."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack, get_args

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import (
    BoolArray,
    FloatArray,
    check_choice,
    check_clusters,
    check_mask,
    check_scores,
    check_subgroups,
    check_weights,
    refuse_values,
)
from bias_metrics._core.index import find_row_labels, refuse_misaligned, require_aligned
from bias_metrics._core.masks import PackedMasks, Subgroups

__all__ = [
    "BACKGROUNDS",
    "MOST_ROWS",
    "WEIGHT_KINDS",
    "Background",
    "Places",
    "RowCounts",
    "RowOptions",
    "Rows",
    "WeightKind",
    "find_any_member",
    "find_counted_rows",
    "select_masks",
]

WeightKind = Literal["probability", "frequency"]
WEIGHT_KINDS: tuple[WeightKind, ...] = get_args(WeightKind)
Background = Literal["outside_subgroup", "no_identity"]
BACKGROUNDS: tuple[Background, ...] = get_args(Background)
"""The rows that a subgroup is compared with: all rows outside it, or rows in no subgroup."""
MOST_ROWS = 10**9

Places = npt.NDArray[np.intp]


class RowOptions(TypedDict, total=False):
    """Optional properties of rows; see `Rows`."""

    sample_weight: npt.ArrayLike | None
    weight_kind: WeightKind
    clusters: npt.ArrayLike | None
    background: Background


@dataclass(frozen=True)
class RowCounts:
    """Number of rows with a weight above 0, of a group or of all rows."""

    n_positive: int
    n_negative: int
    effective: Mapping[str, float] | None = None
    """With sampling weights: Kish's effective sample size by class; for a group also that of its
    background, as `background_positive` and `background_negative`."""

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.n_positive + self.n_negative

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; effective sample sizes only if rows have weights."""
        values: dict[str, Any] = {"n_positive": self.n_positive, "n_negative": self.n_negative}
        return values if self.effective is None else values | {"effective": dict(self.effective)}


class Rows:
    """Rows with labels, subgroups and options, checked once.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive (toxic) class. Threshold label fractions with `>= 0.5`.
    subgroups : mapping of str to bool array of shape (n,), data frame, or column of names
        Subgroup names and memberships; they may overlap.
    sample_weight : float array of shape (n,), optional
        0, or between 1e-100 and 1e100. A row of weight 0 does not count.
    weight_kind : {"probability", "frequency"}, default="probability"
        Meaning of a weight. `probability` (survey weight, inverse of the probability with which
        the row was drawn): a heavy row is still a single row, so unequal weights make intervals
        wider; only the ratios of weights matter. `frequency`: the number of identical rows that
        the row represents, as if it were repeated.
    clusters : array of shape (n,), optional
        Article, thread or template per row: rows of the same cluster are not independent.
        The interval is undefined if a compared class is in fewer than 20 clusters.
    background : {"outside_subgroup", "no_identity"}, default="outside_subgroup"
        The rows that a subgroup is compared with: all rows outside it, or rows in none of the
        `subgroups`. Never compare numbers with different backgrounds.

    Attributes
    ----------
    y_true, subgroups, sample_weight, weight_kind, background
        The arguments, as arrays.

    Raises
    ------
    ValueError
        If a length differs, a label or membership is not 0 or 1, a weight is negative or a
        frequency not whole, a cluster is missing, or `background` is unknown.
    TypeError
        If an argument has the wrong type.

    Examples
    --------
    >>> rows = Rows([0, 1, 1], {"gay": [1, 1, 0]}, clusters=["a", "a", "b"])
    >>> rows.n, rows.select_rows(rows.subgroups["gay"]).n
    (3, 2)
    """

    y_true: BoolArray
    subgroups: Mapping[str, BoolArray]
    sample_weight: FloatArray | None
    weight_kind: WeightKind
    clusters: Places | None
    """As codes 0, 1, ..."""
    background: Background
    index: Any
    """The row labels, if any argument has them."""

    @require_aligned
    def __init__(
        self,
        y_true: npt.ArrayLike,
        subgroups: Subgroups,
        *,
        sample_weight: npt.ArrayLike | None = None,
        weight_kind: WeightKind = "probability",
        clusters: npt.ArrayLike | None = None,
        background: Background = "outside_subgroup",
    ) -> None:
        arguments = {"y_true": y_true, "s": subgroups, "w": sample_weight, "c": clusters}
        self.index = next((index for _, index in find_row_labels(arguments)), None)
        self.y_true = check_mask("y_true", y_true)
        self.subgroups = check_subgroups(subgroups, self.n)
        self.weight_kind = check_choice("weight_kind", weight_kind, WEIGHT_KINDS)
        self.sample_weight = check_weights(sample_weight, self.n)
        if self.sample_weight is not None and weight_kind == "frequency":
            _refuse_fractions(self.sample_weight)
        self.clusters = check_clusters(clusters, self.n)
        self.background = check_choice("background", background, BACKGROUNDS)

    @classmethod
    def from_arguments(
        cls,
        y_true: npt.ArrayLike | Rows,
        subgroups: Subgroups | None = None,
        **options: Unpack[RowOptions],
    ) -> Rows:
        """Return `Rows` that are given in place of labels unchanged, or check the arguments.

        Raises
        ------
        TypeError
            If subgroups or options are given in addition to `Rows`.
        """
        if not isinstance(y_true, Rows):
            return cls(y_true, {} if subgroups is None else subgroups, **options)
        if subgroups is not None or options:
            name = "subgroups" if subgroups is not None else next(iter(options))
            msg = f"`{name}` must not be given with Rows, which have their own."
            raise TypeError(msg)
        return y_true

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.y_true.size)

    def check_scores(self, name: str, given: npt.ArrayLike) -> FloatArray:
        """Return checked scores of these rows; `name` is the argument's name."""
        refuse_misaligned({"rows": self, name: given})
        return check_scores(name, given, self.n)

    def select_rows(self, which: BoolArray | Places) -> Rows:
        """Select rows by a mask, or by places, which may be repeated."""
        chosen: npt.NDArray[Any] = np.asarray(which)
        if chosen.dtype == np.bool_:
            refuse_misaligned({"rows": self, "which": which})
        weights, clusters = self.sample_weight, self.clusters
        y_true = self.y_true[chosen]
        return self._replace_values(
            y_true=y_true,
            subgroups=select_masks(self.subgroups, chosen),
            sample_weight=None if weights is None else weights[chosen],
            clusters=None if clusters is None else check_clusters(clusters[chosen], y_true.size),
            index=None if self.index is None else self.index[chosen],
        )

    def replace_subgroups(self, subgroups: Subgroups) -> Rows:
        """Return the same rows with other subgroups."""
        refuse_misaligned({"rows": self, "subgroups": subgroups})
        return self._replace_values(subgroups=check_subgroups(subgroups, self.n))

    def select_counted(self, *values: FloatArray) -> tuple[Rows, tuple[FloatArray, ...]]:
        """Return the rows that count, and their values.

        Rows of weight 0 are left out. Frequencies are replaced by repeated rows without weights.
        """
        refuse_misaligned({"rows": self, "values": dict(enumerate(values))})
        values = tuple(map(np.asarray, values))
        if self.sample_weight is None:
            return self, values
        places, weights = find_counted_rows(self.sample_weight, self.n, self.weight_kind)
        if places is None:
            return self, values
        rows = self._replace_values(sample_weight=None).select_rows(places)
        rows.sample_weight = weights
        return rows, tuple(array[places] for array in values)

    @property
    def excluded(self) -> Places | None:
        """Rows outside the shared background; None if each subgroup excludes only its own rows."""
        if self.background == BACKGROUNDS[0] or not self.subgroups:
            return None
        return np.flatnonzero(find_any_member(self.subgroups))

    def find_difference(self, other: Rows) -> str | None:
        """Return the name of a property that differs from other rows, or None."""
        refuse_misaligned({"rows": self, "other": other})
        parts: dict[str, tuple[Any, Any]] = {
            "their numbers": (self.n, other.n),
            "labels": (self.y_true, other.y_true),
            "names of subgroups": (list(self.subgroups), list(other.subgroups)),
            "weights": (self.sample_weight, other.sample_weight),
            "meanings of weights": (self.weight_kind, other.weight_kind),
            "clusters": (self.clusters, other.clusters),
            "backgrounds": (self.background, other.background),
        }
        for name, (own, theirs) in parts.items():
            if (own is None) != (theirs is None) or not np.array_equal(own, theirs):
                return name
        masks = ((name, mask, other.subgroups[name]) for name, mask in self.subgroups.items())
        changed = (name for name, own, theirs in masks if not np.array_equal(own, theirs))
        return next((f"the rows of {name!r}" for name in changed), None)

    def refuse_ignored(self, function: str, *names: str) -> None:
        """Refuse weights or clusters that a function would ignore."""
        for name in names:
            if getattr(self, name) is not None:
                msg = f"`rows` must have no `{name}` in {function}, which does not use it."
                raise ValueError(msg)

    def _replace_values(self, **values: Any) -> Rows:
        rows = copy(self)
        vars(rows).update(values)
        return rows


def find_counted_rows(
    sample_weight: npt.ArrayLike, n: int, kind: str
) -> tuple[Places | None, FloatArray | None]:
    """Return the places of rows that count, repeated by frequency, and their weights above 0.

    The places are None if all rows count; the weights are None if each row counts once.
    """
    weights = check_weights(sample_weight, n)
    assert weights is not None  # noqa: S101
    if kind == "frequency":
        _refuse_fractions(weights)
        return np.repeat(np.arange(n), weights.astype(np.int64)), None
    if weights.all():
        return None, weights
    places = np.flatnonzero(weights)
    return places, weights[places]


def find_any_member(masks: Mapping[str, BoolArray]) -> BoolArray:
    """Return a mask of the rows in any subgroup; `masks` must not be empty."""
    if isinstance(masks, PackedMasks):
        return masks.find_any_member()
    return np.asarray(np.logical_or.reduce(list(masks.values())))


def select_masks(
    masks: Mapping[str, BoolArray], which: BoolArray | Places
) -> Mapping[str, BoolArray]:
    """Return the memberships of the selected rows; packed masks stay packed."""
    if isinstance(masks, PackedMasks):
        n = int(which.sum()) if which.dtype == np.bool_ else which.size
        return PackedMasks.from_masks(((name, mask[which]) for name, mask in masks.items()), n)
    return {name: mask[which] for name, mask in masks.items()}


def _refuse_fractions(weights: FloatArray) -> None:
    rule = "be whole numbers if `weight_kind` is 'frequency'"
    refuse_values(weights != np.floor(weights), weights, "sample_weight", rule)
    if float(weights.sum()) > MOST_ROWS:
        msg = (
            f"`sample_weight` must sum to at most {MOST_ROWS:,} if `weight_kind` is 'frequency'; "
            f"got {weights.sum():,.0f}."
        )
        raise ValueError(msg)
