"""The record of all promotions, and the queue of promoters.

MLflow sets an alias unconditionally, so two promoters that first read and then set it would
overwrite each other. But MLflow numbers the versions of a registered model atomically. Each
promotion therefore opens an entry as the next version of the registered model
`<name>-promotions`, with owner and expiry, and acts only when every earlier entry is closed.
These entries are also the history, readable on MLflow's own pages.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NotRequired, TypedDict

from biasgate.tasks.common.files import json_digest
from biasgate.tasks.common.processes import has_ended, this_process
from biasgate.tasks.gating.signature import sign
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion

State = Literal["open", "done", "abandoned"]
LEDGER_SUFFIX = "-promotions"
# A promoter that has not finished after this time is considered dead.
LEASE = timedelta(minutes=5)
_POLL = 0.2
# Owners in this process that are promoting right now.
_active: set[str] = set()
_PREFIX = "biasgate."


class RestsOn(TypedDict):
    """A verdict that a promotion is based on: its set, its run and its digest."""

    set: str
    run_id: str
    digest: str


class Move(TypedDict):
    """A requested move: `version` is to replace `replaces` ("" for none) as champion.

    `rule` is first, newer, better or by hand; `passed_over` has other versions that passed.
    Entries of earlier releases have neither.
    """

    action: Literal["promotion", "rollback"]
    replaces: str
    version: str
    rule: NotRequired[str]
    reason: str
    passed_over: NotRequired[list[str]]
    verdicts: list[RestsOn]


class Content(Move):
    """The stored move, with its owner and expiry."""

    owner: str
    opened: str
    expires: str


class HistoryEntry(Content):
    """An entry as `biasgate history --json` prints it."""

    number: int
    state: State
    note: str


@dataclass(frozen=True)
class Entry:
    """One promotion or rollback.

    Attributes
    ----------
    number : int
        Its place in the order.
    content : Content
        The move, and the verdicts that it is based on.
    state : {"open", "done", "abandoned"}
        Open until its owner, or a later promoter (`heal`), closes it.
    note : str
        The result.
    record : ModelVersion
        The version that stores it.
    signature : str or None
        HMAC of content, state and note, if a signing key was set.
    """

    number: int
    content: Content
    state: State
    note: str
    record: ModelVersion
    signature: str | None

    @property
    def digest(self) -> str:
        """SHA-256 of content, state and note, which is what is signed."""
        return _digest(json.dumps(dict(self.content)), self.state, self.note)

    @property
    def is_stale(self) -> bool:
        """Whether its owner has ended: by expiry, or as a process of this machine."""
        if datetime.now(UTC) >= datetime.fromisoformat(str(self.content["expires"])):
            return True
        owner = str(self.content["owner"])
        process = owner.rpartition(" ")[0]
        return has_ended(process) or (process == this_process() and owner not in _active)

    def to_dict(self) -> HistoryEntry:
        """Return plain values."""
        return {"number": self.number, "state": self.state, "note": self.note, **self.content}


@dataclass(frozen=True)
class Ledger:
    """The promotions of one registered model.

    Attributes
    ----------
    gateway : Gateway
        Registry.
    model : str
        The registered model.
    """

    gateway: Gateway
    model: str

    @property
    def name(self) -> str:
        """The registered model whose versions are the entries."""
        return f"{self.model}{LEDGER_SUFFIX}"

    def entries(self) -> list[Entry]:
        """Return every entry, oldest first."""
        return [_entry(one) for one in self.gateway.versions(self.name)]

    def last_done(self) -> Entry | None:
        """Return the last promotion or rollback that moved the alias, or None."""
        done = [one for one in self.entries() if one.state == "done"]
        return done[-1] if done else None

    @contextmanager
    def open(self, content: Move, run_id: str | None) -> Iterator[Entry]:
        """Open an entry at the end of the queue, atomically.

        If the body ends without closing it, the entry counts as abandoned by its owner.
        """
        now = datetime.now(UTC)
        owner = f"{this_process()} {uuid.uuid4().hex[:8]}"
        expires = (now + LEASE).isoformat()
        whole: Content = {**content, "owner": owner, "opened": now.isoformat(), "expires": expires}
        _active.add(owner)
        try:
            tags = _tags(json.dumps(whole), "open", "")
            yield _entry(self.gateway.record_version(self.name, run_id, tags))
        finally:
            _active.discard(owner)

    def close(self, entry: Entry, state: State, note: str) -> None:
        """Close an entry; the state is written last. Closing it twice is harmless."""
        tags = _tags(json.dumps(dict(entry.content)), state, note)
        self.gateway.tag_version(entry.record, tags)

    def refuse_closed(self, entry: Entry) -> None:
        """Raise an error if another promoter considered this one dead and closed its entry.

        Raises
        ------
        RuntimeError
            If the entry is no longer open.
        """
        state = next(one.state for one in self.entries() if one.number == entry.number)
        if state != "open":
            msg = (
                f"entry {entry.number} of {self.name} must still be open; it is {state}. Its lease "
                f"of {LEASE} has expired: run again."
            )
            raise RuntimeError(msg)

    def open_before(self, number: int) -> list[Entry]:
        """Return the open entries before a number."""
        return [one for one in self.entries() if one.state == "open" and one.number < number]

    def wait_for(self, entries: list[Entry]) -> None:
        """Wait until entries are closed, or their owners have ended."""
        waited_for = {one.number for one in entries}
        while any(
            one.number in waited_for and one.state == "open" and not one.is_stale
            for one in self.entries()
        ):
            time.sleep(_POLL)


def _entry(record: ModelVersion) -> Entry:
    tags = record.tags
    state: Any = tags[f"{_PREFIX}state"]
    content = json.loads(tags[f"{_PREFIX}content"])
    note, signature = tags.get(f"{_PREFIX}note", ""), tags.get(f"{_PREFIX}signature")
    return Entry(int(record.version), content, state, note, record, signature)


def _tags(content: str, state: State, note: str) -> dict[str, str]:
    """Return an entry's tags in the order of writing: the state last."""
    signature = sign(_digest(content, state, note))
    signed = {f"{_PREFIX}signature": signature} if signature else {}
    written = {f"{_PREFIX}content": content, f"{_PREFIX}note": note}
    return written | signed | {f"{_PREFIX}state": state}


def _digest(content: str, state: State, note: str) -> str:
    return json_digest([content, state, note])
