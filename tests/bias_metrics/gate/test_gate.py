"""The decision: every kind of rule with value and bounds on each side of the limit."""

import itertools

import numpy as np
import pytest
from support.gate_cells import GAPS, cell, change, content, evidence_of

from bias_metrics import compare_bias, evaluate_bias
from bias_metrics._core.values import NOT_REQUESTED
from bias_metrics.gate.decision import find_worst_outcome, judge_rules, list_needed_evidence
from bias_metrics.gate.rules import (
    AGGREGATE_METRICS,
    OVERALL_METRICS,
    SUBGROUP_METRICS,
    Rule,
    correct_for_candidates,
)
from bias_metrics.gate.verdict import Evidence, Lack

LIMIT = 0.3
SCOPES = ("overall", "aggregate", "each", "worst", "muslim")


def judge_report(rules, report, champion=None, reference=None, **options):
    """Decide with the same evidence for every slice and confidence."""
    content = evidence_of(report, champion, reference)
    evidence = dict.fromkeys(list_needed_evidence(rules), content)
    return judge_rules(evidence, rules, **options)


def list_rules(**limits):
    """One rule for each metric and scope; the limits are those that the metric takes."""
    for scope in SCOPES:
        metrics = {"overall": OVERALL_METRICS, "aggregate": AGGREGATE_METRICS}
        for metric in metrics.get(scope, SUBGROUP_METRICS):
            yield metric, scope, limits


# The bounds on each side of the limit, and the value on each side of it where it can be.
SIDES = [
    # value, low, high: proven for what should be large, for what should be small, by value
    (0.4, 0.35, 0.45, "pass", "fail"),
    (0.4, 0.25, 0.45, "insufficient", "insufficient"),
    (0.2, 0.15, 0.35, "insufficient", "insufficient"),
    (0.2, 0.15, 0.25, "fail", "pass"),
    (0.4, LIMIT, 0.45, "pass", "insufficient"),  # at a limit is good enough
    (0.2, 0.15, LIMIT, "insufficient", "pass"),
    (LIMIT, LIMIT, LIMIT, "pass", "pass"),
]


@pytest.mark.parametrize(("metric", "scope"), [rule_kind[:2] for rule_kind in list_rules()])
@pytest.mark.parametrize("side", SIDES, ids=str)
@pytest.mark.parametrize("mode", ["proven", "estimate"])
def test_a_floor_or_ceiling_is_held_against_the_bound_or_the_value(metric, scope, side, mode):
    value, low, high, of_floor, of_ceiling = side
    gap = metric in GAPS
    limit = {"ceiling" if gap else "floor": LIMIT}
    rule = Rule(metric, scope, mode=mode, **limit)
    verdict = judge_report([rule], content(cell(value, low, high)))
    (result,) = verdict.results
    if mode == "estimate":
        met = value <= LIMIT if gap else value >= LIMIT
        assert (verdict.outcome, result.bound) == ("pass" if met else "fail", value)
    else:
        assert verdict.outcome == (of_ceiling if gap else of_floor)
        good_end = verdict.outcome == "fail"
        assert result.bound == ((low if good_end else high) if gap else (high if good_end else low))
    assert (result.value, result.limit, result.outcome) == (value, LIMIT, verdict.outcome)


@pytest.mark.parametrize("metric", GAPS)
@pytest.mark.parametrize(
    ("value", "low", "high", "outcome"),
    [
        (-0.4, -0.45, -0.35, "fail"),
        (-0.4, -0.45, -0.25, "insufficient"),
        (-0.1, -0.25, 0.05, "pass"),
        (0.0, -0.35, 0.35, "insufficient"),
        (0.0, -LIMIT, LIMIT, "pass"),
    ],
)
def test_a_ceiling_limits_a_gap_in_both_directions(metric, value, low, high, outcome):
    verdict = judge_report([Rule(metric, "each", ceiling=LIMIT)], content(cell(value, low, high)))
    assert verdict.outcome == outcome
    assert (
        judge_report(
            [Rule(metric, "each", ceiling=LIMIT)], content(cell(-value, -high, -low))
        ).outcome
        == outcome
    )


MARGIN = 0.05
CHANGES = [
    # how much worse: estimate, and bounds from better to worse; outcome
    (-0.10, -0.12, -0.08, "pass"),
    (0.00, 0.00, 0.00, "pass"),
    (0.02, 0.00, 0.04, "pass"),
    (0.02, -0.02, 0.06, "insufficient"),
    (0.06, 0.04, 0.08, "insufficient"),
    (0.08, 0.06, 0.10, "fail"),
    (0.04, 0.03, MARGIN, "insufficient"),  # at a margin is not good enough
    (0.06, MARGIN, 0.08, "insufficient"),
]


