"""How many rows fall into each of many narrow bins of scores, and how such counts add up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import BoolArray, FloatArray, check_threshold
from bias_metrics._core.cuts import narrow_forms, reaches
from bias_metrics._core.index import aligned
from bias_metrics.binned.bins import MANTISSA, MOST_ROWS, Counts, bins_of
from bias_metrics.metrics import CLASSES, Class
from bias_metrics.rows import Rows, any_of

BITS = 12


@dataclass(frozen=True, eq=False)
class BinCounts:
    """How many rows of each class and subgroup have a score in each bin."""

    bits: int
    """How many bits of the mantissa tell two bins apart: 2^bits bins for each factor of two."""
    shards: frozenset[str]
    """The names of what was counted. No name is counted twice."""
    names: tuple[str, ...]
    """The subgroups."""
    bins: Counts
    """(k,): the bins with a row, ascending."""
    least: FloatArray
    most: FloatArray
    """(k,): the least and the most score in each bin."""
    everyone: Counts
    """(2, k): positives and negatives."""
    anyone: Counts
    """(2, k): those of them that are in any subgroup."""
    subgroups: Counts
    """(number of subgroups, 2, k)."""
    _measured: dict[Any, Any] = field(init=False, repr=False, default_factory=dict)
    """What is measured once for all confidences."""

    @classmethod
    @aligned
    def of(cls, rows: Rows, y_score: npt.ArrayLike, *, shard: str, bits: int = BITS) -> Self:
        """Count the rows of one shard.

        Parameters
        ----------
        rows : Rows
            Independent, with frequencies as weights or without weights.
        y_score : float array of shape (n,)
            Higher means more toxic; any finite scale.
        shard : str
            The name of these rows, such as a file or a day. Shards of the same name do not add up.
        bits : int, default=12
            From 0 to 52. One more halves the width of brackets and doubles the counts.

        Raises
        ------
        ValueError
            If there are clusters or sampling weights, a score is not finite, or `bits` is out of
            range.
        """
        if not 0 <= bits <= MANTISSA:
            msg = f"`bits` must be from 0 to {MANTISSA}; got {bits}."
            raise ValueError(msg)
        rows.refuse("ScoreCounts.of", "clusters")
        scores = rows.scores("y_score", y_score).astype(np.float64)
        if rows.weight_kind != "frequency":
            rows.refuse("ScoreCounts.of", "sample_weight")
        weight = rows.sample_weight
        if weight is not None:
            rows, scores, weight = rows.within(weight > 0), scores[weight > 0], weight[weight > 0]
        order = np.argsort(scores)
        ordered = bins_of(scores[order], bits)
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
        ends = np.append(starts[1:], scores.size)[: starts.size] - 1
        code = np.empty(scores.size, dtype=np.intp)
        code[order] = 2 * np.repeat(np.arange(starts.size), ends + 1 - starts)
        code += ~rows.y_true

        def by_class(which: Any) -> Counts:
            of = None if weight is None else weight[which]
            tallies = np.bincount(code[which], of, 2 * starts.size).astype(np.int64)
            return np.ascontiguousarray(tallies.reshape(-1, 2).T)

        masks = rows.subgroups
        empty = np.zeros((0, 2, starts.size), dtype=np.int64)
        own = [by_class(np.flatnonzero(mask)) for mask in masks.values()]
        return cls(
            bits,
            frozenset([shard]),
            tuple(masks),
            ordered[starts],
            scores[order[starts]],
            scores[order[ends]],
            by_class(slice(None)),
            by_class(np.flatnonzero(any_of(masks)) if masks else slice(0)),
            np.stack(own) if own else empty,
        )

    def __add__(self, other: Self) -> Self:
        """Add the counts of other shards of the same evaluation.

        Raises
        ------
        ValueError
            If a shard is in both, bins or subgroups differ, or there are too many rows.
        """
        self.refuse_sum(other)
        bins = np.union1d(self.bins, other.bins)
        both = [counts.spread(bins) for counts in (self, other)]
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

    def refuse_sum(self, other: Self) -> None:
        """Refuse counts that do not add up; see `__add__`."""
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
    def sum(cls, parts: Iterable[Self]) -> Self:
        """Add several counts; there must be at least one."""
        return reduce(cls.__add__, parts)

    def spread(self, bins: Counts) -> Self:
        """Return the same counts over more bins; a bin without a row has no least and no most."""
        places = np.searchsorted(bins, self.bins)

        def spread(values: Any, empty: float) -> Any:
            wide = np.full((*values.shape[:-1], bins.size), empty, dtype=values.dtype)
            wide[..., places] = values
            return wide

        return replace(
            self,
            bins=bins,
            least=spread(self.least, np.inf),
            most=spread(self.most, -np.inf),
            everyone=spread(self.everyone, 0),
            anyone=spread(self.anyone, 0),
            subgroups=spread(self.subgroups, 0),
        )

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.everyone.sum())

    def once(self, key: Any, measure: Callable[[], Any]) -> Any:
        """Return what was measured before under a key, or measure it."""
        if key not in self._measured:
            self._measured[key] = measure()
        return self._measured[key]

    def require(self, shards: Iterable[str]) -> None:
        """Refuse counts in which a shard is missing, or that have others.

        Raises
        ------
        ValueError
            With the names.
        """
        wanted = set(shards)
        for name, wrong in (
            ("lack", sorted(wanted - self.shards)),
            ("must not have", sorted(self.shards - wanted)),
        ):
            if wrong:
                msg = f"the counts {name} {len(wrong)} of the shards, first {wrong[0]!r}."
                raise ValueError(msg)

    def flagged(self, threshold: float) -> dict[str | None, dict[Class, tuple[int, int]]]:
        """Return how many rows score at or above a threshold: at least, and at most.

        Both are the same unless the threshold is inside a bin.

        Returns
        -------
        dict
            By subgroup, and None for all rows; then by class.
        """
        threshold = check_threshold(threshold)
        sure, possible = self.reaches(threshold)

        def of(counts: Counts) -> dict[Class, tuple[int, int]]:
            return {
                kind: (int(one[sure].sum()), int(one[possible].sum()))
                for kind, one in zip(CLASSES, counts, strict=True)
            }

        return {None: of(self.everyone)} | {
            name: of(own) for name, own in zip(self.names, self.subgroups, strict=True)
        }

    def reaches(self, threshold: float) -> tuple[BoolArray, BoolArray]:
        """Return the bins whose scores all reach a threshold, and those of which some may."""
        sure = reaches(self.least, threshold)
        lowest = min((threshold, *narrow_forms(threshold)))
        return sure, sure | (self.most >= lowest)
