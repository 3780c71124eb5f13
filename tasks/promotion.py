"""Last step: the `champion` alias, which moves only on a pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bias_metrics.gate import worst
from tasks.files import json_digest
from tasks.mlflow_gateway import Gateway, ModelVersion
from tasks.orchestration import task
from tasks.scoring.candidate import Workplace

CHAMPION, PREVIOUS = "champion", "previous_champion"


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
        `outcome`, `promoted`, a `sentence`, and `champion_moved`: whether the candidate was
        compared with what is no longer champion, and is to be judged again.
    """
    outcome = worst([verdict["outcome"] for verdict in verdicts])
    if any(verdict["policy"]["report_only"] for verdict in verdicts):
        return _decision("pass", f"Reported only: the verdict would be {outcome}.")
    if version is None or registered_model is None:
        return _decision(outcome, "Not a registered version: nothing to promote.")
    if version.name != registered_model:
        sentence = f"{version.uri} is not a version of {registered_model}: not promoted."
        return _decision(outcome, sentence)
    if outcome != "pass":
        return _decision(outcome, f"{CHAMPION} of {registered_model} stays where it is.")
    return _replace(verdicts, version, gateway, allow_first=allow_first)


def _replace(
    verdicts: Sequence[Mapping[str, Any]],
    version: ModelVersion,
    gateway: Gateway,
    *,
    allow_first: bool,
) -> dict[str, Any]:
    """Replace the champion that a passing version was compared with."""
    champion = gateway.alias(version.name, CHAMPION)
    compared = {(verdict["champion"] or {}).get("model") for verdict in verdicts}
    if compared != {champion.uri if champion else None}:
        sentence = f"{CHAMPION} of {version.name} moved while {version.uri} was judged."
        return _decision("insufficient", sentence, champion_moved=True)
    if champion is not None and champion.version == version.version:
        return _decision("pass", f"{version.uri} is {CHAMPION} already.")
    if champion is not None:
        gateway.set_alias(version.name, PREVIOUS, champion.version)
    elif not allow_first:
        sentence = (
            f"{version.name} has no {CHAMPION} to compare with, and the policy does not say "
            "`allow_first: true`."
        )
        return _decision("insufficient", sentence)
    gateway.set_alias(version.name, CHAMPION, version.version)
    moved = gateway.alias(version.name, CHAMPION)
    if moved is None or moved.version != version.version:
        msg = f"{CHAMPION} of {version.name} must be version {version.version} now; it is not."
        raise RuntimeError(msg)
    before = "there was none before" if champion is None else f"before: version {champion.version}"
    return _decision("pass", f"{version.uri} is {CHAMPION} now ({before}).", promoted=True)


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
    version = gateway.resolve(candidate["model"]) if candidate.get("model") else None
    if version is not None:
        gateway.tag_version(version, _tags(verdicts))
    required = {one["name"] for one in evaluation["evaluation_sets"] if one["required"]}
    decision = promote(
        [one for one in verdicts if one["evaluation_set"]["name"] in required],
        version,
        evaluation["registered_model"],
        gateway,
        allow_first=evaluation["policy"]["allow_first"],
    )
    return {"candidate": candidate["name"]} | decision


def _decision(
    outcome: str, sentence: str, *, promoted: bool = False, champion_moved: bool = False
) -> dict[str, Any]:
    return {
        "outcome": outcome,
        "promoted": promoted,
        "champion_moved": champion_moved,
        "sentence": sentence,
    }


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
