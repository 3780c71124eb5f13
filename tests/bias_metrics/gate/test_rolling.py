"""Groups that are too small to be judged alone: where they are judged, and what can still fail."""

from dataclasses import replace

import pytest
from support.gate_cells import GAPS, cell, change, content, evidence_of

from bias_metrics.gate.decision import judge_rules, list_needed_evidence
from bias_metrics.gate.hierarchy import CIVIL_COMMENTS, Hierarchy
from bias_metrics.gate.placement import list_covered_groups, list_small_groups
from bias_metrics.gate.rules import Rule
from bias_metrics.gate.verdict import Lack, RolledAggregate, SmallGroups
from bias_metrics.metrics import METRICS

RELIGIONS = Hierarchy({"religion": ("hindu", "muslim"), "any": ("religion", "gay")})
FLOOR = Rule("bpsn_auc", "each", floor=0.8, min_negatives=25)
GOOD, BAD, UNCLEAR = cell(0.9, 0.85, 0.95), cell(0.6, 0.5, 0.7), cell(0.6, 0.3, 0.95)
UNDEFINED = {"value": None, "reason": "no negatives"}
POWER = 1 + 0.8416212 / 1.6448536  # times a bound's distance: the loss that 80 % would show


def build_report(categories=(), **subgroups):
    """A report of groups, each with its cell and its number of rows of each class."""
    tables = content(GOOD, groups=())
    for key, cells in (("subgroups", subgroups), ("categories", dict(categories))):
        tables[key] = {
            name: {"n": 2 * n, "n_positive": n}
            | dict.fromkeys(("bpsn_auc", "subgroup_auc", *GAPS), cells_of_group)
            for name, (cells_of_group, n) in cells.items()
        }
    return tables


def judge_rule(evidence, rule=FLOOR, **options):
    key = list_needed_evidence([rule])[0]
    small = replace(evidence.small_groups, hierarchy=RELIGIONS)
    return judge_rules({key: replace(evidence, small_groups=small)}, [rule], **options)


def group_results(verdict):
    return {result.group: result for result in verdict.results}


CATEGORIES = {"religion": (GOOD, 100), "any": (GOOD, 400)}


def test_a_small_group_is_judged_in_its_category_and_both_are_named():
    verdict = judge_rule(
        evidence_of(build_report(CATEGORIES, hindu=(UNCLEAR, 5), muslim=(GOOD, 95)))
    )
    results = group_results(verdict)
    assert verdict.outcome == "pass"
    assert {name: (result.scope, result.outcome) for name, result in results.items()} == {
        "religion": ("category", "pass"),
        "muslim": ("subgroup", "pass"),
        "hindu": ("subgroup", "skipped"),
    }
    assert results["religion"].instead_of == ("hindu",)
    assert results["hindu"].judged_in == "religion"
    hindu = results["hindu"]
    assert (hindu.reason, hindu.lack) == ("small_group", Lack("negative", 5, 25))
    assert (hindu.kind, hindu.limit, hindu.confidence) == ("floor", 0.8, 0.95)
    assert (hindu.value, hindu.not_excluded) == (0.6, 0.3)
    assert hindu.visible == pytest.approx(0.35 * POWER)
    assert hindu.rows_needed == {"negative": 20}
    assert results["hindu"].to_dict()["judged_in"] == "religion"
    assert results["religion"].to_dict()["instead_of"] == ["hindu"]
    assert not {"judged_in", "instead_of"} & set(results["muslim"].to_dict())


def test_what_few_rows_would_show_may_be_beyond_every_value():
    evidence = evidence_of(build_report(CATEGORIES, hindu=(UNCLEAR, 5), muslim=(GOOD, 95)))
    hindu = group_results(judge_rule(evidence, replace(FLOOR, floor=0.25)))["hindu"]
    assert hindu.visible == pytest.approx(0.35 * POWER)
    assert hindu.limit - hindu.visible < 0
    ceiling = Rule("negative_aeg", "each", ceiling=0.1, min_negatives=25)
    wide = build_report(CATEGORIES, hindu=(cell(0.2, -0.1, 0.5), 5), muslim=(GOOD, 95))
    hindu = group_results(judge_rule(evidence_of(wide), ceiling))["hindu"]
    assert hindu.visible == pytest.approx(0.3 * POWER)
    assert hindu.limit + hindu.visible > METRICS["negative_aeg"].largest


