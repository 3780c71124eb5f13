"""The decision: every rule kind with the value on each side of its limit."""

import numpy as np
import pytest

from bias_metrics import evaluate_bias
from bias_metrics.gate import (
    AGGREGATE_METRICS,
    OVERALL_METRICS,
    SUBGROUP_METRICS,
    Rule,
    decide,
    worst,
)

GAPS = ("positive_aeg", "negative_aeg")


def report(value, *, n_positive=100, n=200, group="muslim", reason=None):
    """Return a report in which every metric has one value."""
    cell = {"value": value} | ({"reason": reason} if reason else {})
    cells = {"n": n, "n_positive": n_positive, "n_negative": n - n_positive}
    cells |= dict.fromkeys(SUBGROUP_METRICS, cell)
    return {
        "overall": {"n": 1000, "n_positive": 500, "auc": cell},
        "subgroups": {group: cells},
        "power_mean": {"power": -5.0, "groups": [group]}
        | dict.fromkeys(("subgroup_auc", "bpsn_auc", "bnsp_auc"), cell),
        "final_score": cell,
    }


def floors():
    for metric in OVERALL_METRICS:
        yield Rule(metric, "overall", floor=0.8)
    for metric in AGGREGATE_METRICS:
        yield Rule(metric, "aggregate", floor=0.8)
    for metric in SUBGROUP_METRICS:
        if metric not in GAPS:
            yield Rule(metric, "each", floor=0.8)
            yield Rule(metric, "muslim", floor=0.8)


@pytest.mark.parametrize("rule", list(floors()), ids=str)
@pytest.mark.parametrize(
    ("value", "outcome"), [(0.81, "pass"), (0.8, "pass"), (0.79, "fail"), (0.0, "fail")]
)
def test_a_floor_passes_at_and_above_its_limit(rule, value, outcome):
    assert decide(report(value), [rule]).outcome == outcome


@pytest.mark.parametrize("metric", GAPS)
@pytest.mark.parametrize(
    ("value", "outcome"),
    [(0.0, "pass"), (0.2, "pass"), (-0.2, "pass"), (0.21, "fail"), (-0.21, "fail")],
)
def test_a_ceiling_limits_the_size_of_a_gap_in_both_directions(metric, value, outcome):
    assert decide(report(value), [Rule(metric, "each", ceiling=0.2)]).outcome == outcome


@pytest.mark.parametrize("value", [0.9, 0.1, None])
def test_too_few_rows_are_insufficient_whatever_the_value(value):
    rule = Rule("subgroup_auc", "each", floor=0.8, min_positives=101)
    verdict = decide(report(value), [rule])
    assert verdict.outcome == "insufficient"
    assert "100 positives where 101 are needed" in verdict.results[0].sentence


@pytest.mark.parametrize(
    ("metric", "insufficient"),
    [
        ("subgroup_auc", True),
        ("bpsn_auc", False),
        ("bnsp_auc", True),
        ("positive_aeg", True),
        ("negative_aeg", False),
    ],
)
def test_support_is_asked_of_the_classes_that_a_metric_compares(metric, insufficient):
    limit = {"ceiling": 0.5} if metric in GAPS else {"floor": 0.1}
    rule = Rule(metric, "each", min_positives=10, **limit)
    verdict = decide(report(0.3, n_positive=5), [rule])
    assert (verdict.outcome == "insufficient") is insufficient


def test_support_is_asked_of_the_background_too():
    everyone = report(0.9, n=999, n_positive=499)
    rule = Rule("bpsn_auc", "each", floor=0.8, min_positives=2)
    assert "1 background positives" in decide(everyone, [rule]).results[0].sentence


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_a_number_that_is_missing_despite_its_rows_is_an_error(value):
    verdict = decide(report(value, reason="lost"), [Rule("bpsn_auc", "each", floor=0.8)])
    assert verdict.outcome == "error"
    assert "undefined: lost" in verdict.results[0].sentence


def test_an_undefined_aggregate_is_insufficient():
    rule = Rule("final_score", "aggregate", floor=0.8)
    assert decide(report(None, reason="no group"), [rule]).outcome == "insufficient"


