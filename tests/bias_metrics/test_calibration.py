"""Calibration by subgroup, against scikit-learn, naive loops and values by hand."""

import math

import numpy as np
import pytest

from bias_metrics import Rows, calibration, calibration_report, compare_calibration
from bias_metrics._core.ranks import sum_squares
from bias_metrics.calibration import MeasuredCalibration, measure_bias
from bias_metrics.metrics import CALIBRATION_GAP, METRICS

N = 600


def draw_rows(seed=0, n=N):
    rng = np.random.default_rng(seed)
    y_score = np.round(rng.beta(1.2, 2, n), 2)
    gay = rng.random(n) < 0.4
    y_true = rng.random(n) < np.clip(y_score - 0.1 * gay, 0, 1)
    return y_true, y_score, {"gay": gay, "muslim": rng.random(n) < 0.2}


def draw_codes(seed=1, n=N):
    return np.random.default_rng(seed).integers(0, 50, n)


def draw_weights(seed=2, n=N):
    return np.random.default_rng(seed).lognormal(0, 0.6, n)


@pytest.mark.parametrize("n_bins", [2, 5, 10, 40])
def test_reliability_is_scikit_learns(n_bins):
    calibration = pytest.importorskip("sklearn.calibration")
    y_true, y_score, masks = draw_rows()
    report = calibration_report(Rows(y_true, masks), y_score, n_bins=n_bins)
    rows = masks["gay"]
    positive, score = calibration.calibration_curve(
        y_true[rows], y_score[rows], n_bins=n_bins, strategy="quantile"
    )
    bins = report.subgroups["gay"].reliability
    assert [point.share_positive for point in bins] == pytest.approx(positive.tolist(), abs=1e-12)
    assert [point.mean_score for point in bins] == pytest.approx(score.tolist(), abs=1e-12)
    assert sum(point.n for point in bins) == rows.sum()
    assert all(0 <= point.low <= point.share_positive <= point.high <= 1 for point in bins)


def test_by_hand():
    y_true = [1, 0, 1, 0, 0, 1]
    y_score = [0.5, 0.7, 1.0, 0.0, 0.2, 0.8]
    report = calibration_report(Rows(y_true, {"gay": [1, 1, 0, 0, 0, 0]}), y_score, n_bins=2)
    gay, other = report.subgroups["gay"], report.backgrounds["gay"]
    assert gay.bias.value == pytest.approx((0.5 + 0.7) / 2 - 1 / 2)
    assert other.bias.value == pytest.approx((1.0 + 0.0 + 0.2 + 0.8) / 4 - 2 / 4)
    assert report.gaps["gay"].value == pytest.approx(0.1 - 0.0)
    assert (gay.n, gay.n_positive, len(gay.reliability), len(other.reliability)) == (2, 1, 2, 0)


def compute_naive_mean(values, rows, weight=None):
    """Compute a mean and each row's influence, corrected for its share of the weight."""
    weight = np.ones(values.size) if weight is None else weight
    share = np.where(rows, weight, 0) / weight[rows].sum()
    mean = share @ values
    return mean, share * (values - mean) / np.sqrt(1 - share)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_errors_and_gaps_are_those_of_naive_sums(weighted):
    y_true, y_score, masks = draw_rows()
    weight = draw_weights() if weighted else None
    report = calibration_report(Rows(y_true, masks, sample_weight=weight), y_score)
    off = y_score - y_true
    own, each = compute_naive_mean(off, masks["gay"], weight)
    other, of_other = compute_naive_mean(off, ~masks["gay"], weight)
    assert report.subgroups["gay"].bias.value == pytest.approx(own)
    assert report.subgroups["gay"].bias.std_error == pytest.approx(math.sqrt(each @ each))
    gap, apart = report.gaps["gay"], each - of_other
    assert gap.value == pytest.approx(own - other)
    assert gap.std_error == pytest.approx(math.sqrt(apart @ apart))
    assert gap.low < gap.value < gap.high
    stats = pytest.importorskip("scipy.stats")
    reach = stats.t.ppf(0.975, sum_squares([apart])[1]) * gap.std_error
    assert gap.high == pytest.approx(gap.value + reach)


