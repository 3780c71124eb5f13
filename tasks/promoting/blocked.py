"""Versions that did not pass are written to the ledger: their earlier verdicts do not count."""

from __future__ import annotations

from collections.abc import Sequence

from bias_metrics.gate import worst
from biasgate.tasks.mlflow_server.runs import Gateway
from biasgate.tasks.promoting.champion import record
from biasgate.tasks.promoting.entries import Move, RestsOn
from biasgate.tasks.promoting.ledger import Ledger
from biasgate.tasks.promoting.succession import Judged
from biasgate.tasks.records import LoggedVerdict
from biasgate.tasks.reporting.story import word_of_verdict
from biasgate.tasks.signing.statement import verdict_digest


def record_blocked(judged: Sequence[Judged], model: str, gateway: Gateway) -> None:
    """Write to the ledger which versions did not pass.

    From then on their earlier verdicts do not count, even if somebody puts them back.
    """
    blocked = [
        one
        for one in judged
        if one.version is not None
        and one.version.name == model
        and worst([verdict.outcome for verdict in one.verdicts]) != "pass"
    ]
    if not blocked:
        return
    move: Move = {
        "action": "blocked",
        "replaces": "",
        "version": "",
        "reason": "did not pass: " + ", ".join(map(_named, blocked)),
        "verdicts": [rests_on(verdict) for one in blocked for verdict in one.verdicts],
        "blocked": [str(one.number) for one in blocked],
    }
    record(Ledger(gateway, model), move, "earlier verdicts of these versions do not count")


def _named(judged: Judged) -> str:
    return f"{judged.candidate} ({word_of_verdict(*judged.verdicts).text})"


def rests_on(verdict: LoggedVerdict) -> RestsOn:
    """Return how the ledger names a verdict."""
    return {
        "set": verdict.evaluation_set.name,
        "run_id": verdict.run_id,
        "digest": verdict_digest(verdict),
    }
