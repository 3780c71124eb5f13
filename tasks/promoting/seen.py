"""The last entry of each ledger that this machine saw: a ledger must not become shorter.

Whoever may write to the registry may remove the last entries, and the verdicts that name them. They
cannot reach this file, which is in the folder of trusted keys.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from typing import Any

from biasgate.tasks.common.files import locked, write_json
from biasgate.tasks.promoting.chain import Chain
from biasgate.tasks.promoting.ledger import Ledger
from biasgate.tasks.records import Head
from biasgate.tasks.signing.trusted import TrustedKeys, trusted_folder

FILE = "ledgers_seen.json"


def last_seen(ledger: Ledger) -> Head | None:
    """Return the last entry that this machine saw; None if it saw none, or trusts no key."""
    found = _read().get(_name(ledger))
    if not isinstance(found, dict) or found.keys() != {"number", "digest"}:
        return None
    return {"number": int(found["number"]), "digest": str(found["digest"])}


def remember(ledger: Ledger, chain: Chain) -> None:
    """Keep the last entry, where keys are trusted and the folder may be written to.

    A machine that signs trusts its own key, so it remembers too, without a file of trusted keys.
    """
    head = chain.head
    if head is None or not TrustedKeys.here():
        return
    path = trusted_folder() / FILE
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path):
            known = _read()
            if known.get(_name(ledger)) != head:
                write_json(path, known | {_name(ledger): head})


def _read() -> dict[str, Any]:
    try:
        return dict(json.loads((trusted_folder() / FILE).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _name(ledger: Ledger) -> str:
    """Return the ledger's name, with a digest of the registry's address, which may be secret."""
    return f"{ledger.name} at {hashlib.sha256(ledger.gateway.uri.encode()).hexdigest()[:16]}"
