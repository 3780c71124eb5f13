"""The result of measuring one candidate on one set, for the steps that judge it."""

from __future__ import annotations

from dataclasses import dataclass

from biasgate.tasks.data.source import SourceSettings
from biasgate.tasks.records import Report
from biasgate.tasks.scoring.candidate import CandidateSettings


@dataclass(frozen=True)
class Measured:
    """One candidate on one set: its report and its files."""

    source: SourceSettings
    """The set, as in the evaluation file."""
    candidate: CandidateSettings
    """The candidate, pinned to its version."""
    rows: str
    scores: str
    """Folders of the frozen rows and the scores."""
    folder: str
    """Folder for the results, with the evidence."""
    report: Report
    """As in `report.json`."""
