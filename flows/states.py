"""How a flow ends: a block is a result, not a crash."""

from __future__ import annotations

from typing import Any

from prefect.client.schemas.objects import State
from prefect.states import Completed

from tasks.outcomes import word_of


def conclude(summary: dict[str, Any]) -> State[Any]:
    """Return the Completed state that names the outcome and carries the summary."""
    return Completed(
        name=word_of(summary).state, message=" ".join(summary["sentences"]), data=summary
    )
