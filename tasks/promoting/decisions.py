"""Last step: decide on all candidates; `champion` moves at most once, and only after a pass."""

from __future__ import annotations

from collections.abc import Sequence

from bias_metrics.gate import find_worst_outcome
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import log_message, task
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.entry import Entry, Move
from biasgate.tasks.ledger.ledger import CHALLENGER, CHAMPION, Ledger, find_champion
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.outcomes import NOT_REGISTERED, WORDS
from biasgate.tasks.promoting.champion import (
    Transition,
    describe_move,
    explain_no_first,
    find_policy_objection,
    make_decision,
    make_moved_decision,
    move_champion,
    record_move,
    reference_verdict,
)
from biasgate.tasks.promoting.succession import (
    JudgedCandidate,
    PromotionHistory,
    SuccessionRule,
    build_succession,
    collect_judged,
)
from biasgate.tasks.records import CandidateDecision, Decision, LoggedVerdict, get_champion_uri
from biasgate.tasks.reporting.version_tags import takes_verdict
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.store import Workplace
from biasgate.tasks.verifying.documents import write_verdict_tags
from biasgate.tasks.verifying.files import VersionFiles, check_champion_files
from biasgate.tasks.wording import get_verdict_words


def promote_candidates(
    judged: Sequence[JudgedCandidate],
    registered_model: str | None,
    gateway: Gateway,
    succession: SuccessionRule,
) -> list[CandidateDecision]:
    """Move `champion` to the best version that may replace it, and return all decisions."""
    model = registered_model
    ledger = Ledger(gateway, model) if model else None
    chain = ledger.chain if ledger else Chain(())
    champion = find_champion(ledger, chain) if ledger else None
    number = champion.version if champion else None
    passed = [
        candidate for candidate in judged if _decide_ineligible(candidate, model, number) is None
    ]
    if not passed:
        if ledger is not None and succession.promote == "manual":
            _propose_version(judged, None, ledger)
        return make_decisions(judged, model, number, [], succession)
    champion_uri = champion.uri if champion else None
    if any(
        {get_champion_uri(verdict) for verdict in candidate.verdicts} != {champion_uri}
        for candidate in passed
    ):
        return _decide_moved(judged, model, number)
    policies = [verdict.policy for candidate in passed for verdict in candidate.verdicts]
    objection = find_policy_objection(policies, chain.policy, str(model))
    if objection is not None:
        return [
            candidate.complete_decision(
                _decide_ineligible(candidate, model, number)
                or make_decision("insufficient", f"Not promoted: {objection}.")
            )
            for candidate in judged
        ]
    past = PromotionHistory.from_entries(chain.links, number)
    chosen = succession.choose(passed, number, past)
    if ledger is not None and succession.promote == "manual":
        _propose_version(judged, succession.find_best(passed, number, past), ledger)
    if chosen is not None:
        _refuse_changed_files(chosen, gateway)
        transition = _build_transition(chosen, passed, number, succession)
        if not move_champion(transition, gateway).promoted:
            return _decide_moved(judged, model, number)
    return make_decisions(judged, model, number, chain.links, succession)


def _propose_version(
    judged: Sequence[JudgedCandidate], best: JudgedCandidate | None, ledger: Ledger
) -> None:
    """Set the alias `challenger` to the version that a person shall decide about.

    Without such a version, remove the alias from a judged version: it is no longer proposed.
    """
    gateway, model = ledger.gateway, ledger.model
    alias = gateway.get_alias(model, CHALLENGER)
    if best is not None and best.version is not None:
        if alias is None or alias.version != best.version.version:
            gateway.set_alias(model, CHALLENGER, best.version.version)
    elif alias is not None and int(alias.version) in {candidate.number for candidate in judged}:
        gateway.delete_alias(model, CHALLENGER)


