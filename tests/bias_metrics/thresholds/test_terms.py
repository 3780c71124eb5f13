"""Errors by term: by hand, exact joint intervals, the terms that are named, and a fair model."""

import numpy as np
import pytest

from bias_metrics import Rows
from bias_metrics.thresholds import errors_by_term

FPR, FNR = "false_positive_rate", "false_negative_rate"
#         harmless          toxic
Y_TRUE = [0, 0, 0, 0, 0, 0, 1, 1, 1]
SCORES = [9, 9, 1, 1, 1, 1, 9, 1, 1]
TERMS = {("a", "x"): [0, 1, 7], ("a", "y"): [2, 6], ("b", "z"): [8], ("b", "unseen"): []}


def counts(found):
    return {one.term: (one.n, one.n_flagged, *_pairs(one.rates)) for one in found.terms}


def _pairs(rates):
    return [(rates[name].count, rates[name].n) for name in (FPR, FNR)]


def test_the_errors_of_nine_rows_are_those_counted_by_hand():
    found = errors_by_term(Rows(Y_TRUE, {}), SCORES, TERMS, threshold=5)
    assert counts(found) == {
        "x": (3, 2, (2, 2), (1, 1)),
        "y": (2, 1, (0, 1), (0, 1)),
        "z": (1, 0, (0, 0), (1, 1)),
        "unseen": (0, 0, (0, 0), (0, 0)),
    }
    assert _pairs(found.overall) == [(2, 6), (2, 3)]
    assert found.overall[FNR].value == 2 / 3
    assert found.terms[2].rates[FPR].value is None
    assert found.terms[2].rates[FPR].reason == "no rows"


def test_intervals_are_exact_and_those_of_all_terms_with_rows_hold_together():
    stats = pytest.importorskip("scipy.stats")
    found = errors_by_term(Rows(Y_TRUE, {}), SCORES, TERMS, threshold=5, confidence=0.9)
    rates = [found.overall, *(one.rates for one in found.terms)]
    known = [rate for of in rates for rate in of.values() if rate.n]
    assert len(known) == 7
    for rate in known:
        exact = stats.binomtest(rate.count, rate.n).proportion_ci(1 - 0.1 / 7, "exact")
        assert (rate.low, rate.high) == pytest.approx(tuple(exact), rel=1e-6)


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
    found = errors_by_term(Rows(y_true, {}), flags * 1.0, terms, threshold=0.5)
    assert {one.term for one in found.shown_worse(FPR)} == {"3", "8", "31"}
    assert found.shown_worse(FNR) == []
    missed = errors_by_term(Rows(~y_true, {}), ~flags * 1.0, terms, threshold=0.5)
    lows = [one.rates[FNR].low for one in missed.shown_worse(FNR)]
    assert len(lows) == 3
    assert lows == sorted(lows, reverse=True)


def test_the_only_term_of_a_subgroup_is_not_named_and_no_sample_has_no_bounds():
    codes, terms, y_true, flags = names(np.random.default_rng(0))
    flags = flags | (codes == 3)
    alone = {key: rows for key, rows in terms.items() if key[0] == "a" or key[1] == "3"}
    assert (
        errors_by_term(Rows(y_true, {}), flags * 1.0, alone, threshold=0.5).shown_worse(FPR) == []
    )
    every = errors_by_term(Rows(y_true, {}), flags * 1.0, terms, threshold=0.5, intervals=False)
    assert every.shown_worse(FPR) == []
    assert {rate.low for one in every.terms for rate in one.rates.values()} == {None}


@pytest.mark.parametrize("rate", [FPR, FNR])
def test_a_fair_model_names_a_term_in_at_most_one_of_twenty_sets(rate):
    rng = np.random.default_rng(17)
    named = 0
    for _ in range(400):
        _, terms, y_true, flags = names(rng, n_each=int(rng.integers(10, 80)))
        found = errors_by_term(Rows(y_true, {}), flags * 1.0, terms, threshold=0.5)
        named += bool(found.shown_worse(rate))
    assert named / 400 <= 0.05 + 2 * (0.05 * 0.95 / 400) ** 0.5


def test_in_clusters_a_term_is_worth_less_and_few_clusters_have_no_interval():
    codes, terms, y_true, flags = names(np.random.default_rng(2))
    flags = flags | (codes == 3)
    one = np.arange(codes.size) // 40 % 30  # each term is in each of 30 clusters
    together = np.where(codes == 3, 0, one)  # a single cluster has all rows with the term
    for clusters, expected in ((one, ["3"]), (together, []), (one % 5, [])):
        rows = Rows(y_true, {}, clusters=clusters)
        found = errors_by_term(rows, flags * 1.0, terms, threshold=0.5)
        assert [term.term for term in found.shown_worse(FPR)] == expected
    assert found.overall[FPR].reason == "5 clusters where 20 are needed"


def test_weights_are_refused():
    with pytest.raises(ValueError, match="errors_by_term"):
        errors_by_term(Rows(Y_TRUE, {}, sample_weight=[1] * 9), SCORES, TERMS, threshold=5)
