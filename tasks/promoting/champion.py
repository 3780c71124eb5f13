"""The `champion` alias: it moves in a transaction, one promoter at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bias_metrics.gate.judging import Outcome
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.mlflow_server.versions import ModelVersion
from biasgate.tasks.promoting.ledger import Entry, Ledger, Move, RestsOn
from biasgate.tasks.records import Decision

CHAMPION, PREVIOUS = "champion", "previous_champion"


@dataclass(frozen=True)
class Transition:
    """A requested move of the alias.

    Attributes
    ----------
    action : {"promotion", "rollback"}
        Type of the move.
    version : ModelVersion
        The version to make champion.
    replaces : str or None
        The version that must be champion now; None if there must be none.
    verdicts : sequence of RestsOn
        The verdicts that it is based on.
    reason : str
        Why.
    rule : str
        The rule that decided: `newer`, `better`, `first`, or `by hand`.
    passed_over : sequence of str
        Versions that also passed, and are not promoted automatically from now on.
    """

    action: Literal["promotion", "rollback"]
    version: ModelVersion
    replaces: str | None
    verdicts: Sequence[RestsOn]
    reason: str
    rule: str = "by hand"
    passed_over: Sequence[str] = ()

    def content(self) -> Move:
        """Return the move as the ledger stores it."""
        return {
            "action": self.action,
            "replaces": self.replaces or "",
            "version": self.version.version,
            "rule": self.rule,
            "reason": self.reason,
            "passed_over": list(self.passed_over),
            "verdicts": list(self.verdicts),
        }


def move_champion(transition: Transition, gateway: Gateway) -> Decision:
    """Move the alias as a transaction: claim, check, move, read back, close.

    A process that dies meanwhile leaves an open entry in the ledger, which the next promoter
    closes (`heal`); the alias points to the old or the new version, never to anything else.

    Returns
    -------
    dict
        As `biasgate.tasks.promoting.decisions.promote`, without the candidate.
    """
    ledger = Ledger(gateway, transition.version.name)
    runs = [one["run_id"] for one in transition.verdicts]
    with ledger.open(transition.content(), runs[0] if runs else None) as entry:
        try:
            _take_turn(ledger, entry)
            champion = gateway.alias(ledger.model, CHAMPION)
            if (champion.version if champion else None) != transition.replaces:
                ledger.close(entry, "abandoned", f"{CHAMPION} had moved meanwhile")
                return moved_meanwhile(transition.version)
            ledger.refuse_closed(entry)
            gateway.set_alias(ledger.model, CHAMPION, transition.version.version)
            _read_back(gateway, transition.version)
            _complete(ledger, entry)
        except BaseException as error:
            _close_after(error, ledger, entry)
            raise
    sentence = moved(transition.version, transition.replaces, transition.reason)
    return decision("pass", sentence, promoted=True, rule=transition.rule)


def heal(ledger: Ledger) -> list[Entry]:
    """Close the entries whose owners have ended, depending on the alias; return them.

    If the alias has already moved, the promotion is completed.
    """
    stale = [one for one in ledger.entries() if one.state == "open" and one.is_stale]
    for entry in stale:
        _settle(ledger, entry)
    return stale


def _take_turn(ledger: Ledger, entry: Entry) -> None:
    """Wait until every earlier entry is closed, healing those whose owners have ended."""
    while before := ledger.open_before(entry.number):
        heal(ledger)
        ledger.wait_for(before)


def _settle(ledger: Ledger, entry: Entry) -> None:
    champion = ledger.gateway.alias(ledger.model, CHAMPION)
    if champion is not None and champion.version == entry.content["version"]:
        _complete(ledger, entry)
    else:
        ledger.close(entry, "abandoned", f"its owner ended before {CHAMPION} moved")


def _complete(ledger: Ledger, entry: Entry) -> None:
    """Record the previous champion and close the entry; safe to repeat."""
    if entry.content["replaces"]:
        ledger.gateway.set_alias(ledger.model, PREVIOUS, entry.content["replaces"])
    ledger.close(entry, "done", f"{CHAMPION} is version {entry.content['version']}")


def _close_after(error: BaseException, ledger: Ledger, entry: Entry) -> None:
    """Settle a failed entry if the registry answers; else the next run does it."""
    try:
        _settle(ledger, entry)
    except Exception as second:  # noqa: BLE001 - the first error is the one to report
        error.add_note(
            f"Entry {entry.number} of {ledger.name} stays open for the next run: {second}"
        )


def _read_back(gateway: Gateway, version: ModelVersion) -> None:
    moved = gateway.alias(version.name, CHAMPION)
    if moved is None or moved.version != version.version:
        msg = f"{CHAMPION} of {version.name} must be version {version.version} now; it is not."
        raise RuntimeError(msg)


def moved(version: ModelVersion, before: str | None, reason: str) -> str:
    """Return a sentence that says that the alias has moved, and why."""
    replaced = f"It replaced version {before}" if before else "There was none before"
    return f"{version.uri} is {CHAMPION} now. {replaced} ({reason})."


def moved_meanwhile(version: ModelVersion) -> Decision:
    """Return the decision on a version that was compared with a former champion."""
    sentence = f"{CHAMPION} of {version.name} moved while {version.uri} was judged."
    return decision("insufficient", sentence, champion_moved=True)


def decision(
    outcome: Outcome,
    sentence: str,
    *,
    promoted: bool = False,
    champion_moved: bool = False,
    rule: str | None = None,
    report_only: bool = False,
) -> Decision:
    """Return a decision as in `decisions.promote`, without the candidate's name."""
    return {
        "outcome": outcome,
        "promoted": promoted,
        "champion_moved": champion_moved,
        "rule": rule,
        "report_only": report_only,
        "sentence": sentence,
    }
