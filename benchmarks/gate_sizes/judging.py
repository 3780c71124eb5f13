"""One sample judged as an evaluation judges it, and what is kept of the verdict."""

from __future__ import annotations

import zlib
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.gate_sizes.populations import Line, sample
from bias_metrics import compare_bias, evaluate_bias
from bias_metrics.gate.outcome import read_number
from bias_metrics.gate.rules import LEAST_ROWS
from bias_metrics.gate.verdict import RuleResult
from bias_metrics.metrics import METRICS
from biasgate.tasks.evidence.file import FILE, EvidenceFile, EvidenceRecord
from biasgate.tasks.evidence.join import build_table
from biasgate.tasks.evidence.rows import EvidenceRows
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.policy_rules import NotMeasuredSettings
from biasgate.tasks.gating.verdict import build_verdict
from biasgate.tasks.records import (
    Bound,
    Choices,
    Compared,
    EvaluationSetRecord,
    LookFirst,
    ModelRecord,
    Report,
    ReportedChoices,
    Verdict,
)
from biasgate.tasks.records.numbers import CONFIDENCE

TODAY = date(2026, 1, 1)
Draw = dict[str, Any]
# Which rows of the identity a number compares.
_COMPARED = {
    "subgroup_auc": ("positive", "negative"),
    "bpsn_auc": ("negative",),
    "bnsp_auc": ("positive",),
    "positive_aeg": ("positive",),
    "negative_aeg": ("negative",),
}


def draw(line: Line, number: int, policy: Policy, folder: Path) -> Draw:
    """Draw one sample and judge it.

    Parameters
    ----------
    line : Line
        The population and the situation.
    number : int
        Of the sample; with the line's name it is the seed.
    policy : Policy
        The rules.
    folder : Path
        Where the evidence is written.

    Returns
    -------
    dict
        `outcome`; `excepted`, whether a pass has exceptions; `against`, the results that block;
        `alone`, the checks of identities that are judged in a category, each with the loss that is
        not excluded (None if there is no bound); `worse`, the cells shown to be worse by bounds
        that hold together. Both come with the fewest rows of the identity in a compared class.
    """
    name = " ".join([line.scores, line.situation.name, str(line.n_identities), str(line.n_rows)])
    rows = sample(line, np.random.default_rng([zlib.crc32(name.encode()), number]))
    verdict = judge(rows, listed(policy, rows, line.situation.group), folder)
    alone = [one for one in verdict.results if one.judged_in is not None]
    return {
        "outcome": verdict.outcome,
        "excepted": bool(verdict.exceptions),
        "named": sorted({entry.group or "" for entry in verdict.exceptions}),
        "holds_for": len(verdict.holds_for.identities),
        "against": [
            [one.rule, one.group, one.outcome]
            for one in verdict.results
            if one.is_counted and one.outcome != "pass"
        ],
        "alone": _losses(rows, alone, policy),
        "worse": [
            [
                cell.metric,
                cell.group,
                _rounded(cell.worse_by_at_least),
                _fewest(rows, cell),
            ]
            for cell in verdict.worsened
        ],
    }


def listed(policy: Policy, rows: EvidenceRows, harmed: str | None = None) -> Policy:
    """Return the policy with the identities that a sample cannot measure: by counts alone.

    But for the one that is `harmed`: a pass is not about an identity that is listed.
    """
    few = [
        name
        for name, mask in rows.members.items()
        if name != harmed
        and min((mask & rows.labels).sum(), (mask & ~rows.labels).sum()) < LEAST_ROWS
    ]
    entries = [NotMeasuredSettings(identity=name, reason="few", expires=TODAY) for name in few]
    return policy.model_copy(update={"not_measured": entries})


def judge(rows: EvidenceRows, policy: Policy, folder: Path) -> Verdict:
    """Return the verdict of an evaluation on some rows."""
    members = dict(rows.members.items())
    columns: dict[str, Any] = {"id": np.arange(rows.labels.size), "label": rows.labels}
    columns |= {f"identity/{name}": pa.array(mask) for name, mask in members.items()}
    columns |= {f"score/{role}": scores for role, scores in rows.scores.items()}
    if rows.clusters is not None:
        columns["cluster"] = rows.clusters
    n = rows.labels.size
    choices = Choices(
        label_threshold=0.5,
        identity_threshold=0.5,
        identity_rows="all",
        background="outside_subgroup",
        n_rows=n,
        n_rows_rated=n,
        n_rows_measured=n,
        confidence=CONFIDENCE,
        n_clusters=None,
    )
    no_files = Bound(what="nothing", digest=None, files=[], not_bound="Simulated.")
    record = EvidenceRecord(
        set_digest="set",
        choices=choices,
        power_mean_groups=None,
        scores={role: role for role in rows.scores},
        bound=dict.fromkeys(rows.scores, no_files),
    )
    path = folder / FILE
    pq.write_table(build_table(columns, record), path)
    candidate = rows.scores["candidate"]
    report = Report(
        schema_version=1,
        evaluation_set=EvaluationSetRecord(
            name="simulated",
            digest="set",
            choices=ReportedChoices(**vars(choices), split="all", source={}),
        ),
        candidate=ModelRecord(name="candidate", kind="scores", digest="candidate", bound=no_files),
        bias=evaluate_bias(rows.labels, candidate, members, intervals=False),
        harms={},
        thresholds={},
        look_first=LookFirst(subgroup=None, metric=None, sentence=""),
        warnings=[],
    )
    rivals = {"champion": Compared(name="champion", kind="scores")}
    return build_verdict(report, policy, EvidenceFile(path), rivals, n_candidates=1, today=TODAY)


def _losses(rows: EvidenceRows, alone: list[RuleResult], policy: Policy) -> list[list[Any]]:
    """Return each check's metric, group, category, loss that is not excluded, and fewest rows."""
    against = [one for one in alone if one.kind == "champion"]
    if not against:
        return []
    names = {str(one.group): rows.members[str(one.group)] for one in against}
    scores = rows.scores["candidate"], rows.scores["champion"]
    level = policy.decision_rules()[0].level
    compared = compare_bias(rows.labels, *scores, names, clusters=rows.clusters, confidence=level)
    found = []
    for one in against:
        is_gap = METRICS[one.metric].is_gap
        change = read_number(compared.subgroups[one.group][one.metric], is_gap=is_gap)
        bound = change.high if is_gap else change.low
        loss = bound if is_gap or bound is None else -bound
        found.append([one.metric, one.group, one.judged_in, _rounded(loss), _fewest(rows, one)])
    return found


def _fewest(rows: EvidenceRows, cell: Any) -> int:
    """Return the fewest rows of the identity in a class that a number compares."""
    inside = rows.members[cell.group]
    of_class = {"positive": inside & rows.labels, "negative": inside & ~rows.labels}
    return min(int(of_class[name].sum()) for name in _COMPARED[cell.metric])


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 5)
