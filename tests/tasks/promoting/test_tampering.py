"""A table of attacks: those of the threat model, and the findings that detect them.

Anyone with write access may change tags, entries, files and aliases; `verify` names what does not
hold. Attacks that are not detected have no test.
"""

import ast
import functools
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.cells import cell, key_of
from support.judging import measured_parts
from support.promoted import (
    LEDGER,
    MODEL,
    POLICY,
    edit_json,
    flip_byte,
    registered_version,
    tag_of_entry,
    trust,
)
from support.registry import Registry, Template

import biasgate
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import file_digest, json_digest, write_json
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.evidence.file import FILE, EvidenceFile
from biasgate.tasks.ledger.entry import TAG, Move, PolicyReference
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.attest import write_attestation
from biasgate.tasks.promoting.by_hand import reset_ledger
from biasgate.tasks.promoting.champion import record_move
from biasgate.tasks.promoting.verify import NotVerifiedError, require_champion, verify_model
from biasgate.tasks.records import LoggedVerdict, Report, Verdict
from biasgate.tasks.reporting.version_tags import build_tags
from biasgate.tasks.signing.keys import PrivateKey
from biasgate.tasks.signing.manifest import Manifest
from biasgate.tasks.signing.statement import attest_verdict, compute_verdict_digest
from biasgate.tasks.verifying.documents import Documents
from biasgate.tasks.verifying.verdict import recompute_verdict

KEY, OTHER_KEY = PrivateKey.generate(), PrivateKey.generate()
VERDICT, ATTESTATION = "verdict.json", "attestation.json"
SPARSE = 200 * 10**9  # bytes; it takes no space on the disk, and minutes to read


def make_champions(registry):
    """Register a policy, promote a champion and replace it, signed; the third is not judged."""
    registry.patch.setenv("BIASGATE_PRIVATE_KEY", KEY.pem)
    registry.patch.setenv("BIASGATE_TRUSTED_KEYS", str(registry.folder))
    registry.gateway.create_model(MODEL)
    pin = PolicyReference(name=POLICY.name, digest=POLICY.digest)
    record_move(registry.ledger, Move(action="policy", reason="registered", policy=pin), "")
    registry.gateway.tag_model(MODEL, {"biasgate.policy": f"{POLICY.name} {POLICY.digest}"})
    registry.promote_next()
    registry.promote_next()
    registered_version(registry.gateway, registry.folder, "third")


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    return Template(make_champions, tmp_path_factory)


@dataclass(frozen=True)
class Attack:
    """A row of the table."""

    tamper: Callable[[Registry], object]
    finds: set[str] = field(default_factory=set)
    """Names of the findings that fail."""
    says: str = ""
    """A part of the findings' sentences."""
    is_trusting: bool = False
    """True if the verifying machine trusts the key of the evaluations."""
    on_mlflow: bool = False
    """True if the attack runs on MLflow's own store, not in memory."""


# ------------------------------------------------------------------ how to tamper


def edit_value(name: str, place: str, value: Any):
    """Change the value at a place of a JSON file, such as `rules.0.floor`."""

    def change(content):
        *above, last = place.split(".")
        for key in above:
            content = content[int(key) if key.isdigit() else key]
        content[last] = value

    return lambda world: edit_json(world.find_file(name), change)


def set_tag(tag, value):
    return lambda world: world.gateway.tag_version(world.get_version(), {tag: value})


def move_alias(name, version):
    return lambda world: world.gateway.set_alias(MODEL, name, version)


def edit_entry(number, **changes):
    return lambda world: world.edit_entry(number, **changes)


def remove_entry(number):
    return lambda world: world.remove_entry(number)


def add_entry(tags):
    return lambda world: world.gateway.record_version(LEDGER, None, tags)


def remove_file(name):
    return lambda world: world.find_file(name).unlink()


def edit_record(**changes):
    """Change the record of the frozen set."""
    return lambda world: edit_json(
        world.rows.with_name("record.json"), lambda content: content.update(changes)
    )


def edit_scores(world, by=1.0):
    path = world.find_file(FILE)
    table = pq.read_table(path)
    at = table.column_names.index("score/candidate")
    better = table["score/candidate"].to_numpy() + by * table["label"].to_numpy()
    pq.write_table(table.set_column(at, "score/candidate", [better]), path)


