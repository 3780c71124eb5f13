"""The number beside the verdict is that of the check that failed worst, else the lowest AUC."""

import numpy as np
import pytest
from support.html_page import read_page
from support.judged import by_place, judge, rows, summary_of

from bias_metrics.metrics import FINAL_SCORE_PARTS
from biasgate.tasks.reporting.page.page import candidate_page, evaluation_page
from biasgate.tasks.reporting.page.rendering import render

NAMES = ["gay", "muslim", "deaf"]
FLOOR = {"metric": "bpsn_auc", "scope": "each", "floor": 0.8}


def focus_of(judged):
    """The texts of the box, and its classes."""
    found = list(read_page(render(candidate_page(*judged))).find("div", class_="focus"))
    return [([line.text for line in one.find("p")], one.classes) for one in found]


def shown(report, name, metric):
    cell = getattr(report.bias.subgroups[name], metric)
    return f"{cell.value:.3f} [{cell.low:.3f}, {cell.high:.3f}]"


def test_a_failed_limit_is_shown_with_the_limit(tmp_path):
    judged = judge(tmp_path, rows(NAMES), rules=[FLOOR])
    [(lines, classes)] = focus_of(judged)
    value = shown(judged[0], "gay", "bpsn_auc")
    assert lines == ["Worst treated", "gay", value, "BPSN AUC; floor 0.8"]
    assert "fail" in classes


def test_worse_than_the_champion_is_shown_as_the_difference(tmp_path):
    rule = {"metric": "bpsn_auc", "scope": "each", "margin": 0.02}
    judged = judge(tmp_path, rows(NAMES, champion=True), rules=[rule])
    [(lines, classes)] = focus_of(judged)
    difference = judged[2].champion["subgroups"]["gay"]["bpsn_auc"]["value"]
    assert lines[1] == "gay"
    assert lines[2].startswith(f"{difference:+.3f} [".replace("-", "\N{MINUS SIGN}"))
    assert lines[3] == "BPSN AUC minus the champion's; margin 0.02"
    assert "fail" in classes


def test_without_a_failed_check_it_is_the_lowest_auc_of_the_identity_to_look_at_first(tmp_path):
    judged = judge(tmp_path, rows(NAMES), rules=[FLOOR | {"floor": 0.3}])
    report = judged[0]
    name = report.look_first.subgroup
    cells = report.bias.subgroups[name]
    metric = min(FINAL_SCORE_PARTS, key=lambda one: getattr(cells, one).value)
    [(lines, classes)] = focus_of(judged)
    assert lines[:3] == ["Lowest AUC", name, shown(report, name, metric)]
    assert "fail" not in classes


@pytest.mark.parametrize(
    "rule",
    [
        {"metric": "fpr_gap", "scope": "each", "ceiling": 0.01, "threshold": "given"},
        {"metric": "subgroup_auc", "scope": "each", "floor": 0.99, "slice": "short"},
    ],
    ids=["a rate at a threshold", "a slice"],
)
def test_a_number_that_no_table_draws_is_left_to_the_words(tmp_path, rule):
    columns = rows(NAMES)
    columns["slice/short"] = np.arange(columns["label"].size) % 2 == 0
    assert focus_of(judge(tmp_path, columns, rules=[rule])) == []


def test_each_candidate_has_its_own(tmp_path):
    judged = [
        judge(tmp_path / str(shift), rows(NAMES, shift=shift), name=str(shift), rules=[FLOOR])
        for shift in (0.8, 0)
    ]
    page = evaluation_page(summary_of(judged), by_place(judged))
    lines = list(read_page(render(page)).one("ul", class_="verdicts").find("li"))
    assert [one.one("div", class_="focus").one("p").text for one in lines] == [
        "Worst treated",
        "Lowest AUC",
    ]
