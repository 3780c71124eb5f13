"""Shares of right and wrong decisions: by hand, by scikit-learn, and how often intervals hold."""

from dataclasses import replace

import numpy as np
import pytest

from bias_metrics import Rows, decision_indicators, rate_gaps
from bias_metrics._core.proportions import wilson_interval
from bias_metrics.thresholds.indicators import COMPLEMENTS, INDICATORS

Y_TRUE = np.array([1, 1, 1, 0, 0, 0, 0, 0], dtype=bool)
Y_SCORE = np.array([0.9, 0.5, 0.4, 0.8, 0.1, 0.2, 0.3, 0.49])
GAY = np.array([1, 0, 0, 1, 1, 1, 0, 0], dtype=bool)


def measure_rows(y_true, y_score, masks=None, **options):
    return decision_indicators(Rows(y_true, masks or {}, **options), y_score, threshold=0.5)


def draw_rows(seed=0, n=400):
    rng = np.random.default_rng(seed)
    y_true = rng.random(n) < 0.3
    y_score = np.clip(0.35 * y_true + rng.random(n) * 0.65, 0, 1)
    return y_true, y_score, {"gay": rng.random(n) < 0.3, "muslim": rng.random(n) < 0.1}


def list_values(group):
    return {name: share.value for name, share in group.shares.items()}


def test_the_indicators_of_eight_rows_are_those_counted_by_hand():
    measurement = measure_rows(Y_TRUE, Y_SCORE, {"gay": GAY})  # flagged: rows 0, 1, 3
    assert list_values(measurement.overall) == pytest.approx(
        {
            "accuracy": 6 / 8,
            "precision": 2 / 3,
            "negative_predictive_value": 4 / 5,
            "false_discovery_rate": 1 / 3,
            "false_omission_rate": 1 / 5,
            "recall": 2 / 3,
            "true_negative_rate": 4 / 5,
            "false_positive_rate": 1 / 5,
            "false_negative_rate": 1 / 3,
        }
    )
    gay = measurement.subgroups["gay"]
    assert (gay.n, gay.n_positive, gay.n_flagged) == (4, 1, 2)
    assert gay.shares["precision"] == 1 / 2
    assert gay.gaps["precision"] == 1 / 2 - 1 / 1
    assert gay.gaps["true_negative_rate"].value == pytest.approx(2 / 3 - 2 / 2)


@pytest.mark.parametrize("weighted", [False, True], ids=["rows", "weights"])
def test_every_indicator_is_that_of_scikit_learn(weighted):
    metrics = pytest.importorskip("sklearn.metrics")
    y_true, y_score, masks = draw_rows()
    weight = np.random.default_rng(5).integers(1, 9, y_true.size) / 4 if weighted else None
    measurement = measure_rows(y_true, y_score, masks, sample_weight=weight)
    groups = {None: np.ones_like(y_true)} | masks
    for name, mask in groups.items():
        group = measurement.overall if name is None else measurement.subgroups[name]
        rows = y_true[mask], y_score[mask] >= 0.5
        turned = tuple(~values_of_rows for values_of_rows in rows)
        subgroup_weight = None if weight is None else weight[mask]
        assert list_values(group) == pytest.approx(
            {
                "accuracy": metrics.accuracy_score(*rows, sample_weight=subgroup_weight),
                "precision": metrics.precision_score(*rows, sample_weight=subgroup_weight),
                "recall": metrics.recall_score(*rows, sample_weight=subgroup_weight),
                "negative_predictive_value": metrics.precision_score(
                    *turned, sample_weight=subgroup_weight
                ),
                "true_negative_rate": metrics.recall_score(*turned, sample_weight=subgroup_weight),
                "false_discovery_rate": 1
                - metrics.precision_score(*rows, sample_weight=subgroup_weight),
                "false_omission_rate": 1
                - metrics.precision_score(*turned, sample_weight=subgroup_weight),
                "false_positive_rate": 1
                - metrics.recall_score(*turned, sample_weight=subgroup_weight),
                "false_negative_rate": 1
                - metrics.recall_score(*rows, sample_weight=subgroup_weight),
            },
            abs=1e-12,
        )


def test_intervals_of_independent_rows_are_wilsons_and_gaps_those_of_rate_gaps():
    y_true, y_score, masks = draw_rows()
    measurement = measure_rows(y_true, y_score, {"gay": masks["gay"]})
    share = measurement.overall.shares["recall"]
    ends = wilson_interval(share.value, int(y_true.sum()), 1.959963984540054)
    assert (share.low, share.high) == pytest.approx(ends)
    # The five gaps hold together: each has a confidence of 99 %.
    by_row = rate_gaps(
        Rows(y_true, {"gay": masks["gay"]}), y_score, threshold=0.5, confidence=0.99
    ).subgroups["gay"]
    gaps = measurement.subgroups["gay"].gaps
    for gap, other in (("recall", "fnr_gap"), ("true_negative_rate", "fpr_gap")):
        assert [gaps[gap].value, gaps[gap].low, gaps[gap].high] == pytest.approx(
            [-by_row[other].value, -by_row[other].high, -by_row[other].low]
        )


