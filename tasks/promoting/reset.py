"""A person says which version is champion, or that none is, and accepts the ledger as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.by_hand import recorded, require_held, require_known
from biasgate.tasks.promoting.chain import Chain
from biasgate.tasks.promoting.champion import decision, entered, heal, take_turn
from biasgate.tasks.promoting.entries import Move, RestsOn
from biasgate.tasks.promoting.ledger import CHAMPION, Ledger
from biasgate.tasks.promoting.seen import remember
from biasgate.tasks.promoting.sound import require_key, wrong_with
from biasgate.tasks.promoting.verify_version import verify_version
from biasgate.tasks.records import Decision


@dataclass(frozen=True)
class Accepts:
    """What a reset accepts."""

    sentences: Sequence[str]
    """What would not hold otherwise, such as entries that nobody signed."""
    digest: str
    """Of all entries, and of the verdicts that the reset rests on."""


def reset(
    model: str,
    version: str | None,
    reason: str,
    gateway: Gateway,
    agree: Callable[[Accepts], None] = lambda _: None,
) -> Decision:
    """Let the ledger say, from now on, that a version is champion, or that none is.

    The ledger is accepted as it is, even if entries were removed or are not signed. A person
    decides this: nothing is verified but the version's own verdicts, whoever signed them.

    Parameters
    ----------
    version : str or None
        The champion from now on; None for none.
    agree : callable, optional
        Is shown what the reset accepts, and raises an error if the person does not agree.
        Default: agree.

    Returns
    -------
    dict
        As `promote_version`.

    Raises
    ------
    NotVerifiedError
        If the verdicts of the version do not hold.
    InputError
        If there is no such model or version, or the ledger changed since it was shown.
    """
    require_known(model, gateway)
    ledger = Ledger(gateway, model)
    require_key(ledger)
    heal(ledger)
    chain = ledger.chain
    wrong = wrong_with(ledger, chain)
    verdicts: list[RestsOn] = []
    if version is not None:
        found = gateway.resolve(f"models:/{model}/{version}")
        ours = {"signature", "ledger"}
        findings = verify_version(found, gateway)
        require_held(found, [one for one in findings if one.what not in ours])
        wrong += [one.sentence for one in findings if not one.holds]
        verdicts, _ = recorded(found, gateway)
    agree(Accepts(wrong, json_digest([chain.all_digests, verdicts])))
    alias = gateway.alias(model, CHAMPION)
    move: Move = {
        "action": "reset",
        "replaces": alias.version if alias else "",
        "version": version or "",
        "rule": "by hand",
        "reason": reason,
        "verdicts": verdicts,
        "accepted": chain.all_digests,
    }
    with entered(ledger, move) as entry:
        take_turn(ledger, entry)
        entries = ledger.entries()
        ledger.refuse_closed(entry, entries)
        if Chain.of(entries).all_digests != chain.all_digests:
            msg = (
                f"the ledger {ledger.name} must stay as it was shown; it has changed since. Look "
                f"at `biasgate history {model}`, and run the reset again."
            )
            raise InputError(msg)
        claimed = ledger.claim(entry, chain)
        if version is not None:
            gateway.set_alias(model, CHAMPION, version)
        elif alias is not None:
            gateway.delete_alias(model, CHAMPION)
        done = ledger.close(claimed, "done", f"{CHAMPION} is {version or 'no version'}")
    remember(ledger, Chain([*chain.links, done]))
    now = f"models:/{model}/{version} is {CHAMPION}" if version else f"{model} has no {CHAMPION}"
    return decision("pass", f"{now} by entry {entry.number} of {ledger.name} ({reason}).")
