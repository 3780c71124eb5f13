"""A person says which version is champion, or that none is, and accepts the ledger as it is."""

from __future__ import annotations

from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.by_hand import recorded, require_held, require_known
from biasgate.tasks.promoting.champion import decision, take_turn
from biasgate.tasks.promoting.entries import Move, RestsOn
from biasgate.tasks.promoting.ledger import CHAMPION, Ledger
from biasgate.tasks.promoting.seen import remember
from biasgate.tasks.promoting.sound import require_key
from biasgate.tasks.promoting.verify_version import verify_version
from biasgate.tasks.records import Decision


def reset(model: str, version: str | None, reason: str, gateway: Gateway) -> Decision:
    """Let the ledger say, from now on, that a version is champion, or that none is.

    The ledger is accepted as it is, even if entries were removed or are not signed. A person
    decides this: nothing is verified but the version's own verdicts, whoever signed them.

    Returns
    -------
    dict
        As `promote_version`.

    Raises
    ------
    NotVerifiedError
        If the verdicts of the version do not hold.
    InputError
        If there is no such model or version.
    """
    require_known(model, gateway)
    ledger = Ledger(gateway, model)
    require_key(ledger)
    verdicts: list[RestsOn] = []
    if version is not None:
        found = gateway.resolve(f"models:/{model}/{version}")
        ours = {"signature", "ledger"}
        findings = verify_version(found, gateway)
        require_held(found, [one for one in findings if one.what not in ours])
        verdicts, _ = recorded(found, gateway)
    alias = gateway.alias(model, CHAMPION)
    move: Move = {
        "action": "reset",
        "replaces": alias.version if alias else "",
        "version": version or "",
        "rule": "by hand",
        "reason": reason,
        "verdicts": verdicts,
    }
    with ledger.open(move, verdicts[0]["run_id"] if verdicts else None) as entry:
        take_turn(ledger, entry)
        chain = ledger.chain
        entry.content["accepted"] = chain.all_digests
        claimed = ledger.claim(entry, chain)
        if version is not None:
            gateway.set_alias(model, CHAMPION, version)
        elif alias is not None:
            gateway.delete_alias(model, CHAMPION)
        ledger.close(claimed, "done", f"{CHAMPION} is {version or 'no version'}")
    remember(ledger, ledger.chain)
    now = f"models:/{model}/{version} is {CHAMPION}" if version else f"{model} has no {CHAMPION}"
    return decision("pass", f"{now} by entry {entry.number} of {ledger.name} ({reason}).")
