"""Counts of rows in many narrow bins of scores, and their addition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray, FloatArray, check_threshold
from bias_metrics._core.cuts import list_narrow_forms, reaches_cut
from bias_metrics._core.index import require_aligned
from bias_metrics.metrics import CLASSES, Class
from bias_metrics.rows import Background, Rows, find_any_member

BITS = 12
MANTISSA = 52
MOST_ROWS = 4 * 10**9  # twice the number of pairs must fit into 64 bits
Counts = npt.NDArray[np.int64]


def compute_bins(scores: FloatArray, bits: int) -> Counts:
    """Return the bins of scores: their leading bits, as integers that ascend with the score."""
    bits_of = (scores + 0.0).view(np.int64)  # -0.0 becomes 0.0
    ordered = np.where(bits_of < 0, np.iinfo(np.int64).min - bits_of, bits_of)
    return np.asarray(ordered >> (MANTISSA - bits))


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
            has_weight = weight > 0
            rows = rows.select_rows(has_weight)
            scores, weight = scores[has_weight], weight[has_weight]
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
        bins = np.union1d(self.bins, other.bins)

        def combine(name: str, function: np.ufunc, empty: float) -> Any:
            """Combine the values of both in the bins of either."""
            both = []
            for counts in (self, other):
                values = getattr(counts, name)
                both.append(np.full((*values.shape[:-1], bins.size), empty, dtype=values.dtype))
                both[-1][..., np.searchsorted(bins, counts.bins)] = values
            return function(*both)

        return type(self)(
            self.bits,
            self.shards | other.shards,
            self.names,
            bins,
            combine("least", np.minimum, np.inf),
            combine("most", np.maximum, -np.inf),
            *(combine(name, np.add, 0) for name in ("everyone", "anyone", "subgroups")),
        )

    @classmethod
    def add_all(cls, parts: Iterable[Self]) -> Self:
        """Add all counts of a non-empty iterable."""
        return reduce(cls.__add__, parts)

    @cached_property
    def by_group(self) -> dict[str | None, Counts]:
        """(2, k): positives and negatives by subgroup, and of all rows under None."""
        return dict(zip((None, *self.names), (self.everyone, *self.subgroups), strict=True))

    def count_background(self, own: Counts, background: Background) -> Counts:
        """Return the counts of the rows that a subgroup is compared with."""
        return self.everyone - (own if background == "outside_subgroup" else self.anyone)

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

        return {name: sum_bins(own) for name, own in self.by_group.items()}

    def find_flagged_bins(self, threshold: float) -> tuple[BoolArray, BoolArray]:
        """Return masks of bins in which all scores reach a threshold, or some may reach it."""
        sure = reaches_cut(self.least, threshold)
        lowest = min((threshold, *list_narrow_forms(threshold)))
        return sure, sure | (self.most >= lowest)
