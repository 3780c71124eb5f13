"""Every result prints as a table, renders in a notebook and converts to a data frame."""

import csv
import importlib
import inspect
import io
import json
import pkgutil
from functools import cache

import numpy as np
import pytest

import bias_metrics
from bias_metrics import (
    Difference,
    MetricValue,
    Rows,
    compare_bias,
    evaluate_bias,
    intersections,
)
from bias_metrics._core.tables import MAX_ROWS, Table, Tabular, flatten_values
from bias_metrics.gate.decision import judge_rules
from bias_metrics.gate.rules import Rule
from bias_metrics.gate.verdict import Evidence

HOSTILE = "<img src=x onerror=alert(1)>&\"'"
Y_TRUE = np.array([0, 1] * 30, dtype=bool)
Y_SCORE = np.round(np.random.default_rng(0).random(60), 2)
GROUPS = {HOSTILE: np.arange(60) < 30, "gay": np.arange(60) % 3 == 0, "none": np.zeros(60, bool)}
ROWS = (Y_TRUE, Y_SCORE, GROUPS)
CHECKED = Rows(Y_TRUE, GROUPS)


# Every public function that returns a result.


RESULTS = {
    "calibration_report": lambda f: f(CHECKED, Y_SCORE),
    "compare_bias": lambda f: f(Y_TRUE, Y_SCORE, Y_SCORE[::-1], GROUPS),
    "compare_calibration": lambda f: f(CHECKED, Y_SCORE, Y_SCORE[::-1]),
    "compare_candidates": lambda f: f(Y_TRUE, {"new": Y_SCORE[::-1]}, Y_SCORE, GROUPS),
    "changed_decisions": lambda f: f(
        CHECKED, Y_SCORE, Y_SCORE[::-1], threshold_a=0.5, threshold_b=0.4
    ),
    "decision_indicators": lambda f: f(CHECKED, Y_SCORE, threshold=0.5),
    "equal_error_rate": lambda f: f(Y_TRUE, Y_SCORE),
    "error_rates": lambda f: f(Y_TRUE, Y_SCORE, threshold=0.5),
    "evaluate_bias": lambda f: f(*ROWS),
    "evaluate_slices": lambda f: f(CHECKED, Y_SCORE, slices={HOSTILE: GROUPS[HOSTILE]}),
    "fned": lambda f: f(*ROWS),
    "fped": lambda f: f(*ROWS),
    "intersections": lambda f: f(GROUPS, y_true=Y_TRUE),
    "marked_rows": lambda f: f(np.arange(60) % 7 == 0, GROUPS),
    "pinned_auc_equality_difference": lambda f: f(*ROWS),
    "rate_gaps": lambda f: f(CHECKED, Y_SCORE, threshold=0.5),
    "roll_up": lambda f: f({"black": GROUPS["gay"]}, {HOSTILE: ["black", "white"], "b": ["x"]}),
    "threshold_report": lambda f: f(*ROWS, threshold=0.5),
    "threshold_table": lambda f: f(*ROWS),
    "transfer_threshold": lambda f: f(Y_SCORE, Y_SCORE[::-1], GROUPS, threshold=0.5),
}
# What a table of numbers returns.
OF_A_TABLE = {
    "difference": lambda: evaluate_bias(*ROWS).difference("bpsn_auc"),
    "worst": lambda: evaluate_bias(*ROWS).worst("bpsn_auc"),
}
# Those that return a plain value, masks or ranks.
PLAIN = {
    *("bnsp_auc", "bpsn_auc", "final_score", "negative_aeg", "pinned_auc", "positive_aeg"),
    *("compute_bias_metrics_for_model", "equal_error_range", "power_mean", "roc_auc"),
    "subgroup_auc",
}
SHOWN_IN_NO_NAME = {"equal_error_rate", "error_rates"}


@cache
def make_result(name):
    if name in OF_A_TABLE:
        return OF_A_TABLE[name]()
    return RESULTS[name](getattr(bias_metrics, name))


every_result = pytest.mark.parametrize("name", [*RESULTS, *OF_A_TABLE])


