"""A table of attacks: those of the threat model, and the findings that detect them.

Anyone with write access may change tags, entries, files and aliases; `verify` names what does not
hold. Attacks that are not detected have no test.
"""

import ast
import functools
import json
import shutil
from collections.abc import Callable
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
    artifact,
    edit_json,
    entry,
    frozen_set,
    judged_version,
    promote_one,
    rewrite,
    set_folder,
    tag_of_entry,
    trust,
    wrong,
)
from support.registry import Template

from biasgate.tasks.common.files import file_digest, json_digest, write_json
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.evidence.file import FILE, EvidenceFile
from biasgate.tasks.ledger.entry import TAG, Move, PolicyReference
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.champion import record_move
from biasgate.tasks.promoting.verify import NotVerifiedError, require_champion, verify_model
from biasgate.tasks.records import LoggedVerdict, Report, Verdict
from biasgate.tasks.reporting.version_tags import build_tags
from biasgate.tasks.signing.keys import PrivateKey
from biasgate.tasks.signing.statement import attest_verdict, compute_verdict_digest
from biasgate.tasks.verifying.documents import Documents
from biasgate.tasks.verifying.verdict import recompute_verdict

KEY, OTHER_KEY = PrivateKey.generate(), PrivateKey.generate()
VERDICT, ATTESTATION = "verdict.json", "attestation.json"


def make_champions(gateway, store, folder):
    """Register a policy, promote a champion and replace it, with signatures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BIASGATE_PRIVATE_KEY", KEY.pem)
        patch.setenv("BIASGATE_TRUSTED_KEYS", str(folder))
        frozen_set(store)
        gateway.create_model(MODEL)
        pin = PolicyReference(name=POLICY.name, digest=POLICY.digest)
        record_move(
            Ledger(gateway, MODEL), Move(action="policy", reason="registered", policy=pin), ""
        )
        gateway.tag_model(MODEL, {"biasgate.policy": f"{POLICY.name} {POLICY.digest}"})
        first = judged_version(gateway, store, folder / "first")
        assert promote_one([first[1]], first[0], gateway).promoted
        second = judged_version(gateway, store, folder / "second", champion=first, seed=1)
        assert promote_one([second[1]], second[0], gateway).promoted


@dataclass(frozen=True)
class World:
    """The store of both champions, as the attacker sees it."""

    gateway: Gateway
    store: Path
    folder: Path
    """Folder for files of the test."""

    @property
    def champion(self):
        return self.gateway.get_alias(MODEL, "champion")

    def file(self, name):
        """The path of a file of the champion's run."""
        return artifact(self.gateway, self.champion, name)

    @property
    def rows(self):
        """The rows of the frozen set."""
        return set_folder(self.store) / "rows.parquet"

    def raw(self, number):
        """The tag of an entry."""
        return self.gateway.client.get_model_version(LEDGER, str(number)).tags[TAG]

    def put(self, number, tag):
        self.gateway.client.set_model_version_tag(LEDGER, str(number), TAG, tag)


@dataclass(frozen=True)
class Attack:
    """A row of the table."""

    tamper: Callable[[World], object]
    finds: set[str] = field(default_factory=set)
    """Names of the findings that fail."""
    says: str = ""
    """A part of the findings' sentences."""
    is_trusting: bool = False
    """True if the verifying machine trusts the key of the evaluations."""
    on_mlflow: bool = False
    """True if the attack runs on MLflow's own store, not in memory."""


def edit_value(name: str, place: str, value: Any):
    """Change the value at a place of a JSON file, such as `rules.0.floor`."""

    def change(content):
        *above, last = place.split(".")
        for key in above:
            content = content[int(key) if key.isdigit() else key]
        content[last] = value

    return lambda world: edit_json(world.file(name), change)


def set_tag(tag, value):
    return lambda world: world.gateway.tag_version(world.champion, {tag: value})


def move_alias(name, version):
    return lambda world: world.gateway.set_alias(MODEL, name, version)


def rewrite_entry(number, **changes):
    return lambda world: rewrite(world.gateway, entry(world.gateway, number), **changes)


