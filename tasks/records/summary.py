"""`summary.json`: how an evaluation ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from bias_metrics.gate import Outcome
from biasgate.tasks.records.record import Record
from biasgate.tasks.records.verdict import LoggedVerdict

SpentBy = Literal["adaptive use", "selection"]


@dataclass(frozen=True, kw_only=True)
class Decision(Record):
    """The decision on a version.

    `rule` decided on a version that passed; `champion_moved` means that it was compared with a
    former champion, and must be judged again. `word` says the outcome with its identities, and
    `exceptions` what a pass leaves open and what limits the outcome.
    """

    outcome: Outcome
    promoted: bool
    champion_moved: bool
    rule: str | None
    report_only: bool
    sentence: str
    word: str | None = None
    exceptions: list[str] | None = None


@dataclass(frozen=True, kw_only=True)
class CandidateDecision(Decision):
    """The decision on a candidate of an evaluation."""

    candidate: str


@dataclass(frozen=True, kw_only=True)
class SetUse(Record):
    """How often an evaluation set was used, and how far the best candidate may be flattered by it.

    `flattered_by` is how much better the best of `n_candidates` equal candidates looks on the set
    than it is, in `objective`; `at_most` the same if the numbers of earlier candidates were used
    to build later ones. Both are null without a champion to tell the error from. `spent_by` says
    which of the two reaches the bound of the policy: `adaptive use`, or already `selection`.
    """

    name: str
    digest: str
    n_candidates: int
    n_tonight: int
    objective: str
    flattered_by: float | None
    at_most: float | None
    spent_by: SpentBy | None
    sentence: str

    @property
    def is_reused(self) -> bool:
        """Whether it has judged other candidates than those of this evaluation."""
        return self.n_candidates > self.n_tonight


@dataclass(frozen=True, kw_only=True)
class Summary(Record):
    """`summary.json`: how an evaluation ended.

    `store` says how many bytes each part of the store takes, and `total`. `config` is the path of
    the evaluation file, or the name of an included evaluation; `sample` is that of the command.
    `store_path` is where the store was, for commands that need it; empty if it is unknown.
    `moved` says of a night which identities moved by more than chance since earlier nights.
    """

    evaluation: str
    outcome: Outcome
    outcome_of: list[str]
    report_only: bool
    run_id: str
    verdicts: list[LoggedVerdict]
    decisions: list[CandidateDecision]
    sets: list[SetUse]
    store: dict[str, int]
    config: str
    sample: int | None = None
    store_path: str = ""
    moved: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class NightSummary(Summary):
    """The summary of a scheduled run, with the folder of its results."""

    output: str


@dataclass(frozen=True)
class Decided:
    """How an evaluation ended for its candidates."""

    verdicts: list[LoggedVerdict]
    """One for each candidate and set."""
    decisions: list[CandidateDecision]
    """The decision on each candidate."""

    def beside(self, failed: list[CandidateDecision]) -> Decided:
        """Return the same with candidates that could not be judged."""
        return Decided(self.verdicts, [*self.decisions, *failed])