def _refuse_changed_files(chosen: JudgedCandidate, gateway: Gateway) -> None:
    """Raise an error if the files of a version or its champion differ from the scored files."""
    files = VersionFiles.from_registry(_get_version(chosen), gateway)
    compared = (files.compare(verdict, verdict.evaluation_set.name) for verdict in chosen.verdicts)
    chain = Ledger(gateway, _get_version(chosen).name).chain
    rivals = (
        finding
        for verdict in chosen.verdicts
        for finding in check_champion_files(verdict, verdict.evaluation_set.name, chain, gateway)
    )
    failure = next((finding for finding in (*compared, *rivals) if not finding.holds), None)
    if failure is not None:
        msg = f"{_get_version(chosen).uri} must not become {CHAMPION}: {failure.sentence}"
        raise InputError(msg)


def make_decisions(
    judged: Sequence[JudgedCandidate],
    model: str | None,
    champion: str | None,
    entries: Sequence[Entry],
    succession: SuccessionRule,
) -> list[CandidateDecision]:
    """Return the decisions on all candidates, without moving an alias.

    `champion`, `entries`: champion and ledger before the decisions.
    """
    passed = [
        candidate for candidate in judged if _decide_ineligible(candidate, model, champion) is None
    ]
    past = PromotionHistory.from_entries(entries, champion)
    chosen = succession.choose(passed, champion, past)
    best = chosen or succession.find_best(passed, champion, past)
    return [
        candidate.complete_decision(
            _decide_ineligible(candidate, model, champion, chosen)
            or (_decide_proposed(candidate) if candidate is best and chosen is None else None)
            or _decide_passed(candidate, chosen, best, champion, past, succession)
        )
        for candidate in judged
    ]


def _decide_proposed(judged: JudgedCandidate) -> Decision:
    """Return the decision on the version that a person shall decide about."""
    version = _get_version(judged)
    options = "--by NAME --reason TEXT"
    sentence = (
        f"{version.uri} passed and is {CHALLENGER}: approve it with `biasgate promote "
        f"{version.name} {version.version} {options}`, or reject it with `--reject`."
    )
    return make_decision("pass", sentence, rule="manual")


def _decide_moved(
    judged: Sequence[JudgedCandidate], model: str | None, champion: str | None
) -> list[CandidateDecision]:
    """Return decisions after another process moved `champion`: evaluate passed versions again."""
    return [
        candidate.complete_decision(
            _decide_ineligible(candidate, model, champion)
            or make_moved_decision(_get_version(candidate))
        )
        for candidate in judged
    ]


def _decide_ineligible(
    judged: JudgedCandidate,
    model: str | None,
    champion: str | None,
    chosen: JudgedCandidate | None = None,
) -> Decision | None:
    """Return the decision on a candidate that cannot become champion; None for passed versions.

    `chosen`: the version that has just become champion.
    """
    outcome = find_worst_outcome([verdict.outcome for verdict in judged.verdicts])
    if any(verdict.policy.report_only for verdict in judged.verdicts):
        sentence = (
            f"The verdict is: {WORDS[outcome].text.lower()}. The policy has `report_only: true`, "
            "so it moves no champion and fails no command."
        )
        return make_decision("pass", sentence, report_only=True)
    if judged.version is None:
        return make_decision(outcome, NOT_REGISTERED)
    if model is None:
        sentence = (
            f"{judged.version.uri} keeps its own verdict: an evaluation without "
            f"`registered_model: {judged.version.name}` does not change it."
        )
        return make_decision(outcome, sentence)
    if judged.version.name != model:
        sentence = f"{judged.version.uri} is not a version of {model}: not promoted."
        return make_decision(outcome, sentence)
    if outcome != "pass":
        return make_decision(
            outcome, f"Not promoted: {_describe_champion(model, champion, chosen)}."
        )
    return None