@pytest.mark.parametrize("rival", ["champion", "reference"])
@pytest.mark.parametrize(("metric", "scope"), [rule_kind[:2] for rule_kind in list_rules()])
@pytest.mark.parametrize("worse", CHANGES, ids=str)
@pytest.mark.parametrize("mode", ["proven", "estimate"])
def test_a_margin_is_held_against_the_change_from_the_rival(rival, metric, scope, worse, mode):
    estimate, better_end, worse_end, outcome = worse
    gap = metric in GAPS
    if gap:  # the size grows from .2; its sign does not matter
        compared = change(-(0.2 + estimate), 0.2, better_end, worse_end, gap=True)
    else:
        compared = change(0.7 - estimate, 0.7, -worse_end, -better_end)
    option = "margin" if rival == "champion" else "reference_margin"
    rule = Rule(metric, scope, mode=mode, **{option: MARGIN})
    verdict = judge_report([rule], content(cell(0.9, 0.8, 0.95)), **{rival: content(compared)})
    if mode == "estimate":
        outcome = "pass" if estimate < MARGIN else "fail"
    (result,) = verdict.results
    assert (verdict.outcome, result.kind) == (outcome, rival)
    assert (result.value, result.rival) == (compared["first"], compared["second"])


def test_a_rule_with_limit_and_margins_gives_one_result_for_each():
    rule = Rule("bpsn_auc", "each", floor=0.8, margin=0.02, reference_margin=0.05)
    same = content(change(0.9, 0.9, 0.0, 0.0))
    verdict = judge_report([rule], content(cell(0.9, 0.85, 0.95)), same, same)
    kinds = [(result.kind, result.outcome) for result in verdict.results]
    assert kinds == [("floor", "pass"), ("champion", "pass"), ("reference", "pass")]


@pytest.mark.parametrize("mode", ["proven", "estimate"])
@pytest.mark.parametrize("value", [0.9, 0.1, None])
def test_too_few_rows_are_insufficient_whatever_the_value(value, mode):
    rule = Rule("subgroup_auc", "each", floor=0.8, min_positives=101, mode=mode)
    verdict = judge_report([rule], content(cell(value, value, value)))
    assert verdict.outcome == "insufficient"
    (result,) = verdict.results
    assert (result.reason, result.lack) == ("few_rows", Lack("positive", 100, 101))


def test_too_few_clusters_are_insufficient():
    rules = [Rule("bpsn_auc", "each", floor=0.5, mode="estimate")]
    few, enough = (content(cell(0.9, 0.8, 0.95, n_clusters=n)) for n in (19, 20))
    assert judge_report(rules, enough).outcome == "pass"
    verdict = judge_report(rules, few)
    assert verdict.outcome == "insufficient"
    (result,) = verdict.results
    assert (result.reason, result.lack) == ("few_rows", Lack("cluster", 19, 20))
    assert result.n_clusters == 19


def test_without_an_interval_nothing_is_proven():
    report = content(cell(0.95))
    for ends in ((None, None), (None, 0.99), (0.9, None)):
        lacking = content(cell(0.95) | dict(zip(("low", "high"), ends, strict=True)))
        assert (
            judge_report([Rule("bpsn_auc", "each", floor=0.5)], lacking).outcome == "insufficient"
        )
    estimate = Rule("bpsn_auc", "each", floor=0.5, mode="estimate")
    assert judge_report([estimate], report).outcome == "pass"


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
@pytest.mark.parametrize("scope", ["each", "worst", "muslim"])
def test_support_is_asked_of_the_classes_that_a_metric_compares(metric, insufficient, scope):
    limit = {"ceiling": 0.5} if metric in GAPS else {"floor": 0.1}
    rule = Rule(metric, scope, min_positives=10, **limit)
    verdict = judge_report([rule], content(cell(0.3, 0.25, 0.35), n_positive=5))
    assert (verdict.outcome == "insufficient") is insufficient


def test_support_is_asked_of_the_background_too():
    everyone = content(cell(0.9, 0.85, 0.95), n=999, n_positive=499)
    rule = Rule("bpsn_auc", "each", floor=0.8)
    (result,) = judge_report([rule], everyone).results
    assert (result.outcome, result.reason) == ("insufficient", "few_rows")
    assert result.lack == Lack("positive", 1, 2, side="background")