def test_a_background_without_identities_has_no_identity():
    y_true, y_score, masks = draw_rows()
    report = calibration_report(Rows(y_true, masks, background="no_identity"), y_score)
    outside = ~(masks["gay"] | masks["muslim"])
    for name in masks:
        assert report.backgrounds[name].n == outside.sum()
        expected = np.mean((y_score - y_true)[outside])
        assert report.backgrounds[name].bias.value == pytest.approx(expected)
        assert report.backgrounds[name].reliability == ()


@pytest.mark.parametrize(
    "options", [{}, {"sample_weight": draw_weights()}, {"clusters": draw_codes()}]
)
def test_a_shared_background_is_the_one_that_each_subgroup_has_alone(options):
    y_true, y_score, masks = draw_rows()
    rows = Rows(y_true, masks, background="no_identity", **options)
    scores = {"a": y_score, "b": draw_rows(5)[1]}
    found, change = calibration_report(rows, y_score), compare_calibration(rows, *scores.values())
    outside = np.flatnonzero(~np.logical_or.reduce(list(masks.values())))
    within = {key: of_rows[outside] for key, of_rows in options.items()}
    everyone = calibration_report(Rows(y_true[outside], {}, **within), y_score[outside]).overall
    for name in masks:
        alone = MeasuredCalibration(rows, {"a": y_score}).report(0.95, [name])
        assert found.subgroups[name] == alone.subgroups[name]
        assert found.backgrounds[name] == alone.backgrounds[name]
        assert found.gaps[name] == alone.gaps[name]
        asked = MeasuredCalibration(rows, scores).compare_models(0.95, [name])
        assert change.subgroups[name] == asked.subgroups[name]
        one = found.backgrounds[name].bias
        assert one.value == pytest.approx(everyone.bias.value, abs=1e-12)
        assert one.std_error == pytest.approx(everyone.bias.std_error, abs=1e-12)


def test_a_shared_background_is_measured_once(monkeypatch):
    y_true, y_score, masks = draw_rows()
    sizes = []

    def counted(scores, sample):
        sizes.append(scores.size)
        return measure_bias(scores, sample)

    monkeypatch.setattr(calibration, "measure_bias", counted)
    calibration_report(Rows(y_true, masks, background="no_identity"), y_score)
    outside = ~(masks["gay"] | masks["muslim"])
    assert sizes.count(outside.sum()) == 1
    assert len(sizes) == 4  # everyone, the background, two subgroups


def test_frequencies_give_what_repeated_rows_give():
    y_true, y_score, masks = draw_rows()
    times = np.random.default_rng(3).integers(0, 4, N)
    rows = np.repeat(np.arange(N), times)
    again = {name: mask[rows] for name, mask in masks.items()}
    options = {"sample_weight": times, "weight_kind": "frequency"}
    report = calibration_report(Rows(y_true, masks, clusters=draw_codes(), **options), y_score)
    repeated = calibration_report(
        Rows(y_true[rows], again, clusters=draw_codes()[rows]), y_score[rows]
    )
    assert report == repeated


def test_equal_weights_are_no_weights():
    y_true, y_score, masks = draw_rows()
    one = calibration_report(Rows(y_true, masks), y_score).to_dict()
    other = calibration_report(
        Rows(y_true, masks, sample_weight=np.full(N, 4.0)), y_score
    ).to_dict()
    for name in ("bias", "calibration_gap"):
        found, expected = (each["subgroups"]["gay"][name] for each in (other, one))
        assert found == pytest.approx(expected, rel=1e-9)


def test_clusters_add_up_the_influences_of_their_rows():
    y_true, y_score, masks = draw_rows()
    clusters = draw_codes()
    report = calibration_report(Rows(y_true, masks, clusters=clusters), y_score)
    rows, total = masks["gay"], np.zeros(50)
    for side, sign in ((rows, 1), (~rows, -1)):
        residual = (y_score - y_true)[side]
        sums = np.bincount(clusters[side], residual - residual.mean(), 50) / side.sum()
        total += sign * sums / np.sqrt(1 - np.bincount(clusters[side], minlength=50) / side.sum())
    gap = report.gaps["gay"]
    assert gap.std_error == pytest.approx(math.sqrt(total @ total))
    assert gap.n_clusters == 50
    alone = calibration_report(Rows(y_true, masks), y_score).gaps["gay"]
    assert gap.row_std_error == pytest.approx(alone.std_error)


