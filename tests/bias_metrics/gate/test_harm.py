"""The rule that nobody may be shown to be worse, and what a pass does not say."""

from dataclasses import replace

import pytest
from support.gate_cells import content, evidence_of

from bias_metrics.gate.exceptions import extent_of
from bias_metrics.gate.harm import HarmLimit, bounds_looked_at, judge_harm, unruled_harm
from bias_metrics.gate.losses import Loss, Losses
from bias_metrics.gate.verdict import RuleResult
from biasgate.tasks.check_messages import bounds_message, check_message, exception_message

CELL = {"value": 0.9, "low": 0.85, "high": 0.95}
FOUND = evidence_of(content(CELL, groups=("gay", "jewish", "muslim")))


def loss(group, metric="bpsn_auc", *, by=0.1, at_least=0.05, without=(), **more):
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


def judged(*cells, limit=HarmLimit(), rival="champion", found=FOUND):  # noqa: B008 - frozen
    return judge_harm({rival: Losses(tuple(cells), 15, 0.99)}, limit, found)


def test_where_nothing_is_shown_the_rule_passes_and_says_how_much_was_looked_at():
    [result] = judged()
    assert (result.outcome, result.group, result.rule) == ("pass", None, "shown_harm")
    assert check_message(result) == (
        "No identity is significantly worse than under the champion: 15 bounds that hold together at 95 %."
    )


def test_each_shown_loss_fails_the_largest_first_and_names_its_numbers():
    first, second = judged(loss("muslim"), loss("gay", at_least=0.01))
    assert [(one.group, one.outcome, one.action) for one in (first, second)] == [
        ("muslim", "fail", "block"),
        ("gay", "fail", "block"),
    ]
    assert check_message(first) == (
        "bpsn_auc of muslim is 0.8000, the champion's 0.9000: it is lower by 0.1000, shown to be "
        "worse by at least 0.0500 (15 bounds that hold together at 95 %)."
    )
    assert (first.value, first.rival, first.bound) == (pytest.approx(0.8), 0.9, -0.05)
    assert first.counts


@pytest.mark.parametrize("metric", ["positive_aeg", "negative_aeg", "fpr_gap", "fnr_gap"])
def test_of_a_gap_the_growth_of_its_size_counts_and_twice_the_tolerance(metric):
    at = {"threshold": "given"} if metric.endswith("_gap") else {}
    cell = loss("gay", metric, at_least=0.05, **at)
    [result] = judged(cell, limit=HarmLimit(0.024))
    assert (result.outcome, result.limit, result.bound) == ("fail", 0.048, 0.05)
    assert "the gap is wider by 0.1000, shown to be worse by at least 0.0500" in check_message(
        result
    )
    assert [one.outcome for one in judged(cell, limit=HarmLimit(0.025))] == ["pass"]


def test_a_loss_within_the_tolerance_passes_and_the_sentence_names_it():
    [result] = judged(loss("gay", at_least=0.02), limit=HarmLimit(0.02))
    assert result.outcome == "pass"
    assert "worse than with the champion by more than 0.02 (gaps: twice)" in check_message(result)


def test_of_a_whole_list_the_values_count_and_nothing_is_said_to_be_shown():
    listed = replace(FOUND, is_sample=False)
    [failed], [passed] = judged(loss("gay"), found=listed), judged(found=listed)
    assert check_message(failed).endswith(
        "lower by 0.1000, worse by 0.0500 (15 differences on these rows)."
    )
    assert "Nobody is worse than with the champion: 15 differences" in check_message(passed)
    assert {failed.mode, passed.mode} == {"estimate"}


def test_the_words_point_at_the_cause():
    [result] = judged(loss("jewish", without=("muslim", "gay")))
    assert result.outcome == "fail"
    assert check_message(result).endswith(
        "Without comments that also mention muslim or gay it is not shown."
    )


def test_without_rows_it_is_said_that_the_cause_is_unknown_if_several_lose():
    unknown = "Counts do not tell whether it comes from comments that also mention another who"
    for cells, rows in ((("gay", "muslim"), False), (("gay",), False), (("gay", "muslim"), True)):
        losses = {"champion": Losses(tuple(map(loss, cells)), 15, 0.99, by_rows=rows)}
        told = [check_message(one) for one in judge_harm(losses, HarmLimit(), FOUND)]
        told += [exception_message(one) for one in unruled_harm(losses, None)]
        assert [unknown in one for one in told] == [len(cells) > 1 and not rows] * len(told)


