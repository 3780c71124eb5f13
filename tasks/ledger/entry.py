"""Entries of the ledger: what they say, how they are written, and who signed them.

An entry is one tag of a registered version, so that it is written whole or not at all. A signature
covers everything that the entry says, with the model, the entry's own number and the digest of the
entry before it: it is worth nothing in another place.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, StringConstraints
from typing_extensions import TypedDict

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.processes import has_ended, this_process
from biasgate.tasks.common.untrusted import check, parse_json
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import Head
from biasgate.tasks.signing.envelope import (
    Signature,
    Signatures,
    Signed,
    pae,
    signatures_of,
    who_signed,
)
from biasgate.tasks.signing.envelope import encoded as in_base64
from biasgate.tasks.signing.keys import PrivateKey, TrustedKeys


def _is_time(text: str) -> str:
    """Refuse what is no time, or names no time zone and so cannot be compared."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        msg = "must name its time zone"
        raise ValueError(msg)
    return text


Action = Literal["promotion", "rollback", "reset", "blocked", "policy", "spent"]
State = Literal["queued", "open", "done", "abandoned"]
Version = Annotated[str, StringConstraints(pattern="^[0-9]{1,18}$")]
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


class RestsOn(TypedDict):
    """A verdict that a promotion is based on: its set, its run and its digest."""

    set: str
    run_id: str
    digest: str


class Pinned(TypedDict):
    """A registered policy."""

    name: str
    digest: str


class Spent(TypedDict):
    """The share of a year's alpha that one decision spent, on a version and a subject."""

    version: Version
    subject: str
    number: int
    share: float


class Spending(TypedDict):
    """By which policy, and which of its settings, decisions of a year were counted."""

    policy: str
    bounds: Literal["any_wrong", "share_wrong"]
    planned: int
    year: int


class Move(TypedDict):
    """A requested move: `version` is to replace `replaces` ("" for none) as champion.

    `rule` is first, newer, better or by hand; `passed_over` has other versions that passed.
    `blocked` has the versions that did not pass, `policy` the policy that is required from now on;
    `accepted` is a digest of all entries before a reset. `spent` has the decisions that are about
    to be made, and `spending` how they share a year's alpha. `_NEEDED` says which action has which.
    """

    action: Action
    replaces: VersionOrNone
    version: VersionOrNone
    rule: NotRequired[str]
    reason: str
    passed_over: NotRequired[list[Version]]
    verdicts: list[RestsOn]
    blocked: NotRequired[list[Version]]
    policy: NotRequired[Pinned]
    accepted: NotRequired[str]
    spent: NotRequired[list[Spent]]
    spending: NotRequired[Spending]


class Content(Move):
    """The stored move, with its owner and expiry.

    Once its turn has come, also its place: `model`, `number`, `predecessor` (the entry that was
    done before it) and `time`.
    """

    owner: Owner
    opened: Time
    expires: Time
    model: NotRequired[str]
    number: NotRequired[int]
    predecessor: NotRequired[Head | None]
    time: NotRequired[Time]


class HistoryEntry(Content):
    """An entry as `biasgate history --json` prints it."""

    state: State
    note: str


class ListedEntry(HistoryEntry):
    """An entry of the history, with who signed it, in words."""

    signed: str


class _Tag(TypedDict):
    """The tag of an entry."""

    payload: HistoryEntry
    signatures: Signatures


_NEEDED: dict[Action, tuple[str, ...]] = {
    "promotion": ("rule", "passed_over"),
    "rollback": ("rule", "passed_over"),
    "reset": ("rule", "accepted"),
    "blocked": ("blocked",),
    "policy": ("policy",),
    "spent": ("spent", "spending"),
}
"""What an entry says because of its action."""
_PLACE = ("model", "number", "predecessor", "time")
"""What it says as soon as its turn has come."""


@dataclass(frozen=True)
class Entry:
    """One entry."""

    number: int
    """Its place in the order, which the server gave."""
    content: Content
    """The move, and the verdicts that it is based on."""
    state: State
    """Queued until its turn comes; open while the alias may move; closed by its owner, or by a
    later promoter (`heal`)."""
    note: str
    """The result."""
    record: ModelVersion
    """The version that stores it."""
    signatures: Sequence[Signature] = ()
    """Of content, state and note."""

    @property
    def is_unsettled(self) -> bool:
        """Whether it is waiting, or its alias may be moving."""
        return self.state in {"queued", "open"}

    @property
    def digest(self) -> str:
        """SHA-256 of content, state and note."""
        return json_digest(_payload(self.content, self.state, self.note))

    @property
    def is_stale(self) -> bool:
        """Whether its owner has ended: by its lease, or as a process of this machine.

        The lease starts when the registry created the entry, whatever the entry says.
        """
        if datetime.now(UTC) >= datetime.fromisoformat(self.content["expires"]):
            return True
        age = time.time() - self.record.created / 1000
        if age < -LEASE.total_seconds() or (self.record.created and age >= LEASE.total_seconds()):
            return True
        process = self.content["owner"].rpartition(" ")[0]
        return has_ended(process) or (
            process == this_process() and self.content["owner"] not in active
        )

    def signed(self, trusted: TrustedKeys) -> Signed:
        """Return who signed it."""
        payload = _payload(self.content, self.state, self.note)
        return who_signed(_message(payload), self.signatures, trusted)

    def to_dict(self) -> HistoryEntry:
        """Return plain values."""
        known: Any = {"number": self.number, "state": self.state, "note": self.note}
        found: HistoryEntry = known | self.content
        return found


def read_entry(record: ModelVersion) -> Entry:
    """Return the entry in a version's tags.

    Raises
    ------
    InputError
        If it holds none, or one that says something impossible: who may write to the registry may
        write anything.
    """
    what = f"version {record.version} of {record.name}"
    if TAG not in record.tags:
        msg = f"{what} must have the tag {TAG}; it does not."
        raise InputError(msg)
    tag = check(parse_json(record.tags[TAG], what), _Tag, what)
    payload: Any = {**tag["payload"]}
    missing = _missing(payload)
    if missing is not None:
        msg = (
            f"{what} must name `{missing}`, since its action is {payload['action']} and its state "
            f"{payload['state']}."
        )
        raise InputError(msg)
    signatures = signatures_of(tag["signatures"], what)
    state, note = payload.pop("state"), payload.pop("note")
    return Entry(int(record.version), payload, state, note, record, signatures)


def _missing(payload: HistoryEntry) -> str | None:
    """Return what an entry must name by its action and state, and does not; None if it is whole."""
    moves = payload["action"] in {"promotion", "rollback"} or "passed_over" in payload
    if moves and not payload["version"]:
        return "version"
    place = _PLACE if payload["state"] in {"open", "done"} else ()
    return next((key for key in (*_NEEDED[payload["action"]], *place) if key not in payload), None)


def entry_tags(content: Content, state: State, note: str) -> dict[str, str]:
    """Return the tag of an entry, signed if this machine has a private key."""
    payload, key = _payload(content, state, note), PrivateKey.here()
    signatures = []
    if key is not None:
        value = in_base64(key.sign(_message(payload)))
        signatures.append({"keyid": key.public.key_id, "sig": value})
    return {TAG: json.dumps({"payload": payload, "signatures": signatures})}


def _payload(content: Content, state: State, note: str) -> dict[str, Any]:
    return {**content, "state": state, "note": note}


def _message(payload: Mapping[str, Any]) -> bytes:
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return pae(_TYPE, text.encode())
