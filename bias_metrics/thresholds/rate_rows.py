"""The checked rows on which error rates are compared, and each model's decisions on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bias_metrics._core.checks import (
    BoolArray,
    FloatArray,
    check_mask,
    check_scores,
    check_subgroups,
)
from bias_metrics._core.cluster_codes import check_clusters
from bias_metrics._core.intervals import check_confidence
from bias_metrics._core.options import check_choice, check_threshold
from bias_metrics.metrics import Rate, threshold_metrics
from bias_metrics.report.report import BACKGROUNDS
from bias_metrics.report.request import excluded_rows
from bias_metrics.thresholds.errors import flagged
from bias_metrics.thresholds.rate_cells import Gap
from bias_metrics.thresholds.rate_sides import Events


@dataclass(frozen=True, eq=False)
class RateRows:
    """Checked arguments of `rate_gaps` and `compare_rate_gaps`."""

    labels: BoolArray
    masks: Mapping[str, BoolArray]
    confidence: float
    clusters: npt.NDArray[np.intp] | None
    excluded: npt.NDArray[np.intp] | None

    @classmethod
    def of(
        cls,
        y_true: npt.ArrayLike,
        subgroups: Mapping[str, npt.ArrayLike],
        confidence: float,
        clusters: npt.ArrayLike | None,
        background: str,
    ) -> RateRows:
        """Check the arguments."""
        labels = check_mask("y_true", y_true)
        masks = check_subgroups(subgroups, labels.size)
        check_choice("background", background, BACKGROUNDS)
        return cls(
            labels,
            masks,
            check_confidence(confidence),
            check_clusters(clusters, labels.size),
            excluded_rows(background, masks),
        )

    def decide(
        self,
        name: str,
        y_score: npt.ArrayLike,
        threshold: float,
        threshold_range: tuple[float, float] | None,
    ) -> list[BoolArray]:
        """Say which rows a model flags at its threshold, and at the ends of the range."""
        scores: FloatArray = check_scores(name, y_score, self.labels.size)
        thresholds = (threshold, *(threshold_range or ()))
        return [flagged(scores, check_threshold(one)) for one in thresholds]

    def compare(self, models: Sequence[list[BoolArray]]) -> Iterator[tuple[str, str, Gap]]:
        """Yield each subgroup with its background, for each metric."""
        decided, *ends = zip(*models, strict=True)
        at_ends = [self._compare(one) for one in ends]
        for (name, metric, gap), *others in zip(self._compare(decided), *at_ends, strict=True):
            moved = (
                tuple(one.value(model) or 0.0 for _, _, one in others)
                for model in range(len(models))
            )
            yield name, metric, replace(gap, moved=tuple(moved) if ends else ())

    def _compare(self, models: Sequence[BoolArray]) -> Iterator[tuple[str, str, Gap]]:
        everyone = np.arange(self.labels.size)
        for metric, rate in threshold_metrics().items():
            events = Events.of(rate, self.labels, models, self.clusters)
            total = events.among(everyone)
            shared = None if self.excluded is None else events.among(self.excluded)
            for name, mask in self.masks.items():
                own = events.among(np.flatnonzero(mask))
                background = total.less(shared or own)
                yield name, metric, Gap(own, background, _called(rate), self.confidence)


def _called(rate: Rate) -> str:
    """Return the name of the counted rows, for reasons."""
    return f"{rate.of[0]}s" if len(rate.of) == 1 else "rows"
