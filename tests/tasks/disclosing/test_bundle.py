"""A bundle is verified in an empty folder by trusted keys alone; whatever is changed is refused."""

import json
import os
import random
import re
import shutil
import stat
import subprocess
import sys
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.evaluations import run
from support.filed import judge_site, verdict_of

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.disclosing import bundle
from biasgate.tasks.records import Report, Verdict
from biasgate.tasks.signing.envelope import Envelope
from biasgate.tasks.signing.keys import PrivateKey, TrustedKey, TrustedKeys
from biasgate.tasks.signing.statement import attest

FIRST = "sample/first"
NOT_COMPARED = "Not compared: intervals, sentences and warnings of its report, and pages, tables,"


@pytest.fixture
def key(monkeypatch, tmp_path):
    """A key that is trusted here, and with which bundles are signed."""
    found = PrivateKey.new()
    monkeypatch.setenv("BIASGATE_PRIVATE_KEY", found.pem)
    trusted = tmp_path / "keys"
    trusted.mkdir()
    monkeypatch.setenv("BIASGATE_TRUSTED_KEYS", str(trusted))
    keys = TrustedKeys.of_file(trusted / "trusted_keys.json")
    keys.with_key(TrustedKey(found.public, "auditor", "2026-01-01T00:00:00+00:00")).write(
        trusted / "trusted_keys.json"
    )
    return found


@pytest.fixture
def audit(key, results, tmp_path):
    """A bundle of both candidates."""
    del key
    code, text = run("bundle", results, "--output", tmp_path / "audit.zip")
    assert code == 0, text
    assert "2 signed verdicts" in text
    return tmp_path / "audit.zip"


def contents(file):
    with zipfile.ZipFile(file) as archive:
        return {info: archive.read(info) for info in archive.infolist()}


def rewritten(file, change):
    """Write the bundle again after `change(files)`, a dict of names and bytes."""
    held = {info.filename: content for info, content in contents(file).items()}
    change(held)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in held.items():
            archive.writestr(name, content)


