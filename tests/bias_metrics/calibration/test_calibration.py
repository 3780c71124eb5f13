"""Calibration by subgroup: scikit-learn and naive loops as oracles, by hand, and its rules."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from bias_metrics import Rows, calibration_report, compare_calibration
from bias_metrics._core.ranks import squares_of
from bias_metrics.calibration import MeasuredCalibration, numbers
from bias_metrics.calibration.numbers import Sample, range_quantile, range_tail, slope_of
from bias_metrics.calibration.results import NUMBERS
from bias_metrics.metrics import METRICS, calibration_metrics

N = 600
NAMES = ("bias", "brier", "slope")


def draw(seed=0, n=N):
    rng = np.random.default_rng(seed)
    y_score = np.round(rng.beta(1.2, 2, n), 2)
    gay = rng.random(n) < 0.4
    y_true = rng.random(n) < np.clip(y_score - 0.1 * gay, 0, 1)
    return y_true, y_score, {"gay": gay, "muslim": rng.random(n) < 0.2}


def codes(seed=1, n=N):
    return np.random.default_rng(seed).integers(0, 50, n)


def weights(seed=2, n=N):
    return np.random.default_rng(seed).lognormal(0, 0.6, n)


def test_the_brier_score_is_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics")
    y_true, y_score, masks = draw()
    weight = weights()
    report = calibration_report(Rows(y_true, masks, sample_weight=weight), y_score)
    for name, rows in masks.items():
        own = metrics.brier_score_loss(y_true[rows], y_score[rows], sample_weight=weight[rows])
        assert report.subgroups[name].brier.value == pytest.approx(own, abs=1e-12)
        other = metrics.brier_score_loss(y_true[~rows], y_score[~rows], sample_weight=weight[~rows])
        assert report.backgrounds[name].brier.value == pytest.approx(other, abs=1e-12)
        assert report.gaps[name]["brier_gap"].value == pytest.approx(own - other, abs=1e-12)


@pytest.mark.parametrize("n_bins", [2, 5, 10, 40])
def test_reliability_is_scikit_learns(n_bins):
    calibration = pytest.importorskip("sklearn.calibration")
    y_true, y_score, masks = draw()
    report = calibration_report(Rows(y_true, masks), y_score, n_bins=n_bins)
    rows = masks["gay"]
    positive, score = calibration.calibration_curve(
        y_true[rows], y_score[rows], n_bins=n_bins, strategy="quantile"
    )
    bins = report.subgroups["gay"].reliability
    assert [one.share_positive for one in bins] == pytest.approx(positive.tolist(), abs=1e-12)
    assert [one.mean_score for one in bins] == pytest.approx(score.tolist(), abs=1e-12)
    assert sum(one.n for one in bins) == rows.sum()
    assert all(0 <= one.low <= one.share_positive <= one.high <= 1 for one in bins)


def test_the_slope_is_that_of_a_logistic_regression():
    linear = pytest.importorskip("sklearn.linear_model")
    y_true, y_score, masks = draw()
    weight = weights()
    y_score = np.clip(y_score, 0.01, 0.99)
    report = calibration_report(Rows(y_true, masks, sample_weight=weight), y_score)
    rows = masks["gay"]
    x = np.log(y_score[rows] / (1 - y_score[rows]))[:, None]
    model = linear.LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)
    model.fit(x, y_true[rows], sample_weight=weight[rows])
    assert report.subgroups["gay"].slope.value == pytest.approx(model.coef_[0, 0], rel=1e-5)


def test_the_slopes_error_is_the_robust_one_of_a_logistic_regression():
    api = pytest.importorskip("statsmodels.api")
    y_true, y_score, _ = draw()
    y_score = np.clip(y_score, 0.01, 0.99)
    x = api.add_constant(np.log(y_score / (1 - y_score)))
    fitted = api.Logit(y_true.astype(float), x).fit(disp=0, cov_type="HC0")
    found = calibration_report(Rows(y_true, {}), y_score).overall.slope
    assert found.value == pytest.approx(fitted.params[1], rel=1e-8)
    assert found.std_error == pytest.approx(fitted.bse[1] * math.sqrt(N / (N - 1)), rel=1e-8)


def logistic(x, y, weight):
    """A weighted logistic regression by many small steps uphill, with its robust error."""
    design, found = np.stack([np.ones_like(x), x]), np.zeros(2)
    for _ in range(60):
        p = 1 / (1 + np.exp(-found @ design))
        curvature = (design * (weight * p * (1 - p))) @ design.T
        found = found + 0.5 * np.linalg.solve(curvature, design @ (weight * (y - p)))
    each = (np.linalg.inv(curvature) @ design * (weight * (y - p)))[1]
    return found[1], each


def test_the_slope_and_its_error_are_those_of_a_naive_regression():
    y_true, y_score, _ = draw()
    y_score, weight = np.clip(y_score, 0.01, 0.99), weights()
    found = calibration_report(Rows(y_true, {}, sample_weight=weight), y_score).overall.slope
    share = weight / weight.sum()
    value, each = logistic(np.log(y_score / (1 - y_score)), y_true.astype(float), share)
    assert found.value == pytest.approx(value, rel=1e-8)
    expected = math.sqrt(np.sum(each**2 / (1 - share)))
    assert found.std_error == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_with_few_positives_a_slopes_error_is_no_smaller_than_the_regressions_own(weighted):
    y_score = np.tile([0.02, 0.05, 0.1, 0.3, 0.6], 12)
    y_true = np.zeros(60)
    y_true[[3, 4, 8, 9, 14, 19, 21, 24, 29, 33, 38, 44]] = 1  # fewer than 20
    weight = 1.0 + np.arange(60) % 3 if weighted else np.ones(60)
    found = calibration_report(Rows(y_true, {}, sample_weight=weight), y_score).overall.slope
    share, x = weight / weight.sum(), np.log(y_score / (1 - y_score))
    slope, each = logistic(x, y_true, share)
    # The intercept at which as many positives are expected as there are, by halving.
    low, high = -20.0, 20.0
    for _ in range(80):
        middle = (low + high) / 2
        expected = share @ (1 / (1 + np.exp(-middle - slope * x)))
        low, high = (middle, high) if expected < share @ y_true else (low, middle)
    p = 1 / (1 + np.exp(-low - slope * x))
    pq = share * p * (1 - p)
    information = pq @ x**2 - (pq @ x) ** 2 / pq.sum()  # of the slope, per unit of weight
    robust, own = each @ each, share @ share / information
    assert own > 1.02 * robust
    expected = own / robust * np.sum(each**2 / (1 - share))
    assert found.value == pytest.approx(slope, rel=1e-8)
    assert found.std_error == pytest.approx(math.sqrt(expected), rel=1e-7)


def test_by_hand():
    y_true = [1, 0, 1, 0, 0, 1]
    y_score = [0.5, 0.5, 1.0, 0.0, 0.2, 0.8]
    found = calibration_report(Rows(y_true, {"gay": [1, 1, 0, 0, 0, 0]}), y_score, n_bins=2)
    gay, other = found.subgroups["gay"], found.backgrounds["gay"]
    assert (gay.bias.value, gay.brier.value) == (0.0, 0.25)
    assert other.brier.value == pytest.approx((0.04 + 0.04) / 4)
    assert found.gaps["gay"]["brier_gap"].value == pytest.approx(0.25 - 0.02)
    assert found.gaps["gay"]["calibration_gap"].value == pytest.approx(0.0)
    assert (gay.n, gay.n_positive, len(gay.reliability), len(other.reliability)) == (2, 1, 1, 0)


def naive_mean(values, rows, weight=None):
    """Mean, and each row's influence, with the correction for its share of the weight."""
    weight = np.ones(values.size) if weight is None else weight
    share = np.where(rows, weight, 0) / weight[rows].sum()
    mean = share @ values
    return mean, share * (values - mean) / np.sqrt(1 - share)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_errors_and_gaps_are_those_of_naive_sums(weighted):
    y_true, y_score, masks = draw()
    weight = weights() if weighted else None
    report = calibration_report(Rows(y_true, masks, sample_weight=weight), y_score)
    loss = (y_score - y_true) ** 2
    own, each = naive_mean(loss, masks["gay"], weight)
    other, of_other = naive_mean(loss, ~masks["gay"], weight)
    assert report.subgroups["gay"].brier.std_error == pytest.approx(math.sqrt(each @ each))
    gap, apart = report.gaps["gay"]["brier_gap"], each - of_other
    assert gap.value == pytest.approx(own - other)
    assert gap.std_error == pytest.approx(math.sqrt(apart @ apart))
    assert gap.low < gap.value < gap.high
    stats = pytest.importorskip("scipy.stats")
    reach = stats.t.ppf(0.975, squares_of([apart])[1]) * gap.std_error
    assert gap.high == pytest.approx(gap.value + reach)


