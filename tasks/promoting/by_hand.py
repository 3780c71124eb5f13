"""Manual changes of the champion: promotion, rejection, rollback and reset; and the history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.entry import ListedEntry, Move, VerdictReference
from biasgate.tasks.ledger.ledger import (
    CHALLENGER,
    CHAMPION,
    PREVIOUS,
    Ledger,
    find_champion,
    require_model,
)
from biasgate.tasks.ledger.sound import (
    find_problems,
    remember_head,
    require_signing_key,
    require_sound,
)
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion, parse_model_name
from biasgate.tasks.promoting.champion import (
    Transition,
    explain_no_first,
    find_policy_objection,
    make_decision,
    move_champion,
    queue_move,
    record_move,
    reference_verdict,
    settle_stale_entries,
)
from biasgate.tasks.promoting.succession import SAME_SCORES, JudgedCandidate, find_smaller_sample
from biasgate.tasks.promoting.verify import require_verified
from biasgate.tasks.records import Decision, LoggedVerdict, get_champion_uri
from biasgate.tasks.signing.keys import TrustedKeys
from biasgate.tasks.signing.statement import compute_verdict_digest
from biasgate.tasks.verifying.documents import complete_tags, read_logged_verdict, read_run_policy
from biasgate.tasks.verifying.version import verify_version


def promote_version(
    model: str, version: str, reason: str | None, gateway: Gateway, by: str | None = None
) -> Decision:
    """Make a version champion, based on its existing verdicts.

    The history keeps `reason` and `by`, the name of the deciding person. A policy with
    `promote: manual` requires both.
    """
    ledger = settle_ledger(model, gateway)
    target = gateway.resolve(f"models:/{model}/{version}")
    require_verified(target, verify_version(target, gateway))
    judged = JudgedCandidate(target.uri, read_tagged_verdicts(target, gateway), target)
    chain = ledger.chain
    champion = find_champion(ledger, chain)
    if champion is not None and champion.version == target.version:
        alias = gateway.get_alias(model, CHAMPION)
        if alias is None or alias.version != target.version:
            gateway.set_alias(model, CHAMPION, target.version)
        return make_decision("pass", f"{target.uri} is champion.")
    compared = set(map(get_champion_uri, judged.verdicts))
    if compared != {champion.uri if champion else None}:
        rivals = ", ".join(sorted(uri or "no champion" for uri in compared))
        current = f"{CHAMPION} is now {champion.uri}" if champion else f"there is no {CHAMPION} now"
        msg = f"{target.uri} was compared with {rivals}, but {current}: evaluate it again."
        if any(parse_model_name(uri) not in {None, model} for uri in compared):
            msg += " A copy of another model's version is promoted with `--from`."
        raise InputError(msg)
    policies = [read_verdict_policy(verdict, target, gateway) for verdict in judged.verdicts]
    if champion is None and not all(policy.allow_first for policy in policies):
        return make_decision("insufficient", explain_no_first(model))
    require_allowed(judged, champion, chain, policies, model, has_person=bool(by and reason))
    replaces = champion.version if champion else None
    if judged.is_champions_copy:
        msg = f"{target.uri} must be another model than the champion: {SAME_SCORES}."
        raise InputError(msg)
    because = judged.extend_reason(reason or "by hand")
    transition = Transition("promotion", target, replaces, judged.verdicts, because, by=by)
    result = judged.complete_decision(move_champion(transition, gateway))
    if result.promoted:
        withdraw_challenger(model, version, gateway)
    return result


def require_allowed(
    judged: JudgedCandidate,
    champion: ModelVersion | None,
    chain: Chain,
    policies: Sequence[Policy],
    model: str,
    *,
    has_person: bool,
) -> None:
    """Raise an error if a model's ledger or the policy does not allow a manual promotion.

    `has_person`: True if the caller names a person and a reason.
    """
    candidate = judged.candidate
    objection = find_policy_objection(policies, chain.policy, model)
    if objection is not None:
        msg = (
            f"{candidate} must have a verdict that may move {CHAMPION}: {objection}; evaluate it "
            "with the registered policy."
        )
        raise InputError(msg)
    basis = [] if champion is None else chain.find_basis(champion.version)
    if champion is not None and (smaller := find_smaller_sample(judged.samples, basis)):
        msg = f"{candidate} must be judged on as many comments as the champion: {smaller}."
        raise InputError(msg)
    if any(policy.promote == "manual" for policy in policies) and not has_person:
        msg = "`--by` and `--reason` must be given, since the policy has `promote: manual`."
        raise InputError(msg)


def reject_version(model: str, version: str, reason: str, by: str, gateway: Gateway) -> Decision:
    """Record that a person rejected a version: it is not proposed or promoted automatically.

    Its verdicts do not count from then on. To promote it nevertheless, evaluate it again and
    promote it manually.
    """
    ledger = settle_ledger(model, gateway)
    target = gateway.resolve(f"models:/{model}/{version}")
    champion = find_champion(ledger, ledger.chain)
    if champion is not None and champion.version == target.version:
        msg = (
            f"{target.uri} is {CHAMPION}, so it cannot be rejected. Go back with "
            f"`{gateway.format_command('rollback', model, '--reason', 'TEXT')}`."
        )
        raise InputError(msg)
    move = Move(
        action="blocked",
        reason=reason,
        by=by,
        verdicts=[reference_verdict(verdict) for verdict in read_tagged_verdicts(target, gateway)],
        blocked=[target.version],
    )
    entry = record_move(ledger, move, f"rejected by {by}")
    withdraw_challenger(model, version, gateway)
    sentence = (
        f"{target.uri} is rejected by {by} ({reason}): entry {entry.number} of {ledger.name}."
    )
    return make_decision("pass", sentence)


def withdraw_challenger(model: str, version: str, gateway: Gateway) -> None:
    """Remove the alias `challenger` from a version after a person's decision."""
    alias = gateway.get_alias(model, CHALLENGER)
    if alias is not None and alias.version == version:
        gateway.delete_alias(model, CHALLENGER)