def edit_rows(world, *, and_digest=False, **record):
    """Invert the labels of the frozen set, and optionally update its record."""
    table, path = pq.read_table(world.rows), world.rows
    label = 1.0 - table["label"].to_numpy()
    pq.write_table(table.set_column(table.column_names.index("label"), "label", [label]), path)
    if and_digest:
        record["file_sha256"] = file_digest(path)
        edit_record(**record)(world)
        edit_record(digest=EvaluationSet.load(path.parent).compute_digest())(world)


def add_newer_rows(world):
    """Add another version of the set next to the judged version."""
    shutil.copytree(world.rows.parent, world.rows.parent.with_name("comments-newer"))


def repeat_rows(world):
    """Repeat the rows of the evidence, and write a verdict with the new digest."""
    file = world.find_file(FILE)
    pq.write_table(pa.concat_tables([pq.read_table(file)] * 3), file)
    verdict = Verdict.read(world.find_file(VERDICT).read_bytes())
    replace_verdict(world, replace(verdict, evidence_digest=EvidenceFile(file).digest))


def replace_verdict(world, forged, forger=None):
    """Replace the champion's verdict, and all references to it, by a forged verdict."""
    version = world.get_version()
    write_json(world.find_file(VERDICT), forged)
    attest_verdict(forged, world.find_file("."), forger)
    world.gateway.tag_version(
        version, build_tags([LoggedVerdict.from_verdict(forged, version.run_id)])
    )
    last = world.ledger.chain.last_move
    rests_on = replace(last.content.verdicts[0], digest=compute_verdict_digest(forged))
    world.edit_entry(last, verdicts=[rests_on.to_dict()])


def forge_consistently(forger):
    """Improve scores, and rewrite all values that follow from them."""

    def forge(world):
        edit_scores(world, by=0.4)
        evidence = EvidenceFile(world.find_file(FILE))
        parts = measured_parts(evidence)
        edit_json(world.find_file("report.json"), lambda report: report.update(parts))
        forged = recompute_verdict(
            Documents.from_folder(world.find_file("."), "comments"), evidence
        )
        assert forged.outcome == "pass"
        replace_verdict(world, forged, forger)

    return forge


def rewrite_report(change):
    """Change numbers of the report, and all values that follow from them."""

    def rewrite_numbers(world):
        path = world.find_file("report.json")
        edit_json(path, lambda report: change(report["bias"]))
        report = json.loads(path.read_text("utf-8"))
        numbers = report["bias"]["numbers"]
        report["bias"]["numbers"] = list({key_of(number): number for number in numbers}.values())
        digest = json_digest(Report.from_dict(report))
        verdict = Verdict.read(world.find_file(VERDICT).read_bytes())
        replace_verdict(world, replace(verdict, report_digest=digest))

    return rewrite_numbers


def remove_number(table):
    table["numbers"].remove(cell(table, "bpsn_auc", "gay"))


def narrow_interval(table):
    table["numbers"][0]["low"] = table["numbers"][0]["value"]


def add_group(table):
    table["counts"].append(table["counts"][-1] | {"group": "muslim"})
    table["numbers"].append(cell(table, "bpsn_auc", "gay") | {"group": "muslim"})


def add_metric(table):
    table["numbers"].append(cell(table, "bpsn_auc", "gay") | {"metric": "another"})


def repeat_number(table):
    table["numbers"].insert(0, cell(table, "bpsn_auc", "gay") | {"value": 0.99})


def forge_result(**forged):
    """Forge a result in a verdict that records other code."""

    def forge(world):
        verdict = Verdict.read(world.find_file(VERDICT).read_bytes())
        code = replace(verdict.code, version="0.0.1", bias_metrics="0" * 64)
        results = [replace(verdict.results[0], **forged), *verdict.results[1:]]
        replace_verdict(world, replace(verdict, code=code, results=results))

    return forge


def steal_verdict(world):
    thief = world.gateway.register(MODEL, world.get_version().run_id, "model", {})
    world.gateway.tag_version(thief, world.get_version().tags)
    world.gateway.set_alias(MODEL, "champion", thief.version)


def replace_champion(world):
    made = world.gateway.register(MODEL, world.get_version().run_id, "model", {})
    world.gateway.set_alias(MODEL, "champion", made.version)


