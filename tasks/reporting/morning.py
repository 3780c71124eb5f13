"""Messages by Apprise, which sends to Teams, e-mail, PagerDuty and a hundred other services."""

from __future__ import annotations

import logging
import re
from typing import Any

from biasgate.tasks.common.printable import printable

# Services read these as markup, as a mention of people, or as a link.
_MARKUP = {"@": "(at)", "<": "(", ">": ")", "`": "'", "*": "", "[": "(", "]": ")", "|": "/"}
_LINK = re.compile(r"(?<=\w)(:)(?=//)|(?<=www)(\.)", re.IGNORECASE)


def harmless(text: str) -> str:
    """Return a text in which names make no markup, mention or link in any service."""
    for sign, instead in _MARKUP.items():
        text = text.replace(sign, instead)
    return _LINK.sub(" ", printable(text, keep="\n"))


def send_by_apprise(addresses: str, subject: str, body: str, *, failed: bool) -> None:
    """Send one message to all of the addresses.

    Parameters
    ----------
    failed : bool
        Whether services that know kinds of messages show it as a warning.

    Raises
    ------
    ValueError
        If an address is none of Apprise.
    RuntimeError
        If a message was not delivered.
    """
    import apprise  # noqa: PLC0415 - it takes a second

    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)  # it logs parts of addresses
    services: Any = apprise.Apprise()
    if not all([services.add(one) for one in addresses.split()]) or not services:  # noqa: C419
        msg = "not addresses of Apprise"
        raise ValueError(msg)
    kind = apprise.NotifyType.WARNING if failed else apprise.NotifyType.INFO
    if not services.notify(
        body=body, title=subject, notify_type=kind, body_format=apprise.NotifyFormat.TEXT
    ):
        msg = "not delivered"
        raise RuntimeError(msg)