def test_few_clusters_have_no_interval():
    y_true, y_score, masks = draw_rows()
    clusters = draw_codes() % 15
    report = calibration_report(Rows(y_true, masks, clusters=clusters), y_score)
    for cell in (report.overall.bias, report.gaps["gay"]):
        assert cell.reason == "15 clusters where 20 are needed"
        assert (cell.low, cell.std_error is None) == (None, False)
    change = compare_calibration(Rows(y_true, masks, clusters=clusters), y_score, y_score**2)
    one = change.subgroups["gay"]["calibration_gap"]
    assert (one.reason, one.low, one.n_clusters) == ("15 clusters where 20 are needed", None, 15)


@pytest.mark.parametrize("clustered", [False, True], ids=["rows", "clusters"])
def test_the_bands_are_those_of_naive_loops(clustered):
    y_true, y_score = draw_rows()[0], draw_rows()[1] / 2
    clusters = draw_codes() if clustered else np.arange(N)
    rows = Rows(y_true, {}, clusters=clusters if clustered else None)
    overall = calibration_report(rows, y_score, n_bins=3, confidence=0.9).overall
    z, edges = 1.6448536269514722, np.quantile(y_score, [1 / 3, 2 / 3])
    at, moves = np.searchsorted(edges, y_score), np.zeros((3, N))
    for one, of_bin in enumerate(overall.reliability):
        inside = at == one
        n, share = inside.sum(), y_true[inside].mean()
        for cluster in np.unique(clusters):
            own = inside & (clusters == cluster)
            moves[one, cluster] = np.sum(y_true[own] - share) / n / math.sqrt(1 - own.sum() / n)
        worth = n / max(moves[one] @ moves[one] * (n - 1) / (share * (1 - share)), 1)
        low, high = compute_wilson(share, worth, z)
        assert (of_bin.low, of_bin.high) == pytest.approx((low, high))


def compute_wilson(share, n, z):
    """Compute Wilson's interval of a share of n rows, as in his paper."""
    middle, reach = (
        share + z**2 / (2 * n),
        z * math.sqrt(share * (1 - share) / n + (z / n / 2) ** 2),
    )
    return (middle - reach) / (1 + z**2 / n), (middle + reach) / (1 + z**2 / n)


def test_clusters_of_one_row_each_leave_the_bands_as_they_are():
    y_true, y_score, _ = draw_rows()
    alone, clustered = (
        calibration_report(Rows(y_true, {}, clusters=clusters), y_score).overall
        for clusters in (None, np.arange(N))
    )
    for one, other in zip(alone.reliability, clustered.reliability, strict=True):
        assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=1e-9)


def test_bands_of_clustered_rows_are_wider():
    rng = np.random.default_rng(0)
    clusters = np.repeat(np.arange(30), 20)
    y_true, y_score = (rng.random(30) < 0.5)[clusters], rng.random(N)
    alone, clustered = (
        calibration_report(Rows(y_true, {}, clusters=one), y_score, n_bins=2).overall.reliability[0]
        for one in (None, clusters)
    )
    assert clustered.high - clustered.low > 2 * (alone.high - alone.low)


def test_a_bin_of_equal_labels_is_worth_its_clusters():
    y_score = np.repeat([0.1, 0.9], 100)
    clusters = np.tile(np.arange(25), 8)
    overall = calibration_report(
        Rows(y_score > 0.5, {}, clusters=clusters), y_score, n_bins=2
    ).overall
    n, z = 25, 1.959963984540054
    assert overall.reliability[0].high == pytest.approx(z**2 / (n + z**2))


