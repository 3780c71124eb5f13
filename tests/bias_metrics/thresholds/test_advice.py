"""Threshold advice: by hand, a published trade-off, a naive loop, the frontier's guarantee."""

import re
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bias_metrics import advise_threshold, fned, fped, threshold_table

# Eight rows; rates at each threshold, of the four of all negatives and positives:
#   t    FPR  FPR of g  FNR  FNR of g  recall  precision  gap
#   .1   1    1         0    0         1       4/8        0
#   .2   3/4  1         0    0         1       4/7        1/4
#   .3   2/4  1         0    0         1       4/6        1/2
#   .6   1/4  1/2       0    0         1       4/5        1/4
#   .7   1/4  1/2       1/4  0         3/4     3/4        1/4
#   .8   0    0         1/4  0         3/4     1          1/4
#   .9   0    0         2/4  1/2       2/4     1          0
BY_HAND = (
    [0, 0, 1, 1, 0, 0, 1, 1],
    [0.1, 0.2, 0.6, 0.9, 0.3, 0.7, 0.8, 0.9],
    {"g": [0, 0, 0, 0, 1, 1, 1, 1]},
)


def advice(*rows, min_recall=0.0, min_precision=0.0, **options):
    return advise_threshold(*rows, min_recall=min_recall, min_precision=min_precision, **options)


def summary(point):
    return point.threshold, point.recall, point.precision, point.gap


# By hand.


@pytest.mark.parametrize(
    ("recall", "precision", "expected"),
    [
        (1.0, 0.6, (0.6, 1, 4 / 5, 1 / 4)),
        (0.7, 0.9, (0.8, 3 / 4, 1, 1 / 4)),
        (0.5, 0.9, (0.9, 1 / 2, 1, 0)),
        (1.0, 0.5, (0.1, 1, 4 / 8, 0)),
    ],
)
def test_the_threshold_for_eight_rows_is_the_one_found_by_hand(recall, precision, expected):
    found = advice(*BY_HAND, min_recall=recall, min_precision=precision)
    assert summary(found.advised) == expected


def test_the_frontier_of_eight_rows_is_the_one_found_by_hand():
    found = advice(*BY_HAND, min_recall=0.7)
    # At .6 and .7 there is less precision than at .8 with the same gap.
    assert [summary(p) for p in found.frontier] == [(0.8, 3 / 4, 1, 1 / 4), (0.1, 1, 4 / 8, 0)]
    assert (found.frontier[0].subgroup, found.frontier[0].rate) == ("g", "false_negative_rate")


def test_the_subgroup_and_the_rate_of_the_largest_gap_are_named():
    y_true, y_score, groups = BY_HAND
    groups = groups | {"h": [1, 1, 0, 1, 0, 0, 0, 0]}
    found = advice(y_true, y_score, groups, min_recall=1, min_precision=0.8)
    assert (found.advised.subgroup, found.advised.rate) == ("g", "false_positive_rate")


def test_only_the_rates_asked_for_are_compared():
    rows = BY_HAND
    found = advice(*rows, min_recall=0.7, min_precision=0.9, rates=["false_positive_rate"])
    assert summary(found.advised) == (0.8, 3 / 4, 1, 0)
    accuracy = advice(*rows, min_recall=0.7, min_precision=0.9, rates=["accuracy"])
    assert accuracy.advised.gap == pytest.approx(1 - 7 / 8)


def test_of_thresholds_alike_in_gap_and_precision_the_lowest_has_the_highest_recall():
    y_true, y_score = [0, 0, 1, 1, 1, 1], [0.1, 0.1, 0.8, 0.8, 0.9, 0.9]
    found = advice(y_true, y_score, {"g": [0, 1, 0, 1, 0, 1]}, min_recall=0.4, min_precision=0.9)
    assert summary(found.advised) == (0.8, 1, 1, 0)


def test_demands_that_no_threshold_meets_are_said_to_be_so():
    found = advice(*BY_HAND, min_recall=1, min_precision=0.9)
    assert found.advised is None
    assert found.reason == (
        "no threshold has recall 1 and precision 0.9: at that recall, precision is 0.8 at most"
    )
    assert found.frontier[0].threshold == 0.6
    assert f"no advice: {found.reason}" in str(found)
    assert "no advice" not in str(advice(*BY_HAND, min_recall=1, min_precision=0.6))


