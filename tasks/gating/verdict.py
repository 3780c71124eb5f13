"""The verdict on a candidate and a set, a pure function of policy and evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

from bias_metrics.gate import (
    MISSING,
    RIVALS,
    TRUNCATED,
    FlagRates,
    HarmLimit,
    Outcome,
    RuleResult,
    ShareLimits,
    count_bounds,
    find_pass_extent,
    find_worst_outcome,
    judge_harm,
    judge_missing,
    judge_rules,
    judge_truncated,
    judge_usefulness,
    list_unblocked_harm,
    measure_objective,
    withdraw_dominated_passes,
)
from bias_metrics.metrics import GIVEN
from bias_metrics.thresholds import CountedShare
from biasgate.tasks.common.code import code_digest
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest, write_json
from biasgate.tasks.common.prefect_task import log_message, task
from biasgate.tasks.data.evaluation_set import SLICE
from biasgate.tasks.evidence.answers import AnyEvidence, MeasurementPlan, Measurements, measure_plan
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.policy_rules import expand_slices
from biasgate.tasks.measuring.cautions import list_reservations
from biasgate.tasks.measuring.identities import Measured
from biasgate.tasks.records import (
    Code,
    Compared,
    Context,
    HoldsFor,
    JudgedSet,
    PolicyRecord,
    Report,
    Rival,
    Verdict,
    VerdictFindings,
    list_error_rates,
)
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.scoring.scored_set import ScoredSet
from biasgate.tasks.signing.keys import PrivateKey
from biasgate.tasks.signing.statement import attest_verdict

SCHEMA_VERSION = 1


def build_verdict(
    report: Report,
    policy: Policy,
    evidence: AnyEvidence,
    rivals: Mapping[str, Compared],
    *,
    n_candidates: int,
    today: date,
    required: bool = True,
    context: Context | None = None,
) -> Verdict:
    """Judge a candidate on a set, and record all inputs of the verdict.

    Parameters
    ----------
    report : Report
        The report of the candidate, whose numbers must match the evidence.
    policy : Policy
        The rules.
    evidence : EvidenceFile or CountedEvidence
        The scores and labels, or their counts.
    rivals : mapping of str to Compared
        The champion and the reference, if given, by role.
    n_candidates : int
        Number of candidates that are evaluated together on the set.
    today : date
        The date of the decision, for exemptions that expire.
    required : bool, default=True
        True if promotion requires a pass on this set.
    context : Context, optional
        The required sets of the evaluation, and the state of the model's ledger.

    Raises
    ------
    InputError
        If a rule names a subgroup or slice that the set lacks.
    RuntimeError
        If the numbers of the evidence differ from those of the report.
    """
    evidence_file = evidence if isinstance(evidence, EvidenceFile) else None
    slices = [] if evidence_file is None else list(evidence_file.columns(SLICE))
    sharing = policy.count_sharing_candidates(n_candidates)
    limits = policy.list_share_limits(sharing)
    levels = {rule: share_limits.level for rule, share_limits in limits.items()}
    plan = MeasurementPlan(
        rules=expand_slices(policy.decision_rules(sharing), slices),
        sharing=sharing,
        objective=policy.get_objective_confidence(sharing),
        small=policy.make_small_groups(today, evidence.identities),
        thresholds=_collect_thresholds(report, rivals),
        alpha=1 - policy.confidence,
        missing=levels.get(MISSING),
        truncated=levels.get(TRUNCATED),
    )
    try:
        findings = _make_findings(evidence, report, policy, plan, limits)
    except ValueError as error:
        msg = f"policy {policy.name!r}: {error}"
        raise InputError(msg) from error
    evaluation_set = report.evaluation_set
    if context is None:
        names = [evaluation_set.name] if required else []
        context = Context(required_sets=names, ledger=None, registered_policy=None)
    return Verdict(
        **vars(findings),
        schema_version=SCHEMA_VERSION,
        policy=PolicyRecord(name=policy.name, digest=policy.digest, report_only=policy.report_only),
        evaluation_set=JudgedSet(
            name=evaluation_set.name,
            digest=evaluation_set.digest,
            required=required,
            sample=evaluation_set.choices.sample,
        ),
        candidate=report.candidate,
        champion=_make_rival(rivals.get("champion"), evidence, "champion"),
        reference=_make_rival(rivals.get("reference"), evidence, "reference"),
        n_candidates=n_candidates,
        report_digest=json_digest(report),
        evidence_digest=evidence.digest,
        code=Code(version=version("biasgate"), bias_metrics=code_digest()),
        decided_on=today.isoformat(),
        **vars(context),
        counts=None
        if isinstance(evidence, EvidenceFile)
        else evidence.describe(has_categories=policy.hierarchy is not None),
    )


def _make_findings(
    evidence: AnyEvidence,
    report: Report,
    policy: Policy,
    plan: MeasurementPlan,
    limits: Mapping[str, ShareLimits],
) -> VerdictFindings:
    """Judge by all checks, and find the identities, period and exceptions of the result.

    Raises
    ------
    ValueError
        From `measure_plan`.
    """
    harm_limit = policy.make_harm_limit(sum(role in evidence.record.scores for role in RIVALS))
    judge = partial(
        _judge_checks,
        evidence,
        report,
        harm_limit=harm_limit,
        limits=limits,
        allow_first=policy.allow_first,
    )
    judged = judge(plan)
    last_day = _find_last_day(judged, policy, plan, judge)
    losses, results = judged.answers.losses, judged.results
    extent = find_pass_extent(results, evidence.identities)
    unblocked_harm = list_unblocked_harm(losses, harm_limit)
    worse_groups = {entry.group for entry in unblocked_harm}
    return VerdictFindings(
        outcome=judged.outcome,
        holds_for=HoldsFor(
            identities=[name for name in extent.groups if name not in worse_groups],
            of=extent.n_groups,
        ),
        exceptions=[*unblocked_harm, *extent.exceptions],
        reservations=list_reservations(report, evidence.dominant),
        bounds=count_bounds(
            results,
            losses,
            plan.alpha,
            plan.thresholds,
            is_sample=evidence.is_sample,
        ),
        results=results,
        objective=measure_objective(policy.objective, judged.answers.compared, plan.objective),
        worsened=list(losses["champion"].cells) if "champion" in losses else [],
        changed=_count_changed_decisions(evidence, plan.thresholds),
        holds_until=None if last_day is None else last_day.isoformat(),
    )


def _count_changed_decisions(
    evidence: AnyEvidence, given: Mapping[str, float | None]
) -> dict[str, dict[str, CountedShare]] | None:
    """Count the decisions that differ from the champion's, if both models have a threshold."""
    thresholds = {
        role: given[role] for role in ("candidate", "champion") if given.get(role) is not None
    }
    if len(thresholds) < 2 or "champion" not in evidence.roles:
        return None
    changes = evidence.count_changes(
        "champion", {role: threshold or 0.0 for role, threshold in thresholds.items()}
    )
    return None if changes is None else changes.subgroups


