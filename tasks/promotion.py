"""Last step: the `champion` alias, which moves only on a pass, one promoter at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from bias_metrics.gate import worst
from tasks.ledger import Entry, Ledger
from tasks.mlflow_gateway import Gateway
from tasks.mlflow_registry import ModelVersion
from tasks.orchestration import say, task
from tasks.scoring.candidate import Workplace
from tasks.verdicts import tags_of, verdict_digest

CHAMPION, PREVIOUS = "champion", "previous_champion"


@dataclass(frozen=True)
class Transition:
    """A move of the alias that somebody asks for.

    Attributes
    ----------
    action : {"promotion", "rollback"}
        What it is.
    version : ModelVersion
        The version that shall be champion.
    replaces : str or None
        The version that must be champion now; None if there must be none.
    verdicts : sequence of mapping
        `set`, `run_id` and `digest` of each verdict that it rests on.
    reason : str
        Why.
    """

    action: Literal["promotion", "rollback"]
    version: ModelVersion
    replaces: str | None
    verdicts: Sequence[Mapping[str, Any]]
    reason: str

    def content(self) -> dict[str, Any]:
        """Return what the ledger keeps of it."""
        return {
            "action": self.action,
            "replaces": self.replaces or "",
            "version": self.version.version,
            "reason": self.reason,
            "verdicts": [dict(one) for one in self.verdicts],
        }


def promote(
    verdicts: Sequence[Mapping[str, Any]],
    version: ModelVersion | None,
    registered_model: str | None,
    gateway: Gateway,
    *,
    allow_first: bool,
) -> dict[str, Any]:
    """Move `champion` to a version whose verdicts allow it; say what was done and why.

    Parameters
    ----------
    verdicts : sequence of mapping
        The candidate's verdicts on the sets that are required.
    version : ModelVersion or None
        The registered version behind the candidate.
    registered_model : str or None
        The model whose alias is guarded.
    gateway : Gateway
        Registry.
    allow_first : bool
        Whether there need not be a champion yet.

    Returns
    -------
    dict
        `outcome`, `promoted`, a `sentence`, and `champion_moved`: whether the candidate was
        compared with what is no longer champion, and is to be judged again.
    """
    outcome = worst([verdict["outcome"] for verdict in verdicts])
    if any(verdict["policy"]["report_only"] for verdict in verdicts):
        return _decision("pass", f"Reported only: the verdict would be {outcome}.")
    if version is None or registered_model is None:
        return _decision(outcome, "Not a registered version: nothing to promote.")
    if version.name != registered_model:
        sentence = f"{version.uri} is not a version of {registered_model}: not promoted."
        return _decision(outcome, sentence)
    if outcome != "pass":
        return _decision(outcome, f"{CHAMPION} of {registered_model} stays where it is.")
    return _replace(verdicts, version, gateway, allow_first=allow_first)


def _replace(
    verdicts: Sequence[Mapping[str, Any]],
    version: ModelVersion,
    gateway: Gateway,
    *,
    allow_first: bool,
) -> dict[str, Any]:
    """Replace the champion that a version was compared with, if it still is champion."""
    champion = gateway.alias(version.name, CHAMPION)
    compared = {(verdict["champion"] or {}).get("model") for verdict in verdicts}
    if compared != {champion.uri if champion else None}:
        return _moved_meanwhile(version)
    if champion is not None and champion.version == version.version:
        return _decision("pass", f"{version.uri} is {CHAMPION} already.")
    if champion is None and not allow_first:
        sentence = (
            f"{version.name} has no {CHAMPION} to compare with, and the policy does not say "
            "`allow_first: true`."
        )
        return _decision("insufficient", sentence)
    rests_on = [
        {
            "set": verdict["evaluation_set"]["name"],
            "run_id": verdict["run_id"],
            "digest": verdict_digest(verdict),
        }
        for verdict in verdicts
    ]
    replaces = champion.version if champion else None
    reason = "passed on " + ", ".join(one["set"] for one in rests_on)
    return move_champion(Transition("promotion", version, replaces, rests_on, reason), gateway)


def move_champion(transition: Transition, gateway: Gateway) -> dict[str, Any]:
    """Move the alias as a transaction: claim, check, move, read back, close.

    Whatever dies on the way leaves an open entry in the ledger, which the next promoter
    closes (`heal`); the alias is at either end of the transition and nowhere else.

    Returns
    -------
    dict
        As `promote`.
    """
    ledger = Ledger(gateway, transition.version.name)
    runs = [one["run_id"] for one in transition.verdicts]
    with ledger.open(transition.content(), runs[0] if runs else None) as entry:
        try:
            _take_turn(ledger, entry)
            champion = gateway.alias(ledger.model, CHAMPION)
            if (champion.version if champion else None) != transition.replaces:
                ledger.close(entry, "abandoned", f"{CHAMPION} had moved meanwhile")
                return _moved_meanwhile(transition.version)
            ledger.refuse_closed(entry)
            gateway.set_alias(ledger.model, CHAMPION, transition.version.version)
            _read_back(gateway, transition.version)
            _complete(ledger, entry)
        except BaseException as error:
            _close_after(error, ledger, entry)
            raise
    before = f"before: version {transition.replaces}" if champion else "there was none before"
    sentence = f"{transition.version.uri} is {CHAMPION} now ({before})."
    return _decision("pass", sentence, promoted=True)


def heal(ledger: Ledger) -> list[Entry]:
    """Close the entries whose owners are gone, by what the alias says; return them.

    Where the alias had moved already, the rest of the promotion is done.
    """
    stale = [one for one in ledger.entries() if one.state == "open" and one.is_stale]
    for entry in stale:
        _settle(ledger, entry)
    return stale


def _take_turn(ledger: Ledger, entry: Entry) -> None:
    """Wait until every earlier entry is closed, healing those whose owners are gone."""
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
    """Keep the previous champion and close the entry; may be done again."""
    if entry.content["replaces"]:
        ledger.gateway.set_alias(ledger.model, PREVIOUS, entry.content["replaces"])
    ledger.close(entry, "done", f"{CHAMPION} is version {entry.content['version']}")


def _close_after(error: BaseException, ledger: Ledger, entry: Entry) -> None:
    """Settle an entry that failed, if the registry still answers; else the next run does."""
    try:
        _settle(ledger, entry)
    except Exception as second:  # noqa: BLE001 - the first error is the one to tell
        error.add_note(f"The open entry {entry.number} of {ledger.name} is left to heal: {second}")


def _read_back(gateway: Gateway, version: ModelVersion) -> None:
    moved = gateway.alias(version.name, CHAMPION)
    if moved is None or moved.version != version.version:
        msg = f"{CHAMPION} of {version.name} must be version {version.version} now; it is not."
        raise RuntimeError(msg)


def _moved_meanwhile(version: ModelVersion) -> dict[str, Any]:
    sentence = f"{CHAMPION} of {version.name} moved while {version.uri} was judged."
    return _decision("insufficient", sentence, champion_moved=True)


def _decision(
    outcome: str, sentence: str, *, promoted: bool = False, champion_moved: bool = False
) -> dict[str, Any]:
    return {
        "outcome": outcome,
        "promoted": promoted,
        "champion_moved": champion_moved,
        "sentence": sentence,
    }


@task(name="promote candidate", task_run_name="promote {candidate[name]}")
def promote_candidate(
    candidate: dict[str, Any],
    verdicts: list[dict[str, Any]],
    evaluation: dict[str, Any],
    store: str,
) -> dict[str, Any]:
    """Write the verdicts to the model version, then move the alias if they allow it.

    Safe to retry: a version that is champion already is left alone.
    """
    gateway = Workplace.at(store).gateway
    version = gateway.resolve(candidate["model"]) if candidate.get("model") else None
    if version is not None:
        gateway.tag_version(version, tags_of(verdicts))
    decision = promote(
        [one for one in verdicts if one["evaluation_set"]["required"]],
        version,
        evaluation["registered_model"],
        gateway,
        allow_first=evaluation["policy"]["allow_first"],
    )
    say(f"{candidate['name']}: {decision['sentence']}", aside=True)
    return {"candidate": candidate["name"]} | decision