def remove_entry(number):
    return lambda world: world.gateway.client.delete_model_version(LEDGER, str(number))


def edit_scores(world, by=1.0):
    path = world.file(FILE)
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
        edit_json(path.with_name("record.json"), lambda content: content.update(record))
        digest = EvaluationSet.load(path.parent).compute_digest()
        edit_json(path.with_name("record.json"), lambda content: content.update(digest=digest))


def add_newer_rows(world):
    """Add another version of the set next to the judged version."""
    shutil.copytree(world.rows.parent, world.rows.parent.with_name("comments-newer"))


def repeat_rows(world):
    """Repeat the rows of the evidence, and write a verdict with the new digest."""
    file = world.file(FILE)
    pq.write_table(pa.concat_tables([pq.read_table(file)] * 3), file)
    verdict = Verdict.read(world.file(VERDICT).read_bytes())
    replace_verdict(world, replace(verdict, evidence_digest=EvidenceFile(file).digest))


def replace_verdict(world, forged, forger=None):
    """Replace the champion's verdict, and all references to it, by a forged verdict."""
    version = world.champion
    write_json(world.file(VERDICT), forged)
    attest_verdict(forged, world.file("."), forger)
    world.gateway.tag_version(
        version, build_tags([LoggedVerdict.from_verdict(forged, version.run_id)])
    )
    last = Ledger(world.gateway, MODEL).chain.last_move
    rests_on = replace(last.content.verdicts[0], digest=compute_verdict_digest(forged))
    rewrite(world.gateway, last, verdicts=[rests_on.to_dict()])


def forge_consistently(forger):
    """Improve scores, and rewrite all values that follow from them."""

    def forge(world):
        edit_scores(world, by=0.4)
        evidence = EvidenceFile(world.file(FILE))
        parts = measured_parts(evidence)
        edit_json(world.file("report.json"), lambda report: report.update(parts))
        forged = recompute_verdict(Documents.from_folder(world.file("."), "comments"), evidence)
        assert forged.outcome == "pass"
        replace_verdict(world, forged, forger)

    return forge


def rewrite_report(change):
    """Change numbers of the report, and all values that follow from them."""

    def rewrite_numbers(world):
        path = world.file("report.json")
        edit_json(path, lambda report: change(report["bias"]))
        report = json.loads(path.read_text("utf-8"))
        numbers = report["bias"]["numbers"]
        report["bias"]["numbers"] = list({key_of(number): number for number in numbers}.values())
        digest = json_digest(Report.from_dict(report))
        verdict = Verdict.read(world.file(VERDICT).read_bytes())
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
        verdict = Verdict.read(world.file(VERDICT).read_bytes())
        code = replace(verdict.code, version="0.0.1", bias_metrics="0" * 64)
        results = [replace(verdict.results[0], **forged), *verdict.results[1:]]
        replace_verdict(world, replace(verdict, code=code, results=results))

    return forge


def steal_verdict(world):
    thief = world.gateway.register(MODEL, world.champion.run_id, "model", {})
    world.gateway.tag_version(thief, dict(world.champion.tags))
    world.gateway.set_alias(MODEL, "champion", thief.version)


def register_unjudged(world):
    made = world.gateway.register(MODEL, world.champion.run_id, "model", {})
    world.gateway.set_alias(MODEL, "champion", made.version)


def exchange_entries(world):
    first, second = world.raw(2), world.raw(3)
    world.put(2, second)
    world.put(3, first)


def copy_entry(world):
    world.gateway.record_version(LEDGER, None, {TAG: world.raw(2)})
    world.gateway.set_alias(MODEL, "champion", "1")


def change_entry_model(world):
    payload = json.loads(world.raw(2))["payload"] | {"model": "another"}
    world.put(2, tag_of_entry(payload)[TAG])


def remove_last_entry(world):
    champion = world.champion, None, EvidenceFile(world.file(FILE)).column("score/candidate")
    judged_version(world.gateway, world.store, world.folder / "later", champion=champion, seed=7)
    remove_entry(3)(world)
    world.gateway.set_alias(MODEL, "champion", "1")
    world.gateway.delete_alias(MODEL, "previous_champion")


