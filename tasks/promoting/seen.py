"""The last entry of each ledger that this machine saw: a ledger must not become shorter.

Whoever may write to the registry may remove the last entries, and the verdicts that name them. They
cannot reach this file, which is in the folder of trusted keys. A ledger is known by the registry's
address, and by its first entry, which is the same at every address.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import os
import posixpath
from typing import Any
from urllib.parse import unquote, urlsplit

from biasgate.tasks.common.files import locked, write_json
from biasgate.tasks.promoting.chain import Chain
from biasgate.tasks.promoting.ledger import Ledger
from biasgate.tasks.records import Head
from biasgate.tasks.signing.trusted import TrustedKeys, trusted_folder

FILE = "ledgers_seen.json"
_PORTS: dict[str, int | str] = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306}


def last_seen(ledger: Ledger, chain: Chain) -> list[Head]:
    """Return the last entries that this machine saw; none if it saw none, or trusts no key."""
    known = _read()
    found = [known.get(one) for one in _names(ledger, chain)]
    return [
        Head(number=int(one["number"]), digest=str(one["digest"]))
        for one in found
        if isinstance(one, dict) and one.keys() == {"number", "digest"}
    ]


def remember(ledger: Ledger, chain: Chain) -> None:
    """Keep the last entry, where keys are trusted and the folder may be written to.

    A machine that signs trusts its own key, so it remembers too, without a file of trusted keys.
    """
    head = chain.head
    if head is None or not TrustedKeys.here():
        return
    path = trusted_folder() / FILE
    new = dict.fromkeys(_names(ledger, chain), head)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path):
            known = _read()
            if any(known.get(name) != head for name in new):
                write_json(path, known | new)


def _read() -> dict[str, Any]:
    try:
        return dict(json.loads((trusted_folder() / FILE).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _names(ledger: Ledger, chain: Chain) -> list[str]:
    """Return what a ledger is known by: a digest of the address, which may be secret, and more."""
    names = [f"{ledger.name} at {_short(place_of(ledger.gateway.registry_uri))}"]
    if chain.links:
        names.append(f"{ledger.name} from {chain.digests[chain.links[0].number][:16]}")
    return names


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


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
    if scheme == "sqlite":  # three slashes, then the path
        return f"sqlite {os.path.realpath(parts.path[1:])}"
    host = (parts.hostname or "").rstrip(".")
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        host = "localhost" if address.is_loopback else str(address)
    path = posixpath.normpath("/" + unquote(parts.path).lstrip("/"))
    port = parts.port if parts.port is not None else _PORTS.get(scheme, "")
    return f"{scheme} {host} {port} {path} {parts.query}".rstrip()
