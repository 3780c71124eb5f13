"""Manual work with the registry: promote, roll back, reset, show the history."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.printable import printable
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.entry import ListedEntry, Move, RestsOn
from biasgate.tasks.ledger.ledger import (
    CHALLENGER,
    CHAMPION,
    PREVIOUS,
    Ledger,
    champion_of_model,
    require_known,
)
from biasgate.tasks.ledger.sound import remember, require_key, require_sound, wrong_with
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion, model_of
from biasgate.tasks.promoting.champion import (
    Transition,
    decision,
    heal,
    move_champion,
    no_first,
    objection_to_policies,
    queue_move,
    record,
    rests_on,
)
from biasgate.tasks.promoting.succession import SAME_SCORES, Judged, smaller_sample
from biasgate.tasks.promoting.verify import require_held
from biasgate.tasks.records import Decision, LoggedVerdict, champion_of
from biasgate.tasks.signing.keys import TrustedKeys
from biasgate.tasks.signing.statement import verdict_digest
from biasgate.tasks.verifying.documents import logged_verdict, read_policy_of, with_whole_tags
from biasgate.tasks.verifying.version import verify_version


def promote_version(
    model: str, version: str, reason: str | None, gateway: Gateway, by: str | None = None
) -> Decision:
    """Make a version champion, based on its existing verdicts.

    `reason` and `by`, the person who decides, are kept in the history; a policy with
    `promote: manual` requires both.
    """
    ledger = settled_ledger(model, gateway)
    found = gateway.resolve(f"models:/{model}/{version}")
    require_held(found, verify_version(found, gateway))
    judged = Judged(found.uri, recorded(found, gateway), found)
    chain = ledger.chain
    champion = champion_of_model(ledger, chain)
    if champion is not None and champion.version == found.version:
        alias = gateway.alias(model, CHAMPION)
        if alias is None or alias.version != found.version:
            gateway.set_alias(model, CHAMPION, found.version)
        return decision("pass", f"{found.uri} is champion.")
    compared = set(map(champion_of, judged.verdicts))
    if compared != {champion.uri if champion else None}:
        rivals = ", ".join(sorted(one or "no champion" for one in compared))
        now = f"{CHAMPION} is now {champion.uri}" if champion else f"there is no {CHAMPION} now"
        msg = f"{found.uri} was compared with {rivals}, but {now}: evaluate it again."
        if any(model_of(one) not in {None, model} for one in compared):
            msg += " A copy of another model's version is promoted with `--from`."
        raise InputError(msg)
    policies = [policy_of(one, found, gateway) for one in judged.verdicts]
    if champion is None and not all(policy.allow_first for policy in policies):
        return decision("insufficient", no_first(model))
    require_allowed(judged, champion, chain, policies, model, given=bool(by and reason))
    replaces = champion.version if champion else None
    if judged.is_champions_copy:
        msg = f"{found.uri} must be another model than the champion: {SAME_SCORES}."
        raise InputError(msg)
    because = judged.because(reason or "by hand")
    transition = Transition("promotion", found, replaces, judged.verdicts, because, by=by)
    decided = judged.named(move_champion(transition, gateway))
    if decided.promoted:
        withdraw_challenger(model, version, gateway)
    return decided


def require_allowed(
    judged: Judged,
    champion: ModelVersion | None,
    chain: Chain,
    policies: Sequence[Policy],
    model: str,
    *,
    given: bool,
) -> None:
    """Raise an error if a model's ledger or the policy does not allow a promotion by hand.

    `given`: whether a person is named, with a reason.
    """
    name = judged.candidate
    objection = objection_to_policies(policies, chain.policy, model)
    if objection is not None:
        msg = (
            f"{name} must have a verdict that may move {CHAMPION}: {objection}; evaluate it with "
            "the registered policy."
        )
        raise InputError(msg)
    basis = [] if champion is None else chain.basis(champion.version)
    if champion is not None and (smaller := smaller_sample(judged.samples, basis)):
        msg = f"{name} must be judged on as many comments as the champion: {smaller}."
        raise InputError(msg)
    if any(policy.promote == "manual" for policy in policies) and not given:
        msg = "`--by` and `--reason` must be given, since the policy has `promote: manual`."
        raise InputError(msg)


def reject_version(model: str, version: str, reason: str, by: str, gateway: Gateway) -> Decision:
    """Record that a person rejected a version: it is not proposed or promoted automatically.

    Its verdicts do not count from then on. To promote it all the same, evaluate it again and
    promote it by hand.
    """
    ledger = settled_ledger(model, gateway)
    found = gateway.resolve(f"models:/{model}/{version}")
    champion = champion_of_model(ledger, ledger.chain)
    if champion is not None and champion.version == found.version:
        msg = (
            f"{found.uri} is {CHAMPION}, so it cannot be rejected. Go back with "
            f"`{gateway.command('rollback', model, '--reason', 'TEXT')}`."
        )
        raise InputError(msg)
    move = Move(
        action="blocked",
        reason=reason,
        by=by,
        verdicts=[rests_on(verdict) for verdict in recorded(found, gateway)],
        blocked=[found.version],
    )
    entry = record(ledger, move, f"rejected by {by}")
    withdraw_challenger(model, version, gateway)
    sentence = f"{found.uri} is rejected by {by} ({reason}): entry {entry.number} of {ledger.name}."
    return decision("pass", sentence)


def withdraw_challenger(model: str, version: str, gateway: Gateway) -> None:
    """Remove the alias `challenger` from a version that a person decided about."""
    alias = gateway.alias(model, CHALLENGER)
    if alias is not None and alias.version == version:
        gateway.delete_alias(model, CHALLENGER)


def roll_back(model: str, reason: str, gateway: Gateway, to: str | None = None) -> Decision:
    """Make the version that the last promotion replaced champion again, or the version `to`.

    Its verdicts must hold, except that they may compare it with an earlier champion. Safe to
    repeat: what was rolled back already stays so, also if another process did it.
    """
    ledger = settled_ledger(model, gateway)
    # Read once: what another process rolls back in between must not look like a request to redo.
    chain = ledger.chain
    done = _rolled_back(ledger, chain, to)
    if done is not None:
        return done
    champion, version = champion_of_model(ledger, chain), to
    if version is None:
        alias = gateway.alias(model, PREVIOUS)
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
    left = chain.rolled_away.get(version)
    if left is not None and to is None:
        msg = (
            f"`--to {version}` must be given to restore version {version} of {model}: entry "
            f"{left.number} rolled back from it ({printable(left.content.reason)})."
        )
        raise InputError(msg)
    found = gateway.resolve(f"models:/{model}/{version}")
    require_held(found, verify_version(found, gateway))
    verdicts = recorded(found, gateway)
    transition = Transition("rollback", found, champion.version, verdicts, reason)
    moved = move_champion(transition, gateway)
    if moved.champion_moved:
        return _rolled_back(ledger, ledger.chain, to) or moved
    if left is None:
        return moved
    why = f"Entry {left.number} had rolled back from it ({printable(left.content.reason)})."
    return replace(moved, sentence=f"{moved.sentence} {why}")


def _rolled_back(ledger: Ledger, chain: Chain, to: str | None) -> Decision | None:
    """Return the decision if a rollback is done, or `to` is champion already; else None."""
    champion, last = champion_of_model(ledger, chain), chain.last_move
    if champion is None or last is None or champion.version != last.content.version:
        return None
    if to is None and last.content.action != "rollback":
        return None
    if to not in {None, champion.version}:
        return None
    sentence = f"{champion.uri} is {CHAMPION} already by entry {last.number} of {ledger.name}"
    if last.content.action == "rollback":
        sentence += f", which rolled back from version {last.content.replaces}"
    sentence = f"{sentence} ({printable(last.content.reason)})."
    if to is None:
        sentence += " To go back further, name a version: --to VERSION."
    return decision("pass", sentence)


def settled_ledger(model: str, gateway: Gateway) -> Ledger:
    """Return the ledger of a model, unchanged and without open entries of others."""
    require_known(model, gateway)
    ledger = Ledger(gateway, model)
    require_sound(ledger)
    heal(ledger)
    return ledger


def history(model: str, gateway: Gateway) -> list[ListedEntry]:
    """Return every entry of a model's ledger, latest first, with its signer."""
    require_known(model, gateway)
    entries, trusted = Ledger(gateway, model).entries(), TrustedKeys.here()
    standings = Chain.of(entries).standings(trusted)
    words = {
        one.number: f"{signed.words}{', accepted by a reset' if by == 'a reset' else ''}"
        for one, signed, by in standings
    }
    return [
        entry.listed(words.get(entry.number, entry.signed(trusted).words))
        for entry in reversed(entries)
    ]