def test_waiving_both_demands_shows_why_they_are_needed():
    # Nothing has a smaller gap than flagging next to none, or all.
    assert summary(advice(*BY_HAND).advised) == (0.9, 1 / 2, 1, 0)
    assert summary(advice(*BY_HAND, min_recall=0.8).advised) == (0.1, 1, 1 / 2, 0)


# Published: Borkan et al. (2019), Table 2, column B: a subgroup shifted right.


def test_no_threshold_serves_a_subgroup_that_is_shifted_as_far_as_in_table_2():
    rng = np.random.default_rng(0)
    means = [0.6, 0.2, 0.95, 0.55]  # background and subgroup, positive and negative
    scores = np.concatenate([rng.normal(mean, 0.05, 1000).clip(0, 1) for mean in means])
    y_true, members = np.tile(np.repeat([1, 0], 1000), 2), np.repeat([0, 1], 2000)
    found = advice(y_true, scores, {"g": members}, min_recall=0.9, min_precision=0.6)
    # To flag 90 % of the positives is to flag 80 % of the background's, the only ones missed;
    # that flags 44 % of the harmless mentions and no other harmless row.
    threshold = NormalDist(0.6, 0.05).inv_cdf(0.2)
    flagged_mentions = 1 - NormalDist(0.55, 0.05).cdf(threshold)
    assert found.advised.threshold == pytest.approx(threshold, abs=0.005)
    assert found.advised.gap == pytest.approx(flagged_mentions / 2, abs=0.02)
    fair = advice(y_true, scores, {"g": rng.random(4000) < 0.5}, min_recall=0.9, min_precision=0.6)
    assert fair.advised.gap < 0.05


# Oracles.


def some_rows(seed, *, weighted=False):
    rng = np.random.default_rng(seed)
    y_true = rng.random(120) < 0.4
    scores = (rng.integers(0, 25, 120) + 8 * y_true) / 32
    groups = {name: rng.random(120) < 0.4 for name in "ab"}
    return y_true, scores, groups, rng.integers(1, 4, 120) if weighted else None


def points_of(y_true, y_score, groups):
    """Find (threshold, recall, precision, gap) for every distinct score, by plain loops."""
    points = []
    for t in sorted(set(y_score.tolist())):
        flagged = y_score >= t

        def rates(rows, flagged=flagged):
            return flagged[rows & ~y_true].mean(), 1 - flagged[rows & y_true].mean()

        base = rates(np.ones(y_true.size, dtype=bool))
        gap = max(abs(a - b) for m in groups.values() for a, b in zip(rates(m), base, strict=True))
        points.append((t, flagged[y_true].mean(), y_true[flagged].mean(), gap))
    return points


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("recall", "precision"), [(0.5, 0.5), (0.8, 0.5), (0.3, 0.7), (0, 0)])
def test_the_advice_equals_a_loop_over_thresholds_and_subgroups(seed, recall, precision):
    y_true, y_score, groups, _ = some_rows(seed)
    points = points_of(y_true, y_score, groups)
    found = advice(y_true, y_score, groups, min_recall=recall, min_precision=precision)
    meets = [p for p in points if p[1] >= recall]
    best = min((p for p in meets if p[2] >= precision), key=lambda p: (round(p[3], 12), -p[2]))
    assert summary(found.advised) == pytest.approx(best, abs=1e-12)
    frontier = [
        p
        for p in meets
        if not any(
            q[2] >= p[2] - 1e-12
            and q[3] <= p[3] + 1e-12
            and (q[2] > p[2] + 1e-12 or q[3] < p[3] - 1e-12)
            for q in meets
        )
    ]
    expected = sorted({(round(p[2], 9), round(p[3], 9)) for p in frontier}, reverse=True)
    assert [(round(p.precision, 9), round(p.gap, 9)) for p in found.frontier] == expected


