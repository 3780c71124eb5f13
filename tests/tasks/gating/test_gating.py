"""Verdicts from evidence files that the library makes from a few hundred rows."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from support import judging
from support.judging import CHAMPION, TODAY, evidence_of, judge_rows, policy_of, report_rows
from support.partial import partial

from bias_metrics import compare_bias, evaluate_bias
from bias_metrics.gate import Lack
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import write_json
from biasgate.tasks.data.freezing import SOURCES, freeze_source
from biasgate.tasks.evidence.file import FILE, EvidenceFile
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.policy_check import (
    check_policy,
    refuse_thresholds,
    refuse_unknown_names,
)
from biasgate.tasks.gating.verdict import add_registration_order, build_verdict, decide_candidate
from biasgate.tasks.measuring.identities import Measured
from biasgate.tasks.records import Bound, Context, RegisteredPolicy, Verdict
from biasgate.tasks.scoring.scored_set import RECORD, ScoresRecord
from biasgate.tasks.signing.envelope import Envelope
from biasgate.tasks.signing.statement import FILE as ATTESTATION
from biasgate.tasks.signing.statement import read_statement


@pytest.fixture
def rows():
    rng = np.random.default_rng(8)
    label, gay = rng.random(900) < 0.5, rng.random(900) < 0.4
    good = label + rng.random(900)
    return {
        "id": pa.array([str(number) for number in range(900)]),
        "label": label,
        "identity/gay": gay,
        "slice/short": rng.random(900) < 0.5,
        "score/candidate": good + 0.7 * (gay & ~label),
        "score/champion": good,
    }


FLOOR = {"metric": "bpsn_auc", "scope": "each", "floor": 0.5}
MARGIN = {"metric": "bpsn_auc", "scope": "each", "margin": 0.02, "id": "not worse"}
AUC = {"metric": "auc", "scope": "overall", "floor": 0.5}


def test_a_decision_is_written_with_its_policy_and_an_attestation(tmp_path, rows, monkeypatch):
    messages = []
    monkeypatch.setattr("biasgate.tasks.gating.verdict.log_message", messages.append)
    source, candidate = (
        partial({"name": name, "required": True, "kind": "scores"}) for name in ("s", "c")
    )
    measured = Measured(
        source, candidate, rows="", scores="", folder=str(tmp_path), report=report_rows(rows)
    )
    context = Context(required_sets=["s"], ledger=None, registered_policy=None)
    policy, evidence = policy_of(FLOOR), evidence_of(tmp_path, rows)
    write_json(tmp_path / "report.json", measured.report)
    verdict = decide_candidate.fn(measured, evidence, {}, policy, 1, context)
    assert messages == [f"decided c on s: {verdict.outcome} by policy {policy.name}"]
    files = {name: (tmp_path / name).read_bytes() for name in ("policy.json", "verdict.json")}
    assert Verdict.from_dict(json.loads(files["verdict.json"])) == verdict
    assert Policy.model_validate_json(files["policy.json"]).digest == policy.digest
    envelope = Envelope.from_dict(json.loads((tmp_path / ATTESTATION).read_text()), ATTESTATION)
    named = read_statement(envelope, ATTESTATION).predicate.configuration
    digests = {one.name: one.digest["sha256"] for one in named}
    assert {name: digests[name] for name in files} == {
        name: hashlib.sha256(content).hexdigest() for name, content in files.items()
    }


def test_a_verdict_names_all_that_it_rests_on(tmp_path, rows):
    policy = policy_of(FLOOR)
    verdict = judge_rows(tmp_path, rows, policy)
    assert verdict.outcome == "pass"
    verdict = verdict.to_dict()
    assert verdict["schema_version"] == 1
    assert verdict["policy"] == {"name": "p", "digest": policy.digest, "report_only": False}
    assert verdict["evaluation_set"] == {"name": "s", "digest": "d1", "required": True}
    assert verdict["candidate"] == {
        "name": "c",
        "kind": "scores",
        "digest": "d2",
        "bound": judging.NO_FILES,
    }
    assert verdict["champion"] == {
        "name": "old",
        "kind": "mlflow",
        "model": "models:/toxicity/3",
        "digest": "digest of champion",
        "bound": judging.NO_FILES,
    }
    assert verdict["reference"] is None
    assert verdict["decided_on"] == "2026-11-21"
    assert verdict["evidence_digest"] == EvidenceFile(tmp_path / FILE).digest
    warned = judge_rows(tmp_path, rows, policy, report=replace(report_rows(rows), warnings=["x"]))
    assert warned.report_digest != verdict["report_digest"]


def test_a_worse_candidate_fails_against_the_champion_on_the_same_rows(tmp_path, rows):
    verdict = judge_rows(tmp_path, rows, policy_of(FLOOR, MARGIN))
    alone = compare_bias(
        rows["label"],
        rows["score/candidate"],
        rows["score/champion"],
        {"gay": rows["identity/gay"]},
        confidence=0.9,
    )["bpsn_auc", "gay"]
    floor, margin = verdict.results
    assert (verdict.outcome, floor.outcome, margin.outcome) == ("fail", "pass", "fail")
    assert (margin.low, margin.high) == (alone.low, alone.high)
    assert ("bpsn_auc", "gay") in {(loss.metric, loss.group) for loss in verdict.worsened}


@pytest.mark.parametrize(
    ("kind", "made", "before_scores"),
    [
        ("mlflow", "2026-11-21T12:00:01+00:00", True),
        ("mlflow", "2026-11-21T12:00:00+00:00", None),  # the same second: unknown
        ("mlflow", "2026-11-21T11:59:59+00:00", False),
        ("scores", "2026-11-21T12:00:01+00:00", None),  # a file that was made elsewhere
    ],
)
def test_a_policy_is_registered_before_scores_that_are_made_later(
    tmp_path, kind, made, before_scores
):
    scores = ScoresRecord(
        candidate_digest="c",
        set_digest="s",
        precision="float64",
        n_rows=0,
        n_shards=0,
        bound=Bound.from_dict(judging.NO_FILES),
        made=made,
    )
    write_json(tmp_path / RECORD, scores)
    measured = partial({"candidate": {"kind": kind}, "scores": str(tmp_path)})
    registered = RegisteredPolicy(entry=1, at="2026-11-21T12:00:00+00:00", before_scores=None)
    without = Context(required_sets=["s"], ledger=None, registered_policy=None)
    context = add_registration_order(replace(without, registered_policy=registered), measured)
    assert context.registered_policy == replace(registered, before_scores=before_scores)
    assert add_registration_order(without, measured) == without


def test_a_slice_is_measured_on_its_own_rows(tmp_path, rows):
    short = FLOOR | {"slice": "short", "confidence": 0.975}
    verdict = judge_rows(tmp_path, rows, policy_of(FLOOR, short))
    mask = rows["slice/short"]
    alone = evaluate_bias(
        rows["label"][mask], rows["score/candidate"][mask], {"gay": rows["identity/gay"][mask]}
    )
    assert verdict.results[1].value == alone.subgroups["gay"].bpsn_auc.value
    assert verdict.results[1].low == alone.subgroups["gay"].bpsn_auc.low
    assert verdict.bounds.separately == 2


def test_clusters_of_the_rows_widen_what_is_proven(tmp_path, rows):
    plain = judge_rows(tmp_path, rows, policy_of(FLOOR))
    rows["cluster"] = np.arange(900) // 12
    rows["score/candidate"] = rows["score/candidate"] + 0.5 * np.sin(rows["cluster"])
    clustered = judge_rows(tmp_path, rows, policy_of(FLOOR), report=report_rows(rows))
    widths = [one.results[0].high - one.results[0].low for one in (plain, clustered)]
    assert widths[1] > widths[0]


def test_several_candidates_share_the_rate_of_false_passes_where_the_policy_says_so(tmp_path, rows):
    alone = judge_rows(tmp_path, rows, policy_of(FLOOR), n_candidates=5)
    shared = judge_rows(tmp_path, rows, policy_of(FLOOR, correction="bonferroni"), n_candidates=5)
    assert alone.results[0].confidence == 0.95
    assert shared.results[0].confidence == pytest.approx(0.99)
    assert shared.results[0].low < alone.results[0].low
    assert (alone.n_candidates, shared.n_candidates) == (5, 5)


def test_rows_that_do_not_give_the_reported_numbers_decide_nothing(tmp_path, rows):
    report = report_rows(rows)
    rows["score/candidate"] = rows["score/champion"]
    with pytest.raises(RuntimeError, match="must give the report's numbers; auc is"):
        judge_rows(tmp_path, rows, policy_of(FLOOR), report=report)


@pytest.mark.parametrize(
    ("kept", "lack"),
    [
        (1, Lack("negative", 0, 2)),
        (0, Lack("positive", 0, 2, side="background")),
        (None, Lack("negative", 0, 2)),
    ],
)
def test_a_slice_without_both_classes_has_no_evidence(tmp_path, rows, kept, lack):
    rows["slice/short"] = rows["label"] == kept
    verdict = judge_rows(tmp_path, rows, policy_of(FLOOR, FLOOR | {"slice": "short"}))
    assert [result.outcome for result in verdict.results] == ["pass", "insufficient"]
    assert verdict.outcome == "insufficient"
    assert (verdict.results[1].reason, verdict.results[1].lack) == ("few_rows", lack)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            FLOOR | {"scope": ["gay", "martian"]},
            r"policy 'p': `scope` of rule bpsn_auc/gay,martian .*'martian' \(known: gay\)",
        ),
        (FLOOR | {"slice": "long"}, r"`slice` of rule .*got 'long' \(known: short, language.中文"),
        (
            {**AUC, "slice": "languag.*"},
            r"known: short, language.中文, language.de, language.\*\). Did you mean 'language.\*'",
        ),
        (FLOOR | {"slice": "surface.*"}, r"got 'surface\.\*' \(known: short, language.中文"),
    ],
)
def test_a_policy_that_names_what_the_set_lacks_is_refused_before_any_work(rule, message):
    slices = ["short", "language.中文", "language.de"]
    with pytest.raises(InputError, match=message):
        refuse_unknown_names(policy_of(rule), ["gay"], slices)


@pytest.mark.parametrize("scope", ["each", "worst", ["gay"], "gay"])
def test_a_policy_that_names_what_the_set_has_is_accepted(scope):
    refuse_unknown_names(policy_of(FLOOR | {"scope": scope, "slice": "short"}), ["gay"], ["short"])


def test_a_frozen_set_is_asked_for_what_the_policy_names(tmp_path):
    (tmp_path / "rows.csv").write_text("id,label,gay,short\na,1,1,1\nb,0,1,0\nc,1,0,1\nd,0,0,0\n")
    options = {"source": "table", "path": tmp_path / "rows.csv", "slices": ["short"]}
    source = SOURCES.validate_python(options | {"name": "rows", "identities": ["gay"]})
    folder = str(freeze_source(source, tmp_path / "store").folder)
    short = FLOOR | {"slice": "short"}
    check_policy.fn(policy_of(short), source, folder)
    with pytest.raises(InputError, match=r"got 'martian' \(known: gay\)"):
        check_policy.fn(policy_of(FLOOR | {"scope": ["martian"]}), source, folder)


AT_THRESHOLD = {"metric": "fpr_gap", "scope": "each", "ceiling": 0.2, "threshold": "given"}


def test_rules_at_a_threshold_are_refused_for_sampling_weights():
    refuse_thresholds(policy_of(FLOOR), "rows")
    with pytest.raises(InputError, match=r"fpr_gap/each/given .* not measured for sampling"):
        refuse_thresholds(policy_of(FLOOR, AT_THRESHOLD), "rows")


@pytest.mark.parametrize("rival", [True, False], ids=["with a champion", "alone"])
def test_evidence_is_measured_against_the_background_on_its_record(tmp_path, rows, rival):
    rows["identity/muslim"] = np.arange(900) % 3 == 0
    if not rival:
        del rows["score/champion"]
    groups = {name: rows[f"identity/{name}"] for name in ("gay", "muslim")}
    for background in ("outside_subgroup", "no_identity"):
        evidence = evidence_of(tmp_path, rows, choices={"background": background})
        found = evidence.measure([(None, 0.9)])[None, 0.9].table
        options = {"power_mean_groups": ["gay"], "confidence": 0.9, "background": background}
        scores = rows["label"], rows["score/candidate"]
        table = evaluate_bias(*scores, groups, **options)
        assert {key: found[key] for key in table} == dict(table)


def test_the_rows_without_identity_are_counted_where_they_are_the_background(tmp_path, rows):
    evidence = evidence_of(tmp_path, rows, choices={"background": "no_identity"})
    [found] = evidence.measure([(None, 0.9)]).values()
    outside = ~rows["identity/gay"]
    assert found.background == {
        "positive": int((outside & rows["label"]).sum()),
        "negative": int((outside & ~rows["label"]).sum()),
    }


def test_on_a_list_of_phrases_the_value_decides_and_every_loss_is_named(tmp_path, rows):
    rows["cluster"] = np.arange(900) % 6
    rows["score/champion"][::7] += 0.1
    policy = policy_of({**FLOOR, "floor": 0.6}, MARGIN)
    verdicts = {}
    for population in ({}, {"population": "these_rows"}):
        evidence = evidence_of(
            tmp_path, rows, choices={"background": "outside_subgroup"} | population
        )
        verdicts[len(population)] = build_verdict(
            report_rows(rows), policy, evidence, {"champion": CHAMPION}, n_candidates=1, today=TODAY
        )
    assert {one.outcome for one in verdicts[0].results} == {"insufficient"}
    assert verdicts[0].worsened == []
    assert [one.outcome for one in verdicts[1].results] == ["pass", "fail"]
    worse = {one.metric: one for one in verdicts[1].worsened}
    assert worse["bpsn_auc"].worse_by == worse["bpsn_auc"].worse_by_at_least > 0


def in_languages(rows):
    """The rows in three languages."""
    language = np.arange(900) % 3
    return {key: one for key, one in rows.items() if key != "slice/short"} | {
        f"slice/language.{name}": language == at for at, name in enumerate(("de", "fr", "ar"))
    }


def test_a_rule_about_each_slice_of_a_column_is_one_rule_for_each(tmp_path, rows):
    columns = in_languages(rows)
    every = judge_rows(tmp_path, columns, policy_of(FLOOR | {"slice": "language.*"}))
    names = ("de", "fr", "ar")
    alone = [FLOOR | {"slice": f"language.{one}"} for one in names]
    one_by_one = judge_rows(tmp_path, columns, policy_of(*alone))
    assert every.results == one_by_one.results
    assert [one.slice for one in every.results] == [f"language.{one}" for one in names]
    assert [one.rule for one in every.results] == [f"bpsn_auc/each/language.{one}" for one in names]
    assert (every.outcome, every.bounds) == (one_by_one.outcome, one_by_one.bounds)


def test_a_rule_of_one_slice_stands_instead_of_that_of_each_and_an_id_is_continued(tmp_path, rows):
    stricter = FLOOR | {"slice": "language.de", "floor": 0.99}
    rules = [FLOOR | {"slice": "language.*"}, stricter]
    verdict = judge_rows(tmp_path, in_languages(rows), policy_of(*rules))
    assert sorted((result.slice, result.limit) for result in verdict.results) == [
        ("language.ar", 0.5),
        ("language.de", 0.99),
        ("language.fr", 0.5),
    ]
    named = judge_rows(tmp_path, in_languages(rows), policy_of(rules[0] | {"id": "each"}))
    assert next(result.rule for result in named.results) == "each/language.de"


def test_a_rule_about_each_slice_of_a_column_that_a_set_lacks_is_refused(tmp_path, rows):
    with pytest.raises(InputError, match=r"language\.\*"):
        judge_rows(tmp_path, rows, policy_of(FLOOR | {"slice": "language.*"}))
