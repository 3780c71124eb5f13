"""Metrics of labels by a few raters: values by hand and by brute force, and what they refuse."""

import math
from dataclasses import replace
from itertools import product
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest
from support.rated import draw_comments, expected_numbers

from bias_metrics import MetricValue, Rows, evaluate_bias, label_noise
from bias_metrics.metrics import AUCS, PAIRS, SUBGROUP_METRICS
from bias_metrics.raters import votes as cells
from bias_metrics.raters import votes as fitting
from bias_metrics.raters.expected import (
    FINAL,
    OVERALL,
    SortedRows,
    expected_report,
    pairs_of,
    rater_variances,
)
from bias_metrics.raters.noise import combined, impute, mean_of, share_of
from bias_metrics.raters.results import numbers_of
from bias_metrics.report import Options

THIRDS = np.array([0, 1, 2, 3, 1, 0, 2, 3, 1, 2]) / 3
SCORES = np.array([0.1, 0.4, 0.4, 0.9, 0.7, 0.2, 0.3, 0.8, 0.5, 0.5])
IN_G = np.array([1, 1, 1, 1, 1, 0, 0, 0, 0, 0], dtype=bool)


def noise(*args, seed=0, **options):
    return label_noise(*args, rng=np.random.default_rng(seed), **options)


@pytest.fixture(scope="module")
def rated():
    """Return 600 comments with three raters each, and their result."""
    rng = np.random.default_rng(3)
    fraction, scores, groups, _ = draw_comments(rng, 600, small=0.1)
    votes = rng.binomial(3, fraction) / 3
    return votes, scores, groups, noise(votes, 3, scores, groups, n_draws=5)


def over_pairs(score, high, low):
    """Return the expected-label AUC: a double loop over pairs of different comments."""
    wins = weight = 0.0
    for i, j in product(range(score.size), repeat=2):
        if i != j:
            both = high[i] * low[j]
            weight += both
            wins += both * ((score[i] > score[j]) + (score[i] == score[j]) / 2)
    return wins / weight


def test_the_expected_auc_of_three_comments_is_the_share_of_weighted_pairs():
    # Toxic with 0, 1/2 and 1: pairs (toxic, harmless) weigh 1/2 (second, first), 1 (third, first)
    # and 1/2 (third, second); the second pair is in the wrong order.
    found = noise([0, 0.5, 1], 2, [0.3, 0.4, 0.2], {}, n_draws=2)
    assert found.expected[OVERALL].value.value == pytest.approx((1 / 2 + 0 + 0) / 2)


@pytest.mark.parametrize("background", ["outside_subgroup", "no_identity"])
@pytest.mark.parametrize("metric", SUBGROUP_METRICS)
def test_expected_metrics_are_sums_over_all_pairs_of_different_comments(metric, background):
    in_h = np.arange(10) >= 8
    found = noise(THIRDS, 3, SCORES, {"g": IN_G, "h": in_h}, n_draws=2, background=background)
    classes = {"positive": THIRDS, "negative": 1 - THIRDS}
    outside = ~IN_G if background == "outside_subgroup" else ~(IN_G | in_h)
    pair = PAIRS[metric]
    x = classes[pair.x] * IN_G
    y = classes[pair.y] * (IN_G if pair.inside else outside)
    share = over_pairs(SCORES, y, x) if pair.flip else over_pairs(SCORES, x, y)
    centre = 0.0 if metric in AUCS else 0.5
    assert found.expected["g", metric].value.value == pytest.approx(share - centre)


def test_the_expected_auc_is_what_single_raters_give_on_average():
    """Enumerate every vector of labels that one rater for each comment can give."""
    fraction, score = np.array([0, 1, 2, 1, 3]) / 3, np.array([0.2, 0.5, 0.4, 0.9, 0.7])
    wins = pairs = 0.0
    for labels in product([0, 1], repeat=5):
        labels = np.array(labels)  # noqa: PLW2901
        chance = np.prod(np.where(labels, fraction, 1 - fraction))
        n_pairs = labels.sum() * (1 - labels).sum()
        if chance > 0 and n_pairs:
            auc = evaluate_bias(labels, score, {}, intervals=False).overall.auc.value
            wins, pairs = wins + chance * n_pairs * auc, pairs + chance * n_pairs
    found = noise(fraction, 3, score, {}, n_draws=2)
    assert found.expected[OVERALL].value.value == pytest.approx(wins / pairs)


