"""The rows that numbers are measured on: labels, subgroups, weights, clusters and background."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
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
)
from bias_metrics._core.index import aligned, labelled_inputs, refuse_misaligned
from bias_metrics._core.packed import PackedMasks, Subgroups

__all__ = [
    "BACKGROUNDS",
    "MOST_ROWS",
    "WEIGHT_KINDS",
    "Background",
    "Places",
    "RowOptions",
    "Rows",
    "WeightKind",
    "any_of",
    "counted_rows",
    "masks_of",
]

WeightKind = Literal["probability", "frequency"]
WEIGHT_KINDS: tuple[WeightKind, ...] = get_args(WeightKind)
Background = Literal["outside_subgroup", "no_identity"]
BACKGROUNDS: tuple[Background, ...] = get_args(Background)
"""The rows a subgroup is compared with: all outside it, or those without any subgroup."""
MOST_ROWS = 10**9

Places = npt.NDArray[np.intp]


class RowOptions(TypedDict, total=False):
    """What may be known of rows beside their labels and subgroups; see `Rows`."""

    sample_weight: npt.ArrayLike | None
    weight_kind: WeightKind
    clusters: npt.ArrayLike | None
    background: Background


class Rows:
    """Rows and what is known of each, checked once.

    Parameters
    ----------
    y_true : bool array of shape (n,)
        True for the positive (toxic) class. Threshold label fractions with `>= 0.5`.
    subgroups : mapping of str to bool array of shape (n,), data frame, or column of names
        Name and membership of each subgroup; they may overlap.
    sample_weight : float array of shape (n,), optional
        0, or between 1e-100 and 1e100. A row of weight 0 does not count.
    weight_kind : {"probability", "frequency"}, default="probability"
        What a weight means. `probability` (survey weight, inverse of the probability with which
        the row was drawn): a heavy row is still one row, so unequal weights make intervals
        wider; only the ratios of weights matter. `frequency`: a whole number of identical rows
        that the row stands for, as if it were repeated.
    clusters : array of shape (n,), optional
        Article, thread or template of each row: rows of one cluster are not independent.
        A number has no interval if rows of a class that it compares fall into fewer than 20
        clusters.
    background : {"outside_subgroup", "no_identity"}, default="outside_subgroup"
        Which rows a subgroup is compared with: all outside it, or those in none of the
        `subgroups`. Never compare numbers from one with numbers from the other.

    Attributes
    ----------
    y_true, subgroups, sample_weight, weight_kind, background
        As given, as arrays.

    Raises
    ------
    ValueError
        If a length differs, a label or membership is not 0 or 1, a weight is negative or a
        frequency not whole, a cluster is missing, or `background` is neither of the two.
    TypeError
        If an argument has the wrong type.

    Examples
    --------
    >>> rows = Rows([0, 1, 1], {"gay": [1, 1, 0]}, clusters=["a", "a", "b"])
    >>> rows.n, rows.within(rows.subgroups["gay"]).n
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
    """The labels of the rows, if an argument has any."""

    @aligned
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
        given = {"y_true": y_true, "s": subgroups, "w": sample_weight, "c": clusters}
        self.index = next((index for _, index in labelled_inputs(given)), None)
        self.y_true = check_mask("y_true", y_true)
        self.subgroups = check_subgroups(subgroups, self.n)
        self.weight_kind = check_choice("weight_kind", weight_kind, WEIGHT_KINDS)
        self.sample_weight = check_weights(sample_weight, self.n)
        if self.sample_weight is not None and weight_kind == "frequency":
            _refuse_fractions(self.sample_weight)
        self.clusters = check_clusters(clusters, self.n)
        self.background = check_choice("background", background, BACKGROUNDS)

    @classmethod
    def of(
        cls,
        y_true: npt.ArrayLike | Rows,
        subgroups: Subgroups | None = None,
        **options: Unpack[RowOptions],
    ) -> Rows:
        """Return rows as they are, if they are given in the place of labels; or check them.

        Raises
        ------
        TypeError
            If subgroups or options are given with rows, which have their own.
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

    def scores(self, name: str, given: npt.ArrayLike) -> FloatArray:
        """Return the scores of these rows that an argument holds, checked."""
        refuse_misaligned({"rows": self, name: given})
        return check_scores(name, given, self.n)

    def within(self, which: BoolArray | Places) -> Rows:
        """Return some of the rows, given a mask, or their places, which may occur repeatedly."""
        chosen: npt.NDArray[Any] = np.asarray(which)
        if chosen.dtype == np.bool_:
            refuse_misaligned({"rows": self, "which": which})
        weights, clusters = self.sample_weight, self.clusters
        y_true = self.y_true[chosen]
        return self._with(
            y_true=y_true,
            subgroups=masks_of(self.subgroups, chosen),
            sample_weight=None if weights is None else weights[chosen],
            clusters=None if clusters is None else check_clusters(clusters[chosen], y_true.size),
            index=None if self.index is None else self.index[chosen],
        )

    def grouped(self, subgroups: Subgroups) -> Rows:
        """Return the same rows in other subgroups."""
        refuse_misaligned({"rows": self, "subgroups": subgroups})
        return self._with(subgroups=check_subgroups(subgroups, self.n))

    def counted(self, *values: FloatArray) -> tuple[Rows, tuple[FloatArray, ...]]:
        """Return the rows that count, and these values of theirs.

        Rows of weight 0 are left out; a row is repeated as often as its frequency says, and has no
        weight then.
        """
        refuse_misaligned({"rows": self, "values": dict(enumerate(values))})
        values = tuple(map(np.asarray, values))
        if self.sample_weight is None:
            return self, values
        places, weights = counted_rows(self.sample_weight, self.n, self.weight_kind)
        if places is None:
            return self, values
        kept = self._with(sample_weight=None).within(places)
        kept.sample_weight = weights
        return kept, tuple(of_row[places] for of_row in values)

    @property
    def excluded(self) -> Places | None:
        """The rows that no subgroup is compared with; None if each leaves out only its own."""
        if self.background == BACKGROUNDS[0] or not self.subgroups:
            return None
        return np.flatnonzero(any_of(self.subgroups))

    def difference_from(self, other: Rows) -> str | None:
        """Return what differs from other rows: labels, subgroups, weights...; None if nothing."""
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
        for name, (own, its) in parts.items():
            if (own is None) != (its is None) or not np.array_equal(own, its):
                return name
        masks = ((name, mask, other.subgroups[name]) for name, mask in self.subgroups.items())
        changed = (name for name, own, its in masks if not np.array_equal(own, its))
        return next((f"the rows of {name!r}" for name in changed), None)

    def refuse(self, function: str, *names: str) -> None:
        """Refuse weights or clusters that a function would ignore."""
        for name in names:
            if getattr(self, name) is not None:
                msg = f"`rows` must have no `{name}` in {function}, which does not use it."
                raise ValueError(msg)

    def _with(self, **values: Any) -> Rows:
        found = copy(self)
        vars(found).update(values)
        return found


def counted_rows(
    sample_weight: npt.ArrayLike, n: int, kind: str
) -> tuple[Places | None, FloatArray | None]:
    """Return the rows that count, repeated as often as they do, and their weights above 0.

    The rows are None if all count; the weights are None if each counts once.
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