def test_without_categories_a_small_group_is_insufficient():
    evidence = evidence_of(build_report(hindu=(GOOD, 5), muslim=(GOOD, 95)))
    key = list_needed_evidence([FLOOR])[0]
    assert judge_rules({key: evidence}, [FLOOR]).outcome == "insufficient"


@pytest.mark.parametrize("outcome", ["fail", "insufficient"])
def test_the_category_is_judged_like_any_group(outcome):
    bad = {"religion": (BAD if outcome == "fail" else UNCLEAR, 100)}
    assert judge_rule(evidence_of(build_report(bad, hindu=(GOOD, 5)))).outcome == outcome


def test_a_small_group_that_is_shown_to_be_worse_fails_though_its_category_passes():
    verdict = judge_rule(evidence_of(build_report(CATEGORIES, hindu=(BAD, 5))))
    hindu = group_results(verdict)["hindu"]
    assert (verdict.outcome, hindu.outcome, hindu.judged_in) == ("fail", "fail", "religion")
    assert (hindu.reason, hindu.kind, hindu.limit) == ("small_group", "floor", 0.8)
    assert hindu.bound == 0.7


def test_the_value_of_a_small_group_never_decides():
    rule = replace(FLOOR, mode="estimate")
    assert (
        judge_rule(evidence_of(build_report(CATEGORIES, hindu=(UNCLEAR, 5))), rule).outcome
        == "pass"
    )


def test_alone_the_bounds_that_hold_together_decide():
    evidence = build_report(CATEGORIES, hindu=(BAD, 5))
    wider = evidence_of(build_report(hindu=(UNCLEAR, 5)))
    assert judge_rule(evidence_of(evidence, joint_evidence=wider)).outcome == "pass"


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [(-0.3, -0.01, "fail"), (-0.3, 0.01, "skipped"), (-0.3, 0.0, "skipped")],
)
@pytest.mark.parametrize("metric", ["bpsn_auc", "negative_aeg"])
def test_against_the_champion_alone_any_loss_that_is_shown_fails(metric, low, high, outcome):
    gap = metric in GAPS
    ends = (-high, -low) if gap else (low, high)
    equal = change(0.2, 0.2, -0.01, 0.01, gap=gap)
    small = change(0.3, 0.2, *ends, gap=gap) if gap else change(0.7, 0.9, *ends)
    rule = Rule(metric, "each", margin=0.5, min_negatives=25)
    champion = build_report({"religion": (equal, 100)}, hindu=(small, 12))
    evidence = evidence_of(build_report({"religion": (GOOD, 100)}, hindu=(GOOD, 12)), champion)
    hindu = group_results(judge_rule(evidence, rule))["hindu"]
    assert (hindu.outcome, hindu.reason) == (outcome, "small_group")
    assert (hindu.kind, hindu.confidence) == ("champion", 0.95)
    assert hindu.bound == (ends[0] if gap else ends[1])
    assert hindu.not_excluded == (ends[1] if gap else -ends[0])


@pytest.mark.parametrize(("n", "outcome"), [(9, "insufficient"), (10, "skipped")])
def test_a_bound_of_fewer_than_ten_rows_excludes_no_loss_against_the_champion(n, outcome):
    whole, hindu = judge_change(-0.01, 0.01, n=n)
    assert (hindu.outcome, hindu.not_excluded is None) == (outcome, outcome == "insufficient")
    assert whole == ("pass" if outcome == "skipped" else outcome)


def test_a_group_that_its_rows_say_nothing_about_lacks_evidence_though_its_category_passes():
    verdict = judge_rule(evidence_of(build_report(CATEGORIES, hindu=(UNDEFINED, 0))))
    hindu = group_results(verdict)["hindu"]
    assert (verdict.outcome, hindu.outcome, hindu.judged_in) == (
        "insufficient",
        "insufficient",
        "religion",
    )
    assert (hindu.reason, hindu.value, hindu.not_excluded) == ("small_group", None, None)
    assert hindu.rows_needed == {"negative": 25}
    assert "not_excluded" not in hindu.to_dict()


