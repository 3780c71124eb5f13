"""The rules about comments without a score, and about truncated ones."""

import numpy as np
import pytest

from bias_metrics import MetricValue, marked_rows
from bias_metrics.gate.share_limits import ShareLimits, judge_missing, judge_truncated
from bias_metrics.thresholds import MarkedRows, MarkedShare

N, LEVEL = 1000, ShareLimits(each=0.5).level


def found(n_missing_gay, n_missing_others, n_gay=400, **options):
    gay = np.arange(N) < n_gay
    missing = np.zeros(N, dtype=bool)
    missing[:n_missing_gay] = True
    missing[n_gay : n_gay + n_missing_others] = True
    return marked_rows(missing, {"gay": gay}, confidence=LEVEL, **options)


def outcomes(content, limits, **options):
    return {
        (result.metric, result.group): result.outcome
        for result in judge_missing(content, limits, **options)
    }


RATE_OF_GAY, GAP_OF_GAY, OVERALL = (
    ("missing_rate", "gay"),
    ("missing_gap", "gay"),
    ("missing_rate", None),
)


def test_without_limits_one_comment_without_a_score_is_not_enough_evidence():
    [result] = judge_missing(found(1, 0), None)
    assert (result.outcome, result.action, result.rule) == ("insufficient", "block", "max_missing")
    assert result.is_counted
    assert (result.reason, result.role) == ("missing_not_ruled", "candidate")
    assert (result.n_marked, result.n_rows) == (1, N)


def test_without_limits_a_rival_without_a_score_is_not_enough_evidence_either():
    [result] = judge_missing(found(0, 0), None, rivals={"champion": 3})
    assert (result.reason, result.role) == ("missing_not_ruled", "champion")
    assert (result.n_marked, result.n_rows) == (3, N)


def test_without_limits_nothing_is_said_if_all_have_scores():
    assert judge_missing(found(0, 0), None) == ()


def test_where_nothing_can_lack_scores_nothing_is_said():
    assert judge_missing(None, ShareLimits(each=0.01)) == ()


@pytest.mark.parametrize(
    ("n_gay", "n_others", "outcome"), [(2, 2, "pass"), (12, 14, "insufficient"), (60, 60, "fail")]
)
def test_the_upper_bound_must_be_within_the_limit(n_gay, n_others, outcome):
    limits = ShareLimits(overall=0.03, each=0.03)
    results = outcomes(found(n_gay, n_others), limits)
    assert results == {OVERALL: outcome, RATE_OF_GAY: outcome}


@pytest.mark.parametrize(("n_gay", "outcome"), [(12, "pass"), (13, "fail")])
def test_by_estimate_the_share_itself_decides(n_gay, outcome):
    limits = ShareLimits(each=0.03, mode="estimate")
    assert outcomes(found(n_gay, 0), limits) == {RATE_OF_GAY: outcome}
    phrases = ShareLimits(each=0.03)
    assert outcomes(found(n_gay, 0), phrases, is_sample=False) == {RATE_OF_GAY: outcome}


@pytest.mark.parametrize(
    ("n_gay", "n_others", "outcome"), [(4, 6, "pass"), (80, 0, "fail"), (20, 9, "insufficient")]
)
def test_a_gap_limits_how_much_more_often_a_subgroup_is_left_out(n_gay, n_others, outcome):
    assert outcomes(found(n_gay, n_others), ShareLimits(gap=0.03)) == {GAP_OF_GAY: outcome}


def test_a_subgroup_that_is_left_out_less_often_passes_the_gap():
    assert outcomes(found(1, 100), ShareLimits(gap=0.01)) == {GAP_OF_GAY: "pass"}


def test_where_no_comment_is_missing_nothing_was_left_out():
    few = found(0, 30, n_gay=5)
    [result] = judge_missing(few, ShareLimits(each=0.01))
    assert (result.outcome, result.reason) == ("pass", "share_zero")
    assert (result.metric, result.group) == RATE_OF_GAY
    assert (result.n_marked, result.n_rows) == (0, 5)


def test_the_result_has_the_counts_and_the_bounds():
    [result] = judge_missing(found(60, 0), ShareLimits(each=0.03))
    assert (result.outcome, result.reason, result.limit) == ("fail", "share", 0.03)
    assert (result.metric, result.group) == RATE_OF_GAY
    assert (result.n_marked, result.n_rows, result.value) == (60, 400, 0.15)
    assert (result.mode, result.confidence) == ("proven", 0.95)
    assert 0.1 <= result.bound == result.low < result.value < result.high < 0.2


def test_a_subgroup_without_rows_is_not_enough_evidence():
    [result] = judge_missing(found(0, 30, n_gay=0), ShareLimits(each=0.1))
    assert (result.outcome, result.reason) == ("insufficient", "share_undefined")
    assert (result.metric, result.group) == RATE_OF_GAY
    assert result.why == "no rows"


