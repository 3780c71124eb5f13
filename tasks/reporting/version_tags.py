"""Tags and description of a model version, from its verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.measuring.identities import Measured
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import LoggedVerdict
from biasgate.tasks.reporting.model_card import FILE as MODEL_CARD
from biasgate.tasks.reporting.model_card import shorten_card
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.signing.statement import compute_verdict_digest
from biasgate.tasks.store import Workplace
from biasgate.tasks.wording import get_verdict_words, list_exception_lines

_LONGEST = 4_000  # characters of a tag of a version, of the 5,000 that MLflow takes
FILES_DIGEST = "biasgate.files_digest"


def build_tags(verdicts: Sequence[LoggedVerdict]) -> dict[str, str]:
    """Return the tags for a model version with these verdicts, one group per set.

    `biasgate.required_sets` names the sets on which a pass is required. `biasgate.files_digest` is
    the digest of the judged files. Tags are for search: only the verdicts count.
    """
    sets = [verdict.evaluation_set for verdict in verdicts]
    tags = {"biasgate.required_sets": ",".join(entry.name for entry in sets if entry.required)}
    for verdict in verdicts:
        bound = verdict.candidate.bound
        if bound.digest is not None:
            tags[FILES_DIGEST] = bound.digest
        prefix = f"biasgate.{verdict.evaluation_set.name}"
        tags[f"{prefix}.verdict"] = str(verdict.outcome)
        tags[f"{prefix}.word"] = get_verdict_words(verdict).text
        tags[f"{prefix}.exceptions"] = " ".join(list_exception_lines([verdict]))[:_LONGEST]
        tags[f"{prefix}.verdict_digest"] = compute_verdict_digest(verdict)
        tags[f"{prefix}.set_digest"] = str(verdict.evaluation_set.digest)
        tags[f"{prefix}.policy"] = f"{verdict.policy.name} {verdict.policy.digest}"
        head = verdict.ledger
        tags[f"{prefix}.ledger"] = f"{head.number} {head.digest}" if head else ""
        tags[f"{prefix}.run_id"] = str(verdict.run_id)
    return tags


def takes_verdict(version: ModelVersion, registered_model: str | None, policy: Policy) -> bool:
    """Return True if an evaluation's verdict becomes the verdict of a registered version.

    Only an evaluation with this model as its `registered_model` decides. A policy that only reports
    never replaces a verdict by another policy: a deployed champion keeps its verdict.
    """
    if version.name != registered_model:
        return False
    own = f"{policy.name} {policy.digest}"
    policies = {
        value
        for key, value in version.tags.items()
        if key.startswith("biasgate.") and key.endswith(".policy")
    }
    return not policy.report_only or policies <= {own}


@task(name="describe version", task_run_name="describe {candidate.name}")
def describe_version(
    candidate: CandidateSettings,
    measured: list[Measured],
    registered_model: str | None,
    policy: Policy,
    workplace: Workplace,
) -> None:
    """Set the cards, one per set, as the description of a version that gets this verdict.

    Safe to retry.
    """
    gateway = workplace.gateway
    version = gateway.resolve(candidate.uri) if candidate.uri else None
    if version is not None and takes_verdict(version, registered_model, policy):
        cards = [(Path(entry.folder) / MODEL_CARD).read_text("utf-8") for entry in measured]
        gateway.describe_version(version, shorten_card("\n\n".join(cards)))
