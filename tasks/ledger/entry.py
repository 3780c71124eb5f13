"""Entries of the ledger: their content, their form, and their signatures.

An entry is one tag of a registered version, so that it is written whole or not at all. A signature
covers everything that the entry says, with the model, the entry's own number and the digest of the
entry before it: it does not hold in another place.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, JsonValue, StringConstraints

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.plain import plain
from biasgate.tasks.common.processes import has_ended, this_process
from biasgate.tasks.common.untrusted import check, parse_json
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import Head
from biasgate.tasks.records.record import Record
from biasgate.tasks.signing.envelope import (
    Signature,
    Signatures,
    Signed,
    decodable,
    pae,
    signed_by,
    who_signed,
)
from biasgate.tasks.signing.keys import PrivateKey, TrustedKeys


def _is_time(text: str) -> str:
    """Refuse anything but a time with a time zone, since others cannot be compared."""
    if datetime.fromisoformat(text).tzinfo is None:
        msg = "must name its time zone"
        raise ValueError(msg)
    return text


Action = Literal["promotion", "rollback", "reset", "blocked", "policy"]
State = Literal["queued", "open", "done", "abandoned"]
Version = Annotated[str, StringConstraints(pattern="^[0-9]{1,18}$")]
VersionUri = Annotated[str, StringConstraints(pattern="^models:/[^/:]+/[1-9][0-9]{0,17}$")]
VersionOrNone = Annotated[str, StringConstraints(pattern="^[0-9]{0,18}$")]
Time = Annotated[str, AfterValidator(_is_time)]
# A process as `this_process` names it, then a random part.
_A_PROCESS = r"^[^ ].* [0-9]{1,9} -?[0-9]{1,12}(\.[0-9]{1,9})? [^ ]+$"
Owner = Annotated[str, StringConstraints(pattern=_A_PROCESS)]
# The actions after which `champion` is another version, or none.
MOVES = ("promotion", "rollback", "reset")
# A promoter that has not finished after this time is considered dead.
LEASE = timedelta(minutes=5)
TAG = "biasgate.entry"
_TYPE = "application/vnd.biasgate.ledger-entry+json"
# Owners in this process that are promoting right now.
active: set[str] = set()


@dataclass(frozen=True, kw_only=True)
class RestsOn(Record):
    """A verdict that a promotion is based on: its set, its run and its digest.

    `sample` is the number of rows if it was judged on a random part of the set.
    """

    set: str
    run_id: str
    digest: str
    sample: int | None = None


@dataclass(frozen=True, kw_only=True)
class Pinned(Record):
    """A registered policy."""

    name: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class Source(Record):
    """The version of another registered model that a promoted version is a copy of.

    `judged` is the version that its verdicts are about: another one if it is a copy itself.
    `digest` is that of the files.
    """

    model: VersionUri
    judged: VersionUri
    digest: str


@dataclass(frozen=True, kw_only=True)
class Move(Record):
    """A requested move: `version` is to replace `replaces` ("" for none) as champion.

    `rule` is first, newer, better or by hand; `passed_over` has other versions that passed.
    `blocked` has the versions that did not pass, or that a person rejected: `by` is who decided.
    `policy` is required from now on; `accepted` is a digest of all entries before a reset.
    `source` is what `version` was copied from, if `verdicts` are about that.
    `_NEEDED` says which action has which.
    """

    action: Action
    replaces: VersionOrNone = ""
    version: VersionOrNone = ""
    rule: str | None = None
    reason: str
    by: str | None = None
    passed_over: list[Version] | None = None
    verdicts: list[RestsOn] = field(default_factory=list)
    blocked: list[Version] | None = None
    policy: Pinned | None = None
    accepted: str | None = None
    source: Source | None = None


@dataclass(frozen=True, kw_only=True)
class Content(Move):
    """The stored move, with its owner, its expiry and its result.

    `state` is queued until its turn comes, and open while the alias may move; it is closed by its
    owner, or by a later promoter (`heal`). `note` is the result. Once its turn has come, it has a
    place: `model`, `number`, `predecessor` (the entry that was done before it) and `time`.
    """

    owner: Owner
    opened: Time
    expires: Time
    state: State = "queued"
    note: str = ""
    model: str | None = None
    number: int | None = None
    predecessor: Head | None = None
    time: Time | None = None

    def to_dict(self) -> dict[str, JsonValue]:
        """Return plain values; the first entry of a chain has a predecessor, which is null."""
        found = super().to_dict()
        has_place = any(getattr(self, key) is not None for key in _PLACE)
        return found | {"predecessor": plain(self.predecessor)} if has_place else found


@dataclass(frozen=True, kw_only=True)
class ListedEntry(Content):
    """An entry as `biasgate history --json` prints it, with the signer in words."""

    signed: str


@dataclass(frozen=True, kw_only=True)
class _Tag(Record):
    """The tag of an entry."""

    payload: Content
    signatures: Signatures


_NEEDED: dict[Action, tuple[str, ...]] = {
    "promotion": ("rule", "passed_over"),
    "rollback": ("rule", "passed_over"),
    "reset": ("rule", "accepted"),
    "blocked": ("blocked",),
    "policy": ("policy",),
}
"""Keys of an entry by its action."""
_PLACE = ("model", "number", "time")
"""Keys of an entry whose turn has come."""


@dataclass(frozen=True)
class Entry:
    """One entry."""

    number: int
    """Its place in the order, which the server gave."""
    content: Content
    """The move, the verdicts that it is based on, and its result."""
    record: ModelVersion
    """The version that stores it."""
    signatures: Sequence[Signature] = ()
    """Of the content."""

    @property
    def state(self) -> State:
        """Whether it waits, may move the alias, or is closed."""
        return self.content.state

    @property
    def is_unsettled(self) -> bool:
        """Whether it is waiting, or its alias may be moving."""
        return self.state in {"queued", "open"}

    @property
    def digest(self) -> str:
        """SHA-256 of the content."""
        return json_digest(self.content)

    @property
    def is_stale(self) -> bool:
        """Whether its owner has ended: by its lease, or as a process of this machine.

        The lease starts when the registry created the entry, whatever the entry says.
        """
        if datetime.now(UTC) >= datetime.fromisoformat(self.content.expires):
            return True
        age = time.time() - self.record.created / 1000
        if age < -LEASE.total_seconds() or (self.record.created and age >= LEASE.total_seconds()):
            return True
        process = self.content.owner.rpartition(" ")[0]
        return has_ended(process) or (
            process == this_process() and self.content.owner not in active
        )

    def listed(self, signed: str) -> ListedEntry:
        """Return it as the history shows it, with the signer in words."""
        return ListedEntry(**vars(self.content) | {"number": self.number, "signed": signed})

    def signed(self, trusted: TrustedKeys) -> Signed:
        """Return the standing of its signatures."""
        return who_signed(_message(self.content), self.signatures, trusted)


def read_entry(record: ModelVersion) -> Entry:
    """Return the entry in a version's tags."""
    what = f"version {record.version} of {record.name}"
    if TAG not in record.tags:
        msg = f"{what} must have the tag {TAG}; it does not."
        raise InputError(msg)
    tag = check(parse_json(record.tags[TAG], what), _Tag, what)
    content = tag.payload
    moves = content.action in {"promotion", "rollback"} or content.passed_over is not None
    place = _PLACE if content.state in {"open", "done"} else ()
    needed = (*_NEEDED[content.action], *place)
    missing = next((key for key in needed if getattr(content, key) is None), None)
    if moves and not content.version:
        missing = "version"
    if missing is not None:
        msg = (
            f"{what} must name `{missing}`, since its action is {content.action} and its state "
            f"{content.state}."
        )
        raise InputError(msg)
    return Entry(int(record.version), content, record, decodable(tag.signatures, what))


def entry_tags(content: Content) -> dict[str, str]:
    """Return the tag of an entry, signed if this machine has a private key."""
    signatures = signed_by(PrivateKey.here(), _message(content))
    tag = _Tag(payload=content, signatures=list(signatures))
    return {TAG: json.dumps(tag.to_dict())}


def _message(content: Content) -> bytes:
    text = json.dumps(content.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return pae(_TYPE, text.encode())
