"""The verdict on one candidate and set: a pure function of policy and evidence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from importlib.metadata import version

from bias_metrics import BiasReport, MetricValue, RuleResult
from bias_metrics.gate import (
    RIVALS,
    Evidence,
    HarmLimit,
    Loss,
    Losses,
    MissingLimits,
    Outcome,
    PassException,
    decide,
    evidence_needed,
    extent_of,
    for_every_look,
    judge_harm,
    judge_missing,
    measure_objective,
    worst,
)
from bias_metrics.gate import RULE as HARM
from bias_metrics.metrics import GIVEN
from bias_metrics.parts import counted
from biasgate.tasks.common.code import code_digest
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.evidence.nights import judged_nights
from biasgate.tasks.gating.named_thresholds import find_thresholds
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.records import (
    BoundsRecord,
    Code,
    Compared,
    Context,
    HoldsFor,
    JudgedSet,
    MeasuredNumbers,
    OnlineRecord,
    PolicyRecord,
    Report,
    Rival,
    Verdict,
    metric_cells,
)
from biasgate.tasks.records.numbers import CONFIDENCE

SCHEMA_VERSION = 1
_ROUNDING = 1e-9


def build_verdict(
    report: Report,
    policy: Policy,
    evidence: EvidenceFile,
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
    online = None if context is None else context.online
    share = policy.share_of_alpha(n_candidates, 1.0 if online is None else online.share)
    nights, rules = judged_nights(evidence), policy.decision_rules(share)
    if nights is not None or online is not None:
        rules = for_every_look(rules)
    try:
        all_rows = (None, rules[0].level)
        given = _given(report, rivals)
        thresholds = find_thresholds(rules, evidence, given)
        confidence = policy.objective_confidence(share)
        compared = (None, 2 * confidence - 1)
        needed = dict.fromkeys([all_rows, compared, *evidence_needed(rules)])
        measured = evidence.measure(
            needed,
            thresholds,
            rules,
            small=policy.small_groups(today, evidence.identities),
            share=share,
        )
        alone = measured[all_rows] if nights is None else evidence.measure_set(rules[0].level)
        _refuse_other_numbers(report, MeasuredNumbers.from_dict(alone.report))
        decision = decide(
            measured,
            rules,
            today=today,
            waivers=[one.waiver() for one in policy.waivers],
            allow_first=policy.allow_first,
        )
        losses = _losses(evidence, 1 - policy.confidence, given)
        harm = _judge_harm(policy.harm_limit(len(losses)), losses, measured[all_rows])
        unscored = _judge_missing(evidence, policy.missing_limits(share))
        covered = evidence.without(policy.small_groups(today).not_measured, compared[1])
        objective = measure_objective(policy.objective, covered or measured[compared], confidence)
    except ValueError as error:
        msg = f"policy {policy.name!r}: {error}"
        raise InputError(msg) from error
    evaluation_set = report.evaluation_set
    if context is None:
        names = [evaluation_set.name] if required else []
        context = Context(required_sets=names, ledger=None, registered_policy=None)
    results = (*harm, *decision.results, *unscored)
    extent = extent_of(results, evidence.identities)
    unruled = _unruled_harm(policy, losses)
    worse = {entry.group for entry in unruled}
    return Verdict(
        schema_version=SCHEMA_VERSION,
        policy=PolicyRecord(
            name=policy.name,
            digest=policy.digest,
            report_only=policy.report_only,
        ),
        evaluation_set=JudgedSet(
            name=evaluation_set.name,
            digest=evaluation_set.digest,
            required=required,
        ),
        candidate=report.candidate,
        champion=_identified(rivals.get("champion"), evidence, "champion"),
        reference=_identified(rivals.get("reference"), evidence, "reference"),
        n_candidates=n_candidates,
        report_digest=json_digest(report),
        evidence_digest=evidence.digest,
        code=Code(version=version("biasgate"), bias_metrics=code_digest()),
        decided_on=today.isoformat(),
        outcome=_worst(decision.outcome, (*harm, *unscored)),
        holds_for=HoldsFor(
            identities=[name for name in extent.groups if name not in worse], of=extent.of
        ),
        exceptions=[
            *unruled,
            *extent.exceptions,
        ],
        bounds=_bounds(results, losses, policy, given, is_sample=evidence.is_sample),
        results=list(results),
        objective=objective,
        worsened=list(losses["champion"].cells) if "champion" in losses else [],
        required_sets=context.required_sets,
        ledger=context.ledger,
        registered_policy=context.registered_policy,
        nights=nights,
        online=None
        if online is None
        else OnlineRecord(**vars(online) | {"level": share * (1 - policy.confidence)}),
    )


def _worst(outcome: Outcome, unscored: Sequence[RuleResult]) -> Outcome:
    """Return the worse of an outcome and what is said of comments without a score."""
    others = [one.outcome for one in unscored if one.counts and one.outcome != "skipped"]
    return worst([outcome, *others])


def _judge_missing(evidence: EvidenceFile, limits: MissingLimits | None) -> tuple[RuleResult, ...]:
    """Judge how many rows have no score; nothing to say without limits if all have one."""
    rivals = evidence.n_missing
    if limits is None and evidence.is_complete and not rivals:
        return ()
    found = evidence.missing(CONFIDENCE if limits is None else limits.level)
    return judge_missing(found.to_dict(), limits, rivals=rivals, is_sample=evidence.is_sample)


def _identified(rival: Compared | None, evidence: EvidenceFile, role: str) -> Rival | None:
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


def _refuse_other_numbers(report: Report, again: MeasuredNumbers) -> None:
    """Raise an error if the evidence does not give the reported numbers."""
    measured = dict(_cells(again))
    measured |= _gaps({kind: at.subgroups for kind, at in again.thresholds.items()})
    known = _gaps({kind: at.gaps for kind, at in report.thresholds.items()})
    gaps = ((path, value) for path, value in known if path in measured)
    for path, value in (*_cells(report.bias), *gaps):
        found = measured[path]
        same = value == found or (
            value is not None
            and found is not None
            and math.isclose(value, found, abs_tol=_ROUNDING)
        )
        if not same:
            msg = f"the evidence must give the report's numbers; {path} is {found}, not {value}."
            raise RuntimeError(msg)


def _cells(bias: BiasReport | MeasuredNumbers) -> Iterator[tuple[str, float | None]]:
    yield "auc", bias.overall.auc.value
    yield "final_score", bias.final_score.value
    for name, subgroup in bias.subgroups.items():
        for metric, cell in metric_cells(subgroup).items():
            yield f"{metric}/{name}", cell.value


def _gaps(
    thresholds: Mapping[str, Mapping[str, Mapping[str, MetricValue]]],
) -> Iterator[tuple[str, float | None]]:
    """Yield the gaps by threshold and identity."""
    for kind, groups in thresholds.items():
        for name, cells in groups.items():
            yield from ((f"{metric}/{kind}/{name}", cell.value) for metric, cell in cells.items())


def _losses(
    evidence: EvidenceFile, alpha: float, given: Mapping[str, float | None]
) -> dict[str, Losses]:
    """Return what is shown to be worse than with each rival; the rivals share alpha."""
    rivals = [role for role in RIVALS if role in evidence.record.scores]
    at = {role: threshold for role, threshold in given.items() if threshold is not None}
    return {role: evidence.losses(role, alpha / len(rivals), {GIVEN: at}) for role in rivals}


def _judge_harm(
    limit: HarmLimit | None, losses: Mapping[str, Losses], found: Evidence
) -> tuple[RuleResult, ...]:
    """Judge what is shown to be worse, if the policy has the rule."""
    if limit is None:
        return ()
    return judge_harm(losses, limit, found)


def _unruled_harm(policy: Policy, losses: Mapping[str, Losses]) -> list[PassException]:
    """Return who is shown to be worse than with the champion, and does not block."""
    limit = policy.harm_limit(len(losses))
    by_group: dict[str, list[tuple[Loss, str]]] = {}
    for cell in losses["champion"].cells if "champion" in losses else ():
        if cell.without:
            continue  # only by comments that also mention somebody else who is named
        if limit is None or limit.action == "warn":
            why = "the policy only warns" if limit else "the policy has no rule on that"
        elif cell.worse_by_at_least <= limit.of(cell.metric):
            why = f"the policy tolerates {limit.of(cell.metric):g}"
        else:
            continue
        by_group.setdefault(cell.group, []).append((cell, why))
    found = []
    for group, cells in by_group.items():
        cell, why = cells[0]
        sentence = (
            f"{group}: shown to be worse than with the champion ({cell.bound}); {why} "
            "(`shown_harm`)."
        )
        found.append(PassException(group, "shown_worse", len(cells), sentence))
    return found


def _bounds(
    results: Sequence[RuleResult],
    losses: Mapping[str, Losses],
    policy: Policy,
    given: Mapping[str, float | None],
    *,
    is_sample: bool,
) -> BoundsRecord:
    """Count the bounds that were looked at, and how many of them may be wrong."""
    apart = [one for one in results if one.bound is not None and one.mode == "proven"]
    apart = [one for one in apart if one.rule != HARM]
    expected = sum(1 - one.confidence for one in apart)
    jointly = sum(one.n_bounds for one in losses.values())
    if not is_sample:
        text = "Values are of these rows alone: nothing is estimated."
        return BoundsRecord(separately=0, expected_wrong=0.0, jointly=0, sentence=text)
    text = f"Looked at: {counted(len(apart), 'bound', 'bounds')} of rules"
    if apart:
        text += f", of which at most {expected:.2g} may be wrong by chance"
    if jointly:
        share = 100 * (1 - policy.confidence)
        text += f"; {jointly:,} joint bounds of losses, any wrong in at most {share:g} of 100 sets"
    unknown = [role for role in losses if given.get(role) is None]
    if unknown and given["candidate"] is not None:
        text += (
            f". Losses in fpr_gap and fnr_gap were not looked at: the {' and the '.join(unknown)} "
        )
        text += f"{'has' if len(unknown) == 1 else 'have'} no `threshold`"
    return BoundsRecord(
        separately=len(apart),
        expected_wrong=expected,
        jointly=jointly,
        sentence=f"{text}.",
    )
