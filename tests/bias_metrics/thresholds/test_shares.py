"""The interval of an error rate of one identity: Wilson's, and with clusters at least as wide."""

from dataclasses import replace

import numpy as np
import pytest

from bias_metrics._core.covariance import JointMoments
from bias_metrics._core.differences import (
    bound_size_change,
    compute_paired_difference,
    negate_value,
)
from bias_metrics._core.intervals import MIN_CLUSTERS, compute_p_value, student_quantile
from bias_metrics._core.proportions import (
    paired_change_interval,
    share_difference_interval,
    wilson_interval,
)
from bias_metrics._core.values import MetricValue
from bias_metrics.metrics import list_threshold_metrics
from bias_metrics.rows import Rows
from bias_metrics.thresholds.share_counts import EventCounts, EventsByCluster
from bias_metrics.thresholds.shares import Events, Share, ShareGap

FPR = list_threshold_metrics()["fpr_gap"]


def measure_share(flagged, clusters=None):
    """The share of harmless rows that are flagged."""
    rows = Rows(np.zeros(len(flagged), dtype=bool), {}, clusters=clusters)
    events = Events.from_rate(FPR, rows, [np.asarray(flagged, dtype=bool)])
    return Share.from_counts(events.count_all()).measure(0.95)


@pytest.mark.parametrize(("k", "n"), [(0, 10), (3, 40), (40, 40), (1, 1)])
def test_without_clusters_it_is_wilsons(k, n):
    share = measure_share([row < k for row in range(n)])
    stats = pytest.importorskip("scipy.stats")
    interval = stats.binomtest(k, n).proportion_ci(0.95, "wilson")
    assert share.value == k / n
    assert (share.low, share.high) == pytest.approx((interval.low, interval.high))


@pytest.mark.parametrize("n", [13, 25, 26, 27])
def test_a_share_of_all_or_none_is_an_end_of_its_interval(n):
    none, whole = measure_share([False] * n), measure_share([True] * n)
    assert (none.low, whole.high) == (0, 1)


def test_without_rows_there_is_no_share():
    share = measure_share([])
    assert (share.value, share.low, share.reason) == (None, None, "no rows")


def test_from_few_clusters_there_is_no_interval():
    n = MIN_CLUSTERS - 1
    share = measure_share(np.arange(40) % 3 == 0, np.arange(40) % n)
    assert (share.low, share.high) == (None, None)
    assert share.reason == f"{n} clusters where {MIN_CLUSTERS} are needed"


def test_one_row_in_a_cluster_is_no_error():
    share = measure_share([True], [7])
    assert (share.value, share.reason) == (1, f"1 cluster where {MIN_CLUSTERS} are needed")


def test_rows_of_a_cluster_that_are_all_alike_count_as_one():
    flagged = np.arange(60) % 3 == 0
    by_row = measure_share(flagged)
    clustered = measure_share(np.repeat(flagged, 5), np.repeat(np.arange(60), 5))
    assert clustered.value == by_row.value
    assert (
        1 <= (clustered.high - clustered.low) / (by_row.high - by_row.low) < 1.1
    )  # Student's quantile


