"""The record of all promotions, and the queue of promoters.

MLflow sets an alias unconditionally. Two promoters that read and then set the alias would overwrite
each other. But MLflow numbers the versions of a registered model atomically. A promotion therefore
opens an entry as the next version of the registered model `<name>-promotions`, with owner and
expiry. It acts only when all earlier entries are closed. The entries are also the history, which
MLflow's own pages show.
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
from biasgate.tasks.common.prefect_task import log_message
from biasgate.tasks.common.processes import describe_this_process
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.entry import (
    LEASE,
    Entry,
    EntryContent,
    Move,
    State,
    active_owners,
    build_entry_tags,
    read_entry,
)
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.signing.keys import TrustedKeys, get_timestamp

LEDGER_SUFFIX = "-promotions"
CHAMPION, PREVIOUS, CHALLENGER = "champion", "previous_champion", "challenger"
_POLL_SECONDS = 0.2
_NOTICE_SECONDS = 5.0


@dataclass(frozen=True)
class Ledger:
    """The record of a registered model's promotions."""

    gateway: Gateway
    model: str

    @property
    def name(self) -> str:
        """Name of the registered model that stores the entries as versions."""
        return f"{self.model}{LEDGER_SUFFIX}"

    def read_entries(self) -> list[Entry]:
        """Return all entries, oldest first; skip versions without a valid entry."""
        return [entry for entry in self._read_versions() if isinstance(entry, Entry)]

    def find_foreign_versions(self) -> list[str]:
        """Return the errors of versions without a valid entry, which others wrote."""
        return [str(error) for error in self._read_versions() if isinstance(error, InputError)]

    def _read_versions(self) -> Iterator[Entry | InputError]:
        for version in self.gateway.list_versions(self.name):
            try:
                yield read_entry(version)
            except InputError as error:
                yield error

    @property
    def chain(self) -> Chain:
        """The chain of the completed entries, read now."""
        return Chain.from_entries(self.read_entries())

    @contextmanager
    def open(self, move: Move, run_id: str | None) -> Iterator[Entry]:
        """Append an entry to the queue atomically.

        If the body ends without closing the entry, its owner counts as ended. If the server's
        response is lost, the entry that the server may have created is abandoned.
        """
        opened_at = datetime.now(UTC)
        owner = f"{describe_this_process()} {uuid.uuid4().hex[:8]}"
        expires = (opened_at + LEASE).isoformat()
        opened = opened_at.isoformat()
        content = EntryContent(**vars(move), owner=owner, opened=opened, expires=expires)
        active_owners.add(owner)
        try:
            try:
                record = self.gateway.record_version(self.name, run_id, build_entry_tags(content))
            except Exception:
                with contextlib.suppress(Exception):
                    self.abandon_duplicates(owner, None)
                raise
            yield Entry(int(record.version), content, record)
        finally:
            active_owners.discard(owner)

    def abandon_duplicates(self, owner: str, number: int | None) -> None:
        """Abandon an owner's queued entries except `number`: a repeated request created them."""
        for entry in self.read_entries():
            if entry.content.owner == owner and entry.number != number and entry.state == "queued":
                self.close(entry, "abandoned", "made twice, since the server's answer was lost")

    def claim(self, entry: Entry, chain: Chain) -> Entry:
        """Assign an entry its place in the chain, now that its turn has come."""
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
            time=get_timestamp(),
        )
        return self._write_content(entry, content)

    def close(self, entry: Entry, state: State, note: str) -> Entry:
        """Close an entry and return it closed. A retry is safe."""
        return self._write_content(entry, replace(entry.content, state=state, note=note))

    def _write_content(self, entry: Entry, content: EntryContent) -> Entry:
        self.gateway.tag_version(entry.record, build_entry_tags(content))
        return Entry(entry.number, content, entry.record)

    def require_queued(self, entry: Entry, entries: list[Entry]) -> None:
        """Raise an error if another promoter closed the entry, since its lease had expired."""
        state = next((other.state for other in entries if other.number == entry.number), "removed")
        if state != "queued":
            msg = (
                f"entry {entry.number} of {self.name} must still be queued; it is {state}. Its "
                f"lease of {LEASE} has expired: run again."
            )
            raise RuntimeError(msg)

    def await_entries(self, entries: list[Entry]) -> None:
        """Wait until entries are closed, or their owners have ended.

        Raises an error for an entry that would not be accepted, since anyone could write it to
        delay promotions.
        """
        waited_for, trusted = {entry.number for entry in entries}, TrustedKeys.load()
        since, is_reported = time.monotonic(), False
        while remaining := [
            entry
            for entry in self.read_entries()
            if entry.number in waited_for and entry.is_unsettled and not entry.is_stale
        ]:
            for entry in remaining:
                signed = entry.check_signatures(trusted)
                if trusted and signed.status != "trusted":
                    msg = (
                        f"entry {entry.number} of {self.name} must be signed with a trusted key "
                        f"before others wait for it; it is {entry.state} and "
                        f"{signed.description}. Trust the promoter's key, or run again "
                        f"{LEASE.total_seconds() / 60:g} minutes after it was made, when it no "
                        "longer counts."
                    )
                    raise InputError(msg)
            if not is_reported and time.monotonic() - since > _NOTICE_SECONDS:
                is_reported = True
                owner = remaining[0].content.owner.rpartition(" ")[0]
                log_message(
                    f"waiting for entry {remaining[0].number} of {self.name}, which {owner} is "
                    f"working on, for {LEASE.total_seconds() / 60:g} minutes at most"
                )
            time.sleep(_POLL_SECONDS)


