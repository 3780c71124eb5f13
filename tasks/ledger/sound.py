"""Checks before an entry is added: the ledger was not changed or shortened.

This machine stores the last entry of every ledger that it read, in a file in the folder of trusted
keys. Anyone with write access to the registry may remove the last entries, and the verdicts that
name them. Such access does not include this file. A ledger is identified by the registry's address,
and by its first entry, which is the same at all addresses.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import os
import posixpath
import re
from urllib.parse import unquote, urlsplit

from pydantic import JsonValue

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import hold_lock, write_json
from biasgate.tasks.common.printable import escape_invisible
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.mlflow_server.local_store import find_database_file
from biasgate.tasks.records import Head
from biasgate.tasks.signing.keys import PRIVATE_KEY, PrivateKey, TrustedKeys, get_trust_folder

SEEN_FILE = "ledgers_seen.json"
_PORTS: dict[str, int | str] = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306}
_HEAD_PATTERN = re.compile(r"([0-9]{1,18}) [0-9a-f]{64}")
_MAX_SHOWN = 40


def require_sound(ledger: Ledger, chain: Chain | None = None) -> None:
    """Raise an error if a ledger was changed, or an entry is not accepted by the trusted keys.

    `chain`: the links before the next entry. Pass the links that the entry will follow, since the
    ledger may change between two reads. Default: the current links.
    """
    require_signing_key(ledger)
    chain = ledger.chain if chain is None else chain
    problems = find_problems(ledger, chain)
    if problems:
        model, command = ledger.model, ledger.gateway.format_command
        reset = command("promote", model, "VERSION", "--reset", "--reason", "TEXT")
        msg = (
            f"the ledger {ledger.name} must be unchanged before anything is promoted; "
            f"{'; '.join(problems[:3])}. Look at `{command('history', model)}` and "
            f"`{command('verify', model)}`. To accept the ledger as it is, give the champion's "
            f"version (leave out VERSION for none): {reset}"
        )
        raise InputError(msg)
    remember_head(ledger, chain)


def find_problems(ledger: Ledger, chain: Chain) -> list[str]:
    """Return the problems of a ledger in words; empty if an entry may be added."""
    return [
        *chain.find_breaks(ledger.model),
        *(
            f"entry {entry.number} is {signed.description}"
            for entry, signed, accepted in chain.check_signatures(TrustedKeys.load())
            if not accepted
        ),
        *(f"missing or changed: {head}" for head in find_missing_heads(ledger, chain)),
    ]


def require_signing_key(ledger: Ledger) -> None:
    """Raise an error if this machine's signature is missing, or would not be accepted."""
    own, trusted = PrivateKey.from_environment(), TrustedKeys.load()
    if own is None and trusted:
        msg = (
            f"{PRIVATE_KEY} must be set to promote anything: keys are trusted here, so an unsigned "
            f"entry of {ledger.name} would not be accepted."
        )
        raise InputError(msg)
    trusted.refuse_revoked(own)


def find_missing_heads(ledger: Ledger, chain: Chain) -> list[str]:
    """Return the missing or changed entries of a ledger in words.

    A verdict names the last entry before it, and this machine remembers the last entry that it
    read. Copies are skipped, since their tags name entries of another model's ledger.
    """
    missing = set()
    for seen in read_last_heads(ledger, chain):
        if not chain.has_head(seen):
            missing.add(f"entry {seen.number}, which this machine saw before")
    for version in ledger.gateway.list_versions(ledger.model):
        if version.is_copy:
            continue
        for name, value in version.tags.items():
            if name.startswith("biasgate.") and name.endswith(".ledger") and value:
                subject = f"a verdict on version {version.version}"
                match = _HEAD_PATTERN.fullmatch(value)
                head: Head = Head(number=int(match[1]) if match else 0, digest=value[-64:])
                if not chain.has_head(head):
                    shown = match[1] if match else repr(escape_invisible(value[:_MAX_SHOWN]))
                    missing.add(f"entry {shown}, which {subject} names")
    return sorted(missing)


def read_last_heads(ledger: Ledger, chain: Chain) -> list[Head]:
    """Return the remembered last entries of a ledger; empty if this machine has not stored any."""
    heads = _read_seen_file()
    matches = (heads.get(name) for name in _list_names(ledger, chain))
    valid = (
        head for head in matches if isinstance(head, dict) and head.keys() == {"number", "digest"}
    )
    return list(map(Head.from_dict, valid))


def remember_head(ledger: Ledger, chain: Chain) -> None:
    """Store the last entry, if this machine trusts keys and can write to their folder.

    A machine that signs trusts its own key. So it stores the entry even without a file of trusted
    keys.
    """
    head = chain.head
    if head is None or not TrustedKeys.load():
        return
    path = get_trust_folder() / SEEN_FILE
    heads = dict.fromkeys(_list_names(ledger, chain), head.to_dict())
    with contextlib.suppress(OSError), hold_lock(path):
        seen = _read_seen_file()
        if seen | heads != seen:
            write_json(path, seen | heads)


def _read_seen_file() -> dict[str, JsonValue]:
    try:
        return dict(json.loads((get_trust_folder() / SEEN_FILE).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _list_names(ledger: Ledger, chain: Chain) -> list[str]:
    """Return the identifiers of a ledger; the address is hashed, since it may be secret."""
    place = hashlib.sha256(normalize_address(ledger.gateway.registry_uri).encode()).hexdigest()
    names = [f"{ledger.name} at {place[:16]}"]
    if chain.links:
        names.append(f"{ledger.name} from {chain.digests[chain.links[0].number][:16]}")
    return names


def normalize_address(uri: str) -> str:
    """Return a registry's address in normal form, without user and password.

    Examples
    --------
    >>> address = normalize_address("HTTP://me:secret@127.0.0.1:80/mlflow/./")
    >>> address == normalize_address("http://localhost/mlflow")
    True
    """
    parts = urlsplit(uri)
    scheme = parts.scheme.lower().partition("+")[0]
    if uri.startswith("databricks"):
        return uri
    if scheme in {"", "file"}:
        return f"file {os.path.realpath(unquote(parts.path))}"
    if (file := find_database_file(uri)) is not None:
        return f"sqlite {os.path.realpath(file)}"
    host = (parts.hostname or "").rstrip(".")
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        host = "localhost" if address.is_loopback else str(address)
    path = posixpath.normpath("/" + unquote(parts.path).lstrip("/"))
    port = parts.port if parts.port is not None else _PORTS.get(scheme, "")
    return f"{scheme} {host} {port} {path} {parts.query}".rstrip()
