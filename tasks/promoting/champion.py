"""The alias `champion`, which a single promoter at a time moves in a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from bias_metrics.gate import Outcome
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.entry import CopySource, Entry, Move, PolicyReference, VerdictReference
from biasgate.tasks.ledger.ledger import CHAMPION, PREVIOUS, Ledger, find_champion
from biasgate.tasks.ledger.sound import remember_head, require_sound
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import Decision, LoggedVerdict, PolicyRecord
from biasgate.tasks.signing.keys import SHORT_ID_LENGTH
from biasgate.tasks.signing.statement import compute_verdict_digest
from biasgate.tasks.verifying.version import find_entry_objection, verify_source


@dataclass(frozen=True)
class Transition:
    """A requested move of the alias."""

    action: Literal["promotion", "rollback"]
    version: ModelVersion
    replaces: str | None
    """The version that must be champion now; None if the model must not have a champion."""
    verdicts: Sequence[LoggedVerdict]
    """The verdicts behind the move, with their policies and the last entries before them."""
    reason: str
    rule: str = "by hand"
    """The rule that decided: `newer`, `better`, `first`, or `by hand`."""
    passed_over: Sequence[str] = ()
    """Versions that also passed, and are not promoted automatically from now on."""
    by: str | None = None
    """The name of the deciding person."""
    source: CopySource | None = None
    """The source of a copy, if the verdicts are about the source."""

    def to_move(self) -> Move:
        """Return the move as the ledger stores it."""
        return Move(
            action=self.action,
            replaces=self.replaces or "",
            version=self.version.version,
            rule=self.rule,
            reason=self.reason,
            by=self.by,
            passed_over=list(self.passed_over),
            verdicts=[reference_verdict(verdict) for verdict in self.verdicts],
            source=self.source,
        )


def move_champion(transition: Transition, gateway: Gateway) -> Decision:
    """Move the alias in a transaction: queue, claim, move, read back, close.

    If the process dies meanwhile, the alias names the old or the new version. The ledger then has
    an unsettled entry, which the next promoter closes (`settle_stale_entries`).
    """
    ledger = Ledger(gateway, transition.version.name)
    with queue_move(ledger, transition.to_move()) as (entry, entries):
        require_sound(ledger, chain := Chain.from_entries(entries))
        champion = find_champion(ledger, chain)
        if (champion.version if champion else None) != transition.replaces:
            ledger.close(entry, "abandoned", f"{CHAMPION} had moved meanwhile")
            return make_moved_decision(transition.version)
        objection = _find_later_objection(transition, chain, gateway)
        if objection is not None:
            ledger.close(entry, "abandoned", objection)
            sentence = f"Not promoted: {objection}. Evaluate it again."
            return make_decision("insufficient", sentence, champion_moved=True)
        ledger.require_queued(entry, entries)
        claimed = ledger.claim(entry, chain)
        gateway.set_alias(ledger.model, CHAMPION, transition.version.version)
        alias = gateway.get_alias(ledger.model, CHAMPION)
        if alias is None or alias.version != transition.version.version:
            msg = (
                f"{CHAMPION} of {ledger.model} must be version {transition.version.version} now; "
                "it is not."
            )
            raise RuntimeError(msg)
        done = _complete_entry(ledger, claimed)
        remember_head(ledger, Chain([*chain.links, done]))
    sentence = describe_move(transition.version, transition.replaces, transition.reason)
    return make_decision("pass", sentence, promoted=True, rule=transition.rule)


def _find_later_objection(transition: Transition, chain: Chain, gateway: Gateway) -> str | None:
    """Return why entries after the verdicts forbid a move; None if they allow it."""
    version, source, verdicts = transition.version, transition.source, transition.verdicts
    blocked = chain.find_last_block(version.version)
    if source is None:
        since = chain.find_oldest_head(version.version, verdicts)
    else:  # the verdicts name entries of the source's ledger
        since = 0
        for finding in verify_source(source, verdicts, gateway, is_new=True):
            if not finding.holds:
                return finding.sentence.removesuffix(".")
    if blocked > since:
        return f"{version.uri} did not pass by entry {blocked} of the ledger, after its verdicts"
    if transition.action == "rollback":
        return None
    policies = [verdict.policy for verdict in verdicts]
    return find_policy_objection(policies, chain.policy, version.name)


def find_policy_objection(
    policies: Iterable[Policy | PolicyRecord], pinned: PolicyReference | None, model: str
) -> str | None:
    """Return why a policy may not move a model's `champion`; None if all policies may."""
    for policy in policies:
        if pinned is not None and policy.digest != pinned.digest:
            return (
                f"policy {pinned.name} (digest {pinned.digest[:SHORT_ID_LENGTH]}) is registered "
                f"for {model}, and this is {policy.name} "
                f"(digest {policy.digest[:SHORT_ID_LENGTH]})"
            )
    return None