def test_a_rule_that_warns_does_not_count_and_each_rival_is_named():
    [result] = judged(loss("gay"), limit=HarmLimit(action="warn"), rival="reference")
    assert not result.counts
    assert "the reference's 0.9000" in check_message(result)


def test_without_a_rival_it_is_skipped():
    [result] = judge_harm({}, HarmLimit(), FOUND)
    assert (result.outcome, result.counts) == ("skipped", False)


@pytest.mark.parametrize("tolerance", [-0.01, 0.5])
def test_a_tolerance_that_means_nothing_is_refused(tolerance):
    with pytest.raises(ValueError, match="`tolerance` of `shown_harm` must be at least 0"):
        HarmLimit(tolerance)


def unruled(*cells, limit=None):
    return unruled_harm({"champion": Losses(tuple(cells), 15, 0.99)}, limit)


@pytest.mark.parametrize(
    ("limit", "why"),
    [
        (None, "the policy has no rule on that"),
        (HarmLimit(action="warn"), "the policy only warns"),
        (HarmLimit(0.05), "the policy tolerates 0.05"),
    ],
)
def test_who_is_shown_to_be_worse_without_blocking_is_named_with_the_reason(limit, why):
    found = unruled(loss("muslim"), loss("gay", at_least=0.04), loss("muslim", "auc"), limit=limit)
    assert [(one.group, one.why, one.n_checks) for one in found] == [
        ("muslim", "shown_worse", 2),
        ("gay", "shown_worse", 1),
    ]
    assert exception_message(found[0]) == (
        "muslim: shown to be worse than with the champion (bpsn_auc by at least 0.050); "
        f"{why} (`shown_harm`)."
    )


def test_what_blocks_or_is_the_loss_of_others_needs_no_such_word():
    assert unruled(loss("muslim", at_least=0.051), limit=HarmLimit(0.05)) == []
    assert unruled(loss("muslim", without=("gay",))) == []
    assert unruled_harm({"reference": Losses((loss("muslim"),), 15, 0.99)}, None) == []
    gap = unruled(loss("muslim", "negative_aeg", at_least=0.1), limit=HarmLimit(0.05))
    assert "the policy tolerates 0.1 (" in exception_message(gap[0])


def test_the_rows_of_the_group_or_of_all_are_those_of_the_result():
    [failed], [passed] = judged(loss("gay")), judged()
    assert (failed.n_positive, failed.n_negative) == (100, 100)  # of 200 comments
    assert (passed.n_positive, passed.n_negative) == (500, 500)  # of 1,000


GROUPS = ("gay", "hindu", "muslim")


