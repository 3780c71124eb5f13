"""Counts of rows in many narrow bins of scores, and their addition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray, FloatArray, check_threshold
from bias_metrics._core.cuts import list_narrow_forms, reaches_cut
from bias_metrics._core.index import require_aligned
from bias_metrics.binned.bins import MANTISSA, MOST_ROWS, Counts, compute_bins
from bias_metrics.metrics import CLASSES, Class
from bias_metrics.rows import Rows, find_any_member

BITS = 12


@dataclass(frozen=True, eq=False)
class BinCounts:
    """Number of rows by class, subgroup and bin of scores."""

    bits: int
    """Bits of the mantissa that define a bin: 2^bits bins for each factor of two."""
    shards: frozenset[str]
    """Names of the counted shards, each counted once."""
    names: tuple[str, ...]
    """Names of the subgroups."""
    bins: Counts
    """(k,): bins with rows, ascending."""
    least: FloatArray
    most: FloatArray
    """least, most, (k,): lowest and highest score in each bin."""
    everyone: Counts
    """(2, k): positives and negatives of all rows."""
    anyone: Counts
    """(2, k): positives and negatives in any subgroup."""
    subgroups: Counts
    """(number of subgroups, 2, k): positives and negatives in each subgroup."""
    _measured: dict[Any, Any] = field(init=False, repr=False, default_factory=dict)
    """Cached measurements, for any confidence."""

    @classmethod
    @require_aligned
    def from_rows(cls, rows: Rows, y_score: npt.ArrayLike, *, shard: str, bits: int = BITS) -> Self:
        """Count the rows of a shard.

        Parameters
        ----------
        rows : Rows
            Independent rows, without weights or with frequencies as weights.
        y_score : float array of shape (n,)
            Higher means more toxic; any finite scale.
        shard : str
            Name of these rows, such as a file or a day. Shards with the same name cannot be added.
        bits : int, default=12
            From 0 to 52. A further bit halves the width of brackets and doubles the counts.

        Raises
        ------
        ValueError
            If rows have clusters or sampling weights, a score is not finite, or `bits` is out of
            range.
        """
        if not 0 <= bits <= MANTISSA:
            msg = f"`bits` must be from 0 to {MANTISSA}; got {bits}."
            raise ValueError(msg)
        rows.refuse_ignored("ScoreCounts.from_rows", "clusters")
        scores = rows.check_scores("y_score", y_score).astype(np.float64)
        if rows.weight_kind != "frequency":
            rows.refuse_ignored("ScoreCounts.from_rows", "sample_weight")
        weight = rows.sample_weight
        if weight is not None:
            rows, scores, weight = (
                rows.select_rows(weight > 0),
                scores[weight > 0],
                weight[weight > 0],
            )
        order = np.argsort(scores)
        ordered = compute_bins(scores[order], bits)
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
        ends = np.append(starts[1:], scores.size)[: starts.size] - 1
        code = np.empty(scores.size, dtype=np.intp)
        code[order] = 2 * np.repeat(np.arange(starts.size), ends + 1 - starts)
        code += ~rows.y_true

        def count_classes(which: Any) -> Counts:
            selected_weight = None if weight is None else weight[which]
            tallies = np.bincount(code[which], selected_weight, 2 * starts.size).astype(np.int64)
            return np.ascontiguousarray(tallies.reshape(-1, 2).T)

        masks = rows.subgroups
        empty = np.zeros((0, 2, starts.size), dtype=np.int64)
        own = [count_classes(np.flatnonzero(mask)) for mask in masks.values()]
        return cls(
            bits,
            frozenset([shard]),
            tuple(masks),
            ordered[starts],
            scores[order[starts]],
            scores[order[ends]],
            count_classes(slice(None)),
            count_classes(np.flatnonzero(find_any_member(masks)) if masks else slice(0)),
            np.stack(own) if own else empty,
        )

    def __add__(self, other: Self) -> Self:
        """Add the counts of other shards of the same evaluation.

        Raises
        ------
        ValueError
            If a shard is in both, bins or subgroups differ, or there are too many rows.
        """
        self.check_addable(other)
        bins = np.union1d(self.bins, other.bins)
        both = [counts.spread_bins(bins) for counts in (self, other)]
        return type(self)(
            self.bits,
            self.shards | other.shards,
            self.names,
            bins,
            np.minimum(*(counts.least for counts in both)),
            np.maximum(*(counts.most for counts in both)),
            *(
                np.add(*(getattr(counts, name) for counts in both))
                for name in ("everyone", "anyone", "subgroups")
            ),
        )

    def check_addable(self, other: Self) -> None:
        """Refuse counts that cannot be added; see `__add__`."""
        if twice := sorted(self.shards & other.shards):
            msg = f"shard {twice[0]!r} must be counted once; it is in both counts."
            raise ValueError(msg)
        for name in ("bits", "names"):
            if getattr(self, name) != getattr(other, name):
                msg = (
                    f"`{name}` must be the same in counts that are added; "
                    f"got {getattr(self, name)!r} and {getattr(other, name)!r}."
                )
                raise ValueError(msg)
        if (n := self.n + other.n) > MOST_ROWS:
            msg = f"counts must be of at most {MOST_ROWS:,} rows; got {n:,}."
            raise ValueError(msg)

    @classmethod
    def add_all(cls, parts: Iterable[Self]) -> Self:
        """Add all counts of a non-empty iterable."""
        return reduce(cls.__add__, parts)

    def spread_bins(self, bins: Counts) -> Self:
        """Return the same counts over more bins; in a new bin, `least` and `most` are infinite."""
        places = np.searchsorted(bins, self.bins)

        def spread_values(values: Any, empty: float) -> Any:
            wide = np.full((*values.shape[:-1], bins.size), empty, dtype=values.dtype)
            wide[..., places] = values
            return wide

        return replace(
            self,
            bins=bins,
            least=spread_values(self.least, np.inf),
            most=spread_values(self.most, -np.inf),
            everyone=spread_values(self.everyone, 0),
            anyone=spread_values(self.anyone, 0),
            subgroups=spread_values(self.subgroups, 0),
        )

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.everyone.sum())

    def measure_once(self, key: Any, measure: Callable[[], Any]) -> Any:
        """Return the cached measurement of a key, or measure it."""
        if key not in self._measured:
            self._measured[key] = measure()
        return self._measured[key]

    def require_shards(self, shards: Iterable[str]) -> None:
        """Refuse counts with missing or unexpected shards.

        Raises
        ------
        ValueError
            If the shards differ; the message has their number and the first name.
        """
        wanted = set(shards)
        for name, wrong in (
            ("lack", sorted(wanted - self.shards)),
            ("must not have", sorted(self.shards - wanted)),
        ):
            if wrong:
                msg = f"the counts {name} {len(wrong)} of the shards, first {wrong[0]!r}."
                raise ValueError(msg)

    def count_flagged(self, threshold: float) -> dict[str | None, dict[Class, tuple[int, int]]]:
        """Count the rows that score at or above a threshold: at least, and at most.

        Both counts are equal unless the threshold is inside a bin.

        Returns
        -------
        dict
            By subgroup (None: all rows), then by class.
        """
        threshold = check_threshold(threshold)
        sure, possible = self.find_flagged_bins(threshold)

        def sum_bins(counts: Counts) -> dict[Class, tuple[int, int]]:
            return {
                kind: (int(bin_counts[sure].sum()), int(bin_counts[possible].sum()))
                for kind, bin_counts in zip(CLASSES, counts, strict=True)
            }

        return {None: sum_bins(self.everyone)} | {
            name: sum_bins(own) for name, own in zip(self.names, self.subgroups, strict=True)
        }

    def find_flagged_bins(self, threshold: float) -> tuple[BoolArray, BoolArray]:
        """Return masks of bins in which all scores reach a threshold, or some may reach it."""
        sure = reaches_cut(self.least, threshold)
        lowest = min((threshold, *list_narrow_forms(threshold)))
        return sure, sure | (self.most >= lowest)
