"""Clusters of counted rows: how far they move each number, added up over batches of clusters.

How far a row moves a number follows from its bin and the counts of all rows. So rows are looked at
once more, a few clusters at a time, and only sums over clusters are kept. These sums rest on the
counts of all rows: those of two sets do not add up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bias_metrics._core.cells import unshrinking
from bias_metrics._core.checks import FloatArray
from bias_metrics._core.clusters import AddedClusters, Clustering
from bias_metrics._core.covariance import Joint
from bias_metrics._core.influence import CLASSES as POSITIVE
from bias_metrics._core.influence import rank_rows
from bias_metrics._core.ranks import Floats, inner
from bias_metrics._core.same_cluster import SamePairs
from bias_metrics.binned.bins import bins_of
from bias_metrics.binned.clustered_rates import RateTotals
from bias_metrics.binned.report import Counts, Key, compared
from bias_metrics.metrics import PAIRS
from bias_metrics.report.steps import ranked_members
from bias_metrics.rows import Background, Places, Rows, any_of

if TYPE_CHECKING:
    from bias_metrics.binned.counts import ScoreCounts

Batch = tuple[Rows, Sequence[FloatArray]]
"""Rows of whole clusters, and their scores by each model."""
_OTHERS = "the rows of clusters must be those that were counted; they are others."


@dataclass(frozen=True)
class ClusterTotals:
    """Sums over all clusters for the overall AUC and each subgroup's numbers, in this order.

    Make it with `of`, and give it to `ScoreCounts.in_clusters`.
    """

    n: int
    """Number of clusters."""
    background: Background
    rows: list[list[float]]
    """For each number: the rows of both compared classes, their clusters, and the clusters with any
    of these rows; the sums of the squares of both classes' rows in a cluster, and of their product:
    the pairs of one cluster."""
    moves: list[list[list[float]]]
    """For each model and number: the sums of squares and of fourth powers of the clusters'
    influences, and of squares of how far these may be off; and how many pairs of one cluster have
    x above y, where that matters."""
    apart: list[list[float]]
    """For each model but the first, and number: the sum of squares of the first model's influences
    less its own."""
    rates: list[RateTotals] = field(default_factory=list)
    """Errors at thresholds, of the first model with each other one or alone."""

    @classmethod
    def of(
        cls,
        counts: Sequence[ScoreCounts],
        batches: Callable[[], Iterable[Batch]],
        background: Background = "outside_subgroup",
        thresholds: Sequence[Sequence[float | None]] = (),
    ) -> ClusterTotals:
        """Add up the clusters of rows that one or more models' scores of were counted.

        Parameters
        ----------
        counts : sequence of ScoreCounts
            Of all rows, one of each model.
        batches : callable
            Returns the rows again, all of a cluster in one batch, without weights. It is called
            twice if pairs of one cluster matter.
        background : {"outside_subgroup", "no_identity"}
            As in `Rows`.
        thresholds : sequence of sequence of float or None
            Where error rates are asked for, beside the thresholds of equal errors: each of them
            has one for every model, None if a model has none.

        Raises
        ------
        ValueError
            If the rows are not those that were counted.
        """
        keys = [key for key, _, _ in compared(counts[0], background)]
        rows = np.zeros((len(keys), 8))
        moves = np.zeros((len(counts), len(keys), 4))
        apart = np.zeros((len(counts) - 1, len(keys)))
        equal = [count.equal_error_rate().threshold for count in counts]
        asked = dict.fromkeys(one for each in (equal, *thresholds) for one in _asked(each))
        rates: list[RateTotals] = []
        n = 0
        for batch in batches():
            of_batch = _Batch(counts, *batch, background)
            n += of_batch.n
            found = [of_batch.rates(*one) for one in asked]
            rates = list(map(RateTotals.__add__, rates, found)) if rates else found
            for at, (of_rows, influences, slacks) in enumerate(of_batch.numbers()):
                rows[at] += of_rows
                each, off = np.array(influences), np.square(slacks)
                squares = np.square(each)
                moves[:, at, :3] += np.stack(
                    [squares.sum(axis=1), np.square(squares).sum(axis=1), off.sum(axis=1)], axis=1
                )
                others = each[1:] - each[0]
                apart[:, at] += np.square(others).sum(axis=1)
        for at, (_, y, x) in enumerate(compared(counts[0], background)):
            if rows[at, :2].tolist() != [int(y.sum()), int(x.sum())]:
                raise ValueError(_OTHERS)
        matter: dict[int, list[int]] = {}
        for model, at in np.ndindex(*moves.shape[:2]):
            if _matter(rows[at], _errors(moves[model, at])[0]):
                matter.setdefault(model, []).append(at)
        for batch in batches() if matter else ():
            of_batch = _Batch(counts, *batch, background)
            for model, wanted in matter.items():
                for at, wins in of_batch.wins(model, keys, wanted):
                    moves[model, at, 3] += wins
        return cls(n, background, rows.tolist(), moves.tolist(), apart.tolist(), rates)

    def rates_at(self, wanted: Mapping[int, float], background: Background) -> RateTotals:
        """Return the errors of one model or two at their thresholds.

        Raises
        ------
        ValueError
            If they were not added up at these, or with another background.
        """
        self.refuse_background(background)
        for rate in self.rates:
            if wanted.items() <= dict(zip(rate.models, rate.thresholds, strict=True)).items():
                return rate
        at = ", ".join(f"{threshold:.6g}" for threshold in wanted.values())
        msg = f"clusters must be added up at the thresholds that are asked for, {at}; they are not."
        raise ValueError(msg)

    def refuse_background(self, background: Background) -> None:
        """Refuse another background than that of the clusters."""
        if self.background != background:
            msg = f"`background` must be that of the clusters, {self.background}; got {background}."
            raise ValueError(msg)

    def refuse_others(self, counts: Sequence[ScoreCounts]) -> None:
        """Refuse sums that cannot be of the clusters of these counts' rows.

        Raises
        ------
        ValueError
            If their shape or numbers of rows are others, or they contradict each other.
        """
        n = [[of.sum() for of in both] for _, *both in compared(counts[0], self.background)]
        apart_shape = (len(counts) - 1, len(n)) if len(counts) > 1 else (0,)
        shapes = (len(n), 8), (len(counts), len(n), 4), apart_shape
        rows, moves, apart = map(np.array, (self.rows, self.moves, self.apart))
        possible = (
            (rows.shape, moves.shape, apart.shape) == shapes
            and all(np.isfinite(of).all() and (of >= 0).all() for of in (rows, moves, apart))
            and np.array_equal(rows[:, :2], n)
            and (rows[:, 2:4] <= rows[:, :2]).all()
            and (rows[:, 2:5] <= self.n).all()
            and (rows[:, 5:7] >= rows[:, :2]).all()
            and (rows[:, 5:7] <= rows[:, :2] ** 2).all()
            and (rows[:, 7] <= rows[:, 0] * rows[:, 1]).all()
            and (moves[:, :, 3] <= rows[:, 7]).all()
            and all(rate.could_be(counts, self.n, self.background) for rate in self.rates)
        )
        if not possible:
            raise ValueError(_OTHERS)

    def sums(self, model: int, at: int, *, flip: bool) -> AddedClusters:
        """Return what the clusters do to a model's number."""
        squares, fourths, off, wins = self.moves[model][at]
        least, most = _errors(self.moves[model][at])
        n_y, n_x, of_y, of_x, n, y_squares, x_squares, pairs = self.rows[at]
        clusters = int(of_y), int(of_x)
        same = None
        if _matter(self.rows[at], least):
            same = SamePairs.of(wins, pairs, n_y * n_x, flip=flip)
        return AddedClusters(
            np.zeros(0),
            clusters,
            min(n_y**2 / y_squares, n_x**2 / x_squares),
            clusters,
            same=same,
            squares=squares,
            fourths=fourths,
            n=int(n),
            moved=math.sqrt(off),
            unsure=same is not None and not _matter(self.rows[at], most),
        )

    def together(self, other: int, at: int) -> Joint:
        """Return how the first model's number varies together with another's."""
        a, b = (self.moves[model][at][0] for model in (0, other))
        return Joint((a + b - self.apart[other - 1][at]) / 2, (0.0, 0.0, 0.0, 0.0))


