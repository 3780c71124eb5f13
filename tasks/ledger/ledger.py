"""The record of all promotions, and the queue of promoters.

MLflow sets an alias unconditionally, so two promoters that first read and then set it would
overwrite each other. But MLflow numbers the versions of a registered model atomically. Each
promotion therefore opens an entry as the next version of the registered model
`<name>-promotions`, with owner and expiry, and acts only when every earlier entry is closed.
These entries are also the history, readable on MLflow's own pages.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from bias_metrics.suggestion import did_you_mean
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.prefect_task import say
from biasgate.tasks.common.processes import this_process
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.entry import (
    LEASE,
    Content,
    Entry,
    Move,
    State,
    active,
    entry_tags,
    read_entry,
)
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.signing.keys import TrustedKeys, now

LEDGER_SUFFIX = "-promotions"
CHAMPION, PREVIOUS, CHALLENGER = "champion", "previous_champion", "challenger"
_POLL = 0.2
_TELL_AFTER = 5.0


@dataclass(frozen=True)
class Ledger:
    """The promotions of one registered model."""

    gateway: Gateway
    model: str

    @property
    def name(self) -> str:
        """The registered model whose versions are the entries."""
        return f"{self.model}{LEDGER_SUFFIX}"

    def entries(self) -> list[Entry]:
        """Return every entry, oldest first; versions that hold none are left out."""
        return [one for one in self._read() if isinstance(one, Entry)]

    def foreign(self) -> list[str]:
        """Return a sentence for each version that is not an entry: others wrote it."""
        return [str(one) for one in self._read() if isinstance(one, InputError)]

    def _read(self) -> Iterator[Entry | InputError]:
        for version in self.gateway.versions(self.name):
            try:
                yield read_entry(version)
            except InputError as error:
                yield error

    @property
    def chain(self) -> Chain:
        """The entries that are done."""
        return Chain.of(self.entries())

    @contextmanager
    def open(self, content: Move, run_id: str | None) -> Iterator[Entry]:
        """Put an entry at the end of the queue, atomically.

        If the body ends without closing it, the entry counts as abandoned by its owner. If the
        server's answer is lost, so does the entry that it may have made.
        """
        time_ = datetime.now(UTC)
        owner = f"{this_process()} {uuid.uuid4().hex[:8]}"
        expires = (time_ + LEASE).isoformat()
        opened = time_.isoformat()
        whole = Content(**vars(content), owner=owner, opened=opened, expires=expires)
        active.add(owner)
        try:
            try:
                record = self.gateway.record_version(self.name, run_id, entry_tags(whole))
            except Exception:
                with contextlib.suppress(Exception):
                    self.abandon_lost(owner, None)
                raise
            yield Entry(int(record.version), whole, record)
        finally:
            active.discard(owner)

    def abandon_lost(self, owner: str, number: int | None) -> None:
        """Abandon the entries of an owner but one: an answer was lost, and a request repeated."""
        for entry in self.entries():
            if entry.content.owner == owner and entry.number != number and entry.state == "queued":
                self.close(entry, "abandoned", "made twice, since the server's answer was lost")

    def claim(self, entry: Entry, chain: Chain) -> Entry:
        """Give an entry its place in the chain, now that its turn has come."""
        if datetime.now(UTC) >= datetime.fromisoformat(entry.content.expires):
            msg = (
                f"entry {entry.number} of {self.name} must act within {LEASE}; its lease has "
                "expired: run again."
            )
            raise RuntimeError(msg)
        content = replace(
            entry.content,
            state="open",
            model=self.model,
            number=entry.number,
            predecessor=chain.head,
            time=now(),
        )
        return self._write(entry, content)

    def close(self, entry: Entry, state: State, note: str) -> Entry:
        """Close an entry, and return it closed. Closing it twice is harmless."""
        return self._write(entry, replace(entry.content, state=state, note=note))

    def _write(self, entry: Entry, content: Content) -> Entry:
        self.gateway.tag_version(entry.record, entry_tags(content))
        return Entry(entry.number, content, entry.record)

    def refuse_closed(self, entry: Entry, entries: list[Entry]) -> None:
        """Raise an error if another promoter considered this one dead and closed its entry."""
        state = next((one.state for one in entries if one.number == entry.number), "removed")
        if state != "queued":
            msg = (
                f"entry {entry.number} of {self.name} must still be queued; it is {state}. Its "
                f"lease of {LEASE} has expired: run again."
            )
            raise RuntimeError(msg)

    def wait_for(self, entries: list[Entry]) -> None:
        """Wait until entries are closed, or their owners have ended.

        Entries that would not be accepted are not waited for: anyone can write them.
        """
        waited_for, trusted = {entry.number for entry in entries}, TrustedKeys.here()
        since, told = time.monotonic(), False
        while left := [
            entry
            for entry in self.entries()
            if entry.number in waited_for and entry.is_unsettled and not entry.is_stale
        ]:
            for entry in left:
                signed = entry.signed(trusted)
                if trusted and signed.standing != "trusted":
                    msg = (
                        f"entry {entry.number} of {self.name} must be signed with a trusted key "
                        f"before others wait for it; it is {entry.state} and {signed.words}. Trust "
                        "the promoter's key, or run again "
                        f"{LEASE.total_seconds() / 60:g} minutes after it was made, when it no "
                        "longer counts."
                    )
                    raise InputError(msg)
            if not told and time.monotonic() - since > _TELL_AFTER:
                told = True
                owner = left[0].content.owner.rpartition(" ")[0]
                say(
                    f"waiting for entry {left[0].number} of {self.name}, which {owner} is working "
                    f"on, for {LEASE.total_seconds() / 60:g} minutes at most"
                )
            time.sleep(_POLL)


def is_ledger(model: str) -> bool:
    """Whether a registered model's name is that of a ledger."""
    return model.endswith(LEDGER_SUFFIX)