def test_a_bundle_holds_on_a_machine_without_registry_store_or_results(audit, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    shutil.move(audit, empty / "audit.zip")
    done = subprocess.run(
        [sys.executable, "-m", "biasgate", "verify", "audit.zip", "--json"],
        cwd=empty,
        env=os.environ | {"HOME": str(empty), "MLFLOW_TRACKING_URI": "http://127.0.0.1:9"},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    findings = json.loads(done.stdout)
    assert all(one["holds"] for one in findings)
    recomputed = [one for one in findings if "gives the same one" in one["sentence"]]
    assert len(recomputed) == 2
    assert all(NOT_COMPARED in one["sentence"] for one in recomputed)
    assert os.listdir(empty) == ["audit.zip"]  # noqa: PTH208 - a list of names


def test_there_are_no_ids_in_it(audit):
    held = {info.filename: content for info, content in contents(audit).items()}
    rows = pq.read_table(pa.BufferReader(held[f"{FIRST}/evidence.parquet"]))
    assert set(rows["id"].to_pylist()) == {""}
    assert rows.num_rows == 2000


def test_names_of_clusters_become_numbers_and_the_verdict_stays(key, site, tmp_path):
    del key
    named = site.assign(cluster=[f"thread {row % 50}" for row in range(len(site))])
    folder = judge_site(tmp_path / "named", named)
    code, text = run("bundle", folder, "--output", tmp_path / "named.zip")
    assert code == 0, text
    held = {info.filename: content for info, content in contents(tmp_path / "named.zip").items()}
    rows = pq.read_table(pa.BufferReader(held[f"{FIRST}/evidence.parquet"]))
    assert rows["cluster"].type == pa.int64()
    assert rows["cluster"].combine_chunks().unique().to_pylist() != []
    code, text = run("verify", tmp_path / "named.zip")
    assert code == 0, text
    assert text.count("gives the same one") == 2


def test_two_bundles_of_the_same_results_differ_in_their_time_alone(audit, results, tmp_path):
    run("bundle", results, "--output", tmp_path / "again.zip")
    first, again = (
        {info.filename: content for info, content in contents(one).items()}
        for one in (audit, tmp_path / "again.zip")
    )
    assert {name for name in first if first[name] != again[name]} <= {"bundle.json"}


def flip(name):
    def change(held):
        content = bytearray(held[name])
        content[len(content) // 2] ^= 1
        held[name] = bytes(content)

    return change


def replace_text(name, old, new):
    def change(held):
        assert old in held[name]
        held[name] = held[name].replace(old, new, 1)

    return change


def swap_candidates(held):
    for name in ("verdict.json", "report.json", "evidence.parquet", "report.html"):
        one, other = f"{FIRST}/{name}", f"sample/second/{name}"
        held[one], held[other] = held[other], held[one]


def sign_again(held):
    """Whoever has no trusted key changes a verdict and signs all with a key of their own."""
    replace_text(f"{FIRST}/verdict.json", b'"decided_on"', b'"decided_oN"')(held)
    envelope = Envelope.of_dict(json.loads(held["bundle.json"]), "bundle")
    payload = envelope.payload
    mine = Envelope.sign(payload, bundle.PAYLOAD_TYPE, PrivateKey.new())
    held["bundle.json"] = json.dumps(mine.record().to_dict()).encode()


def unsign(held):
    content = json.loads(held["bundle.json"])
    held["bundle.json"] = json.dumps(content | {"signatures": []}).encode()


def add(name, content=b"x"):
    return lambda held: held.update({name: content})


def leave_out(name):
    return lambda held: held.pop(name)


def bomb(held):
    held[f"{FIRST}/report.html"] = b" " * (80 * 2**20)


TAMPERED = {
    "a flipped bit in a verdict": flip(f"{FIRST}/verdict.json"),
    "another outcome": replace_text(f"{FIRST}/verdict.json", b'"pass"', b'"fail"'),
    "another policy": replace_text(f"{FIRST}/policy.json", b"0.6", b"0.1"),
    "changed rows": flip(f"{FIRST}/evidence.parquet"),
    "a changed page": flip(f"{FIRST}/report.html"),
    "candidates swapped": swap_candidates,
    "signed by somebody else": sign_again,
    "not signed": unsign,
    "a changed list": flip("bundle.json"),
    "a file more": add(f"{FIRST}/notes.txt"),
    "a file less": leave_out(f"{FIRST}/report.json"),
    "a path out of the folder": add("../../evil.json"),
    "a bomb": bomb,
}


@pytest.mark.parametrize("change", TAMPERED.values(), ids=TAMPERED)
def test_a_tampered_bundle_is_refused(audit, change, tmp_path):
    before = set(tmp_path.rglob("*"))
    rewritten(audit, change)
    code, text = run("verify", audit)
    assert code in {2, 3}, text
    assert "DOES NOT HOLD" in text or "error" in text
    assert set(tmp_path.rglob("*")) == before


def rebuilt(audit, change):
    """Write the same files with other headers."""
    held = contents(audit)
    with zipfile.ZipFile(audit, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, content in held.items():
            change(archive, info, content)


def as_link(archive, info, content):
    if info.filename.endswith("report.html"):
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive.writestr(info, content)


def twice(archive, info, content):
    archive.writestr(info, content)
    if info.filename == f"{FIRST}/verdict.json":
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr(info.filename, content)


@pytest.mark.parametrize("change", [as_link, twice])
def test_links_and_files_that_are_there_twice_are_refused(audit, change):
    rebuilt(audit, change)
    code, text = run("verify", audit)
    assert code == 3
    assert "DOES NOT HOLD" in text


def test_what_no_verification_would_read_is_not_bundled(key, results, tmp_path, monkeypatch):
    del key
    monkeypatch.setattr(bundle, "_MOST_EVIDENCE", 1000)
    code, text = run("bundle", results, "--output", tmp_path / "large.zip")
    assert (code, "left out by `--without-rows`" in text) == (2, True)
    assert not (tmp_path / "large.zip").exists()


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04 no zip either"])
def test_what_is_no_bundle_is_refused_in_a_sentence(key, tmp_path, content):
    del key
    (tmp_path / "other.zip").write_bytes(content)
    code, text = run("verify", tmp_path / "other.zip")
    assert (code, "must be a zip file that `biasgate bundle` wrote" in text) == (2, True)
    code, text = run("verify", tmp_path / "none.zip")
    assert (code, "there is no such file" in text) == (2, True)


def test_a_flipped_bit_anywhere_is_refused_unless_all_files_stay_the_same(audit, tmp_path):
    """Headers and the list at the end are hit most often; times and rights in them are no files."""
    whole, draws = audit.read_bytes(), random.Random(0)  # noqa: S311 - not for secrets
    files = {info.filename: content for info, content in contents(audit).items()}
    with zipfile.ZipFile(audit) as archive:
        heads = [info.header_offset + byte for info in archive.infolist() for byte in range(60)]
        heads += range(archive.start_dir, len(whole))
    damaged, n_held = tmp_path / "damaged.zip", 0
    for number in range(150):
        at = draws.choice(heads) if number % 5 else draws.randrange(len(whole))
        content = bytearray(whole)
        content[at] ^= 1 << draws.randrange(8)
        damaged.write_bytes(content)
        try:
            holds = all(one.holds for one in bundle.verify_bundle(damaged))
        except InputError:
            holds = False
        if holds:
            n_held += 1
            assert {info.filename: held for info, held in contents(damaged).items()} == files
    assert n_held < 75


def test_a_program_before_the_zip_is_refused(audit):
    audit.write_bytes(b"#!/bin/sh\n" + audit.read_bytes())
    code, text = run("verify", audit)
    assert (code, "must be a plain zip" in text) == (2, True)


def test_bytes_after_the_zip_are_refused(audit):
    audit.write_bytes(audit.read_bytes() + b"more")
    code, text = run("verify", audit)
    assert (code, "must be a plain zip" in text) == (2, True)


def test_no_key_trusted_is_no_proof_and_no_key_signs_nothing(audit, results, monkeypatch, tmp_path):
    monkeypatch.delenv("BIASGATE_PRIVATE_KEY")
    monkeypatch.delenv("BIASGATE_TRUSTED_KEYS")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "nobody"))
    code, text = run("verify", audit)
    assert (code, "no key is trusted here" in text) == (3, True)
    code, text = run("bundle", results, "--output", tmp_path / "none.zip")
    assert (code, "a bundle must be signed" in text) == (2, True)
    assert not (tmp_path / "none.zip").exists()


def test_a_pinned_policy_and_set_must_be_the_ones_of_the_bundle(audit, results):
    digest = verdict_of(results, "first")["policy"]["digest"]
    code, _ = run("verify", audit, "--policy-digest", digest, "--evaluation-set", "sample")
    assert code == 0
    other = digest[::-1]
    assert run("verify", audit, "--policy-digest", other)[0] == 3
    assert run("verify", audit, "--evaluation-set", "another")[0] == 3
    code, text = run("verify", audit, "--evaluation-set", "sample=")
    assert (code, "without a digest. Is a variable empty?" in text) == (2, True)
    code, text = run("verify", audit, "--attestation", "file")
    assert (code, "must be given with nothing but" in text) == (2, True)


def test_without_rows_it_says_that_nothing_was_recomputed(key, results, tmp_path):
    del key
    run("bundle", results, "--output", tmp_path / "counts.zip", "--without-rows")
    assert not any("parquet" in info.filename for info in contents(tmp_path / "counts.zip"))
    code, text = run("verify", tmp_path / "counts.zip")
    assert code == 0
    said = r"not checked verdict: the verdict on \S+ \(pass\) is not recomputed: no rows are here"
    assert len(re.findall(said, text)) == 2
    assert text.count("name the same rows, not in the bundle") == 2
    assert "the evidence in" not in text


def edit(name, **values):
    def change(folder):
        content = json.loads((folder / name).read_text("utf-8"))
        (folder / name).write_text(json.dumps(content | values), "utf-8")

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (edit("verdict.json", decided_on="2031-01-01"), "the attestation in sample/first says"),
        (edit("report.json", warnings=["forged"]), "the report on sample/first has the digest"),
        (lambda folder: (folder / "attestation.json").unlink(), "attestation.json must be there"),
    ],
)
@pytest.mark.parametrize("options", [[], ["--without-rows"]])
def test_what_does_not_hold_is_not_signed(key, results, tmp_path, change, why, options):
    del key
    shutil.copytree(results, tmp_path / "results")
    change(tmp_path / "results" / FIRST)
    file = tmp_path / "forged.zip"
    code, text = run("bundle", tmp_path / "results", "--output", file, *options)
    assert (code, why in text) == (2, True), text
    assert not file.exists()


