"""Last step: decide on each candidate; `champion` moves at most once, and only on a pass."""

from __future__ import annotations

from collections.abc import Sequence

from bias_metrics.gate import find_worst_outcome
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import say, task
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.entry import Entry, Move
from biasgate.tasks.ledger.ledger import CHALLENGER, CHAMPION, Ledger, champion_of_model
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.outcomes import NOT_REGISTERED, WORDS
from biasgate.tasks.promoting.champion import (
    Transition,
    decision,
    move_champion,
    moved,
    moved_meanwhile,
    no_first,
    objection_to_policies,
    record,
    rests_on,
)
from biasgate.tasks.promoting.succession import (
    Judged,
    Past,
    Succession,
    judged_versions,
    succession_of,
)
from biasgate.tasks.records import CandidateDecision, Decision, LoggedVerdict, champion_of
from biasgate.tasks.reporting.version_tags import takes_verdict
from biasgate.tasks.scoring.candidate import CandidateSettings
from biasgate.tasks.store import Workplace
from biasgate.tasks.verifying.documents import write_verdicts
from biasgate.tasks.verifying.files import VersionFiles, champion_files
from biasgate.tasks.wording import word_of_verdict


def promote(
    judged: Sequence[Judged],
    registered_model: str | None,
    gateway: Gateway,
    succession: Succession,
) -> list[CandidateDecision]:
    """Move `champion` to the best version that may replace it; return all decisions."""
    model = registered_model
    ledger = Ledger(gateway, model) if model else None
    chain = ledger.chain if ledger else Chain(())
    champion = champion_of_model(ledger, chain) if ledger else None
    number = champion.version if champion else None
    passed = [one for one in judged if _without_pass(one, model, number) is None]
    if not passed:
        if ledger is not None and succession.promote == "manual":
            _propose(judged, None, ledger)
        return tell(judged, model, number, [], succession)
    uri = champion.uri if champion else None
    if any({champion_of(verdict) for verdict in one.verdicts} != {uri} for one in passed):
        return _again(judged, model, number)
    policies = [verdict.policy for one in passed for verdict in one.verdicts]
    objection = objection_to_policies(policies, chain.policy, str(model))
    if objection is not None:
        return [
            one.named(
                _without_pass(one, model, number)
                or decision("insufficient", f"Not promoted: {objection}.")
            )
            for one in judged
        ]
    past = Past.of(chain.links, number)
    chosen = succession.choose(passed, number, past)
    if ledger is not None and succession.promote == "manual":
        _propose(judged, succession.best(passed, number, past), ledger)
    if chosen is not None:
        _refuse_changed_files(chosen, gateway)
        transition = _transition(chosen, passed, number, succession)
        if not move_champion(transition, gateway).promoted:
            return _again(judged, model, number)
    return tell(judged, model, number, chain.links, succession)


def _propose(judged: Sequence[Judged], best: Judged | None, ledger: Ledger) -> None:
    """Set the alias `challenger` to the version that a person should look at.

    Without one, remove it from a version that was judged and is not proposed any more.
    """
    gateway, model = ledger.gateway, ledger.model
    alias = gateway.alias(model, CHALLENGER)
    if best is not None and best.version is not None:
        if alias is None or alias.version != best.version.version:
            gateway.set_alias(model, CHALLENGER, best.version.version)
    elif alias is not None and int(alias.version) in {one.number for one in judged}:
        gateway.delete_alias(model, CHALLENGER)


def _refuse_changed_files(chosen: Judged, gateway: Gateway) -> None:
    """Raise an error if the files of a version are not those that were scored."""
    files = VersionFiles.of(_version(chosen), gateway)
    compared = (files.compare(verdict, verdict.evaluation_set.name) for verdict in chosen.verdicts)
    chain = Ledger(gateway, _version(chosen).name).chain
    rivals = (
        found
        for verdict in chosen.verdicts
        for found in champion_files(verdict, verdict.evaluation_set.name, chain, gateway)
    )
    wrong = next((finding for finding in (*compared, *rivals) if not finding.holds), None)
    if wrong is not None:
        msg = f"{_version(chosen).uri} must not become {CHAMPION}: {wrong.sentence}"
        raise InputError(msg)


def tell(
    judged: Sequence[Judged],
    model: str | None,
    champion: str | None,
    entries: Sequence[Entry],
    succession: Succession,
) -> list[CandidateDecision]:
    """Return the decisions of `promote`, after the alias has moved if it may."""
    passed = [one for one in judged if _without_pass(one, model, champion) is None]
    past = Past.of(entries, champion)
    chosen = succession.choose(passed, champion, past)
    best = chosen or succession.best(passed, champion, past)
    return [
        one.named(
            _without_pass(one, model, champion, chosen)
            or (_proposed(one) if one is best and chosen is None else None)
            or _passed(one, chosen, best, champion, past, succession)
        )
        for one in judged
    ]


def _proposed(judged: Judged) -> Decision:
    """Return the decision on the version that a person should look at."""
    version = _version(judged)
    options = "--by NAME --reason TEXT"
    sentence = (
        f"{version.uri} passed and is {CHALLENGER}: approve it with `biasgate promote "
        f"{version.name} {version.version} {options}`, or reject it with `--reject`."
    )
    return decision("pass", sentence, rule="manual")