def recorded(version: ModelVersion, gateway: Gateway) -> list[LoggedVerdict]:
    """Return the verdicts that a version's tags name."""
    version = with_whole_tags(version, gateway)
    verdicts: list[LoggedVerdict] = []
    for name in version.tags["biasgate.required_sets"].split(","):
        verdict = logged_verdict(version.tags[f"biasgate.{name}.run_id"], gateway)
        if verdict_digest(verdict) != version.tags[f"biasgate.{name}.verdict_digest"]:
            raise InputError(_changed(f"the verdict on {name}", version))
        verdicts.append(verdict)
    return verdicts


def policy_of(verdict: LoggedVerdict, version: ModelVersion, gateway: Gateway) -> Policy:
    """Return the policy of a verdict."""
    policy = read_policy_of(verdict.run_id, gateway)
    if policy.digest != verdict.policy.digest:
        raise InputError(_changed(f"the policy on {verdict.evaluation_set.name}", version))
    return policy


def _changed(what: str, version: ModelVersion) -> str:
    return f"{what} must not change while {version.uri} is verified and promoted; it did."


def reset(
    model: str,
    version: str | None,
    reason: str,
    gateway: Gateway,
    agree: Callable[[Sequence[str], str], None] = lambda *_: None,
) -> Decision:
    """Let the ledger say, from now on, that a version is champion, or that none is.

    The ledger is accepted as it is, even if entries were removed or are not signed. A person
    decides this: only the version's own verdicts are verified, whatever key signed them.

    `version`: the champion from now on; None for none. `agree`: is shown what the reset accepts,
    such as unsigned entries, and a digest of all entries and of the verdicts behind it; raises an
    error if the person does not agree. Default: agree.
    """
    require_known(model, gateway)
    ledger = Ledger(gateway, model)
    require_key(ledger)
    heal(ledger)
    chain = ledger.chain
    wrong = wrong_with(ledger, chain)
    verdicts: list[RestsOn] = []
    if version is not None:
        found = gateway.resolve(f"models:/{model}/{version}")
        ours = {"signature", "ledger"}
        findings = verify_version(found, gateway)
        require_held(found, [finding for finding in findings if finding.what not in ours])
        wrong += [finding.sentence for finding in findings if not finding.holds]
        verdicts = [rests_on(verdict) for verdict in recorded(found, gateway)]
    agree(wrong, json_digest([chain.all_digests, verdicts]))
    alias = gateway.alias(model, CHAMPION)
    move = Move(
        action="reset",
        replaces=alias.version if alias else "",
        version=version or "",
        rule="by hand",
        reason=reason,
        verdicts=verdicts,
        accepted=chain.all_digests,
    )
    with queue_move(ledger, move) as (entry, entries):
        ledger.refuse_closed(entry, entries)
        if Chain.of(entries).all_digests != chain.all_digests:
            msg = (
                f"the ledger {ledger.name} must stay as it was shown; it has changed since. Look "
                f"at `{gateway.command('history', model)}`, and run the reset again."
            )
            raise InputError(msg)
        claimed = ledger.claim(entry, chain)
        if version is not None:
            gateway.set_alias(model, CHAMPION, version)
        elif alias is not None:
            gateway.delete_alias(model, CHAMPION)
        done = ledger.close(claimed, "done", f"{CHAMPION} is {version or 'no version'}")
    remember(ledger, Chain([*chain.links, done]))
    now = f"models:/{model}/{version} is {CHAMPION}" if version else f"{model} has no {CHAMPION}"
    return decision("pass", f"{now} by entry {entry.number} of {ledger.name} ({reason}).")
