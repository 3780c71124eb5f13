"""The results of an evaluation, read again from the folder that it wrote."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bias_metrics import BiasTable
from biasgate.tasks.common.errors import InputError
from biasgate.tasks.common.untrusted import read_record
from biasgate.tasks.evidence.file import FILE as EVIDENCE
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.records import Details, Report, Summary, Verdict
from biasgate.tasks.reporting.candidates import CandidateStory, rank_outcome
from biasgate.tasks.reporting.page.details import FILE as DETAILS
from biasgate.tasks.reporting.story import Story

SUMMARY, REPORT, VERDICT, PAGE = "summary.json", "report.json", "verdict.json", "report.html"


@dataclass(frozen=True)
class Published:
    """The published results of a candidate on a set."""

    folder: Path
    report: Report
    verdict: Verdict

    @property
    def names(self) -> tuple[str, str]:
        """The set and the candidate."""
        return self.verdict.evaluation_set.name, self.verdict.candidate.name

    @cached_property
    def story(self) -> Story:
        """The summary."""
        return Story.from_report(self.report, self.verdict, self.differences)

    @cached_property
    def differences(self) -> BiasTable | None:
        """The differences from the champion, if `details.json` has them for these rows."""
        path = self.folder / DETAILS
        return read_record(path, Details).champion if path.is_file() else None

    @property
    def evidence(self) -> EvidenceFile | None:
        """The rows and scores behind the verdict, if they were published."""
        path = self.folder / EVIDENCE
        return EvidenceFile(path) if path.is_file() else None


@dataclass(frozen=True)
class Results:
    """The results of an evaluation, or of a candidate on a set."""

    folder: Path
    summary: Summary | None
    """None for a single candidate on a set."""
    published: Sequence[Published]
    """The results by candidate and set."""

    @property
    def page(self) -> Path:
        """The page of the results."""
        return self.folder / PAGE

    @property
    def candidates(self) -> list[CandidateStory]:
        """The summaries of the candidates."""
        stories = [published.story for published in self.published]
        if self.summary is None:
            [only] = stories
            return [CandidateStory.from_story(only)]
        return CandidateStory.from_decisions(self.summary.decisions, stories)

    @property
    def worst(self) -> Published | None:
        """The results with the worst outcome, whose figures represent all."""
        return min(
            self.published, key=lambda published: rank_outcome(published.story), default=None
        )

    @property
    def store_path(self) -> str:
        """The store of the evaluation; empty if it is unknown."""
        if self.summary is not None:
            return self.summary.store_path
        path = self.folder.resolve().parent.parent / SUMMARY
        with suppress(InputError, OSError):
            return read_record(path, Summary).store_path
        return ""

    def content(self) -> Any:
        """Return what `--json` prints: `summary.json`, or `verdict.json` of a single candidate."""
        return self.published[0].verdict if self.summary is None else self.summary


def read_results(folder: Path) -> Results:
    """Read the results in the `--output` of an evaluation, or in SET/CANDIDATE in it.

    Raises
    ------
    InputError
        If the folder has no results, or biasgate did not write them.
    """
    if (folder / SUMMARY).exists():
        return load_results(read_record(folder / SUMMARY, Summary), folder)
    if (folder / REPORT).exists() and (folder / VERDICT).exists():
        verdict = read_record(folder / VERDICT, Verdict)
        return Results(folder, None, [_read_published(folder, verdict)])
    raise InputError(_explain_missing(folder))


def load_results(summary: Summary, folder: Path) -> Results:
    """Read the reports of a summary's verdicts."""
    published = []
    for verdict in summary.verdicts:
        names = verdict.evaluation_set.name, verdict.candidate.name
        place = folder.joinpath(*names)
        if place.resolve().parent.parent != folder.resolve():
            msg = f"{folder / SUMMARY} must name folders in {folder}; it names {place}."
            raise InputError(msg)
        published.append(_read_published(place, verdict))
    return Results(folder, summary, published)


def _read_published(folder: Path, verdict: Verdict) -> Published:
    path = folder / REPORT
    try:
        report = read_record(path, Report)
    except FileNotFoundError as error:
        msg = f"{path} must be there, since a summary or verdict names it; it is not."
        raise InputError(msg) from error
    return Published(folder, report, verdict)


def _explain_missing(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} must be the folder of an evaluation; it does not exist."
    below = sorted(path.parent for path in folder.glob(f"*/{SUMMARY}"))
    hint = f" The newest one in it is {below[-1]}." if below else ""
    return (
        f"{folder} must be the `--output` of an evaluation, or a folder SET/CANDIDATE in it; it "
        f"has neither {SUMMARY} nor {REPORT} with {VERDICT}.{hint}"
    )