def test_unanimous_comments_have_the_report_of_their_labels(rated):
    votes, scores, groups, _ = rated
    labels = votes >= 0.5
    found = noise(labels.astype(float), 3, scores, groups, n_draws=2).expected
    report = numbers_of(evaluate_bias(labels, scores, groups))
    for key, one in report.items():
        assert found[key].value.value == pytest.approx(one.value)
        assert found[key].value.std_error == pytest.approx(one.std_error, rel=1e-3)
        assert found[key].rater_share.value == 0


def test_the_panel_has_the_numbers_and_intervals_of_the_report(rated):
    votes, scores, groups, found = rated
    report = numbers_of(evaluate_bias(votes >= 0.5, scores, groups))
    assert {key: one.value for key, one in found.panel.numbers.items()} == report


def test_the_rater_variance_is_that_of_votes_drawn_again():
    rng = np.random.default_rng(0)
    fraction, scores, groups, _ = draw_comments(rng, 400, small=0.2)
    groups = {"small": groups["small"]}
    keys = (OVERALL, ("small", "bnsp_auc"), (None, "bpsn_auc"), FINAL)
    values, variances = [], []
    for _ in range(100):
        found, by_rater = expected_numbers(rng.binomial(3, fraction), 3, scores, groups)
        values.append([found[key].value for key in keys])
        variances.append([by_rater[key] for key in keys])
    ratio = np.mean(variances, axis=0) / np.var(values, axis=0, ddof=1)
    assert np.all(np.abs(ratio - 1) < 0.45)  # three standard errors of a variance of 100


def test_a_comments_own_pairs_do_not_count():
    found = noise([1 / 3, 2 / 3], 3, [0.1, 0.9], {}, n_draws=2)
    assert found.expected[OVERALL].value.value == pytest.approx((4 / 9) / (4 / 9 + 1 / 9))


def test_more_raters_move_the_consensus_less():
    rng = np.random.default_rng(1)
    fraction, scores, groups, _ = draw_comments(rng, 800)
    few, many = (
        noise(rng.binomial(m, fraction) / m, m, scores, groups, n_draws=10) for m in (3, 300)
    )
    shares = [one.consensus[OVERALL].rater_share.value for one in (few, many)]
    assert shares[0] > 0.2
    assert shares[1] < 0.1
    truth = evaluate_bias(fraction >= 0.5, scores, groups).overall.auc.value
    assert many.consensus[OVERALL].value.value == pytest.approx(truth, abs=0.01)


def test_new_panels_of_the_model_have_the_auc_of_the_panel_and_redrawn_fractions_do_not():
    rng = np.random.default_rng(2)
    fraction, scores, _, _ = draw_comments(rng, 6000)
    votes = rng.binomial(3, fraction) / 3
    found = noise(votes, 3, scores, {}, n_draws=5)
    panel = found.panel[OVERALL].value.value
    naive = [
        evaluate_bias(rng.binomial(3, votes) >= 2, scores, {}, intervals=False).overall.auc.value
        for _ in range(5)
    ]
    assert found.redrawn["auc"].value == pytest.approx(panel, abs=0.006)
    assert np.mean(naive) < panel - 0.02


def test_comments_with_more_raters_may_be_of_another_kind(monkeypatch):
    rng = np.random.default_rng(6)
    fraction, scores, _, _ = draw_comments(rng, 4000, "beta")
    hard = rng.random(4000) < 0.3
    fraction[hard], scores[hard] = rng.beta(8, 8, hard.sum()), rng.normal(-1, 1, hard.sum())
    raters = np.where(hard, 7, 3)
    raters[:8] = 50
    votes = rng.binomial(raters, fraction) / raters
    true = evaluate_bias(fraction >= 0.5, scores, {}, intervals=False).overall.auc.value

    def consensus():
        return noise(votes, raters, scores, {}, n_draws=10).consensus[OVERALL].value

    with_kinds = consensus()
    monkeypatch.setattr(cells, "_by_number", lambda *_: [])
    alike = consensus()
    assert with_kinds.low < true < with_kinds.high
    assert not alike.low < true < alike.high