def test_a_warning_never_counts_for_the_verdict():
    rules = [Rule("auc", "overall", floor=0.1), Rule("bpsn_auc", "each", floor=0.9, action="warn")]
    verdict = decide(report(0.5), rules)
    assert verdict.outcome == "pass"
    assert [one.outcome for one in verdict.results] == ["pass", "fail"]


def test_the_worst_blocking_outcome_wins():
    order = ["pass", "insufficient", "fail", "error"]
    for position, outcome in enumerate(order):
        assert worst(order[: position + 1]) == outcome
    assert worst([]) == "insufficient"


def test_a_blocking_rule_over_no_subgroups_is_not_a_pass():
    empty = report(0.9) | {"subgroups": {}}
    rules = [Rule("auc", "overall", floor=0.5), Rule("bpsn_auc", "each", floor=0.5)]
    assert decide(empty, rules).outcome == "insufficient"


@pytest.mark.parametrize("rules", [[], [Rule("auc", "overall", floor=0.5, action="warn")]])
def test_a_gate_without_blocking_rules_is_refused(rules):
    with pytest.raises(ValueError, match="at least one blocking rule"):
        decide(report(1.0), rules)


def test_an_unknown_subgroup_is_refused():
    rule = Rule("bpsn_auc", ("muslim", "martian"), floor=0.8)
    with pytest.raises(ValueError, match=r"'martian' \(known: muslim\)"):
        decide(report(0.9), [rule])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "nonsense", "scope": "each", "floor": 0.8}, "must be one of subgroup_auc"),
        ({"metric": "bpsn_auc", "scope": "overall", "floor": 0.8}, "must be one of auc"),
        ({"metric": "auc", "scope": "each", "floor": 0.8}, "must be one of"),
        ({"metric": "auc", "scope": "overall"}, "`floor`, not `ceiling`"),
        ({"metric": "auc", "scope": "overall", "ceiling": 0.8}, "`floor`, not `ceiling`"),
        ({"metric": "positive_aeg", "scope": "each", "floor": 0.1}, "`ceiling`, not `floor`"),
        ({"metric": "positive_aeg", "scope": "each", "ceiling": 0.6}, r"\(0, 0.5\]; got 0.6"),
        ({"metric": "auc", "scope": "overall", "floor": 0}, r"\(0, 1\]; got 0"),
        ({"metric": "auc", "scope": "overall", "floor": float("nan")}, r"got nan"),
        ({"metric": "auc", "scope": "overall", "floor": 1, "min_positives": 0}, "at least 1"),
    ],
)
def test_a_rule_that_could_not_decide_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Rule(**options)


@pytest.mark.parametrize(
    ("value", "words"), [(0.3, "score higher than other toxic"), (-0.3, "score lower than other")]
)
def test_a_failed_gap_says_in_words_which_way_it_goes(value, words):
    verdict = decide(report(value), [Rule("positive_aeg", "each", ceiling=0.2)])
    assert words in verdict.results[0].sentence
    assert f"{value:+.4f}, above the ceiling 0.2 by 0.1000" in verdict.results[0].sentence


def test_the_verdict_of_a_real_report_names_group_metric_and_distance():
    rng = np.random.default_rng(0)
    y_true = rng.random(400) < 0.5
    mask = rng.random(400) < 0.5
    y_score = 0.5 * y_true + rng.random(400) + 0.8 * mask
    bias = evaluate_bias(y_true, y_score, {"gay": mask})
    verdict = decide(bias.to_dict(), [Rule("bpsn_auc", "each", floor=0.8)])
    value = bias.subgroups["gay"].cells.bpsn_auc.value
    assert verdict.to_dict()["outcome"] == "fail"
    (result,) = verdict.to_dict()["results"]
    assert (result["group"], result["value"], result["limit"]) == ("gay", value, 0.8)
    assert f"below the floor 0.8 by {0.8 - value:.4f}" in result["sentence"]
    assert "non-toxic comments that mention gay" in result["sentence"]
