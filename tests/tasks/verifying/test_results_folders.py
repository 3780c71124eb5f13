"""Verdicts in a results folder are recomputed; changes are found."""

import json
import os
import re
import shutil

import pytest
from support.evaluations import run
from support.filed import comments, judge_site, verdict_of

from biasgate.tasks.common.files import json_digest
from biasgate.tasks.records import Report, Verdict
from biasgate.tasks.signing.keys import PrivateKey, TrustedKey, TrustedKeys
from biasgate.tasks.signing.statement import attest_verdict

FIRST = "sample/first"
NOT_COMPARED = (
    "Not compared: warnings, analyses, terms, missing scores and truncated comments of its report, "
    "and pages, tables, model"
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results of two classifiers on one set."""
    return judge_site(tmp_path_factory.mktemp("site") / "out", comments())


@pytest.fixture
def key(monkeypatch, tmp_path):
    """A trusted key."""
    found = PrivateKey.generate()
    trusted = tmp_path / "keys"
    trusted.mkdir()
    monkeypatch.setenv("BIASGATE_TRUSTED_KEYS", str(trusted))
    keys = TrustedKeys.from_file(trusted / "trusted_keys.json")
    keys.add_key(TrustedKey(found.public, "auditor", "2026-01-01T00:00:00+00:00")).write(
        trusted / "trusted_keys.json"
    )
    return found


def edit_file(name, **values):
    def change(folder):
        content = json.loads((folder / name).read_text("utf-8"))
        (folder / name).write_text(json.dumps(content | values), "utf-8")

    return change


def flip_byte(name):
    def change(folder):
        content = bytearray((folder / name).read_bytes())
        content[len(content) // 2] ^= 1
        (folder / name).write_bytes(content)

    return change


def swap_candidates(folder):
    """Exchange the files of the two candidates."""
    folder.rename(folder.parent / "other")
    (folder.parent / "second").rename(folder)
    (folder.parent / "other").rename(folder.parent / "second")


MISSING = (
    "the verdict on sample/first cannot be verified: attestation.json in sample/first must "
    "exist, since it names the files and the signer of the verdict"
)
FORGED = {"value": 0.99}
OTHER_CODE = {"version": "0.0.1", "bias_metrics": "0" * 64}


def write_verdict(folder, forged=None, key=None, **changed):
    """Write a verdict with a forged first result to a folder, and attest it."""
    content = json.loads((folder / "verdict.json").read_text("utf-8")) | changed
    content["results"][0] |= forged or {}
    (folder / "verdict.json").write_text(json.dumps(content), "utf-8")
    attest_verdict(Verdict.from_dict(content), folder, key)


@pytest.mark.parametrize("place", ["", FIRST])
def test_the_folder_of_an_evaluation_is_verified(results, place):
    code, text = run("verify", results / place)
    assert (code, "DOES NOT HOLD" in text) == (0, False), text
    assert f"reproduces it (pass). {NOT_COMPARED}" in text
    unnoticed = rf"not checked signature: .* {FIRST} is not signed.*no check detects"
    assert re.search(unnoticed, text)
    assert ("summary.json matches the verdicts in the folders" in text) is (not place)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (edit_file("verdict.json", decided_on="2031-01-01"), "the verdicts in the folders, and"),
        (
            edit_file("report.json", warnings=["forged"]),
            "the report on sample/first has the digest",
        ),
        (
            lambda folder: write_verdict(folder, FORGED),
            "summary.json matches the verdicts in the folders",
        ),
        (lambda folder: (folder / "evidence.parquet").unlink(), "its evidence.parquet is missing"),
        (lambda folder: (folder / "attestation.json").unlink(), MISSING),
        (lambda folder: (folder / "verdict.json").unlink(), "verdict.json of the verdict on"),
        (lambda folder: (folder / "policy.json").unlink(), "policy.json of the verdict on"),
        (flip_byte("evidence.parquet"), "the evidence on sample/first has the digest"),
        (swap_candidates, "the verdict in sample/first is about this set and candidate"),
    ],
)
def test_what_was_changed_in_a_folder_does_not_hold(results, tmp_path, change, why):
    shutil.copytree(results, tmp_path / "results")
    change(tmp_path / "results" / FIRST)
    code, text = run("verify", tmp_path / "results")
    assert (code, why in text) == (3, True), text


def test_where_a_key_is_trusted_an_unsigned_folder_does_not_hold(key, results, tmp_path):
    code, text = run("verify", results)
    wrong = f"DOES NOT HOLD signature: the attestation in {FIRST} is not signed."
    assert (code, wrong in text) == (3, True), text
    shutil.copytree(results, tmp_path / "signed")
    for name in ("first", "second"):
        folder = tmp_path / "signed/sample" / name
        attest_verdict(
            Verdict.from_dict(json.loads((folder / "verdict.json").read_text())), folder, key
        )
    code, text = run("verify", tmp_path / "signed")
    assert (code, "no check detects" in text) == (0, False), text


def test_a_blocked_candidate_is_verified_and_a_summary_that_lets_it_pass_is_not(tmp_path):
    site = comments()
    upside_down = site.assign(first=1 - site["first"])
    folder = judge_site(tmp_path / "out", upside_down)
    assert run("verify", folder)[0] == 0
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    assert summary["outcome"] == "fail"
    for one in summary["decisions"]:
        one["outcome"] = "pass"
    (folder / "summary.json").write_text(json.dumps(summary), "utf-8")
    code, text = run("verify", folder)
    assert (code, "Different: first, its outcome." in text) == (3, True), text


def test_a_blocked_candidate_is_verified_where_the_policy_only_reports(tmp_path):
    site = comments()
    upside_down = site.assign(first=1 - site["first"])
    folder = judge_site(tmp_path / "out", upside_down, report_only=True)
    assert json.loads((folder / "summary.json").read_text("utf-8"))["outcome"] == "pass"
    assert verdict_of(folder, "first")["outcome"] == "fail"
    code, text = run("verify", folder)
    assert (code, "DOES NOT HOLD" in text) == (0, False), text
    rewrite_summary(folder, drop_report_only)
    code, text = run("verify", folder)
    assert (code, "Different: first." in text) == (3, True), text


def drop_report_only(summary):
    """Remove `report_only` from a decision of a summary."""
    summary["decisions"][0]["report_only"] = False


def read_set(folder):
    return json.loads((folder / "verdict.json").read_text("utf-8"))["evaluation_set"]


def rewrite_summary(folder, change):
    """Rewrite the summary of a folder like a forger."""
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    change(summary)
    (folder / "summary.json").write_text(json.dumps(summary), "utf-8")


def drop_verdicts(summary):
    summary["verdicts"] = [
        verdict for verdict in summary["verdicts"] if verdict["candidate"]["name"] != "first"
    ]


def drop_decision(summary):
    del summary["decisions"][0]


def change_word(summary):
    summary["decisions"][0] |= {"word": "Passed for everybody", "exceptions": []}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (drop_verdicts, "Different: first."),
        (change_word, "Different: first."),
        (drop_decision, "Different: first."),
    ],
    ids=["a pass without a verdict", "another word", "no decision"],
)
def test_a_forged_summary_does_not_hold(results, tmp_path, change, why):
    shutil.copytree(results, tmp_path / "results")
    rewrite_summary(tmp_path / "results", change)
    code, text = run("verify", tmp_path / "results")
    assert (code, why in text) == (3, True), text


def test_a_required_set_that_was_left_out_is_missed_though_all_is_signed(key, results, tmp_path):
    folder = tmp_path / "results"
    shutil.copytree(results, folder)
    for name in ("first", "second"):
        write_verdict(folder / "sample" / name, required_sets=["hard", "sample"], key=key)
    rewrite_summary(
        folder,
        lambda summary: [
            verdict.update(required_sets=["hard", "sample"]) for verdict in summary["verdicts"]
        ],
    )
    code, text = run("verify", folder)
    for name in ("first", "second"):
        missing = f"{name} has a single verdict on each required set: hard, sample. Missing: hard."
        assert (code, missing in text) == (3, True), text


def test_the_folder_of_one_set_does_not_hold_without_the_others_that_its_verdict_names(
    results, tmp_path
):
    folder = tmp_path / "results" / FIRST
    shutil.copytree(results, tmp_path / "results")
    write_verdict(folder, required_sets=["hard", "sample"])
    code, text = run("verify", folder)
    assert (code, "required set: hard, sample. Missing: hard." in text) == (3, True), text
    code, text = run("show", folder)
    assert text.endswith(f"biasgate verify {os.path.relpath(tmp_path / 'results')}"), text
    write_verdict(
        folder, required_sets=["sample"], evaluation_set=read_set(folder) | {"required": False}
    )
    code, text = run("verify", folder)
    assert (code, "required set: sample. Missing: sample." in text) == (3, True), text


@pytest.mark.parametrize(("second", "expected"), [(["sample"], 0), ([], 3)])
def test_verdicts_that_require_different_sets_do_not_hold_together(
    key, results, tmp_path, second, expected
):
    folder = tmp_path / "results"
    shutil.copytree(results, folder)
    required = {"first": ["sample"], "second": second}
    for name, sets in required.items():
        write_verdict(folder / "sample" / name, required_sets=sets, key=key)
    rewrite_summary(
        folder,
        lambda summary: [
            verdict.update(required_sets=required[verdict["candidate"]["name"]])
            for verdict in summary["verdicts"]
        ],
    )
    code, text = run("verify", folder)
    wrong = r"DOES NOT HOLD verdict: the verdicts use the same policy, and require the same sets\."
    assert (code, bool(re.search(wrong, text))) == (expected, expected == 3), text


def empty_summary(summary):
    summary.update(verdicts=[], decisions=[], outcome_of=[], outcome="insufficient", sets=[])


def test_a_summary_of_nothing_does_not_hold(results, tmp_path):
    folder = tmp_path / "results"
    shutil.copytree(results, folder)
    rewrite_summary(folder, empty_summary)
    code, text = run("verify", folder)
    assert (code, "must contain a verdict to verify; it does not." in text) == (3, True), text


def test_counts_that_hold_beside_a_summary_do_not_vouch_for_it(results, tmp_path):
    """The output of `show` is verified, regardless of other files in the folder."""
    folder = tmp_path / "results"
    shutil.copytree(results, folder)
    (folder / "evidence.counts").write_bytes(b"counts")
    rewrite_summary(folder, drop_verdicts)
    code, text = run("verify", folder)
    assert (code, "Different: first." in text) == (3, True), text


def test_a_pinned_policy_and_set_must_be_those_of_the_folder(results):
    digest = verdict_of(results, "first")["policy"]["digest"]
    code, _ = run("verify", results, "--policy-digest", digest, "--evaluation-set", "sample")
    assert code == 0
    other = digest[::-1]
    assert run("verify", results, "--policy-digest", other)[0] == 3
    assert run("verify", results, "--evaluation-set", "another")[0] == 3
    code, text = run("verify", results, "--evaluation-set", "sample=")
    assert (code, "without a digest. Is a variable empty?" in text) == (2, True)
    code, text = run("verify", results, "--attestation", "file")
    assert (code, "must be given with --policy-digest" in text) == (2, True)


def test_other_code_that_says_the_same_is_told(results, tmp_path):
    shutil.copytree(results, tmp_path / "results")
    write_verdict(tmp_path / "results" / FIRST, code=OTHER_CODE)
    code, text = run("verify", tmp_path / "results" / FIRST)
    assert code == 0, text
    assert f"{FIRST} records other code, '0.0.1'. This code gives the same sentences." in text


def test_reservations_by_other_code_are_told_as_this_code_has_them(results, tmp_path):
    shutil.copytree(results, tmp_path / "results")
    [true, *_] = verdict_of(results, "first")["reservations"]
    forged = "The AUC is 0.99 for everybody."
    write_verdict(tmp_path / "results" / FIRST, code=OTHER_CODE, reservations=[forged])
    code, text = run("verify", tmp_path / "results" / FIRST, "--json")
    assert code == 0, text
    [told] = [one for one in json.loads(text) if one["what"] == "code"]
    assert told["sentence"] == (
        f"the verdict on {FIRST} records other code, '0.0.1'. These sentences are not verified; "
        f"this code has: reservations.0: {true}"
    )
    assert forged not in text


@pytest.mark.parametrize("forged", [FORGED, {"reason": "no_loss"}])
def test_a_forged_result_in_a_folder_does_not_hold_whichever_code_it_names(
    results, tmp_path, forged
):
    shutil.copytree(results, tmp_path / "results")
    write_verdict(tmp_path / "results" / FIRST, forged, code=OTHER_CODE)
    code, text = run("verify", tmp_path / "results" / FIRST)
    assert (code, f"Different: results.0.{next(iter(forged))}." in text) == (3, True), text


def test_what_decides_is_compared_whatever_code_a_verdict_names(results, tmp_path):
    """This includes values whose keys are named code or sentence."""
    shutil.copytree(results, tmp_path / "results")
    folder = tmp_path / "results" / FIRST
    report = json.loads((folder / "report.json").read_text("utf-8"))
    candidate = report["candidate"]
    report["candidate"] = candidate | {"opened_as": {"code": "a", "sentence": "a"}}
    (folder / "report.json").write_text(json.dumps(report), "utf-8")
    write_verdict(
        folder,
        code=OTHER_CODE,
        candidate=candidate | {"opened_as": {"code": "b", "sentence": "b"}},
        report_digest=json_digest(Report.from_dict(report)),
    )
    code, text = run("verify", folder)
    differ = "Different: candidate.opened_as.code; candidate.opened_as.sentence."
    assert (code, differ in text) == (3, True), text