@pytest.mark.parametrize(("chance", "n_clusters"), [(0.3, 60), (0.1, 80)])
def test_it_covers_the_share_as_often_as_it_says(chance, n_clusters):
    rng = np.random.default_rng(3)
    clusters = np.repeat(np.arange(n_clusters), 6)
    held = {True: 0, False: 0}
    for _ in range(1000):
        rate = rng.beta(2 * chance, 2 * (1 - chance), n_clusters)  # correlation 1/3
        flagged = rng.random(clusters.size) < rate[clusters]
        for has_clusters in held:
            share = measure_share(flagged, clusters if has_clusters else None)
            held[has_clusters] += share.low <= chance <= share.high
    assert held[True] >= 925  # 950 less more than three Monte Carlo errors of 7
    assert held[False] < 880  # it can fail: rows that pass for independent are not


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
@pytest.mark.parametrize("n_models", [1, 2, 5])
def test_clusters_without_rows_of_the_subgroup_count_as_if_each_were_looked_at(
    background, n_models
):
    rng = np.random.default_rng(n_models)
    n = 400
    clusters, inside, other = rng.integers(0, 150, n), rng.random(n) < 0.1, rng.random(n) < 0.2
    labels = rng.random(n) < 0.3
    flags = [rng.random(n) < rate for rate in rng.uniform(0.1, 0.9, n_models)]
    rows = Rows(labels, {"a": inside, "b": other}, clusters=clusters, background=background)
    gap = dict(Events.from_rate(FPR, rows, flags).list_gaps())["a"]
    outside = ~inside if background == "outside_subgroup" else ~inside & ~other

    def influence(flagged):
        moved = np.zeros(150)
        for sign, members in ((1, inside & ~labels), (-1, outside & ~labels)):
            share = flagged[members].mean()
            for row in np.flatnonzero(members):
                moved[clusters[row]] += sign * (flagged[row] - share) / members.sum()
        return moved

    moved = [influence(flagged) for flagged in flags]
    errors = [number.std_error for number in gap.numbers]
    assert errors == pytest.approx([np.sqrt((of_model**2).sum()) for of_model in moved], rel=1e-12)
    combined = [moved[0] - moved[1], moved[0] + moved[1]] if n_models == 2 else []
    clustered_errors = [number.std_error for number in gap.contrasts]
    assert clustered_errors == pytest.approx(
        [np.sqrt((change**2).sum()) for change in combined], rel=1e-12
    )
    used = [np.bincount(clusters[mask & ~labels]) for mask in (inside, outside)]
    assert gap.numbers[0].n_clusters == min(np.count_nonzero(sizes) for sizes in used)
    worth = [sizes.sum() ** 2 / (sizes**2).sum() - 1 for sizes in used]
    assert gap.numbers[0].freedom == pytest.approx(min(worth), rel=1e-12)


@pytest.mark.parametrize(
    ("n_clusters", "rows", "correlation"),
    [(25, 40, 0.95), (50, 40, 0.95), (100, 40, 0.95), (30, 20, 0.5)],
)
def test_a_rare_event_in_clusters_passes_no_ceiling_too_often(n_clusters, rows, correlation):
    """At a rate of 2 %, counting rows passed a ceiling at the truth in 10 to 18 of 100."""
    rates = pytest.importorskip("benchmarks.coverage.rates")
    case = rates.Rates(n_clusters, 0.02, correlation, rows=rows)
    [held] = case.measure_coverage(400).values()
    assert held.missing == 0
    assert list(held.find_faults(errors=0, allowed=3)) == []


def test_where_both_shares_vary_with_the_same_clusters_their_gap_does_not():
    rng = np.random.default_rng(5)
    rows = np.full(100, 20)
    own, other = rng.binomial(rows, np.where(np.arange(100) < 50, 0.1, 0.9), (2, 100))
    each = [
        EventCounts(2000, (int(k.sum()),), int(k.sum()), EventsByCluster(rows.astype(float), (k,)))
        for k in (own, other)
    ]
    gap = ShareGap.from_counts(*each, "rows").measure(0.95)
    by_row = Share.from_counts(each[0]).measure(0.95)
    assert gap.high - gap.low < (by_row.high - by_row.low) / 2
    assert gap.std_error < gap.row_std_error
    assert gap.high - gap.low < 2 * 1.96 * gap.row_std_error


def measure_gap(own, other, *, clustered=True):
    """The gap of two shares of 4 rows in each of 64 clusters, of which so many are events."""
    rows = np.full(64, 4.0)
    each = [
        EventCounts(
            256, (sum(k),), sum(k), EventsByCluster(rows, (np.array(k),)) if clustered else None
        )
        for k in (own, other)
    ]
    return ShareGap.from_counts(*each, "rows").measure(0.95)


def test_a_gap_that_differs_by_cluster_reaches_as_far_as_its_error():
    """By hand: it is 1/2 in one half of the clusters and -1/2 in the other; Student's t of 63."""
    gap = measure_gap([3, 1] * 32, [1, 3] * 32)
    assert gap.std_error == pytest.approx(0.5 / 63**0.5)
    assert (gap.low, gap.high) == pytest.approx((-1.99834 * 0.5 / 63**0.5, 1.99834 * 0.5 / 63**0.5))


def test_a_gap_that_no_cluster_moves_is_as_precise_as_from_rows():
    gap, rows = (
        measure_gap([3, 1] * 32, [3, 1] * 32, clustered=is_clustered)
        for is_clustered in (True, False)
    )
    assert (gap.low, gap.high) == (rows.low, rows.high)