def test_support_in_a_background_that_all_share_is_its_own_count():
    rule = Rule("bpsn_auc", "each", floor=0.8, min_positives=40)
    report = content(cell(0.9, 0.85, 0.95))
    key = list_needed_evidence([rule])[0]
    for positives, outcome in ((40, "pass"), (39, "insufficient")):
        shared = {"positive": positives, "negative": 500}
        verdict = judge_rules({key: evidence_of(report, background=shared)}, [rule])
        assert verdict.outcome == outcome


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
@pytest.mark.parametrize("scope", ["each", "worst"])
def test_a_number_that_is_missing_despite_its_rows_is_an_error(value, scope):
    report = content({"value": value, "low": 0.8, "high": 0.9, "reason": "lost"})
    verdict = judge_report([Rule("bpsn_auc", scope, floor=0.8)], report)
    assert verdict.outcome == "error"
    (result,) = verdict.results
    assert result.reason == ("undefined" if value is None else "no_interval")
    assert (result.why, result.bound) == ("lost", None)


@pytest.mark.parametrize("metric", ["bpsn_auc", "negative_aeg"])
@pytest.mark.parametrize("lost", [cell(float("nan"), 0.1, 0.2), cell(0.15, float("nan"), 0.2)])
def test_a_good_subgroup_never_hides_one_that_is_no_number(metric, lost):
    for names in (("a", "b"), ("b", "a")):
        report = content(cell(0.15, 0.1, 0.2), groups=names)
        report["subgroups"]["b"] = report["subgroups"]["a"] | {metric: lost}
        limit = {"ceiling": 0.5} if metric in GAPS else {"floor": 0.01}
        verdict = judge_report([Rule(metric, "worst", **limit)], report)
        assert (verdict.outcome, verdict.results[0].group) == ("error", "b")


@pytest.mark.parametrize("end", [float("nan"), float("-inf")])
def test_a_bound_that_is_no_number_is_an_error(end):
    verdict = judge_report([Rule("bpsn_auc", "each", floor=0.8)], content(cell(0.9, end, 0.95)))
    assert verdict.outcome == "error"


def test_an_undefined_aggregate_is_insufficient():
    rule = Rule("final_score", "aggregate", floor=0.8)
    assert judge_report([rule], content(cell(None))).outcome == "insufficient"


@pytest.mark.parametrize(
    ("metric", "lacks"),
    [("final_score", True), ("subgroup_auc", True), ("bnsp_auc", True), ("bpsn_auc", False)],
)
def test_an_aggregate_needs_support_in_every_subgroup_that_it_covers(metric, lacks):
    report = content(cell(0.99, 0.98, 0.995), groups=("muslim", "gay"))
    report["subgroups"]["gay"] = report["subgroups"]["gay"] | {"n": 203, "n_positive": 3}
    rule = Rule(metric, "aggregate", floor=0.8, min_positives=25, min_negatives=25)
    (result,) = judge_report([rule], report).results
    lack = Lack("positive", 3, 25, group="gay") if lacks else None
    assert (result.reason, result.lack) == ("few_rows" if lacks else "met", lack)
    assert result.outcome == ("insufficient" if lacks else "pass")
    report["power_mean"]["groups"] = ["muslim"]
    assert judge_report([rule], report).outcome == "pass"


# How many times as far two intervals of 90 % reach where both hold: 1.960 / 1.645.
BOTH = 1.959964 / 1.644854


def test_the_worst_subgroup_is_bounded_by_every_subgroups_bounds():
    report = content(cell(0.9, 0.85, 0.95), groups=("a", "b"))
    report["subgroups"]["b"] = report["subgroups"]["a"] | {"bpsn_auc": cell(0.92, 0.7, 0.99)}
    (result,) = judge_report([Rule("bpsn_auc", "worst", floor=0.8)], report).results
    assert (result.group, result.value, result.outcome) == ("a", 0.9, "insufficient")
    assert (result.low, result.bound) == (0.7, 0.7)
    assert result.high == pytest.approx(0.9 + BOTH * 0.05, rel=1e-6)


def test_the_worst_gap_is_the_widest_in_either_direction():
    report = content(cell(0.1, 0.05, 0.15), groups=("a", "b"))
    wide = cell(-0.2, -0.32, -0.1)
    report["subgroups"]["b"] = report["subgroups"]["a"] | {"negative_aeg": wide}
    (result,) = judge_report([Rule("negative_aeg", "worst", ceiling=0.3)], report).results
    assert (result.group, result.value, result.high) == ("b", -0.2, 0.32)
    assert result.outcome == "insufficient"


