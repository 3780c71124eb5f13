"""The rows of a version's earlier nights, as its last verdict on the set left them."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pyarrow as pa

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.data.evaluation_set import EvaluationSet
from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.evidence.choose import choose_rows
from biasgate.tasks.evidence.file import FILE, RIVALS, EvidenceFile
from biasgate.tasks.evidence.nights import (
    ids_before,
    judged_nights,
    new_because,
    nights_of,
    other_options,
    pool,
    refuse_known_ids,
)
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.measuring.identities import Measured
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.promoting.rivals import Rivals
from biasgate.tasks.records import Verdict
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.signing.keys import TrustedKeys
from biasgate.tasks.signing.statement import RESTS_ON
from biasgate.tasks.store import Workplace
from biasgate.tasks.verifying.documents import Documents, with_whole_tags
from biasgate.tasks.verifying.verdict import as_recorded, attested_by, n_rows_of, same_origin

FIRST = "the version had no verdict on this set"


def pool_earlier_nights(
    version: ModelVersion,
    name: str,
    tonight: EvidenceFile,
    policy: Policy,
    n_candidates: int,
    gateway: Gateway,
) -> EvidenceFile:
    """Add the rows of a version's earlier nights on a set to tonight's evidence.

    They are those of its last verdict on the set, which must verify: its files are the ones that
    the verdict names and, where a key is trusted, signed. The rows of a verdict on another
    champion, by another policy or with other options do not count: then tonight is the first.

    `tonight`: tonight's rows; the file is replaced. `n_candidates`: how many candidates are judged
    tonight.
    """
    version = with_whole_tags(gateway.resolve(version.uri), gateway)
    run_id = version.tags.get(f"biasgate.{name}.run_id")
    if not run_id:
        return pool(tonight, None, FIRST)
    with tempfile.TemporaryDirectory() as folder:
        verdict, earlier = _verified(version, name, run_id, gateway, Path(folder))
        began = _other_rules(verdict, policy, n_candidates) or new_because(tonight, earlier)
        if began is not None:
            return pool(tonight, None, began)
        judged_nights(earlier)
        if nights_of(earlier).each[-1].set_digest == tonight.record.set_digest:
            say(f"{version.uri} on {name}: these rows were judged before; no night is added")
        return pool(tonight, earlier, nights_of(earlier).began)


def refuse_known_rows(
    candidate: CandidateSettings,
    source: SourceSettings,
    frozen: EvaluationSet,
    rivals: Rivals,
    policy: Policy,
    n_candidates: int,
    gateway: Gateway,
) -> None:
    """Refuse rows of earlier nights before anything is scored.

    Where it is not known yet whether the rows of earlier nights will count, nothing is refused
    here: `pool_earlier_nights` decides.
    """
    assert candidate.uri is not None  # noqa: S101 - refused when the evaluation file is read
    version = with_whole_tags(gateway.resolve(candidate.uri), gateway)
    run_id = version.tags.get(f"biasgate.{source.name}.run_id")
    if not run_id:
        return
    with tempfile.TemporaryDirectory() as folder:
        verdict, earlier = _verified(version, source.name, run_id, gateway, Path(folder))
        if _other_rules(verdict, policy, n_candidates) or earlier.record.nights is None:
            return
        measured, _, choices = choose_rows(frozen, source)
        digests = [night.set_digest for night in nights_of(earlier).each]
        same = earlier.identities == source.measured_identities(frozen.identities)
        if digests[-1] == frozen.digest or not same or other_options(choices, earlier):
            return
        if any(_is_another(role, verdict, candidate, rivals) for role in RIVALS):
            return
        ids = frozen.column("id").filter(pa.array(measured))
        refuse_known_ids(ids, ids_before(earlier), len(digests))


def _is_another(role: str, verdict: Verdict, candidate: CandidateSettings, rivals: Rivals) -> bool:
    """Whether a rival is, or may be, another one than that of the last verdict."""
    now, then = rivals.get(role), getattr(verdict, role)
    if now is None or then is None:
        return now is not None or then is not None
    return now.uri is None or now.uri not in {candidate.uri, then.model}


def _verified(
    version: ModelVersion, name: str, run_id: str, gateway: Gateway, folder: Path
) -> tuple[Verdict, EvidenceFile]:
    """Copy the evidence of a verdict that holds into a folder."""
    trusted = TrustedKeys.here()
    vouched = Ledger(gateway, version.name).chain.vouched_verdicts(trusted)
    try:
        with gateway.run_files(run_id, RESTS_ON) as files:
            documents = Documents.of(files, name)
            shutil.copyfile(files / FILE, folder / FILE)
        evidence = EvidenceFile(folder / FILE)
        digests = {**documents.digests, FILE: evidence.digest}
        findings = [
            *attested_by(documents.verdict, digests, gateway, run_id, name, vouched),
            *as_recorded(version, name, documents, digests[FILE], run_id),
        ]
        if all(finding.holds for finding in findings):
            evidence.require_size(n_rows_of(documents))
            findings += same_origin(documents.verdict, documents.report, evidence, version, name)
    except (InputError, OSError) as error:
        raise InputError(_unusable(version, name, str(error))) from error
    wrong = next((finding.sentence for finding in findings if not finding.holds), None)
    if wrong is not None:
        raise InputError(_unusable(version, name, f"this did not hold: {wrong}"))
    return documents.verdict, evidence


def _unusable(version: ModelVersion, name: str, why: str) -> str:
    return (
        f"the last verdict on {version.uri} and {name} must verify, since its rows count tonight "
        f"(`pool_nights`); {why} To begin again without these rows, give the set another `name`."
    )


def _other_rules(verdict: Verdict, policy: Policy, n_candidates: int) -> str | None:
    """Return why a verdict was made by other rules than tonight's, or None."""
    if verdict.policy.digest != policy.digest:
        return "the policy is another one"
    if policy.correction == "bonferroni" and verdict.n_candidates != n_candidates:
        return "the number of candidates is another one"
    return None


@task(name="check nights", task_run_name="check nights of {source.name}")
def check_nights(
    candidates: list[CandidateSettings],
    source: SourceSettings,
    rows: str,
    rivals: Rivals,
    policy: Policy,
    workplace: Workplace,
) -> None:
    """Refuse rows of earlier nights before anything is scored. Only reads."""
    if source.pool_nights is None:
        return
    frozen, gateway = EvaluationSet.load(Path(rows)), workplace.gateway
    for candidate in candidates:
        refuse_known_rows(candidate, source, frozen, rivals, policy, len(candidates), gateway)


@task(name="pool nights", task_run_name="pool nights of {measured.folder!m}")
def pool_nights_of(
    measured: Measured,
    evidence: EvidenceFile,
    policy: Policy,
    n_candidates: int,
    workplace: Workplace,
) -> EvidenceFile:
    """Add the rows of earlier nights to the evidence.

    Safe to retry: rows that are there already are replaced.
    """
    name, uri = measured.source.name, measured.candidate.uri
    assert uri is not None  # noqa: S101 - others are refused when the evaluation file is read
    gateway = workplace.gateway
    version = gateway.resolve(uri)
    pooled = pool_earlier_nights(version, name, evidence, policy, n_candidates, gateway)
    nights = nights_of(pooled)
    number, n_rows = len(nights.each), sum(night.n_rows for night in nights.each)
    why = f" ({nights.began})" if number == 1 else ""
    say(f"{measured.candidate.name} on {name}: night {number}{why}, {n_rows:,} rows in all")
    return pooled
