"""What measuring one candidate on one set leaves for the steps that judge it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.scoring.candidate import CandidateSettings


@dataclass(frozen=True)
class Measured:
    """One candidate on one set: its report, and where its files are.

    Attributes
    ----------
    source : SourceSettings
        The set, as the evaluation file has it.
    candidate : CandidateSettings
        The candidate, pinned to its version.
    rows, scores, layout : str
        Folders of the frozen rows, the scores and the ranked arrays.
    folder : str
        Where results go.
    report : dict
        As in `report.json`.
    """

    source: SourceSettings
    candidate: CandidateSettings
    rows: str
    scores: str
    layout: str
    folder: str
    report: dict[str, Any]
