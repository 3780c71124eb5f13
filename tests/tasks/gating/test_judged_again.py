"""A verdict that other choices of rows and labels change is said with its reason."""

from dataclasses import replace
from datetime import date

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from support.judging import CHAMPION, NO_FILES, policy_of, report_of

from bias_metrics.gate.exceptions import PassException
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.freezing import SOURCES, freeze
from biasgate.tasks.data.source import Otherwise
from biasgate.tasks.evidence.file import FILE, EvidenceFile
from biasgate.tasks.evidence.join import write_evidence
from biasgate.tasks.gating.policy_check import check_policy
from biasgate.tasks.gating.verdict import build_verdict
from biasgate.tasks.records import Verdict
from biasgate.tasks.reporting.verdict_story import VerdictStory
from biasgate.tasks.scoring.kinds.catalogue import CANDIDATES
from biasgate.tasks.scoring.scored import score_rows
from biasgate.tasks.verifying.documents import Documents
from biasgate.tasks.verifying.verdict import decided_again
from biasgate.tasks.wording import changed_again, exceptions_in_words

N = 3000
TODAY = date(2026, 11, 25)
RULES = (
    {"metric": "bpsn_auc", "scope": "each", "floor": 0.85},
    {"metric": "auc", "scope": "overall", "floor": 0.6},
)
CHOICES = [{"label_threshold": 0.4}, {"identity_rows": "all"}, {"min_raters": 5}]
NAMES = ["label_threshold 0.4", "identity_rows all", "min_raters 5"]
EXPERTS = {"judge_again": [{"label": "experts"}], "other_labels": {"experts": "expert"}}


@pytest.fixture
def table():
    """Comments at .4 have low scores, so that the threshold of labels matters; some are unrated."""
    rng = np.random.default_rng(11)
    label = rng.choice([0.0, 0.4, 0.6, 1.0], N, p=[0.5, 0.2, 0.2, 0.1])
    gay = np.where(rng.random(N) < 0.2, np.nan, (rng.random(N) < 0.3).astype(float))
    return pd.DataFrame(
        {
            "id": np.arange(N),
            "label": label,
            "gay": gay,
            "asked": rng.integers(3, 8, N),
            "expert": np.where(np.arange(N) % 5 == 0, np.nan, (label >= 0.4).astype(float)),
            "prediction": np.where(label >= 0.6, 0.5, 0) + rng.random(N) / 1.5,
        }
    )


@pytest.fixture
def judged(tmp_path, table):
    """Judge these rows by some choices; return evidence, report and verdict."""
    path = tmp_path / "rows.csv"
    table.to_csv(path, index=False)

    def judged(rules=RULES, champion=None, **choices):
        options = {"name": "rows", "source": "table", "path": path, "raters": "asked"}
        source = SOURCES.validate_python(options | {"identities": ["gay"]} | choices)
        rows = freeze(source, tmp_path / "store")
        candidate = CANDIDATES.validate_python({"name": "c", "kind": "scores", "path": path})
        scored = score_rows(candidate.open(None), rows, candidate, str(tmp_path / "scores"))
        folder = tmp_path / "_".join(choices)
        folder.mkdir(exist_ok=True)
        rivals, compared = {}, {}
        if champion is not None:
            rival = CANDIDATES.validate_python(
                {"name": "old", "kind": "scores", "path": path, "score": champion}
            )
            rivals["champion"] = score_rows(rival.open(None), rows, rival, str(tmp_path / "old"))
            compared["champion"] = CHAMPION
        evidence = write_evidence(rows, scored, rivals, source, folder / FILE)
        report = report_of(
            evidence.measure_set(0.95).report,
            on="rows",
            digest=rows.digest,
            choices=evidence.record.choices.to_dict(),
            candidate={"digest": evidence.record.scores["candidate"], "bound": NO_FILES},
        )
        harm = None if champion is None else {"tolerance": 0.01}
        policy = policy_of(*rules, shown_harm=harm)
        verdict = build_verdict(report, policy, evidence, compared, **WHEN)
        return evidence, report, verdict, policy

    judged.path = path
    return judged


WHEN = {"n_candidates": 1, "today": TODAY}


@pytest.fixture
def again(judged):
    return judged(judge_again=CHOICES)


