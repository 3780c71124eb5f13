"""The demo: a model trained on biased labels is blocked, its balanced twin becomes champion."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from biasgate.tasks.records import Summary

CONFIG = "demo"
STRENGTH = "BIASGATE_DEMO_STRENGTH"
BIASED, BALANCED = "biased_labels", "balanced_labels"
PLANTED = {"gay", "muslim"}
# Below this strength the planted bias may be too weak for the policy's floors; at 0 there is
# none. Between the two either verdict is as expected.
SURELY_BLOCKED = 0.6


def set_strength(strength: float) -> None:
    """Set the share of harmless mentions that the simulated annotators take for insults."""
    os.environ[STRENGTH] = str(strength)


def unexpected(summary: Summary, strength: float) -> str | None:
    """Return what the demo failed to show; None if all verdicts are as expected.

    The balanced candidate should pass and become champion. The other one should pass if no bias
    was planted, and be blocked only for the planted identities if much was.
    """
    outcomes = {decision.candidate: decision.outcome for decision in summary.decisions}
    if outcomes[BALANCED] != "pass":
        return f"{BALANCED} should pass; its verdict is {outcomes[BALANCED]}."
    if strength == 0 and outcomes[BIASED] != "pass":
        return f"{BIASED} should pass with nothing planted; its verdict is {outcomes[BIASED]}."
    if strength < SURELY_BLOCKED:
        return None
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