def test_draws_are_combined_by_rubins_rules():
    draws = [
        MetricValue(0.8, std_error=0.03, low=0.74, high=0.86),
        MetricValue(0.81, std_error=0.04, low=0.73, high=0.87),
    ]
    found = combined(draws, "auc", 0.95)
    within, between = (0.03**2 + 0.04**2) / 2, 1.5 * (0.005**2 + 0.005**2)
    t = 12.706204736
    assert found.value.value == pytest.approx(0.805)
    assert found.value.std_error == pytest.approx(math.sqrt(within + between))
    assert found.rater_share.value == pytest.approx(between / (within + between))
    down, up = (0.06**2 + 0.08**2) / 2, (0.06**2 + 0.06**2) / 2
    assert found.value.low == pytest.approx(0.805 - math.sqrt(down + t**2 * between))
    assert found.value.high == pytest.approx(0.805 + math.sqrt(up + t**2 * between))
    wide = replace(draws[1], value=0.8, low=0.72, high=0.88)
    alike = combined([draws[0], wide], "auc", 0.95)
    assert alike.value.low == pytest.approx(0.8 - math.sqrt((0.06**2 + 0.08**2) / 2))
    assert alike.rater_share.value == 0


def test_draws_give_labels_and_new_panels_at_the_threshold_or_above():
    fraction = np.where(np.arange(4000) % 2, 0.5, 0.3)
    given = SimpleNamespace(
        fit=lambda: None,
        spread=lambda *_: None,
        draw=lambda *_: fraction,
        grid=SimpleNamespace(threshold=0.5),
    )
    rows, raters = Rows(fraction > 0.4, {}), np.full(4000, 2)
    rng = np.random.default_rng(3)
    found = impute(given, rows, fraction, Options.of(rows), raters, 3, rng)
    assert [one[OVERALL].value for one in found.numbers] == [1, 1, 1]
    # One of two raters is half of them: toxic with 1 - .5^2 = .75, and with 1 - .7^2 = .51.
    assert found.unsure[1::2].mean() == pytest.approx(0.75 * 0.25, abs=0.015)
    assert found.unsure[::2].mean() == pytest.approx(0.51 * 0.49, abs=0.015)
    # Of a toxic and a harmless panel, the toxic one is of a comment with .5 or .3.
    wins, losses = 0.75 * 0.49, 0.51 * 0.25
    ties = 0.75 * 0.25 + 0.51 * 0.49
    auc = (wins + ties / 2) / (wins + losses + ties)
    assert mean_of(found.redrawn[OVERALL]).value == pytest.approx(auc, abs=0.015)


def test_an_interval_stays_in_the_range_of_its_metric():
    draws = [MetricValue(one, std_error=0.2, low=-0.5, high=0.5) for one in (-0.4, 0.4)]
    found = combined(draws, "positive_aeg", 0.95).value
    assert (found.low, found.high) == (-0.5, 0.5)


def test_a_number_that_a_draw_lacks_is_null_with_how_often():
    known, lacking = MetricValue(0.8, std_error=0.1, low=0.6, high=0.9), MetricValue(None, "no x")
    found = combined([known, lacking], "auc", 0.95)
    assert found.value == MetricValue(None, "undefined in 1 of 2 draws (no x)")
    assert found.rater_share.reason == "undefined in 1 of 2 draws (no x)"
    assert mean_of([known, lacking]).reason == "undefined in 1 of 2 draws"
    found = combined([known, MetricValue(0.6, "few")], "auc", 0.95)
    assert found.value == MetricValue(0.7, "no interval in 1 of 2 draws (few)")


def test_a_fit_stops_where_it_is_after_so_many_steps(rated, monkeypatch):
    votes, scores, groups, found = rated
    monkeypatch.setattr(fitting, "_STEPS", 1)
    assert noise(votes, 3, scores, groups, n_draws=5) != found


def test_no_variance_has_no_parts():
    assert share_of(0.0, 0.0) == MetricValue(None, "no variance")


def test_one_rater_says_nothing_about_disagreement(rated):
    votes, scores, groups, _ = rated
    found = noise(votes >= 0.5, 1, scores, groups)
    reason = "0 comments with two raters or more where 20 are needed"
    assert found.consensus[OVERALL].value == MetricValue(None, reason)
    assert found.panel[OVERALL].rater_share.reason == reason
    assert found.redrawn["auc"].reason == reason
    assert found.expected[OVERALL].rater_share.reason == "600 comments with one rater"
    assert found.agreement == MetricValue(None, "no comment with two raters")
    assert found.expected[OVERALL].value.low is not None
    shown = found.to_dict()["expected"]["overall"]["auc"]
    assert (shown["rater_share"], shown["rater_share_reason"]) == (
        None,
        "600 comments with one rater",
    )
    assert "?" in str(found)


