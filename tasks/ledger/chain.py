"""The chain of a ledger's entries: each names the one that was done before it.

Only entries that are done are links: an abandoned one has changed nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.printable import printable
from biasgate.tasks.ledger.entry import MOVES, Entry, Pinned, RestsOn, Source
from biasgate.tasks.records import Head, Verdict
from biasgate.tasks.signing.envelope import Signed
from biasgate.tasks.signing.keys import TrustedKeys
from biasgate.tasks.signing.statement import verdict_digest

AcceptedBy = Literal["no keys", "its signature", "a later entry", "a reset", ""]
"""The reason why an entry is accepted; empty if it is not."""


class VouchedVerdicts(NamedTuple):
    """Digests of verdicts that the ledger vouches for."""

    by_entry: frozenset[str] = frozenset()
    """Those that any accepted entry rests on: they count even if their own key was revoked later.
    """
    by_reset: frozenset[str] = frozenset()
    """Those that a person accepted: they count even if they are not signed."""


@dataclass(frozen=True)
class Chain:
    """The entries that are done, oldest first."""

    links: Sequence[Entry]

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Chain:
        """Take the entries that are done."""
        return cls([entry for entry in entries if entry.state == "done"])

    def before(self, number: int) -> Chain:
        """Return the part of the chain before an entry."""
        return Chain([link for link in self.links if link.number < number])

    @cached_property
    def digests(self) -> dict[int, str]:
        """The digest of each link by its number."""
        return {link.number: link.digest for link in self.links}

    @property
    def head(self) -> Head | None:
        """Number and digest of the last link."""
        if not self.links:
            return None
        number = self.links[-1].number
        return Head(number=number, digest=self.digests[number])

    def has(self, head: Head) -> bool:
        """Whether a link still exists; links before a reset need not."""
        resets = [link.number for link in self.links if link.content.action == "reset"]
        known = self.digests.get(head.number)
        return known == head.digest or head.number < max(resets, default=0)

    @property
    def moves(self) -> list[Entry]:
        """The entries after which `champion` was another version, or none."""
        return [link for link in self.links if link.content.action in MOVES]

    @property
    def last_move(self) -> Entry | None:
        """The last of its moves."""
        return self.moves[-1] if self.moves else None

    def basis(self, version: str) -> list[RestsOn]:
        """Return the verdicts with which a version last became champion; none if unknown."""
        moves = [link.content for link in self.moves if link.content.version == version]
        return moves[-1].verdicts if moves else []

    def source_of(self, version: str, digest: str) -> tuple[Source, int] | None:
        """Return what a version was copied from if a verdict is about that, and since when.

        The number is that of the promotion which says so.
        """
        for link in reversed(self.moves):
            found = link.content
            digests = {verdict.digest for verdict in found.verdicts}
            if found.source is not None and found.version == version and digest in digests:
                return found.source, link.number
        return None

    def verdicts_since(self, version: str, verdicts: Iterable[Verdict]) -> int:
        """Return the number of the entry after which the oldest of a version's verdicts counts."""
        numbers = []
        for verdict in verdicts:
            copied = self.source_of(version, verdict_digest(verdict))
            head = verdict.ledger.number if verdict.ledger else 0
            numbers.append(head if copied is None else copied[1])
        return min(numbers, default=0)

    def accepted(self, trusted: TrustedKeys) -> Chain:
        """Return the part that counts where these keys are trusted."""
        return Chain([link for link, _, by in self.standings(trusted) if by][::-1])

    @property
    def rolled_away(self) -> dict[str, Entry]:
        """The versions that a rollback left and that no later entry brought back, each with it."""
        left: dict[str, Entry] = {}
        for link in self.links:
            if link.content.action in MOVES:
                left.pop(link.content.version, None)
            if link.content.action == "rollback":
                left[link.content.replaces] = link
        return left

    @property
    def pinned(self) -> Entry | None:
        """The entry that registered the policy that is required now."""
        pins = [link for link in self.links if link.content.action == "policy"]
        return pins[-1] if pins else None

    @property
    def policy(self) -> Pinned | None:
        """The policy that is required now."""
        return None if self.pinned is None else self.pinned.content.policy

    def blocked(self, version: str) -> int:
        """Return the number of the last entry that says that a version did not pass; or 0."""
        numbers = [link.number for link in self.links if version in (link.content.blocked or ())]
        return max(numbers, default=0)

    def is_rejected(self, version: str) -> bool:
        """Return whether a person rejected a version that was not champion since."""
        about = [
            link
            for link in self.links
            if (link.content.by and version in (link.content.blocked or ()))
            or (link.content.action in MOVES and link.content.version == version)
        ]
        return bool(about) and about[-1].content.action == "blocked"

    @property
    def all_digests(self) -> str:
        """One digest of every link, which a reset names: it accepts them as they are."""
        return json_digest(list(self.digests.items()))

    def _is_kept_by(self, reset: Entry) -> bool:
        """Whether an entry is a reset that accepted everything before it as it is now."""
        content = reset.content
        return (
            content.action == "reset" and content.accepted == self.before(reset.number).all_digests
        )

    def breaks(self, model: str) -> Iterator[str]:
        """Yield each break of the chain, in words.

        What came before a reset was accepted as it was then.
        """
        resets = [at for at, one in enumerate(self.links) if one.content.action == "reset"]
        start = resets[-1] if resets else 0
        if resets:
            reset = self.links[start]
            if not self._is_kept_by(reset):
                yield f"an entry before the reset in entry {reset.number} was changed or removed"
        before = self.links[start - 1] if start else None
        champion: str | None = None
        for link in self.links[start:]:
            found = self._break(link, before, champion, model)
            if found is not None:
                yield found
            if link.content.action in MOVES:
                champion = link.content.version
            before = link

    def _break(
        self, entry: Entry, before: Entry | None, champion: str | None, model: str
    ) -> str | None:
        """Return what is wrong with the place of a link, or None.

        `champion` is the version that the entries before made champion; None if none did.
        """
        content = entry.content
        if (content.model, content.number) != (model, entry.number):
            written = f"entry {content.number} of {printable(str(content.model))}"
            return f"entry {entry.number} was written as {written}, and copied"
        head = None if before is None else Head(number=before.number, digest=before.digest)
        predecessor = content.predecessor
        if predecessor != head:
            named = predecessor.number if predecessor else "none"
            found = "none" if before is None else before.number
            return (
                f"entry {entry.number} was written after entry {named}; the entry before it is "
                f"now entry {found}, or it was changed"
            )
        moves = content.action in {"promotion", "rollback"}
        if moves and champion is not None and content.replaces != champion:
            return (
                f"entry {entry.number} replaces version {content.replaces or 'none'}, but "
                f"champion was version {champion or 'none'}"
            )
        return None

    def standings(self, trusted: TrustedKeys) -> Iterator[tuple[Entry, Signed, AcceptedBy]]:
        """Yield each link, newest first, with its signer and the reason why it is accepted.

        An entry that no known key signed counts only if a person accepted it: by a `reset` that
        names the digest of all entries before it. Every other later signature vouches only for
        what a key signed that was trusted then and is revoked now, and is dated before that.
        """
        later = reset = False
        for link in reversed(self.links):
            signed = link.signed(trusted)
            by: AcceptedBy = "a reset" if reset else ""
            if not trusted:
                by = "no keys"
            elif signed.standing == "trusted":
                by = "its signature"
            elif signed.standing == "revoked":
                by = (
                    "a later entry"
                    if later and str(link.content.time) < signed.revoked_since
                    else ""
                )
            later = later or signed.standing == "trusted"
            reset = reset or (bool(by) and self._is_kept_by(link))
            yield link, signed, by

    def vouched_verdicts(self, trusted: TrustedKeys) -> VouchedVerdicts:
        """Return the digests of the verdicts that accepted entries rest on."""
        by_entry, by_reset, reset = set[str](), set[str](), False
        for one, _, by in self.standings(trusted):
            if by:
                digests = {verdict.digest for verdict in one.content.verdicts}
                reset = reset or self._is_kept_by(one)
                by_entry |= digests
                by_reset |= digests if reset else set()
        return VouchedVerdicts(frozenset(by_entry), frozenset(by_reset))