def list_unmeasured(*names):
    return SmallGroups(not_measured=dict.fromkeys(names, "no such comments; until 2026-12-31"))


@pytest.mark.parametrize("small", [(UNDEFINED, 0), (UNCLEAR, 5)])
def test_a_group_that_is_known_not_to_be_measured_does_not_block(small):
    evidence = evidence_of(
        build_report(hindu=small, muslim=(GOOD, 95)), small_groups=list_unmeasured("hindu")
    )
    verdict = judge_rules({list_needed_evidence([FLOOR])[0]: evidence}, [FLOOR])
    hindu = group_results(verdict)["hindu"]
    assert (verdict.outcome, hindu.outcome) == ("pass", "skipped")
    assert hindu.not_measured == "no such comments; until 2026-12-31"
    assert (hindu.reason, hindu.judged_in) == ("small_group", None)


def test_a_hint_is_given_where_a_group_lacks_evidence_and_only_there():
    hint = "Its entry ended on 2026-11-01."
    for own, lacks in (((UNDEFINED, 0), True), ((UNCLEAR, 5), False)):
        small = SmallGroups(hints={"hindu": hint})
        hindu = group_results(
            judge_rule(evidence_of(build_report(CATEGORIES, hindu=own), small_groups=small))
        )["hindu"]
        assert (hindu.outcome, hindu.hint) == (
            ("insufficient", hint) if lacks else ("skipped", None)
        )


def test_rows_that_are_worth_less_than_one_say_nothing_of_how_many_more_it_takes():
    rows = build_report(CATEGORIES, hindu=(cell(0.9, 0.6, 0.95), 3))
    worth = {"positive": 3.0, "negative": 0.9, "background_positive": 90, "background_negative": 90}
    rows["subgroups"]["hindu"] = rows["subgroups"]["hindu"] | {"effective": worth}
    assert group_results(judge_rule(evidence_of(rows)))["hindu"].rows_needed == {"negative": 25}


def test_a_group_on_that_list_that_its_category_stands_for_has_both():
    groups = build_report(CATEGORIES, hindu=(UNCLEAR, 5), muslim=(GOOD, 95))
    hindu = group_results(judge_rule(evidence_of(groups, small_groups=list_unmeasured("hindu"))))[
        "hindu"
    ]
    assert (hindu.reason, hindu.judged_in) == ("small_group", "religion")
    assert hindu.not_measured == "no such comments; until 2026-12-31"


def test_only_a_group_that_lacks_rows_for_the_rule_is_said_to():
    """Whoever has enough is judged all the same, so naming it as not measured would not help."""
    few = Rule("bpsn_auc", "each", floor=0.8, min_positives=1, min_negatives=5)
    for n, lacks in ((4, True), (5, False)):
        [hindu] = judge_rule(evidence_of(build_report(hindu=(UNCLEAR, n))), few).results
        assert (hindu.outcome, hindu.lacks_rows) == ("insufficient", lacks)
        tables = build_report(hindu=(UNCLEAR, n), muslim=(GOOD, 95))
        again = judge_rule(evidence_of(tables, small_groups=list_unmeasured("hindu")), few)
        assert again.outcome == ("pass" if lacks else "insufficient")
    hindu_result = group_results(
        judge_rule(evidence_of(build_report(CATEGORIES, hindu=(UNDEFINED, 0))))
    )["hindu"]
    assert hindu_result.lacks_rows


def test_a_group_on_that_list_that_has_enough_rows_is_judged_all_the_same():
    evidence = evidence_of(
        build_report(CATEGORIES, muslim=(BAD, 95)), small_groups=list_unmeasured("muslim")
    )
    assert judge_rule(evidence).outcome == "fail"


def test_a_group_on_that_list_is_neither_the_worst_nor_in_an_aggregate():
    rule = replace(FLOOR, scope="worst")
    evidence = evidence_of(
        build_report(hindu=(UNDEFINED, 0), muslim=(GOOD, 95)), small_groups=list_unmeasured("hindu")
    )
    worst, hindu = judge_rules({list_needed_evidence([rule])[0]: evidence}, [rule]).results
    assert (worst.group, worst.outcome, hindu.outcome) == ("muslim", "pass", "skipped")
    assert list_covered_groups(rule, evidence, ["hindu", "muslim"]) == ("muslim",)


