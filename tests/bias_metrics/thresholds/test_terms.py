"""Errors and mean scores by term: by hand, joint intervals, the named terms, and a fair model."""

import numpy as np
import pytest

from bias_metrics import Rows
from bias_metrics._core.intervals import student_quantile
from bias_metrics._core.proportions import bounded_mean_interval, clopper_pearson_interval
from bias_metrics.thresholds import errors_by_term

FPR, FNR = "false_positive_rate", "false_negative_rate"
HARMLESS, TOXIC = "mean_score_negative", "mean_score_positive"
#         harmless          toxic
Y_TRUE = [0, 0, 0, 0, 0, 0, 1, 1, 1]
SCORES = [9, 9, 1, 1, 1, 1, 9, 1, 1]
TERMS = {("a", "x"): [0, 1, 7], ("a", "y"): [2, 6], ("b", "z"): [8], ("b", "unseen"): []}


def counts(errors):
    return {term.term: (term.n, term.n_flagged, *_pairs(term.rates)) for term in errors.terms}


def _pairs(rates):
    return [(rates[name].count, rates[name].n) for name in (FPR, FNR)]


def test_the_errors_of_nine_rows_are_those_counted_by_hand():
    errors = errors_by_term(Rows(Y_TRUE, {}), SCORES, TERMS, threshold=5)
    assert counts(errors) == {
        "x": (3, 2, (2, 2), (1, 1)),
        "y": (2, 1, (0, 1), (0, 1)),
        "z": (1, 0, (0, 0), (1, 1)),
        "unseen": (0, 0, (0, 0), (0, 0)),
    }
    assert _pairs(errors.overall) == [(2, 6), (2, 3)]
    assert errors.overall[FNR].value == 2 / 3
    assert errors.terms[2].rates[FPR].value is None
    assert errors.terms[2].rates[FPR].reason == "no rows"
    means = {
        item.term: [item.mean_scores[name].value for name in (HARMLESS, TOXIC)]
        for item in errors.terms
    }
    assert means == {"x": [9, 1], "y": [1, 9], "z": [None, 1], "unseen": [None, None]}
    assert [item.value for item in errors.mean_scores.values()] == [22 / 6, 11 / 3]
    assert errors.terms[2].mean_scores[HARMLESS].reason == "no rows"


def test_intervals_are_exact_and_those_of_all_terms_with_rows_hold_together():
    stats = pytest.importorskip("scipy.stats")
    errors = errors_by_term(Rows(Y_TRUE, {}), SCORES, TERMS, threshold=5, confidence=0.9)
    rates = [errors.overall, *(term.rates for term in errors.terms)]
    shares = [rate for by_name in rates for rate in by_name.values() if rate.n]
    assert len(shares) == 7
    for rate in shares:
        exact = stats.binomtest(rate.count, rate.n).proportion_ci(1 - 0.1 / 14, "exact")
        assert (rate.low, rate.high) == pytest.approx(tuple(exact), rel=1e-6)


@pytest.mark.parametrize("confidence", [0.9, 0.9995])
@pytest.mark.parametrize(("k", "n"), [(0, 4), (1, 4), (0, 20), (7, 20), (20, 20), (300, 2000)])
def test_the_interval_of_a_mean_of_zeros_and_ones_is_that_of_a_share(k, n, confidence):
    z = student_quantile(confidence)
    low, high = bounded_mean_interval(np.arange(n) < k, np.ones(n), z)
    exact_low, exact_high = clopper_pearson_interval(k, n, z)
    assert low <= exact_low * 1.0002
    assert 1 - high <= (1 - exact_high) * 1.0002
    assert (low, high) == pytest.approx((exact_low, exact_high), rel=0.04, abs=1e-3)


def test_the_interval_of_a_mean_is_that_of_random_weights_drawn_many_times():
    rng = np.random.default_rng(4)
    values, sizes = rng.beta(0.3, 2, 12), rng.uniform(0.5, 1.5, 12)
    drawn = rng.gamma([*sizes, 1], size=(400_000, 13))
    drawn /= drawn.sum(axis=1, keepdims=True)
    for end, tail, at in ((0.0, 0.01, 0), (1.0, 0.99, 1)):
        expected = np.quantile(drawn @ [*values, end], tail)
        end_found = bounded_mean_interval(values, sizes, student_quantile(0.98))[at]
        assert end_found == pytest.approx(expected, rel=0.02)