def test_a_gap_of_events_that_no_cluster_has_is_as_precise_as_from_one_row_of_each():
    gap = measure_gap([0] * 64, [0] * 64)
    one_of_each = ShareGap.from_counts(*[EventCounts(64, (0,), 0)] * 2, "rows").measure(0.95)
    assert (gap.low, gap.high) == pytest.approx((one_of_each.low, one_of_each.high))


# ------------------------------------------------------------------ all of it, from single rows


class Looped:
    """The gap of one or two models, whose every number is computed from single rows."""

    def __init__(self, flags, inside, clusters, confidence):
        self.flags, self.sides = flags, (inside, ~inside)
        self.clusters, self.n_clusters = clusters, int(clusters.max()) + 1
        self.confidence, self.z = confidence, student_quantile(confidence)

    def sizes(self, rows):
        return np.bincount(self.clusters[rows], minlength=self.n_clusters)

    def effective(self, rows):
        """How many clusters of equal size these are worth."""
        return rows.sum() ** 2 / (self.sizes(rows) ** 2).sum()

    def moved(self, values, rows):
        """How far each cluster moves the mean of some rows."""
        influence = (values - values[rows].mean())[rows] / rows.sum()
        return np.bincount(self.clusters[rows], influence, self.n_clusters)

    def of_side(self, values, rows):
        """The variance by cluster, G / (G - 1) inflated."""
        n = np.count_nonzero(self.sizes(rows))
        return (self.moved(values, rows) ** 2).sum() * n / (n - 1)

    def of_gap(self, values):
        """The same of the gap, and without inflation."""
        own, other = (self.moved(values, rows) for rows in self.sides)
        n = min(np.count_nonzero(self.sizes(rows)) for rows in self.sides)
        plain = ((own - other) ** 2).sum()
        return plain * n / (n - 1), plain

    @property
    def freedom(self):
        return min(self.effective(rows) for rows in self.sides) - 1

    def independent(self, rows, effect, few):
        """How many independent rows these are worth, at least the effective clusters."""
        least = self.effective(rows)
        return least if few < 10 else max(rows.sum() / max(effect, 1), least)

    def clusters_with(self, rows):
        return np.count_nonzero(np.bincount(self.clusters[rows], minlength=self.n_clusters))

    def row_variance(self, first, second):
        """The covariance of two means of independent rows; of one with itself, its variance."""
        return sum(np.cov(first[rows], second[rows])[0, 1] / rows.sum() for rows in self.sides)

    def gap(self, model=0):
        flagged = self.flags[model].astype(float)
        shares = [flagged[rows].mean() for rows in self.sides]
        value = shares[0] - shares[1]
        inflated, plain = self.of_gap(flagged)
        difference = sum((self.moved(flagged, rows) ** 2).sum() for rows in self.sides)
        gain = max(difference / plain, 1)
        worth, mixed = [], []
        for rows in self.sides:
            few = min(self.clusters_with(rows & (flagged == event)) for event in (0, 1))
            variance = flagged[rows].var(ddof=1) / rows.sum()
            effect = self.of_side(flagged, rows) / variance
            worth.append(gain * self.independent(rows, effect, few))
            mixed.append(few)
        if self.freedom < 10 or min(mixed) < 10:
            worth = [
                min(n_effective, rows.sum())
                for n_effective, rows in zip(worth, self.sides, strict=True)
            ]
        counts = shares[0] * worth[0], worth[0], shares[1] * worth[1], worth[1]
        low, high = share_difference_interval(*counts, self.z)
        reach = student_quantile(self.confidence, self.freedom) * np.sqrt(inflated)
        return MetricValue(
            value,
            std_error=np.sqrt(inflated),
            low=max(min(low, value - reach), -1),
            high=min(max(high, value + reach), 1),
            row_std_error=np.sqrt(self.row_variance(flagged, flagged)),
        )

    def share(self, rows):
        """The subgroup's, or its background's, share of the first model."""
        flagged = self.flags[0].astype(float)
        share, inflated = flagged[rows].mean(), self.of_side(flagged, rows)
        few = min(self.clusters_with(rows & (flagged == event)) for event in (0, 1))
        variance = flagged[rows].var(ddof=1) / rows.sum()
        low, high = wilson_interval(share, self.independent(rows, inflated / variance, few), self.z)
        reach = student_quantile(self.confidence, self.effective(rows) - 1) * np.sqrt(inflated)
        return max(min(low, share - reach), 0), min(max(high, share + reach), 1)

    def stretched(self, share, values):
        error = np.sqrt(self.of_gap(values)[0])
        reach = student_quantile(self.confidence, self.freedom) * error
        return replace(
            share,
            std_error=error,
            low=min(share.low, share.value - reach),
            high=max(share.high, share.value + reach),
            p_value=compute_p_value(share.value, error, self.freedom),
        )

    def disagreement(self, first, second):
        """The interval that is computed only from rows on which the models disagree."""
        difference = first - second
        effect = self.of_gap(difference)[0] / self.row_variance(difference, difference)
        changes = []
        for rows in self.sides:
            sums = np.bincount(self.clusters[rows], difference[rows], self.n_clusters)
            n = self.independent(rows, effect, np.count_nonzero(sums))
            share = n / rows.sum()
            counts = [(rows & (difference == sign)).sum() * share for sign in (1, -1)]
            changes.append(
                ((counts[0] - counts[1]) / n, paired_change_interval(*counts, n, self.z))
            )
        (own, (low, high)), (other, (other_low, other_high)) = changes
        down, up = np.hypot(own - low, other_high - other), np.hypot(high - own, other - other_low)
        return own - other - down, own - other + up

    def difference(self):
        first, second = (flagged.astype(float) for flagged in self.flags)
        a, b = (replace(gap, std_error=gap.row_std_error) for gap in (self.gap(0), self.gap(1)))
        together = JointMoments(self.row_variance(first, second), (0, 0, 0, 0))
        share = compute_paired_difference(a, b, together, self.confidence, small=True)
        low, high = self.disagreement(first, second)
        share = replace(share, low=min(share.low, low), high=max(share.high, high))
        total = compute_paired_difference(
            a, negate_value(b), together.negate_second(), self.confidence, small=True
        )
        share, total = self.stretched(share, first - second), self.stretched(total, first + second)
        return bound_size_change(share, total, b, self.confidence)


