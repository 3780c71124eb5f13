"""Entries of the ledger: what they say, how they are written, and who signed them.

An entry is one tag of a registered version, so that it is written whole or not at all. A signature
covers everything that the entry says, with the model, the entry's own number and the digest of the
entry before it: it is worth nothing in another place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NotRequired, TypedDict

from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.processes import has_ended, this_process
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.records import Head
from biasgate.tasks.signing.envelope import Signature, Signed, pae, signatures_of, who_signed
from biasgate.tasks.signing.envelope import encoded as in_base64
from biasgate.tasks.signing.keys import PrivateKey
from biasgate.tasks.signing.trusted import TrustedKeys

Action = Literal["promotion", "rollback", "reset", "blocked", "policy"]
State = Literal["queued", "open", "done", "abandoned"]
ACTIONS = ("promotion", "rollback", "reset", "blocked", "policy")
STATES = ("queued", "open", "done", "abandoned")
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


class Move(TypedDict):
    """A requested move: `version` is to replace `replaces` ("" for none) as champion.

    `rule` is first, newer, better or by hand; `passed_over` has other versions that passed.
    Entries of earlier releases have neither. `blocked` has the versions that did not pass,
    `policy` the policy that is required from now on; `accepted` is a digest of all entries before
    a reset.
    """

    action: Action
    replaces: str
    version: str
    rule: NotRequired[str]
    reason: str
    passed_over: NotRequired[list[str]]
    verdicts: list[RestsOn]
    blocked: NotRequired[list[str]]
    policy: NotRequired[Pinned]
    accepted: NotRequired[str]


class Content(Move):
    """The stored move, with its owner and expiry.

    Once its turn has come, also its place: `model`, `number`, `predecessor` (the entry that was
    done before it) and `time`.
    """

    owner: str
    opened: str
    expires: str
    model: NotRequired[str]
    number: NotRequired[int]
    predecessor: NotRequired[Head | None]
    time: NotRequired[str]


class HistoryEntry(Content):
    """An entry as `biasgate history --json` prints it."""

    state: State
    note: str


@dataclass(frozen=True)
class Entry:
    """One entry.

    Attributes
    ----------
    number : int
        Its place in the order, which the server gave.
    content : Content
        The move, and the verdicts that it is based on.
    state : {"queued", "open", "done", "abandoned"}
        Queued until its turn comes; open while the alias may move; closed by its owner, or by a
        later promoter (`heal`).
    note : str
        The result.
    record : ModelVersion
        The version that stores it.
    signatures : sequence of Signature, optional
        Of content, state and note; None in entries of earlier releases.
    """

    number: int
    content: Content
    state: State
    note: str
    record: ModelVersion
    signatures: Sequence[Signature] | None = ()

    @property
    def is_unsettled(self) -> bool:
        """Whether it is waiting, or its alias may be moving."""
        return self.state in {"queued", "open"}

    @property
    def is_of_earlier_release(self) -> bool:
        """Whether it was written before entries were chained and signed."""
        return self.signatures is None

    @property
    def time(self) -> str:
        """When its turn came, by the clock of its owner."""
        return self.content.get("time", self.content["opened"])

    @property
    def digest(self) -> str:
        """SHA-256 of content, state and note."""
        return json_digest(_payload(self.content, self.state, self.note))

    @property
    def is_stale(self) -> bool:
        """Whether its owner has ended: by its lease, or as a process of this machine.

        The lease starts when the registry created the entry, whatever the entry says.
        """
        now = datetime.now(UTC)
        created = datetime.fromtimestamp(self.record.created / 1000, UTC)
        if now >= datetime.fromisoformat(self.content["expires"]) or created > now + LEASE:
            return True
        if self.record.created and now >= created + LEASE:
            return True
        process = self.content["owner"].rpartition(" ")[0]
        return has_ended(process) or (
            process == this_process() and self.content["owner"] not in active
        )

    def signed(self, trusted: TrustedKeys) -> Signed:
        """Return who signed it."""
        payload = _payload(self.content, self.state, self.note)
        return who_signed(_message(payload), self.signatures or (), trusted)

    def to_dict(self) -> HistoryEntry:
        """Return plain values."""
        known: Any = {"number": self.number, "state": self.state, "note": self.note}
        found: HistoryEntry = known | self.content
        return found


def read_entry(record: ModelVersion) -> Entry | None:
    """Return the entry in a version's tags; None if it holds none."""
    try:
        if TAG in record.tags:
            found = json.loads(record.tags[TAG])
            payload, signatures = dict(found["payload"]), signatures_of(found["signatures"])
        else:
            payload = json.loads(record.tags["biasgate.content"])
            payload["state"] = record.tags["biasgate.state"]
            payload["note"] = record.tags.get("biasgate.note", "")
            signatures = None
        state, note = payload.pop("state"), payload.pop("note")
        if not _is_entry(payload, state, note):
            return None
    except (KeyError, ValueError, TypeError, AttributeError):
        return None
    content: Any = payload
    return Entry(int(record.version), content, state, note, record, signatures)


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


def _is_entry(payload: Mapping[str, Any], state: Any, note: Any) -> bool:
    """Whether all that is read of an entry is there and of its type."""
    texts = [payload[key] for key in ("replaces", "version", "reason", "owner")]
    datetime.fromisoformat(payload["opened"])
    datetime.fromisoformat(payload["expires"]).astimezone(UTC)
    numbers = [payload["version"], payload["replaces"], *payload.get("passed_over", ())]
    named = {key for one in payload["verdicts"] for key in one}
    return (
        state in STATES
        and payload["action"] in ACTIONS
        and all(isinstance(one, str) for one in [*texts, note])
        and all(one == "" or one.isdecimal() for one in numbers)
        and named <= set(RestsOn.__annotations__)
        and len(payload["owner"].split(" ")) > 3
    )