MISSING = (
    "the verdict on sample/first cannot be verified: attestation.json in sample/first must be "
    "there, since it says of which files the verdict is"
)
FORGED = "The AUC is 0.99 for everybody."
OTHER_CODE = {"version": "0.0.1", "bias_metrics": "0" * 64}


def say(folder, forged=None, key=None, **changed):
    """Write another verdict into a folder, its first sentence forged, and attest it."""
    content = json.loads((folder / "verdict.json").read_text("utf-8")) | changed
    true = content["results"][0]["sentence"]
    content["results"][0]["sentence"] = forged or true
    (folder / "verdict.json").write_text(json.dumps(content), "utf-8")
    attest(Verdict.from_dict(content), folder, key)
    return true


@pytest.mark.parametrize("changed", [{}, {"code": OTHER_CODE}], ids=["this code", "other code"])
def test_a_forged_sentence_is_not_signed_whatever_code_it_names(key, results, tmp_path, changed):
    del key
    shutil.copytree(results, tmp_path / "results")
    say(tmp_path / "results" / FIRST, FORGED, **changed)
    code, text = run("bundle", tmp_path / "results", "--output", tmp_path / "forged.zip")
    assert (code, "must hold to be signed" in text) == (2, True), text
    assert not (tmp_path / "forged.zip").exists()


