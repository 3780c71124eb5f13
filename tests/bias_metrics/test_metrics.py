"""The registry of metrics, which all code that lists metrics reads."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bias_metrics
from bias_metrics import compare_bias, evaluate_bias
from bias_metrics.gate.decision import judge_rules
from bias_metrics.gate.rules import Rule
from bias_metrics.gate.verdict import Evidence
from bias_metrics.metrics import (
    CLASSES,
    FINAL_SCORE_PARTS,
    METRICS,
    Metric,
    Rate,
    find_subgroup_metric,
    list_metrics,
)

LIBRARY = Path(bias_metrics.__file__).parent
TREES = [LIBRARY, *(LIBRARY.parent / name for name in ("tasks", "flows", "biasgate"))]


SIXTH = """
import sys
from pathlib import Path
from types import ModuleType

name, last = "bias_metrics.metrics", '    _make_aeg("negative", "harmless", "harmless"),\\n'
row = (
    'Metric("bpsp_auc", "BPSP AUC", ("subgroup",), Pair("positive", "positive"), '
    'question="{of}", harm="{group}"),'
)
sys.modules[name] = module = ModuleType(name)
source = Path(sys.argv[1]).read_text("utf-8")
assert last in source
exec(source.replace(last, last + row), vars(module))

import numpy as np
from bias_metrics import compare_bias, evaluate_bias
from bias_metrics.gate.decision import judge_rules
from bias_metrics.gate.rules import Rule
from bias_metrics.gate.verdict import Evidence

rng = np.random.default_rng(0)
y_true, groups = rng.random(400) < 0.5, {"gay": rng.random(400) < 0.3}
worse = y_true - 3 * (y_true & groups["gay"]) + rng.normal(0, 1, 400)
found = compare_bias(y_true, worse, y_true + rng.normal(0, 1, 400), groups)
table = evaluate_bias(y_true, worse, groups)
own = table.subgroups["gay"]
for shifted, gap in ((own.bpsp_auc.value, own.positive_aeg.value),
                     (own.bpsp_auc.low, own.positive_aeg.low)):
    assert abs(shifted - gap - 0.5) < 1e-12
assert found.subgroups["gay"].bpsp_auc.value == found.subgroups["gay"].positive_aeg.value
assert table.worst("bpsp_auc").subgroup == "gay"
assert "bpsp_auc" in [row["metric"] for row in table.rows()]
assert "bpsp_auc" in str(table)
evidence = Evidence(table.add_numbers(found, against="champion"))
rule = Rule("bpsp_auc", "each", floor=0.4)
verdict = judge_rules({(None, rule.level): evidence}, [rule])
print(*(f"{result.metric} {result.group} {result.outcome}" for result in verdict.results))
"""


def test_one_row_of_the_table_is_a_sixth_metric_of_a_subgroup(tmp_path):
    script = tmp_path / "sixth.py"
    script.write_text(SIXTH, "utf-8")
    command = [sys.executable, script, LIBRARY / "metrics.py"]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.stdout.split() == ["bpsp_auc", "gay", "fail"], result.stderr


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda one: one.name)
def test_every_metric_has_a_title_and_a_question(metric):
    assert metric.title
    assert metric.question
    assert set(metric.scopes) <= {"overall", "subgroup", "aggregate"}
    if "subgroup" in metric.scopes:
        assert "{of}" in metric.question
        assert "{group}" in metric.harm
        assert ("{side}" in metric.harm) is metric.is_gap


@pytest.mark.parametrize(
    ("name", "own", "background"),
    [
        ("subgroup_auc", ("positive", "negative"), ()),
        ("bpsn_auc", ("negative",), ("positive",)),
        ("bnsp_auc", ("positive",), ("negative",)),
        ("positive_aeg", ("positive",), ("positive",)),
        ("negative_aeg", ("negative",), ("negative",)),
        ("fpr_gap", ("negative",), ("negative",)),
        ("fnr_gap", ("positive",), ("positive",)),
        ("auc", ("positive", "negative"), ()),
        ("final_score", CLASSES, ()),
    ],
)
def test_a_metric_compares_these_classes(name, own, background):
    assert METRICS[name].classes == (own, background)


def test_a_metric_is_found_by_the_rows_that_it_compares():
    assert find_subgroup_metric("positive", "negative") == "bnsp_auc"
    assert find_subgroup_metric("positive", "negative", inside=True) == "subgroup_auc"
    assert find_subgroup_metric("negative", "negative") == "negative_aeg"


def test_the_final_score_is_made_of_the_three_aucs_of_a_subgroup():
    assert FINAL_SCORE_PARTS == ("subgroup_auc", "bpsn_auc", "bnsp_auc")


def test_no_other_module_tells_a_metrics_kind_from_its_name():
    listed = re.compile(r'"(bpsn_auc|bnsp_auc|positive_aeg|negative_aeg|fpr_gap|fnr_gap)"')
    for path in (file for tree in TREES for file in tree.rglob("*.py")):
        code = re.sub(r'"""[\s\S]*?"""', "", path.read_text("utf-8"))
        assert 'endswith("_a' not in code, path
        # A type names the objectives that a policy may have, for its schema.
        if path.name not in {"metrics.py", "__init__.py", "objective.py"}:
            assert not listed.search(code), path


RECALL = Metric(
    "recall_gap",
    "Recall gap",
    ("subgroup",),
    Rate(("positive",), "flagged"),
    question="how much more or less often toxic comments that mention {of} are caught",
    harm="toxic comments that mention {group} are caught {side} than other toxic ones",
    ideal=0,
    sides=("less often", "more often"),
)


def test_a_row_of_the_table_is_all_that_a_further_rate_needs_to_be_gated(monkeypatch):
    monkeypatch.setitem(METRICS, "recall_gap", RECALL)
    rng = np.random.default_rng(0)
    y_true, group = rng.random(2000) < 0.5, {"g": rng.random(2000) < 0.5}
    first = y_true + rng.normal(size=2000) - 0.8 * (group["g"] & y_true)
    second = y_true + rng.normal(size=2000)
    assert "recall_gap" in list_metrics("subgroup")
    rule = Rule("recall_gap", "each", ceiling=0.1, margin=0.05, threshold="given")
    options = {"confidence": rule.level}
    table = evaluate_bias(y_true, first, group, threshold=0.5, **options)
    change = compare_bias(y_true, first, second, group, thresholds=(0.5, 0.5), **options)
    cells = table.subgroups["g"]
    assert cells["recall_gap"].value == pytest.approx(-cells["fnr_gap"].value)
    evidence = Evidence(table.add_numbers(change, against="champion"))
    verdict = judge_rules({(None, rule.level): evidence}, [rule])
    assert [(result.kind, result.outcome) for result in verdict.results] == [
        ("ceiling", "fail"),
        ("champion", "fail"),
    ]
    ceiling = verdict.results[0]
    assert (ceiling.reason, ceiling.metric, ceiling.group) == ("not_met", "recall_gap", "g")
    assert ceiling.value < -0.1  # they are caught less often


def test_a_rate_of_an_unknown_event_is_refused():
    with pytest.raises(ValueError, match=r"^`event` must be one of flagged, not flagged; got 'w"):
        Rate(("positive",), "wrong")
