"""Whether a promotion still holds: every verdict is recomputed from its evidence.

Digests and recomputation detect a change of any one thing (policy, report, scores, rows, tags,
alias). Someone who rewrites all of them consistently is detected only if verdicts are signed:
set `BIASGATE_SIGNING_KEY` when evaluating and when verifying.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.signature import verdict_digest
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.promoting.champion import CHAMPION, PREVIOUS
from biasgate.tasks.promoting.decisions import succession_of
from biasgate.tasks.promoting.findings import Finding
from biasgate.tasks.promoting.ledger import Entry, Ledger
from biasgate.tasks.promoting.succession import Judged, Past
from biasgate.tasks.promoting.verify_files import VersionFiles
from biasgate.tasks.promoting.verify_verdict import check_signature, verify_on_set


def verify_version(
    version: ModelVersion,
    gateway: Gateway,
    *,
    today: date | None = None,
    files: VersionFiles | None = None,
) -> list[Finding]:
    """Recompute a version's verdicts and compare them with the recorded ones.

    Parameters
    ----------
    version : ModelVersion
        The version, with its tags.
    gateway : Gateway
        Registry and tracking server.
    today : date, optional
        The day on which waivers must be valid. Default: today.
    files : VersionFiles, optional
        The version's files. Default: those in the registry.

    Returns
    -------
    list of Finding
        The checks on every required set; the version may be promoted if all hold.
    """
    names = version.tags.get("biasgate.required_sets", "")
    if not names:
        text = f"{version.uri} has no verdict: evaluate it first."
        return [Finding("verdict", holds=False, sentence=text)]
    day, now = today or datetime.now(UTC).date(), files or VersionFiles.of(version, gateway)
    return [
        finding
        for name in names.split(",")
        for finding in verify_on_set(version, name, gateway, day, now)
    ]


def require_alias(model: str, gateway: Gateway) -> ModelVersion:
    """Return the version under `champion`.

    Raises
    ------
    InputError
        If there is no champion.
    """
    champion = gateway.alias(model, CHAMPION)
    if champion is None:
        msg = f"model {model} must have a `{CHAMPION}` in {gateway.uri}; it has none."
        raise InputError(msg)
    return champion


def verify_champion(
    champion: ModelVersion, gateway: Gateway, files: VersionFiles | None = None
) -> list[Finding]:
    """Verify the version under `champion`, and that the ledger records its promotion.

    The alias is looked up once, by the caller: it may move meanwhile. `files` is as in
    `verify_version`.
    """
    ledger = Ledger(gateway, champion.name)
    return [*_verify_ledger(ledger, champion), *verify_version(champion, gateway, files=files)]


def _verify_ledger(ledger: Ledger, champion: ModelVersion) -> Iterator[Finding]:
    last = ledger.last_done()
    if last is None:
        text = f"{CHAMPION} is version {champion.version}, but no promotion of it is recorded."
        yield Finding("alias", holds=False, sentence=text)
        return
    recorded = str(last.content["version"])
    yield Finding(
        "alias",
        holds=champion.version == recorded,
        sentence=f"{CHAMPION} is version {champion.version}; last promoted: {recorded}.",
    )
    previous = ledger.gateway.alias(ledger.model, PREVIOUS)
    found, kept = (previous.version if previous else ""), str(last.content["replaces"])
    yield Finding(
        "alias",
        holds=found == kept or not kept,
        sentence=f"{PREVIOUS} is version {found or 'none'}; last replaced: {kept or 'none'}.",
    )
    yield from _verify_record(last, ledger.gateway)
    yield from _verify_succession(last, ledger)
    yield from check_signature(last.digest, last.signature, f"promotion {last.number}")


def _verify_record(entry: Entry, gateway: Gateway) -> Iterator[Finding]:
    """Check that the verdicts behind a promotion have not changed since."""
    for one in entry.content["verdicts"]:
        try:
            verdict = gateway.read_json(one["run_id"], "verdict.json")
            holds = verdict_digest(verdict) == one["digest"]
        except (InputError, OSError, ValueError):
            holds = False
        text = f"the verdict on {one['set']} is the one behind {entry.content['action']} "
        yield Finding("record", holds=holds, sentence=f"{text}{entry.number}.")


def _verify_succession(entry: Entry, ledger: Ledger) -> Iterator[Finding]:
    """Check that the policy's rule allows the recorded replacement."""
    rule = entry.content.get("rule", "by hand")  # earlier entries have none
    if rule == "by hand":
        return
    gateway, replaced = ledger.gateway, entry.content["replaces"] or None
    try:
        runs = [one["run_id"] for one in entry.content["verdicts"]]
        verdicts = [gateway.read_json(one, "verdict.json") for one in runs]
        policies = [Policy.model_validate(gateway.read_json(one, "policy.json")) for one in runs]
        version = gateway.resolve(f"models:/{ledger.model}/{entry.content['version']}")
        before = [one for one in ledger.entries() if one.number < entry.number]
        objections = [
            succession_of(one).objection(
                Judged("", verdicts, version), replaced, Past.of(before, replaced)
            )
            for one in policies
        ]
        named = all(rule in {one.promote, "first"} for one in policies)
        holds = named and (rule == "first") == (replaced is None) and not any(objections)
    except (InputError, OSError, ValueError, TypeError, KeyError):
        holds = False
    text = f"the policy's rule allows promotion {entry.number} ({rule})."
    yield Finding("rule", holds=holds, sentence=text)


def verify_frozen_sets(version: ModelVersion, store: Path) -> list[Finding]:
    """Check that the frozen rows in a store are the ones that verdicts are based on.

    Sets that are not in this store are not checked.
    """
    digests = {
        version.tags.get(f"biasgate.{name}.set_digest", "")
        for name in version.tags.get("biasgate.required_sets", "").split(",")
    }
    findings = []
    for record in sorted((store / "sets").glob("*/record.json")):
        digest = json.loads(record.read_text("utf-8")).get("digest")
        if digest in digests:
            try:
                holds = EvaluationSet.load(record.parent).content_digest() == digest
                text = f"the rows in {record.parent} are the ones of the verdict."
            except InputError as error:
                holds, text = False, str(error)
            findings.append(Finding("dataset", holds=holds, sentence=text))
    return findings