def test_a_background_without_identities_has_no_identity():
    y_true, y_score, masks = draw()
    report = calibration_report(Rows(y_true, masks, background="no_identity"), y_score)
    outside = ~(masks["gay"] | masks["muslim"])
    for name in masks:
        assert report.backgrounds[name].n == outside.sum()
        expected = np.mean((y_score - y_true)[outside])
        assert report.backgrounds[name].bias.value == pytest.approx(expected)
        reason = report.backgrounds[name].cumulative_error.reason
        assert reason == "not measured of backgrounds"


@pytest.mark.parametrize("options", [{}, {"sample_weight": weights()}, {"clusters": codes()}])
def test_a_shared_background_is_the_one_that_each_subgroup_has_alone(options):
    y_true, y_score, masks = draw()
    rows = Rows(y_true, masks, background="no_identity", **options)
    scores = {"a": y_score, "b": draw(5)[1]}
    found, change = calibration_report(rows, y_score), compare_calibration(rows, *scores.values())
    outside = np.flatnonzero(~np.logical_or.reduce(list(masks.values())))
    within = {key: of_rows[outside] for key, of_rows in options.items()}
    everyone = calibration_report(Rows(y_true[outside], {}, **within), y_score[outside]).overall
    for name in masks:
        alone = MeasuredCalibration(rows, {"a": y_score}).report(0.95, [name])
        assert found.subgroups[name] == alone.subgroups[name]
        assert found.backgrounds[name] == alone.backgrounds[name]
        assert found.gaps[name] == alone.gaps[name]
        asked = MeasuredCalibration(rows, scores).comparison(0.95, [name])
        assert change.subgroups[name] == asked.subgroups[name]
        for metric in NAMES:
            one, expected = getattr(found.backgrounds[name], metric), getattr(everyone, metric)
            assert one.value == pytest.approx(expected.value, abs=1e-12)
            assert one.std_error == pytest.approx(expected.std_error, abs=1e-12)


def test_a_shared_background_is_measured_once(monkeypatch):
    y_true, y_score, masks = draw()
    sizes = []

    def counted(scores, sample):
        sizes.append(scores.size)
        return numbers.bias_of(scores, sample)

    monkeypatch.setitem(numbers.ESTIMATES, "bias", counted)
    calibration_report(Rows(y_true, masks, background="no_identity"), y_score)
    outside = ~(masks["gay"] | masks["muslim"])
    assert sizes.count(outside.sum()) == 1
    assert len(sizes) == 4  # everyone, the background, two subgroups


def test_frequencies_give_what_repeated_rows_give():
    y_true, y_score, masks = draw()
    times = np.random.default_rng(3).integers(0, 4, N)
    rows = np.repeat(np.arange(N), times)
    again = {name: mask[rows] for name, mask in masks.items()}
    options = {"sample_weight": times, "weight_kind": "frequency"}
    found = calibration_report(Rows(y_true, masks, clusters=codes(), **options), y_score)
    repeated = calibration_report(Rows(y_true[rows], again, clusters=codes()[rows]), y_score[rows])
    assert found == repeated


