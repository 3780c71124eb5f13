"""Two sets of rows that may share some: which are in both, and what is exchanged by chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import (
    BoolArray,
    FloatArray,
    check_mask,
    check_scores,
    check_shape,
    check_subgroups,
    check_weights,
)
from bias_metrics._core.cluster_codes import check_clusters

KEYS = ("id", "y_true", "subgroups")
OPTIONAL = ("y_score", "length", "sample_weight", "clusters")


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked rows.

    Attributes
    ----------
    ids : array of shape (n,)
        One for each row.
    y_true : bool array of shape (n,)
        Labels.
    subgroups : mapping of str to bool array of shape (n,)
        Which rows mention each.
    y_score, length, weight : float array of shape (n,) or None
        Scores, lengths of the comments, weights.
    clusters : array of shape (n,) or None
        Their names.
    """

    ids: npt.NDArray[Any]
    y_true: BoolArray
    subgroups: Mapping[str, BoolArray]
    y_score: FloatArray | None = None
    length: FloatArray | None = None
    weight: FloatArray | None = None
    clusters: npt.NDArray[Any] | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any], name: str) -> Rows:
        """Check rows; those of weight 0 are left out."""
        unknown = sorted(given.keys() - {*KEYS, *OPTIONAL}) or sorted({*KEYS} - given.keys())
        if unknown:
            keys = f"{', '.join(KEYS)} and may have {', '.join(OPTIONAL)}"
            msg = f"`{name}` must have {keys}; {unknown[0]!r} is missing or not one of them."
            raise ValueError(msg)
        y_true = check_mask(f"{name}['y_true']", given["y_true"])
        ids, n = np.asarray(given["id"]), y_true.size
        check_shape(f"{name}['id']", ids, n, "y_true")
        if np.unique(ids).size != n:
            msg = f"`{name}['id']` must be different for each row; one is given twice."
            raise ValueError(msg)
        clusters = given.get("clusters")
        check_clusters(clusters, n)
        numbers = {
            key: None if given.get(key) is None else check_scores(key, given[key], n)
            for key in ("y_score", "length")
        }
        rows = cls(
            ids,
            y_true,
            check_subgroups(given["subgroups"], n, name=f"{name}['subgroups']"),
            **numbers,
            weight=check_weights(given.get("sample_weight"), n),
            clusters=None if clusters is None else np.asarray(clusters),
        )
        return rows if rows.weight is None or rows.weight.all() else rows.taken(rows.weight > 0)

    def taken(self, which: npt.NDArray[Any]) -> Rows:
        """Return some rows."""
        masks = {name: mask[which] for name, mask in self.subgroups.items()}
        others = {
            name: None if (values := getattr(self, name)) is None else values[which]
            for name in ("y_score", "length", "weight", "clusters")
        }
        return Rows(self.ids[which], self.y_true[which], masks, **others)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything but the ids, by name."""
        optional = {
            name: getattr(self, name)
            for name in ("y_score", "length", "weight", "clusters")
            if getattr(self, name) is not None
        }
        masks = {f"subgroups[{name!r}]": mask for name, mask in self.subgroups.items()}
        return {"y_true": self.y_true, **optional, **masks}

    @property
    def weights(self) -> npt.NDArray[np.float64]:
        """A weight for each row."""
        if self.weight is None:
            return np.ones(self.y_true.size)
        return self.weight.astype(np.float64)


@dataclass(frozen=True, eq=False)
class Union:
    """All rows of two sets, those in both once.

    Attributes
    ----------
    rows : Rows
        First those of `before`, then those of `now` that are not the same there. A row whose
        values changed is there twice.
    in_before, in_now : bool array of shape (n,)
        In which sets each row is.
    unit : int array of shape (n,)
        What is exchanged as a whole: a cluster, or the two versions of a row, or a row.
    places_now : int array
        Where tonight's rows are, in their own order.
    n_shared, n_changed : int
        How many ids are in both, and how many of these have other values now.
    """

    rows: Rows
    in_before: BoolArray
    in_now: BoolArray
    unit: npt.NDArray[np.intp]
    places_now: npt.NDArray[np.intp]
    n_shared: int
    n_changed: int

    @classmethod
    def of(cls, before: Rows, now: Rows) -> Union:
        """Find the rows that both sets have."""
        mine, theirs = before.columns(), now.columns()
        if mine.keys() != theirs.keys():
            [first, *_] = sorted(mine.keys() ^ theirs.keys())
            msg = f"`before` and `now` must have the same arguments; only one has {first}."
            raise ValueError(msg)
        kinds = [one.ids.dtype.kind in "iu" for one in (before, now)]
        if kinds[0] != kinds[1]:
            msg = "`id` must be of one type in `before` and `now`; one has numbers, one has text."
            raise ValueError(msg)
        _, old, new = np.intersect1d(before.ids, now.ids, assume_unique=True, return_indices=True)
        same = np.ones(old.size, dtype=np.bool_)
        for name, values in mine.items():
            same &= values[old] == theirs[name][new]
        fresh = np.ones(now.y_true.size, dtype=np.bool_)
        fresh[new[same]] = False
        n = before.y_true.size
        rows = _joined(before, now.taken(fresh))
        in_before = np.arange(rows.y_true.size) < n
        in_now = ~in_before
        in_now[old[same]] = True
        places = n + np.cumsum(fresh) - 1
        places[new[same]] = old[same]
        unit = np.arange(rows.y_true.size)
        unit[places[new[~same]]] = old[~same]
        if rows.clusters is not None:
            unit = _linked(unit, check_clusters(rows.clusters, unit.size))
        unit = np.unique(unit, return_inverse=True)[1]
        return cls(rows, in_before, in_now, unit, places, int(old.size), int((~same).sum()))


def _linked(
    unit: npt.NDArray[np.intp], clusters: npt.NDArray[np.intp] | None
) -> npt.NDArray[np.intp]:
    """Return clusters, joined where a row moved from one to another."""
    assert clusters is not None  # noqa: S101 - the caller knows
    parent = np.arange(int(clusters.max()) + 1)

    def root(one: int) -> int:
        while parent[one] != one:
            one = int(parent[one])
        return one

    for row in np.flatnonzero(clusters != clusters[unit]):
        parent[root(int(clusters[row]))] = root(int(clusters[unit[row]]))
    roots = np.array([root(one) for one in range(parent.size)])
    return np.asarray(roots[clusters])


def _joined(before: Rows, fresh: Rows) -> Rows:
    others = {
        name: None
        if getattr(before, name) is None
        else np.concatenate([getattr(before, name), getattr(fresh, name)])
        for name in ("y_score", "length", "weight", "clusters")
    }
    masks = {
        name: np.concatenate([mask, fresh.subgroups[name]])
        for name, mask in before.subgroups.items()
    }
    ids = np.concatenate([before.ids, fresh.ids])
    return Rows(ids, np.concatenate([before.y_true, fresh.y_true]), masks, **others)