def exchange_entries(world):
    first, second = world.read_tag(2), world.read_tag(3)
    world.put_tag(2, second)
    world.put_tag(3, first)


def copy_entry(world):
    add_entry({TAG: world.read_tag(2)})(world)
    world.gateway.set_alias(MODEL, "champion", "1")


def move_entry(world):
    """Write the second entry as an entry of another model."""
    payload = json.loads(world.read_tag(2))["payload"] | {"model": "another"}
    world.put_tag(2, tag_of_entry(payload)[TAG])


def edit_signed_entry(world):
    """Change the last entry, but not its signature."""
    tag = json.loads(world.read_tag(3))
    tag["payload"]["reason"] = "nothing to see"
    world.put_tag(3, json.dumps(tag))


def reset_unsigned(world):
    with world.patch.context() as patch:
        trust(patch, world.folder / "nobody")
        reset_ledger(MODEL, "2", "nothing to see", world.gateway)


def remove_last_entry(world):
    scores = EvidenceFile(world.find_file(FILE)).column("score/candidate")
    world.judge_next(champion=(world.get_version(), None, scores), seed=7)
    world.remove_entry(3)
    world.gateway.set_alias(MODEL, "champion", "1")
    world.gateway.delete_alias(MODEL, "previous_champion")


def remove_ledger(world):
    world.gateway.client.delete_registered_model(LEDGER)
    for version in ("1", "2"):
        world.gateway.tag_version(world.get_version(version), {"biasgate.comments.ledger": ""})


def copy_attestation(world):
    shutil.copy(world.find_file(ATTESTATION, 1), world.find_file(ATTESTATION))


def hide_attestation(world):
    """Remove the attestation from a server, which refuses to list what it lacks."""
    open_files = Gateway.open_run_files

    def refuse(self, run_id, names=None):
        if names == [ATTESTATION]:
            msg = "the run has no such file"
            raise InputError(msg)
        return open_files(self, run_id, names)

    remove_file(ATTESTATION)(world)
    world.patch.setattr(type(world.gateway), "open_run_files", refuse)


def edit_description(world):
    """Edit a model card and a metric: a documented limit."""
    world.gateway.describe_version(world.get_version(), "# Model card: without any bias")
    world.gateway.client.log_metric(world.get_version().run_id, "final_score", 1.0)


def exchange_files(world):
    own, other = world.find_files(2), world.find_files(3)
    (own / "weights").rename(other / "kept")
    (other / "weights").rename(own / "weights")
    (other / "kept").rename(other / "weights")


def flip_model_byte(name):
    return lambda world: flip_byte(world.find_files(2) / name)


def link(name):
    """Replace a file or folder of the version by a symbolic link to the same bytes."""

    def replace_by_link(world):
        path = world.find_files(2) / name
        shutil.move(path, world.folder / "elsewhere")
        path.symlink_to(world.folder / "elsewhere")

    return replace_by_link


def enlarge(name):
    """Enlarge a file, which nobody may read or copy."""

    def extend(world):
        with (world.find_files(2) / name).open("ab") as stream:
            stream.truncate(SPARSE)
        world.patch.setattr(shutil, "copyfile", lambda *_: pytest.fail("copied"))
        world.patch.setattr(Manifest, "from_path", lambda *_, **__: pytest.fail("read"))

    return extend


def move_source(world):
    """Point a version to the files of another one, in the database."""
    with closing(sqlite3.connect(world.store / "mlflow.db")) as database, database:
        database.execute(
            "UPDATE model_versions SET source = :source, storage_location = :source "
            "WHERE version = 2 AND name = :name",
            {"source": world.find_files(3).as_uri(), "name": MODEL},
        )