def _asked(thresholds: Sequence[float | None]) -> Iterator[tuple[tuple[int, float], ...]]:
    """Yield which models' errors are added up together, and at which thresholds."""
    own, *others = enumerate(thresholds)
    known = [(model, at) for model, at in others if at is not None]
    if own[1] is not None:
        first = 0, own[1]
        yield from ((first, other) for other in known) if known else [(first,)]


def _matter(rows: Sequence[float] | Floats, std_error: float) -> bool:
    """Say whether the pairs of one cluster matter to a number."""
    return SamePairs.matter(float(rows[7]), float(rows[0] * rows[1]), std_error)


def _errors(moves: Sequence[float] | Floats) -> tuple[float, float]:
    """Return the smallest and the largest standard error that is possible."""
    error, off = math.sqrt(moves[0]), math.sqrt(moves[2])
    return max(error - off, 0.0), error + off


@dataclass(frozen=True, eq=False)
class _Some:
    """Rows of one class in a batch: the cluster of each, and its bin under each model."""

    codes: Places
    bins: list[Places]
    n: int

    @cached_property
    def rows(self) -> Floats:
        """How many each cluster has."""
        return np.bincount(self.codes, minlength=self.n).astype(np.float64)

    def within(self, places: Places) -> _Some:
        """Return some of them."""
        return _Some(self.codes[places], [bins[places] for bins in self.bins], self.n)

    def sums(self, model: int, of_bins: Floats) -> Floats:
        """Sum a value of bins over the rows of each cluster."""
        found = np.bincount(self.codes, of_bins.take(self.bins[model]), self.n)
        return found.astype(np.float64, copy=False)


