"""What several trainings show together, and whom a method harms first."""

import numpy as np
import pytest

from biasgate.tasks.mitigating import experiment_report
from biasgate.tasks.mitigating.measuring import (
    ScoredRows,
    general_numbers,
    harm,
    parts_of,
    set_numbers,
)
from biasgate.tasks.mitigating.outcome import outcome_of
from biasgate.tasks.mitigating.settings import Mitigation

METHODS = Mitigation.model_validate({"methods": ["reweight", "swap"]})


def numbers(bias, auc, fnr_of_gay=0.1):
    overall = {"auc": auc, "false_positive_rate": 0.1, "false_negative_rate": 0.1}
    cells = {"bpsn_auc": 0.9, "false_negative_rate": fnr_of_gay}
    of_set = {"overall": overall | {"fped": bias, "fned": bias, "pinned": bias}, "sums": {}}
    return {
        "threshold": 0.5,
        "general": overall,
        "sets": {"phrases": of_set | {"identities": {"gay": cells}}},
        "pairs": None,
    }


def trials(n=4, *, clean=False, swapped=0.9, undone=False):
    found = []
    for at in range(n):
        noise = 0.002 * (at % 3)
        methods = {
            "baseline": numbers(1 + noise, 0.9),
            "reweight": numbers(0.5, 0.9, fnr_of_gay=0.4 + noise / 10),
        }
        methods |= {} if undone else {"swap": numbers(1.5, swapped)}
        methods |= {"clean": numbers(0.0, 0.9)} if clean else {}
        undo = {"swap": "no terms."} if undone else {}
        rows = {"n_train": 70, "n_tuning": 15, "n_test": 15}
        found.append({"methods": methods, "undone": undo, "said": {}} | rows)
    return found


def outcome(found):
    return outcome_of(found, METHODS, "mine")


def test_a_method_that_makes_things_worse_is_named_in_the_first_line():
    first = outcome(trials())["sentences"][0]
    assert first.startswith("Worse: swap makes fped/phrases worse by +0.498")
    overall, _, of_groups = first.partition(" Worst for a group")
    assert "reweight" not in overall
    assert "reweight makes false_negative_rate of gay on phrases worse by +0.300" in of_groups


def test_a_lower_auc_is_worse():
    first = outcome(trials(swapped=0.8))["sentences"][0]
    assert "swap makes auc/general worse by -0.100" in first


def test_a_threshold_that_flags_more_harmless_comments_is_told_in_the_first_line():
    found = trials()
    for one in found:
        one["methods"]["swap"]["general"]["false_positive_rate"] = 0.9
    first = outcome(found)["sentences"][0]
    assert "swap makes false_positive_rate/general worse by +0.800" in first


def test_costs_come_with_the_worst_change_first():
    worst = outcome(trials())["costs"][0]
    assert (worst["method"], worst["identity"]) == ("reweight", "gay")
    assert worst["metric"] == "false_negative_rate"
    assert (worst["before"], worst["after"]) == pytest.approx((0.1, 0.4), abs=0.001)


def test_a_rate_that_is_the_same_on_every_split_has_no_interval():
    found = trials(2)
    for one in found:
        one["methods"]["swap"]["sets"]["phrases"]["identities"]["gay"]["bpsn_auc"] = 0.5
    content = outcome(found)
    [cost] = [one for one in content["costs"] if one["worse_by"]["value"] == pytest.approx(0.4)]
    assert (cost["metric"], cost["worse_by"]["low"], cost["worse_by"]["high"]) == (
        "bpsn_auc",
        None,
        None,
    )
    assert "bpsn_auc" not in content["sentences"][0]


def test_intervals_of_single_identities_say_that_they_are_over_splits_alone(tmp_path, monkeypatch):
    for name in ("log_results", "sections", "write_page"):
        monkeypatch.setattr(experiment_report, name, lambda *_: None)
    found = [{"key": "k"} | one for one in trials()]
    content = experiment_report.compare_methods.fn(found, METHODS, "mine", str(tmp_path), None)
    header = (tmp_path / "costs.csv").read_text("utf-8").splitlines()[0]
    assert header.endswith("worse_by,low_over_splits,high_over_splits")
    assert (
        "each the largest of many numbers, intervals over splits alone" in content["sentences"][0]
    )


def test_one_split_has_no_intervals_and_says_so_first():
    found = outcome(trials(1))
    assert "One split tells nothing" in found["sentences"][0]
    assert all(one["low"] is None for one in found["differences"] if one["value"] is not None)


