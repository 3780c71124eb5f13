"""Rules on FPR and FNR gaps: every kind with bounds on each side of the limit."""

from datetime import date

import pytest
from support.gate_cells import evidence_of

from bias_metrics.gate.decision import judge_rules, list_needed_evidence, list_needed_thresholds
from bias_metrics.gate.rules import Rule
from bias_metrics.gate.verdict import Lack
from bias_metrics.metrics import THRESHOLDS, list_threshold_metrics

TODAY = date(2026, 11, 21)
METRICS = tuple(list_threshold_metrics())
LIMIT, MARGIN = 0.05, 0.02
SCOPES = ("each", "worst", "muslim")


def build_cell(value, low=None, high=None, **more):
    return {"value": value, "std_error": 0.01, "low": low, "high": high} | more


def build_change(first, second, low, high):
    """A change of a gap; the bounds are those of its size."""
    values = {"first": first, "second": second, "value": first - second}
    return values | {"size_low": low, "size_high": high, "low": -1, "high": 1}


def build_thresholds(gap, name="given", **numbers):
    """What was measured at a threshold."""
    return {name: {"subgroups": {"muslim": dict.fromkeys(METRICS, gap)}, **numbers}}


def build_report(gap, *, n_positive=100, n=200, threshold="given"):
    """A report in which every gap has one value."""
    counts = {"n": n, "n_positive": n_positive, "n_negative": n - n_positive}
    return {
        "overall": {"n": 1000, "n_positive": 500},
        "subgroups": {"muslim": counts},
        "thresholds": build_thresholds(gap, threshold, threshold=0.5),
    }


def judge_report(rule, content, **rivals):
    evidence = evidence_of(content, **rivals)
    return judge_rules(dict.fromkeys(list_needed_evidence([rule]), evidence), [rule])


SIDES = [
    # value, low, high: proven, by value
    (0.08, 0.06, 0.10, "fail", "fail"),
    (0.08, 0.04, 0.12, "insufficient", "fail"),
    (0.04, 0.02, 0.06, "insufficient", "pass"),
    (0.02, 0.01, 0.04, "pass", "pass"),
    (0.02, -0.02, 0.04, "pass", "pass"),
    (0.02, 0.00, LIMIT, "pass", "pass"),  # at a limit is good enough
    (0.00, -0.06, 0.04, "insufficient", "pass"),
]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("side", SIDES, ids=str)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_ceiling_limits_a_rate_gap_in_both_directions(metric, scope, threshold, side, sign):
    value, low, high, proven, by_value = side
    ends = (low, high) if sign == 1 else (-high, -low)
    content = build_report(build_cell(sign * value, *ends), threshold=threshold)
    for mode, outcome in (("proven", proven), ("estimate", by_value)):
        rule = Rule(metric, scope, ceiling=LIMIT, threshold=threshold, mode=mode)
        verdict = judge_report(rule, content)
        (result,) = verdict.results
        assert (verdict.outcome, result.value) == (outcome, sign * value)
        assert (result.threshold, result.at, result.rival_at) == (threshold, 0.5, None)


CHANGES = [
    (-0.04, -0.06, -0.02, "pass"),
    (0.00, 0.00, 0.00, "pass"),
    (0.01, -0.01, 0.015, "pass"),
    (0.01, -0.01, 0.03, "insufficient"),
    (0.03, 0.01, 0.05, "insufficient"),
    (0.04, 0.03, 0.05, "fail"),
    (0.01, 0.00, MARGIN, "insufficient"),  # at a margin is not good enough
]


@pytest.mark.parametrize("rival", ["champion", "reference"])
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("wider", CHANGES, ids=str)
def test_a_margin_is_held_against_how_much_wider_the_gap_is(rival, metric, scope, wider):
    estimate, low, high, outcome = wider
    option = "margin" if rival == "champion" else "reference_margin"
    compared = {
        "thresholds": build_thresholds(
            build_change(-(0.1 + estimate), 0.1, low, high), thresholds=[0.5, 0.7]
        )
    }
    content = build_report(build_cell(0.1, 0.0, 0.2))
    for mode in ("proven", "estimate"):
        rule = Rule(metric, scope, threshold="given", mode=mode, **{option: MARGIN})
        verdict = judge_report(rule, content, **{rival: compared})
        by_value = "pass" if estimate < MARGIN else "fail"
        (result,) = verdict.results
        assert verdict.outcome == (outcome if mode == "proven" else by_value)
        assert (result.at, result.rival_at, result.rival) == (0.5, 0.7, 0.1)


@pytest.mark.parametrize(
    ("metric", "n_positive", "lack"),
    [
        ("fpr_gap", 195, Lack("negative", 5, 10)),
        ("fnr_gap", 5, Lack("positive", 5, 10)),
        ("fnr_gap", 195, None),
    ],
)
def test_support_is_asked_of_the_class_whose_errors_are_counted(metric, n_positive, lack):
    options = {"min_positives": 10, "min_negatives": 10, "threshold": "given"}
    rule = Rule(metric, "each", ceiling=LIMIT, **options)
    verdict = judge_report(rule, build_report(build_cell(0.0, -0.01, 0.01), n_positive=n_positive))
    assert verdict.outcome == ("pass" if lack is None else "insufficient")
    (result,) = verdict.results
    assert (result.reason, result.lack) == ("met" if lack is None else "few_rows", lack)


