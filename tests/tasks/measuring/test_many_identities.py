"""Many identities: a bounded number of tasks, and pictures and cards that show the worst."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.judging import CHOICES, NOTHING_SAID, report_of
from support.made import result
from support.partial import partial

from bias_metrics import Key, evaluate_bias
from bias_metrics.metrics import AUCS
from bias_metrics.report import sort_worst_first
from bias_metrics.table import key_numbers
from biasgate.tasks.common.console import make_console
from biasgate.tasks.evidence.answers import refuse_other_numbers
from biasgate.tasks.measuring import identities
from biasgate.tasks.measuring.identities import MAX_TASKS, divide_identities, measure_identities
from biasgate.tasks.reporting.figures import draw_heatmap, select_identities
from biasgate.tasks.reporting.model_card import About, build_model_card
from biasgate.tasks.reporting.results import Published
from biasgate.tasks.reporting.terminal import print_details
from biasgate.tasks.tracking.log_runs import collect_metrics, select_logged_metrics

N = 3000
MANY = 100


@pytest.fixture(scope="module")
def many():
    """A report on many identities, with `bad` clearly the worst."""
    rng = np.random.default_rng(2)
    label = rng.random(N) < 0.4
    groups = {f"group {one:03}": rng.random(N) < 0.03 for one in range(MANY - 2)}
    groups["bad"], groups["unlucky"] = rng.random(N) < 0.2, np.zeros(N, dtype=bool)
    score = rng.normal(label + 1.5 * (groups["bad"] & ~label), 0.5)
    toxic, harmless = np.flatnonzero(label)[0], np.flatnonzero(~label)[0]
    groups["unlucky"][[toxic, harmless]] = True
    score[toxic], score[harmless] = 0.0, 2.0
    return evaluate_bias(label, score, groups)


@pytest.fixture
def report(many):
    choices = CHOICES | {"n_rows": N + 500, "n_rows_measured": N}
    return report_of(many, choices=choices, digest="d", candidate={"digest": "d"})


VERDICT = partial(
    {
        "evaluation_set": {"name": "s"},
        "candidate": {"name": "c"},
        "policy": {"name": "p", "report_only": False},
        "outcome": "fail",
        "decided_on": "2026-01-01",
        "champion": None,
        "objective": {"metric": "final_score", "confidence": 0.95, "value": 0.9},
    }
    | NOTHING_SAID
)


def test_few_identities_have_a_task_each():
    names = [str(one) for one in range(MAX_TASKS)]
    assert divide_identities(names) == {name: [name] for name in names}


@pytest.mark.parametrize("n", [MAX_TASKS + 1, 500, 5000])
def test_many_identities_share_a_bounded_number_of_tasks(n):
    names = [str(one) for one in range(n)]
    shares = divide_identities(names)
    assert len(shares) == MAX_TASKS
    assert sorted(one for part in shares.values() for one in part) == sorted(names)
    sizes = {len(part) for part in shares.values()}
    assert max(sizes) - min(sizes) <= 1
    assert f"{n:,} identities, part 1" in shares


def test_the_worst_are_shown_to_be_so_and_not_merely_unlucky(report):
    order = sort_worst_first(report.bias.subgroups)
    assert order[0] == "bad"
    assert report.bias.subgroups["unlucky"].subgroup_auc.value == 0.0
    assert sorted(order) == sorted(report.bias.subgroups)


def test_identities_without_an_interval_or_an_auc_come_last():
    def cells(value, high=None):
        return partial({name: {"value": value, "high": high} for name in AUCS})

    found = {"empty": cells(None), "tiny": cells(0.1), "good": cells(0.9, 0.95)}
    assert sort_worst_first(found) == ["good", "tiny", "empty"]


def test_a_picture_shows_the_worst_and_says_so(report):
    shown, left_out = select_identities(report.bias.subgroups, 60)
    assert (len(shown), shown[0]) == (60, "bad")
    assert left_out == ": the worst 60 of 100 identities"
    figure = draw_heatmap(report)
    assert figure.get_suptitle() == "c on s: the worst 60 of 100 identities"
    assert len(figure.axes[0].get_yticks()) == 60


def test_a_card_lists_the_worst_and_counts_the_others(report):
    failed = [result("fail", group=None)] * 70
    card = build_model_card(report, partial(VERDICT | {"results": failed}), About())
    assert card.count("\n| ") == 61  # and the heading
    assert "These are the worst 60 of 100 identities; all are in bias_metrics.csv." in card
    assert "- and 10 more in `verdict.json`" in card
    assert " and 40 more.\n" in card


def test_the_table_shows_the_worst_and_the_first_line_counts_the_rows(report, capsys):
    print_details(make_console(), Published(Path("out"), report, VERDICT))
    out = capsys.readouterr().out
    assert out.startswith("c on s: 3,000 of 3,500 rows: 14 % lack a value of some identity, ")
    assert out.count("group 0") == 39
    assert "bad " in out
    assert "60 more" in " ".join(out.split())


def test_comparing_with_the_report_reads_each_number_once(many):
    report = report_of(many)
    refuse_other_numbers(report, many)
    key = Key("bpsn_auc", "bad")
    other = replace(many[key], value=many[key].value + 0.1)
    with pytest.raises(RuntimeError, match="bpsn_auc/bad"):
        refuse_other_numbers(report, many.add_numbers({key: other}))


def test_a_report_lacks_no_number_of_the_evidence_and_has_no_further_one(many):
    key = Key("bpsn_auc", "bad")
    without = replace(many, numbers={one: many[one] for one in many if one != key})
    with pytest.raises(RuntimeError, match="number of the evidence; it lacks bpsn_auc/bad"):
        refuse_other_numbers(report_of(without), many)
    with pytest.raises(RuntimeError, match="number of the report; it lacks bpsn_auc/bad"):
        refuse_other_numbers(report_of(many), without)


def test_metric_keys_of_many_identities_are_all_different(report):
    assert len(collect_metrics(report.bias)) >= 5 * (MANY - 1)
    bad = report.bias.subgroups["bad"]
    twice = report.bias.add_numbers(key_numbers({"bad!": bad, "bad?": bad}))
    with pytest.raises(ValueError, match="bpsn_auc/bad_"):
        collect_metrics(twice)


def test_runs_have_metrics_of_the_worst_of_many_identities_and_say_so(report, monkeypatch):
    monkeypatch.setattr("biasgate.tasks.tracking.log_runs.MAX_IDENTITIES", 10)
    metrics, tags = select_logged_metrics(report)
    named = {key.partition("/")[2] for key in metrics if key.startswith("n_rows/")}
    assert named == {*sort_worst_first(report.bias.subgroups)[:10], "overall"}
    assert "the worst 10 of 100 identities" in tags["biasgate.metrics_of"]
    assert metrics["auc/overall"] == report.bias.overall.auc.value


def test_runs_have_metrics_of_all_of_fewer_identities(report):
    metrics, tags = select_logged_metrics(report)
    assert len([key for key in metrics if key.startswith("n_rows/")]) == MANY + 1
    assert not tags


def test_no_more_identities_are_measured_at_once_than_there_are_cores(monkeypatch):
    monkeypatch.setattr(identities, "_CORES", threading.BoundedSemaphore(2))
    now, most = [], []
    third = threading.Event()

    def subgroup(name):
        now.append(name)
        most.append(len(now))
        if len(now) > 2:
            third.set()
        third.wait(0.05)  # time for a third to come, if it could
        now.remove(name)
        return name

    evidence = SimpleNamespace(measurement=SimpleNamespace(measure_subgroup=subgroup))
    names = [[str(one)] for one in range(8)]
    with ThreadPoolExecutor(8) as pool:
        measured = list(pool.map(lambda part: measure_identities(evidence, part), names))
    assert [list(part) for part in measured] == names
    assert max(most) <= 2