def roll_back(model: str, reason: str, gateway: Gateway, to: str | None = None) -> Decision:
    """Restore the champion that the last promotion replaced, or the version `to`.

    Its verdicts must verify, except that they may compare it with an earlier champion. A retry is
    safe: a finished rollback is not repeated, even if another process made it.
    """
    ledger = settle_ledger(model, gateway)
    # Read once: a rollback by another process in between must not be rolled back again.
    chain = ledger.chain
    decision = _find_rollback(ledger, chain, to)
    if decision is not None:
        return decision
    champion, version = find_champion(ledger, chain), to
    if version is None:
        alias = gateway.get_alias(model, PREVIOUS)
        version = alias.version if alias else None
        if chain.last_move is not None:
            version = chain.last_move.content.replaces or None
    if champion is None or version is None or champion.version == version:
        msg = f"model {model} must have a `{PREVIOUS}` to roll back to; it has none."
        raise InputError(msg)
    champions = {link.content.version for link in chain.moves}
    if to is not None and to not in champions:
        msg = f"`--to` must name a version that was {CHAMPION} of {model}; version {to} never was."
        raise InputError(msg)
    rollback = chain.rollbacks.get(version)
    if rollback is not None and to is None:
        msg = (
            f"`--to {version}` must be given to restore version {version} of {model}: entry "
            f"{rollback.number} rolled back from it ({escape_invisible(rollback.content.reason)})."
        )
        raise InputError(msg)
    target = gateway.resolve(f"models:/{model}/{version}")
    require_verified(target, verify_version(target, gateway))
    verdicts = read_tagged_verdicts(target, gateway)
    transition = Transition("rollback", target, champion.version, verdicts, reason)
    decision = move_champion(transition, gateway)
    if decision.champion_moved:
        return _find_rollback(ledger, ledger.chain, to) or decision
    if rollback is None:
        return decision
    rollback_reason = escape_invisible(rollback.content.reason)
    note = f"Entry {rollback.number} had rolled back from it ({rollback_reason})."
    return replace(decision, sentence=f"{decision.sentence} {note}")


def _find_rollback(ledger: Ledger, chain: Chain, to: str | None) -> Decision | None:
    """Return the decision if the requested version is champion already; else None."""
    champion, last = find_champion(ledger, chain), chain.last_move
    if champion is None or last is None or champion.version != last.content.version:
        return None
    if to is None and last.content.action != "rollback":
        return None
    if to not in {None, champion.version}:
        return None
    sentence = f"{champion.uri} is {CHAMPION} already by entry {last.number} of {ledger.name}"
    if last.content.action == "rollback":
        sentence += f", which rolled back from version {last.content.replaces}"
    sentence = f"{sentence} ({escape_invisible(last.content.reason)})."
    if to is None:
        sentence += " To go back further, name a version: --to VERSION."
    return make_decision("pass", sentence)


def settle_ledger(model: str, gateway: Gateway) -> Ledger:
    """Check a model's ledger, settle the entries of ended promoters, and return the ledger."""
    require_model(model, gateway)
    ledger = Ledger(gateway, model)
    require_sound(ledger)
    settle_stale_entries(ledger)
    return ledger