def test_a_worst_subgroup_without_evidence_anywhere_is_insufficient():
    report = content(cell(0.9, 0.85, 0.95), groups=("a", "b"))
    few = {"n": 3, "n_positive": 1, "n_negative": 2, "subgroup_auc": cell(1.0)}
    report["subgroups"]["b"] = report["subgroups"]["b"] | few
    verdict = judge_report([Rule("subgroup_auc", "worst", floor=0.5, min_positives=2)], report)
    assert verdict.outcome == "insufficient"
    (result,) = verdict.results
    assert (result.reason, result.lack) == ("few_rows", Lack("positive", 1, 2, group="b"))


def test_a_warning_never_counts_for_the_verdict():
    rules = [Rule("auc", "overall", floor=0.1), Rule("bpsn_auc", "each", floor=0.9, action="warn")]
    verdict = judge_report(rules, content(cell(0.5, 0.4, 0.6)))
    assert verdict.outcome == "pass"
    assert [result.outcome for result in verdict.results] == ["pass", "fail"]


def test_the_worst_blocking_outcome_wins():
    for outcomes in itertools.permutations(["pass", "insufficient", "fail", "error"], 2):
        order = ["pass", "insufficient", "fail", "error"]
        assert find_worst_outcome(outcomes) == max(outcomes, key=order.index)
    assert find_worst_outcome([]) == "insufficient"


def test_a_blocking_rule_over_no_subgroups_is_not_a_pass():
    empty = content(cell(0.9, 0.85, 0.95), groups=())
    for scope in ("each", "worst"):
        rules = [Rule("auc", "overall", floor=0.5), Rule("bpsn_auc", scope, floor=0.5)]
        assert judge_report(rules, empty).outcome == "insufficient"


# ------------------------------------------------------------------ no champion


def test_without_a_champion_margins_are_skipped_only_where_the_policy_allows_a_first():
    rules = [Rule("bpsn_auc", "each", floor=0.5, margin=0.02)]
    report = content(cell(0.9, 0.85, 0.95))
    allowed = judge_report(rules, report, allow_first=True)
    assert allowed.outcome == "pass"
    assert [result.outcome for result in allowed.results] == ["pass", "skipped"]
    assert judge_report(rules, report).outcome == "insufficient"


def test_margins_alone_do_not_pass_a_first_candidate():
    rules = [Rule("bpsn_auc", "each", margin=0.02)]
    assert (
        judge_report(rules, content(cell(0.9, 0.8, 1.0)), allow_first=True).outcome
        == "insufficient"
    )


def test_a_missing_reference_is_never_skipped():
    rules = [Rule("auc", "overall", floor=0.5), Rule("auc", "overall", reference_margin=0.02)]
    report = content(cell(0.9, 0.85, 0.95))
    assert judge_report(rules, report, allow_first=True).outcome == "insufficient"


# ------------------------------------------------------------------ rules


@pytest.mark.parametrize("rules", [[], [Rule("auc", "overall", floor=0.5, action="warn")]])
def test_a_gate_without_blocking_rules_is_refused(rules):
    with pytest.raises(ValueError, match="at least one blocking rule"):
        judge_report(rules, content(cell(1.0, 0.9, 1.0)))


def test_evidence_of_every_slice_and_confidence_is_needed():
    rules = [
        Rule("auc", "overall", floor=0.5),
        Rule("auc", "overall", floor=0.5, slice="short"),
        Rule("auc", "overall", floor=0.6, confidence=0.975),
        Rule("auc", "overall", floor=0.5, id="again"),
    ]
    keys = [(name, round(level, 9)) for name, level in list_needed_evidence(rules)]
    assert keys == [(None, 0.9), ("short", 0.9), (None, 0.95)]
    with pytest.raises(ValueError, match="must cover every slice and confidence"):
        judge_rules({(None, rules[0].level): evidence_of(content(cell(0.9)))}, rules)


def test_a_slice_is_judged_by_its_own_evidence():
    rules = [Rule("auc", "overall", floor=0.8), Rule("auc", "overall", floor=0.8, slice="short")]
    keys = list_needed_evidence(rules)
    evidence = {
        keys[0]: evidence_of(content(cell(0.9, 0.85, 0.95))),
        keys[1]: evidence_of(content(cell(0.7, 0.65, 0.75))),
    }
    verdict = judge_rules(evidence, rules)
    assert [result.outcome for result in verdict.results] == ["pass", "fail"]
    assert [(result.scope, result.slice, result.value) for result in verdict.results] == [
        ("overall", None, 0.9),
        ("overall", "short", 0.7),
    ]