def test_two_raters_agree_as_often_as_counted_by_hand():
    # Of three raters, one against two: one of three pairs agrees. Unanimous: all do.
    found = noise([0, 1 / 3, 1], 3, [0.1, 0.2, 0.3], {}, n_draws=2)
    assert found.agreement.value == pytest.approx((1 + 1 / 3 + 1) / 3)


def test_a_class_without_comments_is_undefined_with_its_reason():
    found = noise([0, 0, 1 / 3], 3, [0.1, 0.2, 0.3], {"g": [1, 0, 0]}, n_draws=2)
    assert found.expected["g", "bnsp_auc"].value.reason == "no subgroup positives"
    assert found.expected["g", "bpsn_auc"].value.reason == (
        "fewer than 2 effective rows in a class"
    )
    assert found.expected["g", "bnsp_auc"].rater_share.reason == "no subgroup positives"
    assert found.expected[None, "bnsp_auc"].value.reason == "undefined for g"
    alone = noise([0.5], 2, [0.1], {}, n_draws=2)
    assert alone.expected[OVERALL].value.reason == "no two different comments to compare"


def test_no_rows_have_no_numbers():
    found = noise([], [], [], {}, n_draws=2)
    assert found.expected[OVERALL].value.reason == "no positives and no negatives"
    assert found.raters == {"least": 0.0, "median": 0.0, "most": 0.0}