def test_what_is_wrong_is_one_minus_what_is_right_and_so_are_its_ends():
    y_true, y_score, masks = draw_rows()
    for group in measure_rows(y_true, y_score, masks).subgroups.values():
        assert tuple(group.shares) == INDICATORS
        for wrong, right in COMPLEMENTS.items():
            a, b = group.shares[wrong], group.shares[right]
            assert (a.value, a.low, a.high) == pytest.approx((1 - b.value, 1 - b.high, 1 - b.low))


def test_a_share_of_no_rows_is_undefined_and_says_why():
    measurement = measure_rows([0, 0, 1], [0.1, 0.2, 0.3], {"none": [0, 0, 0]})
    assert measurement.overall.shares["precision"].reason == "no flagged rows"
    assert measurement.overall.shares["false_discovery_rate"].reason == "no flagged rows"
    none = measurement.subgroups["none"]
    assert {share.value for share in none.shares.values()} == {None}
    assert {share.value for share in none.gaps.values()} == {None}
    assert all(share.reason for share in (*none.shares.values(), *none.gaps.values()))


def test_frequencies_are_repeated_rows_and_equal_weights_are_none():
    y_true, y_score, masks = draw_rows()
    times = np.random.default_rng(1).integers(0, 4, y_true.size)
    rows = np.repeat(np.arange(y_true.size), times)
    measurement = measure_rows(y_true, y_score, masks, sample_weight=times, weight_kind="frequency")
    repeated = {name: mask[rows] for name, mask in masks.items()}
    assert measurement == measure_rows(y_true[rows], y_score[rows], repeated)
    equal = measure_rows(y_true, y_score, masks, sample_weight=np.full(y_true.size, 2.5))
    for name, indicators in measure_rows(y_true, y_score, masks).subgroups.items():
        for key in INDICATORS:
            a, b = equal.subgroups[name].shares[key], indicators.shares[key]
            assert [a.value, a.low, a.high] == pytest.approx([b.value, b.low, b.high])


@pytest.mark.parametrize("factor", [1e-6, 1000])
@pytest.mark.parametrize("clusters", [None, np.arange(400) % 80])
def test_only_proportions_of_weights_and_no_order_of_rows_count(factor, clusters):
    y_true, y_score, masks = draw_rows()
    y_score[y_true] = 0.9  # none is missed: only the heaviest row, or cluster, says what may be
    weight = np.random.default_rng(5).integers(1, 9, y_true.size) / 4
    order = np.random.default_rng(6).permutation(y_true.size)
    measurement = measure_rows(y_true, y_score, masks, sample_weight=weight, clusters=clusters)
    other = measure_rows(
        y_true[order],
        y_score[order],
        {name: mask[order] for name, mask in masks.items()},
        sample_weight=weight[order] * factor,
        clusters=None if clusters is None else clusters[order],
    )
    for name, indicators in measurement.subgroups.items():
        again = other.subgroups[name]
        for kind in ("shares", "gaps"):
            for key, cell in getattr(indicators, kind).items():
                same = getattr(again, kind)[key]
                assert [cell.value, cell.low, cell.high] == pytest.approx(
                    [same.value, same.low, same.high]
                )


def test_alike_rows_of_a_cluster_are_no_more_evidence_than_one():
    y_true, y_score, masks = draw_rows(n=200)
    by_row = measure_rows(y_true, y_score, masks)
    twenty = {
        "y_true": np.repeat(y_true, 20),
        "y_score": np.repeat(y_score, 20),
        "masks": {name: np.repeat(mask, 20) for name, mask in masks.items()},
    }
    measurement = measure_rows(**twenty, clusters=np.repeat(np.arange(200), 20))
    for name in ("accuracy", "recall", "true_negative_rate"):
        row_share, cluster_share = by_row.overall.shares[name], measurement.overall.shares[name]
        assert cluster_share.value == pytest.approx(row_share.value)
        assert (cluster_share.high - cluster_share.low) / (
            row_share.high - row_share.low
        ) == pytest.approx(1, abs=0.1)


def test_no_gap_by_cluster_reaches_beyond_1():
    clusters = np.arange(60) % 30
    gap = measure_rows(
        np.ones(60, bool), np.arange(60) < 30, {"g": np.arange(60) < 30}, clusters=clusters
    )
    recall_gap = gap.subgroups["g"].gaps["recall"]
    assert (recall_gap.value, recall_gap.high) == (1.0, 1.0)
    assert 0.5 < recall_gap.low < 1.0


