"""A useless model does not pass, even by rules that it meets by construction."""

import numpy as np
import pytest
from support.judged import judge, rows

from biasgate.tasks.records import Verdict
from biasgate.tasks.reporting.candidates import CandidateStory
from biasgate.tasks.reporting.leaderboard import build_leaderboard
from biasgate.tasks.reporting.story import Story

NAMES = ("gay", "muslim")
GAPS = (
    {"metric": "fpr_gap", "scope": "each", "ceiling": 0.3, "threshold": "given"},
    {"metric": "fnr_gap", "scope": "each", "ceiling": 0.3, "threshold": "given"},
)
MARGIN = {"metric": "bpsn_auc", "scope": "each", "margin": 0.3}


def judged(folder, *rules, threshold=0.9, champion=False, scores=lambda given: given):
    columns = rows(NAMES, shift=0.0, champion=champion, n=3000)
    for column in [name for name in columns if name.startswith("score/")]:
        columns[column] = scores(columns[column])
    return judge(folder, columns, rules=rules, threshold=threshold)


def facts(report, verdict):
    return dict(CandidateStory.from_story(Story.from_report(report, verdict)).facts)


def shuffled(scores):
    return np.random.default_rng(0).permutation(scores)


@pytest.mark.parametrize(
    ("options", "metric", "told", "in_short"),
    [
        (
            {"scores": lambda given: 100 * given, "threshold": -1},
            "flag_rate",
            "nearly every",
            "flags every",
        ),
        ({"threshold": 2}, "flag_rate", "hardly any", "flags hardly any"),
        ({"scores": shuffled, "threshold": 0.9}, "auc", "not significantly above 0.5", "AUC 0."),
    ],
    ids=["flags all", "flags none", "guesses"],
)
def test_no_gap_of_a_useless_model_makes_it_pass(tmp_path, options, metric, told, in_short):
    report, verdict, _ = judged(tmp_path, *GAPS, **options)
    useless = verdict.results[0]
    assert (useless.rule, useless.metric, useless.outcome) == ("useful", metric, "insufficient")
    assert {result.outcome for result in verdict.results[1:]} == {"pass"}
    assert verdict.outcome == "insufficient"
    assert verdict.holds_for.identities == []
    assert told in Story.from_report(report, verdict).headline
    assert " that " in facts(report, verdict)["To pass"]
    read = Verdict.from_dict(verdict.to_dict())  # shares of 0 are kept, too
    assert read.results == verdict.results
    [row] = build_leaderboard([CandidateStory.from_story(Story.from_report(report, read))]).rows
    assert row.worst.text.startswith(f"all comments: {in_short}")


def test_guesses_are_no_worse_than_a_champion_that_guesses_and_pass_nothing(tmp_path):
    _, verdict, _ = judged(tmp_path, MARGIN, champion=True, scores=shuffled)
    assert {result.outcome for result in verdict.results if result.rule == "bpsn_auc/each"} == {
        "pass"
    }
    assert verdict.outcome == "insufficient"


def test_a_model_of_use_passes_and_what_no_rule_judges_is_named(tmp_path):
    report, verdict, _ = judged(tmp_path, *GAPS, MARGIN | {"margin": 0.3, "floor": 0.5})
    assert verdict.results[0].rule != "useful"
    assert facts(report, verdict)["No limit in the policy"] == (
        "Subgroup AUC, BNSP AUC, Positive AEG, Negative AEG, AUC"
    )
