"""The rule that nobody may be shown to be worse, and what a pass does not say."""

from dataclasses import replace

import pytest
from support.gate_cells import content, evidence_of

from bias_metrics.gate.exceptions import find_pass_extent
from bias_metrics.gate.harm import HarmLimit, count_bounds, judge_harm, list_unblocked_harm
from bias_metrics.gate.losses import Loss, Losses
from bias_metrics.gate.verdict import RuleResult

CELL = {"value": 0.9, "low": 0.85, "high": 0.95}
FOUND = evidence_of(content(CELL, groups=("gay", "jewish", "muslim")))


def build_loss(group, metric="bpsn_auc", *, by=0.1, at_least=0.05, without=(), **more):
    sign = 1 if metric.endswith(("_aeg", "_gap")) else -1
    first, second = (0.3, 0.3 - by) if sign > 0 else (0.9 - by, 0.9)
    low, high = sorted((sign * at_least, sign * (2 * by - at_least)))
    return Loss(
        group=group,
        metric=metric,
        first=first,
        second=second,
        worse_by=by,
        worse_by_at_least=at_least,
        low=low,
        high=high,
        without=without,
        **more,
    )


def judge_losses(*cells, limit=HarmLimit(), rival="champion", evidence=FOUND):  # noqa: B008 - frozen
    return judge_harm({rival: Losses(tuple(cells), 15, 0.99)}, limit, evidence)


def test_where_nothing_is_shown_the_rule_passes_and_has_the_number_of_its_bounds():
    [result] = judge_losses()
    assert (result.outcome, result.group, result.rule) == ("pass", None, "shown_harm")
    assert (result.reason, result.kind, result.limit) == ("no_loss", "champion", 0.0)
    assert (result.n_bounds, result.confidence, result.on_these_rows) == (15, 0.95, False)


def test_each_shown_loss_fails_the_largest_first_and_names_its_numbers():
    first, second = judge_losses(build_loss("muslim"), build_loss("gay", at_least=0.01))
    assert [(check.group, check.outcome, check.action) for check in (first, second)] == [
        ("muslim", "fail", "block"),
        ("gay", "fail", "block"),
    ]
    assert (first.reason, first.metric, first.kind) == ("loss", "bpsn_auc", "champion")
    assert (first.n_bounds, first.confidence, first.on_these_rows) == (15, 0.95, False)
    assert (first.value, first.rival, first.bound) == (pytest.approx(0.8), 0.9, -0.05)
    assert first.is_counted


@pytest.mark.parametrize("metric", ["positive_aeg", "negative_aeg", "fpr_gap", "fnr_gap"])
def test_of_a_gap_the_growth_of_its_size_counts_and_twice_the_tolerance(metric):
    threshold = {"threshold": "given"} if metric.endswith("_gap") else {}
    cell = build_loss("gay", metric, at_least=0.05, **threshold)
    [result] = judge_losses(cell, limit=HarmLimit(0.024))
    assert (result.outcome, result.limit, result.bound) == ("fail", 0.048, 0.05)
    assert (result.reason, result.metric) == ("loss", metric)
    assert result.threshold == threshold.get("threshold")
    assert abs(result.value) - abs(result.rival) == pytest.approx(0.1)
    assert [check.outcome for check in judge_losses(cell, limit=HarmLimit(0.025))] == ["pass"]


def test_a_loss_within_the_tolerance_passes_and_the_result_has_the_tolerance():
    [result] = judge_losses(build_loss("gay", at_least=0.02), limit=HarmLimit(0.02))
    assert (result.outcome, result.reason) == ("pass", "no_loss")
    assert (result.kind, result.limit) == ("champion", 0.02)


def test_of_a_whole_list_the_values_count():
    listed = replace(FOUND, is_sample=False)
    [failed], [passed] = (
        judge_losses(build_loss("gay"), evidence=listed),
        judge_losses(evidence=listed),
    )
    assert (failed.reason, passed.reason) == ("loss", "no_loss")
    assert (failed.value, failed.rival, failed.bound) == (pytest.approx(0.8), 0.9, -0.05)
    for outcome in (failed, passed):
        assert (outcome.kind, outcome.n_bounds) == ("champion", 15)
        assert (outcome.mode, outcome.on_these_rows) == ("estimate", True)


def test_the_result_points_at_the_cause():
    [result] = judge_losses(build_loss("jewish", without=("muslim", "gay")))
    assert (result.outcome, result.without) == ("fail", ("muslim", "gay"))


