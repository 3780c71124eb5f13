"""Last step: the verdict, and the `champion` alias that moves only on a pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bias_metrics.gate import Outcome, decide, worst
from tasks.errors import InputError
from tasks.files import json_digest, write_json
from tasks.mlflow_gateway import Gateway, ModelVersion
from tasks.orchestration import task
from tasks.policy import rules_of
from tasks.scoring.candidate import Workplace

SCHEMA_VERSION = 1
CHAMPION, PREVIOUS = "champion", "previous_champion"


def build_verdict(
    report: Mapping[str, Any], policy: Mapping[str, Any], policy_digest: str
) -> dict[str, Any]:
    """Judge a report by a policy, with all that is needed to judge it again.

    Returns
    -------
    dict
        `outcome` (pass, fail, insufficient or error), the policy's and the report's
        digests, and one result per rule and number.

    Raises
    ------
    InputError
        If a rule names a subgroup that the report lacks.
    """
    try:
        decision = decide(report["bias"], rules_of(dict(policy)))
    except ValueError as error:
        msg = f"policy {policy['name']!r}: {error}"
        raise InputError(msg) from error
    evaluation_set, candidate = report["evaluation_set"], report["candidate"]
    return {
        "schema_version": SCHEMA_VERSION,
        "policy": {"name": policy["name"], "digest": policy_digest},
        "evaluation_set": {key: evaluation_set[key] for key in ("name", "digest")},
        "candidate": candidate,
        "report_digest": json_digest(report),
        **decision.to_dict(),
    }


def promote(
    verdicts: Sequence[Mapping[str, Any]],
    version: ModelVersion | None,
    registered_model: str | None,
    gateway: Gateway,
    *,
    allow_first: bool,
) -> dict[str, Any]:
    """Move `champion` to a version whose verdicts allow it; say what was done and why.

    The alias is touched last, after everything that could fail, and read back.

    Parameters
    ----------
    verdicts : sequence of mapping
        The candidate's verdicts on the sets that are required.
    version : ModelVersion or None
        The registered version behind the candidate.
    registered_model : str or None
        The model whose alias is guarded.
    gateway : Gateway
        Registry.
    allow_first : bool
        Whether there need not be a champion yet.

    Returns
    -------
    dict
        `outcome`, `promoted` and a `sentence`.
    """
    outcome: Outcome = worst([verdict["outcome"] for verdict in verdicts])
    if version is None or registered_model is None:
        return _decision(outcome, "Not a registered version: nothing to promote.")
    if version.name != registered_model:
        return _decision(
            outcome, f"{version.uri} is not a version of {registered_model}: not promoted."
        )
    if outcome != "pass":
        return _decision(outcome, f"{CHAMPION} of {registered_model} stays where it is.")
    champion = gateway.alias(registered_model, CHAMPION)
    if champion is None and not allow_first:
        return _decision(
            "insufficient",
            f"{registered_model} has no {CHAMPION} to compare with, and the policy does not say "
            "`allow_first: true`.",
        )
    if champion is not None and champion.version == version.version:
        return _decision(outcome, f"{version.uri} is {CHAMPION} already.")
    if champion is not None:
        gateway.set_alias(registered_model, PREVIOUS, champion.version)
    gateway.set_alias(registered_model, CHAMPION, version.version)
    moved = gateway.alias(registered_model, CHAMPION)
    if moved is None or moved.version != version.version:
        msg = f"{CHAMPION} of {registered_model} must be version {version.version} now; it is not."
        raise RuntimeError(msg)
    before = "there was none before" if champion is None else f"before: version {champion.version}"
    return _decision(outcome, f"{version.uri} is {CHAMPION} now ({before}).", promoted=True)


@task(name="decide")
def decide_candidate(
    report: dict[str, Any], policy: dict[str, Any], policy_digest: str, folder: str
) -> dict[str, Any]:
    """Judge the report, write `verdict.json`, return the verdict. Safe to retry."""
    verdict = build_verdict(report, policy, policy_digest)
    write_json(Path(folder) / "verdict.json", verdict)
    return verdict


@task(name="promote candidate")
def promote_candidate(
    candidate: dict[str, Any],
    verdicts: list[dict[str, Any]],
    evaluation: dict[str, Any],
    store: str,
) -> dict[str, Any]:
    """Write the verdicts to the model version, then move the alias if they allow it.

    Safe to retry: a version that is champion already is left alone.
    """
    gateway = Workplace.at(store).gateway
    own = [one for one in verdicts if one["candidate"]["name"] == candidate["name"]]
    version = gateway.resolve(candidate["model"]) if candidate.get("model") else None
    if version is not None:
        gateway.tag_version(version, _tags(own))
    required = {one["name"] for one in evaluation["evaluation_sets"] if one["required"]}
    decision = promote(
        [one for one in own if one["evaluation_set"]["name"] in required],
        version,
        evaluation["registered_model"],
        gateway,
        allow_first=evaluation["policy"]["allow_first"],
    )
    return {"candidate": candidate["name"]} | decision


def _decision(outcome: Outcome, sentence: str, *, promoted: bool = False) -> dict[str, Any]:
    return {"outcome": outcome, "promoted": promoted, "sentence": sentence}


def _tags(verdicts: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    tags = {}
    for verdict in verdicts:
        prefix = f"biasgate.{verdict['evaluation_set']['name']}"
        tags[f"{prefix}.verdict"] = str(verdict["outcome"])
        tags[f"{prefix}.verdict_digest"] = json_digest(dict(verdict))
        tags[f"{prefix}.set_digest"] = str(verdict["evaluation_set"]["digest"])
        tags[f"{prefix}.policy"] = f"{verdict['policy']['name']} {verdict['policy']['digest']}"
        tags[f"{prefix}.run_id"] = str(verdict.get("run_id", ""))
    return tags