def test_where_everybody_is_on_that_list_nothing_passes():
    rule = replace(FLOOR, scope="worst")
    evidence = evidence_of(
        build_report(hindu=(UNDEFINED, 0)), small_groups=list_unmeasured("hindu")
    )
    verdict = judge_rules({list_needed_evidence([rule])[0]: evidence}, [rule])
    assert verdict.outcome == "insufficient"


def judge_change(low, high, *, n=12, metric="bpsn_auc", categories=("religion",), **small):
    """A small group beside its categories: its change against the champion, and the outcome."""
    gap = metric in GAPS
    equal = change(0.2, 0.2, -0.01, 0.01, gap=gap)
    own = change(0.3, 0.2, low, high, gap=gap) if gap else change(0.8, 0.8, low, high)
    champion = build_report(
        dict.fromkeys(categories, (equal, 100)), hindu=(own, n), gay=(equal, 99)
    )
    evidence = evidence_of(
        build_report(dict.fromkeys(categories, (GOOD, 100)), hindu=(GOOD, n), gay=(GOOD, 99)),
        champion,
        small_groups=SmallGroups(**small),
    )
    verdict = judge_rule(evidence, Rule(metric, "each", margin=0.05, min_negatives=25))
    return verdict.outcome, group_results(verdict)["hindu"]


@pytest.mark.parametrize(
    ("metric", "ends", "outcome"),
    [
        ("bpsn_auc", (-0.15, 0.1), "skipped"),
        ("bpsn_auc", (-0.151, 0.1), "insufficient"),
        ("negative_aeg", (-0.1, 0.3), "skipped"),
        ("negative_aeg", (-0.1, 0.301), "insufficient"),
    ],
)
def test_a_loss_that_stays_open_beyond_the_blind_margin_is_missing_evidence(metric, ends, outcome):
    whole, hindu = judge_change(*ends, metric=metric, blind=(0.15, 0.3))
    assert hindu.outcome == outcome
    assert whole == ("pass" if outcome == "skipped" else outcome)
    assert hindu.reason == "small_group"
    assert hindu.not_excluded == (ends[1] if metric in GAPS else -ends[0])
    assert hindu.blind == (0.3 if metric in GAPS else 0.15)


def test_a_category_of_categories_passes_nobody():
    outcome, hindu = judge_change(-0.1, 0.1, categories=("any",))
    assert (outcome, hindu.outcome, hindu.judged_in) == ("insufficient", "insufficient", None)
    assert (hindu.reason, hindu.lack) == ("small_group", Lack("negative", 12, 25))


def test_without_a_category_the_blind_margin_judges_by_the_few_rows():
    outcome, hindu = judge_change(-0.1, 0.1, categories=("any",), blind=(0.15, 0.3))
    assert (outcome, hindu.outcome, hindu.judged_in) == ("pass", "skipped", None)
    assert (hindu.reason, hindu.blind) == ("small_group", 0.15)
    outcome, hindu = judge_change(-0.2, 0.1, categories=("any",), blind=(0.15, 0.3))
    assert (outcome, hindu.outcome) == ("insufficient", "insufficient")


def test_what_is_left_open_what_would_be_seen_and_what_is_missing_by_hand():
    _, hindu = judge_change(-0.1, 0.1, n=20)
    # A bound .10 away: 80 % see .10 (1 + .8416 / 1.6449), and .05 needs four times the rows.
    assert hindu.not_excluded == pytest.approx(0.1)
    assert hindu.visible == pytest.approx(0.1 * POWER)
    assert hindu.rows_needed == {"negative": 60}


