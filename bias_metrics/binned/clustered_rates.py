"""Errors at thresholds in clusters: sums over these that the rules for rows in clusters need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bias_metrics._core.ranks import Floats
from bias_metrics.binned.rates import gap_ends, share_ends
from bias_metrics.metrics import Class, Rate, threshold_metrics
from bias_metrics.rows import Background, Rows
from bias_metrics.thresholds.errors import flagged
from bias_metrics.thresholds.share_counts import Counts
from bias_metrics.thresholds.shares import Events, ShareGap

if TYPE_CHECKING:
    from bias_metrics.binned.counts import ScoreCounts

_MISSED, _FLAGGED = Rate(("positive",), "not flagged"), Rate(("negative",), "flagged")
_ROUNDING = 1e-9
Ends = tuple[ShareGap, ShareGap]


@dataclass(frozen=True)
class RateTotals:
    """Sums over all clusters of errors at thresholds, of the first model or of it and another."""

    models: list[int]
    thresholds: list[float]
    """models, thresholds: which models, and where each flags a row, whatever its bin."""
    subgroups: dict[str, list[list[float]]]
    """By metric, for each subgroup: the totals of its `Counts`, those of its background's, and sums
    of the products of a cluster's rows and events on both sides."""
    classes: list[float]
    """The same for errors among all positives, beside those among all negatives."""

    @classmethod
    def of(
        cls,
        models: Sequence[int],
        thresholds: Sequence[float],
        rows: Rows,
        scores: Sequence[Floats],
    ) -> RateTotals:
        """Sum over some clusters, given whole; `scores` are of these models."""
        at = zip(scores, thresholds, strict=True)
        flags = [flagged(of_model, threshold) for of_model, threshold in at]
        subgroups = {
            metric: [_summed(*sides) for _, *sides in Events.of_rate(rate, rows, flags).sides()]
            for metric, rate in threshold_metrics().items()
        }
        classes = (Events.of_rate(rate, rows, flags).everywhere() for rate in (_MISSED, _FLAGGED))
        return cls(list(models), list(thresholds), subgroups, _summed(*classes))

    def __add__(self, other: RateTotals) -> RateTotals:
        """Add the sums over other clusters."""
        subgroups = {
            metric: np.add(own, other.subgroups[metric]).tolist()
            for metric, own in self.subgroups.items()
        }
        classes = np.add(self.classes, other.classes).tolist()
        return RateTotals(self.models, self.thresholds, subgroups, classes)

    def gaps(self, metric: str, rate: Rate) -> list[ShareGap]:
        """Return the gap of each subgroup."""
        return [self._gap(sums, rate.rows) for sums in self.subgroups[metric]]

    def apart(self) -> ShareGap:
        """Return the share of errors among positives, less that among negatives."""
        return self._gap(self.classes, "rows")

    def flagged(
        self, model: int, names: Sequence[str]
    ) -> dict[str | None, dict[Class, tuple[int, int]]]:
        """Return how many rows a model flags, as `ScoreCounts.flagged` does."""
        at, known = self.models.index(model), threshold_metrics().items()
        missed, flagged = (
            next(self.gaps(metric, rate) for metric, rate in known if rate == wanted)
            for wanted in (_MISSED, _FLAGGED)
        )
        everyone = self.apart()
        of_groups = [(a.own, b.own) for a, b in zip(missed, flagged, strict=True)]
        found: dict[str | None, dict[Class, tuple[int, int]]] = {}
        for name, (a, b) in zip(
            (None, *names), [(everyone.own, everyone.background), *of_groups], strict=True
        ):
            positive, negative = a.n - a.events[at], b.events[at]
            found[name] = {"positive": (positive,) * 2, "negative": (negative,) * 2}
        return found

    def _gap(self, sums: list[float], name: str) -> ShareGap:
        own, other, together = self._sides(sums)
        return ShareGap.of(own, other, name, together)

    def _sides(self, sums: list[float]) -> tuple[Counts, Counts, Floats]:
        n_models, size = len(self.models), Counts.n_totals(len(self.models))
        own, other = (Counts.of_totals(side, n_models) for side in (sums[:size], sums[size:]))
        return own, other, np.array(sums[2 * size :]).reshape(n_models + 1, -1)

    def could_be(self, counts: Sequence[ScoreCounts], n: int, background: Background) -> bool:
        """Say whether these may be sums over n clusters of the rows of all models' counts."""
        n_models = len(self.models)
        n_sums = 2 * Counts.n_totals(n_models) + (n_models + 1) ** 2
        if self.subgroups.keys() != threshold_metrics().keys():
            return False
        each = [sums for metric in threshold_metrics() for sums in self.subgroups[metric]]
        each.append(self.classes)
        return (
            self.models in [[0], *([0, other] for other in range(1, len(counts)))]
            and len(self.thresholds) == n_models
            and {len(of) for of in self.subgroups.values()} == {len(counts[0].names)}
            and {len(sums) for sums in each} == {n_sums}
            and all(np.isfinite(numbers).all() for numbers in (self.thresholds, *each))
            and all(
                self._fit(sums, ends, model, n)
                for model, of_model in enumerate(self.models)
                for sums, ends in zip(
                    each, self._ends(counts[of_model], model, background), strict=True
                )
            )
        )

    def _ends(self, counts: ScoreCounts, model: int, background: Background) -> Iterator[Ends]:
        """Yield the smallest and the largest gap that is possible, in the order of the sums."""
        at = self.thresholds[model]
        for rate in threshold_metrics().values():
            yield from (ends for _, ends in gap_ends(counts, at, rate, background))
        (low, high), (other_low, other_high) = (
            share_ends(counts, at, rate, counts.everyone) for rate in (_MISSED, _FLAGGED)
        )
        yield ShareGap(low, other_high, ""), ShareGap(high, other_low, "")

    def _fit(self, sums: list[float], ends: Ends, model: int, n: int) -> bool:
        """Say whether sums fit each other and what is known of a model's errors."""
        own, other, together = self._sides(sums)
        low, high = ends
        products = np.block([[own.products, together], [together.T, other.products]])
        least = float(np.linalg.eigvalsh(products)[0])
        return least >= -_ROUNDING * float(np.trace(products)) and all(
            side.n == fewest.n
            and fewest.events[0] <= side.events[model] <= most.events[0]
            and side.could_be(n)
            for side, fewest, most in (
                (own, low.own, high.own),
                (other, high.background, low.background),
            )
        )


def _summed(own: Counts, other: Counts) -> list[float]:
    """Return the sums over clusters, of which those of `own` are known one by one on both sides."""
    together = own.vectors @ other.vectors.T
    return [*own.totals(), *other.totals(), *together.ravel().tolist()]
