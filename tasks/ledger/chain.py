"""The chain of a ledger's entries, which name their predecessors.

Only completed entries are links: an abandoned entry did not change the alias.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.ledger.entry import (
    MOVE_ACTIONS,
    CopySource,
    Entry,
    PolicyReference,
    VerdictReference,
)
from biasgate.tasks.records import Head, Verdict
from biasgate.tasks.signing.envelope import SignatureCheck
from biasgate.tasks.signing.keys import TrustedKeys
from biasgate.tasks.signing.statement import compute_verdict_digest

AcceptedBy = Literal["no keys", "its signature", "a later entry", "a reset", ""]
"""The reason why an entry is accepted; empty if it is not."""


class VouchedVerdicts(NamedTuple):
    """Digests of the verdicts that a ledger vouches for."""

    by_entry: frozenset[str] = frozenset()
    """Verdicts behind accepted entries: they count even if their key was revoked later."""
    by_reset: frozenset[str] = frozenset()
    """Verdicts that a person accepted by a reset: they count even without a signature."""


@dataclass(frozen=True)
class Chain:
    """The completed entries of a ledger, oldest first."""

    links: Sequence[Entry]

    @classmethod
    def from_entries(cls, entries: Sequence[Entry]) -> Chain:
        """Create a chain from the entries that are done."""
        return cls([entry for entry in entries if entry.state == "done"])

    def get_prefix(self, number: int) -> Chain:
        """Return the links before the entry with a number."""
        return Chain([link for link in self.links if link.number < number])

    @cached_property
    def digests(self) -> dict[int, str]:
        """The digests of the links by number."""
        return {link.number: link.digest for link in self.links}

    @property
    def head(self) -> Head | None:
        """Number and digest of the last link."""
        if not self.links:
            return None
        number = self.links[-1].number
        return Head(number=number, digest=self.digests[number])

    def has_head(self, head: Head) -> bool:
        """Return whether a link still exists unchanged; links before a reset need not exist."""
        resets = [link.number for link in self.links if link.content.action == "reset"]
        digest = self.digests.get(head.number)
        return digest == head.digest or head.number < max(resets, default=0)

    @property
    def moves(self) -> list[Entry]:
        """The links that set or removed `champion`."""
        return [link for link in self.links if link.content.action in MOVE_ACTIONS]

    @property
    def last_move(self) -> Entry | None:
        """The last link that set or removed `champion`."""
        return self.moves[-1] if self.moves else None

    def find_basis(self, version: str) -> list[VerdictReference]:
        """Return the verdicts behind a version's last promotion; empty without a promotion."""
        moves = [link.content for link in self.moves if link.content.version == version]
        return moves[-1].verdicts if moves else []

    def find_source(self, version: str, digest: str) -> tuple[CopySource, int] | None:
        """Return the source of a copy, and the number of the entry that promoted the copy.

        None unless an entry promoted `version` as a copy by the verdict with this digest.
        """
        for link in reversed(self.moves):
            content = link.content
            digests = {verdict.digest for verdict in content.verdicts}
            if content.source is not None and content.version == version and digest in digests:
                return content.source, link.number
        return None

    def find_oldest_head(self, version: str, verdicts: Iterable[Verdict]) -> int:
        """Return the number of the last entry before the oldest of a version's verdicts.

        For a verdict about the source of a copy, it is the number of the copy's promotion.
        """
        numbers = []
        for verdict in verdicts:
            source = self.find_source(version, compute_verdict_digest(verdict))
            head = verdict.ledger.number if verdict.ledger else 0
            numbers.append(head if source is None else source[1])
        return min(numbers, default=0)

    def select_accepted(self, trusted: TrustedKeys) -> Chain:
        """Return the links that count if these keys are trusted."""
        return Chain(
            [link for link, _, accepted_by in self.check_signatures(trusted) if accepted_by][::-1]
        )

    @property
    def rollbacks(self) -> dict[str, Entry]:
        """Rollbacks by the version that they removed, unless a later entry restored the version."""
        rollbacks: dict[str, Entry] = {}
        for link in self.links:
            if link.content.action in MOVE_ACTIONS:
                rollbacks.pop(link.content.version, None)
            if link.content.action == "rollback":
                rollbacks[link.content.replaces] = link
        return rollbacks

    @property
    def policy_entry(self) -> Entry | None:
        """The entry that registered the currently required policy."""
        pins = [link for link in self.links if link.content.action == "policy"]
        return pins[-1] if pins else None

    @property
    def policy(self) -> PolicyReference | None:
        """The currently required policy."""
        return None if self.policy_entry is None else self.policy_entry.content.policy

    def find_last_block(self, version: str) -> int:
        """Return the number of the last entry that blocked a version; 0 without such an entry."""
        numbers = [link.number for link in self.links if version in (link.content.blocked or ())]
        return max(numbers, default=0)

    def is_rejected(self, version: str) -> bool:
        """Return whether a person rejected a version that was not promoted again since."""
        decisions = [
            link
            for link in self.links
            if (link.content.by and version in (link.content.blocked or ()))
            or (link.content.action in MOVE_ACTIONS and link.content.version == version)
        ]
        return bool(decisions) and decisions[-1].content.action == "blocked"

    @property
    def combined_digest(self) -> str:
        """The digest of all links, which a reset records to accept the links unchanged."""
        return json_digest(list(self.digests.items()))

    def _is_accepted_by(self, reset: Entry) -> bool:
        """Return whether an entry is a reset that accepted the current links before it."""
        content = reset.content
        return (
            content.action == "reset"
            and content.accepted == self.get_prefix(reset.number).combined_digest
        )

    def find_breaks(self, model: str) -> Iterator[str]:
        """Yield the breaks of the chain in words.

        Links before the last reset are only compared with the digest that the reset accepted.
        """
        resets = [index for index, link in enumerate(self.links) if link.content.action == "reset"]
        start = resets[-1] if resets else 0
        if resets:
            reset = self.links[start]
            if not self._is_accepted_by(reset):
                yield f"an entry before the reset in entry {reset.number} was changed or removed"
        before = self.links[start - 1] if start else None
        champion: str | None = None
        for link in self.links[start:]:
            problem = self._find_break(link, before, champion, model)
            if problem is not None:
                yield problem
            if link.content.action in MOVE_ACTIONS:
                champion = link.content.version
            before = link

    def _find_break(
        self, entry: Entry, before: Entry | None, champion: str | None, model: str
    ) -> str | None:
        """Return why a link does not follow the link `before`; None if it does.

        `champion`: the champion after the links before; None if they do not name a champion.
        """
        content = entry.content
        if (content.model, content.number) != (model, entry.number):
            written = f"entry {content.number} of {escape_invisible(str(content.model))}"
            return f"entry {entry.number} was written as {written}, and copied"
        head = None if before is None else Head(number=before.number, digest=before.digest)
        predecessor = content.predecessor
        if predecessor != head:
            written_after = predecessor.number if predecessor else "none"
            actual = "none" if before is None else before.number
            return (
                f"entry {entry.number} was written after entry {written_after}; the entry before "
                f"it is now entry {actual}, or it was changed"
            )
        is_move = content.action in {"promotion", "rollback"}
        if is_move and champion is not None and content.replaces != champion:
            return (
                f"entry {entry.number} replaces version {content.replaces or 'none'}, but "
                f"champion was version {champion or 'none'}"
            )
        return None

    def check_signatures(
        self, trusted: TrustedKeys
    ) -> Iterator[tuple[Entry, SignatureCheck, AcceptedBy]]:
        """Yield the links, newest first, with signature check and reason of acceptance.

        An entry without a signature by a known key counts only if a person accepted it by a reset.
        A reset records the digest of all entries before it. An entry that a revoked key signed
        counts only if it is dated before the revocation and a trusted key signed a later entry.
        Without trusted keys, all entries count.
        """
        is_signed_later = is_reset = False
        for link in reversed(self.links):
            signed = link.check_signatures(trusted)
            accepted_by: AcceptedBy = "a reset" if is_reset else ""
            if not trusted:
                accepted_by = "no keys"
            elif signed.status == "trusted":
                accepted_by = "its signature"
            elif signed.status == "revoked":
                accepted_by = (
                    "a later entry"
                    if is_signed_later and str(link.content.time) < signed.revoked_since
                    else ""
                )
            is_signed_later = is_signed_later or signed.status == "trusted"
            is_reset = is_reset or (bool(accepted_by) and self._is_accepted_by(link))
            yield link, signed, accepted_by

    def find_vouched_verdicts(self, trusted: TrustedKeys) -> VouchedVerdicts:
        """Return the digests of the verdicts behind accepted entries."""
        by_entry, by_reset, is_reset = set[str](), set[str](), False
        for entry, _, accepted_by in self.check_signatures(trusted):
            if accepted_by:
                digests = {verdict.digest for verdict in entry.content.verdicts}
                is_reset = is_reset or self._is_accepted_by(entry)
                by_entry |= digests
                by_reset |= digests if is_reset else set()
        return VouchedVerdicts(frozenset(by_entry), frozenset(by_reset))