def test_equal_weights_are_no_weights():
    y_true, y_score, masks = draw()
    one = calibration_report(Rows(y_true, masks), y_score).to_dict()
    other = calibration_report(
        Rows(y_true, masks, sample_weight=np.full(N, 4.0)), y_score
    ).to_dict()
    for name in NUMBERS:
        found, expected = (each["subgroups"]["gay"][name] for each in (other, one))
        assert found == pytest.approx(expected, rel=1e-9)


def test_clusters_add_up_the_influences_of_their_rows():
    y_true, y_score, masks = draw()
    clusters = codes()
    found = calibration_report(Rows(y_true, masks, clusters=clusters), y_score)
    rows, total = masks["gay"], np.zeros(50)
    for side, sign in ((rows, 1), (~rows, -1)):
        residual = (y_score - y_true)[side]
        sums = np.bincount(clusters[side], residual - residual.mean(), 50) / side.sum()
        total += sign * sums / np.sqrt(1 - np.bincount(clusters[side], minlength=50) / side.sum())
    gap = found.gaps["gay"]["calibration_gap"]
    assert gap.std_error == pytest.approx(math.sqrt(total @ total))
    assert gap.n_clusters == 50
    alone = calibration_report(Rows(y_true, masks), y_score).gaps["gay"]["calibration_gap"]
    assert gap.row_std_error == pytest.approx(alone.std_error)


def test_few_clusters_have_no_interval():
    y_true, y_score, masks = draw()
    clusters = codes() % 15
    found = calibration_report(Rows(y_true, masks, clusters=clusters), y_score)
    for cell in (found.overall.brier, found.gaps["gay"]["slope_gap"]):
        assert cell.reason == "15 clusters where 20 are needed"
        assert (cell.low, cell.std_error is None) == (None, False)
    change = compare_calibration(Rows(y_true, masks, clusters=clusters), y_score, y_score**2)
    one = change.subgroups["gay"]["brier_gap"]
    assert (one.reason, one.low, one.n_clusters) == ("15 clusters where 20 are needed", None, 15)


def naive_calibration_error(y_true, y_score, n_bins):
    """The debiased error, bin by bin."""
    edges = np.quantile(y_score, np.linspace(0, 1, n_bins + 1)[1:-1])
    at, total = np.searchsorted(edges, y_score), 0.0
    for one in np.unique(at):
        rows = at == one
        n, share = rows.sum(), y_true[rows].mean()
        total += n / y_true.size * ((share - y_score[rows].mean()) ** 2)
        total -= n / y_true.size * share * (1 - share) / (n - 1)
    return math.sqrt(max(total, 0))


@pytest.mark.parametrize("n_bins", [2, 10, 15])
def test_the_calibration_error_is_that_of_a_naive_loop(n_bins):
    y_true, y_score, masks = draw()
    found = calibration_report(Rows(y_true, masks), y_score, n_bins=n_bins)
    for name, rows in masks.items():
        cell = found.subgroups[name].calibration_error
        expected = naive_calibration_error(y_true[rows], y_score[rows], n_bins)
        assert cell.value == pytest.approx(expected, abs=1e-12)
        assert cell.low <= cell.value <= cell.high


@pytest.mark.parametrize("clustered", [False, True], ids=["rows", "clusters"])
def test_the_interval_of_the_calibration_error_and_the_bands_are_those_of_naive_loops(clustered):
    y_true, y_score = draw()[0], draw()[1] / 2
    clusters = codes() if clustered else np.arange(N)
    rows = Rows(y_true, {}, clusters=clusters if clustered else None)
    found = calibration_report(rows, y_score, n_bins=3, confidence=0.9).overall
    z, edges = 1.6448536269514722, np.quantile(y_score, [1 / 3, 2 / 3])
    at, moves, alone = np.searchsorted(edges, y_score), np.zeros((3, N)), []
    for one, of_bin in enumerate(found.reliability):
        inside = at == one
        n, share = inside.sum(), y_true[inside].mean()
        alone.append(share * (1 - share) / (n - 1))
        for cluster in np.unique(clusters):
            own = inside & (clusters == cluster)
            moves[one, cluster] = np.sum(y_true[own] - share) / n / math.sqrt(1 - own.sum() / n)
        worth = n / max(moves[one] @ moves[one] / alone[one], 1)
        low, high = wilson(share, worth, z)
        assert (of_bin.low, of_bin.high) == pytest.approx((low, high))
    together = moves @ moves.T  # covariances of the shares of positives
    weight = np.bincount(at) / N
    apart = np.array([one.share_positive - one.mean_score for one in found.reliability])
    square = float(np.sum(weight * apart**2) - np.sum(weight * np.diag(together)))
    variance = sum(
        4 * weight[a] * apart[a] * weight[b] * apart[b] * together[a, b]
        + 2 * weight[a] * weight[b] * together[a, b] ** 2
        for a in range(3)
        for b in range(3)
    )
    error = found.calibration_error
    assert square > 0
    assert error.value == pytest.approx(math.sqrt(square))
    assert error.std_error == pytest.approx(math.sqrt(variance) / (2 * error.value))
    assert error.high == pytest.approx(math.sqrt(square + z * math.sqrt(variance)))
    assert error.low == pytest.approx(math.sqrt(max(square - z * math.sqrt(variance), 0)))


def wilson(share, n, z):
    """Wilson's interval of a share of n rows, as in his paper."""
    middle, reach = (
        share + z**2 / (2 * n),
        z * math.sqrt(share * (1 - share) / n + (z / n / 2) ** 2),
    )
    return (middle - reach) / (1 + z**2 / n), (middle + reach) / (1 + z**2 / n)


