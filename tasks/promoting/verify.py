"""Whether a promotion still holds: every verdict is recomputed from its evidence.

Digests and recomputation detect a change of any one thing (policy, report, scores, rows, tags,
alias). Someone who rewrites all of them consistently is detected only if verdicts are signed:
set `BIASGATE_SIGNING_KEY` when evaluating and when verifying.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.gating.evidence import FILE, EvidenceFile
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.signature import SIGNING_KEY, is_signed, sign, tags_of, verdict_digest
from biasgate.tasks.gating.verdict import as_of_schema, build_verdict, code_digest
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.promoting.champion import CHAMPION, PREVIOUS
from biasgate.tasks.promoting.decisions import succession_of
from biasgate.tasks.promoting.ledger import Entry, Ledger
from biasgate.tasks.promoting.succession import Judged, Past
from biasgate.tasks.records import LoggedVerdict, Report, Rival, Verdict

_ROUNDING = 1e-9
_FILES = ("verdict.json", "policy.json", "report.json", FILE)


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes
    ----------
    what : str
        Policy, report, evidence, tags, verdict, signature, record, rule, alias, dataset.
    holds : bool
        Whether it is as it should be.
    sentence : str
        The result in words.
    """

    what: str
    holds: bool
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"what": self.what, "holds": self.holds, "sentence": self.sentence}


