"""How the metrics change with the toxicity threshold and with the raters' agreement."""

import json

import numpy as np
import pytest

from bias_metrics import MetricValue, evaluate_bias, label_sensitivity

METRICS = ("subgroup_auc", "bpsn_auc", "bnsp_auc", "positive_aeg", "negative_aeg")

# Rows 0 to 3 are background, 4 to 7 mention g; row 5 is the one that thresholds move.
FRACTIONS = [0.0, 0.2, 0.8, 1.0, 0.0, 0.4, 0.6, 1.0]
SCORES = [0.1, 0.3, 0.6, 0.9, 0.2, 0.7, 0.5, 0.8]
IN_G = [0, 0, 0, 0, 1, 1, 1, 1]


@pytest.fixture
def rows():
    """400 rows of ten raters each; scores follow the fractions loosely."""
    rng = np.random.default_rng(11)
    fractions = rng.integers(0, 11, 400) / 10
    scores = 0.4 * fractions + rng.random(400)
    groups = {"a": rng.random(400) < 0.3, "b": rng.random(400) < 0.2}
    return fractions, scores, groups


def test_subgroup_auc_at_two_thresholds_is_the_fraction_of_pairs_counted_by_hand():
    moved = label_sensitivity(FRACTIONS, SCORES, {"g": IN_G}, thresholds=(0.4, 0.5))
    cells = {t: report.subgroups["g"] for t, report in moved.by_threshold.items()}
    # At .4 the only negative is .2; at .5 the row of score .7 is a negative too.
    assert cells[0.4].subgroup_auc == MetricValue(3 / 3)
    assert cells[0.5].subgroup_auc == MetricValue((2 + 1) / 4)
    assert moved.spread("g", "subgroup_auc") == MetricValue(3 / 3 - 3 / 4)
    # Background positives are .6 and .9 either way; the new negative .7 loses to one of them.
    assert cells[0.4].bpsn_auc == MetricValue(2 / 2)
    assert cells[0.5].bpsn_auc == MetricValue((2 + 1) / 4)


def test_contested_agreed_and_unanimous_rows_of_eight_are_those_counted_by_hand():
    moved = label_sensitivity(FRACTIONS, SCORES, {"g": IN_G}, contested=(0.3, 0.7))
    assert (moved.contested.overall.n, moved.agreed.overall.n, moved.unanimous.overall.n) == (
        2,
        6,
        4,
    )
    assert moved.contested.overall.auc == MetricValue(0.0)  # .7 is no toxic, .5 is
    assert moved.unanimous.overall.auc == MetricValue(4 / 4)


def test_a_row_on_a_bound_is_contested():
    moved = label_sensitivity(FRACTIONS, SCORES, {"g": IN_G}, contested=(0.4, 0.8))
    assert (moved.contested.overall.n, moved.agreed.overall.n) == (3, 5)


def test_a_row_exactly_at_a_threshold_is_toxic():
    moved = label_sensitivity(FRACTIONS, SCORES, {"g": IN_G}, thresholds=(0.6, 0.61))
    assert [report.overall.n_positive for report in moved.by_threshold.values()] == [4, 3]


def test_every_threshold_gives_the_very_report_of_evaluate_bias(rows):
    fractions, scores, groups = rows
    moved = label_sensitivity(*rows)
    assert list(moved.by_threshold) == [0.3, 0.4, 0.5, 0.6, 0.7]
    for threshold, report in moved.by_threshold.items():
        assert report == evaluate_bias(fractions >= threshold, scores, groups, intervals=False)


def test_every_part_gives_the_very_report_of_its_own_rows(rows):
    fractions, scores, groups = rows
    moved = label_sensitivity(*rows, contested=(0.4, 0.6))
    parts = {
        "contested": [0.4 <= f <= 0.6 for f in fractions],
        "agreed": [not 0.4 <= f <= 0.6 for f in fractions],
        "unanimous": [f in (0, 1) for f in fractions],
    }
    for name, part in parts.items():
        members = {group: mask[part] for group, mask in groups.items()}
        expected = evaluate_bias(fractions[part] >= 0.5, scores[part], members, intervals=False)
        assert getattr(moved, name) == expected


@pytest.mark.parametrize("metric", METRICS)
def test_the_spread_is_the_largest_minus_the_smallest_value(rows, metric):
    moved = label_sensitivity(*rows)
    found = [getattr(report.subgroups["a"], metric).value for report in moved.by_threshold.values()]
    assert moved.spread("a", metric).value == max(found) - min(found) > 0


