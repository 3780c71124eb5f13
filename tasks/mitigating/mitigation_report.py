"""What mitigated candidates gained and cost, compared with the candidate that was blocked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bias_metrics import Difference, MetricValue, error_rates
from bias_metrics.gate import Outcome
from bias_metrics.metrics import AEGS, AUCS
from bias_metrics.mitigation import ALL, RATES, rate_changes
from biasgate.tasks.common.files import write_json
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.data.evaluation_set import RECORD
from biasgate.tasks.evidence.beside import RIVAL, NotSameRowsError, beside
from biasgate.tasks.evidence.measure import Measuring
from biasgate.tasks.evidence.rows import CANDIDATE
from biasgate.tasks.mitigating.blocked import Blocked
from biasgate.tasks.mitigating.page import Section, with_interval, write_page
from biasgate.tasks.mitigating.proposing import Proposal
from biasgate.tasks.records import CandidateDecision, Differences, Summary, metric_cells
from biasgate.tasks.records.numbers import CONFIDENCE
from biasgate.tasks.records.record import Record
from biasgate.tasks.reporting.results import Published, read_results

REPORT, PAGE = "mitigation.json", "mitigation.html"
_WORST_SHOWN = 40
_METRICS = (*AUCS, *AEGS)


@dataclass(frozen=True, kw_only=True)
class Cost(Record):
    """A number of an identity before and after a method; `worse_by` above 0 is worse."""

    method: str
    identity: str
    metric: str
    before: float | None
    after: float | None
    worse_by: MetricValue


@dataclass(frozen=True, kw_only=True)
class Tried(Record):
    """What became of a method: its candidate, if it made one, and the decision on that.

    `report` and `sentences` say what the method did to the training set.
    """

    method: str
    candidate: str | None
    outcome: Outcome | None = None
    promoted: bool = False
    decision: str | None = None
    training_set_digest: str | None = None
    sentences: list[str]
    report: Any = None


@dataclass(frozen=True, kw_only=True)
class MitigationReport(Record):
    """`mitigation.json`: what the methods gained and cost.

    `blocked` is the candidate that did not pass, null if none was named; `costs` has every number
    before and after each method, what got worse most first.
    """

    candidate: str
    blocked: Blocked | None
    methods: list[Tried]
    passed: list[str]
    promoted: list[str]
    costs: list[Cost]
    sentences: list[str]


@task(name="report mitigation")
def report_mitigation(
    candidate: str,
    proposals: Sequence[Proposal],
    training_sets: dict[str, str],
    blocked: Blocked | None,
    summary: Summary | None,
    output: str,
) -> MitigationReport:
    """Write `mitigation.json` and `mitigation.html`; return the content. Safe to retry.

    `training_sets`: folder of the frozen training set, by the name of the mitigated candidate.
    `summary`: how the evaluation of the mitigated candidates ended; None if there was none.
    """
    decisions = (
        {} if summary is None else {decision.candidate: decision for decision in summary.decisions}
    )
    methods = [_tried(proposal, training_sets, decisions) for proposal in proposals]
    costs = [] if blocked is None else _costs(blocked, methods, Path(output))
    report = MitigationReport(
        candidate=candidate,
        blocked=blocked,
        methods=methods,
        passed=[str(method.candidate) for method in methods if method.outcome == "pass"],
        promoted=[str(method.candidate) for method in methods if method.promoted],
        costs=costs,
        sentences=_sentences(methods, costs),
    )
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / REPORT, report)
    write_page(
        folder / PAGE, f"Mitigation of {candidate}", report.sentences, _sections(methods, costs)
    )
    return report


def _tried(
    proposal: Proposal,
    training_sets: dict[str, str],
    decisions: Mapping[str, CandidateDecision],
) -> Tried:
    sentences = list(proposal.sentences)
    if proposal.candidate is None:
        return Tried(method=proposal.method, candidate=None, sentences=sentences)
    name = proposal.candidate.name
    found = Tried(method=proposal.method, candidate=name, sentences=sentences)
    if name in training_sets:
        record = json.loads((Path(training_sets[name]) / RECORD).read_text("utf-8"))
        made = record.get("mitigation", {})
        found = replace(
            found,
            training_set_digest=record["digest"],
            sentences=made.get("sentences", sentences),
            report=made.get("report"),
        )
    if name in decisions:
        decided = decisions[name]
        found = replace(
            found,
            outcome=decided.outcome,
            promoted=decided.promoted,
            decision=decided.sentence,
        )
    return found


def _costs(blocked: Blocked, methods: Sequence[Tried], output: Path) -> list[Cost]:
    """Return every number before and after each method; what got worse most first."""
    found: list[Cost] = []
    for method in methods:
        folder = output / blocked.evaluation_set / str(method.candidate)
        if method.candidate is not None and (folder / "report.json").is_file():
            found += costs_of(Path(blocked.folder), folder, method.method)
    return sorted(found, key=lambda cost: -(cost.worse_by.value or 0.0))


def _sentences(methods: Sequence[Tried], costs: Sequence[Cost]) -> list[str]:
    tried = [method for method in methods if method.candidate is not None]
    passed = [one for one in tried if one.outcome == "pass"]
    names = ", ".join(f"{one.candidate} ({one.method})" for one in passed)
    first = f"Passed: {names}." if passed else "No method made the candidate pass."
    told = [f"{_worse_overall(costs)}{first}"]
    told += [str(one.decision) for one in passed]
    if len(tried) > 1:
        told.append(
            f"{len(tried)} candidates were judged on the same comments: with each one more, chance "
            "has one more try. Confirm a pass on comments that were not used to choose."
        )
    worst: dict[str, Cost] = {}
    for cost in costs:
        if (cost.worse_by.value or 0.0) > 0:
            worst.setdefault(cost.method, cost)
    for method in methods:
        told += [f"{method.method}: {sentence}" for sentence in method.sentences]
        if method.method in worst:
            cost = worst[method.method]
            told.append(
                f"{method.method}, worst change: {cost.metric} of {cost.identity} from "
                f"{cost.before:.3f} to {cost.after:.3f}, worse by {with_interval(cost.worse_by)}."
            )
    return told


def _worse_overall(costs: Sequence[Cost]) -> str:
    """Say which methods are shown to make a number of all comments worse; nothing if none is."""
    found = [
        f"{cost.method} makes {cost.metric} of all comments worse by {with_interval(cost.worse_by)}"
        for cost in costs
        if cost.identity == ALL and (cost.worse_by.low or 0.0) > 0
    ]
    return f"Worse: {'; '.join(found)}. " if found else ""


def _sections(methods: Sequence[Tried], costs: Sequence[Cost]) -> list[Section]:
    tried = [
        {
            "method": method.method,
            "candidate": method.candidate,
            "outcome": method.outcome,
            "promoted": method.promoted,
            "digest of the training set": (method.training_set_digest or "")[:12],
        }
        for method in methods
    ]
    about = (
        f"Each number before and after, what got worse most first; all are in {REPORT}. Intervals "
        "are at 95 %, paired row by row, and allow for clusters. They are not adjusted for their "
        "number: some look worse by chance. Error rates are those at the threshold of equal errors "
        "of each candidate; how it was chosen is not in their intervals."
    )
    found = [Section("Methods", "", tried)]
    if costs:
        found.append(Section("What it costs", about, [vars(cost) for cost in costs[:_WORST_SHOWN]]))
    return found


def costs_of(before: Path, after: Path, method: str) -> list[Cost]:
    """Compare the results of a candidate with those of a mitigated one; worst change first.

    The overall AUC, five metrics of each identity, and the error rates of all rows and of each
    identity, each candidate at its own threshold of equal errors. Intervals are paired, row by
    row, and allow for clusters.
    """
    [first], [second] = read_results(before).each, read_results(after).each
    measuring = _paired(first, second)
    compared = None if measuring is None else measuring.evidence(CONFIDENCE).champion
    differences = None if compared is None else Differences.from_dict(compared)
    bias, other = first.report.bias, second.report.bias
    overall = None if differences is None else differences.overall.auc
    found = [_cost(method, ALL, "auc", bias.overall.auc, other.overall.auc, overall)]
    for name, cells in bias.subgroups.items():
        ours, theirs = metric_cells(cells), metric_cells(other.subgroups[name])
        for metric in _METRICS:
            change = None if differences is None else differences.subgroups[name][metric]
            found.append(_cost(method, name, metric, ours[metric], theirs[metric], change))
    return found if measuring is None else [*found, *_rates(first, second, measuring, method)]


def _paired(first: Published, second: Published) -> Measuring | None:
    """Return the rows with both scores; None if they are not the same rows."""
    if first.evidence is None or second.evidence is None:
        return None
    try:
        return beside(second.evidence, first.evidence)
    except NotSameRowsError:
        return None


def _cost(
    method: str,
    identity: str,
    metric: str,
    before: MetricValue,
    after: MetricValue,
    difference: Difference | None,
) -> Cost:
    low, high = None, None
    if before.value is None or after.value is None:
        worse = MetricValue(None, reason=before.reason or after.reason)
    else:
        if difference is not None:
            low, high = difference.low, difference.high
            if metric in AEGS:
                low, high = difference.size_low, difference.size_high
            elif low is not None and high is not None:
                low, high = -high, -low
        worse = MetricValue(harm(metric, before.value, after.value), low=low, high=high)
    return Cost(
        method=method,
        identity=identity,
        metric=metric,
        before=before.value,
        after=after.value,
        worse_by=worse,
    )


def _rates(first: Published, second: Published, measuring: Measuring, method: str) -> list[Cost]:
    """Return the error rates of all rows and of each identity, without weights."""
    rows = measuring.rows
    thresholds = [
        published.report.thresholds["equal_errors"].threshold for published in (first, second)
    ]
    scores = rows.scores[RIVAL], rows.scores[CANDIDATE]
    if rows.weights is not None or None in thresholds:
        return []
    masks = {name: np.asarray(rows.members[name]) for name in rows.members}
    before, after = (score >= at for score, at in zip(scores, thresholds, strict=True))
    changes = rate_changes(rows.labels, before, after, masks, clusters=rows.clusters)
    found = []
    for name, cells in changes.items():
        mask = masks.get(name, np.ones(rows.labels.size, dtype=bool))
        both = [
            error_rates(rows.labels[mask], score[mask], threshold=at)
            for score, at in zip(scores, thresholds, strict=True)
        ]
        for rate in RATES:
            earlier, later = (rates.rate(rate).value for rates in both)
            found.append(
                Cost(
                    method=method,
                    identity=name,
                    metric=rate,
                    before=earlier,
                    after=later,
                    worse_by=cells[rate],
                )
            )
    return found


def harm(metric: str, before: float, after: float) -> float:
    """Return by how much a number became worse: above 0 is worse, whatever the metric."""
    if metric in AEGS:
        return abs(after) - abs(before)
    return before - after if metric in AUCS or metric == "auc" else after - before