def test_a_mean_of_reversed_scores_has_the_reversed_interval():
    values, sizes = np.array([0.0, 0.2, 0.25, 0.9]), np.array([1.0, 2.0, 0.5, 1.0])
    low, high = bounded_mean_interval(values, sizes, 2.5)
    assert bounded_mean_interval(1 - values, sizes, 2.5) == pytest.approx((1 - high, 1 - low))
    assert 0 < low < values @ sizes / sizes.sum() < high < 1


def names(rng, n_terms=20, n_each=60):
    """Rows that each have one of many terms of two subgroups, some toxic and some flagged."""
    n = 2 * n_terms * n_each
    codes = np.arange(n) % (2 * n_terms)
    terms = {
        ("ab"[code % 2], str(code)): np.flatnonzero(codes == code) for code in np.unique(codes)
    }
    y_true = rng.random(n) < 0.5
    flags = np.where(y_true, rng.random(n) < 0.9, rng.random(n) < 0.1)
    return codes, terms, y_true, flags


def test_terms_of_which_every_row_is_flagged_are_named_and_no_other():
    codes, terms, y_true, flags = names(np.random.default_rng(0))
    flags = flags | np.isin(codes, (3, 8, 31))
    errors = errors_by_term(Rows(y_true, {}), flags * 1.0, terms, threshold=0.5)
    assert {term.term for term in errors.list_worse_terms(FPR)} == {"3", "8", "31"}
    assert errors.list_worse_terms(FNR) == []
    missed = errors_by_term(Rows(~y_true, {}), ~flags * 1.0, terms, threshold=0.5)
    lows = [term.rates[FNR].low for term in missed.list_worse_terms(FNR)]
    assert len(lows) == 3
    assert lows == sorted(lows, reverse=True)


def test_the_only_term_of_a_subgroup_is_not_named_and_no_sample_has_no_bounds():
    codes, terms, y_true, flags = names(np.random.default_rng(0))
    flags = flags | (codes == 3)
    subset = {key: rows for key, rows in terms.items() if key[0] == "a" or key[1] == "3"}
    assert (
        errors_by_term(Rows(y_true, {}), flags * 1.0, subset, threshold=0.5).list_worse_terms(FPR)
        == []
    )
    every = errors_by_term(Rows(y_true, {}), flags * 1.0, terms, threshold=0.5, intervals=False)
    assert every.list_worse_terms(FPR) == []
    assert {rate.low for term in every.terms for rate in term.numbers.values()} == {None}


def test_a_fair_model_names_a_term_in_at_most_one_of_twenty_sets():
    rng = np.random.default_rng(17)
    n_named = 0
    for _ in range(200):
        _, terms, y_true, flags = names(rng, 10, n_each=int(rng.integers(10, 80)))
        errors = errors_by_term(Rows(y_true, {}), flags * 1.0, terms, threshold=0.5)
        n_named += any(map(errors.list_worse_terms, (FPR, FNR, HARMLESS, TOXIC)))
    assert n_named / 200 <= 0.05 + 2 * (0.05 * 0.95 / 200) ** 0.5


