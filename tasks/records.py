"""What the pipeline writes down, and hands from step to step as it will be written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Decided:
    """How an evaluation ended for its candidates.

    Attributes
    ----------
    verdicts : list of dict
        One for each candidate and set, as in `verdict.json`, with its `run_id`.
    decisions : list of dict
        What became of each candidate.
    """

    verdicts: list[dict[str, Any]]
    decisions: list[dict[str, Any]]