def test_no_function_is_forgotten():
    functions = {n for n in bias_metrics.__all__ if inspect.isfunction(getattr(bias_metrics, n))}
    assert set(RESULTS) | PLAIN == functions


def test_every_type_of_result_is_importable_from_a_public_module():
    faces = {"bias_metrics": bias_metrics}
    for module in pkgutil.walk_packages(bias_metrics.__path__, "bias_metrics."):
        member = importlib.import_module(module.name)
        if "._" not in module.name:
            faces[module.name] = member
    names = {cls.__name__ for cls in Tabular.__subclasses__()}
    assert len(names) > 25
    assert names <= {
        name for face in faces.values() for name in getattr(face, "__all__", vars(face))
    }


@every_result
def test_rows_are_flat_records_with_the_same_keys(name):
    rows = make_result(name).rows()
    assert rows
    assert all(list(row) == list(rows[0]) for row in rows)
    allowed = str | int | float | bool | None
    assert all(isinstance(value, allowed) for row in rows for value in row.values())
    csv.DictWriter(io.StringIO(), rows[0]).writerows(rows)


@every_result
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_has_the_rows_and_columns_of_the_records(name, library):
    pytest.importorskip(library)
    rows = make_result(name).rows()
    frame = make_result(name).to_frame(library)
    assert list(frame.columns) == list(rows[0])
    assert len(frame) == len(rows)


@every_result
def test_a_result_prints_as_a_table_and_shows_as_one(name):
    text, html = str(make_result(name)), make_result(name)._repr_html_()
    assert text.count("\n") >= 1
    assert html.count("<table>") == 1
    assert html.count("<tr>") <= text.count("\n") + 1


@every_result
def test_a_name_cannot_put_markup_into_a_notebook(name):
    html = make_result(name)._repr_html_()
    assert "<img" not in html
    named = name not in SHOWN_IN_NO_NAME
    if named and "onerror" in str(make_result(name)):
        assert "&lt;img src=x onerror=alert(1)&gt;&amp;&quot;&#x27;" in html


def test_a_verdict_is_a_table_of_what_each_rule_says():
    rules = [Rule("bpsn_auc", "each", floor=0.1, mode="estimate")]
    evidence = {(None, rules[0].level): Evidence(evaluate_bias(*ROWS))}
    verdict = judge_rules(evidence, rules)
    first, header, *lines = str(verdict).splitlines()
    assert first == f"verdict: {verdict.outcome}"
    assert header.split() == ["rule", "group", "outcome", "reason"]
    assert [row["outcome"] for row in verdict.rows()] == [
        result.outcome for result in verdict.results
    ]
    assert len(lines) == len(verdict.results) == 3
    assert "<img" not in verdict._repr_html_()


def test_an_undefined_number_is_none_beside_its_reason():
    rows = evaluate_bias(*ROWS).rows()
    [row] = [row for row in rows if (row["group"], row["metric"]) == ("none", "bnsp_auc")]
    assert (row["value"], row["low"], row["reason"]) == (None, None, "no subgroup positives")


def test_a_report_prints_each_metric_with_its_interval():
    report = evaluate_bias(*ROWS)
    first, header, _, gay, none = str(report).splitlines()
    assert first.startswith(
        f"60 rows, 30 positive; AUC {report.overall.auc}; final score undefined"
    )
    assert header.split() == [
        *("subgroup", "n", "n_positive", "subgroup_auc", "bpsn_auc", "bnsp_auc"),
        *("positive_aeg", "negative_aeg"),
    ]
    assert gay.startswith("gay ")
    assert str(report.subgroups["gay"].bpsn_auc) in gay
    assert none.count("undefined (no subgroup") == 5


def test_the_rows_of_a_report_hold_all_its_numbers():
    report = evaluate_bias(*ROWS)
    numbers = {(row["group"], row["metric"]): row["value"] for row in report.rows()}
    assert len(numbers) == 5 * 3 + 5
    assert numbers["gay", "bpsn_auc"] == report.subgroups["gay"].bpsn_auc.value
    assert numbers[None, "auc"] == report.overall.auc.value
    assert numbers[None, "bpsn_auc"] == report.overall.bpsn_auc.value