def verify_version(
    version: ModelVersion, gateway: Gateway, *, today: date | None = None
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

    Returns
    -------
    list of Finding
        The checks on every required set; the version may be promoted if all hold.
    """
    names = version.tags.get("biasgate.required_sets", "")
    if not names:
        text = f"{version.uri} has no verdict: evaluate it first."
        return [Finding("verdict", holds=False, sentence=text)]
    day = today or datetime.now(UTC).date()
    return [
        finding
        for name in names.split(",")
        for finding in _verify_on_set(version, name, gateway, day)
    ]


def verify_champion(model: str, gateway: Gateway) -> list[Finding]:
    """Verify the version under `champion`, and that the ledger records its promotion.

    Raises
    ------
    InputError
        If there is no champion.
    """
    champion = gateway.alias(model, CHAMPION)
    if champion is None:
        msg = f"model {model} must have a `{CHAMPION}` in {gateway.uri}; it has none."
        raise InputError(msg)
    ledger = Ledger(gateway, model)
    return [*_verify_ledger(ledger, champion), *verify_version(champion, gateway)]


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
    yield from _signature(last.digest, last.signature, f"promotion {last.number}")


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


def _verify_on_set(
    version: ModelVersion, name: str, gateway: Gateway, day: date
) -> Iterator[Finding]:
    run_id = version.tags.get(f"biasgate.{name}.run_id", "")
    try:
        folder = gateway.download_artifacts(run_id)
        parts = {one: json.loads((folder / one).read_text("utf-8")) for one in _FILES[:3]}
        evidence = EvidenceFile(folder / FILE)
        digest = evidence.digest
    except (InputError, OSError, ValueError) as error:
        text = f"the files of the verdict on {name} must be in run {run_id or '?'}: {error}"
        yield Finding("verdict", holds=False, sentence=text)
        return
    verdict: Verdict
    report: Report
    verdict, report = parts["verdict.json"], parts["report.json"]
    for what, found, recorded in (
        ("policy", _policy_digest(parts["policy.json"]), verdict["policy"]["digest"]),
        ("report", json_digest(report), verdict["report_digest"]),
        ("evidence", digest, verdict["evidence_digest"]),
    ):
        text = f"the {what} on {name} has the digest that the verdict names."
        yield Finding(what, holds=found == recorded, sentence=text)
    logged: LoggedVerdict = {**verdict, "run_id": run_id}
    expected = tags_of([logged])
    tagged = {key: version.tags.get(key) for key in expected}
    expected.pop("biasgate.required_sets")
    differ = [key for key, value in expected.items() if tagged[key] != value]
    text = f"the tags of {version.uri} agree with the verdict on {name}."
    yield Finding("tags", holds=not differ, sentence=_but(text, differ))
    yield from _same_origin(verdict, report, evidence, version, name)
    yield from _decided_again(verdict, report, parts["policy.json"], evidence, name, day)
    yield from _signature(verdict_digest(verdict), verdict.get("signature"), f"verdict on {name}")


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


def _same_origin(
    verdict: Verdict,
    report: Report,
    evidence: EvidenceFile,
    version: ModelVersion,
    name: str,
) -> Iterator[Finding]:
    """Check that verdict, report and evidence are of the same rows, scores and version."""
    record = evidence.record
    pairs = {
        "rows": (record["set_digest"], verdict["evaluation_set"]["digest"]),
        "rows of the report": (record["set_digest"], report["evaluation_set"]["digest"]),
        "scores": (record["scores"]["candidate"], verdict["candidate"]["digest"]),
        "scores of the report": (record["scores"]["candidate"], report["candidate"]["digest"]),
        "version": (verdict["candidate"].get("model"), version.uri),
        "choices": (record["choices"], _choices(report, record["choices"])),
    }
    differ = [what for what, (found, recorded) in pairs.items() if found != recorded]
    text = f"verdict, report and evidence on {name} are of the same rows, scores and version."
    yield Finding("evidence", holds=not differ, sentence=_but(text, differ))


def _choices(report: Report, like: Mapping[str, Any]) -> dict[str, Any]:
    known = report["evaluation_set"]["choices"]
    return {key: known.get(key) for key in like}


def _decided_again(
    verdict: Verdict,
    report: Report,
    content: Mapping[str, Any],
    evidence: EvidenceFile,
    name: str,
    day: date,
) -> Iterator[Finding]:
    try:
        policy = Policy.model_validate(content)
        again = _decide(verdict, report, policy, evidence, verdict["decided_on"])
        schema = verdict["schema_version"]
        differ = sorted(_differences(as_of_schema(verdict, schema), as_of_schema(again, schema)))
        if verdict["code"]["bias_metrics"] != code_digest():
            differ = [one for one in differ if "code" not in one and "sentence" not in one]
        text = f"recomputing the verdict on {name} gives the same one ({again['outcome']})."
        yield Finding("verdict", holds=not differ, sentence=_but(text, differ))
        now = _decide(verdict, report, policy, evidence, day.isoformat())["outcome"]
    except (ValueError, RuntimeError, KeyError) as error:
        text = f"the verdict on {name} cannot be recomputed: {error}"
        yield Finding("verdict", holds=False, sentence=text)
        return
    text = f"the verdict on {name} is {now} as of {day.isoformat()}."
    yield Finding("verdict", holds=now == "pass", sentence=text)


def _decide(
    verdict: Verdict,
    report: Report,
    policy: Policy,
    evidence: EvidenceFile,
    day: str,
) -> Verdict:
    named: dict[str, Rival | None] = {
        "champion": verdict["champion"],
        "reference": verdict["reference"],
    }
    roles = {role: one for role, one in named.items() if one}
    return build_verdict(
        report,
        policy,
        evidence,
        roles,
        n_candidates=verdict["n_candidates"],
        today=date.fromisoformat(day),
        required=verdict["evaluation_set"]["required"],
    )


def _differences(first: Any, second: Any, path: str = "") -> Iterator[str]:
    """Yield where two verdicts differ by more than rounding."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in (first.keys() | second.keys()) - {"signature"}:
            yield from _differences(first.get(key), second.get(key), f"{path}.{key}".strip("."))
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for at, (one, other) in enumerate(zip(first, second, strict=True)):
            yield from _differences(one, other, f"{path}[{at}]")
    elif isinstance(first, float) and isinstance(second, float):
        if not math.isclose(first, second, rel_tol=0, abs_tol=_ROUNDING):
            yield path
    elif first != second:
        yield path


def _signature(digest: str, signature: str | None, what: str) -> Iterator[Finding]:
    if sign(digest) is None:
        if signature is not None:
            text = f"the {what} is signed; set {SIGNING_KEY} to check it. Not checked."
            yield Finding("signature", holds=True, sentence=text)
        return
    text = f"the {what} is signed with the key that is set."
    yield Finding("signature", holds=is_signed(digest, signature), sentence=text)


def _policy_digest(content: Mapping[str, Any]) -> str:
    try:
        return Policy.model_validate(content).digest
    except ValueError:
        return ""


def _but(sentence: str, differ: list[str]) -> str:
    return sentence if not differ else f"{sentence} Different: {', '.join(differ[:5])}."