def test_without_rows_the_cause_is_unknown_if_several_lose():
    for cells, rows in ((("gay", "muslim"), False), (("gay",), False), (("gay", "muslim"), True)):
        losses = {"champion": Losses(tuple(map(build_loss, cells)), 15, 0.99, by_rows=rows)}
        results = [*judge_harm(losses, HarmLimit(), FOUND), *list_unblocked_harm(losses, None)]
        assert len(results) == 2 * len(cells)
        assert {item.may_be_shared for item in results} == {len(cells) > 1 and not rows}


def test_a_rule_that_warns_does_not_count_and_each_rival_is_named():
    [result] = judge_losses(build_loss("gay"), limit=HarmLimit(action="warn"), rival="reference")
    assert not result.is_counted
    assert (result.reason, result.kind, result.rival) == ("loss", "reference", 0.9)


def test_without_a_rival_it_is_skipped():
    [result] = judge_harm({}, HarmLimit(), FOUND)
    assert (result.outcome, result.reason, result.is_counted) == ("skipped", "no_rival", False)


@pytest.mark.parametrize("tolerance", [-0.01, 0.5])
def test_a_tolerance_that_means_nothing_is_refused(tolerance):
    with pytest.raises(ValueError, match="`tolerance` of `shown_harm` must be at least 0"):
        HarmLimit(tolerance)


def list_unblocked(*cells, limit=None):
    return list_unblocked_harm({"champion": Losses(tuple(cells), 15, 0.99)}, limit)


@pytest.mark.parametrize(
    ("limit", "allowed_by"),
    [(None, "no_rule"), (HarmLimit(action="warn"), "warning"), (HarmLimit(0.05), 0.05)],
)
def test_who_is_shown_to_be_worse_without_blocking_is_named_with_the_reason(limit, allowed_by):
    exceptions = list_unblocked(
        build_loss("muslim"),
        build_loss("gay", at_least=0.04),
        build_loss("muslim", "auc"),
        limit=limit,
    )
    assert [(exception.group, exception.why, exception.n_checks) for exception in exceptions] == [
        ("muslim", "shown_worse", 2),
        ("gay", "shown_worse", 1),
    ]
    assert [exception.loss for exception in exceptions] == [
        build_loss("muslim"),
        build_loss("gay", at_least=0.04),
    ]
    assert {exception.allowed_by for exception in exceptions} == {allowed_by}


def test_what_blocks_or_is_the_loss_of_others_needs_no_such_word():
    assert list_unblocked(build_loss("muslim", at_least=0.051), limit=HarmLimit(0.05)) == []
    assert list_unblocked(build_loss("muslim", without=("gay",))) == []
    assert list_unblocked_harm({"reference": Losses((build_loss("muslim"),), 15, 0.99)}, None) == []
    gap = list_unblocked(build_loss("muslim", "negative_aeg", at_least=0.1), limit=HarmLimit(0.05))
    assert [exception.allowed_by for exception in gap] == [0.1]


def test_the_rows_of_the_group_or_of_all_are_those_of_the_result():
    [failed], [passed] = judge_losses(build_loss("gay")), judge_losses()
    assert (failed.n_positive, failed.n_negative) == (100, 100)  # of 200 comments
    assert (passed.n_positive, passed.n_negative) == (500, 500)  # of 1,000


GROUPS = ("gay", "hindu", "muslim")


def build_result(group, outcome="pass", **more):
    content = {
        "rule": "bpsn_auc/each",
        "kind": "champion",
        "metric": "bpsn_auc",
        "scope": "subgroup" if group else "overall",
        "slice": None,
        "mode": "proven",
        "confidence": 0.95,
        "limit": 0.05,
        "n_positive": 5,
        "n_negative": 5,
        "action": "block",
        "reason": "met",
    }
    return RuleResult(group=group, outcome=outcome, **content | more)


SMALL = {
    "judged_in": "religion",
    "value": 0.79,
    "rival": 0.8,
    "not_excluded": 0.13,
    "visible": 0.16,
    "rows_needed": {"positive": 140},
}


def find_extent(*results, groups=GROUPS):
    return find_pass_extent(results, groups)


def test_a_pass_of_every_identity_on_its_own_rows_has_no_exception():
    pass_extent = find_extent(*map(build_result, GROUPS))
    assert (pass_extent.groups, pass_extent.n_groups, pass_extent.exceptions) == (GROUPS, 3, ())