def record_move(ledger: Ledger, move: Move, note: str) -> Entry:
    """Add an entry that does not move the alias.

    Raises an error if the ledger was changed, even while the entry waited for its turn.
    """
    with queue_move(ledger, move) as (entry, entries):
        require_sound(ledger, chain := Chain.from_entries(entries))
        ledger.require_queued(entry, entries)
        done = ledger.close(ledger.claim(entry, chain), "done", note)
        remember_head(ledger, Chain([*chain.links, done]))
    return done


@contextmanager
def queue_move(ledger: Ledger, move: Move) -> Iterator[tuple[Entry, list[Entry]]]:
    """Queue an entry, and yield it with all entries when its turn comes.

    After an error in the body the entry is settled. If the registry does not respond then, the next
    run settles it.
    """
    run_id = move.verdicts[0].run_id if move.verdicts else None
    with ledger.open(move, run_id) as entry:
        try:
            take_turn(ledger, entry)
            yield entry, ledger.read_entries()
        except BaseException as error:
            try:
                for queued in ledger.read_entries():
                    if queued.number == entry.number and queued.is_unsettled:
                        _settle_entry(ledger, queued)
            except Exception as second:  # noqa: BLE001 - the first error is the one to report
                error.add_note(
                    f"Entry {entry.number} of {ledger.name} stays open for the next run: {second}"
                )
            raise


def settle_stale_entries(ledger: Ledger) -> list[Entry]:
    """Close the entries of ended promoters, and return the entries.

    If the alias has already moved, the promotion is completed. Its entry must have its place in the
    chain, and its verdicts must verify. If this machine trusts keys, a trusted key must have signed
    the entry. Otherwise the entry is abandoned.
    """
    stale = {
        entry.number for entry in ledger.read_entries() if entry.is_unsettled and entry.is_stale
    }
    if not stale:
        return []
    # An owner may have closed its entry between the first reading and its end.
    entries = [e for e in ledger.read_entries() if e.number in stale and e.is_unsettled]
    for entry in entries:
        _settle_entry(ledger, entry)
    return entries


def take_turn(ledger: Ledger, entry: Entry) -> None:
    """Wait until all earlier entries are closed; settle the entries of ended promoters.

    Other processes may change the ledger meanwhile. Read and check it again before claiming an
    entry.
    """
    while True:
        earlier = [
            other
            for other in ledger.read_entries()
            if other.is_unsettled and other.number < entry.number
        ]
        if not earlier:
            return
        if any(other.content.owner == entry.content.owner for other in earlier):
            ledger.abandon_duplicates(entry.content.owner, entry.number)
        settle_stale_entries(ledger)
        ledger.await_entries(
            [other for other in earlier if other.content.owner != entry.content.owner]
        )


def _settle_entry(ledger: Ledger, entry: Entry) -> None:
    champion = ledger.gateway.get_alias(ledger.model, CHAMPION)
    current = champion.version if champion else None
    if current != entry.content.version or entry.state == "queued":
        ledger.close(entry, "abandoned", f"its owner ended before {CHAMPION} moved")
        return
    objection = find_entry_objection(entry, ledger)
    if objection is None:
        _complete_entry(ledger, entry)
    else:
        ledger.close(entry, "abandoned", f"not completed: {objection}")


def _complete_entry(ledger: Ledger, entry: Entry) -> Entry:
    """Set the alias of the previous champion and close the entry. A retry is safe."""
    if entry.content.replaces:
        ledger.gateway.set_alias(ledger.model, PREVIOUS, entry.content.replaces)
    return ledger.close(entry, "done", f"{CHAMPION} is version {entry.content.version}")


def reference_verdict(verdict: LoggedVerdict) -> VerdictReference:
    """Return the ledger's reference to a verdict."""
    return VerdictReference(
        set=verdict.evaluation_set.name,
        run_id=verdict.run_id,
        digest=compute_verdict_digest(verdict),
        sample=verdict.evaluation_set.sample,
    )


def describe_move(version: ModelVersion, before: str | None, reason: str) -> str:
    """Return a message about a move of the alias and its reason."""
    replaced = f"It replaced version {before}" if before else "There was none before"
    return f"{version.uri} is {CHAMPION} now. {replaced} ({reason})."


def explain_no_first(model: str) -> str:
    """Return why a version may not become the first champion."""
    return (
        f"{model} lacks a {CHAMPION} to compare with, and the policy does not have "
        "`allow_first: true`."
    )


def make_moved_decision(version: ModelVersion) -> Decision:
    """Return the decision on a version that was compared with a former champion."""
    sentence = f"{CHAMPION} of {version.name} moved while {version.uri} was judged."
    return make_decision("insufficient", sentence, champion_moved=True)


def make_decision(
    outcome: Outcome,
    sentence: str,
    *,
    promoted: bool = False,
    champion_moved: bool = False,
    rule: str | None = None,
    report_only: bool = False,
) -> Decision:
    """Return a decision without the candidate's name; defaults are for an unmoved alias."""
    return Decision(
        outcome=outcome,
        promoted=promoted,
        champion_moved=champion_moved,
        rule=rule,
        report_only=report_only,
        sentence=sentence,
    )
