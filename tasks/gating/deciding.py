"""The step of an evaluation that decides on one candidate and set, and attests the verdict."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from biasgate.tasks.common.files import write_json
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.verdict import build_verdict
from biasgate.tasks.measuring.measured import Measured
from biasgate.tasks.records import Compared, Context, Verdict
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.scored_set import ScoredSet
from biasgate.tasks.signing.keys import PrivateKey
from biasgate.tasks.signing.statement import attest


@task(name="decide", task_run_name="decide {measured.folder!m}")
def decide_candidate(
    measured: Measured,
    evidence: EvidenceFile,
    rivals: dict[str, CandidateSettings],
    policy: Policy,
    n_candidates: int,
    context: Context,
) -> Verdict:
    """Judge the report, write verdict, policy and attestation, return the verdict.

    The attestation is signed if this machine has a private key. Safe to retry.
    """
    verdict = build_verdict(
        measured.report,
        policy,
        evidence,
        {role: _compared(one) for role, one in rivals.items()},
        n_candidates=n_candidates,
        today=datetime.now(UTC).date(),
        required=measured.source.required,
        context=with_scores(context, measured),
    )
    of = f"{measured.candidate.name} on {measured.source.name}"
    say(f"decided {of}: {verdict.outcome} by policy {policy.name}")
    folder = Path(measured.folder)
    write_json(folder / "policy.json", policy.model_dump(mode="json"))
    write_json(folder / "verdict.json", verdict)
    attest(verdict, folder, PrivateKey.here())
    return verdict


def _compared(rival: CandidateSettings) -> Compared:
    """Return a rival's name, kind, model and own threshold."""
    return Compared(
        name=rival.name, kind=rival.kind, model=rival.uri or None, threshold=rival.threshold
    )


def with_scores(context: Context, measured: Measured) -> Context:
    """Return the context, which says whether the policy was registered before the scores were made.

    It is unknown for a file of scores, which was made elsewhere.
    """
    registered = context.registered_policy
    if registered is None or measured.candidate.kind == "scores":
        return context
    made = ScoredSet.open(measured.scores).record.made
    known = replace(registered, before_scores=registered.at <= made)
    return replace(context, registered_policy=known)
