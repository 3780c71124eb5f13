"""What measuring one candidate on one set leaves for the steps that judge it."""

from __future__ import annotations

from dataclasses import dataclass

from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.measuring.arrays import Layout
from biasgate.tasks.records import Report
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
    rows, scores : str
        Folders of the frozen rows and of the scores.
    layout : Layout
        The ranked arrays.
    folder : str
        Where results go.
    report : Report
        As in `report.json`.
    """

    source: SourceSettings
    candidate: CandidateSettings
    rows: str
    scores: str
    layout: Layout
    folder: str
    report: Report