@pytest.mark.parametrize(
    ("rule", "own", "more"),
    [
        # The bound is .3 away and must come within .1: nine times 5 rows.
        (FLOOR, cell(0.9, 0.6, 0.95), 40),
        (Rule("negative_aeg", "each", ceiling=0.3, min_negatives=25), cell(0.2, 0.1, 0.5), 40),
        # Within .2 takes 2.25 times as many: 12, less than the 25 that the rule asks for.
        (replace(FLOOR, floor=0.7), cell(0.9, 0.6, 0.95), 20),
        # A value at its limit cannot be shown to be within it.
        (replace(FLOOR, floor=0.9), cell(0.9, 0.6, 0.95), 20),
        (FLOOR, cell(0.7, 0.6, 0.95), 20),
    ],
)
def test_the_rows_that_a_limit_needs_by_hand(rule, own, more):
    evidence = evidence_of(build_report(CATEGORIES, hindu=(own, 5), muslim=(GOOD, 95)))
    hindu = group_results(judge_rule(evidence, rule))["hindu"]
    assert hindu.rows_needed == {"negative": more}


@pytest.mark.parametrize(
    ("metric", "values"), [("bpsn_auc", (0.8, 0.8)), ("negative_aeg", (0.3, 0.2))]
)
def test_alone_the_change_has_both_values_and_what_it_leaves_open(metric, values):
    _, hindu = judge_change(*((-0.05, 0.1) if metric in GAPS else (-0.1, 0.05)), metric=metric)
    assert (hindu.reason, hindu.metric, hindu.kind) == ("small_group", metric, "champion")
    assert (hindu.value, hindu.rival) == values
    assert (hindu.not_excluded, hindu.limit) == (0.1, 0.05)
    assert hindu.rows_needed["negative"] > 0


def test_near_the_best_value_the_wider_side_decides_what_would_be_seen():
    perfect = cell(1.0, 0.67, 1.0)
    hindu = group_results(judge_rule(evidence_of(build_report(CATEGORIES, hindu=(perfect, 5)))))[
        "hindu"
    ]
    assert hindu.visible == pytest.approx(0.33 * POWER)


def test_of_a_better_group_no_loss_is_left_open():
    for low in (0.02, 0.0):
        _, hindu = judge_change(low, 0.1)
        assert (hindu.reason, hindu.not_excluded) == ("small_group", -low)


def test_a_number_that_is_not_finite_is_an_error_alone_too():
    infinite = cell(float("inf"), 0.5, 0.9)
    verdict = judge_rule(evidence_of(build_report(CATEGORIES, hindu=(infinite, 5))))
    assert verdict.outcome == "error"
    assert group_results(verdict)["hindu"].reason == "not_finite"


def test_a_category_without_support_leads_to_the_one_above_but_not_to_the_top():
    tree = Hierarchy({"religion": ("hindu",), "belief": ("religion",), "any": ("belief",)})
    rule, evidence = (
        FLOOR,
        build_report({"religion": (GOOD, 10), "belief": (GOOD, 40)}, hindu=(GOOD, 5)),
    )
    key = list_needed_evidence([rule])[0]
    verdict = judge_rules({key: evidence_of(evidence, small_groups=SmallGroups(tree))}, [rule])
    assert group_results(verdict)["hindu"].judged_in == "belief"
    assert list(tree.list_ancestors("hindu")) == ["religion", "belief", "any"]
    assert list(tree.list_substitutes("hindu")) == ["religion", "belief"]
    assert list(RELIGIONS.list_substitutes("gay")) == [
        "any"
    ]  # its own category, though it is the top


def test_where_no_category_has_support_the_group_is_insufficient_with_what_they_lack():
    few = {"religion": (GOOD, 10), "any": (GOOD, 400)}
    verdict = judge_rule(evidence_of(build_report(few, hindu=(GOOD, 5), other=(GOOD, 5))))
    results = group_results(verdict)
    assert verdict.outcome == "insufficient"
    of_religion = Lack("negative", 10, 25, group="religion")
    assert results["hindu"].lack == Lack("negative", 5, 25, categories=(of_religion,))
    assert (results["hindu"].reason, results["hindu"].judged_in) == ("small_group", None)
    assert (results["other"].reason, results["other"].lack) == (
        "few_rows",
        Lack("negative", 5, 25),
    )