@pytest.mark.parametrize("seed", range(3))
def test_the_gap_is_the_largest_term_of_both_equality_differences(seed):
    y_true, y_score, groups, _ = some_rows(seed)
    for point in advice(y_true, y_score, groups).frontier:
        terms = [
            term.value
            for metric in (fped, fned)
            for term in metric(y_true, y_score, groups, threshold=point.threshold).terms.values()
        ]
        assert point.gap == pytest.approx(max(terms), abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_weights_equal_repetition(seed):
    y_true, y_score, groups, weight = some_rows(seed, weighted=True)
    rows = np.repeat(np.arange(y_true.size), weight)
    repeated = y_true[rows], y_score[rows], {name: mask[rows] for name, mask in groups.items()}
    weighted = advice(y_true, y_score, groups, min_recall=0.6, sample_weight=weight)
    assert weighted.to_dict() == advice(*repeated, min_recall=0.6).to_dict()


@given(seed=st.integers(0, 10_000), recall=st.floats(0, 1), precision=st.floats(0, 1))
def test_what_is_advised_meets_the_demands_and_nothing_else_on_offer_has_a_smaller_gap(
    seed, recall, precision
):
    y_true, y_score, groups, _ = some_rows(seed)
    found = advice(y_true, y_score, groups, min_recall=recall, min_precision=precision)
    gaps = [point.gap for point in found.frontier]
    precisions = [point.precision for point in found.frontier]
    assert gaps == sorted(set(gaps), reverse=True)
    assert precisions == sorted(set(precisions), reverse=True)
    table = threshold_table(y_true, y_score, {}).overall
    possible = (table.rate("recall") >= recall) & (table.rate("precision") >= precision)
    assert (found.advised is None) == (not possible.any())
    if found.advised is None:
        assert found.reason.startswith("no threshold has recall")
    else:
        assert found.advised.recall >= recall
        assert found.advised.precision >= precision
        good = [point.gap for point in found.frontier if point.precision >= precision]
        assert found.advised.gap == min(good)


# Undefined, plain values, refusals.


@pytest.mark.parametrize(
    ("y_true", "groups", "reason"),
    [
        ([0, 1, 1], {}, "no subgroups"),
        ([0, 1, 1], {"a": [1, 1, 0], "b": [0, 1, 1]}, "undefined for b (no negatives)"),
        (
            [0, 1, 1],
            {"a": [1, 0, 0], "b": [0, 0, 0]},
            "undefined for a (no positives), b (no negatives, no positives)",
        ),
        (
            [0, 0, 0],
            {"a": [1, 1, 0]},
            "undefined for all rows (no positives), a (no positives)",
        ),
    ],
)
def test_without_the_rows_of_a_rate_there_is_no_advice_but_a_reason(y_true, groups, reason):
    found = advice(y_true, [0.1, 0.2, 0.3], groups)
    assert found.to_dict() == {"advised": None, "reason": reason, "frontier": []}


def test_without_positives_there_is_no_recall_to_demand():
    rates = ["false_positive_rate"]
    found = advice([0, 0, 0], [0.1, 0.2, 0.3], {"a": [1, 1, 0]}, rates=rates)
    assert found.reason == "undefined for all rows (no positives)"


def test_a_subgroup_that_lacks_a_class_of_no_rate_compared_does_not_matter():
    rows = ([0, 1, 0], [0.1, 0.9, 0.3], {"a": [1, 0, 1]})
    found = advice(*rows, min_recall=1, min_precision=1, rates=["false_positive_rate"])
    assert found.to_dict()["advised"] == {
        "threshold": 0.9,
        "recall": 1.0,
        "precision": 1.0,
        "gap": 0.0,
        "subgroup": "a",
        "rate": "false_positive_rate",
    }


RATES = "false_positive_rate, false_negative_rate, recall, accuracy"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_recall": 1.1}, "`min_recall` must be from 0 to 1; got 1.1."),
        ({"min_precision": np.nan}, "`min_precision` must be from 0 to 1; got nan."),
        ({"rates": ["precision"]}, f"`rates` must be one of {RATES}; got 'precision'."),
        ({"rates": []}, f"`rates` must be a list of names ({RATES}); got []."),
        ({"rates": "recall"}, f"`rates` must be a list of names ({RATES}); got 'recall'."),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        advice(*BY_HAND, **options)