def champion_of_model(ledger: Ledger, chain: Chain | None = None) -> ModelVersion | None:
    """Return the version that is champion, or None.

    It is the last one in the ledger, even if the alias was moved or deleted: what a candidate
    is compared with changes by a promotion, a rollback or a reset only. A ledger without any of
    these leaves it to the alias.
    """
    last = (chain or ledger.chain).last_move
    if last is None:
        return ledger.gateway.alias(ledger.model, CHAMPION)
    number = last.content.version
    if not number:
        return None
    try:
        return ledger.gateway.resolve(f"models:/{ledger.model}/{number}")
    except InputError as error:
        reset = ledger.gateway.command("promote", ledger.model, "--reset", "--reason", "TEXT")
        msg = (
            f"version {number} of {ledger.model} must exist: it is the {CHAMPION} by entry "
            f"{last.number} of {ledger.name}. If it was deleted on purpose, run: {reset}"
        )
        raise InputError(msg) from error


def alias_apart(ledger: Ledger) -> str | None:
    """Return what to do if the alias does not name the ledger's champion; None if it does."""
    last, alias = ledger.chain.last_move, ledger.gateway.alias(ledger.model, CHAMPION)
    if last is None or (alias.version if alias else "") == last.content.version:
        return None
    number = last.content.version
    again = (
        f"champion is version {number}, and candidates are compared with it. To set the alias "
        f"again: {ledger.gateway.command('promote', ledger.model, number)}"
        if number
        else "no version is champion, and candidates are compared with none. Delete the alias."
    )
    return (
        f"warning: alias `{CHAMPION}` of {ledger.model} names "
        f"{f'version {alias.version}' if alias else 'no version'}; by entry {last.number} of "
        f"{ledger.name} {again}"
    )


def require_alias(model: str, gateway: Gateway) -> ModelVersion:
    """Return the version under `champion`."""
    champion = gateway.alias(model, CHAMPION)
    if champion is None:
        msg = (
            f"model {model} must have a `{CHAMPION}` in {gateway.registry_uri}; it has none. "
            "Promote a version first, or verify a version by its number."
        )
        raise InputError(msg)
    return champion


def require_known(model: str, gateway: Gateway, nor: str = "") -> None:
    """Raise an error if a model is not in the registry, or is a ledger; name the ones that are.

    `nor`: the end of the error.
    """
    known = gateway.models()
    if model not in known or is_ledger(model):
        shown = [one for one in known if not is_ledger(one)]
        msg = f"model {model!r} must be in the registry at {gateway.registry_uri}; it is not "
        msg += f"(known: {', '.join(shown) or 'none'}).{did_you_mean(model, shown)}"
        if not shown:
            msg += (
                " An evaluation with `registered_model: NAME` registers the models that it trains, "
                "and files of scores with `register: NAME`."
            )
        raise InputError(msg + nor)