def copy_attestation(world):
    first = world.gateway.resolve(f"models:/{MODEL}/1")
    shutil.copy(artifact(world.gateway, first, ATTESTATION), world.file(ATTESTATION))


def delete_ledger(world):
    world.gateway.client.delete_registered_model(LEDGER)
    for version in ("1", "2"):
        made = world.gateway.resolve(f"models:/{MODEL}/{version}")
        world.gateway.tag_version(made, {"biasgate.comments.ledger": ""})


LENIENT = {"name": "lenient", "digest": "1" * 64}
EDITED = {"tags", "record", "attestation"}
LOST = {"verdict", "record", "policy", "rule"}
SET = "biasgate.comments"
ATTACKS = {
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
        forge_result(reason="no_loss"),
        {"verdict"},
        "Different: results.0.reason.",
        on_mlflow=True,
    ),
    "a forged value": Attack(forge_result(value=0.99), {"verdict"}, "Different: results.0.value."),
    "a removed verdict": Attack(lambda world: world.file(VERDICT).unlink(), LOST),
    "a removed run": Attack(
        lambda world: shutil.rmtree(world.file(".")), LOST, "artifacts must be at"
    ),
    # Frozen rows.
    "edited rows": Attack(edit_rows, {"dataset"}, on_mlflow=True),
    "edited rows, and their digests": Attack(
        lambda world: edit_rows(world, and_digest=True), {"dataset"}, "Their digest is "
    ),
    "edited rows of another name": Attack(
        lambda world: edit_rows(world, and_digest=True, name="other", source={}), {"dataset"}
    ),
    "another split": Attack(
        lambda world: edit_json(
            world.rows.with_name("record.json"), lambda content: content.update(split="test")
        ),
        {"dataset"},
    ),
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
    "no verdict": Attack(
        register_unjudged, {"verdict", "alias"}, "must have a verdict: evaluate it first"
    ),
    "a stolen verdict": Attack(steal_verdict, {"evidence", "alias"}, on_mlflow=True),
    # The ledger.
    "the rule better": Attack(rewrite_entry(3, rule="better"), {"rule"}, on_mlflow=True),
    "the rule never": Attack(rewrite_entry(3, rule="never"), {"rule"}),
    "the rule first": Attack(rewrite_entry(3, rule="first"), {"rule"}),
    "a version left aside": Attack(rewrite_entry(2, passed_over=["2"]), {"rule", "ledger"}),
    "another registered policy": Attack(
        rewrite_entry(1, policy=LENIENT),
        {"ledger", "policy"},
        "promotion 3 was decided by the registered policy, lenient.",
        on_mlflow=True,
    ),
    "a removed first entry": Attack(remove_entry(1), {"ledger", "policy"}),
    "a removed entry": Attack(remove_entry(2), {"ledger"}),
    "a removed last entry": Attack(
        remove_last_entry,
        {"ledger"},
        "Missing or changed: entry 3, which a verdict on version 3 names",
    ),
    "a removed ledger": Attack(
        delete_ledger,
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
    "an entry of another model": Attack(change_entry_model, {"ledger"}),
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
    "a broken payload": Attack(edit_value(ATTESTATION, "payload", "abc="), {"signature"}),
    "no signatures": Attack(edit_value(ATTESTATION, "signatures", None), {"signature"}),
    "a signature that is none": Attack(
        edit_value(ATTESTATION, "signatures", [{"keyid": "", "sig": "?"}]), {"signature"}
    ),
    "another payload type": Attack(
        edit_value(ATTESTATION, "payloadType", "text/plain"), {"signature"}
    ),
}


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    return Template(make_champions, tmp_path_factory)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=pytest.mark.mlflow if attack.on_mlflow else ())
        for row, attack in ATTACKS.items()
    ],
)
def test_what_was_tampered_with_is_found(gateway, store, tmp_path, monkeypatch, row):
    attack = ATTACKS[row]
    if attack.is_trusting:
        trust(monkeypatch, tmp_path / "trusted", evaluations=KEY)
    assert wrong(gateway, store) == set()
    attack.tamper(World(gateway, store, tmp_path))
    findings = verify_model(MODEL, None, gateway, store)
    assert {finding.what for finding in findings if not finding.holds} == attack.finds
    assert attack.says in " ".join(finding.sentence for finding in findings)
    if attack.finds:
        with pytest.raises(NotVerifiedError):
            require_champion(MODEL, gateway, store)
    else:
        assert require_champion(MODEL, gateway, store).version == "2"


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
    "rows of the frozen set": [
        "edited rows",
        "edited rows, and their digests",
    ],
    "tags of the version": [
        "the tag of the verdict",
        "test_a_required_set_that_is_taken_from_the_tag_is_still_required",
        "test_a_required_set_whose_tags_are_removed_is_still_required",
    ],
    "a file of the version": ["test_each_change_of_a_file_is_found_by_every_check"],
    "the champion's files weakened": [
        "test_a_champion_that_was_weakened_while_it_was_compared_with_stops_the_promotion"
    ],
    "a symbolic link": ["test_a_symbolic_link_is_found_even_if_it_leads_to_the_same_bytes"],
    "the place of a version's files": [
        "test_a_version_whose_source_was_pointed_to_another_is_found"
    ],
    "a large file": ["test_a_file_of_another_size_than_judged_is_refused_before_it_is_read"],
    "`champion` or": [
        "another champion",
        "another former champion",
    ],
    "tags edited that say how": [
        "test_a_tag_does_not_choose_how_the_champion_is_opened",
        "test_tags_that_name_another_verdict_do_not_choose_either",
    ],
    "a verdict taken from another": ["a stolen verdict"],
    "everything above rewritten": [
        "all rewritten",
        "all rewritten, where no key is trusted",
    ],
    "the summary of a folder": [
        "test_a_forged_summary_does_not_hold",
        "test_a_required_set_that_was_left_out_is_missed_though_all_is_signed",
    ],
    "results or reservations": ["a forged reason", "a forged value"],
    "a version blocked": [
        "test_a_version_that_is_blocked_meanwhile_is_not_promoted",
        "test_a_former_champion_that_is_blocked_meanwhile_does_not_come_back",
        "test_a_policy_that_is_registered_meanwhile_is_the_only_one_that_counts",
    ],
    "an older signed verdict": [
        "test_an_earlier_verdict_that_is_put_back_after_the_version_was_blocked_does_not_count"
    ],
    "verdicts of two evaluations": [
        "test_verdicts_of_two_policies_are_found_where_both_are_required"
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
    "the rule or": [
        "the rule better",
        "a version left aside",
    ],
    "all entries rewritten": ["test_an_edited_unsigned_entry_is_refused_before_anything_is_added"],
    "an entry forged while": [
        "test_nothing_is_signed_on_top_of_what_was_forged_while_it_waited",
        "test_an_unsigned_move_below_a_signed_entry_does_not_hold",
    ],
    "the registry offered": [
        "test_a_shortened_ledger_is_found_at_another_address_by_its_first_entry"
    ],
    "the last entries removed": [
        "a removed last entry",
        "a removed ledger",
    ],
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
        "test_an_attestation_of_something_else_than_what_is_pinned_does_not_hold",
        "test_another_model_that_the_same_key_attested_is_found_only_by_its_pin",
    ],
    "an entry, tag or file": [
        "test_an_entry_that_says_something_impossible_is_a_finding_that_names_it",
        "test_a_file_of_the_run_that_is_something_else_is_a_finding",
        "test_any_value_in_any_field_ends_in_a_finding_or_holds",
    ],
    "control characters": ["test_control_characters_of_an_entry_do_not_reach_the_terminal"],
    "a `not_measured` entry": ["test_every_reader_refuses_the_same_verdicts_for_the_same_reason"],
    "model card": ["test_an_edited_description_or_metric_is_no_evidence_and_is_not_found"],
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
