"""Entries of the ledger: their content, their written form and their signatures.

An entry is a single tag of a registered version, so that it is written completely or not at all.
The signature covers the whole content with model, entry number and digest of the predecessor. So an
entry that is copied to another place in a ledger is detected.
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
from biasgate.tasks.common.plain import convert_to_plain
from biasgate.tasks.common.processes import describe_this_process, has_ended
from biasgate.tasks.common.untrusted import check_document, parse_json
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import Head
from biasgate.tasks.records.record import Record
from biasgate.tasks.signing.envelope import (
    Signature,
    SignatureCheck,
    Signatures,
    check_signatures,
    pae,
    require_base64,
    sign_message,
)
from biasgate.tasks.signing.keys import PrivateKey, TrustedKeys


def _require_time_zone(text: str) -> str:
    """Raise an error for a time without a time zone, which cannot be compared with others."""
    if datetime.fromisoformat(text).tzinfo is None:
        msg = "must name its time zone"
        raise ValueError(msg)
    return text


Action = Literal["promotion", "rollback", "reset", "blocked", "policy"]
State = Literal["queued", "open", "done", "abandoned"]
Version = Annotated[str, StringConstraints(pattern="^[0-9]{1,18}$")]
VersionUri = Annotated[str, StringConstraints(pattern="^models:/[^/:]+/[1-9][0-9]{0,17}$")]
VersionOrNone = Annotated[str, StringConstraints(pattern="^[0-9]{0,18}$")]
Time = Annotated[str, AfterValidator(_require_time_zone)]
# The name of a process from `describe_this_process`, then a random suffix.
_PROCESS_PATTERN = r"^[^ ].* [0-9]{1,9} -?[0-9]{1,12}(\.[0-9]{1,9})? [^ ]+$"
Owner = Annotated[str, StringConstraints(pattern=_PROCESS_PATTERN)]
# The actions that set or remove `champion`.
MOVE_ACTIONS = ("promotion", "rollback", "reset")
# A promoter that has not finished after this time counts as ended.
LEASE = timedelta(minutes=5)
TAG = "biasgate.entry"
_PAYLOAD_TYPE = "application/vnd.biasgate.ledger-entry+json"
# Owners of unfinished entries in this process.
active_owners: set[str] = set()


@dataclass(frozen=True, kw_only=True)
class VerdictReference(Record):
    """A verdict behind a promotion, by its set, run and digest.

    `sample` is the number of rows if only a random part of the set was judged.
    """

    set: str
    run_id: str
    digest: str
    sample: int | None = None


@dataclass(frozen=True, kw_only=True)
class PolicyReference(Record):
    """A registered policy by its name and digest."""

    name: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class CopySource(Record):
    """The source of a promoted copy: a version of another registered model.

    `judged` is the version that its verdicts are about; it differs if the source is a copy itself.
    `digest` is the digest of the files.
    """

    model: VersionUri
    judged: VersionUri
    digest: str


@dataclass(frozen=True, kw_only=True)
class Move(Record):
    """A requested move: `version` shall replace `replaces` as champion ("" without a champion).

    `rule` is first, newer, better or by hand. `passed_over` lists other versions that passed.
    `blocked` lists the versions that did not pass, or that a person rejected. `by` is the person
    who decided. `policy` is required from now on. `accepted` is the digest of all entries before a
    reset. `source` is the source of a copy, if `verdicts` are about the source.
    `_REQUIRED_KEYS` lists the required keys per action.
    """

    action: Action
    replaces: VersionOrNone = ""
    version: VersionOrNone = ""
    rule: str | None = None
    reason: str
    by: str | None = None
    passed_over: list[Version] | None = None
    verdicts: list[VerdictReference] = field(default_factory=list)
    blocked: list[Version] | None = None
    policy: PolicyReference | None = None
    accepted: str | None = None
    source: CopySource | None = None


@dataclass(frozen=True, kw_only=True)
class EntryContent(Move):
    """The stored move with its owner, expiry and result.

    `state` is queued until the entry's turn comes, and open while the alias may move. The owner
    closes the entry, or a later promoter settles it. `note` is the result. Once its turn has
    come, the entry has a place: `model`, `number`, `predecessor` (the last completed entry before)
    and `time`.
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
        """Return plain values; the predecessor of a chain's first entry is null."""
        values = super().to_dict()
        has_place = any(getattr(self, key) is not None for key in _PLACE_KEYS)
        return values | {"predecessor": convert_to_plain(self.predecessor)} if has_place else values