@pytest.mark.parametrize(
    ("seed", "rate", "n_clusters", "alike", "skew", "second"),
    [
        (1, 0.3, 80, 0.5, 1, "a few others"),
        (2, 0.05, 80, 0.5, 1, "a few others"),
        (3, 0.3, 300, 0.9, 1, "a few others"),
        (4, 0.6, 30, 0.1, 1, "a few others"),
        (5, 0.3, 25, 1, 1, "a few others"),
        (2, 0.5, 25, 0.8, 3, "a few others"),  # few clusters have most rows
        (6, 0.5, 25, 1, 1, "a few others"),  # ten clusters with the event, no fewer
        (2, 0.3, 40, 0.5, 1, "whole clusters more"),
        (8, 0.3, 80, 0.5, 1, "fewer"),
    ],
)
@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_gaps_by_cluster_and_their_difference_are_those_of_single_rows(
    seed, rate, n_clusters, alike, skew, second, confidence
):
    rng = np.random.default_rng(seed)
    others = (n_clusters * rng.random(600) ** skew).astype(int)
    clusters = np.concatenate([np.arange(n_clusters), others])
    inside = rng.random(clusters.size) < 0.3
    whole = rng.random(n_clusters) < rate
    each = rng.random(clusters.size) < rate
    first = np.where(rng.random(clusters.size) < alike, whole[clusters], each)
    hit = rng.random(n_clusters) < 0.5
    second = {
        "a few others": np.where(
            rng.random(clusters.size) < 0.9, first, rng.random(clusters.size) < rate
        ),
        "whole clusters more": first | (inside & hit[clusters]),
        "fewer": first & (rng.random(clusters.size) < 0.8),
    }[second]
    rows = Rows(np.zeros(clusters.size, bool), {"a": inside}, clusters=clusters)
    [(_, gap)] = Events.from_rate(FPR, rows, [first, second]).list_gaps()
    expected = Looped([first, second], inside, clusters, confidence)
    for model in (0, 1):
        measured, looped = gap.measure(confidence, model), expected.gap(model)
        for name in ("value", "std_error", "row_std_error", "low", "high"):
            assert getattr(measured, name) == pytest.approx(getattr(looped, name), rel=1e-9), name
    for share, side in zip((gap.own, gap.background), expected.sides, strict=True):
        measured = share.measure(confidence)
        assert (measured.low, measured.high) == pytest.approx(expected.share(side), rel=1e-9)
    measured, looped = gap.compare_models(confidence), expected.difference()
    for name in ("value", "std_error", "low", "high", "p_value", "size_low", "size_high"):
        assert getattr(measured, name) == pytest.approx(getattr(looped, name), rel=1e-9), name
