"""How a flow ends: a block is a result, not a crash."""

from __future__ import annotations

from typing import Any

from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from biasgate.tasks.common.outcomes import word_of
from biasgate.tasks.records import Summary


def conclude(summary: Summary, *, fail_when_blocked: bool = False) -> State[Any]:
    """Return the state that names the outcome and carries the summary.

    It is Completed. With `fail_when_blocked` it is Failed if the outcome is not a pass.
    """
    state = Failed if fail_when_blocked and summary["outcome"] != "pass" else Completed
    return state(name=word_of(summary).state, message=" ".join(summary["sentences"]), data=summary)
