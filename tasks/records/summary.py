"""`summary.json`: the outcome of an evaluation."""

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

    `rule` is the promotion rule that decided on a version that passed. If `champion_moved`, the
    version was compared with a former champion and must be judged again. `word` is the outcome with
    its identities; `exceptions` are limitations of a pass and of the outcome.
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
    """The uses of an evaluation set, and the resulting optimism for the best candidate.

    `flattered_by` is the expected optimism of `objective` for the best of `n_candidates` equal
    candidates on the set. `at_most` is its bound if the numbers of earlier candidates were used to
    build later candidates. Both are null without a champion to estimate the standard error from.
    `spent_by` names the value that reaches the limit of the policy: `adaptive use` for `at_most`
    only, `selection` for both.
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
        """True if the set has also judged candidates of other evaluations."""
        return self.n_candidates > self.n_tonight


@dataclass(frozen=True, kw_only=True)
class Summary(Record):
    """`summary.json`: the outcome of an evaluation.

    `store` is the size of each part of the store in bytes, with `total`. `config` is the path of
    the evaluation file, or the name of an included evaluation. `sample` is the option of the
    command. `store_path` is the folder of the store, for commands that need it; empty if unknown.
    `moved` has sentences about identities with significant changes since earlier nights.
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
    """The verdicts and decisions of an evaluation."""

    verdicts: list[LoggedVerdict]
    """A verdict for each candidate and set."""
    decisions: list[CandidateDecision]
    """A decision for each candidate."""

    def add_failed(self, failed: list[CandidateDecision]) -> Decided:
        """Add the decisions on candidates that could not be judged."""
        return Decided(self.verdicts, [*self.decisions, *failed])