class _Batch:
    """Some clusters."""

    def __init__(
        self,
        counts: Sequence[ScoreCounts],
        rows: Rows,
        scores: Sequence[FloatArray],
        background: Background,
    ) -> None:
        assert rows.clusters is not None  # noqa: S101
        self.counts, self.rows, self.background = counts, rows, background
        self.scores = scores
        self.n = int(rows.clusters.max(initial=-1)) + 1
        self.bins = [_places(one, score) for one, score in zip(counts, scores, strict=True)]
        everyone = _Some(rows.clusters, self.bins, self.n)
        masks = dict(rows.subgroups)
        shared = background != "outside_subgroup" and masks
        excluded = any_of(masks) if shared else None
        self.parts: dict[tuple[str | None, bool], _Some] = {}
        self.excluded: dict[bool, _Some] = {}
        for positive in (True, False):
            of_class = rows.y_true == positive
            self.parts[None, positive] = everyone.within(np.flatnonzero(of_class))
            for name, mask in masks.items():
                self.parts[name, positive] = everyone.within(np.flatnonzero(of_class & mask))
            if excluded is not None:
                self.excluded[positive] = everyone.within(np.flatnonzero(of_class & excluded))

    def numbers(self) -> Iterator[tuple[list[float], list[Floats], list[Floats]]]:
        """Yield for each number: sums of rows; each model's influences, and how far they are off.

        Influences are those of clusters on P(x > y), whatever the number is.
        """
        for several in zip(
            *(compared(count, self.background) for count in self.counts), strict=True
        ):
            (name, metric), *first = several[0]
            x_positive, y_positive = POSITIVE[metric]
            x, y, left_out = self.parts[name, x_positive], self.parts[None, y_positive], None
            if name is not None and PAIRS[metric].inside:
                y = self.parts[name, y_positive]
            elif name is not None:
                left_out = self.excluded.get(y_positive) or self.parts[name, y_positive]
            y_rows = y.rows if left_out is None else y.rows - left_out.rows
            both = (y_rows > 0) | (x.rows > 0)
            ns: list[Floats] = [y_rows, x.rows]
            sums = [float(one.sum()) for one in (*ns, *(of > 0 for of in ns), both)]
            sums += [inner(y_rows, y_rows), inner(x.rows, x.rows), inner(y_rows, x.rows)]
            totals = [float(one.sum()) for one in first]
            if min(totals) < 2:
                nothing = [np.zeros(self.n) for _ in several]
                yield sums, nothing, nothing
                continue
            divisors = [unshrinking(of, n=n) for of, n in zip(ns, totals, strict=True)]
            influences, slacks = [], []
            for model, (_, own_y, own_x) in enumerate(several):
                wide = self.counts[model].least < self.counts[model].most
                tables = _tables(own_y, own_x, wide), _tables(own_x, own_y, wide)
                of_y, of_x = (
                    [rows.sums(model, table) / divisor for table in of_side]
                    for rows, of_side, divisor in zip((y, x), tables, divisors, strict=True)
                )
                if left_out is not None:
                    for at, table in enumerate(tables[0]):
                        of_y[at] = of_y[at] - left_out.sums(model, table) / divisors[0]
                influences.append(of_x[0] - of_y[0])
                slacks.append(of_x[1] + of_y[1])
            yield sums, influences, slacks

    @cached_property
    def beside_background(self) -> Rows:
        """The rows, which know what subgroups are compared with."""
        rows = self.rows
        return Rows(rows.y_true, rows.subgroups, clusters=rows.clusters, background=self.background)

    def rates(self, *asked: tuple[int, float]) -> RateTotals:
        """Sum the errors of models at thresholds."""
        models, thresholds = zip(*asked, strict=True)
        scores = [self.scores[model].astype(np.float64) for model in models]
        return RateTotals.of(models, thresholds, self.beside_background, scores)

    def wins(self, model: int, keys: list[Key], wanted: list[int]) -> Iterator[tuple[int, float]]:
        """Yield in how many pairs of one cluster x is above y, for some of the numbers."""
        ranked = rank_rows(self.rows.y_true, self.bins[model].astype(np.float64))
        clustering = Clustering.of(ranked, self.rows.clusters)
        members = ranked_members(ranked, self.rows)
        for at in wanted:
            name, metric = keys[at]
            if self.parts[name, POSITIVE[metric][0]].codes.size:
                of_group = None if name is None else members[name]
                yield at, clustering.within(of_group).wins(metric)


def _tables(own: Counts, other: Counts, wide: np.ndarray) -> tuple[Floats, Floats]:
    """Return how far a row of each bin is from the mean placement, and by how much that is off."""
    below = other.astype(np.float64)
    n, n_own = float(below.sum()), float(own.sum())
    placed = (np.cumsum(below) - below / 2) / n
    placed -= inner(own.astype(np.float64), placed) / n_own
    shared = np.where(wide, below, 0.0) / (2 * n)
    return placed, shared + inner(own.astype(np.float64), shared) / n_own


def _places(counts: ScoreCounts, scores: FloatArray) -> Places:
    """Return which bin of the counts each score is in."""
    bins = bins_of(scores.astype(np.float64), counts.bits)
    places = np.minimum(np.searchsorted(counts.bins, bins), counts.bins.size - 1)
    if not np.array_equal(counts.bins[places], bins):
        raise ValueError(_OTHERS)
    return places
