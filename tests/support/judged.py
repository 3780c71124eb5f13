"""Candidates judged on a few hundred rows: what the page of an evaluation is made from."""

import numpy as np
import pyarrow as pa
from support.judging import CHOICES, TODAY, evidence_of, policy_of, report_of

from bias_metrics import evaluate_bias
from bias_metrics.gate import find_worst_outcome
from biasgate.tasks.common.files import json_digest
from biasgate.tasks.evidence.file import EvidenceFile
from biasgate.tasks.gating.verdict import build_verdict
from biasgate.tasks.measuring import explaining
from biasgate.tasks.records import CandidateDecision, Compared, LoggedVerdict, Summary
from biasgate.tasks.reporting.page.details import measure_details

RULES = (
    {"metric": "auc", "scope": "overall", "floor": 0.6},
    {"metric": "bpsn_auc", "scope": "each", "floor": 0.8, "margin": 0.02},
    {"metric": "negative_aeg", "scope": "each", "ceiling": 0.2},
)


def rows(names, *, empty=(), n=900, quality=1.0, shift=0.8, seed=5, champion=False):
    """Rows whose first identity is treated worse than others; nothing mentions the empty ones."""
    rng = np.random.default_rng(7)  # the same comments for every candidate
    label = rng.random(n) < 0.4
    members = {name: (rng.random(n) < 0.25) & (name not in empty) for name in names}
    rng = np.random.default_rng(seed)
    first = members[names[0]] & ~label
    columns = {"id": pa.array([str(one) for one in range(n)]), "label": label}
    columns |= {f"identity/{name}": one for name, one in members.items()}
    scores = quality * label + rng.random(n)
    columns["score/candidate"] = np.round(scores + shift * first, 3)
    if champion:
        columns["score/champion"] = np.round(scores, 3)
    return columns


def judge(folder, columns, *, name="c", of_set="s", rules=RULES, threshold=0.9, **options):
    """Judge the scores of rows; return report, verdict and details, and write the evidence."""
    folder.mkdir(parents=True, exist_ok=True)
    background = options.pop("background", "outside_subgroup")
    source = options.pop("source", {"source": "table", "files": {"rows.csv": "f" * 64}})
    rated = columns.get("rated", np.ones(columns["label"].size, dtype=bool))
    label, y_score = columns["label"][rated], columns["score/candidate"][rated]
    members = {
        one.removeprefix("identity/"): mask[rated]
        for one, mask in columns.items()
        if one.startswith("identity/")
    }
    groups = [one for one, mask in members.items() if mask.any()]
    choices = CHOICES | {
        "background": background,
        "n_rows": columns["label"].size + 100,
        "n_rows_rated": label.size,
        "n_rows_measured": label.size,
    }
    if "rated" in columns:
        choices["n_rows_labelled"] = columns["label"].size
    evidence = evidence_of(folder, columns, choices=choices, power_mean_groups=groups)
    bias = evaluate_bias(
        label,
        y_score,
        members,
        power_mean_groups=groups,
        background=background,
        sample_weight=columns.get("weight"),
    )
    explained = explaining.explain_with_calibration(evidence, bias, threshold)
    found = dict(vars(explained))
    report = report_of(
        found.pop("bias"),
        on=of_set,
        digest=json_digest(of_set),
        choices=choices,
        source=source,
        candidate={"name": name, "digest": json_digest(name)},
        **found,
    )
    rivals = {}
    if "score/champion" in columns:
        rivals["champion"] = Compared(name="old", kind="scores", threshold=threshold)
    verdict = build_verdict(
        report, policy_of(*rules, **options), evidence, rivals, n_candidates=1, today=TODAY
    )
    return report, verdict, measure_details(report, verdict, EvidenceFile(evidence.path))


def summary_of(judged, evaluation="models"):
    """Return the summary of candidates that are no registered versions."""
    decisions = {}
    for _, verdict, _ in judged:
        name = verdict.candidate.name
        decisions[name] = CandidateDecision(
            candidate=name,
            outcome="pass" if verdict.policy.report_only else verdict.outcome,
            promoted=False,
            champion_moved=False,
            rule=None,
            report_only=verdict.policy.report_only,
            sentence="Not a registered version: nothing to promote.",
        )
    return Summary(
        evaluation=evaluation,
        outcome=find_worst_outcome([one.outcome for one in decisions.values()]),
        outcome_of=list(decisions),
        report_only=False,
        run_id="run",
        verdicts=[LoggedVerdict.from_verdict(verdict, "run") for _, verdict, _ in judged],
        decisions=list(decisions.values()),
        sets=[],
        store={"total": 0},
        config="evaluation.yaml",
    )


def by_place(judged):
    """Return judged candidates by set and name."""
    return {(one[0].evaluation_set.name, one[0].candidate.name): one for one in judged}