LENIENT = {"name": "lenient", "digest": "1" * 64}
EDITED = {"tags", "record", "attestation"}
LOST = {"verdict", "record", "policy", "rule"}
SET = "biasgate.comments"
ATTACKS = {
    "nothing": Attack(lambda _: None),
    # Files of the run that the verdict rests on.
    "an edited policy": Attack(
        edit_value("policy.json", "rules.0.floor", 0.5), {"policy", "attestation"}, on_mlflow=True
    ),
    "an edited report": Attack(
        edit_value("report.json", "bias.numbers.0.value", 0.99), {"report", "attestation"}
    ),
    "a report without a number": Attack(
        rewrite_report(remove_number), {"verdict"}, "cannot be recomputed: RuntimeError"
    ),
    "a report with a narrower interval": Attack(
        rewrite_report(narrow_interval), {"report"}, "numbers.0.low"
    ),
    "a report with another group": Attack(
        rewrite_report(add_group), {"verdict"}, "cannot be recomputed: RuntimeError"
    ),
    "a report with another metric": Attack(
        rewrite_report(add_metric), {"verdict"}, "cannot be recomputed: RuntimeError"
    ),
    "a report with a number twice": Attack(rewrite_report(repeat_number), {"verdict"}, "differs"),
    "edited scores": Attack(edit_scores, {"evidence", "attestation", "verdict"}),
    "evidence of more rows": Attack(
        repeat_rows, {"verdict"}, "must have the 600 rows that the report names; it has 1,800"
    ),
    "another outcome": Attack(edit_value(VERDICT, "outcome", "fail"), {*EDITED, "verdict"}),
    "another value": Attack(edit_value(VERDICT, "results.0.value", 0.9), EDITED),
    "another version": Attack(edit_value(VERDICT, "candidate.model", "models:/toxicity/9"), EDITED),
    "a forged reason": Attack(
        forge_result(reason="no_loss"), {"verdict"}, "Different: results.0.reason.", on_mlflow=True
    ),
    "a forged value": Attack(forge_result(value=0.99), {"verdict"}, "Different: results.0.value."),
    "a removed verdict": Attack(remove_file(VERDICT), LOST),
    "a removed run": Attack(
        lambda world: shutil.rmtree(world.find_file(".")), LOST, "artifacts must be at"
    ),
    "a description and a metric": Attack(edit_description, on_mlflow=True),
    # Files of the version.
    "exchanged weights": Attack(
        exchange_files, {"model"}, "weights: has 5 bytes; it had 2. Not read.", on_mlflow=True
    ),
    "a byte of the weights": Attack(flip_model_byte("weights"), {"model"}, ": weights: changed."),
    "a byte of the vocabulary": Attack(
        flip_model_byte("tokenizer/vocabulary"), {"model"}, ": tokenizer/vocabulary: changed."
    ),
    "an added file": Attack(
        lambda world: (world.find_files(2) / "tokenizer" / "hook.py").write_text("print()"),
        {"model"},
        ": tokenizer/hook.py: added, 7 bytes. Not read.",
    ),
    "a removed file": Attack(
        lambda world: (world.find_files(2) / "tokenizer" / "vocabulary").unlink(),
        {"model"},
        ": tokenizer/vocabulary: missing.",
    ),
    "removed files": Attack(
        lambda world: shutil.rmtree(world.find_files(2)), {"model"}, "artifacts must be at"
    ),
    "a link to a file": Attack(
        link("weights"),
        {"model"},
        "weights must be a regular file; it is a symbolic link",
        on_mlflow=True,
    ),
    "a link to a folder": Attack(
        link("tokenizer"), {"model"}, "tokenizer must be a regular file; it is a symbolic link"
    ),
    "a large new file": Attack(
        enlarge("large"), {"model"}, f"large: added, {SPARSE:,} bytes. Not read.", on_mlflow=True
    ),
    "a large file instead of another": Attack(
        enlarge("weights"), {"model"}, f"weights: has {SPARSE:,} bytes; it had 2. Not read."
    ),
    "another place of the files": Attack(
        move_source, {"model"}, ": weights: has 5 bytes; it had 2. Not read.", on_mlflow=True
    ),
    # Frozen rows.
    "edited rows": Attack(edit_rows, {"dataset"}, on_mlflow=True),
    "edited rows, and their digests": Attack(
        lambda world: edit_rows(world, and_digest=True), {"dataset"}, "Their digest is "
    ),
    "edited rows of another name": Attack(
        lambda world: edit_rows(world, and_digest=True, name="other", source={}), {"dataset"}
    ),
    "another split": Attack(edit_record(split="test"), {"dataset"}),
    "a removed record": Attack(
        lambda world: world.rows.with_name("record.json").unlink(), {"dataset"}
    ),
    "a newer set beside it": Attack(add_newer_rows),
    "a removed set": Attack(
        lambda world: shutil.rmtree(world.rows.parent), says="so they are not compared with"
    ),
    # Tags.
    "the tag of the outcome": Attack(set_tag(f"{SET}.verdict", "fail"), {"tags"}),
    "the tag of the verdict": Attack(set_tag(f"{SET}.verdict_digest", "0" * 64), {"tags"}),
    "the tag of the policy": Attack(set_tag(f"{SET}.policy", "lenient 1"), {"tags"}),
    "the tag of the run": Attack(set_tag(f"{SET}.run_id", "nowhere"), {"verdict"}),
    "the tag of the set": Attack(set_tag(f"{SET}.set_digest", "1"), {"tags"}),
    "another required set": Attack(set_tag("biasgate.required_sets", "other"), {"verdict"}),
    "no required set": Attack(set_tag("biasgate.required_sets", ""), {"verdict"}),
    # Aliases, and versions under them.
    "another champion": Attack(
        move_alias("champion", "1"),
        {"alias"},
        "champion is version 1; last promoted: 2",
        on_mlflow=True,
    ),
    "another former champion": Attack(
        move_alias("previous_champion", "2"),
        {"alias"},
        "previous_champion is version 2; last replaced: 1",
    ),
    "another policy in the tag of the model": Attack(
        lambda world: world.gateway.tag_model(MODEL, {"biasgate.policy": "lenient 0"}), {"policy"}
    ),
    "no verdict": Attack(
        replace_champion, {"verdict", "alias"}, "must have a verdict: evaluate it first"
    ),
    "a stolen verdict": Attack(steal_verdict, {"evidence", "alias"}, on_mlflow=True),
    # The ledger.
    "the rule better": Attack(edit_entry(3, rule="better"), {"rule"}, on_mlflow=True),
    "the rule never": Attack(edit_entry(3, rule="never"), {"rule"}),
    "the rule first": Attack(edit_entry(3, rule="first"), {"rule"}),
    "a version left aside": Attack(edit_entry(2, passed_over=["2"]), {"rule", "ledger"}),
    "another registered policy": Attack(
        edit_entry(1, policy=LENIENT),
        {"ledger", "policy"},
        "promotion 3 was decided by the registered policy, lenient.",
        on_mlflow=True,
    ),
    "a removed first entry": Attack(remove_entry(1), {"ledger", "policy"}),
    "a removed entry": Attack(remove_entry(2), {"ledger"}),
    "a removed last entry": Attack(
        remove_last_entry,
        {"ledger"},
        "Missing or changed: entry 3, which a verdict on version 4 names",
    ),
    "a removed ledger": Attack(
        remove_ledger,
        {"ledger", "alias", "tags"},
        "entry 3, which this machine saw before",
        is_trusting=True,
        on_mlflow=True,
    ),
    "exchanged entries": Attack(exchange_entries, {"ledger", "alias", "rule"}, on_mlflow=True),
    "a copied entry": Attack(
        copy_entry,
        {"ledger", "rule"},
        "entry 4 was written as entry 2 of toxicity, and copied",
        is_trusting=True,
    ),
    "an entry of another model": Attack(move_entry, {"ledger"}),
    "an edited entry": Attack(
        edit_signed_entry, {"ledger", "signature"}, "entry 3 ", is_trusting=True, on_mlflow=True
    ),
    "an unsigned reset": Attack(
        reset_unsigned, {"signature"}, f"entry 4 of {LEDGER} is not signed", is_trusting=True
    ),
    "an entry without a tag": Attack(add_entry({}), {"ledger"}),
    "an entry that is not JSON": Attack(add_entry({TAG: "not JSON"}), {"ledger"}),
    "an entry that is a list": Attack(add_entry({TAG: "[]"}), {"ledger"}),
    # Signatures.
    "all rewritten": Attack(
        forge_consistently(None), {"signature", "ledger"}, is_trusting=True, on_mlflow=True
    ),
    "all rewritten, and signed with another key": Attack(
        forge_consistently(OTHER_KEY), {"signature", "ledger"}, is_trusting=True
    ),
    "all rewritten, where no key is trusted": Attack(
        forge_consistently(None)
    ),  # the limit of digests
    "the attestation of another": Attack(copy_attestation, {"attestation"}, is_trusting=True),
    "a removed attestation": Attack(
        remove_file(ATTESTATION), {"signature"}, "is not signed: its attestation is missing"
    ),
    "a removed attestation, where keys are trusted": Attack(
        remove_file(ATTESTATION),
        {"signature"},
        "the verdict on comments is not signed: its attestation is missing",
        is_trusting=True,
    ),
    "an attestation that a server lacks": Attack(
        hide_attestation, {"signature"}, "is not signed: its attestation is missing"
    ),
    "a broken payload": Attack(edit_value(ATTESTATION, "payload", "abc="), {"signature"}),
    "no signatures": Attack(edit_value(ATTESTATION, "signatures", None), {"signature"}),
    "a signature that is none": Attack(
        edit_value(ATTESTATION, "signatures", [{"keyid": "", "sig": "?"}]), {"signature"}
    ),
    "another payload type": Attack(
        edit_value(ATTESTATION, "payloadType", "text/plain"), {"signature"}
    ),
}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=pytest.mark.mlflow if attack.on_mlflow else ())
        for row, attack in ATTACKS.items()
    ],
)
def test_what_was_tampered_with_is_found(registry, tmp_path, monkeypatch, row):
    attack, gateway, store = ATTACKS[row], registry.gateway, registry.store
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    if attack.is_trusting:
        trust(monkeypatch, tmp_path / "trusted", evaluations=KEY)
        assert registry.failed == set()  # from now on this machine knows the ledger
    attack.tamper(registry)
    findings = verify_model(MODEL, None, gateway, store)
    assert {finding.what for finding in findings if not finding.holds} == attack.finds
    assert attack.says in " ".join(finding.sentence for finding in findings)
    if not attack.finds:
        assert require_champion(MODEL, gateway, store).version == "2"
        return
    with pytest.raises(NotVerifiedError) as required:
        require_champion(MODEL, gateway, store)
    with pytest.raises(NotVerifiedError) as opened:
        biasgate.open_champion(MODEL, store)
    assert list((tmp_path / "temporary").iterdir()) == []
    assert all(attack.says in str(refused.value) for refused in (required, opened))
    if attack.finds != {"dataset"}:  # an attestation is written without the store's rows
        with pytest.raises(InputError):
            write_attestation(MODEL, None, tmp_path / "a.jsonl", gateway)
        assert not (tmp_path / "a.jsonl").exists()


