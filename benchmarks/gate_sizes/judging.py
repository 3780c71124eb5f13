"""Verdicts of single samples, by the code of an evaluation, and the parts that are saved."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from support.judging import CHOICES, evidence_of, report_of

from benchmarks.gate_sizes.populations import REAL, Line, draw_rows
from bias_metrics import compare_bias, evaluate_bias
from bias_metrics.gate.outcome import read_number
from bias_metrics.gate.rules import LEAST_ROWS
from bias_metrics.gate.verdict import RuleResult
from bias_metrics.metrics import METRICS
from biasgate.tasks.evidence.rows import EvidenceRows
from biasgate.tasks.gating.policy import Policy
from biasgate.tasks.gating.policy_rules import NotMeasuredSettings
from biasgate.tasks.gating.verdict import build_verdict
from biasgate.tasks.records import Compared, Verdict

TODAY = date(2026, 1, 1)
Draw = dict[str, Any]
# Classes of the identity's rows that a number compares.
_COMPARED = {
    "subgroup_auc": ("positive", "negative"),
    "bpsn_auc": ("negative",),
    "bnsp_auc": ("positive",),
    "positive_aeg": ("positive",),
    "negative_aeg": ("negative",),
}


def judge_draw(line: Line, number: int, policy: Policy, folder: Path) -> Draw:
    """Draw a sample and judge it.

    The seed is the line's name with the number of the sample. Evidence is written to the folder.

    Returns
    -------
    dict
        `outcome`; `excepted`, true if a pass has exceptions; `against`, the results that block;
        `alone`, the checks of identities that are judged in a category, each with the loss that is
        not excluded (None without a bound); `worse`, the cells that are significantly worse by
        joint bounds. Both have the fewest rows of the identity in a compared class.
    """
    name = " ".join([REAL, line.situation.name, str(line.n_identities), str(line.n_rows)])
    rows = draw_rows(line, np.random.default_rng([zlib.crc32(name.encode()), number]))
    verdict = judge(rows, except_identities(policy, rows, line.situation.group), folder)
    return {
        "outcome": verdict.outcome,
        "excepted": bool(verdict.exceptions),
        "named": sorted({entry.group or "" for entry in verdict.exceptions}),
        "holds_for": len(verdict.holds_for.identities),
        "against": [
            [result.rule, result.group, result.outcome]
            for result in verdict.results
            if result.is_counted and result.outcome != "pass"
        ],
        "alone": _list_possible_losses(rows, verdict.results, policy),
        "worse": [
            [cell.metric, cell.group, round(cell.worse_by_at_least, 5), _count_fewest(rows, cell)]
            for cell in verdict.worsened
        ],
    }


def except_identities(policy: Policy, rows: EvidenceRows, harmed: str | None = None) -> Policy:
    """Return the policy with the identities that have too few rows in `not_measured`.

    The identity `harmed` is not listed, since a pass does not hold for listed identities.
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
    members, n = dict(rows.members.items()), rows.labels.size
    columns: dict[str, Any] = {"id": np.arange(n), "label": rows.labels}
    columns |= {f"identity/{name}": pa.array(mask) for name, mask in members.items()}
    columns |= {f"score/{role}": scores for role, scores in rows.scores.items()}
    choices = dict.fromkeys(("n_rows", "n_rows_rated", "n_rows_measured"), n)
    choices = CHOICES | choices | {"identity_rows": "all"}
    digests = {role: role for role in rows.scores}
    evidence = evidence_of(
        folder, columns, set_digest="set", choices=choices, power_mean_groups=None, scores=digests
    )
    bias = evaluate_bias(rows.labels, rows.scores["candidate"], members, intervals=False)
    candidate = {"name": "candidate", "digest": "candidate"}
    report = report_of(bias, on="simulated", digest="set", choices=choices, candidate=candidate)
    rivals = {"champion": Compared(name="champion", kind="scores")}
    return build_verdict(report, policy, evidence, rivals, n_candidates=1, today=TODAY)


def _list_possible_losses(
    rows: EvidenceRows, results: Sequence[RuleResult], policy: Policy
) -> list[list[Any]]:
    """Return the losses that checks of identities in a category do not exclude.

    Each has metric, group, category, loss and fewest rows.
    """
    checks = [
        result for result in results if result.judged_in is not None and result.kind == "champion"
    ]
    if not checks:
        return []
    names = {str(check.group): rows.members[str(check.group)] for check in checks}
    scores = rows.scores["candidate"], rows.scores["champion"]
    level = policy.decision_rules()[0].level
    compared = compare_bias(rows.labels, *scores, names, confidence=level)
    losses = []
    for check in checks:
        is_gap = METRICS[check.metric].is_gap
        change = read_number(compared.subgroups[check.group][check.metric], is_gap=is_gap)
        bound = change.high if is_gap else change.low
        loss = None if bound is None else round(bound if is_gap else -bound, 5)
        fewest = _count_fewest(rows, check)
        losses.append([check.metric, check.group, check.judged_in, loss, fewest])
    return losses


def _count_fewest(rows: EvidenceRows, cell: Any) -> int:
    """Return the fewest rows of the identity in a class that a number compares."""
    inside = rows.members[cell.group]
    classes = {"positive": inside & rows.labels, "negative": inside & ~rows.labels}
    return min(int(classes[name].sum()) for name in _COMPARED[cell.metric])