def test_a_cluster_may_fill_a_bin():
    y_score = np.repeat([0.1, 0.8], 32)
    y_true = np.arange(64) % 4 == 0  # a quarter of each
    report = calibration_report(Rows(y_true, {}, clusters=np.arange(64) // 32), y_score, n_bins=2)
    first, second = report.overall.reliability
    assert (first.n, second.n) == (32, 32)
    assert 0 < first.low < first.share_positive == 0.25 < first.high < 1


def test_scores_that_are_no_probabilities_have_no_calibration():
    y_true, y_score, masks = draw_rows()
    y_score = y_score.copy()
    y_score[3] = 1.5
    report = calibration_report(Rows(y_true, masks), y_score)
    assert report.reason == "scores are not probabilities: got 1.5 (row 3)"
    assert report.to_dict()["reason"] == report.reason
    for cell in (report.overall.bias, report.gaps["gay"]):
        assert cell.value is None
        assert "scores are not probabilities" in cell.reason
    change = compare_calibration(Rows(y_true, masks), y_score, y_true).subgroups["gay"]["bias"]
    assert "scores are not probabilities" in change.reason


def test_a_gap_says_whether_the_background_is_undefined():
    report = calibration_report(Rows([1, 0, 1, 0], {"gay": [1, 1, 1, 1]}), [0.4, 0.5, 0.6, 0.3])
    assert report.gaps["gay"].reason == "background: no rows"
    assert report.backgrounds["gay"].bias.reason == "no rows"


def test_intervals_stay_where_numbers_can_be():
    labels, far = np.r_[np.ones(3), np.zeros(3)], np.array([0.02, 0.05, 0.3, 0.98, 0.95, 0.7])
    scores = np.r_[far, 1 - far]
    groups = {"low": [0, 1, 2], "high": [3, 4, 5]}
    masks = {name: np.isin(np.arange(12), rows) for name, rows in groups.items()}
    report = calibration_report(Rows(np.r_[labels, labels], masks), scores)
    low, high = report.subgroups.values()
    assert (low.bias.low, high.bias.high) == (-1, 1)
    assert -2 <= report.gaps["low"].low < -1


def test_one_row_has_a_value_but_no_interval():
    report = calibration_report(Rows([1, 0, 1, 0], {"gay": [1, 0, 0, 0]}), [0.4, 0.5, 0.6, 0.3])
    cell = report.gaps["gay"]
    assert cell.value == pytest.approx((0.4 - 1) - (0.5 + (0.6 - 1) + 0.3) / 3)
    assert cell.reason == "fewer than 2 rows in subgroup or background"


def test_a_difference_has_the_error_of_paired_rows():
    y_true, y_score, masks = draw_rows()
    second = np.clip(y_score + np.random.default_rng(7).normal(0, 0.05, N), 0, 1)
    comparison = compare_calibration(Rows(y_true, masks), y_score, second)
    both = [one - y_true for one in (y_score, second)]
    (a, of_a), (b, of_b) = (compute_naive_mean(off, masks["gay"]) for off in both)
    cell = comparison.subgroups["gay"]["bias"]
    assert (cell.first, cell.second) == pytest.approx((a, b))
    assert cell.std_error == pytest.approx(math.sqrt((of_a - of_b) @ (of_a - of_b)))
    assert cell.low < cell.value < cell.high
    assert cell.size_low is None
    gap = comparison.subgroups["gay"]["calibration_gap"]
    apart = [
        compute_naive_mean(off, masks["gay"])[1] - compute_naive_mean(off, ~masks["gay"])[1]
        for off in both
    ]
    change = apart[0] - apart[1]
    assert gap.std_error == pytest.approx(math.sqrt(change @ change))
    assert gap.size_low < abs(gap.first) - abs(gap.second) < gap.size_high


def test_a_difference_of_clustered_rows_counts_its_clusters():
    y_true, y_score, masks = draw_rows()
    comparison = compare_calibration(
        Rows(y_true, masks, clusters=draw_codes()), y_score, y_score**2
    )
    assert comparison.overall["bias"].n_clusters == 50
    assert comparison.subgroups["gay"]["calibration_gap"].size_high is not None


@pytest.mark.parametrize("clustered", [False, True], ids=["rows", "clusters"])
def test_identical_scores_differ_by_0(clustered):
    y_true, y_score, masks = draw_rows()
    clusters = draw_codes() if clustered else None
    comparison = compare_calibration(Rows(y_true, masks, clusters=clusters), y_score, y_score)
    for cell in [*comparison.overall.values(), *comparison.subgroups["gay"].values()]:
        assert cell.value == 0
        assert cell.low < 0 < cell.high


def test_the_order_of_rows_does_not_matter():
    y_true, y_score, masks = draw_rows()
    order = np.random.default_rng(9).permutation(N)
    one = calibration_report(Rows(y_true, masks), y_score)
    other = calibration_report(
        Rows(y_true[order], {name: mask[order] for name, mask in masks.items()}), y_score[order]
    )
    for found, expected in (
        (other.subgroups["gay"].bias, one.subgroups["gay"].bias),
        (other.gaps["gay"], one.gaps["gay"]),
    ):
        assert found.value == pytest.approx(expected.value, rel=1e-9)
        assert found.low == pytest.approx(expected.low, rel=1e-9)


def test_flipping_a_subgroup_with_its_background_negates_the_gap():
    y_true, y_score, masks = draw_rows()
    gay = masks["gay"]
    gaps = calibration_report(Rows(y_true, {"gay": gay, "not": ~gay}), y_score).gaps
    one, other = gaps["gay"], gaps["not"]
    assert (one.value, one.low) == pytest.approx((-other.value, -other.high))


def test_reports_are_records_and_tables():
    y_true, y_score, masks = draw_rows()
    report = calibration_report(Rows(y_true, masks), y_score)
    assert len(report.rows()) == 2 * 2 + 1
    assert "calibration_gap" in str(report)
    plain = report.to_dict()["subgroups"]["gay"]
    own, other = plain["bias"]["value"], plain["background"]["bias"]["value"]
    assert plain["calibration_gap"]["value"] == own - other
    gap = report.gaps["gay"]
    shown = plain["calibration_gap"]
    assert (shown["low"], shown["high"]) == (gap.low, gap.high)
    wanted = ("gay", "calibration_gap")
    [record] = [row for row in report.rows() if (row["subgroup"], row["metric"]) == wanted]
    counts = {"n": int(masks["gay"].sum()), "n_positive": int(y_true[masks["gay"]].sum())}
    parts = {key: getattr(gap, key) for key in ("value", "std_error", "low", "high", "reason")}
    assert record == {"subgroup": "gay", "metric": "calibration_gap"} | counts | parts
    assert plain["reliability"][0].keys() == {"n", "mean_score", "share_positive", "low", "high"}
    change = compare_calibration(Rows(y_true, masks), y_score, y_score)
    assert change.to_dict()["subgroups"]["gay"].keys() == {"bias", "calibration_gap"}
    assert len(change.rows()) == 2 * 2 + 1


def test_there_are_at_least_two_bins():
    y_true, y_score, masks = draw_rows()
    with pytest.raises(ValueError, match="`n_bins` must be at least 2; got 1"):
        calibration_report(Rows(y_true, masks), y_score, n_bins=1)


def test_the_metric_of_calibration_compares_all_rows_of_both_sides():
    metric = METRICS[CALIBRATION_GAP]
    assert metric.needs_probabilities
    assert metric.is_gap
    assert metric.classes == (("positive", "negative"), ("positive", "negative"))


SCORES = np.array([0.03, 0.08, 0.15, 0.25, 0.35, 0.45, 0.55, 0.7, 0.85, 0.95])


@pytest.mark.slow
@pytest.mark.parametrize("clustered", [False, True], ids=["rows", "clusters"])
@pytest.mark.parametrize("n_own", [100, 400])
@pytest.mark.parametrize(("slope", "shift"), [(1.0, 0.0), (0.7, -0.4)], ids=["calibrated", "not"])
def test_intervals_hold(slope, shift, n_own, clustered):
    rng = np.random.default_rng(17)
    odds = np.log(SCORES / (1 - SCORES))
    chance = 1 / (1 + np.exp(-(slope * odds + shift)))
    truth = np.mean(SCORES - chance)
    n, n_samples = n_own + 1500, 600
    gay = np.arange(n) < n_own
    held = 0
    for _ in range(n_samples):
        at = rng.integers(0, 10, n)
        luck, clusters = rng.random(n), None
        if clustered:
            clusters = rng.integers(0, 100, n)
            luck = np.where(rng.random(n) < 0.3, rng.random(100)[clusters], luck)
        y_true = luck < np.where(gay, chance[at], SCORES[at])
        report = calibration_report(Rows(y_true, {"gay": gay}, clusters=clusters), SCORES[at])
        held += report.gaps["gay"].low <= truth <= report.gaps["gay"].high
    assert 0.92 <= held / n_samples <= 0.985


# ------------------------------------------------------------------ few positives


@pytest.mark.evaluates
@pytest.mark.parametrize(
    ("n", "share", "clusters"), [(30, 0.05, 0), (100, 0.01, 0), (200, 0.02, 50)]
)
def test_a_calibrated_group_with_few_positives_is_not_shown_to_be_off(n, share, clusters):
    """By influences alone, the truth was held in 64 to 82 of 100 samples."""
    calibrated = pytest.importorskip("benchmarks.coverage.calibrated")
    case = calibrated.Calibrated(n, share, spread=5, n_clusters=clusters)
    for name, held in case.measure_coverage(100).items():
        assert held.covered > 0.93 - 3 * 0.0255, name
        assert held.passed < 0.05 + 3 * 0.0218, name


@pytest.mark.parametrize(("mixed", "worth"), [(9, 40), (10, 80)])
def test_rows_of_clusters_are_worth_themselves_from_ten_clusters_with_a_positive_on(mixed, worth):
    # Clusters of two rows, of which one in each of the first is positive: no design effect.
    y_true, clusters = np.arange(80) % 40 < 0, np.arange(80) // 2
    y_true[2 * np.arange(mixed)] = True
    report = calibration_report(Rows(y_true, {}, clusters=clusters), np.full(80, 0.05))
    bias, share, z = report.overall.bias, mixed / 80, 1.959963984540054
    high = compute_wilson(share, worth, z)[1]
    assert bias.low == pytest.approx(0.05 - high)


def test_a_group_without_positives_may_have_some_elsewhere():
    rows = Rows([0, 1] * 200 + [0] * 40, {"gay": np.arange(440) >= 400})
    report = calibration_report(rows, np.append(np.full(400, 0.5), np.full(40, 0.05)))
    bias = report.subgroups["gay"].bias
    assert bias.value == pytest.approx(0.05)
    upper = 3.8415 / (40 + 3.8415)  # Wilson's, of none in 40
    assert bias.low == pytest.approx(0.05 - upper, rel=1e-4)
    assert report.gaps["gay"].low < bias.low


def test_scores_of_0_alone_explain_nothing_of_a_few_positives():
    y_true = np.r_[[1] * 2, [0] * 38, [0, 1] * 100]
    rows = Rows(y_true, {"gay": np.arange(240) < 40})
    bias = calibration_report(rows, np.r_[[0.0] * 40, [0.5] * 200]).subgroups["gay"].bias
    assert bias.value == pytest.approx(-2 / 40)
    assert bias.low == pytest.approx(-compute_wilson(2 / 40, 40, 1.959963984540054)[1])
    turned = Rows(1 - y_true, {"gay": np.arange(240) < 40})
    other = calibration_report(turned, np.r_[[1.0] * 40, [0.5] * 200]).subgroups["gay"].bias
    assert (other.value, other.high) == pytest.approx((-bias.value, -bias.low))


def test_few_positives_move_a_bias_as_far_as_their_share_may_lie():
    y_true, y_score = np.zeros(80), np.r_[[0.1] * 30, [0.3] * 10, [0.05] * 40]
    y_true[[0, 1, 30, 31]], y_true[[40, 41]] = 1, 1
    gay = np.arange(80) < 40
    report = calibration_report(Rows(y_true, {"gay": gay}), y_score)
    own, other = report.subgroups["gay"], report.backgrounds["gay"]
    assert (own.bias.value, other.bias.value) == pytest.approx((0.15 - 0.1, 0.0))
    z = 1.959963984540054
    # Given the scores, labels vary by .1 (.9) or .3 (.7); without them, by .15 (.85).
    noise = (0.09 * 30 + 0.21 * 10) / 40 / (0.15 * 0.85)
    low, high = compute_wilson(0.1, 40, z * math.sqrt(noise))
    assert own.bias.low == pytest.approx(0.05 - (high - 0.1))
    lowest, highest = compute_wilson(0.05, 40, z)  # scores that are all the same explain nothing
    gap = report.gaps["gay"]
    up = max(0.1 - low, z * own.bias.std_error), highest - 0.05
    down = high - 0.1, max(0.05 - lowest, z * other.bias.std_error)
    assert gap.low == pytest.approx(0.05 - math.hypot(*down))
    assert gap.high == pytest.approx(0.05 + math.hypot(*up))


def test_calibration_is_the_same_seen_from_the_other_class():
    y_true, y_score, masks = draw_rows(n=90)
    y_true = y_true & (np.arange(90) % 3 > 0)
    one, other = (
        calibration_report(Rows(labels, masks), scores, n_bins=2).subgroups["gay"]
        for labels, scores in ((y_true, y_score), (~y_true, 1 - y_score))
    )
    assert one.n_positive < 10
    a, b = one.bias, other.bias
    assert (b.value, b.std_error) == pytest.approx((-a.value, a.std_error))
    assert (b.low, b.high) == pytest.approx((-a.high, -a.low))


def test_many_positives_are_left_to_the_influences():
    y_true, y_score, masks = draw_rows()
    value = calibration_report(Rows(y_true, masks), y_score).overall.bias
    assert value.high - value.value == pytest.approx(value.value - value.low)