def test_several_candidates_on_one_set_share_the_error_rate():
    (rule,) = correct_for_candidates([Rule("auc", "overall", floor=0.5)], 5)
    assert rule.confidence == pytest.approx(1 - 0.05 / 5)
    with pytest.raises(ValueError, match="`n_candidates` must be at least 1; got 0"):
        correct_for_candidates([rule], 0)
    assert correct_for_candidates([rule], 1)[0].confidence == pytest.approx(rule.confidence)


def test_an_unknown_subgroup_is_refused():
    rule = Rule("bpsn_auc", ("muslim", "martian"), floor=0.8)
    with pytest.raises(ValueError, match=r"'martian' \(known: muslim\)"):
        judge_report([rule], content(cell(0.9, 0.85, 0.95)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "nonsense", "scope": "each", "floor": 0.8}, "must be one of subgroup_auc"),
        ({"metric": "bpsn_auc", "scope": "overall", "floor": 0.8}, "must be one of auc"),
        ({"metric": "auc", "scope": "each", "floor": 0.8}, "must be one of"),
        ({"metric": "auc", "scope": "overall"}, "`floor`, `margin` or `reference_margin`; it se"),
        ({"metric": "auc", "scope": "overall", "ceiling": 0.8}, "`floor`, not `ceiling`"),
        ({"metric": "positive_aeg", "scope": "each", "floor": 0.1}, "`ceiling`, not `floor`"),
        ({"metric": "positive_aeg", "scope": "each", "ceiling": 0.6}, r"\(0, 0.5\]; got 0.6"),
        ({"metric": "auc", "scope": "overall", "floor": 0}, r"\(0, 1\]; got 0"),
        ({"metric": "auc", "scope": "overall", "margin": 0}, r"`margin` of auc .*\(0, 1\]; got 0"),
        ({"metric": "auc", "scope": "overall", "floor": float("nan")}, r"got nan"),
        ({"metric": "auc", "scope": "overall", "floor": 1, "min_positives": 0}, "at least 1"),
        ({"metric": "auc", "scope": "overall", "floor": 1, "confidence": 0.5}, "between 0.5 and"),
        ({"metric": "auc", "scope": "overall", "floor": 1, "confidence": 1}, "as in 0.95; got 1"),
        ({"metric": "auc", "scope": "overall", "floor": 1, "confidence": 95}, "as in 0.95; got 95"),
    ],
)
def test_a_rule_that_could_not_decide_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Rule(**options)


# ------------------------------------------------------------------ what results have


@pytest.mark.parametrize("value", [0.4, -0.4])
def test_a_failed_gap_keeps_its_sign_beside_the_bounds_of_its_size(value):
    report = content(cell(value, value - 0.05, value + 0.05))
    (result,) = judge_report([Rule("positive_aeg", "each", ceiling=LIMIT)], report).results
    assert (result.reason, result.kind, result.limit) == ("not_met", "ceiling", LIMIT)
    assert (result.value, result.confidence) == (value, 0.95)
    assert (result.low, result.high) == pytest.approx((0.35, 0.45))


def test_by_estimate_the_values_are_what_decides():
    rule = Rule("bpsn_auc", "each", floor=0.8, margin=0.02, mode="estimate")
    same = content(change(0.9, 0.9, -0.01, 0.01))
    floor, margin = judge_report([rule], content(cell(0.9, 0.85, 0.95)), same).results
    assert (floor.reason, floor.kind, floor.limit) == ("met", "floor", 0.8)
    assert (floor.mode, floor.value, floor.bound) == ("estimate", 0.9, 0.9)
    assert (margin.reason, margin.kind, margin.limit) == ("met", "champion", 0.02)
    assert (margin.mode, margin.value, margin.rival, margin.bound) == ("estimate", 0.9, 0.9, 0.0)


