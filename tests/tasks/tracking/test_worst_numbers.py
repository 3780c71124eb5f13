"""Headline metrics and tags for lists of runs."""

import base64
import json
import subprocess
import zlib

import pytest
from support.made import (
    candidate_of,
    loss,
    number,
    report_with,
    result,
    rival_of,
    summary_of,
    verdict_of,
)

from bias_metrics.metrics import AUCS
from biasgate.tasks.mlflow_server.runs import make_source_tags
from biasgate.tasks.records import HoldsFor
from biasgate.tasks.reporting.figures import draw_intervals, find_floor
from biasgate.tasks.reporting.story import Story
from biasgate.tasks.tracking.log_runs import find_best_run
from biasgate.tasks.tracking.view import make_saved_views
from biasgate.tasks.tracking.worst_numbers import collect_headline_metrics, collect_headline_tags

REPORT = report_with(
    {
        "\u202egay": {
            "bpsn_auc": number(0.5, 0.4, 0.6),
            "negative_aeg": number(0.05, -0.05, 0.15),
        },
        "old": {"bpsn_auc": number(0.9, 0.8, 0.95), "negative_aeg": number(-0.3, -0.4, -0.2)},
    }
)


def worse(group, first, by, without=()):
    return loss(group, *without, first=first, worse_by=by, at_least=by / 2)


def verdict(*outcomes, **others):
    return verdict_of(*map(result, outcomes), **others)


def tags_of(judged_verdict):
    return collect_headline_tags(Story.from_report(REPORT, judged_verdict), REPORT)


def test_the_worst_values_and_their_bounds_are_metrics_unless_undefined():
    found = collect_headline_metrics(
        REPORT, verdict("fail", "pass", "insufficient", "fail", "skipped")
    )
    assert found == {
        "checks/failed": 2,
        "checks/insufficient": 1,
        "worst/bpsn_auc": 0.5,
        "worst_bound/bpsn_auc": 0.4,
        "worst/negative_aeg": -0.3,
        "worst_bound/negative_aeg": -0.4,
    }


def test_the_worst_identities_are_tags_in_which_nothing_reorders_the_line():
    tags = tags_of(verdict("fail"))
    assert tags["biasgate.worst.bpsn_auc"] == "\\u202egay"
    assert tags["biasgate.worst.negative_aeg"] == "old"
    assert "biasgate.worst.subgroup_auc" not in tags


@pytest.mark.parametrize(
    ("champion", "worsened", "words"),
    [
        (None, [], "There was no champion to compare with."),
        (rival_of(), [], "no significant loss; 2 identities have numbers without an interval"),
        (rival_of(digest="d2"), [], "This is the champion."),
        (
            rival_of(),
            [worse("b", 0.5, 0.3), worse("c", 0.7, 0.2, "b"), worse("a", 0.8, 0.1)],
            "b BPSN AUC 0.800 → 0.500, worse by at least 0.150; also a",
        ),
        (
            rival_of(),
            [worse("b", 0.5, 0.3), worse("c", 0.7, 0.2, "b")],
            "b BPSN AUC 0.800 → 0.500, worse by at least 0.150",
        ),
    ],
)
def test_a_tag_says_what_got_worse_an_identity_s_own_loss_first(champion, worsened, words):
    tags = tags_of(verdict("fail", champion=champion, worsened=worsened))
    assert tags["biasgate.worse_than_champion"] == words


def test_the_outcome_is_a_tag_in_words_and_names_what_a_pass_leaves_open():
    words = tags_of(verdict("fail"))["biasgate.word"]
    assert words == "Blocked"
    harm = result("fail", rule="shown_harm", group="\u202egay" * 2_000)
    words = tags_of(verdict_of(harm))["biasgate.word"]
    assert words.startswith("Blocked: worse for \\u202egay")
    assert len(words) == 4_000
    passed = verdict("pass", outcome="pass", holds_for=HoldsFor(identities=["a"], of=2))
    tags = tags_of(passed)
    assert tags["biasgate.word"] == "Passed for 1 of 2 identities"
    assert tags["biasgate.exceptions"] == "Passed only for a."


def test_what_got_worse_is_the_column_after_the_verdict():
    for tag in make_saved_views("parent", "best", ["bpsn_auc/gay"], 0).values():
        packed = json.loads(tag)["state"].removeprefix("deflate;")
        state = json.loads(zlib.decompress(base64.b64decode(packed)))
        names = ("word", "treated_worst", "worse_than_champion")
        first = [f"tags.`biasgate.{name}`" for name in names]
        assert state["selectedColumns"][:3] == state["columnOrder"][:3] == first


def test_differences_are_from_the_champion_if_it_is_a_candidate_else_from_the_best():
    champion = rival_of("c", model="models:/m/1")
    old = {"candidate": candidate_of("a", model="models:/m/1"), "champion": champion}
    first = verdict(run_id="old", **old)
    second = verdict(run_id="new", name="b", champion=champion, outcome="pass")
    assert find_best_run(summary_of([second, first])) == "old"
    assert find_best_run(summary_of([verdict(run_id="blocked"), second])) == "new"


def test_the_floor_of_a_picture_is_the_one_that_all_identities_have():
    def checked(*limits):
        of_all = result(group=None, limit=0.1)
        return verdict_of(*(result(limit=value) for value in limits), of_all)

    assert find_floor(checked(0.7, 0.7), "bpsn_auc") == 0.7
    assert find_floor(checked(0.7, 0.8), "bpsn_auc") is None
    assert find_floor(checked(0.7), "bnsp_auc") is None


@pytest.mark.parametrize(
    ("rules", "drawn"),
    [
        ([], list(AUCS[:1])),
        ([("bnsp_auc", "gay"), ("subgroup_auc", "gay")], ["subgroup_auc", "bnsp_auc"]),
        ([("auc", None)], list(AUCS[:1])),
    ],
)
def test_intervals_are_drawn_of_the_metrics_that_the_policy_checks(rules, drawn):
    report = report_with({"gay": dict.fromkeys(AUCS, number(0.9, 0.8, 0.95))})
    results = [result(metric=metric, group=group, limit=0.7) for metric, group in rules]
    figure = draw_intervals(report, verdict_of(*results))
    assert [axes.get_xlabel() for axes in figure.axes] == drawn


def test_a_file_in_a_repository_names_its_commit(tmp_path):
    assert "mlflow.source.git.commit" not in make_source_tags(tmp_path / "evaluation.yaml")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    (tmp_path / "folder").mkdir()
    tags = make_source_tags(tmp_path / "folder" / "evaluation.yaml")
    assert tags["mlflow.source.git.commit"] == head.stdout.strip()
    assert tags["mlflow.source.name"] == "evaluation.yaml"