def test_the_worst_is_sought_among_large_groups_and_categories():
    rule = replace(FLOOR, scope="worst")
    evidence = evidence_of(
        build_report(CATEGORIES, hindu=(UNCLEAR, 5), muslim=(cell(0.85, 0.81, 0.9), 95))
    )
    worst, hindu = judge_rule(evidence, rule).results
    assert (worst.scope, worst.group, worst.outcome) == ("worst", "muslim", "pass")
    assert worst.instead_of == ("hindu",)
    assert (hindu.group, hindu.judged_in, hindu.outcome) == ("hindu", "religion", "skipped")


def test_an_aggregate_covers_categories_instead_of_small_groups():
    rule = Rule("final_score", "aggregate", floor=0.8, min_positives=25, min_negatives=25)
    plain = build_report(CATEGORIES, hindu=(GOOD, 5), muslim=(GOOD, 95))
    evidence = evidence_of(plain, small_groups=SmallGroups(RELIGIONS))
    assert list_covered_groups(rule, evidence, ["hindu", "muslim"]) == ("religion", "muslim")
    few = build_report(
        {"religion": (GOOD, 10), "any": (GOOD, 400)}, hindu=(GOOD, 5), muslim=(GOOD, 95)
    )
    # The top may stand for somebody in what joins everybody.
    whole = replace(evidence, table=evidence_of(few).table)
    assert list_covered_groups(rule, whole, ["hindu", "muslim"]) == ("any", "muslim")
    plain["power_mean"] = plain["power_mean"] | {"groups": ["hindu", "muslim"]}
    evidence = evidence_of(plain, small_groups=SmallGroups(RELIGIONS))
    [lacking] = judge_rule(evidence, rule).results
    assert (lacking.reason, lacking.n_categories) == ("few_rows", 0)
    assert lacking.lack == Lack("positive", 5, 25, group="hindu")
    own = plain | {"power_mean": plain["power_mean"] | {"groups": ["religion", "muslim"]}}
    rolled = {rule.name: RolledAggregate(("religion", "muslim"), evidence_of(own))}
    result = judge_rule(replace(evidence, rolled_aggregates=rolled), rule).results[0]
    assert (result.outcome, result.instead_of) == ("pass", ("religion", "muslim"))
    assert (result.scope, result.metric, result.n_categories) == ("aggregate", "final_score", 1)


def test_small_groups_are_those_of_any_rule_and_limit():
    evidence = evidence_of(
        build_report(CATEGORIES, hindu=(GOOD, 5), muslim=(GOOD, 30), gay=(GOOD, 95)),
        small_groups=SmallGroups(RELIGIONS),
    )
    more = Rule("bpsn_auc", "worst", floor=0.8, margin=0.1, min_negatives=50)
    assert list_small_groups([FLOOR], evidence) == ["hindu"]
    assert list_small_groups([FLOOR, more], evidence) == ["hindu", "muslim"]


@pytest.mark.parametrize(
    ("categories", "message"),
    [
        ({"a": ("x",), "b": ("x",)}, "must have each name in one category; x is in two"),
        ({"a": ()}, "must have categories with names; a has none"),
        ({"a": ("b",), "b": ("a",)}, "must not go in circles; a is within itself"),
    ],
)
def test_a_hierarchy_that_is_none_is_refused(categories, message):
    with pytest.raises(ValueError, match=message):
        Hierarchy(categories)


def test_a_category_that_is_called_like_an_identity_is_left_out():
    assert RELIGIONS.group_identities(["religion", "hindu"]) == {"any": ("religion",)}
    assert RELIGIONS.group_identities(["deaf"]) == {}


def test_the_identities_of_civil_comments_are_in_five_categories_and_in_one():
    assert list(CIVIL_COMMENTS.list_ancestors("bisexual")) == ["sexual_orientation", "any_identity"]
    assert list(CIVIL_COMMENTS.list_ancestors("hindu")) == ["religion", "any_identity"]
    joined = CIVIL_COMMENTS.group_identities(["hindu", "muslim", "black"])
    assert joined["religion"] == ("muslim", "hindu")
    assert set(joined["any_identity"]) == {"hindu", "muslim", "black"}


def test_a_small_group_that_is_shown_to_be_bad_fails_alone():
    assert (
        group_results(judge_rule(evidence_of(build_report(CATEGORIES, hindu=(BAD, 5)))))[
            "hindu"
        ].outcome
        == "fail"
    )