# ------------------------------------------------------------------ the page of the threat model

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "threat-model.md"
TASKS = Path(__file__).parents[1]
ROOMS = ("ledger", "verifying", "promoting")
OF_FOLDERS = "test_results_folders.py"  # folders are verified without a registry
# Tests and rows of `ATTACKS` by the first words of a row of the page; None if undetected.
TESTS = {
    "policy, report, scores": [
        "an edited policy",
        "an edited report",
        "edited scores",
        "another value",
    ],
    "rows of the frozen set": ["edited rows", "edited rows, and their digests"],
    "tags of the version": [
        "the tag of the verdict",
        "test_a_required_set_that_is_taken_from_the_tag_is_still_required",
        "test_a_required_set_whose_tags_are_removed_is_still_required",
    ],
    "a file of the version": [
        "exchanged weights",
        "a byte of the weights",
        "an added file",
        "a removed file",
    ],
    "the champion's files weakened": [
        "test_a_champion_that_was_weakened_while_it_was_compared_with_stops_the_promotion"
    ],
    "a symbolic link": ["a link to a file", "a link to a folder"],
    "the place of a version's files": ["another place of the files"],
    "a large file": ["a large new file", "a large file instead of another"],
    "`champion` or": ["another champion", "another former champion"],
    "tags edited that say how": [
        "test_a_tag_does_not_choose_how_the_champion_is_opened",
        "test_tags_that_name_another_verdict_do_not_choose_either",
    ],
    "a verdict taken from another": ["a stolen verdict"],
    "everything above rewritten": ["all rewritten", "all rewritten, where no key is trusted"],
    "the summary of a folder": [
        "test_what_was_changed_in_a_folder_does_not_hold",
        "test_a_required_set_that_was_left_out_is_missed_though_all_is_signed",
    ],
    "results or reservations": ["a forged reason", "a forged value"],
    "a version blocked": [
        "test_what_the_ledger_records_meanwhile_stops_the_promotion",
        "test_a_former_champion_that_is_blocked_meanwhile_does_not_come_back",
    ],
    "an older signed verdict": [
        "test_an_earlier_verdict_that_is_put_back_after_the_version_was_blocked_does_not_count"
    ],
    "verdicts of two evaluations": [
        "test_every_reader_refuses_the_same_verdicts_for_the_same_reason"
    ],
    "an entry removed, exchanged": [
        "a removed entry",
        "exchanged entries",
        "a copied entry",
        "an entry of another model",
    ],
    "a copy under another name": [
        "test_a_copy_with_other_bytes_is_refused",
        "test_a_source_that_was_rolled_back_is_refused",
        "test_a_source_rejected_while_its_copy_waits_is_refused",
    ],
    "the source of a promoted copy": ["test_an_edited_source_does_not_verify_without_keys"],
    "the rejection of a source": ["test_a_removed_rejection_is_found_under_the_sources_name"],
    "the rule or": ["the rule better", "a version left aside"],
    "all entries rewritten": [
        "an edited entry",
        "test_an_edited_unsigned_entry_is_refused_before_anything_is_added",
    ],
    "an entry forged while": [
        "test_nothing_is_signed_on_top_of_what_was_forged_while_it_waited",
        "test_an_unsigned_move_below_a_signed_entry_does_not_hold",
    ],
    "the registry offered": [
        "test_a_shortened_ledger_is_found_at_another_address_by_its_first_entry"
    ],
    "the last entries removed": ["a removed last entry", "a removed ledger"],
    "an open entry forged": [
        "test_a_forged_open_entry_is_not_healed_into_a_promotion",
        "test_an_open_entry_in_a_wrong_place_is_not_completed",
    ],
    "another policy used": [
        "test_a_policy_registered_while_candidates_are_judged_by_another_stops_the_promotion",
        "another registered policy",
    ],
    "a stolen key, revoked while": ["test_a_revoked_key_adds_nothing"],
    "the evaluation set": [
        "test_an_attestation_of_something_else_than_what_is_pinned_does_not_hold"
    ],
    "a stolen key, revoked later": [
        "test_what_a_revoked_key_signed_last_does_not_hold",
        "test_a_stolen_revoked_key_cannot_forge_an_open_entry",
    ],
    "a wrong date": None,
    "an attestation of another": [
        "test_an_attestation_of_something_else_than_what_is_pinned_does_not_hold"
    ],
    "an entry, tag or file": [
        "test_an_entry_that_says_something_impossible_is_a_finding_that_names_it",
        "test_a_file_of_the_run_that_is_something_else_is_a_finding",
        "test_any_value_in_any_field_ends_in_a_finding_or_holds",
    ],
    "control characters": ["test_control_characters_of_an_entry_do_not_reach_the_terminal"],
    "a `not_measured` entry": ["test_every_reader_refuses_the_same_verdicts_for_the_same_reason"],
    "model card": ["a description and a metric"],
    "scores that are wrong": None,
}