@pytest.mark.parametrize("place", ["", FIRST])
def test_the_folder_of_an_evaluation_is_verified_without_a_bundle(results, place):
    code, text = run("verify", results / place)
    assert (code, "DOES NOT HOLD" in text) == (0, False), text
    assert f"gives the same one (pass). {NOT_COMPARED}" in text
    unnoticed = rf"not checked signature: .* {FIRST} is not signed.*was judged again.*no check no"
    assert re.search(unnoticed, text)
    assert ("summary.json has the verdicts of the folders" in text) is (not place)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (edit("verdict.json", decided_on="2031-01-01"), "the verdicts of the folders, and"),
        (edit("report.json", warnings=["forged"]), "the report on sample/first has the digest"),
        (lambda folder: say(folder, FORGED), "summary.json has the verdicts of the folders"),
        (lambda folder: (folder / "evidence.parquet").unlink(), "its evidence.parquet is not"),
        (lambda folder: (folder / "attestation.json").unlink(), MISSING),
        (lambda folder: (folder / "verdict.json").unlink(), "verdict.json of the verdict on"),
        (lambda folder: (folder / "policy.json").unlink(), "policy.json of the verdict on"),
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
        attest(Verdict.from_dict(json.loads((folder / "verdict.json").read_text())), folder, key)
    code, text = run("verify", tmp_path / "signed")
    assert (code, "no check notices" in text) == (0, False), text


def test_a_blocked_candidate_is_verified_and_a_summary_that_lets_it_pass_is_not(site, tmp_path):
    upside_down = site.assign(first=1 - site["first"])
    folder = judge_site(tmp_path / "out", upside_down)
    assert run("verify", folder)[0] == 0
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    assert summary["outcome"] == "fail"
    for one in summary["decisions"]:
        one["outcome"] = "pass"
    (folder / "summary.json").write_text(json.dumps(summary), "utf-8")
    code, text = run("verify", folder)
    assert (code, "But not: first, its outcome." in text) == (3, True), text


def summarised(folder, change):
    """Rewrite the summary of a folder, as somebody would who forges it."""
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    change(summary)
    (folder / "summary.json").write_text(json.dumps(summary), "utf-8")


def forget(summary):
    summary["verdicts"] = [
        one for one in summary["verdicts"] if one["candidate"]["name"] != "first"
    ]


def drop(summary):
    del summary["decisions"][0]


def praise(summary):
    summary["decisions"][0] |= {"word": "Passed for everybody", "exceptions": []}


@pytest.mark.parametrize(
    ("change", "why"),
    [(forget, "But not: first."), (praise, "But not: first."), (drop, "But not: first.")],
    ids=["a pass without a verdict", "another word", "no decision"],
)
def test_a_forged_summary_does_not_hold(results, tmp_path, change, why):
    shutil.copytree(results, tmp_path / "results")
    summarised(tmp_path / "results", change)
    code, text = run("verify", tmp_path / "results")
    assert (code, why in text) == (3, True), text