def test_too_few_clusters_are_insufficient():
    rule = Rule("fpr_gap", "each", ceiling=LIMIT, threshold="given", mode="estimate")
    few = build_cell(0.0, reason="19 clusters where 20 are needed", n_clusters=19)
    assert judge_report(rule, build_report(few)).outcome == "insufficient"


def test_a_gap_without_a_number_is_an_error():
    rule = Rule("fpr_gap", "each", ceiling=LIMIT, threshold="given")
    verdict = judge_report(rule, build_report({"value": None, "reason": "no background negatives"}))
    assert verdict.outcome == "error"


def test_without_a_champion_its_margin_is_not_proven():
    rule = Rule("fpr_gap", "each", margin=MARGIN, threshold="given")
    verdict = judge_report(rule, build_report(build_cell(0.0, -0.01, 0.01)))
    assert verdict.outcome == "insufficient"
    (result,) = verdict.results
    assert (result.reason, result.kind) == ("no_rival", "champion")
    assert (result.metric, result.group, result.threshold) == ("fpr_gap", "muslim", "given")


@pytest.mark.parametrize(
    ("metric", "value"), [("fpr_gap", 0.08), ("fpr_gap", -0.08), ("fnr_gap", 0.08)]
)
def test_a_failed_gap_keeps_its_sign_and_its_threshold(metric, value):
    rule = Rule(metric, "each", ceiling=LIMIT, threshold="equal_errors")
    content = build_report(build_cell(value, value - 0.01, value + 0.01), threshold="equal_errors")
    (result,) = judge_report(rule, content).results
    assert (result.reason, result.kind, result.value) == ("not_met", "ceiling", value)
    assert (result.metric, result.group, result.threshold) == (metric, "muslim", "equal_errors")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "fpr_gap"}, "`threshold` of fpr_gap must be one of equal_errors, given; got N"),
        ({"metric": "fnr_gap", "threshold": "best"}, "`threshold` of fnr_gap .* got 'best'"),
        ({"metric": "negative_aeg", "threshold": "given"}, "must not be set for negative_aeg"),
    ],
)
def test_a_rule_whose_threshold_makes_no_sense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Rule(scope="each", ceiling=LIMIT, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scope": "overall", "ceiling": 0.1}, "must be one of auc in scope overall"),
        ({"scope": "aggregate", "ceiling": 0.1}, "must be one of subgroup_auc"),
        ({"scope": "each", "floor": 0.1}, "`ceiling`, not `floor`"),
        ({"scope": "each", "ceiling": 1.1}, r"must be in \(0, 1\]; got 1.1"),
    ],
)
def test_a_rule_on_a_gap_has_a_ceiling_and_a_subgroup(options, message):
    with pytest.raises(ValueError, match=message):
        Rule("fpr_gap", threshold="given", **options)


def test_rules_at_two_thresholds_have_two_names():
    names = [
        Rule("fpr_gap", "each", ceiling=LIMIT, threshold=name, slice=part).name
        for name in THRESHOLDS
        for part in (None, "short")
    ]
    assert names == [
        "fpr_gap/each/equal_errors",
        "fpr_gap/each/equal_errors/short",
        "fpr_gap/each/given",
        "fpr_gap/each/given/short",
    ]


def test_thresholds_are_needed_of_those_whom_rules_compare():
    rules = [
        Rule("fpr_gap", "each", ceiling=LIMIT, threshold="given"),
        Rule("fnr_gap", "each", margin=LIMIT, threshold="given"),
        Rule("fnr_gap", "each", reference_margin=LIMIT, threshold="equal_errors"),
        Rule("auc", "overall", margin=LIMIT),
    ]
    assert list_needed_thresholds(rules) == {
        "given": {"candidate", "champion"},
        "equal_errors": {"candidate", "reference"},
    }


def test_evidence_at_the_threshold_of_every_rule_is_needed():
    rule = Rule("fpr_gap", "each", ceiling=LIMIT, margin=MARGIN, threshold="equal_errors")
    content = build_report(build_cell(0.0, -0.01, 0.01))
    message = "must be measured at threshold 'equal_errors' for fpr_gap/each/equal_errors"
    with pytest.raises(ValueError, match=message):
        judge_report(rule, content)
    own = build_report(build_cell(0.0, -0.01, 0.01), threshold="equal_errors")
    with pytest.raises(ValueError, match=message):
        judge_report(rule, own, champion={"thresholds": {}})


def test_a_verdict_names_thresholds_only_where_there_are_any():
    rule = Rule("fpr_gap", "each", ceiling=LIMIT, threshold="given")
    (record,) = judge_report(rule, build_report(build_cell(0.0, -0.01, 0.01))).to_dict()["results"]
    assert (record["threshold"], record["at"]) == ("given", 0.5)
    other = Rule("auc", "overall", floor=0.5)
    content = {
        "overall": {"n": 10, "n_positive": 5, "auc": build_cell(0.9, 0.8, 0.95)},
        "subgroups": {},
    }
    (plain,) = judge_report(other, content).to_dict()["results"]
    assert not {"threshold", "at", "rival_at"} & plain.keys()
