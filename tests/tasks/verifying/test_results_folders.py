"""Verdicts in a results folder are recomputed; changes are found."""

import json
import os
import re
import shutil

import pytest
from support.evaluations import run
from support.filed import comments, judge_site, verdict_of
from support.promoted import edit_json, flip_byte, trust

from biasgate.tasks.common.files import json_digest
from biasgate.tasks.records import Report, Verdict
from biasgate.tasks.signing.keys import PrivateKey
from biasgate.tasks.signing.statement import attest_verdict

FIRST = "sample/first"
NAMES = ("first", "second")
NOT_COMPARED = (
    "Not compared: warnings, analyses, terms, missing scores and truncated comments of its report, "
    "and pages, tables, model"
)
OTHER_CODE = {"version": "0.0.1", "bias_metrics": "0" * 64}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """The results of two classifiers on one set."""
    return judge_site(tmp_path_factory.mktemp("site") / "out", comments())


@pytest.fixture
def results(original, tmp_path):
    """A copy of the results."""
    return shutil.copytree(original, tmp_path / "results")


@pytest.fixture
def key(monkeypatch, tmp_path):
    """A trusted key."""
    (tmp_path / "keys").mkdir()
    made = PrivateKey.generate()
    trust(monkeypatch, tmp_path / "keys", auditor=made)
    return made


def check_folder(folder, expected, told, *options):
    """Check the exit code of `verify` and a part of its output; return the output."""
    code, text = run("verify", folder, *options)
    assert (code, told in text) == (expected, True), text
    return text


def check_holds(folder):
    code, text = run("verify", folder)
    assert (code, "DOES NOT HOLD" in text) == (0, False), text
    return text


# ------------------------------------------------------------------ how to tamper


def write_verdict(folder, forged=None, key=None, **changed):
    """Write a verdict with a forged first result to a folder, and attest it."""
    content = json.loads((folder / "verdict.json").read_text("utf-8")) | changed
    content["results"][0] |= forged or {}
    (folder / "verdict.json").write_text(json.dumps(content), "utf-8")
    attest_verdict(Verdict.from_dict(content), folder, key)


def forge_verdict(forged=None, **changed):
    return lambda results: write_verdict(results / FIRST, forged, **changed)


def edit_file(name, **values):
    return lambda results: edit_json(results / name, lambda content: content.update(values))


def remove_file(name):
    return lambda results: (results / FIRST / name).unlink()


def edit_summary(change):
    return lambda results: edit_json(results / "summary.json", change)


def flip_evidence(results):
    flip_byte(results / FIRST / "evidence.parquet")


def swap_candidates(results):
    """Exchange the files of the two candidates."""
    first, second = (results / "sample" / name for name in NAMES)
    first.rename(results / "other")
    second.rename(first)
    (results / "other").rename(second)


def drop_verdict(summary):
    """Let a candidate pass without a verdict."""
    verdicts = summary["verdicts"]
    summary["verdicts"] = [one for one in verdicts if one["candidate"]["name"] != "first"]


def add_counts(results):
    """Leave out a verdict, and add counts that hold on their own."""
    (results / "evidence.counts").write_bytes(b"counts")
    edit_summary(drop_verdict)(results)


def require_sets(results, key, sets_by_name):
    """Change the required sets of the verdicts, and of the summary."""

    def change(summary):
        for verdict in summary["verdicts"]:
            verdict["required_sets"] = sets_by_name[verdict["candidate"]["name"]]

    for name, sets in sets_by_name.items():
        write_verdict(results / "sample" / name, required_sets=sets, key=key)
    edit_summary(change)(results)


def exempt_set(results):
    """Name the set as required, and say that it is not."""
    own = json.loads((results / FIRST / "verdict.json").read_text("utf-8"))["evaluation_set"]
    forge_verdict(required_sets=["sample"], evaluation_set=own | {"required": False})(results)


def change_options(results):
    """Change how the model was opened, in keys that are named as the parts of other code."""
    folder = results / FIRST
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