@dataclass(frozen=True, kw_only=True)
class ListedEntry(EntryContent):
    """An entry as `biasgate history --json` prints it, with the signer in words."""

    signed: str


@dataclass(frozen=True, kw_only=True)
class _EntryTag(Record):
    """The written form of an entry."""

    payload: EntryContent
    signatures: Signatures


_REQUIRED_KEYS: dict[Action, tuple[str, ...]] = {
    "promotion": ("rule", "passed_over"),
    "rollback": ("rule", "passed_over"),
    "reset": ("rule", "accepted"),
    "blocked": ("blocked",),
    "policy": ("policy",),
}
"""Required keys of an entry by action."""
_PLACE_KEYS = ("model", "number", "time")
"""Required keys of an entry after its turn has come."""


@dataclass(frozen=True)
class Entry:
    """An entry of a ledger."""

    number: int
    """Position in the queue: the version number from the server."""
    content: EntryContent
    """The move, the verdicts behind it, and its result."""
    record: ModelVersion
    """The registered version that stores the entry."""
    signatures: Sequence[Signature] = ()
    """Signatures of the content."""

    @property
    def state(self) -> State:
        """The state of the entry: queued, open, done or abandoned."""
        return self.content.state

    @property
    def is_unsettled(self) -> bool:
        """True if the entry is queued, or its alias may be moving."""
        return self.state in {"queued", "open"}

    @property
    def digest(self) -> str:
        """SHA-256 of the content."""
        return json_digest(self.content)

    @property
    def is_stale(self) -> bool:
        """True if the owner's lease has expired, or its process on this machine has ended.

        The lease starts when the registry created the entry, regardless of times in the entry.
        """
        if datetime.now(UTC) >= datetime.fromisoformat(self.content.expires):
            return True
        age = time.time() - self.record.created / 1000
        if age < -LEASE.total_seconds() or (self.record.created and age >= LEASE.total_seconds()):
            return True
        process = self.content.owner.rpartition(" ")[0]
        return has_ended(process) or (
            process == describe_this_process() and self.content.owner not in active_owners
        )

    def to_listed(self, signed: str) -> ListedEntry:
        """Return the entry for the history, with its signer in words."""
        return ListedEntry(**vars(self.content) | {"number": self.number, "signed": signed})

    def check_signatures(self, trusted: TrustedKeys) -> SignatureCheck:
        """Check the signatures of the content."""
        return check_signatures(_encode_content(self.content), self.signatures, trusted)


def read_entry(record: ModelVersion) -> Entry:
    """Return the entry in a version's tags; raise an error if it is missing or invalid."""
    subject = f"version {record.version} of {record.name}"
    if TAG not in record.tags:
        msg = f"{subject} must have the tag {TAG}; it does not."
        raise InputError(msg)
    tag = check_document(parse_json(record.tags[TAG], subject), _EntryTag, subject)
    content = tag.payload
    is_move = content.action in {"promotion", "rollback"} or content.passed_over is not None
    place = _PLACE_KEYS if content.state in {"open", "done"} else ()
    needed = (*_REQUIRED_KEYS[content.action], *place)
    missing = next((key for key in needed if getattr(content, key) is None), None)
    if is_move and not content.version:
        missing = "version"
    if missing is not None:
        msg = (
            f"{subject} must name `{missing}`, since its action is {content.action} and its state "
            f"{content.state}."
        )
        raise InputError(msg)
    return Entry(int(record.version), content, record, require_base64(tag.signatures, subject))


def build_entry_tags(content: EntryContent) -> dict[str, str]:
    """Return the tag of an entry, signed if this machine has a private key."""
    signatures = sign_message(PrivateKey.from_environment(), _encode_content(content))
    tag = _EntryTag(payload=content, signatures=list(signatures))
    return {TAG: json.dumps(tag.to_dict())}


def _encode_content(content: EntryContent) -> bytes:
    text = json.dumps(content.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return pae(_PAYLOAD_TYPE, text.encode())