def is_ledger(model: str) -> bool:
    """Return whether a registered model is a ledger, by its name."""
    return model.endswith(LEDGER_SUFFIX)


def find_champion(ledger: Ledger, chain: Chain | None = None) -> ModelVersion | None:
    """Return the champion of a model, or None without a champion.

    The champion is the version in the ledger's last move, even if the alias was moved or deleted.
    So only a promotion, a rollback or a reset changes the version that candidates are compared
    with. Without any move, the alias decides.
    """
    last = (chain or ledger.chain).last_move
    if last is None:
        return ledger.gateway.get_alias(ledger.model, CHAMPION)
    version = last.content.version
    if not version:
        return None
    try:
        return ledger.gateway.resolve(f"models:/{ledger.model}/{version}")
    except InputError as error:
        reset = ledger.gateway.format_command(
            "promote", ledger.model, "--reset", "--reason", "TEXT"
        )
        msg = (
            f"version {version} of {ledger.model} must exist: it is the {CHAMPION} by entry "
            f"{last.number} of {ledger.name}. If it was deleted on purpose, run: {reset}"
        )
        raise InputError(msg) from error


def find_alias_mismatch(ledger: Ledger) -> str | None:
    """Return a warning if the alias does not name the ledger's champion; None if it does."""
    last, alias = ledger.chain.last_move, ledger.gateway.get_alias(ledger.model, CHAMPION)
    if last is None or (alias.version if alias else "") == last.content.version:
        return None
    version = last.content.version
    advice = (
        f"champion is version {version}, and candidates are compared with it. To set the alias "
        f"again: {ledger.gateway.format_command('promote', ledger.model, version)}"
        if version
        else "no version is champion, and candidates are compared with none. Delete the alias."
    )
    return (
        f"warning: alias `{CHAMPION}` of {ledger.model} names "
        f"{f'version {alias.version}' if alias else 'no version'}; by entry {last.number} of "
        f"{ledger.name} {advice}"
    )


def require_alias(model: str, gateway: Gateway) -> ModelVersion:
    """Return the version under the alias `champion`; raise an error if the alias is missing."""
    champion = gateway.get_alias(model, CHAMPION)
    if champion is None:
        msg = (
            f"model {model} must have a `{CHAMPION}` in {gateway.registry_uri}; it has none. "
            "Promote a version first, or verify a version by its number."
        )
        raise InputError(msg)
    return champion


def require_model(model: str, gateway: Gateway, ending: str = "") -> None:
    """Raise an error if a model is not in the registry, or is a ledger.

    The error lists the registered models. `ending`: a text that follows.
    """
    models = gateway.list_models()
    if model not in models or is_ledger(model):
        names = [name for name in models if not is_ledger(name)]
        msg = f"model {model!r} must be in the registry at {gateway.registry_uri}; it is not "
        msg += f"(known: {', '.join(names) or 'none'}).{did_you_mean(model, names)}"
        if not names:
            msg += (
                " An evaluation with `registered_model: NAME` registers the models that it trains, "
                "and files of scores with `register: NAME`."
            )
        raise InputError(msg + ending)