def any_of(masks: Mapping[str, BoolArray]) -> BoolArray:
    """Say which rows belong to any subgroup; there must be at least one subgroup."""
    if isinstance(masks, PackedMasks):
        return masks.any()
    return np.asarray(np.logical_or.reduce(list(masks.values())))


def masks_of(masks: Mapping[str, BoolArray], which: BoolArray | Places) -> Mapping[str, BoolArray]:
    """Return the memberships of some rows; packed ones stay packed."""
    if isinstance(masks, PackedMasks):
        n = int(which.sum()) if which.dtype == np.bool_ else which.size
        return PackedMasks.of(((name, mask[which]) for name, mask in masks.items()), n)
    return {name: mask[which] for name, mask in masks.items()}


def _refuse_fractions(weights: FloatArray) -> None:
    wrong = np.flatnonzero(weights != np.floor(weights))
    if wrong.size:
        msg = (
            "`sample_weight` must be whole numbers if `weight_kind` is 'frequency'; got "
            f"{weights[wrong[0]]} (row {wrong[0]})."
        )
        raise ValueError(msg)
    if float(weights.sum()) > MOST_ROWS:
        msg = (
            f"`sample_weight` must sum to at most {MOST_ROWS:,} if `weight_kind` is 'frequency'; "
            f"got {weights.sum():,.0f}."
        )
        raise ValueError(msg)