def _find_last_day(
    judged: _Judgement,
    policy: Policy,
    plan: MeasurementPlan,
    judge: Callable[[MeasurementPlan], _Judgement],
) -> date | None:
    """Return the last day of a pass; None if it does not depend on `not_measured`."""
    if judged.outcome != "pass":
        return None
    used = {result.group for result in judged.results if result.not_measured is not None}
    ends = {
        entry.identity: entry.expires for entry in policy.not_measured if entry.identity in used
    }
    exemptions = plan.small.not_measured
    for end in sorted(set(ends.values())):
        remaining = {
            name: text for name, text in exemptions.items() if ends.get(name, date.max) > end
        }
        if (
            judge(replace(plan, small=replace(plan.small, not_measured=remaining))).outcome
            != "pass"
        ):
            return end
    return None


def _judge_checks(
    evidence: AnyEvidence,
    report: Report,
    plan: MeasurementPlan,
    harm_limit: HarmLimit | None,
    limits: Mapping[str, ShareLimits],
    *,
    allow_first: bool,
) -> _Judgement:
    """Run all checks; the numbers of the report must match the evidence."""
    answers = measure_plan(evidence, plan, report)
    decision = judge_rules(answers.measured, plan.rules, allow_first=allow_first)
    harm = judge_harm(answers.losses, harm_limit, answers.everyone)
    unscored = judge_missing(
        answers.missing,
        limits.get(MISSING),
        rivals=evidence.n_missing,
        is_sample=evidence.is_sample,
    )
    truncated = judge_truncated(
        answers.truncated, limits.get(TRUNCATED), is_sample=evidence.is_sample
    )
    useless = judge_usefulness(
        answers.everyone.table,
        _compute_flag_rates(report),
        confidence=plan.rules[0].confidence,
        is_sample=evidence.is_sample,
    )
    rule_results = withdraw_dominated_passes(decision.results, evidence.dominant)
    results = [*useless, *harm, *rule_results, *unscored, *truncated]
    outcomes = [
        result.outcome for result in results if result.is_counted and result.outcome != "skipped"
    ]
    return _Judgement(answers, results, find_worst_outcome([decision.outcome, *outcomes]))