def read_history(model: str, gateway: Gateway) -> list[ListedEntry]:
    """Return all entries of a model's ledger with their signers, latest first."""
    require_model(model, gateway)
    entries, trusted = Ledger(gateway, model).read_entries(), TrustedKeys.load()
    links = {
        entry.number: accepted_by
        for entry, _, accepted_by in Chain.from_entries(entries).check_signatures(trusted)
    }
    return [
        entry.to_listed(
            entry.check_signatures(trusted).description
            + (", accepted by a reset" if links.get(entry.number) == "a reset" else "")
        )
        for entry in reversed(entries)
    ]


def read_tagged_verdicts(version: ModelVersion, gateway: Gateway) -> list[LoggedVerdict]:
    """Return the verdicts that a version's tags name; raise an error if a verdict was changed."""
    version = complete_tags(version, gateway)
    verdicts: list[LoggedVerdict] = []
    for name in version.tags["biasgate.required_sets"].split(","):
        verdict = read_logged_verdict(version.tags[f"biasgate.{name}.run_id"], gateway)
        if compute_verdict_digest(verdict) != version.tags[f"biasgate.{name}.verdict_digest"]:
            raise InputError(_describe_change(f"the verdict on {name}", version))
        verdicts.append(verdict)
    return verdicts


def read_verdict_policy(verdict: LoggedVerdict, version: ModelVersion, gateway: Gateway) -> Policy:
    """Return the policy of a verdict; raise an error if it was changed."""
    policy = read_run_policy(verdict.run_id, gateway)
    if policy.digest != verdict.policy.digest:
        raise InputError(_describe_change(f"the policy on {verdict.evaluation_set.name}", version))
    return policy


def _describe_change(subject: str, version: ModelVersion) -> str:
    return f"{subject} must not change while {version.uri} is verified and promoted; it did."


def reset_ledger(
    model: str,
    version: str | None,
    reason: str,
    gateway: Gateway,
    agree: Callable[[Sequence[str], str], None] = lambda *_: None,
) -> Decision:
    """Record a version as champion, or that the model has no champion, and accept the ledger.

    A reset accepts the current ledger, even if entries were removed or are not signed. This is a
    person's decision. Only the version's own verdicts are verified, and their signatures may fail.

    `version`: the champion from now on; None to have no champion. `agree`: a function that gets the
    accepted problems, such as unsigned entries, and a digest of all entries and of the verdicts
    behind the reset. It raises an error if the person does not agree. Default: agree.
    """
    require_model(model, gateway)
    ledger = Ledger(gateway, model)
    require_signing_key(ledger)
    settle_stale_entries(ledger)
    chain = ledger.chain
    problems = find_problems(ledger, chain)
    verdicts: list[VerdictReference] = []
    if version is not None:
        target = gateway.resolve(f"models:/{model}/{version}")
        ignored = {"signature", "ledger"}
        findings = verify_version(target, gateway)
        require_verified(target, [finding for finding in findings if finding.what not in ignored])
        problems += [finding.sentence for finding in findings if not finding.holds]
        verdicts = [reference_verdict(verdict) for verdict in read_tagged_verdicts(target, gateway)]
    agree(problems, json_digest([chain.combined_digest, verdicts]))
    alias = gateway.get_alias(model, CHAMPION)
    move = Move(
        action="reset",
        replaces=alias.version if alias else "",
        version=version or "",
        rule="by hand",
        reason=reason,
        verdicts=verdicts,
        accepted=chain.combined_digest,
    )
    with queue_move(ledger, move) as (entry, entries):
        ledger.require_queued(entry, entries)
        if Chain.from_entries(entries).combined_digest != chain.combined_digest:
            msg = (
                f"the ledger {ledger.name} must stay as it was shown; it has changed since. Look "
                f"at `{gateway.format_command('history', model)}`, and run the reset again."
            )
            raise InputError(msg)
        claimed = ledger.claim(entry, chain)
        if version is not None:
            gateway.set_alias(model, CHAMPION, version)
        elif alias is not None:
            gateway.delete_alias(model, CHAMPION)
        done = ledger.close(claimed, "done", f"{CHAMPION} is {version or 'no version'}")
    remember_head(ledger, Chain([*chain.links, done]))
    outcome = (
        f"models:/{model}/{version} is {CHAMPION}" if version else f"{model} has no {CHAMPION}"
    )
    return make_decision("pass", f"{outcome} by entry {entry.number} of {ledger.name} ({reason}).")