def test_an_estimate_that_passed_proves_nothing_and_is_an_exception():
    guessed = replace(build_result("gay"), mode="estimate")
    pass_extent = find_extent(
        guessed, build_result("hindu"), replace(build_result("hindu"), mode="estimate")
    )
    assert pass_extent.groups == ("hindu",)
    entry, without_rule = pass_extent.exceptions
    assert (entry.group, entry.why, entry.n_checks) == (None, "estimate", 2)
    assert without_rule.why == "no_rule"
    [estimated, _] = find_extent(guessed).exceptions
    assert (estimated.group, estimated.why, estimated.n_checks) == (None, "estimate", 1)


def test_a_group_judged_in_a_category_is_an_exception_with_its_own_numbers():
    small = build_result("hindu", "skipped", **SMALL)
    less = replace(small, metric="bnsp_auc", not_excluded=0.06)
    pass_extent = find_extent(
        build_result("gay"), build_result("hindu"), small, less, build_result("muslim")
    )
    assert pass_extent.groups == ("gay", "muslim")
    [entry] = pass_extent.exceptions
    assert (entry.group, entry.why, entry.n_checks) == ("hindu", "category", 2)
    assert (entry.check, entry.n_unbounded, entry.reason) == (small, 0, None)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"judged_in": None, "blind": 0.15}, "blind"),
        ({"not_measured": "none; until 2027-01-31"}, "not_measured"),
        ({"metric": "negative_aeg", "value": -0.3, "rival": 0.2}, "category"),
        ({"kind": "floor", "limit": 0.8, "not_excluded": 0.6}, "category"),
        ({"kind": "ceiling", "metric": "negative_aeg", "value": -0.2}, "category"),
        ({"kind": "ceiling", "metric": "calibration_gap", "limit": 1.0}, "category"),
        ({"not_excluded": -0.01}, "category"),
        ({"not_excluded": None}, "category"),
    ],
)
def test_what_stands_for_a_small_group_is_its_exception(more, why):
    small = build_result("hindu", "skipped", **SMALL | more)
    [entry] = find_extent(build_result("gay"), small, build_result("muslim")).exceptions
    assert (entry.why, entry.group, entry.n_checks) == (why, "hindu", 1)
    assert (entry.check, entry.n_unbounded, entry.reason) == (small, 0, None)


def test_the_check_that_leaves_most_open_is_that_of_the_exception():
    wide = build_result("hindu", "skipped", **SMALL | {"metric": "bnsp_auc", "not_excluded": 0.2})
    no_bound = replace(wide, metric="subgroup_auc", not_excluded=None)
    small = build_result("hindu", "skipped", **SMALL)
    for checks, worst, n_unbounded in (
        ((small, wide), wide, 0),
        ((small, no_bound, wide), wide, 1),
        ((no_bound,), no_bound, 0),  # the check itself has no bound
    ):
        entry = find_extent(*checks).exceptions[0]
        assert (entry.check, entry.n_unbounded) == (worst, n_unbounded)
        assert entry.n_checks == len(checks)


def test_an_identity_that_the_set_cannot_measure_is_an_exception_with_the_policys_reason():
    pass_extent = find_extent(
        build_result("gay", "skipped", not_measured="no labels yet"),
        build_result("hindu"),
        build_result("muslim"),
    )
    [entry] = pass_extent.exceptions
    assert (entry.group, entry.why, entry.reason) == ("gay", "not_measured", "no labels yet")


@pytest.mark.parametrize("n", [1, 2])
def test_checks_without_a_champion_are_one_exception_and_no_identity_s(n):
    floors = [build_result(name, kind="floor") for name in GROUPS]
    pass_extent = find_extent(*floors, *[build_result(name, "skipped") for name in GROUPS[:n]])
    assert pass_extent.groups == GROUPS
    [entry] = pass_extent.exceptions
    assert (entry.group, entry.why) == (None, "no_rival")
    assert (entry.kind, entry.n_checks) == ("champion", n)


def test_identities_that_no_blocking_rule_is_about_are_named():
    warned = build_result("muslim", action="warn")
    [some] = find_extent(build_result("gay"), warned).exceptions
    assert (some.why, some.groups) == ("no_rule", ("hindu", "muslim"))
    unruled = find_extent(build_result(None))
    assert (unruled.groups, unruled.n_groups) == ((), 3)
    [every] = unruled.exceptions
    assert (every.why, every.groups) == ("no_rule", None)


def test_the_worst_of_all_speaks_for_everybody_but_the_small():
    worst = build_result("gay", scope="worst", instead_of=("hindu",))
    pass_extent = find_extent(worst, build_result("hindu", "skipped", **SMALL))
    assert pass_extent.groups == ("gay", "muslim")


