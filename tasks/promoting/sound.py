"""Whether a ledger may be added to: nothing is promoted on top of one that was changed."""

from __future__ import annotations

import re

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.printable import printable
from biasgate.tasks.promoting.chain import Chain
from biasgate.tasks.promoting.ledger import Ledger
from biasgate.tasks.promoting.seen import last_seen, remember
from biasgate.tasks.records import Head
from biasgate.tasks.signing.keys import PRIVATE_KEY, PrivateKey
from biasgate.tasks.signing.trusted import TrustedKeys

_HEAD = re.compile(r"([0-9]{1,18}) [0-9a-f]{64}")
_SHOWN = 40


def require_sound(ledger: Ledger, chain: Chain | None = None) -> None:
    """Refuse to add to a ledger that was changed, or that no trusted key has signed.

    Parameters
    ----------
    chain : Chain, optional
        The entries that the next one is to follow. What is signed must be what was checked: the
        ledger may change between two reads. Default: those of now.

    Raises
    ------
    InputError
        With what is wrong, and how a person accepts it.
    """
    require_key(ledger)
    chain = ledger.chain if chain is None else chain
    wrong = wrong_with(ledger, chain)
    if wrong:
        msg = (
            f"the ledger {ledger.name} must be unchanged before anything is promoted; "
            f"{'; '.join(wrong[:3])}. Look at `biasgate history {ledger.model}` and `biasgate "
            f"verify {ledger.model}`. To accept the ledger as it is, name the version that is "
            f"champion: biasgate reset {ledger.model} VERSION --reason TEXT (without VERSION: "
            "none is)."
        )
        raise InputError(msg)
    remember(ledger, chain)


def wrong_with(ledger: Ledger, chain: Chain) -> list[str]:
    """Return what is wrong with a ledger, in words; nothing if it may be added to."""
    return [
        *chain.breaks(ledger.model),
        *(
            f"entry {one.number} is {signed.words}"
            for one, signed, accepted in chain.standings(TrustedKeys.here())
            if not accepted
        ),
        *(f"missing or changed is {one}" for one in missing_heads(ledger, chain)),
    ]


def require_key(ledger: Ledger) -> None:
    """Refuse to add an entry that machines which trust the same keys would not accept.

    Raises
    ------
    InputError
        If keys are trusted here, and this machine has no private key, or a revoked one.
    """
    own, trusted = PrivateKey.here(), TrustedKeys.here()
    if own is None and trusted:
        msg = (
            f"{PRIVATE_KEY} must be set to promote anything: keys are trusted here, so an unsigned "
            f"entry of {ledger.name} would not be accepted."
        )
        raise InputError(msg)
    if own is not None and trusted.keys[own.public.key_id].revoked_since:
        msg = (
            f"the key in {PRIVATE_KEY} must be trusted; it is revoked: create a new one with "
            "`biasgate keys new`."
        )
        raise InputError(msg)


def missing_heads(ledger: Ledger, chain: Chain) -> list[str]:
    """Return the entries that must be there and are not, in words.

    Every verdict names the entry that it was made after, and this machine remembers the last one
    that it saw.
    """
    missing = set()
    for seen in last_seen(ledger, chain):
        if not chain.has(seen):
            missing.add(f"entry {seen['number']}, which this machine saw before")
    for version in ledger.gateway.versions(ledger.model):
        for name, value in version.tags.items():
            if name.startswith("biasgate.") and name.endswith(".ledger") and value:
                whose = f"a verdict on version {version.version}"
                known = _HEAD.fullmatch(value)
                head: Head = Head(number=int(known[1]) if known else 0, digest=value[-64:])
                if not chain.has(head):
                    named = known[1] if known else repr(printable(value[:_SHOWN]))
                    missing.add(f"entry {named}, which {whose} names")
    return sorted(missing)