EMPTY = {"verdicts": [], "decisions": [], "outcome_of": [], "sets": [], "outcome": "insufficient"}
SUMMARY = "summary.json matches the verdicts in the folders"
MISSING = (
    "the verdict on sample/first cannot be verified: attestation.json in sample/first must exist"
)
PRAISE = {"word": "Passed for everybody", "exceptions": []}
FIRST_DIFFERS = "Different: first."
# What is changed, and a part of the finding about the whole folder.
ATTACKS = {
    "a date": (edit_file(f"{FIRST}/verdict.json", decided_on="2031-01-01"), "the verdicts in the"),
    "a report": (
        edit_file(f"{FIRST}/report.json", warnings=[""]),
        "the report on sample/first has",
    ),
    "a result": (forge_verdict({"value": 0.99}), SUMMARY),
    "no evidence": (remove_file("evidence.parquet"), "its evidence.parquet is missing"),
    "no attestation": (remove_file("attestation.json"), MISSING),
    "no verdict": (remove_file("verdict.json"), "verdict.json of the verdict on"),
    "no policy": (remove_file("policy.json"), "policy.json of the verdict on"),
    "a byte of the evidence": (flip_evidence, "the evidence on sample/first has the digest"),
    "swapped candidates": (swap_candidates, "the verdict in sample/first is about this set and"),
    "a pass without a verdict": (edit_summary(drop_verdict), FIRST_DIFFERS),
    "another word": (
        edit_summary(lambda summary: summary["decisions"][0].update(PRAISE)),
        FIRST_DIFFERS,
    ),
    "no decision": (edit_summary(lambda summary: summary["decisions"].pop(0)), FIRST_DIFFERS),
    "a summary of nothing": (
        edit_file("summary.json", **EMPTY),
        "must contain a verdict to verify",
    ),
    "counts beside a summary": (add_counts, FIRST_DIFFERS),
}
# The same of the folder of a single verdict.
ATTACKS_ON_ONE = {
    "a missing required set": (
        forge_verdict(required_sets=["hard", "sample"]),
        "required set: hard, sample. Missing: hard.",
    ),
    "a required set that is not": (exempt_set, "required set: sample. Missing: sample."),
    "a value of other code": (
        forge_verdict({"value": 0.99}, code=OTHER_CODE),
        "Different: results.0.value.",
    ),
    "a reason of other code": (
        forge_verdict({"reason": "no_loss"}, code=OTHER_CODE),
        "Different: results.0.reason.",
    ),
    "options of other code": (
        change_options,
        "Different: candidate.opened_as.code; candidate.opened_as.sentence.",
    ),
}


@pytest.mark.parametrize("attack", [*ATTACKS, *ATTACKS_ON_ONE])
def test_what_was_changed_in_a_folder_does_not_hold(results, attack):
    change, told = (ATTACKS | ATTACKS_ON_ONE)[attack]
    change(results)
    check_folder(results if attack in ATTACKS else results / FIRST, 3, told)


# ------------------------------------------------------------------ what holds


@pytest.mark.parametrize("place", ["", FIRST])
def test_the_folder_of_an_evaluation_is_verified(original, place):
    text = check_holds(original / place)
    assert f"reproduces it (pass). {NOT_COMPARED}" in text
    assert re.search(rf"not checked signature: .* {FIRST} is not signed.*no check detects", text)
    assert (SUMMARY in text) is (not place)


def test_where_a_key_is_trusted_an_unsigned_folder_does_not_hold(key, results):
    unsigned = f"DOES NOT HOLD signature: the attestation in {FIRST} is not signed."
    check_folder(results, 3, unsigned)
    for name in NAMES:
        write_verdict(results / "sample" / name, key=key)
    assert "no check detects" not in check_holds(results)


@pytest.mark.parametrize(("report_only", "outcome"), [(False, "fail"), (True, "pass")])
def test_a_blocked_candidate_is_verified_and_a_summary_that_lets_it_pass_is_not(
    tmp_path, report_only, outcome
):
    site = comments()
    upside_down = site.assign(first=1 - site["first"])
    folder = judge_site(tmp_path / "out", upside_down, report_only=report_only)
    assert json.loads((folder / "summary.json").read_text("utf-8"))["outcome"] == outcome
    assert verdict_of(folder, "first")["outcome"] == "fail"
    check_holds(folder)
    forged = {"report_only": False} if report_only else {"outcome": "pass"}
    edit_summary(lambda summary: summary["decisions"][0].update(forged))(folder)
    check_folder(folder, 3, "Different: first" + ("." if report_only else ", its outcome."))


def test_a_required_set_that_was_left_out_is_missed_though_all_is_signed(key, results):
    require_sets(results, key, {name: ["hard", "sample"] for name in NAMES})
    for name in NAMES:
        missing = f"{name} has a single verdict on each required set: hard, sample. Missing: hard."
        check_folder(results, 3, missing)
    code, text = run("show", results / FIRST)
    assert text.endswith(f"biasgate verify {os.path.relpath(results)}"), (code, text)


@pytest.mark.parametrize(("second", "expected"), [(["sample"], 0), ([], 3)])
def test_verdicts_that_require_different_sets_do_not_hold_together(key, results, second, expected):
    require_sets(results, key, {"first": ["sample"], "second": second})
    text = check_folder(results, expected, "")
    wrong = "DOES NOT HOLD verdict: the verdicts use the same policy, and require the same sets."
    assert (wrong in text) == (expected == 3), text


def test_a_pinned_policy_and_set_must_be_those_of_the_folder(original):
    digest = verdict_of(original, "first")["policy"]["digest"]
    pins = "--policy-digest", "--evaluation-set"
    check_folder(original, 0, "", pins[0], digest, pins[1], "sample")
    check_folder(original, 3, "", pins[0], digest[::-1])
    check_folder(original, 3, "", pins[1], "another")
    check_folder(original, 2, "without a digest. Is a variable empty?", pins[1], "sample=")
    check_folder(original, 2, "must be given with --policy-digest", "--attestation", "file")