def test_the_front_leaves_out_what_is_worse_in_both():
    found = outcome(trials(swapped=0.8))["pareto"]["phrases"]
    assert found["front"] == ["reweight"]
    assert set(found["points"]) == {"baseline", "reweight", "swap"}


def test_with_a_clean_training_set_the_recovered_share_is_known():
    found = outcome(trials(clean=True))["recovered"]
    half = next(one for one in found if one["method"] == "reweight")
    assert half["value"] == pytest.approx(0.5, abs=0.01)
    assert half["low"] < half["value"] < half["high"]


def test_a_method_that_could_not_be_done_is_told_with_its_reason():
    found = outcome(trials(undone=True))
    assert found["methods"] == ["baseline", "reweight"]
    assert "swap could not be done on 4 of 4 splits: no terms." in found["sentences"]


def test_an_undefined_number_is_null_with_a_reason():
    found = trials()
    found[0]["methods"]["swap"]["sets"]["phrases"]["overall"]["pinned"] = None
    cell = outcome(found)["means"]["swap"]["pinned/phrases"]
    assert cell == {"value": None, "reason": "undefined for a split"}


@pytest.mark.parametrize(
    ("metric", "before", "after", "worse"),
    [
        ("bpsn_auc", 0.9, 0.8, 0.1),
        ("false_negative_rate", 0.1, 0.3, 0.2),
        ("negative_aeg", -0.3, 0.1, -0.2),
        ("auc", 0.8, 0.9, -0.1),
    ],
)
def test_harm_is_above_0_if_a_number_became_worse(metric, before, after, worse):
    assert harm(metric, before, after) == pytest.approx(worse)


def test_identities_with_few_comments_of_a_class_are_left_out():
    labels = np.array([0, 1, 0, 1] * 10, bool)
    masks = {"gay": np.array([1, 1, 0, 0] * 10, bool), "tall": labels}
    masks["few"] = np.arange(40) < 18  # nine of each class
    found = set_numbers(ScoredRows(labels, np.array([0.9, 0.8, 0.1, 0.9] * 10), masks), 0.5)
    assert set(found["identities"]) == {"gay"}
    assert found["overall"]["fped"] == abs(1 / 2 - 1)


def with_rows(moved):
    """Splits that also know their numbers without each of two parts of the rows."""
    found = trials()
    for one in found:
        for method, numbers in one["methods"].items():
            of_set = numbers["sets"]["phrases"]
            shift = moved if method == "swap" else 0.0
            of_set["left_out"] = {
                key: [None if value is None else value + by for by in (shift, -shift)]
                for key, value in of_set["overall"].items()
            }
    return outcome(found)


def difference(found, method, number):
    [one] = [
        one
        for one in found["differences"]
        if (one["method"], one["number"], one["against"]) == (method, number, "baseline")
    ]
    return one


def test_intervals_add_the_variance_over_splits_and_over_measured_rows():
    alone, both = (difference(with_rows(moved), "swap", "fped/phrases") for moved in (0.0, 0.2))
    assert alone["row_std_error"] == pytest.approx(0)
    assert both["row_std_error"] == pytest.approx(0.2)  # (g - 1) / g of 0.2^2 + 0.2^2
    assert both["std_error"] == pytest.approx(np.hypot(alone["std_error"], 0.2))


def test_without_parts_of_the_rows_an_interval_is_over_splits_alone():
    assert "row_std_error" not in difference(outcome(trials()), "swap", "fped/phrases")


def test_bias_against_quality_has_intervals_over_rows_too():
    point = with_rows(0.2)["pareto"]["phrases"]["points"]["swap"]
    assert point["bias"]["row_std_error"] == pytest.approx(0.4)  # of both sums, which move alike
    assert "row_std_error" not in point["quality"]


def test_clusters_are_left_out_whole():
    names = ["a", "b", "a", "c"]
    parts = parts_of(names)
    assert parts[0] == parts[2]
    assert sorted(set(parts.tolist())) == [0, 1, 2]
    assert parts_of(["a", "a"]) is None


def test_the_numbers_of_a_set_are_measured_again_without_each_part():
    labels = np.array([0, 1, 0, 1] * 10, bool)
    scores = np.linspace(0, 1, 40)
    masks = {"gay": np.ones(40, bool)}
    parts = np.arange(40) % 4
    found = set_numbers(ScoredRows(labels, scores, masks, parts), 0.5)
    kept = parts != 1
    few = ScoredRows(labels[kept], scores[kept], {"gay": masks["gay"][kept]})
    assert found["left_out"]["auc"][1] == general_numbers(few, 0.5)["auc"]
    assert {len(values) for values in found["left_out"].values()} == {4}
