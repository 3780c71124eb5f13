"""The `champion` alias: it moves in a transaction, one promoter at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from bias_metrics.gate import Outcome
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.entry import Entry, Move, Pinned, RestsOn, Source
from biasgate.tasks.ledger.ledger import CHAMPION, PREVIOUS, Ledger, champion_of_model
from biasgate.tasks.ledger.sound import remember, require_sound
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import Decision, LoggedVerdict, PolicyRecord
from biasgate.tasks.signing.keys import SHORT
from biasgate.tasks.signing.statement import verdict_digest
from biasgate.tasks.verifying.version import objection_to, verify_source


@dataclass(frozen=True)
class Transition:
    """A requested move of the alias."""

    action: Literal["promotion", "rollback"]
    version: ModelVersion
    replaces: str | None
    """The version that must be champion now; None if there must be none."""
    verdicts: Sequence[LoggedVerdict]
    """The verdicts that it is based on; each names the ledger's last entry then, and the policy."""
    reason: str
    rule: str = "by hand"
    """The rule that decided: `newer`, `better`, `first`, or `by hand`."""
    passed_over: Sequence[str] = ()
    """Versions that also passed, and are not promoted automatically from now on."""
    by: str | None = None
    """The person who decided."""
    source: Source | None = None
    """What the version was copied from, if the verdicts are about that."""

    def content(self) -> Move:
        """Return the move as the ledger stores it."""
        return Move(
            action=self.action,
            replaces=self.replaces or "",
            version=self.version.version,
            rule=self.rule,
            reason=self.reason,
            by=self.by,
            passed_over=list(self.passed_over),
            verdicts=[rests_on(verdict) for verdict in self.verdicts],
            source=self.source,
        )


def move_champion(transition: Transition, gateway: Gateway) -> Decision:
    """Move the alias as a transaction: queue, claim, move, read back, close.

    A process that dies meanwhile leaves an unsettled entry in the ledger, which the next promoter
    closes (`heal`); the alias points to the old or the new version, never to anything else.
    """
    ledger = Ledger(gateway, transition.version.name)
    with queue_move(ledger, transition.content()) as (entry, entries):
        require_sound(ledger, chain := Chain.of(entries))
        champion = champion_of_model(ledger, chain)
        if (champion.version if champion else None) != transition.replaces:
            ledger.close(entry, "abandoned", f"{CHAMPION} had moved meanwhile")
            return moved_meanwhile(transition.version)
        objection = _objection_since(transition, chain, gateway)
        if objection is not None:
            ledger.close(entry, "abandoned", objection)
            sentence = f"Not promoted: {objection}. Evaluate it again."
            return decision("insufficient", sentence, champion_moved=True)
        ledger.refuse_closed(entry, entries)
        claimed = ledger.claim(entry, chain)
        gateway.set_alias(ledger.model, CHAMPION, transition.version.version)
        alias = gateway.alias(ledger.model, CHAMPION)
        if alias is None or alias.version != transition.version.version:
            msg = (
                f"{CHAMPION} of {ledger.model} must be version {transition.version.version} now; "
                "it is not."
            )
            raise RuntimeError(msg)
        done = _complete(ledger, claimed)
        remember(ledger, Chain([*chain.links, done]))
    sentence = moved(transition.version, transition.replaces, transition.reason)
    return decision("pass", sentence, promoted=True, rule=transition.rule)


def _objection_since(transition: Transition, chain: Chain, gateway: Gateway) -> str | None:
    """Return why the entries that came after the verdicts do not allow a move, or None."""
    version, source, verdicts = transition.version, transition.source, transition.verdicts
    blocked = chain.blocked(version.version)
    if source is None:
        since = chain.verdicts_since(version.version, verdicts)
    else:  # whose verdicts name entries of another ledger
        since = 0
        for finding in verify_source(source, verdicts, gateway, is_new=True):
            if not finding.holds:
                return finding.sentence.removesuffix(".")
    if blocked > since:
        return f"{version.uri} did not pass by entry {blocked} of the ledger, after its verdicts"
    if transition.action == "rollback":
        return None
    policies = [verdict.policy for verdict in verdicts]
    return objection_to_policies(policies, chain.policy, version.name)


def objection_to_policies(
    policies: Iterable[Policy | PolicyRecord], pinned: Pinned | None, model: str
) -> str | None:
    """Return why one of these policies may not move a model's `champion`, or None."""
    for policy in policies:
        if pinned is not None and policy.digest != pinned.digest:
            return (
                f"policy {pinned.name} (digest {pinned.digest[:SHORT]}) is registered for {model}, "
                f"and this is {policy.name} (digest {policy.digest[:SHORT]})"
            )
    return None