def test_too_few_clusters_have_no_interval():
    y_true, y_score, _ = draw_rows(n=190)
    share = measure_rows(y_true, y_score, clusters=np.arange(190) % 19).overall.shares["accuracy"]
    assert share.value is not None
    assert (share.low, share.high) == (None, None)
    assert "clusters" in share.reason


def test_no_missed_row_in_a_thin_sample_of_unflagged_ones_is_no_proof_of_recall():
    """Each unflagged row stands for 100: one missed row that was not drawn is 100 missed ones."""
    y_true = np.r_[np.ones(100, bool), np.zeros(300, bool)]
    y_score = np.r_[np.ones(100), np.zeros(300)]
    weight = np.r_[np.ones(100), np.full(300, 100.0)]
    recall = measure_rows(y_true, y_score, sample_weight=weight).overall.shares["recall"]
    assert recall == 1
    assert recall.low < 100 / (100 + 3 * 100)  # up to three per 300 drawn are unseen in 5 %
    unweighted = measure_rows(y_true, y_score).overall.shares["recall"]
    assert unweighted.low > 0.95


def test_the_interval_of_forty_weighted_rows_is_worked_out():
    """30 rows of weight 1 are right and 10 of weight 2 wrong: a share of .6 of the weight 50.

    Each row's influence is divided by the root of 1 - its share of the weight. One more row that is
    flagged weighs 1, one more that is not 2. Student's t is that of 39 degrees of freedom.
    """
    weight = np.repeat([1.0, 2.0], [30, 10])
    y_score = np.repeat([0.9, 0.1], [30, 10])
    recall = measure_rows(np.ones(40, bool), y_score, sample_weight=weight).overall.shares["recall"]
    variance = (30 * 0.4**2 / (1 - 1 / 50) + 10 * (2 * 0.6) ** 2 / (1 - 2 / 50)) / 50**2
    assert (recall.value, recall.std_error) == pytest.approx((0.6, variance**0.5))
    t, ends = 2.022691, [wilson_interval(0.6, 0.6 * 0.4 / variance, 2.022691)]
    for share, more, event in ((31 / 51, 1 / 50, 1), (30 / 52, 2 / 50, 0)):
        spread = (variance + (more * (event - share)) ** 2) / (1 + more) ** 2
        ends.append(wilson_interval(share, share * (1 - share) / spread, t))
    assert recall.low == pytest.approx(min(low for low, _ in ends), rel=1e-6)
    assert recall.high == pytest.approx(max(high for _, high in ends), rel=1e-6)


def test_plain_values_have_the_ends_of_intervals():
    measurement = measure_rows(*draw_rows()).to_dict()["overall"]["shares"]["recall"]
    assert 0 < measurement["low"] < measurement["value"] < measurement["high"] < 1


def test_one_more_missed_cluster_may_be_as_heavy_as_the_heaviest_that_is_not_flagged():
    """Nothing is missed; the rows that are not flagged are of one cluster each, or of one."""
    y_true = np.r_[np.ones(60, bool), np.zeros(60, bool)]
    weight = np.where(np.arange(120) % 2, 1.0, 1.5)
    each, together = (
        measure_rows(y_true, y_true * 1.0, sample_weight=weight, clusters=clusters).overall
        for clusters in (np.arange(120), np.minimum(np.arange(120), 60))
    )
    assert each.shares["recall"].low > 0.85
    # The cluster weighs 75, as much as all that are flagged: half of these would be missed.
    assert together.shares["recall"].low < 0.5 < each.shares["recall"].low


def test_errors_in_few_clusters_count_as_if_a_cluster_were_one_row():
    clusters, widths = np.repeat(np.arange(100), 5), {}
    for n in (3, 60):
        right = np.ones(500, bool)
        right[: 5 * n : 5] = False  # one row of each of n clusters
        measurement = measure_rows(np.ones(500, bool), right * 1.0, clusters=clusters).overall
        low, high = wilson_interval(1 - n / 500, 100 if n == 3 else 500, 1.96)
        share = measurement.shares["accuracy"]
        widths[n] = (share.high - share.low) / (high - low)
    assert widths[3] >= 1  # Student's quantile is larger
    assert widths[60] == pytest.approx(1, abs=0.1)


def test_a_background_without_identities_leaves_out_all_of_them():
    y_true, y_score, masks = draw_rows()
    measurement = measure_rows(y_true, y_score, masks, background="no_identity")
    rest = ~np.logical_or(*masks.values())
    own, other = (
        measure_rows(y_true[mask], y_score[mask]).overall.shares["precision"]
        for mask in (masks["gay"], rest)
    )
    assert measurement.subgroups["gay"].gaps["precision"].value == pytest.approx(
        own.value - other.value
    )


TRUTH = {"positive": 0.1, "recall": 0.8, "false_positive_rate": 0.03}