def naive_cumulative_error(y_true, y_score, weight):
    """The farthest two sums of differences up to a score are apart, by a double loop."""
    total = weight.sum()
    sums = [0.0] + [
        float(np.sum((weight * (y_true - y_score))[y_score <= at])) / total
        for at in np.unique(y_score)
    ]
    return max(abs(a - b) for a in sums for b in sums)


@pytest.mark.parametrize("digits", [1, 9])
def test_the_cumulative_error_is_that_of_a_double_loop_whatever_the_order_of_ties(digits):
    y_true, y_score, masks = draw()
    y_score = np.round(y_score, digits)
    weight = 1.0 + np.arange(N) % 3
    found = calibration_report(Rows(y_true, masks), y_score)
    weighted = calibration_report(Rows(y_true, masks, sample_weight=weight), y_score)
    turned = {name: mask[::-1] for name, mask in masks.items()}
    for name, rows in masks.items():
        for report, each in ((found, np.ones(N)), (weighted, weight)):
            cell = report.subgroups[name].cumulative_error
            expected = naive_cumulative_error(y_true[rows], y_score[rows], each[rows])
            assert cell.value == pytest.approx(expected, abs=1e-12)
        again = calibration_report(Rows(y_true[::-1], turned), y_score[::-1]).subgroups[name]
        one = found.subgroups[name].cumulative_error
        assert again.cumulative_error.value == pytest.approx(one.value, abs=1e-12)
        reason = found.backgrounds[name].cumulative_error.reason
        assert reason == "not measured of backgrounds"


def test_its_scale_is_that_of_the_labels_if_scores_are_right():
    y_score = np.full(100, 0.2)
    cell = calibration_report(Rows(np.arange(100) < 20, {}), y_score).overall.cumulative_error
    assert cell.value == pytest.approx(0, abs=1e-12)
    assert cell.std_error == pytest.approx(math.sqrt(100 * 0.2 * 0.8) / 100)
    none = calibration_report(Rows(np.zeros(100, int), {}), y_score).overall.cumulative_error
    assert none.std_error == pytest.approx(cell.std_error)  # though the differences are smaller
    off = calibration_report(Rows(np.arange(100) < 50, {}), y_score).overall.cumulative_error
    assert off.value == pytest.approx(0.3)
    squares = 50 * 0.8**2 + 50 * 0.2**2
    reach = 2.4977 * math.sqrt(squares) / 100  # Feller's range: 95 of 100 are below 2.4977
    assert (off.low, off.high) == pytest.approx((0.3 - reach, 0.3 + reach), rel=1e-4)
    clusters = np.arange(100) // 10
    clustered = calibration_report(Rows(np.arange(100) < 20, {}, clusters=clusters), y_score)
    assert clustered.overall.cumulative_error.reason == "10 clusters where 20 are needed"


def test_clusters_of_one_row_each_leave_the_cumulative_error_as_it_is():
    rng, n = np.random.default_rng(1), 2000
    y_score = rng.random(n)
    y_true = rng.random(n) < y_score
    cells = [
        calibration_report(Rows(y_true, {}, clusters=clusters), y_score).overall.cumulative_error
        for clusters in (None, np.arange(n))
    ]
    assert cells[1].value == cells[0].value
    assert cells[1].std_error == pytest.approx(cells[0].std_error, rel=0.02)
    assert cells[1].high == pytest.approx(cells[0].high, rel=0.03)
    # Copies of a row are no new evidence: the same rows, ten of each in a cluster.
    ten = np.repeat(np.arange(n), 10)
    copied = Rows(y_true[ten], {}, clusters=ten)
    found = calibration_report(copied, y_score[ten]).overall.cumulative_error
    assert found.value == pytest.approx(cells[0].value, abs=1e-12)
    assert found.high == pytest.approx(cells[1].high, rel=1e-6)


@pytest.mark.parametrize("apart", [0.0, 0.01], ids=["one score", "two scores"])
@pytest.mark.parametrize(("confidence", "t"), [(0.8, 1.311434), (0.95, 2.045230)])  # 29 degrees
def test_of_one_score_in_clusters_the_cumulative_error_reaches_as_far_as_a_mean(
    apart, confidence, t
):
    # At two scores, each cluster's rows at one balance those at the other: the sums end at 0.
    clusters = np.repeat(np.arange(30), 8)
    y_true = np.random.default_rng(8).binomial(1, np.repeat([0.2, 0.5, 0.8], 80))
    y_score = np.full(240, 0.5)
    if apart:
        y_true, clusters = np.r_[y_true, 1 - y_true], np.r_[clusters, clusters]
        y_score = np.r_[y_score - apart, y_score + apart]
    rows = Rows(y_true, {}, clusters=clusters)
    found = calibration_report(rows, y_score, confidence=confidence).overall.cumulative_error
    moves = (y_true - y_score) / y_true.size
    sums = np.bincount(clusters[:240], moves[:240]) / math.sqrt(1 - 1 / 30)
    # The error is at least that of labels which are as likely as the scores say.
    expected = np.sum(y_score * (1 - y_score)) / y_true.size**2
    scale = math.sqrt(max(expected / (moves @ moves), 1))
    reach = scale * t * math.sqrt(sums @ sums)
    assert found.high - found.value == pytest.approx(reach, rel=0.04)  # of 4000 draws
    mean = math.sqrt(2 / math.pi) * math.sqrt(sums @ sums)  # of the size of a normal deviate
    sigma = scale * mean / math.sqrt(8 / math.pi)
    assert found.std_error == pytest.approx(sigma, rel=0.04)


def test_many_clusters_are_added_up_some_at_a_time(monkeypatch):
    y_true, y_score, _ = draw()
    rows = Rows(y_true, {}, clusters=codes())
    whole = calibration_report(rows, y_score).overall.cumulative_error
    monkeypatch.setattr(numbers, "_BLOCK", 8)
    parts = calibration_report(rows, y_score).overall.cumulative_error
    assert (parts.low, parts.high) == pytest.approx((whole.low, whole.high), rel=1e-9)