def _decide_passed(
    judged: JudgedCandidate,
    chosen: JudgedCandidate | None,
    best: JudgedCandidate | None,
    champion: str | None,
    past: PromotionHistory,
    succession: SuccessionRule,
) -> Decision:
    """Return the decision on a passed version: promoted, not promoted, or champion already."""
    version, rule = _get_version(judged), succession.promote if champion else "first"
    if version.version == champion and chosen is not None and version != chosen.version:
        replaced = (
            f"{version.uri} passed, and was {CHAMPION} until version {chosen.number} replaced it."
        )
        return make_decision("pass", replaced)
    if version.version == champion:
        return make_decision("pass", f"{version.uri} is {CHAMPION} already.")
    if chosen is not None and version == chosen.version:
        sentence = describe_move(version, champion, succession.describe_rule(chosen, champion))
        return make_decision("pass", sentence, promoted=judged is chosen, rule=rule)
    if champion is None and not succession.allow_first and succession.promote != "never":
        return make_decision("insufficient", explain_no_first(version.name))
    objection = succession.find_objection(judged, champion, past)
    if best is not None:
        objection = objection or best.explain_preference(judged)
    state = _describe_champion(version.name, champion, chosen)
    rule = succession.promote
    return make_decision("pass", f"{version.uri} passed, but {state}: {objection}.", rule=rule)


def _get_version(judged: JudgedCandidate) -> ModelVersion:
    assert judged.version is not None  # noqa: S101 - a candidate that passed as a version has one
    return judged.version


def _describe_champion(model: str, champion: str | None, chosen: JudgedCandidate | None) -> str:
    """Return a clause about the current champion."""
    if chosen is not None:
        return f"{CHAMPION} of {model} is version {chosen.number} now"
    if champion is None:
        return f"{model} has no {CHAMPION} yet"
    return f"{CHAMPION} of {model} stays version {champion}"


def _build_transition(
    chosen: JudgedCandidate,
    passed: Sequence[JudgedCandidate],
    champion: str | None,
    succession: SuccessionRule,
) -> Transition:
    others = {judged.number for judged in passed} - {chosen.number, int(champion or 0)}
    return Transition(
        "promotion",
        _get_version(chosen),
        champion,
        chosen.verdicts,
        chosen.extend_reason(succession.describe_rule(chosen, champion)),
        rule=succession.promote if champion else "first",
        passed_over=[str(other) for other in sorted(others)],
    )


@task(name="promote the best")
def promote_best(
    candidates: list[CandidateSettings],
    verdicts: list[list[LoggedVerdict]],
    registered_model: str | None,
    policy: Policy,
    workplace: Workplace,
    withheld: str | None = None,
    *,
    is_first_look: bool = False,
) -> list[CandidateDecision]:
    """Write verdicts to the tags of versions, then move the alias to the best version if allowed.

    Without `registered_model`, versions keep their verdicts and the alias does not move.

    `withheld`: the reason not to move the alias for any verdict. `is_first_look`: do not replace an
    existing champion.

    A retry is safe: it does not promote a version that is champion already.
    """
    gateway = workplace.gateway
    judged = collect_judged(candidates, verdicts, gateway)
    for candidate, candidate_verdicts in zip(judged, verdicts, strict=True):
        if candidate.version is not None and takes_verdict(
            candidate.version, registered_model, policy
        ):
            write_verdict_tags(candidate.version, candidate_verdicts, gateway)
    if registered_model is not None and not policy.report_only:
        record_blocked(judged, registered_model, gateway)
    succession = build_succession(policy, withheld, is_first_look=is_first_look)
    decisions = promote_candidates(judged, registered_model, gateway, succession)
    for result in decisions:
        log_message(f"{result.candidate}: {result.sentence}", aside=True)
    return decisions


def record_blocked(judged: Sequence[JudgedCandidate], model: str, gateway: Gateway) -> None:
    """Add an entry with the versions that did not pass to the ledger.

    From then on their earlier verdicts do not count, even if someone restores their tags.
    """
    blocked = [
        candidate
        for candidate in judged
        if candidate.version is not None
        and candidate.version.name == model
        and find_worst_outcome([verdict.outcome for verdict in candidate.verdicts]) != "pass"
    ]
    if not blocked:
        return
    descriptions = [
        f"{candidate.candidate} ({get_verdict_words(*candidate.verdicts).text})"
        for candidate in blocked
    ]
    move = Move(
        action="blocked",
        reason=f"did not pass: {', '.join(descriptions)}",
        verdicts=[
            reference_verdict(verdict) for candidate in blocked for verdict in candidate.verdicts
        ],
        blocked=[str(candidate.number) for candidate in blocked],
    )
    record_move(Ledger(gateway, model), move, "earlier verdicts of these versions do not count")
