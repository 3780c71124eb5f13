"""Whether a ledger may be added to: it was not changed, and did not become shorter.

This machine remembers the last entry of each ledger that it saw. Anyone with write access to the
registry may remove the last entries, and the verdicts that name them, but cannot reach this file,
which is in the folder of trusted keys. A ledger is known by the registry's address, and by its
first entry, which is the same at every address.
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
from biasgate.tasks.common.files import locked, write_json
from biasgate.tasks.common.printable import printable
from biasgate.tasks.ledger.chain import Chain
from biasgate.tasks.ledger.ledger import Ledger
from biasgate.tasks.mlflow_server.local_store import database_file
from biasgate.tasks.records import Head
from biasgate.tasks.signing.keys import PRIVATE_KEY, PrivateKey, TrustedKeys, trusted_folder

SEEN_FILE = "ledgers_seen.json"
_PORTS: dict[str, int | str] = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306}
_HEAD = re.compile(r"([0-9]{1,18}) [0-9a-f]{64}")
_SHOWN = 40


def require_sound(ledger: Ledger, chain: Chain | None = None) -> None:
    """Refuse to add to a ledger that was changed, or that no trusted key has signed.

    `chain`: the entries that the next one is to follow. What is signed must be what was checked:
    the ledger may change between two reads. Default: those of now.
    """
    require_key(ledger)
    chain = ledger.chain if chain is None else chain
    wrong = wrong_with(ledger, chain)
    if wrong:
        model, command = ledger.model, ledger.gateway.command
        reset = command("promote", model, "VERSION", "--reset", "--reason", "TEXT")
        msg = (
            f"the ledger {ledger.name} must be unchanged before anything is promoted; "
            f"{'; '.join(wrong[:3])}. Look at `{command('history', model)}` and "
            f"`{command('verify', model)}`. To accept the ledger as it is, give the champion's "
            f"version (leave out VERSION for none): {reset}"
        )
        raise InputError(msg)
    remember(ledger, chain)


def wrong_with(ledger: Ledger, chain: Chain) -> list[str]:
    """Return what is wrong with a ledger, in words; empty if it may be added to."""
    return [
        *chain.breaks(ledger.model),
        *(
            f"entry {one.number} is {signed.words}"
            for one, signed, accepted in chain.standings(TrustedKeys.here())
            if not accepted
        ),
        *(f"missing or changed: {one}" for one in missing_heads(ledger, chain)),
    ]


def require_key(ledger: Ledger) -> None:
    """Refuse to add an entry that machines which trust the same keys would not accept."""
    own, trusted = PrivateKey.here(), TrustedKeys.here()
    if own is None and trusted:
        msg = (
            f"{PRIVATE_KEY} must be set to promote anything: keys are trusted here, so an unsigned "
            f"entry of {ledger.name} would not be accepted."
        )
        raise InputError(msg)
    trusted.refuse_revoked(own)


def missing_heads(ledger: Ledger, chain: Chain) -> list[str]:
    """Return the entries that must be there and are not, in words.

    Every verdict names the entry that it was made after, and this machine remembers the last one
    that it saw. The tags of a copy from another model name entries of that model's ledger.
    """
    missing = set()
    for seen in last_seen(ledger, chain):
        if not chain.has(seen):
            missing.add(f"entry {seen.number}, which this machine saw before")
    for version in ledger.gateway.versions(ledger.model):
        if version.is_copy:
            continue
        for name, value in version.tags.items():
            if name.startswith("biasgate.") and name.endswith(".ledger") and value:
                whose = f"a verdict on version {version.version}"
                known = _HEAD.fullmatch(value)
                head: Head = Head(number=int(known[1]) if known else 0, digest=value[-64:])
                if not chain.has(head):
                    named = known[1] if known else repr(printable(value[:_SHOWN]))
                    missing.add(f"entry {named}, which {whose} names")
    return sorted(missing)


def last_seen(ledger: Ledger, chain: Chain) -> list[Head]:
    """Return the last entries that this machine saw; none if it saw none, or trusts no key."""
    known = _read_seen()
    found = (known.get(name) for name in _names(ledger, chain))
    kept = (one for one in found if isinstance(one, dict) and one.keys() == {"number", "digest"})
    return list(map(Head.from_dict, kept))


def remember(ledger: Ledger, chain: Chain) -> None:
    """Keep the last entry, where keys are trusted and the folder may be written to.

    A machine that signs trusts its own key, so it remembers too, without a file of trusted keys.
    """
    head = chain.head
    if head is None or not TrustedKeys.here():
        return
    path = trusted_folder() / SEEN_FILE
    new = dict.fromkeys(_names(ledger, chain), head.to_dict())
    with contextlib.suppress(OSError), locked(path):
        known = _read_seen()
        if known | new != known:
            write_json(path, known | new)


def _read_seen() -> dict[str, JsonValue]:
    try:
        return dict(json.loads((trusted_folder() / SEEN_FILE).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _names(ledger: Ledger, chain: Chain) -> list[str]:
    """Return what a ledger is known by: a digest of the address, which may be secret, and more."""
    place = hashlib.sha256(place_of(ledger.gateway.registry_uri).encode()).hexdigest()
    names = [f"{ledger.name} at {place[:16]}"]
    if chain.links:
        names.append(f"{ledger.name} from {chain.digests[chain.links[0].number][:16]}")
    return names


def place_of(uri: str) -> str:
    """Return a registry's address in one spelling, without user and password.

    Examples
    --------
    >>> place_of("HTTP://me:secret@127.0.0.1:80/mlflow/./") == place_of("http://localhost/mlflow")
    True
    """
    parts = urlsplit(uri)
    scheme = parts.scheme.lower().partition("+")[0]
    if uri.startswith("databricks"):
        return uri
    if scheme in {"", "file"}:
        return f"file {os.path.realpath(unquote(parts.path))}"
    if (file := database_file(uri)) is not None:
        return f"sqlite {os.path.realpath(file)}"
    host = (parts.hostname or "").rstrip(".")
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        host = "localhost" if address.is_loopback else str(address)
    path = posixpath.normpath("/" + unquote(parts.path).lstrip("/"))
    port = parts.port if parts.port is not None else _PORTS.get(scheme, "")
    return f"{scheme} {host} {port} {path} {parts.query}".rstrip()