def test_labels_without_disagreement_do_not_move_with_the_threshold():
    fractions = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    moved = label_sensitivity(fractions, SCORES, {"g": IN_G})
    assert all(moved.spread("g", metric) == MetricValue(0.0) for metric in METRICS)
    assert moved.unanimous == moved.agreed == moved.by_threshold[0.5]
    assert moved.contested.overall.auc == MetricValue(None, "no negatives and no positives")


def test_a_metric_without_rows_at_some_threshold_has_no_spread():
    moved = label_sensitivity([0.2, 0.6, 0.2, 0.6], SCORES[:4], {"g": [0, 0, 1, 1]})
    assert moved.spread("g", "bpsn_auc") == MetricValue(None, "undefined at threshold 0.7")


def test_thresholds_of_float32_fractions_are_met_exactly():
    fractions = np.array([0.3, 0.7], dtype=np.float32)
    moved = label_sensitivity(fractions, [0.1, 0.2], {}, thresholds=(0.3, 0.7))
    assert [report.overall.n_positive for report in moved.by_threshold.values()] == [2, 1]
    assert moved.contested.overall.n == 2


def test_sensitivity_passes_through_strict_json_unchanged(rows):
    plain = label_sensitivity(*rows, thresholds=(0.3, 0.300001)).to_dict()
    assert list(plain) == ["by_threshold", "spread", "contested", "agreed", "unanimous"]
    assert list(plain["by_threshold"]) == ["0.3", "0.300001"]
    assert list(plain["spread"]["a"]) == list(METRICS)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


@pytest.mark.parametrize("thresholds", [(), (0.5, 0.5), (0.0,), (1.5,), (float("nan"),)])
def test_wrong_thresholds_are_refused(thresholds):
    message = r"^`thresholds` must be different numbers in \(0, 1\]; got \(.*\)\.$"
    with pytest.raises(ValueError, match=message):
        label_sensitivity(FRACTIONS, SCORES, {}, thresholds=thresholds)


def test_all_raters_may_have_to_agree_and_one_fraction_be_contested():
    moved = label_sensitivity(
        [0.0, 0.5, 0.5, 1.0], [0.1, 0.2, 0.3, 0.4], {}, thresholds=(1.0,), contested=(0.5, 0.5)
    )
    assert moved.by_threshold[1.0].overall.n_positive == 1
    assert moved.contested.overall.n == 2


def test_raters_are_divided_from_three_to_seven_of_ten_unless_said_otherwise(rows):
    asked = {"thresholds": (0.3, 0.4, 0.5, 0.6, 0.7), "contested": (0.3, 0.7)}
    assert label_sensitivity(*rows) == label_sensitivity(*rows, **asked)


def test_a_record_has_the_part_of_the_rows_that_it_covers(rows):
    found = label_sensitivity(*rows, thresholds=(0.3, 0.5))
    parts = {"toxic at 0.3": found.by_threshold[0.3], "toxic at 0.5": found.by_threshold[0.5]}
    parts |= {name: getattr(found, name) for name in ("contested", "agreed", "unanimous")}
    expected = [{"part": name} | row for name, report in parts.items() for row in report.rows()]
    assert found.rows() == expected


@pytest.mark.parametrize("contested", [(0.0, 0.7), (0.3, 1.0), (0.7, 0.3)])
def test_wrong_bounds_are_refused(contested):
    message = r"^`contested` must be two ascending numbers inside \(0, 1\); got \(.*\)\.$"
    with pytest.raises(ValueError, match=message):
        label_sensitivity(FRACTIONS, SCORES, {}, contested=contested)


@pytest.mark.parametrize(("wrong", "shown"), [(-0.5, "-0.5"), (1.5, "1.5"), (7.0, "7")])
def test_a_label_that_is_no_fraction_is_refused_with_its_row(wrong, shown):
    message = rf"^`label_fraction` must be in \[0, 1\]; got {shown} \(row 1\)\.$"
    with pytest.raises(ValueError, match=message):
        label_sensitivity([0.5, wrong], [0.1, 0.2], {})


@pytest.mark.parametrize(
    ("scores", "groups", "name"),
    [([0.1], {}, "y_score"), ([0.1, 0.2], {"g": [1]}, "subgroups['g']")],
)
def test_scores_and_masks_must_have_the_rows_of_the_labels(scores, groups, name):
    with pytest.raises(ValueError, match="must have 2 rows like `label_fraction`") as refused:
        label_sensitivity([0.0, 1.0], scores, groups)
    assert str(refused.value).startswith(f"`{name}` ")