def test_a_group_of_which_any_check_did_not_pass_is_not_proven():
    pass_extent = find_extent(
        build_result("gay"), build_result("gay", "fail", metric="auc"), build_result("hindu")
    )
    assert pass_extent.groups == ("hindu",)
    worst = build_result("gay", "insufficient", scope="worst")
    assert find_extent(build_result("hindu"), worst, build_result("muslim")).groups == ()


def test_a_group_that_failed_is_neither_proven_nor_an_exception():
    pass_extent = find_extent(build_result("hindu", "fail", **SMALL), groups=("hindu",))
    assert (pass_extent.groups, pass_extent.exceptions) == ((), ())


# ------------------------------------------------------------------ bounds that were looked at


THRESHOLDS = {"candidate": 0.5, "champion": 0.4, "reference": 0.6}


def count_all_bounds(results=(), losses=None, *, is_sample=True, **thresholds):
    losses_by_role = {role: Losses((), n, 0.99) for role, n in (losses or {}).items()}
    return count_bounds(results, losses_by_role, 0.05, THRESHOLDS | thresholds, is_sample=is_sample)


def test_bounds_of_rules_err_apart_and_those_of_losses_together():
    """Each of two one-sided 95 % bounds and one of 99 % may err: .05 + .05 + .01 on average."""
    bound = build_result("gay", bound=0.9)
    results = [
        bound,
        replace(bound, group="hindu"),
        replace(bound, confidence=0.99),
        replace(bound, bound=None),
        replace(bound, mode="estimate"),
        replace(bound, rule="shown_harm"),
    ]
    bounds = count_all_bounds(results, {"champion": 1000, "reference": 15})
    assert (bounds.separately, bounds.jointly) == (3, 1015)
    assert bounds.expected_wrong == pytest.approx(0.11)
    assert (bounds.alpha, bounds.without_threshold) == (0.05, ())


def test_where_no_bound_was_looked_at_none_may_be_wrong():
    bounds = count_all_bounds()
    assert (bounds.separately, bounds.expected_wrong, bounds.jointly) == (0, 0, 0)
    assert bounds.alpha == 0.05
    assert count_all_bounds([build_result("gay", bound=0.9)]).separately == 1


def test_of_a_whole_list_no_bound_is_looked_at():
    bounds = count_all_bounds([build_result("gay", bound=0.9)], {"champion": 15}, is_sample=False)
    assert (bounds.separately, bounds.expected_wrong, bounds.jointly) == (0, 0, 0)
    assert (bounds.alpha, bounds.without_threshold) == (0, ())


@pytest.mark.parametrize(
    ("unknown", "expected"),
    [
        ({"champion": None}, ("champion",)),
        ({"reference": None}, ("reference",)),
        ({"champion": None, "reference": None}, ("champion", "reference")),
        ({}, ()),
        ({"candidate": None}, ()),  # nothing is decided at a threshold
        ({"candidate": None, "champion": None}, ()),
    ],
)
def test_rivals_without_a_threshold_are_named(unknown, expected):
    """Losses in error rates are not tested against them."""
    bounds = count_all_bounds(losses={"champion": 15, "reference": 15}, **unknown)
    assert (bounds.without_threshold, bounds.jointly) == (expected, 30)


@pytest.mark.parametrize(
    ("kind", "metric", "less", "more"),
    [
        ("floor", "bpsn_auc", {"limit": 0.8, "not_excluded": 0.7}, {"limit": 0.8}),  # .1, .2 below
        ("floor", "bpsn_auc", {"limit": 0.6}, {"limit": 0.7}),
        ("ceiling", "negative_aeg", {"limit": 0.3}, {"limit": 0.3, "not_excluded": 0.7}),
        ("ceiling", "negative_aeg", {"limit": 0.3}, {"limit": 0.2}),
        ("champion", "bpsn_auc", {"limit": 0.3}, {"limit": 0.2}),  # twice and three times
        ("reference", "bpsn_auc", {"limit": 0.2, "not_excluded": 0.5}, {"limit": 0.2}),
    ],
)
def test_what_is_open_is_counted_from_the_limit_of_its_kind(kind, metric, less, more):
    common = SMALL | {"kind": kind, "metric": metric, "not_excluded": 0.6}
    small, large = (
        build_result("hindu", "skipped", **common | changed | {"value": value})
        for changed, value in ((less, 0.11), (more, 0.22))
    )
    for order in ((small, large), (large, small)):
        assert find_extent(*order).exceptions[0].check == large
