"""What mitigated candidates gained and cost, compared with the candidate that was blocked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bias_metrics.mitigation import ALL
from biasgate.tasks.common.files import write_json
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.data.evaluation_set import RECORD
from biasgate.tasks.mitigating.blocked import Blocked
from biasgate.tasks.mitigating.costs import costs_of
from biasgate.tasks.mitigating.page import Row, Section, with_interval, write_page
from biasgate.tasks.mitigating.proposing import Proposal
from biasgate.tasks.records import CandidateDecision, Summary

REPORT, PAGE = "mitigation.json", "mitigation.html"
_WORST_SHOWN = 40


@task(name="report mitigation")
def report_mitigation(
    candidate: str,
    proposals: Sequence[Proposal],
    training_sets: dict[str, str],
    blocked: Blocked | None,
    summary: Summary | None,
    output: str,
) -> dict[str, Any]:
    """Write `mitigation.json` and `mitigation.html`; return the content. Safe to retry.

    Parameters
    ----------
    proposals : sequence of Proposal
        What each method proposed.
    training_sets : dict of str to str
        Folder of the frozen training set, by the name of the mitigated candidate.
    summary : Summary, optional
        How the evaluation of the mitigated candidates ended; None if there was none.
    """
    decisions = {} if summary is None else {one.candidate: one for one in summary.decisions}
    methods = [_method(one, training_sets, decisions) for one in proposals]
    costs = [] if blocked is None else _costs(blocked, methods, Path(output))
    content: dict[str, Any] = {
        "candidate": candidate,
        "from": None if blocked is None else vars(blocked) | {"folder": str(blocked.folder)},
        "methods": methods,
        "passed": [one["candidate"] for one in methods if one["outcome"] == "pass"],
        "promoted": [one["candidate"] for one in methods if one["promoted"]],
        "costs": costs,
    }
    content["sentences"] = _sentences(content)
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / REPORT, content)
    write_page(
        folder / PAGE, f"Mitigation of {candidate}", content["sentences"], _sections(content)
    )
    return content


def _method(
    one: Proposal, training_sets: dict[str, str], decisions: Mapping[str, CandidateDecision]
) -> Row:
    name = None if one.candidate is None else one.candidate.name
    found: Row = {
        "method": one.method,
        "candidate": name,
        "outcome": None,
        "promoted": False,
        "decision": None,
        "training_set_digest": None,
        "sentences": list(one.sentences),
    }
    if name is None:
        return found
    if name in training_sets:
        record = json.loads((Path(training_sets[name]) / RECORD).read_text("utf-8"))
        found["training_set_digest"] = record["digest"]
        found["sentences"] = record.get("mitigation", {}).get("sentences", found["sentences"])
        found["report"] = record.get("mitigation", {}).get("report")
    if name in decisions:
        decided = decisions[name]
        found |= {"outcome": decided.outcome, "promoted": decided.promoted}
        found["decision"] = decided.sentence
    return found


def _costs(blocked: Blocked, methods: Sequence[Row], output: Path) -> list[Row]:
    """Return every number before and after each method; what got worse most first."""
    found: list[Row] = []
    for one in methods:
        folder = output / blocked.evaluation_set / str(one["candidate"])
        if one["candidate"] is not None and (folder / "report.json").is_file():
            found += costs_of(blocked.folder, folder, one["method"])
    return sorted(found, key=lambda cost: -(cost["worse_by"]["value"] or 0.0))


def _sentences(content: dict[str, Any]) -> list[str]:
    tried = [one for one in content["methods"] if one["candidate"] is not None]
    passed = [one for one in tried if one["outcome"] == "pass"]
    names = ", ".join(f"{one['candidate']} ({one['method']})" for one in passed)
    first = f"Passed: {names}." if passed else "No method made the candidate pass."
    told = [f"{_worse_overall(content['costs'])}{first}"]
    told += [str(one["decision"]) for one in passed]
    if len(tried) > 1:
        told.append(
            f"{len(tried)} candidates were judged on the same comments: with each one more, chance "
            "has one more try. Confirm a pass on comments that were not used to choose."
        )
    worse: dict[str, Row] = {}
    for one in content["costs"]:
        if (one["worse_by"]["value"] or 0.0) > 0:
            worse.setdefault(one["method"], one)
    for one in content["methods"]:
        told += [f"{one['method']}: {sentence}" for sentence in one["sentences"]]
        if one["method"] in worse:
            cost = worse[one["method"]]
            told.append(
                f"{one['method']}, worst change: {cost['metric']} of {cost['identity']} from "
                f"{cost['before']:.3f} to {cost['after']:.3f}, worse by "
                f"{with_interval(cost['worse_by'])}."
            )
    return told


def _worse_overall(costs: Sequence[Row]) -> str:
    """Say which methods are shown to make a number of all comments worse; nothing if none is."""
    found = [
        f"{one['method']} makes {one['metric']} of all comments worse by "
        f"{with_interval(one['worse_by'])}"
        for one in costs
        if one["identity"] == ALL and (one["worse_by"].get("low") or 0.0) > 0
    ]
    return f"Worse: {'; '.join(found)}. " if found else ""


def _sections(content: dict[str, Any]) -> list[Section]:
    methods = [
        {key: one[key] for key in ("method", "candidate", "outcome", "promoted")}
        | {"digest of the training set": (one["training_set_digest"] or "")[:12]}
        for one in content["methods"]
    ]
    about = (
        f"Each number before and after, what got worse most first; all are in {REPORT}. Intervals "
        "are at 95 %, paired row by row, and allow for clusters. They are not adjusted for their "
        "number: some look worse by chance. Error rates are those at the threshold of equal errors "
        "of each candidate; how it was chosen is not in their intervals."
    )
    found = [Section("Methods", "", methods)]
    if content["costs"]:
        found.append(Section("What it costs", about, content["costs"][:_WORST_SHOWN]))
    return found