def record(ledger: Ledger, move: Move, note: str) -> Entry:
    """Add an entry that moves no alias.

    Refused if the ledger was changed, also while the entry waited for its turn.
    """
    with queue_move(ledger, move) as (entry, entries):
        require_sound(ledger, chain := Chain.of(entries))
        ledger.refuse_closed(entry, entries)
        done = ledger.close(ledger.claim(entry, chain), "done", note)
        remember(ledger, Chain([*chain.links, done]))
    return done


@contextmanager
def queue_move(ledger: Ledger, move: Move) -> Iterator[tuple[Entry, list[Entry]]]:
    """Queue an entry, and yield it with all entries when its turn comes; settle it after an error.

    If the registry does not answer then, the next run settles it.
    """
    run_id = move.verdicts[0].run_id if move.verdicts else None
    with ledger.open(move, run_id) as entry:
        try:
            take_turn(ledger, entry)
            yield entry, ledger.entries()
        except BaseException as error:
            try:
                for one in ledger.entries():
                    if one.number == entry.number and one.is_unsettled:
                        _settle(ledger, one)
            except Exception as second:  # noqa: BLE001 - the first error is the one to report
                error.add_note(
                    f"Entry {entry.number} of {ledger.name} stays open for the next run: {second}"
                )
            raise


def heal(ledger: Ledger) -> list[Entry]:
    """Close the entries whose owners have ended, depending on the alias; return them.

    If the alias has already moved, the promotion is completed, provided that the entry has its
    place in the chain, that it is signed if a key is trusted here, and that its verdicts hold.
    """
    stale = [one for one in ledger.entries() if one.is_unsettled and one.is_stale]
    for entry in stale:
        _settle(ledger, entry)
    return stale


def take_turn(ledger: Ledger, entry: Entry) -> None:
    """Wait until every earlier entry is closed, healing those whose owners have ended.

    Others may write to the ledger meanwhile: read and check it again before an entry is claimed.
    """
    while True:
        before = [one for one in ledger.entries() if one.is_unsettled and one.number < entry.number]
        if not before:
            return
        if any(one.content.owner == entry.content.owner for one in before):
            ledger.abandon_lost(entry.content.owner, entry.number)
        heal(ledger)
        ledger.wait_for([one for one in before if one.content.owner != entry.content.owner])


def _settle(ledger: Ledger, entry: Entry) -> None:
    champion = ledger.gateway.alias(ledger.model, CHAMPION)
    moved_to = champion.version if champion else None
    if moved_to != entry.content.version or entry.state == "queued":
        ledger.close(entry, "abandoned", f"its owner ended before {CHAMPION} moved")
        return
    wrong = objection_to(entry, ledger)
    if wrong is None:
        _complete(ledger, entry)
    else:
        ledger.close(entry, "abandoned", f"not completed: {wrong}")


def _complete(ledger: Ledger, entry: Entry) -> Entry:
    """Record the previous champion and close the entry; safe to repeat."""
    if entry.content.replaces:
        ledger.gateway.set_alias(ledger.model, PREVIOUS, entry.content.replaces)
    return ledger.close(entry, "done", f"{CHAMPION} is version {entry.content.version}")


def rests_on(verdict: LoggedVerdict) -> RestsOn:
    """Return how the ledger names a verdict."""
    return RestsOn(
        set=verdict.evaluation_set.name,
        run_id=verdict.run_id,
        digest=verdict_digest(verdict),
        sample=verdict.evaluation_set.sample,
    )


def moved(version: ModelVersion, before: str | None, reason: str) -> str:
    """Return a sentence that says that the alias has moved, and why."""
    replaced = f"It replaced version {before}" if before else "There was none before"
    return f"{version.uri} is {CHAMPION} now. {replaced} ({reason})."


def no_first(model: str) -> str:
    """Return why a version does not become the first champion."""
    return (
        f"{model} lacks a {CHAMPION} to compare with, and the policy does not have "
        "`allow_first: true`."
    )


def moved_meanwhile(version: ModelVersion) -> Decision:
    """Return the decision on a version that was compared with a former champion."""
    sentence = f"{CHAMPION} of {version.name} moved while {version.uri} was judged."
    return decision("insufficient", sentence, champion_moved=True)


def decision(
    outcome: Outcome,
    sentence: str,
    *,
    promoted: bool = False,
    champion_moved: bool = False,
    rule: str | None = None,
    report_only: bool = False,
) -> Decision:
    """Return a decision as in `decisions.promote`, without the candidate's name."""
    return Decision(
        outcome=outcome,
        promoted=promoted,
        champion_moved=champion_moved,
        rule=rule,
        report_only=report_only,
        sentence=sentence,
    )