def result(group, outcome="pass", **more):
    known = {
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
    return RuleResult(group=group, outcome=outcome, **known | more)


SMALL = {
    "judged_in": "religion",
    "value": 0.79,
    "rival": 0.8,
    "not_excluded": 0.13,
    "visible": 0.16,
    "rows_needed": {"positive": 140},
}


def extent(*results, groups=GROUPS):
    return extent_of(results, groups)


def test_a_pass_of_every_identity_on_its_own_rows_has_no_exception():
    found = extent(*map(result, GROUPS))
    assert (found.groups, found.of, found.exceptions) == (GROUPS, 3, ())


def test_an_estimate_that_passed_proves_nothing_and_is_an_exception():
    guessed = replace(result("gay"), mode="estimate")
    found = extent(guessed, result("hindu"), replace(result("hindu"), mode="estimate"))
    assert found.groups == ("hindu",)
    entry, without_rule = found.exceptions
    assert (entry.group, entry.why, entry.n_checks) == (None, "estimate", 2)
    assert exception_message(entry) == (
        "2 checks were decided by the estimate alone, however unsure it is (`mode: estimate`)."
    )
    assert without_rule.why == "no_rule"
    [alone, _] = extent(guessed).exceptions
    assert exception_message(alone).startswith("1 check was decided by the estimate alone")


def test_a_group_judged_in_a_category_is_an_exception_with_its_own_numbers():
    known = result("hindu", "skipped", **SMALL)
    less = replace(known, metric="bnsp_auc", not_excluded=0.06)
    found = extent(result("gay"), result("hindu"), known, less, result("muslim"))
    assert found.groups == ("gay", "muslim")
    [entry] = found.exceptions
    assert (entry.group, entry.why, entry.n_checks) == ("hindu", "category", 2)
    assert exception_message(entry) == (
        "hindu: judged in the category religion (2 checks); own bpsn_auc 0.790, the champion's "
        "0.800; a loss of 0.13 is not excluded, one of 0.16 would be seen; 140 more toxic comments "
        "needed."
    )


@pytest.mark.parametrize(
    ("more", "why", "words"),
    [
        ({"judged_in": None, "blind": 0.15}, "blind", "by few rows, with the wider margin 0.15"),
        ({"not_measured": "none; until 2027-01-31"}, "not_measured", "not measured (none; until"),
        (
            {"metric": "negative_aeg", "value": -0.3, "rival": 0.2},
            "category",
            "own negative_aeg -0.300, the",
        ),
        ({"kind": "floor", "limit": 0.8, "not_excluded": 0.6}, "category", "0.64 would be seen"),
        (
            {"kind": "floor", "limit": 0.1, "not_excluded": 0.6},
            "category",
            "no value would be seen",
        ),
        ({"kind": "ceiling", "value": -0.2}, "category", "negative_aeg 0.200; 0.13 is not"),
        ({"kind": "ceiling", "limit": 0.4}, "category", "no value would be seen"),  # an AEG of .56
        (
            {"kind": "ceiling", "metric": "calibration_gap", "limit": 1.0},
            "category",
            "1.16 would be seen",
        ),
        ({"not_excluded": -0.01}, "category", "no loss is left open"),
        ({"not_excluded": None}, "category", "no bound of bpsn_auc"),
    ],
)
def test_what_stands_for_a_small_group_is_said(more, why, words):
    if more.get("kind") == "ceiling":
        more = {"metric": "negative_aeg"} | more
    found = extent(result("gay"), result("hindu", "skipped", **SMALL | more), result("muslim"))
    [entry] = found.exceptions
    assert (entry.why, entry.group) == (why, "hindu")
    assert words in exception_message(entry)


def test_the_check_that_leaves_most_open_is_the_one_that_is_said():
    wide = result("hindu", "skipped", **SMALL | {"metric": "bnsp_auc", "not_excluded": 0.2})
    no_bound = replace(wide, metric="subgroup_auc", not_excluded=None)
    known = result("hindu", "skipped", **SMALL)
    assert "bnsp_auc" in exception_message(extent(known, wide).exceptions[0])
    entry = extent(known, no_bound, wide).exceptions[0]
    assert "bnsp_auc" in exception_message(entry)
    assert "1 of the checks without a bound" in exception_message(entry)
    alone = exception_message(extent(no_bound).exceptions[0])
    assert "no bound of subgroup_auc" in alone
    assert "without a bound" not in alone  # said already


def test_an_identity_that_the_set_cannot_measure_is_an_exception_with_the_policys_reason():
    found = extent(
        result("gay", "skipped", not_measured="no labels yet"), result("hindu"), result("muslim")
    )
    [entry] = found.exceptions
    assert (entry.group, entry.why, entry.reason) == ("gay", "not_measured", "no labels yet")


@pytest.mark.parametrize(("n", "words"), [(1, "1 check was"), (2, "2 checks were")])
def test_checks_without_a_champion_are_one_exception_and_no_identity_s(n, words):
    floors = [result(name, kind="floor") for name in GROUPS]
    found = extent(*floors, *[result(name, "skipped") for name in GROUPS[:n]])
    assert found.groups == GROUPS
    [entry] = found.exceptions
    assert (entry.group, entry.why) == (None, "no_rival")
    assert exception_message(entry) == f"no champion to compare with: {words} skipped."


def test_identities_that_no_blocking_rule_is_about_are_named():
    warned = result("muslim", action="warn")
    assert exception_message(extent(result("gay"), warned).exceptions[0]) == (
        "no blocking rule covers hindu, muslim."
    )
    nobody = extent(result(None))
    assert (nobody.groups, nobody.of) == ((), 3)
    assert exception_message(nobody.exceptions[0]).endswith("is about any identity.")


def test_the_worst_of_all_speaks_for_everybody_but_the_small():
    worst = result("gay", scope="worst", instead_of=("hindu",))
    found = extent(worst, result("hindu", "skipped", **SMALL))
    assert found.groups == ("gay", "muslim")


def test_a_group_of_which_any_check_did_not_pass_is_not_proven():
    found = extent(result("gay"), result("gay", "fail", metric="auc"), result("hindu"))
    assert found.groups == ("hindu",)
    worst = result("gay", "insufficient", scope="worst")
    assert extent(result("hindu"), worst, result("muslim")).groups == ()


def test_a_group_that_failed_is_neither_proven_nor_an_exception():
    found = extent(result("hindu", "fail", **SMALL), groups=("hindu",))
    assert (found.groups, found.exceptions) == ((), ())


# ------------------------------------------------------------------ bounds that were looked at


THRESHOLDS = {"candidate": 0.5, "champion": 0.4, "reference": 0.6}


def looked_at(results=(), losses=None, *, is_sample=True, **thresholds):
    found = {role: Losses((), n, 0.99) for role, n in (losses or {}).items()}
    return bounds_looked_at(results, found, 0.05, THRESHOLDS | thresholds, is_sample=is_sample)


def test_bounds_of_rules_err_apart_and_those_of_losses_together():
    """Each of two one-sided 95 % bounds and one of 99 % may err: .05 + .05 + .01 on average."""
    bound = result("gay", bound=0.9)
    results = [
        bound,
        replace(bound, group="hindu"),
        replace(bound, confidence=0.99),
        replace(bound, bound=None),
        replace(bound, mode="estimate"),
        replace(bound, rule="shown_harm"),
    ]
    found = looked_at(results, {"champion": 1000, "reference": 15})
    assert (found.separately, found.jointly) == (3, 1015)
    assert found.expected_wrong == pytest.approx(0.11)
    assert bounds_message(found) == (
        "Looked at: 3 bounds of rules, of which on average at most 0.11 are wrong by chance; "
        "1,015 joint bounds of losses, any wrong in at most 5 of 100 sets."
    )


def test_where_no_bound_was_looked_at_none_may_be_wrong():
    found = looked_at()
    assert (found.separately, found.expected_wrong, found.jointly) == (0, 0, 0)
    assert bounds_message(found) == "Looked at: 0 bounds of rules."
    assert bounds_message(looked_at([result("gay", bound=0.9)])).startswith(
        "Looked at: 1 bound of rules,"
    )


def test_of_a_whole_list_no_bound_is_looked_at():
    found = looked_at([result("gay", bound=0.9)], {"champion": 15}, is_sample=False)
    assert (found.separately, found.expected_wrong, found.jointly) == (0, 0, 0)
    assert bounds_message(found) == "Values are of these rows alone: nothing is estimated."


@pytest.mark.parametrize(
    ("unknown", "words"),
    [
        ({"champion": None}, "looked at: the champion has no `threshold`."),
        ({"reference": None}, "looked at: the reference has no `threshold`."),
        (
            {"champion": None, "reference": None},
            "looked at: the champion and the reference have no `threshold`.",
        ),
        ({}, None),
        ({"candidate": None}, None),  # nothing is decided at a threshold
        ({"candidate": None, "champion": None}, None),
    ],
)
def test_without_a_rivals_threshold_its_error_rates_are_said_not_to_be_compared(unknown, words):
    told = bounds_message(looked_at(losses={"champion": 15, "reference": 15}, **unknown))
    assert ("Losses in fpr_gap and fnr_gap were not looked at" in told) == (words is not None)
    assert told.endswith(words or "of 100 sets.")


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
    known = SMALL | {"kind": kind, "metric": metric, "not_excluded": 0.6}
    small, large = (
        result("hindu", "skipped", **known | one | {"value": value})
        for one, value in ((less, 0.11), (more, 0.22))
    )
    for order in ((small, large), (large, small)):
        assert f"own {metric} 0.220" in exception_message(extent(*order).exceptions[0])