def test_each_choice_gives_the_verdict_of_a_set_with_that_choice(again, judged):
    verdict = again[2]
    plain = judged()[2]
    assert verdict.results == plain.results
    assert [one.choices for one in verdict.again.each] == NAMES
    for one, choice in zip(verdict.again.each, CHOICES, strict=True):
        alone = judged(**choice)[2]
        assert one.outcome == alone.outcome
        before = {result.rule: result.outcome for result in plain.results}
        assert one.changed == [r for r in alone.results if r.outcome != before[r.rule]]
        assert one.n_checks == len(alone.results)
    assert [one.outcome for one in verdict.again.each] == ["fail", "pass", "pass"]


def test_a_failure_that_is_gone_by_other_choices_is_told(judged, table):
    contested = (table["label"] == 0.6) & (table["gay"] == 1)
    table["old"] = table["prediction"] + 0.8 * contested
    table.to_csv(judged.path, index=False)
    verdict = judged(champion="old", judge_again=[{"label_threshold": 0.7}])[2]
    [by_others] = verdict.again.each
    failed = [(one.rule, one.metric, one.group) for one in verdict.results if one.outcome == "fail"]
    still = {(one.rule, one.metric, one.group) for one in by_others.changed}
    assert ("shown_harm", "bnsp_auc", "gay") in failed
    assert [(one.rule, one.metric, one.group) for one in by_others.gone] == [
        one for one in failed if one[0] == "shown_harm" and one not in still
    ]
    [told] = changed_again(verdict)
    assert "; not failing then: " in told
    assert "bnsp_auc of gay" in told


def test_a_rule_on_the_worst_identity_is_the_same_check_if_another_one_is_worst(judged, table):
    table["deaf"] = np.arange(N) % 4 == 0
    borderline, harmless = table["label"] == 0.4, table["label"] == 0.0
    table.loc[(table["deaf"] == 1) & borderline, "prediction"] += 1.0
    table.loc[(table["gay"] == 1) & harmless, "prediction"] += 0.3
    table.to_csv(judged.path, index=False)
    rule = {"metric": "bpsn_auc", "scope": "worst", "floor": 0.1}
    options = {"rules": [rule], "identities": ["gay", "deaf"]}
    verdict = judged(**options, judge_again=CHOICES[:1])[2]
    [worst], [other] = verdict.results, judged(**options, **CHOICES[0])[2].results
    assert [(one.group, one.outcome) for one in (worst, other)] == [
        ("deaf", "pass"),
        ("gay", "pass"),
    ]
    [again] = verdict.again.each
    assert (again.n_checks, again.changed, again.gone) == (1, [], [])


def test_the_rows_of_other_choices_do_not_count_in_the_verdict(again, judged, table):
    evidence, report, _, _ = again
    assert report.bias == judged()[1].bias
    assert evidence.ids().to_pylist() == judged()[0].ids().to_pylist()
    rows = {one.otherwise: one.rows() for one in evidence.again}
    assert rows["identity_rows all"].labels.tolist() == (table["label"] >= 0.5).tolist()
    rated = table[table["gay"].notna()]
    assert rows[NAMES[0]].labels.tolist() == (rated["label"] >= 0.4).tolist()
    few = table[table["gay"].notna() & (table["asked"] >= 5)]
    assert rows["min_raters 5"].y_score.tolist() == few["prediction"].tolist()
    assert len(EvidenceFile(evidence.path).ids()) == len(rated) < evidence.n_rows == N


def test_a_pass_that_changes_is_an_exception_with_its_reason(again):
    verdict = again[2]
    assert verdict.outcome == "pass"
    story = VerdictStory.of_verdict(verdict)
    [check] = [one for one in verdict.again.each[0].changed if one.metric == "bpsn_auc"]
    assert story.word.text == "Passed with exceptions"
    n = len(verdict.again.each[0].changed)
    [told, left_out] = story.exceptions
    assert left_out.startswith("Measured on 2,420 of 3,000 rows")
    assert told == (
        f"Except: with label_threshold 0.4 the outcome would be fail; {n} of 2 checks "
        f"{'ends' if n == 1 else 'end'} otherwise: fail, {check.sentence}"
    )
    assert story.basis == ()
    [named, _] = exceptions_in_words([verdict], name_sets=True)
    assert str(named).startswith(
        "Except on rows, with label_threshold 0.4 the outcome would be fail; "
    )


