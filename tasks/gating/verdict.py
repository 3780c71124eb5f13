"""The verdict on one candidate and set: a pure function of policy and evidence."""

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
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.data.evaluation_set import SLICE
from biasgate.tasks.evidence.answers import AnyEvidence, MeasurementPlan, Measurements, measure_plan
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.policy_rules import over_slices
from biasgate.tasks.measuring.cautions import list_reservations
from biasgate.tasks.measuring.identities import Measured
from biasgate.tasks.records import (
    Code,
    Compared,
    Context,
    Findings,
    HoldsFor,
    JudgedSet,
    PolicyRecord,
    Report,
    Rival,
    Verdict,
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
    """Judge one candidate on one set, and record everything that the verdict is based on.

    Parameters
    ----------
    rivals : mapping of str to Compared
        `champion` and `reference`, if there are any.
    n_candidates : int
        Candidates that are evaluated together on the set.
    required : bool, default=True
        Whether a pass on this set is needed for promotion.
    context : Context, optional
        The required sets of the evaluation, and what the model's ledger said at that time.

    Raises
    ------
    InputError
        If a rule names a subgroup or slice that the set lacks.
    RuntimeError
        If the evidence gives other numbers than the report.
    """
    file = evidence if isinstance(evidence, EvidenceFile) else None
    slices = [] if file is None else list(file.columns(SLICE))
    sharing = policy.n_sharing_alpha(n_candidates)
    limits = policy.share_limits(sharing)
    levels = {rule: one.level for rule, one in limits.items()}
    plan = MeasurementPlan(
        rules=over_slices(policy.decision_rules(sharing), slices),
        sharing=sharing,
        objective=policy.objective_confidence(sharing),
        small=policy.small_groups(today, evidence.identities),
        thresholds=_given(report, rivals),
        alpha=1 - policy.confidence,
        missing=levels.get(MISSING),
        truncated=levels.get(TRUNCATED),
    )
    try:
        findings = _find(evidence, report, policy, plan, limits)
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
        champion=_identified(rivals.get("champion"), evidence, "champion"),
        reference=_identified(rivals.get("reference"), evidence, "reference"),
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


def _find(
    evidence: AnyEvidence,
    report: Report,
    policy: Policy,
    plan: MeasurementPlan,
    limits: Mapping[str, ShareLimits],
) -> Findings:
    """Judge by all rules; say for whom the result holds, until when, and what it does not cover.

    Raises
    ------
    ValueError
        As `measure_plan`.
    """
    harm_limit = policy.harm_limit(sum(role in evidence.record.scores for role in RIVALS))
    judge = partial(
        _judge,
        evidence,
        report,
        harm_limit=harm_limit,
        limits=limits,
        allow_first=policy.allow_first,
    )
    judged = judge(plan)
    last_day = _last_day(judged, policy, plan, judge)
    losses, results = judged.answers.losses, judged.results
    extent = find_pass_extent(results, evidence.identities)
    unruled = list_unblocked_harm(losses, harm_limit)
    worse = {entry.group for entry in unruled}
    return Findings(
        outcome=judged.outcome,
        holds_for=HoldsFor(
            identities=[name for name in extent.groups if name not in worse], of=extent.n_groups
        ),
        exceptions=[*unruled, *extent.exceptions],
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
        changed=_changed(evidence, plan.thresholds),
        holds_until=None if last_day is None else last_day.isoformat(),
    )


def _changed(
    evidence: AnyEvidence, given: Mapping[str, float | None]
) -> dict[str, dict[str, CountedShare]] | None:
    """Count the decisions that differ from the champion's, where both have a threshold."""
    at = {role: given[role] for role in ("candidate", "champion") if given.get(role) is not None}
    if len(at) < 2 or "champion" not in evidence.roles:
        return None
    found = evidence.count_changes("champion", {role: number or 0.0 for role, number in at.items()})
    return None if found is None else found.subgroups


def _last_day(
    judged: _Judged,
    policy: Policy,
    plan: MeasurementPlan,
    judge: Callable[[MeasurementPlan], _Judged],
) -> date | None:
    """Return the last day of a pass; None if no entry of `not_measured` that ends is needed."""
    if judged.outcome != "pass":
        return None
    used = {result.group for result in judged.results if result.not_measured is not None}
    ends = {one.identity: one.expires for one in policy.not_measured if one.identity in used}
    known = plan.small.not_measured
    for end in sorted(set(ends.values())):
        left = {name: text for name, text in known.items() if ends.get(name, date.max) > end}
        if judge(replace(plan, small=replace(plan.small, not_measured=left))).outcome != "pass":
            return end
    return None


def _judge(
    evidence: AnyEvidence,
    report: Report,
    plan: MeasurementPlan,
    harm_limit: HarmLimit | None,
    limits: Mapping[str, ShareLimits],
    *,
    allow_first: bool,
) -> _Judged:
    """Judge by all checks; the report must have the numbers of the evidence."""
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
        _flagged(report),
        confidence=plan.rules[0].confidence,
        is_sample=evidence.is_sample,
    )
    ruled = withdraw_dominated_passes(decision.results, evidence.dominant)
    results = [*useless, *harm, *ruled, *unscored, *truncated]
    others = [
        result.outcome for result in results if result.is_counted and result.outcome != "skipped"
    ]
    return _Judged(answers, results, find_worst_outcome([decision.outcome, *others]))


def _flagged(report: Report) -> FlagRates | None:
    """Return the share of each class that the candidate flags at the threshold in use."""
    if (at := report.thresholds.get(GIVEN)) is None:
        return None
    rates = list_error_rates(at.overall)
    missed = rates["false_negative_rate"].value
    return FlagRates(
        at.threshold,
        negative=rates["false_positive_rate"].value,
        positive=None if missed is None else 1 - missed,
    )


@dataclass(frozen=True)
class _Judged:
    """What evidence answers, the results of all checks, and the outcome."""

    answers: Measurements
    results: list[RuleResult]
    outcome: Outcome


def _identified(rival: Compared | None, evidence: AnyEvidence, role: str) -> Rival | None:
    """Return a rival's name, kind, version, own threshold, and the digest of its scores' origin."""
    if rival is None:
        return None
    record = evidence.record
    return Rival(**vars(rival) | {"digest": record.scores[role], "bound": record.bound[role]})


def _given(report: Report, rivals: Mapping[str, Compared]) -> dict[str, float | None]:
    """Return the thresholds that candidate and rivals are used with."""
    at = report.thresholds
    own = at[GIVEN].threshold if GIVEN in at else None
    return {"candidate": own} | {role: one.threshold for role, one in rivals.items() if one}


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
    attest_verdict(verdict, folder, PrivateKey.from_environment())
    return verdict


def _compared(rival: CandidateSettings) -> Compared:
    """Return a rival's name, kind, model and own threshold."""
    return Compared(
        name=rival.name, kind=rival.kind, model=rival.uri or None, threshold=rival.threshold
    )


def with_scores(context: Context, measured: Measured) -> Context:
    """Return the context, which says whether the policy was registered before the scores were made.

    It is unknown for a file of scores, which was made elsewhere, and within one second: times are
    no finer.
    """
    registered = context.registered_policy
    if registered is None or measured.candidate.kind == "scores":
        return context
    made = ScoredSet.open(measured.scores).record.made
    if made == registered.at:
        return context
    known = replace(registered, before_scores=registered.at < made)
    return replace(context, registered_policy=known)