def _again(
    judged: Sequence[Judged], model: str | None, champion: str | None
) -> list[CandidateDecision]:
    """Return decisions that let the passed candidates be judged again: `champion` has moved."""
    return [
        one.named(_without_pass(one, model, champion) or moved_meanwhile(_version(one)))
        for one in judged
    ]


def _without_pass(
    judged: Judged, model: str | None, champion: str | None, chosen: Judged | None = None
) -> Decision | None:
    """Return the decision on a candidate that cannot be champion; None if a version passed.

    `chosen` is the version that has just become champion.
    """
    outcome = find_worst_outcome([verdict.outcome for verdict in judged.verdicts])
    if any(verdict.policy.report_only for verdict in judged.verdicts):
        sentence = (
            f"The verdict is: {WORDS[outcome].text.lower()}. The policy has `report_only: true`, "
            "so it moves no champion and fails no command."
        )
        return decision("pass", sentence, report_only=True)
    if judged.version is None:
        return decision(outcome, NOT_REGISTERED)
    if model is None:
        sentence = (
            f"{judged.version.uri} keeps its own verdict: an evaluation without "
            f"`registered_model: {judged.version.name}` does not change it."
        )
        return decision(outcome, sentence)
    if judged.version.name != model:
        sentence = f"{judged.version.uri} is not a version of {model}: not promoted."
        return decision(outcome, sentence)
    if outcome != "pass":
        return decision(outcome, f"Not promoted: {_where(model, champion, chosen)}.")
    return None


def _passed(
    judged: Judged,
    chosen: Judged | None,
    best: Judged | None,
    champion: str | None,
    past: Past,
    succession: Succession,
) -> Decision:
    """Return the decision on a version that passed: promoted, not chosen, or champion already."""
    version, rule = _version(judged), succession.promote if champion else "first"
    if version.version == champion and chosen is not None and version != chosen.version:
        replaced = (
            f"{version.uri} passed, and was {CHAMPION} until version {chosen.number} replaced it."
        )
        return decision("pass", replaced)
    if version.version == champion:
        return decision("pass", f"{version.uri} is {CHAMPION} already.")
    if chosen is not None and version == chosen.version:
        sentence = moved(version, champion, succession.reason(chosen, champion))
        return decision("pass", sentence, promoted=judged is chosen, rule=rule)
    if champion is None and not succession.allow_first and succession.promote != "never":
        return decision("insufficient", no_first(version.name))
    objection = succession.objection(judged, champion, past)
    if best is not None:
        objection = objection or best.preferred(judged)
    where = _where(version.name, champion, chosen)
    rule = succession.promote
    return decision("pass", f"{version.uri} passed, but {where}: {objection}.", rule=rule)


def _version(judged: Judged) -> ModelVersion:
    assert judged.version is not None  # noqa: S101 - a candidate that passed as a version has one
    return judged.version


def _where(model: str, champion: str | None, chosen: Judged | None) -> str:
    """Return a sentence part that says which version is champion now."""
    if chosen is not None:
        return f"{CHAMPION} of {model} is version {chosen.number} now"
    if champion is None:
        return f"{model} has no {CHAMPION} yet"
    return f"{CHAMPION} of {model} stays version {champion}"


def _transition(
    chosen: Judged, passed: Sequence[Judged], champion: str | None, succession: Succession
) -> Transition:
    others = {judged.number for judged in passed} - {chosen.number, int(champion or 0)}
    return Transition(
        "promotion",
        _version(chosen),
        champion,
        chosen.verdicts,
        chosen.because(succession.reason(chosen, champion)),
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
    """Write the verdicts to the model versions, then move the alias to the best if allowed.

    Without `registered_model` nothing is decided about a version: it keeps its verdict. `withheld`
    says why no alias moves, whatever passes. `is_first_look` says that a champion is not replaced.

    Safe to retry: nothing changes for a version that is already champion.
    """
    gateway = workplace.gateway
    judged = judged_versions(candidates, verdicts, gateway)
    for one, of_candidate in zip(judged, verdicts, strict=True):
        if one.version is not None and takes_verdict(one.version, registered_model, policy):
            write_verdicts(one.version, of_candidate, gateway)
    if registered_model is not None and not policy.report_only:
        record_blocked(judged, registered_model, gateway)
    succession = succession_of(policy, withheld, is_first_look=is_first_look)
    decisions = promote(judged, registered_model, gateway, succession)
    for found in decisions:
        say(f"{found.candidate}: {found.sentence}", aside=True)
    return decisions


def record_blocked(judged: Sequence[Judged], model: str, gateway: Gateway) -> None:
    """Write to the ledger which versions did not pass.

    From then on their earlier verdicts do not count, even if they are put back.
    """
    blocked = [
        one
        for one in judged
        if one.version is not None
        and one.version.name == model
        and find_worst_outcome([verdict.outcome for verdict in one.verdicts]) != "pass"
    ]
    if not blocked:
        return
    named = [f"{one.candidate} ({word_of_verdict(*one.verdicts).text})" for one in blocked]
    move = Move(
        action="blocked",
        reason=f"did not pass: {', '.join(named)}",
        verdicts=[rests_on(verdict) for one in blocked for verdict in one.verdicts],
        blocked=[str(one.number) for one in blocked],
    )
    record(Ledger(gateway, model), move, "earlier verdicts of these versions do not count")
