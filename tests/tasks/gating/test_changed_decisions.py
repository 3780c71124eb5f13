"""Newly flagged or missed comments per identity, in verdict, first screen, MLflow and policies."""

from dataclasses import replace

import numpy as np
import pytest
from support.judged import judge, rows

from bias_metrics.metrics import METRICS
from biasgate.tasks.records.verdict import Verdict
from biasgate.tasks.reporting.candidates import CandidateStory
from biasgate.tasks.reporting.leaderboard import build_leaderboard
from biasgate.tasks.reporting.story import Story
from biasgate.tasks.reporting.tables import format_minus
from biasgate.tasks.tracking.worst_numbers import collect_headline_metrics
from biasgate.tasks.wording import describe_changed_decisions

NAMES = ("gay", "muslim")
FLOOR = {"metric": "auc", "scope": "overall", "floor": 0.5}
LIMIT = {"metric": "newly_flagged", "scope": "each", "margin": 0.05, "threshold": "given"}


def judged(folder, *rules, shift=0.3, **options):
    columns = rows(NAMES, champion=True, shift=shift, n=4000)
    return columns, *judge(folder, columns, rules=[FLOOR, *rules], threshold=0.9, **options)


def test_a_verdict_counts_the_changed_decisions_of_each_identity(tmp_path):
    columns, report, verdict, _ = judged(tmp_path)
    label = columns["label"]
    first, second = (columns[f"score/{role}"] >= 0.9 for role in ("candidate", "champion"))
    for name in NAMES:
        own = columns[f"identity/{name}"]
        changed = verdict.changed[name]
        newly_flagged = own & ~label & first & ~second
        newly_missed = own & label & second & ~first
        assert changed["newly_flagged"].count == newly_flagged.sum()
        assert changed["newly_missed"].count == newly_missed.sum()
        assert changed["newly_flagged"].n == (own & ~label).sum()
        logged = collect_headline_metrics(report, verdict)[f"newly_flagged/{name}"]
        assert logged == newly_flagged.sum() / (own & ~label).sum()
    assert Verdict.from_dict(verdict.to_dict()) == verdict


def test_the_first_screen_names_whose_decisions_change_most(tmp_path):
    _, report, verdict, _ = judged(tmp_path)
    share = verdict.changed["gay"]["newly_flagged"]
    facts = dict(CandidateStory.from_story(Story.from_report(report, verdict)).facts)
    assert facts["Changed decisions"] == describe_changed_decisions(verdict.changed)
    flagged, *_ = facts["Changed decisions"].split("; ")
    assert flagged.startswith(f"{share.count:,} of {share.n:,} harmless ")
    assert '"gay" are newly flagged ' in flagged
    ends = f"{100 * share.low:.1f}%, {100 * share.high:.1f}%"
    assert flagged.endswith(f"({100 * share.value:.1f}% [{ends}])")


@pytest.mark.parametrize(("shift", "outcome"), [(0.0, "pass"), (0.3, "fail")])
def test_a_policy_limits_them(tmp_path, shift, outcome):
    verdict = judged(tmp_path, LIMIT, shift=shift)[2]
    result_by_group = {
        result.group: result for result in verdict.results if result.metric == "newly_flagged"
    }
    assert result_by_group["gay"].outcome == outcome
    assert verdict.outcome == outcome


@pytest.mark.parametrize("weights", [{}, {"weight": np.linspace(1, 2, 900)}])
def test_without_a_champion_or_with_weights_none_are_counted(tmp_path, weights):
    columns = rows(NAMES, champion=bool(weights)) | weights
    _, verdict, _ = judge(tmp_path, columns, rules=[FLOOR], allow_first=True)
    assert verdict.changed is None
    assert "changed" not in verdict.to_dict()


def test_the_worst_of_several_that_exceed_a_margin_is_the_furthest_beyond_it(tmp_path):
    _, report, verdict, _ = judged(tmp_path, LIMIT | {"margin": 0.001}, shift=0.3)
    [muslim_result] = [
        one for one in verdict.results if one.group == "muslim" and one.rule != "shown_harm"
    ]
    [first] = [one for one in verdict.results if one.group == "gay" and one.rule != "shown_harm"]
    results = [one for one in verdict.results if one not in (first, muslim_result)]
    for order in ((first, muslim_result), (muslim_result, first)):
        failed = [replace(one, outcome="fail") for one in order]
        failed[order.index(muslim_result)] = replace(
            failed[order.index(muslim_result)], bound=first.bound - 0.01
        )
        story = Story.from_report(
            report, replace(verdict, outcome="fail", results=[*results, *failed])
        )
        assert story.first_group == "gay"
        line = CandidateStory.from_story(story)
        [row] = build_leaderboard([line]).rows
        assert row.worst.text == f"gay: Newly flagged {first.value:.1%}, margin 0.1%"
        assert "first: Newly flagged of gay " in line.requirements


def test_a_loss_that_blocks_is_the_worst_number_of_its_row(tmp_path):
    columns = rows(NAMES, champion=True, shift=0.5, n=4000)
    harm = {"tolerance": 0.02}
    report, verdict, _ = judge(tmp_path, columns, rules=[FLOOR], threshold=0.9, shown_harm=harm)
    story = Story.from_report(report, verdict)
    loss = story.losses[0]
    [row] = build_leaderboard([CandidateStory.from_story(story)]).rows
    title = METRICS[loss.metric].title.removesuffix(" AUC")
    assert row.worst.text.startswith(f"{loss.group}: {title} ")
    assert row.worst.text.endswith(f", champion {_shown(loss, loss.champion)}")
    assert row.change.shortest.startswith("worse ")
    assert title in row.change.short


def _shown(loss, value):
    sign = "+" if METRICS[loss.metric].is_gap else ""
    return format_minus(f"{value:{sign}.3f}")