def test_a_required_set_that_was_left_out_is_missed_though_all_is_signed(key, results, tmp_path):
    folder = tmp_path / "results"
    shutil.copytree(results, folder)
    for name in ("first", "second"):
        say(folder / "sample" / name, required_sets=["hard", "sample"], key=key)
    summarised(
        folder,
        lambda summary: [
            one.update(required_sets=["hard", "sample"]) for one in summary["verdicts"]
        ],
    )
    code, text = run("verify", folder)
    assert (code, "Missing: first on hard, second on hard." in text) == (3, True), text


@pytest.mark.parametrize(("second", "expected"), [(["sample"], 0), ([], 3)])
def test_verdicts_that_require_different_sets_do_not_hold_together(
    key, results, tmp_path, second, expected
):
    folder = tmp_path / "results"
    shutil.copytree(results, folder)
    required = {"first": ["sample"], "second": second}
    for name, sets in required.items():
        say(folder / "sample" / name, required_sets=sets, key=key)
    summarised(
        folder,
        lambda summary: [
            one.update(required_sets=required[one["candidate"]["name"]])
            for one in summary["verdicts"]
        ],
    )
    code, text = run("verify", folder)
    wrong = r"DOES NOT HOLD verdict: the verdicts are by one policy, and require the same sets\."
    assert (code, bool(re.search(wrong, text))) == (expected, expected == 3), text


def test_counts_that_hold_beside_a_summary_do_not_vouch_for_it(results, tmp_path):
    """What `show` prints is verified, whatever else lies in the folder."""
    folder = tmp_path / "results"
    shutil.copytree(results, folder)
    (folder / "evidence.counts").write_bytes(b"counts")
    summarised(folder, forget)
    code, text = run("verify", folder)
    assert (code, "But not: first." in text) == (3, True), text


def test_other_code_that_says_the_same_is_told(key, results, tmp_path):
    del key
    shutil.copytree(results, tmp_path / "results")
    say(tmp_path / "results" / FIRST, code=OTHER_CODE)
    assert run("bundle", tmp_path / "results", "--output", tmp_path / "old.zip")[0] == 0
    code, text = run("verify", tmp_path / "old.zip")
    assert code == 0, text
    assert f"{FIRST} names other code, '0.0.1'. This code says the same of it." in text


def test_sentences_of_a_bundle_by_other_code_are_told_as_this_code_has_them(
    key, results, tmp_path, monkeypatch
):
    del key
    shutil.copytree(results, tmp_path / "results")
    true = say(tmp_path / "results" / FIRST, FORGED, code=OTHER_CODE)
    with monkeypatch.context() as patch:  # the code that words sentences in this way signed it
        patch.setattr(bundle, "_refuse_unfounded", lambda _: None)
        assert run("bundle", tmp_path / "results", "--output", tmp_path / "old.zip")[0] == 0
    code, text = run("verify", tmp_path / "old.zip", "--json")
    assert code == 0, text
    [told] = [one for one in json.loads(text) if one["what"] == "code"]
    assert told["sentence"] == (
        f"the verdict on {FIRST} names other code, '0.0.1'. Not verified are these sentences, as "
        f"this code has them: results.0.sentence: {true}"
    )
    assert FORGED not in text


def test_what_decides_is_compared_whatever_code_a_verdict_names(key, results, tmp_path):
    """Also where its place is called code or sentence."""
    del key
    shutil.copytree(results, tmp_path / "results")
    folder = tmp_path / "results" / FIRST
    report = json.loads((folder / "report.json").read_text("utf-8"))
    candidate = report["candidate"]
    report["candidate"] = candidate | {"opened_as": {"code": "a", "sentence": "a"}}
    (folder / "report.json").write_text(json.dumps(report), "utf-8")
    say(
        folder,
        code=OTHER_CODE,
        candidate=candidate | {"opened_as": {"code": "b", "sentence": "b"}},
        report_digest=json_digest(Report.from_dict(report)),
    )
    code, text = run("bundle", tmp_path / "results", "--output", tmp_path / "forged.zip")
    differ = "Different: candidate.opened_as.code; candidate.opened_as.sentence."
    assert (code, differ in text) == (2, True), text