@pytest.mark.parametrize(
    ("scores", "sizes"),
    [
        ("rarely high", "rows"),
        ("rarely low", "rows"),
        ("rounded", "rows"),
        ("logits", "rows"),
        ("rarely low", "clusters"),
        ("logits", "unequal clusters"),
    ],
)
def test_all_intervals_of_mean_scores_together_miss_in_at_most_one_of_twenty_sets(scores, sizes):
    rng = np.random.default_rng([17, len(scores), len(sizes)])

    def drawn(y_true):
        rare, small = rng.random(y_true.size) < 0.06, 0.05 * rng.random(y_true.size)
        term = np.where(rare ^ y_true, 1 - small, small)
        if scores == "rounded":
            term = rng.beta(0.5, 2, y_true.size).round(1)
        return {"rarely low": 1 - term, "logits": np.log(term + 0.01) * 3}.get(scores, term)

    of_class = np.repeat([False, True], 2_000_000)
    expected = [term.mean() for term in np.split(drawn(of_class), 2)]
    n_each = np.repeat([2, 5, 20, 120] if sizes == "rows" else [40, 80, 300], 3)
    codes = np.repeat(np.arange(n_each.size), n_each)
    terms = {("a", str(at)): np.flatnonzero(codes == at) for at in range(n_each.size)}
    missed = 0
    for _ in range(100):
        y_true = rng.random(codes.size) < 0.5
        y_score, clusters = drawn(y_true), None
        if sizes != "rows":  # rows of a cluster and class often have the same score
            chances = rng.pareto(2, 150) + 1 if sizes == "unequal clusters" else np.ones(150)
            clusters = rng.choice(150, codes.size, p=chances / chances.sum())
            shared = np.stack([drawn(np.full(150, label)) for label in (False, True)])
            repeated = rng.random(codes.size) < 0.6
            y_score = np.where(repeated, shared[y_true.astype(int), clusters], y_score)
        rows = Rows(y_true, {}, clusters=clusters)
        errors = errors_by_term(rows, y_score, terms, threshold=0.5)
        missed += any(
            not term.ends[0] <= mean <= term.ends[1]
            for means in (errors.mean_scores, *(term.mean_scores for term in errors.terms))
            for term, mean in zip(means.values(), expected, strict=True)
            if term.ends
        )
    assert missed / 100 <= 0.05 + 2 * (0.05 * 0.95 / 100) ** 0.5


def test_terms_that_are_scored_worse_below_the_threshold_are_named_by_their_mean_scores():
    rng = np.random.default_rng(5)
    codes, terms, y_true, _ = names(rng)
    scores = np.where(y_true, rng.uniform(0.8, 1, y_true.size), rng.uniform(0, 0.2, y_true.size))
    scores[np.isin(codes, (4, 9)) & ~y_true] += 0.25
    scores[np.isin(codes, (6,)) & y_true] -= 0.25
    for scale in (1, 100):  # scores of 0 to 100 are measured within their own range
        errors = errors_by_term(Rows(y_true, {}), scale * scores, terms, threshold=scale * 0.5)
        assert errors.list_worse_terms(FPR) == errors.list_worse_terms(FNR) == []
        assert {term.term for term in errors.list_worse_terms(HARMLESS)} == {"4", "9"}
        assert [term.term for term in errors.list_worse_terms(TOXIC)] == ["6"]
        term = errors.terms[0].mean_scores[HARMLESS]
        assert scale * 0.05 < term.low < term.value < term.high < scale * 0.35


def test_equal_scores_outside_0_and_1_have_a_mean_without_an_interval():
    errors = errors_by_term(Rows(Y_TRUE, {}), [7] * 9, TERMS, threshold=5)
    mean = errors.terms[0].mean_scores[HARMLESS]
    assert (mean.value, mean.ends, mean.reason) == (7, None, "all scores are equal")


def test_in_clusters_a_term_is_worth_less_and_few_clusters_have_no_interval():
    codes, terms, y_true, flags = names(np.random.default_rng(2))
    flags = flags | (codes == 3)
    has_term = np.arange(codes.size) // 40 % 30  # each term is in each of 30 clusters
    together = np.where(codes == 3, 0, has_term)  # a single cluster has all rows with the term
    for clusters, expected in ((has_term, ["3"]), (together, []), (has_term % 5, [])):
        rows = Rows(y_true, {}, clusters=clusters)
        errors = errors_by_term(rows, flags * 1.0, terms, threshold=0.5)
        assert [term.term for term in errors.list_worse_terms(FPR)] == expected
    assert errors.overall[FPR].reason == "5 clusters where 20 are needed"
    assert errors.mean_scores[HARMLESS].reason == "5 clusters where 20 are needed"


@pytest.mark.parametrize("n_clusters", range(20, 40))
def test_in_clusters_of_unequal_size_all_rows_may_be_flagged(n_clusters):
    clusters = np.repeat(np.arange(n_clusters), np.arange(n_clusters) % 5 + 1)
    rows = Rows(np.zeros(clusters.size), {}, clusters=clusters)
    term = errors_by_term(rows, np.ones(clusters.size), {}, threshold=1).overall[FPR]
    assert (term.value, term.high) == (1, 1)
    assert 0.7 < term.low < 0.9


def test_weights_are_refused():
    with pytest.raises(ValueError, match="errors_by_term"):
        errors_by_term(Rows(Y_TRUE, {}, sample_weight=[1] * 9), SCORES, TERMS, threshold=5)