def test_beyond_what_is_drawn_the_cumulative_error_reaches_as_brownian_motion_does():
    y_true, clusters = np.arange(240) % 5 < 2, np.arange(240) % 30
    measured = MeasuredCalibration(Rows(y_true, {}, clusters=clusters), {"y": np.full(240, 0.5)})
    reaches = []
    # Student's quantiles of 29 degrees of freedom, over those of a normal distribution.
    for level, wider in ((0.99, 2.756386 / 2.575829), (0.999, 3.659405 / 3.290527)):
        cell = measured.report(level).overall.cumulative_error
        reaches.append((cell.high - cell.value) / wider / range_quantile(level))
    assert reaches[0] == pytest.approx(reaches[1], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 50, 200])
@pytest.mark.parametrize("alike", [0.3, 0.9])
@pytest.mark.parametrize("of_cluster", [False, True], ids=["own", "shared"])
def test_with_clusters_it_misses_in_at_most_one_of_20_samples_too(n, alike, of_cluster):
    """Labels of a cluster are alike, and so may be its scores."""
    rng, times, inverse = np.random.default_rng(5), 400, np.vectorize(NormalDist().inv_cdf)
    misses = 0
    for _ in range(times):
        clusters = np.repeat(np.arange(n), 20)
        y_score = 0.4 * rng.random(n)[clusters] if of_cluster else 0.4 * rng.random(clusters.size)
        shared = math.sqrt(alike) * rng.normal(size=n)[clusters]
        own = shared + math.sqrt(1 - alike) * rng.normal(size=clusters.size)
        rows = Rows(own < inverse(np.maximum(y_score, 1e-9)), {}, clusters=clusters)
        misses += calibration_report(rows, y_score).overall.cumulative_error.low > 0
    assert misses / times <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / times)


def test_the_range_of_a_brownian_motion_has_its_known_mean_and_quantile():
    at = np.linspace(0, 12, 24001)
    mean = np.trapezoid([range_tail(one) for one in at], at)
    assert mean == pytest.approx(2 * math.sqrt(2 / math.pi), abs=1e-6)
    for confidence in (0.2, 0.9):
        tail = range_tail(range_quantile(confidence))
        assert tail == pytest.approx(1 - confidence, abs=1e-12)
    rng, n = np.random.default_rng(0), 4000
    walks = np.cumsum(rng.choice([-1.0, 1.0], (5000, n)), axis=1) / math.sqrt(n)
    ranges = np.maximum(walks.max(axis=1), 0) - np.minimum(walks.min(axis=1), 0)
    for x in (1.0, 1.6, 2.5):
        share = float((ranges > x).mean())
        assert share == pytest.approx(range_tail(x), abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 500])
@pytest.mark.parametrize("rate", [0.05, 0.4])
@pytest.mark.parametrize("off", [0.0, 0.1])
def test_the_interval_of_the_cumulative_error_misses_in_at_most_one_of_20_samples(n, rate, off):
    """Scores are calibrated, or too high by a tenth of their distance to 1."""
    rng, times = np.random.default_rng(3), 1000

    def sample(size):
        right = rng.beta(2 * rate, 2 * (1 - rate), size)
        return rng.random(size) < right, right + off * (1 - right)

    # The cumulative difference falls from the lowest score to the highest.
    true = off * (1 - rate)
    misses = 0
    for _ in range(times):
        y_true, y_score = sample(n)
        cell = calibration_report(Rows(y_true, {}), y_score).overall.cumulative_error
        misses += not cell.low <= true <= cell.high
    assert misses / times <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / times)


def test_an_error_below_chance_counts_as_0():
    y_score = np.full(100, 0.5)
    found = calibration_report(Rows(np.arange(100) < 50, {}), y_score).overall.calibration_error
    assert (found.value, found.std_error, found.low) == (0.0, None, 0.0)
    assert found.high > 0


def test_clusters_of_one_row_each_leave_the_calibration_error_as_it_is():
    y_true, y_score, _ = draw()
    alone, clustered = (
        calibration_report(Rows(y_true, {}, clusters=clusters), y_score).overall
        for clusters in (None, np.arange(N))
    )
    for name in ("value", "low", "high"):
        one, other = (getattr(found.calibration_error, name) for found in (alone, clustered))
        assert one == pytest.approx(other, abs=1e-9)
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
    found = calibration_report(
        Rows(y_score > 0.5, {}, clusters=clusters), y_score, n_bins=2
    ).overall
    n, z = 25, 1.959963984540054
    assert found.reliability[0].high == pytest.approx(z**2 / (n + z**2))