def test_a_power_mean_over_an_auc_of_0_has_no_share():
    n = 40
    fraction = np.tile([1 / 3, 2 / 3], n // 2)
    fraction[:4], scores = [0, 0, 1, 1], np.arange(n) / n
    scores[:4] = [2, 2, -1, -1]
    found = noise(fraction, 3, scores, {"g": np.arange(n) < 4, "h": np.arange(n) > 9}, n_draws=2)
    assert found.expected["g", "subgroup_auc"].value.value == 0
    share = found.expected[None, "subgroup_auc"].rater_share
    assert share == MetricValue(None, "g is 0, where a power mean has no derivative")
    assert found.expected[FINAL].rater_share.value is None


def test_rows_of_one_cluster_widen_intervals_and_not_the_part_of_raters():
    rng = np.random.default_rng(4)
    fraction, scores, groups, clusters = draw_comments(rng, 1500, n_clusters=40)
    votes = rng.binomial(3, fraction) / 3
    alone, together = (
        noise(votes, 3, scores, groups, n_draws=3, clusters=one).expected[OVERALL]
        for one in (None, clusters)
    )
    assert together.value.std_error > 1.3 * alone.value.std_error
    assert together.value.row_std_error == pytest.approx(alone.value.std_error)
    assert 30 < together.value.n_clusters <= 40
    variances = [one.rater_share.value * one.value.std_error**2 for one in (alone, together)]
    assert variances[0] == pytest.approx(variances[1])


def test_few_clusters_have_no_interval(rated):
    votes, scores, groups, _ = rated
    found = noise(votes, 3, scores, groups, n_draws=2, clusters=np.arange(600) % 5)
    one = found.expected[FINAL].value
    assert (one.low, one.reason) == (None, "5 clusters where 20 are needed")


def test_only_the_order_of_scores_counts(rated):
    votes, scores, groups, found = rated
    assert noise(votes, 3, np.exp(scores), groups, n_draws=5).to_dict() == found.to_dict()


def test_the_same_generator_gives_the_same_result(rated):
    votes, scores, groups, found = rated
    raters = np.full(600, 3)
    assert noise(votes, raters, scores, groups, n_draws=5) == found


def test_a_record_has_its_reading(rated):
    *_, found = rated
    rows = found.rows()
    assert len(rows) == 3 * (2 * 5 + 5)
    assert [row["metric"] for row in rows[:6]] == ["auc", *SUBGROUP_METRICS]
    assert rows[0]["reading"] == "panel"
    assert rows[-1] == {
        "reading": "consensus",
        "subgroup": None,
        "metric": "final_score",
        **{key: getattr(found.consensus[FINAL].value, key) for key in ("value", "std_error")},
        **{key: getattr(found.consensus[FINAL].value, key) for key in ("low", "high", "reason")},
        "rater_share": found.consensus[FINAL].rater_share.value,
        "rater_share_reason": None,
    }
    assert "600 comments with 3 to 3 raters (median 3), two of whom agree" in str(found)


def test_plain_values_are_arranged_by_subgroup_with_intervals_and_shares(rated):
    _, _, groups, found = rated
    plain = found.to_dict()["panel"]
    assert plain["subgroups"].keys() == groups.keys()
    for name, metric in product(groups, SUBGROUP_METRICS):
        one, record = found.panel[name, metric], plain["subgroups"][name][metric]
        assert (record["low"], record["high"]) == (one.value.low, one.value.high)
        assert record["rater_share"] == one.rater_share.value
    assert plain["final_score"]["value"] == found.panel[FINAL].value.value
    assert all(name in str(found) for name in groups)


@pytest.mark.parametrize("wrong", [0, 1.5, -1])
def test_a_number_of_raters_must_be_whole_and_at_least_1(wrong):
    with pytest.raises(ValueError, match=r"`n_raters` must be whole .* got .* \(row 1\)"):
        noise([0.5, 0.5], [2, wrong], [0.1, 0.2], {})


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_a_threshold_must_lie_between_0_and_1(wrong):
    with pytest.raises(ValueError, match=r"`threshold` must be between 0 and 1, as in 0\.5; got"):
        noise([0.5, 0.5], 2, [0.1, 0.2], {}, threshold=wrong)


def test_a_fraction_must_lie_in_0_to_1():
    with pytest.raises(ValueError, match=r"`label_fraction` must be in \[0, 1\]; got 3 \(row 0\)"):
        noise([3, 0], 3, [0.1, 0.2], {})


def test_a_generator_and_two_draws_are_needed():
    with pytest.raises(TypeError, match="`rng` must be a numpy Generator"):
        label_noise([0.5], 2, [0.1], {}, rng=0)
    with pytest.raises(ValueError, match="`n_draws` must be at least 2; got 1"):
        noise([0.5], 2, [0.1], {}, n_draws=1)


def test_before_votes_every_fraction_is_as_likely_as_its_bin_is_wide():
    grid = fitting.Grid.of(0.5)
    raters = np.full(THIRDS.size, 3)
    ordered = SortedRows.of(SCORES)
    model = fitting.VoteModel(fitting.VoteCells.of(THIRDS, raters, ordered, {"g": IN_G}), grid)
    before = model.at(np.zeros(model._n)).before
    assert before == pytest.approx(np.broadcast_to(np.diff(grid.edges), before.shape))


def slopes(value, at, step=1e-5):
    """The derivatives of a value by each number, from both sides."""
    ends = [(at + move, at - move) for move in step * np.eye(at.size)]
    return np.array([(value(above) - value(below)) / (2 * step) for above, below in ends])


def sides(metric, probability, own):
    """How much each comment counts on the higher and on the lower side of a metric."""
    if metric == "auc":
        return probability, 1 - probability
    classes, pair = {"positive": probability, "negative": 1 - probability}, PAIRS[metric]
    x, y = classes[pair.x] * own, classes[pair.y] * (own if pair.inside else ~own)
    return (y, x) if pair.flip else (x, y)


@pytest.fixture(scope="module")
def divided():
    """Sixty comments, with tied scores and votes of any share."""
    rng = np.random.default_rng(11)
    fraction, scores = rng.uniform(0.05, 0.95, 60), rng.integers(0, 12, 60) / 12
    groups = {"g": rng.random(60) < 0.5, "h": rng.random(60) < 0.4}
    above = (scores[:, None] > scores) + (scores[:, None] == scores) / 2
    different = 1 - np.eye(60)
    return fraction, scores, groups, above * different, different


def test_the_variance_from_raters_is_that_of_each_numbers_slopes_by_the_probabilities(divided):
    fraction, scores, groups, above, different = divided
    each = np.random.default_rng(12).random(60)
    rows = Rows(fraction >= 0.5, groups)
    options = Options.of(rows, power=-3.0)
    pairs = pairs_of(rows, SortedRows.of(scores), fraction)

    def numbers(probability):
        found = {}
        for key in [OVERALL, *product(groups, SUBGROUP_METRICS)]:
            high, low = sides(key[1], probability, groups.get(key[0]))
            found[key] = high @ above @ low / (high @ different @ low)
        for metric in AUCS:
            found[None, metric] = np.mean([found[name, metric] ** -3 for name in groups]) ** (
                -1 / 3
            )
        found[FINAL] = (found[OVERALL] + sum(found[None, metric] for metric in AUCS)) / 4
        return np.array(list(found.values())), list(found)

    moved, keys = slopes(lambda x: numbers(x)[0], fraction), numbers(fraction)[1]
    found = rater_variances(pairs, options, each)
    assert found.keys() == set(keys)
    for at, key in enumerate(keys):
        assert found[key] == pytest.approx(np.sum(each * moved[:, at] ** 2), rel=1e-6)


@pytest.mark.parametrize("clustered", [False, True], ids=["rows", "clusters"])
@pytest.mark.parametrize("key", [OVERALL, ("g", "bpsn_auc"), ("h", "positive_aeg")])
def test_the_error_of_an_expected_metric_is_that_of_its_slopes_by_the_weights(
    divided, key, clustered
):
    fraction, scores, groups, above, different = divided
    codes = np.arange(60) % 25 if clustered else np.arange(60)
    rows = Rows(fraction >= 0.5, groups, clusters=codes if clustered else None)
    pairs = pairs_of(rows, SortedRows.of(scores), fraction)
    found = numbers_of(expected_report(pairs, rows, Options.of(rows)))[key]
    high, low = sides(key[1], fraction, groups.get(key[0]))
    moved = (
        slopes(lambda x: x @ above @ low / (x @ different @ low), high),
        slopes(lambda x: high @ above @ x / (high @ different @ x), low),
    )
    total = 0.0
    for weight, of in zip((high, low), moved, strict=True):
        sums, shares = np.bincount(codes, weight * of), np.bincount(codes, weight) / weight.sum()
        total = total + sums / np.sqrt(1 - shares)
    assert found.std_error == pytest.approx(math.sqrt(total @ total), rel=1e-6)
    n_clusters = min(np.unique(codes[weight > 0]).size for weight in (high, low))
    assert found.n_clusters == (n_clusters if clustered else None)


@pytest.fixture
def model():
    """A model of 300 comments, of which 100 have five raters and 40 have nine."""
    rng = np.random.default_rng(7)
    fraction, scores, groups, _ = draw_comments(rng, 300, small=0.2)
    raters = np.repeat([3, 5, 9], [160, 100, 40])
    votes = rng.binomial(raters, fraction) / raters
    found = fitting.VoteCells.of(votes, raters, SortedRows.of(scores), groups)
    return fitting.VoteModel(found, fitting.Grid.of(0.5)), votes, raters, scores, groups


def test_a_cell_has_the_votes_the_rank_and_the_groups_of_its_rows(model):
    model, votes, raters, scores, groups = model
    found, at = model.cells, model.cells.of_row
    assert found.count == pytest.approx(np.bincount(at))
    assert found.toxic[at] == pytest.approx(votes * raters)
    assert found.harmless[at] == pytest.approx((1 - votes) * raters)
    ranks = np.argsort(np.argsort(scores))  # no ties
    level = np.floor((ranks + 0.5) / 300 * 200)
    normal = np.array([NormalDist().inv_cdf((one + 0.5) / 200) for one in level])
    hermite = [np.polynomial.hermite_e.HermiteE.basis(k)(normal) for k in range(4)]
    expected = [one / math.sqrt(math.factorial(k)) for k, one in enumerate(hermite)]
    assert found.common[at] == pytest.approx(np.transpose(expected))
    kinds = [1.0 * (raters == 5), 1.0 * (raters == 9)]
    assert found.kinds[at] == pytest.approx(np.transpose(kinds))
    own = [each for one in (*groups.values(), *kinds) for each in (one, one * normal)]
    assert found.own[at] == pytest.approx(np.transpose(own))


def test_numbers_of_raters_of_fewer_than_1_in_100_comments_are_of_one_kind():
    raters = np.repeat([3, 5, 8, 9, 10], [300, 93, 4, 2, 1])
    five, eight, rare = fitting._by_number(raters, raters)
    assert (five == (raters == 5)).all()
    assert (eight == (raters == 8)).all()
    assert (rare == (raters > 8)).all()
    assert len(fitting._by_number(raters[:397], raters[:397])) == 2


def test_the_likelihood_is_that_of_votes_given_a_fraction_in_each_bin(model):
    model, *_ = model
    coefficients = np.random.default_rng(8).normal(0, 0.2, model._n)
    state, cells, nodes = model.at(coefficients), model.cells, model.grid.nodes
    assert state.before.sum(axis=1) == pytest.approx(1)
    chances = nodes ** cells.toxic[:, None] * (1 - nodes) ** cells.harmless[:, None]
    of_votes = (state.before * chances).sum(axis=1)
    assert state.after == pytest.approx(state.before * chances / of_votes[:, None])
    # Each coefficient has the standard deviation of its degree in the score, as in the priors.
    degrees = [3.0, 2.0, 1.0, 0.5]
    n_own, n_kinds = cells.own.shape[1] // 2, cells.kinds.shape[1]
    deviations = degrees + [3.0, 2.0] * n_own + degrees + [3.0] * n_kinds + degrees
    penalty = np.sum((coefficients / deviations) ** 2) / 2
    assert state.likelihood == pytest.approx(cells.count @ np.log(of_votes) - penalty)


def test_fractions_are_of_a_beta_distribution_with_a_third_term(model):
    model, *_ = model
    a, b, c = 0.7, 1.3, 0.05
    coefficients = np.zeros(model._n)
    coefficients[[part.start for part in model._parts]] = a, b, c
    p = model.grid.nodes
    # Thirds of log(p / (1 - p)) and of log(p (1 - p)), and a tenth of the cubed log-odds.
    density = p ** ((a + b) / 3) * (1 - p) ** ((b - a) / 3)
    expected = density * np.exp(c * np.log(p / (1 - p)) ** 3 / 10) * np.diff(model.grid.edges)
    assert model.at(coefficients).before[0] == pytest.approx(expected / expected.sum())


def test_the_fitted_model_is_the_top_of_the_likelihood_with_its_curvature(model):
    model, *_ = model
    at, step = np.random.default_rng(8).normal(0, 0.2, model._n), 1e-4

    def gradient_at(coefficients):
        ends = (model.at(coefficients + move) for move in step * np.eye(model._n))
        starts = (model.at(coefficients - move) for move in step * np.eye(model._n))
        return np.array(
            [(a.likelihood - b.likelihood) / (2 * step) for a, b in zip(ends, starts, strict=True)]
        )

    state = model.at(at)
    gradient = model.cells.count @ model._scores(state) - model._penalty * at
    assert gradient == pytest.approx(gradient_at(at), rel=1e-4, abs=1e-2)
    move = np.random.default_rng(9).normal(size=model._n)
    curved = (gradient_at(at - step * move) - gradient_at(at + step * move)) / (2 * step)
    assert model.curvature(state) @ move == pytest.approx(curved, rel=1e-3, abs=1e-2)
    best = model.fit()
    steepest = model.cells.count @ model._scores(best) - model._penalty * best.coefficients
    assert steepest @ np.linalg.solve(model.curvature(best), steepest) < 1e-3


@pytest.mark.parametrize("clustered", [False, True], ids=["rows", "clusters"])
def test_coefficients_vary_as_the_scores_of_rows_or_clusters_do(model, clustered):
    model, *_ = model
    best, clusters = model.fit(), np.arange(300) % 60
    of_rows = model._scores(best)[model.cells.of_row]
    each = of_rows
    if clustered:
        each = np.array([of_rows[clusters == one].sum(axis=0) for one in range(60)])
    inverse = np.linalg.inv(model.curvature(best))
    spread = model.spread(best, clusters if clustered else None)
    assert spread @ spread.T == pytest.approx(inverse @ each.T @ each @ inverse, abs=1e-6)


def test_fractions_are_drawn_as_likely_as_their_bins_given_the_votes(model):
    model, *_ = model
    best, edges = model.fit(), model.grid.edges
    rng, nothing = np.random.default_rng(10), np.zeros((model._n, model._n))
    drawn = np.concatenate([model.draw(best, nothing, rng) for _ in range(40)])
    assert 0 <= drawn.min() < drawn.max() <= 1
    share, _ = np.histogram(drawn, edges)
    expected = model.cells.count @ best.after / 300
    assert share / drawn.size == pytest.approx(expected, abs=0.01)  # of 12,000 draws
    inside = (drawn - edges[:-1][(bins := np.searchsorted(edges, drawn) - 1)]) / np.diff(edges)[
        bins
    ]
    assert (inside.mean(), inside.var()) == pytest.approx((1 / 2, 1 / 12), abs=0.01)