def _compute_flag_rates(report: Report) -> FlagRates | None:
    """Return the share of each class that the candidate flags at its threshold."""
    if (errors := report.thresholds.get(GIVEN)) is None:
        return None
    rates = list_error_rates(errors.overall)
    missed = rates["false_negative_rate"].value
    return FlagRates(
        errors.threshold,
        negative=rates["false_positive_rate"].value,
        positive=None if missed is None else 1 - missed,
    )


@dataclass(frozen=True)
class _Judgement:
    """The measured numbers, the results of all checks, and the outcome."""

    answers: Measurements
    results: list[RuleResult]
    outcome: Outcome


def _make_rival(rival: Compared | None, evidence: AnyEvidence, role: str) -> Rival | None:
    """Return the record of a rival, with the digest and origin of its scores."""
    if rival is None:
        return None
    record = evidence.record
    return Rival(**vars(rival) | {"digest": record.scores[role], "bound": record.bound[role]})


def _collect_thresholds(report: Report, rivals: Mapping[str, Compared]) -> dict[str, float | None]:
    """Return the configured thresholds of the candidate and its rivals, by role."""
    errors = report.thresholds
    candidate_threshold = errors[GIVEN].threshold if GIVEN in errors else None
    return {"candidate": candidate_threshold} | {
        role: rival.threshold for role, rival in rivals.items() if rival
    }


@task(name="decide", task_run_name="decide {measured.folder!m}")
def decide_candidate(
    measured: Measured,
    evidence: EvidenceFile,
    rivals: dict[str, CandidateSettings],
    policy: Policy,
    n_candidates: int,
    context: Context,
) -> Verdict:
    """Judge the report. Write verdict, policy and attestation, and return the verdict.

    The attestation is signed if this machine has a private key. Safe to retry.
    """
    verdict = build_verdict(
        measured.report,
        policy,
        evidence,
        {role: _describe_rival(rival) for role, rival in rivals.items()},
        n_candidates=n_candidates,
        today=datetime.now(UTC).date(),
        required=measured.source.required,
        context=add_registration_order(context, measured),
    )
    subject = f"{measured.candidate.name} on {measured.source.name}"
    log_message(f"decided {subject}: {verdict.outcome} by policy {policy.name}")
    folder = Path(measured.folder)
    write_json(folder / "policy.json", policy.model_dump(mode="json"))
    write_json(folder / "verdict.json", verdict)
    attest_verdict(verdict, folder, PrivateKey.from_environment())
    return verdict


def _describe_rival(rival: CandidateSettings) -> Compared:
    """Return the name, kind, model and threshold of a rival."""
    return Compared(
        name=rival.name, kind=rival.kind, model=rival.uri or None, threshold=rival.threshold
    )


def add_registration_order(context: Context, measured: Measured) -> Context:
    """Return the context with the order in time of policy registration and scoring.

    The order is unknown for a file of scores, which was made elsewhere, and for times in the same
    second, the resolution of both times.
    """
    registered = context.registered_policy
    if registered is None or measured.candidate.kind == "scores":
        return context
    scored_at = ScoredSet.open(measured.scores).record.made
    if scored_at == registered.at:
        return context
    registration = replace(registered, before_scores=registered.at < scored_at)
    return replace(context, registered_policy=registration)
