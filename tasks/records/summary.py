"""`summary.json`: how an evaluation ended."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import TypedDict

from bias_metrics.gate.judging import Outcome
from biasgate.tasks.records.verdict import LoggedVerdict


class Decision(TypedDict):
    """What became of a version.

    `rule` says which rule decided about one that passed; `champion_moved` that it was compared
    with what is no longer champion, and must be judged again.
    """

    outcome: Outcome
    promoted: bool
    champion_moved: bool
    rule: str | None
    report_only: bool
    sentence: str


class CandidateDecision(Decision):
    """What became of a candidate of an evaluation."""

    candidate: str


class Summary(TypedDict):
    """`summary.json`: how an evaluation ended."""

    evaluation: str
    outcome: Outcome
    outcome_of: list[str]
    report_only: bool
    run_id: str
    verdicts: list[LoggedVerdict]
    decisions: list[CandidateDecision]
    sentences: list[str]


class NightSummary(Summary):
    """The summary of a scheduled run, and the folder of its results."""

    output: str


@dataclass(frozen=True)
class Decided:
    """How an evaluation ended for its candidates.

    Attributes
    ----------
    verdicts : list of LoggedVerdict
        One for each candidate and set.
    decisions : list of CandidateDecision
        What became of each candidate.
    """

    verdicts: list[LoggedVerdict]
    decisions: list[CandidateDecision]