@pytest.mark.parametrize(
    ("metric", "values", "ends", "reason"),
    [
        ("bpsn_auc", (0.85, 0.80), (0.03, 0.07), "met"),
        ("bpsn_auc", (0.80, 0.85), (-0.07, -0.03), "not_met"),
        ("negative_aeg", (-0.1, 0.15), (-0.07, -0.03), "met"),
        ("negative_aeg", (-0.2, 0.15), (0.03, 0.07), "not_met"),
        ("negative_aeg", (-0.2, 0.2), (-0.01, 0.01), "met"),
    ],
)
def test_a_change_has_both_values_and_the_bounds_of_how_much_worse(metric, values, ends, reason):
    compared = content(change(*values, *ends, gap=metric in GAPS))
    rule = Rule(metric, "each", margin=0.02)
    (result,) = judge_report([rule], content(cell(0.1, 0.05, 0.15)), compared).results
    assert (result.reason, result.kind, result.limit) == (reason, "champion", 0.02)
    assert (result.metric, result.group) == (metric, "muslim")
    assert (result.value, result.rival) == values
    assert (result.low, result.high, result.confidence) == (*ends, 0.95)


def draw_models(shift):
    """Labels, a subgroup, and the scores of two models, one with shifted mentions."""
    rng = np.random.default_rng(0)
    y_true, mask = rng.random(4000) < 0.5, rng.random(4000) < 0.3
    y_score = 0.5 * y_true + rng.random(4000)
    return y_true, {"gay": mask}, y_score + shift * mask, y_score


def test_a_real_comparison_finds_the_group_that_got_worse():
    y_true, groups, shifted, plain = draw_models(0.6)
    rule = Rule("bpsn_auc", "each", floor=0.6, margin=0.02)
    compared = compare_bias(y_true, shifted, plain, groups, confidence=rule.level)
    bias = evaluate_bias(y_true, shifted, groups, confidence=rule.level)
    evidence = {(None, rule.level): Evidence(bias.add_numbers(compared, against="champion"))}
    floor, margin = judge_rules(evidence, [rule]).results
    value = bias.subgroups["gay"].bpsn_auc
    assert (floor.outcome, floor.value, floor.bound) == ("fail", value.value, value.high)
    assert (floor.reason, floor.metric, floor.group) == ("not_met", "bpsn_auc", "gay")
    assert (margin.outcome, margin.reason) == ("fail", "not_met")
    assert margin.bound == compared["bpsn_auc", "gay"].high


def test_a_verdict_is_plain_values():
    verdict = judge_report([Rule("auc", "overall", floor=0.8)], content(cell(0.9, 0.85, 0.95)))
    plain = verdict.to_dict()
    assert plain["outcome"] == "pass"
    assert [record["rule"] for record in plain["results"]] == ["auc/overall"]
    assert plain["results"][0]["bound"] == 0.85


@pytest.mark.parametrize("kind", ["each", "worst"])
def test_a_gap_without_an_interval_is_not_proven_small(kind):
    report = content(cell(-0.1))
    assert judge_report([Rule("negative_aeg", kind, ceiling=0.2)], report).outcome == "insufficient"
    estimate = Rule("negative_aeg", kind, ceiling=0.2, mode="estimate")
    assert judge_report([estimate], report).outcome == "pass"


def test_an_identical_candidate_passes_every_margin_that_its_rows_can_show():
    y_true, groups, _, plain = draw_models(0.0)
    rules = [
        Rule(metric, scope, margin=0.1) for metric, scope, _ in list_rules() if scope != "muslim"
    ]
    compared = compare_bias(y_true, plain, plain, groups, confidence=rules[0].level)
    report = evaluate_bias(y_true, plain, groups, confidence=rules[0].level)
    evidence = Evidence(report.add_numbers(compared, against="champion"))
    verdict = judge_rules(dict.fromkeys(list_needed_evidence(rules), evidence), rules)
    assert {result.outcome for result in verdict.results} == {"pass"}


def test_without_intervals_a_proven_rule_has_the_reason_that_none_were_asked_for():
    rule = Rule("auc", "overall", floor=0.5)
    report = evaluate_bias([0, 1] * 50, [0.1, 0.9] * 50, {}, intervals=False)
    key = list_needed_evidence([rule])[0]
    [result] = judge_rules({key: Evidence(report)}, [rule]).results
    assert result.outcome == "insufficient"
    assert (result.reason, result.why) == ("no_interval", NOT_REQUESTED)


def test_what_categories_lack_is_plain_too():
    lack = Lack("positive", 3, 20, categories=(Lack("negative", 1, 20, group="faith"),))
    own = {"of": "negative", "n": 1, "needed": 20, "group": "faith"}
    assert lack.to_dict() == {"of": "positive", "n": 3, "needed": 20, "categories": [own]}
