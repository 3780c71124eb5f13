"""Decisions that change: by hand, exact intervals that hold together, and the gate's limits."""

import numpy as np
import pytest

from bias_metrics import Rows, changed_decisions, compare_bias, evaluate_bias
from bias_metrics.gate import Evidence, Rule, judge_rules
from bias_metrics.metrics import list_changed_metrics

#        harmless            toxic
Y_TRUE = [0, 0, 0, 0, 0, 1, 1, 1, 1]
FIRST = [9, 1, 9, 1, 1, 1, 9, 1, 1]
SECOND = [1, 9, 9, 1, 1, 9, 1, 1, 9]
AT = {"threshold_a": 5, "threshold_b": 5}


def test_the_changes_of_nine_rows_are_those_counted_by_hand():
    rows = Rows(Y_TRUE, {"all": [1] * 9, "few": [1, 0, 0, 0, 0, 0, 0, 0, 1], "none": [0] * 9})
    subgroups = changed_decisions(rows, FIRST, SECOND, **AT).subgroups
    counts = {
        name: [(share.count, share.n) for share in changed.values()]
        for name, changed in subgroups.items()
    }
    assert counts == {"all": [(1, 5), (2, 4)], "few": [(1, 1), (1, 1)], "none": [(0, 0), (0, 0)]}
    assert subgroups["none"]["newly_flagged"].reason == "no rows"
    assert subgroups["none"]["newly_flagged"].value is None
    swapped = changed_decisions(rows, SECOND, FIRST, **AT).subgroups["all"]
    assert [(share.count, share.n) for share in swapped.values()] == [(1, 5), (1, 4)]


def test_changes_are_found_by_subgroup_and_direction():
    changes = changed_decisions(Rows(Y_TRUE, {"all": [1] * 9}), FIRST, SECOND, **AT)
    assert changes["all"] is changes.subgroups["all"]
    assert changes["newly_flagged", "all"] is changes.subgroups["all"]["newly_flagged"]
    with pytest.raises(KeyError, match=r"there is no 'gay' \(known: all\)"):
        changes["newly_flagged", "gay"]
    with pytest.raises(KeyError, match=r"no 'newly_flaged' \(known: newly_flagged, newly_missed\)"):
        changes["newly_flaged", "all"]


def test_intervals_are_exact_and_hold_together():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    y_true = rng.random(500) < 0.4
    groups = {name: rng.random(500) < share for name, share in (("a", 0.1), ("b", 0.4))}
    first, second = rng.random(500), rng.random(500)
    changes = changed_decisions(
        Rows(y_true, groups), first, second, threshold_a=0.5, threshold_b=0.5, confidence=0.9
    )
    for changed in changes.subgroups.values():
        for counted in changed.values():
            interval = stats.binomtest(counted.count, counted.n).proportion_ci(1 - 0.1 / 4, "exact")
            assert (counted.low, counted.high) == pytest.approx(tuple(interval), rel=1e-6)


def test_models_that_decide_alike_may_change_as_much_as_the_rows_leave_open():
    rows = Rows([0] * 30 + [1] * 30, {"a": [1] * 60})
    scores = np.tile([1.0, 9.0], 30)
    share = changed_decisions(rows, scores, scores, **AT).subgroups["a"]["newly_flagged"]
    assert (share.count, share.low) == (0, 0.0)
    assert share.high == pytest.approx(1 - (0.05 / 2 / 2) ** (1 / 30), rel=1e-6)


def test_in_clusters_rows_are_worth_less_and_few_clusters_have_no_interval():
    rng = np.random.default_rng(1)
    y_true = rng.random(400) < 0.5
    codes = np.arange(400) // 8
    flips = (rng.random(50) < 0.2)[codes]
    second = rng.random(400)
    first = np.where(flips, 1 - second, second)
    thresholds = {"threshold_a": 0.5, "threshold_b": 0.5}
    by_row, clustered, few = (
        changed_decisions(
            Rows(y_true, {"a": [1] * 400}, clusters=clusters), first, second, **thresholds
        ).subgroups["a"]["newly_flagged"]
        for clusters in (None, codes, codes % 5)
    )
    assert by_row.count == clustered.count == few.count
    assert clustered.low < by_row.low < by_row.high < clustered.high
    assert (few.low, few.reason) == (None, "5 clusters where 20 are needed")


def test_weights_are_refused():
    with pytest.raises(ValueError, match="changed_decisions"):
        changed_decisions(Rows(Y_TRUE, {}, sample_weight=[1, 2] * 4 + [1]), FIRST, SECOND, **AT)


@pytest.mark.parametrize(("n_changed", "outcome"), [(0, "pass"), (4, "insufficient"), (40, "fail")])
def test_a_policy_limits_how_many_decisions_change(n_changed, outcome):
    y_true = np.arange(400) % 2 == 1
    second = y_true * 1.0
    first = second.copy()
    first[: 2 * n_changed : 2] = 1.0  # harmless comments that are flagged
    rule = Rule("newly_flagged", "each", margin=0.03, threshold="given")
    rows = Rows(y_true, {"a": [1] * 400})
    options = {"confidence": rule.level}
    table = evaluate_bias(rows, first, threshold=0.5, **options)
    compared = compare_bias(rows, first, second, thresholds=(0.5, 0.5), **options)
    changes = Evidence(table.add_numbers(compared, against="champion"))
    [result] = judge_rules({(None, rule.level): changes}, [rule]).results
    assert (result.outcome, result.value, result.rival) == (outcome, n_changed / 200, 0.0)
    reasons = {"pass": "met", "fail": "not_met", "insufficient": "undecided"}
    assert (result.reason, result.kind, result.limit) == (reasons[outcome], "champion", 0.03)


@pytest.mark.parametrize("limit", ["floor", "ceiling"])
@pytest.mark.parametrize("metric", list_changed_metrics())
def test_only_a_margin_limits_changed_decisions(metric, limit):
    with pytest.raises(ValueError, match="`margin` or `reference_margin` must limit"):
        Rule(metric, "each", threshold="given", **{limit: 0.1})


def test_of_rows_that_are_no_sample_the_counts_are_all():
    changes = changed_decisions(Rows(Y_TRUE, {"all": [1] * 9}), FIRST, SECOND, **AT)
    share = changes.drop_intervals().subgroups["all"]["newly_flagged"]
    assert (share.count, share.n, share.low, share.high) == (1, 5, None, None)