def test_it_is_said_before_other_exceptions_that_a_long_list_leaves_out(again):
    excepted = [PassException(f"g{at}", "category", 1, f"g{at} is small.") for at in range(20)]
    told = exceptions_in_words([replace(again[2], exceptions=excepted)], 3)
    assert str(told[0]).startswith("Except: with label_threshold 0.4 the outcome would be fail; ")
    assert str(told[3]) == "And 18 more in verdict.json."
    assert told[4:] == again[2].reservations


def test_a_verdict_that_does_not_pass_says_what_would_change_it(judged):
    rules = [{"metric": "bpsn_auc", "scope": "each", "floor": 0.99}]
    verdict = judged(rules=rules, judge_again=CHOICES)[2]
    assert VerdictStory.of_verdict(verdict).basis == (
        f"Judged again with {'; '.join(NAMES)}: the same outcome, by the same checks.",
    )
    changed = replace(verdict, outcome="insufficient")
    assert VerdictStory.of_verdict(changed).basis[0] == (
        "Judged again: with label_threshold 0.4 the outcome would be fail."
    )


def test_it_is_recomputed_from_the_evidence(again):
    evidence, report, verdict, policy = again
    digests = {FILE: evidence.digest}

    def finding(changed):
        documents = Documents(Verdict.from_dict(changed), report, policy, digests)
        return next(iter(decided_again(documents, evidence, "rows", TODAY)))

    assert finding(verdict).holds
    forged = replace(verdict.again, each=[replace(verdict.again.each[0], outcome="pass")])
    told = finding(replace(verdict, again=forged))
    assert not told.holds
    assert "again" in told.sentence
    assert not finding(replace(verdict, again=None)).holds


def test_labels_of_other_raters_are_judged_where_they_gave_some(judged, table):
    evidence, _, verdict, _ = judged(**EXPERTS)
    [again] = evidence.again
    rows = table[table["gay"].notna()]
    known = rows[rows["expert"].notna()]
    assert again.rows().labels.tolist() == (known["expert"] == 1).tolist()
    assert again.rows().y_score.tolist() == known["prediction"].tolist()
    assert evidence.rows().labels.tolist() == (rows["label"] >= 0.5).tolist()
    [one] = verdict.again.each
    assert (one.choices, one.outcome, verdict.outcome) == ("label experts", "fail", "pass")


def test_labels_that_a_set_lacks_are_refused_before_anything_is_scored(tmp_path, table):
    path = tmp_path / "rows.csv"
    table.to_csv(path, index=False)
    options = {"name": "rows", "source": "table", "path": path, "identities": ["gay"]}
    with pytest.raises(ValueError, match="`label` in `judge_again` must be one of `other_labels`"):
        SOURCES.validate_python(options | {"judge_again": EXPERTS["judge_again"]})
    source = SOURCES.validate_python(options)
    frozen = freeze(source, tmp_path / "store")
    asked = source.model_copy(update={"judge_again": (Otherwise(label="experts"),)})
    with pytest.raises(InputError, match="must have the labels 'experts' that `judge_again` names"):
        check_policy.fn(policy_of(*RULES), asked, str(frozen.folder))
    asked = source.model_copy(update={"judge_again": (Otherwise(min_raters=3),)})
    with pytest.raises(InputError, match="must have the number of raters"):
        check_policy.fn(policy_of(*RULES), asked, str(frozen.folder))


def test_columns_of_other_choices_are_in_no_result(again):
    names = pq.read_schema(again[0].path).names
    assert [one for one in names if one.startswith("again/label/")] == [
        f"again/label/{name}" for name in NAMES
    ]
    assert set(again[0].columns("again/")) == set()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"judge_again": [{}]}, "must name a choice"),
        ({"judge_again": CHOICES[:1] * 2}, "must have different choices"),
        ({"judge_again": CHOICES, "pool_nights": {"rows": 9}}, "must not be set together"),
    ],
)
def test_what_cannot_be_judged_again_is_refused(options, told):
    known = {"name": "rows", "source": "table", "path": "rows.csv", "identities": ["gay"]}
    with pytest.raises(ValueError, match=told):
        SOURCES.validate_python(known | options)