def rows():
    text = PAGE.read_text("utf-8").partition("| attack | found by")[2]
    lines = text.partition("\n\n")[0].splitlines()[2:]
    return [line.strip("| ").split(" | ")[0] for line in lines]


def test_every_row_of_the_table_is_run_and_no_other():
    left = list(TESTS)
    for row in rows():
        [matches] = [beginning for beginning in left if row.startswith(beginning)]
        left.remove(matches)
    assert left == []


@functools.cache
def collect_tests():
    """Return all tests, and whether they run on MLflow's own store at least in part."""
    tests = {row: attack.on_mlflow for row, attack in ATTACKS.items()}
    places = (TASKS / room for room in ROOMS)
    for file in (file for place in places for file in place.glob("test_*.py")):
        text = file.read_text("utf-8")
        whole = file.name == OF_FOLDERS or "\npytestmark = pytest.mark.mlflow\n" in text
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                marks = " ".join(map(ast.unparse, node.decorator_list))
                tests[node.name] = whole or "pytest.mark.mlflow" in marks
    return tests


@pytest.mark.parametrize("row", [one for one, tests in TESTS.items() if tests])
def test_the_tests_of_each_attack_exist_and_one_runs_on_what_users_have(row):
    known = collect_tests()
    assert set(TESTS[row]) <= known.keys()
    assert any(known[name] for name in TESTS[row])
