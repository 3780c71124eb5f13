"""Whose comments a candidate newly flags or misses: in verdict, first screen, MLflow, policies."""

import numpy as np
import pytest
from support.judged import judge, rows

from bias_metrics.thresholds import CountedShare
from biasgate.tasks.records.verdict import Verdict
from biasgate.tasks.reporting.candidates import CandidateStory
from biasgate.tasks.reporting.story import Story
from biasgate.tasks.tracking.worst_numbers import headline_metrics
from biasgate.tasks.wording import changed_in_words

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
        logged = headline_metrics(report, verdict)[f"newly_flagged/{name}"]
        assert logged == newly_flagged.sum() / (own & ~label).sum()
    assert Verdict.from_dict(verdict.to_dict()) == verdict


def test_the_first_screen_names_whose_decisions_change_most(tmp_path):
    _, report, verdict, _ = judged(tmp_path)
    one = verdict.changed["gay"]["newly_flagged"]
    facts = dict(CandidateStory.of(Story.of(report, verdict)).facts)
    assert facts["Changed decisions"] == changed_in_words(verdict.changed)
    flagged, *_ = facts["Changed decisions"].split("; ")
    assert flagged.startswith(f"{one.count:,} of {one.n:,} harmless ")
    assert '"gay" are newly flagged ' in flagged
    ends = f"{100 * one.low:.1f}%, {100 * one.high:.1f}%"
    assert flagged.endswith(f"({100 * one.value:.1f}% [{ends}])")


@pytest.mark.parametrize(("shift", "outcome"), [(0.0, "pass"), (0.3, "fail")])
def test_a_policy_limits_them(tmp_path, shift, outcome):
    verdict = judged(tmp_path, LIMIT, shift=shift)[2]
    found = {one.group: one for one in verdict.results if one.metric == "newly_flagged"}
    assert found["gay"].outcome == outcome
    assert verdict.outcome == outcome


def test_without_a_champion_none_are_counted(tmp_path):
    columns = rows(NAMES)
    _, verdict, _ = judge(tmp_path, columns, rules=[FLOOR], allow_first=True)
    assert verdict.changed is None
    assert "changed" not in verdict.to_dict()


def test_weighted_rows_have_none(tmp_path):
    columns = rows(NAMES, champion=True) | {"weight": np.linspace(1, 2, 900)}
    _, verdict, _ = judge(tmp_path, columns, rules=[FLOOR])
    assert verdict.changed is None


def test_where_nothing_changes_it_says_so():
    none = CountedShare(0, 90, 0.0, 0.06)
    changed = {"gay": {"newly_flagged": none, "newly_missed": none}}
    assert changed_in_words(changed) == changed_in_words({})
    missed = {"gay": {"newly_flagged": none, "newly_missed": CountedShare(2, 90)}}
    [part] = changed_in_words(missed).split("; ")
    assert part.startswith("2 of 90 toxic ")
