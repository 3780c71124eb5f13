"""What mitigated candidates gained and cost, compared with the candidate that was blocked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bias_metrics.metrics import AEGS, AUCS
from biasgate.tasks.common.files import write_json
from biasgate.tasks.common.prefect_task import task
from biasgate.tasks.data.evaluation_set import RECORD
from biasgate.tasks.mitigating.blocked import Blocked
from biasgate.tasks.mitigating.measuring import harm
from biasgate.tasks.mitigating.page import Row, Section, write_page
from biasgate.tasks.mitigating.proposing import Proposal
from biasgate.tasks.records import Report, Summary, metric_cells

REPORT, PAGE = "mitigation.json", "mitigation.html"
_METRICS = (*AUCS, *AEGS)
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
    candidate : str
        Name of the candidate that was mitigated.
    proposals : sequence of Proposal
        What each method proposed.
    training_sets : dict of str to str
        Folder of the frozen training set, by the name of the mitigated candidate.
    blocked : Blocked, optional
        Results of the candidate before.
    summary : Summary, optional
        How the evaluation of the mitigated candidates ended; None if there was none.
    output : str
        Folder of the results.
    """
    decisions = {} if summary is None else {one["candidate"]: one for one in summary["decisions"]}
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


def _method(one: Proposal, training_sets: dict[str, str], decisions: dict[str, Any]) -> Row:
    name = None if one.candidate is None else one.candidate.name
    found: Row = {
        "method": one.method,
        "candidate": name,
        "outcome": None,
        "promoted": False,
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
        found |= {key: decisions[name][key] for key in ("outcome", "promoted")}
    return found


def _report(folder: Path) -> Report:
    found: Report = json.loads((folder / "report.json").read_text("utf-8"))
    return found


def _costs(blocked: Blocked, methods: Sequence[Row], output: Path) -> list[Row]:
    """Return every number before and after; what got worse most first."""
    before = _report(blocked.folder)
    found = []
    for one in methods:
        folder = output / blocked.evaluation_set / str(one["candidate"])
        if one["candidate"] is None or not (folder / "report.json").is_file():
            continue
        after = _report(folder)
        pairs = {
            ("all", "auc"): (before["bias"]["overall"]["auc"], after["bias"]["overall"]["auc"])
        }
        for name, cells in before["bias"]["subgroups"].items():
            theirs = metric_cells(after["bias"]["subgroups"][name])
            ours = metric_cells(cells)
            pairs |= {(name, metric): (ours[metric], theirs[metric]) for metric in _METRICS}
        for (name, metric), (first, second) in pairs.items():
            values = first["value"], second["value"]
            known = None not in values
            found.append(
                {
                    "method": one["method"],
                    "identity": name,
                    "metric": metric,
                    "before": values[0],
                    "after": values[1],
                    "worse_by": harm(metric, *values) if known else None,  # type: ignore[arg-type]
                }
            )
    return sorted(found, key=lambda cost: -(cost["worse_by"] or 0.0))


def _sentences(content: dict[str, Any]) -> list[str]:
    tried = [one for one in content["methods"] if one["candidate"] is not None]
    passed = [one for one in tried if one["outcome"] == "pass"]
    names = ", ".join(f"{one['candidate']} ({one['method']})" for one in passed)
    first = f"Passed: {names}." if passed else "No method made the candidate pass."
    told = [first]
    if content["promoted"]:
        told.append(f"Champion now: {', '.join(content['promoted'])}.")
    if len(tried) > 1:
        told.append(
            f"{len(tried)} candidates were judged on the same comments: with each one more, chance "
            "has one more try. Confirm a pass on comments that were not used to choose."
        )
    worse: dict[str, Row] = {}
    for one in content["costs"]:
        if one["worse_by"] is not None and one["worse_by"] > 0:
            worse.setdefault(one["method"], one)
    for one in content["methods"]:
        told += [f"{one['method']}: {sentence}" for sentence in one["sentences"]]
        if one["method"] in worse:
            cost = worse[one["method"]]
            told.append(
                f"{one['method']}, worst change: {cost['metric']} of {cost['identity']} from "
                f"{cost['before']:.3f} to {cost['after']:.3f}."
            )
    return told


def _sections(content: dict[str, Any]) -> list[Section]:
    methods = [
        {key: one[key] for key in ("method", "candidate", "outcome", "promoted")}
        | {"digest of the training set": (one["training_set_digest"] or "")[:12]}
        for one in content["methods"]
    ]
    about = "Each number before and after, what got worse most first. Differences have no interval."
    found = [Section("Methods", "", methods)]
    if content["costs"]:
        found.append(Section("What it costs", about, content["costs"][:_WORST_SHOWN]))
    return found