def test_without_an_interval_nothing_is_proven():
    content = found(8, 8, clusters=np.arange(N) % 4)
    assert outcomes(content, ShareLimits(overall=0.5)) == {OVERALL: "insufficient"}


def test_a_warning_does_not_count():
    [result] = judge_missing(found(60, 0), ShareLimits(each=0.03, action="warn"))
    assert (result.outcome, result.is_counted) == ("fail", False)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({}, "must set `overall`, `each` or `gap`"),
        ({"each": 0}, "between 0 and 1"),
        ({"gap": 1}, "got 1"),
    ],
)
def test_limits_that_decide_nothing_are_refused(limits, message):
    with pytest.raises(ValueError, match=message):
        ShareLimits(**limits)


def test_a_one_sided_bound_is_an_end_of_a_wider_two_sided_interval():
    levels = [ShareLimits(each=0.5, confidence=confidence).level for confidence in (0.95, 0.975)]
    assert levels == pytest.approx([0.90, 0.95])


def share(value, low, high, n_marked=8):
    """The shares of a set in which one group lacks as many scores as all do."""
    rate = MetricValue(value, low=low, high=high, n_clusters=50)
    return MarkedRows(MarkedShare(400, n_marked, rate), {})


@pytest.mark.parametrize(
    ("ends", "outcome"),
    [
        ((0.01, 0.03), "pass"),  # at the limit is within it
        ((0.01, 0.031), "insufficient"),
        ((0.03, 0.05), "insufficient"),
        ((0.031, 0.05), "fail"),
    ],
)
def test_a_bound_that_is_the_limit_is_within_it(ends, outcome):
    [result] = judge_missing(share(0.02, *ends), ShareLimits(overall=0.03))
    assert (result.outcome, result.mode, result.n_clusters) == (outcome, "proven", 50)
    assert result.bound == ends[0 if outcome == "fail" else 1]
    assert (result.reason, result.limit, result.value) == ("share", 0.03, 0.02)
    assert (result.low, result.high, result.confidence) == (*ends, 0.95)
    assert (result.n_marked, result.n_rows) == (8, 400)
    [judged_share] = judge_missing(share(0.02, *ends, n_marked=1), ShareLimits(overall=0.03))
    assert (judged_share.outcome, judged_share.reason, judged_share.n_marked) == (
        outcome,
        "share",
        1,
    )


@pytest.mark.parametrize(("low", "high"), [(None, 0.01), (0.01, None)])
def test_with_one_end_alone_nothing_is_proven(low, high):
    [result] = judge_missing(share(0.02, low, high), ShareLimits(overall=0.03))
    assert (result.outcome, result.bound) == ("insufficient", None)
    assert (result.reason, result.value) == ("share", 0.02)
    assert (result.low, result.high) == (low, high)


def test_by_estimate_the_value_is_what_decides():
    limits = ShareLimits(overall=0.02, mode="estimate")
    [result] = judge_missing(share(0.02, 0.01, 0.04), limits)
    assert (result.outcome, result.mode, result.bound) == ("pass", "estimate", 0.02)
    assert (result.reason, result.value, result.limit) == ("share", 0.02, 0.02)


def test_without_limits_the_share_is_that_of_all_comments():
    [result] = judge_missing(found(3, 1), None)
    assert (result.value, result.limit, result.group) == (0.004, 0.0, None)
    assert (result.n_positive, result.n_negative) == (0, 0)  # labels are not looked at


def test_truncated_comments_are_limited_as_those_without_a_score_are():
    limits = ShareLimits(overall=0.03, each=0.03, gap=0.03)
    content = found(60, 2)
    results = judge_truncated(content, limits)
    assert [(result.metric, result.group, result.outcome) for result in results] == [
        ("truncated_rate", None, "fail"),
        ("truncated_rate", "gay", "fail"),
        ("truncated_gap", "gay", "fail"),
    ]
    for result, other in zip(results, judge_missing(content, limits), strict=True):
        renamed = {"rule": "max_truncated", "metric": result.metric}
        assert result.to_dict() == other.to_dict() | renamed
    phrases = judge_truncated(found(12, 0), ShareLimits(each=0.03), is_sample=False)
    assert [result.outcome for result in phrases] == ["pass"]


def test_truncated_comments_without_limits_are_not_judged():
    assert judge_truncated(found(60, 2), None) == ()
    assert judge_truncated(None, None) == ()


def test_unknown_truncation_is_not_enough_evidence_for_a_limit():
    [result] = judge_truncated(None, ShareLimits(gap=0.03))
    assert (result.outcome, result.reason) == ("insufficient", "truncated_unknown")
    assert (result.value, result.n_marked, result.limit) == (None, None, 0.03)
    assert result.is_counted
    [warned] = judge_truncated(None, ShareLimits(gap=0.03, action="warn"))
    assert (warned.outcome, warned.is_counted) == ("insufficient", False)