def test_a_cluster_may_fill_a_bin():
    y_score = np.repeat([0.1, 0.8], 32)
    y_true = np.arange(64) % 4 == 0  # a quarter of each
    found = calibration_report(Rows(y_true, {}, clusters=np.arange(64) // 32), y_score, n_bins=2)
    assert [one.n for one in found.overall.reliability] == [32, 32]
    expected = math.sqrt((0.15**2 + 0.55**2) / 2)
    assert found.overall.calibration_error.value == pytest.approx(expected)


def test_bins_of_one_row_have_no_calibration_error():
    found = calibration_report(Rows([0, 1, 0], {}), [0.1, 0.5, 0.9], n_bins=3).overall
    assert found.calibration_error.reason == "fewer than 2 rows in a bin"
    scores = [0.1, 0.2, 0.5, 0.6, 0.8, 0.9]
    two = calibration_report(Rows([0, 1, 0, 1, 0, 1], {}), scores, n_bins=3).overall
    assert [one.n for one in two.reliability] == [2, 2, 2]
    assert two.calibration_error.high is not None


def test_scores_that_are_no_probabilities_have_no_calibration():
    y_true, y_score, masks = draw()
    y_score = y_score.copy()
    y_score[3] = 1.5
    found = calibration_report(Rows(y_true, masks), y_score)
    assert found.reason == "scores are not probabilities: got 1.5 (row 3)"
    assert found.to_dict()["reason"] == found.reason
    for cell in (found.overall.calibration_error, found.gaps["gay"]["brier_gap"]):
        assert cell.value is None
        assert "scores are not probabilities" in cell.reason
    change = compare_calibration(Rows(y_true, masks), y_score, y_true).subgroups["gay"]["brier"]
    assert "scores are not probabilities" in change.reason


@pytest.mark.parametrize(
    ("y_true", "y_score", "reason"),
    [
        ([1, 1], [0.2, 0.3], "no negatives"),
        ([0, 0], [0.2, 0.3], "no positives"),
        ([0, 1], [0.2, 0.3], "separate the classes"),
        ([1, 0], [0.2, 0.3], "separate the classes"),
        ([1, 0], [0.2, 0.2], "all the same"),
        ([1, 1, 0, 0], [0.2, 0.3, 0.3, 0.4], "separate the classes"),
        ([0, 0, 1, 1], [0.2, 0.3, 0.3, 0.4], "separate the classes"),
    ],
)
def test_a_slope_needs_classes_that_overlap(y_true, y_score, reason):
    n = 5 * len(y_true)
    found = calibration_report(Rows(y_true * 5, {"gay": np.arange(n) < 1}), y_score * 5)
    assert reason in found.overall.slope.reason
    assert found.gaps["gay"]["slope_gap"].reason.startswith("subgroup: ")


def test_a_gap_says_whether_the_background_is_undefined():
    found = calibration_report(Rows([1, 0, 1, 0], {"gay": [1, 1, 1, 1]}), [0.4, 0.5, 0.6, 0.3])
    assert found.gaps["gay"]["brier_gap"].reason == "background: no rows"
    assert found.backgrounds["gay"].calibration_error.reason == "no rows"


def test_intervals_stay_where_numbers_can_be():
    labels, far = np.r_[np.ones(3), np.zeros(3)], np.array([0.02, 0.05, 0.3, 0.98, 0.95, 0.7])
    scores = np.r_[far, 1 - far]
    groups = {"low": [0, 1, 2], "high": [3, 4, 5], "right": np.arange(6, 12)}
    masks = {name: np.isin(np.arange(12), rows) for name, rows in groups.items()}
    found = calibration_report(Rows(np.r_[labels, labels], masks), scores)
    low, high, right = found.subgroups.values()
    assert (low.bias.low, high.bias.high) == (-1, 1)
    assert (low.brier.high, high.brier.high, right.brier.low) == (1, 1, 0)
    assert -2 <= found.gaps["low"]["calibration_gap"].low < -1


def test_one_row_has_a_value_but_no_interval():
    found = calibration_report(Rows([1, 0, 1, 0], {"gay": [1, 0, 0, 0]}), [0.4, 0.5, 0.6, 0.3])
    cell = found.gaps["gay"]["brier_gap"]
    assert cell.value == pytest.approx(0.36 - (0.25 + 0.16 + 0.09) / 3)
    assert cell.reason == "fewer than 2 rows in subgroup or background"


def test_extreme_scores_still_have_a_slope():
    y_true = np.array([0, 1, 0, 1, 1, 0] * 20, dtype=float)
    y_score = np.array([0.0, 1.0, 0.6, 0.4, 1.0, 0.0] * 20)
    rows = np.arange(y_true.size)
    sample = Sample(rows, y_true, np.ones(rows.size), None)
    found = slope_of(y_score, sample)
    assert 0 < found.value < 1
    assert abs(found.influence.sum()) < 1e-9


@pytest.mark.parametrize("factor", [1e-4, 0.01, 1.5])
def test_log_odds_that_are_nearer_each_other_have_as_much_larger_a_slope(factor):
    y_true, y_score, _ = draw()
    y_true, y_score = np.array(y_true, dtype=float), np.clip(y_score, 0.01, 0.99)
    other = 1 / (1 + (1 / y_score - 1) ** factor)
    slope, scaled = (
        slope_of(one, Sample(np.arange(N), y_true, np.ones(N), None)).value
        for one in (y_score, other)
    )
    assert scaled * factor == pytest.approx(slope, rel=1e-7)


@pytest.mark.parametrize("part", ["alike", "of one score", "without positives", "without weight"])
def test_a_slope_is_that_of_all_rows_whatever_a_part_of_them_tells(monkeypatch, part):
    linear = pytest.importorskip("sklearn.linear_model")
    y_true, y_score, _ = draw()
    y_true, y_score = np.array(y_true, dtype=float), np.clip(y_score, 0.01, 0.99)
    weight, first = np.ones(N), slice(None, None, 4)
    if part == "of one score":
        y_score[first] = 0.5
    elif part == "without positives":
        y_true[first] = 0
    elif part == "without weight":
        weight[first] = 0
    log_odds = np.log(y_score / (1 - y_score))[:, None]
    model = linear.LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)
    expected = model.fit(log_odds, y_true, sample_weight=weight).coef_[0, 0]
    monkeypatch.setattr(numbers, "_ENOUGH", N // 4)  # such a part is looked at first
    found = slope_of(y_score, Sample(np.arange(N), y_true, weight, None))
    assert found.value == pytest.approx(expected, abs=1e-5)


def test_a_slope_that_is_not_found_says_so(monkeypatch):
    monkeypatch.setattr(numbers, "_ROUNDS", 1)
    y_true, y_score, masks = draw()
    found = calibration_report(Rows(y_true, masks), y_score).overall.slope
    assert (found.value, found.reason) == (None, "no slope was found in 1 steps")


def test_a_difference_has_the_error_of_paired_rows():
    y_true, y_score, masks = draw()
    second = np.clip(y_score + np.random.default_rng(7).normal(0, 0.05, N), 0, 1)
    found = compare_calibration(Rows(y_true, masks), y_score, second)
    both = [(one - y_true) ** 2 for one in (y_score, second)]
    (a, of_a), (b, of_b) = (naive_mean(loss, masks["gay"]) for loss in both)
    cell = found.subgroups["gay"]["brier"]
    assert (cell.first, cell.second) == pytest.approx((a, b))
    assert cell.std_error == pytest.approx(math.sqrt((of_a - of_b) @ (of_a - of_b)))
    assert cell.low < cell.value < cell.high
    assert cell.size_low is None
    gap = found.subgroups["gay"]["brier_gap"]
    apart = [
        naive_mean(loss, masks["gay"])[1] - naive_mean(loss, ~masks["gay"])[1] for loss in both
    ]
    change = apart[0] - apart[1]
    assert gap.std_error == pytest.approx(math.sqrt(change @ change))
    assert gap.size_low < abs(gap.first) - abs(gap.second) < gap.size_high


def test_a_difference_of_clustered_rows_counts_its_clusters():
    y_true, y_score, masks = draw()
    found = compare_calibration(Rows(y_true, masks, clusters=codes()), y_score, y_score**2)
    assert found.overall["brier"].n_clusters == 50
    assert found.subgroups["gay"]["calibration_gap"].size_high is not None


@pytest.mark.parametrize("clustered", [False, True], ids=["rows", "clusters"])
def test_identical_scores_differ_by_0(clustered):
    y_true, y_score, masks = draw()
    clusters = codes() if clustered else None
    found = compare_calibration(Rows(y_true, masks, clusters=clusters), y_score, y_score)
    for cell in [*found.overall.values(), *found.subgroups["gay"].values()]:
        assert (cell.value, cell.low, cell.high) == (0, 0, 0)


def test_the_order_of_rows_does_not_matter():
    y_true, y_score, masks = draw()
    order = np.random.default_rng(9).permutation(N)
    one = calibration_report(Rows(y_true, masks), y_score)
    other = calibration_report(
        Rows(y_true[order], {name: mask[order] for name, mask in masks.items()}), y_score[order]
    )
    for name in NUMBERS:
        found, expected = (getattr(each.subgroups["gay"], name) for each in (one, other))
        assert found.value == pytest.approx(expected.value, rel=1e-9)
        assert found.low == pytest.approx(expected.low, rel=1e-9)


def test_flipping_a_subgroup_with_its_background_negates_the_gaps():
    y_true, y_score, masks = draw()
    gay = masks["gay"]
    found = calibration_report(Rows(y_true, {"gay": gay, "not": ~gay}), y_score).gaps
    for metric in calibration_metrics():
        one, other = found["gay"][metric], found["not"][metric]
        assert (one.value, one.low) == pytest.approx((-other.value, -other.high))


def test_reports_are_records_and_tables():
    y_true, y_score, masks = draw()
    report = calibration_report(Rows(y_true, masks), y_score)
    assert len(report.rows()) == 2 * (len(NUMBERS) + 3) + len(NUMBERS)
    assert "calibration_gap" in str(report)
    plain = report.to_dict()["subgroups"]["gay"]
    assert (
        plain["brier_gap"]["value"]
        == plain["brier"]["value"] - plain["background"]["brier"]["value"]
    )
    gap = report.gaps["gay"]["brier_gap"]
    assert (plain["brier_gap"]["low"], plain["brier_gap"]["high"]) == (gap.low, gap.high)
    [record] = [
        row for row in report.rows() if (row["subgroup"], row["metric"]) == ("gay", "brier_gap")
    ]
    counts = {"n": int(masks["gay"].sum()), "n_positive": int(y_true[masks["gay"]].sum())}
    parts = {key: getattr(gap, key) for key in ("value", "std_error", "low", "high", "reason")}
    assert record == {"subgroup": "gay", "metric": "brier_gap"} | counts | parts
    assert plain["reliability"][0].keys() == {"n", "mean_score", "share_positive", "low", "high"}
    change = compare_calibration(Rows(y_true, masks), y_score, y_score)
    assert change.to_dict()["subgroups"]["gay"].keys() == {*NAMES, *calibration_metrics()}
    assert len(change.rows()) == 2 * 6 + 3


def test_there_are_at_least_two_bins():
    y_true, y_score, masks = draw()
    with pytest.raises(ValueError, match="`n_bins` must be at least 2; got 1"):
        calibration_report(Rows(y_true, masks), y_score, n_bins=1)


def test_metrics_of_calibration_compare_all_rows_of_both_sides():
    for name in calibration_metrics():
        metric = METRICS[name]
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
    truth = {
        "calibration_gap": np.mean(SCORES - chance),
        "slope_gap": slope - 1,
        "brier_gap": np.mean((SCORES - chance) ** 2 + chance * (1 - chance))
        - np.mean(SCORES * (1 - SCORES)),
    }
    n, n_samples = n_own + 1500, 600
    gay = np.arange(n) < n_own
    held = dict.fromkeys(truth, 0)
    for _ in range(n_samples):
        at = rng.integers(0, 10, n)
        luck, clusters = rng.random(n), None
        if clustered:
            clusters = rng.integers(0, 100, n)
            luck = np.where(rng.random(n) < 0.3, rng.random(100)[clusters], luck)
        y_true = luck < np.where(gay, chance[at], SCORES[at])
        cells = calibration_report(Rows(y_true, {"gay": gay}, clusters=clusters), SCORES[at]).gaps[
            "gay"
        ]
        for name, value in truth.items():
            held[name] += cells[name].low <= value <= cells[name].high
    assert all(0.92 <= one / n_samples <= 0.985 for one in held.values()), held


# ------------------------------------------------------------------ few positives


@pytest.mark.evaluates
@pytest.mark.parametrize(
    ("n", "share", "clusters"), [(30, 0.05, 0), (100, 0.01, 0), (200, 0.02, 50)]
)
def test_a_calibrated_group_with_few_positives_is_not_shown_to_be_off(n, share, clusters):
    """By influences alone, the truth was held in 64 to 82 of 100 samples."""
    calibrated = pytest.importorskip("benchmarks.coverage.calibrated")
    case = calibrated.Calibrated(n, share, spread=5, n_clusters=clusters)
    for name, held in case.hold(100).items():
        assert held.covered > 0.93 - 3 * 0.0255, name
        assert held.passed < 0.05 + 3 * 0.0218, name


@pytest.mark.parametrize(("mixed", "worth"), [(9, 40), (10, 80)])
def test_rows_of_clusters_are_worth_themselves_from_ten_clusters_with_a_positive_on(mixed, worth):
    # Clusters of two rows, of which one in each of the first is positive: no design effect.
    y_true, clusters = np.arange(80) % 40 < 0, np.arange(80) // 2
    y_true[2 * np.arange(mixed)] = True
    found = calibration_report(Rows(y_true, {}, clusters=clusters), np.full(80, 0.05))
    bias, share, z = found.overall.bias, mixed / 80, 1.959963984540054
    high = wilson(share, worth, z)[1]
    assert bias.low == pytest.approx(0.05 - high)


def test_a_group_without_positives_may_have_some_elsewhere():
    rows = Rows([0, 1] * 200 + [0] * 40, {"gay": np.arange(440) >= 400})
    found = calibration_report(rows, np.append(np.full(400, 0.5), np.full(40, 0.05)))
    bias = found.subgroups["gay"].bias
    assert bias.value == pytest.approx(0.05)
    upper = 3.8415 / (40 + 3.8415)  # Wilson's, of none in 40
    assert bias.low == pytest.approx(0.05 - upper, rel=1e-4)
    assert found.gaps["gay"]["calibration_gap"].low < bias.low


def test_scores_of_0_alone_explain_nothing_of_a_few_positives():
    y_true = np.r_[[1] * 2, [0] * 38, [0, 1] * 100]
    rows = Rows(y_true, {"gay": np.arange(240) < 40})
    bias = calibration_report(rows, np.r_[[0.0] * 40, [0.5] * 200]).subgroups["gay"].bias
    assert bias.value == pytest.approx(-2 / 40)
    assert bias.low == pytest.approx(-wilson(2 / 40, 40, 1.959963984540054)[1])
    turned = Rows(1 - y_true, {"gay": np.arange(240) < 40})
    other = calibration_report(turned, np.r_[[1.0] * 40, [0.5] * 200]).subgroups["gay"].bias
    assert (other.value, other.high) == pytest.approx((-bias.value, -bias.low))


def test_scores_of_0_and_1_explain_nothing_of_a_few_positives():
    y_true = np.r_[[1] * 2, [0] * 38, [1] * 90, [0] * 270]
    y_score = np.r_[[0.0] * 40, [1.0] * 110, [0.0] * 250]
    found = calibration_report(Rows(y_true, {"gay": np.arange(400) < 40}), y_score)
    brier = found.subgroups["gay"].brier
    assert brier.value == pytest.approx(2 / 40)
    square = 1.959964**2
    reach = math.sqrt(square * (0.05 * 0.95 + square / 160) / 40)
    assert brier.high == pytest.approx((0.05 + square / 80 + reach) / (1 + square / 40), rel=1e-5)


def test_few_positives_move_a_bias_and_a_brier_score_as_far_as_their_share_may_lie():
    y_true, y_score = np.zeros(80), np.r_[[0.1] * 30, [0.3] * 10, [0.05] * 40]
    y_true[[0, 1, 30, 31]], y_true[[40, 41]] = 1, 1
    gay = np.arange(80) < 40
    found = calibration_report(Rows(y_true, {"gay": gay}), y_score)
    own, other = found.subgroups["gay"], found.backgrounds["gay"]
    assert (own.bias.value, other.bias.value) == pytest.approx((0.15 - 0.1, 0.0))
    z = 1.959963984540054
    # Given the scores, labels vary by .1 (.9) or .3 (.7); without them, by .15 (.85).
    noise = (0.09 * 30 + 0.21 * 10) / 40 / (0.15 * 0.85)
    low, high = wilson(0.1, 40, z * math.sqrt(noise))
    assert own.bias.low == pytest.approx(0.05 - (high - 0.1))
    # A label that becomes positive moves its square from s^2 to (1 - s)^2: by .8 or .4.
    step = math.sqrt((0.09 * 30 * 0.8**2 + 0.21 * 10 * 0.4**2) / (0.09 * 30 + 0.21 * 10))
    assert own.brier.high == pytest.approx(own.brier.value + step * (high - 0.1))
    lowest, highest = wilson(0.05, 40, z)  # scores that are all the same explain nothing
    gap = found.gaps["gay"]["calibration_gap"]
    up = max(0.1 - low, z * own.bias.std_error), highest - 0.05
    down = high - 0.1, max(0.05 - lowest, z * other.bias.std_error)
    assert gap.low == pytest.approx(0.05 - math.hypot(*down))
    assert gap.high == pytest.approx(0.05 + math.hypot(*up))


def test_calibration_is_the_same_seen_from_the_other_class():
    y_true, y_score, masks = draw(n=90)
    y_true = y_true & (np.arange(90) % 3 > 0)
    one, other = (
        calibration_report(Rows(labels, masks), scores, n_bins=2).subgroups["gay"]
        for labels, scores in ((y_true, y_score), (~y_true, 1 - y_score))
    )
    assert one.n_positive < 10
    for name, sign in {"bias": -1, "brier": 1, "slope": 1}.items():
        a, b = getattr(one, name), getattr(other, name)
        assert (b.value, b.std_error) == pytest.approx((sign * a.value, a.std_error))
        assert sorted((b.low, b.high)) == pytest.approx(sorted((sign * a.low, sign * a.high)))


def test_many_positives_are_left_to_the_influences():
    y_true, y_score, masks = draw()
    found = calibration_report(Rows(y_true, masks), y_score).overall.bias
    assert found.high - found.value == pytest.approx(found.value - found.low)