def compute_truth():
    toxic, hit, alarm = TRUTH.values()
    flagged = toxic * hit + (1 - toxic) * alarm
    return {
        "recall": hit,
        "true_negative_rate": 1 - alarm,
        "precision": toxic * hit / flagged,
        "negative_predictive_value": (1 - toxic) * (1 - alarm) / (1 - flagged),
        "accuracy": toxic * hit + (1 - toxic) * (1 - alarm),
    }


def draw_independent(rng, n=400):
    toxic, hit, alarm = TRUTH.values()
    y_true = rng.random(n) < toxic
    return {
        "y_true": y_true,
        "y_score": np.where(y_true, rng.random(n) < hit, rng.random(n) < alarm).astype(float),
    }


def draw_by_decision(rng, n=300):
    """As many flagged as other rows, each weighted by the inverse of its probability."""
    toxic, hit, alarm = TRUTH.values()
    share, flagged = compute_truth(), toxic * hit + (1 - toxic) * alarm
    wrong = rng.random(n) > share["negative_predictive_value"]
    return {
        "y_true": np.r_[rng.random(n) < share["precision"], wrong],
        "y_score": np.repeat([1.0, 0.0], n),
        "sample_weight": np.repeat([flagged, 1 - flagged], n),
    }


def draw_clustered(rng, n=300, size=20):
    """Half of the rows of a thread are alike."""
    each, threads = draw_independent(rng, n * size), draw_independent(rng, n)
    alike = rng.random(n * size) < 0.5
    codes = np.repeat(np.arange(n), size)
    rows = {key: np.where(alike, threads[key][codes], each[key]) for key in each}
    return rows | {"clusters": codes}


def draw_weighted(rng):
    """Threads with rows that stand for one comment, or for three."""
    rows = draw_clustered(rng, 150, 10)
    return rows | {"sample_weight": rng.choice([1.0, 3.0], rows["y_true"].size)}


@pytest.mark.evaluates
@pytest.mark.parametrize(
    "draw", [draw_independent, draw_by_decision, draw_clustered, draw_weighted]
)
def test_intervals_hold_as_often_as_they_claim(draw):
    """95 % are claimed. Of 400 samples, 92 % or fewer would hold in 1 of 200 runs by chance."""
    rng = np.random.default_rng(3)
    held, n = dict.fromkeys(compute_truth(), 0), 400
    for _ in range(n):
        shares = measure_rows(**draw(rng)).overall.shares
        for name, value in compute_truth().items():
            held[name] += shares[name].low <= value <= shares[name].high
    assert min(held.values()) > 0.92 * n, held


@pytest.mark.evaluates
def test_gaps_of_alike_groups_are_shown_together_in_at_most_one_of_twenty_samples():
    rng = np.random.default_rng(4)
    n_significant, n = 0, 300
    for _ in range(n):
        rows = draw_independent(rng)
        masks = {"gay": rng.random(400) < 0.2, "muslim": rng.random(400) < 0.2}
        measurement = measure_rows(**rows, masks=masks)
        n_significant += any(
            gap.low is not None and not gap.low <= 0 <= gap.high
            for group in measurement.subgroups.values()
            for gap in group.gaps.values()
        )
    assert n_significant <= 0.08 * n


def test_weights_are_not_counts_and_unknown_thresholds_are_refused():
    with pytest.raises(ValueError, match="`threshold` must be a finite number"):
        decision_indicators(Rows(Y_TRUE, {}), Y_SCORE, threshold=np.nan)
    with pytest.raises(ValueError, match="`confidence` must be between 0 and 1"):
        decision_indicators(Rows(Y_TRUE, {}), Y_SCORE, threshold=0.5, confidence=95)
    measurement = measure_rows(Y_TRUE, Y_SCORE, sample_weight=[0, 1, 1, 1, 1, 1, 1, 1])
    without_first = measure_rows(Y_TRUE[1:], Y_SCORE[1:])
    assert replace(measurement.overall, gaps={}) == without_first.overall


def test_large_clusters_of_others_do_not_widen_the_interval_of_an_identity():
    rng = np.random.default_rng(8)
    y_true, mask = rng.random(700) < 0.3, np.arange(700) < 100
    y_score = rng.random(700) + 0.8 * y_true
    clusters = np.where(mask, np.arange(700), 1000 + np.arange(700) // 20)
    almost = np.where(np.arange(700) % 2, 1.0, 1.01)
    arguments = y_true, y_score, {"few": mask}
    plain, weighted = (
        measure_rows(*arguments, clusters=clusters, sample_weight=weight).subgroups["few"].shares
        for weight in (None, almost)
    )
    for name in plain:
        ends = [(shares[name].low, shares[name].high) for shares in (plain, weighted)]
        assert ends[1] == pytest.approx(ends[0], abs=0.06), name