def test_a_comparison_marks_what_is_shown():
    y_true, gay = np.tile([False, True], 400), np.arange(800) % 4 < 2
    noise = np.random.default_rng(1).random(800)
    groups = {"gay": gay, "none": gay & False}
    comparison = compare_bias(y_true, y_true + noise / 2, noise, groups)
    header, *lines = str(comparison).splitlines()[1:]
    assert header.split()[:4] == ["subgroup", "n", "n_positive", "subgroup_auc"]
    assert f"{comparison.subgroups['gay'].subgroup_auc} *" in lines[0]
    assert lines[-1] == "* shown at 95% confidence after Holm's adjustment"
    assert "*" not in lines[1]
    rows = comparison.rows()
    assert {"first", "second", "value", "low", "high", "p_holm", "reason"} < set(rows[0])
    assert len(rows) == 2 * 5 + 5


@pytest.mark.parametrize(
    ("difference", "text"),
    [
        (Difference(0.9, 0.8, 0.1, low=0.05, high=0.15), "+0.100 [+0.050, +0.150]"),
        (Difference(0.9, 0.8, 0.1), "+0.100"),
        (Difference(None, 0.8, reason="no negatives"), "undefined (no negatives)"),
    ],
)
def test_a_difference_prints_with_its_interval_or_its_reason(difference, text):
    assert str(difference) == text
    assert difference.rows()[0]["reason"] == difference.reason


def test_a_long_result_is_cut_and_says_so():
    table = Table.from_records([{"i": i} for i in range(MAX_ROWS + 5)])
    assert table.to_text().splitlines()[-1] == "... and 5 more rows"
    assert table.to_html().count("<tr>") == MAX_ROWS + 1
    whole = Table.from_records([{"i": i} for i in range(MAX_ROWS)]).to_text().splitlines()
    assert (len(whole), whole[-1]) == (MAX_ROWS + 1, str(MAX_ROWS - 1))


def test_a_title_stands_above_a_table_and_notes_below_it():
    table = Table(["i"], [["1"]], "first\nsecond", ["a note"])
    assert table.to_text().splitlines() == ["first", "second", "i", "1", "a note"]
    assert table.to_html() == (
        "<div><div>first</div><div>second</div><table><thead><tr><th>i</th></tr></thead>"
        "<tbody><tr><td>1</td></tr></tbody></table><div>a note</div></div>"
    )


def test_a_result_without_rows_still_prints():
    assert str(intersections({})) == ""
    assert "<table>" in intersections({})._repr_html_()


def test_texts_are_aligned_without_control_characters_and_numbers_stand_on_the_right():
    rows = [{"name": "a\x1b[2J\n", "n": 1234, "up": True}, {"name": "b", "n": 5, "up": False}]
    assert Table.from_records(rows).to_text().splitlines() == [
        "name        n  up",
        "a\ufffd[2J\ufffd  1,234  yes",
        "b           5  no",
    ]


def test_values_are_flattened_and_their_reasons_collected():
    plain = {
        "value": 0.5,
        "mean": MetricValue(None, "no rows").to_dict(),
        "auc": MetricValue(0.5, std_error=0.1, low=0.4, high=0.6).to_dict(interval=True),
        "quantiles": {"0.5": MetricValue(0.25).to_dict()},
        "undefined": {"gay": "no rows"},
        "tied": ["a", "b"],
        "reason": "few",
    }
    assert flatten_values(plain) == {
        "value": 0.5,
        "mean": None,
        "auc": 0.5,
        "auc_std_error": 0.1,
        "auc_low": 0.4,
        "auc_high": 0.6,
        "quantiles_0.5": 0.25,
        "undefined": "gay: no rows",
        "tied": "a, b",
        "reason": "few; mean: no rows",
    }


def test_a_frame_needs_its_library(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match=r"to_frame\(\) needs pandas.*pip install pandas"):
        evaluate_bias(*ROWS).to_frame()
    with pytest.raises(ValueError, match="`library` must be one of pandas, polars; got 'arrow'"):
        evaluate_bias(*ROWS).to_frame("arrow")


@every_result
def test_a_result_as_a_dict_passes_through_strict_json(name):
    plain = make_result(name).to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
