"""How each row or cluster moves every number: what the bootstrap's intervals need besides draws."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from bias_metrics._core.cells import Comparison, overall_comparison
from bias_metrics._core.clusters import Clustering, ClusterSums, Codes
from bias_metrics._core.influence import Members
from bias_metrics._core.intervals import least_interval, newcombe_interval, quantile
from bias_metrics._core.ranks import Floats, delong_variance, squares_of
from bias_metrics._core.values import MetricValue
from bias_metrics.metrics import FINAL_SCORE_PARTS, METRICS
from bias_metrics.report.bca import Basis, acceleration, expanded
from bias_metrics.report.clustered import ClusteredReport, Ends, with_clustered_error
from bias_metrics.report.pairing import Model, Pairing
from bias_metrics.report.replicates import FINAL, OVERALL, RESAMPLED, Key
from bias_metrics.report.uncertainty import (
    Spread,
    aggregate_influences,
    aggregate_of,
    aggregate_reaches,
)


@dataclass(frozen=True, eq=False)
class Movement:
    """One number of one model, and what moves it.

    Attributes
    ----------
    value : MetricValue
        The number; with a reason if it has no interval.
    each : float array or None
        Influences of the rows, or of the clusters; None if it has no standard error.
    n : float
        How many of them the class with fewer has; infinite if that is unknown.
    freedom : float or None
        Degrees of freedom; None if they follow from the influences.
    least : (float, float) or None
        See `Basis`.
    """

    value: MetricValue
    each: Floats | None = None
    n: float = math.inf
    freedom: float | None = None
    least: Ends | None = None

    def basis(self, confidence: float) -> Basis:
        """Return what the intervals of a bootstrap need."""
        if self.each is None or self.value.reason is not None:
            return Basis(self.value.value, self.value.reason)
        freedom = squares_of([self.each])[1] if self.freedom is None else self.freedom
        z = expanded(confidence, self.n, freedom)
        return Basis(self.value.value, None, acceleration([self.each]), z, self.least)


def bases_of(model: Model, clusters: Codes | None, confidence: float) -> dict[Key, Basis]:
    """Return the basis of every number of one model."""
    found = _movements(model, clusters, confidence)
    return {key: one.basis(confidence) for key, one in found}


def bases_of_differences(pairing: Pairing, clusters: Codes | None) -> dict[Key, Basis]:
    """Return the basis of every difference of two models."""
    confidence, found = pairing.confidence, {}
    known = {_key(name): one for name, one in pairing.aggregates()[2].items()}
    known |= {
        (name, metric): one
        for name, cells in pairing.differences.items()
        for metric, one in cells.items()
    }
    both = (_movements(model, clusters, confidence) for model in pairing.models)
    for (key, a), (_, b) in zip(*both, strict=True):
        movement = Movement(MetricValue(known[key].value, known[key].reason))
        if a.each is not None and b.each is not None:
            movement = replace(movement, each=a.each - b.each, n=min(a.n, b.n))
            freedoms = [one.freedom for one in (a, b) if one.freedom is not None]
            ends = known[key].ends
            movement = replace(
                movement,
                freedom=min(freedoms, default=None),
                least=ends if a.least or b.least else None,
            )
        found[key] = movement.basis(confidence)
    return found


def _movements(
    model: Model, clusters: Codes | None, confidence: float
) -> Iterator[tuple[Key, Movement]]:
    """Yield every number; the overall AUC and the cells come first."""
    if clusters is None:
        return chain(_cells_by_row(model, confidence), _aggregates_by_row(model, confidence))
    clustering = Clustering.of(model.ranked, clusters)
    return chain(
        _cells_by_cluster(model, clustering, confidence),
        _aggregates_by_cluster(model, clustering, confidence),
    )


def _cells_by_row(model: Model, confidence: float) -> Iterator[tuple[Key, Movement]]:
    spread = Spread(model.ranked, confidence)
    for key, value, comparison, members in _cells(model):
        if value.std_error is None:
            yield key, Movement(value)
            continue
        sizes, centre = (comparison.n_base, comparison.searched.n), METRICS[key[1]].centre
        freedom = delong_variance(comparison.placed, comparison.runs)[1]
        auc, z = float(value) + centre, quantile(confidence)
        least = _centred(least_interval(auc, value.std_error, *sizes, z, freedom), centre)
        each = spread.of_auc(key[1], comparison, members).by_row(model.ranked)
        yield key, Movement(value, each, min(sizes), min(sizes) - 1, least)


def _aggregates_by_row(model: Model, confidence: float) -> Iterator[tuple[Key, Movement]]:
    report, spread = model.report, Spread(model.ranked, confidence)
    reaches = aggregate_reaches(report, model.members, spread)
    for name, influence in aggregate_influences(report, model.members, spread):
        value = aggregate_of(report, name)
        if name == "overall":
            continue
        if isinstance(influence, str):
            yield _key(name), Movement(replace(value, reason=influence))
        else:
            each = influence.by_row(model.ranked)
            yield _key(name), Movement(value, each, least=_reached(value, reaches.get(name)))


def _cells_by_cluster(
    model: Model, clustering: Clustering, confidence: float
) -> Iterator[tuple[Key, Movement]]:
    for key, value, comparison, members in _cells(model):
        if value.std_error is None:
            yield key, Movement(value)
            continue
        sums, centre = clustering.sums(key[1], comparison, members), METRICS[key[1]].centre
        worth = sums.worth((comparison.n_base, comparison.searched.n), value.std_error)
        z = quantile(confidence, sums.freedom)
        least = _centred(newcombe_interval(float(value) + centre, *worth, z), centre)
        yield key, _of_clusters(value, sums, least)


def _aggregates_by_cluster(
    model: Model, clustering: Clustering, confidence: float
) -> Iterator[tuple[Key, Movement]]:
    clustered = ClusteredReport(model.report, clustering, confidence)
    clustered.measure_all(model.members)
    report = clustered.report()
    reaches = clustered.reaches()
    for name in (*FINAL_SCORE_PARTS, "final_score"):
        value = aggregate_of(report, name)
        if name in clustered.totals:
            least = _reached(value, reaches.get(name))
            yield _key(name), _of_clusters(value, clustered.totals[name], least)
        else:
            reason = value.reason or "it covers numbers without a standard error"
            yield _key(name), Movement(replace(value, reason=reason))


def _cells(model: Model) -> Iterator[tuple[Key, MetricValue, Comparison, Members | None]]:
    yield OVERALL, model.report.overall.auc, overall_comparison(model.ranked.everyone), None
    for name, members in model.members.items():
        for metric in RESAMPLED:
            value: MetricValue = getattr(model.report.subgroups[name], metric)
            yield (name, metric), value, members.compared[metric], members


def _of_clusters(value: MetricValue, sums: ClusterSums, least: Ends | None) -> Movement:
    found = with_clustered_error(value, sums)
    return Movement(found, sums.each, max(sums.effective, 2.0), sums.freedom, least)


def _centred(ends: Ends | None, centre: float) -> Ends | None:
    return None if ends is None else (ends[0] - centre, ends[1] - centre)


def _reached(value: MetricValue, reach: Ends | None) -> Ends | None:
    """Return the ends that an aggregate reaches at least."""
    if reach is None:
        return None
    return max(float(value) - reach[0], 0.0), min(float(value) + reach[1], 1.0)


def _key(name: str) -> Key:
    """Return the key of the overall AUC, a power mean or the final score."""
    return {"overall": OVERALL, "final_score": FINAL}.get(name, (None, name))
