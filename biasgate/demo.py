"""The demo: a model trained on biased labels is blocked, its balanced twin becomes champion."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from biasgate.tasks.records import Summary

CONFIG = "demo"
BIASED, BALANCED = "biased_labels", "balanced_labels"
PLANTED = {"gay", "muslim"}


def store_of(output: Path) -> Path:
    """Return the store of the demo, beside its results."""
    return Path(f"{output if output.name else output.resolve()}-store")


def unexpected(summary: Summary) -> str | None:
    """Return what the demo failed to show; None if all verdicts are as expected.

    The balanced candidate should pass and become champion. The other one should be blocked only for
    the planted identities.
    """
    outcomes = {decision.candidate: decision.outcome for decision in summary.decisions}
    if outcomes[BALANCED] != "pass":
        return f"{BALANCED} should pass; its verdict is {outcomes[BALANCED]}."
    if outcomes[BIASED] != "fail":
        return f"{BIASED} should be blocked; its verdict is {outcomes[BIASED]}."
    blamed = {
        result.group
        for verdict in summary.verdicts
        if verdict.candidate.name == BIASED
        for result in verdict.results
        if result.outcome == "fail" and result.group is not None
    }
    if blamed != PLANTED:
        return (
            f"{BIASED} should be blocked for {sorted(PLANTED)}; it is blocked for {sorted(blamed)}."
        )
    return None
